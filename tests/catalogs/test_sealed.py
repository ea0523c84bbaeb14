"""The embedded catalogue as it is read under its seals: table by table, equal to what full validation gives."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner
from polars.testing import assert_frame_equal

import catalogs.embedded
import catalogs.load
import cli
from catalogs.catalog import TABLE_NAMES, Catalog
from catalogs.embedded import Files, TypedSeal, embedded_files, read_seals, sealed_rows
from catalogs.errors import CatalogError
from catalogs.load import load_catalog

CACHED = (catalogs.load._default, catalogs.load._embedded, embedded_files)


@pytest.fixture
def afresh() -> Iterator[None]:
    """Nothing read before, nothing kept for later."""
    for cached in CACHED:
        cached.cache_clear()
    yield
    for cached in CACHED:
        cached.cache_clear()


def without(*names: str) -> object:
    """Seals as read, but for some tables."""

    def read(text: str) -> Mapping[str, TypedSeal]:
        return {name: seal for name, seal in read_seals(text).items() if name not in names}

    return read


@pytest.mark.parametrize("names", [TABLE_NAMES, ("offers",)])
def test_sealed_tables_are_what_validation_gives(
    catalog: Catalog, names: tuple[str, ...], afresh: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogs.embedded, "read_seals", without(*names))
    assert sealed_rows() is None
    full = load_catalog()
    assert full is not catalog
    assert type(full) is Catalog
    assert full.sha256 == catalog.sha256
    for name in TABLE_NAMES:
        assert_frame_equal(getattr(full, name), getattr(catalog, name))


def with_a_fault() -> Files:
    """The files with one table that has a column too many, and so no seal."""
    read = embedded_files()
    broken = read.data["egress"].replace(b"\n", b"\nno such column,", 1)
    return read._replace(data={**read.data, "egress": broken}, seals={**read.seals, "egress": None})


def test_a_changed_table_is_validated(afresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = with_a_fault()
    monkeypatch.setattr(catalogs.load, "embedded_files", lambda: changed)
    with pytest.raises(CatalogError, match=r"egress\.csv"):
        load_catalog()


def test_a_check_validates_changed_tables_too(afresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = with_a_fault()
    for module in (catalogs.load, catalogs.embedded):
        monkeypatch.setattr(module, "embedded_files", lambda: changed)
    done = CliRunner().invoke(cli.main, ["check", str(Path(cli.__file__).parent / "problems" / "experiments.yaml")])
    assert done.exit_code == 2
    assert "egress.csv" in done.stderr


# What follows from the listed prices is worked out in frames.
@pytest.mark.parametrize("table", [name for name in TABLE_NAMES if name != "prices"])
def test_rows_without_frames_are_those_of_the_catalogue(catalog: Catalog, table: str) -> None:
    columns = getattr(catalog, table).columns
    plain = sealed_rows()
    assert plain is not None
    assert list(plain.rows(table, *columns)) == list(catalog.rows(table, *columns))
    for column in columns:
        assert plain.distinct(table, column) == set(catalog.distinct(table, column))


def test_a_table_is_read_when_it_is_asked_for(afresh: None) -> None:
    catalog = load_catalog()
    assert "pue" not in vars(catalog)
    assert catalog.pue is catalog.pue
    assert catalog.prices is catalog.prices
    with pytest.raises(AttributeError, match="no_such_table"):
        _ = catalog.no_such_table  # type: ignore[attr-defined]


def test_a_catalogue_travels_and_is_replaced_whole(catalog: Catalog) -> None:
    there = pickle.loads(pickle.dumps(catalog))
    assert type(there) is Catalog
    changed = replace(catalog, pue=catalog.pue.clear())
    for name in TABLE_NAMES:
        table: pl.DataFrame = getattr(catalog, name)
        assert_frame_equal(getattr(there, name), table)
        assert_frame_equal(getattr(changed, name), table.clear() if name == "pue" else table)
    assert there.sha256 == changed.sha256 == catalog.sha256
