"""Carry the values of a plan over to another model of the same instance: as a hint, or held fast."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

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


def give_hint(built: PlanModel, values: Values) -> None:
    """Start a search from the values of another plan of the same model."""
    for variable, value in _paired(built, values):
        built.model.add_hint(variable, value)


def fix(built: PlanModel, values: Values) -> None:
    """Hold a model at the values of a plan."""
    for variable, value in _paired(built, values):
        built.model.add(variable == value)
