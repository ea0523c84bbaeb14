"""Derived commitments, the private discount book, and differences between catalogues."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path

import polars as pl
import pytest

from catalogs.book import apply_book
from catalogs.catalog import Catalog
from catalogs.commitments import derive_commitments, usual_discounts
from catalogs.diff import diff
from catalogs.errors import CatalogError
from catalogs.load import load_catalog
from catalogs.query import Where, list_offers
from problems.load import load_text
from solver.solve import solve
from solver.verify import verify

ASSUMPTIONS = "key,value,unit,source,as_of,confidence,notes\n"
BOOK = "provider,family,offer,billing,discount,price_per_hour,currency,valid_until,source,confidence\n"


def price(catalog: Catalog, offer_id: str, billing: str = "on_demand", term: float = 0) -> float:
    rows = catalog.prices.filter(
        pl.col("offer_id") == offer_id, pl.col("billing") == billing, pl.col("term_months") == term
    )
    return float(rows["price_per_hour"].item())


# --- derived commitments ----------------------------------------------------------------------------------


def test_missing_terms_derive_from_the_working_discount(catalog: Catalog) -> None:
    machine = "AWS/p5.48xlarge/us-east-1"
    assert price(catalog, machine, "reserved", 36) == pytest.approx(price(catalog, machine) * 0.42, abs=1e-6)
    row = catalog.prices.filter(pl.col("offer_id") == machine, pl.col("term_months") == 36).row(0, named=True)
    assert row["confidence"] == "recalled"
    assert row["notes"] == "derived: on-demand price less 58.0 %; working value of AWS"


def test_listed_terms_stay_as_they_are(catalog: Catalog) -> None:
    machine = "AWS/g4dn.12xlarge/us-east-1"
    assert price(catalog, machine, "reserved", 12) == 2.465


def test_derived_price_is_no_surer_than_what_it_is_made_of(catalog: Catalog) -> None:
    derived = catalog.prices.filter(pl.col("notes").str.starts_with("derived: "))
    assert set(derived["confidence"]) <= {"derived", "estimate", "recalled"}
    kept = list_offers(catalog, Where(min_confidence="listed")).frame
    assert not kept["notes"].fill_null("").str.starts_with("derived: ").any()


def test_observations_stand_in_where_there_is_no_working_value(catalog: Catalog) -> None:
    rates = usual_discounts(catalog.discounts)
    azure = rates.filter(pl.col("who") == "azure", pl.col("term_months") == 12).row(0, named=True)
    seen = catalog.discounts.filter(
        pl.col("provider") == "Azure", pl.col("billing") == "reserved", pl.col("term_months") == 12
    )
    assert azure["rate"] == seen["discount"].median()


def test_subscriptions_derive_in_china_for_its_own_clouds_only(catalog: Catalog) -> None:
    derived = catalog.prices.filter(pl.col("billing") == "subscription", pl.col("notes").str.starts_with("derived: "))
    places = derived.join(catalog.offers, on="offer_id")
    assert set(places["country"]) == {"CN"}
    assert "AWS" not in set(places["provider"])


def test_switch_leaves_derived_terms_out(overlay: Callable[..., Path]) -> None:
    off = load_catalog([overlay(assumptions=ASSUMPTIONS + "derive_commitments,0,1 = yes,own,,derived,\n")])
    assert derive_commitments(
        {name: getattr(off, name) for name in ("prices", "offers", "assumptions", "discounts")}
    ).is_empty()
    assert not off.prices["notes"].fill_null("").str.starts_with("derived: ").any()


# --- discount book ----------------------------------------------------------------------------------------


def test_the_most_particular_row_of_the_book_wins(overlay: Callable[..., Path], catalog: Catalog) -> None:
    book = BOOK + (
        "aws,*,*,*,0.1,,,,frame contract,listed\n"
        "AWS,p5,*,*,0.2,,,,frame contract,listed\n"
        "AWS,*,p5.48xlarge,on_demand,,40,USD,,quote 7,listed\n"
    )
    mine = load_catalog([overlay(book=book)])
    assert price(mine, "AWS/p5.48xlarge/us-east-1") == 40
    assert price(mine, "AWS/p5.4xlarge/us-east-1") == pytest.approx(price(catalog, "AWS/p5.4xlarge/us-east-1") * 0.8)
    for billing, term in (("on_demand", 0), ("reserved", 12)):
        machine = "AWS/g4dn.12xlarge/us-east-1"
        assert price(mine, machine, billing, term) == pytest.approx(price(catalog, machine, billing, term) * 0.9)
    assert price(mine, "Azure/Standard_ND96isr_H100_v5/eastus") == price(
        catalog, "Azure/Standard_ND96isr_H100_v5/eastus"
    )


def test_book_prices_carry_their_source(overlay: Callable[..., Path]) -> None:
    mine = load_catalog([overlay(book=BOOK + "AWS,*,p5.48xlarge,on_demand,0.25,,,,contract 9,listed\n")])
    row = mine.prices.filter(pl.col("offer_id") == "AWS/p5.48xlarge/us-east-1", pl.col("billing") == "on_demand").row(
        0, named=True
    )
    assert row["source"] == "contract 9"
    assert row["notes"].startswith("own discount 25.0 %")


def test_book_price_adds_a_way_to_pay_only_for_a_named_offer(overlay: Callable[..., Path], catalog: Catalog) -> None:
    unpriced = catalog.offers.join(catalog.prices, on="offer_id", how="anti").row(0, named=True)
    row = f"{unpriced['provider']},*,{unpriced['offer']},on_demand,,3.5,USD,,quote,listed\n"
    mine = load_catalog([overlay(book=BOOK + row)])
    assert price(mine, unpriced["offer_id"]) == 3.5


def test_expired_rows_are_not_applied(catalog: Catalog) -> None:
    rows = {"provider": "AWS", "family": "*", "offer": "*", "billing": "*", "discount": 0.5, "valid_until": "2026-06"}
    rows |= {"source": "s", "confidence": "listed"}
    book = pl.concat([catalog.book, pl.DataFrame([rows])], how="diagonal_relaxed")
    after = apply_book(catalog.prices, catalog.offers, book, date(2026, 7, 1))
    assert after.equals(catalog.prices)
    assert not apply_book(catalog.prices, catalog.offers, book, date(2026, 6, 30)).equals(catalog.prices)


@pytest.mark.parametrize("row", ["AWS,*,*,*,0.1,3,USD,,s,listed", "AWS,*,*,*,,,,,s,listed", "AWS,*,*,*,,3,,,s,listed"])
def test_book_row_is_a_discount_or_a_price(overlay: Callable[..., Path], row: str) -> None:
    with pytest.raises(CatalogError, match="discount or a price"):
        load_catalog([overlay(book=BOOK + row + "\n")])


def test_plans_pay_the_negotiated_price(overlay: Callable[..., Path]) -> None:
    mine = load_catalog([overlay(book=BOOK + "AWS,*,p5.48xlarge,on_demand,,10,USD,,quote,listed\n")])
    loaded = load_text(
        "workloads: [{name: lab, kind: fixed, accelerator: H100, count: 8}]\n"
        "policy: {billing: [on_demand]}\nhorizon: 1mo\nlimits: {regions: [us-east-1], providers: [aws]}\n"
    )
    result = solve(loaded, mine)
    assert result.cost is not None
    assert float(result.cost.total) == 7300
    assert verify(result, loaded.problem, mine) == []


# --- spot floors, stock, quantities -----------------------------------------------------------------------

OFFERS = "offer_id,provider,offer,deployment_mode,accelerator,accelerator_count,vcpus,ram_gib,rdma,interconnect_class,country,region,doubtful,stock,min_nodes,source,confidence\n"
PRICES = "offer_id,billing,term_months,upfront_share,price_per_hour,currency,min_hours,granularity_s,interruption_per_month,source,confidence\n"


def machine(name: str, stock: str = "", least: str = "") -> str:
    return f"{name},N,{name},vm,L4,1,8,32,false,pcie,DE,r,false,{stock},{least},s,listed\n"


def rate(name: str, billing: str, amount: float, taken: str = "") -> str:
    return f"{name},{billing},0,0,{amount},USD,0,3600,{taken},s,listed\n"


def lab(policy: str = "", nodes: int = 1) -> str:
    return (
        f"workloads: [{{name: lab, kind: fixed, accelerator: L4, nodes: {nodes}, spot: true}}]\n"
        f"limits: {{providers: [N]}}\nhorizon: 1mo\npolicy: {{billing: [on_demand, spot]{policy}}}\n"
    )


@pytest.mark.parametrize(
    ("policy", "billing"),
    [
        ("", "spot"),
        (", spot_min_saving: 40%", "spot"),
        (", spot_min_saving: 41%", "on_demand"),
        (", spot_max_interruption: 20%", "spot"),
        (", spot_max_interruption: 19%", "on_demand"),
    ],
)
def test_spot_only_where_it_saves_enough_and_stays_long_enough(
    overlay: Callable[..., Path], policy: str, billing: str
) -> None:
    prices = PRICES + rate("a", "on_demand", 1.0) + rate("a", "spot", 0.6, "0.2")
    catalog = load_catalog([overlay(offers=OFFERS + machine("a"), prices=prices)])
    loaded = load_text(lab(policy))
    result = solve(loaded, catalog)
    assert [item.billing for item in result.items] == [billing]
    assert verify(result, loaded.problem, catalog) == []


def test_recheck_refuses_spot_that_saves_too_little(overlay: Callable[..., Path]) -> None:
    prices = PRICES + rate("a", "on_demand", 1.0) + rate("a", "spot", 0.6, "0.2")
    catalog = load_catalog([overlay(offers=OFFERS + machine("a"), prices=prices)])
    result = solve(load_text(lab()), catalog)
    for policy, what in ((", spot_min_saving: 41%", "saves less"), (", spot_max_interruption: 19%", "interrupted")):
        faults = verify(result, load_text(lab(policy)).problem, catalog)
        assert any(what in fault for fault in faults)


def test_stock_is_a_limit(overlay: Callable[..., Path]) -> None:
    offers = OFFERS + machine("few", stock="2") + machine("many")
    prices = PRICES + rate("few", "on_demand", 1.0) + rate("many", "on_demand", 1.5)
    catalog = load_catalog([overlay(offers=offers, prices=prices)])
    assert [i.pool for i in solve(load_text(lab(nodes=2)), catalog).items] == ["few"]
    assert [i.pool for i in solve(load_text(lab(nodes=3)), catalog).items] == ["many"]


def test_quantity_price_holds_from_its_quantity_on(overlay: Callable[..., Path]) -> None:
    offers = OFFERS + machine("one") + machine("from4", least="4")
    prices = PRICES + rate("one", "on_demand", 1.0) + rate("from4", "on_demand", 0.8)
    catalog = load_catalog([overlay(offers=offers, prices=prices)])
    for nodes, name in ((3, "one"), (4, "from4"), (5, "from4")):
        loaded = load_text(lab(nodes=nodes))
        result = solve(loaded, catalog)
        assert [item.pool for item in result.items] == [name]
        assert verify(result, loaded.problem, catalog) == []


# --- differences ------------------------------------------------------------------------------------------


def test_diff_says_what_was_added_gone_dearer_cheaper(overlay: Callable[..., Path], tmp_path: Path) -> None:
    offers = OFFERS + machine("a") + machine("b") + machine("c")
    old = PRICES + rate("a", "on_demand", 1.0) + rate("b", "on_demand", 2.0) + rate("c", "spot", 1.0)
    new = PRICES + rate("a", "on_demand", 1.5) + rate("b", "on_demand", 1.0) + rate("c", "on_demand", 3.0)
    before = load_catalog([overlay(offers=offers, prices=old)])
    after = tmp_path / "after"
    after.mkdir()
    (after / "offers.csv").write_text(offers, encoding="utf-8")
    (after / "prices.csv").write_text(new, encoding="utf-8")
    found = diff(before, load_catalog([after]))
    assert found.changes.select("change", "item", "before", "after", "percent").rows() == [
        ("dearer", "a", 1.0, 1.5, 50.0),
        ("cheaper", "b", 2.0, 1.0, -50.0),
        ("added", "c", None, 3.0, None),
        ("gone", "c", 1.0, None, None),
    ]
    assert {k: v for k, v in found.counts.items() if k != "same"} == {"added": 1, "gone": 1, "dearer": 1, "cheaper": 1}
    assert diff(before, before).changes.is_empty()


def test_diff_compares_changed_currencies_in_dollars(overlay: Callable[..., Path], tmp_path: Path) -> None:
    before = load_catalog([overlay(offers=OFFERS + machine("a"), prices=PRICES + rate("a", "on_demand", 1.0))])
    after = tmp_path / "after"
    after.mkdir()
    (after / "offers.csv").write_text(OFFERS + machine("a"), encoding="utf-8")
    (after / "prices.csv").write_text(PRICES + rate("a", "on_demand", 14.4).replace("USD", "CNY"), encoding="utf-8")
    row = diff(before, load_catalog([after])).changes.row(0, named=True)
    assert (row["change"], row["currency"], row["percent"]) == ("dearer", "USD", 100.0)
