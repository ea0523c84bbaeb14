"""CP-SAT against two oracles that share no code with it: plain enumeration, and HiGHS, on the same integers."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import count

import pytest

from solver.instance import Instance
from solver.model import build_model, tie_break_model
from solver.plan import Status
from solver.search import Found, run
from tests.oracle.brute import Best, TooLargeError, brute_force
from tests.oracle.highs import highs_optimum
from tests.oracle.problems import random_case, tightened

CHUNKS = 10
PER_CHUNK = 20  # 200 problems in all
KINDS, STEPS = 24, 15_000  # replica kinds and steps of the enumeration: larger draws are passed over
SEVERAL_CHUNKS = 4
PER_SEVERAL = 12


def cp_sat(inst: Instance) -> Found:
    found = run(build_model(inst), time_limit_s=60, gap=0.0, workers=1, seed=1, patience=1.0)
    assert found.status in (Status.OPTIMAL, Status.INFEASIBLE), "not decided in time"
    return found


def decided(first_seed: int) -> Iterator[tuple[str, Instance, Best | None]]:
    """Random problems with their optimum by enumeration; each feasible one again with a cap near what its plan pays."""
    for seed in count(first_seed):
        inst = random_case(seed).instance()
        if inst is None or len(inst.replicas) > KINDS:
            continue
        try:
            best = brute_force(inst, STEPS)
            yield f"seed {seed}", inst, best
            if best is not None:
                tight = tightened(inst, random.Random(seed), best.cash, best.monthly, best.capex)
                yield f"seed {seed} tightened", tight, brute_force(tight, STEPS)
        except TooLargeError:
            continue


@pytest.mark.parametrize("chunk", [3, *(pytest.param(c, marks=pytest.mark.slow) for c in range(CHUNKS) if c != 3)])
def test_cp_sat_equals_enumeration_and_highs(chunk: int) -> None:
    seen: Counter[str] = Counter()
    cases = decided(1000 * chunk)
    for name, inst, best in (next(cases) for _ in range(PER_CHUNK)):
        expected = None if best is None else best.objective
        found = cp_sat(inst)
        assert found.objective == expected, name
        assert highs_optimum(inst).objective == expected, name
        seen["infeasible" if best is None else "feasible"] += 1
    assert min(seen["infeasible"], seen["feasible"]) >= PER_CHUNK // 10, seen


@pytest.mark.parametrize(
    "chunk", [1, *(pytest.param(c, marks=pytest.mark.slow) for c in range(SEVERAL_CHUNKS) if c != 1)]
)
def test_cp_sat_equals_highs_with_several_request_sizes(chunk: int) -> None:
    compared = 0
    for seed in count(50_000 + 1000 * chunk):
        inst = random_case(seed, several=True, small=True).instance()
        if inst is None or len(inst.replicas) * len(inst.periods) > 12:
            continue
        if seed % 4 == 0:
            inst = replace(inst, limit_total=cp_sat(inst).objective if inst.objective == "cost" else inst.limit_total)
        assert cp_sat(inst).objective == highs_optimum(inst).objective, f"seed {seed}"
        compared += 1
        if compared == PER_SEVERAL:
            return


def test_ties_are_broken_without_losing_the_optimum() -> None:
    """The second solve keeps the objective and never uses more pools than the first plan did."""
    compared = 0
    for seed in count(90_000):
        inst = random_case(seed, objective=False).instance()
        if inst is None:
            continue
        first = cp_sat(inst)
        if first.objective is None or first.values is None:
            continue
        second = run(tie_break_model(inst, first.objective), time_limit_s=60, gap=0.0, workers=1, seed=1, patience=1.0)
        assert second.values is not None, f"seed {seed}"
        assert second.status is Status.OPTIMAL
        assert len(used(inst, second)) <= len(used(inst, first))
        compared += 1
        if compared == 15:
            return


def used(inst: Instance, found: Found) -> set[int]:
    """Pools of which a node is held or hired."""
    assert found.values is not None
    values = found.values
    pools = {inst.capacities[i].pool for i, n in values.commit.items() if n}
    pools |= {inst.capacities[i].pool for (i, _), n in values.hourly.items() if n}
    return pools | {inst.options[q].pool for q, x in values.chosen.items() if x and not inst.options[q].pooled}
