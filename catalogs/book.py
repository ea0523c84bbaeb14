"""The private discount book: what a buyer has negotiated, in a file of their own (`book.csv` of an overlay).

A row holds for a provider, a family of offers (names that begin with it) or one offer, for one billing mode or all
(``*``): a percentage off the listed price, or a price. The most particular row wins. Rows past their `valid_until`
are not applied.
"""

from __future__ import annotations

from datetime import date

import polars as pl

ANY = "*"


def apply_book(
    prices: pl.DataFrame, offers: pl.DataFrame, book: pl.DataFrame, today: date | None = None
) -> pl.DataFrame:
    """Prices with the book's discounts taken off and the book's own prices put in.

    The changed rows carry the book's source and date; a percentage of a listed price is never surer than that price.
    Offers that have no price of a billing mode get the book's price only where the row names offer and mode.
    """
    day = (today or date.today()).isoformat()
    valid = pl.col("valid_until").is_null() | (
        pl.col("valid_until") >= pl.lit(day).str.slice(0, pl.col("valid_until").str.len_chars())
    )
    rows = book.filter(valid).with_row_index("book_row")
    if rows.is_empty():
        return prices
    named = offers.select("offer_id", "offer", who=pl.col("provider").str.to_lowercase())
    entries = rows.select(
        "book_row",
        "family",
        "discount",
        who=pl.col("provider").str.to_lowercase(),
        one=pl.col("offer"),
        mode=pl.col("billing"),
        own_price="price_per_hour",
        own_currency="currency",
        own_source="source",
        own_as_of="as_of",
        own_confidence="confidence",
    )
    fits = named.join(entries, on="who", how="inner").filter(
        (pl.col("one") == ANY) | (pl.col("one") == pl.col("offer")),
        (pl.col("family") == ANY) | pl.col("offer").str.starts_with(pl.col("family")),
    )
    changed = _changed(prices, fits)
    added = _added(prices, fits)
    # `prices` keeps the order of its rows, so that files and lists stay as they were.
    return pl.concat([changed, added.select(prices.columns)])


def _rank() -> list[pl.Expr]:
    """Most particular first: a named offer, the longest family, a named billing mode, the later row."""
    return [
        pl.col("one") == ANY,
        pl.col("family") == ANY,
        -pl.col("family").str.len_chars().cast(pl.Int64),
        pl.col("mode") == ANY,
        -pl.col("book_row").cast(pl.Int64),
    ]


def _changed(prices: pl.DataFrame, fits: pl.DataFrame) -> pl.DataFrame:
    key = ["offer_id", "billing", "term_months", "upfront_share"]
    hits = prices.select(key).join(fits, on="offer_id", how="inner")
    hits = hits.filter((pl.col("mode") == ANY) | (pl.col("mode") == pl.col("billing")))
    best = hits.sort(_rank()).unique(key, keep="first", maintain_order=True)
    joined = prices.join(best.drop("offer", "who"), on=key, how="left", maintain_order="left")
    priced, cut = pl.col("own_price").is_not_null(), pl.col("discount").is_not_null()
    told = (
        pl.when(cut)
        .then(pl.format("own discount {} %", (pl.col("discount") * 100).round(2)))
        .otherwise(pl.lit("own price"))
    )
    return joined.with_columns(
        price_per_hour=pl.when(priced)
        .then("own_price")
        .when(cut)
        .then((pl.col("price_per_hour") * (1 - pl.col("discount"))).round(9))
        .otherwise("price_per_hour"),
        currency=pl.when(priced).then("own_currency").otherwise("currency"),
        source=pl.when(priced | cut).then("own_source").otherwise("source"),
        as_of=pl.when(priced).then("own_as_of").otherwise("as_of"),
        confidence=pl.when(priced).then("own_confidence").otherwise("confidence"),
        notes=pl.when(priced | cut)
        .then(pl.concat_str(told, "notes", separator="; ", ignore_nulls=True))
        .otherwise("notes"),
    ).select(prices.columns)


def _added(prices: pl.DataFrame, fits: pl.DataFrame) -> pl.DataFrame:
    """Prices of modes that an offer is not listed with; commitments need a term and are only changed."""
    hours = ("on_demand", "spot", "capacity_block")
    wanted = fits.filter((pl.col("one") != ANY) & pl.col("mode").is_in(hours) & pl.col("own_price").is_not_null())
    wanted = wanted.sort(_rank()).unique(["offer_id", "mode"], keep="first", maintain_order=True)
    known = prices.select("offer_id", mode="billing").unique()
    return wanted.join(known, on=["offer_id", "mode"], how="anti", maintain_order="left").select(
        "offer_id",
        billing="mode",
        term_months=pl.lit(0.0),
        upfront_share=pl.lit(0.0),
        price_per_hour="own_price",
        currency="own_currency",
        min_hours=pl.lit(0.0),
        granularity_s=pl.lit(3600.0),
        interruption_per_month=pl.lit(None, pl.Float64),
        source="own_source",
        as_of="own_as_of",
        confidence="own_confidence",
        notes=pl.lit("own price"),
    )
