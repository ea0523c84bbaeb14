"""Seals of the embedded tables: which bytes were validated in full, so that loading need not do it again.

What a seal holds stands in `catalogs.embedded`. A table whose bytes differ from its seal is simply validated at every
load. Write the seals anew with `seal_data(folder)` after changing tables or schemas; a test fails while they are out of date.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import polars as pl

from catalogs.embedded import SEALS, TypedSeal, file_sha256
from catalogs.errors import CatalogError, Issue

# Bookkeeping columns that travel with the rows until the catalogue is assembled.
FILE = "__file__"
LINE = "__line__"
TYPES: Mapping[str, type[pl.DataType]] = {
    "text": pl.String,
    "number": pl.Float64,
    "whole": pl.Int64,
    "flag": pl.Boolean,
}

ColumnTypes = Mapping[str, type[pl.DataType]]


class Tables(NamedTuple):
    """Tables as read, faults met in reading, content hashes of those validated before."""

    tables: Mapping[str, pl.DataFrame]
    issues: tuple[Issue, ...]
    sealed: Mapping[str, str]


class Seal(NamedTuple):
    """Hash of the bytes, hash of the content."""

    file_sha256: str
    content_sha256: str


def sealed_types(seal: TypedSeal) -> ColumnTypes:
    """Columns of a sealed table with their types."""
    return {column: TYPES[kind] for column, kind in seal.columns.items()}


def content_sha256(frame: pl.DataFrame, key: list[str]) -> str:
    """SHA-256 over a table's content, whatever the order of its rows."""
    return hashlib.sha256(frame.sort(key).write_csv().encode()).hexdigest()


def read_sealed(data: bytes, file: str, columns: ColumnTypes) -> pl.DataFrame:
    """Read a sealed table without checking it again."""
    frame = pl.read_csv(io.BytesIO(data), schema_overrides=columns, empty_string_is_null=True)
    return frame.select(*columns, pl.lit(file).alias(FILE), pl.int_range(2, pl.len() + 2, dtype=pl.Int64).alias(LINE))


def seal_data(folder: Path) -> Mapping[str, TypedSeal]:
    """Validate every table in `folder` in full and write its seal.

    Raises
    ------
    CatalogError
        A table has a fault, or reads otherwise without the checks (then its CSV has a spelling only they
        accept).
    """
    # Schemas are for sealing; reading what is sealed does without them.
    from catalogs.read import column_types, parse_table
    from catalogs.schema import TABLES
    from catalogs.validate import reference_issues, rule_issues

    tables: dict[str, pl.DataFrame] = {}
    seals: dict[str, TypedSeal] = {}
    issues: list[Issue] = []
    words = {kind: word for word, kind in TYPES.items()}
    for name, schema in TABLES.items():
        data = (folder / f"{name}.csv").read_bytes()
        columns = column_types(schema)
        tables[name], faults = parse_table(data, f"{name}.csv", schema)
        issues += faults + rule_issues(name, tables[name])
        if not faults and not plain(tables[name]).equals(plain(read_sealed(data, f"{name}.csv", columns))):
            issues.append(Issue(f"{name}.csv", None, None, "has cells in a form that only the full reader accepts"))
        kinds = {column: words[kind] for column, kind in columns.items()}
        seals[name] = TypedSeal(file_sha256(data), content_sha256(plain(tables[name]), schema.primary_key()), kinds)
    issues += reference_issues(tables)
    if issues:
        raise CatalogError(issues)
    lines = ["table,file_sha256,content_sha256,columns"]
    for name, seal in seals.items():
        typed = " ".join(f"{column}:{kind}" for column, kind in seal.columns.items())
        lines.append(f"{name},{seal.file_sha256},{seal.content_sha256},{typed}")
    (folder / SEALS).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return seals


def plain(frame: pl.DataFrame) -> pl.DataFrame:
    """A table without the bookkeeping columns."""
    return frame.drop(FILE, LINE)
