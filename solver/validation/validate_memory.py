"""Predicted beside measured memory: the engine of `kitout validate memory`.

Reads the columns of a memory log (what serving engines said they had) or the memory rows of a training table, runs the
memory model on each row and judges it. Rows the model declines are listed with the reason, never dropped.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from catalogs.catalog import Catalog
from solver.features.memory import with_serving_memory
from solver.features.memory_tables import MemoryTables
from solver.features.memory_training import with_training_memory
from solver.validation.memory_cases import Case, Row, frame_of, is_training, number, serving_case
from solver.validation.training_cases import measured_gib, training_case

GIB = 2.0**30
#: A prediction lower than the measurement by more than this is an out-of-memory purchase.
UNDER = 0.15
POOL = "kv_pool_share_of_card"
SERVING_COLUMNS = frozenset({"case_id", "engine", "engine_version", "model", "weight_precision", "tp"})
TRAINING_COLUMNS = frozenset({"case_id", "kind", "model", "seq_len", "memory_gb_per_gpu"})

Record = dict[str, Any]


class ValidationError(Exception):
    """The file is not a table that this validation reads; the message names the columns it lacks."""


def read_rows(path: Path) -> list[dict[str, str]]:
    """Read the rows of a CSV; raise `ValidationError` when it is not of a known form."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            rows = [dict(row) for row in reader]
            columns = set(reader.fieldnames or ())
    except OSError as error:
        raise ValidationError(f"{path}: cannot be read ({error.strerror or error})") from None
    except UnicodeDecodeError:
        raise ValidationError(f"{path}: not a CSV in UTF-8") from None
    if not (columns >= SERVING_COLUMNS or columns >= TRAINING_COLUMNS):
        lacks = min((SERVING_COLUMNS - columns, TRAINING_COLUMNS - columns), key=len)
        raise ValidationError(f"{path}: columns {', '.join(sorted(lacks))} are missing (memory log or training table)")
    return rows


def _record(case: Case, quantity: str, measured: float, predicted: float | None, reason: str | None) -> Record:
    known = predicted is not None
    return {
        "case_id": case.case_id,
        "quantity": quantity,
        "measured": measured,
        "predicted": predicted,
        "reason": None if known else (case.refused or reason or "not predicted"),
        "group": case.group,
    }


# --- what a row says ---------------------------------------------------------------------------------------------------


def serving_measured(row: Row) -> dict[str, float]:
    """Give the measured quantities of a log line; the pool in GiB, to be set against the card.

    Engines of 2025 printed the tokens of hybrid-state models per layer group; the concurrency line beside it counts
    whole requests, so where both stand the larger capacity is the true one.
    """
    out: dict[str, float] = {}
    weights, pool = number(row, "weights_gib_per_gpu_reported"), number(row, "kv_gib_per_gpu_reported")
    tokens = number(row, "kv_tokens_reported")
    if weights is not None:
        out["weights_gib"] = weights
    if pool is not None and tokens:
        out["kv_bytes_per_token"] = pool * GIB / tokens
    if pool is not None:
        out[POOL] = pool
    return out


def _hybrid_tokens(case: Case, measured: dict[str, float]) -> dict[str, float]:
    """Use the concurrency line for models with recurrent state, whose token line counted one layer group only."""
    model, row = case.model, case.raw
    concurrency, length = number(row, "max_concurrency_reported"), number(row, "max_model_len")
    pool, tokens = number(row, "kv_gib_per_gpu_reported"), number(row, "kv_tokens_reported")
    if model is None or not model["linear_layers"] or not (concurrency and length and pool and tokens):
        return measured
    return {**measured, "kv_bytes_per_token": pool * GIB / max(tokens, concurrency * length)}


def _serving_predicted(line: Record) -> dict[str, float | None]:
    # A hybrid's state is charged to the tokens of the longest request, as its engine does.
    state = line["state_gib_per_request"] * GIB / line["context_tokens"] if line["linear_layers"] else 0.0
    pool = line["kv_pool_gib_per_gpu"]
    if str(line["engine"]).startswith("llama.cpp"):
        # This engine allocates the cache of the asked context, not what is left of the card.
        pool = line["kv_bytes_per_request_per_gpu"] / GIB
    return {
        "weights_gib": line["weights_gib_per_gpu"],
        "kv_bytes_per_token": line["kv_bytes_per_token_per_gpu"] + state,
        POOL: None if pool is None else max(pool, 0.0),
    }


def _serving_records(case: Case, line: Record | None) -> list[Record]:
    measured = _hybrid_tokens(case, serving_measured(case.raw))
    predicted = {} if line is None else _serving_predicted(line)
    card = None if line is None else line["usable_gib_per_gpu"]
    records = []
    for quantity, value in measured.items():
        guess = predicted.get(quantity)
        reason = None
        if quantity == POOL:
            stated = number(case.raw, "gpu_mem_gib") or card
            if stated is None:
                guess, reason = None, "the memory of the card is not known (measured stands in GiB)"
            else:
                value, guess = value / stated, None if guess is None else guess / stated
        records.append(_record(case, quantity, value, guess, reason))
    return records


# --- verdicts ----------------------------------------------------------------------------------------------------------


def _verdict(case: Case, line: Record | None) -> Record | None:
    said = (case.raw.get("verdict") or "").strip().lower()
    if said not in ("fits", "oom"):
        return None
    record: Record = {"case_id": case.case_id, "group": case.group, "measured": said, "predicted": None}
    if line is None or line["usable_gib_per_gpu"] is None:
        return {**record, "reason": case.refused or "the memory of the card is not known"}
    return {**record, "predicted": "fits" if line["fits_memory"] else "oom", "reason": line["memory_reason"]}


def _verdict_metrics(records: Sequence[Record]) -> Record:
    """Verdicts given (`n`), right ones, "fits" on rows that ran out of memory; `refused` rows got no verdict."""
    judged = [r for r in records if r["predicted"] is not None]
    right = sum(r["predicted"] == r["measured"] for r in judged)
    wrong_fits = sum(r["predicted"] == "fits" and r["measured"] == "oom" for r in judged)
    return {
        "n": len(judged),
        "refused": len(records) - len(judged),
        "right": right,
        "wrong_fits": wrong_fits,
        "right_share": right / len(judged) if judged else None,
        "wrong_share": 1.0 - right / len(judged) if judged else None,
    }


# --- metrics -----------------------------------------------------------------------------------------------------------


def metrics_of(records: Sequence[Record]) -> dict[str, Record]:
    """Give the error metrics per quantity.

    Relative error is predicted / measured - 1; the pool is judged by the difference of the shares of the card. `n`
    counts the rows that carry the quantity, declined ones included.
    """
    out: dict[str, Record] = {}
    for quantity in dict.fromkeys(record["quantity"] for record in records):
        of = [record for record in records if record["quantity"] == quantity]
        known = [r for r in of if r["predicted"] is not None]
        signed = pl.Series(
            [
                r["predicted"] - r["measured"] if quantity == POOL else r["predicted"] / r["measured"] - 1.0
                for r in known
                if quantity == POOL or r["measured"]
            ],
            dtype=pl.Float64,
        )
        off = signed.abs()
        out[quantity] = {
            "n": len(of),
            "refused": len(of) - len(known),
            "median_abs_rel": off.median(),
            "p90_abs_rel": off.quantile(0.9, interpolation="linear"),
            "mean_signed_rel": signed.mean(),
            "under_predicted_share": (signed < -UNDER).mean() if len(signed) else None,
        }
        if quantity == POOL:
            out[quantity] |= {
                "median_abs": off.median(),
                "p90_abs": off.quantile(0.9, interpolation="linear"),
            }
    return out


def _predict(catalog: Catalog, cases: Sequence[Case], training: bool) -> dict[int, Record]:
    accepted = [(i, case) for i, case in enumerate(cases) if case.refused is None]
    if not accepted:
        return {}
    frame = frame_of(catalog, [case for _, case in accepted])
    tables = MemoryTables.of(catalog)
    result = with_training_memory(frame, tables) if training else with_serving_memory(frame, tables)
    return {i: line for (i, _), line in zip(accepted, result.iter_rows(named=True), strict=True)}


def validate_memory_rows(catalog: Catalog, rows: Sequence[Row]) -> Record:
    """Judge the memory model on rows of a memory log or a training table.

    Returns
    -------
    ``{n, refused, metrics, verdicts, groups, rows, verdict_rows}`` as `kitout validate memory --format json` prints it:
    `metrics` per quantity (`weights_gib`, `kv_bytes_per_token`, `kv_pool_share_of_card`, `training_gib`), `groups` the
    same per engine or framework, `rows` one entry per case and quantity, with the reason where the model declines.
    """
    records: list[Record] = []
    verdicts: list[Record] = []
    trained = [row for row in rows if "gpu_count" in row or is_training(row)]
    served = [row for row in rows if not ("gpu_count" in row or is_training(row))]
    cases = [serving_case(catalog, row) for row in served]
    lines = _predict(catalog, cases, training=False)
    for i, case in enumerate(cases):
        records += _serving_records(case, lines.get(i))
        verdicts += [v for v in [_verdict(case, lines.get(i))] if v is not None]
    wanted = [row for row in trained if measured_gib(row) is not None or row.get("verdict")]
    cases = [training_case(catalog, row) for row in wanted]
    lines = _predict(catalog, cases, training=True)
    for i, case in enumerate(cases):
        line, value = lines.get(i), measured_gib(case.raw)
        if value is not None:
            guess = None if line is None else line["training_gib_per_gpu"]
            records.append(_record(case, "training_gib", value, guess, None))
        verdicts += [v for v in [_verdict(case, line)] if v is not None]
    return _summary(records, verdicts)


def _summary(records: list[Record], verdicts: list[Record]) -> Record:
    by_group: dict[str, list[Record]] = defaultdict(list)
    verdicts_by_group: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        by_group[record["group"]].append(record)
    for record in verdicts:
        verdicts_by_group[record["group"]].append(record)
    return {
        "n": len(records),
        "refused": sum(record["predicted"] is None for record in records),
        "metrics": metrics_of(records),
        "verdicts": _verdict_metrics(verdicts),
        "groups": {
            group: {
                "metrics": metrics_of(by_group[group]),
                "verdicts": _verdict_metrics(verdicts_by_group[group]),
            }
            for group in sorted({*by_group, *verdicts_by_group})
        },
        "rows": [{k: v for k, v in r.items() if k != "group"} for r in records],
        "verdict_rows": [{k: v for k, v in r.items() if k != "group"} for r in verdicts],
    }


def validate_memory(catalog: Catalog, path: Path) -> Record:
    """Judge the memory model on a CSV file; see `validate_memory_rows`.

    Raises
    ------
    ValidationError
        The file cannot be read or lacks columns.
    """
    return validate_memory_rows(catalog, read_rows(path))
