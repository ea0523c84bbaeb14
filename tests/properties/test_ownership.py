"""Random terms of owning and renting: plans are accepted, months add up, and no plan of one kind beats the best."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from problems.load import load_text
from solver.candidates import reduced
from solver.cash_flow import spread
from solver.events import SolveOptions
from solver.model import build_model
from solver.plan import Status
from solver.scaling import scale
from solver.search import run
from solver.solve import solve
from solver.verify import verify
from tests.oracle.highs import highs_optimum
from tests.oracle.problems import Case, random_case

CASES = 10


def random_tco(rng: random.Random, providers: list[str]) -> dict[str, Any]:
    """Terms drawn at random, each there or not."""
    tco: dict[str, Any] = {"depreciation": rng.choice(["cash", "straight_line", "annuity"])}
    if rng.random() < 0.5:
        tco["life"] = rng.choice(["12mo", "30mo", {"server": "18mo"}])
    if rng.random() < 0.5:
        tco["residual"] = rng.choice(["10%", {"server": "25%"}])
    if rng.random() < 0.4:
        tco["maintenance"] = "5%"
    if rng.random() < 0.5:
        tco["spares"] = rng.choice([{"parts": "4%"}, {"nodes": 1}, {"node_share": "20%"}, {"parts": "2%", "nodes": 2}])
    if rng.random() < 0.5:
        tco["staff"] = {"salary": "$90k/yr", "persons": rng.choice([0, 0.05, 0.3]), "per_node": rng.choice([0, 0.02])}
    if rng.random() < 0.5:
        tco["setup"] = {"site": f"${rng.randint(0, 9)}k", "node": "$300", "provider": f"${rng.randint(0, 900)}"}
    if rng.random() < 0.6:
        terms = [{"support": "8%"}, {"goodput": "93%"}, {"fee": "$150/mo"}, {"setup": "$800", "goodput": "98%"}]
        tco["providers"] = {name: rng.choice(terms) for name in providers if rng.random() < 0.6}
        tco["providers"]["any"] = rng.choice(terms)
    if rng.random() < 0.4:
        tco["financing"] = {"upfront": f"{rng.choice([0, 30, 100])}%", "rate": rng.choice(["0%", "7%"])}
    if rng.random() < 0.4:
        tco["tax"] = rng.choice(["19%", {"purchase": "8%"}, {"rental": "6%"}])
    return tco


def cases(first_seed: int, *, objective: bool = False) -> Iterator[Case]:
    for seed in count(first_seed):
        case = random_case(seed, objective=objective)
        problem = json.loads(case.loaded.text)
        rng = random.Random(-seed)
        problem["tco"] = random_tco(rng, sorted(case.catalog.offers["provider"].unique()))
        yield replace(case, loaded=load_text(json.dumps(problem), case.loaded.path))


@pytest.mark.slow
def test_plans_under_random_terms_are_accepted() -> None:
    seen = 0
    compared = 0
    for case in cases(910_000, objective=True):
        result = solve(case.loaded, case.catalog, SolveOptions(time_limit_s=60, gap=0.0, workers=2))
        problem = case.loaded.problem
        assert verify(result, problem, case.catalog) == [], case.seed
        if result.cost is None:
            continue
        seen += 1
        assert sum((m.total for m in result.cash_flow), Decimal(0)) == result.cost.total, case.seed
        if result.objective_name == "cost" and not problem.policy.discount_rate:
            assert result.objective == pytest.approx(float(result.cost.total), abs=0.005), case.seed
        for other in result.alternatives:
            if other.difference is not None and result.status is Status.OPTIMAL:
                compared += 1
                assert other.difference >= -1e-9, (case.seed, other.name)
        if seen >= CASES:
            break
    assert compared >= 3


@pytest.mark.slow
def test_charges_by_provider_are_not_lost_with_dominated_candidates() -> None:
    """The optimum with and without dominated candidates, and by HiGHS on the same integers, is the same."""
    seen = 0
    for case in cases(920_000):
        found = case.candidates()
        if found.replicas.height + found.options.height > 120:
            continue
        values = []
        for prune in (True, False):
            small = reduced(found, prune=prune)
            if small.unserved:
                break
            inst = scale(small, case.catalog).instance
            search = run(build_model(inst), time_limit_s=60, gap=0.0, workers=2, seed=1, patience=1.0)
            assert search.status in (Status.OPTIMAL, Status.INFEASIBLE), case.seed
            values.append(search.objective)
            if prune:
                assert highs_optimum(inst).objective == search.objective, case.seed
        if len(values) == 2:
            assert values[0] == values[1], case.seed
            seen += 1
        if seen >= CASES:
            break


@given(
    st.integers(-(10**12), 10**12),
    st.dictionaries(st.integers(0, 60), st.floats(0.001, 1000), min_size=1, max_size=40),
)
def test_spread_keeps_every_cent(cents: int, weights: dict[int, float]) -> None:
    parts = spread(cents, weights)
    assert sum(parts.values()) == cents
    whole = sum(weights.values())
    for month, part in parts.items():
        assert abs(part - cents * weights[month] / whole) <= 1.5 + 1e-6 * abs(cents)
