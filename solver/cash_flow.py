"""Cash by month from the lines of a bill: what is paid up front, each month, and what comes back at the end.

Every line is spread over months in whole cents by how it is billed, so that the months add up to the bill to the cent.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from problems.schema import Fixed, Problem, Serve
from solver.plan import CashMonth, Item, StageUse

COLUMN_OF = {
    "server": "capex",
    "network": "capex",
    "storage": "capex",
    "rack": "capex",
    "spares": "capex",
    "replacement": "capex",
    "setup": "capex",
    "rental": "rental",
    "goodput": "rental",
    "energy": "energy",
    "maintenance": "maintenance",
    "staff": "staff",
    "operations": "staff",
    "residual": "residual",
    "sale": "residual",
}
"""Column of each kind of line; hardware kinds that are not bought, and all others, are `other`."""
COLUMNS = ("capex", "rental", "energy", "maintenance", "staff", "other", "residual")
HARDWARE = ("network", "storage", "rack")
AT_ONCE = ("once", "sold")
BOUGHT = ("purchase", "with purchase")
HOURLY = ("on_demand", "spot")
TERM = re.compile(r"\w+ (\d+(?:\.\d+)?)mo(?: (\d+)% upfront)?")
LEASE = re.compile(r"lease (\d+)")
EVERY = re.compile(r"every (\d+(?:\.\d+)?)mo")
OVER = re.compile(r"over (\d+)mo")

Profile = Mapping[int, float]
"""Month -> weight of what falls into it; 0 is the start."""


@dataclass(frozen=True)
class Span:
    """A stage of the horizon: its first month, its length [months], and the hours per month of its load periods."""

    start: float
    months: float
    hours: Mapping[str, float]

    @property
    def end(self) -> float:
        return self.start + self.months


def spans_of(problem: Problem, stages: Sequence[StageUse], periods: Mapping[str, float]) -> tuple[Span, ...]:
    """Stages of a result with their hours; one where it names none."""
    if not stages:
        return (Span(0.0, problem.horizon, periods),)
    return tuple(Span(s.from_month, s.months, {p: periods[p] for p in s.periods}) for s in stages)


def cash_flow(items: Iterable[Item], problem: Problem, spans: Sequence[Span] = ()) -> tuple[CashMonth, ...]:
    """Months 0 to the end of the horizon, with every line of a bill in them.

    Purchases fall where they are made, or in part into the months after it where they are financed; commitments paid up
    front at the start of each term; what a commitment costs beyond the horizon, and the value left over, in the last month.
    Runs that are not repeated monthly start with the first month. What is held by the hour falls into its stages by its
    hours. All else is even from its start to the end of the horizon, a part of a month in proportion. A running lease that
    reaches beyond the horizon is owed for what is left of it in the last month.

    Parameters
    ----------
    spans : sequence of Span
        Stages of the horizon; none: the horizon is one.
    """
    last = max(1, math.ceil(problem.horizon - 1e-9))
    spans = spans or (Span(0.0, problem.horizon, {}),)
    cents = {name: [0] * (last + 1) for name in COLUMNS}
    for item in items:
        for month, part in spread(int(item.total_cost * 100), profile(item, problem, last, spans)).items():
            cents[column_of(item)][month] += part
    out, spent = [], 0
    for month in range(last + 1):
        total = sum(cents[name][month] for name in COLUMNS)
        spent += total
        parts = {name: Decimal(cents[name][month]) / 100 for name in COLUMNS}
        out.append(CashMonth(month=month, **parts, total=Decimal(total) / 100, cumulative=Decimal(spent) / 100))
    return tuple(out)


def column_of(item: Item) -> str:
    """Column that a line is shown in."""
    if item.kind == "tax":
        return "capex" if item.billing in BOUGHT else "other"
    if item.kind in HARDWARE and item.billing not in (*BOUGHT, "once"):
        return "other"
    return COLUMN_OF.get(item.kind, "other")


def profile(item: Item, problem: Problem, last: int, spans: Sequence[Span]) -> Profile:
    """Months that a line is paid in, by weight."""
    start = item.from_month or 0.0
    first = math.floor(start + 1e-9)
    if item.kind == "residual":
        return {last: 1.0}
    if item.billing in AT_ONCE:
        return {first: 1.0}
    if item.billing in BOUGHT:
        return _financed(problem, first, last)
    if match := EVERY.fullmatch(item.billing):
        return _repeated(float(match[1]), problem.horizon - start, first, last)
    if match := OVER.fullmatch(item.billing):
        return dict.fromkeys(range(first + 1, first + int(match[1]) + 1), 1.0)
    if (match := LEASE.fullmatch(item.billing)) and item.kind in ("rental", "goodput", "support", "tax"):
        lease = problem.leases[int(match[1]) - 1]
        paid = lease.keep_months(problem.horizon, pro_rate=problem.policy.pro_rate_commitments)
        even = _even(start, problem.horizon)
        return {**even, last: even.get(last, 0.0) + paid - problem.horizon}
    if match := TERM.fullmatch(item.billing):
        return _committed(item, float(match[1]), int(match[2] or 0) / 100, problem, last, spans)
    if item.billing in HOURLY and item.quantity_by_period and len(spans) > 1:
        return _by_hour(item.quantity_by_period, spans)
    if item.billing in ("per kWh", "compute_unit") and item.kind != "rental" and item.from_month is not None:
        return next(_even(s.start, s.end) for s in spans if abs(s.start - start) < 1e-9)
    return _runs(item, problem) or _even(start, problem.horizon)


def _even(start: float, end: float) -> dict[int, float]:
    """Every month from one time to another, the first and the last in part."""
    months = range(math.floor(start + 1e-9) + 1, math.ceil(end - 1e-9) + 1)
    return {m: min(m, end) - max(m - 1, start) for m in months}


def _by_hour(counts: Mapping[str, int], spans: Sequence[Span]) -> Profile:
    """What is paid for the hours of some load periods, in the months of their stages."""
    out: dict[int, float] = defaultdict(float)
    for span in spans:
        hours = sum(n * span.hours.get(p, 0.0) for p, n in counts.items())
        for month, part in _even(span.start, span.end).items():
            out[month] += hours * part
    return out


def _financed(problem: Problem, first: int, last: int) -> Profile:
    plan = problem.tco.financing
    if plan is None:
        return {first: 1.0}
    months = max(1, min(math.ceil((plan.term or problem.horizon) - 1e-9), last - first))
    return {first: plan.upfront, **dict.fromkeys(range(first + 1, first + months + 1), (1.0 - plan.upfront) / months)}


def _repeated(every: float, left: float, first: int, last: int) -> Profile:
    """Ends of every so many months since the first, before the end of the months left."""
    out: dict[int, float] = {}
    for n in range(1, math.ceil(left / every - 1e-9)):
        month = min(last, first + math.ceil(n * every - 1e-9))
        out[month] = out.get(month, 0.0) + 1.0
    return out


def _committed(item: Item, term: float, upfront: float, problem: Problem, last: int, spans: Sequence[Span]) -> Profile:
    """A share of each term's price at its start, the rest by month; what lies beyond the horizon in the last month.

    As many terms as last until the end of the last stage that it is held in.
    """
    start, counts = item.from_month or 0.0, item.quantity_by_period
    left = problem.horizon - start
    needed = max((s.end for s in spans if counts is None or any(counts.get(p) for p in s.hours)), default=left) - start
    paid = max(1, math.ceil(needed / term - 1e-9)) * term
    held = min(paid, left)
    if problem.policy.pro_rate_commitments:
        paid = held
    out = {m: share * (1.0 - upfront) for m, share in _even(start, start + held).items()}
    if paid > held:
        out[last] = out.get(last, 0.0) + (paid - held) * (1.0 - upfront)
    begun = 0.0
    while upfront and begun < paid - 1e-9:
        month = min(last, math.floor(start + begun + 1e-9))
        out[month] = out.get(month, 0.0) + min(term, paid - begun) * upfront
        begun += term
    return out


def _runs(item: Item, problem: Problem) -> Profile | None:
    """Runs that do not come back every month, one after another from the start."""
    name = item.parts[0].removeprefix("for ") if item.parts else ""
    work = next((w for w in problem.workloads if w.name == name), None)
    if item.hours_per_month is None or work is None or isinstance(work, Fixed | Serve) or work.runs.per_month:
        return None
    if item.billing == "capacity_block":
        return {1: 1.0}  # paid when it is booked, not as its hours pass
    return _even(0.0, min(problem.horizon, item.hours_per_month * problem.horizon / 730))


def spread(cents: int, weights: Profile) -> dict[int, int]:
    """Whole cents over months by weight; each month gets what the running total, rounded, has grown by."""
    whole = sum(weights.values())
    out: dict[int, int] = {}
    seen, given = 0.0, 0
    for month in sorted(weights):
        seen += weights[month]
        due = round(cents * (seen / whole))
        out[month] = due - given
        given = due
    if given != cents and out:
        out[max(out)] += cents - given
    return out
