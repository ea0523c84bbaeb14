"""Recheck how machines are had and what becomes of those owned: modes and their limits, work on machines, sales."""

from __future__ import annotations

import math
from decimal import Decimal

import polars as pl

from catalogs.catalog import Catalog
from catalogs.names import match_accelerators
from problems.schema import Fixed, Problem
from solver.plan import Item, Result
from solver.verify_money import exchange, part_list

MACHINES = ("rental", "server")
STRENGTH = {"shared_host": 0, "dedicated_vm": 1, "single_tenant": 2, "own": 3}


def check_deployment(result: Result, problem: Problem, catalog: Catalog) -> list[str]:
    """Every machine states its mode's properties, these keep the limits, and work and sales are reckoned right."""
    wrong: list[str] = []
    for item in result.items:
        if item.kind in MACHINES:
            wrong += _check_mode(item, problem, catalog)
    wrong += _check_hosted(result, problem, catalog)
    wrong += _check_operations(result, problem, catalog)
    wrong += _check_sales(result, problem, catalog)
    return wrong


def _mode_of(item: Item, catalog: Catalog) -> tuple[dict[str, object], float] | None:
    """Row of deployment_modes for a machine on the bill, and hours that pass before its start-up; None where unknown."""
    waits = 0.0
    if item.kind == "rental":
        offers = catalog.offers.filter(
            pl.col("offer_id") == (item.pool or "").removesuffix("#spot").removesuffix("#units")
        )
        if offers.is_empty():
            return None
        mode, waits = offers["deployment_mode"][0], 24 * float(offers["lead_time_days"][0] or 0.0)
    else:
        parts = part_list(item)
        servers = catalog.servers.filter(pl.col("server") == (parts[0][1] if parts else ""))
        if servers.is_empty():
            return None
        mode = servers["deployment_mode"][0]
        if item.billing == "purchase":
            waits = 24 * catalog.assumption("bought_lead_time_days")
    row = catalog.deployment_modes.filter(pl.col("mode") == mode)
    return None if row.is_empty() else (row.row(0, named=True), waits)


def _check_mode(item: Item, problem: Problem, catalog: Catalog) -> list[str]:
    found = _mode_of(item, catalog)
    if found is None:
        return [f"{item.item}: deployment mode unknown"]
    mode, waits = found
    start = 0.0 if item.billing == "owned" else waits + float(mode["start_h"])  # type: ignore[arg-type]
    wrong = []
    stated = (item.deployment_mode, item.isolation, item.operations_h, item.start_h)
    due = (mode["mode"], mode["isolation"], mode["operations_h_per_node_month"], start)
    if stated[:3] != due[:3] or stated[3] is None or abs(stated[3] - start) > 1e-6:
        wrong.append(f"{item.item}: deployment stated as {stated}, the catalogue says {due}")
    limits = problem.limits
    if limits.start_within is not None and start * 3600 > limits.start_within * (1 + 1e-9):
        wrong.append(f"{item.item}: starts after {start:g} h, allowed are {limits.start_within / 3600:g} h")
    if limits.isolation is not None and STRENGTH[str(mode["isolation"])] < STRENGTH[limits.isolation]:
        wrong.append(f"{item.item}: isolation {mode['isolation']} is weaker than {limits.isolation}")
    return wrong


def _check_hosted(result: Result, problem: Problem, catalog: Catalog) -> list[str]:
    """Hosted platforms run fine-tuning only."""
    kinds = {w.name: w.kind for w in problem.workloads}
    hosted = catalog.offers.filter(pl.col("deployment_mode") == "hosted_platform")["offer_id"].to_list()
    return [
        f"{plan.name}: {kinds.get(plan.name)} on the hosted platform {p.pool}"
        for plan in result.workloads
        for p in plan.placements
        if p.pool.removesuffix("#spot").removesuffix("#units") in hosted and kinds.get(plan.name) != "finetune"
    ]


def _hours_of_work(result: Result, problem: Problem, catalog: Catalog) -> float:
    """Work that all machines of the bill make in a month [h]."""
    total = 0.0
    works = {w.name: w for w in problem.workloads}
    for item in result.items:
        found = _mode_of(item, catalog) if item.kind in MACHINES else None
        if found is None:
            continue
        share = 1.0
        if item.hours_per_month is not None:
            name = item.parts[0].removeprefix("for ") if item.parts else ""
            took = next((p.duration_h or 0.0 for w in result.workloads if w.name == name for p in w.placements), 0.0)
            work = works.get(name)
            runs = 1.0
            if work is not None and not isinstance(work, Fixed) and hasattr(work, "runs"):
                runs = work.runs.value / (1.0 if work.runs.per_month else problem.horizon)
            share = took * runs / 730
        elif item.quantity_by_period is not None:
            share = sum(result.periods[p] for p in item.quantity_by_period) / 730
        each = float(found[0]["operations_h_per_node_month"])  # type: ignore[arg-type]
        total += each * item.quantity * share
    return total


def _check_operations(result: Result, problem: Problem, catalog: Catalog) -> list[str]:
    """Work stays within its limit and is paid by the hour, in tenths of an hour up; each node may add a thousandth."""
    limit, rate = problem.limits.operations, problem.policy.operations_rate
    lines = [i for i in result.items if i.kind == "operations"]
    if limit is None and rate is None:
        return [f"{i.item}: work on machines has no price" for i in lines]
    hours = _hours_of_work(result, problem, catalog)
    wrong = []
    if limit is not None and hours > limit * (1 + 1e-9) + 1e-6:
        wrong.append(f"machines make {hours:.3f} h of work a month, allowed are {limit:g} h")
    if rate is None:
        return [*wrong, *(f"{i.item}: work on machines has no price" for i in lines)]
    each = exchange(catalog, rate.currency, problem.currency)
    if each is None:
        return [*wrong, f"no exchange rate for policy.operations_rate in {rate.currency}"]
    nodes = sum(i.quantity for i in result.items if i.kind in MACHINES)
    spare = 0.001 * (nodes + 1) * max(1, len(result.periods))
    least = math.ceil(round(hours * 10, 6)) / 10
    paid = sum(i.quantity for i in lines)
    if not least - 1e-6 <= paid <= math.ceil(round((hours + spare) * 10, 6)) / 10 + 1e-6:
        wrong.append(f"{paid:g} h of work a month are paid, {least:g} h are made")
    due = paid * float(rate.amount) * each * problem.horizon
    cost = float(sum((i.total_cost for i in lines), Decimal(0)))
    if not -0.01 <= cost - due <= 0.01 * (1 + 10 * paid):
        wrong.append(f"work on machines costs {cost:.2f}, due are {due:.2f}")
    return wrong


def _check_sales(result: Result, problem: Problem, catalog: Catalog) -> list[str]:
    """What is sold may be sold, is there, is not used, and brings no more than its price."""
    wrong: list[str] = []
    have: dict[tuple[str, str], int] = {}
    gone: dict[tuple[str, str], float] = {}
    for owned in problem.owned:
        for card in match_accelerators(catalog, owned.accelerator):
            have[card, owned.site] = have.get((card, owned.site), 0) + owned.count
    sold: dict[tuple[str, str, Decimal], float] = {}
    for item in result.items:
        if item.kind == "server" and item.billing == "owned":
            key = (item.accelerator or "", item.site)
            gone[key] = gone.get(key, 0.0) + (item.accelerators or 0)
        if item.kind != "sale":
            continue
        parts = part_list(item)
        if len(parts) != 1:
            wrong.append(f"{item.item}: not told what is sold")
            continue
        cards, card = parts[0]
        gone[card, item.site] = gone.get((card, item.site), 0.0) + cards * item.quantity
        prices = []
        for owned in problem.owned:
            same = owned.site == item.site and card in match_accelerators(catalog, owned.accelerator)
            if same and owned.may_sell and owned.resale is not None:
                rate = exchange(catalog, owned.resale.currency, problem.currency)
                prices += [] if rate is None else [(owned.resale, float(owned.resale.amount) * rate * cards)]
        # A credit is rounded down: up to a cent of each machine may be lost, nothing gained.
        fitting = [p for p, due in prices if -0.005 <= due + float(item.unit_cost) <= 0.015 + 1e-9 * due]
        if not fitting:
            wrong.append(f"{item.item}: sold at {-item.unit_cost}, which is no price that the problem gives")
            continue
        at = (card, item.site, fitting[0].amount)
        sold[at] = sold.get(at, 0.0) + cards * item.quantity
    for (card, site, amount), count in sold.items():
        there = sum(
            o.count
            for o in problem.owned
            if o.may_sell
            and o.site == site
            and o.resale is not None
            and o.resale.amount == amount
            and card in match_accelerators(catalog, o.accelerator)
        )
        if count > there:
            wrong.append(f"{count:g} x {card} sold at {site}, {there} may be sold at that price")
    for (card, site), count in gone.items():
        if count > have.get((card, site), 0):
            wrong.append(f"{count:g} x {card} used or sold at {site}, {have.get((card, site), 0)} owned")
    return wrong
