"""Folders of tables laid over the catalogue: read, validated, and put over the rows of the same key."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import polars as pl

from catalogs.cache import read_manifest, read_parquet
from catalogs.embedded import SEALS, file_sha256
from catalogs.errors import CatalogError, Issue
from catalogs.read import column_types, nearest, parse_table
from catalogs.schema import TABLES
from catalogs.seal import Tables, read_sealed
from catalogs.validate import rule_issues

TABLE_SUFFIXES = (".csv", ".tsv", ".parquet", ".xlsx", ".xls")


def laid_over(under: Tables, folders: Sequence[Path]) -> Tables:
    """Lay the tables of `folders` over those `under` them, in order; faults are told with those already met.

    Its rows replace rows of the same key as a whole and add those with a new key; nullable columns may be left out.
    Where a manifest says so (an import of a whole price list), the built-in rows of a table step aside; those of
    other overlays stay.
    """
    tables, issues, sealed = dict(under.tables), [*under.issues], dict(under.sealed)
    layers = [_read_overlay(Path(folder)) for folder in folders]
    for name in {table for layer in layers for table in layer.steps_aside}:
        tables[name] = tables[name].clear()
        sealed.pop(name, None)
    for layer in layers:
        issues += layer.issues
        for name, rows in layer.tables.items():
            if name not in layer.sealed:
                issues += rule_issues(name, rows)
            if tables[name].is_empty():
                tables[name] = rows
                # The content of a table is that of the layer, where nothing lies under it.
                sealed |= {name: layer.sealed[name]} if name in layer.sealed else {}
                continue
            kept = tables[name].join(rows, on=TABLES[name].primary_key(), how="anti", maintain_order="left")
            tables[name] = pl.concat([kept, rows])
            below, above = sealed.pop(name, None), layer.sealed.get(name)
            if below and above:
                sealed[name] = hashlib.sha256(f"{below} under {above}".encode()).hexdigest()
    return Tables(tables, tuple(issues), sealed)


class _Layer(NamedTuple):
    """Tables of an overlay, faults met in reading, content hashes of those sealed, tables it stands in place of."""

    tables: Mapping[str, pl.DataFrame]
    issues: tuple[Issue, ...] = ()
    sealed: Mapping[str, str] = {}
    steps_aside: tuple[str, ...] = ()


def _read_overlay(folder: Path) -> _Layer:
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
        return _Layer({}, (Issue(str(folder), None, None, what, "a folder of catalogue tables"),))
    try:
        manifest = read_manifest(folder)
    except CatalogError as error:
        return _Layer({}, error.issues)
    tables: dict[str, pl.DataFrame] = {}
    sealed: dict[str, str] = {}
    issues: list[Issue] = []
    for path in sorted(p for p in folder.iterdir() if _is_table(p)):
        name = path.stem
        if path.suffix not in (".csv", ".parquet") or name not in TABLES:
            known = [f"{name}.csv" for name in TABLES]
            issues.append(Issue(str(path), None, None, f"unknown table{nearest(path.name, known)}", ", ".join(known)))
            continue
        if name in tables:
            issues.append(Issue(str(path), None, None, "stands beside a CSV of the same table", "one of the two"))
            continue
        try:
            data = path.read_bytes()
        except OSError as error:
            issues.append(Issue(str(path), None, None, f"cannot be read ({error.strerror})"))
            continue
        seal = manifest.seals.get(name)
        whole = seal is not None and seal.file_sha256 == file_sha256(data)
        if path.suffix == ".parquet":
            found, faults = read_parquet(data, str(path), name, checked=whole)
        elif whole:
            found, faults = read_sealed(data, str(path), column_types(TABLES[name])), []
        else:
            found, faults = parse_table(data, str(path), TABLES[name])
        issues += faults
        if found is not None:
            tables[name] = found
            if whole and seal is not None:
                sealed[name] = seal.content_sha256
    if not tables and not issues:
        known_files = ", ".join(f"{n}.csv" for n in TABLES)
        issues.append(Issue(str(folder), None, None, "holds no catalogue table", f"any of {known_files}"))
    return _Layer(tables, tuple(issues), sealed, manifest.steps_aside)


def _is_table(path: Path) -> bool:
    """Whatever looks like a table must be one; seals of a copied data folder are no table."""
    return path.is_file() and path.suffix.lower() in TABLE_SUFFIXES and path.name != SEALS
