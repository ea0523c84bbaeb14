"""The stated accuracy, on the measured rows where they are at hand; shape of a validation on rows made here."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from catalogs.load import load_catalog
from solver.validation.calibrate import read_measurements
from solver.validation.validate_speed import validate_inference, validate_power, validate_training

CATALOG = load_catalog()
SHARED = Path(os.environ.get("KITOUT_SHARED", Path(__file__).parents[3] / "shared"))


def measured(name: str) -> pl.DataFrame:
    path = SHARED / "reference" / f"{name}_measured.csv"
    if not path.is_file():
        pytest.skip(f"{path.name} is not at hand")
    rows = pl.read_csv(path, infer_schema=False)
    return rows.with_columns(pl.when(pl.col(c) == "").then(None).otherwise(pl.col(c)).alias(c) for c in rows.columns)


def errors(report: dict[str, Any], quantity: str) -> pl.DataFrame:
    rows = pl.DataFrame(report["rows"], infer_schema_length=None).filter(pl.col("quantity") == quantity)
    return rows.with_columns(
        prefix=pl.col("case_id").str.replace(r"-\d+$", ""), error=pl.col("predicted") / pl.col("measured") - 1.0
    )


def within(rows: pl.DataFrame, median: float, p90: float) -> None:
    absolute = rows["error"].drop_nulls().abs()
    assert absolute.len() > 20
    assert absolute.median() <= median
    assert absolute.quantile(0.9, "linear") <= p90


def test_inference_rows() -> None:
    rows = measured("inference")
    report = validate_inference(rows, CATALOG)
    throughput = errors(report, "output_tokens_per_s")
    tuned = throughput.filter(pl.col("prefix").is_in(["trt017", "trt020", "trt10"]))
    active = rows.select(
        "case_id", moe=pl.col("params_active_b").cast(pl.Float64) < 0.95 * pl.col("params_total_b").cast(pl.Float64)
    )
    tuned = tuned.join(active, on="case_id")
    within(tuned.filter(~pl.col("moe")), 0.06, 0.18)
    within(tuned.filter("moe"), 0.10, 0.45)
    rest = throughput.filter(pl.col("prefix") != "gpustack")
    within(rest, 0.10, 0.42)
    assert abs(float(rest["error"].median())) <= 0.05  # type: ignore[arg-type]
    tpot = errors(report, "tpot_ms").filter(pl.col("prefix").is_in(["mlenergy", "trtonline"]))
    within(tpot, 0.15, 0.45)
    within(errors(report, "ttft_ms").filter(pl.col("prefix") == "trt09lat"), 0.15, 0.40)


def test_training_rows() -> None:
    rows = measured("training")
    report = validate_training(rows, CATALOG)
    error = errors(report, "tokens_per_s_per_gpu")
    within(error, 0.20, 0.60)
    dense = rows.filter(
        pl.col("params_active_b").is_null() | (pl.col("params_active_b") == pl.col("params_total_b"))
    ).filter(
        pl.col("gpu").str.contains("SXM|^A100|^H100|^B[23]00|^GB|^MI3|^Ascend|^V100|^Gaudi")
        & ~pl.col("gpu").str.contains("NVL-")
    )
    within(error.join(dense.select("case_id"), on="case_id", how="semi"), 0.12, 0.35)


def test_power_rows() -> None:
    report = validate_power(measured("power"), CATALOG)
    figures = report["metrics"]["relative_throughput"]
    assert figures["median_abs"] <= 0.05
    assert figures["p90_abs"] <= 0.10


def test_report_counts_refusals_and_keeps_every_row() -> None:
    rows = pl.DataFrame(
        {
            "case_id": ["a", "b", "c"],
            "model": ["Llama-3.1-8B", "Llama-3.1-8B", "no such model"],
            "weight_precision": ["fp8"] * 3,
            "gpu": ["L40S", "TPU-v5e", "L40S"],
            "gpu_count": ["1"] * 3,
            "tp": ["1"] * 3,
            "isl": ["128"] * 3,
            "osl": ["128"] * 3,
            "scenario": ["offline"] * 3,
            "engine": ["TensorRT-LLM"] * 3,
            "output_tokens_per_s_total": ["9000"] * 3,
        }
    )
    report = validate_inference(rows, CATALOG)
    assert (report["n"], report["refused"]) == (3, 2)
    assert report["metrics"]["output_tokens_per_s"]["n"] == 3
    by_case = {r["case_id"]: r for r in report["rows"]}
    assert by_case["a"]["predicted"] > 0
    assert by_case["a"]["reason"] is None
    assert by_case["b"]["predicted"] is None
    assert "no calibrated serving model" in by_case["b"]["reason"]
    assert "no such model" in by_case["c"]["reason"]


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("case_id,model\n1,2\n")
    with pytest.raises(ValueError, match=r"x\.csv: column missing: gpu"):
        read_measurements([tmp_path / "x.csv"])
    with pytest.raises(ValueError, match=r"none\.csv"):
        read_measurements([tmp_path / "none.csv"])


def test_a_burst_sees_half_of_the_prompts_that_a_steady_state_sees() -> None:
    """500 requests at once: nothing follows them; the same 500 in flight with more to come read twice the prompts."""
    rows = pl.DataFrame(
        {
            "case_id": ["burst", "steady", "no prompts"],
            "model": ["Llama-3.1-8B"] * 3,
            "weight_precision": ["fp8"] * 3,
            "gpu": ["H200-141GB-SXM5"] * 3,
            "gpu_count": ["1"] * 3,
            "tp": ["1"] * 3,
            "isl": ["400", "400", "1"],
            "osl": ["100", "100", "499"],
            "concurrency_or_batch": [None, "500", "500"],
            "scenario": ["server", "batch", "batch"],
            "engine": ["TensorRT-LLM"] * 3,
            "tpot_ms": ["30"] * 3,
            "note": ["online serving, 500 requests, arrival rate INF req/s", None, None],
        }
    )
    found = errors(validate_inference(rows, CATALOG), "tpot_ms")
    burst, steady, bare = (found.filter(pl.col("case_id") == c)["predicted"].item() for c in rows["case_id"])
    assert bare < burst < steady
    # step + prompts / 2 against step + prompts, the step being near that of requests without prompts.
    assert (steady - burst) == pytest.approx((steady - bare) / 2, rel=0.2)
