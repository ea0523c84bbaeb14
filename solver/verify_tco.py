"""Recompute what comes with machines bought, rented or run: upkeep, value left, tax, interest, people, fees, spare nodes."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable

import polars as pl

from catalogs.catalog import Catalog
from problems.schema import Problem
from problems.tco import ClassLives, ClassShares
from problems.units import Money
from solver.plan import Item, Result
from solver.verify_money import exchange
from solver.verify_traffic import months_held, there
from solver.verify_week import is_pooled, runs_under_way, weeks_of

CLASSES = {"server": "server", "network": "network", "storage": "storage"}
UPKEEP = ("maintenance", "spares", "tax", "financing", "replacement", "residual", "goodput", "support")
CENT = 0.011
Due = dict[tuple[str, str], float]
"""Money due by kind of line and by what it is for: a pool, or a key of gear."""


def check_tco(result: Result, problem: Problem, catalog: Catalog) -> list[str]:
    """Every line beside prices, energy and space against the problem's terms."""
    wrong = _check_upkeep(result, problem, catalog)
    wrong += _check_charges(result, problem, catalog)
    return wrong + _check_spare_nodes(result, problem)


def _key(item: Item) -> str:
    return item.gear or item.pool or ""


def money_of(amount: Money | None, problem: Problem, catalog: Catalog) -> float:
    """An amount in the problem's currency; 0 where there is none, or no rate."""
    if amount is None:
        return 0.0
    return float(amount.amount) * (exchange(catalog, amount.currency, problem.currency) or 0.0)


def _assumed(catalog: Catalog, key: str) -> float:
    return float(catalog.assumptions.filter(pl.col("key") == key)["value"][0])


def _of_class(stated: ClassShares | ClassLives, item: Item, usual: Callable[[str], float]) -> float:
    name = CLASSES.get(item.kind, "facility")
    own = getattr(stated, name)
    return usual(name) if own is None else float(own)


def invested(item: Item, problem: Problem) -> float:
    """Price of a purchase line with spares and tax, all of its units."""
    tco = problem.tco
    return float(item.total_cost) * (1 + _of_class(tco.spares.parts, item, lambda _: 0.0)) * (1 + tco.tax.purchase)


def payments(problem: Problem, start: float) -> tuple[float, int, float]:
    """Of a purchase in a month: share paid then, number of instalments, and one instalment per unit of what is left to pay.

    The last instalment is due with the last month of the horizon.
    """
    plan = problem.tco.financing
    if plan is None:
        return 1.0, 0, 0.0
    months, room = 1, math.ceil(problem.horizon - 1e-9) - math.floor(start + 1e-9)
    while months < room and months < (plan.term or problem.horizon) - 1e-9:
        months += 1
    interest = (1 + plan.rate) ** (1 / 12) - 1
    # What one unit paid at the end of each month is worth at the start, month by month.
    worth = sum((1 + interest) ** -m for m in range(1, months + 1))
    return plan.upfront, months, 1.0 / float(worth)


def _left(problem: Problem, catalog: Catalog, item: Item, price: float, whole: float) -> tuple[float, float]:
    """Value left at the end, and what is paid for what wore out before, net of its resale, in the months it is held."""
    tco, h = problem.tco, months_held(item, problem)
    resale = price * _of_class(tco.residual, item, lambda _: problem.policy.residual_value)
    if tco.depreciation == "cash":
        return resale, 0.0
    life = _of_class(tco.life, item, lambda name: _assumed(catalog, f"life_months_{name}"))
    again = 0
    while (again + 1) * life < h - 1e-6:
        again += 1
    to_go = life - (h - again * life)
    rate = problem.policy.discount_rate
    if tco.depreciation == "straight_line" or rate == 0:
        value = resale + (whole - resale) * to_go / life
    else:
        interest = (1 + rate) ** (1 / 12) - 1

        def worth(months: float) -> float:
            return float((1 - (1 + interest) ** -months) / interest)

        payment = (whole - resale * (1 + interest) ** -life) / worth(life)
        value = payment * worth(to_go) + resale * (1 + interest) ** -to_go
    return value, again * (whole - resale)


def _due_on_purchases(result: Result, problem: Problem, catalog: Catalog, due: Due) -> None:
    tco = problem.tco
    for item in result.items:
        if item.billing != "purchase":
            continue
        h = months_held(item, problem)
        upfront, months, each = payments(problem, item.from_month or 0.0)
        price, whole = float(item.total_cost), invested(item, problem)
        usual = _assumed(catalog, "maintenance_share_per_year")
        value, again = _left(problem, catalog, item, price, whole)
        spares = price * _of_class(tco.spares.parts, item, lambda _: 0.0)
        lines = {
            "maintenance": price * _of_class(tco.maintenance, item, lambda _, share=usual: share) / 12 * h,  # type: ignore[misc]
            "spares": spares,
            "tax": (price + spares) * tco.tax.purchase,
            "financing": whole * (1 - upfront) * (each * months - 1),
            "replacement": again,
            "residual": -value,
        }
        for kind, amount in lines.items():
            due[kind, _key(item)] += amount


def _due_on_rent(result: Result, problem: Problem, due: Due) -> None:
    bought = {_key(i) for i in result.items if i.billing == "purchase"}
    for item in result.items:
        rent = float(item.total_cost)
        if item.kind in ("storage", "egress") and item.billing in ("once", "monthly") and _key(item) not in bought:
            due["tax", _key(item)] += rent * problem.tco.tax.rental
        if item.kind not in ("rental", "compute_units") or item.provider is None:
            continue
        terms = problem.tco.provider(item.provider)
        paid = rent / terms.goodput
        with_support = paid * (1 + terms.support)
        due["goodput", _key(item)] += paid - rent
        due["support", _key(item)] += with_support - paid
        due["tax", _key(item)] += with_support * problem.tco.tax.rental


def _check_upkeep(result: Result, problem: Problem, catalog: Catalog) -> list[str]:
    due: Due = defaultdict(float)
    _due_on_purchases(result, problem, catalog, due)
    _due_on_rent(result, problem, due)
    paid: Due = defaultdict(float)
    units: dict[str, float] = defaultdict(float)
    for item in result.items:
        if item.kind in UPKEEP and not (item.gear or "").startswith("fee "):
            paid[item.kind, _key(item)] += float(item.total_cost)
        units[_key(item)] += max(1.0, item.quantity) * max(1, len(result.periods))
    wrong = []
    for kind, key in sorted(set(due) | set(paid)):
        want, have = due[kind, key], paid[kind, key]
        if abs(have - want) > 0.02 + 1e-6 * abs(want) + CENT * 3 * units[key]:
            wrong.append(f"{kind} for {key}: {have:.2f} paid, {want:.2f} due")
    return wrong


def _check_charges(result: Result, problem: Problem, catalog: Catalog) -> list[str]:
    """Staff, set-up and fees are paid where something is held, and (in a plan proved cheapest) nowhere else.

    Staff of a node is paid from the node's start on; what is due once per place, all through the horizon.
    """
    tco, h = problem.tco, problem.horizon
    servers = [i for i in result.items if i.kind == "server"]
    bought = [i for i in servers if i.billing == "purchase"]
    due: Due = defaultdict(float)
    if tco.staff is not None:
        salary = money_of(tco.staff.salary, problem, catalog) / 12
        due["staff", "staff"] = salary * h * tco.staff.persons if servers else 0.0
        for item in servers:
            due["staff", _key(item)] += salary * months_held(item, problem) * tco.staff.per_node * item.quantity
    for item in bought:
        due["setup", _key(item)] += money_of(tco.setup.node, problem, catalog) * item.quantity
        due["setup", f"setup {item.site}"] = money_of(tco.setup.site, problem, catalog)
    for name in {i.provider for i in result.items if i.kind == "rental" and i.provider}:
        terms = tco.provider(name)
        due["setup", f"setup {name}"] += money_of(terms.setup or tco.setup.provider, problem, catalog)
        due["support", f"fee {name}"] = money_of(terms.fee, problem, catalog) * h
    paid: Due = defaultdict(float)
    count: dict[str, float] = defaultdict(float)
    for item in result.items:
        if item.kind in ("staff", "setup") or (item.gear or "").startswith("fee "):
            paid[item.kind, _key(item)] += float(item.total_cost)
        count[_key(item)] += item.quantity
    exact = result.status == "optimal" and result.objective_name == "cost"
    wrong = []
    for kind, key in sorted(set(due) | set(paid)):
        want, have = due[kind, key], paid[kind, key]
        slack = 0.01 + 1e-6 * want
        if have < want - slack or (exact and have > want + slack + CENT * max(1.0, count[key])):
            wrong.append(f"{kind} for {key}: {have:.2f} paid, {want:.2f} due")
    return wrong


def _check_spare_nodes(result: Result, problem: Problem) -> list[str]:
    """Of every kind of bought server, as many as asked stand by, in every period, of those that are there in it.

    Work is put on as few nodes as hold its accelerators; jobs with hours of their own count in these.
    """
    spares = problem.tco.spares
    if not spares.nodes and not spares.node_share:
        return []
    hours: dict[str, set[int]] = defaultdict(set)
    for week in weeks_of(result, problem):
        for hour, name in enumerate(week):
            hours[name].add(hour)
    kinds: dict[str, list[Item]] = defaultdict(list)
    for item in result.items:
        if item.kind == "server" and item.billing == "purchase" and item.accelerators and item.pool:
            kinds[item.pool].append(item)
    wrong = []
    for pool, items in kinds.items():
        size = round((items[0].accelerators or 0) / items[0].quantity)
        for period in result.periods:
            held = sum(there(i, period) for i in items)
            here = [(w, p) for w in result.workloads for p in w.placements if p.pool == pool]
            taken = max(
                sum(
                    p.accelerators_per_replica
                    * (p.replicas_by_period[period] if w.kind == "serve" else runs_under_way(p, hour))
                    for w, p in here
                    if w.kind == "serve" or is_pooled(p)
                )
                for hour in hours[period] or {0}
            )
            working = -(-taken // size)
            if held and held - working < max(spares.nodes, spares.node_share * working - 1e-6):
                wrong.append(f"{items[0].item}: {held:g} nodes, {working} of them at work, leave too few spares")
                break
    return wrong
