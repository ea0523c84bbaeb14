"""Rates of serving, batch inference and training; see `throughput_serving` and `throughput_training` for the models.

Three sources in order: the user's own measurements, published measurements of that very case, the calibrated model.
Every row says which it used (`rate_source`), the error to expect of it (`rate_error`), and why it was refused.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Final

import polars as pl

from solver.features.measured import with_measured_serving
from solver.features.speed_tables import SERVING_CONSTANTS, SpeedTables, serving_constants
from solver.features.throughput_serving import (
    CONFIG_TERMS,
    READ,
    TAIL,
    TERMS,
    Z,
    batch_limit,
    compute_peak_tflops,
    in_flight,
    largest_batch,
    step_s,
    tpot_s,
    ttft_s,
    with_config_terms,
    with_length_terms,
    with_optional,
    with_step_terms,
)
from solver.features.throughput_training import with_training_rate

__all__ = ["with_batch_rate", "with_rate_bound", "with_serving_rate", "with_training_rate"]


def with_serving_rate(frame: pl.DataFrame, tables: SpeedTables, *, buckets: pl.DataFrame | None = None) -> pl.DataFrame:
    """Add the rate that one replica serves within its latency limits, with the error to expect of it.

    Parameters
    ----------
    frame
        Model, accelerator and serving memory columns, and precision, tp, pp, engine, isl, osl [tokens]. Optional:
        ttft_limit_s, tpot_limit_s [s], percentile, interconnect_class, accelerators_per_node, network_gbps,
        prefix_hit (share of the prompt found in cache), speculative_speedup, disaggregated, max_batch.
    tables
        Calibration, link, engine and measurement tables.
    buckets
        Request sizes: isl, osl [tokens]. Every row of `frame` (without isl, osl) is rated for each of them: many times
        faster than a frame that repeats its rows.

    Returns
    -------
    pl.DataFrame
        The frame with batch (most sequences in flight), in_flight (mean), rate_req_s [requests/s per replica],
        output_tokens_per_s (mean, per replica), ttft_s, tpot_s (at the percentile), latency_s (mean per request),
        prefill_share (of busy time), utilisation (of the step's weight read and arithmetic, for power), rate_source,
        rate_error, rate_error_p90 (relative), rate_reason (null when there is a rate).
    """
    return _rate(frame, tables, buckets, online=True)


def with_batch_rate(frame: pl.DataFrame, tables: SpeedTables, *, buckets: pl.DataFrame | None = None) -> pl.DataFrame:
    """Add the offline rate of one replica: the largest batch that memory and engine allow, no latency limit.

    Columns in and out are those of `with_serving_rate`; latency limits are ignored.
    """
    return _rate(frame, tables, buckets, online=False)


RESULTS: Final = (
    "batch", "in_flight", "rate_req_s", "output_tokens_per_s", "tpot_s", "ttft_s", "latency_s", "prefill_share",
    "utilisation", "rate_source", "rate_error", "rate_error_p90", "rate_class", "rate_reason",
)  # fmt: skip
"""Columns that the serving functions add."""


SLICE_ROWS: Final = 150_000
"""Rows rated at a time: few enough for the intermediate columns to stay in cache, and slices run side by side."""


def _rate(frame: pl.DataFrame, tables: SpeedTables, buckets: pl.DataFrame | None, *, online: bool) -> pl.DataFrame:
    constants = serving_constants(tables)
    if frame.height * (1 if buckets is None else buckets.height) <= SLICE_ROWS:
        return _rate_slice(frame, tables, constants, buckets, online=online)
    step = max(1, SLICE_ROWS // (1 if buckets is None else max(1, buckets.height)))
    slices = [frame.slice(i, step) for i in range(0, frame.height, step)]
    with ThreadPoolExecutor(pl.thread_pool_size()) as pool:
        return pl.concat(pool.map(lambda part: _rate_slice(part, tables, constants, buckets, online=online), slices))


def _rate_slice(
    frame: pl.DataFrame, tables: SpeedTables, constants: pl.DataFrame, buckets: pl.DataFrame | None, *, online: bool
) -> pl.DataFrame:
    frame = frame.drop(c for c in RESULTS if c in frame.columns)
    if buckets is not None:
        frame = frame.drop(c for c in buckets.columns if c in frame.columns)
    work = with_optional(frame)
    if not online:
        work = work.with_columns(
            ttft_limit_s=pl.lit(None, pl.Float64), tpot_limit_s=pl.lit(None, pl.Float64), percentile=pl.lit("mean")
        )
    if "state_gib_per_request" not in work.columns:
        work = work.with_columns(state_gib_per_request=pl.lit(0.0))
    engines = (
        tables.engine_support.filter("serves")
        .group_by("engine", "software_stack")
        .agg(_engine_max=pl.col("max_batch").max(), _reserve=pl.col("kv_reserve").max(), _supported=pl.lit(True))
    )
    unsupported = (
        work.select("engine", "software_stack")
        .unique()
        .with_columns(
            _unsupported=pl.format("engine {} does not run on {}", "engine", pl.col("software_stack").fill_null("?"))
        )
    )
    # Wide frames are mostly columns that no formula here reads: work on those that one does.
    work = work.select(c for c in work.columns if c in READ).with_row_index("_row")
    # Lazy, so that sub-expressions common to several columns are reckoned once.
    lazy = (
        work.lazy()
        .with_columns(moe=pl.col("experts").fill_null(0) > 0)
        .join(constants.lazy(), on=["accelerator", "engine", "moe"], how="left", maintain_order="left")
        .join(engines.lazy(), on=["engine", "software_stack"], how="left", maintain_order="left")
        .join(unsupported.lazy(), on=["engine", "software_stack"], how="left", maintain_order="left", nulls_equal=True)
        .with_columns(
            kv_reserve=pl.col("_reserve").fill_null(1.0),
            max_batch=pl.min_horizontal("max_batch", "_engine_max"),
            _z=pl.col("percentile").replace_strict(Z, default=None, return_dtype=pl.Float64),
            _tail=pl.col("percentile").replace_strict(TAIL, default=None, return_dtype=pl.Float64),
        )
        .with_columns(_peak=compute_peak_tflops())
        .with_columns(rate_reason=_reason())
    )
    kept = (
        "_row",
        "pp",
        "speculative_speedup",
        "disaggregated",
        "tpot_limit_s",
        "ttft_limit_s",
        "cal_e_schedule",
    )
    limits = ("kv_tokens", "kv_bytes_per_token_per_gpu", "max_batch")
    verdict_columns = ("rate_reason", "cal_error", "cal_p90", "cal_class")
    lengths = ("isl", "osl", "prefix_hit", "kv_reserve")
    config = with_config_terms(lazy, tables.calibration_links, tables.quantisation).select(
        *kept,
        *limits,
        *verdict_columns,
        *(c for c in lengths if buckets is None or c not in buckets.columns),
        "_z",
        "_tail",
        *CONFIG_TERMS,
    )
    if buckets is not None:
        sizes = buckets.select("isl", "osl").with_row_index("_size")
        # The index of a bucket's row is set once, so that results of all of them can be laid beside the crossed frame.
        config = config.collect().join(sizes, how="cross", maintain_order="left_right").lazy()
        config = config.drop("_row", "_size").with_row_index("_row")
        frame = frame.join(buckets, how="cross", maintain_order="left_right")
    missing = pl.col("isl").is_null() | pl.col("osl").is_null()
    terms = (
        with_length_terms(config)
        .with_columns(rate_reason=pl.coalesce("rate_reason", pl.when(missing).then(pl.lit("isl or osl is missing"))))
        .select(*kept, "osl", *limits, *verdict_columns, "_z", "_tail", *TERMS)
        .collect()
    )
    verdict = terms.select("_row", "rate_reason", "cal_error", "cal_p90", rate_class="cal_class")
    batches = largest_batch(terms.filter(pl.col("rate_reason").is_null()).drop(verdict_columns))
    found = (
        verdict.join(_solved(batches), on="_row", how="left", maintain_order="left")
        .join(_unserved(batches), on="_row", how="left", maintain_order="left")
        .with_columns(rate_reason=pl.coalesce("rate_reason", "_none"))
        .with_columns(
            output_tokens_per_s=pl.col("rate_req_s") * pl.col("osl"),
            latency_s=pl.col("in_flight") / pl.col("rate_req_s"),
            rate_source=pl.when(pl.col("rate_reason").is_null()).then(pl.lit("model")),
            rate_error=pl.when(pl.col("rate_reason").is_null()).then("cal_error"),
            rate_error_p90=pl.when(pl.col("rate_reason").is_null()).then("cal_p90"),
        )
    )
    return with_measured_serving(frame.hstack(found.select(RESULTS)), tables, online=online)


def _solved(frame: pl.DataFrame) -> pl.DataFrame:
    """Rates and latencies at the batch found, or why one request alone is too many; one row per `_row`."""
    batch = pl.col("_batch")
    n = in_flight(batch)
    # Disaggregated: prompts take cards of their own, whose time counts against the same replica.
    apart = pl.when("disaggregated").then(pl.col("_prefill")).otherwise(0.0)
    rate = pl.col("cal_e_schedule") / (pl.col("osl") * tpot_s(n) / n + apart)
    figures = ("batch", "in_flight", "rate_req_s", "tpot_s", "ttft_s", "prefill_share", "utilisation")
    served = batch >= 1
    return (
        frame.lazy()
        .with_columns(
            batch=(batch + 1e-6).floor().cast(pl.Int64),
            in_flight=n,
            rate_req_s=rate,
            tpot_s=tpot_s(batch),
            ttft_s=ttft_s(batch),
            prefill_share=(rate * pl.col("_prefill") / pl.col("cal_e_schedule")).clip(0.0, 1.0),
            utilisation=(pl.col("_w_shared") + pl.col("_w_expert") + (pl.col("_compute") + pl.col("_kv")) * n)
            / step_s(n),
        )
        .select(
            "_row",
            "osl",
            *(pl.when(served & pl.col(c).cast(pl.Float64).is_finite()).then(pl.col(c)).alias(c) for c in figures),
        )
        .collect()
    )


def _unserved(frame: pl.DataFrame) -> pl.DataFrame:
    """Why a row serves nothing: `_none` by `_row`, for such rows only (texts are dear on a million rows)."""
    one = pl.lit(1.0)
    return frame.filter(pl.col("_batch") < 1).select(
        "_row",
        _none=pl.when(batch_limit() < 1.0)
        .then(pl.lit("the KV cache holds less than one request"))
        .when(tpot_s(one) > pl.col("tpot_limit_s").fill_null(1e9))
        .then(pl.format("TPOT limit not met: one request alone takes {} ms per token", (tpot_s(one) * 1e3).round(1)))
        .otherwise(pl.format("TTFT limit not met: one request alone takes {} ms", (ttft_s(one) * 1e3).round(0))),
    )


def with_rate_bound(frame: pl.DataFrame, tables: SpeedTables) -> pl.DataFrame:
    """Add `bound_output_tokens_per_s`: what peak FLOPS and memory bandwidth allow one replica, nothing else counted.

    The serving model with every efficiency at 1, no overhead, and the most requests that the cache holds. Measured
    figures above it are wrong (or of another case); modelled ones cannot reach it.
    """
    given = frame.columns
    perfect = {"e_weights": 1.0, "e_kv": 1.0, "e_compute": 1.0, "e_prefill": 1.0, "e_schedule": 1.0}
    frame = with_optional(frame)
    if "state_gib_per_request" not in given:
        frame = frame.with_columns(state_gib_per_request=pl.lit(0.0))
    frame = frame.with_columns(
        *(pl.lit(perfect.get(c, 0.0)).alias(f"cal_{c}") for c in SERVING_CONSTANTS),
        kv_reserve=pl.lit(0.5),
        max_batch=pl.lit(None, pl.Float64),
    )
    free = tables.calibration_links.with_columns(link_efficiency=pl.lit(1.0), link_extra_us=pl.lit(0.0))
    frame = with_step_terms(frame, free, tables.quantisation)
    most = batch_limit().clip(1.0)
    return frame.with_columns(bound_output_tokens_per_s=most / tpot_s(most)).select(*given, "bound_output_tokens_per_s")


def _reason() -> pl.Expr:
    """Why a row has no rate, before any batch is tried; null when it may have one."""

    def missing(*names: str) -> pl.Expr:
        return pl.any_horizontal(pl.col(n).is_null() for n in names)

    return (
        pl.when(pl.col("_supported").is_null())
        .then(pl.col("_unsupported"))
        .when(pl.col("cal_reason").is_not_null() | pl.col("cal_e_weights").is_null())
        .then(pl.coalesce("cal_reason", pl.lit("no calibrated serving model for this accelerator")))
        .when(~pl.col("fits_memory"))
        .then(pl.coalesce("memory_reason", pl.lit("does not fit in memory")))
        .when(missing("bandwidth_gb_s", "_peak"))
        .then(pl.lit("the accelerator's bandwidth or peak FLOPS is not known"))
        .when(missing("params_total_b", "params_active_b", "layers", "hidden", "heads", "head_dim"))
        .then(pl.lit("the model's architecture is not known"))
        .when(missing("tp", "pp", "_z"))
        .then(pl.lit("tp, pp or percentile is missing or unknown"))
    )
