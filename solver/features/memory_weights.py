"""Weights per GPU as polars expressions: precision by part, sharding, and what every rank holds in full.

Sources: the public ``config.json`` of each family for what exists; start-up logs of vLLM for what is replicated or
padded (rotary tables as long as the model's positions, absorbed copies of latent attention, expert tiles).
"""

from __future__ import annotations

import polars as pl

from catalogs import architecture as arch

GIB = 2.0**30
ROTARY_BYTES = 2.0
LATENT_COPY_BYTES = 2.0
#: GPU generations whose kernels unpack 4-bit experts themselves and pad them to wider tiles.
WIDE_TILE_ARCHITECTURES = ("Volta", "Turing", "Ampere", "Ada")


def _ceil_to(value: pl.Expr, multiple: pl.Expr) -> pl.Expr:
    return (value / multiple).ceil() * multiple


def attention_tp() -> pl.Expr:
    """Give the ranks that attention is split over: TP without those that run data-parallel attention."""
    return pl.max_horizontal(pl.col("tp") / pl.col("attention_dp"), pl.lit(1.0))


def kv_share(kv_heads: pl.Expr) -> pl.Expr:
    """Give the share of KV heads one rank holds; heads are replicated once TP exceeds them."""
    return (kv_heads / attention_tp()).ceil() / kv_heads


def _attention_bytes() -> pl.Expr:
    """Bytes of softmax attention on one rank, over all layers."""
    tp = attention_tp()
    bytes_each = pl.when(arch.IS_MLA).then(pl.col("mla_attention_bytes")).otherwise(pl.col("attention_bytes"))
    kv = arch.kv_projections()
    fixed = arch.mla_replicated()
    split = arch.attention() - kv - fixed
    return (split / tp + fixed + kv * kv_share(arch.FULL_KV_HEADS)) * bytes_each


def _latent_copy_bytes() -> pl.Expr:
    """Bytes of the extra projections that an engine absorbs for latent attention.

    `copies`: the up-projections once more, in 16 bit. `fused`: query and output projections multiplied out, in the
    precision of the weights (vLLM 0.7).
    """
    copies = arch.LATENT * (arch.NOPE_DIM + arch.MLA_VALUE_DIM) * LATENT_COPY_BYTES
    query_in = pl.when(arch.Q_LORA > 0).then(arch.Q_LORA).otherwise(arch.HIDDEN)
    fused = arch.LATENT * (query_in + arch.HIDDEN) * pl.col("mla_attention_bytes")
    per_head = (
        pl.when(~arch.IS_MLA | (pl.col("mla_absorbed") == "none"))
        .then(0.0)
        .when(pl.col("mla_absorbed") == "fused")
        .then(fused)
        .otherwise(copies)
    )
    return arch.FULL_LAYERS * (arch.HEADS / attention_tp()) * per_head


def _expert_bytes() -> pl.Expr:
    """Bytes of the routed experts on one rank: split by whole experts (EP) or inside each expert (TP)."""
    ranks = pl.max_horizontal(pl.col("ep"), pl.col("tp")).cast(pl.Float64)
    inside = pl.when(pl.col("ep") > 1).then(1.0).otherwise(pl.col("tp").cast(pl.Float64))
    width = arch.column("moe_intermediate", 1.0) / inside
    tile = pl.col("expert_pad_intermediate").cast(pl.Float64)
    wide = pl.col("architecture").is_in(WIDE_TILE_ARCHITECTURES) & (tile > 1)
    padding = (
        _ceil_to(width, pl.when(wide).then(2.0 * tile).otherwise(tile))
        / width
        * _ceil_to(arch.HIDDEN, pl.col("expert_pad_hidden").cast(pl.Float64))
        / arch.HIDDEN
    )
    return arch.routed_experts() * padding * pl.col("expert_bytes") / ranks


def _rotary_bytes() -> pl.Expr:
    """Bytes of the cosine and sine table: one entry per position the model may reach, on every rank."""
    positions = pl.coalesce("rope_positions", "max_context").cast(pl.Float64).fill_null(0.0)
    width = pl.coalesce("rotary_dim", "mla_rope_dim", "head_dim").cast(pl.Float64)
    learned = arch.column("learned_positions") > 0
    return pl.when(learned).then(0.0).otherwise(positions * width * ROTARY_BYTES)


def weights_gib() -> pl.Expr:
    """Give the weights on the fullest rank [GiB].

    The stated number of parameters is authoritative: what the counted parts leave over (norms, biases, small layers)
    goes to the dense part. A pipeline stage holds ceil(layers / pp) layers and, at worst, one end of the model.
    """
    tp = pl.col("tp").cast(pl.Float64)
    attention, state = arch.attention(), arch.linear_attention()
    experts, routers, towers = arch.routed_experts(), arch.routers(), arch.towers()
    embedding, head = arch.embedding(), arch.head()
    total = pl.col("params_total_b").cast(pl.Float64) * arch.BILLION
    dense = pl.max_horizontal(total - attention - state - experts - routers - towers - embedding - head, pl.lit(0.0))
    body = (
        _attention_bytes()
        + _latent_copy_bytes()
        + state * pl.col("state_attention_bytes") / attention_tp()
        + dense * pl.col("linear_bytes") / tp
        + _expert_bytes()
        + routers * pl.lit(2.0)
    )
    resident = pl.when(pl.col("embedding_on_host")).then(0.0).otherwise(embedding)
    # A tied head stands on host and card where the engine keeps the embedding on the host.
    tied = pl.col("tie_embeddings").fill_null(False)
    last = pl.when(tied & pl.col("embedding_on_host")).then(embedding).otherwise(head)
    one_stage = (resident + last) * pl.col("ends_bytes") / tp
    worst_end = pl.max_horizontal(embedding, head, last) * pl.col("ends_bytes") / tp
    piped = pl.col("pp") > 1
    stage = (arch.LAYERS / pl.col("pp")).ceil() / arch.LAYERS
    ends = pl.when(piped).then(worst_end).otherwise(one_stage)
    fixed = towers * pl.col("tower_bytes") / tp + _rotary_bytes()
    return (body * stage + ends + fixed) / GIB
