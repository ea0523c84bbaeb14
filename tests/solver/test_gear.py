"""Things held beside nodes, on hand-made and random integers: CP-SAT, the enumeration and HiGHS agree on every rule.

One bought node at 100 cents carries the service of `tests.solver.test_rules`; a gear of 2 ports at 40 cents and 50 W stands
beside it. Each case changes one thing.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from solver.instance import Gear, Instance, Row, Site
from solver.model import build_model
from solver.search import run
from tests.oracle.brute import TooLargeError, brute_force
from tests.oracle.highs import highs_optimum
from tests.oracle.problems import random_case
from tests.solver.test_rules import GEAR_RULES as RULES
from tests.solver.test_rules import own


def gear(**changes: Any) -> Gear:
    base = Gear("switch", "network", 0, 5, cost=40, cash=40, capex=30, monthly=1, carbon=5, it_w=50, facility_w=70)
    return replace(base, **changes)


def ported(rule: str, ports: int = 2, **changes: Any) -> Instance:
    """Each node takes two ports of `ports` that a gear has."""
    row = Row(rule, "", None, 0, commit=((0, 2),), gear=((0, -ports),))
    return own(**{"gear": (gear(),), "rows": (row,), **changes})


def all_say(inst: Instance) -> int | None:
    """The optimum, on which all three must agree."""
    found = run(build_model(inst), time_limit_s=20, gap=0.0, workers=2, seed=1)
    best = brute_force(inst)
    assert highs_optimum(inst).objective == found.objective == (None if best is None else best.objective)
    return found.objective


@pytest.mark.parametrize("rule", RULES)
def test_gear_is_held_where_nodes_ask_for_it(rule: str) -> None:
    assert all_say(ported(rule, gear=(gear(cost=0, cash=0),))) == 100  # trivially
    assert all_say(ported(rule)) == 140
    assert all_say(ported(rule, ports=1)) == 180
    assert all_say(ported(rule, ports=1, gear=(gear(max_count=2),))) == 180  # just feasible
    assert all_say(ported(rule, ports=1, gear=(gear(max_count=1),))) is None  # just infeasible


@pytest.mark.parametrize("limit", ["capex", "monthly", "total", "it", "facility"])
def test_gear_counts_under_every_limit(limit: str) -> None:
    """Node: capex 80, monthly 10, cash 100, 300 W, 400 W after PUE; gear beside it as in `gear`."""
    uses = {"capex": 110, "monthly": 11, "total": 140, "it": 350, "facility": 470}

    def limited(value: int) -> Instance:
        if limit == "it":
            return ported("fabric", sites=(Site("room", value, None),))
        if limit == "facility":
            return ported("fabric", sites=(Site("room", None, value),))
        return ported("fabric", **{f"limit_{limit}": value})

    assert all_say(limited(uses[limit])) == 140
    assert all_say(limited(uses[limit] - 1)) is None


def test_gear_counts_in_every_objective() -> None:
    assert all_say(ported("racks", objective="power")) == 470
    assert all_say(ported("racks", objective="carbon")) == 12


def with_random_gear(inst: Instance, rng: random.Random) -> Instance:
    """An instance with three kinds of gear and three rows over its commitments, options and gear."""
    sites = [None, *range(len(inst.sites))]
    some = tuple(
        Gear(f"g{n}", "storage", rng.choice(sites), 2, *[rng.randrange(0, 90_000) for _ in range(5)], 5, 7)
        for n in range(3)
    )
    commits = [i for i, c in enumerate(inst.capacities) if c.commit]
    rows = []
    for rule in rng.choices(RULES, k=3):
        wants = tuple((i, rng.randrange(1, 3)) for i in rng.sample(commits, min(2, len(commits))))
        picks = tuple((q, 1) for q in range(len(inst.options)) if rng.random() < 0.4)
        has = tuple((g, -rng.randrange(1, 4)) for g in rng.sample(range(3), 2))
        rows.append(Row(rule, "", None, rng.randrange(0, 2), commit=wants, chosen=picks, gear=has))
    rows.append(Row("charges", "", 1, None, gear=((0, 1), (1, 1))))
    return replace(inst, gear=some, rows=tuple(rows))


@pytest.mark.parametrize("seed", [*range(20), *(pytest.param(s, marks=pytest.mark.slow) for s in range(20, 40))])
def test_random_gear(seed: int) -> None:
    inst = random_case(seed).instance()
    if inst is None or len(inst.replicas) > 16:
        pytest.skip("no such small problem at this seed")
    inst = with_random_gear(inst, random.Random(seed))
    found = run(build_model(inst), time_limit_s=60, gap=0.0, workers=1, seed=1, patience=1.0)
    assert highs_optimum(inst).objective == found.objective
    try:
        best = brute_force(inst, 30_000)
    except TooLargeError:
        return
    assert found.objective == (None if best is None else best.objective)
