"""Plans of a front marked by weighted criteria, as public tenders do; `solver.features.compare` has the rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import get_args

import polars as pl

from problems.schema import Criterion, Problem, Serve
from solver.features.compare import tender_scores
from solver.front.front_points import FrontPoint, Marks, Near, Scores
from solver.instance import Instance
from solver.plan import Placement, Result
from solver.search import Values
from solver.whatif.vary import BadRequest

CRITERIA: tuple[str, ...] = get_args(Criterion)
RULE = "proportional: the best plan gets a criterion's whole weight, any other best / own figure of it (own / best where more is better)"
HIGHER_IS_BETTER = ("technical", "memory")
UNITS = {
    "power": "W",
    "carbon": "kg CO2e",
    "time": "h",
    "latency": "ms",
    "technical": "",
    "memory": "GiB",
    "service": "h",
}
"""Of the figures; those of money are in the problem's currency."""
DEFAULT_AXES = ("cost", "power")
"""Axes of a front that is asked for by its scores alone."""


def parse_weights(text: str) -> dict[str, float]:
    """Read ``tco:50,power:20``; `cost` is another word for `tco`.

    Raises
    ------
    BadRequest
        For an unknown or repeated criterion, a weight that is no number of 0 or more, and where all are 0.
    """
    weights: dict[str, float] = {}
    for part in filter(None, (p.strip() for p in text.split(","))):
        name, _, number = (x.strip() for x in part.partition(":"))
        if name not in CRITERIA:
            raise BadRequest(f"--score {text}: {name or part} is no criterion; there are {', '.join(CRITERIA)}")
        name = "tco" if name == "cost" else name
        if name in weights:
            raise BadRequest(f"--score {text}: {name} is named twice")
        try:
            weights[name] = float(number)
        except ValueError:
            weights[name] = -1.0
        if not 0 <= weights[name] < 1e9:
            raise BadRequest(f"--score {text}: write each criterion with its weight of 0 or more: tco:50,power:20")
    if not any(weights.values()):
        raise BadRequest(f"--score {text}: at least one criterion needs a weight above 0")
    return {name: weight for name, weight in weights.items() if weight}


def axes_for(weights: Mapping[str, float], problem: Problem) -> str:
    """Axes of the front to mark where none are named: cost, and the weightiest criterion that is another axis."""
    jobs = any(not isinstance(w, Serve) for w in problem.workloads)
    served = any(isinstance(w, Serve) for w in problem.workloads)
    fits = {"power": True, "carbon": True, "time": jobs, "latency": served}
    able = [name for name in weights if fits.get(name, False)]
    second = max(able, key=lambda name: weights[name]) if able else DEFAULT_AXES[1]
    return f"{DEFAULT_AXES[0]},{second}"


def figures_of(inst: Instance, values: Values) -> dict[str, float]:
    """Power [W nameplate, rented machines included] and carbon [kg CO2e] of a plan."""
    periods = range(len(inst.periods))
    power = carbon = 0
    for i, c in enumerate(inst.capacities):
        watts = inst.pools[c.pool].facility_w
        if c.commit:
            power += watts * values.commit[i]
            carbon += c.carbon[0] * values.commit[i]
        else:
            power += watts * max((values.hourly[i, p] for p in periods), default=0)
            carbon += sum(c.carbon[p] * values.hourly[i, p] for p in periods)
    for g, count in values.gear.items():
        power += inst.gear[g].facility_w * count
        carbon += inst.gear[g].carbon * count
    for q, option in enumerate(inst.options):
        if values.chosen[q]:
            power += 0 if option.pooled else inst.pools[option.pool].facility_w * option.nodes
            carbon += option.carbon
    carbon += sum(inst.replicas[k].carbon[p] * count for (k, p), count in values.replicas.items())
    return {"power": float(power), "carbon": carbon / 1000}


def scored(
    points: Sequence[FrontPoint], near: Sequence[Near], weights: Mapping[str, float], problem: Problem
) -> Scores:
    """Mark the points of a front and the near-optimal plans beside it.

    Raises
    ------
    BadRequest
        Where a plan's money is below zero (sales outweigh it), since a share of such a figure means nothing.
    """
    plans: list[tuple[str, int, FrontPoint | Near]] = [("front", n, p) for n, p in enumerate(points)]
    plans += [("near", n, p) for n, p in enumerate(near)]
    speeds = [_speeds(p.result) for _, _, p in plans]
    best = {w: max(s.get(w, 0.0) for s in speeds) for w in (speeds[0] if speeds else {})}
    rows = []
    for number, (_, _, plan) in enumerate(plans):
        figures = _figures(plan, problem)
        shares = [speeds[number].get(w, 0.0) / top for w, top in best.items() if top > 0]
        figures["technical"] = sum(shares) / len(shares) if shares else None
        rows.append({name: figures[name] for name in weights})
        for name in ("tco", "price"):
            if name in weights and (figures[name] or 0.0) < 0:
                raise BadRequest(f"score: {name} of a plan is below zero, so that no share of it can be given")
    lower = {name for name in weights if name not in HIGHER_IS_BETTER}
    schema = {"bid": pl.Int64, **dict.fromkeys(weights, pl.Float64)}
    frame = pl.DataFrame([{"bid": n, **row} for n, row in enumerate(rows)], schema=schema)
    ranking = []
    for rank, row in enumerate(tender_scores(frame, weights, lower).iter_rows(named=True), start=1):
        kind, index, plan = plans[row["bid"]]
        ranking.append(
            Marks(
                rank=rank,
                kind=kind,
                index=index,
                score=round(row["score"], 6),
                points={name: round(row[f"points_{name}"], 6) for name in weights},
                figures=rows[row["bid"]],
                plan=plan.plan,
            )
        )
    return Scores(
        rule=RULE,
        weights=dict(weights),
        units={name: UNITS.get(name, problem.currency) for name in weights},
        lower_is_better=tuple(sorted(lower)),
        ranking=tuple(ranking),
    )


def _figures(plan: FrontPoint | Near, problem: Problem) -> dict[str, float | None]:
    """Figures of all criteria but `technical`, which needs the other plans; None where it is not known."""
    result = plan.result
    assert result.cost is not None
    placed = [(w.name, p) for w in result.workloads for p in w.placements]
    starts = [i.start_h for i in result.items if i.start_h is not None]
    slack = [p.memory_slack_gib for _, p in placed]
    durations = [p.duration_h for _, p in placed if p.duration_h is not None]
    return {
        "tco": float(result.cost.total),
        "price": float(result.cost.capex),
        "power": plan.figures.get("power"),
        "carbon": plan.figures.get("carbon"),
        "time": max(durations, default=None),
        "latency": _latency_ms(placed, problem),
        "memory": _least(slack),
        "service": max(starts, default=None),
    }


def _least(values: Sequence[float | None]) -> float | None:
    """Least of the values; None where one of them is not known."""
    known = [v for v in values if v is not None]
    return min(known) if known and len(known) == len(values) else None


def _latency_ms(placed: Sequence[tuple[str, Placement]], problem: Problem) -> float | None:
    """What a request of mean length takes on the slowest replica in use [ms]; None where not known of one of them."""
    tokens = {
        w.name: sum(b.osl * b.share for b in w.traffic.buckets) for w in problem.workloads if isinstance(w, Serve)
    }
    out = []
    for name, p in placed:
        if name in tokens:
            if p.ttft_ms is None or p.tpot_ms is None:
                return None
            out.append(p.ttft_ms + p.tpot_ms * tokens[name])
    return max(out, default=None)


def _speeds(result: Result) -> dict[str, float]:
    """Performance of each workload: supply over demand of a service, runs per hour of a job."""
    out: dict[str, float] = {}
    for w in result.workloads:
        if w.kind == "serve":
            out[w.name] = 1 + w.headroom
        else:
            took = max((p.duration_h or 0.0 for p in w.placements), default=0.0)
            if took > 0 and w.kind != "fixed":
                out[w.name] = 1 / took
    return out
