"""Tables of storage boxes and systems: what they must say, what is refused, what the named check finds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from catalogs.catalog import Catalog
from catalogs.checks import check
from catalogs.errors import CatalogError
from catalogs.load import load_catalog

BOX = "box,holds,rack_units,drive_bays,price_usd,power_w,read_gb_s,write_gb_s,network,ports,price_basis,verified,source,as_of,confidence\n"
SYSTEM = "system,kind,box,drive,data_share,least_drives,iops_share,boxes_in_price,source,as_of,confidence\n"
OURS = "our-4U90,hdd,4,90,19800,420,14,10,100GbE,2,quote,true,quote of 2026-11-02,2026-11,listed\n"
POOL = "our disk pool,drives,our-4U90,HDD-nearline-24TB,0.727,11,0.47,false,8+3 erasure code,2026-11,listed\n"
Overlay = Callable[..., Path]


def test_boxes_of_an_overlay(overlay: Overlay, catalog: Catalog) -> None:
    laid = load_catalog([overlay(storage_boxes=BOX + OURS, storage_systems=SYSTEM + POOL)])
    assert laid.storage_boxes.height == catalog.storage_boxes.height + 1
    assert laid.storage_systems.filter(pl.col("system") == "our disk pool")["least_drives"].item() == 11


@pytest.mark.parametrize(
    ("table", "row", "says"),
    [
        ("storage_boxes", OURS.replace(",4,90,", ",4,0,"), "drive_bays"),
        ("storage_boxes", OURS.replace(",hdd,", ",tape,"), "holds"),
        ("storage_boxes", OURS.replace("100GbE,2", "100GbE,"), "ports_of_a_network"),
        ("storage_boxes", OURS.replace("100GbE", "111GbE"), "111GbE"),
        ("storage_systems", POOL.replace("our-4U90", "HDD-4U61-server"), "HDD-4U61-server"),
        ("storage_systems", POOL.replace("0.47,false", "0.47,true"), "pools_pay_boxes"),
        ("storage_systems", POOL.replace(",0.727,", ",1.727,"), "data_share"),
    ],
)
def test_a_broken_row_is_refused_with_file_and_row(overlay: Overlay, table: str, row: str, says: str) -> None:
    tables = {"storage_boxes": BOX + OURS, "storage_systems": SYSTEM + POOL}
    header = {"storage_boxes": BOX, "storage_systems": SYSTEM}[table]
    with pytest.raises(CatalogError) as caught:
        load_catalog([overlay(**{**tables, table: header + row})])
    assert f"{table}.csv:2" in str(caught.value)
    assert says in str(caught.value) or says in " ".join(str(i) for i in caught.value.issues)


def test_the_named_check(catalog: Catalog) -> None:
    def found(cat: Catalog) -> list[str]:
        return check(cat).filter(pl.col("check") == "storage_box")["row"].to_list()

    assert found(catalog) == []
    quick = catalog.storage_boxes.with_columns(
        read_gb_s=pl.when(pl.col("box") == "HDD-4U60-server").then(26.0).otherwise("read_gb_s")
    )
    assert found(replace(catalog, storage_boxes=quick)) == ["HDD-4U60-server"]
    mixed = catalog.storage_systems.with_columns(
        drive=pl.when(pl.col("system") == "HDD pool of 24 TB drives in 4U")
        .then(pl.lit("NVMe-QLC-30.72TB"))
        .otherwise("drive")
    )
    assert found(replace(catalog, storage_systems=mixed)) == ["HDD pool of 24 TB drives in 4U"]


def test_every_priced_box_says_what_its_price_is_made_of(catalog: Catalog) -> None:
    priced = catalog.storage_boxes.filter(pl.col("price_usd").is_not_null())
    assert priced.height >= 3
    assert priced["price_basis"].null_count() == 0
    assert set(priced.filter(~pl.col("verified"))["confidence"]) <= {"estimate", "recalled"}
