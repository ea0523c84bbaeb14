"""A fixed plan replayed under more load than it was made for: what breaks first, at what load, what head-room costs.

A replica's rate is the most it serves within its latency limits, so a service holds as long as the busiest period's demand
stays within what its replicas carry; with several request sizes as long as they can be shared out among the replicas,
which a small linear programme answers. Beyond that requests queue: the first limit to break is the one that bounds the
batch.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from decimal import Decimal
from itertools import combinations_with_replacement

from problems.schema import Serve
from solver.plan import Placement, Result, WorkloadPlan
from solver.verify_losses import like_pools
from solver.verify_week import node_sizes
from solver.whatif.mix import largest_mix
from solver.whatif.study import Study
from solver.whatif.sweep_points import Break, Step, Stress, plan_text
from solver.whatif.vary import Amount, BadRequest, Scenario, Vary

TIGHT = 0.98
"""A latency at this share of its limit is what bounds the batch."""


def stress(
    study: Study,
    vary: Vary,
    stop: threading.Event,
    tell: Callable[[int, int, str], None] = lambda done, of, said: None,
    plan: Result | None = None,
) -> Stress:
    """Replay the best plan (or a given one) with the loads at `vary.path` multiplied by its values.

    Raises
    ------
    BadRequest
        Where the path is no load of a service, or the problem has no plan to replay.
    """
    parts = vary.path.split(".")
    if parts[0] != "workloads" or len(parts) < 4 or parts[2] != "traffic":
        raise BadRequest(f"--stress {vary.path}: give the load of services, e.g. workloads.*.traffic.rate=1.0..1.5:0.1")
    base = plan or study.solve(stop=stop)
    if base.cost is None:
        raise BadRequest("there is no plan to replay: " + ("; ".join(base.no_plan_because) or str(base.status)))
    services = [w for w in study.loaded.problem.workloads if isinstance(w, Serve) and parts[1] in ("*", w.name)]
    if not services:
        raise BadRequest(f"--stress {vary.path}: no service of that name")
    plans = {w.name: w for w in base.workloads}
    breaks = tuple(_break(w, plans[w.name], base, study.loaded.problem.policy.spot_share) for w in services)
    steps: list[Step] = []
    factors = [float(_plain(v)) for v in vary.values]
    for n, factor in enumerate(factors):
        if stop.is_set():
            break
        again = base if factor == 1 else study.solve(Scenario(factors=((vary.path, f"{factor:g}"),)), stop)
        if stop.is_set() and factor != 1:
            break
        over = sorted((b for b in breaks if factor > b.holds_to * (1 + 1e-6)), key=lambda b: b.holds_to)
        extra = None if again.cost is None else again.cost.total - base.cost.total
        steps.append(
            Step(
                factor=factor,
                broken=tuple(f"{b.workload}: {b.first}" for b in over),
                first=over[0].workload if over else None,
                total=None if again.cost is None else again.cost.total,
                extra=extra,
                extra_share=None if extra is None or base.cost.total == 0 else float(extra / base.cost.total),
                plan=plan_text(again) or "; ".join(again.no_plan_because[:1]) or str(again.status),
            )
        )
        tell(n + 1, len(factors), f"x{factor:g}: {'holds' if not over else over[0].first}")
    return Stress(
        problem=base.problem,
        field=f"{vary.path} x {vary.values[0]} .. {vary.values[-1]}",
        plan=plan_text(base),
        currency=base.cost.currency,
        base=base,
        breaks=breaks,
        steps=tuple(steps),
        complete=len(steps) == len(factors),
    )


def _plain(text: str) -> Decimal:
    amount = Amount.parse(text)
    number = amount.number / 100 if amount.suffix.strip() == "%" else amount.number
    if number <= 0 or amount.prefix or amount.suffix.strip() not in ("", "%"):
        raise BadRequest(f"--stress: {text} is no factor on the load; write 1.0..1.5:0.1")
    return number


def _break(work: Serve, plan: WorkloadPlan, base: Result, spot_share: float) -> Break:
    """Largest factor that every period bears, and what gives way beyond it."""
    worst, period = float("inf"), ""
    for name, whole in plan.demand_by_period.items():
        demand = whole * plan.served_share
        if demand <= 0:
            continue
        bears = carried(work, plan.placements, name, base) / demand
        if bears < worst:
            worst, period = bears, name
    first = _first(work, plan.placements, period)
    text = f"holds to {worst:.3g} times the planned load (in {period}); then {first}"
    return Break(workload=work.name, holds_to=round(worst, 6), period=period, first=first, text=text)


def carried(work: Serve, placements: tuple[Placement, ...], period: str, base: Result) -> float:
    """Most demand of the workload's mix that its replicas carry in a period, with a node lost where it must survive that."""
    counts = [(p, p.replicas_by_period.get(period, 0)) for p in placements]
    whole = _mix(work, counts)
    plan = next((w for w in base.workloads if w.name == work.name), None)
    spare = max(work.nodes_to_lose, (plan.spare_nodes or 0) if plan is not None else 0)
    if not spare:
        return whole
    gpus, alike = node_sizes(base), like_pools(base)
    sets: dict[tuple[object, ...], list[int]] = {}
    for i, (p, n) in enumerate(counts):
        if n:
            sets.setdefault(alike.get(p.pool, (p.pool,)), []).append(i)
    left = whole
    for ways in combinations_with_replacement(list(sets), spare):
        lost = list(counts)
        for like in set(ways):
            # The worst nodes hold as many of the best replicas of the like pools as fit on them.
            here = sorted(sets[like], key=lambda i: -counts[i][0].rate / counts[i][0].accelerators_per_replica)
            room = float(ways.count(like))
            for i in here:
                p, n = counts[i]
                gone = min(
                    n, math.floor(room * (fit := max(1, gpus.get(p.pool, 1) // p.accelerators_per_replica)) + 1e-9)
                )
                room -= gone / fit
                lost[i] = (p, n - gone)
        left = min(left, _mix(work, lost))
    return left


def _mix(work: Serve, counts: list[tuple[Placement, int]]) -> float:
    """Largest total demand in the workload's mix of sizes that replicas carry: max t, sum_k r_kb f_kb >= t share_b."""
    shares = [b.share for b in work.traffic.buckets]
    used = [(p.rates_by_bucket, n) for p, n in counts if n]
    if not used:
        return 0.0
    if len(shares) == 1:
        return float(sum(rates[0] * n for rates, n in used))
    return largest_mix(shares, used)


def _first(work: Serve, placements: tuple[Placement, ...], period: str) -> str:
    """The limit that breaks when load exceeds what replicas carry."""
    slo = work.slo
    near: list[tuple[float, str]] = []
    for p in placements:
        if not p.replicas_by_period.get(period, 0):
            continue
        if slo.ttft is not None and p.ttft_ms is not None:
            near.append((p.ttft_ms / 1000 / slo.ttft, f"TTFT over {slo.ttft * 1000:g} ms ({slo.percentile})"))
        if slo.tpot is not None and p.tpot_ms is not None:
            near.append((p.tpot_ms / 1000 / slo.tpot, f"TPOT over {slo.tpot * 1000:g} ms ({slo.percentile})"))
    lost = " after the loss of a node" if work.nodes_to_lose or work.availability else ""
    if near and max(near)[0] >= TIGHT:
        return max(near)[1] + lost
    if slo.ttft is not None:
        # The batch is bounded by memory, not by latency: what does not fit waits, and waiting counts as time to first token.
        return f"memory is full, requests queue: TTFT over {slo.ttft * 1000:g} ms ({slo.percentile}){lost}"
    return f"requests queue without end (no TTFT limit is set){lost}"
