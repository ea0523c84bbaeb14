"""Solution values -> where each workload runs, at what rate, with how much to spare."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from problems.schema import BareModel, ConfigModel, ModelRef, Serve
from problems.units import format_count
from solver.answer import Answer
from solver.bill import billing_label, money
from solver.instance import DEMAND_UNIT, SHARE_UNIT
from solver.plan import (
    Placement,
    WorkloadPlan,
)
from solver.routing import Routing
from solver.scaling import Scaled, demands, top_level
from solver.search import Values
from solver.survived import survived


def _billing_of(scaled: Scaled, values: Values, pool: int) -> str:
    """Billing labels under which nodes of a pool are held."""
    labels = []
    for i in scaled.instance.pool_capacities(pool):
        c = scaled.instance.capacities[i]
        held = values.commit[i] if c.commit else sum(values.hourly[i, p] for p in range(len(scaled.instance.periods)))
        if held:
            labels.append(billing_label(scaled.capacity.row(i, named=True)))
    return " + ".join(dict.fromkeys(labels))


def workload_plans(answer: Answer, values: Values) -> tuple[WorkloadPlan, ...]:
    scaled, problem = answer.scaled, answer.loaded.problem
    inst = scaled.instance
    plans = []
    services = {s.name: i for i, s in enumerate(inst.services)}
    routing = _routing(answer, values)
    for number, work in enumerate(problem.workloads):
        model = getattr(work, "model", None)
        label = _model_label(model)
        if isinstance(work, Serve):
            s = services[work.name]
            placements = tuple(
                _replica_placement(answer, values, routing, k)
                for k, r in enumerate(inst.replicas)
                if r.work == s and any(values.replicas[k, p] for p in range(len(inst.periods)))
            )
            top = top_level(answer.found, s)
            total = sum(demands(work)) * top
            plans.append(
                WorkloadPlan(
                    name=work.name,
                    kind=work.kind,
                    model=label,
                    placements=placements,
                    headroom=_headroom(answer, values, s),
                    demand_by_period={
                        n: total * inst.services[s].demand[0][p] / DEMAND_UNIT for p, n in enumerate(inst.periods)
                    },
                    demand_unit="requests in flight" if work.traffic.concurrency is not None else "requests/s",
                    **_weights(answer, values, number),
                    **survived(work, s, scaled, values, answer.catalog),
                )
            )
            continue
        j = inst.jobs.index(work.name)
        chosen = [q for q, o in enumerate(inst.options) if o.work == j and values.chosen[q]]
        placements = tuple(_job_placement(answer, values, q) for q in chosen)
        limit = getattr(work, "deadline", None)
        took = max((p.duration_h or 0.0 for p in placements), default=0.0)
        plans.append(
            WorkloadPlan(
                name=work.name,
                kind=work.kind,
                model=label,
                placements=placements,
                headroom=(limit / 3600 / took - 1) if limit and took else 0.0,
                **_weights(answer, values, number),
            )
        )
    return tuple(plans)


def _weights(answer: Answer, values: Values, number: int) -> dict[str, Any]:
    """Served share, priority and value of a workload, where the problem weighs them."""
    if not answer.scaled.instance.wishes:
        return {}
    work = answer.loaded.problem.workloads[number]
    value = None
    if work.value is not None:
        value = money(answer.scaled.instance.wishes[number].value)
    return {"served_share": values.share[number] / SHARE_UNIT, "priority": work.priority or 1, "value": value}


def _routing(answer: Answer, values: Values) -> Routing:
    works = [w for w in answer.loaded.problem.workloads if isinstance(w, Serve)]
    wanted = [[x * top_level(answer.found, s) for x in demands(w)] for s, w in enumerate(works)]
    rows = answer.scaled.replicas
    return Routing(answer.scaled.instance, values, rows["rates"].to_list() if rows.height else [], wanted)


def _model_label(model: ModelRef | None) -> str | None:
    """A model as people write it; a bare size is starred, since a stand-in architecture takes its place."""
    if isinstance(model, BareModel):
        return f"{format_count(model.params)} parameters *"
    return model.config if isinstance(model, ConfigModel) else model


def _headroom(answer: Answer, values: Values, service: int) -> float:
    """Spare share of supply over demand in the tightest period; with several request sizes, of GPU time over its use."""
    inst = answer.scaled.instance
    if len(inst.services[service].demand) > 1:
        return round(_routing(answer, values).spare_time(service), 9)
    worst = float("inf")
    wish = next((i for i, w in enumerate(inst.wishes) if w.work == service and not w.job), None)
    part = 1.0 if wish is None else values.share[wish] / SHARE_UNIT
    for p in range(len(inst.periods)):
        demand = inst.services[service].demand[0][p] * part
        if demand:
            supply = sum(r.blend * values.replicas[k, p] for k, r in enumerate(inst.replicas) if r.work == service)
            worst = min(worst, supply / demand - 1)
    return 0.0 if worst == float("inf") else round(worst, 9)


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 3)


def _replica_placement(answer: Answer, values: Values, routing: Routing, k: int) -> Placement:
    scaled = answer.scaled
    inst = scaled.instance
    replica, row = inst.replicas[k], scaled.replicas.row(k, named=True)
    pool = scaled.pools.row(replica.pool, named=True)
    periods = list(enumerate(inst.periods))
    load = {n: routing.load(k, p) for p, n in periods if values.replicas[k, p]}
    load = {n: loads for n, loads in load.items() if loads}
    work = next(w for w in answer.loaded.problem.workloads if w.name == row["work"])
    unit = "requests in flight" if isinstance(work, Serve) and work.traffic.concurrency is not None else "requests/s"
    return Placement(
        **_place(pool, row),
        accelerators_per_replica=replica.gpus,
        billing=_billing_of(scaled, values, replica.pool),
        replicas_by_period={n: values.replicas[k, p] for p, n in periods},
        rate=row["blend"],
        rate_unit=unit,
        rates_by_bucket=tuple(row["rates"]),
        load_by_bucket_and_period=load,
        requests_by_bucket_and_period={
            n: tuple(x * rate for x, rate in zip(loads, row["rates"], strict=True)) for n, loads in load.items()
        },
        busy_by_period={n: sum(load[n]) / values.replicas[k, p] for p, n in periods if n in load},
        source=row["rate_source"] or "model",
        expected_error=row["rate_error"],
        nodes=int(row["nodes"]),
        memory_slack_gib=row.get("memory_slack_gib"),
        ttft_ms=_ms(row.get("ttft_s")),
        tpot_ms=_ms(row.get("tpot_s")),
        batch=row.get("batch"),
    )


def _place(pool: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """Where a replica or job is placed, and how it is laid out."""
    return {
        "offer": pool["offer"] if pool["kind"] != "rental" else f"{pool['provider']}/{pool['offer']}",
        "pool": pool["pool"],
        "accelerator": pool["accelerator"],
        "tp": row["tp"],
        "pp": row["pp"],
        "precision": row["precision"],
        "power_limit_w": pool["power_limit_w"],
    }


def _job_placement(answer: Answer, values: Values, q: int) -> Placement:
    scaled = answer.scaled
    option, row = scaled.instance.options[q], scaled.options.row(q, named=True)
    pool = scaled.pools.row(option.pool, named=True)
    return Placement(
        **_place(pool, row),
        accelerators_per_replica=option.gpus,
        billing=f"held ({_billing_of(scaled, values, option.pool)})" if option.pooled else option.billing,
        replicas_by_period=dict.fromkeys(scaled.instance.periods, 1),
        rate=row["rate"],
        rate_unit=row["rate_unit"],
        source=row["rate_source"] or "model",
        expected_error=row["rate_error"],
        nodes=option.nodes,
        duration_h=row["duration_h"],
        starts_h=tuple(h for (w, _), h in sorted(values.start.items()) if w == option.work) if option.slots else (),
        memory_per_gpu_gib=row["memory_gib_per_gpu"],
        memory_slack_gib=row["memory_slack_gib"],
    )
