"""Leaving out dominated candidates never changes the optimum, in whole catalogues and without an accelerator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import count

import pytest

from solver.candidates import Candidates, reduced
from solver.model import build_model
from solver.plan import Status
from solver.scaling import scale
from solver.search import run
from tests.oracle.problems import Case, random_case

CHUNKS = 4
PER_CHUNK = 12


def optimum(
    case: Case, found: Candidates, without: str | None, *, prune: bool, within: bool = False
) -> tuple[object, int | None]:
    """Workloads left without candidates, and the proved optimum (None: infeasible, or nothing to solve)."""
    small = reduced(found, without, prune=prune, within_watts=within)
    if small.unserved:
        return small.unserved, None
    search = run(
        build_model(scale(small, case.catalog).instance), time_limit_s=60, gap=0.0, workers=2, seed=1, patience=1.0
    )
    assert search.status in (Status.OPTIMAL, Status.INFEASIBLE), f"seed {case.seed} not decided in time"
    return (), search.objective


def compared(first_seed: int) -> Iterator[tuple[str, Case, Candidates, str | None]]:
    """Random problems, each whole and without one of its accelerators."""
    for seed in count(first_seed):
        case = random_case(seed)
        found = case.candidates()
        if found.replicas.height + found.options.height > 150:
            continue
        cards = sorted(found.pools["accelerator"].unique())
        yield f"seed {seed}", case, found, None
        if len(cards) > 1:
            yield f"seed {seed} without {cards[0]}", case, found, cards[0]


@pytest.mark.parametrize("chunk", [3, *(pytest.param(c, marks=pytest.mark.slow) for c in range(CHUNKS - 1))])
def test_pruned_and_whole_candidates_have_the_same_optimum(chunk: int) -> None:
    seen: Counter[str] = Counter()
    cases = compared(20_000 + 1000 * chunk)
    for name, case, found, without in (next(cases) for _ in range(PER_CHUNK)):
        whole = optimum(case, found, without, prune=False)
        assert optimum(case, found, without, prune=True) == whole, name
        assert optimum(case, found, without, prune=True, within=True) == whole, name
        seen["feasible" if whole[1] is not None else "not"] += 1
        seen["pruned"] += reduced(found, without).dominated
    assert seen["feasible"] >= 2, seen
    assert seen["pruned"] > 0, seen
