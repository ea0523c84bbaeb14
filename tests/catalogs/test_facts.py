"""The fact importer: every fact row is in a table or refused; derived columns say what they must."""

from __future__ import annotations

import csv
from pathlib import Path

import polars as pl
import pytest

from catalogs.catalog import Catalog
from catalogs.importers.facts import OWN, fact_tables, import_facts
from catalogs.importers.facts_common import CONFIDENCE, price_confidence, read_facts, with_own
from catalogs.importers.facts_offers import (
    CAPACITY_BLOCK,
    GPU_PART_ONLY,
    has_rdma,
    link_class,
    offers,
    prices,
    refused_prices,
    shaped_offers,
)
from catalogs.importers.facts_terms import billing_rows, discounts, electricity
from catalogs.schema import TABLES
from tests.catalogs.conftest import DATA


def fact_rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


# --- coverage of the shared facts -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "table", "key"),
    [
        ("accelerators", "accelerators", "accelerator"),
        ("servers", "servers", "server"),
        ("cpus", "cpus", "cpu"),
        ("ram", "ram", "module"),
        ("storage", "storage", "storage"),
        ("network", "network", "network"),
    ],
)
def test_every_part_is_in_its_table(catalog: Catalog, shared: Path, file: str, table: str, key: str) -> None:
    names = [row["name"] for row in fact_rows(shared / "facts" / f"{file}.csv")]
    have: pl.DataFrame = getattr(catalog, table)
    plain = [name.split(" (")[0] if table in ("servers", "accelerators") else name for name in names]
    own = own_rows(table)
    assert sorted(have[key]) == sorted({*plain, *(row[key] for row in own)})
    assert len(set(plain)) == len(plain)
    for row in own:
        stated = have.filter(pl.col(key) == row[key]).to_dicts()[0]
        assert {c: "" if v is None else str(v) for c, v in stated.items() if c in ("source", "as_of")} == {
            c: row[c] for c in ("source", "as_of")
        }


def own_rows(table: str) -> list[dict[str, str]]:
    """Rows that were read after the facts were made."""
    return fact_rows(OWN / f"{table}.csv") if table == "storage" else []


def stated_prices(catalog: Catalog) -> pl.DataFrame:
    """Prices that stand in a table; commitments derived from them are left out."""
    return catalog.prices.filter(~pl.col("notes").fill_null("").str.starts_with("derived: on-demand price less"))


def test_every_offer_and_every_price_is_there_or_refused(catalog: Catalog, shared: Path) -> None:
    rows = fact_rows(shared / "facts" / "cloud_offers.csv")
    ids = {
        f"{r['provider']}/{r['offer'].replace(CAPACITY_BLOCK, '').replace(GPU_PART_ONLY, '')}/{r['region']}"
        for r in rows
    }
    assert set(catalog.offers["offer_id"]) == ids
    columns = ("on_demand_per_hour", "reserved_1y_per_hour", "reserved_3y_per_hour", "spot_per_hour")
    stated = sum(bool(row[column]) for row in rows for column in columns)
    refused = catalog.refused.filter(pl.col("file") == "cloud_offers.csv").height
    assert stated_prices(catalog).height + refused == stated
    assert refused == 1


def test_every_price_is_the_figure_of_its_fact(catalog: Catalog, shared: Path) -> None:
    modes = {"on_demand_per_hour": "on_demand", "reserved_1y_per_hour": "reserved", "spot_per_hour": "spot"}
    have = {
        (offer, billing): (price, currency)
        for offer, billing, price, currency in stated_prices(catalog)
        .select("offer_id", "billing", "price_per_hour", "currency")
        .iter_rows()
    }
    checked = 0
    for row in fact_rows(shared / "facts" / "cloud_offers.csv"):
        if row["offer"].endswith(GPU_PART_ONLY):
            continue
        block = row["offer"].endswith(CAPACITY_BLOCK)
        offer = f"{row['provider']}/{row['offer'].removesuffix(CAPACITY_BLOCK)}/{row['region']}"
        for column, billing in modes.items():
            if row[column]:
                mode = "capacity_block" if block else billing
                assert have[offer, mode] == (float(row[column]), row["currency"])
                checked += 1
    assert checked == stated_prices(catalog).height


def test_every_billing_row_is_in_one_table_or_refused(catalog: Catalog, shared: Path) -> None:
    taken = [catalog.discounts, catalog.spot_interruption, catalog.terms, catalog.egress, catalog.electricity]
    taken += [catalog.pue, catalog.colocation, catalog.maintenance, catalog.trends]
    from_facts = catalog.fx.filter(pl.col("from_currency").is_in(["USD", "EUR"]) & pl.col("rate_low").is_in([7.0, 1.1]))
    refused = catalog.refused.filter(pl.col("file") == "billing.csv").height
    rows = fact_rows(shared / "facts" / "billing.csv")
    own = fact_rows(OWN / "egress.csv")
    assert {r["provider"] for r in own} <= set(catalog.egress["provider"])
    assert sum(frame.height for frame in taken) + from_facts.height + refused == len(rows) + len(own)


def test_every_verified_word_has_a_confidence(shared: Path) -> None:
    words = {row["verified"] for file in (shared / "facts").glob("*.csv") for row in fact_rows(file)}
    assert words <= set(CONFIDENCE)


def test_import_gives_the_embedded_tables_again(shared: Path, tmp_path: Path) -> None:
    (tmp_path / "regions.csv").write_bytes((DATA / "regions.csv").read_bytes())
    report = import_facts(shared / "facts", tmp_path)
    for name, height in report.rows.items():
        assert (tmp_path / f"{name}.csv").read_bytes() == (DATA / f"{name}.csv").read_bytes(), name
        assert height == pl.read_csv(tmp_path / f"{name}.csv", infer_schema=False).height


def test_every_fact_table_has_the_columns_of_its_schema(shared: Path) -> None:
    regions = pl.read_csv(DATA / "regions.csv", infer_schema=False)
    for name, frame in fact_tables(shared / "facts", regions).items():
        assert set(TABLES[name].column_names()) <= set(frame.columns)


def test_a_row_of_our_own_comes_last_or_replaces_that_of_the_facts(tmp_path: Path) -> None:
    seen = pl.DataFrame({"storage": ["a", "b"], "price": [1.0, 2.0], "more": [True, False]})
    (tmp_path / "own.csv").write_text("storage,price\nb,3.5\nc,\n", encoding="utf-8")
    rows = with_own(seen, tmp_path / "own.csv", "storage").rows()
    assert rows == [("a", "1.0"), ("b", "3.5"), ("c", None)]


# --- derived columns, on samples of our own -------------------------------------------------------

HEAD = (
    "provider,offer,deployment_mode,gpu,gpu_count,vcpus,ram_gib,local_storage_tb,network_gbps,interconnect,"
    "region,currency,on_demand_per_hour,reserved_1y_per_hour,reserved_3y_per_hour,spot_per_hour,"
    "min_commit_hours,billing_granularity_s,compliance,source,as_of,reserved_as_of,spot_as_of,verified,notes\n"
)
CARDS = pl.DataFrame(
    {"accelerator": ["H100-80GB-SXM5", "L40S", "GB200-186GB"], "form_factor": ["SXM5", "PCIe", "NVL72 tray"]}
)
REGIONS = pl.DataFrame(
    {
        "provider": ["Cloud", "*", "Cloud"],
        "region": ["a-1", "us", "everywhere"],
        "country": ["DE", "US", None],
    }
)
INTERRUPTION = pl.DataFrame(
    {
        "provider": ["Cloud", "Cloud"],
        "family": ["big.8x", "small"],
        "region": ["a-1", "a-1"],
        "interruption_per_month": [0.075, 0.25],
    }
)


@pytest.fixture
def sample(tmp_path: Path) -> pl.DataFrame:
    rows = [
        "Cloud,big.8x,vm,H100-80GB-SXM5,8,96,1024,,3200,,a-1,USD,40,25,15,10,0,60,soc2,list,2026-06,"
        "2025-01,2026-05,seen,",
        "Cloud,big.8x capacity block,vm,H100-80GB-SXM5,8,96,1024,,3200,,a-1,USD,30,,,,24,86400,soc2,list,"
        "2024-12,,,seen,OLD",
        'Cloud,small.1x,vm,L40S,1,8,64,,25,,us,USD,2,,,0.5,0,60,,list,,,,"seen, summed",',
        "Cloud,odd,vm,L40S,4,,,,,,everywhere,CNY,,,,,0,60,,none,,,,recall,NO PRICE FOUND",
        "Cloud,tray,vm,GB200-186GB (per GPU),4,,,,,,us,USD,9,,,,0,60,,list,,,,doubtful,",
        "Cloud,half (GPU part only),vm,H100-80GB-SXM5,8,,,,,,us,USD,,,,5,0,60,,list,,,,doubtful,host extra",
    ]
    (tmp_path / "cloud_offers.csv").write_text(HEAD + "\n".join(rows) + "\n", encoding="utf-8")
    return shaped_offers(tmp_path, CARDS, REGIONS)


def test_capacity_block_is_a_price_of_the_same_offer(sample: pl.DataFrame) -> None:
    frame = offers(sample)
    assert frame["offer_id"].to_list() == [
        "Cloud/big.8x/a-1",
        "Cloud/small.1x/us",
        "Cloud/odd/everywhere",
        "Cloud/tray/us",
        "Cloud/half/us",
    ]
    block = prices(sample, INTERRUPTION).filter(pl.col("billing") == "capacity_block")
    assert block.select("offer_id", "price_per_hour", "min_hours", "upfront_share", "as_of").rows() == [
        ("Cloud/big.8x/a-1", 30.0, 24.0, 1.0, "2024-12")
    ]


def test_price_rows_keep_their_own_term_date_and_confidence(sample: pl.DataFrame) -> None:
    frame = prices(sample, INTERRUPTION).filter(pl.col("offer_id") == "Cloud/big.8x/a-1")
    seen = frame.select("billing", "term_months", "price_per_hour", "as_of", "confidence").rows()
    assert set(seen) == {
        ("on_demand", 0.0, 40.0, "2026-06", "listed"),
        ("capacity_block", 0.0, 30.0, "2024-12", "listed"),
        ("reserved", 12.0, 25.0, "2025-01", "derived"),
        ("reserved", 36.0, 15.0, "2025-01", "derived"),
        ("spot", 0.0, 10.0, "2026-05", "listed"),
    }


def test_unpriced_and_partly_priced_offers_give_no_price(sample: pl.DataFrame) -> None:
    priced = set(prices(sample, INTERRUPTION)["offer_id"])
    assert priced == {"Cloud/big.8x/a-1", "Cloud/small.1x/us", "Cloud/tray/us"}
    refused = refused_prices(sample)
    assert refused.select("row", "item").rows() == [(7, "spot price of half (GPU part only)")]


def test_interruption_is_joined_by_offer_then_family_in_its_region(sample: pl.DataFrame) -> None:
    spot = prices(sample, INTERRUPTION).filter(pl.col("billing") == "spot")
    assert dict(spot.select("offer_id", "interruption_per_month").iter_rows()) == {
        "Cloud/big.8x/a-1": 0.075,
        "Cloud/small.1x/us": None,  # the rate speaks of another region
    }
    rest = prices(sample, INTERRUPTION).filter(pl.col("billing") != "spot")
    assert rest["interruption_per_month"].null_count() == rest.height


def test_country_link_and_doubt(sample: pl.DataFrame) -> None:
    frame = offers(sample)
    columns = ("offer", "country", "interconnect_class", "doubtful", "accelerator")
    assert frame.select(columns).rows() == [
        ("big.8x", "DE", "nvlink", False, "H100-80GB-SXM5"),
        ("small.1x", "US", "pcie", False, "L40S"),
        ("odd", None, "pcie", False, "L40S"),
        ("tray", "US", "nvlink", True, "GB200-186GB"),
        ("half", "US", "nvlink", True, "H100-80GB-SXM5"),
    ]
    notes = dict(frame.select("offer", "notes").iter_rows())
    assert notes["big.8x"] == "interconnect_class derived from form factor SXM5"
    assert notes["small.1x"] is None


@pytest.mark.parametrize(
    ("count", "text", "form", "expected"),
    [
        (8, "NVLink4 + EFA v2", "SXM5", "nvlink"),
        (4, "NVLink3 bridge pairs", "PCIe", "bridge"),
        (8, "PCIe", "PCIe", "pcie"),
        (8, "Infinity Fabric + IB NDR 8x400G", "OAM", "nvlink"),
        (8, "RoCE v2 cluster network", "SXM4", "nvlink"),
        (8, "RoCE v2 cluster network", "PCIe", "pcie"),
        (8, None, "SXM2", "nvlink"),
        (8, None, "module", "nvlink"),
        (4, None, "PCIe LP", "pcie"),
        (8, "ICI", "cloud", "other"),
        (12, "NeuronLink-v2", "cloud", "other"),
        (4, None, "cloud", "other"),
        (1, "NVLink4 + EFA v2", "SXM5", "pcie"),
    ],
)
def test_link_class(count: int, text: str | None, form: str, expected: str) -> None:
    frame = pl.DataFrame({"n": [count], "t": [text], "f": [form]}, schema_overrides={"t": pl.String})
    assert frame.select(link_class(pl.col("n"), pl.col("t"), pl.col("f"))).item() == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("NVLink4 + EFA v2", True),
        ("NVLink3 + IB HDR 8x200G", True),
        ("NVLink + InfiniBand NDR", True),
        ("RoCE v2 cluster network", True),
        ("NVLink4, no IB", False),
        ("NVLink4 + TCPX 4x200G", False),
        ("NVLink3 bridge", False),
        (None, False),
    ],
)
def test_rdma(text: str | None, expected: bool) -> None:
    frame = pl.DataFrame({"t": [text]}, schema={"t": pl.String})
    assert frame.select(has_rdma(pl.col("t"))).item() is expected


def test_price_confidence_reads_the_basis() -> None:
    frame = pl.DataFrame(
        {
            "p": ["1", "1", "1", None],
            "price_basis": ["recalled range", "MSRP 499", "own estimate", "recalled"],
        }
    )
    assert frame.select(price_confidence("p")).to_series().to_list() == [
        "recalled",
        "recalled",
        "estimate",
        None,
    ]


BILLING = """kind,provider,item,region,value,unit,low,high,estimate,source,as_of,verified,notes
discount,AWS,"Compute Savings Plan (1y/3y), maximum",,66,% off on-demand,,66,,faq,2026-01,seen,
discount,AWS,1y reserved g5.48xlarge,us-east-1,37.0,% off on-demand,,,,export,2023-11,seen,
discount,AWS,"3y reserved/Savings Plan, working value",,58,% off on-demand,50,65,true,recalled,,recall,
discount,GCP,Dynamic Workload Scheduler flex-start,,53,% off on-demand,40,53,true,recalled,,recall,
discount,CN,monthly subscription vs pay-as-you-go,cn,40,% off on-demand,30,50,true,own,2026-11,estimate,
spot_saving,AWS,p5.48xlarge,us-east-1,52,% off on-demand,,,,advisor,2025-07,seen,
electricity,,commercial,us-ca,0.2946,USD/kWh,,,,eia,2026-04,seen,
electricity,,business,uk,0.32,USD/kWh,,,true,recalled,,recall,
"""


def test_billing_rows_are_read_by_their_words(tmp_path: Path) -> None:
    (tmp_path / "billing.csv").write_text(BILLING, encoding="utf-8")
    rows = billing_rows(tmp_path)
    assert discounts(rows).select("billing", "term_months", "role", "discount").rows() == [
        ("reserved", None, "maximum", 0.66),
        ("reserved", 12.0, "observed", 0.37),
        ("reserved", 36.0, "working", 0.58),
        ("flex_start", 0.0, "maximum", 0.53),
        ("subscription", 1.0, "working", 0.4),
        ("spot", 0.0, "observed", 0.52),
    ]
    assert electricity(rows).select("country", "region", "price_per_kwh_usd").rows() == [
        ("US", "CA", 0.2946),
        ("GB", "*", 0.32),
    ]


def test_fact_row_is_the_line_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("name,x\na,\n b ,1\n", encoding="utf-8")
    assert read_facts(tmp_path / "t.csv").rows() == [(2, "a", None), (3, "b", "1")]


# --- what the embedded catalogue says -------------------------------------------------------------


def test_ambiguous_places_claim_no_country(catalog: Catalog) -> None:
    rows = catalog.offers.filter(pl.col("country").is_null())
    assert set(rows["region"]) == {"global", "global list price", "fr-par/pl-waw"}
    known = dict(catalog.offers.select("region", "country").unique().iter_rows())
    assert (known["us-east-1"], known["cn-north-1"], known["fi"], known["japaneast"]) == (
        "US",
        "CN",
        "FI",
        "JP",
    )


def test_aws_interruption_follows_the_published_class(catalog: Catalog) -> None:
    spot = catalog.prices.filter(pl.col("billing") == "spot")
    rates = dict(spot.select("offer_id", "interruption_per_month").iter_rows())
    assert rates["AWS/p5.48xlarge/us-east-1"] == 0.25
    assert rates["AWS/p5en.48xlarge/us-east-1"] == 0.025
    assert rates["AWS/g4dn.12xlarge/us-east-1"] == 0.125
    assert rates["GCP/a2-highgpu-8g/us-central1"] is None


def test_prices_stay_in_the_currency_they_were_given(catalog: Catalog) -> None:
    rows = catalog.offers.join(catalog.prices, on="offer_id")
    assert set(rows.filter(pl.col("currency") == "CNY")["country"]) == {"CN"}


def test_priced_per_card_offers_hold_one_card(catalog: Catalog) -> None:
    per_card = catalog.offers.filter(pl.col("offer").str.contains("(?i)per card|per GPU"))
    assert per_card.height > 10
    assert set(per_card["accelerator_count"]) == {1}


def test_capacity_blocks_are_paid_up_front_by_the_day(catalog: Catalog) -> None:
    rows = catalog.prices.filter(pl.col("billing") == "capacity_block")
    assert rows.height == 4
    assert rows.select("min_hours", "granularity_s", "upfront_share").unique().rows() == [(24.0, 86400.0, 1.0)]
    assert not catalog.offers["offer"].str.contains("capacity block").any()
