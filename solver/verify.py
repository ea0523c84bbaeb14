"""Check a Result again in plain float arithmetic from Problem and Catalog: no solver, no model, no candidates.

This is the specification that the model is held to. It reads what the plan claims (nodes, prices, placements), looks
every price and machine up in the catalogue again, and replays every load period. `verify` returns what is wrong.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import polars as pl

from catalogs.catalog import Catalog
from problems.schema import Batch, Finetune, Fixed, Pretrain, Problem, Serve
from solver.plan import Placement, Result, WorkloadPlan
from solver.scale_up import STEPS, grown
from solver.verify_cash import check_cash
from solver.verify_deployment import check_deployment
from solver.verify_money import check_bill
from solver.verify_places import check_places
from solver.verify_rates import check_rates
from solver.verify_rooms import check_rooms
from solver.verify_running import check_running
from solver.verify_sites import check_sites
from solver.verify_storage import check_storage
from solver.verify_tco import check_tco

SLACK = 1e-6
"""Relative shortfall of coverage that integer rounding may leave (the model forgives the same)."""
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def verify(result: Result, problem: Problem, catalog: Catalog, base_dir: Path = Path()) -> list[str]:
    """Recheck a plan.

    Returns
    -------
    list of str
        Violations in words; empty when the plan is accepted. A result without a plan has nothing to check.
    """
    if result.cost is None:
        return []
    wrong: list[str] = []
    if result.objective_name == "scale" and result.objective is not None:
        problem = grown(problem, round(result.objective * STEPS))
    wrong += _check_proof(result)
    wrong += check_bill(result, problem, catalog)
    wrong += check_tco(result, problem, catalog)
    wrong += check_cash(result, problem, catalog)
    wrong += check_running(result, problem, catalog)
    wrong += check_places(result, problem, catalog)
    wrong += check_deployment(result, problem, catalog)
    wrong += check_sites(result, problem, catalog)
    wrong += check_rooms(result, problem, catalog)
    wrong += check_storage(result, problem, catalog, base_dir)
    wrong += check_rates(result, problem, catalog, base_dir)
    wrong += _check_periods(result, problem, catalog)
    wrong += _check_services(result, problem)
    wrong += _check_jobs(result, problem)
    wrong += _check_packing(result)
    return wrong


def _check_proof(result: Result) -> list[str]:
    """Objective, bound and gap agree with one another and with the status."""
    wrong = []
    if result.objective is None or result.bound is None or result.gap is None:
        return ["plan without objective, bound or gap"]
    lowest = result.objective_name != "scale"
    if lowest and result.bound > result.objective + 1e-9 * abs(result.objective) + 0.01:
        wrong.append(f"bound {result.bound} above objective {result.objective}")
    if result.status == "optimal" and result.gap > 1e-6:
        wrong.append(f"called optimal at a gap of {result.gap}")
    return wrong


def week_levels(catalog: Catalog, calendar: str) -> list[float]:
    """Level of each hour of the representative week, read from the calendar table."""
    table = catalog.calendars.filter(pl.col("calendar") == calendar)
    level = {(d, h): 0.0 for d in DAYS for h in range(24)}
    for row in table.iter_rows(named=True):
        for hour in range(int(row["hour_from"]), int(row["hour_to"])):
            level[row["day"], hour] = float(row["level"])
    return [level[d, h] for d in DAYS for h in range(24)]


def demand_of(work: Serve) -> float:
    """Demand at level 1 [requests/s, or requests in flight for a concurrency]."""
    t = work.traffic
    if t.concurrency is not None:
        return float(t.concurrency)
    if t.rate is not None:
        return float(t.rate)
    assert t.users is not None
    return t.users.total * t.users.active * t.users.requests


def _check_periods(result: Result, problem: Problem, catalog: Catalog) -> list[str]:
    """Hour by hour, every service's stated demand is the calendar's, and the periods have the hours of the week."""
    services = {w.name: w for w in problem.workloads if isinstance(w, Serve)}
    plans = {w.name: w for w in result.workloads}
    wrong = []
    if abs(sum(result.periods.values()) - 730) > 0.01:
        wrong.append(f"periods cover {sum(result.periods.values())} hours a month, not 730")
    if not services or any(n not in plans for n in services):
        return wrong  # a service left out is refused by itself
    weeks = {n: [demand_of(w) * x for x in week_levels(catalog, w.traffic.calendar)] for n, w in services.items()}
    hours: dict[tuple[float, ...], float] = defaultdict(float)
    for hour in range(168):
        hours[tuple(round(weeks[n][hour], 9) for n in services)] += 730 / 168
    stated: dict[tuple[float, ...], float] = defaultdict(float)
    for period, length in result.periods.items():
        stated[tuple(round(plans[n].demand_by_period[period], 9) for n in services)] += length
    if set(hours) != set(stated) or any(abs(hours[k] - stated[k]) > 0.01 for k in hours):
        wrong.append("load periods do not add up to the calendars' hours and levels")
    return wrong


def _supply(work: Serve, placements: tuple[Placement, ...], period: str) -> list[float]:
    """Served load per bucket in a period."""
    buckets = work.traffic.buckets
    if len(buckets) == 1:
        return [sum(p.rates_by_bucket[0] * p.replicas_by_period[period] for p in placements)]
    return [
        sum(
            p.rates_by_bucket[b] * p.load_by_bucket_and_period[period][b]
            for p in placements
            if p.replicas_by_period[period]
        )
        for b in range(len(buckets))
    ]


def _check_services(result: Result, problem: Problem) -> list[str]:
    """Demand served in every bucket and period; replicas not loaded above 1; n+1 and spot share kept."""
    wrong: list[str] = []
    plans = {w.name: w for w in result.workloads}
    for work in problem.workloads:
        if not isinstance(work, Serve):
            continue
        plan = plans.get(work.name)
        if plan is None:
            wrong.append(f"{work.name}: not in the plan")
            continue
        for period in result.periods:
            demand = plan.demand_by_period[period]
            for b, bucket in enumerate(work.traffic.buckets):
                supply = _supply(work, plan.placements, period)[b]
                if supply < demand * bucket.share * (1 - SLACK) - 1e-12:
                    wrong.append(
                        f"{work.name}: {supply:.6g} of {demand * bucket.share:.6g} served in {period}, bucket {b}"
                    )
            for p in plan.placements:
                load = p.load_by_bucket_and_period.get(period, ())
                if sum(load) > p.replicas_by_period[period] * (1 + 1e-9):
                    wrong.append(f"{work.name}: replicas on {p.pool} overloaded in {period}")
            wrong += _check_loss(work, plan, result, period, demand, problem.policy.spot_share)
    return wrong


def _blend(work: Serve, placement: Placement) -> float:
    """Rate of a replica for the workload's own mix of request sizes."""
    if min(placement.rates_by_bucket) <= 0:
        return 0.0
    return 1 / sum(b.share / r for b, r in zip(work.traffic.buckets, placement.rates_by_bucket, strict=True))


def _check_loss(
    work: Serve, plan: WorkloadPlan, result: Result, period: str, demand: float, spot_share: float
) -> list[str]:
    """n+1: lose the worst node of any pool; spot share: lose all spot nodes at once."""
    wrong = []
    gpus = node_sizes(result)
    rate = {id(p): _blend(work, p) for p in plan.placements}
    supply = sum(rate[id(p)] * p.replicas_by_period[period] for p in plan.placements)
    if work.redundancy == "n+1" and demand > 0:
        for pool in {p.pool for p in plan.placements}:
            here = [p for p in plan.placements if p.pool == pool]
            inside = sum(rate[id(p)] * p.replicas_by_period[period] for p in here)
            # The worst node holds as many of the best replicas as fit it.
            node = max(rate[id(p)] * max(1, gpus[pool] // p.accelerators_per_replica) for p in here)
            if supply - min(inside, node) < demand * (1 - SLACK) - 1e-12:
                wrong.append(f"{work.name}: demand in {period} does not survive the loss of a node of {pool}")
    on_spot = any(p.pool.endswith("#spot") and p.replicas_by_period[period] for p in plan.placements)
    if on_spot and not work.interruptible:
        wrong.append(f"{work.name}: on spot nodes, but it cannot be interrupted")
    firm = _supply(work, tuple(p for p in plan.placements if not p.pool.endswith("#spot")), period)
    needed = [demand * b.share * (1 - spot_share) * (1 - SLACK) - 1e-12 for b in work.traffic.buckets]
    if on_spot and any(have < need for have, need in zip(firm, needed, strict=True)):
        wrong.append(f"{work.name}: more than the spot share of {spot_share:.0%} depends on spot in {period}")
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
        held += int(item.quantity) if item.quantity_by_period is None else item.quantity_by_period.get(period, 0)
    return held


def _check_packing(result: Result) -> list[str]:
    """Put every replica and pooled job on the nodes held, largest first; all must find room."""
    wrong = []
    gpus = node_sizes(result)
    for period in result.periods:
        wanted: dict[str, list[int]] = defaultdict(list)
        for w in result.workloads:
            for p in w.placements:
                if w.kind == "serve" or is_pooled(p):
                    # A batch job is many replicas, each of which may stand on a node of its own.
                    size = p.tp * p.pp if w.kind == "batch" else p.accelerators_per_replica
                    wanted[p.pool] += [size] * (p.replicas_by_period[period] * p.accelerators_per_replica // size)
        for pool, sizes in wanted.items():
            free = [gpus.get(pool, 0)] * nodes_held(result, pool, period)
            for size in sorted(sizes, reverse=True):
                if not _take(free, size, gpus.get(pool, 0)):
                    wrong.append(f"{pool}: {size} accelerators find no room in {period}")
                    break
    return wrong


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


def _check_jobs(result: Result, problem: Problem) -> list[str]:
    """Every job runs once, within its deadline, and repeats fit one after another on the nodes it holds."""
    wrong = []
    plans = {w.name: w for w in result.workloads}
    for work in problem.workloads:
        if isinstance(work, Serve):
            continue
        plan = plans.get(work.name)
        if plan is None or len(plan.placements) != 1:
            wrong.append(f"{work.name}: runs in {0 if plan is None else len(plan.placements)} ways, not one")
            continue
        placement = plan.placements[0]
        took = placement.duration_h or 0.0
        if not is_pooled(placement):
            wrong += _check_hired(work, placement, result, problem)
        if work.kind == "fixed":
            continue
        limit = work.deadline / 3600 if work.deadline is not None else None
        if limit is not None and took > limit * (1 + SLACK):
            wrong.append(f"{work.name}: takes {took:.2f} h, deadline {limit:.2f} h")
        room = 730.0 if work.runs.per_month else problem.horizon * 730
        if is_pooled(placement) and took * work.runs.value > room * (1 + SLACK):
            wrong.append(f"{work.name}: its runs do not fit one after another")
    return wrong


def _check_hired(
    work: Pretrain | Finetune | Batch | Fixed, placement: Placement, result: Result, problem: Problem
) -> list[str]:
    """The bill has a line for the job's own nodes, as many and for as long as it runs."""
    took = placement.duration_h or 0.0
    if not isinstance(work, Fixed):
        took *= work.runs.value / (1 if work.runs.per_month else problem.horizon)
    lines = [
        i for i in result.items if i.kind == "rental" and i.pool == placement.pool and i.parts == (f"for {work.name}",)
    ]
    nodes = sum(i.quantity for i in lines if (i.hours_per_month or 0.0) >= took * (1 - SLACK))
    if nodes < placement.nodes:
        return [f"{work.name}: runs on {placement.nodes} nodes of {placement.pool}, the bill has {nodes:g}"]
    return []
