"""Training memory: states by method and ZeRO stage, activations, adapters, properties."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalogs.load import load_catalog
from solver.features.memory_training import REASON_STATES, REASON_UNKNOWN
from tests.features.memory_frames import train_one, training

GIB = 2.0**30
MODELS = load_catalog().models["model"].to_list()
OPTIMISERS = load_catalog().optimisers["optimizer"].to_list()
models = st.sampled_from(MODELS)


@settings(max_examples=40, deadline=None)
@given(models, st.sampled_from(OPTIMISERS), st.sampled_from(["full", "lora", "qlora"]))
@pytest.mark.slow
def test_more_sharding_never_needs_more(model: str, optimizer: str, method: str) -> None:
    for stage in (1, 2, 3):
        rows = training(model, optimizer=optimizer, method=method, zero_stage=stage, dp=[2, 4, 8, 64])
        assert (rows["training_gib_per_gpu"].diff().drop_nulls() <= 1e-9).all()
    tensor = training(model, optimizer=optimizer, method=method, tp=[1, 2, 4, 8])
    assert (tensor["training_gib_per_gpu"].diff().drop_nulls() <= 1e-9).all()


@settings(max_examples=40, deadline=None)
@given(models, st.sampled_from(["none", "selective", "full"]), st.sampled_from(["full", "lora", "qlora"]))
def test_more_tokens_never_need_less(model: str, checkpointing: str, method: str) -> None:
    rows = training(model, method=method, checkpointing=checkpointing, sequence=[512, 4096, 32768])
    assert (rows["training_gib_per_gpu"].diff().drop_nulls() > 0).all()
    rows = training(model, method=method, checkpointing=checkpointing, micro_batch=[1, 2, 8])
    assert (rows["training_gib_per_gpu"].diff().drop_nulls() > 0).all()


@settings(max_examples=40, deadline=None)
@given(models)
def test_checkpointing_saves_activations(model: str) -> None:
    rows = training(model, checkpointing=["none", "full"], sequence=4096)
    none, full = rows["training_activation_gib_per_gpu"]
    assert full < none
    adapters = training(model, method=["full", "lora", "qlora"], optimizer="adamw")
    states = adapters["training_state_gib_per_gpu"].to_list()
    assert states[0] > states[1] > states[2]


@pytest.mark.parametrize(
    ("stage", "bytes_each"),
    [(0, 18.0), (1, 6 + 12 / 8), (2, 2 + 16 / 8), (3, 16 / 8)],
)
def test_states_by_zero_stage(stage: int, bytes_each: float) -> None:
    row = train_one("Llama-3.1-8B", dp=8, zero_stage=stage)
    assert row["training_state_gib_per_gpu"] == pytest.approx(8.03e9 * bytes_each / GIB, rel=0.001)


@pytest.mark.parametrize(
    ("optimizer", "bytes_each"),
    [("adamw", 18), ("adamw_16", 16), ("adamw_bf16", 8), ("adafactor", 4.02), ("sgd", 4), ("adamw_fp32", 16)],
)
def test_states_by_optimiser(optimizer: str, bytes_each: float) -> None:
    row = train_one("Llama-3.1-8B", optimizer=optimizer)
    assert row["training_state_gib_per_gpu"] == pytest.approx(8.03e9 * bytes_each / GIB, rel=0.001)


def test_muon_and_8_bit_keep_wide_moments_for_the_ends() -> None:
    # Llama-3.1-8B: 6.98B in the body, 1.05B in embedding and head.
    muon = train_one("Llama-3.1-8B", optimizer="muon")["training_state_gib_per_gpu"]
    assert muon == pytest.approx((6.98e9 * 14 + 1.051e9 * 18) / GIB, rel=0.001)
    narrow = train_one("Llama-3.1-8B", optimizer="adamw_8bit")["training_state_gib_per_gpu"]
    assert narrow == pytest.approx((6.98e9 * 6 + 1.051e9 * 12) / GIB, rel=0.001)


def test_pipeline_holds_micro_batches_in_flight() -> None:
    # Stage one of eight keeps eight micro-batches of its share: the checkpoints do not shrink with the stages.
    deep = train_one("Llama-3.1-405B", tp=8, pp=[8], dp=8, zero_stage=1, sequence_parallel=False)
    checkpoints = 2 * 4096 * 16384 * 128 / GIB
    assert deep["training_activation_gib_per_gpu"] > checkpoints


def test_tensor_parallelism_splits_checkpoints_only_with_sequence_parallelism() -> None:
    split = train_one("Llama-3.1-70B", tp=8)["training_activation_gib_per_gpu"]
    whole = train_one("Llama-3.1-70B", tp=8, sequence_parallel=False)["training_activation_gib_per_gpu"]
    assert whole - split >= 2 * 4096 * 8192 * 80 * (7 / 8) / GIB


def test_context_parallelism_splits_tokens() -> None:
    one = train_one("Llama-3.1-8B", sequence=32768)["training_activation_gib_per_gpu"]
    four = train_one("Llama-3.1-8B", sequence=131072, cp=4)["training_activation_gib_per_gpu"]
    assert four == pytest.approx(one)


def test_published_activation_count() -> None:
    # 34 s b h for an ungated block four times as wide; 32 of them are kept with flash attention and no dropout mask.
    row = train_one("GPT-3-175B", checkpointing="none", fused_kernels=True, sequence=2048, chunked_loss=True)
    logits = 2048 * 50257 * 12 / 8 / GIB
    body = row["training_activation_gib_per_gpu"] - logits
    assert body == pytest.approx(32 * 2048 * 12288 * 96 / GIB, rel=0.001)


def test_offload_leaves_only_what_is_gathered() -> None:
    held = train_one("Llama-3.1-8B", offload="all", dp=8, zero_stage=3)
    assert held["training_state_gib_per_gpu"] == pytest.approx(0.0, abs=1e-9)
    assert held["training_gib_per_gpu"] < train_one("Llama-3.1-8B", dp=8, zero_stage=3)["training_gib_per_gpu"]
    half = train_one("Llama-3.1-8B", offload="optimizer")["training_state_gib_per_gpu"]
    assert half == pytest.approx(8.03e9 * 2 / GIB, rel=0.001)


def test_qlora_fits_where_lora_does_not() -> None:
    assert not train_one("Llama-3.1-70B", "H100-80GB-SXM5", method="lora")["fits_memory"]
    assert train_one("Llama-3.1-70B", "H100-80GB-SXM5", method="qlora")["fits_memory"]


def test_reasons() -> None:
    assert train_one("Llama-3.1-70B")["memory_reason"] == REASON_STATES
    assert train_one("Llama-3.1-70B", optimizer="nope")["memory_reason"] == REASON_UNKNOWN
    assert train_one("Llama-3.2-1B")["memory_reason"] is None


@pytest.mark.slow
def test_every_model_and_optimiser_gives_a_figure() -> None:
    for model in MODELS:
        rows = training(model, optimizer=OPTIMISERS)
        assert rows["training_gib_per_gpu"].null_count() == 0
        assert rows["training_gib_per_gpu"].is_finite().all()
        assert isinstance(rows, pl.DataFrame)
