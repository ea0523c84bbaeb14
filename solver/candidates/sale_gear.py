"""Owned machines that may be sold at the start instead of being used or kept."""

from __future__ import annotations

import polars as pl

from catalogs.names import resolve_accelerator
from problems.schema import Owned
from problems.units import Money
from solver.candidates.frames import fx_rates, money_in
from solver.candidates.gear import GearContext, GearOption, GearRule, Made
from solver.candidates.onsite import owned_machines

Stock = tuple[str, str, str | None]
"""Accelerator, site, named build."""


def sale_gear(context: GearContext) -> Made:
    """One gear per stock and price, counted in whole machines; used and sold together are no more than there are.

    Cards that fit no server of the catalogue are sold one by one. The proceeds come in month 0 and are a credit in full,
    also where amounts are discounted; against the capex budget they count only under policy.sales_fund_capex.
    """
    problem, catalog = context.found.problem, context.catalog
    if not any(o.may_sell for o in problem.owned):
        return [], []
    rates = fx_rates(catalog, problem.currency)
    machines = {
        (r["accelerator"], r["site"], r["named"]): r for r in owned_machines(problem, catalog).iter_rows(named=True)
    }
    for_sale: dict[tuple[Stock, Money], list[tuple[int, Owned]]] = {}
    for n, owned in enumerate(problem.owned):
        if owned.may_sell and owned.resale is not None:
            stock = (resolve_accelerator(catalog, owned.accelerator), owned.site, owned.build)
            for_sale.setdefault((stock, owned.resale), []).append((n, owned))
    options: list[GearOption] = []
    sold: dict[str, dict[str, int]] = {}
    for ((card, site, named), price), entries in for_sale.items():
        machine = machines.get((card, site, named))
        cards = 1 if machine is None else int(machine["gpus"])
        key = f"owned[{entries[0][0]}].sale"
        options.append(
            GearOption(
                key=key,
                kind="sale",
                item=f"sale of {card if machine is None else machine['offer']}",
                site=site,
                place=site,
                max_count=sum(o.count for _, o in entries) // cards,
                credit=money_in(price, rates) * cards,
                parts=(f"{cards} x {card}",),
                pieces=0,
                confidence="measured",
                source=f"owned[{entries[0][0]}].resale",
            )
        )
        if machine is not None:
            sold.setdefault(machine["pool"], {})[key] = 1
    have: dict[str, int] = {}
    for machine in machines.values():
        have[machine["pool"]] = have.get(machine["pool"], 0) + int(machine["node_limit"])
    own = context.found.pools.filter(pl.col("kind") == "owned")["pool"].to_list()
    rules = [
        GearRule(
            "sales",
            "",
            None,
            have[pool],
            # Power states of a machine are pools of their own.
            nodes={name: 1 for name in own if name == pool or name.startswith(f"{pool}@")},
            gear=gear,
        )
        for pool, gear in sold.items()
    ]
    return options, rules
