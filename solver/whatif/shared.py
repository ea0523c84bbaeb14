"""Integers of many points of one problem that differ in the amounts of its limits alone: compiled once, limits set for each.

Candidates depend on whether watts and money are limited, and not on how far, once lean builds of nodes that no site could
power are taken in. What no limit leaves room for is then left to the search.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from problems.schema import Problem
from solver.candidates import Candidates
from solver.scaling import Scaled

MOST_KEPT = 4
"""Problems that are kept: those that limit other things, or are reduced for other questions."""


def without_amounts(problem: Problem) -> tuple[Problem, tuple[bool, ...]]:
    """The problem without its limits of watts and money, and which of them it has."""
    limits, budget = problem.limits, problem.limits.budget
    asked: list[Any] = [limits.power, budget.capex, budget.monthly, budget.total]
    for site in problem.sites:
        asked += [site.power, site.it_power]
    free = limits.model_copy(
        update={"power": None, "budget": budget.model_copy(update=dict.fromkeys(("capex", "monthly", "total")))}
    )
    sites = tuple(s.model_copy(update={"power": None, "it_power": None}) for s in problem.sites)
    return problem.model_copy(update={"limits": free, "sites": sites}), tuple(x is not None for x in asked)


@dataclass
class Shared:
    """What was compiled for a problem, by which limits it has and what it was reduced for."""

    base: Problem
    kept: dict[tuple[object, ...], tuple[Candidates, Scaled]] = field(default_factory=dict)

    def key(self, problem: Problem, axes: Sequence[str]) -> tuple[object, ...] | None:
        """Equal for problems that can share their integers; None for a problem that is another one than the base."""
        bare, limited = without_amounts(problem)
        return (limited, *axes) if bare == without_amounts(self.base)[0] else None

    def get(self, key: tuple[object, ...], problem: Problem) -> tuple[Candidates, Scaled] | None:
        """What is kept, for a problem of that key; its limits are still to be set."""
        found = self.kept.get(key)
        return None if found is None else (replace(found[0], problem=problem), found[1])

    def put(self, key: tuple[object, ...], found: tuple[Candidates, Scaled]) -> None:
        """Keep what was compiled; the oldest goes where there are too many."""
        if len(self.kept) >= MOST_KEPT:
            del self.kept[next(iter(self.kept))]
        self.kept[key] = found
