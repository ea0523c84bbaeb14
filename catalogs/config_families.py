"""Families of decoders by the ``model_type`` of their ``config.json``: which are known, and why others are refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Config = Mapping[str, Any]

#: Families with gated feed-forward blocks and separate query, key, value, output projections.
GATED = frozenset(
    [
        "llama",
        "mistral",
        "mixtral",
        "ministral",
        "qwen2",
        "qwen2_moe",
        "qwen3",
        "qwen3_moe",
        "qwen3_next",
        "qwen3_5",
        "qwen3_5_moe",
        "gemma",
        "gemma2",
        "gemma3",
        "gemma4",
        "deepseek",
        "deepseek_v2",
        "deepseek_v3",
        "gpt_oss",
        "phi3",
        "phimoe",
        "cohere",
        "cohere2",
        "granite",
        "granitemoe",
        "glm",
        "glm4",
        "glm4_moe",
        "minimax",
        "minimax_m2",
        "llama4",
        "mimo",
        "mimo_v2",
        "olmo2",
        "internlm2",
        "internlm3",
        "baichuan",
        "exaone",
        "seed_oss",
        "stablelm",
        "hunyuan",
        "smollm3",
        "ernie4_5",
        "ernie4_5_moe",
        "dbrx",
        "grok",
    ]
)
UNGATED = frozenset(
    [
        "gpt2",
        "gptj",
        "gpt_neox",
        "bloom",
        "opt",
        "mpt",
        "falcon",
        "phi",
        "starcoder2",
        "gpt_bigcode",
        "nemotron",
        "nemotron_h",
        "gpt_neo",
    ]
)
#: model_type as published -> family of the models table.
MODEL_TYPES: dict[str, str] = {
    **{name: name for name in GATED | UNGATED},
    "yi": "llama",
    "aquila": "llama",
    "kimi_k2": "deepseek_v3",
    "kimi_k25": "deepseek_v3",
    "kimi_vl": "deepseek_v3",
    "deepseek_v32": "deepseek_v3",
    "glm_moe_dsa": "deepseek_v3",
    "glm4_moe_lite": "deepseek_v3",
    "chatglm": "glm4",
    "qwen2_vl": "qwen2",
    "qwen2_5_vl": "qwen2",
    "qwen2_vl_text": "qwen2",
    "qwen2_5_vl_text": "qwen2",
    "qwen3_vl": "qwen3",
    "qwen3_vl_text": "qwen3",
    "qwen3_vl_moe": "qwen3_moe",
    "qwen3_vl_moe_text": "qwen3_moe",
    "qwen3_omni_moe": "qwen3_moe",
    "qwen3_omni_moe_text": "qwen3_moe",
    "qwen3_5_text": "qwen3_5",
    "qwen3_5_moe_text": "qwen3_5_moe",
    "gemma3_text": "gemma3",
    "gemma4_text": "gemma4",
    "llama4_text": "llama4",
    "mistral3": "mistral",
    "ministral3": "mistral",
    "phi4": "phi3",
    "phi3small": "phi3",
    "refinedweb": "falcon",
    "refinedwebmodel": "falcon",
    "minimax_text_01": "minimax",
    "mimo_v2_flash": "mimo_v2",
    "hunyuan_v1_moe": "hunyuan",
    "hunyuan_v1_dense": "hunyuan",
    "grok-1": "grok",
}
#: Why well-known types are not read.
REFUSED: dict[str, str] = {
    "t5": "encoder-decoder: its memory does not follow the decoder formulas",
    "mt5": "encoder-decoder: its memory does not follow the decoder formulas",
    "umt5": "encoder-decoder: its memory does not follow the decoder formulas",
    "bart": "encoder-decoder: its memory does not follow the decoder formulas",
    "whisper": "speech encoder-decoder, not a language-model decoder",
    "bert": "encoder without a KV cache",
    "roberta": "encoder without a KV cache",
    "xlm-roberta": "encoder without a KV cache",
    "mamba": "state-space model without attention",
    "mamba2": "state-space model without attention",
    "rwkv": "recurrent model without attention",
    "clip": "image-text encoder, not a decoder",
}


class ConfigError(Exception):
    """A ``config.json`` that cannot be read as a decoder; the message says where and why."""


def first_of(config: Config, *names: str, default: Any = None) -> Any:
    """Give the first value that is there under one of several keys."""
    for name in names:
        value = config.get(name)
        if value is not None:
            return value
    return default


def text_part(config: Config) -> tuple[Config, Config | None]:
    """Give the decoder's own config and the vision (or audio) config beside it."""
    for key in ("text_config", "language_config", "llm_config"):
        inner = config.get(key)
        if isinstance(inner, dict):
            merged = {**{k: v for k, v in config.items() if not isinstance(v, dict)}, **inner}
            return merged, config.get("vision_config")
    thinker = config.get("thinker_config")
    if isinstance(thinker, dict):
        return text_part({**thinker, "model_type": config.get("model_type", "")})
    return config, config.get("vision_config")


def family_of(config: Config, where: str) -> str:
    """Give the family of a decoder; raise `ConfigError` for one that is not known."""
    text, _ = text_part(config)
    for source in (text, config):
        kind = str(source.get("model_type", "")).lower()
        if kind in MODEL_TYPES:
            return MODEL_TYPES[kind]
    kind = str(config.get("model_type") or "").lower()
    if kind in REFUSED:
        raise ConfigError(f"{where}: model_type {kind!r} is refused: {REFUSED[kind]}")
    if config.get("is_encoder_decoder"):
        raise ConfigError(f"{where}: model_type {kind!r} is refused: {REFUSED['t5']}")
    if not kind:
        raise ConfigError(f"{where}: no model_type; this is not a model's config.json")
    known = ", ".join(sorted(GATED | UNGATED))
    raise ConfigError(f"{where}: model_type {kind!r} is not a decoder family kitout knows (known: {known})")
