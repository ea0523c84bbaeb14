"""Rows on whole nodes and the search on few pools first change no optimum, and the bound of the relaxation holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from ortools.sat.python import cp_model

from solver import focus, model
from solver.bounding import beyond
from solver.bounding.beyond import promising
from solver.bounding.program import relaxed_model
from solver.bounding.restrict import restricted
from solver.cp_sat import new_solver
from solver.focus import at_most, focused
from solver.hints import held_at
from solver.instance import DEMAND_UNIT, Capacity, Instance, Ladder, Option, Pool, Replica, Service
from solver.limits import without_limits
from solver.model import build_model
from solver.node_cuts import node_cuts
from solver.search import Found, run
from solver.search_state import How
from tests.oracle.bare import bare
from tests.oracle.highs import highs_optimum
from tests.oracle.problems import random_case

HOW = How(time_limit_s=60, gap=0.0, workers=1, seed=1)


def drawn(first: int, count: int, **kind: bool) -> Iterator[Instance]:
    """Instances of whole problems, with sites, jobs, gear, quotas, budgets and spot."""
    seed, made = first, 0
    while made < count:
        inst = random_case(seed, **kind).instance()
        seed += 1
        if inst is None or inst.wishes or len(inst.replicas) * len(inst.periods) > 16:
            continue
        made += 1
        yield inst


def optimum(inst: Instance) -> Found:
    return run(build_model(inst), time_limit_s=60, gap=0.0, workers=1, seed=1, patience=1.0)


def cases() -> Iterator[Instance]:
    yield from drawn(80_000, 14)
    yield from drawn(81_000, 5, growing=True)
    yield from drawn(82_000, 5, several=True, small=True)


@pytest.fixture
def few_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every instance counts as one of many pools, of which two come first."""
    monkeypatch.setattr(focus, "MANY_POOLS", 1)
    monkeypatch.setattr(focus, "FEW_POOLS", 2)


@pytest.mark.slow
def test_the_search_on_few_pools_first_finds_the_optimum(few_pools: None) -> None:
    seen = left_out = 0
    for inst in cases():
        expected, found = optimum(inst), focused(inst, HOW)
        if found is None:  # no relaxation: the plain search is all there is
            continue
        assert (found.found.status, found.found.objective) == (expected.status, expected.objective)
        seen += expected.objective is not None
        left_out += len(inst.pools) - len(found.part.pools)
        if expected.objective is not None:
            assert found.found.bound == expected.objective
            assert found.found.values is not None
            assert found.part.narrowed(found.found.values) is not None
    assert seen >= 12
    assert left_out >= 5


@pytest.mark.slow
def test_the_relaxation_bounds_the_optimum_and_what_pools_add_to_it() -> None:
    seen = 0
    for inst in cases():
        built = build_model(inst)
        relaxed, best = relaxed_model(built, 30.0), highs_optimum(inst).objective
        if relaxed is None or best is None:
            continue
        assert relaxed.bound <= best
        for i, commit in list(built.context.variables.commit.items())[:3]:
            forced = build_model(inst)
            forced.model.add(forced.context.variables.commit[i] >= 1)
            least = run(forced, time_limit_s=30, gap=0.0, workers=1, seed=1, patience=1.0).objective
            assert least is None or relaxed.bound + max(0.0, relaxed.reduced[commit.index]) <= least + 1e-6
            seen += least is not None
    assert seen >= 5


@pytest.mark.slow
def test_what_may_beat_a_figure_holds_every_plan_as_good() -> None:
    seen = 0
    for inst in cases():
        best = optimum(inst).objective
        part = None if best is None else promising(inst, best, 30.0)
        if part is None:
            continue
        assert optimum(part.instance).objective == best
        seen += len(part.pools) < len(inst.pools)
    assert seen >= 3


@pytest.mark.slow
def test_a_part_holds_as_many_of_everything_as_plans_up_to_a_figure_do() -> None:
    """The most nodes, replicas and gear of any plan up to a figure are the same in the part that is left for it."""
    tighter = seen = 0
    for inst in cases():
        best = optimum(inst).objective
        most = None if best is None else best + abs(best) // 20
        part = None if most is None else promising(inst, most, 30.0)
        if part is None or most is None:
            continue
        small = part.instance
        kept = {j: n for n, j in enumerate(part.capacities)}
        kinds = {j: n for n, j in enumerate(part.replicas)}
        for i in [i for i, c in enumerate(inst.capacities) if c.commit][:2]:
            inside = "commit", kept.get(i)
            assert most_of(inst, most, ("commit", i)) == most_of(small, most, inside)
            seen += 1
        for k in range(len(inst.replicas))[:2]:
            assert most_of(inst, most, ("replicas", k)) == most_of(small, most, ("replicas", kinds.get(k)))
        for g in range(len(inst.gear))[:2]:
            assert most_of(inst, most, ("gear", g)) == most_of(small, most, ("gear", g))
        pairs = [(small.capacities[n].max_nodes, inst.capacities[j].max_nodes) for j, n in kept.items()]
        pairs += [(small.replicas[n].max_count, inst.replicas[j].max_count) for j, n in kinds.items()]
        pairs += [(a.max_count, b.max_count) for a, b in zip(small.gear, inst.gear, strict=True)]
        tighter += any(a < b for a, b in pairs)
    assert seen >= 12
    assert tighter >= 5


def most_of(inst: Instance, most: int, which: tuple[str, int | None]) -> int:
    """The most of one variable (of its first period) in any plan up to a figure; 0 for one that is not there."""
    name, index = which
    if index is None:
        return 0
    built = build_model(inst)
    built.model.add(built.objective <= most)
    variables = getattr(built.context.variables, name)
    goal = variables[index, 0] if name == "replicas" else variables[index]
    built.model.maximize(goal)
    solver = new_solver()
    solver.parameters.num_workers = 1
    assert solver.solve(built.model) == cp_model.OPTIMAL
    return solver.value(goal)


@pytest.mark.slow
def test_a_plan_up_to_a_figure_is_found_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(focus, "MANY_LEFT", 1)
    monkeypatch.setattr(beyond, "MANY_POOLS", 1)
    seen = 0
    for inst in cases():
        best = optimum(inst)
        if best.objective is None or best.values is None:
            continue
        some = at_most(inst, best.objective, best.values, HOW)
        none = at_most(inst, best.objective - 1, best.values, HOW)
        if some is None or none is None:
            continue
        assert some.values is not None
        assert some.objective == best.objective
        assert none.status == "infeasible"
        seen += 1
    assert seen >= 10


def test_rows_on_whole_nodes_leave_every_optimum(monkeypatch: pytest.MonkeyPatch) -> None:
    solved = 0
    every = list(cases())
    expected = [optimum(inst) for inst in every]
    monkeypatch.setattr(model, "CONSTRAINTS", tuple(c for c in model.CONSTRAINTS if c is not node_cuts))
    for inst, with_rows in zip(every, expected, strict=True):
        without = optimum(inst)
        assert (with_rows.status, with_rows.objective) == (without.status, without.objective)
        solved += without.objective is not None
    assert solved >= 12


def node_instance(**changes: object) -> Instance:
    """Nodes of 8 GPUs that carry 0.4 of the demand, at 100 each; a job that wants one GPU of a node all month."""
    inst = bare(
        periods=("all",),
        pools=(Pool("a", "card", 8, None, False, 100, 100, None),),
        capacities=(Capacity(0, "reserved", True, 9, (100,), (100,), 0, (100,), (0,)),),
        services=(Service("chat", ((DEMAND_UNIT,),), 0, False),),
        replicas=(
            Replica(0, 0, 4, (DEMAND_UNIT // 5,), 20, (0,), (0,), (0,), (0,), DEMAND_UNIT // 5, 2 * DEMAND_UNIT // 5),
        ),
    )
    return replace(inst, **changes)  # type: ignore[arg-type]


def test_the_relaxation_knows_that_nodes_are_whole() -> None:
    """2.5 nodes are three; a job on one GPU takes a node; eight GPUs of a job are eight that serve nothing."""
    relaxed = relaxed_model(build_model(node_instance()), 10.0)
    assert relaxed is not None
    assert relaxed.bound == pytest.approx(300, abs=0.1)
    job = Option(0, 0, "pooled", True, 1, 1, 3600, 0, 0, 0, 0)
    alone = node_instance(services=(), replicas=(), jobs=("tune",), options=(job,))
    relaxed = relaxed_model(build_model(alone), 10.0)
    assert relaxed is not None
    assert relaxed.bound == pytest.approx(100, abs=0.1)
    full = node_instance(jobs=("tune",), options=(replace(job, gpus=8),))
    relaxed = relaxed_model(build_model(full), 10.0)
    assert relaxed is not None
    assert relaxed.bound == pytest.approx(400, abs=0.1)


def test_a_part_names_pools_of_groups_and_ladders_anew() -> None:
    pools = tuple(Pool(name, "card", 8, None, False, 100, 100, None) for name in "abc")
    service = Service("chat", ((DEMAND_UNIT,),), 0, False, ((0, 2), (1,)), (Ladder((1, 2), (5,)),))
    part = restricted(node_instance(pools=pools, services=(service,)), [1, 2])
    assert part.instance.services[0].groups == ((1,), (0,))
    assert part.instance.services[0].ladders == (Ladder((0, 1), (5,)),)
    assert np.array_equal(part.pools, (1, 2))


def _limited(kinds: Iterator[Instance]) -> Iterator[Instance]:
    """Instances whose machines are to be had in any number, as they are and with a limit that is far off."""
    for inst in kinds:
        plain = replace(inst, quotas=(), pools=tuple(replace(p, node_limit=None) for p in inst.pools))
        best = optimum(plain)
        if best.objective is None:
            continue
        yield plain
        yield replace(plain, limit_total=2 * best.objective)


@pytest.mark.slow
def test_limits_are_left_out_first_and_minded_all_the_same(few_pools: None) -> None:
    """The optimum is the limited one's; no limit binds where the unlimited plan keeps them all, and only there."""
    seen: dict[bool, int] = {True: 0, False: 0}
    for inst in _limited(drawn(83_000, 20)):
        expected = optimum(inst)
        found = focused(inst, HOW, slack_first=True)
        if found is None:
            continue
        assert (found.found.status, found.found.objective) == (expected.status, expected.objective)
        if expected.objective is None:
            continue
        assert found.found.values is not None
        inside = found.part.narrowed(found.found.values)
        assert inside is not None
        assert held_at(build_model(found.part.instance), inside) is not None
        assert held_at(build_model(inst), found.found.values) is not None
        free = optimum(without_limits(inst))
        if found.unlimited:
            assert free.objective == expected.objective
        seen[found.unlimited] += 1
    assert min(seen.values()) >= 3
