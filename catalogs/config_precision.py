"""Precision that a checkpoint declares in the ``quantization_config`` of its ``config.json``."""

from __future__ import annotations

from catalogs.config_families import Config, first_of


def quantised_precision(config: Config) -> str | None:
    """Name the precision that a ``quantization_config`` declares; None when it is not one kitout knows."""
    method = str(config.get("quant_method", "")).lower()
    algorithm = str(first_of(config, "quant_algo", "fmt", default="")).lower()
    if method == "mxfp4":
        return "mxfp4"
    if "nvfp4" in algorithm or method == "modelopt_fp4":
        return "nvfp4"
    if method == "fp8" or "fp8" in algorithm:
        return "fp8-block" if config.get("weight_block_size") else "fp8"
    if method in ("awq", "gptq"):
        return {4: f"{method}-w4", 8: "int8"}.get(int(config.get("bits") or config.get("w_bit") or 4))
    if method == "bitsandbytes":
        return "nf4" if config.get("load_in_4bit") or config.get("_load_in_4bit") else "int8"
    if method == "compressed-tensors":
        return _compressed_precision(config)
    return None


def _compressed_precision(config: Config) -> str | None:
    groups = config.get("config_groups")
    if not isinstance(groups, dict) or not groups:
        return None
    group = next(iter(groups.values()))
    weights = group.get("weights") if isinstance(group, dict) else None
    if not isinstance(weights, dict):
        return None
    bits, kind = weights.get("num_bits"), weights.get("type")
    if kind == "float":
        return {8: "fp8", 4: "nvfp4"}.get(int(bits or 0))
    if bits == 4:
        only_experts = any("self_attn" in str(name) for name in config.get("ignore", []))
        return "int4-experts" if only_experts else "w4a16-g128"
    return "int8" if bits == 8 else None
