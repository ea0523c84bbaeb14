"""Problems with data: CP-SAT against HiGHS and brute force on the same integers, pruned against whole candidates, plans against verify."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import count

import pytest

from solver.events import SolveOptions
from solver.instance import Instance
from solver.model import build_model
from solver.plan import Status
from solver.search import run
from solver.solve import solve
from solver.verify import verify
from tests.oracle.brute import TooLargeError, brute_force
from tests.oracle.data_problems import data_case
from tests.oracle.highs import highs_optimum
from tests.oracle.problems import Case

PER_CHUNK = 6
SLOW_CHUNKS = (1, 2)
STEPS = 20_000


def cases(first_seed: int) -> Iterator[tuple[str, Case, Instance, Instance]]:
    """Random cases with data: with beaten candidates left out, and with all of them."""
    for seed in count(first_seed):
        case = data_case(seed)
        pruned, whole = case.instance(), case.instance(prune=False)
        if pruned is None or whole is None or len(whole.options) + len(whole.replicas) > 120:
            continue
        if any(row.rule == "storage" for row in pruned.rows):
            yield f"seed {seed}", case, pruned, whole


@pytest.mark.parametrize("chunk", [0, *(pytest.param(c, marks=pytest.mark.slow) for c in SLOW_CHUNKS)])
def test_cp_sat_equals_highs_with_and_without_beaten_candidates(chunk: int) -> None:
    seen: Counter[str] = Counter()
    drawn = cases(70_000 + 1000 * chunk)
    for name, _, pruned, whole in (next(drawn) for _ in range(PER_CHUNK)):
        found = run(build_model(pruned), time_limit_s=60, gap=0.0, workers=1, seed=1, patience=1.0)
        assert found.status in (Status.OPTIMAL, Status.INFEASIBLE), name
        assert highs_optimum(pruned).objective == found.objective, name
        assert highs_optimum(whole).objective == found.objective, name
        seen["infeasible" if found.objective is None else "feasible"] += 1
        try:
            best = brute_force(pruned, STEPS)
        except (TooLargeError, ValueError):  # too many plans, or rows over replicas
            continue
        assert found.objective == (None if best is None else best.objective), name
        seen["tried one by one"] += 1
    assert seen["feasible"] >= 2, seen


@pytest.mark.slow
def test_verify_accepts_the_plans() -> None:
    drawn = cases(80_000)
    done = 0
    for name, case, _, _ in (next(drawn) for _ in range(6)):
        options = SolveOptions(time_limit_s=20, workers=2, runner_up=False)
        result = solve(case.loaded, case.catalog, options)
        if result.cost is not None:
            assert verify(result, case.loaded.problem, case.catalog) == [], name
            done += 1
    assert done >= 2
