"""Recheck when commitments start, how long they are held, and what the highest month of any stage costs."""

from __future__ import annotations

import polars as pl

from catalogs.catalog import Catalog
from problems.schema import Problem
from solver.plan import Item, Result
from solver.verify_fleet import is_leased, lease_months, leased
from solver.verify_money import HIRED, billing_terms, paid_months
from solver.verify_traffic import SLACK, period_hours, spans, there


def check_commitments(result: Result, problem: Problem, catalog: Catalog) -> list[str]:
    """Commitments start with a stage, after their lead time, and are there without a break no longer than their terms."""
    wrong: list[str] = []
    stages = spans(result, problem)
    for item in result.items:
        if item.kind not in ("rental", "server") or item.gear is not None:
            continue
        mode, term, _ = billing_terms(item.billing)
        if mode in HIRED or is_leased(item.billing):  # leases: check_fleet
            continue
        if item.from_month is None:
            if len(stages) > 1:
                wrong.append(f"{item.item}: the line does not say from when on it is held")
            continue
        starts = [s for s, (start, _, _) in enumerate(stages) if abs(start - item.from_month) < 1e-9]
        if not starts:
            wrong.append(f"{item.item}: starts in month {item.from_month:g}, within a stage")
            continue
        lead = dict(problem.policy.lead_time).get(mode, 0.0)  # type: ignore[call-overload]
        if len(stages) > 1:
            lead = max(lead, _lead_of_offer(item, catalog))
        if item.from_month < lead - 1e-9:
            wrong.append(
                f"{item.item}: in use in month {item.from_month:g}, {lead:g} months after the order at the earliest"
            )
        held = [s for s, (_, _, periods) in enumerate(stages) if any(there(item, p) for p in periods)]
        whole = all(there(item, p) == item.quantity for s in held for p in stages[s][2])
        if not held or held != list(range(starts[0], held[-1] + 1)) or not whole:
            wrong.append(f"{item.item}: not held without a break from its start on")
        elif not term and held[-1] != len(stages) - 1:
            wrong.append(f"{item.item}: is bought or owned, but not there at the end")
    return wrong + _check_highest_month(result, problem)


def _lead_of_offer(item: Item, catalog: Catalog) -> float:
    """Lead time of a rented offer [months of 730 h]; 0 where it is not known."""
    rows = catalog.offers.filter(pl.col("offer_id") == (item.pool or ""))
    days = rows["lead_time_days"][0] if rows.height else None
    return 0.0 if days is None else float(days) * 24 / 730


def _check_highest_month(result: Result, problem: Problem) -> list[str]:
    """What the lines cost in a month of each stage is no more than the plan's highest month.

    Left out is what is not paid by the month everywhere: hired runs and the electricity of the work.
    """
    assert result.cost is not None
    hours = period_hours(result, problem)
    wrong = []
    for start, till, periods in spans(result, problem):
        month = 0.0
        for item in result.items:
            month += _monthly(item, result, problem, hours, till - start, periods)
        if month > float(result.cost.monthly) * (1 + SLACK) + 0.02 * (1 + sum(i.quantity for i in result.items)):
            wrong.append(
                f"months {start:g} to {till:g} cost {month:.2f} each, the plan says {result.cost.monthly} at most"
            )
    return wrong


def _monthly(
    item: Item, result: Result, problem: Problem, hours: dict[str, float], months: float, periods: tuple[str, ...]
) -> float:
    """Money of a line in one month of a stage."""
    paid, start = float(item.total_cost), item.from_month or 0.0
    here = [p for p in periods if there(item, p)]
    if item.gear is not None or item.hours_per_month is not None or not here:
        return 0.0
    if item.kind in ("maintenance", "space") or (item.kind == "energy" and item.pool is not None):
        return paid / (problem.horizon - start)
    mode, term, upfront = billing_terms(item.billing)
    if item.kind != "rental":
        return 0.0
    lease = leased(item, problem)
    if lease is not None and lease.ends is not None:
        return paid / lease_months(item, lease, result, problem)
    if mode in HIRED or lease is not None:
        all_hours = sum(hours[p] for p in item.quantity_by_period or hours)
        return paid * sum(hours[p] for p in here) / all_hours / months
    if not term:
        return 0.0  # a commitment that the problem does not have: check_fleet and check_bill refuse it
    return paid * (1 - upfront) / paid_months(item, result, problem, term)
