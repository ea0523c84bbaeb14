"""Parameters of a decoder by part, as polars expressions over the columns of the models table.

The same expressions serve the memory features (one row or a million) and the reader of ``config.json``. All results
are plain numbers of parameters, not billions. Null columns take the default that the models table documents.
"""

from __future__ import annotations

import polars as pl

BILLION = 1e9


def column(name: str, default: float = 0.0) -> pl.Expr:
    """Give a model column as a float with its default in place of null."""
    return pl.col(name).cast(pl.Float64).fill_null(default)


def _either(name: str, other: pl.Expr) -> pl.Expr:
    return pl.col(name).cast(pl.Float64).fill_null(other)


LAYERS = column("layers")
HIDDEN = column("hidden")
HEADS = column("heads")
KV_HEADS = column("kv_heads")
HEAD_DIM = column("head_dim")
EXPERTS = column("experts")
LATENT = column("mla_kv_lora_rank")
IS_MLA = LATENT > 0
LINEAR_LAYERS = column("linear_layers")
SLIDING_LAYERS = column("sliding_layers")
FULL_LAYERS = _either("full_layers", LAYERS - LINEAR_LAYERS - SLIDING_LAYERS)
MOE_LAYERS = pl.when(EXPERTS > 0).then(LAYERS - column("dense_layers")).otherwise(0.0)
MLP_LAYERS = _either("mlp_layers", LAYERS - MOE_LAYERS)
#: Matrices of a feed-forward block: three when gated (SwiGLU, GeGLU), two when not.
FFN_MATRICES = column("ffn_matrices", 3.0)
#: Key and value heads and their width in full-attention and in sliding-window layers.
FULL_KV_HEADS = _either("full_kv_heads", KV_HEADS)
FULL_HEAD_DIM = _either("full_head_dim", HEAD_DIM)
SLIDING_KV_HEADS = _either("sliding_kv_heads", KV_HEADS)
FULL_VALUE_DIM = pl.coalesce(pl.col("v_head_dim").cast(pl.Float64), pl.col("full_head_dim").cast(pl.Float64), HEAD_DIM)
SLIDING_VALUE_DIM = _either("v_head_dim", HEAD_DIM)
#: Width of the linear-attention (gated delta, Mamba-2, lightning) projections.
LINEAR_KEY = column("linear_key_heads") * column("linear_key_dim")
LINEAR_VALUE = column("linear_value_heads") * column("linear_value_dim")
NOPE_DIM = column("mla_nope_dim", 128.0)
ROPE_DIM = column("mla_rope_dim")
MLA_VALUE_DIM = column("mla_v_dim", 128.0)
Q_LORA = column("mla_q_lora_rank")


def _attention_layer(kv_heads: pl.Expr, head_dim: pl.Expr, value_dim: pl.Expr) -> tuple[pl.Expr, pl.Expr]:
    """Give (query and output, key and value) parameters of one ordinary attention layer."""
    gates = 1.0 + pl.col("attention_gate").fill_null(False).cast(pl.Float64)
    outer = HIDDEN * HEADS * (head_dim * gates + value_dim)
    inner = HIDDEN * kv_heads * (head_dim + value_dim)
    return outer, inner


def kv_projections() -> pl.Expr:
    """Give the parameters of all key and value projections (replicated when TP exceeds the KV heads)."""
    _, full = _attention_layer(FULL_KV_HEADS, FULL_HEAD_DIM, FULL_VALUE_DIM)
    _, sliding = _attention_layer(SLIDING_KV_HEADS, HEAD_DIM, SLIDING_VALUE_DIM)
    return pl.when(IS_MLA).then(0.0).otherwise(full * FULL_LAYERS + sliding * SLIDING_LAYERS)


def mla_replicated() -> pl.Expr:
    """Give the down-projections of latent attention, which every tensor-parallel rank holds in full."""
    down = HIDDEN * (LATENT + ROPE_DIM + Q_LORA)
    return pl.when(IS_MLA).then(FULL_LAYERS * down).otherwise(0.0)


def attention() -> pl.Expr:
    """Give the parameters of all softmax-attention layers."""
    full_o, full_kv = _attention_layer(FULL_KV_HEADS, FULL_HEAD_DIM, FULL_VALUE_DIM)
    slide_o, slide_kv = _attention_layer(SLIDING_KV_HEADS, HEAD_DIM, SLIDING_VALUE_DIM)
    query_in = pl.when(Q_LORA > 0).then(Q_LORA).otherwise(HIDDEN)
    mla = HEADS * (query_in * (NOPE_DIM + ROPE_DIM) + LATENT * (NOPE_DIM + MLA_VALUE_DIM) + MLA_VALUE_DIM * HIDDEN)
    return (
        pl.when(IS_MLA)
        .then(FULL_LAYERS * mla + mla_replicated())
        .otherwise(FULL_LAYERS * (full_o + full_kv) + SLIDING_LAYERS * (slide_o + slide_kv))
    )


def linear_attention() -> pl.Expr:
    """Give the parameters of all linear-attention layers (projections; convolution and decay are small)."""
    inputs = 2.0 * LINEAR_KEY + 2.0 * LINEAR_VALUE + 2.0 * column("linear_value_heads")
    return LINEAR_LAYERS * HIDDEN * (inputs + LINEAR_VALUE)


def routed_experts() -> pl.Expr:
    """Give the parameters of all routed experts."""
    return MOE_LAYERS * EXPERTS * FFN_MATRICES * HIDDEN * column("moe_intermediate")


def shared_experts() -> pl.Expr:
    """Give the parameters of the shared experts."""
    width = _either("shared_intermediate", column("shared_experts") * column("moe_intermediate"))
    return MOE_LAYERS * FFN_MATRICES * HIDDEN * width


def routers() -> pl.Expr:
    """Give the parameters of the expert routers, which stay in 16 bit on every rank."""
    return MOE_LAYERS * HIDDEN * EXPERTS


def dense_mlp() -> pl.Expr:
    """Give the parameters of the feed-forward blocks without experts."""
    return MLP_LAYERS * FFN_MATRICES * HIDDEN * column("intermediate")


def embedding() -> pl.Expr:
    """Give the parameters of the input embedding, learned positions included."""
    return HIDDEN * (column("vocab") + column("learned_positions"))


def head() -> pl.Expr:
    """Give the parameters of an output head of its own; 0 when tied to the embedding."""
    return pl.when(pl.col("tie_embeddings").fill_null(False)).then(0.0).otherwise(HIDDEN * column("vocab"))


def towers() -> pl.Expr:
    """Give the parameters of vision and audio towers, which stay in 16 bit."""
    return column("vision_params_b") * BILLION


def counted() -> pl.Expr:
    """Give the parameters that the architecture adds up to (norms and biases are left out: under 0.1 %)."""
    return (
        attention()
        + linear_attention()
        + routed_experts()
        + shared_experts()
        + routers()
        + dense_mlp()
        + embedding()
        + head()
        + towers()
    )


def counted_active() -> pl.Expr:
    """Give the parameters that one token passes through (towers and unused experts left out)."""
    share = pl.when(EXPERTS > 0).then(column("experts_per_token") / EXPERTS).otherwise(0.0)
    return counted() - towers() - routed_experts() * (1.0 - share)
