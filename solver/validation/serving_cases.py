"""Measured serving rows as cases for the rate model: what ran, and which of its figures the model can speak of.

A measurement CSV has case_id, model, weight_precision, kv_precision, gpu, gpu_count, tp, pp, isl, osl,
concurrency_or_batch, scenario, output_tokens_per_s_total, ttft_ms, tpot_ms, engine, source, note; blanks mean not given.

How a row was run decides what is predicted of it (`mode`):

- ``batch``      concurrency given: tokens/s and TPOT at min(concurrency, what memory and engine hold)
- ``offline``    all requests queued: tokens/s at the largest batch
- ``arrivals``   requests arrive at a rate: TPOT and TTFT at the number in flight that Little's law gives
- ``server``     a benchmark's server scenario with latency limits: tokens/s within them
- ``generate``   one stream without a prompt: tokens/s and TPOT
- ``prompt``     one prompt, nothing generated: TTFT
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import polars as pl

from catalogs.catalog import Catalog
from catalogs.errors import UnknownName
from catalogs.models import match_model
from catalogs.names import resolve_accelerator
from solver.features.memory import with_serving_memory
from solver.features.memory_tables import MemoryTables
from solver.features.speed_tables import SpeedTables, serving_constants
from solver.features.throughput_serving import with_optional

PRECISIONS: Final = {
    "w8a8": "int8", "w4a16": "w4a16-g128", "int4-awq": "awq-w4", "int4-gptq-g128": "gptq-w4", "exl2-4.0bpw": "int4",
    "fp4": "nvfp4",
}  # fmt: skip
"""Other names of weight formats in measurements; names of the `quantisation` table stand for themselves."""

REQUIRED: Final = ("case_id", "model", "gpu", "engine")
NUMBERS: Final = (
    "gpu_count",
    "tp",
    "pp",
    "isl",
    "osl",
    "concurrency_or_batch",
    "output_tokens_per_s_total",
    "ttft_ms",
    "tpot_ms",
)
TEXTS: Final = ("weight_precision", "kv_precision", "scenario", "source", "note", "version")

QUANTITIES: Final = {
    "output_tokens_per_s": "output_tokens_per_s_total",
    "tpot_ms": "tpot_ms",
    "ttft_ms": "ttft_ms",
}


def _found(find: Callable[[], str]) -> str | None:
    try:
        return find()
    except UnknownName:
        return None


def serving_cases(rows: pl.DataFrame, catalog: Catalog) -> pl.DataFrame:
    """Read measured rows into cases; `reason` is null where the models may try.

    Returns
    -------
    pl.DataFrame
        One row per measured row: case_id, accelerator, model, precision, kv_precision, engine, tp, pp, ep, attention_dp,
        replicas, isl, osl [tokens], concurrency (per replica), ttft_limit_s, tpot_limit_s, percentile, mode, the
        measured quantities, reason.
    """
    rows = rows.with_columns(
        *(pl.lit(None, pl.Float64).alias(c) for c in NUMBERS if c not in rows.columns),
        *(pl.lit(None, pl.String).alias(c) for c in TEXTS if c not in rows.columns),
    ).with_columns(pl.col(c).cast(pl.Float64, strict=False) for c in NUMBERS)
    gpus, labels = rows["gpu"].drop_nulls().unique(), rows["model"].drop_nulls().unique()
    names = {g: _found(partial(resolve_accelerator, catalog, g)) for g in gpus}
    formats = {p: p for p in catalog.quantisation["precision"]} | PRECISIONS
    models = {m: _found(partial(match_model, catalog, m)) for m in labels}
    support = catalog.engine_support.select("alias", "engine").unique()
    engines = {alias.lower(): engine for alias, engine in support.iter_rows()} | {e: e for e in support["engine"]}
    frame = rows.with_columns(
        accelerator=pl.col("gpu").replace_strict(names, default=None, return_dtype=pl.String),
        label=pl.col("model"),
        model=pl.col("model").replace_strict(models, default=None, return_dtype=pl.String),
        precision=pl.col("weight_precision").replace_strict(formats, default=None, return_dtype=pl.String),
        engine_name=pl.col("engine"),
        engine=pl.col("engine").str.to_lowercase().replace_strict(engines, default=None, return_dtype=pl.String),
    )
    oldest = catalog.engine_support.group_by(_alias=pl.col("alias").str.to_lowercase()).agg(
        _oldest=_release(pl.col("version_from")).min()
    )
    frame = (
        frame.with_columns(_alias=pl.col("engine_name").str.to_lowercase())
        .join(oldest, on="_alias", how="left", maintain_order="left")
        .with_columns(too_old=(_release(pl.col("version")) < pl.col("_oldest")).fill_null(False))
        .drop("_alias", "_oldest")
    )
    # KV precision where not stated: TensorRT-LLM's quantised checkpoints bring an 8-bit cache, others keep 16 bit.
    eight = (pl.col("engine") == "tensorrt-llm") & pl.col("precision").str.contains("^(fp8|nvfp4)")
    frame = frame.with_columns(
        kv_precision=pl.when(pl.col("kv_precision").is_in(["fp8", "int8", "bf16", "fp16"]))
        .then("kv_precision")
        .otherwise(pl.when(eight).then(pl.lit("fp8")).otherwise(pl.lit("bf16")))
    )
    frame = _lengths(frame, catalog.benchmark_lengths)
    pp = pl.col("pp").fill_null(1)
    frame = _expert_parallel(frame)
    frame = frame.with_columns(
        pp=pp, tp_free=pl.col("tp").is_null(), tp=pl.coalesce("tp", pl.col("gpu_count").clip(1, 8))
    )
    # "INF" arrivals: all of so many requests at once.
    requests = pl.col("note").fill_null("").str.extract(r"\b(\d+) requests\b").cast(pl.Float64)
    at_once = pl.col("note").fill_null("").str.contains(r"arrival rate (INF|inf)\b")
    frame = frame.with_columns(
        requests=requests, concurrency_or_batch=pl.coalesce("concurrency_or_batch", pl.when(at_once).then(requests))
    )
    frame = frame.with_columns(
        replicas=(pl.col("gpu_count") / (pl.col("tp") * pl.col("pp"))).clip(1.0).fill_null(1.0).floor(),
        mode=_mode(),
    ).with_columns(concurrency=pl.col("concurrency_or_batch") / pl.col("replicas"))
    return frame.with_columns(reason=_refusal())


BENCHMARK_FREE_SHARE: Final = 0.95
"""Share of free memory that TensorRT-LLM's published throughput runs give the KV cache (its default is 0.90)."""
LAYOUTS: Final = (1.0, 2.0, 4.0, 8.0)


def serving_frame(cases: pl.DataFrame, catalog: Catalog) -> pl.DataFrame:
    """Join model, accelerator, memory and engine columns to the cases that may be tried.

    Cases whose tensor parallelism is not given become one row per layout of 1, 2, 4 or 8 cards; the fastest counts.
    """
    tables = SpeedTables.of(catalog)
    cases = cases.filter(pl.col("reason").is_null())
    free = (
        cases.filter("tp_free")
        .drop("tp")
        .join(pl.DataFrame({"tp": LAYOUTS}), how="cross")
        .filter(pl.col("tp") <= pl.col("gpu_count"))
        .with_columns(replicas=(pl.col("gpu_count") / pl.col("tp")).floor())
        .select(cases.columns)
    )
    frame = pl.concat([cases.filter(~pl.col("tp_free")), free])
    provenance = ["source", "as_of", "confidence", "notes"]
    frame = (
        frame.drop(
            *(
                c
                for c in ("params_total_b", "params_active_b", "source", "notes", "version", "year")
                if c in frame.columns
            )
        )
        .join(catalog.models.drop(provenance), on="model", how="left", maintain_order="left")
        .join(catalog.accelerators.drop(provenance), on="accelerator", how="left", maintain_order="left")
        .with_columns(
            isl=pl.col("isl").fill_null(0.0),
            osl=pl.col("osl").fill_null(1.0).clip(1.0),
            **{c: pl.col(c).cast(pl.Int64) for c in ("tp", "pp", "ep", "attention_dp")},
        )
    )
    frame = with_optional(frame).with_columns(
        moe=pl.col("experts").fill_null(0) > 0,
        context_tokens=pl.col("isl") + pl.col("osl"),
        utilisation=pl.when(pl.col("engine") == "tensorrt-llm").then(BENCHMARK_FREE_SHARE),
        allow_weight_only=pl.lit(True),
    )
    engines = tables.engine_support.group_by("engine", "software_stack").agg(
        _most=pl.col("max_batch").max().cast(pl.Float64), _reserve=pl.col("kv_reserve").max()
    )
    frame = frame.join(engines, on=["engine", "software_stack"], how="left", maintain_order="left").with_columns(
        max_batch=pl.min_horizontal("max_batch", "_most"), kv_reserve=pl.col("_reserve").fill_null(1.0)
    )
    return with_serving_memory(frame.drop("_most", "_reserve"), MemoryTables.of(catalog))


def with_constants(frame: pl.DataFrame, catalog: Catalog) -> pl.DataFrame:
    """Join the calibration constants to a serving frame."""
    return frame.join(
        serving_constants(SpeedTables.of(catalog)),
        on=["accelerator", "engine", "moe"],
        how="left",
        maintain_order="left",
    )


def _release(text: pl.Expr) -> pl.Expr:
    """A release as one number (0.17 -> 17, 1.0 -> 1000); null where the text does not begin with one."""
    parts = text.str.extract_groups(r"^v?(\d{1,2})\.(\d{1,3})")
    return parts.struct[0].cast(pl.Int64) * 1000 + parts.struct[1].cast(pl.Int64)


def _lengths(frame: pl.DataFrame, lengths: pl.DataFrame) -> pl.DataFrame:
    """Fill lengths and limits that a named benchmark fixes but its logs leave out."""
    found = (
        frame.select("case_id", "source", "label", "note", "scenario")
        .join(
            lengths.select(
                "source_contains",
                "model",
                "note_contains",
                b_scenario="scenario",
                b_isl="isl",
                b_osl="osl",
                ttft_limit_s="ttft_limit_s",
                tpot_limit_s="tpot_limit_s",
                percentile="percentile",
            ),
            how="cross",
        )
        .filter(
            pl.col("source").fill_null("").str.contains(pl.col("source_contains"), literal=True)
            & ((pl.col("model") == "*") | (pl.col("model") == pl.col("label")))
            & ((pl.col("b_scenario") == "*") | (pl.col("b_scenario") == pl.col("scenario")))
            & (
                pl.col("note_contains").is_null()
                | pl.col("note").fill_null("").str.contains(pl.col("note_contains"), literal=True)
            )
        )
        # The row that asks for more (a note) is the more specific.
        .sort(pl.col("note_contains").is_null(), maintain_order=True)
        .unique("case_id", keep="first", maintain_order=True)
        .select("case_id", "b_isl", "b_osl", "ttft_limit_s", "tpot_limit_s", "percentile")
    )
    return frame.join(found, on="case_id", how="left", maintain_order="left").with_columns(
        isl=pl.coalesce("isl", "b_isl"),
        osl=pl.coalesce("osl", "b_osl"),
        percentile=pl.col("percentile").fill_null("mean"),
    )


def _expert_parallel(frame: pl.DataFrame) -> pl.DataFrame:
    """Read expert parallelism with data-parallel attention out of the note: "EP 8 DP 8" or in words.

    A group of n cards shares the experts as tensor parallelism over n would (tp = n); with data-parallel attention each
    card keeps the cache of its own requests (attention_dp = n).
    """
    note = pl.col("note").fill_null("")
    named = note.str.extract(r"\bEP (\d+)\b").cast(pl.Float64)
    ranks = note.str.extract(r"\bDP (\d+)\b").cast(pl.Float64)
    words = note.str.contains("attention data parallelism", literal=True)
    cards = pl.max_horizontal("tp", "named")
    words = note.str.contains("attention data parallelism", literal=True)
    return (
        frame.with_columns(named=pl.when(named <= pl.col("gpu_count")).then(named), ranks=ranks)
        .with_columns(
            tp=cards,
            ep=pl.when(words).then("tp").otherwise(pl.col("named").fill_null(1.0)),
            attention_dp=pl.when(words).then("tp").when(ranks <= cards).then("ranks").otherwise(1.0),
        )
        .drop("named", "ranks")
    )


def _mode() -> pl.Expr:
    osl, isl, batch = pl.col("osl"), pl.col("isl"), pl.col("concurrency_or_batch")
    return (
        pl.when((batch == 1) & (osl.is_null() | (osl == 0)) & (isl > 0))
        .then(pl.lit("prompt"))
        .when((batch == 1) & (isl.is_null() | (isl == 0)) & (osl > 0))
        .then(pl.lit("generate"))
        .when(batch.is_not_null())
        .then(pl.lit("batch"))
        .when(pl.col("scenario") == "offline")
        .then(pl.lit("offline"))
        .when(pl.col("tpot_limit_s").is_not_null())
        .then(pl.lit("server"))
        .otherwise(pl.lit("arrivals"))
    )


def _refusal() -> pl.Expr:
    lengths = (
        pl.when(pl.col("mode") == "prompt")
        .then(pl.col("isl").is_null())
        .when(pl.col("mode") == "generate")
        .then(pl.col("osl").is_null())
        .otherwise(pl.col("isl").is_null() | pl.col("osl").is_null())
    )
    return (
        pl.when(pl.col("accelerator").is_null())
        .then(pl.format("accelerator not in the catalogue: {}", pl.col("gpu").fill_null("not given")))
        .when(pl.col("model").is_null())
        .then(pl.format("model not in the catalogue: {}", pl.col("label").fill_null("not given")))
        .when(pl.col("engine").is_null())
        .then(pl.format("engine not known: {}", pl.col("engine_name").fill_null("not given")))
        .when("too_old")
        .then(pl.format("{} {} is older than the releases that the constants speak for", "engine_name", "version"))
        .when(pl.col("precision").is_null())
        .then(pl.format("weight format not known: {}", pl.col("weight_precision").fill_null("not given")))
        .when(pl.col("tp").is_null())
        .then(pl.lit("number of accelerators not given"))
        .when(lengths)
        .then(pl.lit("input or output length not given"))
    )
