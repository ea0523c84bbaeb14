"""Recompute what rented hours are billed as: steps and minimums, stretches of the clock, capacity blocks, spot."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import polars as pl

from catalogs.catalog import Catalog
from problems.schema import Fixed, Problem, Serve
from solver.plan import Item, Result
from solver.verify_traffic import period_hours, spans

HOURS = 730.0


def stepped(hours: float, row: dict[str, Any]) -> float:
    """One use rounded up to the offer's step and minimum [h]; durations are sums of floats, so a step is not missed by 1e-3."""
    step = float(row["granularity_s"] or 0) / 3600
    if step:
        whole = int(hours / step)
        hours = (whole if hours / step - whole < 1e-3 else whole + 1) * step
    return max(hours, float(row["min_hours"] or 0))


def held_hours(item: Item, result: Result, problem: Problem, row: dict[str, Any]) -> float:
    """Hours billed over the horizon for a node held in some periods, every stretch of the clock rounded up by itself [h]."""
    hours = period_hours(result, problem)
    held = item.quantity_by_period if item.quantity_by_period is not None else dict.fromkeys(hours, 1)
    if float(row["granularity_s"]) <= 3600 and float(row["min_hours"]) <= 1:
        return sum(hours[p] for p in held)
    clock = _clock(result)
    total = 0.0
    for start, till, periods in spans(result, problem):
        levels = {n for n, p in enumerate(periods) if held.get(p)}
        runs = _runs([level in levels for level in clock])
        billed = HOURS if runs is None else min(HOURS, sum(stepped(n, row) for n in runs) * HOURS / len(clock))
        total += billed * (till - start) * bool(levels)
    return total


def _clock(result: Result) -> list[int]:
    """Level of each hour that the plan looks at, in the order of the clock."""
    if result.calendar is None:
        return [0]
    if result.calendar.hours:
        return [ord(letter) - ord("a") for letter in result.calendar.hours]
    return list(result.calendar.week)


def _runs(inside: Sequence[bool]) -> list[int] | None:
    """Lengths of the runs of true on a ring; None where there is no end to it."""
    if all(inside):
        return None
    first = next(i for i, x in enumerate(inside) if not x)
    out = [0]
    for x in [*inside[first:], *inside[:first]]:
        if x:
            out[-1] += 1
        elif out[-1]:
            out.append(0)
    return [n for n in out if n]


def hired_hours(item: Item, problem: Problem, catalog: Catalog, row: dict[str, Any]) -> float:
    """Hours billed to a job over the horizon, each run by itself [h]; nothing where there is no such job."""
    name = item.parts[0].removeprefix("for ") if item.parts else ""
    work = next((w for w in problem.workloads if w.name == name), None)
    if work is None or item.hours_per_month is None:
        return 0.0
    if isinstance(work, Fixed | Serve):
        runs, per_run = problem.horizon, item.hours_per_month
    elif work.runs.per_month:
        runs, per_run = work.runs.value * problem.horizon, item.hours_per_month / work.runs.value
    else:
        runs, per_run = work.runs.value, item.hours_per_month * problem.horizon / work.runs.value
    per_run = stepped(per_run, row)
    if item.billing == "capacity_block":
        for shape in catalog.capacity_blocks.filter(pl.col("provider") == item.provider).iter_rows(named=True):
            if shape["long_hours"] is not None and per_run > shape["long_hours"] * (1 + 1e-9):
                step = float(shape["long_step_hours"])
                per_run = math.ceil(per_run / step - 1e-9) * step
    return runs * per_run


def check_block(item: Item, problem: Problem, catalog: Catalog, row: dict[str, Any]) -> list[str]:
    """A block comes in certain numbers of nodes and lasts no longer than the provider lets it."""
    if item.billing != "capacity_block":
        return []
    wrong = []
    one = hired_hours(item, problem, catalog, row) / _runs_of(item, problem)
    for shape in catalog.capacity_blocks.filter(pl.col("provider") == item.provider).iter_rows(named=True):
        sizes = None if shape["nodes"] is None else shape["nodes"].split(";")
        if sizes is not None and f"{item.quantity:g}" not in sizes:
            wrong.append(f"{item.item}: capacity blocks come with {', '.join(sizes)} nodes, not {item.quantity:g}")
        if shape["max_hours"] is not None and one > shape["max_hours"] * (1 + 1e-9):
            wrong.append(f"{item.item}: a capacity block lasts at most {shape['max_hours']:g} h, not {one:g} h")
    return wrong


def _runs_of(item: Item, problem: Problem) -> float:
    """Runs over the horizon of the job that a line is hired for; 1 where there is none."""
    name = item.parts[0].removeprefix("for ") if item.parts else ""
    for work in problem.workloads:
        if work.name == name:
            if isinstance(work, Fixed | Serve):
                return problem.horizon
            return work.runs.value * (problem.horizon if work.runs.per_month else 1)
    return 1.0


def away_on_demand(
    offer_id: str, problem: Problem, catalog: Catalog, row: dict[str, Any]
) -> tuple[float, dict[str, Any] | None]:
    """Share of the time of a spot node expected on demand, and the on-demand price row of the machine."""
    full = catalog.prices.filter((pl.col("offer_id") == offer_id) & (pl.col("billing") == "on_demand"))
    if row["billing"] != "spot" or full.is_empty() or "on_demand" not in problem.billing_modes:
        return 0.0, None
    lost = row["interruption_per_month"]
    if lost is None:
        lost = catalog.assumption("spot_interruption_per_month")
    away = -math.log(1 - min(lost, 1 - 1e-15)) / HOURS * catalog.assumption("spot_fallback_h")
    return away / (1 + away), full.row(0, named=True)
