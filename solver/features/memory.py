"""Does a model fit a card while serving? Polars expressions over flat rows, one or a million.

One row is one replica of a model on `tp` x `pp` cards of one accelerator. All figures are those of the fullest card.
Method: weights from the architecture (`memory_weights`), KV cache per token and per request (`memory_kv`), the rest
from the engine's profile (table `engines`): pool = utilisation x memory - weights - overhead. A fit also keeps
head-room outside the utilisation: 2 % of the card, at least 1.5 GiB, besides CUDA graphs that live there.
"""

from __future__ import annotations

from typing import TypeVar

import polars as pl

from catalogs import architecture as arch
from solver.features.memory_kv import kv_bytes_per_token, request_bytes, state_bytes_per_request
from solver.features.memory_tables import MemoryTables, with_looked_up
from solver.features.memory_weights import GIB, weights_gib

Frame = TypeVar("Frame", pl.DataFrame, pl.LazyFrame)

#: Config columns a caller may leave out, with the type and the value taken then (null: the engine's own).
OPTIONAL: dict[str, tuple[pl.DataType, object]] = {
    "ep": (pl.Int64(), 1),
    "attention_dp": (pl.Int64(), 1),
    "dcp": (pl.Int64(), 1),
    "min_concurrency": (pl.Float64(), 1.0),
    "utilisation": (pl.Float64(), None),
    "max_num_seqs": (pl.Int64(), None),
    "max_batched_tokens": (pl.Int64(), None),
    "eager": (pl.Boolean(), False),
    "usable_memory_gib": (pl.Float64(), None),
    "allow_weight_only": (pl.Boolean(), False),
}
TABLE_COLUMNS_ENGINE = (
    "utilisation_of", "sampler_bytes", "activation_base_gib", "activation_moe_gib", "runtime_gib", "runtime_tp_gib",
    "graph_base_gib", "graph_layer_gib", "graph_moe_gib", "graphs_inside", "block_tokens", "mla_entry_multiple",
    "mla_absorbed", "grouped_layers", "embedding_on_host",
)  # fmt: skip
TABLE_COLUMNS_PRECISION = (
    "linear_bytes", "attention_bytes", "mla_attention_bytes", "state_attention_bytes", "expert_bytes", "ends_bytes",
    "tower_bytes", "compute", "weight_only", "expert_pad_hidden", "expert_pad_intermediate", "repack_gib",
)  # fmt: skip


def card_class(tables: MemoryTables) -> pl.Expr:
    """Give the class of card by which vLLM sets its defaults: `wide` from 70 GiB on, except the A100 family."""
    big = usable_memory_gib(tables) >= tables.constant("wide_card_gib")
    return pl.when(big & (pl.col("architecture") != "Ampere")).then(pl.lit("wide")).otherwise(pl.lit("standard"))


def usable_memory_gib(tables: MemoryTables) -> pl.Expr:
    """Give the memory an engine sees [GiB]: measured where given, else the card's figure less the driver's part."""
    seen = pl.col("memory_gib").cast(pl.Float64) - tables.constant("driver_reserve_gib")
    return pl.coalesce(pl.col("usable_memory_gib"), seen)


def headroom_gib(memory: pl.Expr, tables: MemoryTables) -> pl.Expr:
    """Give the memory that must stay free outside the engine's utilisation [GiB].

    2 % of the card, at least 1.5 GiB; on cards under 15 GiB the tenth that engines leave by default is enough.
    """
    least = pl.min_horizontal(tables.constant("headroom_min_gib"), memory * tables.constant("engine_default_share"))
    return pl.max_horizontal(memory * tables.constant("headroom_share"), least)


def precision_supported() -> pl.Expr:
    """Say whether the card computes in the precision, from its dense peaks (null peak: it cannot).

    Weight-only formats are unpacked to 16 bit and run anywhere; fp8 or fp4 on a card without such units is refused
    unless `allow_weight_only` says that a weight-only kernel is known.
    """
    needs = (
        pl.when(pl.col("compute") == "bf16")
        .then(pl.col("bf16_dense_tflops").is_not_null())
        .when(pl.col("compute") == "fp16")
        .then(pl.col("fp16_dense_tflops").is_not_null() | pl.col("bf16_dense_tflops").is_not_null())
        .when(pl.col("compute") == "fp8")
        .then(pl.col("fp8_dense_tflops").is_not_null())
        .when(pl.col("compute") == "int8")
        .then(pl.col("int8_dense_tops").is_not_null())
        .when(pl.col("compute") == "fp4")
        .then(pl.col("fp4_dense_tflops").is_not_null())
        .otherwise(pl.lit(True))
    )
    widened = pl.col("allow_weight_only") & pl.col("compute").is_in(["fp8", "fp4"])
    return needs | pl.col("weight_only") | widened


def _optional_columns(names: set[str]) -> list[pl.Expr]:
    made = []
    for name, (dtype, default) in OPTIONAL.items():
        if name not in names:
            made.append(pl.lit(default, dtype=dtype).alias(name))
        elif default is not None:
            made.append(pl.col(name).fill_null(default))
    return made


def _with_tables(frame: pl.LazyFrame, tables: MemoryTables) -> pl.LazyFrame:
    """Copy the engine's profile and the bytes of both precisions to each row."""
    own = {"family": "engine_family", "utilisation": "_utilisation", "max_num_seqs": "_max_num_seqs"}
    own["max_batched_tokens"] = "_max_batched_tokens"
    own["whole_prefill_tokens"] = "_whole_prefill_tokens"
    profile = own | {name: name for name in TABLE_COLUMNS_ENGINE}
    precision = {name: name for name in TABLE_COLUMNS_PRECISION}
    kv = {"bytes": "kv_bytes", "mla_index_entry_bytes": "mla_index_entry_bytes"}
    engines = tables.engines
    names = engines.select(pl.concat_str("engine", "card_class", separator="|"))["engine"]
    profile_key = pl.concat_str("engine", "card_class", separator="|")
    return (
        frame.with_columns(card_class(tables).alias("card_class"))
        .pipe(with_looked_up, engines, profile_key, names, profile)
        .pipe(with_looked_up, tables.quantisation, pl.col("precision"), tables.quantisation["precision"], precision)
        .pipe(with_looked_up, tables.kv_precisions, pl.col("kv_precision"), tables.kv_precisions["kv_precision"], kv)
    )


def _settings(tables: MemoryTables) -> list[pl.Expr]:
    """Engine settings in force: the row's own, else the profile's; the utilisation leaves room for the head-room."""
    usable = usable_memory_gib(tables)
    free_share = 1.0 - headroom_gib(usable, tables) / usable
    own = pl.min_horizontal(pl.col("_utilisation"), free_share)
    # Engines without chunked prefill take a whole prompt in one step, up to a length.
    whole = pl.col("context_tokens") <= pl.col("_whole_prefill_tokens")
    step = pl.when(whole).then(pl.max_horizontal("_max_batched_tokens", "context_tokens"))
    return [
        pl.col("max_num_seqs").alias("_seqs_asked"),
        pl.coalesce("max_num_seqs", "_max_num_seqs").alias("max_num_seqs"),
        pl.coalesce(pl.col("max_batched_tokens"), step.otherwise(pl.col("_max_batched_tokens"))).alias(
            "max_batched_tokens"
        ),
        pl.coalesce(pl.col("utilisation"), own).alias("utilisation"),
        usable.alias("_usable"),
    ]


def activation_gib() -> pl.Expr:
    """Give the peak of activations at start-up [GiB].

    Since the sampler works on all admitted sequences at once, the vocabulary rules: `sampler_bytes` per sequence and
    entry (38.7 B while the whole vocabulary was sorted, 13.7 B since vLLM 0.17). A forward pass over the batched
    tokens needs its own peak: 16-bit hidden states and one feed-forward block, and is the larger of the two at times.
    """
    sampler = pl.col("sampler_bytes") * pl.col("max_num_seqs") * arch.column("vocab")
    width = pl.max_horizontal(
        arch.column("intermediate"), arch.column("moe_intermediate") * arch.column("experts_per_token")
    )
    forward = pl.col("max_batched_tokens") * (4.0 * arch.HIDDEN + 3.0 * width / pl.col("tp")) * 2.0
    peak = pl.when(pl.col("sampler_bytes") > 0).then(pl.max_horizontal(sampler, forward)).otherwise(0.0)
    moe = pl.when(arch.EXPERTS > 0).then(pl.col("activation_moe_gib")).otherwise(0.0)
    # Sampling happens on the last pipeline stage, which holds fewer layers; the other stages only forward.
    return pl.col("activation_base_gib") + moe + peak / GIB


def graph_gib() -> pl.Expr:
    """Give the memory of captured CUDA graphs [GiB]."""
    moe = pl.when(arch.EXPERTS > 0).then(pl.col("graph_moe_gib")).otherwise(0.0)
    layers = pl.col("graph_layer_gib") * (arch.LAYERS / pl.col("pp"))
    return pl.when(pl.col("eager")).then(0.0).otherwise(pl.col("graph_base_gib") + layers + moe)


def overhead_gib() -> pl.Expr:
    """Give what the engine takes inside its utilisation besides weights and KV cache [GiB]."""
    runtime = pl.when(pl.col("tp") > 1).then(pl.col("runtime_tp_gib")).otherwise(pl.col("runtime_gib"))
    inside = pl.when(pl.col("graphs_inside")).then(graph_gib()).otherwise(0.0)
    return activation_gib() + runtime + inside


def _verdict() -> list[pl.Expr]:
    usable = pl.col("_usable")
    total = pl.col("utilisation") * usable
    used = pl.col("weights_gib_per_gpu") + pl.col("overhead_gib_per_gpu")
    free = pl.col("utilisation") * (usable - used)
    pool = pl.when(pl.col("utilisation_of") == "free").then(free).otherwise(total - used)
    return [pool.alias("kv_pool_gib_per_gpu")]


def _outside_slack(tables: MemoryTables) -> pl.Expr:
    """Memory outside the utilisation that is left once head-room, graphs and repacking have had theirs [GiB].

    Engines that size their pool by the memory left free after loading have had their buffers already. An eager engine
    with a handful of sequences captures no graphs and warms up no sampler: the share of the card is enough there.
    """
    usable = pl.col("_usable")
    rest = (1.0 - pl.col("utilisation")) * usable
    graphs = pl.when(pl.col("graphs_inside")).then(0.0).otherwise(graph_gib())
    repack = pl.when(pl.col("card_class") == "wide").then(pl.col("repack_gib")).otherwise(0.0)
    few = pl.col("eager") & (pl.col("max_num_seqs") <= tables.constant("warm_up_sequences"))
    need = pl.when(few).then(usable * tables.constant("headroom_share")).otherwise(headroom_gib(usable, tables))
    # A hair of tolerance: a utilisation of 0.98 leaves exactly the 2 % asked for.
    slack = rest - graphs - repack - need + 1e-9
    return pl.when(pl.col("utilisation_of") == "free").then(pl.lit(float("inf"))).otherwise(slack)


def _state_reserve_gib() -> pl.Expr:
    """Recurrent state that must fit for all admitted sequences while CUDA graphs are captured [GiB].

    vLLM since 0.21 allocates one state per admitted sequence for that. Where the caller leaves the number of sequences
    open, it is taken to be lowered until they fit.
    """
    captured = pl.col("graphs_inside") & ~pl.col("eager") & pl.col("_seqs_asked").is_not_null()
    return pl.when(captured).then(pl.col("_seqs_asked") * pl.col("state_gib_per_request")).otherwise(0.0)


def _results() -> list[pl.Expr]:
    pool = pl.max_horizontal(pl.col("kv_pool_gib_per_gpu"), pl.lit(0.0)) * GIB
    tokens = (pool / pl.col("kv_bytes_per_token_per_gpu")).floor() * pl.col("attention_dp")
    concurrency = (pool / pl.col("kv_bytes_per_request_per_gpu")).floor() * pl.col("attention_dp")
    wanted = (pl.col("min_concurrency").clip(lower_bound=1.0) / pl.col("attention_dp")).ceil()
    need = pl.max_horizontal(wanted * pl.col("kv_bytes_per_request_per_gpu") / GIB, _state_reserve_gib())
    slack = pl.min_horizontal(pl.col("kv_pool_gib_per_gpu") - need, pl.col("_outside"))
    return [
        tokens.alias("kv_tokens"),
        concurrency.alias("max_concurrency"),
        slack.alias("memory_slack_gib"),
    ]


#: Reasons, in the order in which they are tried. Short and without figures, so that a million rows share them.
REASON_ENGINE = "unknown engine profile"
REASON_PRECISION = "unknown precision"
REASON_NO_UNITS = "the card does not compute in this precision"
REASON_MEMORY_UNKNOWN = "memory of the card unknown"
REASON_HEADS = "tp does not divide the attention heads"
REASON_WEIGHTS = "weights and engine overhead exceed the usable memory"
REASON_KV = "no room for the KV cache of the requests asked for"
REASON_HEADROOM = "too little head-room outside the engine's utilisation"


def _reason() -> pl.Expr:
    heads_split = (arch.HEADS % pl.col("tp")) == 0
    checked = pl.col("engine_family") != "llama.cpp"
    return (
        pl.when(pl.col("engine_family").is_null())
        .then(pl.lit(REASON_ENGINE))
        .when(pl.col("linear_bytes").is_null() | pl.col("kv_bytes").is_null())
        .then(pl.lit(REASON_PRECISION))
        .when(pl.col("_usable").is_null())
        .then(pl.lit(REASON_MEMORY_UNKNOWN))
        .when(~pl.col("precision_supported"))
        .then(pl.lit(REASON_NO_UNITS))
        .when(checked & ~heads_split)
        .then(pl.lit(REASON_HEADS))
        .when(pl.col("kv_pool_gib_per_gpu") <= 0)
        .then(pl.lit(REASON_WEIGHTS))
        .when(pl.col("memory_slack_gib") >= 0)
        .then(pl.lit(None, dtype=pl.String))
        .when(pl.col("_outside") < 0)
        .then(pl.lit(REASON_HEADROOM))
        .otherwise(pl.lit(REASON_KV))
    )


ADDED = (
    "weights_gib_per_gpu", "kv_bytes_per_token_per_gpu", "kv_bytes_per_request_per_gpu", "state_gib_per_request",
    "activation_gib_per_gpu", "graph_gib_per_gpu", "overhead_gib_per_gpu", "usable_gib_per_gpu", "kv_pool_gib_per_gpu",
    "kv_tokens", "max_concurrency", "precision_supported", "fits_memory", "memory_slack_gib", "memory_reason",
)  # fmt: skip


def with_serving_memory(frame: Frame, tables: MemoryTables) -> Frame:
    """Add the memory of one serving replica per row.

    Parameters
    ----------
    frame
        Model columns of the models table, accelerator columns (`architecture`, `memory_gib` [GiB], dense peaks) and
        `precision`, `kv_precision`, `tp`, `pp`, `engine`, `context_tokens` [tokens, longest request]. Optional:
        `min_concurrency` [requests], `ep` [cards the experts spread over], `attention_dp`, `dcp`, `utilisation`,
        `max_num_seqs`, `max_batched_tokens`, `eager`, `usable_memory_gib` [GiB], `allow_weight_only`.
    tables
        Catalogue tables: ``MemoryTables.of(catalog)``.

    Returns
    -------
    The frame with `weights_gib_per_gpu`, `kv_bytes_per_token_per_gpu` [B], `kv_bytes_per_request_per_gpu` [B],
    `state_gib_per_request`, `activation_gib_per_gpu`, `graph_gib_per_gpu`, `overhead_gib_per_gpu`,
    `usable_gib_per_gpu`, `kv_pool_gib_per_gpu`, `kv_tokens` and `max_concurrency` (whole replica),
    `precision_supported`, `fits_memory`, `memory_slack_gib` (negative: short by so much), `memory_reason` (null: fits).
    """
    lazy = frame.lazy()
    names = lazy.collect_schema().names()
    out = (
        _with_tables(lazy.with_columns(_optional_columns(set(names))), tables)
        .with_columns(_settings(tables))
        .with_columns(
            weights_gib().alias("weights_gib_per_gpu"),
            kv_bytes_per_token().alias("kv_bytes_per_token_per_gpu"),
            request_bytes().alias("kv_bytes_per_request_per_gpu"),
            (state_bytes_per_request() / GIB).alias("state_gib_per_request"),
            activation_gib().alias("activation_gib_per_gpu"),
            graph_gib().alias("graph_gib_per_gpu"),
            overhead_gib().alias("overhead_gib_per_gpu"),
            pl.col("_usable").alias("usable_gib_per_gpu"),
            precision_supported().alias("precision_supported"),
        )
        .with_columns(_verdict())
        .with_columns(_outside_slack(tables).alias("_outside"))
        .with_columns(_results())
        .with_columns(_reason().alias("memory_reason"))
        .with_columns(pl.col("memory_reason").is_null().alias("fits_memory"))
        .select(*[n for n in names if n not in ADDED], *ADDED)
    )
    return out.collect() if isinstance(frame, pl.DataFrame) else out
