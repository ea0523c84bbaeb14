"""The running fleet: what giving up leases and starting nodes costs, and how many nodes change.

For each lease: kept + given up = count. A lease on demand is kept as far as it is used in some period; a node given up pays its
notice, spread over the horizon, and the cost of moving. For each pool: started nodes are at least those held in any period beside
leases and owned machines; they pay the cost of moving too. Jobs that hire nodes of their own start and end them anyway.
"""

from __future__ import annotations

import polars as pl

from problems.schema import Lease
from solver.candidates.frames import fx_rates, money_in
from solver.candidates.gear import GearContext, GearOption, GearRule, Made
from solver.candidates.leases import is_lease, lease_prices, way_name
from solver.candidates.terms import HOURS_PER_MONTH

GIVEN_UP, STARTED = "given up: ", "started: "


def fleet_gear(context: GearContext) -> Made:
    """Options and rules of leases, and of started nodes where moving costs or staying is wanted."""
    problem, catalog = context.found.problem, context.catalog
    rates = fx_rates(catalog, problem.currency)
    move = 0.0 if problem.policy.move_cost is None else money_in(problem.policy.move_cost, rates)
    options: list[GearOption] = []
    rules: list[GearRule] = []
    prices = {row["billing"]: row for row in lease_prices(problem, catalog, rates).iter_rows(named=True)}
    for number, lease in enumerate(problem.leases):
        some, tied = _lease(context, number, lease, prices[way_name(number, lease)], move)
        options += some
        rules += tied
    if move or problem.policy.keep_unless_saves or problem.leases:
        some, tied = _started(context, move)
        options += some
        rules += tied
    return options, rules


def _lease(context: GearContext, number: int, lease: Lease, price: dict[str, object], move: float) -> Made:
    found = context.found
    monthly = float(str(price["price_per_hour"])) * float(str(price["rate_to_problem"])) * HOURS_PER_MONTH
    name = way_name(number, lease)
    key = f"{GIVEN_UP}{name}"
    option = GearOption(
        key=key,
        kind="moving" if move or lease.give_up_months else "choice",
        item=f"given up: {lease.offer}",
        site=None,
        place=name,
        max_count=lease.count,
        once=move,
        monthly=monthly * lease.give_up_months / found.terms.horizon,
    )
    rows = [int(r) for r in found.capacity.filter(pl.col("billing") == name)["row"]]
    if not rows:
        return [option], [GearRule("fleet", "", lease.count, None, gear={key: 1})]
    if lease.ends is not None:
        return [option], [
            GearRule("fleet", "", lease.count, lease.count, ways={(r, 0): 1 for r in rows}, gear={key: 1})
        ]
    # On demand: kept are as many as run in the period (one is chosen) in which most do.
    kept = GearOption(f"kept: {name}", "choice", name, None, name, lease.count)
    options, rules = [option, kept], [GearRule("fleet", "", lease.count, lease.count, gear={key: 1, kept.key: 1})]
    busiest = []
    for p in range(len(found.periods)):
        most = GearOption(f"busiest: {name} in {p}", "choice", name, None, name, 1)
        busiest.append(most)
        terms = {kept.key: 1, most.key: lease.count}
        rules.append(GearRule("fleet", "", None, lease.count, ways={(r, p): -1 for r in rows}, gear=terms))
        rules.append(GearRule("fleet", "", None, 0, ways={(r, p): 1 for r in rows}, gear={kept.key: -1}))
    rules.append(GearRule("fleet", "", 1, None, gear={x.key: 1 for x in busiest}))
    return [*options, *busiest], rules


def _started(context: GearContext, move: float) -> Made:
    options: list[GearOption] = []
    rules: list[GearRule] = []
    new = context.found.capacity.filter(~is_lease() & (pl.col("billing") != "owned"))
    for pool, mine in sorted(new.partition_by("pool", as_dict=True, include_key=False).items()):
        name = str(pool[0])
        most = context.most_nodes.get(name, 0)
        if not most:
            continue
        key = f"{STARTED}{name}"
        kind = "moving" if move else "choice"  # what costs nothing has no line on the bill
        options.append(GearOption(key, kind, f"started: {name}", None, name, most * mine.height, once=move))
        for p, period in enumerate(context.found.periods):
            there = ~pl.col("commit") | pl.lit(period.stage).is_between("first_stage", "until_stage", closed="left")
            ways = {(int(r), p): 1 for r in mine.filter(there)["row"]}
            rules.append(GearRule("fleet", "", None, 0, ways=ways, gear={key: -1}))
    return options, rules
