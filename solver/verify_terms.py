"""Recheck when commitments start and how long they are held."""

from __future__ import annotations

import polars as pl

from catalogs.catalog import Catalog
from problems.schema import Problem
from solver.plan import Item, Result
from solver.verify_fleet import is_leased
from solver.verify_money import HIRED, billing_terms
from solver.verify_traffic import spans, there


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
    return wrong


def _lead_of_offer(item: Item, catalog: Catalog) -> float:
    """Lead time of a rented offer [months of 730 h]; 0 where it is not known."""
    rows = catalog.offers.filter(pl.col("offer_id") == (item.pool or ""))
    days = rows["lead_time_days"][0] if rows.height else None
    return 0.0 if days is None else float(days) * 24 / 730
