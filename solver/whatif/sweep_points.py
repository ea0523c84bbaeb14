"""What a what-if run answers: points (each a Result with what was varied), break points, money at risk."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from pydantic import Field

from solver.plan import FORMAT_VERSION, Inputs, MoneyText, Part, Result, Status

Signature = tuple[tuple[str, str, str, float], ...]


class Point(Part):
    """One scenario: what was varied, how its answer differs from the point before, and the answer.

    `marginal` is what loosening the limit from the point before has saved per unit and month (limits only); `implied` means
    that the answer follows from another point's proof and was not searched again.
    """

    varied: dict[str, str]
    values: dict[str, float] = Field(default_factory=dict, description="numbers of varied limits in their plain unit")
    implied: bool = False
    plan: str = Field(default="", description="machines of the plan in words")
    change: str = Field(default="", description="what differs from the point before it")
    binding: tuple[str, ...] = Field(default=(), description="varied limits that cost money here, by proof")
    marginal: float | None = None
    marginal_unit: str = ""
    result: Result


class BreakPoint(Part):
    """Where the plan changes along a varied field: `below` up to `at`, `above` from there on.

    For limits that the model counts in whole units (`exact`) `at` is the least value at which `above` is possible; else the
    change lies between `at` and `until`.
    """

    field: str
    others: dict[str, str] = Field(default_factory=dict, description="values of the other varied fields")
    at: float
    until: float
    at_text: str
    until_text: str
    exact: bool
    below: str
    above: str
    cost_below: MoneyText | None
    cost_above: MoneyText | None


class Share(Part):
    """A plan that is the best one in some of the scenarios."""

    plan: str
    scenarios: int
    share: float


class Risk(Part):
    """Total cost over the scenarios that have a plan: mean, spread, and the mean of the dearest twentieth."""

    scenarios: int
    infeasible: int
    unknown: int
    mean: MoneyText | None
    deviation: MoneyText | None
    p5: MoneyText | None
    p50: MoneyText | None
    p95: MoneyText | None
    worst_twentieth_mean: MoneyText | None
    plans: tuple[Share, ...]


class Sweep(Part):
    """A what-if run. `complete` is False where it was interrupted: then the points found so far are there."""

    format_version: str = FORMAT_VERSION
    problem: str
    varied: dict[str, tuple[str, ...]]
    sampled: dict[str, str] = Field(default_factory=dict)
    base: Result
    points: tuple[Point, ...]
    breaks: tuple[BreakPoint, ...] = ()
    least: dict[str, str] = Field(default_factory=dict, description="least value of a limit at which any plan exists")
    risk: Risk | None = None
    solved: int
    implied: int
    resumed: int
    complete: bool
    inputs: Inputs


class Break(Part):
    """Where one service's plan gives way: the factor on its load, and the limit that breaks first."""

    workload: str
    holds_to: float
    period: str
    first: str
    text: str


class Step(Part):
    """The plan at one load, and what the cheapest plan made for that load costs more."""

    factor: float
    broken: tuple[str, ...]
    first: str | None
    total: MoneyText | None
    extra: MoneyText | None
    extra_share: float | None
    plan: str


class Stress(Part):
    """A replay over a range of loads."""

    format_version: str = FORMAT_VERSION
    problem: str
    field: str
    plan: str
    currency: str
    base: Result
    breaks: tuple[Break, ...]
    steps: tuple[Step, ...]
    complete: bool


def signature(result: Result) -> Signature:
    """What a plan buys and rents: the machines, how they are billed and where, and how many (at most) of each."""
    lines: dict[tuple[str, str, str], float] = {}
    for item in result.items:
        if item.kind not in ("rental", "server"):
            continue
        key = (item.pool or item.item, item.billing, item.site)
        lines[key] = lines.get(key, 0.0) + item.quantity
    return tuple(sorted((*key, count) for key, count in lines.items()))


def machines(result: Result) -> dict[str, float]:
    """Machines of a plan in words -> how many."""
    out: dict[str, float] = {}
    for item in result.items:
        if item.kind not in ("rental", "server"):
            continue
        cap = "" if item.power_limit_w is None else f" at {item.power_limit_w:.0f} W"
        place = "" if item.kind == "server" else f" {item.site}"
        name = f"{item.item}{place}{cap} ({item.billing})"
        out[name] = out.get(name, 0.0) + item.quantity
    return out


def plan_text(result: Result) -> str:
    """A plan in a line: ``2 x server 8x H200 at 560 W (purchase)``; empty where there is none."""
    return " + ".join(f"{count:g} x {name}" for name, count in sorted(machines(result).items()))


def change_text(before: Result | None, now: Result) -> str:
    """What differs between two plans: ``-1 x ..., +2 x ...``; ``same plan`` where nothing does."""
    if before is None or before.cost is None or now.cost is None:
        return ""
    old, new = machines(before), machines(now)
    lost = [f"-{n - new.get(k, 0.0):g} x {k}" for k, n in sorted(old.items()) if n > new.get(k, 0.0)]
    won = [f"+{n - old.get(k, 0.0):g} x {k}" for k, n in sorted(new.items()) if n > old.get(k, 0.0)]
    return ", ".join([*lost, *won]) or "same plan"


def risk_of(results: Sequence[Result]) -> Risk:
    """Distribution of the total cost, and how often each plan is the best one."""
    costs = sorted(r.cost.total for r in results if r.cost is not None)
    plans: dict[str, int] = {}
    for r in results:
        if r.cost is not None:
            plans[plan_text(r)] = plans.get(plan_text(r), 0) + 1
    count = len(costs)
    mean = sum(costs, Decimal(0)) / count if count else None
    spread = None
    if mean is not None:
        spread = (sum(((c - mean) ** 2 for c in costs), Decimal(0)) / count).sqrt()
    tail = costs[-max(1, -(-count // 20)) :] if count else []

    def at(share: float) -> Decimal | None:
        return costs[min(count - 1, max(0, -(-int(share * count * 1000) // 1000) - 1))] if count else None

    return Risk(
        scenarios=len(results),
        infeasible=sum(r.status is Status.INFEASIBLE for r in results),
        unknown=sum(r.status is Status.UNKNOWN for r in results),
        mean=mean,
        deviation=spread,
        p5=at(0.05),
        p50=at(0.5),
        p95=at(0.95),
        worst_twentieth_mean=sum(tail, Decimal(0)) / len(tail) if tail else None,
        plans=tuple(
            Share(plan=p, scenarios=n, share=n / count) for p, n in sorted(plans.items(), key=lambda x: (-x[1], x[0]))
        ),
    )
