"""Wearing off, buying again and discounting of payments, by hand."""

from __future__ import annotations

import polars as pl
import pytest

from solver.features import cost


def value(expression: pl.Expr) -> float:
    return float(pl.select(expression).item())


def test_straight_line_leaves_what_is_not_yet_worn_off() -> None:
    assert value(cost.unworn_share(pl.lit(24.0), pl.lit(60.0), 0.0)) == pytest.approx(0.6)
    assert value(cost.unworn_share(pl.lit(60.0), pl.lit(60.0), 0.0)) == 0.0
    assert value(cost.unworn_share(pl.lit(0.0), pl.lit(60.0), 0.0)) == 1.0


def test_annuity_leaves_the_balance_of_a_loan() -> None:
    # 100,000 over 60 months at 1 % a month: 2,224.44 a month; after 24 of them the other 36 are worth 66,972.
    assert value(cost.unworn_share(pl.lit(24.0), pl.lit(60.0), 0.01)) == pytest.approx(0.66972, abs=5e-6)
    assert value(cost.unworn_share(pl.lit(60.0), pl.lit(60.0), 0.01)) == pytest.approx(0.0, abs=1e-12)


def test_an_annuity_at_almost_no_rate_is_straight_line() -> None:
    assert value(cost.unworn_share(pl.lit(24.0), pl.lit(60.0), 1e-9)) == pytest.approx(0.6, abs=1e-6)


@pytest.mark.parametrize(
    ("horizon", "life", "times"), [(24, 24, 0), (25, 24, 1), (48, 24, 1), (60, 24, 2), (12, 60, 0)]
)
def test_what_wears_out_with_the_horizon_is_not_bought_again(horizon: float, life: float, times: int) -> None:
    assert value(cost.replacements(horizon, pl.lit(life))) == times


def test_present_value_of_repeated_payments() -> None:
    # At 21 % a year two payments after 12 and 24 months: 1/1.21 + 1/1.4641 = 0.826446 + 0.683013.
    assert value(cost.present_of_repeats(pl.lit(2.0), pl.lit(12.0), 0.21)) == pytest.approx(1.509460, abs=1e-6)
    assert value(cost.present_of_repeats(pl.lit(2.0), pl.lit(12.0), 0.0)) == 2.0
    assert value(cost.present_of_repeats(pl.lit(0.0), pl.lit(12.0), 0.21)) == pytest.approx(0.0)


def test_up_front_money_of_later_terms_counts_from_their_start() -> None:
    # Three terms of a year, a third of the money at 0, 12 and 24 months, at 21 %: (1 + 0.826446 + 0.683013) / 3.
    assert value(cost.upfront_present(pl.lit(12.0), pl.lit(36.0), 0.21)) == pytest.approx(0.836486, abs=1e-6)
    # 18 months pro rata: two thirds at the start, one third after a year.
    assert value(cost.upfront_present(pl.lit(12.0), pl.lit(18.0), 0.21)) == pytest.approx((2 + 0.826446) / 3, abs=1e-6)
    assert value(cost.upfront_present(pl.lit(36.0), pl.lit(36.0), 0.21)) == pytest.approx(1.0)
