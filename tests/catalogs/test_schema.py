"""The embedded tables keep their schemas; registry, Catalog and data folder name the same tables."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import polars as pl
import pytest

from catalogs.catalog import Catalog
from catalogs.embedded import SEALS, file_sha256, read_seals
from catalogs.read import column_types, parse_table
from catalogs.schema import REFERENCES, TABLES
from catalogs.seal import content_sha256, plain, read_sealed, sealed_types
from catalogs.validate import reference_issues, rule_issues
from problems.terms import CONFIDENCES
from tests.catalogs.conftest import DATA


def test_registry_catalog_and_data_folder_agree() -> None:
    fields = {field.name for field in dataclasses.fields(Catalog)} - {"sha256"}
    files = {path.stem for path in DATA.glob("*.csv")} - {Path(SEALS).stem}
    assert fields == set(TABLES)
    assert files == set(TABLES)


@pytest.mark.parametrize("name", TABLES)
def test_embedded_table_passes_the_full_reader_and_every_rule(name: str) -> None:
    frame, issues = parse_table((DATA / f"{name}.csv").read_bytes(), f"{name}.csv", TABLES[name])
    assert [str(issue) for issue in issues + rule_issues(name, frame)] == []


@pytest.mark.parametrize("name", TABLES)
def test_every_row_keeps_source_and_confidence(name: str, catalog: Catalog) -> None:
    frame: pl.DataFrame = getattr(catalog, name)
    assert {"source", "as_of", "confidence"} <= set(frame.columns)
    assert frame["source"].null_count() == 0
    assert set(frame["confidence"]) <= set(CONFIDENCES)


@pytest.mark.parametrize("name", TABLES)
def test_seal_is_up_to_date(name: str) -> None:
    seals = read_seals((DATA / SEALS).read_text(encoding="utf-8"))
    data = (DATA / f"{name}.csv").read_bytes()
    full = plain(parse_table(data, name, TABLES[name])[0])
    assert seals[name].file_sha256 == file_sha256(data), "tables changed: run catalogs.seal.seal_data(data folder)"
    assert seals[name].content_sha256 == content_sha256(full, TABLES[name].primary_key())
    assert list(sealed_types(seals[name]).items()) == list(column_types(TABLES[name]).items())
    assert plain(read_sealed(data, name, sealed_types(seals[name]))).equals(full)


def test_every_reference_of_the_embedded_tables_holds() -> None:
    tables = {n: parse_table((DATA / f"{n}.csv").read_bytes(), n, s)[0] for n, s in TABLES.items()}
    assert [str(issue) for issue in reference_issues(tables)] == []
    # What users measured is theirs: the built-in table is empty.
    for reference in REFERENCES:
        assert tables[reference.table][reference.column].drop_nulls().len() > 0 or reference.table in (
            "user_measurements",
            "user_rates",
            "compute_units",
        )


def test_units_stand_in_the_names_of_numbers() -> None:
    """Number columns end in a unit, or are counts, shares, ratios and codes known by name."""
    units = (
        "_gib",
        "_gb",
        "_gb_s",
        "_tb",
        "_tflops",
        "_tops",
        "_w",
        "_usd",
        "_gbps",
        "_months",
        "_hours",
        "_s",
        "_us",
    )
    units += (
        "_mts",
        "_ghz",
        "_iops",
        "_kwh",
        "_per_tb",
        "_per_tb_month",
        "_per_gb",
        "_kw_month",
        "_per_hour",
        "_b",
    )
    units += ("_per_kwh", "_per_kwh_usd", "_share", "_per_month", "_ms", "_tokens", "_bits")
    counts = {
        "slots",
        "cpu_sockets",
        "ram_slots",
        "drive_bays",
        "nic_slots",
        "rack_units",
        "cores",
        "threads",
    }
    counts |= {
        "memory_channels",
        "pcie_gen",
        "pcie_lanes",
        "max_sockets",
        "nvlink_domain",
        "switch_ports",
        "vcpus",
    }
    counts |= {"stock", "min_nodes", "included_nics", "psu_count", "psu_spare"}
    units += ("_days",)
    counts |= {"accelerator_count", "year", "row", "hour_from", "hour_to"}
    own = {"hardware", "market", "places"}
    bare = {"value", "low", "high", "rate", "rate_low", "rate_high", "level", "discount", "discount_low"}
    bare |= {"discount_high", "pue", "pue_low", "pue_high", "gb_s_per_tb", "gb_s_per_port", "gbps_per_port"}
    bare |= {"price_low_usd_per_gb", "price_high_usd_per_gb", "memory_gb_nominal"}
    bare |= {"units_per_accelerator_hour", "price_per_unit"}
    lost = [
        f"{name}.{column}"
        for name, schema in TABLES.items()
        if schema.__module__.split(".")[-1] in own
        for column, kind in schema.columns().items()
        if kind.dtype.is_numeric() and not column.endswith(units) and column not in counts | bare
    ]
    assert lost == []
