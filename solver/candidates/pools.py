"""Pools: everything whose nodes could be held, rented offers and servers on own sites alike, with why others were dropped."""

from __future__ import annotations

import polars as pl

from catalogs.catalog import Catalog
from problems.schema import Problem
from solver.candidates.fabric_pools import with_oversubscription
from solver.candidates.frames import Pools, fx_rates
from solver.candidates.onsite import bought_pools, owned_pools, with_power_states
from solver.candidates.rented import rented_pools
from solver.features.speed_tables import SpeedTables


def build_pools(
    problem: Problem,
    catalog: Catalog,
    tables: SpeedTables,
    every_state: bool = False,
    any_watts: bool = False,
) -> Pools:
    """Compile catalogue and own sites into pools and capacity rows that respect the problem's limits."""
    rates = fx_rates(catalog, problem.currency)
    rental = rented_pools(problem, catalog, rates)
    built = bought_pools(problem, catalog, rates, every_state, any_watts, tables)
    bought = with_oversubscription(built, problem, catalog)
    servers = with_power_states(bought, problem, catalog, tables, every_state)
    owned = with_power_states(owned_pools(problem, catalog, rates), problem, catalog, tables, every_state)
    parts = [rental, servers, owned]
    return Pools(
        pools=pl.concat([p.pools for p in parts]).sort("pool"),
        capacity=pl.concat([p.capacity for p in parts]).sort("pool", "billing", "term_months", "upfront_share"),
        dropped=pl.concat([p.dropped for p in parts]),
    )
