"""Counts of gear that costs nothing, made as small as the plan allows: racks without a price, circuits, choices.

Nothing in the search holds them down, so that a plan could claim ten racks where two will do.
"""

from __future__ import annotations

from dataclasses import replace

from ortools.sat.python import cp_model

from solver.cp_sat import new_solver
from solver.instance import Instance, Row
from solver.search import Values

SECONDS = 2.0


def settled(instance: Instance, values: Values) -> Values:
    """The same plan with the least number of free gear that its rows allow; as it is where that is not found quickly."""
    free = {g for g, x in enumerate(instance.gear) if not any((x.cost, x.cash, x.capex, x.monthly, x.carbon, x.it_w))}
    if not any(values.gear.get(g, 0) for g in free):
        return values
    model = cp_model.CpModel()
    count = {g: model.new_int_var(0, instance.gear[g].max_count, f"G[{g}]") for g in sorted(free)}
    parts = [
        sum(f * values.commit[i] for i, f in part.commit) + sum(f * values.chosen[q] for q, f in part.chosen)
        for part in instance.sums
    ]
    for row in instance.rows:
        moving = [(g, factor) for g, factor in row.gear if g in free]
        if not moving:
            continue
        fixed = _fixed(row, instance, values, free) + sum(factor * parts[s] for s, factor in row.sums)
        terms = sum(factor * count[g] for g, factor in moving)
        if row.low is not None:
            model.add(terms >= row.low - fixed)
        if row.high is not None:
            model.add(terms <= row.high - fixed)
    model.minimize(sum(count.values()))
    for g, variable in count.items():
        model.add_hint(variable, values.gear.get(g, 0))
    solver = new_solver()
    solver.parameters.num_workers = 1
    solver.parameters.max_time_in_seconds = SECONDS
    if solver.solve(model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return values
    return replace(values, gear={**values.gear, **{g: solver.value(v) for g, v in count.items()}})


def _fixed(row: Row, instance: Instance, values: Values, free: set[int]) -> int:
    """What a row's own terms sum up to without its free gear."""
    total = sum(factor * values.commit[i] for i, factor in row.commit)
    total += sum(factor * values.hourly[i, p] for i, p, factor in row.hourly)
    total += sum(factor * values.chosen[q] for q, factor in row.chosen)
    total += sum(factor * values.replicas[k, row.period] for k, factor in row.replicas)
    total += sum(factor * values.gear.get(g, 0) for g, factor in row.gear if g not in free)
    return total + sum(factor for o, factor in row.used if _is_used(o, instance, values))


def _is_used(pool: int, instance: Instance, values: Values) -> bool:
    """Whether any node of a pool is held or hired."""
    ways = instance.pool_capacities(pool)
    held = any(values.commit.get(i, 0) for i in ways) or any(n and i in ways for (i, _), n in values.hourly.items())
    hired = any(o.pool == pool and not o.pooled and values.chosen[q] for q, o in enumerate(instance.options))
    return held or hired
