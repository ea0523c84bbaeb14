"""The full sweep: every model x accelerator x tp x precision x 20 request sizes (`pytest tests/bench`); target 5 s on 2 cores."""

from __future__ import annotations

from typing import Any

import polars as pl

from catalogs.load import load_catalog
from solver.features.memory import with_serving_memory
from solver.features.memory_tables import MemoryTables
from solver.features.speed_tables import SpeedTables
from solver.features.throughput import with_serving_rate
from solver.features.throughput_serving import READ

PROVENANCE = ("source", "as_of", "confidence", "notes")
LENGTHS = [(isl, osl) for isl in (128, 512, 1000, 2048, 8192) for osl in (32, 128, 300, 1024)]


def test_full_sweep(benchmark: Any) -> None:
    catalog = load_catalog()
    memory, speed = MemoryTables.of(catalog), SpeedTables.of(catalog)
    buckets = pl.DataFrame(LENGTHS, schema=["isl", "osl"], orient="row")
    frame = catalog.accelerators.drop(PROVENANCE).join(catalog.models.drop(PROVENANCE), how="cross")
    for column in (pl.DataFrame({"tp": [1, 2, 4, 8]}), pl.DataFrame({"precision": ["bf16", "fp8", "int4", "nvfp4"]})):
        frame = frame.join(column, how="cross")
    frame = frame.with_columns(
        pp=1, engine=pl.lit("vllm"), kv_precision=pl.lit("bf16"), percentile=pl.lit("p95"), context_tokens=9216,
        ttft_limit_s=1.0, tpot_limit_s=0.05,
    )  # fmt: skip

    def sweep() -> pl.DataFrame:
        fits = with_serving_memory(frame, memory).filter("fits_memory")
        narrow = fits.select(c for c in fits.columns if c in READ or c in ("model", "kv_precision"))
        return with_serving_rate(narrow, speed, buckets=buckets)

    rated = benchmark.pedantic(sweep, rounds=3, warmup_rounds=1)
    assert rated.height > 1_000_000
    assert rated["rate_req_s"].drop_nulls().len() > 500_000
