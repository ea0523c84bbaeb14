"""One million candidate rows through the memory expressions (`pytest tests/bench`); the target is 2 s and 2 GiB."""

from __future__ import annotations

import resource
from typing import Any

import polars as pl

from catalogs.load import load_catalog
from solver.features.memory import with_serving_memory
from solver.features.memory_tables import MemoryTables
from solver.features.memory_training import with_training_memory

ROWS = 1_000_000
PROVENANCE = ("source", "as_of", "confidence", "notes")
CARD = ("accelerator", "architecture", "memory_gib", "bf16_dense_tflops", "fp16_dense_tflops", "fp8_dense_tflops",
        "int8_dense_tops", "fp4_dense_tflops")  # fmt: skip


def drawn(frame: pl.DataFrame, seed: int) -> pl.DataFrame:
    return frame.sample(ROWS, with_replacement=True, seed=seed)


def candidates(config: dict[str, list[Any]]) -> pl.DataFrame:
    catalog = load_catalog()
    models = drawn(catalog.models.drop(PROVENANCE), 1)
    cards = drawn(catalog.accelerators.select(CARD), 2)
    columns = [drawn(pl.DataFrame({name: values}), 3 + i) for i, (name, values) in enumerate(config.items())]
    return pl.concat([models, cards, *columns], how="horizontal")


def test_serving(benchmark: Any) -> None:
    frame = candidates({
        "precision": ["bf16", "fp8", "int4", "mxfp4"],
        "kv_precision": ["bf16", "fp8"],
        "tp": [1, 2, 4, 8],
        "pp": [1, 2],
        "engine": ["vllm", "sglang", "tensorrt-llm"],
        "context_tokens": [4096, 32768, 131072],
        "min_concurrency": [1.0, 16.0, 64.0],
    })  # fmt: skip
    tables = MemoryTables.of(load_catalog())
    out = benchmark(with_serving_memory, frame, tables)
    assert out.height == ROWS
    benchmark.extra_info["peak_gib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def test_training(benchmark: Any) -> None:
    frame = candidates({
        "method": ["pretrain", "full", "lora", "qlora"],
        "optimizer": ["adamw", "adamw_8bit", "muon"],
        "sequence": [2048, 8192],
        "micro_batch": [1, 4],
        "tp": [1, 2, 8],
        "pp": [1, 4],
        "dp": [1, 8, 64],
        "zero_stage": [0, 1, 3],
        "checkpointing": ["none", "selective", "full"],
    })  # fmt: skip
    tables = MemoryTables.of(load_catalog())
    out = benchmark(with_training_memory, frame, tables)
    assert out.height == ROWS
    benchmark.extra_info["peak_gib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
