"""What each workload costs of a plan's total, and what a million of its tokens cost, in and out.

A pool's nodes are paid by those who use them, by GPU-hours; what is held idle for them is theirs too. Hired runs and the
electricity of the work done belong to one workload as they are. All in whole cents, so that shares add up to the bill.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from problems.schema import Batch, Problem, Serve, Workload
from solver.bill import hours_per_month, money
from solver.plan import Item, TokenCost, WorkloadPlan
from solver.scaling import Scaled
from solver.search import Values

SECONDS_PER_HOUR = 3600.0
Use = dict[int, dict[str, float]]


def with_costs(
    workloads: Sequence[WorkloadPlan], scaled: Scaled, values: Values, problem: Problem
) -> tuple[WorkloadPlan, ...]:
    """Add each workload's cost over the horizon, and the cost of its tokens where it makes any.

    The money of a service is split between input and output by the time that reading prompts and writing answers take;
    no split is given where nothing is known of it (rates that the problem file states).
    """
    use = _gpu_hours(scaled, values, problem)
    cents = _cents(scaled, values, use)
    tasks = {w.name: w for w in problem.workloads}
    return tuple(
        w.model_copy(
            update={
                "cost": money(cents.get(w.name, 0)),
                "tokens": _token_cost(tasks[w.name], w, cents.get(w.name, 0), scaled, values, problem),
            }
        )
        for w in workloads
    )


def _gpu_hours(scaled: Scaled, values: Values, problem: Problem) -> Use:
    """GPU-hours per month of each workload on the nodes that the plan holds, by pool."""
    inst = scaled.instance
    use: Use = defaultdict(lambda: defaultdict(float))
    for (k, p), count in values.replicas.items():
        replica = inst.replicas[k]
        use[replica.pool][inst.services[replica.work].name] += count * replica.gpus * scaled.period_hours[p]
    for q, option in enumerate(inst.options):
        if values.chosen[q] and option.pooled:
            row = scaled.options.row(q, named=True)
            use[option.pool][inst.jobs[option.work]] += option.gpus * hours_per_month(row, problem)
    return use


def with_utilisation(items: tuple[Item, ...], scaled: Scaled, values: Values, problem: Problem) -> tuple[Item, ...]:
    """Lines of held nodes with the share of their pool's accelerator-hours that work is planned on."""
    inst = scaled.instance
    use = _gpu_hours(scaled, values, problem)
    share: dict[str, float] = {}
    for o, pool in enumerate(inst.pools):
        held = 0.0
        for i in inst.pool_capacities(o):
            for p, hours in enumerate(scaled.period_hours):
                held += (values.commit[i] if inst.capacities[i].commit else values.hourly[i, p]) * hours
        if held and pool.gpus:
            share[pool.key] = round(sum(use.get(o, {}).values()) / (held * pool.gpus), 4)
    return tuple(
        item.model_copy(update={"utilisation": share[item.pool]})
        if item.pool in share and item.kind in ("rental", "server") and item.hours_per_month is None
        else item
        for item in items
    )


def _cents(scaled: Scaled, values: Values, use: Use) -> dict[str, int]:
    """Cents over the horizon by workload."""
    inst = scaled.instance
    held: dict[int, int] = defaultdict(int)
    out: dict[str, int] = defaultdict(int)
    for i, c in enumerate(inst.capacities):
        if c.commit:
            held[c.pool] += c.cash[0] * values.commit[i]
        else:
            held[c.pool] += sum(c.cash[p] * values.hourly[i, p] for p in range(len(inst.periods)))
    for pool, amount in held.items():
        for name, part in shares(amount, use.get(pool, {})).items():
            out[name] += part
    for q, option in enumerate(inst.options):
        if values.chosen[q]:
            out[inst.jobs[option.work]] += option.cash
    for (k, p), count in values.replicas.items():
        replica = inst.replicas[k]
        out[inst.services[replica.work].name] += replica.cash[p] * count
    return out


def shares(amount: int, weights: Mapping[str, float]) -> dict[str, int]:
    """Split whole cents by weight; what rounding leaves over goes to the largest. Nothing where there is no weight."""
    whole = sum(weights.values())
    if whole <= 0:
        return {}
    out = {name: int(amount * weight / whole) for name, weight in weights.items()}
    out[max(weights, key=lambda name: (weights[name], name))] += amount - sum(out.values())
    return out


def _token_cost(
    work: Workload, plan: WorkloadPlan, cents: int, scaled: Scaled, values: Values, problem: Problem
) -> TokenCost | None:
    if plan.served_share == 0:
        return None
    if isinstance(work, Serve):
        requests, reading = _served(work, plan, scaled, values, problem)
        buckets = work.traffic.buckets
        isl, osl = (sum(getattr(b, side) * b.share for b in buckets) for side in ("isl", "osl"))
    elif isinstance(work, Batch):
        runs = work.runs.value * (problem.horizon if work.runs.per_month else 1)
        requests, reading = work.requests * runs, _batch_reading(work.name, scaled, values)
        isl, osl = work.isl, work.osl
    else:
        return None
    read, written = requests * isl / 1e6, requests * osl / 1e6
    if read + written <= 0:
        return None
    whole = money(cents)

    def per_million(part: float, tokens: float) -> Decimal | None:
        return None if tokens <= 0 else whole * Decimal(repr(part)) / Decimal(repr(tokens))

    return TokenCost(
        input_millions=round(read, 6),
        output_millions=round(written, 6),
        per_million=per_million(1.0, read + written),
        input_time_share=None if reading is None else round(reading, 6),
        per_million_input=None if reading is None else per_million(round(reading, 6), read),
        per_million_output=None if reading is None else per_million(1.0 - round(reading, 6), written),
    )


def _served(
    work: Serve, plan: WorkloadPlan, scaled: Scaled, values: Values, problem: Problem
) -> tuple[float, float | None]:
    """Requests over the horizon, and the share of busy time that goes into prompts (by GPU-hours of the placements)."""
    inst = scaled.instance
    hours = dict(zip(inst.periods, scaled.period_hours, strict=True))
    mine = [k for k, r in enumerate(inst.replicas) if inst.services[r.work].name == work.name]
    gpu_hours = {
        k: inst.replicas[k].gpus * sum(values.replicas[k, p] * h for p, h in enumerate(scaled.period_hours))
        for k in mine
    }
    rows = {k: scaled.replicas.row(k, named=True) for k in mine if gpu_hours[k]}
    requests = 0.0
    asked = scaled.asked[next(s for s, service in enumerate(inst.services) if service.name == work.name)]
    for p, name in enumerate(inst.periods):
        demand = plan.demand_by_period.get(name, 0.0) * plan.served_share
        if work.traffic.concurrency is not None:
            # Little's law the other way: of the requests/s that the replicas serve full, the part that is in flight.
            full = sum(values.replicas[k, p] * rows[k]["blend"] for k in rows)
            rate = sum(values.replicas[k, p] * _requests_per_s(rows[k]) for k in rows)
            demand = rate * min(1.0, demand / full) if full else 0.0
        requests += demand * asked[p] * hours[name] * SECONDS_PER_HOUR * problem.horizon
    return requests, _weighted([(gpu_hours[k], rows[k].get("prefill_share")) for k in rows])


def _requests_per_s(row: Mapping[str, Any]) -> float:
    """Requests/s of one full replica for the workload's mix: 1 / sum_b (share_b / rate_b)."""
    rates = row.get("req_rates") or []
    if not rates or min(rates) <= 0:
        return 0.0
    return float(1.0 / sum(share / rate for share, rate in zip(row["share"], rates, strict=True)))


def _batch_reading(name: str, scaled: Scaled, values: Values) -> float | None:
    inst = scaled.instance
    chosen = [
        (float(o.gpus * o.duration_s), scaled.options.row(q, named=True).get("prefill_share"))
        for q, o in enumerate(inst.options)
        if values.chosen[q] and inst.jobs[o.work] == name
    ]
    return _weighted(chosen)


def _weighted(parts: Sequence[tuple[float, float | None]]) -> float | None:
    """Mean by weight; None where any part is not known."""
    known = [(weight, share) for weight, share in parts if share is not None]
    whole = sum(weight for weight, _ in known)
    if not parts or len(known) < len(parts) or whole <= 0:
        return None
    return sum(weight * share for weight, share in known) / whole
