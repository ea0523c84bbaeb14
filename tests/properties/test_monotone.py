"""What must hold of `solve` whatever the problem: limits, offers and the order of catalogue rows act as they must."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from decimal import Decimal
from functools import lru_cache
from itertools import count
from pathlib import Path

import polars as pl
import pytest

from catalogs.catalog import Catalog
from problems.load import LoadedProblem, load_problem, load_text
from solver.events import SolveOptions
from solver.plan import Result, Status, StopReason
from solver.solve import solve
from solver.verify import verify
from tests.oracle.problems import Case, random_case, real_catalog

PROBLEMS = Path(__file__).resolve().parents[2] / "problems"
OPTIONS = SolveOptions(time_limit_s=60, gap=0.0, workers=2, runner_up=False)
CASES = 6
NUMBERS = [0, 1, 2, *(pytest.param(n, marks=pytest.mark.slow) for n in range(3, CASES))]
STEP = Decimal("0.01")


def solved(loaded: LoadedProblem, catalog: Catalog) -> Result:
    """Solve to a proof, and have every plan checked again."""
    result = solve(loaded, catalog, OPTIONS)
    assert result.status in (Status.OPTIMAL, Status.INFEASIBLE)
    assert verify(result, loaded.problem, catalog, loaded.base_dir) == []
    return result


def total(result: Result) -> Decimal:
    return Decimal("Infinity") if result.cost is None else result.cost.total


def changed(case: Case, **limits: str) -> LoadedProblem:
    """The case's problem with limits set on top (budget parts as budget_total, ...)."""
    problem = json.loads(case.loaded.text)
    for name, value in limits.items():
        if name.startswith("budget_"):
            problem["limits"].setdefault("budget", {})[name.removeprefix("budget_")] = value
        else:
            problem["limits"][name] = value
    return load_text(json.dumps(problem), case.loaded.path)


@lru_cache(maxsize=1)
def feasible_cases() -> tuple[tuple[Case, Result], ...]:
    """Random problems without a discount rate or budget that have a plan with something to pay."""
    found = []
    for seed in count(300_000):
        case = random_case(seed, objective=False)
        problem = case.loaded.problem
        budget = problem.limits.budget
        if problem.policy.discount_rate or budget.total or budget.monthly or budget.capex:
            continue
        candidates = case.candidates()
        if candidates.unserved or candidates.replicas.height > 60:
            continue
        result = solved(case.loaded, case.catalog)
        if result.cost is not None and result.cost.total > 0:
            found.append((case, result))
        if len(found) == CASES:
            return tuple(found)
    raise AssertionError("unreachable")


@pytest.mark.parametrize("n", NUMBERS)
@pytest.mark.parametrize("part", ["total", "monthly", "capex"])
def test_more_budget_never_costs_more(n: int, part: str) -> None:
    case, free = feasible_cases()[n]
    assert free.cost is not None
    paid = {"total": free.cost.total, "monthly": free.cost.monthly, "capex": free.cost.capex}[part]
    unit = "/mo" if part == "monthly" else ""
    last = Decimal("Infinity")
    for share in ("0.5", "0.9", "1", "1.5"):
        cap = (paid * Decimal(share)).quantize(STEP)
        now = total(solved(changed(case, **{f"budget_{part}": f"${cap}{unit}"}), case.catalog))
        assert now <= last
        last = now
    assert last == free.cost.total


@pytest.mark.parametrize("n", NUMBERS)
def test_a_budget_one_cent_below_the_optimum_is_infeasible_by_proof(n: int) -> None:
    case, free = feasible_cases()[n]
    assert free.cost is not None
    just = solved(changed(case, budget_total=f"${free.cost.total}"), case.catalog)
    assert total(just) == free.cost.total
    less = solved(changed(case, budget_total=f"${free.cost.total - STEP}"), case.catalog)
    assert (less.status, less.stop_reason) == (Status.INFEASIBLE, StopReason.PROVED)


@pytest.mark.parametrize("name", ["chat-70b-int4", "experiments", "small-office"])
def test_an_example_one_cent_below_its_optimum_is_infeasible_by_proof(name: str) -> None:
    path = PROBLEMS / f"{name}.yaml"
    assert load_problem(path).problem.policy.discount_rate == 0
    free = solved(load_problem(path), real_catalog())
    assert free.cost is not None
    at = load_problem(path, [f"limits.budget.total=${free.cost.total}"])
    assert total(solved(at, real_catalog())) == free.cost.total
    below = solved(load_problem(path, [f"limits.budget.total=${free.cost.total - STEP}"]), real_catalog())
    assert (below.status, below.stop_reason) == (Status.INFEASIBLE, StopReason.PROVED)


def test_more_power_never_costs_more() -> None:
    last, seen = Decimal("Infinity"), []
    for power_kw in (1, 2, 4, 8, 16):
        text = json.dumps(
            {
                "horizon": "36mo",
                "workloads": [
                    {
                        "name": "w",
                        "kind": "serve",
                        "measured": [
                            {"accelerator": "L40S", "rate": "3 req/s"},
                            {"accelerator": "L4", "rate": "0.8 req/s"},
                        ],
                        "traffic": {"rate": "9 req/s", "isl": 500, "osl": 100},
                    }
                ],
                "sites": [{"name": "room", "electricity": "$0.15/kWh", "power": f"{power_kw}kW"}],
                "limits": {"accelerators": ["L40S", "L4"]},
                "policy": {"billing": ["purchase"]},
            }
        )
        now = total(solved(load_text(text), real_catalog()))
        assert now <= last
        seen.append(now)
        last = now
    assert seen[0] == Decimal("Infinity")
    assert seen[-1] < Decimal("Infinity")


def with_dearer_offers(catalog: Catalog, *, factor: float) -> Catalog:
    """Every offer once more in a region of its own, dearer under every billing mode."""
    offers = catalog.offers.with_columns(
        region=pl.col("region") + "-new", offer_id=pl.col("offer_id") + "-new", offer=pl.col("offer")
    )
    prices = catalog.prices.with_columns(
        offer_id=pl.col("offer_id") + "-new", price_per_hour=pl.col("price_per_hour") * factor
    )
    return replace(catalog, offers=pl.concat([catalog.offers, offers]), prices=pl.concat([catalog.prices, prices]))


@pytest.mark.parametrize("n", NUMBERS)
def test_dearer_extra_offers_change_nothing(n: int) -> None:
    """Not with a node limit: then the same offer elsewhere may well be wanted, however dear."""
    case, free = feasible_cases()[n]
    problem = case.loaded.problem
    if problem.limits.quota or any(getattr(w, "redundancy", "none") != "none" for w in problem.workloads):
        free = solved(load_text(json.dumps(unlimited(case)), case.loaded.path), case.catalog)
    loaded = load_text(json.dumps(unlimited(case)), case.loaded.path)
    assert total(solved(loaded, with_dearer_offers(case.catalog, factor=1.07))) == total(free)


def unlimited(case: Case) -> dict[str, object]:
    """The case's problem without quotas and redundancy."""
    problem: dict[str, object] = json.loads(case.loaded.text)
    limits, works = problem["limits"], problem["workloads"]
    assert isinstance(limits, dict)
    assert isinstance(works, list)
    limits.pop("quota", None)
    for work in works:
        work.pop("redundancy", None)
    return problem


def shuffled(catalog: Catalog, seed: int) -> Catalog:
    """The same rows of every table in another order."""
    frames = {f.name: getattr(catalog, f.name) for f in fields(catalog)}
    mixed = {
        name: frame.sample(fraction=1.0, shuffle=True, seed=seed)
        for name, frame in frames.items()
        if isinstance(frame, pl.DataFrame)
    }
    return replace(catalog, **mixed)


@pytest.mark.parametrize("n", NUMBERS)
def test_the_order_of_catalogue_rows_is_of_no_consequence(n: int) -> None:
    case, free = feasible_cases()[n]
    assert total(solved(case.loaded, shuffled(case.catalog, n))) == total(free)


@pytest.mark.parametrize("name", ["chat-70b-int4", "small-office"])
def test_the_order_of_rows_of_the_whole_catalogue_is_of_no_consequence(name: str) -> None:
    loaded = load_problem(PROBLEMS / f"{name}.yaml")
    assert total(solved(loaded, shuffled(real_catalog(), 7))) == total(solved(loaded, real_catalog()))


@pytest.mark.slow
def test_plans_of_random_problems_are_accepted() -> None:
    """All objectives, with budgets, sites, jobs and several sizes: whatever is found, `verify` agrees."""
    plans = 0
    for seed in range(400_000, 400_020):
        case = random_case(seed, several=seed % 4 == 0, small=seed % 4 == 0)
        candidates = case.candidates()
        if candidates.replicas.height <= 60:
            plans += solved(case.loaded, case.catalog).cost is not None
    assert plans >= 6
