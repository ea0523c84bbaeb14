"""Serving rate of one replica: a roofline with measured efficiencies, solved for the largest batch.

Formulas (docs/speed.md gives sources and measured accuracy). For a replica of tp x pp accelerators with B sequences
in flight, every pipeline stage holding B/pp of them:

- weight read  W(B) = bytes not in experts + expert bytes x (1 - (1 - k/E)^(B/pp)),  over tp x bandwidth x e_weights
- arithmetic   C(B) = 2 P_active B,  over tp x pp x peak x e_compute
- KV read      K(B) = B (isl + osl/2) x KV bytes per token and card,  over bandwidth x e_kv
- all-reduce   2 L hops, plus 2 L B hidden x 2 bytes x 2 (tp-1)/tp over the link
- step(B)      = overhead + max(W, C) + K + all-reduce
- prefill of one request  P = isl (2 P_active + 2 L heads head_dim isl) over tp x pp x peak x e_prefill, + all-reduce
- TPOT(B)      = step(B) + B P / osl        (each step, B/osl new requests bring their prompts)
- output tokens/s = e_schedule B / TPOT(B)

All efficiencies are at most 1, so no rate passes the peak FLOPS or the memory bandwidth of the cards.
"""

from __future__ import annotations

from typing import Final, TypeVar

import polars as pl

from catalogs import architecture as arch

Frame = TypeVar("Frame", pl.DataFrame, pl.LazyFrame)

GIB: Final = 2.0**30
Z: Final = {"mean": 0.0, "p50": 0.0, "p90": 1.2816, "p95": 1.6449, "p99": 2.3263}
"""Standard normal quantiles of the percentiles a service may ask for."""
TAIL: Final = {"mean": 0.5, "p50": 0.5, "p90": 0.1, "p95": 0.05, "p99": 0.01}
"""Share of requests that may wait longer than the stated latency."""
BISECTIONS: Final = 20
NEWTON_STEPS: Final = 4
SLACK: Final = 1.0 + 1e-9
KEPT_TOKENS: Final = 2048.0
"""Tokens beside the window that a sliding layer still holds while a prompt is read in chunks."""

OPTIONAL: Final[dict[str, object]] = {
    "interconnect_class": None,
    "accelerators_per_node": None,
    "network_gbps": None,
    "prefix_hit": 0.0,
    "speculative_speedup": 1.0,
    "disaggregated": False,
    "max_batch": None,
    "attention_dp": 1,
    "kv_reserve": 1.0,
    "ttft_limit_s": None,
    "tpot_limit_s": None,
    "percentile": "p95",
}
"""Config columns that a frame may leave out, with what is then assumed."""


TERMS: Final = ("_fixed", "_w_shared", "_w_expert", "_log_miss", "_compute", "_kv", "_hold", "_wire", "_prefill")
"""Coefficients of the step-time model; see `with_step_terms`."""

CONFIG_TERMS: Final = (
    "_fixed", "_w_shared", "_w_expert", "_log_miss", "_c0", "_c1", "_k0", "_k1", "_state", "_sliding", "_window", "_wire",
    "_p0", "_p1",
)  # fmt: skip
"""What `with_config_terms` adds; `with_length_terms` makes the rest of `TERMS` of it."""

READ: Final = frozenset(OPTIONAL) | {
    "accelerator", "software_stack", "bandwidth_gb_s", "bf16_dense_tflops", "fp16_dense_tflops", "fp8_dense_tflops",
    "fp4_dense_tflops", "int8_dense_tops", "fp32_tflops", "interconnect", "interconnect_gb_s", "nvlink_domain", "pcie_gen",
    "layers", "hidden", "heads", "kv_heads", "head_dim", "vocab", "params_total_b", "params_active_b", "experts",
    "experts_per_token", "tie_embeddings", "mla_kv_lora_rank", "mla_rope_dim", "sliding_window", "sliding_layers",
    "linear_layers", "full_layers", "full_kv_heads", "full_head_dim", "sliding_kv_heads", "v_head_dim",
    "weights_gib_per_gpu", "kv_bytes_per_token_per_gpu", "kv_tokens", "fits_memory", "memory_reason",
    "state_gib_per_request", "precision", "engine", "tp", "pp", "isl", "osl",
}  # fmt: skip
"""Columns that the serving model reads."""


def with_optional(frame: pl.DataFrame) -> pl.DataFrame:
    """Add the optional config columns that are missing, at their defaults."""
    types: dict[str, pl.DataType | type[pl.DataType]] = {
        "interconnect_class": pl.String,
        "accelerators_per_node": pl.Float64,
        "network_gbps": pl.Float64,
        "max_batch": pl.Float64,
        "ttft_limit_s": pl.Float64,
        "tpot_limit_s": pl.Float64,
    }
    return frame.with_columns(
        pl.lit(value, dtype=types.get(name)).alias(name)
        for name, value in OPTIONAL.items()
        if name not in frame.columns
    )


def compute_peak_tflops() -> pl.Expr:
    """Dense peak [TFLOP/s] at which a weight precision computes on a card.

    A precision that the card has no units for is weight-only: it runs at the 16-bit peak. INT4 and NF4 always are.
    """
    half = pl.coalesce(pl.col("bf16_dense_tflops"), pl.col("fp16_dense_tflops"))
    fp16 = pl.coalesce(pl.col("fp16_dense_tflops"), pl.col("bf16_dense_tflops"))
    p = pl.col("precision")
    return (
        pl.when(p.str.starts_with("fp8"))
        .then(pl.coalesce("fp8_dense_tflops", half))
        .when(p.str.starts_with("nvfp4"))
        .then(pl.coalesce("fp4_dense_tflops", half))
        # MXFP4 checkpoints keep 8-bit activations on cards with FP4 units, 16-bit ones elsewhere.
        .when((p == "mxfp4") & pl.col("fp4_dense_tflops").is_not_null())
        .then(pl.coalesce("fp8_dense_tflops", half))
        .when(p.is_in(["int8", "w8a8-int8"]))
        .then(pl.coalesce("int8_dense_tops", half))
        .when(p == "fp32")
        .then(pl.coalesce("fp32_tflops", half))
        .when(p == "fp16")
        .then(fp16)
        .otherwise(half)
        .cast(pl.Float64)
    )


def link_class() -> pl.Expr:
    """Class of the link that tensor parallelism uses: nvlink, bridge, pcie or node (across nodes)."""
    tp = pl.col("tp")
    domain = pl.col("nvlink_domain").fill_null(1)
    inside = (tp <= domain) & (pl.col("interconnect_class").fill_null("") != "pcie")
    bridged = (pl.col("interconnect_class") == "bridge") | pl.col("interconnect").str.contains("bridge").fill_null(
        False
    )
    beyond_node = tp > pl.max_horizontal(pl.col("accelerators_per_node").fill_null(8), domain)
    return (
        pl.when(beyond_node)
        .then(pl.lit("node"))
        .when(inside & bridged)
        .then(pl.lit("bridge"))
        .when(inside)
        .then(pl.lit("nvlink"))
        .otherwise(pl.lit("pcie"))
    )


def link_bytes_per_s() -> pl.Expr:
    """Bandwidth of that link in one direction [bytes/s] per card, before its efficiency.

    NVLink-class figures count both directions; PCIe x16 carries 2^(generation+1) GB/s each way.
    """
    pcie = 2.0 ** (pl.col("pcie_gen").fill_null(4).cast(pl.Float64) + 1.0) * 1e9
    per_card = pl.col("network_gbps").fill_null(100.0) / 8.0 * 1e9 / pl.col("accelerators_per_node").fill_null(8)
    nv = pl.col("interconnect_gb_s").fill_null(64.0) * 0.5e9
    return (
        pl.when(pl.col("_link") == "node")
        .then(pl.min_horizontal(per_card, pcie))
        .when(pl.col("_link") == "pcie")
        .then(pcie)
        .otherwise(nv)
    )


def with_step_terms(frame: Frame, links: pl.DataFrame, quantisation: pl.DataFrame) -> Frame:
    """Add the coefficients of the step-time model [s], one pass over the row (names start with ``_``)."""
    lazy = with_length_terms(with_config_terms(frame.lazy(), links, quantisation))
    return lazy.collect() if isinstance(frame, pl.DataFrame) else lazy


def with_length_terms(frame: Frame) -> Frame:
    """Add the coefficients that depend on isl and osl, from those of `with_config_terms`."""
    context = pl.col("isl") + pl.col("osl") / 2
    held = pl.col("isl") + pl.col("osl") * pl.col("kv_reserve")
    prompt = pl.col("isl") * (1.0 - pl.col("prefix_hit"))
    # Causal attention: the mean token that is read sees half of the prompt, and all of what was found in the cache.
    position = pl.col("isl") * (1.0 + pl.col("prefix_hit")) / 2.0

    def seen(tokens: pl.Expr, window: pl.Expr) -> pl.Expr:
        return tokens - pl.col("_sliding") * (tokens - pl.min_horizontal(tokens, window))

    return frame.with_columns(
        _compute=pl.col("_c0") + pl.col("_c1") * context,
        _kv=pl.col("_k0") * seen(context, pl.col("_window")) + pl.col("_k1"),
        _hold=pl.col("kv_bytes_per_token_per_gpu") * seen(held, pl.col("_window") + KEPT_TOKENS) + pl.col("_state"),
        _prefill=prompt * (pl.col("_p0") + pl.col("_p1") * position),
    )


def with_config_terms(frame: pl.LazyFrame, links: pl.DataFrame, quantisation: pl.DataFrame) -> pl.LazyFrame:
    """Add the coefficients that hold for every request length."""
    tp, pp = pl.col("tp").cast(pl.Float64), pl.col("pp").cast(pl.Float64)
    layers = pl.col("layers").cast(pl.Float64)
    total, active = pl.col("params_total_b") * 1e9, pl.col("params_active_b") * 1e9
    experts, chosen = pl.col("experts").fill_null(0.0), pl.col("experts_per_token").fill_null(0.0)
    # total = shared + E x, active = shared + k x  gives the size of one expert over all layers.
    is_moe = experts > chosen
    expert_params = pl.when(is_moe).then(experts * (total - active) / (experts - chosen)).otherwise(0.0)
    # Input embeddings are looked up, not read; tied ones are read as the output head.
    lookup = (
        pl.when(pl.col("tie_embeddings").fill_null(False))
        .then(0.0)
        .otherwise(pl.col("vocab").fill_null(0).cast(pl.Float64) * pl.col("hidden"))
    )
    weight_bytes = pl.col("weights_gib_per_gpu") * GIB
    attention_dp = pl.col("attention_dp").cast(pl.Float64)
    # Bytes per card in units of a 16-bit-equivalent parameter: experts may be of another format than the rest, and
    # data-parallel attention keeps the rest whole on every card.
    expert_part = expert_params * pl.col("_expert_ratio").fill_null(1.0)
    rest = (total - expert_params).clip(0.0) * attention_dp
    expert_share = expert_part / (expert_part + rest)
    shared_share = (1.0 - expert_share) * (1.0 - lookup / (total - expert_params).clip(1.0)).clip(0.05, 1.0)
    peak = pl.col("_peak") * 1e12
    bandwidth = pl.col("bandwidth_gb_s") * 1e9
    heads = pl.col("heads").cast(pl.Float64) * pl.col("head_dim")
    rank = pl.col("mla_kv_lora_rank").fill_null(0)
    mla_flops = (
        pl.when(rank > 0)
        .then(2.0 * layers * pl.col("heads") * (2.0 * rank + pl.col("mla_rope_dim").fill_null(0)))
        .otherwise(0.0)
    )
    # Per token: two all-reduces of the hidden state per layer; with data-parallel attention its way to k experts and back.
    message = (
        2.0
        * layers
        * pl.col("hidden")
        * 2.0
        * pl.when(attention_dp > 1)
        .then(pl.min_horizontal(chosen, attention_dp) / attention_dp)
        .otherwise(2.0 * (tp - 1) / tp)
    )
    wire = (
        pl.when(pl.col("tp") > 1).then(message / (pl.col("_link_bytes_s") * pl.col("link_efficiency"))).otherwise(0.0)
    )
    hop = (
        pl.when(pl.col("tp") > 1)
        .then(2.0 * layers * (pl.col("cal_hop_us") * 1e-6 + pl.col("link_extra_us") * 1e-6))
        .otherwise(0.0)
    )
    read = pl.col("attention_dp") * bandwidth * pl.col("cal_e_kv")
    state = pl.col("state_gib_per_request").fill_null(0.0) * GIB
    full = arch.FULL_LAYERS * arch.FULL_KV_HEADS * (arch.FULL_HEAD_DIM + arch.FULL_VALUE_DIM)
    sliding = arch.SLIDING_LAYERS * arch.SLIDING_KV_HEADS * (arch.HEAD_DIM + arch.SLIDING_VALUE_DIM)
    return (
        frame.with_columns(_peak=compute_peak_tflops(), _link=link_class())
        .with_columns(_link_bytes_s=link_bytes_per_s())
        .join(
            quantisation.lazy().select("precision", _expert_ratio=pl.col("expert_bytes") / pl.col("attention_bytes")),
            on="precision",
            how="left",
            maintain_order="left",
        )
        .join(
            links.lazy().select("link_class", "link_efficiency", "link_extra_us"),
            left_on="_link",
            right_on="link_class",
            how="left",
            maintain_order="left",
        )
        .with_columns(
            _fixed=pl.col("cal_step_ms") * 1e-3 * pp + layers * pl.col("cal_layer_us") * 1e-6 + hop,
            _w_shared=weight_bytes * pp * shared_share / (bandwidth * pl.col("cal_e_weights")),
            _w_expert=weight_bytes * pp * expert_share / (bandwidth * pl.col("cal_e_weights")),
            _log_miss=pl.when(is_moe).then((1.0 - chosen / experts).clip(1e-9, 1.0).log()).otherwise(0.0),
            _c0=2.0 * active / (tp * pp * peak * pl.col("cal_e_compute")),
            _c1=mla_flops / (tp * pp * peak * pl.col("cal_e_compute")),
            _k0=pl.col("kv_bytes_per_token_per_gpu") / read,
            # Recurrent state is read and written in each step.
            _k1=2.0 * state / read,
            _state=state,
            _sliding=pl.when(arch.SLIDING_LAYERS > 0).then(sliding / (full + sliding)).otherwise(0.0),
            _window=pl.col("sliding_window").cast(pl.Float64).fill_null(1e12),
            _wire=wire / pp + pl.col("cal_seq_us") * 1e-6,
            _p0=2.0 * active / (tp * pp * peak * pl.col("cal_e_prefill")) + wire / pp,
            _p1=4.0 * layers * heads / (tp * pp * peak * pl.col("cal_e_prefill")),
        )
    )


def batch_limit() -> pl.Expr:
    """Most requests of isl + osl tokens that the KV pool and the engine hold at once."""
    pool = pl.col("kv_tokens") * pl.col("kv_bytes_per_token_per_gpu")
    return pl.min_horizontal(pool / pl.col("_hold"), pl.col("max_batch").cast(pl.Float64).fill_null(1e9))


def step_s(batch: pl.Expr) -> pl.Expr:
    """Time of one decode round at `batch` sequences in flight [s], without prefill."""
    per_stage = pl.max_horizontal(batch / pl.col("pp"), pl.lit(1.0))
    read = pl.col("_w_shared") + pl.col("_w_expert") * (1.0 - (pl.col("_log_miss") * per_stage).exp())
    busy = read + (pl.col("_compute") + pl.col("_kv") + pl.col("_wire")) * batch
    return (pl.col("_fixed") + busy) / pl.col("speculative_speedup")


def tpot_s(batch: pl.Expr) -> pl.Expr:
    """Mean time per output token [s] with the prompts of arriving requests between the steps."""
    prefill = pl.when("disaggregated").then(0.0).otherwise(pl.col("_prefill") * batch / pl.col("osl"))
    return step_s(batch) + prefill


def first_pass_s() -> pl.Expr:
    """Prefill of one request on an idle replica [s]: its arithmetic through all stages, and the weights read once."""
    return pl.col("_prefill") * pl.col("pp") + pl.col("_w_shared") + pl.col("_w_expert") + pl.col("_fixed")


def in_flight(batch: pl.Expr) -> pl.Expr:
    """Mean number in flight n such that a Poisson load stays within `batch` at the stated percentile.

    n + z sqrt(n) = batch  gives  n = (sqrt(batch + z^2/4) - z/2)^2.
    """
    z = pl.col("_z")
    return ((batch + z * z / 4.0).sqrt() - z / 2.0) ** 2


def ttft_s(batch: pl.Expr) -> pl.Expr:
    """Time to first token at the stated percentile [s], at the load that `batch` allows.

    A request waits for the running step (half on average) and for prompts before it (M/D/1: those that wait do so
    for P / (2 (1 - rho)) on average, with an exponential tail), then runs its own prefill beside one decode step.
    """
    n = in_flight(batch)
    rho = (n * pl.col("_prefill") / (pl.col("osl") * tpot_s(n))).clip(1e-9, 0.999)
    wait = pl.col("_prefill") / (2.0 * (1.0 - rho)) * (rho / pl.col("_tail")).log().clip(0.0)
    return first_pass_s() + 1.5 * step_s(n) + wait


def tpot_batch(cap: pl.Expr) -> pl.Expr:
    """Most sequences whose TPOT stays within `tpot_limit_s`, at most `cap`; a lower bound where experts are read in part.

    TPOT(B) = k + e occ(B) + s B rises and is concave, so Newton's steps from below stay below: start where all experts
    are read, which is exact for dense models.
    """
    spec = pl.col("speculative_speedup")
    s = (pl.col("_compute") + pl.col("_kv") + pl.col("_wire")) / spec + pl.when("disaggregated").then(0.0).otherwise(
        pl.col("_prefill") / pl.col("osl")
    )
    free = pl.col("tpot_limit_s") - (pl.col("_fixed") + pl.col("_w_shared")) / spec
    batch = (free - pl.col("_w_expert") / spec) / s
    return pl.min_horizontal(batch.clip(0.0).fill_null(float("inf")), cap)


def _newton(batch: pl.Expr) -> pl.Expr:
    """One step of `tpot_batch` for models with experts."""
    spec, stage = pl.col("speculative_speedup"), pl.max_horizontal(batch / pl.col("pp"), pl.lit(1.0))
    missed = (pl.col("_log_miss") * stage).exp()
    slope = (pl.col("_compute") + pl.col("_kv") + pl.col("_wire")) / spec + pl.when("disaggregated").then(
        0.0
    ).otherwise(pl.col("_prefill") / pl.col("osl"))
    rise = slope - pl.col("_w_expert") / spec * pl.col("_log_miss") / pl.col("pp") * missed
    return batch + (pl.col("tpot_limit_s") - tpot_s(batch)).clip(0.0) / rise


def largest_batch(frame: pl.DataFrame) -> pl.DataFrame:
    """Add `_batch`: the most sequences in flight within memory, the engine's limit, TPOT and TTFT; 0 if one is too many.

    What memory and engine hold is whole; what the latencies allow is a mean over time and may be a fraction, or a faster
    card could lose a whole sequence to rounding. TPOT is solved directly; TTFT rises with the batch, so rows that break
    it are bisected (on the logarithm).
    """
    b = pl.col("_batch")
    frame = frame.with_columns(_cap=batch_limit().floor()).with_columns(_batch=tpot_batch(pl.col("_cap")))
    part = (pl.col("_log_miss") < 0) & (b < pl.col("_cap"))
    if frame.select(part.any()).item():
        mixed = frame.filter(part).with_columns(_batch=b.clip(1.0))
        for _ in range(NEWTON_STEPS):
            mixed = mixed.with_columns(_batch=pl.min_horizontal(_newton(b), pl.col("_cap")))
        frame = (
            frame.join(mixed.select("_row", _found="_batch"), on="_row", how="left", maintain_order="left")
            .with_columns(_batch=pl.coalesce("_found", "_batch"))
            .drop("_found")
        )
    ok = (tpot_s(b) <= pl.col("tpot_limit_s").fill_null(1e9) * SLACK) & (
        ttft_s(b) <= pl.col("ttft_limit_s").fill_null(1e9) * SLACK
    )
    # One sequence is the least that runs; whether it keeps the limits is tried below.
    frame = frame.with_columns(_batch=pl.when(pl.col("_cap") >= 1).then(b.clip(1.0)).otherwise(0.0))
    frame = frame.with_columns(_ok=(b < 1) | ok)
    bad = frame.filter(~pl.col("_ok"))
    if bad.is_empty():
        return frame.drop("_ok", "_cap")
    narrow = (
        bad.select(
            "_row",
            "pp",
            "osl",
            "speculative_speedup",
            "disaggregated",
            "tpot_limit_s",
            "ttft_limit_s",
            "_z",
            "_tail",
            *TERMS,
            _high=b.log(),
            _low=pl.lit(0.0),
        )
        .with_columns(_batch=pl.lit(1.0))
        .with_columns(_one=ok)
    )
    refused = narrow.filter(~pl.col("_one")).select("_row", _found=pl.lit(0.0))
    narrow = narrow.filter("_one")
    for _ in range(BISECTIONS):
        middle = (pl.col("_low") + pl.col("_high")) / 2
        narrow = narrow.with_columns(_batch=middle.exp()).with_columns(_ok=ok)
        narrow = narrow.with_columns(
            _low=pl.when("_ok").then(middle).otherwise("_low"), _high=pl.when("_ok").then("_high").otherwise(middle)
        )
    found = pl.concat([refused, narrow.select("_row", _found=pl.col("_low").exp())])
    return (
        frame.join(found, on="_row", how="left", maintain_order="left")
        .with_columns(_batch=pl.coalesce("_found", "_batch"))
        .drop("_found", "_ok", "_cap")
    )
