"""Rows on what outlives the loss of nodes: they cut off no plan, and tell the relaxation what a loss costs."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solver.blend import unmixed
from solver.bounding.program import relaxed_model
from solver.fixed_values import objective_of
from solver.instance import DEMAND_UNIT, Instance, Ladder
from solver.least import least
from solver.loss_cuts import least_weight, loss_cuts
from solver.model import build_model
from solver.search import run
from solver.search_state import How
from tests.solver.test_rules import instance, kind, pool, service, way


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 12), st.lists(st.integers(1, 9), min_size=1, max_size=4), st.data())
def test_no_shares_of_a_load_weigh_less_than_said(demand: int, losses: list[int], data: st.DataObject) -> None:
    z = least_weight(demand, tuple(sorted(Counter(losses).items())))
    assert 0 < z <= 1 + 1e-9
    carried = [data.draw(st.floats(0, 4 * (demand + c))) for c in losses]
    lost = max(min(c, a) for c, a in zip(losses, carried, strict=True))
    if sum(carried) - lost >= demand:
        assert sum(a / (demand + c) for a, c in zip(carried, losses, strict=True)) >= z - 1e-9


@pytest.mark.parametrize(("demand", "losses"), [(6, (2, 2, 2)), (4, (1, 3)), (5, (1, 4, 9, 9)), (1, (3, 3)), (7, (7,))])
def test_some_shares_weigh_just_what_is_said(demand: int, losses: tuple[int, ...]) -> None:
    """Steps of a quarter hit the least on these."""
    z = least_weight(demand, tuple(sorted(Counter(losses).items())))
    steps = [[x / 4 for x in range(4 * (demand + c) + 1)] for c in losses]
    found = min(
        sum(a / (demand + c) for a, c in zip(carried, losses, strict=True))
        for carried in itertools.product(*steps if len(losses) < 4 else [s[::4] for s in steps])
        if sum(carried) - max(min(c, a) for c, a in zip(losses, carried, strict=True)) >= demand
    )
    assert found >= z - 1e-9
    if len(losses) < 4:
        assert found == pytest.approx(z, rel=0.1)


def random_fleet(rng: random.Random) -> Instance:
    """One or two services that outlive losses, on up to four pools of nodes of one to four cards."""
    pools = rng.randrange(1, 5)
    gpus = [rng.choice([1, 2, 4]) for _ in range(pools)]
    works = rng.randrange(1, 3)
    services, replicas = [], []
    for w in range(works):
        ladders: tuple[Ladder, ...] = ()
        if rng.random() < 0.3:
            ladders = (Ladder(tuple(range(pools)), tuple(sorted(rng.sample(range(1, 9), 3)))),)
        most = rng.choice([DEMAND_UNIT, DEMAND_UNIT // 2])
        services.append(
            service(
                demand=((most, rng.choice([0, most // 3])),),
                redundant=rng.randrange(0 if ladders else 1, 3),
                ladders=ladders,
            )
        )
        for o in range(pools):
            rate = int(DEMAND_UNIT * rng.choice([0.15, 0.3, 0.5, 0.8]))
            each = rng.choice([g for g in (1, 2, 4) if g <= gpus[o]])
            replicas.append(
                kind(
                    work=w, pool=o, gpus=each, rate=(rate,), blend=rate, node_blend=gpus[o] // each * rate, max_count=9,
                    cost=(0, 0), cash=(0, 0), monthly=(0, 0), carbon=(0, 0),
                )
            )  # fmt: skip
    hired = tuple(tuple(rng.randrange(10, 60) * g for _ in range(2)) for g in gpus)
    return instance(
        periods=("busy", "quiet"),
        pools=tuple(pool(key=f"p{o}", gpus=g, like=rng.choice([None, 0])) for o, g in enumerate(gpus)),
        capacities=tuple(
            way(pool=o, max_nodes=9, cost=c, cash=c, monthly=(1, 1), carbon=(1, 1)) for o, c in enumerate(hired)
        ),
        services=tuple(services),
        replicas=tuple(replicas),
    )


@pytest.mark.parametrize("chunk", range(4))
def test_no_plan_is_cut_off(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(chunk)
    higher = feasible = 0
    for _ in range(10):
        inst = random_fleet(rng)
        with_rows = run(build_model(inst), time_limit_s=20, gap=0.0, workers=1, seed=1, patience=1.0)
        known = relaxed_model(build_model(inst), 5.0)
        with monkeypatch.context() as patch:
            patch.setattr(
                "solver.model.CONSTRAINTS",
                tuple(c for c in build_model.__globals__["CONSTRAINTS"] if c is not loss_cuts),
            )
            without = run(build_model(inst), time_limit_s=20, gap=0.0, workers=1, seed=1, patience=1.0)
            plain = relaxed_model(build_model(inst), 5.0)
        assert (with_rows.status, with_rows.objective) == (without.status, without.objective)
        if without.objective is not None:
            feasible += 1
            assert known is not None
            assert plain is not None
            assert known.bound >= plain.bound - 1e-6 * abs(plain.bound)
            higher += known.bound > plain.bound * 1.02
    assert feasible >= 5
    assert higher >= 3


def test_the_relaxation_sees_the_nodes_to_spare() -> None:
    """Three nodes carry all; to outlive the loss of two takes five, in the relaxation as well."""
    third = DEMAND_UNIT // 3 + 1
    inst = instance(
        periods=("all",),
        pools=(pool(gpus=8),),
        capacities=(way(max_nodes=20, cost=(100,), cash=(100,), monthly=(1,), carbon=(1,)),),
        services=(service(demand=((DEMAND_UNIT,),), redundant=2),),
        replicas=(
            kind(
                gpus=1, rate=(third // 8 + 1,), blend=third // 8 + 1, node_blend=third + 8, max_count=200,
                cost=(0,), cash=(0,), monthly=(0,), carbon=(0,),
            ),
        ),
    )  # fmt: skip
    found = relaxed_model(build_model(inst), 5.0)
    assert found is not None
    assert found.bound == pytest.approx(500, rel=1e-3)


@pytest.mark.parametrize("chunk", range(3))
def test_mixes_that_outlive_losses_are_searched_without_loads(chunk: int) -> None:
    """Their plans are those of blended rates; loads that serve every size come with what is found."""
    rng = random.Random(50 + chunk)
    feasible = 0
    for _ in range(10):
        base = random_fleet(rng)
        rates = [(r.rate[0], round(r.rate[0] * rng.uniform(0.5, 2.0))) for r in base.replicas]
        blends = [int(DEMAND_UNIT / (DEMAND_UNIT / a + DEMAND_UNIT / b)) for a, b in rates]
        inst = replace(
            base,
            services=tuple(replace(s, demand=s.demand * 2) for s in base.services),
            replicas=tuple(
                replace(r, rate=ab, blend=c, node_blend=base.pools[r.pool].gpus // r.gpus * c)
                for r, ab, c in zip(base.replicas, rates, blends, strict=True)
            ),
        )
        plain = unmixed(inst)
        assert [len(s.demand) for s in plain.services] == [1 if s.redundant else 2 for s in inst.services]
        exact = run(build_model(inst), time_limit_s=20, gap=0.0, workers=2, seed=1, patience=1.0)
        found = least(inst, How(20.0, 0.0, 2, 1)).found
        assert (found.status, found.objective) == (exact.status, exact.objective)
        if found.values is not None:
            feasible += 1
            assert objective_of(build_model(inst), found.values) == found.objective
    assert feasible >= 4
