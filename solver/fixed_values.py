"""Whether given values of the plan's variables make a plan: they are fixed in the exact model, which decides on what is left."""

from __future__ import annotations

from dataclasses import replace

from solver.hints import held_at
from solver.model import PlanModel
from solver.search import Values

LONGEST_S = 5.0


def plan_at(built: PlanModel, values: Values) -> tuple[int, Values] | None:
    """Objective and values of a plan with all these values (missing ones are 0, missing starts as may be); None where there is none."""
    whole = filled(built, values)
    solution = held_at(built, whole, LONGEST_S)
    if solution is None:
        return None
    goal = built.model.proto.objective
    value: float = sum(c * solution[v] for v, c in zip(goal.vars, goal.coeffs, strict=True)) + goal.offset
    starts = {key: solution[x.index] for key, x in built.context.variables.start.items()}
    return round(value), replace(whole, start=starts)


def objective_of(built: PlanModel, values: Values) -> int | None:
    """Objective of a plan with all these values (missing ones are 0); None where there is none."""
    found = plan_at(built, values)
    return None if found is None else found[0]


def filled(built: PlanModel, values: Values) -> Values:
    """Values with a 0 for every variable of the model that has none."""
    var = built.context.variables
    return replace(
        values,
        commit={k: values.commit.get(k, 0) for k in var.commit},
        hourly={k: values.hourly.get(k, 0) for k in var.hourly},
        replicas={k: values.replicas.get(k, 0) for k in var.replicas},
        load={k: values.load.get(k, 0) for k in var.load},
        chosen={k: values.chosen.get(k, 0) for k in var.chosen},
        gear={k: values.gear.get(k, 0) for k in var.gear},
    )
