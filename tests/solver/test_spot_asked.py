"""Spot is for what asks for it: a workload's own wish for spot opens it to no other."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from catalogs.catalog import Catalog
from catalogs.load import load_catalog
from problems.load import load_text
from solver.events import SolveOptions
from solver.plan import Result
from solver.solve import solve
from solver.verify import verify

LAB: dict[str, Any] = {
    "name": "lab", "kind": "fixed", "accelerator": {"memory": "16GB"}, "count": 1, "hours": "60h/mo", "spot": True,
}  # fmt: skip
TUNE: dict[str, Any] = {
    "name": "tune", "kind": "finetune", "model": "llama-3.1-8b", "method": "lora", "tokens": "50M", "deadline": "72h",
}  # fmt: skip
OPTIONS = SolveOptions(gap=0.0, workers=2, time_limit_s=30, runner_up=False)


@lru_cache(maxsize=1)
def catalog() -> Catalog:
    return load_catalog()


def solved(*works: dict[str, Any], **policy: Any) -> tuple[Result, list[str]]:
    loaded = load_text(json.dumps({"workloads": list(works), "policy": policy}), "test")
    result = solve(loaded, catalog(), OPTIONS)
    assert result.cost is not None
    return result, verify(result, loaded.problem, catalog())


def on_spot(result: Result) -> set[str]:
    return {w.name for w in result.workloads for p in w.placements if p.pool.endswith("#spot")}


def test_one_workload_on_spot_takes_no_other_along() -> None:
    alone, _ = solved(TUNE)
    both, wrong = solved(LAB, TUNE)
    lab, _ = solved(LAB)
    assert wrong == []
    assert on_spot(lab) == {"lab"}
    assert on_spot(both) == {"lab"}
    assert on_spot(alone) == set()
    assert both.objective is not None
    assert alone.objective is not None
    assert lab.objective is not None
    assert abs(both.objective - alone.objective - lab.objective) < 0.015


def test_the_policy_opens_spot_to_all() -> None:
    both, wrong = solved(LAB, TUNE, billing=["on_demand", "spot"])
    assert wrong == []
    assert on_spot(both) == {"lab", "tune"}


def test_verify_refuses_spot_that_nothing_asks_for() -> None:
    both, _ = solved(LAB, TUNE, billing=["on_demand", "spot"])
    loaded = load_text(json.dumps({"workloads": [LAB, TUNE]}), "test")
    assert any("on spot, which nothing asks for" in text for text in verify(both, loaded.problem, catalog()))
