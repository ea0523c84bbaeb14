"""The validation of memory: its form on rows made here, and its targets on the reference rows where they are at hand."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from catalogs.load import load_catalog
from solver.validation.memory_cases import engine_profile, settings, version_of
from solver.validation.training_cases import measured_gib
from solver.validation.validate_memory import ValidationError, read_rows, validate_memory, validate_memory_rows

CATALOG = load_catalog()
ROW = {
    "case_id": "a1", "engine": "vllm", "engine_version": "0.19.0", "model": "Llama-3.1-8B", "params_b": "8.03",
    "weight_precision": "bf16", "kv_precision": "bf16", "gpu": "H100-80GB", "gpu_mem_gib": "79.19", "tp": "1", "pp": "1",
    "max_model_len": "8192", "gpu_memory_utilization": "0.9", "weights_gib_per_gpu_reported": "15.0",
    "kv_gib_per_gpu_reported": "50.0", "kv_tokens_reported": "409600", "max_concurrency_reported": "50",
    "verdict": "fits", "detail": "", "source": "made up", "note": "",
}  # fmt: skip
TRAINING = {
    "case_id": "t1", "kind": "lora", "model": "Llama-2-7B", "seq_len": "1024", "gpu": "RTX-3090-24GB", "gpu_count": "1",
    "tp": "", "pp": "", "dp_or_zero": "", "memory_gb_per_gpu": "18.0", "framework": "LLaMA-Factory HF",
    "note": "batch 4; LoRA r=8 all modules",
}  # fmt: skip


def shared(name: str) -> Path:
    root = os.environ.get("KITOUT_SHARED")
    folder = Path(root) if root else Path(__file__).parents[2].parent / "shared"
    path = folder / "reference" / name
    if not path.is_file():
        pytest.skip("reference rows are not at hand (KITOUT_SHARED)")
    return path


def by_quantity(result: dict[str, Any], case: str) -> dict[str, dict[str, Any]]:
    return {row["quantity"]: row for row in result["rows"] if row["case_id"] == case}


def test_form_of_the_result() -> None:
    result = validate_memory_rows(CATALOG, [ROW, {**ROW, "case_id": "a2", "model": "no such model"}])
    assert set(result) >= {"n", "refused", "metrics", "verdicts", "groups", "rows"}
    assert result["n"] == len(result["rows"]) == 6
    assert result["refused"] == 3
    assert set(result["metrics"]) == {"weights_gib", "kv_bytes_per_token", "kv_pool_share_of_card"}
    for metric in result["metrics"].values():
        assert (metric["n"], metric["refused"]) == (2, 1)
        assert {"median_abs_rel", "p90_abs_rel", "mean_signed_rel"} <= set(metric)
    rows = by_quantity(result, "a1")
    assert rows["weights_gib"]["predicted"] == pytest.approx(14.99, abs=0.01)
    assert rows["kv_bytes_per_token"]["measured"] == rows["kv_bytes_per_token"]["predicted"] == 131072
    assert rows["kv_pool_share_of_card"]["measured"] == pytest.approx(50 / 79.19)
    assert "unknown model" in by_quantity(result, "a2")["weights_gib"]["reason"]
    assert result["verdicts"]["n"] == 1
    assert result["verdicts"]["right"] == 1
    assert result["verdicts"]["wrong_fits"] == 0
    json.dumps(result, allow_nan=False)


def test_wrong_fits_are_counted() -> None:
    result = validate_memory_rows(CATALOG, [{**ROW, "verdict": "oom"}])
    assert result["verdicts"]["wrong_fits"] == 1
    assert result["verdicts"]["right"] == 0


def test_measured_columns_are_never_input() -> None:
    blank = {**ROW, "weights_gib_per_gpu_reported": "1.0", "kv_gib_per_gpu_reported": "2.0", "kv_tokens_reported": "5"}
    one, other = (validate_memory_rows(CATALOG, [row]) for row in (ROW, blank))
    for quantity, row in by_quantity(one, "a1").items():
        assert by_quantity(other, "a1")[quantity]["predicted"] == row["predicted"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"engine": "mystery"}, "no memory profile"),
        ({"weight_precision": "fp3"}, "weight precision"),
        ({"kv_precision": "fp5"}, "KV precision"),
    ],
)
def test_refusals(change: dict[str, str], reason: str) -> None:
    result = validate_memory_rows(CATALOG, [{**ROW, **change}])
    assert result["refused"] == 3
    assert all(reason in row["reason"] for row in result["rows"])


def test_card_of_unknown_memory_refuses_the_pool_only() -> None:
    result = validate_memory_rows(CATALOG, [{**ROW, "gpu": "some card", "gpu_mem_gib": ""}])
    assert result["refused"] == 1
    assert "memory of the card" in by_quantity(result, "a1")["kv_pool_share_of_card"]["reason"]


def test_training_rows() -> None:
    result = validate_memory_rows(CATALOG, [TRAINING, {**TRAINING, "case_id": "t2", "note": "LoRA r=8"}])
    first, second = result["rows"]
    assert first["quantity"] == "training_gib"
    assert first["predicted"] == pytest.approx(first["measured"], rel=0.2)
    assert "micro-batch is not stated" in second["reason"]
    assert result["metrics"]["training_gib"]["under_predicted_share"] == 0.0


def test_units_of_the_figure() -> None:
    assert measured_gib({"memory_gb_per_gpu": "10", "note": "memory in GiB"}) == 10
    assert measured_gib({"memory_gb_per_gpu": "10", "note": ""}) == pytest.approx(9.313, abs=1e-3)
    assert measured_gib({"detail": "peak 16.51 GB (decimal)"}) == pytest.approx(15.376, abs=1e-3)
    assert measured_gib({"detail": "peak 22.04 GiB/GPU"}) == 22.04
    assert measured_gib({"detail": "OOM"}) is None


def test_versions_choose_profiles() -> None:
    assert version_of("0.10.1.1") == (0, 10)
    assert version_of("0.2x") == (0, 20)
    assert version_of("0.6.5-dev") == (0, 6)
    names = [
        engine_profile(CATALOG.engines, "vllm", v) for v in ("0.5.3", "0.7.x", "0.11.2", "0.19.0", "0.26.1rc1", "")
    ]
    assert names == ["vllm-0.5", "vllm-0.7", "vllm-0.9", "vllm-0.17", "vllm", "vllm"]
    assert engine_profile(CATALOG.engines, "trtllm", "1.x") == "tensorrt-llm"


def test_settings_are_read_from_text() -> None:
    text = "eager; max_num_seqs 1; batched 2048; decode context parallel 8; DP attention 8; expert parallel over 16"
    assert settings(text) == {
        "eager": True, "max_num_seqs": 1, "max_batched_tokens": 2048, "dcp": 8, "attention_dp": 8, "ep": 16,
    }  # fmt: skip
    assert settings("activation 5.56") == {"eager": False}


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises(ValidationError, match="are missing"):
        read_rows(path)
    with pytest.raises(ValidationError, match="cannot be read"):
        read_rows(tmp_path / "none.csv")


# --- targets on the reference rows ---------------------------------------------------------------------------------------


def test_serving_targets_on_reference_rows() -> None:
    result = validate_memory(CATALOG, shared("memory_logs.csv"))
    weights = result["metrics"]["weights_gib"]
    assert weights["median_abs_rel"] <= 0.01
    assert weights["p90_abs_rel"] <= 0.05
    assert abs(weights["mean_signed_rel"]) <= 0.01
    assert result["metrics"]["kv_bytes_per_token"]["p90_abs_rel"] <= 0.005
    assert result["groups"]["vllm"]["metrics"]["kv_pool_share_of_card"]["p90_abs"] <= 0.04
    verdicts = result["verdicts"]
    assert verdicts["right_share"] >= 0.97
    assert verdicts["wrong_fits"] == 0
    assert verdicts["refused"] <= 0.1 * verdicts["n"]
    for row in result["rows"]:
        if row["quantity"] == "kv_bytes_per_token":
            assert row["predicted"] == pytest.approx(row["measured"], rel=0.10)


def test_training_targets_on_reference_rows() -> None:
    metric = validate_memory(CATALOG, shared("training_measured.csv"))["metrics"]["training_gib"]
    assert metric["median_abs_rel"] <= 0.15
    assert metric["p90_abs_rel"] <= 0.35
    assert metric["under_predicted_share"] <= 0.10
    assert metric["refused"] <= 0.2 * metric["n"]
