"""Workloads that may be left out: hand-made integers, and CP-SAT against enumeration and HiGHS level by level."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from solver.instance import DEMAND_UNIT, SHARE_UNIT, Instance, Wish
from solver.model import build_model
from solver.plan import Status
from solver.priorities import Ranked, ranked
from solver.search import Found, Values, run
from tests.oracle.brute import TooLargeError, brute_ranked
from tests.oracle.highs import highs_ranked
from tests.oracle.problems import random_case
from tests.solver.test_rules import instance, job, kind, option, pool, redundant, spot

WHOLE = SHARE_UNIT
SERVE = Wish(job=False, work=0, level=0, value=7, least=WHOLE)
JOB = Wish(job=True, work=0, level=0, value=5, least=WHOLE)


def look(inst: Instance, near: Values | None, share: float) -> Found:
    return run(build_model(inst), time_limit_s=60, gap=0.0, workers=1, seed=1, patience=1.0)


def settled(inst: Instance) -> tuple[tuple[int, ...], int] | None:
    """Values and objective by CP-SAT; None where there is no plan."""
    found: Ranked = ranked(inst, look)
    if found.found.values is None:
        assert found.found.status is Status.INFEASIBLE
        return None
    assert found.unproved is None
    assert found.found.objective is not None
    return tuple(x.value for x in found.levels), found.found.objective


def both(levels: tuple[int, int] = (0, 0), least: int = WHOLE, **changes: Any) -> Instance:
    """The service of two replicas on one node of 100, worth 7, and a job at 50, worth 5."""
    serve, run_job = replace(SERVE, level=levels[0], least=least), replace(JOB, level=levels[1])
    return instance(**{"jobs": ("j",), "options": (option(),), "wishes": (serve, run_job), **changes})


def halves(least: int = WHOLE, **changes: Any) -> Instance:
    """The service alone, on nodes of one GPU at 100, so that half of it can be had for one node."""
    base = instance(pools=(pool(gpus=1),), replicas=(kind(node_blend=DEMAND_UNIT // 2),))
    return replace(base, wishes=(replace(SERVE, least=least),), **changes)


CASES: list[tuple[str, Instance, tuple[tuple[int, ...], int] | None]] = [
    ("no cap: everything", both(), ((12_000,), 150)),
    ("cap just enough for everything", both(limit_total=150), ((12_000,), 150)),
    ("cap a cent short: the more valuable one", both(limit_total=149), ((7_000,), 100)),
    ("cap a cent short of that", both(limit_total=99), ((5_000,), 50)),
    ("cap too small for anything", both(limit_total=49), ((0,), 0)),
    ("the job comes first", both(levels=(1, 0), limit_total=149), ((5_000, 0), 50)),
    ("the service comes first", both(levels=(0, 1), limit_total=149), ((7_000, 0), 100)),
    ("first priority out of reach, the second is not", both(levels=(0, 1), limit_total=99), ((0, 5_000), 50)),
    ("parts: half for one node", halves(500, limit_total=199), ((3_500,), 100)),
    ("parts: half is just not allowed", halves(501, limit_total=199), ((0,), 0)),
    ("parts: all", halves(500, limit_total=200), ((7_000,), 200)),
    ("parts: must be served in part", replace(halves(limit_total=99), wishes=(replace(SERVE, must=True),)), None),
    (
        "parts of a value that a level must keep",
        replace(halves(500), floors=(3_500,), goal=None),
        ((7_000,), 200),
    ),
    (
        "n+1 at half the demand: two nodes where the whole takes three",
        replace(
            redundant(nodes=9),
            pools=(pool(gpus=1),),
            replicas=(kind(node_blend=DEMAND_UNIT // 2),),
            wishes=(replace(SERVE, least=100),),
            limit_total=299,
        ),
        ((3_500,), 200),
    ),
    (
        "spot share of the part that is served",
        replace(spot(500_000), wishes=(replace(SERVE, least=500),), limit_total=129),
        ((3_500,), 100),
    ),
    ("a job that nothing can do", job(options=(), wishes=(JOB,)), ((0,), 0)),
    ("a service that nothing can serve", instance(replicas=(), wishes=(SERVE,)), ((0,), 0)),
]


@pytest.mark.parametrize(("name", "inst", "expected"), CASES, ids=[c[0] for c in CASES])
def test_shares(name: str, inst: Instance, expected: tuple[tuple[int, ...], int] | None) -> None:
    assert settled(inst) == expected
    assert highs_ranked(inst) == expected
    found = brute_ranked(inst)
    assert (None if found is None else (found[0], found[1].objective)) == expected


@pytest.mark.parametrize("first", [300, *(pytest.param(n, marks=pytest.mark.slow) for n in (310, 320))])
def test_all_served_is_the_problem_without_wishes(first: int) -> None:
    """The integers of a problem in which all is served are those of one that weighs nothing."""
    for seed in range(first, first + 10):
        inst = random_case(seed).instance()
        if inst is None:
            continue
        must = replace(inst, wishes=with_wishes(inst, random.Random(seed), must=True))
        assert look(must, None, 1.0).objective == look(inst, None, 1.0).objective


def with_wishes(inst: Instance, rng: random.Random, *, must: bool = False) -> tuple[Wish, ...]:
    """A wish for each service and job, on two levels, services down to a share just below the whole."""
    levels = [rng.randrange(2) for _ in (*inst.services, *inst.jobs)]
    levels[0] = 0
    out = []
    for number, level in enumerate(levels):
        is_job = number >= len(inst.services)
        work = number - len(inst.services) if is_job else number
        least = WHOLE if is_job or must else WHOLE - rng.choice([0, 1, 2])
        out.append(Wish(is_job, work, level, rng.randrange(1, 9), least, must))
    return tuple(out)


@pytest.mark.parametrize("chunk", [1, *(pytest.param(c, marks=pytest.mark.slow) for c in range(4) if c != 1)])
def test_cp_sat_equals_enumeration_and_highs(chunk: int) -> None:
    """Random problems under a cap of some part of what all would cost."""
    seen: Counter[str] = Counter()
    for seed in count(200_000 + 1000 * chunk):
        inst = random_case(seed, small=True).instance()
        if inst is None or len(inst.replicas) > 10 or len(inst.services) + len(inst.jobs) < 2:
            continue
        rng = random.Random(seed)
        dear = look(replace(inst, objective="cost"), None, 1.0).objective
        if dear is None:
            continue
        cap = int(dear * rng.choice([0.3, 0.5, 0.8, 0.95]))
        inst = replace(inst, objective="cost", limit_total=cap, wishes=with_wishes(inst, rng))
        try:
            best = brute_ranked(inst, 4_000)
        except TooLargeError:
            seen["large"] += 1
            continue
        expected = None if best is None else (best[0], best[1].objective)
        assert settled(inst) == expected, f"seed {seed}"
        assert highs_ranked(inst) == expected, f"seed {seed}"
        assert expected is not None
        seen["none" if not any(expected[0]) else "some"] += 1
        if seen["some"] == 8:
            return


def test_cp_sat_equals_highs_with_several_request_sizes() -> None:
    compared = 0
    for seed in count(300_000):
        inst = random_case(seed, several=True, small=True).instance()
        if inst is None or len(inst.replicas) * len(inst.periods) > 10:
            continue
        rng = random.Random(seed)
        dear = look(replace(inst, objective="cost"), None, 1.0).objective
        if dear is None:
            continue
        wishes = tuple(w if w.job else replace(w, least=300) for w in with_wishes(inst, rng))
        inst = replace(inst, objective="cost", limit_total=int(dear * 0.7), wishes=wishes)
        assert settled(inst) == highs_ranked(inst), f"seed {seed}"
        compared += 1
        if compared == 10:
            return
