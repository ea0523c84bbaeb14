"""Read the embedded catalogue, lay overlays over it, validate, and hand out one frozen `Catalog`.

Frame schemas are imported where something is to be validated: the embedded tables are sealed and load without them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import polars as pl

from catalogs.book import apply_book
from catalogs.catalog import TABLE_NAMES, Catalog
from catalogs.commitments import derive_commitments
from catalogs.compute_units import compute_unit_prices
from catalogs.embedded import Files, embedded_files
from catalogs.errors import CatalogError, Issue
from catalogs.seal import Tables, content_sha256, plain, read_sealed, sealed_types


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
    from catalogs.overlays import laid_over

    return _assembled(laid_over(_embedded(), overlays))


@lru_cache(maxsize=1)
def _default() -> Catalog:
    found = embedded_files()
    return _assembled(_embedded()) if None in found.seals.values() else _AsAsked.of(found)


@lru_cache(maxsize=1)
def _embedded() -> Tables:
    """All embedded tables; those without a seal are validated."""
    found = embedded_files()
    tables: dict[str, pl.DataFrame] = {}
    issues: list[Issue] = []
    for name, seal in found.seals.items():
        if seal:
            tables[name] = read_sealed(found.data[name], f"{name}.csv", sealed_types(seal))
        else:
            tables[name], faults = _validated(name, found.data[name])
            issues += faults
    return Tables(tables, tuple(issues), {name: seal.content_sha256 for name, seal in found.seals.items() if seal})


def _validated(name: str, data: bytes) -> tuple[pl.DataFrame, list[Issue]]:
    from catalogs.read import parse_table
    from catalogs.schema import TABLES
    from catalogs.validate import rule_issues

    table, faults = parse_table(data, f"{name}.csv", TABLES[name])
    return table, faults + rule_issues(name, table)


class _Reading(dict[str, pl.DataFrame]):
    """Sealed tables, each read when it is first asked for."""

    def __init__(self, found: Files) -> None:
        self.found = found

    def __missing__(self, name: str) -> pl.DataFrame:
        seal = self.found.seals[name]
        assert seal is not None
        self[name] = table = plain(read_sealed(self.found.data[name], f"{name}.csv", sealed_types(seal)))
        return table


class _AsAsked(Catalog):
    """The embedded catalogue as sealed: a command reads the tables that it asks for, `check` a few of them."""

    @classmethod
    def of(cls, found: Files) -> Catalog:
        """Give the catalogue of files that all bear their seals."""
        contents = {name: seal.content_sha256 for name, seal in found.seals.items() if seal}
        catalog = cls.__new__(cls)
        catalog.__dict__.update(reading=_Reading(found), sha256=_digest(contents))
        return catalog

    def __getattr__(self, name: str) -> pl.DataFrame:
        if name not in TABLE_NAMES:
            raise AttributeError(f"a catalogue has no {name!r}")
        reading: _Reading = self.__dict__["reading"]
        table = self.__dict__[name] = _priced(reading) if name == "prices" else reading[name]
        return table

    def __reduce__(self) -> tuple[type[Catalog], tuple[object, ...]]:
        """Travel whole: the tables beside another process may be others."""
        return Catalog, (*(getattr(self, name) for name in TABLE_NAMES), self.sha256)


def _assembled(read: Tables) -> Catalog:
    """Check references where a table was changed, then drop the bookkeeping columns."""
    found = list(read.issues)
    # A row lost to a fault of its own would make every row that refers to it an orphan: say the cause alone.
    if not found and (len(read.sealed) < len(read.tables) or read.sealed != _embedded().sealed):
        from catalogs.validate import reference_issues

        found += reference_issues(read.tables)
    if found:
        raise CatalogError(found)
    columns = {name: plain(frame) for name, frame in read.tables.items()}
    # The hash is of what was read; what follows from it is not hashed twice.
    sha256 = _digest({name: read.sealed.get(name) or _content(name, columns[name]) for name in columns})
    return Catalog(**{**columns, "prices": _priced(columns)}, sha256=sha256)


def _digest(contents: Mapping[str, str]) -> str:
    return hashlib.sha256("".join(f"{name} {contents[name]}\n" for name in sorted(contents)).encode()).hexdigest()


def _priced(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Prices as listed, with what follows from them: commitments, compute units, the buyer's own discounts."""
    more = [derive_commitments(tables), compute_unit_prices(tables)]
    prices = pl.concat([tables["prices"], *more], rechunk=True)
    return apply_book(prices, tables["offers"], tables["book"])


def _content(name: str, table: pl.DataFrame) -> str:
    from catalogs.schema import TABLES

    return content_sha256(table, TABLES[name].primary_key())
