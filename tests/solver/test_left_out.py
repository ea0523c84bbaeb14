"""Problems too large for their budget, from the file to the report: what is served, left out, priced and rechecked."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import lru_cache
from typing import Any

import pytest

from catalogs.catalog import Catalog
from catalogs.load import load_catalog
from problems.issues import ProblemError
from problems.load import LoadedProblem, load_text
from solver.events import SolveOptions
from solver.pareto import front
from solver.plan import Level, Portfolio, Result
from solver.report.page import View
from solver.report.text import render_result
from solver.solve import solve
from solver.verify import verify
from solver.whatif.study import Study

CHAT: dict[str, Any] = {
    "name": "chat",
    "kind": "serve",
    "model": "mistral-7b",
    "traffic": {"rate": "30 req/s", "isl": 500, "osl": 100, "calendar": "day_night"},
    "priority": 1,
    "value": "$9k/mo",
    "min_share": "50%",
}
TUNE: dict[str, Any] = {
    "name": "tune",
    "kind": "finetune",
    "method": "qlora",
    "model": "mistral-7b",
    "tokens": "20M",
    "runs": "4/mo",
    "deadline": "48h",
    "priority": 2,
    "value": "$500/mo",
}
LAB: dict[str, Any] = {"name": "lab", "kind": "fixed", "accelerator": "L40S", "hours": "60h/mo"}
LAB |= {"priority": 2, "value": "$100/mo"}
PROBLEM: dict[str, Any] = {
    "workloads": [CHAT, TUNE, LAB],
    "limits": {"accelerators": ["L40S", "A100"], "budget": {"total": "$8k"}},
    "policy": {"billing": ["on_demand", "spot"]},
}


@lru_cache(maxsize=1)
def catalog() -> Catalog:
    return load_catalog()


def loaded(**changes: Any) -> LoadedProblem:
    return load_text(json.dumps({**PROBLEM, **changes}), "portfolio")


@lru_cache
def plan() -> tuple[LoadedProblem, Result]:
    at = loaded()
    return at, solve(at, catalog(), SolveOptions(time_limit_s=30, gap=0.0, workers=2))


def kept(result: Result) -> Portfolio:
    assert result.portfolio is not None
    return result.portfolio


def with_budget(total: str) -> Result:
    at = loaded(limits={**PROBLEM["limits"], "budget": {"total": total}})
    options = SolveOptions(time_limit_s=30, gap=0.0, workers=2, runner_up=False, additions=False)
    return solve(at, catalog(), options)


def test_plan_is_accepted_and_says_what_it_leaves_out() -> None:
    at, result = plan()
    assert verify(result, at.problem, catalog()) == []
    shares = {w.name: w.served_share for w in result.workloads}
    assert 0.5 <= shares["chat"] < 1
    assert {x.name for x in kept(result).left_out} == {n for n, s in shares.items() if s < 1}
    assert result.status == "optimal"
    assert result.cost is not None
    assert result.objective == float(result.cost.total)
    page = render_result(result, View(width=120))
    assert "Left out" in page
    assert "heapest plan, proved" not in page
    assert verify(Result.model_validate_json(result.model_dump_json()), at.problem, catalog()) == []


def test_price_of_an_addition_is_what_buys_it() -> None:
    """With as much more in the budget all is served; with a cent less it is not."""
    _, result = plan()
    whole = kept(result).whole or next(x.alone for x in kept(result).left_out)
    assert whole is not None
    assert whole.proved
    assert result.cost is not None
    needed = result.cost.total + whole.total
    assert kept(with_budget(f"${needed}")).left_out == ()
    assert kept(with_budget(f"${float(needed) - 0.01:.2f}")).left_out != ()


def test_single_modes_are_what_the_policy_alone_gives() -> None:
    _, result = plan()
    for mode in kept(result).single_modes:
        at = loaded(policy={"billing": [mode.billing]})
        options = SolveOptions(time_limit_s=30, gap=0.0, workers=2, runner_up=False, additions=False)
        alone = solve(at, catalog(), options)
        values = tuple(x.value for x in kept(alone).levels) if alone.portfolio else tuple(0.0 for _ in mode.values)
        assert values == mode.values
        assert values <= tuple(x.value for x in kept(result).levels)


def test_enough_money_is_the_problem_without_weights() -> None:
    bare = [{k: v for k, v in w.items() if k not in ("priority", "value", "min_share")} for w in (CHAT, TUNE, LAB)]
    options = SolveOptions(time_limit_s=30, gap=0.0, workers=2, runner_up=False)
    at = loaded(workloads=bare, limits={"accelerators": ["L40S", "A100"]})
    everything = solve(at, catalog(), options)
    weighed = solve(loaded(limits={"accelerators": ["L40S", "A100"]}), catalog(), options)
    assert weighed.objective == everything.objective
    assert everything.portfolio is None
    assert kept(weighed).left_out == ()


def test_work_that_nothing_can_do_is_left_out_and_says_so() -> None:
    impossible = {**LAB, "accelerator": {"memory": "10TB"}}
    at = loaded(workloads=[CHAT, impossible])
    result = solve(at, catalog(), SolveOptions(time_limit_s=30, workers=2, runner_up=False))
    assert verify(result, at.problem, catalog()) == []
    assert [x.because for x in kept(result).left_out if x.name == "lab"] == ["no offer or server can do it"]


def test_fronts_and_what_if_keep_the_values() -> None:
    at, result = plan()
    study = Study(at, catalog(), time_limit_s=20)
    assert study.solve().objective == result.objective
    import threading

    found, _ = front(study, ("cost", "carbon"), 2, threading.Event())
    assert found.points
    for point in found.points:
        assert [x.value for x in kept(point.result).levels] == [x.value for x in kept(result).levels]
        assert verify(point.result, at.problem.model_copy(update={"objective": "cost"}), catalog()) == []


# --- what verify refuses ---------------------------------------------------------------------------------------


def changed(result: Result, name: str, **update: Any) -> Result:
    works = tuple(w.model_copy(update=update) if w.name == name else w for w in result.workloads)
    return result.model_copy(update={"workloads": works})


def with_level(result: Result, **update: Any) -> Result:
    first, *rest = kept(result).levels
    levels: tuple[Level, ...] = (first.model_copy(update=update), *rest)
    return result.model_copy(update={"portfolio": kept(result).model_copy(update={"levels": levels})})


def test_verify_refuses() -> None:
    at, result = plan()

    def wrong(other: Result, says: str) -> None:
        assert any(says in text for text in verify(other, at.problem, catalog())), says

    wrong(changed(result, "chat", served_share=1.0), "served in")
    wrong(changed(result, "chat", served_share=0.4), "least share")
    wrong(changed(result, "tune", served_share=0.5), "least share")
    wrong(changed(result, "chat", served_share=0.0), "runs somewhere")
    wrong(with_level(result, value=9000.0), "value is")
    wrong(with_level(result, bound=9000.0), "called proved")
    wrong(with_level(result, bound=9000.0, proved=False), "called optimal")
    wrong(result.model_copy(update={"portfolio": None}), "without its priorities")
    wrong(result.model_copy(update={"portfolio": kept(result).model_copy(update={"left_out": ()})}), "left out are")
    plain = load_text(
        json.dumps(
            {**PROBLEM, "workloads": [{k: v for k, v in CHAT.items() if k not in ("priority", "value", "min_share")}]}
        )
    )
    partly = replace(plain).problem
    assert any("not in full" in text for text in verify(changed(result, "chat"), partly, catalog()))


# --- what a problem file may say -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("workloads", "extra", "says"),
    [
        ([{**TUNE, "min_share": "50%"}], {}, "a finetune workload is done whole or not at all"),
        (
            [CHAT, {k: v for k, v in LAB.items() if k != "value"} | {"priority": 1}],
            {},
            "lab has no value beside others",
        ),
        ([CHAT], {"objective": "scale"}, "scale grows all workloads alike"),
        ([{**CHAT, "value": "$9k"}], {}, "money per month"),
        ([{**CHAT, "priority": 0}], {}, "priority"),
        ([{**CHAT, "min_share": "0%"}], {}, "min_share"),
        ([{**CHAT, "min_share": "120%"}], {}, "min_share"),
    ],
)
def test_bad_weights_are_refused(workloads: list[dict[str, Any]], extra: dict[str, Any], says: str) -> None:
    with pytest.raises(ProblemError) as error:
        loaded(workloads=workloads, **extra)
    assert says in str(error.value)
