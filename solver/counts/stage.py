"""The stages of a search over counts: a first plan, commitments, then neighbourhoods with a bound beside them."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from solver.bounding.linear import Linear
from solver.bounding.relaxation import Relaxed
from solver.bounding.restrict import restricted
from solver.counts.cover import Cover
from solver.counts.search import CountSearch, bound_counts
from solver.counts.start import held_for, trimmed
from solver.proposals import plan_of
from solver.search_state import State, held_pools, likely_pools, promising, usable_part, usable_pools

COMMIT_SHARE, COUNTS_SHARE = 0.7, 0.96
"""By whose end the search over commitments, and that over all counts, must be done (shares of the time limit)."""
HULL_SHARE, TREE_SHARE = 0.4, 0.8
"""The same for rows of least costs that the relaxation breaks, and for the tree with such rows."""
EXTRA_POOLS = 4
"""Pools beside those that the relaxation uses, and as many again, among which better plans are looked for."""
SMALL_COUNTS = 1_500
"""With so many counts of replicas and fewer the whole model over counts is searched from the start."""


def trimmed_start(state: State, lin: Linear, relaxed: Relaxed) -> None:
    """A first plan at once: the relaxation's replicas rounded up, less those that nothing needs."""
    counts = trimmed(lin, Cover(state.inst), relaxed.load)
    plan_of(state, lin, held_for(lin, counts), counts)


def over_counts(state: State, lin: Linear, relaxed: Relaxed) -> None:
    """Better plans over whole counts, and a bound beside the last of them."""
    if state.values is None or state.objective is None:
        return
    threads = max(1, state.how.workers or 2)
    each = len(state.inst.services) * len(state.inst.periods)
    # Where the whole is small there is something to be said of it soon; else few pools and plans come first.
    usable = usable_part(state, relaxed)
    small = len(usable_pools(state, relaxed)) * each <= SMALL_COUNTS
    small = small and restricted(state.inst, *usable).narrowed(state.values) is not None
    few = sorted({*promising(state, relaxed, EXTRA_POOLS).tolist(), *held_pools(state), *likely_pools(state)})
    values = state.values

    def over_part(pools: Sequence[int], options: Sequence[int] | None) -> CountSearch:
        return CountSearch(
            state.inst,
            lin,
            relaxed,
            (pools, options),
            values,
            left=state.left,
            over=state.over,
            on_better=state.take,
            small=small,
        )

    search = over_part(few, None)
    whole = over_part(*usable) if small else None
    faults: list[BaseException] = []

    def bound() -> None:
        try:
            if whole is not None:
                whole.bound(
                    left=lambda: state.left(COUNTS_SHARE),
                    tree_left=lambda: state.left(TREE_SHARE),
                    on_bound=state.raise_bound,
                )
                return
            assert state.values is not None
            bound_counts(
                state.inst,
                lin,
                relaxed,
                usable,
                state.values,
                left=lambda: state.left(COUNTS_SHARE),
                over=state.over,
                on_bound=state.raise_bound,
                on_better=state.take,
            )
        except BaseException as fault:  # handed on below
            faults.append(fault)

    beside = threading.Thread(target=bound, daemon=True)
    if whole is not None:
        whole.tighten(threads, lambda: state.left(HULL_SHARE))
        beside.start()
    search.commitments(max(1, threads - small), lambda: state.left(COMMIT_SHARE))
    if not small and not state.over():
        beside.start()
    if not state.over():
        several = max(1, threads - 1)
        search.neighbours(several, lambda: state.left(COUNTS_SHARE), seed=state.how.seed, step=state.step)
    if beside.is_alive():
        beside.join()
    if faults:
        raise faults[0]
