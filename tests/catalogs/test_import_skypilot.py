"""Import of SkyPilot-format lists: every trap of the format in small made-up files, and the whole set where it is at hand."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from catalogs.cache import MANIFEST
from catalogs.errors import CatalogError
from catalogs.importers.report import Imported
from catalogs.importers.skypilot import import_skypilot
from catalogs.imports import import_source
from catalogs.load import load_catalog

SAMPLES = Path(__file__).parent / "samples"


@pytest.fixture(scope="module")
def imported() -> Imported:
    return import_skypilot(SAMPLES / "skypilot", load_catalog())


def prices(imported: Imported, offer_id: str) -> dict[str, float]:
    rows = imported.tables["prices"].filter(pl.col("offer_id") == offer_id)
    return dict(rows.select("billing", "price_per_hour").iter_rows())


def offer(imported: Imported, offer_id: str) -> dict[str, object]:
    return imported.tables["offers"].filter(pl.col("offer_id") == offer_id).row(0, named=True)


def test_columns_go_by_name_whatever_their_order(imported: Imported) -> None:
    found = offer(imported, "verda/1B300.30V/FIN-03")
    assert (found["vcpus"], found["ram_gib"], found["accelerator"]) == (30.0, 275.0, "B300-288GB-SXM6")
    assert found["country"] == "FI"


def test_unquoted_comma_in_the_last_column_is_mended(imported: Imported) -> None:
    assert imported.report.remarks["unquoted comma in the last column mended"] == 3
    assert prices(imported, "azure/Standard_X4_v5/eastus") == {"on_demand": 0.2, "spot": 0.05}


def test_ragged_row_is_refused_with_its_line(tmp_path: Path) -> None:
    text = (SAMPLES / "skypilot/aws/vms.csv").read_text("utf-8") + "p5.48xlarge,H100,8,192\n"
    (tmp_path / "vms.csv").write_text(text, encoding="utf-8")
    report = import_skypilot(tmp_path / "vms.csv", load_catalog()).report
    assert report.dropped["4 fields under a header of 11"] == 1
    assert report.refused[0].startswith(f"{tmp_path / 'vms.csv'}:5")
    assert (report.read, report.kept) == (4, 3)


def test_unquoted_thousands_separator_does_not_pass_for_a_region(tmp_path: Path) -> None:
    text = (SAMPLES / "skypilot/azure/vms.csv").read_text("utf-8").replace(",27.0,5.0,", ",27,000.0,5.0,")
    (tmp_path / "vms.csv").write_text(text, encoding="utf-8")
    found = import_skypilot(tmp_path / "vms.csv", load_catalog())
    assert found.report.dropped["cells are moved: the region reads 5.0"] == 1
    assert not found.tables["offers"]["offer"].str.contains("ND96").any()


def test_cards_priced_apart_are_put_on_hosts_of_their_zone(imported: Imported) -> None:
    assert prices(imported, "gcp/n1-standard-4+1xT4/us-east1-b") == {"on_demand": 0.55, "spot": 0.15}
    # 64 vCPUs are more than a machine with one T4 may have.
    assert {o for o in imported.tables["offers"]["offer_id"] if "xT4" in o} == {
        "gcp/n1-standard-4+1xT4/us-east1-b",
        "gcp/n1-standard-32+1xT4/us-east1-b",
    }
    assert prices(imported, "gcp/a3-highgpu-8g/us-east1-b") == {"on_demand": 43.0, "spot": 44.0}
    assert imported.report.remarks["spot above on demand"] == 1


def test_host_price_of_zero_is_bundled_in_its_accelerators(imported: Imported) -> None:
    assert prices(imported, "gcp/a4-highgpu-8g/us-east1-b") == {"on_demand": 64.0, "spot": 20.0}


def test_hosts_of_accelerators_are_no_cheap_machines(imported: Imported) -> None:
    bare = imported.tables["offers"].filter(pl.col("accelerator_count").is_null(), pl.col("provider") == "gcp")
    assert set(bare["offer"]) == {"n1-standard-4", "n1-standard-32", "n1-standard-64"}
    assert imported.report.dropped["host that is only sold with accelerators, none priced in its zone"] == 1
    assert imported.report.dropped["accelerator priced apart, no machine in its zone takes it"] == 1


def test_zero_spot_is_no_price(imported: Imported) -> None:
    assert prices(imported, "vast/2x-H100_SXM-32-65536/Denmark, DK, EU") == {"on_demand": 4.0}
    assert imported.report.prices_dropped["spot price of zero or below"] == 3


def test_blank_on_demand_keeps_the_spot_price(imported: Imported) -> None:
    assert prices(imported, "verda/1B300.30V/FIN-03") == {"spot": 2.5}


def test_row_without_any_price_is_dropped(imported: Imported) -> None:
    assert imported.report.dropped["no price"] == 1


def test_exact_duplicates_count_once(imported: Imported) -> None:
    assert imported.report.dropped["duplicate"] == 1


def test_two_prices_for_one_machine_are_refused_both(tmp_path: Path) -> None:
    text = (SAMPLES / "skypilot/aws/vms.csv").read_text("utf-8")
    (tmp_path / "vms.csv").write_text(text + text.splitlines()[1].replace("22.0", "23.0") + "\n", encoding="utf-8")
    found = import_skypilot(tmp_path / "vms.csv", load_catalog())
    assert found.report.dropped["two prices or shapes for one machine"] == 2
    assert not found.tables["offers"]["offer"].str.contains("p4d").any()


def test_memory_and_instance_type_settle_the_variant(imported: Imported) -> None:
    assert offer(imported, "azure/Standard_ND96asr_v4/eastus")["accelerator"] == "A100-40GB-SXM4"
    assert offer(imported, "azure/Standard_NC24ads_A100_v4/eastus")["accelerator"] == "A100-80GB-PCIe"
    assert offer(imported, "vast/1x-A100_SXM4-32-65536/, CA, NA")["accelerator"] == "A100-80GB-SXM4"
    # The size that is stated is that of both cards.
    assert offer(imported, "vast/2x-H100_SXM-32-65536/Denmark, DK, EU")["accelerator"] == "H100-80GB-SXM5"


def test_unknown_accelerators_are_listed_never_guessed(imported: Imported) -> None:
    assert imported.report.unknown == {"K80": 1, "RTX4070": 1}
    found = offer(imported, "aws/p2.xlarge/eu-west-1")
    assert (found["accelerator"], found["label"], found["accelerator_count"]) == (None, "K80", 1)


def test_parts_of_a_card_and_slices_of_a_pod_stay_apart(imported: Imported) -> None:
    part = offer(imported, "azure/Standard_NV12ads_A10_v5/eastus")
    assert (part["accelerator"], part["accelerator_count"], part["accelerator_share"]) == ("A10", 1, 0.333)
    pod = offer(imported, "gcp/tpu-v5p-64/us-east1-b")
    assert (pod["accelerator"], pod["label"]) == (None, "tpu-v5p-64")


def test_count_without_a_name_is_no_accelerator(imported: Imported) -> None:
    assert offer(imported, "azure/Standard_NP10s/eastus")["accelerator_count"] is None


def test_price_far_under_the_median_of_its_type_is_doubted(imported: Imported) -> None:
    doubted = imported.tables["offers"].filter("doubtful")
    assert doubted["offer_id"].to_list() == ["azure/Standard_X4_v5/newzealandnorth"]


def test_countries_come_from_region_names(imported: Imported) -> None:
    countries = dict(imported.tables["offers"].select("region", "country").iter_rows())
    assert countries["newzealandnorth"] == "NZ"
    assert countries["Denmark, DK, EU"] == "DK"
    assert countries[", CA, NA"] == "CA"


def test_reserved_prices_stand_beside(imported: Imported) -> None:
    assert prices(imported, "aws/p4d.24xlarge/us-east-1") == {"on_demand": 22.0, "reserved": 14.0}


def test_rows_read_are_kept_or_dropped(imported: Imported) -> None:
    report = imported.report
    assert report.read == report.kept + sum(report.dropped.values())
    lines = sum(len(p.read_text("utf-8").splitlines()) - 1 for p in (SAMPLES / "skypilot").rglob("*.csv"))
    assert report.read == lines


def test_overlay_takes_the_place_of_the_built_in_offers(tmp_path: Path) -> None:
    import_source("skypilot", SAMPLES / "skypilot", tmp_path / "out", load_catalog())
    catalog = load_catalog([tmp_path / "out"])
    assert "AWS" not in catalog.offers["provider"]
    assert catalog.servers.equals(load_catalog().servers)
    import_source("skypilot", SAMPLES / "skypilot", tmp_path / "beside", load_catalog(), beside=True)
    assert {"AWS", "aws"} <= set(load_catalog([tmp_path / "beside"]).offers["provider"])


def test_built_in_offers_step_aside_other_overlays_do_not(tmp_path: Path) -> None:
    import_source("quotes", SAMPLES / "quotes.csv", tmp_path / "quotes", load_catalog())
    import_source("skypilot", SAMPLES / "skypilot", tmp_path / "sky", load_catalog())
    catalog = load_catalog([tmp_path / "quotes", tmp_path / "sky"])
    assert "Nord Compute" in catalog.offers["provider"]
    assert "CoreWeave" not in catalog.offers["provider"]


def test_same_import_same_catalogue(tmp_path: Path) -> None:
    hashes = set()
    for name in ("a", "b"):
        import_source("skypilot", SAMPLES / "skypilot", tmp_path / name, load_catalog())
        hashes.add(load_catalog([tmp_path / name]).sha256)
    assert len(hashes) == 1


def test_edited_overlay_is_checked_in_full(tmp_path: Path) -> None:
    out = tmp_path / "out"
    import_source("skypilot", SAMPLES / "skypilot", out, load_catalog())
    table = out / "prices.csv"
    table.write_text(table.read_text("utf-8").replace("0.2,USD", "-0.2,USD", 1), encoding="utf-8")
    with pytest.raises(CatalogError, match=r"prices\.csv:\d+ +price_per_hour"):
        load_catalog([out])


@pytest.mark.parametrize(
    ("cell", "what"),
    [
        ("n/a", "is no number"),
        ('"1,234.5"', "thousands separators"),
        ("$3.2", "currency sign"),
        ("1.2.3", "is no number"),
    ],
)
def test_text_in_a_price_is_refused_with_file_and_row_and_nothing_is_written(
    tmp_path: Path, cell: str, what: str
) -> None:
    text = (SAMPLES / "skypilot/aws/vms.csv").read_text("utf-8").replace("22.0,", f"{cell},")
    (tmp_path / "vms.csv").write_text(text, encoding="utf-8")
    with pytest.raises(CatalogError, match=what) as caught:
        import_source("skypilot", tmp_path / "vms.csv", tmp_path / "out", load_catalog())
    assert [(issue.file, issue.row, issue.column) for issue in caught.value.issues] == [
        (str(tmp_path / "vms.csv"), 2, "Price")
    ]
    assert [p.name for p in tmp_path.iterdir()] == ["vms.csv"]


def test_wrong_columns_are_named(tmp_path: Path) -> None:
    (tmp_path / "vms.csv").write_text("InstanceTyp,Price\na,1\n", encoding="utf-8")
    with pytest.raises(CatalogError, match=r"vms.csv:1  InstanceType  column is missing; did you mean InstanceTyp\?"):
        import_skypilot(tmp_path / "vms.csv", load_catalog())


def test_byte_order_mark_is_no_matter(tmp_path: Path) -> None:
    data = (SAMPLES / "skypilot/aws/vms.csv").read_bytes()
    (tmp_path / "vms.csv").write_bytes(b"\xef\xbb\xbf" + data)
    assert import_skypilot(tmp_path / "vms.csv", load_catalog()).tables["offers"].height == 3


def test_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear", encoding="utf-8")
    with pytest.raises(CatalogError, match="holds other files"):
        import_source("skypilot", SAMPLES / "skypilot", tmp_path, load_catalog())
    assert [p.name for p in tmp_path.iterdir()] == ["letter.txt"]


def test_failed_import_leaves_the_earlier_one(tmp_path: Path) -> None:
    out = tmp_path / "out"
    import_source("skypilot", SAMPLES / "skypilot", out, load_catalog())
    before = {p.name: p.read_bytes() for p in out.iterdir()}
    bad = tmp_path / "vms.csv"
    bad.write_text((SAMPLES / "skypilot/aws/vms.csv").read_text("utf-8").replace("22.0", "x"), encoding="utf-8")
    with pytest.raises(CatalogError):
        import_source("skypilot", bad, out, load_catalog())
    assert {p.name: p.read_bytes() for p in out.iterdir()} == before


def test_whole_set_is_kept_as_counted_by_hand(shared: Path, tmp_path: Path) -> None:
    report = import_source("skypilot", shared / "reference/skypilot-catalog", tmp_path / "out", load_catalog())
    assert report.dropped["duplicate"] == 154
    assert report.remarks["unquoted comma in the last column mended"] == 27_141
    assert report.prices_dropped["spot price of zero or below"] == 64
    assert report.read == report.kept + sum(report.dropped.values())
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["offers.parquet", MANIFEST, "prices.parquet"]
    said = json.loads((tmp_path / "out" / MANIFEST).read_text("utf-8"))
    assert said["imported"]["rows"]["read"] == report.read
