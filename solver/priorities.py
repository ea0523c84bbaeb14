"""Workloads that may be left out: the largest value of each priority in turn, then the problem's own objective.

Each priority is a search of its own; what it reached is a floor of all later ones, so a lower priority never takes from a
higher one. A priority whose largest value was not proved in its time leaves the whole plan unproved, and it is that value
which objective, bound and gap then speak of.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from solver.hints import fix
from solver.instance import SHARE_UNIT, Instance
from solver.model import build_model
from solver.plan import Status
from solver.search import Found, Values, run

Look = Callable[[Instance, Values | None, float], Found]
"""Search an instance, from the values of an earlier plan, within a share of the time that is left."""


@dataclass(frozen=True)
class Level:
    """Value reached of one priority and the most it could be [1/SHARE_UNIT of Wish.value]."""

    value: int
    bound: int
    search: Found

    @property
    def proved(self) -> bool:
        """No plan has more of this priority without less of an earlier one."""
        return self.value == self.bound


@dataclass(frozen=True)
class Ranked:
    """The instance with the values of all levels as floors, the levels, and the search that the plan comes from.

    `found` speaks of the first level that is not proved (its value as a negative), or of the problem's objective.
    """

    instance: Instance
    levels: tuple[Level, ...]
    found: Found

    @property
    def unproved(self) -> int | None:
        """The first level without proof; None where all are proved."""
        return next((i for i, level in enumerate(self.levels) if not level.proved), None)


def value_of(instance: Instance, share: dict[int, int], level: int) -> int:
    """Value of a level at given shares [1/SHARE_UNIT of Wish.value]."""
    return sum(w.value * share[i] for i, w in enumerate(instance.wishes) if w.level == level)


def most_value(instance: Instance, level: int) -> int:
    """Value of a level were all of it served."""
    return sum(w.value * SHARE_UNIT for w in instance.wishes if w.level == level)


def ranked(instance: Instance, look: Look) -> Ranked:
    """Settle the levels in turn, then the objective. Without any plan, `levels` is short and `found` has no values."""
    count = 1 + max(w.level for w in instance.wishes)
    levels: list[Level] = []
    near: Values | None = None
    for level in range(count):
        floors = tuple(x.value for x in levels)
        stage = look(replace(instance, floors=floors, goal=level), near, 1 / (count - level + 1))
        values = stage.values or near
        if values is None:
            return Ranked(instance, tuple(levels), stage)
        reached = value_of(instance, values.share, level)
        top = most_value(instance, level)
        bound = top if stage.bound is None else min(top, int(-stage.bound + 1e-6))
        levels.append(Level(reached, max(reached, bound), stage))
        near = values
    settled = replace(instance, floors=tuple(x.value for x in levels))
    last = look(settled, near, 1.0)
    if last.values is None:
        assert near is not None
        last = _kept(settled, near, last)
    first = next((x for x in levels if not x.proved), None)
    if first is not None:
        last = replace(
            last,
            status=Status.FEASIBLE,
            stop_reason=first.search.stop_reason,
            objective=-first.value,
            bound=-float(first.bound),
        )
    return Ranked(settled, tuple(levels), last)


def _kept(settled: Instance, values: Values, last: Found) -> Found:
    """The plan that the last level left, with its objective, where the search for a better one came to nothing."""
    built = build_model(settled)
    fix(built, values)
    same = run(built, time_limit_s=10.0, gap=0.0, workers=1, seed=1)
    return replace(
        last, status=Status.FEASIBLE, objective=same.objective, bound=last.bound, values=same.values or values
    )
