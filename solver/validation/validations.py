"""All validations behind `kitout validate KIND FILE`: which kinds there are, and one way to run them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from catalogs.catalog import Catalog
from solver.validation.validate_memory import ValidationError, validate_memory
from solver.validation.validate_speed import validate_inference, validate_power, validate_training

SPEED: Mapping[str, Callable[[pl.DataFrame, Catalog], dict[str, Any]]] = {
    "training": validate_training,
    "inference": validate_inference,
    "power": validate_power,
}
REQUIRED: Mapping[str, tuple[str, ...]] = {
    "training": ("case_id", "model", "gpu"),
    "inference": ("case_id", "model", "gpu", "engine"),
    "power": ("gpu", "workload", "power_cap_w", "relative_throughput", "avg_power_w", "note"),
}
"""Columns without which no row of a kind could be judged."""


def run_validation(kind: str, catalog: Catalog, path: Path) -> dict[str, Any]:
    """Set predictions of one kind (memory, training, inference, power) beside the measurements in a CSV.

    Returns
    -------
    dict
        ``{n, refused, metrics, groups, rows, ...}``; memory has `verdicts` too.

    Raises
    ------
    ValidationError
        For a file that cannot be read or lacks columns.
    """
    if kind == "memory":
        return validate_memory(catalog, path)
    return SPEED[kind](_read(path, REQUIRED[kind]), catalog)


def _read(path: Path, required: tuple[str, ...]) -> pl.DataFrame:
    """Rows of a CSV as text, blanks as null."""
    try:
        rows = pl.read_csv(path.read_bytes(), infer_schema=False)
    except OSError as error:
        raise ValidationError(f"{path}: cannot be read ({error.strerror})") from None
    except pl.exceptions.PolarsError as error:
        raise ValidationError(f"{path}: not a CSV in UTF-8 ({str(error).splitlines()[0]})") from None
    lacks = [name for name in required if name not in rows.columns]
    if lacks:
        raise ValidationError(f"{path}: columns {', '.join(lacks)} are missing")
    return rows.with_columns(pl.all().str.strip_chars().replace("", None))
