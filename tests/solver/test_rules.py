"""Every rule of the model on hand-made integers: trivially feasible, just feasible, just infeasible.

One pool of 2-GPU nodes at 100 cents a node, one service that needs two replicas of one GPU. Each case changes one thing.
CP-SAT, the enumeration and HiGHS must all give the stated optimum.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from solver.constraints import CONSTRAINTS
from solver.instance import (
    DEMAND_UNIT,
    Capacity,
    Instance,
    Option,
    Pool,
    Quota,
    Replica,
    Service,
    Site,
)
from solver.model import build_model
from solver.search import run
from tests.oracle.bare import bare
from tests.oracle.brute import brute_force
from tests.oracle.highs import highs_optimum

HALF = DEMAND_UNIT // 2
GEAR_RULES = ("fabric", "storage", "racks", "charges", "operations", "sales", "fleet")


def pool(**changes: Any) -> Pool:
    base = Pool("a", "card", gpus=2, site=None, spot=False, it_w=0, facility_w=0, node_limit=None)
    return replace(base, **changes)


def way(**changes: Any) -> Capacity:
    base = Capacity(0, "on_demand", False, 9, (100,), (100,), 0, (10,), (7,))
    return replace(base, **changes)


def kind(**changes: Any) -> Replica:
    base = Replica(0, 0, 1, (HALF,), 9, (0,), (0,), (0,), (0,), HALF, 2 * HALF)
    return replace(base, **changes)


def service(**changes: Any) -> Service:
    return replace(Service("w", ((DEMAND_UNIT,),), redundant=False, interruptible=False), **changes)


def option(**changes: Any) -> Option:
    base = Option(0, 0, "on_demand", False, 2, 1, 3600, 50, 50, 5, 3)
    return replace(base, **changes)


def instance(**changes: Any) -> Instance:
    base = bare(pools=(pool(),), capacities=(way(),), services=(service(),), replicas=(kind(),))
    return replace(base, **changes)


ROOM = (Site("room", None, None),)
OWN = (pool(site=0, it_w=300, facility_w=400),)
BOUGHT = (way(billing="purchase", commit=True, capex=80),)


def own(**changes: Any) -> Instance:
    return instance(**{"pools": OWN, "capacities": BOUGHT, "sites": ROOM, **changes})


def rate(value: int) -> tuple[Replica, ...]:
    return (kind(rate=(value,), blend=value, node_blend=2 * value),)


def mixed(rates: tuple[int, int], most: int) -> Instance:
    """Two request sizes, each with the whole demand of its own."""
    demand = ((DEMAND_UNIT,), (DEMAND_UNIT,))
    harmonic = int(1 / (0.5 / rates[0] + 0.5 / rates[1])) // 2
    kinds = (kind(rate=rates, max_count=most, blend=harmonic, node_blend=2 * harmonic),)
    return instance(services=(service(demand=demand),), replicas=kinds)


def specialists(most: int) -> Instance:
    """Two request sizes and two kinds, each for one size alone: one replica of the first and two of the second."""
    demand = ((DEMAND_UNIT,), (DEMAND_UNIT,))
    first = kind(rate=(DEMAND_UNIT, 0), blend=0, node_blend=0)
    second = kind(rate=(0, HALF), max_count=most, blend=0, node_blend=0)
    return instance(services=(service(demand=demand),), replicas=(first, second))


def job(**changes: Any) -> Instance:
    return instance(**{"services": (), "replicas": (), "jobs": ("j",), "options": (option(),), **changes})


def redundant(*, pools: int = 1, nodes: int = 9, demand: int = DEMAND_UNIT) -> Instance:
    return instance(
        pools=tuple(pool(key=f"p{o}", node_limit=nodes) for o in range(pools)),
        capacities=tuple(way(pool=o) for o in range(pools)),
        services=(service(redundant=True, demand=((demand,),)),),
        replicas=tuple(kind(pool=o) for o in range(pools)),
    )


def builds(*, like: int | None, most: int = 1, nodes: int = 1, lose: int = 1) -> Instance:
    """Two builds of nodes for two replicas, at most so many replicas on each; one replica serves all."""
    return instance(
        pools=tuple(pool(key=f"p{o}", node_limit=nodes, like=like) for o in range(2)),
        capacities=tuple(way(pool=o) for o in range(2)),
        services=(service(redundant=lose, demand=((HALF,),)),),
        replicas=tuple(kind(pool=o, max_count=most) for o in range(2)),
    )


def survivor(nodes: int, lose: int, *, pools: int = 1, groups: tuple[tuple[int, ...], ...] = ()) -> Instance:
    """The service of two replicas, a node of two each, on pools of so many nodes at 100, 120 ... a node."""
    return instance(
        pools=tuple(pool(key=f"p{o}", node_limit=nodes) for o in range(pools)),
        capacities=tuple(way(pool=o, cost=(100 + 20 * o,), cash=(100 + 20 * o,)) for o in range(pools)),
        services=(service(redundant=lose, groups=groups),),
        replicas=tuple(kind(pool=o, max_count=12) for o in range(pools)),
    )


def spot(share_ppm: int, *, firm_nodes: int = 9) -> Instance:
    """Spot nodes at 30, firm ones at 100, one replica on each."""
    return instance(
        pools=(pool(key="firm", node_limit=firm_nodes), pool(key="firm#spot", spot=True)),
        capacities=(way(), way(pool=1, billing="spot", cost=(30,), cash=(30,))),
        replicas=(kind(gpus=2, node_blend=HALF), kind(pool=1, gpus=2, node_blend=HALF)),
        spot_share_ppm=share_ppm,
    )


def two_periods(*, commit_cost: int = 150, limit_total: int | None = None) -> Instance:
    """Two replicas when busy, one when quiet; by the hour 100 each period (node of 2), or held throughout."""
    return instance(
        periods=("busy", "quiet"),
        pools=(pool(gpus=1),),
        capacities=(
            way(cost=(100, 60), cash=(100, 60), monthly=(10, 6), carbon=(7, 7)),
            way(billing="reserved", commit=True, cost=(commit_cost,), cash=(commit_cost,), capex=0),
        ),
        services=(service(demand=((DEMAND_UNIT, HALF),)),),
        replicas=(kind(cost=(0, 0), cash=(0, 0), monthly=(0, 0), carbon=(0, 0), node_blend=HALF),),
        limit_total=limit_total,
    )


CASES: list[tuple[str, Instance, int | None]] = [
    # coverage: two replicas of a half; rounding may lack a millionth, not two
    ("coverage: no demand", instance(services=(service(demand=((0,),)),)), 0),
    ("coverage: one replica is plenty", instance(replicas=rate(3 * DEMAND_UNIT)), 100),
    ("coverage: just short by the slack", instance(replicas=rate(HALF - 500)), 100),
    ("coverage: short by more, a third replica", instance(replicas=rate(HALF - 501)), 200),
    ("coverage: too few replicas allowed", instance(replicas=(kind(max_count=1),)), None),
    # packing: two replicas on one node of two GPUs
    ("packing: just fits one node", instance(capacities=(way(max_nodes=1),)), 100),
    ("packing: two GPUs each, two nodes", instance(replicas=(kind(gpus=2, node_blend=HALF),)), 200),
    ("packing: no room", instance(capacities=(way(max_nodes=1),), replicas=(kind(gpus=2, node_blend=HALF),)), None),
    # replica capacity: each size takes a whole replica, or half of one
    ("replica capacity: plenty", mixed((9 * DEMAND_UNIT, 9 * DEMAND_UNIT), 9), 100),
    ("replica capacity: two sizes share one replica", mixed((2 * DEMAND_UNIT, 2 * DEMAND_UNIT), 1), 100),
    ("replica capacity: just too slow to share one", mixed((2 * DEMAND_UNIT, 2 * DEMAND_UNIT - 40_000), 1), None),
    ("replica capacity: specialists", specialists(9), 200),
    ("replica capacity: just enough specialists", specialists(2), 200),
    ("replica capacity: one specialist too few", specialists(1), None),
    # jobs: one way each
    ("jobs: hired", job(), 50),
    ("jobs: cheaper way", job(options=(option(), option(cost=40, cash=40))), 40),
    ("jobs: no way", job(options=()), None),
    ("jobs: pooled needs a node", job(options=(option(pooled=True, cost=1, cash=1),)), 101),
    ("jobs: pooled, just no room", job(options=(option(pooled=True, gpus=3),), capacities=(way(max_nodes=1),)), None),
    # redundancy: two replicas needed, a node carries two; one more node, on the same pool or another
    ("redundancy: one node more", redundant(), 200),
    ("redundancy: just enough nodes", redundant(nodes=2), 200),
    ("redundancy: just too few nodes", redundant(nodes=1), None),
    ("redundancy: one node on each of two pools", redundant(pools=2, nodes=1), 200),
    ("redundancy: three nodes' demand on two pools of two", redundant(pools=2, nodes=2, demand=3 * DEMAND_UNIT), 400),
    ("redundancy: four nodes' demand on two pools of two", redundant(pools=2, nodes=2, demand=4 * DEMAND_UNIT), None),
    # n+2: any two nodes may be lost at once, of one pool or of several
    ("redundancy: two nodes more", survivor(9, 2), 300),
    ("redundancy: n+2, just enough nodes", survivor(3, 2), 300),
    ("redundancy: n+2, one node too few", survivor(2, 2), None),
    ("redundancy: n+2 on two pools", survivor(2, 2, pools=2), 320),
    ("redundancy: n+2 on three pools of one node", survivor(1, 2, pools=3), 360),
    ("redundancy: n+3 on three pools of one node", survivor(1, 3, pools=3), None),
    # like builds are one pool: a replica each on two of them may be on one node, a third replica may not
    ("redundancy: a replica each on two unlike builds", builds(like=None), 200),
    ("redundancy: a replica each on two like builds", builds(like=3), None),
    ("redundancy: just enough replicas on two like builds", builds(like=3, most=2), 200),
    ("redundancy: n+2 on two like builds", builds(like=3, most=4, nodes=2, lose=2), 300),
    ("redundancy: n+2, a node of a like build too few", builds(like=3, most=2, lose=2), None),
    # spread: any one group may be lost whole
    ("spread: one group of two pools, another of one", survivor(9, 0, pools=3, groups=((0, 1), (2,))), 240),
    ("spread: each pool a group", survivor(9, 0, pools=3, groups=((0,), (1,), (2,))), 220),
    ("spread: just enough nodes", survivor(1, 0, pools=2, groups=((0,), (1,))), 220),
    ("spread: all pools in one group", survivor(9, 0, pools=2, groups=((0, 1),)), None),
    ("spread and n+2", survivor(9, 2, pools=2, groups=((0,), (1,))), 320),
    # spot share: all, half, none of the demand on spot nodes
    ("spot share: all", spot(1_000_000), 60),
    ("spot share: just half", spot(500_000), 130),
    ("spot share: a little less than half", spot(499_990), 200),
    ("spot share: none", spot(0), 200),
    ("spot share: none, and no firm node", spot(0, firm_nodes=0), None),
    ("spot share: half, and no firm node", spot(500_000, firm_nodes=0), None),
    # node limits: of a pool, of several pools, with nodes that jobs hire
    ("node limit: plenty", instance(pools=(pool(node_limit=9),)), 100),
    ("node limit: just enough", instance(pools=(pool(node_limit=1),)), 100),
    ("node limit: none", instance(pools=(pool(node_limit=0),)), None),
    ("quota: just enough", instance(quotas=(Quota("q", (0,), 1),)), 100),
    ("quota: too small", instance(quotas=(Quota("q", (0,), 0),)), None),
    ("quota: hired nodes count", instance(jobs=("j",), options=(option(),), quotas=(Quota("q", (0,), 2),)), 150),
    (
        "quota: hired nodes are one too many",
        instance(jobs=("j",), options=(option(),), quotas=(Quota("q", (0,), 1),)),
        None,
    ),
    # site power: before and after PUE, and over all sites; two-node plans
    ("site: no limit", own(), 100),
    ("site: IT just enough", own(sites=(Site("room", 300, None),)), 100),
    ("site: IT a watt short", own(sites=(Site("room", 299, None),)), None),
    ("site: facility just enough", own(sites=(Site("room", None, 400),)), 100),
    ("site: facility a watt short", own(sites=(Site("room", None, 399),)), None),
    ("power: just enough", own(limit_power_w=400), 100),
    ("power: a watt short", own(limit_power_w=399), None),
    ("power: rented nodes draw elsewhere", instance(limit_power_w=0), 100),
    # budgets
    ("capex: just enough", own(limit_capex=80), 100),
    ("capex: a cent short", own(limit_capex=79), None),
    ("capex: rent needs none", instance(limit_capex=0), 100),
    ("monthly: just enough", instance(limit_monthly=10), 100),
    ("monthly: a cent short", instance(limit_monthly=9), None),
    ("total: just enough", instance(limit_total=100), 100),
    ("total: a cent short", instance(limit_total=99), None),
    ("total: jobs count", instance(jobs=("j",), options=(option(),), limit_total=150), 150),
    ("total: with the job a cent short", instance(jobs=("j",), options=(option(),), limit_total=149), None),
    # periods: hourly nodes follow the load, commitments do not
    ("periods: one held, one by the hour", two_periods(), 250),
    ("periods: both by the hour", two_periods(commit_cost=170), 260),
    ("periods: both held", two_periods(commit_cost=99), 198),
    ("periods: total just enough", two_periods(limit_total=250), 250),
    ("periods: total a cent short", two_periods(limit_total=249), None),
    # objectives
    ("objective: power of a bought node", own(objective="power"), 400),
    ("objective: carbon", instance(objective="carbon"), 7),
    ("objective: time of the longest job", job(objective="time", options=(option(), option(duration_s=60))), 60),
]


@pytest.mark.parametrize(("name", "inst", "expected"), CASES, ids=[c[0] for c in CASES])
def test_rule(name: str, inst: Instance, expected: int | None) -> None:
    found = run(build_model(inst), time_limit_s=20, gap=0.0, workers=2, seed=1)
    assert found.objective == expected
    assert highs_optimum(inst).objective == expected
    if all(len(s.demand) == 1 for s in inst.services):
        best = brute_force(inst)
        assert (None if best is None else best.objective) == expected


def test_every_rule_has_cases() -> None:
    """A new constraint needs its three cases here; implied ones and bookkeeping have no cases of their own."""
    covered = {
        "coverage",
        "replica_capacity",
        "packing",
        "jobs",
        "schedule",  # tests.solver.test_schedule
        "redundancy",
        "spread",
        "spot_share",
        "node_limits",
        "site_power",
        "budget",
        *GEAR_RULES,  # tests.solver.test_gear
        "wishes",  # tests.solver.test_priorities
    }
    assert {c.__name__ for c in CONSTRAINTS} - covered == {
        "mix_cuts",
        "node_cuts",
        "loss_cuts",
        "gear_cuts",
        "pool_use",
    }


@pytest.mark.parametrize("share_ppm", [0, 250_000, 1_000_000])
def test_specialists_serve_a_mix_together_under_any_spot_share(share_ppm: int) -> None:
    """Two firm kinds of which each serves one size only: no spot node is needed, so no spot share can forbid the plan."""
    demand = ((DEMAND_UNIT,), (DEMAND_UNIT,))
    kinds = (
        kind(rate=(DEMAND_UNIT, 0), blend=0, node_blend=0),
        kind(rate=(0, DEMAND_UNIT), blend=0, node_blend=0),
        kind(pool=1, rate=(HALF, HALF), blend=HALF // 2, node_blend=HALF),
    )
    inst = instance(
        pools=(pool(), pool(key="a#spot", spot=True)),
        capacities=(way(), way(pool=1, billing="spot", cost=(90,), cash=(90,))),
        services=(service(demand=demand),),
        replicas=kinds,
        spot_share_ppm=share_ppm,
    )
    assert run(build_model(inst), time_limit_s=20, gap=0.0, workers=2, seed=1).objective == 100
    assert highs_optimum(inst).objective == 100
