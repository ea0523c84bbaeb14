"""Load calculator, comparison of a running plan, import of benchmark files, calibration and its repeatability."""

from __future__ import annotations

import polars as pl
import pytest

from catalogs.load import load_catalog
from solver.features.speed_tables import SERVING_CONSTANTS
from solver.features.throughput_serving import with_step_terms
from solver.load import users_to_load
from solver.validation.against import compare_plan
from solver.validation.calibrate import calibrate_serving, calibrate_training
from solver.validation.import_measurements import import_measurements
from solver.validation.serving_cases import serving_cases, serving_frame, with_constants
from solver.validation.serving_predict import predict_cases
from solver.validation.validate_memory import ValidationError

CATALOG = load_catalog()
CASE_COLUMNS = (
    "case_id", "model", "weight_precision", "kv_precision", "gpu", "gpu_count", "tp", "pp", "isl", "osl",
    "concurrency_or_batch", "scenario", "engine",
)  # fmt: skip


def test_users_to_load_shows_its_steps() -> None:
    """5,000 users, 4 % active, 6 requests/h: 1,200 requests/h; 10 s each keep 3.33 in flight."""
    steps = users_to_load(5000, 0.04, 6, 1000, 300, latency_s=10)
    assert [s.what for s in steps] == [
        "active users",
        "request rate",
        "input tokens",
        "output tokens",
        "requests in flight",
    ]
    assert [s.value for s in steps] == pytest.approx([200, 1 / 3, 1000 / 3, 100, 10 / 3])
    assert "Little" in steps[-1].formula
    assert users_to_load(5000, 0.04, 6, 1000, 300, peak_factor=2)[1].value == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("change", "word"),
    [({"users": -1}, "users"), ({"active_share": 1.5}, "active_share"), ({"latency_s": 0}, "latency_s")],
)
def test_users_to_load_refuses_nonsense(change: dict[str, float], word: str) -> None:
    given = {"users": 10.0, "active_share": 0.1, "requests_per_active_user_h": 1.0, "isl": 10.0, "osl": 10.0}
    with pytest.raises(ValueError, match=word):
        users_to_load(**(given | change))  # type: ignore[arg-type]


PLAN = {"workloads": [{"name": "chat", "placements": [{"rate": 5.0, "replicas_by_period": [2, 4]}]}]}


@pytest.mark.parametrize(
    ("row", "bottleneck"),
    [
        ({"rate": "20", "gpu_utilisation": "85%"}, "none"),
        ({"rate": "12", "gpu_utilisation": "92"}, "compute"),
        ({"rate": "12", "gpu_utilisation": "0.4", "data_wait_share": "35%"}, "storage"),
        ({"rate": "12", "gpu_utilisation": "0.4", "network_utilisation": "0.9"}, "network"),
        ({"rate": "12", "gpu_utilisation": "0.4"}, "unclear"),
    ],
)
def test_a_running_plan_beside_what_was_measured(row: dict[str, str], bottleneck: str) -> None:
    (finding,) = compare_plan(PLAN, [{"workload": "chat", **row}])
    assert finding.planned_rate == 20.0
    assert finding.ratio == pytest.approx(float(row["rate"]) / 20)
    assert finding.bottleneck == bottleneck


def test_measurements_of_no_workload_of_the_plan_are_an_error() -> None:
    with pytest.raises(ValidationError, match="lost"):
        compare_plan(PLAN, [{"workload": "lost", "rate": "1"}])


PLAIN = {
    "accelerator": ["H100 SXM", "H100 SXM", "H100-80GB-SXM5", "no such card", "H100 SXM"],
    "model": ["llama-3.1-8b", "llama-3.1-8b", "no such model", "llama-3.1-8b", "llama-3.1-8b"],
    "precision": ["fp8"] * 5,
    "tp": ["1", "1", "1", "1", "x"],
    "isl": ["1000"] * 5,
    "osl": ["1000"] * 5,
    "output_tokens_per_s": ["9000", "900000", "1", "1", "1"],
}


def test_plain_benchmarks_become_user_measurements_within_the_bound() -> None:
    table, refused = import_measurements(pl.DataFrame(PLAIN), CATALOG, source="our bench", as_of="2026-11")
    assert table.columns == CATALOG.user_measurements.columns
    assert table.select("accelerator", "model", "output_tokens_per_s").rows() == [
        ("H100-80GB-SXM5", "Llama-3.1-8B", 9000.0)
    ]
    assert refused["row"].to_list() == [3, 4, 5, 6]
    assert "above what peak FLOPS and memory bandwidth allow" in refused["reason"][0]
    with pytest.raises(ValueError, match="isl, osl"):
        import_measurements(pl.DataFrame(PLAIN).drop("isl", "osl"), CATALOG, source="x", as_of="2026-11")


def test_aiconfigurator_rows_are_read() -> None:
    rows = pl.DataFrame(
        {
            "model": ["Qwen/Qwen3-32B"], "isl": ["4000"], "osl": ["500"], "tp": ["2"], "pp": ["1"], "num_total_gpus": ["2"],
            "tokens/s/gpu": ["700"], "ttft": ["480.5"], "tpot": ["21.5"], "system": ["h200_sxm"], "backend": ["trtllm"],
            "version": ["1.0.0rc3"], "gemm": ["fp8_block"], "kvcache": ["fp8"],
        }
    )  # fmt: skip
    table, refused = import_measurements(rows, CATALOG, source="aiconfigurator", as_of="2026-11")
    assert refused.is_empty()
    row = table.row(0, named=True)
    assert (row["accelerator"], row["model"], row["precision"], row["engine"], row["tp"]) == (
        "H200-141GB-SXM5", "Qwen3-32B", "fp8", "tensorrt-llm", 2,
    )  # fmt: skip
    assert row["output_tokens_per_s"] == 1400.0
    assert row["tpot_s"] == pytest.approx(0.0215)


def _made_up_cases() -> pl.DataFrame:
    """Cases whose figures are the model's own under known constants, so that a fit has something true to find."""
    rows = [
        (
            f"made-{i}",
            model,
            "fp8",
            "fp8",
            "L40S",
            str(tp),
            str(tp),
            "1",
            str(isl),
            str(osl),
            batch,
            "offline",
            "TensorRT-LLM",
        )
        for i, (model, tp, isl, osl, batch) in enumerate(
            (m, t, i, o, b)
            for m in ("Llama-3.1-8B", "Mistral-7B")
            for t in (1, 4)
            for i, o in ((128, 128), (128, 2048), (2048, 128), (2048, 2048))
            for b in ("8", "64", None)
        )
    ]
    return pl.DataFrame(rows, schema=dict.fromkeys(CASE_COLUMNS, pl.String), orient="row")


def test_calibration_finds_the_constants_behind_the_figures_and_repeats() -> None:
    rows = _made_up_cases()
    frame = with_constants(serving_frame(serving_cases(rows, CATALOG), CATALOG), CATALOG)
    truth = {
        "e_weights": 0.7,
        "e_kv": 0.6,
        "e_compute": 0.35,
        "e_prefill": 0.45,
        "step_ms": 3.0,
        "layer_us": 20.0,
        "seq_us": 4.0,
        "hop_us": 30.0,
        "e_schedule": 0.9,
    }
    frame = frame.with_columns(pl.lit(v).alias(f"cal_{k}") for k, v in truth.items())
    made = predict_cases(with_step_terms(frame, CATALOG.calibration_links, CATALOG.quantisation))
    rows = rows.join(
        made.select("case_id", output_tokens_per_s_total=pl.col("predicted_output_tokens_per_s").cast(pl.String)),
        on="case_id",
    )
    first, again = (
        calibrate_serving(CATALOG, rows, source="made up", as_of="2026-11", iterations=40, folds=3) for _ in range(2)
    )
    assert first.table.equals(again.table)
    fitted = first.table.filter(
        (pl.col("speed_class") == "l40s") & (pl.col("engine") == "tensorrt-llm") & (pl.col("kind") == "dense")
    )
    assert fitted["n"][0] == rows.height
    assert fitted["source"][0] == "made up"
    assert fitted["cv_median_abs_rel"][0] < 0.05
    assert fitted.select(pl.all_horizontal(pl.col(c) > 0 for c in SERVING_CONSTANTS)).item()
    # Groups that the file says nothing of keep what they had.
    assert first.table.filter(pl.col("speed_class") == "b200").height > 0


def test_training_calibration_finds_an_efficiency() -> None:
    """100 rows at half of peak give half of peak, whatever the model's size."""
    rows = pl.DataFrame(
        [
            {
                "case_id": f"made-{i}", "kind": "pretrain", "model": "x", "params_total_b": str(size), "layers": "32", "hidden": "4096",
                "seq_len": "2048", "precision": "bf16", "gpu": "H100-80GB-SXM", "gpu_count": "8", "framework": "NeMo",
                "tokens_per_s_per_gpu": str(0.5 * 989e12 / (6e9 * size + 6 * 32 * 4096 * 2048)),
            }
            for i, size in enumerate([7.0 + 0.1 * k for k in range(100)])
        ]
    )  # fmt: skip
    table = calibrate_training(CATALOG, rows, source="made up", as_of="2026-11").table
    base = table.filter(
        (pl.col("kind") == "base") & (pl.col("speed_class") == "h100_sxm") & (pl.col("precision") == "bf16")
    )
    assert base["value"][0] == pytest.approx(0.5, rel=0.05)
    assert table.filter(pl.col("term") == "failures_per_card_hour").height == 1
