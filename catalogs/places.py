"""Schemas of own rooms and of reckoning: energy, space, upkeep, calendars, assumptions, rules."""

from __future__ import annotations

from typing import get_args

import dataframely as dy
import polars as pl

from catalogs.columns import Sourced, at_least_zero, choice, country, number, positive, text
from problems.schema import RuleName, Severity

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
RULES: tuple[str, ...] = get_args(RuleName)
SEVERITIES: tuple[str, ...] = get_args(Severity)


class Electricity(Sourced):
    """Price of electricity by country (EU = average of the Union) and, where it differs much, region."""

    country = country(nullable=False, key=True)
    region = text(key=True)
    kind = text(key=True)
    price_per_kwh_usd = positive(nullable=False)
    price_low_per_kwh_usd = positive()
    price_high_per_kwh_usd = positive()


class Pue(Sourced):
    """Power usage effectiveness by kind of facility."""

    kind = text(key=True)
    pue = dy.Float64(min=1, max=5)
    pue_low = dy.Float64(nullable=True, min=1, max=5)
    pue_high = dy.Float64(nullable=True, min=1, max=5)


class Carbon(Sourced):
    """Average emissions of a country's electricity [g CO2e/kWh]."""

    country = country(nullable=False, key=True)
    g_per_kwh = at_least_zero(nullable=False)


class Colocation(Sourced):
    """Rent of space in a data centre per kW of IT load and month, power usually billed apart."""

    item = text(key=True)
    country = country(nullable=False, key=True)
    price_usd_per_kw_month = positive(nullable=False)
    price_low_usd_per_kw_month = positive()
    price_high_usd_per_kw_month = positive()


class Maintenance(Sourced):
    """Upkeep, failure, software licence and depreciation figures."""

    item = text(key=True)
    provider = text(nullable=True)
    value = number(nullable=False)
    unit = text()
    low = number()
    high = number()


class Trends(Sourced):
    """How prices moved; for reading, not for reckoning."""

    item = text(key=True)
    kind = choice(("trend", "list_change"))
    provider = text(nullable=True)
    region = text(nullable=True)
    value = number(nullable=False)
    unit = text()
    low = number()
    high = number()


class Calendars(Sourced):
    """Load level by day and hour of a representative week; each day's rows cover 0 to 24 once."""

    calendar = text(key=True)
    day = choice(DAYS, key=True)
    hour_from = dy.Int64(primary_key=True, min=0, max=23)
    hour_to = dy.Int64(min=1, max=24)
    level = at_least_zero(nullable=False)

    @dy.rule()
    def forward(cls) -> pl.Expr:  # noqa: N805
        """A row ends after it begins."""
        return pl.col("hour_to") > pl.col("hour_from")

    @dy.rule()
    def whole_day(cls) -> pl.Expr:  # noqa: N805
        """The rows of a day cover it from 0 to 24 without gap or overlap."""
        day = ["calendar", "day"]
        before = pl.col("hour_to").shift(1).over(day, order_by="hour_from").fill_null(0)
        return (pl.col("hour_from") == before) & (pl.col("hour_to").max().over(day) == 24)


class Assumptions(Sourced):
    """A number that a reckoning falls back on; problems override what they state."""

    key = text(key=True)
    value = number(nullable=False)
    unit = text()


class Rules(Sourced):
    """A practice rule: value, and whether it binds bought and rented machines or only warns."""

    rule = choice(RULES, key=True)
    value = at_least_zero(nullable=False)
    unit = text()
    bought = choice(SEVERITIES)
    rented = choice(SEVERITIES)
    why = text()
