"""What is charged once per place as soon as something is held there: staff, set-up, providers' fees; and nodes that stand by.

A charge is a gear of at most one unit, held where a pool of its place is in use: G - used[o] >= 0 for each such pool. Spare
nodes are counted by a gear without money: of the nodes held at a site, those that no replica and no job needs.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from math import ceil
from typing import Any

import polars as pl

from solver.candidates.gear import GearContext, GearOption, GearRule, Made
from solver.candidates.owning import amount

RULE = "charges"
OWN_SITES = "own sites"


def charge_gear(context: GearContext) -> Made:
    """Options and rules of all charges that the problem states (tco.staff, tco.setup, tco.providers, tco.spares)."""
    parts = (_staff(context), _site_setup(context), _provider_charges(context), _spare_nodes(context))
    return [o for options, _ in parts for o in options], [r for _, rules in parts for r in rules]


def _charge(key: str, kind: str, item: str, place: str, *, once: float = 0.0, monthly: float = 0.0) -> GearOption:
    return GearOption(
        key=key,
        kind=kind,
        item=item,
        site=None,
        place=place,
        max_count=1,
        once=once,
        monthly=monthly,
        source="the problem",
    )


def _due(key: str, pools: Iterable[str]) -> list[GearRule]:
    """The charge is due as soon as any of the pools is in use."""
    return [GearRule(RULE, "", 0, None, used={pool: -1}, gear={key: 1}) for pool in pools]


def _own(context: GearContext) -> pl.DataFrame:
    return context.found.pools.filter(pl.col("site").is_not_null()).sort("pool")


def _staff(context: GearContext) -> Made:
    staff = context.found.problem.tco.staff
    pools = _own(context)["pool"].to_list()
    if staff is None or staff.persons == 0 or not pools:
        return [], []
    monthly = amount(staff.salary, context.found.problem, context.catalog) / 12 * staff.persons
    return [_charge("staff", "staff", f"staff, {staff.persons:g} persons", OWN_SITES, monthly=monthly)], _due(
        "staff", pools
    )


def _site_setup(context: GearContext) -> Made:
    """Set-up of a site in which something is bought; one whose machines stand there already was set up before."""
    once = amount(context.found.problem.tco.setup.site, context.found.problem, context.catalog)
    options, rules = [], []
    if once:
        bought = _own(context).filter(pl.col("kind") == "server")
        for site in bought["site"].unique().sort():
            options.append(_charge(f"setup {site}", "setup", f"set-up of {site}", site, once=once))
            rules += _due(f"setup {site}", bought.filter(pl.col("site") == site)["pool"])
    return options, rules


def _provider_charges(context: GearContext) -> Made:
    problem, catalog = context.found.problem, context.catalog
    rented = context.found.pools.filter(pl.col("site").is_null()).sort("pool")
    options, rules = [], []
    for name in rented["provider"].unique().sort():
        terms = problem.tco.provider(name)
        once = amount(terms.setup or problem.tco.setup.provider, problem, catalog)
        monthly = amount(terms.fee, problem, catalog)
        here = rented.filter(pl.col("provider") == name)["pool"].to_list()
        if once:
            options.append(_charge(f"setup {name}", "setup", f"set-up with {name}", name, once=once))
            rules += _due(f"setup {name}", here)
        if monthly:
            options.append(_charge(f"fee {name}", "support", f"monthly fee of {name}", name, monthly=monthly))
            rules += _due(f"fee {name}", here)
    return options, rules


def _spare_nodes(context: GearContext) -> Made:
    """Spares S of every kind of own server: work fits N - S of the N nodes held, S >= spares, S >= share x (N - S).

    In each stage of the horizon of the nodes that are there in it; spares are due in those in which there are any.
    """
    problem, found = context.found.problem, context.found
    spares = problem.tco.spares
    share = Fraction(repr(spares.node_share)).limit_denominator(10_000)
    options, rules = [], []
    if spares.nodes == 0 and share == 0:
        return [], []
    stages = range(len(context.terms.stages))
    for pool in _own(context).filter(pl.col("kind") == "server").iter_rows(named=True):
        name, gpus = pool["pool"], int(pool["gpus"])
        most = context.most_nodes.get(name, 0)
        replicas = {row: -n for row, n in _gpus(found.replicas, name).items()}
        jobs = {row: -n for row, n in _gpus(_pooled(found.options), name).items()}
        enough = max(spares.nodes, ceil(share * most))
        for s in stages if most else ():
            stage, label = (None, "") if len(stages) == 1 else (s, f" {s + 1}")
            key, there = f"spare{label} {name}", f"there{label} {name}"
            options.append(GearOption(key, "choice", f"spare nodes of {name}", None, pool["site"], enough))

            def rule(stage: int | None = stage, **terms: dict[Any, int]) -> None:
                rules.append(GearRule(RULE, "", 0, None, stage=stage, **terms))

            rule(nodes={name: gpus}, gear={key: -gpus}, replicas=replicas, options=jobs)
            if share:
                up, down = share.numerator, share.denominator
                rule(nodes={name: -up}, gear={key: down + up})
            if spares.nodes and stage is None:
                rule(used={name: -spares.nodes}, gear={key: 1})
            elif spares.nodes:
                options.append(GearOption(there, "choice", f"{name} in stage {s + 1}", None, pool["site"], 1))
                rule(nodes={name: -1}, gear={there: most})
                rule(gear={key: 1, there: -spares.nodes})
    return options, rules


def _pooled(options: pl.DataFrame) -> pl.DataFrame:
    return options if options.is_empty() else options.filter("pooled")


def _gpus(frame: pl.DataFrame, pool: str) -> dict[int, int]:
    """GPUs by candidate row of what runs on a pool."""
    if frame.is_empty():
        return {}
    here = frame.filter(pl.col("pool") == pool)
    return {int(row): int(gpus) for row, gpus in here.select("row", "gpus").iter_rows()}
