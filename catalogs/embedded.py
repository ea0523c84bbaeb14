"""The files of the package's own data folder, the seals they bear, and their rows without polars.

A seal holds, per table, the hash of the file's bytes and of its content, and the kinds of its columns: what it takes to
read the table without its frame schema. Names of a problem are looked up in such rows: importing polars takes longer
than all the rest of a check.
"""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any, NamedTuple, Protocol

from catalogs.catalog import TABLE_NAMES

SEALS = "seals.csv"
# Kinds of columns, and how a cell of the kind is read.
KINDS: Mapping[str, Callable[[str], object]] = {
    "text": str,
    "number": float,
    "whole": int,
    "flag": {"true": True, "false": False}.__getitem__,
}


class HasRows(Protocol):
    """What names are looked up in: a `Catalog`, or the embedded tables as they are."""

    def rows(self, table: str, *columns: str) -> Iterable[tuple[Any, ...]]:
        """Give the columns of a table row by row."""
        ...

    def distinct(self, table: str, column: str) -> Collection[Any]:
        """Give the values that stand in a column, each once, in no order."""
        ...

    def __hash__(self) -> int: ...


class TypedSeal(NamedTuple):
    """Hash of the bytes, hash of the content, columns in their order with their kinds."""

    file_sha256: str
    content_sha256: str
    columns: Mapping[str, str]


class Files(NamedTuple):
    """Files of the data folder, and the seals that they still bear (None: changed since, or never sealed)."""

    data: Mapping[str, bytes]
    seals: Mapping[str, TypedSeal | None]


def read_seals(text: str) -> dict[str, TypedSeal]:
    """Seals by table name; whatever is not of the form is no seal."""
    seals: dict[str, TypedSeal] = {}
    for line in text.splitlines()[1:]:
        name, *rest = line.split(",")
        if len(rest) != 3:
            continue
        columns = dict(column.partition(":")[::2] for column in rest[2].split())
        if all(kind in KINDS for kind in columns.values()):
            seals[name] = TypedSeal(rest[0], rest[1], columns)
    return seals


def file_sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@lru_cache(maxsize=1)
def embedded_files() -> Files:
    """What is in the data folder; works from an installed wheel."""
    folder = files("catalogs").joinpath("data")
    found = folder.joinpath(SEALS)
    known = read_seals(found.read_text(encoding="utf-8")) if found.is_file() else {}
    data = {name: folder.joinpath(f"{name}.csv").read_bytes() for name in TABLE_NAMES}
    seals = {name: known.get(name) for name in TABLE_NAMES}
    return Files(data, {n: s if s and s.file_sha256 == file_sha256(data[n]) else None for n, s in seals.items()})


class SealedRows:
    """Rows of the embedded tables, equal to those of the catalogue; `prices` as listed, without what follows from them."""

    def __init__(self, found: Files) -> None:
        self._found = found
        self._read: dict[str, list[list[str]]] = {}

    def rows(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        """Give the columns of a table row by row; an empty cell is None."""
        seal = self._found.seals[table]
        assert seal is not None
        if table not in self._read:
            text = self._found.data[table].decode("utf-8-sig")
            self._read[table] = list(csv.reader(io.StringIO(text, newline="")))
        header, *lines = self._read[table]
        chosen = [(header.index(column), KINDS[seal.columns[column]]) for column in columns]
        return [tuple(kind(line[at]) if line[at] else None for at, kind in chosen) for line in lines]

    def distinct(self, table: str, column: str) -> set[Any]:
        """Give the values that stand in a column, each once, in no order."""
        return {value for (value,) in self.rows(table, column) if value is not None}


def sealed_rows() -> SealedRows | None:
    """Rows of the embedded tables; None where one of them has to be validated first."""
    found = embedded_files()
    return None if None in found.seals.values() else SealedRows(found)
