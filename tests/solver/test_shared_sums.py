"""Sums that rows share, and rows that others imply, change no plan: held against the same rows written out, by HiGHS and CP-SAT."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from solver import constraints, model
from solver.bounding.fold import fold
from solver.bounding.moved import moved
from solver.bounding.restrict import restricted
from solver.candidates.gear import GearRule
from solver.candidates.shared_sums import LEAST, shared
from solver.hints import fix, give_whole_hint
from solver.instance import DEMAND_UNIT, Gear, Instance, Row, Sum, Terms
from solver.model import build_model
from solver.row_cuts import telling
from solver.search import Found, run
from tests.oracle.highs import highs_optimum
from tests.solver.test_rules import ROOM, kind, option, own, pool, service, way


def drawn(seed: int, *, falling: bool = True) -> Instance:
    """Pools of one or two sizes with a service and a job; places for nodes by their watts, and a network that all nodes need."""
    rng = random.Random(seed)
    count = rng.randrange(4, 8)
    level = [rng.randrange(3) for _ in range(count)]  # the heaviest first
    gpus = [rng.choice([1, 2]) for _ in range(count)]
    pools = tuple(
        pool(key=f"p{o}", gpus=gpus[o], site=0, it_w=90 - 10 * level[o], facility_w=90 - 10 * level[o])
        for o in range(count)
    )
    ways = tuple(
        way(pool=o, billing="purchase", commit=True, cost=(c,), cash=(c,), max_nodes=6)
        for o, c in enumerate(rng.randrange(50, 99) * g for g in gpus)
    )
    rate = DEMAND_UNIT // rng.choice([2, 3])
    kinds = tuple(kind(pool=o, rate=(rate,), blend=rate, node_blend=gpus[o] * rate) for o in range(count))
    jobs = tuple(option(pool=o, pooled=True, gpus=1, cost=0, cash=0, slots=0) for o in range(count))
    price = [rng.randrange(10, 60) for _ in range(5)]
    price[0] *= 1 if falling else 5
    gear = tuple(Gear(f"g{g}", "rack", 0, 6, c, c, 0, 0, 0, 0, 0) for g, c in enumerate(price))
    steps = [tuple((o, 1) for o in range(count) if level[o] == w) for w in range(3)]
    sums = (*(Sum(commit=terms, chain=0) for terms in steps), Sum(commit=tuple((o, 1 + gpus[o]) for o in range(count))))
    sums = (*sums, Sum(chosen=tuple((o, rng.randrange(1, 3)) for o in range(count))))
    order = [0, 1, 2] if falling else [2, 1, 0]
    places = [rng.randrange(1, 3) for _ in range(3)]
    rows = [
        Row("racks", "", None, 0, sums=tuple((s, 1) for s in order[: w + 1]), gear=_less(places[: w + 1]))
        for w in range(3)
    ]
    rows.append(Row("fabric", "", None, rng.randrange(2), sums=((3, 1), (4, 2)), gear=((3, -3), (4, -5))))
    rows.append(Row("fabric", "", None, rng.randrange(1, 3), sums=((4, 1),), gear=((4, -1),)))
    rows.append(Row("fabric", "", None, 40, sums=((3, 1),)))
    return own(
        pools=pools,
        capacities=ways,
        services=(service(),),
        replicas=kinds,
        jobs=("j",),
        options=jobs,
        gear=gear,
        rows=tuple(rows),
        sums=sums,
        sites=ROOM,
    )


def _less(places: list[int]) -> Terms:
    return tuple((g, -n) for g, n in enumerate(places))


def least(inst: Instance) -> Found:
    return run(build_model(inst), time_limit_s=60, gap=0.0, workers=1, seed=1, patience=1.0)


def plain(inst: Instance) -> Instance:
    return replace(inst, rows=tuple(inst.written_out(row) for row in inst.rows), sums=())


@pytest.mark.parametrize("seed", range(25))
def test_sums_and_implied_rows_leave_the_optimum(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    inst = drawn(seed, falling=seed % 2 == 0)
    monkeypatch.setattr(model, "WRITTEN_OUT", seed % 3)
    found = least(inst)
    known = highs_optimum(inst).objective
    assert found.objective == known
    assert highs_optimum(plain(inst)).objective == known
    rng = random.Random(seed)
    part = restricted(inst, rng.sample(range(len(inst.pools)), 3))
    small = least(part.instance).objective
    with monkeypatch.context() as at:
        at.setattr(constraints, "telling", lambda rows, sums: list(rows))
        assert least(part.instance).objective == small
        assert least(inst).objective == known
    assert highs_optimum(restricted(plain(inst), part.pools).instance).objective == small


@pytest.mark.parametrize("seed", range(25))
def test_families_bound_the_whole_whatever_order_the_sums_of_a_chain_have(seed: int) -> None:
    inst = drawn(seed, falling=seed % 2 == 0)
    folded, found = fold(inst), least(inst)
    if folded is None:
        return
    small = least(folded.instance).objective
    if found.values is None:
        return
    assert found.objective is not None
    assert small is not None
    assert small <= found.objective
    # Its image is a plan, whatever the pools: no row says more of a family than of its members.
    built = build_model(folded.instance)
    fix(built, folded.image(found.values))
    image = run(built, time_limit_s=60, gap=0.0, workers=1, seed=1)
    assert image.objective is not None
    assert image.objective <= found.objective


def test_families_of_several_watts_are_found() -> None:
    made = [(inst, fold(inst)) for inst in map(drawn, range(25))]
    mixed = [
        (inst, f)
        for inst, some in made
        if some is not None
        for f in some.pools
        if len({inst.pools[o].it_w for o in f}) > 1
    ]
    assert mixed
    # Sums that do not fall tell them apart.
    other = [(inst, fold(inst)) for inst in (drawn(seed, falling=False) for seed in range(25))]
    assert any(
        some is None or all(len({inst.pools[o].it_w for o in f}) == 1 for f in some.pools) for inst, some in other
    )


def test_a_whole_hint_has_the_sums() -> None:
    inst = drawn(3)
    found = least(inst)
    assert found.values is not None
    built = build_model(inst)
    give_whole_hint(built, found.values)
    assert built.context.variables.sums
    assert len(built.model.proto.solution_hint.vars) == len(built.model.proto.variables)


@pytest.mark.parametrize("seed", range(40))
def test_shared_rules_say_what_the_rules_said(seed: int) -> None:
    rng = random.Random(seed)
    names = [f"p{n}" for n in range(3 * LEAST)]
    alike = {name: rng.randrange(3) for name in names}
    own_factor = {name: rng.choice([-2, -1, 1, 2, 3]) for name in names}
    rules = []
    for rule in ("fabric", "storage", "fabric", "racks", "storage"):
        say = [rng.choice([0, 1, 1, -2]) for _ in range(3)]
        nodes = {name: own_factor[name] * say[alike[name]] for name in names if rng.random() < 0.97}
        options = {n: say[n % 3] * (1 + n // 9) for n in range(12)}
        rules.append(GearRule(rule, "", None, 3, nodes=nodes, options=options, gear={"g": -1}))
    made = shared(rules)
    assert any(rule.sums for rule in made)
    for rule, was in zip(made, rules, strict=True):
        nodes, options = dict(rule.nodes), dict(rule.options)
        for part, factor in rule.sums.items():
            assert not nodes.keys() & part.nodes.keys()
            nodes |= {name: factor * f for name, f in part.nodes.items()}
            options |= {name: factor * f for name, f in part.options.items()}
        assert {k: f for k, f in nodes.items() if f} == {k: f for k, f in was.nodes.items() if f}
        assert {k: f for k, f in options.items() if f} == {k: f for k, f in was.options.items() if f}
        assert (rule.rule, rule.low, rule.high, rule.gear) == (was.rule, was.low, was.high, was.gear)
    assert math.prod(f for rule in made for part in rule.sums for f in part.nodes.values()) != 0


def test_rows_of_the_same_nodes_with_fewer_places_are_the_ones_that_are_kept() -> None:
    sums = (Sum(commit=((0, 1),)), Sum(), Sum(commit=((1, 1),)))
    rows = [
        Row("racks", "", None, 0, gear=((0, -1),)),  # of nothing
        Row("racks", "", None, 0, sums=((0, 1),), gear=((0, -1),)),
        Row("racks", "", None, 0, sums=((0, 1), (1, 1)), gear=((0, -1), (1, -1))),  # implied
        Row("racks", "", None, 0, sums=((0, 1), (1, 1)), gear=((1, -2),)),  # other places
        Row("racks", "", None, -1, sums=((0, 1), (1, 1)), gear=((1, -2),)),  # less room
        Row("racks", "", None, 0, sums=((0, 1), (1, 1), (2, 1)), gear=((0, -9), (1, -9))),  # more nodes
        Row("racks", "", 0, 0, sums=((0, 1),), gear=((0, -1),)),  # on both sides
    ]
    assert telling(rows, sums) == [rows[1], rows[3], rows[4], rows[5], rows[6]]


def test_what_is_moved_to_another_pool_is_the_same_else() -> None:
    for thing in (way(start=1, active=(True,)), kind(nodes=2), option(slots=3)):
        assert moved(thing, 7) == replace(thing, pool=7)
        assert moved(thing, thing.pool) is thing
