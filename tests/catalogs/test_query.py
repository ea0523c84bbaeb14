"""Lists, entries, sources, money and checks of a catalogue."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import date
from pathlib import Path

import polars as pl
import pytest

from catalogs.catalog import Catalog
from catalogs.checks import CHECKS, check
from catalogs.errors import UnknownName
from catalogs.load import load_catalog
from catalogs.money import age_days, convert, rates_to
from catalogs.query import Where, list_offers, price_list, show, sources, trusted
from catalogs.schema import TABLES

TODAY = date(2026, 11, 30)


# --- money and ages -------------------------------------------------------------------------------


def test_rates_are_given_inverted_or_crossed(catalog: Catalog) -> None:
    usd = dict(rates_to(catalog, "USD").select("currency", "rate").iter_rows())
    cny = dict(rates_to(catalog, "CNY").select("currency", "rate").iter_rows())
    assert usd["USD"] == 1
    assert usd["EUR"] == 1.16
    assert usd["CNY"] == pytest.approx(1 / 7.2)
    assert cny["USD"] == 7.2
    assert cny["EUR"] == pytest.approx(1.16 * 7.2)
    assert set(usd) == {"USD", "CNY", "EUR", "GBP", "JPY", "HKD", "SGD"}


def test_there_and_back_is_the_same_money(catalog: Catalog) -> None:
    names = rates_to(catalog, "USD")["currency"]
    for a in names:
        forth = dict(rates_to(catalog, a).select("currency", "rate").iter_rows())
        for b in names:
            back = dict(rates_to(catalog, b).select("currency", "rate").iter_rows())
            assert forth[b] * back[a] == pytest.approx(1)


def test_unknown_currency(catalog: Catalog) -> None:
    with pytest.raises(UnknownName, match="unknown currency 'XAU'"):
        rates_to(catalog, "XAU")


def test_convert_leaves_null_where_no_rate_is_known(catalog: Catalog) -> None:
    frame = pl.DataFrame({"price_per_hour": [7.2, 2.0, 1.0], "currency": ["CNY", "USD", "XAU"]})
    assert convert(frame, "price_per_hour", catalog, "USD")["price"].to_list() == [
        pytest.approx(1.0),
        2.0,
        None,
    ]


def test_age_counts_from_the_first_day_of_a_month() -> None:
    frame = pl.DataFrame({"as_of": ["2026-11", "2026-11-20", None]})
    assert frame.select(age_days("as_of", TODAY)).to_series().to_list() == [29, 10, None]


# --- lists ----------------------------------------------------------------------------------------


def test_list_is_cheapest_first_with_unpriced_rows_last(catalog: Catalog) -> None:
    page = list_offers(catalog, today=TODAY)
    prices = page.frame["price_per_gpu_hour"]
    priced = prices.drop_nulls()
    assert priced.is_sorted()
    assert prices.null_count() > 0
    assert prices.tail(prices.null_count()).is_null().all()
    assert page.total == catalog.prices.height + prices.null_count()


def test_filters_agree_with_a_plain_query(catalog: Catalog) -> None:
    page = list_offers(catalog, Where(gpu="H100", country="US", billing="on_demand"), limit=3, today=TODAY)
    names = ["H100-80GB-PCIe", "H100-80GB-SXM5", "H100-94GB-NVL"]
    plain = (
        catalog.offers.filter(pl.col("accelerator").is_in(names) & (pl.col("country") == "US"))
        .join(catalog.prices.filter(pl.col("billing") == "on_demand"), on="offer_id")
        .with_columns(each=pl.col("price_per_hour") / pl.col("accelerator_count"))
    )
    assert page.total == plain.height
    assert page.caption == f"shown 3 of {plain.height}"
    assert page.frame["price_per_gpu_hour"].to_list() == plain["each"].sort().head(3).to_list()


def test_price_in_another_currency(catalog: Catalog) -> None:
    dollars = list_offers(catalog, Where(gpu="A800", billing="on_demand"), today=TODAY).frame
    yuan = list_offers(catalog, Where(gpu="A800", billing="on_demand"), currency="CNY", today=TODAY).frame
    assert yuan["price"].to_list() == [5.15]
    assert dollars["price"].to_list() == pytest.approx([5.15 / 7.2])
    assert dollars["currency"].to_list() == ["CNY"]


@pytest.mark.parametrize(
    ("region", "inside", "outside"),
    [
        ("eu", {"FI", "NL", "SE"}, {"US", "GB", "CN"}),
        ("us", {"US"}, {"AU", "CN"}),
        ("us-east-1", {"US"}, {"CN"}),
        ("cn", {"CN"}, {"US"}),
    ],
)
def test_region_filter(catalog: Catalog, region: str, inside: set[str], outside: set[str]) -> None:
    found = set(list_offers(catalog, Where(region=region), today=TODAY).frame["country"].drop_nulls())
    assert inside <= found
    assert not outside & found


def test_eu_does_not_take_regions_by_the_letters_in_their_name(catalog: Catalog) -> None:
    regions = set(list_offers(catalog, Where(region="eu"), today=TODAY).frame["region"])
    assert "eastus" not in regions
    assert {"eu-north1", "westeurope", "swedencentral", "fi", "europe-west4"} <= regions


def test_provider_by_any_case_or_beginning(catalog: Catalog) -> None:
    for asked in ("Verda (DataCrunch)", "verda", "VERDA"):
        assert set(list_offers(catalog, Where(provider=asked), today=TODAY).frame["provider"]) == {"Verda (DataCrunch)"}


def test_doubtful_rows_can_be_left_out(catalog: Catalog) -> None:
    every = list_offers(catalog, Where(), today=TODAY)
    sure = list_offers(catalog, Where(doubtful=False), today=TODAY)
    assert every.total > sure.total
    assert not sure.frame["doubtful"].any()


def test_min_confidence_orders_the_words() -> None:
    frame = pl.DataFrame({"confidence": ["measured", "listed", "derived", "estimate", "recalled"]})
    assert frame.filter(trusted("derived"))["confidence"].to_list() == ["measured", "listed", "derived"]
    assert frame.filter(trusted("recalled")).height == 5
    with pytest.raises(UnknownName):
        trusted("sure")


@pytest.mark.parametrize(
    ("where", "sort", "message"),
    [
        (Where(gpu="H10O"), "price", "unknown accelerator 'H10O'; did you mean H100-80GB-PCIe"),
        (Where(provider="Lamda"), "price", "unknown provider 'Lamda'; did you mean Lambda"),
        (Where(region="us-eest-1"), "price", "unknown region 'us-eest-1'; did you mean us-east-1"),
        (Where(country="XX"), "price", "unknown country 'XX'"),
        (Where(billing="spott"), "price", "unknown billing mode 'spott'; did you mean spot"),
        (Where(), "prise", "unknown sort column 'prise'; did you mean price"),
    ],
)
def test_unknown_words_are_named_with_the_nearest(catalog: Catalog, where: Where, sort: str, message: str) -> None:
    with pytest.raises(UnknownName) as caught:
        list_offers(catalog, where, sort=sort, today=TODAY)
    assert str(caught.value).startswith(message)


def test_every_offer_is_in_the_price_list(catalog: Catalog) -> None:
    rows = price_list(catalog, today=TODAY)
    assert set(rows["offer_id"]) == set(catalog.offers["offer_id"])
    assert rows.filter(pl.col("price_per_hour").is_not_null())["price"].null_count() == 0


# --- entries and sources --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "tables"),
    [
        ("H100", ["accelerators", "offers", "servers"]),
        ("p5.48xlarge", ["offers"]),
        ("aws/p5.48xlarge", ["offers"]),
        ("AWS/p5.48xlarge/us-east-1", ["offers"]),
        ("dgx-h100", ["servers"]),
        ("EPYC-7742", ["cpus"]),
        ("InfiniBand-NDR", ["network"]),
    ],
)
def test_show(catalog: Catalog, name: str, tables: list[str]) -> None:
    sections = show(catalog, name, today=TODAY)
    assert [section.table for section in sections] == tables
    assert all(section.frame.height for section in sections)


def test_show_suggests_over_all_tables(catalog: Catalog) -> None:
    with pytest.raises(UnknownName) as caught:
        show(catalog, "EPYC-7472", today=TODAY)
    assert "EPYC-7742" in caught.value.suggestions


def test_sources_count_every_row(catalog: Catalog) -> None:
    rows = sources(catalog, TODAY)
    assert rows["rows"].sum() == sum(getattr(catalog, name).height for name in TABLES)
    assert rows.filter(pl.col("undated") == pl.col("rows"))["age_days"].null_count() > 0


# --- checks ---------------------------------------------------------------------------------------


def findings(catalog: Catalog, name: str) -> list[str]:
    return check(catalog, TODAY).filter(pl.col("check") == name)["row"].to_list()


def changed(catalog: Catalog, table: str, name: str, **values: object) -> Catalog:
    """The catalogue with some columns of one row of `table` set."""
    key = TABLES[table].primary_key()[0]
    frame: pl.DataFrame = getattr(catalog, table)
    new = frame.with_columns(
        pl.when(pl.col(key) == name).then(pl.lit(value, frame.schema[column])).otherwise(pl.col(column)).alias(column)
        for column, value in values.items()
    )
    return dataclasses.replace(catalog, **{table: new})


def test_default_catalogue_has_no_errors(catalog: Catalog) -> None:
    found = check(catalog, TODAY)
    assert found.filter(pl.col("severity") == "error").rows() == []
    assert set(found["check"]) <= set(CHECKS)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("L40S", {"fp16_dense_tflops": 733.0, "bf16_dense_tflops": 733.0}),
        ("H100-80GB-SXM5", {"fp8_dense_tflops": 3958.0}),
        ("H100-80GB-SXM5", {"fp16_dense_tflops": 1979.0, "bf16_dense_tflops": 1979.0}),
        ("A100-80GB-SXM4", {"int8_dense_tops": 1248.0}),
        ("RTX-4090", {"fp16_dense_tflops": 660.6}),
        ("B200-180GB-SXM6", {"fp4_dense_tflops": 18000.0}),
    ],
)
def test_sparse_figures_are_found(catalog: Catalog, name: str, values: dict[str, float]) -> None:
    assert findings(catalog, "dense_not_sparse") == []
    assert set(findings(changed(catalog, "accelerators", name, **values), "dense_not_sparse")) == {name}


@pytest.mark.parametrize("bandwidth", [335.0, 33500.0])
def test_bandwidth_off_by_ten_is_found(catalog: Catalog, bandwidth: float) -> None:
    odd = changed(catalog, "accelerators", "H100-80GB-SXM5", bandwidth_gb_s=bandwidth)
    assert findings(catalog, "bandwidth_of_memory") == []
    assert findings(odd, "bandwidth_of_memory") == ["H100-80GB-SXM5"]


def test_price_outlier_is_found_both_ways(catalog: Catalog) -> None:
    name = "AWS/p5.48xlarge/us-east-1"
    assert not [row for row in findings(catalog, "price_outlier") if row.startswith(name)]
    for price in (1.0, 2000.0):
        odd = changed(catalog, "prices", name, price_per_hour=price)
        assert f"{name} on_demand" in findings(odd, "price_outlier")


def test_spot_that_saves_nothing_is_found(catalog: Catalog) -> None:
    assert findings(catalog, "spot_above_on_demand") == []
    odd = changed(catalog, "prices", "AWS/g6.xlarge/us-east-1", price_per_hour=0.9)
    assert findings(odd, "spot_above_on_demand") == ["AWS/g6.xlarge/us-east-1"]


def test_orphan_is_found(catalog: Catalog) -> None:
    odd = changed(catalog, "offers", "AWS/p5.48xlarge/us-east-1", accelerator="H999")
    assert findings(odd, "orphan_reference") == ["AWS/p5.48xlarge/us-east-1"]


def test_undated_stale_unpriced_and_doubtful_rows_are_named(catalog: Catalog) -> None:
    undated = catalog.prices["as_of"].null_count()
    assert len(findings(catalog, "missing_as_of")) == undated > 0
    assert "AWS/p5.48xlarge/us-east-2 capacity_block" in findings(catalog, "stale_price")
    assert "Vast.ai/H100 SXM median/global on_demand" not in findings(catalog, "stale_price")
    assert "AutoDL/H800 per card/cn" in findings(catalog, "unpriced_offer")
    assert len(findings(catalog, "doubtful_offer")) == catalog.offers["doubtful"].sum()


def test_an_overlay_shows_up_in_lists(overlay: Callable[..., Path]) -> None:
    offer = "offer_id,provider,offer,deployment_mode,accelerator,accelerator_count,rdma,"
    offer += "interconnect_class,country,region,doubtful,source,as_of,confidence\n"
    offer += "Me/box/de,Me,box,vm,L40S,2,false,pcie,DE,de,false,quote,2026-11-25,measured\n"
    price = "offer_id,billing,term_months,upfront_share,price_per_hour,currency,"
    price += "min_hours,granularity_s,source,as_of,confidence\n"
    price += "Me/box/de,on_demand,0,0,1.16,EUR,0,1,quote,2026-11-25,measured\n"
    laid = load_catalog([overlay(offers=offer, prices=price)])
    row = list_offers(laid, Where(provider="me"), today=TODAY).frame.row(0, named=True)
    assert row["price_per_gpu_hour"] == pytest.approx(1.16 * 1.16 / 2)
    assert (row["age_days"], row["confidence"]) == (5, "measured")
