"""Money over time, by hand: every expected figure has its arithmetic beside it."""

from __future__ import annotations

import math

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solver.features import compare, finance, tco

PRICE = st.floats(1.0, 1e7)
RATE = st.floats(0.0, 0.5)


# --- time value --------------------------------------------------------------------------------------------------------


def test_annuity_pays_the_principal_back() -> None:
    # 250,000 over 3 years at 8 %: 250,000 x 0.08 / (1 - 1.08^-3) = 20,000 / 0.2061678 = 97,008.38
    assert finance.annuity(250_000, 0.08, 3) == pytest.approx(97_008.38, abs=0.01)
    # With 50,000 back at the end: (250,000 - 50,000/1.259712) x 0.08 / 0.2061678 = 210,308.4 x 0.388034 = 81,606.70
    assert finance.annuity(250_000, 0.08, 3, residual=50_000) == pytest.approx(81_606.70, abs=0.01)


def test_annuity_without_interest_is_the_plain_share() -> None:
    assert finance.annuity(36_000, 0.0, 36) == 1000
    assert finance.annuity_factor(0.0, 7.5) == 7.5


@pytest.mark.parametrize(("rate", "periods"), [(0.1, 0), (0.1, -3), (-1.0, 12)])
def test_annuity_refuses_what_has_no_meaning(rate: float, periods: float) -> None:
    with pytest.raises(ValueError, match="period"):
        finance.annuity_factor(rate, periods)


@given(PRICE, st.floats(0.0001, 0.5), st.integers(1, 60))
def test_instalments_are_worth_the_principal(principal: float, rate: float, periods: int) -> None:
    payment = finance.annuity(principal, rate, periods)
    assert finance.present_value([payment] * periods, rate, first_period=1) == pytest.approx(principal, rel=1e-6)


@given(st.integers(1, 60))
def test_annuity_factor_is_continuous_at_a_rate_of_zero(periods: int) -> None:
    assert finance.annuity_factor(1e-9, periods) == pytest.approx(periods, rel=1e-5)


def test_straight_line_and_tax_table() -> None:
    assert finance.straight_line(250_000, 50_000, 4) == 50_000
    assert finance.tax_depreciation(250_000, [20, 32, 48]) == [50_000, 80_000, 120_000]
    with pytest.raises(ValueError, match="100"):
        finance.tax_depreciation(1, [60, 60])
    with pytest.raises(ValueError, match="life"):
        finance.straight_line(1, 0, 0)


def test_residual_falls_by_the_same_share_each_month() -> None:
    assert finance.residual_value(100_000, 36, 0.3) == pytest.approx(30_000)
    # Half the way: 100,000 x 0.3^0.5
    assert finance.residual_value(100_000, 18, 0.3) == pytest.approx(100_000 * math.sqrt(0.3))
    assert finance.residual_value(100_000, 0, 0.3) == 100_000
    assert finance.residual_value(100_000, 36, 0.0) == 0
    with pytest.raises(ValueError, match="share"):
        finance.residual_value(1, 1, 1.2)


# --- break-even --------------------------------------------------------------------------------------------------------


def test_break_even_of_a_published_server() -> None:
    # 833,806 / (98.32 - 0.87) = 833,806 / 97.45 = 8,556.24 h; / 720 = 11.88 months; / 8,760 = 0.977 years
    hours = finance.break_even_hours(833_806, 0.87, 98.32)
    assert hours == pytest.approx(8556.24, abs=0.01)
    assert finance.break_even_months(hours, 720) == pytest.approx(11.88, abs=0.01)
    assert finance.break_even_months(hours) == pytest.approx(8556.24 / 730, abs=0.01)
    assert finance.break_even_years(hours) == pytest.approx(0.977, abs=0.001)
    # At 8 h a day three times as long.
    assert finance.break_even_years(hours, 8) == pytest.approx(2.930, abs=0.001)


def test_break_even_that_never_comes_is_none() -> None:
    assert finance.break_even_hours(200_000, 40, 24) is None
    assert finance.break_even_hours(200_000, 24, 24) is None
    assert finance.break_even_months(None) is None
    assert finance.break_even_months(100, utilisation=0) is None
    assert finance.break_even_years(None) is None
    assert finance.break_even_years(10, 0) is None
    assert finance.discounted_break_even_months(1000, 0) is None
    assert finance.break_even_utilisation(20, 10) is None
    assert finance.break_even_utilisation(20, 66, 70) is None


def test_a_machine_that_costs_nothing_net_is_ahead_at_once() -> None:
    assert finance.break_even_hours(100, 1, 2, residual=100) == 0
    assert finance.break_even_hours(100, 3, 2, residual=100) is None
    assert finance.discounted_break_even_months(0, 10, 0.1) == 0


def test_use_at_which_owning_wins() -> None:
    # 20 an hour whatever happens, against 66 for each hour rented: 20/66; with 6 for each hour run: 20/60.
    assert finance.break_even_utilisation(20, 66) == pytest.approx(20 / 66)
    assert finance.break_even_utilisation(20, 66, 6) == pytest.approx(1 / 3)
    assert finance.cost_per_used_hour(20, 0.08) == pytest.approx(250)
    assert finance.cost_per_used_hour(20, 0.0) is None


def test_discounting_delays_the_break_even() -> None:
    # Yearly 12.6825 % is 1 % a month: n = -ln(1 - 0.01 x 1000 / 100) / ln 1.01 = 10.589 instead of 10
    rate = 1.01**12 - 1
    assert finance.discounted_break_even_months(1000, 100, rate) == pytest.approx(10.589, abs=0.001)
    assert finance.discounted_break_even_months(1000, 100) == 10
    # 100 a month for ever is worth 10,000 at 1 %: more is never paid back.
    assert finance.discounted_break_even_months(10_000, 100, rate) is None


@given(PRICE, st.floats(0.0, 50.0), st.floats(51.0, 500.0))
def test_at_the_break_even_both_cost_the_same(capex: float, own: float, rent: float) -> None:
    hours = finance.break_even_hours(capex, own, rent)
    assert hours is not None
    assert capex + own * hours == pytest.approx(rent * hours, rel=1e-9)


@given(PRICE, st.floats(1.0, 1e5), RATE)
def test_discounted_break_even_is_where_present_values_meet(capex: float, saved: float, rate: float) -> None:
    months = finance.discounted_break_even_months(capex, saved, rate)
    monthly = finance.monthly_rate(rate)
    if months is None:
        assert capex >= saved / monthly * (1 - 1e-9)
    elif months < 1e5:
        assert saved * finance.annuity_factor(monthly, months) == pytest.approx(capex, rel=1e-5)


def test_payback_from_cash_by_month() -> None:
    # 100 up front against 40 a month: after 2 months -20, after 3 +20, so 2.5.
    assert finance.payback_months([100, 0, 0, 0], [0, 40, 40, 40]) == pytest.approx(2.5)
    # Never within the months given.
    assert finance.payback_months([1000, 0], [0, 40]) is None
    # A refresh in month 4 sets owning back; only the last crossing counts: +20 in month 3, -40 in month 4, level in 5.
    assert finance.payback_months([100, 0, 0, 0, 100, 0, 0], [0, 40, 40, 40, 40, 40, 40]) == pytest.approx(5.0)
    # Renting that costs more from the start.
    assert finance.payback_months([0, 1], [5, 1]) == 0


# --- contracts, spot, work ---------------------------------------------------------------------------------------------


def test_what_contracts_imply_for_later_years() -> None:
    # 3 years at 5.40 cost 16.20; less the first at 7.20: 9.00 for two years.
    assert finance.forward_price(7.2, 1, 5.4, 3) == pytest.approx(4.5)
    with pytest.raises(ValueError, match="longer"):
        finance.forward_price(7.2, 3, 5.4, 1)


def test_spot_pays_until_interruptions_eat_the_discount() -> None:
    # 1.50 x 1.05 / (1 - p/2) = 4.00 at p = 2 (1 - 0.39375) = 1.2125
    assert finance.spot_break_even(1.5, 4.0, 1.0, 0.05) == pytest.approx(1.2125)
    assert finance.spot_multiplier(0.2, 1.0, 0.05) == pytest.approx(1.05 / 0.9)
    # Two interruptions in every interval of an hour: nothing is ever finished.
    assert finance.spot_multiplier(2.0, 1.0) is None
    assert finance.spot_break_even(5.0, 4.0, 1.0) == 0
    # Starting over: (e^1 - 1) / 0.1 = 17.18 h for a job of 10 h.
    assert finance.restarted_hours(0.1, 10) == pytest.approx(17.183, abs=0.001)
    assert finance.restarted_hours(0.0, 10) == 10
    assert finance.restarted_hours(100, 1e6) is None
    # One interruption in 50 h and 36 s for a checkpoint: sqrt(2 x 0.01 x 50) = 1 h
    assert finance.checkpoint_interval_h(0.01, 1 / 50) == pytest.approx(1.0)
    with pytest.raises(ValueError, match="interruptions"):
        finance.checkpoint_interval_h(0.01, 0)


@given(st.floats(0.1, 3.9), st.floats(0.1, 10.0), st.floats(0.0, 0.02))
def test_at_the_spot_break_even_both_cost_the_same(spot: float, interval: float, overhead: float) -> None:
    rate = finance.spot_break_even(spot, 4.0, interval, overhead)
    billed = finance.spot_multiplier(rate, interval, overhead)
    assert billed is not None
    if rate > 0:
        assert spot * billed == pytest.approx(4.0, rel=1e-9)


def test_price_of_work() -> None:
    # 6 x 70e9 x 2e12 / (0.45 x 989e12 x 3600) = 8.4e23 / 1.60218e18 = 524,286 h
    assert finance.training_gpu_hours(70e9, 2e12, 989e12, 0.45) == pytest.approx(524_286, abs=1)
    # 2.836 / 3600 / 441.76 x 1e6 = 1.7833
    assert finance.cost_per_million_tokens(2.836, 441.76) == pytest.approx(1.7833, abs=1e-4)
    assert finance.hours_of(years=1, months=2, utilisation=0.5) == pytest.approx((8760 + 1460) / 2)
    with pytest.raises(ValueError, match="MFU"):
        finance.training_gpu_hours(1, 1, 1, 0)


# --- total cost of ownership -------------------------------------------------------------------------------------------


def test_fleet_of_one_published_node() -> None:
    # 250,000; 0.87 USD/h x 8,760 = 7,621.20; upkeep 3,000 then 5,000; staff 0.25 x 200,000; network 8,000 a year.
    # Year 1: 250,000 + 7,621.20 + 3,000 + 50,000 + 8,000 = 318,621.20
    # Year 3: + 2 x 70,621.20 = 459,863.60
    fleet = tco.Fleet(
        parts=(tco.PartClass("server", 250_000),),
        it_w=870,
        energy_per_kwh=1.0,
        maintenance_per_year=(3000, 5000),
        staff_fte=0.25,
        staff_per_year=200_000,
        support_per_month=8000 / 12,
    )
    cash = tco.bought_cash(fleet, 60)
    assert tco.cumulative(cash, 12) == pytest.approx(318_621.20)
    assert tco.cumulative(cash, 36) == pytest.approx(459_863.60)
    assert tco.total_cost(cash) == pytest.approx(601_106.00)
    # Staff alone: 250,000 of it, 42 %.
    assert tco.cost_by_category(cash)["staff"] == pytest.approx(250_000)


def test_every_part_of_a_fleet_is_charged_once() -> None:
    fleet = tco.Fleet(
        parts=(
            tco.PartClass("cards", 100_000, spare_share=0.05, maintenance_share_per_year=0.06, residual_share=0.3),
            tco.PartClass("network", 20_000),
        ),
        it_w=10_000,
        pue=1.4,
        energy_per_kwh=0.1,
        space_per_month=500,
        setup=4000,
        tax_share=0.1,
    )
    found = tco.cost_by_category(tco.bought_cash(fleet, 12))
    assert found == pytest.approx(
        {
            "capex": 125_000,  # 100,000 x 1.05 + 20,000
            "tax": 12_500,
            "setup": 4000,
            "energy": 12_264,  # 10 kW x 8,760 h x 1.4 x 0.10
            "space": 6000,
            "maintenance": 6000,
            "residual": -30_000,  # of the price, not of the spares
        }
    )


def test_financing_moves_money_and_adds_interest() -> None:
    # Half of 120,000 up front, the rest in 12 instalments at 1 % a month: 60,000 x 0.01 / (1 - 1.01^-12) = 5,330.93
    plain = tco.Fleet(parts=(tco.PartClass("server", 120_000),))
    fleet = tco.Fleet(parts=plain.parts, upfront_share=0.5, financing_rate=1.01**12 - 1)
    cash = tco.bought_cash(fleet, 12)
    assert cash["total"][0] == 60_000
    assert cash["financing"][1] == pytest.approx(5330.93, abs=0.01)
    # At the loan's own rate financing is worth nothing either way.
    assert tco.total_cost(cash, fleet.financing_rate) == pytest.approx(120_000)
    assert tco.total_cost(cash) > 120_000


def test_a_fraction_of_a_month_counts_in_proportion() -> None:
    fleet = tco.Fleet(parts=(), it_w=1000, energy_per_kwh=0.1)
    cash = tco.bought_cash(fleet, 2.5)
    # 1 kW x 730 h x 0.10 = 73 a month
    assert cash["energy"].to_list() == pytest.approx([0, 73, 73, 36.5])
    assert tco.total_cost(tco.rented_cash(tco.Rental(1.0, 1), 0.5)) == pytest.approx(365)
    with pytest.raises(ValueError, match="horizon"):
        tco.bought_cash(fleet, 0)


def test_parts_bought_again_inside_the_horizon() -> None:
    cash = tco.bought_cash(tco.Fleet(parts=(tco.PartClass("s", 100),), refresh=((2, 40.0),)), 3)
    assert cash["capex"].to_list() == [100, 0, 40, 0]


def test_rent_of_a_published_cluster() -> None:
    # 4,096 x 1.84 x 720 = 5,426,380.80 a month; + 1,408 + 111,349 = 5,539,137.80; x 36 = 199,408,960.80
    rental = tco.Rental(1.84, 4096, hours_per_month=720, storage_per_month=1408, goodput_per_month=111_349)
    assert rental.compute_per_month == pytest.approx(5_426_380.80)
    assert tco.total_cost(tco.rented_cash(rental, 36)) == pytest.approx(199_408_960.80)


def test_terms_up_front_and_shares_of_the_bill() -> None:
    # 100 a month in terms of 12, 40 % of each at its start; 30 months need three terms: 3,600 in all.
    rental = tco.Rental(100 / 730, 1, term_months=12, upfront_share=0.4)
    cash = tco.rented_cash(rental, 30)
    assert tco.total_cost(cash) == pytest.approx(3600)
    assert cash.filter(pl.col("upfront") > 0)["month"].to_list() == [0, 12, 24]
    assert cash["upfront"][0] == pytest.approx(480)
    # The six months past the horizon are paid with the last: 60 + 6 x 60.
    assert cash["compute"][30] == pytest.approx(420)
    charged = tco.Rental(100 / 730, 1, support_share=0.03, goodput_share=0.1, egress_per_month=5, setup=7)
    assert tco.total_cost(tco.rented_cash(charged, 10)) == pytest.approx(1000 * 1.13 + 50 + 7)


@given(PRICE, st.floats(0.5, 80.0), RATE, st.floats(0.0, 1.0))
def test_categories_add_up_and_discounting_never_makes_costs_dearer(
    price: float, months: float, rate: float, upfront: float
) -> None:
    fleet = tco.Fleet(
        parts=(tco.PartClass("all", price, maintenance_share_per_year=0.08),),
        it_w=5000,
        energy_per_kwh=0.1,
        upfront_share=upfront,
        financing_rate=rate,
    )
    cash = tco.bought_cash(fleet, months)
    assert sum(tco.cost_by_category(cash).values()) == pytest.approx(tco.total_cost(cash), rel=1e-9)
    assert tco.total_cost(cash, rate) <= tco.total_cost(cash) * (1 + 1e-9)


# --- one budget, tenders -----------------------------------------------------------------------------------------------


def test_counts_within_a_budget_are_exact() -> None:
    # (1,760 - 5 x 44) / 30.8 = 1,540 / 30.8 = 50 exactly, where floats say 49.99999
    assert compare.count_within(40 * 44, 30.8, 5, 44) == 50
    assert compare.count_within(0.3, 0.1) == 3
    with pytest.raises(ValueError, match="pass the budget"):
        compare.count_within(10, 1, 2, 6)
    with pytest.raises(ValueError, match="nothing"):
        compare.count_within(10, 0)


@given(st.integers(1, 10_000), st.integers(1, 10_000))
def test_one_more_unit_would_pass_the_budget(cents: int, unit_cents: int) -> None:
    n = compare.count_within(cents / 100, unit_cents / 100)
    assert n * unit_cents <= cents < (n + 1) * unit_cents


def test_iso_power() -> None:
    # 100 kW: 9 nodes of 10.2 kW do 9; 14 of 7.14 kW at 0.9 do 12.6 = 1.4 times as much.
    frame = pl.DataFrame({"option": ["full", "capped"], "unit_w": [10_200.0, 7140.0], "rate": [1.0, 0.9]})
    out = compare.iso_power(frame, 100_000, reference="full")
    assert out["count"].to_list() == [9, 14]
    assert out["relative_rate"].to_list() == pytest.approx([1.0, 1.4])
    assert compare.extra_share(1200, 960) == pytest.approx(0.25)
    assert compare.break_even_speed(1200, 960) == pytest.approx(0.8)
    assert compare.mix_use({"h100": 25, "a100": 26}, {"h100": 44, "a100": 24.8}) == 1744.8
    assert compare.relative_cost(2.0, 1.6) == pytest.approx(1.25)


def test_tender_scores() -> None:
    bids = pl.DataFrame({"bid": ["a", "b"], "technical": [90.0, 60.0], "tco": [1.0e6, 0.8e6], "service": [50.0, 100.0]})
    out = compare.tender_scores(bids, {"technical": 40, "tco": 30, "service": 30}, {"tco"})
    # a: 40 + 30 x 0.8 + 30 x 0.5 = 79; b: 40 x 2/3 + 30 + 30 = 86.67
    assert out["bid"].to_list() == ["b", "a"]
    assert out["score"].to_list() == pytest.approx([86.667, 79.0], abs=0.001)
    assert compare.weighted_mean({"a": 80, "b": 50}, {"a": 3, "b": 1}) == pytest.approx(72.5)
    with pytest.raises(ValueError, match="no column"):
        compare.tender_scores(bids, {"colour": 1}, set())
    with pytest.raises(ValueError, match="weights"):
        compare.tender_scores(bids, {"tco": 0}, set())


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(1, 1e6)), min_size=1, max_size=6))
def test_no_score_passes_the_sum_of_weights(values: list[tuple[float, float]]) -> None:
    bids = pl.DataFrame(
        {
            "bid": [str(i) for i in range(len(values))],
            "quality": [q for q, _ in values],
            "price": [p for _, p in values],
        }
    )
    out = compare.tender_scores(bids, {"quality": 60, "price": 40}, {"price"})
    assert out["score"].max() <= 100 + 1e-6
    # Whoever is best in everything that is asked gets all of it.
    assert out["points_price"].max() == pytest.approx(40)
