"""Problems drawn at random: each has a plan that its recheck accepts, or is refused with a named reason; never a traceback."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from catalogs.catalog import Catalog
from catalogs.load import load_catalog
from problems.load import load_text
from solver.plan import Result, Status, StopReason
from solver.report.failures import INFEASIBLE, OK, exit_code
from solver.solve import SolveOptions, solve
from solver.verify import verify
from tests.solver.drawn_problems import drawn_problem

ORDINARY, MANY = 4, 9
TIME_S = 20.0


@cache
def catalog() -> Catalog:
    return load_catalog()


def answered(seed: int, options: SolveOptions, *, in_time: bool) -> Result:
    """The result of a drawn problem, checked for what every result must keep; `in_time`: it is small enough to be settled."""
    loaded = load_text(json.dumps(drawn_problem(seed)), f"drawn-{seed}.json")
    result = solve(loaded, catalog(), options)
    if exit_code(result, loaded.problem.gap) not in (OK, INFEASIBLE):
        assert not in_time
        assert result.stop_reason is StopReason.TIME_LIMIT
    if result.status is Status.INFEASIBLE:
        assert result.no_plan_because
        assert all(result.no_plan_because)
        return result
    if result.status is Status.UNKNOWN:
        return result
    assert result.cost is not None
    assert result.objective is not None
    assert result.bound is not None
    assert result.bound <= result.objective
    assert verify(result, loaded.problem, catalog(), Path()) == []
    others = [a.total for a in (*result.alternatives, *result.single_modes) if a.total is not None]
    assert all(
        result.objective_name != "cost" or other >= result.cost.total for other in others if not _discounted(seed)
    )
    return result


def _discounted(seed: int) -> bool:
    """Whether what is least is another sum than the bill's."""
    return "discount_rate" in drawn_problem(seed)["policy"]


def proved_alike(seed: int, *, in_time: bool = False) -> None:
    """Another seed and number of workers make another search, and no other optimum."""
    first = answered(seed, SolveOptions(TIME_S, workers=2, seed=1), in_time=in_time)
    again = answered(seed, SolveOptions(TIME_S, workers=1, seed=7, runner_up=False), in_time=in_time)
    if in_time or Status.UNKNOWN not in (first.status, again.status):
        assert (first.cost is None) == (again.cost is None)
    if first.cost is None or again.cost is None:
        return
    if first.status is Status.OPTIMAL and again.status is Status.OPTIMAL:
        assert first.objective == again.objective
    assert first.objective is not None
    assert again.objective is not None
    assert first.bound is not None
    assert again.bound is not None
    assert max(first.bound, again.bound) <= min(first.objective, again.objective)


@pytest.mark.parametrize("seed", range(ORDINARY))
def test_a_few_drawn_problems(seed: int) -> None:
    proved_alike(seed, in_time=True)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(ORDINARY, MANY))
def test_many_drawn_problems(seed: int) -> None:
    proved_alike(seed)
