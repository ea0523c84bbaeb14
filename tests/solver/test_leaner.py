"""Leaner builds where racks are counted: taken in where a site's watts ask for them, and proved to be of no use where not."""

from __future__ import annotations

import random
from typing import Any

import pytest

import solver.solve as solving
from problems.load import LoadedProblem
from solver.leaner import some_left_out
from solver.solve import solve
from solver.verify import verify
from tests.solver.test_reductions_networks import NETWORKS, SolveOptions, parts, placed, problem

OPTIONS = SolveOptions(gap=0.0, workers=2, time_limit_s=60, runner_up=False)
RACKS = {"count": 6, "power": "20kW", "units": 42, "price": "$200/mo"}


def room(watts: int | None, **site: Any) -> LoadedProblem:
    base = {"name": "room", "pue": 1.3, "electricity": "$0.12/kWh", "country": "US", "racks": RACKS, **site}
    return problem(None, sites=[base if watts is None else {**base, "it_power": f"{watts}W"}])


def searches(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each call of `solve` from here on took every lean build as a candidate."""
    calls: list[bool] = []
    whole = solving.build_candidates

    def noted(*args: Any, **more: Any) -> Any:
        calls.append(bool(more.get("every_lean")))
        return whole(*args, **more)

    monkeypatch.setattr(solving, "build_candidates", noted)
    return calls


@pytest.mark.slow
def test_watts_that_are_short_call_for_every_leaner_build(monkeypatch: pytest.MonkeyPatch) -> None:
    cat = parts(random.Random(1), networks=NETWORKS[:2], factors=(1.0,))
    calls = searches(monkeypatch)
    loaded = room(5800)
    result = solve(loaded, cat, OPTIONS)
    assert calls == [False, True]
    assert result.status == "optimal"
    assert verify(result, loaded.problem, cat) == []
    assert "~" in placed(result, "tune")[0].pool


@pytest.mark.slow
def test_watts_that_are_ample_need_no_second_search(monkeypatch: pytest.MonkeyPatch) -> None:
    cat = parts(random.Random(1), networks=NETWORKS[:2], factors=(1.0,))
    calls = searches(monkeypatch)
    loaded = room(9000)
    result = solve(loaded, cat, OPTIONS)
    assert calls == [False]
    assert result.status == "optimal"
    assert verify(result, loaded.problem, cat) == []
    assert solve(loaded, cat, OPTIONS, every_lean=True).objective == result.objective


def test_where_leaner_builds_may_be_missing() -> None:
    cat = parts(random.Random(1), networks=NETWORKS[:2], factors=(1.0,))
    from pathlib import Path

    def missing(loaded: LoadedProblem) -> bool:
        return some_left_out(loaded.problem, solving.build_candidates(loaded.problem, cat, Path()))

    assert missing(room(5800))
    assert not missing(room(None))
    assert not missing(problem(5800))
