"""Chance constraints and spread: hand-made integers, an enumeration that loses nodes one set at a time, and HiGHS; then whole plans."""

from __future__ import annotations

import itertools
import json
import random
from dataclasses import replace
from typing import Any

import pytest

from catalogs.catalog import Catalog
from catalogs.load import load_catalog
from problems.issues import ProblemError
from problems.load import LoadedProblem, load_text
from solver.bounding.restrict import restricted
from solver.events import SolveOptions
from solver.features.availability import ladder, nodes_to_lose
from solver.instance import DEMAND_UNIT, Instance, Ladder, Wish
from solver.model import build_model
from solver.plan import Result, WorkloadPlan
from solver.search import run
from solver.solve import solve
from solver.verify import verify
from tests.oracle.highs import highs_optimum
from tests.solver.test_rules import HALF, instance, kind, pool, service, way

SURE, SHAKY = 0.001, 0.1


def chance(u: float, availability: float, *, gpus: int = 1, nodes: int = 9, demand: int = DEMAND_UNIT) -> Instance:
    """The service of two replicas on nodes that are down with probability u."""
    rungs = Ladder((0,), tuple(ladder(u, availability, 6, 30)))
    return instance(
        pools=(pool(gpus=gpus, node_limit=nodes),),
        capacities=(way(max_nodes=30),),
        services=(service(demand=((demand,),), ladders=(rungs,)),),
        replicas=(kind(max_count=30, node_blend=gpus * HALF),),
    )


CASES: list[tuple[str, Instance, int | None]] = [
    # two nodes of one replica: P(none down) = 0.998; three: P(at most one down) = 0.999997
    ("no spare node is needed", chance(SURE, 0.99), 200),
    ("one spare node", chance(SURE, 0.999), 300),
    ("one spare node, just enough", chance(SURE, 0.999, nodes=3), 300),
    ("one spare node, one too few", chance(SURE, 0.999, nodes=2), None),
    # u = 0.1: with 3 nodes at most one down in 0.972; with 4 at most two in 0.9963; with 5 at most three in 0.99954
    ("shaky nodes, 97 %", chance(SHAKY, 0.97), 300),
    ("shaky nodes, 99 %", chance(SHAKY, 0.99), 400),
    ("shaky nodes, 99.9 %", chance(SHAKY, 0.999), 500),
    ("shaky nodes, 99.9 %, one too few", chance(SHAKY, 0.999, nodes=4), None),
    # a node of two replicas carries all: one more node of two, of which one may fail (0.99)
    ("large nodes", chance(SHAKY, 0.98, gpus=2), 200),
    ("nothing wanted, nothing lost", replace(chance(SURE, 0.999), wishes=(Wish(False, 0, 0, 1, 1000),)), 0),
]


@pytest.mark.parametrize(("name", "inst", "expected"), CASES, ids=[c[0] for c in CASES])
def test_chance(name: str, inst: Instance, expected: int | None) -> None:
    assert run(build_model(inst), time_limit_s=20, gap=0.0, workers=2, seed=1).objective == expected
    assert highs_optimum(inst).objective == expected
    if not inst.wishes:
        assert lost_one_by_one(inst) == expected


def lost_one_by_one(inst: Instance) -> int | None:
    """Least cost of one service in one period by trying all counts, and losing every set of nodes of packed replicas.

    Replicas fill nodes one after another, which leaves the fewest nodes to lose most with; how many may fail is read off the
    ladders for as many nodes as replicas could be spread over. Like pools are packed together (their replicas are equal here).
    """
    demand = inst.services[0].demand[0][0]
    needed = demand - demand // 1_000_000
    best: int | None = None
    pools = range(len(inst.pools))
    alike = [o if x.like is None else -1 - x.like for o, x in enumerate(inst.pools)]
    sets = [[o for o in pools if alike[o] == name] for name in sorted(set(alike))]
    most = [inst.pools[o].node_limit or 0 for o in pools]
    for held in itertools.product(*(range(m + 1) for m in most)):
        cost = sum(inst.capacities[o].cost[0] * held[o] for o in pools)
        if best is not None and cost >= best:
            continue
        for counts in itertools.product(*(range(held[o] * inst.pools[o].gpus + 1) for o in pools)):
            carrying = [min(sum(held[o] for o in s), sum(counts[o] for o in s)) for s in sets]
            used = [o for o in pools if counts[o]]
            lose = max(
                (
                    sum(step <= sum(carrying) for step in rungs.steps)
                    for rungs in inst.services[0].ladders
                    if set(rungs.pools) & set(used)
                ),
                default=0,
            )
            loads = []
            for s in sets:
                size, blend, here = inst.pools[s[0]].gpus, inst.replicas[s[0]].blend, sum(counts[o] for o in s)
                loads += [blend * size] * (here // size) + [blend * (here % size)] * (here % size > 0)
            groups = [
                sum(inst.replicas[o].blend * counts[o] for o in pools if o not in group)
                for group in inst.services[0].groups
            ]
            worst = min((sum(left) for left in itertools.combinations(loads, max(0, len(loads) - lose))), default=0)
            if min([sum(loads), worst, *groups]) >= needed:
                best = cost
                break
    return best


@pytest.mark.parametrize("seed", range(24))
def test_random_chances_and_groups(seed: int) -> None:
    rng = random.Random(seed)
    pools = rng.choice([1, 2, 2, 3])
    limit = {1: 6, 2: 4, 3: 3}[pools]
    chances = sorted(rng.choice([0.0005, 0.004, 0.03, 0.12]) for _ in range(pools))
    asked = rng.choice([0.98, 0.995, 0.9995])
    blends = [rng.choice([HALF, DEMAND_UNIT // 3 + 1, DEMAND_UNIT // 4 + 7]) for _ in range(pools)]
    sizes = [rng.choice([1, 2, 2]) for _ in range(pools)]
    likes: list[int | None] = [None] * pools
    if seed % 3 == 2:
        likes = [0, *(rng.choice([None, 0]) for _ in range(pools - 1))]
        for o in range(pools):
            if likes[o] == 0:
                chances[o], blends[o], sizes[o] = chances[0], blends[0], sizes[0]
    inst = instance(
        pools=tuple(pool(key=f"p{o}", gpus=sizes[o], node_limit=limit, like=likes[o]) for o in range(pools)),
        capacities=tuple(
            way(pool=o, max_nodes=limit, cost=(c := rng.randrange(50, 200),), cash=(c,)) for o in range(pools)
        ),
        services=(
            service(
                ladders=tuple(Ladder((o,), tuple(ladder(u, asked, 6, 40))) for o, u in enumerate(chances)),
                groups=tuple((o,) for o in range(pools)) if rng.random() < 0.4 else (),
            ),
        ),
        replicas=tuple(
            kind(pool=o, rate=(b,), blend=b, node_blend=b * sizes[o], max_count=limit * sizes[o])
            for o, b in enumerate(blends)
        ),
    )
    expected = lost_one_by_one(inst)
    assert run(build_model(inst), time_limit_s=20, gap=0.0, workers=2, seed=1).objective == expected
    assert highs_optimum(inst).objective == expected


@pytest.mark.parametrize("seed", range(6))
def test_an_instance_without_its_first_pool_survives_the_same(seed: int) -> None:
    """Groups and ladders follow their pools when others are left out."""
    rng = random.Random(seed)
    rungs = tuple(Ladder((o,), tuple(ladder(u, 0.99, 6, 40))) for o, u in ((0, SURE), (1, 0.02), (2, SHAKY)))
    groups = rng.choice([(), ((0, 1), (2,)), ((0,), (1,), (2,))])
    inst = instance(
        pools=tuple(pool(key=f"p{o}", gpus=1, node_limit=9 if o else 0) for o in range(3)),
        capacities=tuple(way(pool=o, max_nodes=9, cost=(c := rng.randrange(50, 200),), cash=(c,)) for o in range(3)),
        services=(service(ladders=rungs, groups=groups),),
        replicas=tuple(kind(pool=o, node_blend=HALF) for o in range(3)),
    )
    part = restricted(inst, (1, 2)).instance
    whole = run(build_model(inst), time_limit_s=20, gap=0.0, workers=2, seed=1).objective
    assert run(build_model(part), time_limit_s=20, gap=0.0, workers=2, seed=1).objective == whole


# --- whole plans ---------------------------------------------------------------------------------------------

CATALOG: list[Catalog] = []


def catalog() -> Catalog:
    if not CATALOG:
        CATALOG.append(load_catalog())
    return CATALOG[0]


def problem(**service_fields: Any) -> LoadedProblem:
    chat: dict[str, Any] = {
        "name": "chat",
        "kind": "serve",
        "model": "mistral-7b",
        "precision": ["bf16"],
        "traffic": {"rate": "30 req/s", "isl": 500, "osl": 100, "calendar": "day_night"},
        **service_fields,
    }
    return load_text(
        json.dumps(
            {
                "workloads": [chat],
                "limits": {"accelerators": ["L40S", "A100"], "countries": ["US", "DE", "FI", "FR"]},
                "policy": {"billing": ["on_demand", "spot"] if service_fields.get("interruptible") else ["on_demand"]},
            }
        ),
        "survival",
    )


def solved(loaded: LoadedProblem) -> Result:
    result = solve(loaded, catalog(), SolveOptions(time_limit_s=30, gap=0.0, workers=2, runner_up=False))
    assert result.cost is not None, result.no_plan_because
    assert verify(result, loaded.problem, catalog()) == []
    return result


@pytest.mark.parametrize(
    "fields",
    [
        {"redundancy": "n+2"},
        {"availability": "99.999%"},
        {"availability": "99.999%", "interruptible": True},
        {"spread": "provider"},
        {"spread": ["zone", "region"], "redundancy": "n+1"},
    ],
    ids=str,
)
def test_plans_survive_what_they_must_and_weaker_ones_are_refused(fields: dict[str, Any]) -> None:
    loaded = problem(**fields)
    result = solved(loaded)
    plain = problem(**{k: v for k, v in fields.items() if k == "interruptible"})
    cheap = solved(plain)
    assert cheap.objective is not None
    assert result.objective is not None
    assert result.objective > cheap.objective
    assert verify(cheap, loaded.problem, catalog()) != []


def test_n_plus_one_is_what_it_was() -> None:
    """One node: the same plan as by chance, where chance asks for one."""
    one, chance_of_one = solved(problem(redundancy="n+1")), solved(problem(availability="99.999%"))
    (plan,) = chance_of_one.workloads
    assert plan.spare_nodes == 1
    assert chance_of_one.objective == one.objective
    assert plan.availability is not None
    assert plan.availability >= 0.99999


def test_verify_refuses_other_claims() -> None:
    loaded = problem(availability="99.999%")
    result = solved(loaded)
    (plan,) = result.workloads

    def claims(**update: Any) -> list[str]:
        works: tuple[WorkloadPlan, ...] = (plan.model_copy(update=update),)
        return verify(result.model_copy(update={"workloads": works}), loaded.problem, catalog())

    assert any("may fail" in text for text in claims(spare_nodes=0))
    assert any("availability" in text for text in claims(availability=1.0))


def test_a_single_provider_cannot_be_lost() -> None:
    loaded = problem(spread="provider")
    data = json.loads(loaded.text)
    data["limits"]["providers"] = ["AWS"]
    result = solve(load_text(json.dumps(data)), catalog(), SolveOptions(time_limit_s=30, workers=2))
    assert result.status == "infeasible"


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"redundancy": "n+0"}, "n+1, n+2"),
        ({"redundancy": "2n"}, "n+1, n+2"),
        ({"availability": "100%"}, "availability"),
        ({"spread": "rack"}, "spread"),
    ],
)
def test_bad_fields_are_refused(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(ProblemError) as error:
        problem(**fields)
    assert says in str(error.value)


def test_steps_agree_with_the_numbers_they_stand_for() -> None:
    steps = ladder(SHAKY, 0.99, 6, 30)
    assert [sum(s <= n for s in steps) for n in range(1, 12)] == [nodes_to_lose(n, SHAKY, 0.99) for n in range(1, 12)]
