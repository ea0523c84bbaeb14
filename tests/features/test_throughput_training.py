"""Training rate: figures on record, properties, refusals."""

from __future__ import annotations

import polars as pl
import pytest

from solver.features.throughput import with_training_rate
from solver.features.throughput_training import training_peak_tflops
from tests.features.speed_frames import CATALOG, TABLES, training


def days(frame: pl.DataFrame, tokens: float) -> float:
    rated = with_training_rate(frame, TABLES)
    return float(tokens / rated["tokens_per_s"][0] / rated["goodput"][0] / 86400)


def test_gpt3_on_256_h100() -> None:
    """300B tokens take about a month in bf16, about half of it in tuned FP8."""
    assert 30 <= days(training(["GPT-3-175B"], ["H100-80GB-SXM5"]), 300e9) <= 38
    assert 13 <= days(training(["GPT-3-175B"], ["H100-80GB-SXM5"], precision="fp8"), 300e9) <= 19


def test_h100_against_a100_for_a_70b_in_bf16() -> None:
    rated = with_training_rate(training(["Llama-3.1-70B"], ["H100-80GB-SXM5", "A100-80GB-SXM4"], nodes=8), TABLES)
    h100, a100 = rated["tokens_per_s"].to_list()
    assert 2.2 <= h100 / a100 <= 2.8


def test_pcie_cards_on_70b_qlora() -> None:
    frame = training(["Llama-2-70B"], ["RTX-A5000"], method="qlora", nodes=1, tp=1, pp=1, dp=8, zero_stage=3)
    assert 0.25 <= with_training_rate(frame, TABLES)["mfu"][0] <= 0.35


def test_no_rate_passes_the_peak_of_its_precision() -> None:
    cards = CATALOG.accelerators["accelerator"].to_list()
    frame = training(
        ["GPT-3-175B", "Llama-3.1-8B", "Mixtral-8x7B"], cards, precision=["bf16", "fp8"], sequence=[2048, 131072]
    )
    rated = with_training_rate(frame, TABLES).filter(pl.col("tokens_per_s").is_not_null())
    flops = 6.0 * pl.col("params_active_b") * 1e9
    over = rated.filter(pl.col("tokens_per_s") / 256 * flops > training_peak_tflops() * 1e12)
    assert rated.height > 100
    assert over.is_empty()


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ({"network_gbps": 3200.0}, {"network_gbps": 200.0}),
        ({"rdma": True}, {"rdma": False}),
        ({"checkpointing": "selective"}, {"checkpointing": "full"}),
        ({"tuned_stack": True}, {"tuned_stack": False}),
        ({"pp": 1, "dp": 32}, {"pp": 32, "dp": 1}),
        ({"interconnect_class": "nvlink"}, {"interconnect_class": "pcie"}),
        ({"global_batch_tokens": 8e6}, {"global_batch_tokens": 1e5}),
    ],
)
def test_a_worse_setting_is_never_faster(better: dict[str, object], worse: dict[str, object]) -> None:
    fast, slow = (
        with_training_rate(
            training(["Llama-3.1-70B", "Mixtral-8x7B"], ["H100-80GB-SXM5", "A100-80GB-SXM4"], **setting), TABLES
        )
        for setting in (better, worse)
    )
    assert (slow["tokens_per_s"] <= fast["tokens_per_s"] * (1 + 1e-9)).all()


def test_sharding_over_a_slow_network_is_bound_by_its_gathers() -> None:
    """6 bytes per parameter cross the network each step, so a step cannot be shorter than that."""
    frame = training(
        ["GPT-3-175B"],
        ["A100-80GB-SXM4"],
        zero_stage=3,
        tp=1,
        pp=1,
        dp=256,
        network_gbps=100.0,
        global_batch_tokens=1e6,
    )
    rate = with_training_rate(frame, TABLES)["tokens_per_s"][0]
    params = frame["params_total_b"][0] * 1e9
    bound_per_card = (1e6 / 256) * (100.0 / 8 / 8 * 1e9) / (6 * params)
    assert rate <= bound_per_card * 256 * (1 + 1e-9)


def test_goodput_falls_with_scale_and_with_rarer_checkpoints() -> None:
    small, large = (
        with_training_rate(training(["GPT-3-175B"], ["H100-80GB-SXM5"], nodes=n), TABLES)["goodput"][0]
        for n in (4, 2048)
    )
    assert large < small < 1
    rare = with_training_rate(
        training(["GPT-3-175B"], ["H100-80GB-SXM5"], nodes=2048, checkpoint_interval_s=86400.0), TABLES
    )
    assert rare["goodput"][0] < large


def test_lora_needs_two_thirds_of_the_work() -> None:
    full, lora = with_training_rate(
        training(["Llama-3.1-8B"], ["H100-80GB-SXM5"], method=["full", "lora"], nodes=1, tp=1, pp=1), TABLES
    )["tokens_per_s"].to_list()
    assert 1.35 <= lora / full <= 1.5


def test_refusals() -> None:
    rated = with_training_rate(
        training(["Llama-3.1-8B"], ["Groq-LPU-v1", "Trainium2", "P100-16GB-PCIe", "Inferentia2"]), TABLES
    )
    assert rated["tokens_per_s"].null_count() == 4
    assert rated["rate_reason"].null_count() == 0
    memory = training(["Llama-3.1-8B"], ["H100-80GB-SXM5"]).with_columns(
        fits_memory=False, memory_reason=pl.lit("too big")
    )
    assert with_training_rate(memory, TABLES)["rate_reason"].to_list() == ["too big"]


def test_fp8_on_a_card_without_it_runs_in_16_bit() -> None:
    rated = with_training_rate(training(["Llama-3.1-8B"], ["A100-80GB-SXM4"], precision=["bf16", "fp8"]), TABLES)
    assert rated["tokens_per_s"][0] == rated["tokens_per_s"][1]
