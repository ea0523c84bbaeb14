"""Every kind of rule that a model over counts may hold, as linear rows: the same points pass."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
from ortools.sat.python import cp_model

from catalogs.load import load_catalog
from problems.load import load_text
from solver.candidates import build_candidates, reduced
from solver.counts.cover import Cover
from solver.counts.model import CountsModel, countable
from solver.counts.program import Program, Row, rows_of
from solver.model import build_model
from solver.plan import Status
from solver.scaling import scale
from solver.search import run

ROOT = Path(__file__).parents[2]

Build = Callable[[cp_model.CpModel, list[cp_model.IntVar], list[cp_model.IntVar]], object]
RULES: dict[str, Build] = {
    "a row": lambda m, x, b: m.add(2 * x[0] - 3 * x[1] + x[0] <= 4),
    "a row within": lambda m, x, b: m.add_linear_constraint(x[0] + 2 * x[1], 2, 5),
    "a row where a literal holds": lambda m, x, b: m.add(x[0] - 2 * x[1] >= 1).only_enforce_if(b[0]),
    "a row where one holds and one does not": lambda m, x, b: m.add(3 * x[0] - x[1] == 2).only_enforce_if(b[0], ~b[1]),
    "a row that its own literal lets go": lambda m, x, b: m.add(x[0] + 2 * b[0] <= 3).only_enforce_if(b[0]),
    "an implication": lambda m, x, b: m.add_implication(b[0], ~b[1]),
    "all of": lambda m, x, b: m.add_bool_and(b[0], ~b[1]).only_enforce_if(b[2]),
    "one of": lambda m, x, b: m.add_bool_or(b[0], ~b[1], b[2]).only_enforce_if(~b[3]),
    "at most one": lambda m, x, b: m.add_at_most_one(b[0], ~b[1], b[2]),
    "exactly one": lambda m, x, b: m.add_exactly_one(b[0], ~b[1], b[2]),
}


def _passes(rows: list[Row], point: tuple[int, ...]) -> bool:
    return all(low <= sum(f * point[v] for v, f in zip(cols, fs, strict=True)) <= high for cols, fs, low, high in rows)


def _kept(build: Build, point: tuple[int, ...]) -> bool:
    """Whether CP-SAT takes a point."""
    model = cp_model.CpModel()
    x = [model.new_int_var(0, 3, "") for _ in range(2)]
    b = [model.new_bool_var("") for _ in range(4)]
    build(model, x, b)
    for v, n in zip([*x, *b], point, strict=True):
        model.add(v == n)
    return cp_model.CpSolver().solve(model) == cp_model.OPTIMAL


@pytest.mark.parametrize("name", RULES)
def test_rows_keep_what_the_rule_keeps(name: str) -> None:
    model = cp_model.CpModel()
    x = [model.new_int_var(0, 3, "") for _ in range(2)]
    b = [model.new_bool_var("") for _ in range(4)]
    RULES[name](model, x, b)
    rows = [row for c in model.proto.constraints for row in rows_of(c, model.proto)]
    points = list(itertools.product(range(4), range(4), *[range(2)] * 4))
    kept = [_passes(rows, p) for p in points]
    assert any(kept)
    assert not all(kept)
    # Every third point by CP-SAT: it takes a millisecond each.
    for at in range(0, len(points), 3):
        assert kept[at] == _kept(RULES[name], points[at]), points[at]


def test_what_rows_cannot_say_is_refused() -> None:
    model = cp_model.CpModel()
    x = [model.new_int_var(0, 9, "") for _ in range(2)]
    model.add_multiplication_equality(x[0], x)
    with pytest.raises(NotImplementedError):
        rows_of(model.proto.constraints[0], model.proto)


SIZES = "[{isl: 300, osl: 150, share: 60%}, {isl: 1500, osl: 300, share: 40%}]"
BESIDE = {
    "jobs": "{name: tune, kind: finetune, method: lora, model: llama-3-8b, tokens: 50M, sequence: 4096, runs: 4/mo, deadline: 48h}",
    "a service that outlives a loss": "{name: help, kind: serve, model: llama-3-8b, redundancy: n+1, slo: {ttft: 3s, tpot: 100ms}, "
    "traffic: {rate: 3 req/s, isl: 1000, osl: 200, calendar: office_hours}}",
}


@pytest.mark.parametrize("beside", BESIDE)
def test_mixes_are_searched_over_counts_whatever_stands_beside_them(beside: str) -> None:
    """Jobs that hire nodes, and losses of another service, put rules into the model that hold only where a literal does."""
    text = (
        "name: t\nhorizon: 12mo\nworkloads:\n"
        "  - {name: chat, kind: serve, model: llama-3-8b, slo: {ttft: 1s, tpot: 50ms}, "
        f"traffic: {{rate: 40 req/s, sizes: {SIZES}, calendar: office_hours}}}}\n"
        f"  - {BESIDE[beside]}\npolicy: {{billing: [on_demand]}}\n"
    )
    catalog = load_catalog()
    found = reduced(build_candidates(load_text(text).problem, catalog, ROOT), within_watts=True)
    assert not found.unserved
    inst = scale(found, catalog).instance
    assert countable(inst)
    counts = CountsModel(inst, Cover(inst))
    assert any(c.enforcement_literal for c in counts.model.proto.constraints)
    whole = Program(counts).solve(20.0, gap=1e-4)
    exact = run(build_model(inst), time_limit_s=20.0, gap=0.0, workers=2, seed=1, patience=1.0)
    assert exact.status is Status.OPTIMAL
    assert exact.objective is not None
    # Rows of a model over counts ask for no more than loads do.
    assert whole.bound <= exact.objective * (1 + 1e-6)
    assert whole.bound >= 0.5 * exact.objective
