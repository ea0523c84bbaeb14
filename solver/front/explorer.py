"""Exact fronts: every point that no plan beats on one axis without losing on another, by whole-number epsilon-constraint.

For two axes f, g: least f; least g at that f; then least f with g at least one unit smaller; and so on until nothing is
feasible. For three the space of (g, h) below known points is kept as a list of corners (local upper bounds), each searched
for least f and then for least g + h at that f: a point found so is beaten by none, and when no corner is left none is
missing. Where only some points are wanted, the ends come first and then the middle of the widest gap.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from catalogs.catalog import Catalog
from problems.load import LoadedProblem
from solver.bounding.beyond import Build
from solver.bounding.restrict import Part, part_of, restricted
from solver.candidates import Candidates, build_candidates, reduced
from solver.constraints import total
from solver.front.axes import NAMES, UNITS, expression, latencies_ms
from solver.hints import fix, give_hint
from solver.instance import Instance
from solver.model import PlanModel, build_model
from solver.objective import distinct_pools
from solver.plan import Result, Status, StopReason
from solver.scaling import Scaled, scale
from solver.search import Found, Values
from solver.solve import base_dir
from solver.whatif.study import Study

BY_FRAME = frozenset({"latency", "risk"})
"""Axes that are read from frames of the whole instance, not from a part of it."""
Corner = tuple[int | None, ...]
"""Exclusive upper bounds on all axes but the first; None: no bound."""
Tell = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Spot:
    """A proved point in whole numbers, with the values of its plan."""

    at: tuple[int, ...]
    found: Found


class Explorer:
    """Finds the points of one front. `prune` False keeps beaten candidates (tests compare)."""

    def __init__(
        self,
        study: Study,
        axes: Sequence[str],
        stop: threading.Event | None = None,
        *,
        prune: bool = True,
    ) -> None:
        self.study, self.axes, self.stop = study, tuple(axes), stop
        problem = study.loaded.problem.model_copy(update={"objective": self.axes[0]})
        self.loaded: LoadedProblem = replace(study.loaded, problem=problem)
        self.catalog: Catalog = study.catalog
        everything = build_candidates(
            problem,
            study.catalog,
            base_dir(study.loaded),
            study.user_measurements,
            memo=study.memo,
            every_state="power" in axes or "carbon" in axes,
        )
        self.everything: Candidates = everything
        self.small = reduced(everything, axes=self.axes, prune=prune)
        self.unproved = 0
        self.spots: list[Spot] = []
        self.scaled: Scaled | None = None
        if not self.small.unserved or (problem.weighed and len(self.small.unserved) < len(problem.workloads)):
            # Where workloads may be left out, the points are those of the plans that serve the most of each priority.
            scaled, ranks = study.settled(scale(self.small, self.catalog), stop)
            self.unproved += ranks is not None and ranks.unproved is not None
            self.scaled = _with_latency(scaled, self)

    @property
    def floors(self) -> tuple[int, ...]:
        """Value of each priority that every point serves."""
        return self.scaled.instance.floors if self.scaled is not None else ()

    def stopped(self) -> bool:
        return self.stop is not None and self.stop.is_set()

    @cached_property
    def whole(self) -> Part:
        """All of the instance."""
        assert self.scaled is not None
        return restricted(self.scaled.instance, range(len(self.scaled.instance.pools)))

    def _build(self, wanted: Sequence[str], upper: dict[str, int]) -> Build:
        """Makes the model of the instance or a part of it that has the sum of some axes small, and others bounded."""
        scaled = self.scaled
        assert scaled is not None

        def build(inst: Instance) -> PlanModel:
            built = build_model(inst)
            terms = {axis: expression(built.context, axis, scaled) for axis in self.axes}
            for axis, most in upper.items():
                built.model.add(terms[axis] <= most)
            objective = total(terms[a] for a in wanted)
            built.model.minimize(objective)
            return PlanModel(built.context, objective)

        return build

    def _least(
        self, part: Part, wanted: Sequence[str], upper: dict[str, int], hint: Values | None
    ) -> tuple[Found, Part]:
        """Plan of a part with the least sum of some axes, and the part in which every plan as good lies."""
        build = self._build(wanted, upper)
        if BY_FRAME.isdisjoint(self.axes):
            at = self.study.least(part.instance, build, self.stop)
            found, less = at.found, part_of(part, at.part)
            values = None if found.values is None else at.part.narrowed(found.values)
            return replace(found, values=None if values is None else less.widened(values)), less
        return self.study.best(part.instance, build, stop=self.stop, near=hint, parts=False), part

    def lowest(self, order: Sequence[Sequence[str]], upper: dict[str, int]) -> Spot | None:
        """Plan with the least sum of the first group of axes, of the second group at that, and so on; None without one.

        Sets `unproved` where a search ends without proof; such a point is not given.
        """
        bounds = dict(upper)
        near = self._nearest(upper)
        part = self.whole
        found: Found | None = None
        for group in order:
            found, part = self._least(part, group, bounds, near)
            if found.status is Status.INFEASIBLE:
                return None
            if found.status is not Status.OPTIMAL or found.values is None or found.objective is None:
                self.unproved += 1
                return None
            known = self._known(group, found.objective)
            if known is not None:
                return known
            near = found.values
            if len(group) == 1:
                bounds[group[0]] = found.objective
            else:
                bounds |= dict(zip(group, self._values(part, found.values, group), strict=True))
        assert found is not None
        assert found.values is not None
        at = tuple(self._values(part, found.values, self.axes))
        tidy = self._tidied(part, dict(zip(self.axes, at, strict=True)), found)
        return Spot(
            at, replace(tidy, objective=at[0], bound=float(at[0]), status=Status.OPTIMAL, stop_reason=StopReason.PROVED)
        )

    def _known(self, group: Sequence[str], least: int) -> Spot | None:
        """The known point with this value: of two axes one says which point it is."""
        if len(self.axes) != 2 or len(group) != 1:
            return None
        n = self.axes.index(group[0])
        return next((s for s in self.spots if s.at[n] == least), None)

    def _tidied(self, part: Part, at: dict[str, int], found: Found) -> Found:
        """Among the plans at a point the one with the fewest pools."""
        built = self._build((), at)(part.instance)
        known = None if found.values is None else part.narrowed(found.values)
        if known is not None:
            give_hint(built, known)
        built.model.minimize(distinct_pools(built.context))
        again = self.study.search(built, self.study.tie_share, self.stop)
        return found if again.values is None else replace(again, values=part.widened(again.values))

    def _values(self, part: Part, values: Values, axes: Sequence[str]) -> list[int]:
        """Values of axes at a plan, read by fixing it: the least that the model allows for it."""
        out = []
        known = part.narrowed(values)
        assert known is not None, "a plan lies in the part it was found in"
        for axis in axes:
            built = self._build((axis,), {})(part.instance)
            fix(built, known)
            found = self.study.search(built)
            assert found.objective is not None, "a plan that was found is feasible"
            out.append(found.objective)
        return out

    def _nearest(self, upper: dict[str, int]) -> Values | None:
        """Values of the last point within the bounds, or of the last one at all: a start for the search."""
        inside = [s for s in self.spots if all(s.at[self.axes.index(axis)] <= most for axis, most in upper.items())]
        return (inside or self.spots)[-1].found.values if self.spots else None

    def inside(self, corner: Corner) -> Spot | None:
        """The point with the least first axis strictly below a corner."""
        rest = self.axes[1:]
        upper = {axis: most - 1 for axis, most in zip(rest, corner, strict=True) if most is not None}
        return self.lowest([[self.axes[0]], list(rest)], upper)

    def all_points(self, tell: Tell) -> bool:
        """Every point; True where none is missing."""
        corners: list[Corner] = [(None,) * (len(self.axes) - 1)]
        while corners and not self.stopped():
            corner = corners.pop()
            spot = self.inside(corner)
            if spot is None:
                continue
            self.spots.append(spot)
            tell(len(self.spots), 0, describe(self.axes, spot.at))
            corners = split([*corners, corner], spot.at[1:])
        return not corners and not self.unproved

    def some_points(self, most: int, tell: Tell) -> bool:
        """The ends, then points in the widest gaps, up to `most`; True where none is missing."""
        for axis in self.axes:
            order = [[axis], *([a] for a in self.axes if a != axis)]
            spot = None if self.stopped() else self.lowest(order, {})
            if spot is None:
                return not self.unproved and not self.stopped()
            self._note(spot, tell)
        if len(self.axes) > 2:
            return self._some_corners(most, tell)
        high, low = max(s.at[1] for s in self.spots), min(s.at[1] for s in self.spots)
        gaps = [(low, high - 1, False)] if low < high else []
        # A gap (a, b): what is least on the first axis with a second axis of at most e is not known for a < e <= b.
        while gaps and len(self.spots) < most and not self.stopped():
            gaps.sort(key=lambda g: g[1] - g[0])
            a, b, closing = gaps.pop()
            if b <= a:
                continue
            # Where the lower half held nothing new, one search at the upper end may close the rest.
            middle = b if closing else min((a + b + 2) // 2, b)
            spot = self.lowest([[self.axes[0]], [self.axes[1]]], {self.axes[1]: middle})
            if spot is None:
                return False
            new = self._note(spot, tell)
            gaps += [(a, spot.at[1] - 1, False), (middle, b, not new)]
        return not any(b > a for a, b, _ in gaps) and not self.unproved and not self.stopped()

    def _some_corners(self, most: int, tell: Tell) -> bool:
        corners: list[Corner] = [(None,) * (len(self.axes) - 1)]
        while corners and len(self.spots) < most and not self.stopped():
            corner = corners.pop(0)
            spot = self.inside(corner)
            if spot is None:
                continue
            self._note(spot, tell)
            corners = split([*corners, corner], spot.at[1:])
        return not corners and not self.unproved and not self.stopped()

    def _note(self, spot: Spot, tell: Tell) -> bool:
        """Keep a point; False where it is known already."""
        if any(spot.at == s.at for s in self.spots):
            return False
        self.spots.append(spot)
        tell(len(self.spots), 0, describe(self.axes, spot.at))
        return True

    def result(self, spot: Spot) -> Result:
        """The plan of a point."""
        assert self.scaled is not None
        return self.study.answer(self.loaded, self.catalog, self.small, self.scaled, spot.found)


def _with_latency(scaled: Scaled, explorer: Explorer) -> Scaled:
    if "latency" not in explorer.axes or scaled.replicas.is_empty():
        return scaled
    import polars as pl

    column = pl.Series("latency_ms", latencies_ms(scaled, explorer.loaded.problem))
    return replace(scaled, replicas=scaled.replicas.with_columns(column))


def split(corners: Sequence[Corner], point: Sequence[int]) -> list[Corner]:
    """Corners after a point was found: those above it give way to one per axis, and none within another is kept."""
    kept: list[Corner] = []
    for corner in corners:
        if all(most is None or value < most for value, most in zip(point, corner, strict=True)):
            kept += [(*corner[:j], point[j], *corner[j + 1 :]) for j in range(len(corner))]
        else:
            kept.append(corner)

    def within(a: Corner, b: Corner) -> bool:
        return all(y is None or (x is not None and x <= y) for x, y in zip(a, b, strict=True))

    kept = list(dict.fromkeys(kept))
    return [c for c in kept if not any(o != c and within(c, o) for o in kept)]


def describe(axes: Sequence[str], at: Sequence[int]) -> str:
    """A point in words: ``cost 425,651.21 · power 20,983 W``."""
    said = [f"{a} {v * UNITS[a]:,.2f} {NAMES[a]}".rstrip() for a, v in zip(axes, at, strict=True)]
    return " · ".join(said)
