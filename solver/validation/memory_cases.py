"""Read serving rows of a memory log: what engine, card, model and settings stand behind each line.

Logs state settings in free text beside the columns ("max_num_seqs 1024", "eager", "decode context parallel 8"); those
that bear on memory are read from there. Results (weights, pool, tokens) are never used as input.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from catalogs.catalog import Catalog
from catalogs.errors import UnknownName
from catalogs.models import ModelRow, models_frame, resolve_model
from catalogs.names import match_accelerators

Row = Mapping[str, str]
ENGINE_NAMES = {"vllm": "vllm", "sglang": "sglang", "trtllm": "tensorrt-llm", "tensorrt-llm": "tensorrt-llm",
                "llama.cpp": "llama.cpp", "llamacpp": "llama.cpp"}  # fmt: skip
TRAINING_ENGINES = frozenset(
    ["fsdp_qlora", "litgpt", "peft", "torchtune", "llama-factory", "axolotl", "unsloth", "trl", "deepspeed"]
)
#: Length taken for a verdict where the log does not state one [tokens].
UNSTATED_CONTEXT = 4096
WIDE_CARD_GIB = 70.0
SETTINGS: dict[str, tuple[str, ...]] = {
    "max_num_seqs": (r"max_num_seqs\s*=?\s*([\d,]+)",),
    "max_batched_tokens": (r"max_num_batched_tokens\s*=?\s*([\d,]+)", r"\bbatched\s+([\d,]+)"),
    "dcp": (r"decode context parallel\s*=?\s*(\d+)", r"\bdcp\s*=?\s*(\d+)"),
    "ep": (r"expert parallel over\s+(\d+)", r"\bep\s*=?\s*(\d+)"),
    "attention_dp": (r"dp attention\s*=?\s*(\d+)", r"attention dp\s*=?\s*(\d+)"),
}
EAGER = re.compile(r"\b(enforce_eager|eager)\b")


@dataclass
class Case:
    """One line of a log: columns for the features, or the reason why it is declined."""

    case_id: str
    group: str
    raw: Row
    columns: dict[str, Any] = field(default_factory=dict)
    model: ModelRow | None = None
    refused: str | None = None


def number(row: Row, name: str) -> float | None:
    """Give a column as a number; None where blank or not a number."""
    text = (row.get(name) or "").strip().replace(",", "")
    try:
        return float(text)
    except ValueError:
        return None


def version_of(text: str) -> tuple[int, int]:
    """Read major and minor of an engine version as logs print it: 0.10.1.1, 0.7.x, 0.2x, 0.6.5-dev."""
    found = re.match(r"v?(\d+)\.(\d+)(x)?", text.strip())
    if not found:
        return (10**6, 0)
    minor = int(found[2]) * (10 if found[3] else 1)
    return (int(found[1]), minor)


def engine_profile(engines: pl.DataFrame, engine: str, version: str) -> str | None:
    """Name the profile of an engine's version: the latest that starts no later than it."""
    family = ENGINE_NAMES.get(engine.strip().lower())
    if family is None:
        return None
    wanted = version_of(version)
    profiles: dict[str, tuple[int, int]] = {
        str(name): version_of(str(start))
        for name, start in engines.filter(pl.col("family") == family).select("engine", "version_from").iter_rows()
    }
    past = {name: start for name, start in profiles.items() if start <= wanted}
    return max(past or profiles, key=lambda name: profiles[name])


def card_columns(catalog: Catalog, label: str, memory_gib: float | None) -> dict[str, Any]:
    """Give architecture and memory of a card by its label; both null where no accelerator answers to it."""
    columns: dict[str, Any] = {"architecture": None, "memory_gib": None, "usable_memory_gib": memory_gib}
    names = match_accelerators(catalog, label)
    if not names:
        return columns
    cards = catalog.accelerators.filter(pl.col("accelerator").is_in(names))
    kinds = cards["architecture"].unique().to_list()
    columns["architecture"] = kinds[0] if len(kinds) == 1 else None
    columns["memory_gib"] = cards["memory_gib"].min()
    return columns


def settings(text: str) -> dict[str, Any]:
    """Read engine settings from free text."""
    lowered = text.lower()
    out: dict[str, Any] = {"eager": bool(EAGER.search(lowered))}
    for name, patterns in SETTINGS.items():
        for pattern in patterns:
            if found := re.search(pattern, lowered):
                out[name] = int(found[1].replace(",", ""))
                break
    return out


def is_training(row: Row) -> bool:
    """Say whether a line of a memory log is of a training run."""
    return (row.get("engine") or "").lower() in TRAINING_ENGINES or (row.get("note") or "").startswith("training")


def serving_case(catalog: Catalog, row: Row) -> Case:
    """Read one serving line."""
    case = Case(row.get("case_id", ""), row.get("engine") or "engine not stated", row)
    profile = engine_profile(catalog.engines, row.get("engine") or "", row.get("engine_version") or "")
    if profile is None:
        case.refused = f"no memory profile for engine {row.get('engine')!r}"
        return case
    try:
        case.model = resolve_model(catalog, row.get("model") or "")
    except UnknownName as error:
        case.refused = str(error)
        return case
    precision = (row.get("weight_precision") or "").strip()
    if precision not in set(catalog.quantisation["precision"]):
        case.refused = f"weight precision {precision!r} is not one of the quantisation table"
        return case
    kv = (row.get("kv_precision") or "").strip() or ("fp32" if precision == "fp32" else "bf16")
    if kv not in set(catalog.kv_precisions["kv_precision"]):
        case.refused = f"KV precision {kv!r} is not known"
        return case
    context = number(row, "max_model_len")
    case.columns = {
        "engine": profile,
        "precision": precision,
        "kv_precision": kv,
        "tp": int(number(row, "tp") or 1),
        "pp": int(number(row, "pp") or 1),
        "context_tokens": int(context or min(UNSTATED_CONTEXT, case.model["max_context"])),
        "utilisation": number(row, "gpu_memory_utilization"),
        # The run took place, so a kernel for the format was there.
        "allow_weight_only": True,
        **dict.fromkeys(SETTINGS),
        **settings(row.get("detail") or ""),
        **card_columns(catalog, row.get("gpu") or "", number(row, "gpu_mem_gib")),
    }
    if case.columns["utilisation"] is not None and case.columns["max_num_seqs"] is None:
        # The log shows a start-up with its settings; what it leaves out stood at the engine's default.
        big = catalog.engines.filter(pl.col("engine") == profile)
        wide = (number(row, "gpu_mem_gib") or 0.0) >= WIDE_CARD_GIB and case.columns["architecture"] != "Ampere"
        kind = "wide" if wide else "standard"
        case.columns["max_num_seqs"] = big.filter(pl.col("card_class") == kind)["max_num_seqs"].item()
    return case


PEAKS = ("fp16_dense_tflops", "bf16_dense_tflops", "fp8_dense_tflops", "int8_dense_tops", "fp4_dense_tflops")


def frame_of(catalog: Catalog, cases: Sequence[Case]) -> pl.DataFrame:
    """Give the accepted cases as one flat frame for the features; peaks are taken as present, since the run ran."""
    models = models_frame(catalog, [case.model for case in cases if case.model is not None])
    schema: dict[str, Any] = {
        "ep": pl.Int64,
        "dcp": pl.Int64,
        "attention_dp": pl.Int64,
        "max_num_seqs": pl.Int64,
    }
    schema |= {"max_batched_tokens": pl.Int64, "utilisation": pl.Float64, "usable_memory_gib": pl.Float64}
    schema |= {"memory_gib": pl.Float64, "architecture": pl.String}
    config = pl.DataFrame([case.columns for case in cases], infer_schema_length=None)
    config = config.with_columns(pl.col(name).cast(kind) for name, kind in schema.items() if name in config.columns)
    peaks = [pl.lit(1.0).alias(name) for name in PEAKS]
    return pl.concat([models, config], how="horizontal").with_columns(peaks)
