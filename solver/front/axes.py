"""What a front counts: whole-number expressions over the model, one per axis, each to be made small.

cost [cents], power [W nameplate, rented machines included], carbon [g CO2e], time [s, longest job], latency [ms: what a
request of mean length takes on the slowest replica in use], risk [1/1000 interruptions of spot nodes to expect per month].
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from solver.candidates import with_latency
from solver.constraints import Context, Expr, total
from solver.objective import OBJECTIVES
from solver.scaling import Scaled
from solver.whatif.vary import BadRequest

AXES = ("cost", "power", "carbon", "time", "latency", "risk")
UNITS = {"cost": 0.01, "power": 1.0, "carbon": 1e-3, "time": 1 / 3600, "latency": 1.0, "risk": 1e-3}
"""Shown unit per unit of the model."""
NAMES = {"cost": "", "power": "W", "carbon": "kg CO2e", "time": "h", "latency": "ms", "risk": "interruptions/mo"}


def parse_axes(text: str) -> tuple[str, ...]:
    """Read ``cost,power``; cost comes first where it is among them.

    Raises
    ------
    BadRequest
        For an unknown or repeated axis, and for fewer than two or more than three.
    """
    names = tuple(part.strip().lower() for part in text.split(",") if part.strip())
    unknown = [n for n in names if n not in AXES]
    if unknown:
        raise BadRequest(f"--axes {text}: {', '.join(unknown)} is no axis; there are {', '.join(AXES)}")
    if len(set(names)) != len(names) or not 2 <= len(names) <= 3:
        raise BadRequest(f"--axes {text}: name two or three different axes of {', '.join(AXES)}")
    first = next((n for n in names if n in OBJECTIVES), None)
    if first is None:
        raise BadRequest(f"--axes {text}: one axis must be cost, power, carbon or time")
    lead = "cost" if "cost" in names else first
    return (lead, *(n for n in names if n != lead))


def expression(ctx: Context, axis: str, scaled: Scaled) -> Expr:
    """The axis as an expression of a model built on `scaled`."""
    if axis == "latency":
        return _latency(ctx, scaled)
    if axis == "risk":
        return _risk(ctx, scaled)
    return OBJECTIVES[axis](ctx)


def latencies_ms(scaled: Scaled, problem: object) -> list[int]:
    """Latency of each replica kind, whole milliseconds up.

    Raises
    ------
    BadRequest
        Where rates were measured without latencies.
    """
    if scaled.replicas.is_empty():
        return []
    column = with_latency(scaled.replicas, problem)["latency"]  # type: ignore[arg-type]
    if column.null_count():
        raise BadRequest("axis latency: the latency of measured rates is not known; leave the axis out")
    return [math.ceil(round(x * 1000, 6)) for x in column]


def _latency(ctx: Context, scaled: Scaled) -> Expr:
    inst = ctx.instance
    values = list(scaled.replicas["latency_ms"]) if not scaled.replicas.is_empty() else []
    slowest = ctx.model.new_int_var(0, max(values, default=0), "slowest")
    for k, replica in enumerate(inst.replicas):
        runs = ctx.model.new_bool_var(f"runs[{k}]")
        for p in ctx.period_range():
            ctx.model.add(ctx.variables.replicas[k, p] <= replica.max_count * runs)
        ctx.model.add(slowest >= values[k] * runs)
    return total([slowest])


def _risk(ctx: Context, scaled: Scaled) -> Expr:
    inst, var = ctx.instance, ctx.variables
    rates = [x or 0.0 for x in scaled.pools["interruption_per_month"]]
    terms: list[Expr] = []
    for i, c in enumerate(inst.capacities):
        if inst.pools[c.pool].spot and not c.commit:
            for p in ctx.period_range():
                each = math.ceil(round(1000 * rates[c.pool] * scaled.period_hours[p] / 730.0, 6))
                terms.append(each * var.hourly[i, p])
    if inst.options:
        hours = scaled.options["duration_h"]
        for q, option in enumerate(inst.options):
            if inst.pools[option.pool].spot and not option.pooled:
                each = math.ceil(round(1000 * rates[option.pool] * option.nodes * hours[q] / 730.0, 6))
                terms.append(each * var.chosen[q])
    return total(terms)


Expressions = Callable[[Context, Sequence[str]], dict[str, Expr]]
