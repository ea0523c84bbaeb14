"""Electricity of own sites by the hour, and what space costs there where the catalogue says so."""

from __future__ import annotations

import polars as pl

from catalogs.catalog import Catalog
from catalogs.errors import UnknownName
from problems.countries import EUROPE
from problems.schema import Problem, Site
from problems.tariff import Tariff
from solver.candidates.frames import fx_rates, money_in
from solver.candidates.periods import LoadCalendar, Period


def hourly_prices(site: Site, rates: pl.DataFrame) -> list[float] | None:
    """Price of electricity in each of the 168 hours of the week [money/kWh]; None where the problem gives none."""
    if site.electricity is None:
        return None
    if isinstance(site.electricity, Tariff):
        return [money_in(price, rates) for price in site.electricity.by_hour()]
    return [money_in(site.electricity, rates)] * 168


def mean_price(site: Site, rates: pl.DataFrame) -> float | None:
    """Mean over the week: what a steady draw pays [money/kWh]."""
    prices = hourly_prices(site, rates)
    return None if prices is None else sum(prices) / len(prices)


def tariff_by_period(
    site: Site, problem: Problem, catalog: Catalog, calendar: LoadCalendar, periods: tuple[Period, ...]
) -> list[float]:
    """Mean price in the hours of each load period over the mean of the week: 1 where the price is flat."""
    if not isinstance(site.electricity, Tariff) or len(calendar.levels) == 1:
        return [1.0] * len(periods)
    prices = hourly_prices(site, fx_rates(catalog, problem.currency))
    assert prices is not None
    mean = sum(prices) / len(prices)
    if mean == 0:
        return [1.0] * len(periods)
    at: list[list[float]] = [[] for _ in calendar.levels]
    for level, slot in zip(calendar.hours, calendar.slots, strict=True):
        at[level].append(prices[slot])
    by_level = [sum(some) / len(some) / mean if some else 1.0 for some in at]
    return [by_level[p.level] for p in periods]


def with_tariff(
    sites: pl.DataFrame, problem: Problem, catalog: Catalog, calendar: LoadCalendar, periods: tuple[Period, ...]
) -> pl.DataFrame:
    """Add tariff (list over load periods, see `tariff_by_period`) to the frame of own sites."""
    rows = [{"site": s.name, "tariff": tariff_by_period(s, problem, catalog, calendar, periods)} for s in problem.sites]
    frame = pl.DataFrame(rows, schema={"site": pl.String, "tariff": pl.List(pl.Float64)})
    return sites.join(frame, on="site", how="left", maintain_order="left")


COLOCATION_ITEMS = {"retail": "retail", "wholesale": "wholesale", "high_density": "high density"}


def colocation_price(site: Site, catalog: Catalog) -> float:
    """Catalogue's price of colocation in the site's country [USD per kW of IT and month].

    A row of the class asked for goes first; where the country has one price only, that is taken.

    Raises
    ------
    UnknownName
        When the catalogue has none for the country.
    """
    country = site.country or ""
    places = [country, "EU"] if country in EUROPE else [country]
    for place in places:
        rows = catalog.colocation.filter(pl.col("country") == place)
        named = rows.filter(pl.col("item").str.starts_with(COLOCATION_ITEMS[site.colocation or "retail"]))
        for found in (named, rows if rows.height == 1 else rows.clear()):
            if found.height:
                return float(found["price_usd_per_kw_month"][0])
    known = ", ".join(sorted(catalog.colocation["country"].unique()))
    where = f"for {country}" if country else "for a site without a country"
    raise UnknownName(
        f"{site.colocation} {where}",
        f"colocation price (sites.{site.name}.colocation)",
        hint=f"; the catalogue has some for {known}; or give space: $150/kW/mo",
    )
