"""Training and fine-tuning rate of a whole job: FLOPs per token over measured efficiencies.

Work per token, per layer L, width h, sequence s, active parameters N:

- matrix products c N with c = 6 (forward 2, backward 4), 4 for LoRA and QLoRA (no weight gradients);
- attention 6 L h s (causal: half of 12 L h s), always at the 16-bit peak.

Time per token and card is  c N / (F_p e) + 6 L h s / (F_16 e),  with F_p the peak of the compute precision and
e = base efficiency (accelerator class, precision) x exp(sum of coefficient x feature). The coefficients stand in
`calibration_training`. MFU is against the dense 16-bit peak, so FP8 may pass 1; against its own peak nothing does.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from solver.features.speed_tables import SpeedTables

BASIS_ERROR: Final = {"same": 0.0, "similar": 0.20, "architecture": 0.35}
MAX_EFFICIENCY: Final = 0.90
"""Cap on the share of peak; no published run is above 0.75, so this only guards against extrapolation."""

OPTIONAL: Final[dict[str, tuple[object, type[pl.DataType]]]] = {
    "interconnect_class": (None, pl.String),
    "network_gbps": (None, pl.Float64),
    "rdma": (None, pl.Boolean),
    "global_batch_tokens": (None, pl.Float64),
    "checkpoint_interval_s": (3600.0, pl.Float64),
    "tuned_stack": (True, pl.Boolean),
    "zero_stage": (None, pl.Int64),
    "checkpointing": ("selective", pl.String),
}


def training_peak_tflops() -> pl.Expr:
    """Dense peak [TFLOP/s] of the compute precision: FP8 or FP4 only where the card has the units, else 16-bit."""
    half = pl.coalesce("bf16_dense_tflops", "fp16_dense_tflops")
    p = pl.col("precision")
    return (
        pl.when(p.is_in(["fp8", "mxfp8"]))
        .then(pl.coalesce("fp8_dense_tflops", half))
        .when(p == "nvfp4")
        .then(pl.coalesce("fp4_dense_tflops", "fp8_dense_tflops", half))
        .when(p == "fp32")
        .then(pl.coalesce("fp32_tflops", half))
        .otherwise(half)
        .cast(pl.Float64)
    )


def compute_precision() -> pl.Expr:
    """16-bit, fp8 or fp4: what the matrix units really run; weight-only formats and cards without FP8 run 16-bit."""
    p = pl.col("precision")
    return (
        pl.when(p.is_in(["fp8", "mxfp8"]) & pl.col("fp8_dense_tflops").is_not_null())
        .then(pl.lit("fp8"))
        .when((p == "nvfp4") & pl.col("fp4_dense_tflops").is_not_null())
        .then(pl.lit("fp4"))
        .otherwise(pl.lit("bf16"))
    )


def with_training_rate(frame: pl.DataFrame, tables: SpeedTables) -> pl.DataFrame:
    """Add the rate of a training job over all its cards.

    Parameters
    ----------
    frame
        Model and accelerator columns and method (pretrain|full|lora|qlora), precision, sequence [tokens], micro_batch,
        tp, pp, dp, nodes, accelerators_per_node. Optional: network_gbps (per node), rdma, interconnect_class,
        global_batch_tokens, checkpoint_interval_s [s], tuned_stack, zero_stage, checkpointing, and
        fits_memory, memory_reason from the memory model.
    tables
        `calibration_training` and `speed_classes` are read.

    Returns
    -------
    pl.DataFrame
        The frame with tokens_per_s (whole job, while it runs), mfu (against the dense 16-bit peak), goodput (share of
        wall time that makes progress: divide the run time by it), rate_source, rate_error, rate_error_p90 (relative),
        rate_reason (null when there is a rate).
    """
    given = frame.columns
    frame = frame.with_columns(
        pl.lit(value, dtype=dtype).alias(name) for name, (value, dtype) in OPTIONAL.items() if name not in given
    )
    frame = _with_constants(frame, tables)
    factors = {
        str(r["term"]): float(r["value"])
        for r in tables.calibration_training.filter(pl.col("kind") == "factor").iter_rows(named=True)
    }
    frame = _with_terms(frame)
    eff = (
        pl.col("_base")
        * sum((pl.col(f"_x_{t}") * v for t, v in factors.items() if f"_x_{t}" in frame.columns), pl.lit(0.0)).exp()
    )
    eff = eff.clip(0.0, MAX_EFFICIENCY)
    constant = {
        str(r["term"]): float(r["value"])
        for r in tables.calibration_training.filter(pl.col("kind") == "constant").iter_rows(named=True)
    }
    per_card = pl.col("_eff") / pl.col("_s_per_token")
    stops_per_h = pl.col("_cards") * constant["failures_per_card_hour"]
    lost_h = constant["restart_h"] + pl.col("checkpoint_interval_s") / 7200.0
    saving = constant["checkpoint_save_s"] / pl.col("checkpoint_interval_s")
    ok = pl.col("rate_reason").is_null()
    frame = frame.with_columns(_eff=eff, rate_reason=_reason(given)).with_columns(
        tokens_per_s=pl.when(ok).then(per_card * pl.col("_cards")),
        mfu=pl.when(ok).then(per_card * pl.col("_flops") / (pl.col("_half_peak") * 1e12)),
        goodput=pl.when(ok).then((1.0 - saving) / (1.0 + stops_per_h * lost_h)),
        rate_source=pl.when(ok).then(pl.lit("model")),
        rate_error=pl.when(ok).then("_error"),
        rate_error_p90=pl.when(ok).then("_p90"),
        rate_class=pl.format("{}/{}", "training_class", "_precision"),
    )
    new = ["tokens_per_s", "mfu", "goodput", "rate_source", "rate_error", "rate_error_p90", "rate_class", "rate_reason"]
    return frame.select(*(c for c in given if c not in new), *new)


def _with_constants(frame: pl.DataFrame, tables: SpeedTables) -> pl.DataFrame:
    classes = tables.speed_classes.select("accelerator", "training_class", "training_basis", "training_reason")
    base = tables.calibration_training.filter(pl.col("kind") == "base").select(
        training_class="speed_class",
        _precision="precision",
        _base="value",
        _error="cv_median_abs_rel",
        _p90="cv_p90_abs_rel",
    )
    floor = pl.col("training_basis").replace_strict(BASIS_ERROR, default=1.0, return_dtype=pl.Float64)
    return (
        frame.with_columns(_precision=compute_precision())
        .join(classes, on="accelerator", how="left")
        .join(base, on=["training_class", "_precision"], how="left")
        .with_columns(_error=pl.max_horizontal("_error", floor), _p90=pl.max_horizontal("_p90", 2.0 * floor))
    )


def _with_terms(frame: pl.DataFrame) -> pl.DataFrame:
    """Add work per token and the features of the efficiency."""
    cards = (pl.col("nodes") * pl.col("accelerators_per_node")).cast(pl.Float64)
    active = pl.col("params_active_b") * 1e9
    c = pl.when(pl.col("method").is_in(["lora", "qlora"])).then(4.0).otherwise(6.0)
    attention = 6.0 * pl.col("layers") * pl.col("hidden") * pl.col("sequence").cast(pl.Float64)
    half = pl.coalesce("bf16_dense_tflops", "fp16_dense_tflops").cast(pl.Float64)
    low = (pl.col("_precision") != "bf16").cast(pl.Float64)
    moe = (pl.col("params_total_b") > 1.05 * pl.col("params_active_b")).cast(pl.Float64)
    pcie = (pl.col("nvlink_domain").fill_null(1) <= 2) | (pl.col("interconnect_class") == "pcie").fill_null(False)
    multi = pl.col("nodes") > 1
    micro_batches = (
        pl.col("global_batch_tokens").fill_null(4e6)
        / (pl.col("dp").cast(pl.Float64) * pl.col("micro_batch") * pl.col("sequence"))
    ).clip(1.0)
    bubble = (pl.col("pp") - 1) / micro_batches
    return frame.with_columns(
        _cards=cards,
        _half_peak=half,
        _flops=c * active + attention,
        _s_per_token=c * active / (training_peak_tflops() * 1e12) + attention / (half * 1e12),
        _x_moe=moe,
        _x_moe_low=moe * low,
        _x_size=(active / 13e9).log(2.0),
        _x_size_low=(active / 13e9).log(2.0) * low,
        _x_scale=(cards / 8.0).clip(1.0).log(2.0),
        _x_lora=(pl.col("method") == "lora").cast(pl.Float64),
        _x_qlora=(pl.col("method") == "qlora").cast(pl.Float64),
        _x_full=(pl.col("method") == "full").cast(pl.Float64),
        _x_generic=(~pl.col("tuned_stack")).cast(pl.Float64),
        _x_checkpoint=(pl.col("checkpointing") == "full").cast(pl.Float64),
        _x_pcie=(pcie & (cards > 1)).cast(pl.Float64),
        _x_ethernet=(multi & ~pl.col("rdma").fill_null(True)).cast(pl.Float64),
        _x_slow_network=pl.when(multi)
        .then(
            (400.0 / (pl.col("network_gbps").fill_null(400.0) / pl.col("accelerators_per_node") * 8.0))
            .clip(1.0)
            .log(2.0)
        )
        .otherwise(0.0),
        _x_tp_out=(
            (pl.col("tp") > pl.max_horizontal(pl.col("nvlink_domain").fill_null(1), 1)) & (pl.col("tp") > 1)
        ).cast(pl.Float64),
        _x_bubble=-(1.0 + bubble).log(),
    )


def _reason(given: list[str]) -> pl.Expr:
    memory = (
        pl.when(~pl.col("fits_memory")).then(pl.coalesce("memory_reason", pl.lit("does not fit in memory")))
        if "fits_memory" in given and "memory_reason" in given
        else pl.lit(None, pl.String)
    )
    missing = pl.any_horizontal(
        pl.col(n).is_null()
        for n in ("params_active_b", "layers", "hidden", "sequence", "nodes", "accelerators_per_node")
    )
    return (
        pl.when(pl.col("training_class").is_null())
        .then(pl.coalesce("training_reason", pl.lit("no calibrated training model for this accelerator")))
        .when(pl.col("_base").is_null())
        .then(pl.format("no calibrated training model for {} in {}", "accelerator", "_precision"))
        .when(pl.col("_half_peak").is_null())
        .then(pl.lit("the accelerator's peak FLOPS is not known"))
        .when(missing)
        .then(pl.lit("the model's size, layers, width or the job's sequence or nodes are missing"))
        .otherwise(memory)
    )
