"""Training and fine-tuning rate of a whole job: FLOPs per token over measured efficiencies.

Work per token, with layers L, width h, sequence s, active parameters N:

- matrix products c N with c = 6 (forward 2, backward 4), 4 for LoRA and QLoRA (no weight gradients);
- attention 6 L h s (causal: half of 12 L h s), always at the 16-bit peak.

Time per token and card is (c N / F_p + 6 L h s / F_16) / e, with F_p the peak of the compute precision and
e = base efficiency (accelerator class, precision) x exp(sum of coefficient x feature). Base values and coefficients
stand in `calibration_training`; docs/speed.md gives sources and measured accuracy. MFU is against the dense 16-bit peak,
so FP8 may pass 1 there; against its own peak nothing does. Sharded data parallelism (ZeRO-3) over several nodes cannot
run faster than its gathers cross the network.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from solver.features.speed_tables import SpeedTables

BASIS_ERROR: Final = {"same": 0.0, "similar": 0.20, "architecture": 0.35}
MAX_EFFICIENCY: Final = 0.75
"""Cap on the share of peak where too few runs say what is reached; guards against extrapolation."""

OPTIONAL: Final[dict[str, tuple[object, type[pl.DataType]]]] = {
    "interconnect_class": (None, pl.String),
    "network_gbps": (None, pl.Float64),
    "rdma": (None, pl.Boolean),
    "global_batch_tokens": (None, pl.Float64),
    "checkpoint_interval_s": (3600.0, pl.Float64),
    "tuned_stack": (None, pl.Boolean),
    "zero_stage": (None, pl.Int64),
    "checkpointing": ("selective", pl.String),
    # What only published runs carry; a plan has none of these.
    "before_2023": (False, pl.Boolean),
    "whole_run": (False, pl.Boolean),
    "short_samples": (False, pl.Boolean),
}
"""Config columns that a frame may leave out, with what is then assumed."""

FEATURES: Final = (
    "moe", "moe_low", "size", "qlora", "generic", "checkpoint", "pcie", "slow_network", "ethernet", "small_batch",
    "attention", "tp_out", "bubble", "before_2023", "whole_run", "short_samples",
)  # fmt: skip
"""Features of the efficiency, one column ``_x_NAME`` each; see `with_terms`."""


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
    frame = with_terms(_with_constants(frame, tables))
    factors = coefficients(tables.calibration_training, "factor")
    exponent = pl.sum_horizontal(pl.col(f"_x_{name}") * factors.get(name, 0.0) for name in FEATURES)
    eff = pl.min_horizontal(pl.col("_base") * exponent.exp(), pl.col("_best").fill_null(MAX_EFFICIENCY))
    constant = coefficients(tables.calibration_training, "constant")
    per_card = pl.min_horizontal(pl.col("_eff") / pl.col("_s_per_token"), pl.col("_network_tokens_per_s"))
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
    best = tables.calibration_training.filter(pl.col("kind") == "best").select(
        training_class="speed_class", _precision="precision", _best="value"
    )
    floor = pl.col("training_basis").replace_strict(BASIS_ERROR, default=1.0, return_dtype=pl.Float64)
    return (
        frame.with_columns(_precision=compute_precision())
        .join(classes, on="accelerator", how="left", maintain_order="left")
        .join(base, on=["training_class", "_precision"], how="left", maintain_order="left")
        .join(best, on=["training_class", "_precision"], how="left", maintain_order="left")
        .with_columns(_error=pl.max_horizontal("_error", floor), _p90=pl.max_horizontal("_p90", 2.0 * floor))
    )


def coefficients(calibration: pl.DataFrame, kind: str) -> dict[str, float]:
    """Give the values of one kind of row (factor|constant) by term."""
    rows = calibration.filter(pl.col("kind") == kind)
    return dict(zip(rows["term"].to_list(), rows["value"].cast(pl.Float64).to_list(), strict=True))


def with_terms(frame: pl.DataFrame) -> pl.DataFrame:
    """Add work per token, peaks, the features of the efficiency and the bound that gathers over the network set."""
    cards = (pl.col("nodes") * pl.col("accelerators_per_node")).cast(pl.Float64)
    active = pl.col("params_active_b") * 1e9
    adapters = pl.col("method").is_in(["lora", "qlora"])
    c = pl.when(adapters).then(4.0).otherwise(6.0)
    attention = (
        6.0 * pl.col("layers").fill_null(0) * pl.col("hidden").fill_null(0) * pl.col("sequence").cast(pl.Float64)
    )
    half = pl.coalesce("bf16_dense_tflops", "fp16_dense_tflops").cast(pl.Float64)
    low = (pl.col("_precision") != "bf16").cast(pl.Float64)
    moe = (pl.col("params_total_b") > 1.05 * pl.col("params_active_b")).cast(pl.Float64)
    domain = pl.col("nvlink_domain").fill_null(1)
    pcie = (domain <= 2) | (pl.col("interconnect_class") == "pcie").fill_null(False)
    multi = pl.col("nodes") > 1
    per_card_tokens = pl.col("global_batch_tokens") / cards
    network = pl.col("network_gbps") / pl.col("accelerators_per_node")
    micro_batches = (
        pl.col("global_batch_tokens") / (pl.col("dp").cast(pl.Float64) * pl.col("micro_batch") * pl.col("sequence"))
    ).clip(1.0)
    # Parameters gathered forward and backward and gradients scattered, 2 bytes each; adapters: gathers only.
    gathered = (
        pl.col("params_total_b") * 1e9 * pl.when(adapters).then(4.0).otherwise(6.0) / (pl.col("tp") * pl.col("pp"))
    )
    sharded = (pl.col("zero_stage") == 3).fill_null(False) & multi
    return frame.with_columns(
        _cards=cards,
        _half_peak=half,
        _flops=c * active + attention,
        _s_per_token=c * active / (training_peak_tflops() * 1e12) + attention / (half * 1e12),
        _network_tokens_per_s=pl.when(sharded).then(per_card_tokens * network / 8.0 * 1e9 / gathered),
        _x_moe=moe,
        _x_moe_low=moe * low,
        # Levels off at about 70B: larger published runs do no better.
        _x_size=(active / 13e9).log(2.0).clip(-5.0, 2.4),
        _x_qlora=(pl.col("method") == "qlora").cast(pl.Float64),
        # Not stated: tuned, but for QLoRA, which runs on open stacks.
        _x_generic=(~pl.col("tuned_stack").fill_null(pl.col("method") != "qlora")).cast(pl.Float64),
        _x_checkpoint=(pl.col("checkpointing") == "full").cast(pl.Float64),
        _x_pcie=(pcie & (cards > 1)).cast(pl.Float64),
        # Network per accelerator short of 400 Gb/s, in doublings; unknown counts as enough.
        _x_slow_network=pl.when(multi).then((400.0 / network).clip(1.0).log(2.0).fill_null(0.0)).otherwise(0.0),
        _x_ethernet=(multi & ~pl.col("rdma").fill_null(True)).cast(pl.Float64),
        # Tokens per card and step short of 4,096, in doublings, squared: thin work and exposed communication.
        _x_small_batch=(4096.0 / per_card_tokens).log(2.0).clip(0.0, 6.0).fill_null(0.0) ** 2,
        _x_attention=attention / (c * active + attention),
        _x_tp_out=((pl.col("tp") > domain) & (pl.col("tp") > 2)).cast(pl.Float64),
        # Pipeline bubble: (pp - 1) of micro-batches + pp - 1 slots are idle.
        _x_bubble=(1.0 + (pl.col("pp") - 1) / micro_batches).log().fill_null(0.0),
        _x_before_2023=pl.col("before_2023").fill_null(False).cast(pl.Float64),
        _x_whole_run=pl.col("whole_run").fill_null(False).cast(pl.Float64),
        _x_short_samples=pl.col("short_samples").fill_null(False).cast(pl.Float64),
    )


def _reason(given: list[str]) -> pl.Expr:
    memory = (
        pl.when(~pl.col("fits_memory")).then(pl.coalesce("memory_reason", pl.lit("does not fit in memory")))
        if "fits_memory" in given and "memory_reason" in given
        else pl.lit(None, pl.String)
    )
    missing = pl.any_horizontal(
        pl.col(n).is_null() for n in ("params_active_b", "sequence", "nodes", "accelerators_per_node")
    )
    return (
        pl.when(pl.col("training_class").is_null())
        .then(pl.coalesce("training_reason", pl.lit("no calibrated training model for this accelerator")))
        .when(pl.col("_base").is_null())
        .then(pl.format("no calibrated training model for {} in {}", "accelerator", "_precision"))
        .when(pl.col("_half_peak").is_null())
        .then(pl.lit("the accelerator's peak FLOPS is not known"))
        .when(missing)
        .then(pl.lit("the model's size or the job's sequence or nodes are missing"))
        .otherwise(memory)
    )
