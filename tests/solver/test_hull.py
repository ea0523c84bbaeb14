"""Least costs of carrying a demand: no more than brute force finds, and rows of them cut off no plan."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solver.counts.cover import Cover
from solver.counts.hull import Hull
from solver.counts.least_cost import least_cost
from solver.counts.model import CountsModel
from solver.counts.program import Program
from solver.plan import Status
from solver.search import run
from solver.search_state import How
from solver.staged import staged
from tests.solver.small_portfolios import optimum, small_portfolio


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000))
def test_least_cost_is_no_more_than_brute_force_finds(seed: int) -> None:
    inst = small_portfolio(1, 1, 3, seed)
    cover, rng = Cover(inst), random.Random(seed)
    kinds = cover.kinds[0].tolist()
    prices = np.array([rng.choice([0.0, 1.0, rng.uniform(0.5, 3.0)]) for _ in kinds])
    most = [min(8, int(n)) for n in cover.most(0)[:, 0]]
    costs = [
        float(prices @ np.array(counts))
        for counts in itertools.product(*(range(n + 1) for n in most))
        if cover.break_of(0, 0, dict(zip(kinds, counts, strict=True))) is None
    ]
    found = least_cost(cover, 0, 0, prices)
    assert found <= min(costs, default=np.inf) * (1 + 1e-9)


def test_least_cost_counts_whole_replicas() -> None:
    inst = small_portfolio(1, 1, 3, 5)
    cover = Cover(inst)
    slowest = int(np.argmax(cover.most(0)[:, 0]))
    prices = np.full(len(cover.kinds[0]), 1e6)
    prices[slowest] = 1.0
    # A single kind at a price worth having: as many as serve all there is alone, up to what floats lose.
    assert least_cost(cover, 0, 0, prices) == pytest.approx(float(cover.most(0)[slowest, 0]), rel=1e-3)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_rows_of_least_costs_cut_off_no_optimum(seed: int) -> None:
    inst = small_portfolio(2, 2, 5, seed)
    best = optimum(inst)
    counts = CountsModel(inst, Cover(inst))
    before = Program(counts).relaxed(10.0).bound
    added = Hull(counts, 1).run(lambda: 5.0, lambda: False)
    after = Program(counts).relaxed(10.0).bound
    assert added
    assert before < after <= best * (1 + 1e-6)
    found = run(counts.built, time_limit_s=60.0, gap=0.0, workers=2, seed=1, patience=1.0)
    assert found.status is Status.OPTIMAL
    assert found.objective is not None
    assert found.objective <= best


def test_stages_with_rows_of_least_costs_give_bounds_below_the_optimum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("solver.staged.SMALL_COUNTED", 0)
    inst = small_portfolio(2, 2, 5, 2)
    found = staged(inst, How(8.0, 0.0, 2, 1))
    assert found is not None
    assert found.bound is not None
    assert found.objective is not None
    assert found.bound <= optimum(inst) <= found.objective
