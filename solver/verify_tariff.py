"""What electricity and space cost at an own site, read from the problem and the catalogue alone."""

from __future__ import annotations

import polars as pl

from catalogs.catalog import Catalog
from problems.countries import EUROPE
from problems.schema import Problem, Serve, Site
from problems.tariff import Tariff
from problems.units import Money
from solver.plan import Result
from solver.verify_money import exchange

DAY_NAMES = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
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
    demand = {w.name: w.demand_by_period for w in result.workloads}
    services = [w for w in problem.workloads if isinstance(w, Serve) and w.name in demand]
    hours: dict[str, list[float]] = {period: [] for period in result.periods}
    levels = {w.name: _levels(w.traffic.calendar, catalog) for w in services}
    top = {w.name: max(demand[w.name].values(), default=0.0) for w in services}
    most = {name: max(level) or 1.0 for name, level in levels.items()}
    for hour in range(168):
        for period in result.periods:
            if all(
                abs(demand[n][period] - top[n] * levels[n][hour] / most[n]) <= 1e-6 * max(top[n], 1e-9) for n in levels
            ):
                hours[period].append(week[hour])
                break
    return {p: pue * (sum(prices) / len(prices) if prices else mean) for p, prices in hours.items()}


def _levels(calendar: str, catalog: Catalog) -> list[float]:
    out = [0.0] * 168
    for row in catalog.calendars.filter(pl.col("calendar") == calendar).iter_rows(named=True):
        start = DAY_NAMES.index(row["day"]) * 24
        for hour in range(int(row["hour_from"]), int(row["hour_to"])):
            out[start + hour] = float(row["level"])
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
