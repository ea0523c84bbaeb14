"""Search over counts: its rows are what loads need, its reduction and bounds are exact, its plans are plans."""

from __future__ import annotations

import itertools
import random
import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solver.bounding.linear import linear
from solver.bounding.relaxation import relax
from solver.bounding.route import balanced
from solver.counts.cover import Cover
from solver.counts.model import CountsModel, countable
from solver.counts.search import CountSearch, bound_counts
from solver.counts.start import held_for, trimmed
from solver.counts.unbeaten import unbeaten
from solver.fixed_values import objective_of
from solver.instance import Capacity
from solver.model import build_model
from solver.search import run
from solver.search_state import How
from solver.staged import staged
from tests.bench.portfolios import portfolio
from tests.solver.small_portfolios import optimum, small_portfolio


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 3))
def test_rows_are_broken_where_loads_do_not_fit(seed: int, most: int) -> None:
    inst = portfolio(2, 2, 4, seed)
    rng = random.Random(seed)
    cover = Cover(inst)
    counts = {k: rng.randrange(most + 1) * 3 for k in range(len(inst.replicas))}
    for w, p in itertools.product(range(2), range(2)):
        mine = {(k, p): n for k, n in counts.items() if inst.replicas[k].work == w and n}
        weights = cover.break_of(w, p, counts)
        alone = replace(
            inst, services=tuple(s if v == w else replace(s, demand=((0, 0),)) for v, s in enumerate(inst.services))
        )
        one = replace(
            alone,
            services=tuple(
                replace(s, demand=tuple(tuple(x if q == p else 0 for q, x in enumerate(d)) for d in s.demand))
                for s in alone.services
            ),
        )
        loads = balanced(one, mine)
        if weights is None:
            assert loads
            continue
        assert not loads
        row = cover.row(w, weights, p)
        assert row is not None
        assert sum(a * counts[int(k)] for a, k in zip(row, cover.kinds[w], strict=True)) < 1


@pytest.mark.parametrize("seed", range(6))
def test_every_plan_keeps_every_row(seed: int) -> None:
    inst = portfolio(2, 2, 5, seed)
    found = run(build_model(inst), time_limit_s=20.0, gap=0.2, workers=2, seed=1, patience=0.01)
    assert found.values is not None
    model = CountsModel(inst, Cover(inst))
    assert model.broken(found.values.replicas) == 0
    solution = model.solution(found.values)
    assert model.objective(solution) == found.objective
    for c in model.model.proto.constraints:
        if c.has_linear():
            total = sum(a * solution[v] for v, a in zip(c.linear.vars, c.linear.coeffs, strict=True))
            assert c.linear.domain[0] <= total <= c.linear.domain[len(c.linear.domain) - 1]


@pytest.mark.parametrize("seed", range(5))
def test_pools_that_are_beaten_change_nooptimum(seed: int) -> None:
    inst = small_portfolio(1, 2, 9, seed)
    # Two pools the same, and one as good as two nodes of another.
    twin = replace(inst, pools=(*inst.pools, inst.pools[0]))
    twin = replace(
        twin,
        capacities=(*inst.capacities, *(replace(c, pool=9) for c in inst.capacities if c.pool == 0)),
        replicas=(*inst.replicas, *(replace(r, pool=9) for r in inst.replicas if r.pool == 0)),
    )
    kept = unbeaten(twin).tolist()
    assert len(kept) < len(twin.pools)
    assert not {0, 9} <= set(kept)
    from solver.bounding.restrict import restricted

    assert optimum(restricted(twin, kept).instance) == optimum(inst)


def test_pools_matter_in_more_than_money() -> None:
    inst = portfolio(1, 2, 9, 1)
    assert len(unbeaten(inst)) < 9
    limited = replace(inst, pools=tuple(replace(p, node_limit=1) for p in inst.pools))
    assert len(unbeaten(limited)) == 9
    assert len(unbeaten(replace(inst, limit_capex=10**9))) == 9
    assert len(unbeaten(replace(inst, services=tuple(replace(s, redundant=1) for s in inst.services)))) == 9


def test_a_commitment_of_some_stages_stands_in_for_no_longer_one() -> None:
    inst = portfolio(1, 2, 2, 3)
    node, kind = inst.pools[0], inst.replicas[0]

    def way(pool: int, cost: int, active: tuple[bool, ...]) -> Capacity:
        return Capacity(pool, "reserved", True, 400, (cost,), (cost,), 0, (cost,), (1,), active=active)

    two = replace(
        inst,
        pools=(node, replace(node, key="other")),
        capacities=(way(0, 100, (True, False)), way(1, 110, (True, True))),
        replicas=(kind, replace(kind, pool=1)),
    )
    assert unbeaten(two).tolist() == [0, 1]
    longer = replace(two, capacities=(way(0, 110, (True, False)), way(1, 110, (True, True))))
    assert unbeaten(longer).tolist() == [1]


@pytest.mark.parametrize("seed", range(3))
def test_search_over_counts_finds_the_optimum_of_small_portfolios(seed: int) -> None:
    inst = small_portfolio(2, 2, 5, seed)
    assert countable(inst)
    best = optimum(inst)
    lin = linear(inst)
    assert lin is not None
    relaxed = relax(lin, 10.0, lambda bound: None, lambda: False)
    counts = trimmed(lin, Cover(inst), relaxed.load)
    hold = held_for(lin, counts)
    cost = float(hold @ lin.hold_cost)
    assert cost >= best
    plans: list[tuple[int, object]] = []
    started = time.monotonic()
    whole = build_model(inst)
    from solver.fixed_values import filled
    from solver.search import Values

    start = Values(
        commit={int(i): round(n) for i, p, n in zip(lin.hold_way, lin.hold_period, hold, strict=True) if p < 0},
        hourly={
            (int(i), int(p)): round(n) for i, p, n in zip(lin.hold_way, lin.hold_period, hold, strict=True) if p >= 0
        },
        replicas=dict(counts),
        load=balanced(inst, counts),
        chosen={},
    )
    start = filled(whole, start)
    assert objective_of(whole, start) == round(cost)
    bounds: list[float] = []

    def left() -> float:
        return 30.0 - (time.monotonic() - started)

    pools = list(range(len(inst.pools)))
    search = CountSearch(
        inst,
        lin,
        relaxed,
        (pools, None),
        start,
        left=left,
        over=lambda: False,
        on_better=lambda n, v: plans.append((n, v)),
    )
    search.commitments(1, left)
    until = time.monotonic() + 2.0
    search.neighbours(1, lambda: until - time.monotonic(), seed=1, step=1)
    bound_counts(
        inst, lin, relaxed, (pools, range(len(inst.options))), start, left=left, over=lambda: False,
        on_bound=bounds.append, on_better=lambda n, v: plans.append((n, v)),
    )  # fmt: skip
    reached = min((n for n, _ in plans), default=round(cost))
    assert reached == best
    assert max(bounds) <= best
    assert max(bounds) >= best * (1 - 1e-4)


def test_given_values_that_are_no_plan_are_refused() -> None:
    inst = portfolio(1, 2, 3, 2)
    built = build_model(inst)
    found = run(built, time_limit_s=20.0, gap=0.05, workers=2, seed=1, patience=0.1)
    assert found.values is not None
    assert objective_of(built, found.values) == found.objective
    key = next(k for k, n in found.values.replicas.items() if n)
    assert objective_of(built, replace(found.values, replicas={**found.values.replicas, key: 0})) is None
    assert objective_of(built, replace(found.values, load=dict.fromkeys(found.values.load, 0))) is None


@pytest.mark.slow
def test_stages_use_counts_on_portfolios_of_many_loads() -> None:
    inst = portfolio(3, 4, 60, 2)
    found = staged(inst, How(20.0, 0.0, 2, 1))
    assert found is not None
    assert found.values is not None
    assert found.objective is not None
    assert found.bound is not None
    assert objective_of(build_model(inst), found.values) == found.objective
    assert np.ceil(found.bound) <= found.objective
    assert found.gap is not None
    assert found.gap < 0.12
