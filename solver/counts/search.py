"""Better plans and bounds by search over counts: commitments first, then neighbourhoods of the incumbent beside a bound."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from solver.bounding.linear import Linear
from solver.bounding.relaxation import Relaxed
from solver.bounding.restrict import Part, restricted
from solver.bounding.route import balanced
from solver.counts.commitments import Commitments
from solver.counts.cover import Cover
from solver.counts.hull import Hull
from solver.counts.model import CountsModel
from solver.counts.neighbours import Neighbours
from solver.counts.program import Program
from solver.counts.tree import Tree
from solver.fixed_values import plan_at
from solver.instance import Instance
from solver.model import PlanModel, build_model
from solver.search import Values, scheduled

ROUNDS = 8
"""Times that the relaxation over counts is solved for rows that it breaks."""
FEW_BROKEN = 3
LOOSE = 1e-4
"""By so much a relaxed point must miss a demand to be worth a row."""
ROUNDS_S = 2.0
LARGEST = 6_000
"""With more columns HiGHS does not get beyond the root of the whole in a useful time."""
SURE = 1e-6
"""A bound in floating point is taken so much lower (relative)."""

FIRST_SHARE = 0.6
"""Share of that time for the first search: its point may break rows that are not there yet, and is no plan then."""

Take = Callable[[int, Values], None]


class CountSearch:
    """Search for better plans on some pools, from a known one.

    Parameters
    ----------
    usable
        Pools and options; those of the plan to start from must be among them.
    values
        The plan to start from.
    on_better
        Gets the objective and values of plans of the whole instance that the exact model accepts.
    small
        Counts are few: SCIP settles programs of all periods, not HiGHS.
    """

    def __init__(
        self,
        inst: Instance,
        lin: Linear,
        relaxed: Relaxed,
        usable: tuple[Sequence[int], Sequence[int] | None],
        values: Values,
        *,
        left: Callable[[], float],
        over: Callable[[], bool],
        on_better: Take,
        small: bool = False,
    ) -> None:
        self._part = restricted(inst, *usable)
        known = self._part.narrowed(values)
        if known is None:
            raise ValueError("the plan uses a pool that is left out")
        self._over, self._on_better = over, on_better
        self._counts = _model(self._part, lin, relaxed, left)
        self._counts.small = small
        self._exact = build_model(self._part.instance)
        self._best = self._counts.solution(known)
        self._relaxed = _committed(self._part, lin, relaxed)
        self._hull: Hull | None = None

    def tighten(self, threads: int, left: Callable[[], float]) -> None:
        """Look for rows of least costs that the relaxation breaks."""
        self._hull = Hull(self._counts, threads)
        self._hull.run(left, self._over)

    def bound(
        self, *, left: Callable[[], float], tree_left: Callable[[], float], on_bound: Callable[[float], None]
    ) -> None:
        """Bound what plans cost, beside other searches: by the tree, then by branch and bound with all rows that it found."""
        if self._hull is not None:
            Tree(self._hull, left=tree_left, over=self._over).run(on_bound, self._better)
        _branch(self._counts, self._best, left=left, over=self._over, on_bound=on_bound, on_point=self._better)

    def commitments(self, threads: int, left: Callable[[], float]) -> None:
        """Search over commitments, where load periods have nothing else to do with one another."""
        if self._counts.apart():
            search = Commitments(self._counts, threads=threads, left=left, over=self._over, on_better=self._better)
            search.run(self._relaxed, self._counts.objective(self._best))

    def neighbours(self, threads: int, left: Callable[[], float], *, seed: int, step: int) -> None:
        """Search neighbourhoods of the best plan until time is over."""
        search = Neighbours(self._counts, self._best, seed=seed, over=self._over, step=step)
        search.run(threads, left, self._better)

    def _better(self, objective: int, solution: list[int]) -> None:
        if objective <= self._counts.objective(self._best):
            self._best = solution
        _hand_on(self._part, self._exact, self._counts.values(solution), self._on_better)


def bound_counts(
    inst: Instance,
    lin: Linear,
    relaxed: Relaxed,
    usable: tuple[Sequence[int], Sequence[int]],
    values: Values,
    *,
    left: Callable[[], float],
    over: Callable[[], bool],
    on_bound: Callable[[float], None],
    on_better: Take,
) -> None:
    """Bound what plans on some pools cost, by branch and bound on the whole model over counts; its points may be better plans.

    Parameters
    ----------
    usable
        Pools, and options, that a plan better than `values` could use.
    """
    part = restricted(inst, *usable)
    columns = len(part.instance.replicas) * len(inst.periods)
    known = part.narrowed(values)
    if known is None or columns > LARGEST:
        return
    counts = _model(part, lin, relaxed, left)

    def point(objective: int, solution: list[int]) -> None:
        _hand_on(part, build_model(part.instance), counts.values(solution), on_better)

    _branch(counts, counts.solution(known), left=left, over=over, on_bound=on_bound, on_point=point)


def _branch(
    counts: CountsModel,
    best: list[int],
    *,
    left: Callable[[], float],
    over: Callable[[], bool],
    on_bound: Callable[[float], None],
    on_point: Callable[[int, list[int]], None],
) -> None:
    """Branch and bound on all rows of a model over counts, from a known point."""
    program = Program(counts)
    hint: dict[int, float] | None = {v: float(x) for v, x in enumerate(best)}
    share = FIRST_SHARE
    while left() > 0.2 and not over():
        answer = program.solve(share * left(), gap=SURE, hint=hint)
        share = 1.0
        on_bound(answer.bound - SURE * abs(answer.bound))
        if answer.values is None:
            return
        whole = [round(answer.values[v]) for v in range(len(counts.model.proto.variables))]
        var = counts.built.context.variables.replicas
        with counts.lock:
            broken = counts.broken({key: whole[x.index] for key, x in var.items()})
            grown = counts.grow() if broken else 0
        if broken:
            if not grown:
                return
            program.grow_safely()
            hint = None
            continue
        on_point(counts.objective(whole), whole)
        if answer.closed:
            return


def _hand_on(part: Part, exact: PlanModel, values: Values, take: Take) -> None:
    """Give loads to the replicas and the plan to whoever wants it, if the exact model calls it one."""
    mixed = any(len(s.demand) > 1 for s in part.instance.services)
    loads = balanced(part.instance, {key: n for key, n in values.replicas.items() if n})
    if mixed and not loads:
        return
    plan = scheduled(exact, replace(values, load=loads))
    found = None if plan is None else plan_at(exact, plan)
    if found is not None:
        take(found[0], part.widened(found[1]))


def _model(part: Part, lin: Linear, relaxed: Relaxed, left: Callable[[], float]) -> CountsModel:
    """The model over counts of a part, with the rows that the relaxations lean on."""
    cover = Cover(part.instance)
    _weigh(cover, lin, relaxed)
    counts = CountsModel(part.instance, cover)
    _relax(counts, left)
    return counts


def _committed(part: Part, lin: Linear, relaxed: Relaxed) -> NDArray[np.float64]:
    """Nodes that the relaxation commits to, one number per commitment of the part."""
    rows: Iterable[tuple[int, int, float]] = zip(
        lin.hold_way.tolist(), lin.hold_period.tolist(), relaxed.hold.tolist(), strict=True
    )
    held = {i: n for i, p, n in rows if p < 0}
    return np.array([held.get(j, 0.0) for i, j in enumerate(part.capacities) if part.instance.capacities[i].commit])


def _weigh(cover: Cover, lin: Linear, relaxed: Relaxed) -> None:
    """Weights of request sizes as the relaxation's duals put them, service by service and period by period."""
    row = 0
    for w, service in enumerate(lin.instance.services):
        sizes, periods = len(service.demand), len(service.demand[0])
        duals = np.zeros((sizes, periods))
        for b, by_period in enumerate(service.demand):
            for p, wanted in enumerate(by_period):
                if wanted:
                    duals[b, p] = relaxed.duals[row]
                    row += 1
        if sizes > 1:
            for p in range(periods):
                cover.add(w, duals[:, p] / np.maximum(cover.need[w][:, p], 1.0))


def _relax(counts: CountsModel, left: Callable[[], float]) -> None:
    """Add the rows that the relaxation over counts breaks, for some rounds."""
    program = Program(counts)
    var = counts.built.context.variables.replicas
    for _ in range(ROUNDS):
        if left() < ROUNDS_S:
            return
        point = program.relaxed(ROUNDS_S).values
        if point is None or counts.broken({key: point[x.index] for key, x in var.items()}, LOOSE) < FEW_BROKEN:
            return
        if not counts.grow():
            return
        program.grow()
