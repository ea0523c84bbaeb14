"""Read memory rows of training and fine-tuning runs: model, sharding, batch and checkpointing behind each figure.

Published tables state these in free text beside the columns. A row that does not state its micro-batch, its real
tokens or its optimiser cannot be judged and is declined with that reason; nothing is taken from the measured figure.
"""

from __future__ import annotations

import re
from typing import Any

from catalogs.catalog import Catalog
from catalogs.errors import UnknownName
from catalogs.models import ModelRow, model_columns, resolve_model
from solver.validation.memory_cases import Case, Row, card_columns, number

GB_PER_GIB = 2.0**30 / 1e9
METHODS = {"pretrain": "pretrain", "full_ft": "full", "full": "full", "lora": "lora", "qlora": "qlora"}
MICRO_BATCH = (
    r"micro[- ]?batch(?: size)?\s*=?\s*(\d+)",
    r"\bbatch\s*=?\s*(\d+)\s*/\s*gpu",
    r"\bbatch\s*=?\s*(\d+)\s*per gpu",
    r"\blocal batch\s*=?\s*(\d+)",
    r"(?<!global )\bbatch\s*=?\s*(\d+)",
)
#: Frameworks by what they do without being told.
FP32_MASTER_FSDP = ("torchtitan",)
NO_SEQUENCE_PARALLEL = ("megatron-deepspeed",)
BF16_ADAM = ("torchtune", "litgpt")
#: Savings that torchtune adds one upon another, in this order.
LADDER = ("packed", "compile", "chunked ce", "activation checkpointing", "optimizer in backward",
          "activation offload", "8-bit adamw")  # fmt: skip
ENCODER_DECODER = re.compile(r"^(m?t5|t0|mt0|flan)", re.IGNORECASE)


def _stated(text: str, *patterns: str) -> int | None:
    for pattern in patterns:
        if found := re.search(pattern, text):
            return int(found[1])
    return None


def _has(text: str, *words: str) -> bool:
    return any(word in text for word in words)


def measured_gib(row: Row) -> float | None:
    """Give the memory figure in GiB: decimal GB unless the source says GiB; log lines state it in the detail."""
    text = f"{row.get('note') or ''} {row.get('detail') or ''}".lower()
    value = number(row, "memory_gb_per_gpu")
    binary = "gib" in text
    if value is None and (found := re.search(r"peak\s+([\d.]+)\s*(gib|gb)", text)):
        value, binary = float(found[1]), found[2] == "gib"
    if value is None:
        return None
    return value if binary else value / GB_PER_GIB


# --- the model ---------------------------------------------------------------------------------------------------------


def _from_shape(catalog: Catalog, row: Row, name: str) -> ModelRow | None:
    """Make a GPT of the layers, width and size that the row itself states (runs without a published config)."""
    hidden, params = number(row, "hidden"), number(row, "params_total_b")
    if hidden is None or params is None or not name.lower().startswith(("gpt", "mt-nlg", "mpt")):
        return None
    words = re.search(r"(\d+)k vocab", name)
    vocab = int(words[1]) * 1000 if words else 51_200
    layers = number(row, "layers") or round((params * 1e9 - vocab * hidden) / (12 * hidden * hidden))
    values: dict[str, Any] = {
        "model": name, "family": "gpt2", "layers": int(layers), "hidden": int(hidden), "intermediate": int(4 * hidden),
        "heads": int(hidden // 128), "kv_heads": int(hidden // 128), "head_dim": 128, "vocab": vocab,
        "params_total_b": params, "params_active_b": params, "ffn_matrices": 2, "learned_positions": 2048,
        "max_context": 2048, "tie_embeddings": True,
    }  # fmt: skip
    return ModelRow(name, {column: values.get(column) for column in model_columns(catalog)})


def _model(catalog: Catalog, row: Row) -> ModelRow:
    name = row.get("model") or ""
    if ENCODER_DECODER.match(name):
        raise UnknownName(name, "model", (), "(encoder-decoder models are outside the decoder formulas)")
    try:
        return resolve_model(catalog, name)
    except UnknownName:
        made = _from_shape(catalog, row, name)
        if made is None:
            raise
        return made


# --- the run -----------------------------------------------------------------------------------------------------------


def _ladder(text: str) -> set[str]:
    """Give the torchtune savings in force: '+X' stands for X and all before it."""
    if "all savings" in text:
        return set(LADDER)
    steps = [i for i, step in enumerate(LADDER) if f"+{step}" in text or f"+ {step}" in text]
    return set(LADDER[: max(steps) + 1]) if steps else set()


def _checkpointing(text: str, ladder: set[str], framework: str, several: bool) -> str:
    if _has(text, "no activation checkpointing"):
        return "none"
    if _has(text, "selective a", "selective recompute"):
        return "selective"
    full = ("full activation checkpointing", "full ac", "gradient checkpointing", "full checkpointing",
            "checkpointing=yes", "full recompute")  # fmt: skip
    if _has(text, *full) or "activation checkpointing" in ladder:
        return "full"
    if "activation checkpointing" in text and not _has(text, "inferred", "without"):
        return "full"
    # LitGPT turns checkpointing on together with FSDP; LLaMA-Factory and torchtune's stock recipes always.
    if "litgpt" in framework:
        return "full" if several else "none"
    if _has(framework, "llama-factory", "unsloth"):
        return "full"
    if "torchtitan" in framework:
        return "selective"
    if "torchtune" in framework and "compile" in text and "seq 2048 packed" in text:
        return "full"
    return "none"


def _optimiser(row: Row, text: str, method: str, framework: str, ladder: set[str]) -> str | None:
    if method in ("lora", "qlora"):
        return "adamw"
    if _has(text, "memory-saving optimizer"):
        return None
    if "8-bit adamw" in ladder:
        return "adamw_8bit"
    if _has(text, "8-bit adam", "8bit adam") or "8-bit adam" in framework:
        return "adamw_8bit_master"
    if "torchtune" in framework and "pure bf16" not in text and "cpu offload" not in text:
        # Its stock single-card recipe pages 8-bit moments to the host as needed: no fixed bytes per parameter.
        return None
    if "litgpt" in framework and "adamw" not in text:
        # Its full fine-tuning recipes do not share one optimiser: the figures lie below any AdamW.
        return None
    if "pure bf16" in text or _has(framework, *BF16_ADAM):
        return "adamw_bf16"
    if _has(framework, *FP32_MASTER_FSDP):
        return "adamw"
    if (row.get("weight_precision") or row.get("precision") or "").startswith("fp32"):
        return "adamw_fp32"
    return "adamw"


def _sharding(row: Row, text: str, gpus: int, tp: int, pp: int) -> dict[str, int]:
    cp = _stated(text, r"\bcp\s*=\s*(\d+)") or 1
    dp = _stated(text, r"\bdp\s*=\s*(\d+)", r"\bfsdp\s*=\s*(\d+)") or max(1, gpus // (tp * pp * cp))
    zero = _stated(text, r"zero-?(\d)")
    if zero is None:
        zero = 3 if "fsdp" in text and "ddp" not in text else 0
    return {"tp": tp, "pp": pp, "dp": dp, "cp": cp, "zero_stage": zero}


def training_case(catalog: Catalog, row: Row) -> Case:
    """Read one row of a training table, or one training line of a memory log."""
    framework = (row.get("framework") or row.get("engine") or "not stated").lower()
    case = Case(row.get("case_id", ""), framework.split(" ")[0], row)
    text = " ".join((row.get(key) or "") for key in ("note", "detail", "dp_or_zero", "framework")).lower()
    try:
        case.model = _model(catalog, row)
    except UnknownName as error:
        case.refused = str(error)
        return case
    log = "gpu_count" not in row
    gpus = int(number(row, "tp" if log else "gpu_count") or 1)
    tp = 1 if log else int(number(row, "tp") or 1)
    pp = int(number(row, "pp") or 1)
    if log and gpus > 1 and "ddp" not in text:
        text += " fsdp"
    kind = (row.get("kind") or "").lower()
    method = METHODS.get(kind) or ("qlora" if "qlora" in text else "lora" if "lora" in text else "full")
    ladder = _ladder(text)
    sharding = _sharding(row, text, gpus, tp, pp)
    sequence = number(row, "seq_len") or number(row, "max_model_len")
    micro_batch = _stated(text, *MICRO_BATCH)
    if micro_batch and pp > 1 and "local batch" in text:
        # With pipeline stages the local batch is cut into as many micro-batches as there are stages.
        micro_batch = max(1, micro_batch // pp)
    if micro_batch is None and pp > 1 and "torchtitan" in framework and (total := number(row, "global_batch_tokens")):
        micro_batch = max(1, round(total / (sequence or 1) / sharding["dp"] / pp))
    optimiser = _optimiser(row, text, method, framework, ladder)
    faults = [
        (sequence is None, "the sequence length is not stated"),
        (micro_batch is None, "the micro-batch is not stated"),
        (
            _has(text, "unpacked baseline", "short samples"),
            "real tokens per step are not stated (short samples)",
        ),
        (optimiser is None, "the optimiser is not named"),
    ]
    if reasons := [reason for fault, reason in faults if fault]:
        case.refused = "; ".join(reasons)
        return case
    case.columns = {
        "method": method,
        "optimizer": optimiser,
        "precision": "bf16",
        "sequence": int(sequence or 0),
        "micro_batch": micro_batch,
        "lora_rank": _stated(text, r"lora r\s*=\s*(\d+)", r"rank\s*=?\s*(\d+)") or 16,
        "checkpointing": _checkpointing(text, ladder, framework, sharding["zero_stage"] == 3),
        "sequence_parallel": not _has(framework, *NO_SEQUENCE_PARALLEL),
        "fused_kernels": ("compile" in text and "no compile" not in text) or "compile" in ladder or "megatron" in framework,
        "chunked_loss": "chunked ce" in text or "chunked ce" in ladder or ("torchtune" in framework and "seq 2048 packed" in text),
        "optimizer_in_backward": "optimizer in backward" in ladder,
        "activation_offload": "activation offload" in ladder or "unsloth" in framework,
        "full_init": "litgpt" in framework,
        "offload": "all" if "cpu offload" in text else "none",
        **sharding,
        **card_columns(catalog, row.get("gpu") or "", number(row, "gpu_mem_gib")),
    }  # fmt: skip
    return case
