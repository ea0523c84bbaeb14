"""Commitment prices that no list gives, derived from what providers usually take off: starred, and switchable.

price = on-demand price x (1 - discount). The discount is the provider's working value for the term, else the median of
what was observed on its offers for that term; without either nothing is derived. Such a price is `derived`, or less
where the price or the discount is itself estimated or recalled. `derive_commitments` in table assumptions switches all
of them off (0), a least confidence of `listed` leaves them out of lists and plans.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from problems.terms import CONFIDENCES

SWITCH = "derive_commitments"
# Discounts of this "provider" hold for the clouds of the country in their region: those that price in its currency.
GENERIC = "generic"
LOCAL = {"CN": "CNY"}


def derive_commitments(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Prices that the tables lack: reserved for 1 and 3 years, and monthly subscriptions where those are usual.

    Only for offers of accelerators that have an on-demand price and none of the same billing mode and term.
    """
    prices, offers = tables["prices"], tables["offers"]
    switch = tables["assumptions"].filter(pl.col("key") == SWITCH)["value"]
    rates = usual_discounts(tables["discounts"])
    if switch.is_empty() or switch[0] == 0 or rates.is_empty():
        return prices.clear()
    listed = prices.filter((pl.col("billing") == "on_demand") & (pl.col("price_per_hour") > 0))
    machines = offers.filter(pl.col("accelerator").is_not_null()).select(
        "offer_id", "country", who=pl.col("provider").str.to_lowercase()
    )
    base = listed.join(machines, on="offer_id", how="inner", maintain_order="left").drop("billing", "term_months")
    own = base.join(rates.filter(pl.col("who").is_not_null()), on="who", how="inner", maintain_order="left")
    with_own = rates.select("who").drop_nulls().unique()
    local = pl.col("country").replace_strict(LOCAL, default=None, return_dtype=pl.String) == pl.col("currency")
    generic = (
        base.filter(local)
        .join(with_own, on="who", how="anti", maintain_order="left")
        .join(
            rates.filter(pl.col("who").is_null()).drop("who").rename({"place": "country"}),
            on="country",
            how="inner",
            maintain_order="left",
        )
    )
    columns = [*base.columns, "billing", "term_months", "rate", "rate_confidence", "rate_source"]
    found = pl.concat([own.select(columns), generic.select(columns)])
    key = ["offer_id", "billing", "term_months"]
    found = found.join(prices.select(key), on=key, how="anti", maintain_order="left").unique(
        key, keep="first", maintain_order=True
    )
    rank = {name: number for number, name in enumerate(CONFIDENCES)}
    weakest = pl.max_horizontal(
        pl.col("confidence").replace_strict(rank, return_dtype=pl.Int64),
        pl.col("rate_confidence").replace_strict(rank, return_dtype=pl.Int64),
        pl.lit(rank["derived"]),
    )
    # One chunk: text made of columns that joins left in several makes polars 2.1 panic.
    return (
        found.rechunk()
        .with_columns(
            upfront_share=pl.lit(0.0),
            price_per_hour=(pl.col("price_per_hour") * (1 - pl.col("rate"))).round(6),
            min_hours=pl.lit(0.0),
            interruption_per_month=pl.lit(None, pl.Float64),
            confidence=weakest.replace_strict({number: name for name, number in rank.items()}, return_dtype=pl.String),
            notes=pl.format("derived: on-demand price less {} %; {}", (pl.col("rate") * 100).round(1), "rate_source"),
        )
        .select(prices.columns)
    )


def usual_discounts(discounts: pl.DataFrame) -> pl.DataFrame:
    """One row per provider, billing mode and term: who (lower case; null: any), place, rate, rate_confidence, rate_source.

    Working values go before the median of observations.
    """
    usable = discounts.filter(
        pl.col("billing").is_in(["reserved", "subscription"])
        & pl.col("discount").is_between(0, 1, closed="none")
        & (pl.col("term_months") > 0)
    ).with_columns(
        who=pl.when(~pl.col("provider").str.starts_with(GENERIC)).then(pl.col("provider").str.to_lowercase()),
        place=pl.when(pl.col("provider").str.starts_with(GENERIC)).then(pl.col("region").str.to_uppercase()),
    )
    key = ["who", "place", "billing", "term_months"]
    order = {name: number for number, name in enumerate(CONFIDENCES)}
    grouped = usable.group_by(*key, "role", maintain_order=True).agg(
        rate=pl.col("discount").median(),
        rate_confidence=pl.col("confidence")
        .replace_strict(order, return_dtype=pl.Int64)
        .max()
        .replace_strict({number: name for name, number in order.items()}, return_dtype=pl.String),
        rate_source=pl.format("{} value of {}", pl.col("role").first(), pl.col("provider").first()),
    )
    chosen = grouped.filter(pl.col("role").is_in(["working", "observed"]))
    return (
        chosen.sort(pl.col("role") != "working", maintain_order=True)
        .unique(key, keep="first", maintain_order=True)
        .drop("role")
        .sort("who", "place", "billing", "term_months", nulls_last=True)
    )
