"""Check a Result again in plain float arithmetic from Problem and Catalog: no solver, no model, no candidates.

This is the specification that the model is held to. It reads what the plan claims (nodes, prices, placements), looks
every price and machine up in the catalogue again, and replays every load period. `verify` returns what is wrong.
"""

from __future__ import annotations

from pathlib import Path

from catalogs.catalog import Catalog
from problems.schema import Batch, Finetune, Fixed, Pretrain, Problem, Serve
from solver.plan import Alone, Placement, Result, SingleType, WorkloadPlan
from solver.scale_up import STEPS, grown
from solver.verify_cash import check_cash
from solver.verify_deployment import check_deployment
from solver.verify_fleet import check_fleet
from solver.verify_losses import Carrying, check_losses, like_nodes, like_pools
from solver.verify_money import check_bill
from solver.verify_nics import check_nics
from solver.verify_places import check_places
from solver.verify_rates import check_rates
from solver.verify_rooms import check_rooms
from solver.verify_running import check_running
from solver.verify_shares import check_shares
from solver.verify_sites import check_sites
from solver.verify_storage import check_storage
from solver.verify_tco import check_tco
from solver.verify_terms import check_commitments
from solver.verify_traffic import SLACK, check_traffic, served
from solver.verify_units import check_units
from solver.verify_week import check_week, is_pooled, node_sizes


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
    wrong += check_shares(result, problem, catalog)
    wrong += check_bill(result, problem, catalog)
    wrong += check_units(result, problem, catalog)
    wrong += check_tco(result, problem, catalog)
    wrong += check_cash(result, problem, catalog)
    wrong += check_fleet(result, problem, catalog)
    wrong += check_running(result, problem, catalog)
    wrong += check_places(result, problem, catalog)
    wrong += check_deployment(result, problem, catalog)
    wrong += check_sites(result, problem, catalog)
    wrong += check_nics(result, problem, catalog)
    wrong += check_rooms(result, problem, catalog)
    wrong += check_storage(result, problem, catalog, base_dir)
    wrong += check_rates(result, problem, catalog, base_dir)
    wrong += check_traffic(result, problem, catalog, base_dir)
    wrong += check_commitments(result, problem, catalog)
    wrong += _check_services(result, problem, catalog)
    wrong += _check_jobs(result, problem)
    wrong += check_week(result, problem)
    return wrong


def _check_proof(result: Result) -> list[str]:
    """Objective, bound and gap agree with one another and with the status."""
    wrong = []
    if result.objective is None or result.bound is None or result.gap is None:
        return ["plan without objective, bound or gap"]
    lowest = result.objective_name not in ("scale", "value")
    if lowest and result.bound > result.objective + 1e-9 * abs(result.objective) + 0.01:
        wrong.append(f"bound {result.bound} above objective {result.objective}")
    others: list[tuple[str, Alone | SingleType]] = [
        (other.billing, other) for other in (*result.single_modes, result.unshared) if other is not None
    ]
    if result.single_type is not None:
        others.append((result.single_type.accelerator or "one type", result.single_type))
    for name, other in others:
        if other.total is not None and float(other.total) < result.bound - 0.01 - 1e-6 * abs(result.bound):
            wrong.append(f"{name} alone costs {other.total}, below the bound {result.bound}")
        if other.saving and (other.bound is None or abs(other.saving - 1 + result.objective / other.bound) > 1e-4):
            wrong.append(f"the plan is not {other.saving:.1%} cheaper than {name} alone")
    if result.status == "optimal" and result.gap > 1e-6:
        wrong.append(f"called optimal at a gap of {result.gap}")
    return wrong


def _check_services(result: Result, problem: Problem, catalog: Catalog) -> list[str]:
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
            demand = plan.demand_by_period[period] * plan.served_share
            for b, bucket in enumerate(work.traffic.buckets):
                supply = served(work, plan.placements, period)[b]
                if supply < demand * bucket.share * (1 - SLACK) - 1e-12:
                    wrong.append(
                        f"{work.name}: {supply:.6g} of {demand * bucket.share:.6g} served in {period}, bucket {b}"
                    )
            for p in plan.placements:
                load = p.load_by_bucket_and_period.get(period, ())
                if sum(load) > p.replicas_by_period[period] * (1 + 1e-9):
                    wrong.append(f"{work.name}: replicas on {p.pool} overloaded in {period}")
            wrong += _check_routing(work, plan, period, demand)
            wrong += _check_loss(work, plan, result, period, demand, problem.policy.spot_share, catalog)
    return wrong


def _check_routing(work: Serve, plan: WorkloadPlan, period: str, demand: float) -> list[str]:
    """The routing sends every request somewhere, and keeps each replica busy for the stated share of its time, at most 1.

    A replica's time is the sum over sizes of requests sent / requests it does in a unit of time when it does nothing else.
    """
    wrong = []
    sent = [0.0] * len(work.traffic.buckets)
    for p in plan.placements:
        routed, count = p.requests_by_bucket_and_period.get(period), p.replicas_by_period[period]
        if routed is None or not count:
            continue
        if any(x > 0 and rate <= 0 for x, rate in zip(routed, p.rates_by_bucket, strict=True)):
            wrong.append(f"{work.name}: {p.pool} is sent requests of a size that it cannot serve in {period}")
            continue
        busy = sum(x / rate for x, rate in zip(routed, p.rates_by_bucket, strict=True) if x > 0) / count
        if busy > 1 + 1e-9:
            wrong.append(f"{work.name}: routing overloads {p.pool} in {period}: {busy:.6f} of its time")
        if abs(busy - p.busy_by_period.get(period, 0.0)) > 1e-6:
            wrong.append(f"{work.name}: {p.pool} is busy for {busy:.6f} of its time in {period}, not as stated")
        sent = [a + b for a, b in zip(sent, routed, strict=True)]
    if len(sent) > 1:
        for b, (bucket, x) in enumerate(zip(work.traffic.buckets, sent, strict=True)):
            if abs(x - demand * bucket.share) > demand * bucket.share * SLACK * 2 + 1e-12:
                wrong.append(f"{work.name}: {x:.6g} of {demand * bucket.share:.6g} routed in {period}, bucket {b}")
    return wrong


def _blend(work: Serve, placement: Placement) -> float:
    """Rate of a replica for the workload's own mix of request sizes."""
    if min(placement.rates_by_bucket) <= 0:
        return 0.0
    return 1 / sum(b.share / r for b, r in zip(work.traffic.buckets, placement.rates_by_bucket, strict=True))


def _check_loss(
    work: Serve,
    plan: WorkloadPlan,
    result: Result,
    period: str,
    demand: float,
    spot_share: float,
    catalog: Catalog,
) -> list[str]:
    """Lose the worst nodes, and whole places; spot share: lose all spot nodes at once."""
    wrong = []
    gpus = node_sizes(result)
    rate = {id(p): _blend(work, p) for p in plan.placements}
    sites = {i.pool: i.site for i in result.items if i.kind == "server"}
    alike = like_pools(result)
    held = like_nodes(result, alike, period)
    here = [
        Carrying(
            placement=p,
            count=p.replicas_by_period[period],
            rate=rate[id(p)],
            node_gpus=gpus[p.pool],
            held=held[alike[p.pool]],
            site=sites.get(p.pool),
            like=alike[p.pool],
        )
        for p in plan.placements
        if p.pool in gpus
    ]
    wrong += check_losses(work, plan, period, here, demand, catalog)
    on_spot = any(p.pool.endswith("#spot") and p.replicas_by_period[period] for p in plan.placements)
    if on_spot and not work.interruptible:
        wrong.append(f"{work.name}: on spot nodes, but it cannot be interrupted")
    firm = served(work, tuple(p for p in plan.placements if not p.pool.endswith("#spot")), period)
    needed = [demand * b.share * (1 - spot_share) * (1 - SLACK) - 1e-12 for b in work.traffic.buckets]
    if on_spot and any(have < need for have, need in zip(firm, needed, strict=True)):
        wrong.append(f"{work.name}: more than the spot share of {spot_share:.0%} depends on spot in {period}")
    return wrong


def _check_jobs(result: Result, problem: Problem) -> list[str]:
    """Every job runs once, within its deadline, and repeats fit one after another on the nodes it holds."""
    wrong = []
    plans = {w.name: w for w in result.workloads}
    for work in problem.workloads:
        if isinstance(work, Serve):
            continue
        plan = plans.get(work.name)
        if plan is not None and plan.served_share == 0:
            continue  # left out; whether it may be is for check_shares
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
