"""Memory of one training or fine-tuning rank, as polars expressions over flat rows.

Per GPU: states (weights, gradients, master weights, optimiser moments) after TP, PP and ZeRO; weights gathered by
ZeRO-3; activations after checkpointing; logits; adapters; dequantisation buffers. Bytes per token and layer follow
what autograd keeps with FlashAttention: inputs and outputs of both norms, queries, keys, values, attention output and
the feed-forward intermediates (arXiv 2205.05198 counts 34 s b h for an ungated block four times as wide; the same sum
here gives 32). ZeRO stages after arXiv 1910.02054.
"""

from __future__ import annotations

import polars as pl

from catalogs import architecture as arch
from solver.features.memory import Frame, usable_memory_gib
from solver.features.memory_tables import MemoryTables, with_looked_up
from solver.features.memory_weights import GIB

OPTIONAL: dict[str, tuple[pl.DataType, object]] = {
    "cp": (pl.Int64(), 1),
    "ep": (pl.Int64(), 1),
    "lora_rank": (pl.Int64(), 16),
    "sequence_parallel": (pl.Boolean(), True),
    "fused_kernels": (pl.Boolean(), False),
    "chunked_loss": (pl.Boolean(), False),
    "offload": (pl.String(), "none"),
    "optimizer_in_backward": (pl.Boolean(), False),
    "activation_offload": (pl.Boolean(), False),
    "full_init": (pl.Boolean(), False),
    "usable_memory_gib": (pl.Float64(), None),
}
ADAPTER_BYTES = 16.0
GATHER_BYTES = 2.0


def _number(name: str) -> pl.Expr:
    return pl.col(name).cast(pl.Float64)


IS_ADAPTER = pl.col("method").is_in(["lora", "qlora"])
IS_QLORA = pl.col("method") == "qlora"
PIPED = pl.col("pp") > 1
SHARDED = pl.col("zero_stage") >= 3


def _tokens() -> pl.Expr:
    return _number("micro_batch") * _number("sequence") / _number("cp")


def _body() -> pl.Expr:
    return _number("params_total_b") * arch.BILLION - arch.embedding() - arch.head()


def rank_parameters() -> tuple[pl.Expr, pl.Expr]:
    """Give the parameters on the fullest model-parallel rank: transformer body, and ends (embedding, head)."""
    tp = _number("tp")
    experts = arch.routed_experts()
    stage = (arch.LAYERS / _number("pp")).ceil() / arch.LAYERS
    body = ((_body() - experts) / tp + experts / pl.max_horizontal(_number("ep"), tp)) * stage
    one = arch.embedding() + arch.head()
    worst = pl.max_horizontal(arch.embedding(), arch.head())
    return body, pl.when(PIPED).then(worst).otherwise(one) / tp


def adapter_parameters() -> pl.Expr:
    """Give the LoRA parameters: a pair of rank-wide matrices beside each attention and dense feed-forward matrix."""
    q = arch.HEADS * arch.HEAD_DIM
    kv = arch.KV_HEADS * arch.HEAD_DIM
    attention = (arch.HIDDEN + q) * 2.0 + (arch.HIDDEN + kv) * 2.0
    mlp = arch.FFN_MATRICES * (arch.HIDDEN + arch.column("intermediate"))
    return _number("lora_rank") * (arch.LAYERS * attention + arch.MLP_LAYERS * mlp) / _number("tp") / _number("pp")


def layer_parameters() -> pl.Expr:
    """Give the parameters of one average layer on one tensor-parallel rank."""
    body, _ = rank_parameters()
    return body * _number("pp") / arch.LAYERS


def state_gib() -> pl.Expr:
    """Give weights, gradients, master weights and moments held between steps [GiB]."""
    body, ends = rank_parameters()
    n = body + ends
    shards = _number("dp") * _number("cp")
    w, g = pl.col("weight_bytes"), pl.col("gradient_bytes")
    # Bytes per parameter averaged over the rank: embedding and head may keep wider moments.
    moments = (body * pl.col("state_bytes") + ends * pl.col("ends_state_bytes")) / n
    held = pl.when(pl.col("offload") == "none").then(pl.col("master_bytes") + moments).otherwise(0.0)
    # A gradient is freed as soon as it is applied when the optimiser steps inside the backward pass.
    g = pl.when(pl.col("optimizer_in_backward") | (pl.col("offload") != "none")).then(0.0).otherwise(g)
    # Under FSDP the sharded parameter is the master copy; the 16-bit one exists only while gathered.
    w3 = pl.when(pl.col("master_bytes") > 0).then(0.0).otherwise(w)
    w3 = pl.when(pl.col("offload") == "all").then(0.0).otherwise(w3)
    full = (
        pl.when(SHARDED & PIPED)
        .then(n * (w + g) + n * held / shards)
        .when(SHARDED)
        .then(n * (w3 + g + held) / shards)
        .when(pl.col("zero_stage") == 2)
        .then(n * w + n * (g + held) / shards)
        .when(pl.col("zero_stage") == 1)
        .then(n * (w + g) + n * held / shards)
        .otherwise(n * (w + g + held))
    )
    base = body * pl.when(IS_QLORA).then(pl.col("_nf4_bytes")).otherwise(2.0) + ends * 2.0
    base = pl.when(pl.col("offload") == "all").then(0.0).otherwise(base)
    divided = pl.when(SHARDED).then(shards).otherwise(1.0)
    adapters = adapter_parameters() * ADAPTER_BYTES
    frozen = (base + adapters) / divided
    return pl.when(IS_ADAPTER).then(frozen).otherwise(full) / GIB


def gather_gib(tables: MemoryTables) -> pl.Expr:
    """Give weights and gradients that exist in full for a moment under ZeRO-3 or parameter offload [GiB]."""
    _, ends = rank_parameters()
    layers = tables.constant("gathered_layers") * layer_parameters()
    whole = (SHARDED & ~PIPED) | (pl.col("offload") == "all")
    # QLoRA gathers the packed weights and unpacks one matrix at a time.
    weights = layers * pl.when(IS_QLORA).then(pl.col("_nf4_bytes")).otherwise(GATHER_BYTES) + ends * GATHER_BYTES
    gradient = pl.when(IS_ADAPTER).then(0.0).otherwise(layer_parameters() * pl.col("gradient_bytes"))
    return pl.when(whole).then(weights + gradient).otherwise(0.0) / GIB


def dequantisation_gib() -> pl.Expr:
    """Give the 16-bit copy of the largest matrix that QLoRA unpacks at a time [GiB]."""
    widest = arch.HIDDEN * pl.max_horizontal(arch.column("intermediate"), arch.column("moe_intermediate"))
    return pl.when(IS_QLORA).then(widest * 2.0 / _number("tp")).otherwise(0.0) / GIB


def layer_activation_bytes(tables: MemoryTables) -> pl.Expr:
    """Give the bytes one token leaves in one layer for the backward pass, nothing checkpointed."""
    tp = _number("tp")
    split = pl.when(pl.col("sequence_parallel")).then(tp).otherwise(1.0)
    fused = pl.col("fused_kernels")
    # Layer norm, the norm of the ungated families, is fused anyway.
    layer_norm = pl.when(arch.FFN_MATRICES < 3).then(tables.constant("layer_norm_copy_bytes"))
    copies = layer_norm.otherwise(tables.constant("norm_copy_bytes"))
    norms = arch.HIDDEN * (8.0 + pl.when(fused).then(0.0).otherwise(copies))
    attention = 4.0 * arch.HEADS * arch.HEAD_DIM + 4.0 * arch.KV_HEADS * arch.HEAD_DIM
    per_width = pl.when(arch.FFN_MATRICES < 3).then(4.0).otherwise(pl.when(fused).then(6.0).otherwise(8.0))
    routed = arch.column("experts_per_token") * arch.column("moe_intermediate") + arch.column("shared_intermediate")
    moe_share = arch.MOE_LAYERS / arch.LAYERS
    # Each chosen expert gets its own copy of the token, in and out.
    dispatch = 4.0 * arch.HIDDEN * arch.column("experts_per_token") * moe_share
    width = arch.column("intermediate") * (arch.MLP_LAYERS / arch.LAYERS) + routed * moe_share
    factor = pl.when(IS_QLORA).then(tables.constant("qlora_activation_factor")).otherwise(1.0)
    return (norms / split + (attention + per_width * width + dispatch) / tp) * factor


def activation_gib(tables: MemoryTables) -> pl.Expr:
    """Give the activations and logits at the peak [GiB].

    With pipeline stages the first one holds as many micro-batches as there are stages (1F1B), the last one holds one
    and the logits; the larger of the two counts.
    """
    tp = _number("tp")
    split = pl.when(pl.col("sequence_parallel")).then(tp).otherwise(1.0)
    layer = layer_activation_bytes(tables)
    entry = 2.0 * arch.HIDDEN / split
    kept = (
        pl.when(pl.col("checkpointing") == "full")
        .then(pl.when(pl.col("activation_offload")).then(0.0).otherwise(entry))
        .when(pl.col("checkpointing") == "selective")
        .then(layer * tables.constant("selective_share"))
        .otherwise(layer)
    )
    rebuilt = pl.when(pl.col("checkpointing") == "none").then(0.0).otherwise(layer)
    stage_layers = (arch.LAYERS / _number("pp")).ceil()
    chunks = pl.when(pl.col("chunked_loss")).then(tables.constant("logit_chunks")).otherwise(1.0)
    entry_bytes = pl.when(pl.col("fused_kernels")).then(tables.constant("fused_logit_bytes"))
    logits = arch.column("vocab") * entry_bytes.otherwise(tables.constant("logit_bytes")) / tp / chunks
    first = kept * stage_layers * _number("pp") + rebuilt
    last = kept * stage_layers + rebuilt + logits
    return _tokens() * pl.max_horizontal(first, last) / GIB


REASON_UNKNOWN = "unknown optimiser"
REASON_MEMORY_UNKNOWN = "memory of the card unknown"
REASON_HEADS = "tp does not divide the attention heads"
REASON_STATES = "weights, gradients and optimiser states exceed the memory"
REASON_ACTIVATIONS = "activations do not fit beside the model states"

ADDED = (
    "training_state_gib_per_gpu", "training_activation_gib_per_gpu", "training_gib_per_gpu", "usable_gib_per_gpu",
    "fits_memory", "memory_slack_gib", "memory_reason",
)  # fmt: skip


def with_training_memory(frame: Frame, tables: MemoryTables) -> Frame:
    """Add the memory of one training rank per row.

    Parameters
    ----------
    frame
        Model columns, `memory_gib` [GiB] of the card and `method` (pretrain | full | lora | qlora), `optimizer`,
        `sequence` [tokens], `micro_batch` [sequences], `tp`, `pp`, `dp`, `zero_stage` (0-3; FSDP is 3),
        `checkpointing` (none | selective | full). Optional: `lora_rank`, `cp`, `ep`, `sequence_parallel`,
        `fused_kernels`, `chunked_loss`, `offload` (none | optimizer | all), `optimizer_in_backward`,
        `activation_offload`, `full_init` (sharded, but built in full on every card first), `usable_memory_gib` [GiB].

    Returns
    -------
    The frame with `training_state_gib_per_gpu`, `training_activation_gib_per_gpu`, `training_gib_per_gpu` (peak),
    `usable_gib_per_gpu`, `fits_memory`, `memory_slack_gib` (negative: short by so much), `memory_reason`.
    """
    lazy = frame.lazy()
    names = lazy.collect_schema().names()
    made = [
        pl.lit(default, dtype=dtype).alias(name) if name not in names else pl.col(name).fill_null(default)
        for name, (dtype, default) in OPTIONAL.items()
        if name not in names or default is not None
    ]
    nf4 = float(tables.quantisation.filter(pl.col("precision") == "nf4")["linear_bytes"].item())
    optimisers = tables.optimisers
    per_parameter = {
        name: name for name in ("weight_bytes", "gradient_bytes", "master_bytes", "state_bytes", "ends_state_bytes")
    }
    total = (pl.col("training_state_gib_per_gpu") + pl.col("training_activation_gib_per_gpu") + pl.col("_moment")) * (
        1.0 + tables.constant("allocator_share")
    )
    # Without meta-device initialisation every card holds the whole model once, and its own shard, before training.
    whole = (rank_parameters()[0] + rank_parameters()[1]) * 2.0 / GIB
    start = whole * (1.0 + 1.0 / (_number("dp") * _number("cp")))
    total = pl.max_horizontal(total, pl.when(pl.col("full_init") & SHARDED).then(start).otherwise(0.0))
    usable = pl.col("usable_gib_per_gpu")
    room = usable * (1.0 - tables.constant("headroom_share")) - tables.constant("training_runtime_gib")
    reason = (
        pl.when(pl.col("weight_bytes").is_null())
        .then(pl.lit(REASON_UNKNOWN))
        .when(pl.col("usable_gib_per_gpu").is_null())
        .then(pl.lit(REASON_MEMORY_UNKNOWN))
        .when((arch.HEADS % pl.col("tp")) != 0)
        .then(pl.lit(REASON_HEADS))
        .when(pl.col("memory_slack_gib") >= 0)
        .then(pl.lit(None, dtype=pl.String))
        .when(pl.col("training_state_gib_per_gpu") > room)
        .then(pl.lit(REASON_STATES))
        .otherwise(pl.lit(REASON_ACTIVATIONS))
    )
    out = (
        lazy.with_columns(made)
        .pipe(with_looked_up, optimisers, pl.col("optimizer"), optimisers["optimizer"], per_parameter)
        .with_columns(pl.lit(nf4).alias("_nf4_bytes"))
        .with_columns(
            state_gib().alias("training_state_gib_per_gpu"),
            activation_gib(tables).alias("training_activation_gib_per_gpu"),
            (gather_gib(tables) + dequantisation_gib()).alias("_moment"),
            usable_memory_gib(tables).alias("usable_gib_per_gpu"),
        )
        .with_columns(total.alias("training_gib_per_gpu"))
        .with_columns((room - pl.col("training_gib_per_gpu")).alias("memory_slack_gib"))
        .with_columns(reason.alias("memory_reason"))
        .with_columns(pl.col("memory_reason").is_null().alias("fits_memory"))
        .select(*[n for n in names if n not in ADDED], *ADDED)
    )
    return out.collect() if isinstance(frame, pl.DataFrame) else out
