"""The cheapest mix of billing modes by load period: CP-SAT, plain enumeration (small) and HiGHS (medium) agree.

Random prices for real machines: on demand (by the hour, some by the day), reserved, subscription, spot with its fallback and
compute units, against calendars with two to six levels. Every so often the whole plan is made, and verify replays its hours.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import count, islice
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from catalogs.catalog import Catalog
from catalogs.compute_units import compute_unit_prices
from problems.load import LoadedProblem, load_text
from solver.candidates import build_candidates, reduced
from solver.events import SolveOptions
from solver.instance import Instance
from solver.scaling import scale
from solver.search_state import How
from solver.solve import solve
from solver.staged import staged
from solver.verify import verify
from tests.oracle.brute import TooLargeError, brute_force
from tests.oracle.highs import highs_optimum
from tests.oracle.problems import real_catalog
from tests.solver.test_oracles import cp_sat

SMALL, MEDIUM, WHOLE = 24, 12, 8
STEPS = 60_000


def catalog_of(rng: random.Random, machines: int, *, by_day: bool) -> Catalog:
    """So many one-card offers of the catalogue under random prices."""
    whole = real_catalog()
    single = whole.offers.filter(
        (pl.col("accelerator_count") == 1) & pl.col("accelerator").is_not_null() & ~pl.col("doubtful")
    )
    names = rng.sample(sorted(single["offer_id"]), machines)
    offers = whole.offers.filter(pl.col("offer_id").is_in(names)).sort("offer_id")
    like = whole.prices.filter(pl.col("billing") == "on_demand").row(0, named=True)
    rows: list[dict[str, Any]] = []

    def add(name: str, billing: str, amount: float, **more: Any) -> None:
        terms = {"term_months": 0.0, "upfront_share": 0.0, "min_hours": 0.0, "granularity_s": 1.0, "currency": "USD"}
        rows.append({**like, "offer_id": name, "billing": billing, "price_per_hour": round(amount, 4), **terms, **more})

    units = []
    for name, card, provider in offers.select("offer_id", "accelerator", "provider").iter_rows():
        full = rng.uniform(0.6, 3.0)
        daily = by_day and rng.random() < 0.4
        add(
            name,
            "on_demand",
            full,
            granularity_s=86400.0 if daily else 1.0,
            min_hours=rng.choice([0.0, 0.0, 30.0]) * by_day,
        )
        if rng.random() < 0.8:
            share = rng.choice([0.0, 0.5, 1.0])
            add(name, "reserved", full * rng.uniform(0.35, 0.8), term_months=12.0, upfront_share=share)
        if rng.random() < 0.5:
            add(name, "subscription", full * rng.uniform(0.5, 0.95), term_months=1.0)
        if rng.random() < 0.6:
            add(name, "spot", full * rng.uniform(0.2, 1.2), interruption_per_month=rng.choice([0.02, 0.2, 0.6]))
        if rng.random() < 0.4:
            units.append(
                {
                    "provider": provider,
                    "accelerator": card,
                    "unit": "CU",
                    "units_per_accelerator_hour": 2.0,
                    "price_per_unit": full * rng.uniform(0.4, 0.9),
                    "currency": "USD",
                    "min_hours": 0.0,
                    "granularity_s": 1.0,
                    "source": "s",
                    "as_of": "2026-01",
                    "confidence": "listed",
                    "notes": None,
                }
            )
    sold = pl.DataFrame(units, schema=whole.compute_units.schema).unique(["provider", "accelerator"], keep="first")
    prices = pl.DataFrame(rows, schema=whole.prices.schema)
    found = replace(whole, offers=offers, prices=prices, compute_units=sold)
    tables = {"prices": prices, "offers": offers, "compute_units": sold}
    return replace(found, prices=pl.concat([prices, compute_unit_prices(tables)]))


def calendar_of(rng: random.Random, levels: int) -> dict[str, Any]:
    """Hours of work days at so many levels, the first of them full; the weekend is empty or at the lowest."""
    cuts = [0, *sorted(rng.sample(range(1, 24), levels - 1)), 24]
    loads = ["100%", *(f"{rng.choice([0, 10, 20, 30, 45, 60, 75, 90])}%" for _ in range(levels - 1))]
    rng.shuffle(loads)
    return {
        "hours": {"mon-fri": {f"{a}-{b}": x for a, b, x in zip(cuts, cuts[1:], loads, strict=False)}, "sun": loads[-1]}
    }


def case(seed: int, *, small: bool) -> tuple[LoadedProblem, Catalog]:
    rng = random.Random(seed)
    catalog = catalog_of(rng, rng.choice([1, 2]) if small else rng.randint(5, 9), by_day=not small)
    cards = sorted(set(catalog.offers["accelerator"]))
    works = []
    for number in range(1 if small else rng.choice([1, 2])):
        load = rng.uniform(1.0, 3.0 if small else 12.0)
        works.append(
            {
                "name": f"serve{number}",
                "kind": "serve",
                "measured": [
                    {"accelerator": c, "accelerators": 1, "rate": f"{rng.uniform(0.5, 1.5):.4f} req/s"} for c in cards
                ],
                "traffic": {
                    "rate": f"{load:.3f} req/s",
                    "isl": 300,
                    "osl": 200,
                    "calendar": calendar_of(rng, rng.randint(2, 3 if small else 6)),
                },
                "interruptible": rng.random() < 0.7,
            }
        )
    billing = ["on_demand", "reserved", "subscription", "spot", "compute_unit"]
    policy: dict[str, Any] = {"billing": billing, "spot_share": f"{rng.choice([30, 60, 100])}%"}
    policy["rules"] = dict.fromkeys(("serving_nvme_tb", "serving_ram_ratio", "cores_per_gpu"), "off")
    whole = {"horizon": f"{rng.choice([3, 12, 14])}mo", "workloads": works, "policy": policy}
    return load_text(json.dumps(whole), f"<seed {seed}>"), catalog


def instances(first: int, *, small: bool) -> Iterator[tuple[int, LoadedProblem, Catalog, Instance]]:
    for seed in count(first):
        loaded, catalog = case(seed, small=small)
        found = reduced(build_candidates(loaded.problem, catalog, Path()))
        if not found.unserved:
            yield seed, loaded, catalog, scale(found, catalog).instance


@pytest.mark.parametrize("first", [1000, 2000])
def test_small_mixes_equal_enumeration(first: int) -> None:
    seen: Counter[str] = Counter()
    for seed, _, _, inst in instances(first, small=True):
        try:
            best = brute_force(inst, STEPS)
        except TooLargeError:
            continue
        assert best is not None
        found = cp_sat(inst)
        assert found.objective == best.objective, f"seed {seed}"
        assert found.values is not None
        for i, c in enumerate(inst.capacities):
            held = (
                found.values.commit[i] if c.commit else sum(found.values.hourly[i, p] for p in range(len(inst.periods)))
            )
            seen[c.billing] += bool(held)
        seen["all"] += 1
        if seen["all"] == SMALL // 2:
            break
    assert all(seen[mode] for mode in ("on_demand", "reserved", "spot")), seen


@pytest.mark.slow
def test_medium_mixes_equal_highs() -> None:
    for seed, _, _, inst in islice(instances(3000, small=False), MEDIUM):
        best = highs_optimum(inst).objective
        assert cp_sat(inst).objective == best, f"seed {seed}"
        in_stages = staged(inst, How(20.0, 0.0, 1, 1))
        assert in_stages is not None
        assert in_stages.objective == best, f"seed {seed}"


@pytest.mark.slow
def test_whole_plans_of_mixes_are_accepted_and_beat_single_modes() -> None:
    """The bill of every mode passes the recheck, and no mode alone is below the plan."""
    seen: Counter[str] = Counter()
    for made, (seed, loaded, catalog, inst) in enumerate(islice(instances(4000, small=False), WHOLE)):
        options = SolveOptions(time_limit_s=20, gap=0.0, workers=2, runner_up=False, single_modes=made < 3)
        result = solve(loaded, catalog, options)
        assert verify(result, loaded.problem, catalog) == [], f"seed {seed}"
        seen.update(i.billing.split(" ")[0] for i in result.items)
        assert all(
            other.total is None or float(other.total) >= (result.objective or 0.0) for other in result.single_modes
        )
        assert len(inst.periods) >= 2
    assert len(seen) >= 4, seen
