"""Instance -> CP-SAT model. The model only iterates over prepared integers."""

from __future__ import annotations

from dataclasses import dataclass

from ortools.sat.python import cp_model

from solver.constraints import CONSTRAINTS, Context, Expr, Variables, level_value, total
from solver.expressions import weighted
from solver.instance import LOAD_UNIT, SHARE_UNIT, Instance, Sum
from solver.objective import OBJECTIVES, cost, distinct_pools, power


@dataclass(frozen=True)
class PlanModel:
    """A built model with the context that its parts are read from."""

    context: Context
    objective: Expr

    @property
    def model(self) -> cp_model.CpModel:
        return self.context.model


def build_model(instance: Instance, *, hours: bool = True) -> PlanModel:
    """Create variables, every constraint and the objective of an instance (the value of a priority as its negative).

    Without `hours` the runs of jobs are not placed in the week: every plan is a point of that model, not every point a plan.
    """
    model = cp_model.CpModel()
    context = Context(model, instance, _variables(model, instance, hours), hours)
    for constraint in CONSTRAINTS:
        constraint(context)
    if instance.goal is None:
        objective = OBJECTIVES[instance.objective](context)
    else:
        objective = -level_value(context, instance.goal)
    model.minimize(objective)
    return PlanModel(context, objective)


def tie_break_model(instance: Instance, best: int) -> PlanModel:
    """Among plans no worse than `best`: the cheapest, then fewest pools, then least power (one weighted sum)."""
    model = cp_model.CpModel()
    context = Context(model, instance, _variables(model, instance))
    for constraint in CONSTRAINTS:
        constraint(context)
    model.add(OBJECTIVES[instance.objective](context) <= best)
    watts = power(context)
    ceiling = 1 + sum(p.facility_w for p in instance.pools) * max([1, *(c.max_nodes for c in instance.capacities)])
    ceiling += sum(g.facility_w * g.max_count for g in instance.gear)
    ties = ceiling * distinct_pools(context) + watts
    if instance.objective != "cost":
        # Another objective leaves money open: among its optima the cheapest is wanted first.
        model.minimize(cost(context) * 1000 + distinct_pools(context))
    else:
        model.minimize(ties)
    return PlanModel(context, ties)


def nearest_model(instance: Instance, most: int, changes: int | None = None) -> PlanModel:
    """Among plans no worse than `most`: fewest nodes given up or started; or, at no more than `changes` of them, the best."""
    model = cp_model.CpModel()
    context = Context(model, instance, _variables(model, instance))
    for constraint in CONSTRAINTS:
        constraint(context)
    best = OBJECTIVES[instance.objective](context)
    model.add(best <= most)
    moved = total(context.variables.gear[g] for g in instance.moved)
    if changes is not None:
        model.add(moved <= changes)
    objective = moved if changes is None else best
    model.minimize(objective)
    return PlanModel(context, objective)


def _variables(model: cp_model.CpModel, instance: Instance, hours: bool = True) -> Variables:
    periods = range(len(instance.periods))
    commit: dict[int, cp_model.IntVar] = {}
    hourly: dict[tuple[int, int], cp_model.IntVar] = {}
    for i, c in enumerate(instance.capacities):
        if c.commit:
            commit[i] = model.new_int_var(0, c.max_nodes, f"C[{i}]")
        else:
            for p in periods:
                hourly[i, p] = model.new_int_var(0, c.max_nodes, f"E[{i},{p}]")
    replicas: dict[tuple[int, int], cp_model.IntVar] = {}
    load: dict[tuple[int, int, int], cp_model.IntVar] = {}
    for k, r in enumerate(instance.replicas):
        service = instance.services[r.work]
        for p in periods:
            wanted = any(by_period[p] for by_period in service.demand)
            replicas[k, p] = model.new_int_var(0, r.max_count if wanted else 0, f"R[{k},{p}]")
            if len(service.demand) > 1:
                for b in range(len(service.demand)):
                    top = _most_load(r.rate[b], service.demand[b][p], r.max_count)
                    load[k, b, p] = model.new_int_var(0, top, f"F[{k},{b},{p}]")
    chosen = {q: model.new_bool_var(f"x[{q}]") for q in range(len(instance.options))}
    used = {o: model.new_bool_var(f"used[{o}]") for o in range(len(instance.pools))}
    gear = {g: model.new_int_var(0, x.max_count, f"G[{g}]") for g, x in enumerate(instance.gear)}
    start = {
        (w, j): model.new_int_var(first, last, f"start[{w},{j}]")
        for w, runs in enumerate(instance.runs)
        if hours and any(o.slots for o in instance.options if o.work == w)
        for j, (first, last) in enumerate(runs.starts)
    }
    served = {i: model.new_bool_var(f"served[{i}]") for i in range(len(instance.wishes))}
    share = {i: model.new_int_var(0, SHARE_UNIT, f"share[{i}]") for i in range(len(instance.wishes))}
    sums: dict[int, cp_model.IntVar] = {}
    for s, part in enumerate(instance.sums):
        if len(part.commit) + len(part.chosen) > WRITTEN_OUT:
            sums[s] = model.new_int_var(*_range(instance, part), f"S[{s}]")
            terms = [(f, commit[i]) for i, f in part.commit] + [(f, chosen[q]) for q, f in part.chosen]
            model.add(weighted([*terms, (-1, sums[s])]) == 0)
    return Variables(commit, hourly, replicas, load, chosen, used, gear, start, served, share, sums)


WRITTEN_OUT = 3
"""A sum of so many terms and fewer has no variable: rows have its terms."""


def _range(inst: Instance, part: Sum) -> tuple[int, int]:
    """Least and most that a sum comes to: of the options of a job at most one is taken."""
    nodes = [f * inst.capacities[i].max_nodes for i, f in part.commit]
    ways: dict[int, tuple[int, int]] = {}
    for q, f in part.chosen:
        low, high = ways.get(inst.options[q].work, (0, 0))
        ways[inst.options[q].work] = min(low, f), max(high, f)
    least = sum(min(0, n) for n in nodes) + sum(low for low, _ in ways.values())
    return least, sum(max(0, n) for n in nodes) + sum(high for _, high in ways.values())


def _most_load(rate: int, demand: int, max_count: int) -> int:
    """Load worth putting on a kind of replica: what covers the whole demand of the bucket, rounding included."""
    if rate < 10 or demand == 0:
        return 0
    return min(LOAD_UNIT * max_count, -(-demand * LOAD_UNIT // (rate // 10 * 10)) + 1)
