"""Whether given values of the plan's variables make a plan: they are fixed in the exact model, which decides on what is left."""

from __future__ import annotations

from dataclasses import replace

from ortools.sat.python import cp_model

from solver.model import PlanModel
from solver.search import Values

LONGEST_S = 5.0


def objective_of(built: PlanModel, values: Values) -> int | None:
    """Objective of a plan with all these values (missing ones are 0); None where there is none.

    Nodes, replicas, loads, options and gear are given; only helpers of the model (pools in use, highest months) are left to it,
    so that presolve says at once.
    """
    var = built.context.variables
    model = built.model.clone()
    variables = model.proto.variables
    for given, mine in (
        (values.commit, var.commit),
        (values.hourly, var.hourly),
        (values.replicas, var.replicas),
        (values.load, var.load),
        (values.chosen, var.chosen),
        (values.gear, var.gear),
    ):
        for key, x in mine.items():
            count = int(given.get(key, 0))  # type: ignore[arg-type]
            domain = variables[x.index].domain
            if not domain[0] <= count <= domain[len(domain) - 1]:
                return None
            domain.clear()
            domain.extend([count, count])
    model.clear_hints()  # type: ignore[no-untyped-call]
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_time_in_seconds = LONGEST_S
    code = solver.solve(model)
    return round(solver.objective_value) if code in (cp_model.OPTIMAL, cp_model.FEASIBLE) else None


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
