"""A comparison that finds a better plan than the plan itself: then that is the plan."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from catalogs.catalog import Catalog
from catalogs.load import load_catalog
from problems.load import LoadedProblem, load_problem, load_text
from solver import solve as module
from solver.bounding.restrict import restricted
from solver.cheaper import Cheaper, in_its_place
from solver.instance import Instance
from solver.least import Looked
from solver.plan import Result, Status, StopReason
from solver.search import Found, Values
from solver.solve import SolveOptions, solve
from solver.verify import verify

EXAMPLES = Path(__file__).parents[2] / "problems"
NOTHING = Values({}, {}, {}, {}, {}, {}, {}, {})
LAB = """
horizon: 3mo
workloads:
  - {name: lab, kind: fixed, accelerator: {memory: 40GB}, count: 2}
sites:
  - {name: room, power: 20kW, electricity: $0.1/kWh, country: US}
"""


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load_catalog()


def _used(inst: Instance, values: Values) -> set[int]:
    used = {inst.capacities[i].pool for i, n in values.commit.items() if n}
    used |= {inst.capacities[i].pool for (i, _), n in values.hourly.items() if n}
    return used | {inst.options[q].pool for q, n in values.chosen.items() if n}


def _poor(monkeypatch: pytest.MonkeyPatch, low: float) -> dict[str, Any]:
    """The main search gives a plan without the accelerators of the best one, unproved; `low` times the optimum as its bound."""
    search, seen = module._search, {}

    def poor(instance: Instance, *args: Any) -> Looked:
        best = search(instance, *args)
        assert best.found.values is not None
        assert best.found.objective is not None
        cards = {instance.pools[o].accelerator for o in _used(instance, best.found.values)}
        part = restricted(instance, [o for o, p in enumerate(instance.pools) if p.accelerator not in cards])
        worse = search(part.instance, *args).found
        assert worse.values is not None
        assert worse.objective is not None
        assert worse.objective > best.found.objective
        seen.update(best=best.found.objective, worse=worse.objective)
        bound = low * best.found.objective
        values = part.widened(worse.values)
        return Looked(
            replace(worse, values=values, status=Status.FEASIBLE, stop_reason=StopReason.TIME_LIMIT, bound=bound)
        )

    monkeypatch.setattr(module, "_search", poor)
    return seen


def _others(result: Result) -> list[float]:
    """Totals of all that a plan is held against."""
    runner, one = result.runner_up, result.single_type
    some = [a.total for a in result.alternatives] + [a.total for a in result.single_modes]
    some += [x.total for x in (runner, one, result.unshared) if x is not None]
    return [float(x) for x in some if x is not None]


def _problem(name: str) -> LoadedProblem:
    return load_text(LAB, "lab.yaml") if name == "lab" else load_problem(EXAMPLES / f"{name}.yaml")


@pytest.mark.parametrize(
    ("name", "low"),
    [("lab", 0.9), ("lab", 1.0), pytest.param("small-office", 0.9, marks=pytest.mark.slow)],
)
def test_a_better_plan_takes_the_plans_place(
    monkeypatch: pytest.MonkeyPatch, catalog: Catalog, name: str, low: float
) -> None:
    loaded = _problem(name)
    seen = _poor(monkeypatch, low)
    result = solve(loaded, catalog, SolveOptions(gap=0.0, workers=1))
    assert result.cost is not None
    assert result.objective is not None
    cents = round(result.objective * 100)
    assert seen["best"] <= cents < seen["worse"]
    assert result.bound == round(low * seen["best"] / 100, 2)
    assert (result.status is Status.OPTIMAL) is (low == 1.0)
    assert verify(result, loaded.problem, catalog, EXAMPLES) == []
    held = _others(result)
    assert held
    assert min(held) >= float(result.cost.total)


def test_only_a_better_plan_is_kept() -> None:
    kept = Cheaper(100)
    found = Found(Status.FEASIBLE, StopReason.TIME_LIMIT, 100, 50.0, NOTHING, 0.0, 0.0, 0, 0)
    for offered in (found, replace(found, objective=90, values=None), replace(found, objective=None)):
        kept.offer(None, None, offered)  # type: ignore[arg-type]
        assert kept.found is None
    kept.offer(None, None, replace(found, objective=90))  # type: ignore[arg-type]
    kept.offer(None, None, replace(found, objective=95))  # type: ignore[arg-type]
    assert kept.objective == 90


@pytest.mark.parametrize(
    ("bound", "before", "status", "why"),
    [
        (90.0, StopReason.TIME_LIMIT, Status.OPTIMAL, StopReason.PROVED),
        (95.0, StopReason.TIME_LIMIT, Status.OPTIMAL, StopReason.PROVED),
        (89.9, StopReason.TIME_LIMIT, Status.FEASIBLE, StopReason.GAP_REACHED),
        (89.9, StopReason.INTERRUPTED, Status.FEASIBLE, StopReason.INTERRUPTED),
        (50.0, StopReason.TIME_LIMIT, Status.FEASIBLE, StopReason.TIME_LIMIT),
        (None, StopReason.TIME_LIMIT, Status.FEASIBLE, StopReason.TIME_LIMIT),
    ],
)
def test_its_bound_is_that_of_the_search(
    bound: float | None, before: StopReason, status: Status, why: StopReason
) -> None:
    searched = Found(Status.FEASIBLE, before, 120, bound, NOTHING, 7.0, 1.0, 0, 0)
    better = Found(Status.OPTIMAL, StopReason.PROVED, 90, 90.0, NOTHING, 0.1, 0.1, 0, 0)
    known = in_its_place(better, searched, 0.01)
    assert (known.status, known.stop_reason, known.objective) == (status, why, 90)
    assert known.bound == (None if bound is None else min(bound, 90.0))
