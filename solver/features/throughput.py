"""Rates of serving, batch inference and training; see `throughput_serving` and `throughput_training` for the models.

Three sources in order: the user's own measurements, published measurements of that very case, the calibrated model.
Every row says which it used (`rate_source`), the error to expect of it (`rate_error`), and why it was refused.
"""

from __future__ import annotations

import polars as pl

from solver.features.measured import with_measured_serving
from solver.features.speed_tables import SpeedTables, serving_constants
from solver.features.throughput_serving import (
    TAIL,
    Z,
    batch_limit,
    in_flight,
    largest_batch,
    step_s,
    tpot_s,
    ttft_s,
    with_optional,
    with_step_terms,
)
from solver.features.throughput_training import with_training_rate

__all__ = ["with_batch_rate", "with_serving_rate", "with_training_rate"]


def with_serving_rate(frame: pl.DataFrame, tables: SpeedTables) -> pl.DataFrame:
    """Add the rate that one replica serves within its latency limits, with the error to expect of it.

    Parameters
    ----------
    frame
        Model, accelerator and serving memory columns, and precision, tp, pp, engine, isl, osl [tokens]. Optional:
        ttft_limit_s, tpot_limit_s [s], percentile, interconnect_class, accelerators_per_node, network_gbps,
        prefix_hit (share of the prompt found in cache), speculative_speedup, disaggregated, max_batch.
    tables
        Calibration, link, engine and measurement tables.

    Returns
    -------
    pl.DataFrame
        The frame with batch (most sequences in flight), in_flight (mean), rate_req_s [requests/s per replica],
        output_tokens_per_s (mean, per replica), ttft_s, tpot_s (at the percentile), latency_s (mean per request),
        prefill_share (of busy time), utilisation (of the step's weight read and arithmetic, for power), rate_source,
        rate_error, rate_error_p90 (relative), rate_reason (null when there is a rate).
    """
    return _rate(frame, tables, online=True)


def with_batch_rate(frame: pl.DataFrame, tables: SpeedTables) -> pl.DataFrame:
    """Add the offline rate of one replica: the largest batch that memory and engine allow, no latency limit.

    Columns in and out are those of `with_serving_rate`; latency limits are ignored.
    """
    return _rate(frame, tables, online=False)


def _rate(frame: pl.DataFrame, tables: SpeedTables, *, online: bool) -> pl.DataFrame:
    given = frame.columns
    frame = with_optional(frame)
    if not online:
        frame = frame.with_columns(
            ttft_limit_s=pl.lit(None, pl.Float64), tpot_limit_s=pl.lit(None, pl.Float64), percentile=pl.lit("mean")
        )
    if "state_gib_per_request" not in frame.columns:
        frame = frame.with_columns(state_gib_per_request=pl.lit(0.0))
    frame = (
        frame.with_columns(moe=pl.col("experts").fill_null(0) > 0)
        .join(serving_constants(tables), on=["accelerator", "engine", "moe"], how="left")
        .join(
            tables.engine_support.filter("serves")
            .group_by("engine", "software_stack")
            .agg(_engine_max=pl.col("max_batch").max(), _reserve=pl.col("kv_reserve").max(), _supported=pl.lit(True)),
            on=["engine", "software_stack"],
            how="left",
        )
        .with_row_index("_row")
        .with_columns(
            kv_reserve=pl.col("_reserve").fill_null(1.0),
            max_batch=pl.min_horizontal("max_batch", "_engine_max"),
            _z=pl.col("percentile").replace_strict(Z, default=None, return_dtype=pl.Float64),
            _tail=pl.col("percentile").replace_strict(TAIL, default=None, return_dtype=pl.Float64),
        )
    )
    frame = with_step_terms(frame, tables.calibration_links, tables.quantisation)
    frame = frame.with_columns(rate_reason=_reason())
    good = pl.col("rate_reason").is_null()
    solved = largest_batch(frame.filter(good))
    batch = pl.col("_batch")
    n = in_flight(batch)
    rate = pl.col("cal_e_schedule") * n / (pl.col("osl") * tpot_s(n))
    one = pl.lit(1.0)
    solved = solved.with_columns(
        batch=batch.cast(pl.Int64),
        in_flight=n,
        rate_req_s=rate,
        tpot_s=tpot_s(batch),
        ttft_s=ttft_s(batch),
        prefill_share=(rate * pl.col("_prefill") / pl.col("cal_e_schedule")).clip(0.0, 1.0),
        utilisation=(pl.max_horizontal(pl.col("_w_shared"), pl.col("_compute") * n) + pl.col("_kv") * n) / step_s(n),
        _none=pl.when(batch >= 1)
        .then(None)
        .when(batch_limit() < 1.0)
        .then(pl.lit("the KV cache holds less than one request"))
        .when(tpot_s(one) > pl.col("tpot_limit_s").fill_null(1e9))
        .then(pl.format("TPOT limit not met: one request alone takes {} ms per token", (tpot_s(one) * 1e3).round(1)))
        .otherwise(pl.format("TTFT limit not met: one request alone takes {} ms", (ttft_s(one) * 1e3).round(0))),
    )
    out = ["batch", "in_flight", "rate_req_s", "tpot_s", "ttft_s", "prefill_share", "utilisation"]
    served = pl.col("_none").is_null()
    solved = solved.select(
        "_row", "_none", *(pl.when(served & pl.col(c).is_finite()).then(pl.col(c)).alias(c) for c in out)
    )
    frame = (
        frame.join(solved, on="_row", how="left")
        .with_columns(rate_reason=pl.coalesce("rate_reason", "_none"))
        .with_columns(
            output_tokens_per_s=pl.col("rate_req_s") * pl.col("osl"),
            latency_s=pl.col("in_flight") / pl.col("rate_req_s"),
            rate_source=pl.when(pl.col("rate_reason").is_null()).then(pl.lit("model")),
            rate_error=pl.when(pl.col("rate_reason").is_null()).then("cal_error"),
            rate_error_p90=pl.when(pl.col("rate_reason").is_null()).then("cal_p90"),
            rate_class="cal_class",
        )
        .sort("_row")
        .select(
            *given,
            *(c for c in out if c not in given),
            "output_tokens_per_s",
            "latency_s",
            "rate_source",
            "rate_error",
            "rate_error_p90",
            "rate_class",
            "rate_reason",
        )
    )
    return with_measured_serving(frame, tables)


def _reason() -> pl.Expr:
    """Why a row has no rate, before any batch is tried; null when it may have one."""

    def missing(*names: str) -> pl.Expr:
        return pl.any_horizontal(pl.col(n).is_null() for n in names)

    return (
        pl.when(pl.col("_supported").is_null())
        .then(pl.format("engine {} does not run on {}", "engine", pl.col("software_stack").fill_null("?")))
        .when(pl.col("cal_reason").is_not_null() | pl.col("cal_e_weights").is_null())
        .then(pl.coalesce("cal_reason", pl.lit("no calibrated serving model for this accelerator")))
        .when(~pl.col("fits_memory"))
        .then(pl.coalesce("memory_reason", pl.lit("does not fit in memory")))
        .when(missing("bandwidth_gb_s", "_peak"))
        .then(pl.lit("the accelerator's bandwidth or peak FLOPS is not known"))
        .when(missing("params_total_b", "params_active_b", "layers", "hidden", "heads", "head_dim"))
        .then(pl.lit("the model's architecture is not known"))
        .when(missing("isl", "osl", "tp", "pp", "_z"))
        .then(pl.lit("isl, osl, tp, pp or percentile is missing or unknown"))
    )
