"""Measured rates in place of modelled ones: the user's own first, then published ones of that very case.

A measurement answers for a row only where accelerator, model, precision, engine, tp, pp, input and output length are
all equal, and where it kept the latency limits that the row asks for (one without a TTFT or TPOT figure cannot).
"""

from __future__ import annotations

from typing import Final

import polars as pl

from solver.features.speed_tables import SpeedTables

KEY: Final = ("accelerator", "model", "precision", "kv_precision", "tp", "pp", "isl", "osl", "engine")
USER_ERROR: Final = 0.03
"""Expected relative error of the user's own measurement: run-to-run spread of one configuration."""
PUBLISHED_ERROR: Final = 0.05
"""Expected relative error of a published figure for the same case: engine versions differ by 4 to 5 % (median)."""


def with_measured_offer(pools: pl.DataFrame, tables: SpeedTables) -> pl.DataFrame:
    """Add `measured_offer`: the name under which the user measured this very offer; null where none is tied to it.

    Parameters
    ----------
    pools
        pool (an offer_id, ``#spot`` after it where spot), provider, offer; own servers have no provider.
    tables
        `user_measurements`; its `offer` may be written as offer_id, provider/offer or offer.
    """
    table = tables.user_measurements
    named = [] if table is None or "offer" not in table.columns else table["offer"].drop_nulls().unique().to_list()
    ways = (pl.col("pool").str.replace("#(spot|units)$", ""), pl.format("{}/{}", "provider", "offer"), pl.col("offer"))
    return pools.with_columns(
        measured_offer=pl.coalesce(*(pl.when(way.is_in(named)).then(way) for way in ways), pl.lit(None, pl.String))
    )


def with_measured_serving(frame: pl.DataFrame, tables: SpeedTables, *, online: bool) -> pl.DataFrame:
    """Replace modelled rates where a measurement covers the very case.

    Only rows that fit in memory and run on a supported engine are replaced: a modelled refusal for missing constants
    or an unmet limit gives way to a measurement, one for memory or software does not.

    Parameters
    ----------
    frame
        Frame with the columns that `throughput.with_serving_rate` adds.
    tables
        `user_measurements` and `measurements_serving` with `KEY`, output_tokens_per_s and optional ttft_s, tpot_s [s],
        offer (the user's: measured on this offer only).
    online
        A service: published figures without latency (all requests queued) say nothing of it and are left out.
    """
    sources = (
        ("published", tables.measurements_serving, PUBLISHED_ERROR),
        ("user", tables.user_measurements, USER_ERROR),
    )
    for source, table, error in sources:
        if table is None:
            continue
        if online and source == "published":
            table = table.filter(pl.col("ttft_s").is_not_null() & pl.col("tpot_s").is_not_null())
        if not table.is_empty():
            frame = _replace(frame, table, source, error)
    return frame


def _replace(frame: pl.DataFrame, table: pl.DataFrame, source: str, error: float) -> pl.DataFrame:
    table = table.with_columns(
        pl.lit(value, dtype=dtype).alias(name)
        for name, value, dtype in (
            ("pp", 1, pl.Int64),
            ("engine", "vllm", pl.String),
            ("kv_precision", "bf16", pl.String),
            ("ttft_s", None, pl.Float64),
            ("tpot_s", None, pl.Float64),
            ("offer", None, pl.String),
        )
        if name not in table.columns
    )
    keys = [pl.col(c).cast(pl.Float64) if c in ("isl", "osl", "tp", "pp") else pl.col(c) for c in KEY]
    best = (
        table.select(
            *(k.alias(f"_{c}") for c, k in zip(KEY, keys, strict=True)),
            _tok=pl.col("output_tokens_per_s"),
            _ttft=pl.col("ttft_s"),
            _tpot=pl.col("tpot_s"),
            _offer=pl.col("offer"),
        )
        .filter(pl.col("_tok") > 0)
        .sort("_tok")
    )
    limits = {"_ttft": "ttft_limit_s", "_tpot": "tpot_limit_s"}
    frame = frame.with_row_index("_row")
    hit = (
        frame.select(
            "_row",
            (pl.col("offer") if "offer" in frame.columns else pl.lit(None, pl.String)).alias("_at"),
            *(k.alias(f"_{c}") for c, k in zip(KEY, keys, strict=True)),
            *(
                pl.col(limit) if limit in frame.columns else pl.lit(None, pl.Float64).alias(limit)
                for limit in limits.values()
            ),
        )
        .join(best, on=[f"_{c}" for c in KEY], how="inner")
        .filter(pl.col("_offer").is_null() | (pl.col("_offer") == pl.col("_at")).fill_null(False))
        .filter(
            pl.col(limit).is_null() | (pl.col(value) <= pl.col(limit)).fill_null(False)
            for value, limit in limits.items()
        )
        # The fastest that kept the limits; ties cannot differ in the rate.
        .sort("_row", "_tok")
        .unique("_row", keep="last", maintain_order=True)
        .select("_row", "_tok", "_ttft", "_tpot")
    )
    replaceable = (
        pl.col("_tok").is_not_null()
        & pl.col("fits_memory")
        & ~pl.col("rate_reason").str.starts_with("engine ").fill_null(False)
    )

    def swap(name: str, value: pl.Expr) -> pl.Expr:
        return pl.when(replaceable).then(value).otherwise(pl.col(name)).alias(name)

    rate = pl.col("_tok") / pl.col("osl")
    return (
        frame.join(hit, on="_row", how="left", maintain_order="left")
        .with_columns(
            swap("rate_req_s", rate),
            swap("output_tokens_per_s", pl.col("_tok")),
            swap("ttft_s", pl.coalesce("_ttft", "ttft_s")),
            swap("tpot_s", pl.coalesce("_tpot", "tpot_s")),
            swap("in_flight", pl.coalesce("in_flight", rate * (pl.col("_ttft") + pl.col("osl") * pl.col("_tpot")))),
            swap("rate_class", pl.lit(None, pl.String)),
            swap("rate_source", pl.lit(source)),
            swap("rate_error", pl.lit(error)),
            swap("rate_error_p90", pl.lit(2 * error)),
            swap("rate_reason", pl.lit(None, pl.String)),
        )
        .with_columns(
            latency_s=pl.when(replaceable).then(pl.col("in_flight") / pl.col("rate_req_s")).otherwise("latency_s")
        )
        .drop("_row", "_tok", "_ttft", "_tpot")
    )
