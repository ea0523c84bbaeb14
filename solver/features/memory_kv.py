"""KV cache per GPU as polars expressions: MHA, GQA, MQA, MLA, sliding windows, hybrids with per-request state."""

from __future__ import annotations

import polars as pl

from catalogs import architecture as arch
from solver.features.memory_weights import attention_tp, kv_share

#: Recurrent state is held in 32 bit, the short convolution in 16 bit.
STATE_BYTES = 4.0
CONVOLUTION_BYTES = 2.0


def _ratio_up(a: pl.Expr, b: pl.Expr) -> pl.Expr:
    return pl.when(b > 0).then((a / b).ceil()).otherwise(0.0)


def _stage(layers: pl.Expr) -> pl.Expr:
    return (layers / pl.col("pp")).ceil()


def full_layer_bytes() -> pl.Expr:
    """Give the bytes of one token in one full-attention layer on one rank.

    Latent attention stores one latent and one rotary part for all heads, so every tensor-parallel rank holds it.
    """
    latent = arch.LATENT + arch.ROPE_DIM
    multiple = pl.col("mla_entry_multiple").cast(pl.Float64)
    dense_entry = (latent / multiple).ceil() * multiple * pl.col("kv_bytes")
    index = arch.column("mla_index_bytes")
    entry = pl.when(index > 0).then(pl.col("mla_index_entry_bytes").cast(pl.Float64).fill_null(dense_entry))
    mla = entry.otherwise(dense_entry) + index
    heads = arch.FULL_KV_HEADS * kv_share(arch.FULL_KV_HEADS)
    plain = heads * (arch.FULL_HEAD_DIM + arch.FULL_VALUE_DIM) * pl.col("kv_bytes")
    # Engines that do not run latent attention as such keep whole keys and values for every head.
    unpacked = (arch.HEADS / attention_tp()).ceil() * (arch.HEAD_DIM * 2.0) * pl.col("kv_bytes")
    no_latent = (pl.col("mla_absorbed") == "none") & (pl.col("engine_family") == "vllm")
    return pl.when(arch.IS_MLA & no_latent).then(unpacked).when(arch.IS_MLA).then(mla).otherwise(plain)


def sliding_layer_bytes() -> pl.Expr:
    """Give the bytes of one token in one sliding-window layer on one rank."""
    heads = arch.SLIDING_KV_HEADS * kv_share(arch.SLIDING_KV_HEADS)
    return heads * (arch.HEAD_DIM + arch.SLIDING_VALUE_DIM) * pl.col("kv_bytes")


def charged_layers() -> tuple[pl.Expr, pl.Expr]:
    """Give the full and the sliding layers that the pool is charged for, on one pipeline stage.

    vLLM cuts the pool in groups of min(full, sliding) layers, so each kind is rounded up to whole groups.
    """
    full, sliding = _stage(arch.FULL_LAYERS), _stage(arch.SLIDING_LAYERS)
    group = pl.min_horizontal(full, sliding)
    mixed = pl.col("grouped_layers") & (group > 0)
    return (
        pl.when(mixed).then(_ratio_up(full, group) * group).otherwise(full),
        pl.when(mixed).then(_ratio_up(sliding, group) * group).otherwise(sliding),
    )


def state_bytes_per_request() -> pl.Expr:
    """Give the bytes of recurrent state that one request holds on one rank, whatever its length."""
    recurrent = arch.column("linear_value_heads") * arch.column("linear_key_dim") * arch.column("linear_value_dim")
    window = arch.column("linear_kernel", 1.0) - 1.0
    convolution = (2.0 * arch.LINEAR_KEY + arch.LINEAR_VALUE) * window
    layer = recurrent * STATE_BYTES + convolution * CONVOLUTION_BYTES
    return _stage(arch.LINEAR_LAYERS) * layer / attention_tp()


def kv_bytes_per_token() -> pl.Expr:
    """Give the bytes one token of the pool takes on one rank (the unit of an engine's token count)."""
    full, sliding = charged_layers()
    return (full * full_layer_bytes() + sliding * sliding_layer_bytes()) / pl.col("dcp")


def request_bytes() -> pl.Expr:
    """Give the bytes a request of `context_tokens` takes on one rank, blocks rounded up, window respected.

    A sliding layer keeps its window and the chunk being prefilled; with windows the engine frees what lies before.
    """
    block = pl.col("block_tokens").cast(pl.Float64)
    length = pl.col("context_tokens").cast(pl.Float64)
    whole = (length / block).ceil() * block
    window = arch.column("sliding_window", 1e12) + pl.col("max_batched_tokens")
    kept = pl.min_horizontal(whole, ((window / block).ceil() + 1.0) * block)
    full, sliding = charged_layers()
    tokens = full * whole * full_layer_bytes() + sliding * kept * sliding_layer_bytes()
    return tokens / pl.col("dcp") + state_bytes_per_request()
