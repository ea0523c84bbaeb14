"""Bounds, cuts and fixing change no optimum: against the plain model and HiGHS, on random instances of all kinds."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest

from solver.bounding.blocks import evaluate
from solver.bounding.linear import Linear, linear
from solver.bounding.relaxation import Cut, relax
from solver.bounding.restrict import restricted
from solver.instance import Instance
from solver.model import build_model
from solver.plan import Status
from solver.search import Found, run
from solver.search_state import How
from solver.staged import add_cuts, simple, staged
from tests.oracle.highs import highs_optimum
from tests.oracle.problems import random_case
from tests.solver.mixes import random_mix

HOW = How(time_limit_s=60, gap=0.0, workers=1, seed=1)


def plain(inst: Instance) -> Found:
    return run(build_model(inst), time_limit_s=60, gap=0.0, workers=1, seed=1, patience=1.0)


def small_mixes(first: int, count: int) -> Iterator[Instance]:
    for seed in range(first, first + count):
        yield random_mix(
            seed,
            types=2 + seed % 3,
            sizes=2 + seed % 2,
            periods=1 + seed % 2,
            services=1 + (seed % 5 == 0),
            commit=seed % 3 == 0,
        )


def drawn(first: int, count: int, *, several: bool, growing: bool = False) -> Iterator[Instance]:
    """Instances of whole problems, with sites, budgets, quotas, spot and jobs, in stages where `growing`."""
    seed, made = first, 0
    while made < count:
        inst = random_case(seed, several=several, small=several, redundant=not several, growing=growing).instance()
        seed += 1
        if inst is None or linear(inst) is None or not simple(inst) or len(inst.replicas) * len(inst.periods) > 12:
            continue
        made += 1
        yield inst


@pytest.mark.parametrize("chunk", [1, 2, pytest.param(0, marks=pytest.mark.slow)])
def test_the_search_in_stages_finds_the_optimum_of_mixes(chunk: int) -> None:
    for inst in small_mixes(100 * chunk, 8):
        found = staged(inst, HOW)
        assert found is not None
        assert found.status is Status.OPTIMAL
        assert found.objective == found.bound == plain(inst).objective == highs_optimum(inst).objective


@pytest.mark.slow
def test_the_search_in_stages_finds_the_optimum_of_whole_problems() -> None:
    seen = 0
    for inst in (
        *drawn(40_000, 6, several=True),
        *drawn(41_000, 8, several=False),
        *drawn(42_000, 5, several=False, growing=True),
    ):
        found, expected = staged(inst, HOW), plain(inst)
        assert found is not None
        assert (found.status, found.objective) == (expected.status, expected.objective)
        seen += found.status is Status.OPTIMAL
    assert seen >= 8


@pytest.mark.parametrize("source", ["mixes", "one size", "several sizes", "stages"])
@pytest.mark.slow
def test_any_prices_give_a_bound_and_penalties_hold(source: str) -> None:
    """L(y) <= optimum for random y and for the duals; with a pool in use the optimum is at least L + its penalty."""
    rng = np.random.default_rng(7)
    cases = {
        "mixes": lambda: small_mixes(700, 8),
        "one size": lambda: drawn(60_000, 10, several=False),
        "several sizes": lambda: drawn(61_000, 5, several=True),
        "stages": lambda: drawn(62_000, 6, several=False, growing=True),
    }[source]()
    compared = 0
    for inst in cases:
        best = plain(inst).objective
        lin = linear(inst)
        assert lin is not None
        if best is None:
            continue
        relaxed = relax(lin, 10.0)
        wild = rng.normal(0.0, float(np.max(lin.hold_cost, initial=1.0)), len(lin.rhs))
        some = relaxed.duals * rng.uniform(0.5, 1.5, len(lin.rhs)) if len(relaxed.duals) else wild
        for duals in (wild, some, relaxed.duals if len(relaxed.duals) else wild):
            for exact in (True, False):
                priced = evaluate(lin, duals, exact=exact)
                assert priced.bound <= best
                for o in range(len(inst.pools)):
                    forced = _with_pool(inst, o)
                    assert forced is None or priced.bound + priced.penalty[o] <= forced + 1e-6
        compared += 1
    assert compared >= 3


def _with_pool(inst: Instance, pool: int) -> int | None:
    """Least objective of plans that hold a node of the pool."""
    built = build_model(inst)
    nodes = [sum(built.context.nodes(pool, p) for p in range(len(inst.periods)))]
    built.model.add(sum(nodes) >= 1)
    return run(built, time_limit_s=60, gap=0.0, workers=1, seed=1, patience=1.0).objective


def test_cuts_leave_every_optimum() -> None:
    """Any residual-capacity cut, drawn at random, leaves the optimum of the model as it is."""
    rng = random.Random(3)
    for inst in small_mixes(300, 10):
        lin = linear(inst)
        assert lin is not None
        cuts = [_random_cut(lin, rng) for _ in range(20)]
        part = restricted(inst, range(len(inst.pools)))
        built = build_model(part.instance)
        assert add_cuts(built, lin, part, [c for c in cuts if c is not None]) > 0
        cut = run(built, time_limit_s=60, gap=0.0, workers=1, seed=1, patience=1.0)
        assert cut.objective == plain(inst).objective


def _random_cut(lin: Linear, rng: random.Random) -> Cut | None:
    f = rng.randrange(len(lin.load_kind))
    pool, period = int(lin.load_pool[f]), int(lin.load_period[f])
    alike = np.flatnonzero((lin.load_pool == pool) & (lin.load_period == period)).tolist()
    return Cut(pool, period, tuple(sorted(rng.sample(alike, rng.randint(1, len(alike))))))


def test_cuts_of_the_relaxation_tighten_it() -> None:
    """The relaxation with its cuts is at least as good as without, and is better somewhere."""
    better = 0
    for inst in small_mixes(500, 12):
        lin = linear(inst)
        assert lin is not None
        first: list[float] = []
        relaxed = relax(lin, 10.0, first.append)
        optimum = plain(inst).objective
        assert optimum is not None
        assert relaxed.bound <= optimum
        assert first == sorted(first)
        better += relaxed.bound > first[0] + 1.0
    assert better >= 6


def test_a_part_of_an_instance_and_the_way_back() -> None:
    inst = random_mix(5, types=4, sizes=3)
    part = restricted(inst, [2, 0])
    found = run(build_model(part.instance), time_limit_s=30, gap=0.0, workers=1, seed=1)
    if found.values is None:
        pytest.skip("these two types cannot serve the mix")
    wide = part.widened(found.values)
    assert part.narrowed(wide) == found.values
    fixed = build_model(inst)
    for (i, p), e in fixed.context.variables.hourly.items():
        fixed.model.add(e == wide.hourly[i, p])
    for key, x in fixed.context.variables.load.items():
        fixed.model.add(x == wide.load[key])
    assert run(fixed, time_limit_s=30, gap=0.0, workers=1, seed=1).objective == found.objective


def test_infeasible_is_said_after_the_whole_model_was_searched() -> None:
    inst = random_mix(9, types=3, sizes=2)
    from dataclasses import replace

    none = replace(inst, limit_total=1)
    found = staged(none, HOW)
    assert found is not None
    assert found.status is Status.INFEASIBLE
