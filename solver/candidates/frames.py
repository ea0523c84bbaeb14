"""The two frames that pools are made of, their types, and how rows are dropped with a reason.

pools : one row per pool: pool, kind (rental | server | owned), provider, offer, region, country, deployment_mode
    with start_h, isolation, operations_h (see `solver.candidates.deploying`), accelerator, gpus, label, units, zone,
    cores, ram_gib, nvme_tb, nvme_gb_s, network_gbps, rdma, network and nic_count (null: rented, owned or not told), spans (built for work across nodes only), interconnect_class,
    compliance, site, spot, complete, nameplate_w, host_nameplate_w, rack_units and cooling (null: rented), storage_room
    (see `solver.features.storage_room`; null: rented, or no data to keep), node_limit (nullable), parts, interruption_per_month,
    and the power state of its cards: power_limit_w (null: none) with what the cap leaves of throughput (relative_*) and how
    sure that is.
capacity : one row per pool x way to hold a node: pool, billing, term_months, upfront_share, price (per hour, or per node
    when bought), rate_to_problem (currency), price_currency, as_of, confidence, source, min_hours, granularity_s; and where it
    is rented: fallback_share and fallback_price (spot: expected share of the time that is run on demand, and the on-demand price
    of the same machine, in the price's currency), block_nodes, max_hours, long_hours, long_step_hours (capacity blocks),
    unit and units_per_hour (compute units that a whole node in use takes).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import polars as pl

from catalogs.catalog import Catalog
from problems.schema import Problem
from problems.units import Money
from solver.candidates.terms import accelerators_picked, allowed

POOL_COLUMNS = [
    "pool",
    "kind",
    "provider",
    "offer",
    "region",
    "country",
    "deployment_mode",
    "start_h",
    "isolation",
    "operations_h",
    "accelerator",
    "gpus",
    "label",
    "units",
    "zone",
    "min_nodes",
    "cores",
    "ram_gib",
    "nvme_tb",
    "nvme_gb_s",
    "network_gbps",
    "rdma",
    "network",
    "nic_count",
    "spans",
    "oversubscription",
    "leaf_nodes",
    "interconnect_class",
    "compliance",
    "site",
    "spot",
    "complete",
    "nameplate_w",
    "host_nameplate_w",
    "rack_units",
    "cooling",
    "storage_room",
    "node_limit",
    "parts",
    "interruption_per_month",
    "power_limit_w",
    "relative_mixed",
    "relative_prefill",
    "relative_training",
    "curve_error",
]
CAPACITY_COLUMNS = [
    "pool",
    "billing",
    "term_months",
    "upfront_share",
    "price",
    "price_currency",
    "rate_to_problem",
    "as_of",
    "confidence",
    "source",
    "min_hours",
    "granularity_s",
]
RENTED_COLUMNS = [
    "fallback_share",
    "fallback_price",
    "block_nodes",
    "max_hours",
    "long_hours",
    "long_step_hours",
    "unit",
    "units_per_hour",
]
"""What only rented capacity has."""


@dataclass(frozen=True)
class Pools:
    """Pools, the ways to hold their nodes, and how many rows each filter took (reason -> count)."""

    pools: pl.DataFrame
    capacity: pl.DataFrame
    dropped: pl.DataFrame  # item, reason


POOL_TYPES: dict[str, Any] = {
    "start_h": pl.Float64,
    "operations_h": pl.Float64,
    "gpus": pl.Int64,
    "units": pl.Float64,
    "min_nodes": pl.Int64,
    "cores": pl.Float64,
    "ram_gib": pl.Float64,
    "nvme_tb": pl.Float64,
    "nvme_gb_s": pl.Float64,
    "network_gbps": pl.Float64,
    "rdma": pl.Boolean,
    "network": pl.String,
    "nic_count": pl.Int64,
    "spans": pl.Boolean,
    "oversubscription": pl.Float64,
    "leaf_nodes": pl.Int64,
    "rack_units": pl.Float64,
    "cooling": pl.String,
    "storage_room": pl.String,
    "spot": pl.Boolean,
    "complete": pl.Boolean,
    "nameplate_w": pl.Float64,
    "host_nameplate_w": pl.Float64,
    "node_limit": pl.Int64,
    "parts": pl.List(pl.String),
    "interruption_per_month": pl.Float64,
    "power_limit_w": pl.Float64,
    "relative_mixed": pl.Float64,
    "relative_prefill": pl.Float64,
    "relative_training": pl.Float64,
    "curve_error": pl.Float64,
}
CAPACITY_TYPES: dict[str, Any] = {
    "term_months": pl.Float64,
    "upfront_share": pl.Float64,
    "price": pl.Float64,
    "rate_to_problem": pl.Float64,
    "min_hours": pl.Float64,
    "granularity_s": pl.Float64,
    "fallback_share": pl.Float64,
    "fallback_price": pl.Float64,
    "block_nodes": pl.String,
    "max_hours": pl.Float64,
    "long_hours": pl.Float64,
    "long_step_hours": pl.Float64,
    "unit": pl.String,
    "units_per_hour": pl.Float64,
}


@lru_cache(maxsize=4)
def fx_rates(catalog: Catalog, currency: str) -> pl.DataFrame:
    """Units of the problem's currency per unit of each currency: price_currency, rate_to_problem.

    Direct rates, their inverses and one step over USD; a currency without a path has no row, and its prices are dropped.
    """
    direct = catalog.fx.select("from_currency", "to_currency", "rate")
    both = pl.concat(
        [
            direct,
            direct.select(from_currency="to_currency", to_currency="from_currency", rate=1 / pl.col("rate")),
        ]
    )
    both = pl.concat([both, pl.DataFrame({"from_currency": [currency], "to_currency": [currency], "rate": [1.0]})])
    usd = both.filter(pl.col("to_currency") == "USD").join(
        both.filter((pl.col("from_currency") == "USD") & (pl.col("to_currency") == currency)).select(second="rate"),
        how="cross",
    )
    over = usd.select("from_currency", to_currency=pl.lit(currency), rate=pl.col("rate") * pl.col("second"))
    reach = pl.concat([both.filter(pl.col("to_currency") == currency), over])
    return reach.unique("from_currency", keep="first", maintain_order=True).select(
        price_currency="from_currency", rate_to_problem="rate"
    )


def money_in(money: Money, rates: pl.DataFrame) -> float:
    """Amount of `money` in the problem's currency.

    Raises
    ------
    ValueError
        When the catalogue has no rate for the money's currency.
    """
    hit = rates.filter(pl.col("price_currency") == money.currency)
    if hit.is_empty():
        raise ValueError(f"no exchange rate for {money.currency} in the catalogue")
    return float(money.amount) * float(hit["rate_to_problem"][0])


def split_by_reason(
    frame: pl.DataFrame, reasons: list[tuple[pl.Expr, str]], item: str
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Keep rows that no reason (expression true = drop) hits; the first hit names the drop."""
    found: list[pl.Expr] = [pl.when(bad).then(pl.lit(text)) for bad, text in reasons]
    why = pl.coalesce(found or [pl.lit(None, pl.String)])
    marked = frame.with_columns(reason=why)
    return marked.filter(pl.col("reason").is_null()).drop("reason"), marked.filter(
        pl.col("reason").is_not_null()
    ).select(item=pl.col(item), reason="reason")


def limit_reasons(problem: Problem, catalog: Catalog) -> list[tuple[pl.Expr, str]]:
    """Drop reasons that rented and bought machines share: accelerators, vendors, deployment modes."""
    limits = problem.limits
    reasons: list[tuple[pl.Expr, str]] = []
    picked = accelerators_picked(catalog, limits.accelerators)
    if picked is not None:
        reasons.append((~picked, "accelerator not allowed (limits.accelerators)"))
    if limits.vendors is not None:
        lower = pl.col("vendor").str.to_lowercase()
        allow = None if limits.vendors.allow is None else [v.lower() for v in limits.vendors.allow]
        reasons.append(
            (
                ~allowed(lower, allow, [v.lower() for v in limits.vendors.deny]),
                "vendor not allowed (limits.vendors)",
            )
        )
    if limits.deployment is not None:
        reasons.append(
            (
                ~pl.col("deployment_mode").is_in(list(limits.deployment)),
                "deployment mode not allowed (limits.deployment)",
            )
        )
    return reasons


def nothing() -> Pools:
    """No pools at all, in the right types."""
    pools = pl.DataFrame(schema={c: POOL_TYPES.get(c, pl.String) for c in POOL_COLUMNS})
    capacity = typed_capacity(pl.DataFrame(schema=dict.fromkeys(CAPACITY_COLUMNS, pl.String)))
    return Pools(pools, capacity, pl.DataFrame(schema={"item": pl.String, "reason": pl.String}))


def typed_pools(pools: pl.DataFrame) -> pl.DataFrame:
    """Pools in column order and types; without a power state the cards run uncapped.

    `units` : accelerators of a node as price lists count them, a fraction for a part of a card, 0 for none.
    """
    pools = pools if "units" in pools.columns else pools.with_columns(units=pl.col("gpus").cast(pl.Float64))
    plain = {
        "label": None,
        "zone": None,
        "min_nodes": None,
        "network": None,
        "nic_count": None,
        "spans": False,
        "oversubscription": None,
        "leaf_nodes": None,
        "rack_units": None,
        "cooling": None,
        "storage_room": None,
        "power_limit_w": None,
        "relative_mixed": 1.0,
        "relative_prefill": 1.0,
        "relative_training": 1.0,
        "curve_error": 0.0,
    }
    given = pools.with_columns(pl.lit(v).alias(k) for k, v in plain.items() if k not in pools.columns)
    return given.select(POOL_COLUMNS).cast(POOL_TYPES)  # type: ignore[arg-type]


def typed_capacity(capacity: pl.DataFrame) -> pl.DataFrame:
    """Capacity in column order and types; what is not rented has nulls in the columns of rented capacity."""
    missing = [pl.lit(None).alias(c) for c in RENTED_COLUMNS if c not in capacity.columns]
    return capacity.with_columns(missing).select(*CAPACITY_COLUMNS, *RENTED_COLUMNS).cast(CAPACITY_TYPES)  # type: ignore[arg-type]
