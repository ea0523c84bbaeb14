"""Benchmark files into the user's own measurements: aiconfigurator's CSV and plain ones, checked against the bound.

The result is a `user_measurements` table for an overlay folder; nothing of it is needed at run time.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

import polars as pl

from catalogs.catalog import Catalog
from catalogs.errors import UnknownName
from catalogs.models import match_model
from catalogs.names import resolve_accelerator
from solver.features.memory import with_serving_memory
from solver.features.memory_tables import MemoryTables
from solver.features.speed_tables import SpeedTables
from solver.features.throughput import with_rate_bound
from solver.validation.validate_memory import ValidationError

AICONFIGURATOR: Final = "tokens/s/gpu"
"""Column that tells aiconfigurator's files (best_config_topn.csv, pareto.csv) from plain ones."""

SYSTEMS: Final = {
    "h100_sxm": "H100-80GB-SXM5", "h200_sxm": "H200-141GB-SXM5", "b200_sxm": "B200-180GB-SXM6", "gb200_sxm": "GB200-186GB",
    "gb200": "GB200-186GB", "a100_sxm": "A100-80GB-SXM4", "l40s": "L40S",
}  # fmt: skip
BACKENDS: Final = {"trtllm": "tensorrt-llm", "vllm": "vllm", "sglang": "sglang"}
PLAIN: Final = ("accelerator", "model", "precision", "tp", "isl", "osl", "output_tokens_per_s")


def read_benchmark(
    path: Path, catalog: Catalog, *, source: str, as_of: str, kind: str
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Read a benchmark CSV; see `import_measurements`.

    Parameters
    ----------
    kind
        aiconfigurator or benchmark: a file of the other kind is refused.

    Raises
    ------
    ValidationError
        The file cannot be read, is of the other kind, or lacks columns.
    """
    try:
        rows = pl.read_csv(path.read_bytes(), infer_schema=False)
    except OSError as error:
        raise ValidationError(f"{path}: cannot be read ({error.strerror})") from None
    except pl.exceptions.PolarsError as error:
        raise ValidationError(f"{path}: not a CSV in UTF-8 ({str(error).splitlines()[0]})") from None
    rows = rows.rename({c: c.strip() for c in rows.columns}).with_columns(pl.all().str.strip_chars().replace("", None))
    if (kind == "aiconfigurator") != (AICONFIGURATOR in rows.columns):
        what = f"has no column {AICONFIGURATOR!r}" if kind == "aiconfigurator" else "is a file of aiconfigurator's"
        raise ValidationError(
            f"{path}: {what}; import it as {'benchmark' if kind == 'aiconfigurator' else 'aiconfigurator'}"
        )
    try:
        return import_measurements(rows, catalog, source=source, as_of=as_of)
    except ValueError as error:
        raise ValidationError(f"{path}: {error}") from None


def import_measurements(
    rows: pl.DataFrame, catalog: Catalog, *, source: str, as_of: str
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Turn a benchmark file into `user_measurements` rows.

    Parameters
    ----------
    rows
        Rows as text: aiconfigurator's columns, or `PLAIN` with optional kv_precision, engine, pp, ttft_ms, tpot_ms,
        concurrency, offer, engine_version.
    source, as_of
        Provenance of the rows.

    Returns
    -------
    tuple[pl.DataFrame, pl.DataFrame]
        The table, and the rows refused: row (from 2, as in the file), reason.

    Raises
    ------
    ValueError
        A needed column is missing; names all of them.
    """
    plain = _from_aiconfigurator(rows) if AICONFIGURATOR in rows.columns else rows
    lacking = [c for c in PLAIN if c not in plain.columns]
    if lacking:
        raise ValueError(f"column missing: {', '.join(lacking)}")
    frame = _resolved(plain, catalog).with_row_index("row", offset=2)
    frame = frame.with_columns(reason=_refusal())
    good = frame.filter(pl.col("reason").is_null())
    bounded = _bound(good, catalog)
    checked = good.join(bounded, on="row", how="left").with_columns(
        reason=pl.when(pl.col("output_tokens_per_s") > pl.col("bound")).then(
            pl.format(
                "{} tokens/s is above what peak FLOPS and memory bandwidth allow ({})",
                pl.col("output_tokens_per_s").round(0).cast(pl.Int64),
                pl.col("bound").round(0).cast(pl.Int64),
            )
        )
    )
    refused = pl.concat(
        [frame.filter(pl.col("reason").is_not_null()), checked.filter(pl.col("reason").is_not_null())], how="diagonal"
    )
    columns = catalog.user_measurements.columns
    kept = checked.filter(pl.col("reason").is_null()).with_columns(
        source=pl.lit(source), as_of=pl.lit(as_of), confidence=pl.lit("measured"), notes=pl.lit(None, pl.String)
    )
    key = ["accelerator", "model", "precision", "kv_precision", "engine", "tp", "pp", "isl", "osl", "concurrency"]
    table = kept.sort("output_tokens_per_s").unique(key, keep="last", maintain_order=True).select(columns).sort(key)
    return table, refused.sort("row").select("row", "reason")


def _from_aiconfigurator(rows: pl.DataFrame) -> pl.DataFrame:
    """One replica per row: its rate is tokens/s per accelerator times the accelerators of the replica."""

    def text(name: str) -> pl.Expr:
        return pl.col(name) if name in rows.columns else pl.lit(None, pl.String)

    tp = pl.coalesce(text("tp"), text("(agg)tp"), pl.lit("1"))
    pp = pl.coalesce(text("pp"), text("(agg)pp"), pl.lit("1"))
    quantised = pl.coalesce(text("gemm"), text("gemm_quant_mode"), pl.lit("bf16")).str.to_lowercase()
    cards = pl.coalesce(
        text("num_total_gpus").cast(pl.Float64, strict=False),
        tp.cast(pl.Float64, strict=False) * pp.cast(pl.Float64, strict=False),
    )
    return rows.select(
        accelerator=pl.coalesce(text("system"), text("gpu")).replace(SYSTEMS),
        model=text("model"),
        precision=pl.when(quantised.str.contains("fp8"))
        .then(pl.lit("fp8"))
        .when(quantised.str.contains("nvfp4|fp4"))
        .then(pl.lit("nvfp4"))
        .when(quantised.str.contains("int4"))
        .then(pl.lit("int4"))
        .when(quantised.str.contains("int8"))
        .then(pl.lit("int8"))
        .otherwise(pl.lit("bf16")),
        kv_precision=pl.when(pl.coalesce(text("kvcache"), pl.lit("")).str.to_lowercase().str.contains("fp8"))
        .then(pl.lit("fp8"))
        .otherwise(pl.lit("bf16")),
        engine=pl.coalesce(text("backend"), pl.lit("trtllm")).replace(BACKENDS),
        engine_version=pl.coalesce(text("version"), text("backend_version")),
        tp=tp,
        pp=pp,
        isl=text("isl"),
        osl=text("osl"),
        output_tokens_per_s=(text(AICONFIGURATOR).cast(pl.Float64, strict=False) * cards).cast(pl.String),
        ttft_ms=text("ttft"),
        tpot_ms=text("tpot"),
        concurrency=text("concurrency"),
    )


def _resolved(plain: pl.DataFrame, catalog: Catalog) -> pl.DataFrame:
    defaults = {
        "kv_precision": "bf16",
        "engine": "vllm",
        "pp": "1",
        "ttft_ms": None,
        "tpot_ms": None,
        "concurrency": None,
        "offer": None,
        "engine_version": None,
    }
    plain = plain.with_columns(pl.lit(v, pl.String).alias(c) for c, v in defaults.items() if c not in plain.columns)
    cards = {a: _name(partial(resolve_accelerator, catalog, a)) for a in plain["accelerator"].drop_nulls().unique()}
    models = {m: _name(partial(match_model, catalog, m)) for m in plain["model"].drop_nulls().unique()}
    return plain.with_columns(
        asked=pl.col("accelerator"),
        asked_model=pl.col("model"),
        accelerator=pl.col("accelerator").replace_strict(cards, default=None, return_dtype=pl.String),
        model=pl.col("model").replace_strict(models, default=None, return_dtype=pl.String),
        kv_precision=pl.col("kv_precision").fill_null("bf16"),
        engine=pl.col("engine").fill_null("vllm"),
        **{c: pl.col(c).cast(pl.Float64, strict=False).round(0).cast(pl.Int64) for c in ("tp", "isl", "osl")},
        pp=pl.col("pp").cast(pl.Float64, strict=False).fill_null(1.0).cast(pl.Int64),
        concurrency=pl.col("concurrency").cast(pl.Float64, strict=False).fill_null(0.0).round(0).cast(pl.Int64),
        output_tokens_per_s=pl.col("output_tokens_per_s").cast(pl.Float64, strict=False),
        ttft_s=pl.col("ttft_ms").cast(pl.Float64, strict=False) / 1e3,
        tpot_s=pl.col("tpot_ms").cast(pl.Float64, strict=False) / 1e3,
    )


def _name(find: partial[str]) -> str | None:
    try:
        return find()
    except UnknownName:
        return None


def _refusal() -> pl.Expr:
    return (
        pl.when(pl.col("accelerator").is_null())
        .then(pl.format("unknown accelerator: {}", pl.col("asked").fill_null("not given")))
        .when(pl.col("model").is_null())
        .then(pl.format("unknown model: {}", pl.col("asked_model").fill_null("not given")))
        .when(pl.any_horizontal(pl.col(c).is_null() | (pl.col(c) < 1) for c in ("tp", "pp", "isl", "osl")))
        .then(pl.lit("tp, pp, isl and osl must be whole numbers of 1 or more"))
        .when(pl.col("output_tokens_per_s").is_null() | (pl.col("output_tokens_per_s") <= 0))
        .then(pl.lit("output_tokens_per_s must be a number above zero"))
    )


def _bound(rows: pl.DataFrame, catalog: Catalog) -> pl.DataFrame:
    """Bound of each row [tokens/s]; null where memory or figures of the card are not known."""
    provenance = ["source", "as_of", "confidence", "notes"]
    frame = (
        rows.select("row", "accelerator", "model", "precision", "kv_precision", "engine", "tp", "pp", "isl", "osl")
        .join(catalog.models.drop(provenance), on="model", how="left", maintain_order="left")
        .join(catalog.accelerators.drop(provenance), on="accelerator", how="left", maintain_order="left")
        .with_columns(context_tokens=pl.col("isl") + pl.col("osl"), allow_weight_only=pl.lit(True))
    )
    bounded = with_rate_bound(with_serving_memory(frame, MemoryTables.of(catalog)), SpeedTables.of(catalog))
    # A little room: a cache filled by other sizes than assumed here still obeys physics.
    return bounded.select("row", bound=pl.col("bound_output_tokens_per_s") * 1.05)
