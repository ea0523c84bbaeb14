"""Schemas of the tables behind the memory model: models, engines, precisions, optimisers. Unit in the column name."""

from __future__ import annotations

from catalogs.columns import Sourced, at_least_zero, choice, count, flag, positive, share, text

ENGINE_FAMILIES = ("vllm", "sglang", "tensorrt-llm", "llama.cpp")


class Models(Sourced):
    """One decoder. Null means: does not apply, or the default that `catalogs.architecture` states."""

    model = text(key=True)
    family = text()
    layers = count()
    hidden = count()
    intermediate = count(nullable=True)
    heads = count()
    kv_heads = count()
    head_dim = count()
    vocab = count()
    params_total_b = positive(nullable=False)
    params_active_b = positive(nullable=False)
    experts = count(nullable=True)
    experts_per_token = count(nullable=True)
    moe_intermediate = count(nullable=True)
    shared_experts = count(nullable=True, minimum=0)
    shared_intermediate = count(nullable=True)
    dense_layers = count(nullable=True, minimum=0)
    mlp_layers = count(nullable=True, minimum=0)
    mla_kv_lora_rank = count(nullable=True)
    mla_q_lora_rank = count(nullable=True)
    mla_rope_dim = count(nullable=True)
    mla_nope_dim = count(nullable=True)
    mla_v_dim = count(nullable=True)
    mla_index_bytes = count(nullable=True)
    sliding_window = count(nullable=True)
    sliding_pattern = text(nullable=True)
    full_layers = count(nullable=True, minimum=0)
    sliding_layers = count(nullable=True, minimum=0)
    linear_layers = count(nullable=True, minimum=0)
    full_kv_heads = count(nullable=True)
    full_head_dim = count(nullable=True)
    sliding_kv_heads = count(nullable=True)
    v_head_dim = count(nullable=True)
    linear_key_heads = count(nullable=True)
    linear_value_heads = count(nullable=True)
    linear_key_dim = count(nullable=True)
    linear_value_dim = count(nullable=True)
    linear_kernel = count(nullable=True)
    ffn_matrices = count(nullable=True)
    attention_gate = flag(nullable=True)
    vision_params_b = positive()
    learned_positions = count(nullable=True)
    rope_positions = count(nullable=True)
    rotary_dim = count(nullable=True)
    max_context = count()
    tie_embeddings = flag()
    native_precision = text(nullable=True)


class ModelAliases(Sourced):
    """Another name of a model; names are compared without case, punctuation, publisher and tuning suffix."""

    alias = text(key=True)
    model = text()


class Engines(Sourced):
    """Memory profile of a serving engine on a class of cards (wide: 70 GiB or more, A100 apart)."""

    engine = text(key=True)
    card_class = choice(("wide", "standard"), key=True)
    family = choice(ENGINE_FAMILIES)
    version_from = text()
    utilisation = share(nullable=False)
    utilisation_of = choice(("total", "free"))
    max_num_seqs = count()
    max_batched_tokens = count()
    whole_prefill_tokens = count(minimum=0)
    sampler_bytes = at_least_zero(nullable=False)
    activation_base_gib = at_least_zero(nullable=False)
    activation_moe_gib = at_least_zero(nullable=False)
    runtime_gib = at_least_zero(nullable=False)
    runtime_tp_gib = at_least_zero(nullable=False)
    graph_base_gib = at_least_zero(nullable=False)
    graph_layer_gib = at_least_zero(nullable=False)
    graph_moe_gib = at_least_zero(nullable=False)
    graphs_inside = flag()
    block_tokens = count()
    mla_entry_multiple = count()
    mla_absorbed = choice(("none", "copies", "fused"))
    grouped_layers = flag()
    embedding_on_host = flag()


class Quantisation(Sourced):
    """Bytes per parameter by part of the model, scales included."""

    precision = text(key=True)
    linear_bytes = positive(nullable=False)
    attention_bytes = positive(nullable=False)
    mla_attention_bytes = positive(nullable=False)
    state_attention_bytes = positive(nullable=False)
    expert_bytes = positive(nullable=False)
    ends_bytes = positive(nullable=False)
    tower_bytes = positive(nullable=False)
    compute = choice(("fp32", "bf16", "fp16", "fp8", "int8", "int4", "mxfp4", "fp4"))
    weight_only = flag()
    expert_pad_hidden = count()
    expert_pad_intermediate = count()
    repack_gib = at_least_zero(nullable=False)


class KvPrecisions(Sourced):
    """Bytes of one key or value element in the cache."""

    kv_precision = text(key=True)
    bytes = positive(nullable=False)
    mla_index_entry_bytes = count(nullable=True)


class Optimisers(Sourced):
    """Bytes per trained parameter: working weights, gradients, 32-bit master weights, moments (body, and ends)."""

    optimizer = text(key=True)
    weight_bytes = at_least_zero(nullable=False)
    gradient_bytes = at_least_zero(nullable=False)
    master_bytes = at_least_zero(nullable=False)
    state_bytes = at_least_zero(nullable=False)
    ends_state_bytes = at_least_zero(nullable=False)


class MemoryConstants(Sourced):
    """The few constants of the memory model, by name."""

    key = text(key=True)
    value = at_least_zero(nullable=False)
    unit = text()
