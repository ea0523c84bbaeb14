"""What changed between two catalogues, in price terms: added, gone, dearer, cheaper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from catalogs.catalog import Catalog
from catalogs.money import convert

CHANGES = ("added", "gone", "dearer", "cheaper")
# Prices closer than this are the same: a rate of exchange, or a rounding.
SAME = 1e-9
# Table of parts -> column that names a row, column of its price.
PARTS: Mapping[str, tuple[str, str]] = {
    "accelerators": ("accelerator", "price_usd"),
    "servers": ("server", "price_usd"),
    "cpus": ("cpu", "price_usd"),
    "ram": ("module", "price_usd"),
    "storage": ("storage", "price_usd_per_tb"),
    "network": ("network", "switch_price_usd"),
}


@dataclass(frozen=True)
class Difference:
    """Changed prices, the largest change first, and how many of each kind there are; `same` did not change.

    `changes` : change, table, item, billing, term_months, before, after, currency, percent (null: added or gone).
    """

    changes: pl.DataFrame
    counts: Mapping[str, int]


def diff(before: Catalog, after: Catalog) -> Difference:
    """Compare the prices of two catalogues.

    Prices of a row that changed its currency are compared in US dollars.
    """
    key = ["table", "item", "billing", "term_months", "upfront_share"]
    old, new = (_prices(catalog) for catalog in (before, after))
    both = old.join(new, on=key, how="full", coalesce=True, suffix="_new", maintain_order="left_right")
    same_currency = pl.col("currency") == pl.col("currency_new")
    both = both.with_columns(
        before=pl.when(same_currency | pl.col("currency_new").is_null()).then("price").otherwise("usd"),
        after=pl.when(same_currency | pl.col("currency").is_null()).then("price_new").otherwise("usd_new"),
        shown=pl.when(same_currency).then("currency").otherwise(pl.coalesce("currency", "currency_new")),
        crossed=(pl.col("currency") != pl.col("currency_new")).fill_null(False),
    )
    ratio = pl.col("after") / pl.col("before")
    change = (
        pl.when(pl.col("before").is_null() & pl.col("after").is_null())
        .then(None)
        .when(pl.col("before").is_null())
        .then(pl.lit("added"))
        .when(pl.col("after").is_null())
        .then(pl.lit("gone"))
        .when(ratio > 1 + SAME)
        .then(pl.lit("dearer"))
        .when(ratio < 1 - SAME)
        .then(pl.lit("cheaper"))
    )
    found = both.select(
        change.alias("change"),
        "table",
        "item",
        "billing",
        "term_months",
        "before",
        "after",
        pl.when("crossed").then(pl.lit("USD")).otherwise("shown").alias("currency"),
        ((ratio - 1) * 100).round(2).alias("percent"),
    )
    changes = found.filter(pl.col("change").is_not_null()).sort(
        pl.col("change").replace_strict(
            {name: rank for rank, name in enumerate(("dearer", "cheaper", "added", "gone"))}
        ),
        pl.col("percent").abs(),
        "table",
        "item",
        "billing",
        "term_months",
        descending=[False, True, False, False, False, False],
        nulls_last=True,
    )
    counted = dict(changes["change"].value_counts().iter_rows())
    counts = {name: int(counted.get(name, 0)) for name in CHANGES}
    return Difference(changes, counts | {"same": found.height - changes.height})


def _prices(catalog: Catalog) -> pl.DataFrame:
    """Every price of a catalogue: table, item, billing, term_months, upfront_share, price, currency, usd."""
    tables: dict[str, pl.DataFrame] = {name: getattr(catalog, name) for name in PARTS}
    rented = convert(catalog.prices, "price_per_hour", catalog, "USD", "usd").select(
        pl.lit("prices").alias("table"),
        pl.col("offer_id").alias("item"),
        "billing",
        "term_months",
        "upfront_share",
        pl.col("price_per_hour").alias("price"),
        "currency",
        "usd",
    )
    bought = [
        tables[table]
        .filter(pl.col(price).is_not_null())
        .select(
            pl.lit(table).alias("table"),
            pl.col(name).alias("item"),
            pl.lit("purchase").alias("billing"),
            pl.lit(0.0).alias("term_months"),
            pl.lit(0.0).alias("upfront_share"),
            pl.col(price).alias("price"),
            pl.lit("USD").alias("currency"),
            pl.col(price).alias("usd"),
        )
        for table, (name, price) in PARTS.items()
    ]
    return pl.concat([rented, *bought])
