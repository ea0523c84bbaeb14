"""Recheck the running fleet: every leased node is kept at its price or given up for its notice, and what moves is paid for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import polars as pl

from catalogs.catalog import Catalog
from problems.schema import Lease, Problem
from solver.plan import Item, Result
from solver.verify_money import HOURS, exchange
from solver.verify_traffic import period_hours, spans, there

CENT = 0.011
"""Money that rounding up to a cent may add to each amount of the model [money]."""


def check_fleet(result: Result, problem: Problem, catalog: Catalog) -> list[str]:
    """Leases, moves, the list of changes, and the plan near the fleet beside the cheapest one."""
    wrong: list[str] = []
    move = 0.0
    if problem.policy.move_cost is not None:
        amount = problem.policy.move_cost
        move = float(amount.amount) * (exchange(catalog, amount.currency, problem.currency) or 0.0)
    known = {name_of(n, x) for n, x in enumerate(problem.leases)}
    for item in result.items:
        if is_leased(item.billing) and item.billing not in known:
            wrong.append(f"{item.item}: held under {item.billing}, which the problem does not have")
    changed = 0
    for number, lease in enumerate(problem.leases):
        mine = [i for i in result.items if i.billing == name_of(number, lease)]
        kept = _most(mine)
        changed += lease.count - kept
        wrong += _check_lease(result, problem, catalog, number, mine, kept, move)
    started = _started(result)
    changed += sum(started.values())
    for pool, nodes in started.items() if move else ():
        paid = sum(float(i.total_cost) for i in result.items if i.gear == f"started: {pool}")
        if paid < nodes * move - 0.01:
            wrong.append(f"{pool}: {nodes} nodes started, {paid:.2f} paid for moving, {nodes * move:.2f} due")
    wrong += _check_changes(result, problem, started)
    return wrong + _check_stayed(result, problem, changed)


def name_of(number: int, lease: Lease) -> str:
    """Billing label of a lease's nodes."""
    return f"{'running' if lease.ends is None else 'lease'} {number + 1}"


def is_leased(billing: str) -> bool:
    """True for lines of leases."""
    return billing.split(" ")[0] in ("lease", "running")


def leased(item: Item, problem: Problem) -> Lease | None:
    """Lease that a line is of; None for all others."""
    return next((x for n, x in enumerate(problem.leases) if name_of(n, x) == item.billing), None)


def _most(items: Iterable[Item]) -> int:
    """Nodes of some lines in the period in which they are most."""
    always = 0
    by_period: dict[str, int] = defaultdict(int)
    for item in items:
        if item.quantity_by_period is None:
            always += round(item.quantity)
        for period, nodes in (item.quantity_by_period or {}).items():
            by_period[period] += nodes
    return always + max(by_period.values(), default=0)


def _started(result: Result) -> dict[str, int]:
    """Nodes by pool that are neither leased nor owned already; those that jobs hire for their runs do not count."""
    new: dict[str, list[Item]] = defaultdict(list)
    for i in result.items:
        held = i.kind in ("rental", "server") and i.hours_per_month is None and i.pool is not None
        if held and not is_leased(i.billing) and i.billing != "owned":
            new[i.pool or ""].append(i)
    return {pool: _most(items) for pool, items in new.items()}


def _price(lease: Lease, offer_id: str, problem: Problem, catalog: Catalog) -> float | None:
    """Price of a node [problem's money/h]: the lease's own, else the catalogue's for its billing mode, shortest term first."""
    if lease.price is not None:
        rate = exchange(catalog, lease.price.currency, problem.currency)
        return None if rate is None else float(lease.price.amount) * rate
    rows = catalog.prices.filter((pl.col("offer_id") == offer_id) & (pl.col("billing") == lease.billing)).to_dicts()
    if not rows:
        return None
    row = min(rows, key=lambda r: (r["term_months"] or 0.0, r["upfront_share"] or 0.0))
    rate = exchange(catalog, row["currency"], problem.currency)
    return None if rate is None else float(row["price_per_hour"]) * rate


def _check_lease(
    result: Result,
    problem: Problem,
    catalog: Catalog,
    number: int,
    mine: list[Item],
    kept: int,
    move: float,
) -> list[str]:
    lease = problem.leases[number]
    wrong = []
    what = f"leases[{number}]"
    if kept > lease.count:
        return [f"{what}: {kept} nodes kept of {lease.count}"]
    offers = catalog.offers.filter(
        (pl.col("offer_id") == lease.offer)
        | (pl.col("provider") + "/" + pl.col("offer") == lease.offer)
        | (pl.col("offer") == lease.offer)
    )
    if lease.region is not None:
        offers = offers.filter(pl.col("region") == lease.region)
    if offers.height != 1:
        return [f"{what}: {offers.height} offers are called {lease.offer}"]
    offer_id = str(offers["offer_id"][0])
    price = _price(lease, offer_id, problem, catalog)
    if price is None:
        return [f"{what}: no price"]
    ends = lease.ends
    for item in mine:
        if item.pool != offer_id:
            wrong.append(f"{what}: kept on {item.pool}, it is of {offer_id}")
        if ends is None:
            all_hours = period_hours(result, problem)
            hours = sum(all_hours[p] for p in item.quantity_by_period or ())
        else:
            hours = HOURS * lease_months(item, lease, result, problem)
        due = price * hours
        slack = CENT * max(1, len(result.periods)) + 1e-6 * due
        if not -0.006 <= float(item.unit_cost) - due <= slack:
            wrong.append(f"{what}: unit cost {item.unit_cost}, {hours:.1f} h at {price:.6g} are {due:.2f}")
    rest = ends if ends is not None else 0.0
    notice = rest if lease.notice is None else (lease.notice if ends is None else min(lease.notice, ends))
    gone = lease.count - kept
    due = gone * (move + price * HOURS * notice)
    lines = [i for i in result.items if i.gear == f"given up: {name_of(number, lease)}"]
    paid = sum(float(i.total_cost) for i in lines)
    if not due - 0.01 <= paid <= due * (1 + 1e-6) + 0.01 + 2 * CENT * gone:
        wrong.append(f"{what}: {gone} nodes given up, {paid:.2f} paid for it, {due:.2f} due")
    return wrong


def lease_months(item: Item, lease: Lease, result: Result, problem: Problem) -> float:
    """Months paid for a kept node: to the horizon where it is there to the end, else to the end of its term."""
    h, ends = problem.horizon, lease.ends or problem.horizon
    till = max((end for _, end, periods in spans(result, problem) if any(there(item, p) for p in periods)), default=h)
    if till < h - 1e-9:
        return ends if till <= ends + 1e-9 else float("inf")
    if ends <= h or problem.policy.pro_rate_commitments:
        return h
    # It runs beyond the horizon: until its end, or until it is given up then and the notice has passed.
    return min(ends, h + (ends if lease.notice is None else lease.notice))


def _check_changes(result: Result, problem: Problem, started: dict[str, int]) -> list[str]:
    """The list of changes says what the bill holds: nodes kept, renewed, dropped and added."""
    if not problem.leases and not problem.owned:
        return ["changes without a running fleet"] if result.changes else []
    wrong = []
    added: dict[str, int] = defaultdict(int)
    for x in result.changes:
        if x.action == "add":
            added[x.item] += x.count
    for pool in sorted({*added, *started}):
        # Ways to hold a pool peak in periods of their own, so their sum may be more than the pool's peak.
        if added[pool] < started.get(pool, 0) or (added[pool] and not started.get(pool, 0)):
            wrong.append(f"{pool}: {started.get(pool, 0)} nodes are new, the changes add {added[pool]}")
    kept = sum(_most(i for i in result.items if i.billing == name_of(n, x)) for n, x in enumerate(problem.leases))
    said = sum(x.count for x in result.changes if x.action == "keep" and x.before != "owned")
    given = sum(x.count for x in problem.leases) - kept
    dropped = sum(x.count for x in result.changes if x.action == "drop")
    if (said, dropped) != (kept, given):
        wrong.append(f"{kept} leased nodes kept and {given} given up, the changes say {said} and {dropped}")
    paid = sum(float(i.total_cost) for i in result.items if is_leased(i.billing))
    stated = sum(float(x.cost) for x in result.changes if x.action in ("keep", "renew") and x.before != "owned")
    if abs(paid - stated) > 0.011 * (1 + len(result.changes)):
        wrong.append(f"leases cost {paid:.2f}, the changes say {stated:.2f}")
    return wrong


def _check_stayed(result: Result, problem: Problem, changed: int) -> list[str]:
    stayed, tolerance = result.stayed, problem.policy.keep_unless_saves
    if (stayed is None) != (result.objective_name != "changes"):
        return [
            f"objective is {result.objective_name}, with{'out' if stayed is None else ''} a cheapest plan beside it"
        ]
    if stayed is None:
        return []
    assert result.cost is not None
    wrong = []
    total, cheapest = float(result.cost.total), float(stayed.cheapest)
    if problem.policy.discount_rate == 0 and not cheapest - 0.01 <= total <= cheapest * (1 + tolerance) + 0.01:
        wrong.append(f"the plan costs {total:.2f}, more than {tolerance:.1%} above {cheapest:.2f}")
    if stayed.tolerance != tolerance or stayed.changed_nodes != changed or result.objective != changed:
        wrong.append(f"{changed} nodes change, the plan says {stayed.changed_nodes}")
    return wrong
