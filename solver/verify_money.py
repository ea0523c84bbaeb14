"""Recompute every line of a bill from the catalogue's prices."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import polars as pl

from catalogs.catalog import Catalog
from problems.schema import Problem
from solver.plan import Item, Result
from solver.verify_hours import away_on_demand, check_block, held_hours, hired_hours
from solver.verify_traffic import spans, there

HOURS = 730.0
HIRED = ("on_demand", "spot", "capacity_block", "compute_unit")


def exchange(catalog: Catalog, source: str, target: str) -> float | None:
    """Units of `target` per unit of `source`: directly, inverted, or over USD; None without a path."""
    if source == target:
        return 1.0

    def one(a: str, b: str) -> float | None:
        if a == b:
            return 1.0
        for row in catalog.fx.iter_rows(named=True):
            if (row["from_currency"], row["to_currency"]) == (a, b):
                return float(row["rate"])
            if (row["from_currency"], row["to_currency"]) == (b, a):
                return 1 / float(row["rate"])
        return None

    direct = one(source, target)
    if direct is not None:
        return direct
    first, second = one(source, "USD"), one("USD", target)
    return None if first is None or second is None else first * second


def check_bill(result: Result, problem: Problem, catalog: Catalog) -> list[str]:
    """Lines add up, each line's unit cost is the catalogue's price times hours, and budgets hold."""
    assert result.cost is not None
    wrong: list[str] = []
    total = sum((i.total_cost for i in result.items), Decimal(0))
    if total != result.cost.total:
        wrong.append(f"lines add up to {total}, the plan says {result.cost.total}")
    if sum(result.cost.by_category.values(), Decimal(0)) != result.cost.total:
        wrong.append("categories do not add up to the total")
    for item in result.items:
        if item.kind == "energy" and item.pool is None and item.gear is None:
            continue
        if abs(item.unit_cost * Decimal(repr(item.quantity)) - item.total_cost) > Decimal("0.01") + Decimal(
            repr(item.quantity)
        ) * Decimal("1e-6"):
            wrong.append(f"{item.item}: {item.quantity} x {item.unit_cost} is not {item.total_cost}")
        if item.kind == "rental" and item.billing.split(" ")[0] not in ("lease", "running"):  # those: check_fleet
            wrong += _check_rental(item, result, problem, catalog)
        elif item.kind == "server" and item.billing == "purchase":
            wrong += _check_server(item, problem, catalog)
    is_total = result.objective_name == "cost" and problem.policy.discount_rate == 0 and result.objective is not None
    if is_total and abs(float(result.cost.total) - (result.objective or 0.0)) > 0.005:
        wrong.append(f"objective {result.objective} is not the bill's total {result.cost.total}")
    return wrong


def _check_rental(item: Item, result: Result, problem: Problem, catalog: Catalog) -> list[str]:
    """Unit cost against price x hours x exchange rate; a cent per period of rounding against the buyer is allowed."""
    name = (item.pool or "").removesuffix("#spot").removesuffix("#units")
    billing, term, upfront = billing_terms(item.billing)
    rows = catalog.prices.filter((pl.col("offer_id") == name) & (pl.col("billing") == billing))
    if term:
        rows = rows.filter(pl.col("term_months") == term)
    if billing != "capacity_block":  # always paid up front, and hired for a job
        rows = rows.filter((pl.col("upfront_share").fill_null(0) - upfront).abs() < 0.005)
    if rows.is_empty():
        return [f"{item.item}: no price for {item.billing} in the catalogue"]
    allowed = problem.billing_modes
    wrong = [] if billing in allowed else [f"{item.item}: billing {billing} is not allowed"]
    best = None
    surcharges = 0.03 if problem.tco.tax.rental or problem.tco.providers else 0.0  # rounded down apart from the rent
    for row in rows.iter_rows(named=True):
        rate = exchange(catalog, row["currency"], problem.currency)
        if rate is None:
            continue
        away, full = away_on_demand(name, problem, catalog, row)
        if abs((item.fallback_share or 0.0) - away) > 1e-6:
            wrong.append(f"{item.item}: {item.fallback_share or 0:.3%} expected on demand, it is {away:.3%}")
        price = row["price_per_hour"] * rate * (1 - away)
        if full is not None:
            price += full["price_per_hour"] * (exchange(catalog, full["currency"], problem.currency) or 0.0) * away
        price *= _part_in_use(item, result, catalog) if billing == "compute_unit" else 1.0
        wrong += check_block(item, problem, catalog, row)
        hours = _hours(item, result, problem, catalog, row, term)
        exact = price * hours
        rounding = 0.01 * max(1, len(result.periods)) + 1e-9 * exact
        difference = float(item.unit_cost) - exact
        if -1e-6 * max(1.0, exact) - 0.005 <= difference <= rounding + surcharges + 0.005:
            return wrong
        best = exact
    return [*wrong, f"{item.item}: unit cost {item.unit_cost} but price x hours is {best}"]


def _hours(item: Item, result: Result, problem: Problem, catalog: Catalog, row: dict[str, Any], term: float) -> float:
    if term:
        return HOURS * paid_months(item, result, problem, term)
    if item.hours_per_month is None:
        return held_hours(item, result, problem, row)
    return hired_hours(item, problem, catalog, row)


def _part_in_use(item: Item, result: Result, catalog: Catalog) -> float:
    """Part of the accelerators of a line sold by compute units that is paid in it: of jobs those in use, of services none."""
    if item.hours_per_month is None:
        return 0.0
    name = item.parts[0].removeprefix("for ") if item.parts else ""
    used = sum(p.accelerators_per_replica for w in result.workloads if w.name == name for p in w.placements)
    return used / (item.accelerators or 1)


def paid_months(item: Item, result: Result, problem: Problem, term: float) -> float:
    """Months paid for a commitment: the fewest whole terms that last as long as it is held, cut at the horizon if pro-rated."""
    start = item.from_month or 0.0
    ends = [till for _, till, periods in spans(result, problem) if any(there(item, p) for p in periods)]
    months = max(ends, default=problem.horizon) - start
    terms = 1
    while terms * term < months - 1e-9:
        terms += 1
    return min(terms * term, problem.horizon - start) if problem.policy.pro_rate_commitments else terms * term


def billing_terms(label: str) -> tuple[str, float, float]:
    """Billing mode, term [months] and up-front share of a billing label."""
    match = re.fullmatch(r"(\w+)(?: (\d+(?:\.\d+)?)mo)?(?: (\d+)% upfront)?", label)
    if match is None:
        return label, 0.0, 0.0
    return match[1], float(match[2] or 0), float(match[3] or 0) / 100


PART = re.compile(r"(\d+) x (.+)")


def part_list(item: Item) -> list[tuple[int, str]]:
    """Parts of a server line as (count, name)."""
    found = [PART.fullmatch(p) for p in item.parts]
    return [(int(m[1]), m[2]) for m in found if m]


def _check_server(item: Item, problem: Problem, catalog: Catalog) -> list[str]:
    """Price of a bought server as the sum of its parts."""
    rate = exchange(catalog, "USD", problem.currency)
    parts = part_list(item)
    if not parts or rate is None:
        return [f"{item.item}: no bill of materials or exchange rate"]
    row = catalog.servers.filter(pl.col("server") == parts[0][1])
    if row.is_empty():
        return [f"{item.item}: unknown server {parts[0][1]}"]
    server = row.row(0, named=True)
    usd = server["price_usd"]
    for count, name in parts[1:]:
        if server["complete"]:
            break
        each = _part_price(name, catalog, with_card=not server["price_includes_gpu"])
        if each is None:
            return [f"{item.item}: no price for {name}"]
        usd += count * each
    exact = usd * rate
    if not -0.005 <= float(item.unit_cost) - exact <= 0.015 + 1e-9 * exact:
        return [f"{item.item}: unit cost {item.unit_cost}, parts add up to {exact:.2f}"]
    return []


def _part_price(name: str, catalog: Catalog, *, with_card: bool) -> float | None:
    """USD of one part by its name: accelerator, CPU, memory module, drive or NIC (named with its network)."""
    for table, key in ((catalog.accelerators, "accelerator"), (catalog.cpus, "cpu"), (catalog.ram, "module")):
        hit = table.filter(pl.col(key) == name)
        if hit.height:
            if key == "accelerator" and not with_card:
                return 0.0
            price = hit["price_usd"][0]
            return None if price is None else float(price)
    drive = catalog.storage.filter(pl.col("storage") == name)
    if drive.height:
        return float(drive["price_usd_per_tb"][0] * drive["capacity_tb"][0])
    nic = re.fullmatch(r".+ \(([^()]+)\)", name)
    port = catalog.network.filter(pl.col("network") == (nic[1] if nic else ""))
    if port.height:
        price = port["nic_price_usd"][0]
        return None if price is None else float(price)
    return None
