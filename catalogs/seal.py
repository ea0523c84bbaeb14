"""Seals of the embedded tables: which bytes were validated in full, so that loading need not do it again.

`data/seals.csv` holds, per table, the hash of the file's bytes and of its content. A table whose bytes
differ from its seal is simply validated at every load. Write the seals anew with `seal_data(folder)` after
changing tables; a test fails while they are out of date.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import dataframely as dy
import polars as pl

from catalogs.errors import CatalogError, Issue
from catalogs.read import FILE, LINE, column_order, parse_table
from catalogs.schema import TABLES
from catalogs.validate import reference_issues, rule_issues

SEALS = "seals.csv"


class Seal(NamedTuple):
    """Hash of the bytes, hash of the content."""

    file_sha256: str
    content_sha256: str


def read_seals(text: str) -> dict[str, Seal]:
    """Seals by table name; whatever is not of the form is no seal."""
    rows = (line.split(",") for line in text.splitlines()[1:])
    return {row[0]: Seal(row[1], row[2]) for row in rows if len(row) == 3}


def file_sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def content_sha256(frame: pl.DataFrame, key: list[str]) -> str:
    """SHA-256 over a table's content, whatever the order of its rows."""
    return hashlib.sha256(frame.sort(key).write_csv().encode()).hexdigest()


def read_sealed(data: bytes, file: str, schema: type[dy.Schema]) -> pl.DataFrame:
    """Read a sealed table without checking it again."""
    types = {name: column.dtype for name, column in schema.columns().items()}
    frame = pl.read_csv(io.BytesIO(data), schema_overrides=types, empty_string_is_null=True)
    return frame.select(
        *column_order(schema), pl.lit(file).alias(FILE), pl.int_range(2, pl.len() + 2, dtype=pl.Int64).alias(LINE)
    )


def seal_data(folder: Path) -> Mapping[str, Seal]:
    """Validate every table in `folder` in full and write its seal.

    Raises
    ------
    CatalogError
        A table has a fault, or reads otherwise without the checks (then its CSV has a spelling only they
        accept).
    """
    tables: dict[str, pl.DataFrame] = {}
    seals: dict[str, Seal] = {}
    issues: list[Issue] = []
    for name, schema in TABLES.items():
        data = (folder / f"{name}.csv").read_bytes()
        tables[name], faults = parse_table(data, f"{name}.csv", schema)
        issues += faults + rule_issues(name, tables[name])
        if not faults and not plain(tables[name]).equals(plain(read_sealed(data, f"{name}.csv", schema))):
            issues.append(Issue(f"{name}.csv", None, None, "has cells in a form that only the full reader accepts"))
        seals[name] = Seal(file_sha256(data), content_sha256(plain(tables[name]), schema.primary_key()))
    issues += reference_issues(tables)
    if issues:
        raise CatalogError(issues)
    text = "table,file_sha256,content_sha256\n" + "".join(f"{n},{s[0]},{s[1]}\n" for n, s in seals.items())
    (folder / SEALS).write_text(text, encoding="utf-8")
    return seals


def plain(frame: pl.DataFrame) -> pl.DataFrame:
    """A table without the bookkeeping columns."""
    return frame.drop(FILE, LINE)
