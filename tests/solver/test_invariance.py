"""A plan that is called optimal costs the same at every seed and number of workers, and what HiGHS proves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from catalogs.load import load_catalog
from problems.load import load_problem
from solver.bounding.linear import linear
from solver.candidates import build_candidates, reduced
from solver.instance import Instance
from solver.model import build_model
from solver.plan import Status
from solver.scaling import scale
from solver.search import Found, run
from solver.search_state import How
from solver.staged import staged
from tests.bench.portfolios import portfolio
from tests.oracle.highs_timed import timed
from tests.solver.mixes import random_mix

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 15.0
SEEDS, WORKERS = (1, 2, 3), (1, 2, 8)
SAME = 2e-6
"""HiGHS works in floating point, and its feasibility is that of floating point."""


def example(name: str) -> Instance:
    catalog = load_catalog()
    path = ROOT / "problems" / f"{name}.yaml"
    found = reduced(build_candidates(load_problem(path).problem, catalog, path.parent))
    return scale(found, catalog).instance


CASES: dict[str, Callable[[], Instance]] = {
    "mix of 4 types": lambda: random_mix(3, types=4, sizes=12, spread=1.0),
    "mix of 8 types": lambda: random_mix(5, types=8, sizes=20, spread=1.0),
    "mix with terms": lambda: random_mix(7, types=4, sizes=3, periods=2, services=2, commit=True),
    "small portfolio": lambda: portfolio(2, 2, 20),
    "chat-70b-int4": lambda: example("chat-70b-int4"),
    "small-office": lambda: example("small-office"),
}


def searched(inst: Instance, seed: int, workers: int) -> Found:
    found = staged(inst, How(LIMIT_S, 0.0, workers, seed)) if linear(inst) is not None else None
    if found is not None:
        return found
    return run(build_model(inst), time_limit_s=LIMIT_S, gap=0.0, workers=workers, seed=seed, patience=1.0)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_one_cost_at_any_seed_and_worker_count(case: str) -> None:
    inst = CASES[case]()
    found = {(seed, workers): searched(inst, seed, workers) for seed in SEEDS for workers in WORKERS}
    proved = {key: f.objective for key, f in found.items() if f.status is Status.OPTIMAL}
    # These are proved in far less than the limit; should a busy machine leave some open, most are not.
    assert len(proved) >= len(found) // 2, {key: (f.status, f.gap) for key, f in found.items()}
    assert len(set(proved.values())) == 1, proved
    best = next(iter(proved.values()))
    assert best is not None
    for key, f in found.items():
        # No plan is cheaper than what is called optimal, and no bound says that none so cheap exists.
        assert f.objective is None or f.objective >= best, key
        assert f.bound is None or f.bound <= best + 1e-6 * abs(best), key
    other = timed(inst, LIMIT_S, 2)
    if other.bound is not None:
        assert other.bound <= best * (1 + SAME)
    if other.exact is not None:
        assert other.exact >= best
    if other.objective is not None and other.proved:
        assert best == pytest.approx(other.objective, rel=SAME)
