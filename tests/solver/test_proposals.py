"""Plans made of counts that a search proposes, where jobs need nodes besides."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from solver.bounding.linear import linear
from solver.bounding.relaxation import relax
from solver.counts.cover import Cover
from solver.counts.start import held_for, trimmed
from solver.fixed_values import objective_of
from solver.instance import Instance, Option
from solver.model import build_model
from solver.proposals import plan_of
from solver.search_state import LIKELY, How, State, likely_pools
from tests.bench.portfolios import portfolio

HELD = tuple(Option(0, o, "held", True, 1, 1, 3600, 0, 0, 0, 0) for o in range(2 * LIKELY))
HIRED = Option(0, 9, "on_demand", False, 1, 1, 3600, 10**6, 10**6, 0, 0)


def _with_job(options: tuple[Option, ...]) -> Instance:
    return replace(portfolio(2, 2, 12, 3), jobs=("tune",), options=options)


@pytest.mark.parametrize("options", [(*HELD, HIRED), HELD, (HIRED,)], ids=["either", "held", "hired"])
def test_replicas_are_proposed_and_a_job_finds_its_place(options: tuple[Option, ...]) -> None:
    inst = _with_job(options)
    lin = linear(inst)
    assert lin is not None
    relaxed = relax(lin, 10.0, lambda bound: None, lambda: False)
    assert relaxed.priced is not None
    counts = trimmed(lin, Cover(inst), relaxed.load)
    state = State(inst, How(20.0, 0.0, 1, 1), time.monotonic(), hired=relaxed.priced.hired)
    value = plan_of(state, lin, held_for(lin, counts), counts)
    assert value is not None
    assert state.values is not None
    assert objective_of(build_model(inst), state.values) == value
    assert sum(state.values.chosen.values()) == 1


def test_ways_that_hire_are_likely_beside_any_number_on_held_nodes() -> None:
    state = State(_with_job((*HELD, HIRED)), How(20.0, 0.0, 1, 1), time.monotonic())
    assert likely_pools(state) == [*range(LIKELY), 9]
