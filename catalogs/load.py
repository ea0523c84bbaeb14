"""Read the embedded catalogue, lay overlays over it, validate, and hand out one frozen `Catalog`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import polars as pl

from catalogs.book import apply_book
from catalogs.cache import read_manifest, read_parquet
from catalogs.catalog import Catalog
from catalogs.commitments import derive_commitments
from catalogs.compute_units import compute_unit_prices
from catalogs.errors import CatalogError, Issue
from catalogs.read import nearest, parse_table
from catalogs.schema import TABLES
from catalogs.seal import SEALS, content_sha256, file_sha256, plain, read_sealed, read_seals
from catalogs.validate import reference_issues, rule_issues

TABLE_SUFFIXES = (".csv", ".tsv", ".parquet", ".xlsx", ".xls")


def load_catalog(overlays: Sequence[Path] = ()) -> Catalog:
    """Load the default catalogue with `overlays` laid over it in order.

    An overlay is a folder that holds any of the tables as CSV, or as Parquet. Its rows replace rows of the same
    key as a whole and add those with a new key; nullable columns may be left out. Where its manifest says so
    (an import of a whole price list), the built-in rows of a table step aside; those of other overlays stay.

    Raises
    ------
    CatalogError
        With every fault found: unknown file or column, unreadable cell, broken rule, duplicate key, orphan
        reference.
    """
    if not overlays:
        return _default()
    tables = dict(_embedded().tables)
    sealed = dict(_embedded().sealed)
    issues = list(_embedded().issues)
    layers = [_read_overlay(Path(folder)) for folder in overlays]
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
            under, over = sealed.pop(name, None), layer.sealed.get(name)
            if under and over:
                sealed[name] = hashlib.sha256(f"{under} under {over}".encode()).hexdigest()
    return _assembled(tables, issues, sealed)


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
            issues += faults + rule_issues(name, tables[name])
    return _Embedded(tables, tuple(issues), sealed)


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
            found, faults = read_sealed(data, str(path), TABLES[name]), []
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


def _assembled(tables: Mapping[str, pl.DataFrame], issues: Sequence[Issue], sealed: Mapping[str, str]) -> Catalog:
    """Check references where a table was changed, then drop the bookkeeping columns.

    `sealed` : hash of the content of the tables whose rows are as they were when it was taken.
    """
    found = list(issues)
    # A row lost to a fault of its own would make every row that refers to it an orphan: say the cause alone.
    if not found and (len(sealed) < len(tables) or dict(sealed) != dict(_embedded().sealed)):
        found += reference_issues(tables)
    if found:
        raise CatalogError(found)
    columns = {name: plain(frame) for name, frame in tables.items()}
    digest = hashlib.sha256()
    for name in sorted(columns):
        content = sealed.get(name) or content_sha256(columns[name], TABLES[name].primary_key())
        digest.update(f"{name} {content}\n".encode())
    # The hash is of what was read; what follows from it is not hashed twice.
    more = [derive_commitments(columns), compute_unit_prices(columns)]
    prices = pl.concat([columns["prices"], *more], rechunk=True)
    columns["prices"] = apply_book(prices, columns["offers"], columns["book"])
    return Catalog(**columns, sha256=digest.hexdigest())
