"""Serving memory: properties over the whole table of models, and the parts one by one."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalogs import architecture
from catalogs.load import load_catalog
from solver.features.memory import (
    ADDED,
    REASON_ENGINE,
    REASON_HEADROOM,
    REASON_HEADS,
    REASON_PRECISION,
    with_serving_memory,
)
from tests.features.memory_frames import frame, serve_one, serving, tables

GIB = 2.0**30
MODELS = load_catalog().models["model"].to_list()
ENGINES = load_catalog().engines["engine"].unique().sort().to_list()
PRECISIONS = load_catalog().quantisation["precision"].to_list()
models = st.sampled_from(MODELS)


@settings(max_examples=60, deadline=None)
@given(models, st.sampled_from(ENGINES), st.sampled_from(PRECISIONS))
def test_more_tensor_parallelism_never_needs_more(model: str, engine: str, precision: str) -> None:
    rows = serving(model, precision=precision, engine=engine, tp=[1, 2, 4, 8, 16])
    assert (rows["weights_gib_per_gpu"].diff().drop_nulls() <= 1e-9).all()
    assert (rows["kv_bytes_per_token_per_gpu"].diff().drop_nulls() <= 0).all()
    assert (rows["kv_bytes_per_request_per_gpu"].diff().drop_nulls() <= 0).all()


@settings(max_examples=60, deadline=None)
@given(models, st.sampled_from(ENGINES), st.lists(st.integers(1, 2_000_000), min_size=2, max_size=6))
def test_longer_context_never_needs_less(model: str, engine: str, lengths: list[int]) -> None:
    rows = serving(model, engine=engine, context_tokens=sorted(lengths))
    assert (rows["kv_bytes_per_request_per_gpu"].diff().drop_nulls() >= 0).all()
    assert (rows["memory_slack_gib"].diff().drop_nulls() <= 1e-9).all()


@settings(max_examples=60, deadline=None)
@given(models, st.sampled_from([1, 2, 8]))
def test_fp8_halves_the_cache(model: str, tp: int) -> None:
    wide = serve_one(model, tp=tp)["kv_bytes_per_token_per_gpu"]
    narrow = serve_one(model, tp=tp, kv_precision="fp8")["kv_bytes_per_token_per_gpu"]
    index = load_catalog().models.filter(pl.col("model") == model)["mla_index_bytes"].item()
    if index is None:
        assert narrow == wide / 2
    else:
        # Sparse latent attention has its own layout: 656 bytes an entry, and the index stays as it is.
        layers = load_catalog().models.filter(pl.col("model") == model)["layers"].item()
        assert narrow == layers * (656 + index)


@settings(max_examples=30, deadline=None)
@given(models, st.integers(1, 512))
def test_more_requests_never_fit_better(model: str, requests: int) -> None:
    rows = serving(model, tp=8, min_concurrency=[1.0, float(requests), float(requests + 1)])
    assert (rows["memory_slack_gib"].diff().drop_nulls() <= 1e-9).all()
    fits = rows["fits_memory"].cast(pl.Int8)
    assert (fits.diff().drop_nulls() <= 0).all()


@settings(max_examples=30, deadline=None)
@given(models)
def test_concurrency_that_is_offered_fits(model: str) -> None:
    row = serve_one(model, tp=8)
    if row["fits_memory"]:
        assert serve_one(model, tp=8, min_concurrency=row["max_concurrency"])["fits_memory"]
        assert not serve_one(model, tp=8, min_concurrency=row["max_concurrency"] + 1)["fits_memory"]


def test_whole_table_has_weights_and_cache() -> None:
    catalog = load_catalog()
    card = catalog.accelerators.filter(pl.col("accelerator") == "H200-141GB-SXM5")
    rows = catalog.models.join(card, how="cross", suffix="_card").with_columns(
        precision=pl.lit("bf16"), kv_precision=pl.lit("bf16"), engine=pl.lit("vllm"), tp=1, pp=1, context_tokens=4096
    )
    out = with_serving_memory(rows, tables())
    assert out.height == catalog.models.height
    for name in ("weights_gib_per_gpu", "kv_bytes_per_token_per_gpu", "kv_bytes_per_request_per_gpu"):
        assert out[name].null_count() == 0
        assert (out[name] > 0).all()
    # In 16 bit a whole model weighs at least two bytes per parameter, and little more.
    per_parameter = out["weights_gib_per_gpu"] * GIB / (out["params_total_b"] * 1e9)
    assert per_parameter.min() > 1.99
    assert per_parameter.max() < 2.6


def test_parts_add_up_to_the_published_size() -> None:
    counted = load_catalog().models.select("model", "params_total_b", n=architecture.counted() / 1e9)
    off = counted.with_columns(error=(pl.col("n") / pl.col("params_total_b") - 1).abs())
    assert off.filter(pl.col("error") > 0.03).height == 0
    assert off["error"].median() < 0.001
    assert off.filter(pl.col("error") > 0.005).height <= 8


@pytest.mark.parametrize(
    ("model", "tp", "pp", "precision", "gib"),
    [
        # embedding and head stay in 16 bit: (70.55 - 2.10) x 1 + 2.10 x 2 GB over four cards
        ("Llama-3.3-70B", 4, 1, "fp8", (68.453 + 2 * 2.1013) * 1e9 / 4 / GIB + 131072 * 128 * 2 / GIB),
        # a pipeline stage holds a quarter of the layers and one end
        ("Llama-3.1-8B", 1, 4, "bf16", (6.98 / 4 + 0.5253) * 2e9 / GIB + 131072 * 128 * 2 / GIB),
    ],
)
def test_weights_by_hand(model: str, tp: int, pp: int, precision: str, gib: float) -> None:
    row = serve_one(model, tp=tp, pp=pp, precision=precision)
    assert row["weights_gib_per_gpu"] == pytest.approx(gib, rel=0.002)


def test_heads_are_replicated_once_tp_exceeds_them() -> None:
    # Qwen2.5-7B has 4 KV heads: one per card from TP 4 on.
    per_card = [serve_one("Qwen2.5-7B", tp=tp)["kv_bytes_per_token_per_gpu"] for tp in (1, 2, 4, 28)]
    assert per_card == [57344, 28672, 14336, 14336]


def test_sliding_layers_are_charged_in_groups_and_freed_beyond_the_window() -> None:
    row = serve_one("Gemma-3-27B", context_tokens=131072)
    # 52 local and 10 global layers: groups of ten, so 60 + 10 layers of 8,192 B.
    assert row["kv_bytes_per_token_per_gpu"] == 70 * 2 * 16 * 128 * 2
    assert row["kv_bytes_per_request_per_gpu"] < 0.4 * 131072 * row["kv_bytes_per_token_per_gpu"]
    ungrouped = serve_one("Gemma-3-27B", engine="sglang")
    assert ungrouped["kv_bytes_per_token_per_gpu"] == 62 * 2 * 16 * 128 * 2


def test_hybrid_state_does_not_grow_with_length() -> None:
    short = serve_one("Qwen3-Next-80B-A3B", tp=4, context_tokens=16)
    long = serve_one("Qwen3-Next-80B-A3B", tp=4, context_tokens=65536)
    # 12 of 48 layers attend; the other 36 hold 32 x 128 x 128 in 32 bit and a short convolution.
    assert long["kv_bytes_per_token_per_gpu"] == 12 * 2 * 1 * 256 * 2
    assert short["state_gib_per_request"] == long["state_gib_per_request"] > 0
    grown = long["kv_bytes_per_request_per_gpu"] - short["kv_bytes_per_request_per_gpu"]
    assert grown == (65536 - 16) * 12 * 2 * 256 * 2


def test_requests_take_whole_blocks() -> None:
    one, sixteen, next_block = (
        serve_one("Llama-3.1-8B", context_tokens=n)["kv_bytes_per_request_per_gpu"] for n in (1, 16, 17)
    )
    assert one == sixteen == 16 * 131072
    assert next_block == 32 * 131072


def test_expert_tiles_are_padded() -> None:
    # 4-bit experts of gpt-oss: 2,880 wide, padded to 3,072; Ampere kernels pad the other side as well.
    hopper = serve_one("gpt-oss-120b", precision="mxfp4")["weights_gib_per_gpu"]
    ampere = serve_one("gpt-oss-120b", "A100-80GB-SXM4", precision="mxfp4")["weights_gib_per_gpu"]
    assert hopper == pytest.approx(64.5, abs=0.3)
    assert ampere > hopper
    assert ampere == pytest.approx(65.9, abs=0.3)


def test_expert_parallelism_spreads_whole_experts() -> None:
    # Experts over 16 cards, attention over the 8 of one replica.
    tensor = serve_one("Qwen3-235B-A22B", precision="fp8", tp=8)["weights_gib_per_gpu"]
    spread = serve_one("Qwen3-235B-A22B", precision="fp8", tp=8, ep=16)["weights_gib_per_gpu"]
    experts = 227.1e9 / GIB
    assert tensor - spread == pytest.approx(experts / 8 - experts / 16, rel=0.01)


def test_data_parallel_attention_multiplies_tokens_not_latents() -> None:
    plain = serve_one("DeepSeek-V3", "B200-180GB-SXM6", precision="fp8", tp=8)
    spread = serve_one("DeepSeek-V3", "B200-180GB-SXM6", precision="fp8", tp=8, attention_dp=8)
    assert spread["weights_gib_per_gpu"] > plain["weights_gib_per_gpu"]
    assert spread["kv_bytes_per_token_per_gpu"] == plain["kv_bytes_per_token_per_gpu"]
    assert spread["kv_tokens"] > 4 * plain["kv_tokens"]


def test_head_room_is_kept_outside_the_utilisation() -> None:
    assert serve_one("Llama-3.1-8B", utilisation=0.9)["fits_memory"]
    tight = serve_one("Llama-3.1-8B", utilisation=0.985)
    assert tight["memory_reason"] == REASON_HEADROOM
    assert tight["memory_slack_gib"] < 0
    # Left to itself the engine's share is lowered until the head-room is there.
    assert serve_one("Llama-3.2-1B", "T4", precision="fp16")["fits_memory"]


def test_refusals_name_their_reason() -> None:
    assert serve_one("Llama-3.1-8B", engine="nope")["memory_reason"] == REASON_ENGINE
    assert serve_one("Llama-3.1-8B", precision="fp3")["memory_reason"] == REASON_PRECISION
    assert serve_one("Falcon-7B", tp=2)["memory_reason"] == REASON_HEADS
    assert not serve_one("Llama-3.1-8B", engine="nope")["fits_memory"]


def test_llama_cpp_keeps_the_embedding_on_the_host() -> None:
    vllm = serve_one("Phi-2", precision="fp16", engine="vllm")["weights_gib_per_gpu"]
    cpp = serve_one("Phi-2", precision="fp16", engine="llama.cpp")["weights_gib_per_gpu"]
    assert vllm - cpp == pytest.approx(51200 * 2560 * 2 / GIB)


def test_lazy_and_eager_agree_and_order_is_kept() -> None:
    rows = frame("Llama-3.1-8B", "L4", precision=["bf16", "int4"], kv_precision="bf16", engine="vllm", tp=1, pp=1,
                 context_tokens=4096)  # fmt: skip
    eager = with_serving_memory(rows, tables())
    lazy = with_serving_memory(rows.lazy(), tables())
    assert isinstance(lazy, pl.LazyFrame)
    assert lazy.collect().equals(eager)
    assert eager["precision"].to_list() == ["bf16", "int4"]
    assert eager.columns[-len(ADDED) :] == list(ADDED)
    assert with_serving_memory(rows.clear(), tables()).height == 0
