"""Recompute what services pay for compute units: charged on the work consumed, nothing while machines idle."""

from __future__ import annotations

import polars as pl

from catalogs.catalog import Catalog
from problems.schema import Problem, Serve
from solver.plan import Result
from solver.verify_money import exchange
from solver.verify_traffic import period_hours


def check_units(result: Result, problem: Problem, catalog: Catalog) -> list[str]:
    """Units that running replicas take of every pool sold by compute units, at the price of a unit; idle ones take none."""
    services = {w.name for w in problem.workloads if isinstance(w, Serve)}
    hours = period_hours(result, problem)
    used: dict[str, float] = {}
    for w in result.workloads:
        for p in w.placements:
            if p.pool.endswith("#units") and w.name in services:
                busy = sum(n * hours[name] for name, n in p.replicas_by_period.items())
                used[p.pool] = used.get(p.pool, 0.0) + busy * p.accelerators_per_replica
    lines = [i for i in result.items if i.kind == "compute_units"]
    wrong = []
    for pool in sorted(used.keys() | {i.pool or "" for i in lines}):
        offer = catalog.offers.filter(pl.col("offer_id") == pool.removesuffix("#units"))
        sold = offer.join(catalog.compute_units, on=["provider", "accelerator"], how="inner")
        price = catalog.prices.filter(
            (pl.col("offer_id") == pool.removesuffix("#units")) & (pl.col("billing") == "compute_unit")
        )
        if sold.is_empty() or price.is_empty():
            wrong.append(f"{pool}: not sold by compute units")
            continue
        row, offered = price.row(0, named=True), sold.row(0, named=True)
        rate = exchange(catalog, row["currency"], problem.currency) or 0.0
        due = used.get(pool, 0.0) * row["price_per_hour"] * rate / offered["accelerator_count"]
        paid = sum(float(i.total_cost) for i in lines if i.pool == pool)
        taken = used.get(pool, 0.0) * offered["units_per_accelerator_hour"]
        told = sum(i.quantity for i in lines if i.pool == pool)
        # Every replica's payment of a period is rounded up to a cent per accelerator.
        most = sum(
            n for w in result.workloads for p in w.placements if p.pool == pool for n in p.replicas_by_period.values()
        )
        slack = 0.011 * most * max(1, offered["accelerator_count"])
        if not due - 0.01 - 1e-6 * due <= paid <= due * (1 + 1e-6) + slack + 0.01:
            wrong.append(f"{pool}: {paid:.2f} paid for compute units, {due:.2f} due")
        if abs(told - taken) > 1e-6 * max(1.0, taken):
            wrong.append(f"{pool}: {told:g} units on the bill, the work takes {taken:g}")
    return wrong
