"""The tree over whole nodes with rows of least costs: bounds below the optimum, rows that cut off no plan."""

from __future__ import annotations

import itertools
import threading

import numpy as np
import pytest

from solver.counts.cover import Cover
from solver.counts.hull import Hull
from solver.counts.least_cost import LeastCost
from solver.counts.model import CountsModel
from solver.counts.tree import Tree
from solver.plan import Status
from solver.search import run
from tests.solver.small_portfolios import optimum, small_portfolio

SEEDS = [1, 2, 3]


def hull_of(seed: int) -> tuple[Hull, int]:
    """The relaxation of a small portfolio with its rows of least costs, and its optimum."""
    inst = small_portfolio(2, 2, 5, seed)
    hull = Hull(CountsModel(inst, Cover(inst)), 1)
    hull.run(lambda: 5.0, lambda: False)
    return hull, optimum(inst)


@pytest.mark.parametrize("seed", SEEDS)
def test_bounds_of_the_tree_rise_and_stay_below_the_optimum(seed: int) -> None:
    hull, best = hull_of(seed)
    root = hull.money(hull.value)
    bounds: list[float] = []
    points: list[int] = []
    steps = iter(range(400))
    Tree(hull, left=lambda: 5.0, over=lambda: next(steps, None) is None).run(
        bounds.append, lambda cost, _: points.append(cost)
    )
    assert bounds == sorted(bounds)
    assert root * (1 - 1e-5) <= bounds[-1] <= best
    # A whole point that ends the tree is the best of the model over counts, so its cost is the optimum.
    assert all(cost == pytest.approx(best, rel=1e-6) for cost in points)
    found = run(hull.counts.built, time_limit_s=60.0, gap=0.0, workers=2, seed=1, patience=1.0)
    assert found.status is Status.OPTIMAL
    assert found.objective == pytest.approx(best, rel=1e-6), "rows found in the tree cut off the optimum"


@pytest.mark.parametrize("seed", SEEDS)
def test_columns_of_the_tree_are_free_again(seed: int) -> None:
    hull, _ = hull_of(seed)
    assert hull.solve(5.0) is True
    value = hull.now
    column = int(np.argmax(hull.point))
    hull.bind({column: (0.0, float(np.floor(hull.point[column] / 2)))})
    assert hull.solve(5.0) is not True or hull.now >= value - 1e-6 * abs(value)
    hull.bind({})
    assert hull.solve(5.0) is True
    assert hull.now == pytest.approx(value, rel=1e-6)


def least_of_all(cover: Cover, w: int, period: int, prices: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    """The least that whole counts which carry the demand cost, by enumeration."""
    kinds = cover.kinds[w].tolist()
    most = [min(4, int(n)) for n in cover.most(w)[:, period]]
    return min(
        float(prices @ np.array(counts))
        for counts in itertools.product(*(range(n + 1) for n in most))
        if cover.break_of(w, period, dict(zip(kinds, map(float, counts), strict=True))) is None
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_counts_that_are_learnt_carry_the_demand(seed: int) -> None:
    inst = small_portfolio(2, 2, 5, seed)
    cover = Cover(inst)
    least = LeastCost(cover, threading.Lock())
    rng = np.random.default_rng(seed)
    for w in cover.works:
        for period in range(2):
            for _ in range(5):
                prices = rng.uniform(0.5, 3.0, len(cover.kinds[w]))
                low = least.bound(w, period, prices, 5.0)
                known = least.all_known(w, period)
                assert known is not None
                assert low <= float((known @ prices).min()) * (1 + 1e-9)
                assert low >= least_of_all(cover, w, period, prices) * (1 - 2e-3), "settled to its gap"
                for counts in known:
                    held = {int(k): float(n) for k, n in zip(cover.kinds[w], counts, strict=True) if n}
                    assert cover.break_of(w, period, held) is None
