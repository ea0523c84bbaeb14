"""Small builders of the flat frames that the memory features read."""

from __future__ import annotations

from typing import Any

import polars as pl

from catalogs.load import load_catalog
from catalogs.models import models_frame, resolve_model
from solver.features.memory import with_serving_memory
from solver.features.memory_tables import MemoryTables
from solver.features.memory_training import with_training_memory

PROVENANCE = ("source", "as_of", "confidence", "notes")


def tables() -> MemoryTables:
    return MemoryTables.of(load_catalog())


def frame(model: str, accelerator: str, **config: Any) -> pl.DataFrame:
    catalog = load_catalog()
    card = catalog.accelerators.filter(pl.col("accelerator") == accelerator).drop(PROVENANCE)
    assert card.height == 1, accelerator
    rows = models_frame(catalog, [resolve_model(catalog, model)]).join(card, how="cross", suffix="_card")
    height = max((len(v) for v in config.values() if isinstance(v, list)), default=1)
    settings = pl.DataFrame({k: v if isinstance(v, list) else [v] * height for k, v in config.items()})
    return rows.join(settings, how="cross")


def serving(model: str, accelerator: str = "H100-80GB-SXM5", **config: Any) -> pl.DataFrame:
    defaults: dict[str, Any] = {
        "precision": "bf16",
        "kv_precision": "bf16",
        "engine": "vllm",
        "tp": 1,
        "pp": 1,
        "context_tokens": 8192,
        "min_concurrency": 1.0,
    }
    return with_serving_memory(frame(model, accelerator, **{**defaults, **config}), tables())


def serve_one(model: str, accelerator: str = "H100-80GB-SXM5", **config: Any) -> dict[str, Any]:
    return serving(model, accelerator, **config).row(0, named=True)


def training(model: str, accelerator: str = "H100-80GB-SXM5", **config: Any) -> pl.DataFrame:
    defaults: dict[str, Any] = {
        "method": "full",
        "optimizer": "adamw",
        "precision": "bf16",
        "sequence": 4096,
        "micro_batch": 1,
        "tp": 1,
        "pp": 1,
        "dp": 1,
        "zero_stage": 0,
        "checkpointing": "full",
        "lora_rank": 16,
    }
    return with_training_memory(frame(model, accelerator, **{**defaults, **config}), tables())


def train_one(model: str, accelerator: str = "H100-80GB-SXM5", **config: Any) -> dict[str, Any]:
    return training(model, accelerator, **config).row(0, named=True)
