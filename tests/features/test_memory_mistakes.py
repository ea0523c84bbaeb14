"""The classic mistakes of sizing tools, each with the true value: arithmetic from the published configs."""

from __future__ import annotations

import pytest

from solver.features.memory import REASON_KV, REASON_NO_UNITS, REASON_WEIGHTS
from tests.features.memory_frames import serve_one, train_one

GIB = 2.0**30


def kv_gib(model: str, tokens: int, **config: object) -> float:
    return float(serve_one(model, **config)["kv_bytes_per_token_per_gpu"]) * tokens / GIB


def test_grouped_queries_are_not_ignored() -> None:
    # 70B: 8 KV heads of 64; tools that ignore it say 20 GiB at 8k and 320 at 128k.
    assert kv_gib("Llama-3.1-70B", 8192) == pytest.approx(2.5)
    assert kv_gib("Llama-3.1-70B", 131072) == pytest.approx(40.0)
    assert kv_gib("Llama-3.1-8B", 131072) == pytest.approx(16.0)
    assert kv_gib("Mixtral-8x7B", 8192) == pytest.approx(1.0)
    assert kv_gib("Qwen3-30B-A3B", 131072) == pytest.approx(12.0)


def test_all_experts_are_held_not_only_the_active_ones() -> None:
    # 46.7B parameters; tools that count the active ones, or one expert, say 6 to 14 GB and "fits 16 GB".
    row = serve_one("Mixtral-8x7B", "RTX-4090")
    assert row["weights_gib_per_gpu"] == pytest.approx(46.7e9 * 2 / GIB, rel=0.005)
    assert not row["fits_memory"]
    assert row["memory_reason"] == REASON_WEIGHTS
    assert serve_one("DeepSeek-V3", precision="fp8", tp=8)["weights_gib_per_gpu"] > 671e9 / 8 / GIB


def test_latent_attention_is_not_ignored() -> None:
    # 61 layers x (512 + 64) x 2 B = 70,272 B per token; ignoring it gives 12 to 29 times as much.
    assert serve_one("DeepSeek-V3")["kv_bytes_per_token_per_gpu"] == 61 * 576 * 2
    assert kv_gib("DeepSeek-V3", 131072) == pytest.approx(8.578, abs=0.001)
    # The latent is held by every tensor-parallel rank: more cards do not thin it.
    assert serve_one("DeepSeek-V3", tp=8)["kv_bytes_per_token_per_gpu"] == 61 * 576 * 2


def test_binary_and_decimal_gigabytes_are_not_mixed() -> None:
    # 70.55e9 x 2 B = 141.1 GB = 131.4 GiB.
    assert serve_one("Llama-3.1-70B")["weights_gib_per_gpu"] == pytest.approx(131.4, abs=0.1)
    # A card of "24 GB" shows 22.35 GiB, of which an engine sees less; four of them do not hold Mixtral's 91 GB.
    small = serve_one("Mixtral-8x7B", "L4", tp=4)
    assert small["usable_gib_per_gpu"] < 22.35
    assert not small["fits_memory"]


def test_sharded_weights_are_compared_with_one_card() -> None:
    # 131.4 GiB over four cards are 32.9 each, against 79 each, not against 320.
    row = serve_one("Llama-3.1-70B", tp=4)
    assert row["weights_gib_per_gpu"] == pytest.approx(131.4 / 4, rel=0.005)
    assert row["usable_gib_per_gpu"] == pytest.approx(79.2, abs=0.2)
    pool = 0.9 * row["usable_gib_per_gpu"] - row["weights_gib_per_gpu"] - row["overhead_gib_per_gpu"]
    assert row["kv_pool_gib_per_gpu"] == pytest.approx(pool)
    # 8 KV heads over 4 cards: 81,920 B per token and card.
    assert row["kv_bytes_per_token_per_gpu"] == 80 * 2 * 2 * 128 * 2


def test_a_node_of_eight_is_not_one_gpu() -> None:
    one, eight = serve_one("Llama-3.1-70B"), serve_one("Llama-3.1-70B", tp=8)
    assert not one["fits_memory"]
    assert one["memory_reason"] == REASON_WEIGHTS
    assert one["memory_slack_gib"] < 0
    assert eight["fits_memory"]
    # Full fine-tuning of 70B: 18 bytes per parameter over eight cards is 158 GB a card, not "958 GB, too large".
    sharded = train_one("Llama-3.1-70B", dp=8, zero_stage=3)
    assert sharded["training_state_gib_per_gpu"] == pytest.approx(70.55e9 * 16 / 8 / GIB, rel=0.01)
    assert not sharded["fits_memory"]
    assert train_one("Llama-3.1-70B", dp=64, zero_stage=3)["fits_memory"]


def test_fp8_verdict_on_a_card_without_fp8_is_refused() -> None:
    row = serve_one("Llama-3.1-8B", "A100-80GB-SXM4", precision="fp8")
    assert not row["precision_supported"]
    assert not row["fits_memory"]
    assert row["memory_reason"] == REASON_NO_UNITS
    assert serve_one("Llama-3.1-8B", "H100-80GB-SXM5", precision="fp8")["fits_memory"]
    # Weight-only formats run anywhere; so does fp8 where a weight-only kernel is known.
    assert serve_one("Llama-3.1-8B", "A100-80GB-SXM4", precision="int4")["fits_memory"]
    known = serve_one("Llama-3.1-8B", "A100-80GB-SXM4", precision="fp8", allow_weight_only=True)
    assert known["fits_memory"]
    assert serve_one("Llama-3.1-8B", "V100-32GB-SXM2")["memory_reason"] == REASON_NO_UNITS
    assert serve_one("Llama-3.1-8B", "V100-32GB-SXM2", precision="fp16")["fits_memory"]


def test_quoted_training_rules_contradict_each_other() -> None:
    # The same 70B model: 12 bytes per parameter without master weights, 8 in pure bf16, 16 and 18 mixed.
    held = {
        name: train_one("Llama-3.1-70B", optimizer=name)["training_state_gib_per_gpu"] * GIB / 1e9
        for name in ("adamw_12", "adamw_bf16", "adamw_16", "adamw")
    }
    assert held["adamw_12"] == pytest.approx(846.6, rel=0.001)
    assert held["adamw_bf16"] == pytest.approx(564.4, rel=0.001)
    assert held["adamw_16"] == pytest.approx(1128.9, rel=0.001)
    assert held["adamw"] == pytest.approx(1270.0, rel=0.001)


def test_seven_billion_at_56_gigabytes_fails_on_a_48_gigabyte_card() -> None:
    row = train_one("Llama-2-7B", "L40S", optimizer="adamw_bf16")
    assert row["training_state_gib_per_gpu"] == pytest.approx(6.738e9 * 8 / GIB, rel=0.001)
    assert not row["fits_memory"]
    assert row["memory_slack_gib"] < 0


def test_long_context_is_refused_for_want_of_cache_not_of_weights() -> None:
    row = serve_one("Llama-3.1-8B", "A10", context_tokens=131072)
    assert row["memory_reason"] == REASON_KV
    assert serve_one("Llama-3.1-8B", "A10", context_tokens=2048)["fits_memory"]
