"""Read the embedded catalogue, lay overlays over it, validate, and hand out one frozen `Catalog`."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import polars as pl

from catalogs.catalog import Catalog
from catalogs.errors import CatalogError, Issue
from catalogs.read import nearest, parse_table
from catalogs.schema import TABLES
from catalogs.seal import SEALS, content_sha256, file_sha256, plain, read_sealed, read_seals
from catalogs.validate import reference_issues, rule_issues

TABLE_SUFFIXES = (".csv", ".tsv", ".parquet", ".xlsx", ".xls")


def load_catalog(overlays: Sequence[Path] = ()) -> Catalog:
    """Load the default catalogue with `overlays` laid over it in order.

    An overlay is a folder that holds any of the tables as CSV. Its rows replace rows of the same key as a
    whole and add those with a new key; nullable columns may be left out.

    Raises
    ------
    CatalogError
        With every fault found: unknown file or column, unreadable cell, broken rule, duplicate key, orphan
        reference.
    """
    if not overlays:
        return _default()
    tables = dict(_embedded().tables)
    checked = set(_embedded().sealed)
    issues = list(_embedded().issues)
    for folder in overlays:
        layer, faults = _read_overlay(Path(folder))
        issues += faults
        for name, rows in layer.items():
            kept = tables[name].join(rows, on=TABLES[name].primary_key(), how="anti", maintain_order="left")
            tables[name] = pl.concat([kept, rows])
            checked.discard(name)
    return _assembled(tables, issues, checked)


@lru_cache(maxsize=1)
def _default() -> Catalog:
    embedded = _embedded()
    return _assembled(embedded.tables, embedded.issues, embedded.sealed)


class _Embedded(NamedTuple):
    """Tables of the package, faults met in reading, content hashes of those validated before."""

    tables: Mapping[str, pl.DataFrame]
    issues: tuple[Issue, ...]
    sealed: Mapping[str, str]


@lru_cache(maxsize=1)
def _embedded() -> _Embedded:
    """Tables of the package's own data folder; works from an installed wheel."""
    folder = files("catalogs").joinpath("data")
    found = folder.joinpath(SEALS)
    seals = read_seals(found.read_text(encoding="utf-8")) if found.is_file() else {}
    tables: dict[str, pl.DataFrame] = {}
    sealed: dict[str, str] = {}
    issues: list[Issue] = []
    for name, schema in TABLES.items():
        file = f"{name}.csv"
        data = folder.joinpath(file).read_bytes()
        if name in seals and seals[name].file_sha256 == file_sha256(data):
            tables[name] = read_sealed(data, file, schema)
            sealed[name] = seals[name].content_sha256
        else:
            tables[name], faults = parse_table(data, file, schema)
            issues += faults
    return _Embedded(tables, tuple(issues), sealed)


def _read_overlay(folder: Path) -> tuple[dict[str, pl.DataFrame], list[Issue]]:
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
        return {}, [Issue(str(folder), None, None, what, "a folder of catalogue tables")]
    tables: dict[str, pl.DataFrame] = {}
    issues: list[Issue] = []
    for path in sorted(p for p in folder.iterdir() if _is_table(p)):
        if path.suffix != ".csv" or path.stem not in TABLES:
            known = [f"{name}.csv" for name in TABLES]
            issues.append(Issue(str(path), None, None, f"unknown table{nearest(path.name, known)}", ", ".join(known)))
            continue
        try:
            data = path.read_bytes()
        except OSError as error:
            issues.append(Issue(str(path), None, None, f"cannot be read ({error.strerror})"))
            continue
        tables[path.stem], faults = parse_table(data, str(path), TABLES[path.stem])
        issues += faults
    if not tables and not issues:
        issues.append(
            Issue(
                str(folder),
                None,
                None,
                "holds no catalogue table",
                "any of " + ", ".join(f"{n}.csv" for n in TABLES),
            )
        )
    return tables, issues


def _is_table(path: Path) -> bool:
    """Whatever looks like a table must be one; seals of a copied data folder are no table."""
    return path.is_file() and path.suffix.lower() in TABLE_SUFFIXES and path.name != SEALS


def _assembled(tables: Mapping[str, pl.DataFrame], issues: Sequence[Issue], checked: Collection[str]) -> Catalog:
    """Check rules and references of tables not in `checked`, then drop the bookkeeping columns."""
    found = list(issues)
    for name, frame in tables.items():
        if name not in checked:
            found += rule_issues(name, frame)
    # A row lost to a fault of its own would make every row that refers to it an orphan: say the cause alone.
    if not found and len(checked) < len(tables):
        found += reference_issues(tables)
    if found:
        raise CatalogError(found)
    columns = {name: plain(frame) for name, frame in tables.items()}
    sealed = _embedded().sealed
    digest = hashlib.sha256()
    for name in sorted(columns):
        content = sealed[name] if name in checked else content_sha256(columns[name], TABLES[name].primary_key())
        digest.update(f"{name} {content}\n".encode())
    return Catalog(**columns, sha256=digest.hexdigest())
