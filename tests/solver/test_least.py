"""What chooses the search: the time that a second search gets, and what is told of its plan."""

from __future__ import annotations

import time
from typing import Any

import pytest

from solver import least as module
from solver.least import LEAST_S, Looked, least
from solver.plan import Status, StopReason
from solver.search import Found, Values
from solver.search_state import How
from tests.oracle.bare import bare

NOTHING = Values({}, {}, {}, {}, {}, {}, {}, {})


@pytest.mark.parametrize(("limit", "took"), [(10.0, 0.2), (0.1, 0.2)])
def test_a_plan_that_cannot_be_remixed_costs_its_time(
    monkeypatch: pytest.MonkeyPatch, limit: float, took: float
) -> None:
    given: list[float] = []

    def search(inst: Any, how: How, patience: float, slack_first: bool) -> Looked:
        given.append(how.time_limit_s)
        time.sleep(took)
        return Looked(Found(Status.OPTIMAL, StopReason.PROVED, 1, 1.0, NOTHING, took, took, 0, 0))

    monkeypatch.setattr(module, "_least", search)
    monkeypatch.setattr(module, "unmixed", lambda inst: bare())
    monkeypatch.setattr(module, "remixed", lambda inst, values: None)
    least(bare(), How(limit, 0.0, 1, 1))
    first, second = given
    assert first == limit
    assert second <= max(LEAST_S, limit - took)
