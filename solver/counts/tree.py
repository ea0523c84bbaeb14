"""Branch and bound over whole nodes, with rows of least costs at every point of the tree.

Where nodes hold several replicas the relaxation buys parts of nodes and fills them to the last GPU. With nodes held at whole numbers
GPUs have other prices than before (those of a node that is there cost nothing more), and it is at these prices that rows of least costs are
broken. The rows hold everywhere, so what is learnt at one point of the tree serves at all, and any search over the model after it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from solver.counts.cover import Floats
from solver.counts.hull import Hull

ROUNDS = 4
"""Times that a point of the tree is asked for rows that it breaks."""
WORTH = 5e-5
"""A round that raises the relaxation by less (relative) is the last one."""
WHOLE = 1e-5
SURE = 1e-6
"""A bound in floating point is taken so much lower (relative)."""
STALLED = 50
"""Points without a better bound, after which the tree has told what it can."""
BETTER = 1e-4
"""By so much (relative) a bound must rise to be better."""

Ends = dict[int, tuple[float, float]]


@dataclass(order=True)
class Leaf:
    """A part of all points, by the ends of some columns; `point` is None where the simplex gave none."""

    value: float
    number: int
    ends: Ends = field(compare=False)
    point: Floats | None = field(compare=False)


class Tree:
    """The search, best bound first. `hull` is left with all rows that were found."""

    def __init__(self, hull: Hull, *, left: Callable[[], float], over: Callable[[], bool]) -> None:
        self.hull, self._left, self._over = hull, left, over
        self._ranks = _ranks(hull)
        self._leaves: list[Leaf] = []
        self._number = 0

    def run(self, on_bound: Callable[[float], None], on_point: Callable[[int, list[int]], None]) -> None:
        """Search until time is over, the bound stalls, or the best leaf is a whole point, of which `on_point` is told."""
        self._open({}, -np.inf)
        told, mark, idle = -np.inf, -np.inf, 0
        while self._leaves and idle <= STALLED and not self._late():
            leaf = heapq.heappop(self._leaves)
            idle += 1
            if leaf.value > told:
                told = leaf.value
                money = self.hull.money(told)
                on_bound(money - SURE * abs(money))
            if idle == 1 or told > mark + BETTER * abs(mark):
                mark, idle = told, 1
            if leaf.point is None:
                return
            column = self._column(leaf.point)
            if column is None:
                if not self._carries(leaf.point):
                    self._open(leaf.ends, leaf.value)
                    continue
                whole = [round(x) for x in leaf.point.tolist()]
                on_point(self.hull.counts.objective(whole), whole)
                return
            low, high = leaf.ends.get(column, self.hull.ends[column])
            at = float(np.floor(leaf.point[column]))
            self._open({**leaf.ends, column: (low, at)}, leaf.value)
            self._open({**leaf.ends, column: (at + 1, high)}, leaf.value)

    def _late(self) -> bool:
        return self._over() or self._left() <= 0

    def _open(self, ends: Ends, above: float) -> None:
        """Solve the relaxation of a leaf and keep it, unless it has no point; `above`: what is known of it."""
        hull, value, point = self.hull, above, None
        hull.bind(ends)
        for turn in range(ROUNDS + 1):
            solved = None if self._late() else hull.solve(self._left())
            if solved is False:
                return
            if solved is None:
                break
            before, value, point = value, max(value, hull.now), hull.point
            if turn == ROUNDS or (turn and value < before + WORTH * abs(before)) or not hull.separate(self._left):
                break
        self._number += 1
        heapq.heappush(self._leaves, Leaf(value, self._number, ends, point))

    def _carries(self, point: Floats) -> bool:
        """Whether a whole point carries all demands; if not, the hull has the rows that say so."""
        counts = self.hull.counts
        held = {key: round(point[x.index]) for key, x in counts.built.context.variables.replicas.items()}
        with counts.lock:
            broken = counts.broken(held)
        return not (broken and self.hull.grow())

    def _column(self, point: Floats) -> int | None:
        """The column to branch on: of those that matter most, the one whose rounding costs most; None where all are whole."""
        part = np.minimum(point - np.floor(point), np.ceil(point) - point)
        for some in self._ranks:
            if len(some) and part[some].max() > WHOLE:
                worth = np.where(part[some] > WHOLE, part[some] * (1e-6 + np.abs(self.hull.cost[some])), -1.0)
                return int(some[np.argmax(worth)])
        return None


def _ranks(hull: Hull) -> list[np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Columns in the order in which they are branched on: nodes that hold several replicas and what is held beside nodes,
    then nodes that hold one, whose number whole replicas settle, then replicas."""
    inst, var = hull.counts.inst, hull.counts.built.context.variables
    several = {r.pool for r in inst.replicas if r.gpus < inst.pools[r.pool].gpus}
    rank = np.zeros(len(hull.cost), np.int64)
    for i, x in var.commit.items():
        rank[x.index] = int(inst.capacities[i].pool not in several)
    for (i, _), x in var.hourly.items():
        rank[x.index] = int(inst.capacities[i].pool not in several)
    rank[list(hull.own)] = 2
    return [np.flatnonzero(rank == n) for n in range(3)]
