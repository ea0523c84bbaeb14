"""Weighted marks of a front: figures as the model has them, the proportional rule by hand, ranking, errors, all forms."""

from __future__ import annotations

import io
import json
import threading
from decimal import Decimal
from functools import lru_cache
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner

from catalogs.load import load_catalog
from cli import main
from problems.load import load_text
from problems.schema import Tender
from solver.bounding.restrict import restricted
from solver.front.explorer import Explorer
from solver.front.front_points import Front, FrontPoint
from solver.front.scoring import axes_for, figures_of, parse_weights, scored
from solver.pareto import pareto
from solver.plan import Result
from solver.whatif.study import Study
from solver.whatif.vary import BadRequest
from tests.golden.sample import mixed
from tests.oracle.problems import random_case
from tests.solver.test_pareto import quiet, study_of

PROBLEM: dict[str, Any] = {
    "workloads": [
        {
            "name": "chat",
            "kind": "serve",
            "model": "mistral-7b",
            "precision": ["bf16"],
            "traffic": {"rate": "6 req/s", "isl": 500, "osl": 100},
        }
    ],
    "limits": {"providers": {"allow": ["Hyperstack", "RunPod", "OCI", "Lambda"]}},
    "tender": {"weights": {"tco": 40, "power": 30, "technical": 20, "service": 10}},
}


@lru_cache(maxsize=1)
def found() -> Front:
    loaded = load_text(json.dumps(PROBLEM), "scores")
    assert loaded.problem.tender is not None
    study = Study(loaded, load_catalog())
    return pareto(study, ("cost", "power"), 3, 0.2, threading.Event(), quiet, loaded.problem.tender.by_criterion)


def test_plans_are_ranked_by_the_sum_of_their_points() -> None:
    front = found()
    assert front.scores is not None
    ranking = front.scores.ranking
    assert len(ranking) == len(front.points) + len(front.near) >= 2
    assert [m.rank for m in ranking] == list(range(1, len(ranking) + 1))
    assert [m.score for m in ranking] == sorted((m.score for m in ranking), reverse=True)
    for mark in ranking:
        assert mark.score == pytest.approx(sum(mark.points.values()), abs=1e-5)
    least = min(m.figures["tco"] or 0.0 for m in ranking)
    for mark in ranking:  # the proportional rule, by hand
        assert mark.points["tco"] == pytest.approx(40 * least / (mark.figures["tco"] or 1.0), abs=1e-5)
    best = max(m.figures["technical"] or 0.0 for m in ranking)
    assert best == 1.0
    assert "proportional" in front.scores.rule


def test_figures_are_those_of_the_plans() -> None:
    front = found()
    assert front.scores is not None
    for mark in front.scores.ranking:
        plan = front.points[mark.index] if mark.kind == "front" else front.near[mark.index]
        assert plan.result.cost is not None
        assert mark.figures["tco"] == float(plan.result.cost.total)
        assert mark.figures["service"] == max(i.start_h for i in plan.result.items if i.start_h is not None)
        if isinstance(plan, FrontPoint):
            assert mark.figures["power"] == plan.values["power"]


@pytest.mark.parametrize("seed", range(12))
def test_power_and_carbon_of_a_plan_are_what_the_model_says(seed: int) -> None:
    study = study_of(random_case(seed, objective=False, small=True))
    explorer = Explorer(study, ("cost", "carbon", "power"))
    if explorer.scaled is None:
        pytest.skip("no candidate at this seed")
    spot = explorer.lowest([["cost"]], {})
    if spot is None or spot.found.values is None:
        pytest.skip("no plan at this seed")
    inst = explorer.scaled.instance
    figures = figures_of(inst, spot.found.values)
    carbon, power = explorer._values(restricted(inst, range(len(inst.pools))), spot.found.values, ("carbon", "power"))
    assert (figures["carbon"], figures["power"]) == (carbon / 1000, power)


def plan(**changes: Any) -> FrontPoint:
    result: Result = mixed()
    assert result.cost is not None
    cost = result.cost.model_copy(update={k: v for k, v in changes.items() if k in ("total", "capex")})
    return FrontPoint(values={}, plan=str(changes), result=result.model_copy(update={"cost": cost}), figures={})


def test_what_is_free_is_best_and_what_is_not_known_gets_nothing() -> None:
    problem = load_text(json.dumps(PROBLEM), "scores").problem
    some = [plan(total=Decimal(100), capex=Decimal(0)), plan(total=Decimal(80), capex=Decimal(50))]
    marks = scored(some, (), {"tco": 60.0, "price": 30.0, "power": 10.0}, problem).ranking
    assert [(m.index, m.score) for m in marks] == [(0, 78.0), (1, 60.0)]
    assert [m.points for m in marks] == [
        {"tco": 48.0, "price": 30.0, "power": 0.0},
        {"tco": 60.0, "price": 0.0, "power": 0.0},
    ]
    with pytest.raises(BadRequest, match="tco of a plan is below zero"):
        scored([plan(total=Decimal(-1))], (), {"tco": 1.0}, problem)


def test_weights_are_read() -> None:
    assert parse_weights("cost:50, power:20,latency:10,technical:0") == {"tco": 50.0, "power": 20.0, "latency": 10.0}
    assert Tender.model_validate({"weights": {"cost": 50, "service": 0}}).by_criterion == {"tco": 50.0}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("price:1,speed:2", "speed is no criterion; there are tco, cost, price"),
        ("cost:1,tco:2", "tco is named twice"),
        ("cost:x", "write each criterion with its weight"),
        ("cost", "write each criterion with its weight"),
        ("cost:-1", "write each criterion with its weight"),
        ("cost:nan", "write each criterion with its weight"),
        ("cost:0", "at least one criterion needs a weight above 0"),
        (" ", "at least one criterion needs a weight above 0"),
    ],
)
def test_what_is_wrong_with_weights_is_said(text: str, said: str) -> None:
    with pytest.raises(BadRequest, match=said):
        parse_weights(text)


def test_axes_follow_the_weights_where_none_are_named() -> None:
    problem = load_text(json.dumps(PROBLEM), "scores").problem
    assert axes_for({"tco": 50.0, "service": 20.0}, problem) == "cost,power"
    assert axes_for({"tco": 50.0, "power": 5.0, "carbon": 20.0}, problem) == "cost,carbon"
    assert axes_for({"latency": 1.0, "time": 9.0}, problem) == "cost,latency"


@pytest.mark.parametrize("form", ["text", "json", "csv"])
@pytest.mark.slow
def test_the_command_gives_the_ranking_in_every_form(form: str, tmp_path: Any) -> None:
    file = tmp_path / "p.json"
    file.write_text(json.dumps(PROBLEM), encoding="utf-8")
    arguments = ["pareto", str(file), "--points", "2", "--format", form, "-q"]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    if form == "json":
        scores = json.loads(done.stdout)["scores"]
        assert [m["rank"] for m in scores["ranking"]] == list(range(1, len(scores["ranking"]) + 1))
        assert scores["weights"] == {"tco": 40.0, "power": 30.0, "technical": 20.0, "service": 10.0}
    elif form == "csv":
        frame = pl.read_csv(io.StringIO(done.stdout))
        assert frame["rank"].to_list() == list(range(1, frame.height + 1))
        assert {"score", "points_tco", "figure_service"} <= set(frame.columns)
    else:
        assert "Plans by weighted score" in done.stdout
        assert "Rule: proportional" in done.stdout


def test_axes_or_weights_must_be_given(tmp_path: Any) -> None:
    file = tmp_path / "p.json"
    file.write_text(json.dumps({k: v for k, v in PROBLEM.items() if k != "tender"}), encoding="utf-8")
    done = CliRunner().invoke(main, ["pareto", str(file)])
    assert done.exit_code == 2
    assert "--axes" in done.output
    done = CliRunner().invoke(main, ["pareto", str(file), "--score", "speed:1"])
    assert done.exit_code == 2
    assert "speed is no criterion" in done.output
