"""Seals of the embedded tables: which bytes were validated in full, so that loading need not do it again.

`data/seals.csv` holds, per table, the hash of the file's bytes and of its content, and the types of its columns: what it
takes to read the table without its frame schema. A table whose bytes differ from its seal is simply validated at every
load. Write the seals anew with `seal_data(folder)` after changing tables or schemas; a test fails while they are out of date.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import polars as pl

from catalogs.errors import CatalogError, Issue

SEALS = "seals.csv"
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


class TypedSeal(NamedTuple):
    """Hash of the bytes, hash of the content, columns in their order with their types."""

    file_sha256: str
    content_sha256: str
    columns: ColumnTypes


def read_seals(text: str) -> dict[str, TypedSeal]:
    """Seals by table name; whatever is not of the form is no seal."""
    seals: dict[str, TypedSeal] = {}
    for line in text.splitlines()[1:]:
        name, *rest = line.split(",")
        if len(rest) != 3:
            continue
        pairs = [column.partition(":")[::2] for column in rest[2].split()]
        if all(kind in TYPES for _, kind in pairs):
            seals[name] = TypedSeal(rest[0], rest[1], {column: TYPES[kind] for column, kind in pairs})
    return seals


def file_sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


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
    for name, schema in TABLES.items():
        data = (folder / f"{name}.csv").read_bytes()
        columns = column_types(schema)
        tables[name], faults = parse_table(data, f"{name}.csv", schema)
        issues += faults + rule_issues(name, tables[name])
        if not faults and not plain(tables[name]).equals(plain(read_sealed(data, f"{name}.csv", columns))):
            issues.append(Issue(f"{name}.csv", None, None, "has cells in a form that only the full reader accepts"))
        seals[name] = TypedSeal(file_sha256(data), content_sha256(plain(tables[name]), schema.primary_key()), columns)
    issues += reference_issues(tables)
    if issues:
        raise CatalogError(issues)
    words = {kind: word for word, kind in TYPES.items()}
    lines = ["table,file_sha256,content_sha256,columns"]
    for name, seal in seals.items():
        typed = " ".join(f"{column}:{words[kind]}" for column, kind in seal.columns.items())
        lines.append(f"{name},{seal.file_sha256},{seal.content_sha256},{typed}")
    (folder / SEALS).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return seals


def plain(frame: pl.DataFrame) -> pl.DataFrame:
    """A table without the bookkeeping columns."""
    return frame.drop(FILE, LINE)
