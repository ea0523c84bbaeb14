"""What electricity and space cost at an own site, read from the problem and the catalogue alone."""

from __future__ import annotations

import polars as pl

from catalogs.catalog import Catalog
from problems.calendars import CsvCalendar
from problems.countries import EUROPE
from problems.schema import Problem, Serve, Site
from problems.tariff import Tariff
from problems.units import Money
from solver.plan import Result
from solver.verify_money import exchange

CLASSES = {"retail": "retail", "wholesale": "wholesale", "high_density": "high density"}


def money_of(amount: Money, problem: Problem, catalog: Catalog) -> float:
    """Amount in the problem's currency; 0 without a rate (refused elsewhere)."""
    rate = exchange(catalog, amount.currency, problem.currency)
    return 0.0 if rate is None else float(amount.amount) * rate


def pue_of(site: Site, catalog: Catalog) -> float:
    """PUE of a site, the catalogue's average where it states none."""
    return site.pue if site.pue is not None else catalog.assumption("own_room_pue")


def _week(site: Site, problem: Problem, catalog: Catalog) -> list[float]:
    """Price in every hour of the week [money/kWh]."""
    if isinstance(site.electricity, Tariff):
        return [money_of(price, problem, catalog) for price in site.electricity.by_hour()]
    if site.electricity is not None:
        return [money_of(site.electricity, problem, catalog)] * 168
    known = catalog.electricity.filter(pl.col("country") == (site.country or "")).sort("region", nulls_last=False)
    usd = float(known["price_per_kwh_usd"][0]) if known.height else catalog.assumption("electricity_usd_per_kwh")
    return [usd * (exchange(catalog, "USD", problem.currency) or 1.0)] * 168


def per_it_kwh(site: Site, problem: Problem, catalog: Catalog) -> float:
    """Money for one kWh of a steady draw of the machines, with the facility's overhead."""
    return pue_of(site, catalog) * sum(_week(site, problem, catalog)) / 168


def per_it_kwh_in(site: Site, result: Result, problem: Problem, catalog: Catalog) -> dict[str, float]:
    """The same for what is drawn in the hours of each load period only."""
    week, pue = _week(site, problem, catalog), pue_of(site, catalog)
    mean = sum(week) / 168
    calendar = result.calendar
    prices: dict[int, list[float]] = {}
    if calendar is not None:
        # Which hours are at which level is held against the traffic by `check_traffic`.
        slots, levels = list(range(168)), list(calendar.week)
        if calendar.hours:
            measured = (
                w.traffic.calendar.measured.slots
                for w in problem.workloads
                if isinstance(w, Serve) and isinstance(w.traffic.calendar, CsvCalendar)
            )
            slots, levels = list(next(measured)), [ord(letter) - ord("a") for letter in calendar.hours]
        for slot, level in zip(slots, levels, strict=True):
            prices.setdefault(level, []).append(week[slot])
    stages = [s.periods for s in result.stages] or [tuple(result.periods)]
    out = {}
    for mine in stages:
        for level, period in enumerate(mine):
            some = prices.get(level)
            out[period] = pue * (sum(some) / len(some) if some else mean)
    return out


def space_price(site: Site, problem: Problem, catalog: Catalog) -> float:
    """Money for a month of space for one kW of nameplate."""
    if site.space is not None:
        return money_of(site.space, problem, catalog)
    if site.colocation is None:
        return 0.0
    for place in (site.country, "EU" if site.country in EUROPE else None):
        rows = [r for r in catalog.colocation.iter_rows(named=True) if place is not None and r["country"] == place]
        fitting = [r for r in rows if r["item"].startswith(CLASSES[site.colocation])] or (
            rows if len(rows) == 1 else []
        )
        if fitting:
            return float(fitting[0]["price_usd_per_kw_month"]) * (exchange(catalog, "USD", problem.currency) or 1.0)
    return 0.0
