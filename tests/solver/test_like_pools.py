"""Builds that differ in their hosts alone count as one pool where nodes are lost: in the model, oracles, recheck and reductions."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import solver.candidates.likeness as likeness
import solver.candidates.reduce as reduce
import solver.scaling as scaling
from catalogs.catalog import Catalog
from problems.load import LoadedProblem, load_text
from problems.schema import Serve
from solver.bounding.restrict import restricted
from solver.candidates import build_candidates, reduced
from solver.candidates.likeness import like_numbers
from solver.events import SolveOptions
from solver.features import builds as features
from solver.instance import DEMAND_UNIT, Instance, Ladder
from solver.model import build_model
from solver.plan import Result
from solver.search import run
from solver.solve import solve
from solver.verify import verify
from solver.whatif.stress import carried
from tests.oracle.brute import brute_force
from tests.oracle.highs import highs_optimum
from tests.solver.test_reductions_networks import compared, parts
from tests.solver.test_rules import HALF, instance, kind, option, pool, service, way

OPTIONS = SolveOptions(gap=0.0, workers=2, time_limit_s=60, runner_up=False)


@pytest.mark.parametrize("seed", range(24))
def test_the_model_and_the_oracles_agree(seed: int) -> None:
    """Random pools, some alike, with replicas that cost something and a job that wants GPUs of the same nodes."""
    rng = random.Random(seed)
    pools = rng.choice([2, 3, 3])
    likes = [rng.choice([None, 0, 0]) for _ in range(pools)]
    sizes = [2 if like == 0 else rng.choice([1, 2]) for like in likes]
    blends = [rng.choice([HALF, DEMAND_UNIT // 3 + 1, DEMAND_UNIT // 4 + 7]) for _ in range(pools)]
    costs = [rng.randrange(50, 200) for _ in range(pools)]
    inst = instance(
        pools=tuple(
            pool(key=f"p{o}", gpus=size, like=like, node_limit=rng.choice([1, 2, 3]))
            for o, (size, like) in enumerate(zip(sizes, likes, strict=True))
        ),
        capacities=tuple(way(pool=o, max_nodes=4, cost=(c,), cash=(c,)) for o, c in enumerate(costs)),
        services=(service(redundant=rng.choice([1, 1, 2]), demand=((rng.choice([DEMAND_UNIT, HALF]),),)),),
        replicas=tuple(
            kind(
                pool=o, rate=(b,), blend=b, node_blend=b * size, max_count=8, cost=(c := rng.choice([0, 7]),), cash=(c,)
            )
            for o, (b, size) in enumerate(zip(blends, sizes, strict=True))
        ),
        jobs=("tune",) if rng.random() < 0.5 else (),
    )
    if inst.jobs:
        inst = replace(inst, options=tuple(option(pool=o, pooled=True, gpus=1, cost=0, cash=0) for o in range(pools)))
    best = brute_force(inst)
    expected = None if best is None else best.objective
    assert run(build_model(inst), time_limit_s=20, gap=0.0, workers=2, seed=1).objective == expected
    assert highs_optimum(inst).objective == expected


def two_builds(*, like: int | None, redundant: int = 1, most: int = 1) -> Instance:
    """A node each of two builds, at most so many replicas on each, of which one serves the demand."""
    return instance(
        pools=tuple(pool(key=f"p{o}", like=like, node_limit=1) for o in range(2)),
        capacities=tuple(way(pool=o) for o in range(2)),
        services=(service(redundant=redundant, demand=((HALF,),)),),
        replicas=tuple(kind(pool=o, max_count=most) for o in range(2)),
    )


def test_a_part_of_an_instance_knows_what_is_alike() -> None:
    part = restricted(two_builds(like=4), [1]).instance
    assert part.like_pools == [(0,)]
    assert part.pools[0].like == 4
    three = replace(two_builds(like=4), pools=(*two_builds(like=4).pools, pool(key="rented")))
    assert three.like_pools == [(0, 1), (2,)]
    assert restricted(three, [0, 2]).instance.like_pools == [(0,), (1,)]


@pytest.mark.parametrize(("like", "expected"), [(None, 300), (0, 400)])
def test_chance_counts_the_nodes_of_like_builds_together(like: int | None, expected: int) -> None:
    """Two replicas fill a node of one build, two jobs two nodes of another; from two nodes on one may fail.

    Where the builds are alike the replicas may stand on any two of the three nodes: four are needed, on a node more.
    """
    inst = instance(
        pools=tuple(pool(key=f"p{o}", like=like) for o in range(2)),
        capacities=tuple(way(pool=o) for o in range(2)),
        services=(service(ladders=(Ladder((0, 1), (2, 9)),)),),
        replicas=(kind(),),
        jobs=("one", "two"),
        options=tuple(option(work=w, pool=1, pooled=True, cost=0, cash=0) for w in range(2)),
    )
    assert run(build_model(inst), time_limit_s=20, gap=0.0, workers=2, seed=1).objective == expected
    assert highs_optimum(inst).objective == expected


# --- whole problems ----------------------------------------------------------------------------------------------------


def shared_work(
    rng: random.Random, spare: dict[str, Any], *, watts: int | None = None, jobs: int = 2, services: int = 2
) -> LoadedProblem:
    """Services that must survive losses beside jobs that want GPUs of the same nodes, all in one room."""
    chats = [
        {
            "name": f"chat{n}",
            "kind": "serve",
            "measured": [
                {"accelerator": "L40S", "rate": "10 req/s"},
                {"accelerator": "RTX-6000-Ada", "rate": "8 req/s"},
            ],
            "traffic": {"rate": f"{rng.choice([5, 10, 14])} req/s", "isl": 500, "osl": 100},
            **spare,
        }
        for n in range(services)
    ]
    labs = [
        {"name": f"lab{n}", "kind": "fixed", "accelerator": "L40S", "count": rng.choice([1, 2, 3])} for n in range(jobs)
    ]
    site: dict[str, Any] = {"name": "room", "pue": 1.3, "electricity": "$0.12/kWh", "country": "US"}
    if watts is not None:
        site["it_power"] = f"{watts}W"
    policy = {"billing": ["purchase"], "min_confidence": "recalled"}
    whole = {"horizon": "36mo", "workloads": [*chats, *labs], "sites": [site], "policy": policy}
    return load_text(json.dumps(whole), "test")


def two_chassis(rng: random.Random) -> Catalog:
    """Parts of which one server is sold in a second make, at another price and with another draw."""
    cat = parts(rng, networks=["25GbE"])
    second = cat.servers.with_columns(
        server=pl.col("server") + "-second",
        price_usd=(pl.col("price_usd") * rng.choice([0.7, 1.0, 1.3])).round(2),
        chassis_overhead_w=pl.col("chassis_overhead_w") + rng.choice([-60, 0, 80]),
    )
    return replace(cat, servers=pl.concat([cat.servers, second.cast(dict(cat.servers.schema))]))  # type: ignore[arg-type]


def drawn(seed: int) -> tuple[LoadedProblem, Catalog]:
    rng = random.Random(seed)
    cat = two_chassis(rng)
    spare = rng.choice([{"redundancy": "n+1"}, {"redundancy": "n+2"}, {"availability": "99.99%"}])
    services, jobs = rng.choice([(1, 1), (1, 2), (2, 0), (2, 1)])
    return shared_work(rng, spare, watts=rng.choice([None, None, 7000, 12_000]), services=services, jobs=jobs), cat


@pytest.mark.parametrize("seed", [3, 4, 6, 8])
def test_what_falls_to_a_like_build_changes_no_optimum(seed: int) -> None:
    compared(*drawn(seed))


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed", [2, 5, 7, 11, 12, 13]
)  # of 1 the problem with every build takes minutes, for HiGHS as well
def test_what_falls_to_a_like_build_changes_no_optimum_of_more_problems(seed: int) -> None:
    compared(*drawn(seed))


@pytest.mark.parametrize("within", [False, True])
def test_a_service_that_shares_its_nodes_falls_to_like_builds_only(within: bool) -> None:
    """One pool of each kind of node is left, and none of another card or power state went for it."""
    found = build_candidates(shared_work(random.Random(1), {"redundancy": "n+1"}).problem, cheap_pair(), Path())
    left = reduced(found, within_watts=within).pools
    alike = ["site", "accelerator", "gpus", "power_limit_w"]
    assert found.pools.group_by(alike).len()["len"].min() == 2
    assert left.group_by(alike).len()["len"].to_list() == [1] * found.pools.select(alike).n_unique()
    assert len(set(like_numbers(found.pools))) == found.pools.select(alike).n_unique()


def cheap_pair() -> Catalog:
    """One server in two makes of which the second costs more, so that one stands in for the other."""
    cat = parts(random.Random(1), networks=["25GbE"], factors=(1.0,))
    second = cat.servers.with_columns(server=pl.col("server") + "-second", price_usd=pl.col("price_usd") + 100)
    return replace(cat, servers=pl.concat([cat.servers, second]))


def counted_apart(patch: pytest.MonkeyPatch) -> None:
    """Let the model count every build by itself."""
    patch.setattr(likeness, "like", lambda: pl.lit(None, pl.String))
    patch.setattr(reduce, "like", lambda: pl.lit(None, pl.String))
    patch.setattr(scaling, "like_numbers", lambda pools: [None] * pools.height)
    patch.setattr(features, "unbeaten", lambda builds, *_, **__: builds)


def mixing_pays() -> LoadedProblem:
    """A replica each on two nodes, and jobs on two more cards of each."""
    loaded = shared_work(random.Random(1), {"redundancy": "n+1"}, services=1)
    whole = json.loads(loaded.text)
    whole["workloads"][0]["traffic"]["rate"] = "10 req/s"
    whole["limits"] = {"accelerators": ["L40S"]}
    for job in whole["workloads"][1:]:
        job["count"] = 2
    return load_text(json.dumps(whole), "test")


def solved(loaded: LoadedProblem) -> Result:
    result = solve(loaded, cheap_pair(), OPTIONS)
    assert result.status == "optimal"
    return result


def test_a_plan_that_counts_like_builds_apart_is_refused() -> None:
    loaded = mixing_pays()
    with pytest.MonkeyPatch.context() as patch:
        counted_apart(patch)
        mixed = solved(loaded)
    assert len({i.pool for i in mixed.items if i.kind == "server"}) == 2
    assert verify(mixed, loaded.problem, cheap_pair()) == [
        "chat0: demand in always does not survive the loss of a node"
    ]
    honest = solved(loaded)
    assert verify(honest, loaded.problem, cheap_pair()) == []
    # A full node carries four times the demand: it takes five replicas beside the jobs, or a third node.
    assert sum(i.quantity for i in honest.items if i.kind == "server") == 3
    assert honest.objective is not None
    assert mixed.objective is not None
    assert honest.objective > mixed.objective
    (chat,) = (w for w in loaded.problem.workloads if isinstance(w, Serve))
    assert carried(chat, mixed.workloads[0].placements, "always", mixed) == 0
    assert carried(chat, honest.workloads[0].placements, "always", honest) == pytest.approx(10)
