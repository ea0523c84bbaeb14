"""Random terms of owning and renting where the load grows: plans are accepted, proved by a second solver, and add up."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from typing import Any

import polars as pl
import pytest

from catalogs.catalog import Catalog
from problems.load import LoadedProblem, load_text
from solver.candidates import build_candidates, reduced
from solver.events import SolveOptions
from solver.plan import Result, Status
from solver.scaling import scale
from solver.solve import base_dir, solve
from solver.verify import verify
from tests.oracle.highs import highs_optimum
from tests.oracle.problems import real_catalog
from tests.properties.test_ownership import random_tco

OFFER = "AWS/g6e.xlarge/us-east-1"
SEEN = ("late purchase", "late reservation", "financed late", "discounted", "spares with a late purchase")


def small(rng: random.Random) -> Catalog:
    """One offer at random prices by the hour and reserved, and two servers that take its card, cheap enough to matter."""
    catalog = real_catalog()
    usual = catalog.prices.filter((pl.col("offer_id") == OFFER) & (pl.col("billing") == "on_demand")).row(0, named=True)
    price = rng.uniform(0.6, 4.0)
    ways: list[tuple[str, float, float, float]] = [("on_demand", 0.0, 0.0, price)]
    for _ in range(rng.choice([0, 1, 2])):
        term, upfront = rng.choice([1.0, 4.0, 12.0]), rng.choice([0.0, 0.5, 1.0])
        ways.append(("reserved", term, upfront, price * rng.uniform(0.5, 0.9)))
    rows = [
        {**usual, "billing": b, "term_months": t, "upfront_share": u, "price_per_hour": round(x, 4), "currency": "USD"}
        for b, t, u, x in ways
    ]
    prices = pl.DataFrame(rows, schema=catalog.prices.schema).unique(["billing", "term_months", "upfront_share"])
    fitting = catalog.servers.filter(
        pl.col("fits").str.split(";").list.contains("L40S") & pl.col("price_usd").is_not_null()
    )
    chosen = rng.sample(sorted(fitting["server"]), 2)
    return replace(
        catalog,
        offers=catalog.offers.filter(pl.col("offer_id") == OFFER),
        prices=prices.sort("billing", "term_months", "upfront_share"),
        servers=fitting.filter(pl.col("server").is_in(chosen)).with_columns(pl.col("price_usd") * 0.2),
    )


def random_problem(seed: int) -> tuple[LoadedProblem, Catalog]:
    rng = random.Random(seed)
    catalog = small(rng)
    horizon = rng.choice(["18mo", "24mo", "20.5mo"])
    later = rng.choice(["5mo", "6mo", "7.5mo"])
    traffic: dict[str, Any] = {"rate": "2 req/s", "isl": 300, "osl": 100}
    traffic["stages"] = [
        {"from": "0mo", "scale": "100%"},
        {"from": later, "scale": rng.choice(["200%", "400%", "50%"])},
    ]
    if rng.random() < 0.4:
        traffic["stages"].append({"from": "13mo", "scale": rng.choice(["300%", "600%"])})
    if rng.random() < 0.4:
        traffic["calendar"] = "day_night"
    rate = rng.choice([0.7, 1.0, 2.0])
    chat = {
        "name": "chat",
        "kind": "serve",
        "traffic": traffic,
        "measured": [{"accelerator": "L40S", "rate": f"{rate} req/s"}],
    }
    policy: dict[str, Any] = {"billing": ["on_demand", "reserved", "purchase"]}
    if rng.random() < 0.6:
        policy["discount_rate"] = rng.choice(["6%", "15%"])
    if rng.random() < 0.3:
        policy["lead_time"] = {"purchase": rng.choice(["45d", "2mo"])}
    policy["residual_value"] = rng.choice(["0%", "30%"])
    policy["pro_rate_commitments"] = rng.random() < 0.3
    problem = {
        "horizon": horizon,
        "workloads": [chat],
        "sites": [{"name": "room", "pue": 1.3, "electricity": "$0.15/kWh", "space": "$90/kW/mo", "country": "US"}],
        "policy": policy,
        "tco": random_tco(rng, ["AWS"]),
    }
    if rng.random() < 0.5:
        problem["tco"]["financing"] = {"upfront": "20%", "rate": "5%", "term": rng.choice(["6mo", "15mo", "36mo"])}
    return load_text(json.dumps(problem)), catalog


def what_is_in(result: Result, loaded: LoadedProblem) -> Counter[str]:
    bought_late = any(i.kind == "server" and (i.from_month or 0) > 0 for i in result.items)
    tco = loaded.problem.tco
    seen = {
        "late purchase": bought_late,
        "late reservation": any(i.kind == "rental" and (i.from_month or 0) > 0 for i in result.items),
        "financed late": bought_late and tco.financing is not None,
        "discounted": loaded.problem.policy.discount_rate > 0,
        "spares with a late purchase": bought_late and bool(tco.spares.nodes or tco.spares.node_share),
    }
    return Counter(name for name, found in seen.items() if found)


def look(first_seed: int, number: int) -> Counter[str]:
    seen: Counter[str] = Counter()
    for seed in range(first_seed, first_seed + number):
        loaded, catalog = random_problem(seed)
        result = solve(loaded, catalog, SolveOptions(time_limit_s=60, gap=0.0, workers=1))
        assert verify(result, loaded.problem, catalog, base_dir(loaded)) == [], seed
        assert result.status is Status.OPTIMAL, seed
        assert result.cost is not None
        assert result.objective is not None
        inst = scale(reduced(build_candidates(loaded.problem, catalog, base_dir(loaded))), catalog).instance
        best = highs_optimum(inst).objective
        assert best is not None
        assert result.objective == pytest.approx(best / 100, abs=0.006), seed
        flows = [(result.cash_flow, result.cost.total)]
        flows += [(a.cash_flow, a.total) for a in result.alternatives if a.total is not None]
        for flow, total in flows:
            assert sum((m.total for m in flow), Decimal(0)) == total, seed
        for other in result.alternatives:
            assert other.difference is None or other.difference >= -1e-9, (seed, other.name)
        seen += what_is_in(result, loaded)
    return seen


@pytest.mark.slow
def test_growing_plans_under_random_terms_are_accepted_and_optimal() -> None:
    seen = look(930_000, 14)
    assert min(seen[name] for name in SEEN) >= 1, seen


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(1))
def test_growing_plans_under_random_terms_at_length(chunk: int) -> None:
    seen = look(931_000 + 1000 * chunk, 25)
    assert min(seen[name] for name in SEEN) >= 1, seen
