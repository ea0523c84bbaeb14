"""Machines sold by compute units: price rows made of the units that their accelerators take in an hour."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl


def compute_unit_prices(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Price rows of billing mode compute_unit, for every offer of a provider whose accelerator it sells by units.

    `price_per_hour` is that of a node all of whose accelerators are in use: count x units per accelerator-hour x price of a unit.
    """
    prices, offers, units = tables["prices"], tables["offers"], tables["compute_units"]
    if units.is_empty():
        return prices.clear()
    whole = offers.filter(pl.col("accelerator_share").is_null()).select(
        "offer_id", "provider", "accelerator", "accelerator_count"
    )
    each = pl.col("units_per_accelerator_hour")
    return (
        units.join(whole, on=["provider", "accelerator"], how="inner", maintain_order="left")
        .join(prices.filter(pl.col("billing") == "compute_unit").select("offer_id"), on="offer_id", how="anti")
        .rechunk()
        .select(
            "offer_id",
            billing=pl.lit("compute_unit"),
            term_months=pl.lit(0.0),
            upfront_share=pl.lit(0.0),
            price_per_hour=(pl.col("accelerator_count") * each * pl.col("price_per_unit")).round(9),
            currency="currency",
            min_hours="min_hours",
            granularity_s="granularity_s",
            interruption_per_month=pl.lit(None, pl.Float64),
            source="source",
            as_of="as_of",
            confidence="confidence",
            notes=pl.format("{} {} per accelerator-hour at {}", each, "unit", "price_per_unit"),
        )
        .select(prices.columns)
    )
