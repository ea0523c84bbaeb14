"""Frames for the speed tests: rows of the default catalogue, crossed with what a test asks for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from catalogs.load import load_catalog
from solver.features.memory import with_serving_memory
from solver.features.memory_tables import MemoryTables
from solver.features.speed_tables import SpeedTables

CATALOG = load_catalog()
TABLES = SpeedTables.of(CATALOG)
PROVENANCE = ["source", "as_of", "confidence", "notes"]


def pairs(models: Sequence[str], accelerators: Sequence[str]) -> pl.DataFrame:
    """Model and accelerator columns of every pair, in the order asked for."""
    wanted_models = pl.DataFrame({"model": models}).join(
        CATALOG.models.drop(PROVENANCE), on="model", how="inner", maintain_order="left"
    )
    wanted_cards = pl.DataFrame({"accelerator": accelerators}).join(
        CATALOG.accelerators.drop(PROVENANCE), on="accelerator", how="inner", maintain_order="left"
    )
    assert wanted_models.height == len(models)
    assert wanted_cards.height == len(accelerators)
    return wanted_cards.join(wanted_models, how="cross", maintain_order="left_right")


def serving(models: Sequence[str], accelerators: Sequence[str], **config: Any) -> pl.DataFrame:
    """A serving frame with memory; a config value may be a list, which gives one row per value."""
    settings: dict[str, Any] = {
        "tp": 1, "pp": 1, "engine": "vllm", "precision": "fp8", "kv_precision": "bf16", "isl": 1000, "osl": 300,
        "percentile": "p95",
    } | config  # fmt: skip
    frame = pairs(models, accelerators)
    for name, value in settings.items():
        values = value if isinstance(value, list) else [value]
        frame = frame.join(pl.DataFrame({name: values}), how="cross", maintain_order="left_right")
    frame = frame.with_columns(context_tokens=pl.col("isl") + pl.col("osl"))
    return with_serving_memory(frame, MemoryTables.of(CATALOG))


def training(models: Sequence[str], accelerators: Sequence[str], **config: Any) -> pl.DataFrame:
    """A training frame; 32 nodes of 8 by default."""
    settings: dict[str, Any] = {
        "method": "pretrain", "precision": "bf16", "sequence": 2048, "micro_batch": 1, "tp": 8, "pp": 4, "dp": 8, "nodes": 32,
        "accelerators_per_node": 8, "global_batch_tokens": 4e6, "network_gbps": 3200.0, "rdma": True,
    } | config  # fmt: skip
    frame = pairs(models, accelerators)
    for name, value in settings.items():
        values = value if isinstance(value, list) else [value]
        frame = frame.join(pl.DataFrame({name: values}), how="cross", maintain_order="left_right")
    return frame
