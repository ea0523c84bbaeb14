"""Measured training rows as cases for the rate model: the job's shape, and its rate on one common footing.

Published rows differ in what they print. A rate in tokens/s is taken as it stands; TFLOP/s and MFU are turned into
tokens/s with the convention of their source (hardware FLOPs that count recomputation are cut by 3/4, attention counted
in full unless the note says otherwise); whole-run GPU-hours give an average rate that includes stops.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from catalogs.catalog import Catalog
from catalogs.errors import UnknownName
from catalogs.names import resolve_accelerator

METHODS: Final = {"pretrain": "pretrain", "full_ft": "full", "full": "full", "lora": "lora", "qlora": "qlora"}
PRECISIONS: Final = {
    "bf16": "bf16", "fp16": "bf16", "bf16/fp16": "bf16", "fp16/bf16": "bf16", "bf16-true": "bf16", "nf4": "bf16", "fp8": "fp8",
    "mxfp8": "fp8", "nvfp4": "nvfp4",
}  # fmt: skip
"""Formats of measured rows by the precision they compute in."""

NUMBERS: Final = (
    "params_total_b", "params_active_b", "layers", "hidden", "seq_len", "gpu_count", "tp", "pp", "global_batch_tokens",
    "tokens_total", "tokens_per_s_per_gpu", "tflops_per_gpu", "mfu", "gpu_hours",
)  # fmt: skip
TEXTS: Final = (
    "kind",
    "model",
    "precision",
    "gpu",
    "interconnect",
    "dp_or_zero",
    "framework",
    "note",
    "source",
    "year",
)
GENERIC: Final = r"(?i)fsdp_qlora|torchtune|llama-factory|litgpt|automodel|deepspeed|peft"
"""Stacks that are not tuned for rate, by name of the framework; all others count as tuned."""


def training_cases(rows: pl.DataFrame, catalog: Catalog) -> pl.DataFrame:
    """Read measured rows into cases; `reason` is null where the model may try.

    Returns
    -------
    pl.DataFrame
        case_id, accelerator and the columns that `with_training_rate` reads (model sizes come from the row itself), and
        `measured` [tokens/s per accelerator], null where the row carries no rate.
    """
    rows = rows.with_columns(
        *(pl.lit(None, pl.String).alias(c) for c in (*NUMBERS, *TEXTS) if c not in rows.columns)
    ).with_columns(
        *(pl.col(c).cast(pl.Float64, strict=False) for c in NUMBERS),
        *(pl.col(c).cast(pl.String).fill_null("").alias(c) for c in TEXTS if c not in ("precision", "gpu", "kind")),
    )
    names = {g: _accelerator(catalog, g) for g in rows["gpu"].drop_nulls().unique()}
    note, links = pl.col("note"), pl.col("interconnect").str.replace_all("(?i),? *no nvlink", "")
    per_node = (
        pl.when(links.str.contains("(?i)nvl72"))
        .then(72.0)
        .when(pl.col("gpu").str.contains("^TPU"))
        .then(256.0)
        .otherwise(8.0)
    )
    cards = pl.col("gpu_count")
    sharded = pl.col("dp_or_zero")
    return (
        rows.with_columns(
            accelerator=pl.col("gpu").replace_strict(names, default=None, return_dtype=pl.String),
            method=pl.col("kind").replace_strict(METHODS, default=None, return_dtype=pl.String),
            label=pl.col("precision"),
            # MLPerf logs name no precision; NVIDIA's and AMD's recent submissions train in FP8.
            precision=pl.col("precision")
            .fill_null(_mlperf_precision())
            .replace_strict(PRECISIONS, default=None, return_dtype=pl.String),
            params_active_b=pl.coalesce("params_active_b", "params_total_b"),
            sequence=pl.col("seq_len").fill_null(2048.0),
            tuned_stack=~(pl.col("framework").str.contains(GENERIC) | note.str.contains("(?i)reference")),
            checkpointing=pl.when(
                note.str.contains(
                    r"(?i)full activation checkpointing=yes|full AC|full activation checkpointing|gradient checkpointing|HFU"
                )
                & ~note.str.contains("(?i)checkpointing=no")
            )
            .then(pl.lit("full"))
            .otherwise(pl.lit("selective")),
            zero_stage=pl.when(sharded.str.contains("(?i)fsdp|zero-3")).then(3).otherwise(1),
            interconnect_class=pl.when(links.str.contains("(?i)pcie") & ~links.str.contains("(?i)nvlink|xgmi")).then(
                pl.lit("pcie")
            ),
            network_gbps=_network_gbps(links) * pl.min_horizontal(per_node, 8.0),
            rdma=~links.str.contains("(?i)gpudirect-tcpx|ethernet$")
            | links.str.contains("(?i)roce|infiniband|\\bIB\\b"),
            accelerators_per_node=pl.min_horizontal(cards.fill_null(8.0), per_node),
            before_2023=(pl.col("year").cast(pl.Float64, strict=False) < 2023).fill_null(False),
            whole_run=pl.col("tokens_per_s_per_gpu").is_null() & pl.col("tflops_per_gpu").is_null(),
            short_samples=note.str.contains("(?i)unpacked"),
        )
        .with_columns(
            nodes=(cards.fill_null(8.0) / pl.col("accelerators_per_node")).ceil(),
            tp=pl.col("tp").fill_null(1.0),
            pp=pl.col("pp").fill_null(1.0),
            micro_batch=pl.lit(1.0),
        )
        .with_columns(dp=(cards.fill_null(8.0) / (pl.col("tp") * pl.col("pp"))).clip(1.0))
        .with_columns(measured=_tokens_per_s(), reason=_refusal())
    )


def _accelerator(catalog: Catalog, label: str) -> str | None:
    try:
        return resolve_accelerator(catalog, label)
    except UnknownName:
        return None


def _mlperf_precision() -> pl.Expr:
    mlperf = pl.col("note").str.contains("MLPerf Training")
    return (
        pl.when(mlperf & pl.col("gpu").str.contains("^(H100|H200|B200|GB200|B300|GB300|MI3|L40S)"))
        .then(pl.lit("fp8"))
        .otherwise(pl.lit("bf16"))
    )


def _network_gbps(links: pl.Expr) -> pl.Expr:
    """Network per accelerator [Gb/s] where the row states it."""
    per_gpu = links.str.extract(r"(\d+) Gb/s per GPU").cast(pl.Float64)
    per_node = links.str.extract(r"(\d+) Gbps RoCE node-node").cast(pl.Float64) / 8.0
    one = pl.when(links.str.contains("one 100 Gb/s IB")).then(100.0 / 8.0)
    efa = links.str.extract(r"EFA (\d+) Gb/s per node").cast(pl.Float64) / 8.0
    hdr = pl.when(links.str.contains(r"IB HDR \(Selene\)|IB HDR$")).then(200.0)
    omni_path = pl.when(links.str.contains(r"4x Omni-Path per node|Omni-Path")).then(4 * 100.0 / 8.0)
    a3 = pl.when(links.str.contains("GCP A3")).then(200.0)
    return pl.coalesce(per_gpu, per_node, one, efa, hdr, omni_path, a3)


def _tokens_per_s() -> pl.Expr:
    method_c = pl.when(pl.col("method").is_in(["lora", "qlora"])).then(4.0).otherwise(6.0)
    causal = pl.col("framework").str.contains("Megatron-Bridge|Automodel")
    attention = (
        pl.when(causal).then(6.0).otherwise(12.0) * pl.col("layers").fill_null(0.0) * pl.col("hidden").fill_null(0.0)
    )
    flops = method_c * pl.col("params_active_b") * 1e9 + attention * pl.col("sequence")
    hardware = (
        pl.when(pl.col("note").str.contains("HFU") & ~pl.col("note").str.contains("model FLOPs"))
        .then(0.75)
        .otherwise(1.0)
    )
    from_tflops = pl.col("tflops_per_gpu") * 1e12 * hardware / flops
    whole_run = pl.col("tokens_total") / (pl.col("gpu_hours") * 3600.0)
    return pl.coalesce("tokens_per_s_per_gpu", from_tflops, whole_run)


def _refusal() -> pl.Expr:
    return (
        pl.when(pl.col("accelerator").is_null())
        .then(pl.format("accelerator not in the catalogue: {}", pl.col("gpu").fill_null("not given")))
        .when(pl.col("method").is_null())
        .then(pl.format("kind of training not known: {}", pl.col("kind").fill_null("not given")))
        .when(pl.col("precision").is_null())
        .then(pl.format("precision not known: {}", pl.col("label").fill_null("not given")))
        .when(pl.col("params_active_b").is_null())
        .then(pl.lit("number of parameters not given"))
    )
