"""Replay the representative week hour by hour: replicas and running jobs find room on the nodes held, jobs keep their hours.

A simulation of the plan's own claims against the calendars of the problem: no solver, none of the model's code.
"""

from __future__ import annotations

import math
from collections import defaultdict

from problems.schema import Batch, Finetune, Pretrain, Problem
from solver.plan import Placement, Result, WorkloadPlan
from solver.verify_traffic import spans, there

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
WEEK_H = 168
Job = Pretrain | Finetune | Batch


def weeks_of(result: Result, problem: Problem) -> list[list[str]]:
    """Name of the load period of each hour of the week, in every stage; `check_traffic` holds them against the traffic."""
    levels = [0] * WEEK_H if result.calendar is None else list(result.calendar.week)
    return [[mine[level] for level in levels] for _, _, mine in spans(result, problem)]


def check_week(result: Result, problem: Problem) -> list[str]:
    """Put every replica and running job on the nodes held, largest first, in each hour; all must find room."""
    wrong = []
    gpus = node_sizes(result)
    seen: set[tuple[str, tuple[int, ...], int]] = set()
    hours = [(hour, period) for week in weeks_of(result, problem) for hour, period in enumerate(week)]
    for hour, period in hours:
        for pool, sizes in _wanted(result, period, hour).items():
            held = nodes_held(result, pool, period)
            case = (pool, tuple(sorted(sizes, reverse=True)), held)
            if case in seen:
                continue
            seen.add(case)
            free = [gpus.get(pool, 0)] * held
            for size in case[1]:
                if not _take(free, size, gpus.get(pool, 0)):
                    when = f"{period}, {DAYS[hour // 24]} {hour % 24:02}:00"
                    wrong.append(f"{pool}: {size} accelerators find no room in {when}")
                    break
    return wrong + _check_hours(result, problem)


def _wanted(result: Result, period: str, hour: int) -> dict[str, list[int]]:
    """Accelerators that each replica and each run under way takes, by pool."""
    wanted: dict[str, list[int]] = defaultdict(list)
    for w in result.workloads:
        for p in w.placements:
            # A batch job is many replicas, each of which may stand on a node of its own.
            size = p.tp * p.pp if w.kind == "batch" else p.accelerators_per_replica
            if w.kind == "serve":
                times = p.replicas_by_period[period]
            elif is_pooled(p):
                times = runs_under_way(p, hour)
            else:
                continue
            wanted[p.pool] += [size] * (times * p.accelerators_per_replica // size)
    return wanted


def runs_under_way(placement: Placement, hour: int) -> int:
    """Runs of a job that take their machines in an hour of the week; one where it has no hours of its own."""
    if not placement.starts_h:
        return 1
    length = _hours_kept(placement)
    return sum((hour - start) % WEEK_H < length for start in placement.starts_h)


def _hours_kept(placement: Placement) -> int:
    return math.ceil((placement.duration_h or 0.0) - 1e-6)


def _check_hours(result: Result, problem: Problem) -> list[str]:
    """Windows kept, runs of the week as many as asked for, and none before those that it waits for."""
    plans = {w.name: w for w in result.workloads}
    wrong = []
    for work in problem.workloads:
        plan = plans.get(work.name)
        if not isinstance(work, Job) or plan is None or len(plan.placements) != 1:
            continue
        p = plan.placements[0]
        asked = work.window is not None or bool(work.after)
        if not p.starts_h:
            if asked:
                wrong.append(f"{work.name}: has no hours of the week, although the problem says when it may run")
            continue
        weeks = 730 / WEEK_H * (1 if work.runs.per_month else problem.horizon)
        if len(p.starts_h) < work.runs.value / weeks - 1e-6:
            wrong.append(f"{work.name}: {len(p.starts_h)} runs a week are too few")
        if work.window is not None:
            spans = [(a + turn, b + turn) for a, b in work.window.spans for turn in (-WEEK_H, 0, WEEK_H)]
            whole = any(b - a >= WEEK_H for a, b in work.window.spans)
            for start in p.starts_h:
                if not whole and not any(a <= start and start + _hours_kept(p) <= b for a, b in spans):
                    wrong.append(f"{work.name}: the run from hour {start} on leaves its window")
        wrong += _check_after(work, p, plans)
    return wrong


def _check_after(work: Job, placement: Placement, plans: dict[str, WorkloadPlan]) -> list[str]:
    wrong = []
    for name in work.after:
        other = plans[name].placements[0] if name in plans and plans[name].placements else None
        if other is None or not other.starts_h:
            wrong.append(f"{work.name}: waits for {name}, which has no hours in the plan")
            continue
        ends = sorted(start + _hours_kept(other) for start in other.starts_h)
        for j, start in enumerate(sorted(placement.starts_h)):
            if start < ends[min(j, len(ends) - 1)]:
                wrong.append(f"{work.name}: run {j + 1} starts before {name} has ended")
    return wrong


def node_sizes(result: Result) -> dict[str, int]:
    """Accelerators per node of every pool on the bill."""
    sizes: dict[str, int] = {}
    for item in result.items:
        if item.pool is not None and item.accelerators and item.quantity:
            sizes[item.pool] = round(item.accelerators / item.quantity)
    return sizes


def nodes_held(result: Result, pool: str, period: str) -> int:
    """Nodes of a pool that the bill holds in a period, without those that jobs hire for themselves."""
    held = 0
    for item in result.items:
        if item.pool != pool or item.kind not in ("rental", "server") or item.hours_per_month is not None:
            continue
        held += int(there(item, period))
    return held


def is_pooled(placement: Placement) -> bool:
    """True for jobs that run on held nodes; hired ones are billed as on_demand, spot or capacity_block for their hours."""
    return placement.billing.startswith("held")


def _take(free: list[int], size: int, node: int) -> bool:
    """Occupy `size` accelerators: on one node, or on whole nodes when larger than one (the last may stay part used)."""
    if node == 0:
        return False
    if size <= node:
        fitting = [i for i, f in enumerate(free) if f >= size]
        if not fitting:
            return False
        best = min(fitting, key=lambda i: free[i])
        free[best] -= size
        return True
    empty = [i for i, f in enumerate(free) if f == node]
    need = -(-size // node)
    if len(empty) < need:
        return False
    for i in empty[:need]:
        free[i] = 0
    return True
