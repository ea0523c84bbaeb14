"""What a model needs on each accelerator: memory alone, no prices, no solver. Numbers of `kitout size`."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from catalogs.catalog import Catalog
from catalogs.errors import UnknownName
from catalogs.models import ModelRow, models_frame, resolve_model
from catalogs.names import match_accelerators, suggest_accelerators
from solver.features.memory import REASON_HEADROOM, REASON_KV, REASON_WEIGHTS, with_serving_memory
from solver.features.memory_tables import MemoryTables
from solver.features.memory_training import REASON_ACTIVATIONS, REASON_STATES, with_training_memory
from solver.size_rates import RATES, Requests, with_rates

#: (TP, PP) tried for serving, fewest cards first; beyond a node of 8 whole pipeline stages are added.
SERVING_SPLITS = ((1, 1), (2, 1), (4, 1), (8, 1), (8, 2), (8, 4), (8, 8))
#: Cards tried for training, all of them one ZeRO-3 (FSDP) group.
TRAINING_CARDS = tuple(2**power for power in range(11))
#: Longest request [tokens] where neither it nor input and output lengths are given.
DEFAULT_CONTEXT = 8192
#: Reasons that more memory would mend; any other refuses the card whatever its size.
SHORTAGES = (REASON_HEADROOM, REASON_KV, REASON_WEIGHTS, REASON_ACTIVATIONS, REASON_STATES)


@dataclass(frozen=True)
class Serving:
    """How a model is served: `context` [tokens], `concurrency` [requests]; `tp` None: what it takes."""

    precision: str = "bf16"
    kv_precision: str = "bf16"
    engine: str = "vllm"
    context: int = 8192
    concurrency: float = 1.0
    tp: int | None = None
    pp: int | None = None
    requests: Requests | None = None


@dataclass(frozen=True)
class Training:
    """How a model is trained: `sequence` [tokens], `micro_batch` [sequences]; `cards` None: what it takes."""

    method: str
    optimizer: str = "adamw"
    sequence: int = 4096
    micro_batch: int = 1
    checkpointing: str = "full"
    lora_rank: int = 16
    cards: int | None = None


def size_model(catalog: Catalog, model: str, gpus: Sequence[str], asked: Mapping[str, Any]) -> tuple[str, pl.DataFrame]:
    """Size a model for what was asked: trained where `asked` names a method, else served.

    Parameters
    ----------
    model
        Catalogue name or path of a ``config.json``.
    gpus
        Names of accelerators; none or ``all`` is every one.
    asked
        Values for the fields of `Serving` and `Training`; what is not a field there is left aside.

    Returns
    -------
    (title, frame)
        What was asked in a line, and the sizes.

    Raises
    ------
    UnknownName
        For a model, accelerator, engine, precision or optimiser that the catalogue does not hold.
    """
    row = resolve_model(catalog, model)
    names = [match for label in gpus for match in _matched(catalog, label)] if gpus and "all" not in gpus else None
    if asked["method"] is not None:
        _known(asked["optimizer"], catalog.optimisers["optimizer"], "optimizer")
        training = Training(
            method=asked["method"],
            optimizer=asked["optimizer"],
            sequence=asked["context"] or DEFAULT_CONTEXT,
            micro_batch=asked["micro_batch"],
            checkpointing=asked["checkpointing"],
            lora_rank=asked["lora_rank"],
            cards=asked["cards"],
        )
        words = [training.method, training.optimizer, f"sequence {training.sequence:,}"]
        words += [f"{training.micro_batch} per GPU", f"checkpointing {training.checkpointing}"]
        return f"{_label(row)} · {', '.join(words)}", size_training(catalog, row, names, training)
    _known(asked["engine"], catalog.engines["engine"], "engine")
    _known(asked["precision"], catalog.quantisation["precision"], "precision")
    _known(asked["kv_precision"], catalog.kv_precisions["kv_precision"], "KV precision")
    requests = Requests.of(asked)
    serving = Serving(
        precision=asked["precision"],
        kv_precision=asked["kv_precision"],
        engine=asked["engine"],
        context=asked["context"] or (DEFAULT_CONTEXT if requests is None else requests.isl + requests.osl),
        concurrency=asked["concurrency"],
        tp=asked["tp"],
        pp=asked["pp"],
        requests=requests,
    )
    said = f"{serving.engine}, {serving.precision}, KV {serving.kv_precision}, context {serving.context:,}"
    said += f", {serving.concurrency:g} in flight" if requests is None else f"; {requests.words}"
    return f"{_label(row)} · {said}", size_serving(catalog, row, names, serving)


def _label(row: ModelRow) -> str:
    """Name of a model, starred where its architecture is made up."""
    return f"{row.label} *" if row.stand_in else row.label


def _matched(catalog: Catalog, label: str) -> tuple[str, ...]:
    found = match_accelerators(catalog, label)
    if not found:
        raise UnknownName(label, "accelerator", suggest_accelerators(catalog, label))
    return found


def _known(name: str, column: pl.Series, kind: str) -> None:
    known = column.unique().sort().to_list()
    if name not in known:
        raise UnknownName(name, kind, difflib.get_close_matches(name, known, n=3), f"(one of {', '.join(known)})")


def size_serving(catalog: Catalog, model: ModelRow, accelerators: Sequence[str] | None, asked: Serving) -> pl.DataFrame:
    """Size a served model on each accelerator.

    Parameters
    ----------
    accelerators
        Catalogue names; None: every one whose memory is known.

    Returns
    -------
    pl.DataFrame
        One row per accelerator: `verdict` (fits | short | refused), `gpus`, `tp`, `pp` of the smallest split
        that fits (where none does, of the one least short), `weights_gib`, `overhead_gib`, `kv_pool_gib`,
        `usable_gib`, `slack_gib` (negative: short by so much) per card, `kv_tokens`, `max_concurrency` of the
        replica, `reason`; where requests are given, the rates of `solver.size_rates` too, and the split is the smallest
        that serves them.
    """
    splits = [(tp, pp) for tp, pp in SERVING_SPLITS if asked.tp is None and (asked.pp is None or pp == asked.pp)]
    if asked.tp is not None:
        splits = [(asked.tp, asked.pp or 1)]
    config = pl.DataFrame(splits, schema={"tp": pl.Int64, "pp": pl.Int64}, orient="row").with_columns(
        gpus=pl.col("tp") * pl.col("pp"),
        precision=pl.lit(asked.precision),
        kv_precision=pl.lit(asked.kv_precision),
        engine=pl.lit(asked.engine),
        context_tokens=pl.lit(asked.context, pl.Int64),
        min_concurrency=pl.lit(float(asked.concurrency)),
    )
    rows = with_serving_memory(_rows(catalog, model, accelerators, config), MemoryTables.of(catalog))
    more: list[str] = []
    if asked.requests is not None:
        rows = with_rates(rows, catalog, asked.requests)
        more = [*RATES, *(["replicas", "all_gpus"] if asked.requests.rate is not None else [])]
    return _smallest(rows).select(
        "accelerator",
        *more,
        verdict="verdict",
        gpus="gpus",
        tp="tp",
        pp="pp",
        weights_gib="weights_gib_per_gpu",
        overhead_gib="overhead_gib_per_gpu",
        kv_pool_gib="kv_pool_gib_per_gpu",
        usable_gib="usable_gib_per_gpu",
        slack_gib="memory_slack_gib",
        kv_bytes_per_token="kv_bytes_per_token_per_gpu",
        kv_tokens="kv_tokens",
        max_concurrency="max_concurrency",
        reason="memory_reason",
    )


def size_training(
    catalog: Catalog, model: ModelRow, accelerators: Sequence[str] | None, asked: Training
) -> pl.DataFrame:
    """Size a training or fine-tuning run on each accelerator; sharded over the cards as ZeRO-3 (FSDP) does.

    Returns
    -------
    pl.DataFrame
        One row per accelerator: `verdict` (fits | short | refused), `gpus`, `states_gib`, `activations_gib`,
        `peak_gib`, `usable_gib`, `slack_gib` (negative: short by so much) per card, `reason`.
    """
    cards = TRAINING_CARDS if asked.cards is None else (asked.cards,)
    config = pl.DataFrame({"gpus": cards}, schema={"gpus": pl.Int64}).with_columns(
        dp=pl.col("gpus"),
        tp=pl.lit(1, pl.Int64),
        pp=pl.lit(1, pl.Int64),
        zero_stage=pl.when(pl.col("gpus") > 1).then(3).otherwise(0).cast(pl.Int64),
        method=pl.lit(asked.method),
        optimizer=pl.lit(asked.optimizer),
        sequence=pl.lit(asked.sequence, pl.Int64),
        micro_batch=pl.lit(asked.micro_batch, pl.Int64),
        checkpointing=pl.lit(asked.checkpointing),
        lora_rank=pl.lit(asked.lora_rank, pl.Int64),
    )
    rows = with_training_memory(_rows(catalog, model, accelerators, config), MemoryTables.of(catalog))
    return _smallest(rows).select(
        "accelerator",
        verdict="verdict",
        gpus="gpus",
        states_gib="training_state_gib_per_gpu",
        activations_gib="training_activation_gib_per_gpu",
        peak_gib="training_gib_per_gpu",
        usable_gib="usable_gib_per_gpu",
        slack_gib="memory_slack_gib",
        reason="memory_reason",
    )


def _rows(catalog: Catalog, model: ModelRow, accelerators: Sequence[str] | None, config: pl.DataFrame) -> pl.DataFrame:
    """Every accelerator with every way to split the model."""
    cards = catalog.accelerators.filter(pl.col("memory_gib").is_not_null())
    if accelerators is not None:
        cards = catalog.accelerators.filter(pl.col("accelerator").is_in(list(accelerators)))
    cards = cards.drop("source", "as_of", "confidence", "notes")
    return models_frame(catalog, [model]).join(cards, how="cross", suffix="_card").join(config, how="cross")


def _smallest(rows: pl.DataFrame) -> pl.DataFrame:
    """Per accelerator the row with the fewest cards that fits (and serves, where rates are asked), else the least short."""
    short = pl.col("memory_reason").is_in(list(SHORTAGES))
    verdict = pl.when("fits_memory").then(pl.lit("fits")).when(short).then(pl.lit("short")).otherwise(pl.lit("refused"))
    served = [pl.col("rate_req_s").is_not_null()] if "rate_req_s" in rows.columns else []
    order = [
        *served,
        "fits_memory",
        pl.when("fits_memory").then(-pl.col("gpus")).otherwise(pl.col("memory_slack_gib")),
    ]
    best = rows.sort(order, descending=True, nulls_last=True).group_by("accelerator", maintain_order=True).first()
    return best.with_columns(verdict=verdict).sort(
        pl.col("verdict").replace_strict({"fits": 0, "short": 1, "refused": 2}, return_dtype=pl.Int8),
        pl.when("fits_memory").then("gpus"),
        "memory_slack_gib",
        "accelerator",
        descending=[False, False, True, False],
        nulls_last=True,
    )
