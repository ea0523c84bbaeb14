"""Read the architecture of a decoder from a Hugging Face ``config.json``.

Every family keeps the same few facts under slightly different keys; this module turns them into the columns of the
models table. Families it does not know are refused with the reason, never guessed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from catalogs.config_families import GATED, UNGATED, Config, family_of, first_of, text_part
from catalogs.config_families import ConfigError as ConfigError
from catalogs.config_precision import quantised_precision as quantised_precision

ROTARY_TABLES_LONGER = {"qwen2_vl": 4, "qwen2_5_vl": 4, "qwen3_vl": 4, "qwen3_vl_moe": 4, "qwen3_omni_moe": 4}
SSM_PATTERN = {"M": "state", "E": "experts", "*": "attention", "-": "mlp"}


def load_json(path: Path) -> dict[str, Any]:
    """Read a JSON object from a file; raise `ConfigError` with the place of the fault."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror or error})") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not valid JSON ({error})") from None
    if not isinstance(value, dict):
        raise ConfigError(f"{path}: expected a JSON object")
    return value


class _Reader:
    """Collects the columns of one model; remembers what is missing, to report all of it at once."""

    def __init__(self, config: Config, where: str) -> None:
        self.whole = config
        self.where = where
        self.text, self.vision = text_part(config)
        self.kind = str(config.get("model_type", "")).lower()
        self.family = family_of(config, where)
        self.missing: list[str] = []
        self.out: dict[str, Any] = {"family": self.family}

    def need(self, column: str, *names: str, default: Any = None) -> int:
        value = first_of(self.text, *names, default=default)
        if isinstance(value, list):
            value = value[0] if value else None
        if not isinstance(value, int | float) or isinstance(value, bool) or value <= 0:
            self.missing.append(names[0])
            return 1
        self.out[column] = int(value)
        return int(value)

    def maybe(self, column: str, *names: str) -> int | None:
        value = first_of(self.text, *names)
        if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
            self.out[column] = int(value)
            return int(value)
        return None

    # --- parts -------------------------------------------------------------------------------------------------

    def basics(self) -> None:
        layers = self.need("layers", "num_hidden_layers", "n_layer", "n_layers", "num_layers")
        hidden = self.need("hidden", "hidden_size", "n_embd", "d_model")
        heads = self.need("heads", "num_attention_heads", "n_head", "n_heads")
        self.need("vocab", "vocab_size", "padded_vocab_size")
        self.need(
            "max_context", "max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "max_sequence_length",
            default=2048,
        )  # fmt: skip
        self.out["kv_heads"] = self.kv_heads(heads)
        head_dim = first_of(self.text, "head_dim", "kv_channels", "attention_head_dim")
        self.out["head_dim"] = int(head_dim) if head_dim else hidden // heads
        self.feed_forward(hidden)
        self.out["ffn_matrices"] = 3 if self.family in GATED else 2
        self.layers = layers

    def kv_heads(self, heads: int) -> int:
        attention = self.text.get("attn_config")
        nested = attention.get("kv_n_heads") if isinstance(attention, dict) else None
        if self.family == "falcon":
            if self.text.get("new_decoder_architecture"):
                return int(first_of(self.text, "num_kv_heads", "n_head_kv", default=heads))
            return 1 if self.text.get("multi_query", True) else heads
        if self.family == "gpt_bigcode":
            return 1 if self.text.get("multi_query", True) else heads
        if self.kind == "chatglm" and self.text.get("multi_query_attention"):
            return int(self.text.get("multi_query_group_num", heads))
        own = first_of(self.text, "num_key_value_heads", "num_kv_heads", "n_head_kv", default=nested)
        return int(own) if own else heads

    def feed_forward(self, hidden: int) -> None:
        if self.kind == "llama4" or self.family == "llama4":
            width = first_of(self.text, "intermediate_size_mlp", "intermediate_size")
        else:
            width = first_of(self.text, "intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size", "d_ff")
        nested = self.text.get("ffn_config")
        if width is None and isinstance(nested, dict):
            width = nested.get("ffn_hidden_size")
        if width is None and self.family == "mpt":
            width = int(self.text.get("expansion_ratio", 4)) * hidden
        if width is None and self.family in UNGATED:
            width = 4 * hidden
        if isinstance(width, list):
            width = width[0]
        if width is not None:
            self.out["intermediate"] = int(width)

    def experts(self) -> None:
        nested = self.text.get("ffn_config")
        inner: Config = nested if isinstance(nested, dict) else {}
        names = ("n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts", "num_routed_experts")
        count = first_of({**inner, **self.text}, *names)
        if isinstance(count, list):
            count = count[0]
        if not count or int(count) < 2 or self.text.get("enable_moe_block") is False:
            if "intermediate" not in self.out:
                self.missing.append("intermediate_size")
            return
        self.out["experts"] = int(count)
        chosen = first_of(
            {**inner, **self.text}, "num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_top_k", "moe_k",
            "top_k_experts", "experts_per_token",
        )  # fmt: skip
        if isinstance(chosen, list):
            chosen = chosen[0]
        if not chosen:
            self.missing.append("num_experts_per_tok")
            return
        self.out["experts_per_token"] = int(chosen)
        width = first_of(self.text, "moe_intermediate_size", "expert_intermediate_size")
        if isinstance(width, list):
            width = width[0]
        if self.family == "llama4":
            width = self.text.get("intermediate_size")
        self.out["moe_intermediate"] = int(width or self.out.get("intermediate", 0)) or None
        self.shared_experts()
        self.dense_layers()

    def shared_experts(self) -> None:
        own = first_of(self.text, "shared_expert_intermediate_size", "moe_shared_expert_intermediate_size")
        count = first_of(
            self.text, "n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts"
        )
        if isinstance(count, list):
            count = count[0]
        if self.family == "llama4":
            count, own = 1, self.text.get("intermediate_size")
        if self.family == "gemma4":
            # The dense block beside the experts works on every token, as a shared expert does.
            count, own = 1, self.text.get("intermediate_size")
        if own:
            self.out["shared_experts"], self.out["shared_intermediate"] = int(count or 1), int(own)
        elif count:
            self.out["shared_experts"] = int(count)
            self.out["shared_intermediate"] = int(count) * int(self.out["moe_intermediate"] or 0)

    def dense_layers(self) -> None:
        first = first_of(self.text, "first_k_dense_replace", "moe_layer_start_index")
        step = first_of(self.text, "interleave_moe_layer_step", "decoder_sparse_step", "moe_layer_freq", default=1)
        listed = self.text.get("mlp_only_layers")
        if isinstance(step, list):
            self.out["dense_layers"] = sum(1 for kind in step if not kind)
        elif self.family == "llama4" and isinstance(self.text.get("moe_layers"), list):
            self.out["dense_layers"] = self.layers - len(self.text["moe_layers"])
        elif isinstance(step, int) and step > 1:
            self.out["dense_layers"] = self.layers - self.layers // step
        elif isinstance(listed, list) and listed:
            self.out["dense_layers"] = len(listed)
        elif first:
            self.out["dense_layers"] = int(first)

    def latent_attention(self) -> None:
        if self.family not in ("deepseek_v2", "deepseek_v3") or not self.text.get("kv_lora_rank"):
            return
        self.need("mla_kv_lora_rank", "kv_lora_rank")
        self.maybe("mla_q_lora_rank", "q_lora_rank")
        rope = self.need("mla_rope_dim", "qk_rope_head_dim")
        nope = self.need("mla_nope_dim", "qk_nope_head_dim")
        self.need("mla_v_dim", "v_head_dim")
        self.out["head_dim"] = rope + nope
        if index := self.text.get("index_head_dim"):
            self.out["mla_index_bytes"] = int(index) + 4

    def layer_kinds(self) -> None:
        """Count full, sliding and linear layers from layer_types, a pattern or an interval."""
        window = first_of(self.text, "sliding_window", "sliding_window_size")
        if self.text.get("use_sliding_window") is False:
            window = None
        kinds = self._listed_kinds()
        if kinds is None:
            kinds = self._patterned_kinds(window)
        full = kinds.count("full")
        sliding = kinds.count("sliding")
        linear = kinds.count("linear")
        if sliding and window:
            self.out.update(sliding_window=int(window), sliding_layers=sliding, full_layers=full)
        elif sliding:
            full += sliding
        if linear:
            self.out.update(linear_layers=linear, full_layers=full)

    def _listed_kinds(self) -> list[str] | None:
        listed = self.text.get("layer_types")
        if isinstance(listed, list) and listed:
            names = {"full_attention": "full", "sliding_attention": "sliding", "linear_attention": "linear"}
            return [names.get(str(kind), "full") for kind in listed]
        flags = first_of(self.text, "hybrid_layer_pattern", "attn_type_list")
        if isinstance(flags, list) and flags:
            other = "linear" if self.family == "minimax" else "sliding"
            # MiMo marks sliding layers with 1, MiniMax marks softmax layers with 1.
            full_mark = 1 if self.family == "minimax" else 0
            return ["full" if mark == full_mark else other for mark in flags]
        return None

    def _patterned_kinds(self, window: Any) -> list[str]:
        interval = self.text.get("full_attention_interval")
        if interval and self.family in ("qwen3_next", "qwen3_5", "qwen3_5_moe"):
            return ["full" if (i + 1) % int(interval) == 0 else "linear" for i in range(self.layers)]
        pattern = first_of(self.text, "sliding_window_pattern", "_sliding_window_pattern")
        default = {"gemma2": 2, "gpt_oss": 2, "gemma3": 6, "cohere2": 4, "gemma4": 6}.get(self.family)
        step = int(pattern) if isinstance(pattern, int) else default
        if step and window:
            return ["full" if (i + 1) % step == 0 else "sliding" for i in range(self.layers)]
        if window and self.family in ("mistral", "mixtral", "phi3", "starcoder2", "phimoe"):
            return ["sliding"] * self.layers
        return ["full"] * self.layers

    def special_heads(self) -> None:
        """Heads that differ between kinds of layers, values narrower than keys, gated queries, linear heads."""
        self.maybe("sliding_kv_heads", "swa_num_key_value_heads")
        if self.family == "gemma4":
            self.maybe("full_kv_heads", "num_global_key_value_heads")
            self.maybe("full_head_dim", "global_head_dim")
        if self.family == "mimo_v2":
            self.maybe("v_head_dim", "v_head_dim")
        if self.family in ("qwen3_next", "qwen3_5", "qwen3_5_moe"):
            self.out["attention_gate"] = bool(self.text.get("attn_output_gate", True))
        self.maybe("linear_key_heads", "linear_num_key_heads", "n_groups")
        self.maybe("linear_value_heads", "linear_num_value_heads", "mamba_num_heads")
        self.maybe("linear_key_dim", "linear_key_head_dim", "ssm_state_size")
        self.maybe("linear_value_dim", "linear_value_head_dim", "mamba_head_dim")
        self.maybe("linear_kernel", "linear_conv_kernel_dim", "conv_kernel")
        if self.family == "minimax" and "linear_layers" in self.out:
            heads, width = self.out["heads"], self.out["head_dim"]
            self.out.update(linear_key_heads=heads, linear_value_heads=heads)
            self.out.update(linear_key_dim=width, linear_value_dim=width, linear_kernel=1)
        if "linear_layers" in self.out and "linear_value_heads" not in self.out:
            self.missing.append("linear_num_value_heads")

    def state_space_pattern(self) -> None:
        """Nemotron-H spells its layers out: M state, E experts, * attention, - feed-forward."""
        pattern = self.text.get("hybrid_override_pattern")
        if self.family != "nemotron_h":
            return
        if not isinstance(pattern, str) or set(pattern) - set(SSM_PATTERN):
            self.missing.append("hybrid_override_pattern")
            return
        experts = pattern.count("E")
        self.out.update(full_layers=pattern.count("*"), linear_layers=pattern.count("M"))
        self.out.update(dense_layers=len(pattern) - experts, mlp_layers=pattern.count("-"))

    def positions(self) -> None:
        factor = ROTARY_TABLES_LONGER.get(self.kind, 1)
        scaling = first_of(self.text, "rope_scaling", "rope_parameters", default={})
        kind = str(first_of(scaling, "rope_type", "type", default="")) if isinstance(scaling, dict) else ""
        context = self.out.get("max_context", 0)
        if kind == "linear":
            factor = int(float(scaling.get("factor", 1))) + (1 if self.family == "gemma3" else 0)
        if factor > 1:
            self.out["rope_positions"] = context * factor
        share = first_of(self.text, "partial_rotary_factor", "rotary_pct", "rotary_emb_fraction")
        if share is None and isinstance(scaling, dict):
            share = scaling.get("partial_rotary_factor")
        rotary = self.text.get("rotary_dim")
        if isinstance(rotary, int) and rotary > 0:
            self.out["rotary_dim"] = rotary
        elif isinstance(share, int | float) and 0 < share < 1:
            self.out["rotary_dim"] = max(1, int(self.out["head_dim"] * share))
        if self.family in ("gpt2", "gpt_bigcode", "opt", "gpt_neo"):
            self.out["learned_positions"] = context + (2 if self.family == "opt" else 0)

    def towers(self) -> None:
        """Estimate a vision tower from its own config: blocks of attention and feed-forward, and the projector."""
        vision = self.vision
        if not isinstance(vision, dict):
            return
        depth = first_of(vision, "num_hidden_layers", "depth", "vt_num_hidden_layers", "layers")
        width = first_of(vision, "hidden_size", "embed_dim", "vt_hidden_size", "width")
        if not depth or not width:
            return
        inner = first_of(vision, "intermediate_size", "vt_intermediate_size", default=4 * width)
        matrices = 3 if self.kind in ("qwen2_5_vl", "mistral3", "pixtral", "llama4_v") else 2
        merged = 4 if self.kind.startswith("qwen") or self.kind == "kimi_vl" else 1
        projector = (width * merged) ** 2 + width * merged * self.out["hidden"]
        blocks = depth * (4 * width * width + matrices * width * inner)
        self.out["vision_params_b"] = (blocks + projector) / 1e9

    def tied(self) -> None:
        default = self.family in ("gemma", "gemma2", "gemma3", "gemma4", "cohere", "cohere2", "gpt2", "bloom", "opt",
                                  "mpt", "gpt_bigcode", "falcon")  # fmt: skip
        own = first_of(self.text, "tie_word_embeddings", default=self.whole.get("tie_word_embeddings"))
        self.out["tie_embeddings"] = default if own is None else bool(own)

    def precision(self) -> None:
        quantised = first_of(self.whole, "quantization_config", default=self.text.get("quantization_config"))
        self.out["native_precision"] = quantised_precision(quantised) if isinstance(quantised, dict) else None

    def read(self) -> dict[str, Any]:
        self.basics()
        self.experts()
        self.latent_attention()
        self.layer_kinds()
        self.state_space_pattern()
        self.special_heads()
        self.positions()
        self.towers()
        self.tied()
        self.precision()
        if self.missing:
            names = ", ".join(dict.fromkeys(self.missing))
            raise ConfigError(f"{self.where}: config.json of family {self.family!r} lacks {names}")
        return self.out


def read_config(path: Path) -> dict[str, Any]:
    """Read the columns of one model from ``config.json`` (or a folder that holds one).

    Raises
    ------
    ConfigError
        The file is missing, is not JSON, is of an unknown family, or lacks keys (all of them named).
    """
    file = path / "config.json" if path.is_dir() else path
    return _Reader(load_json(file), str(path)).read()


def checkpoint_bytes(path: Path) -> float | None:
    """Give the true size of the checkpoint beside a ``config.json`` [B], from its safetensors index; None without."""
    folder = path if path.is_dir() else path.parent
    index = folder / "model.safetensors.index.json"
    if not index.is_file():
        return None
    metadata = load_json(index).get("metadata")
    size = metadata.get("total_size") if isinstance(metadata, dict) else None
    if not isinstance(size, int | float) or isinstance(size, bool) or size <= 0:
        raise ConfigError(f"{index}: metadata.total_size is missing or not a positive number")
    return float(size)
