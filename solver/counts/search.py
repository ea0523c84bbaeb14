"""Better plans by search over counts: rows from the relaxation, neighbourhoods of the incumbent, and the exact model's word."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from solver.bounding.linear import Linear
from solver.bounding.relaxation import Relaxed
from solver.bounding.restrict import Part, restricted
from solver.bounding.route import balanced
from numpy.typing import NDArray

from solver.counts.commitments import Commitments
from solver.counts.cover import Cover
from solver.counts.model import CountsModel
from solver.counts.neighbours import Neighbours
from solver.counts.program import Program
from solver.instance import Instance
from solver.model import PlanModel, build_model
from solver.search import Values
from solver.settled import filled, settled

ROUNDS = 8
"""Times that the relaxation over counts is solved for rows that it breaks."""
FEW_BROKEN = 3
LOOSE = 1e-4
"""By so much a relaxed point must miss a demand to be worth a row."""
ROUNDS_S = 2.0


def improve_counts(
    inst: Instance,
    lin: Linear,
    relaxed: Relaxed,
    pools: Sequence[int],
    values: Values,
    *,
    step: int,
    seed: int,
    threads: int,
    left: Callable[[], float],
    over: Callable[[], bool],
    on_better: Callable[[int, Values], None],
) -> None:
    """Look for better plans on some pools, from a known one on them, until time is over.

    Parameters
    ----------
    values
        The plan to start from; its pools must be among `pools`.
    on_better
        Gets the objective and values of plans of the whole instance that the exact model accepts.
    """
    part = restricted(inst, pools)
    known = part.narrowed(values)
    if known is None:
        return
    cover = Cover(part.instance)
    _weigh(cover, lin, relaxed)
    counts = CountsModel(part.instance, cover)
    _relax(counts, left)
    exact = build_model(part.instance)
    best = [counts.solution(known)]

    def better(objective: int, solution: list[int]) -> None:
        best[0] = solution
        plan = with_loads(part, exact, counts.values(solution))
        found = settled(exact, plan) if plan is not None else None
        if plan is not None and found is not None:
            on_better(found, part.widened(filled(exact, plan)))

    if counts.apart():
        first = Commitments(counts, threads=threads, left=left, over=over, on_better=better)
        first.run(_committed(part, lin, relaxed), counts.objective(best[0]))
    Neighbours(counts, best[0], seed=seed, over=over, step=step).run(threads, left, better)


def _committed(part: Part, lin: Linear, relaxed: Relaxed) -> NDArray[np.float64]:
    """Nodes that the relaxation commits to, one number per commitment of the part."""
    held = {int(i): float(n) for i, p, n in zip(lin.hold_way, lin.hold_period, relaxed.hold, strict=True) if p < 0}
    return np.array([held.get(j, 0.0) for i, j in enumerate(part.capacities) if part.instance.capacities[i].commit])


def with_loads(part: Part, exact: PlanModel, values: Values) -> Values | None:
    """Values with loads for their replicas; None where these cannot carry the demand."""
    loads = balanced(part.instance, {key: n for key, n in values.replicas.items() if n})
    return replace(values, load=loads) if loads else None


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
                need = np.maximum(cover.need[w][:, p], 1.0)
                cover.add(w, duals[:, p] / need)


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
