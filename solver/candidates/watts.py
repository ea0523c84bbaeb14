"""What a watt less of a server's nameplate is worth in a plan: decides which dearer but leaner builds are looked at."""

from __future__ import annotations

import math
from collections.abc import Sequence

import polars as pl

from catalogs.catalog import Catalog
from problems.schema import Problem, Site
from solver.candidates.frames import fx_rates
from solver.candidates.money import held_money, money_terms, site_frame
from solver.candidates.periods import load_calendar, load_periods, stages_of
from solver.candidates.rack_gear import circuit_watts, rack_limit_w
from solver.candidates.rooms import COOLED_BY
from solver.candidates.tariff import with_tariff
from solver.candidates.terms import assumption
from solver.features.racks import usable_w

SAFETY = 1.01
"""Room for the rounding of amounts to whole cents."""


def watts_scarce(problem: Problem) -> bool:
    """True where watts are limited or the aim: then no money says what one is worth."""
    return (
        problem.objective in ("power", "carbon")
        or problem.limits.power is not None
        or any(s.power is not None or s.it_power is not None for s in problem.sites)
        or any(s.racks is not None or s.circuits for s in problem.sites)
    )


def largest_node_w(problem: Problem, catalog: Catalog) -> float:
    """Most that one server may draw at the site that allows most while at most one of its limits is lifted [W of IT].

    What one rack or all circuits of a site carry are limits like others. Where a site has one limit only, that is it: once it is
    lifted, money alone says which servers pay. Infinite where watts are the aim.
    """
    if problem.objective in ("power", "carbon"):
        return math.inf
    return max((_next_lowest(_node_limits_w(s, problem, catalog)) for s in problem.sites), default=math.inf)


def largest_site_w(problem: Problem) -> float:
    """Most that all servers and switches of one site may draw together, taken as in `largest_node_w` [W of IT].

    Racks and circuits are no limits here: once another limit is lifted, they may leave room for any number of servers.
    """
    if problem.objective in ("power", "carbon"):
        return math.inf
    return max((_next_lowest(_all_limits_w(s, problem)) for s in problem.sites), default=math.inf)


def _all_limits_w(site: Site, problem: Problem) -> list[float]:
    facility = [w / (site.pue or 1.0) for w in (site.power, problem.limits.power) if w is not None]
    limits = [*facility, *([] if site.it_power is None else [site.it_power])]
    return [*limits, math.inf] if site.racks is not None or site.circuits else limits


def _node_limits_w(site: Site, problem: Problem, catalog: Catalog) -> list[float]:
    limits = [w for w in _all_limits_w(site, problem) if w < math.inf]
    if site.racks is not None:
        limits.append(max(rack_limit_w(site, cooling, catalog) for cooling in COOLED_BY))
    if site.circuits:
        limits.append(max(circuit_watts(c) * usable_w(c.count, 1.0, site.redundancy) for c in site.circuits))
    return limits


def _next_lowest(limits: Sequence[float]) -> float:
    """The lowest once the lowest is gone; where there is but one, that one."""
    return sorted(limits)[:2][-1] if limits else math.inf


def most_per_watt(problem: Problem, catalog: Catalog) -> float:
    """Dollars of purchase price that one watt of a server's nameplate can be worth over the horizon, at most [USD/W].

    Money is linear in a machine's price and watts, so the exchange rate follows from the bill of one dollar and of one watt.
    Limits of watts are not looked at, nor racks and circuits.
    """
    calendar, stages = load_calendar(problem, catalog), stages_of(problem)
    periods = load_periods(problem, calendar, stages)
    sites = with_tariff(site_frame(problem, catalog)[0], problem, catalog, calendar, periods)
    if sites.is_empty():
        return math.inf
    # Of a host's nameplate a share is drawn around the clock.
    units = pl.DataFrame(
        {"price": [1.0, 0.0], "it_w": [0.0, 1.0], "idle_w": [0.0, assumption(catalog, "host_draw_share")]}
    ).with_columns(part_class=pl.lit("server"), once=pl.lit(0.0), monthly=pl.lit(0.0))
    bill = held_money(sites.join(units, how="cross"), problem, catalog, money_terms(problem, periods, stages, calendar))
    measures = ["held_cost", "held_cash"]
    if problem.limits.budget.monthly is not None:
        measures.append("held_monthly")
    dollar, watt = (bill.filter(pl.col("it_w") == w).sort("site").select(measures) for w in (0.0, 1.0))
    ratios = [
        other / one if one > 0 else math.inf
        for name in measures
        for one, other in zip(dollar[name], watt[name], strict=True)
        if other > 0
    ]
    usd = fx_rates(catalog, problem.currency).filter(pl.col("price_currency") == "USD")["rate_to_problem"]
    return max(ratios, default=0.0) * SAFETY / float(usd[0]) if usd.len() else math.inf
