"""Currencies and ages: what a price of one currency is in another, how old a dated row is."""

from __future__ import annotations

from datetime import date

import polars as pl

from catalogs.catalog import Catalog
from catalogs.errors import UnknownName

PIVOT = "USD"


def rates_to(catalog: Catalog, currency: str) -> pl.DataFrame:
    """One row per currency that can be changed into `currency`: currency, rate, rate_as_of.

    Rates the table does not hold are inverted or crossed over the US dollar; `rate_as_of` is the older date
    of a cross. A price times `rate` is the price in `currency`.

    Raises
    ------
    UnknownName
        The table leads to no rate for `currency`.
    """
    given = catalog.fx.select("from_currency", "to_currency", "rate", "as_of")
    inverse = given.select(
        from_currency="to_currency", to_currency="from_currency", rate=1 / pl.col("rate"), as_of="as_of"
    )
    # What is given goes before what is inverted.
    pairs = pl.concat([given, inverse]).unique(["from_currency", "to_currency"], keep="first", maintain_order=True)
    in_pivot = pl.concat(
        [
            pl.DataFrame({"currency": [PIVOT], "rate": [1.0], "as_of": [None]}, schema_overrides={"as_of": pl.String}),
            pairs.filter(pl.col("to_currency") == PIVOT).select(
                pl.col("from_currency").alias("currency"), "rate", "as_of"
            ),
        ]
    )
    target = in_pivot.filter(pl.col("currency") == currency)
    if target.is_empty():
        raise UnknownName(currency, "currency", in_pivot["currency"].sort().to_list())
    crossed = in_pivot.join(target.select(target_rate="rate", target_as_of="as_of"), how="cross").select(
        "currency",
        rate=pl.col("rate") / pl.col("target_rate"),
        rate_as_of=pl.min_horizontal("as_of", "target_as_of"),
    )
    direct = pairs.filter(pl.col("to_currency") == currency).select(
        pl.col("from_currency").alias("currency"), "rate", rate_as_of="as_of"
    )
    own = pl.DataFrame({"currency": [currency], "rate": [1.0], "rate_as_of": [None]}, schema=crossed.schema)
    return pl.concat([own, direct, crossed]).unique("currency", keep="first", maintain_order=True).sort("currency")


def convert(frame: pl.DataFrame, column: str, catalog: Catalog, to: str, into: str = "price") -> pl.DataFrame:
    """Add column `into`: `column` (in the row's `currency`) in currency `to`, null where no rate is known."""
    rates = rates_to(catalog, to)
    return (
        frame.join(rates.select("currency", "rate"), on="currency", how="left", maintain_order="left")
        .with_columns((pl.col(column) * pl.col("rate")).alias(into))
        .drop("rate")
    )


def age_days(as_of: str, today: date) -> pl.Expr:
    """Days from a date text to `today`; a month counts from its first day. Null: no date."""
    text = pl.col(as_of)
    day = pl.when(text.str.len_chars() == 7).then(text + "-01").otherwise(text).str.to_date("%Y-%m-%d", strict=False)
    return (pl.lit(today) - day).dt.total_days()
