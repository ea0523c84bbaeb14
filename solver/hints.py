"""Carry the values of a plan over to another model of the same instance: as a hint, or held fast."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ortools.sat.python import cp_model

from solver.cp_sat import new_solver
from solver.model import PlanModel
from solver.search import Values


def _paired(built: PlanModel, values: Values) -> Iterator[tuple[Any, int]]:
    """Every variable of a model with its value in a plan of the same model."""
    v = built.context.variables
    groups: tuple[tuple[Mapping[Any, Any], Mapping[Any, int]], ...] = (
        (v.commit, values.commit),
        (v.hourly, values.hourly),
        (v.replicas, values.replicas),
        (v.load, values.load),
        (v.chosen, values.chosen),
        (v.gear, values.gear),
        (v.share, values.share),
        (v.start, values.start),
    )
    for mine, theirs in groups:
        for key, variable in mine.items():
            if key in theirs:
                yield variable, theirs[key]
    for s, variable in v.sums.items():
        part = built.context.instance.sums[s]
        if all(i in values.commit for i, _ in part.commit) and all(q in values.chosen for q, _ in part.chosen):
            nodes = sum(f * values.commit[i] for i, f in part.commit)
            yield variable, nodes + sum(f * values.chosen[q] for q, f in part.chosen)


def give_hint(built: PlanModel, values: Values) -> None:
    """Start a search from the values of another plan of the same model."""
    for variable, value in _paired(built, values):
        built.model.add_hint(variable, value)


def give_whole_hint(built: PlanModel, values: Values) -> None:
    """As `give_hint`, with what the model adds to a plan (pools in use, highest months, ..) worked out first.

    A hint that lacks some variables is a plan that the search has to find again, which takes long in large models.
    """
    give_hint(built, values)
    solution = held_at(built, values)
    if solution is not None:
        built.model.clear_hints()  # type: ignore[no-untyped-call]
        hint = built.model.proto.solution_hint
        hint.vars.extend(range(len(solution)))
        hint.values.extend(solution)


def held_at(built: PlanModel, values: Values, time_limit_s: float = 2.0) -> list[int] | None:
    """Values of all variables of a model at a plan's; None where that is no plan, or not found to be one in time.

    With the plan's own variables fixed presolve most often says all there is to say.
    """
    model = built.model.clone()
    variables = model.proto.variables
    for variable, value in _paired(built, values):
        domain = variables[variable.index].domain
        if not domain[0] <= value <= domain[len(domain) - 1]:
            return None
        domain.clear()
        domain.extend([value, value])
    model.clear_hints()  # type: ignore[no-untyped-call]
    solver = new_solver()
    solver.parameters.num_workers = 1
    solver.parameters.max_time_in_seconds = time_limit_s
    code = solver.solve(model)
    return list(solver.response_proto.solution) if code in (cp_model.OPTIMAL, cp_model.FEASIBLE) else None


def fix(built: PlanModel, values: Values) -> None:
    """Hold a model at the values of a plan."""
    for variable, value in _paired(built, values):
        built.model.add(variable == value)
