"""Solution values -> Result: bill, placements, limits with their slack, prices with their age, assumptions and warnings."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from decimal import Decimal
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import polars as pl

from catalogs.catalog import Catalog
from catalogs.names import match_accelerators
from problems.load import LoadedProblem
from problems.schema import AcceleratorNeed, BareModel, ConfigModel, Fixed, ModelRef, Problem, Serve
from problems.units import format_count
from solver.bill import Bill, bill, billing_label, money
from solver.candidates import Candidates
from solver.cash_flow import cash_flow, spans_of
from solver.changes import changes
from solver.events import SolveOptions
from solver.instance import DEMAND_UNIT, SHARE_UNIT
from solver.notes import assumptions, price_uses, summary_of_drops, warnings_of
from solver.plan import (
    CalendarUse,
    Cost,
    Inputs,
    LimitUse,
    Placement,
    Portfolio,
    Power,
    Result,
    RunnerUp,
    Search,
    StageUse,
    Status,
    Stayed,
    StopReason,
    WorkloadPlan,
)
from solver.routing import Routing
from solver.scaling import Scaled, demands, top_level
from solver.search import Found, Values, relative_gap
from solver.stored import nowhere_to_keep, stored_data, without_storage
from solver.survived import survived
from solver.token_cost import with_costs, with_utilisation


@dataclass(frozen=True)
class Answer:
    """Everything that a Result is made from. `final` holds the values after the tie-break, where there was one.

    With `cheapest`, the objective of the best plan, `search` is for the fewest changes among plans that are nearly as good.
    """

    loaded: LoadedProblem
    catalog: Catalog
    found: Candidates
    scaled: Scaled
    search: Found
    final: Found | None
    binding: dict[str, bool] | None
    options: SolveOptions
    wall_s: float
    portfolio: Portfolio | None = None
    cheapest: int | None = None


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "unknown"


def inputs_of(loaded: LoadedProblem, catalog: Catalog, options: SolveOptions) -> Inputs:
    """Hashes and versions that name what a result was made from."""
    return Inputs(
        problem_sha256=loaded.sha256,
        catalog_sha256=catalog.sha256,
        kitout=_version("kitout"),
        ortools=_version("ortools"),
        seed=options.seed,
    )


def no_plan(loaded: LoadedProblem, catalog: Catalog, found: Candidates, options: SolveOptions, wall_s: float) -> Result:
    """Result of a problem in which a workload has no candidate: infeasible without a search."""
    reasons = []
    for name in found.unserved:
        reasons.append(f"{name}: no offer or server can do it")
        reasons.extend(f"{name}: {text}" for text in _why_unserved(found, name, catalog))
    return Result(
        problem=_name(loaded),
        status=Status.INFEASIBLE,
        stop_reason=StopReason.NO_CANDIDATES,
        objective_name=loaded.problem.objective,
        objective=None,
        bound=None,
        gap=None,
        horizon_months=loaded.problem.horizon,
        cost=None,
        power=None,
        no_plan_because=tuple(reasons),
        warnings=tuple(warnings_of(loaded.problem, catalog, found, None, None)),
        assumptions=tuple(assumptions(loaded.problem, catalog, found)),
        search=_search_block(found, None, wall_s),
        inputs=inputs_of(loaded, catalog, options),
    )


def _why_unserved(found: Candidates, name: str, catalog: Catalog) -> list[str]:
    """Drop reasons of one workload with an example each: of machines with the card it asks for, then the most frequent."""
    mine = found.dropped.filter(pl.col("item").str.starts_with(name + " on "))
    general = found.dropped.filter(~pl.col("item").str.contains(" on "))
    frame = pl.concat([mine, general])
    if frame.is_empty():
        return []
    cards = _cards_asked_for(found.problem, name, catalog)
    named = [pl.col("item").str.contains(f"x {re.escape(card)}([ /]|$)") for card in cards]
    about = pl.any_horizontal(pl.lit(False), *named)
    counts = (
        frame.with_columns(reason=summary_of_drops(), about=about)
        .sort("about", descending=True, maintain_order=True)
        .group_by("reason", maintain_order=True)
        .agg(n=pl.len(), example=pl.col("item").first(), about=pl.col("about").any())
        .sort("about", "n", "reason", descending=[True, True, False])
        .head(8)
    )
    return [
        f"{r['n']} dropped: {r['reason']} (e.g. {r['example'].removeprefix(name + ' on ')})"
        for r in counts.iter_rows(named=True)
    ]


def _cards_asked_for(problem: Problem, name: str, catalog: Catalog) -> list[str]:
    """Accelerators that a fixed workload asks for by name."""
    work = next(w for w in problem.workloads if w.name == name)
    if not isinstance(work, Fixed) or isinstance(work.accelerator, AcceleratorNeed):
        return []
    names = [work.accelerator] if isinstance(work.accelerator, str) else work.accelerator
    return [card for n in names for card in match_accelerators(catalog, n)]


def _name(loaded: LoadedProblem) -> str:
    return loaded.problem.name or str(loaded.path)


def _search_block(found: Candidates, search: Found | None, wall_s: float) -> Search:
    reasons = (
        found.dropped.with_columns(reason=summary_of_drops())
        .group_by("reason")
        .len()
        .sort("len", "reason", descending=[True, False])
    )
    return Search(
        candidates=found.replicas.height + found.options.height,
        dropped={r["reason"]: r["len"] for r in reasons.iter_rows(named=True)},
        dominated=found.dominated,
        pools=found.pools.height,
        variables=search.variables if search else 0,
        constraints=search.constraints if search else 0,
        wall_s=round(wall_s, 3),
        time_to_first_s=None if search is None or search.first_s is None else round(search.first_s, 3),
    )


def assemble(answer: Answer) -> Result:
    """Build the Result of a search."""
    problem, scaled, search = answer.loaded.problem, answer.scaled, answer.search
    values = answer.final.values if answer.final is not None else search.values
    unit = 0.01 if problem.objective == "cost" else 1.0
    named = str(problem.objective)
    open_level = next((x for x in answer.portfolio.levels if not x.proved), None) if answer.portfolio else None
    if open_level is not None:
        # Objective, bound and gap speak of the first value that is not proved to be the largest.
        unit, named = -(0.01 if open_level.unit != "workloads" else 1.0) / SHARE_UNIT, "value"
    if answer.cheapest is not None:
        unit, named = 1.0, "changes"
    bound = None if search.bound is None else search.bound * unit
    head: dict[str, Any] = {
        "problem": _name(answer.loaded),
        "status": search.status,
        "stop_reason": search.stop_reason,
        "objective_name": named,
        "objective": None if search.objective is None else round(search.objective * unit, 2),
        "bound": None if bound is None else round(bound, 2),
        "gap": None if search.gap is None else round(search.gap, 9),
        "horizon_months": problem.horizon,
        "periods": {p.name: round(p.hours_per_month, 4) for p in answer.found.periods},
        "stages": _stages(answer.found),
        "calendar": _calendar(answer.found),
        "search": _search_block(answer.found, search, answer.wall_s),
        "inputs": inputs_of(answer.loaded, answer.catalog, answer.options),
        "assumptions": tuple(assumptions(problem, answer.catalog, answer.found)),
    }
    if values is None:
        because = (
            (
                *nowhere_to_keep(answer.found, answer.scaled),
                "the limits cannot all hold; each workload alone has candidates",
            )
            if search.status is Status.INFEASIBLE
            else ()
        )
        return Result(
            **head,
            cost=None,
            power=None,
            no_plan_because=because,
            warnings=tuple(warnings_of(problem, answer.catalog, answer.found, None, None)),
        )
    lines = bill(scaled, values, problem)
    workloads = with_costs(_workloads(answer, values), scaled, values, problem)
    return Result(
        **head,
        cost=cost_of(lines, problem),
        power=Power(
            it_peak_w=lines.it_w,
            facility_peak_w=round(lines.facility_w, 3),
            energy_kwh=round(lines.energy_kwh, 1),
        ),
        items=with_utilisation(lines.items, scaled, values, problem),
        cash_flow=cash_flow(lines.items, problem, spans_of(problem, head["stages"], head["periods"])),
        workloads=workloads,
        storage=stored_data(answer.found, answer.catalog, answer.scaled, values),
        limits=_limits(answer, lines, values),
        portfolio=answer.portfolio,
        changes=changes(scaled, values, problem),
        stayed=None
        if answer.cheapest is None or search.objective is None
        else Stayed(
            cheapest=money(answer.cheapest),
            tolerance=problem.policy.keep_unless_saves,
            changed_nodes=search.objective,
        ),
        prices=tuple(price_uses(lines.items, problem.currency)),
        warnings=(
            *warnings_of(problem, answer.catalog, answer.found, lines, workloads),
            *without_storage(answer.found, answer.catalog),
        ),
    )


def _stages(found: Candidates) -> tuple[StageUse, ...]:
    """Stages with their periods; none where the horizon is one stage."""
    stages = found.terms.stages
    if len(stages) == 1:
        return ()
    return tuple(
        StageUse(
            name=stage.name,
            from_month=stage.start,
            months=stage.months,
            periods=tuple(p.name for p in found.periods if p.stage == s),
        )
        for s, stage in enumerate(stages)
    )


def _calendar(found: Candidates) -> CalendarUse | None:
    """Hours of the week by level; None where no service is asked for."""
    services = [w for w in found.problem.workloads if isinstance(w, Serve)]
    if not services:
        return None
    calendar = found.calendar
    measured = calendar.slots != tuple(range(168))
    return CalendarUse(
        levels={level.name: round(level.hours_per_month, 4) for level in calendar.levels},
        week=calendar.week,
        hours="".join(chr(ord("a") + level) for level in calendar.hours) if measured else "",
        over_provisioned={w.name: round(x, 9) for w, x in zip(services, calendar.loss, strict=True) if x},
    )


def cost_of(lines: Bill, problem: Problem) -> Cost:
    """Cost block of a bill."""
    hours = Decimal(repr(problem.horizon)) * 730
    return Cost(
        total=money(lines.cash),
        capex=money(lines.capex),
        monthly=money(lines.monthly),
        per_hour=money(lines.cash) / hours,
        currency=problem.currency,
        by_category={k: money(v) for k, v in sorted(lines.by_category.items())},
    )


def _billing_of(scaled: Scaled, values: Values, pool: int) -> str:
    """Billing labels under which nodes of a pool are held."""
    labels = []
    for i in scaled.instance.pool_capacities(pool):
        c = scaled.instance.capacities[i]
        held = values.commit[i] if c.commit else sum(values.hourly[i, p] for p in range(len(scaled.instance.periods)))
        if held:
            labels.append(billing_label(scaled.capacity.row(i, named=True)))
    return " + ".join(dict.fromkeys(labels))


def _workloads(answer: Answer, values: Values) -> tuple[WorkloadPlan, ...]:
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
        offer=pool["offer"] if pool["kind"] != "rental" else f"{pool['provider']}/{pool['offer']}",
        pool=pool["pool"],
        accelerator=pool["accelerator"],
        accelerators_per_replica=replica.gpus,
        tp=row["tp"],
        pp=row["pp"],
        precision=row["precision"],
        power_limit_w=pool["power_limit_w"],
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


def _job_placement(answer: Answer, values: Values, q: int) -> Placement:
    scaled = answer.scaled
    option, row = scaled.instance.options[q], scaled.options.row(q, named=True)
    pool = scaled.pools.row(option.pool, named=True)
    return Placement(
        offer=pool["offer"] if pool["kind"] != "rental" else f"{pool['provider']}/{pool['offer']}",
        pool=pool["pool"],
        accelerator=pool["accelerator"],
        accelerators_per_replica=option.gpus,
        tp=row["tp"],
        pp=row["pp"],
        precision=row["precision"],
        power_limit_w=pool["power_limit_w"],
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


def _limits(answer: Answer, lines: Bill, values: Values) -> tuple[LimitUse, ...]:
    """Every limit of money, power and quota with its use. Without a re-solve a limit binds if no further node fits it."""
    problem, scaled = answer.loaded.problem, answer.scaled
    inst = scaled.instance
    binding = answer.binding or {}
    out: list[LimitUse] = []

    def add(field: str, used: float, limit: float | None, unit: str) -> None:
        if limit is not None:
            slack = limit - used
            binds = binding.get(field, slack <= 0.01 * limit)
            out.append(
                LimitUse(
                    field=field,
                    used=round(used, 2),
                    limit=round(limit, 2),
                    slack=round(slack, 2),
                    unit=unit,
                    binding=binds,
                )
            )

    def hundred(cents: int | None) -> float | None:
        return None if cents is None else cents / 100

    add("limits.budget.capex", lines.capex / 100, hundred(inst.limit_capex), problem.currency)
    add("limits.budget.monthly", lines.monthly / 100, hundred(inst.limit_monthly), f"{problem.currency}/mo")
    add("limits.budget.total", lines.cash / 100, hundred(inst.limit_total), problem.currency)
    add("limits.power", lines.facility_w, inst.limit_power_w, "W")
    for s, site in enumerate(problem.sites):
        here = [(values.commit[i], c) for i, c in enumerate(inst.capacities) if inst.pools[c.pool].site == s]
        gear = [(x, values.gear.get(g, 0)) for g, x in enumerate(inst.gear) if x.site == s]
        firsts = [stage[0] for stage in inst.stages]
        it = float(max(sum(inst.pools[c.pool].it_w * n for n, c in here if c.holds(p)) for p in firsts))
        it += sum(x.it_w * n for x, n in gear)
        facility = float(max(sum(inst.pools[c.pool].facility_w * n for n, c in here if c.holds(p)) for p in firsts))
        facility += sum(x.facility_w * n for x, n in gear)
        add(f"sites.{site.name}.it_power", it, site.it_power, "W")
        add(f"sites.{site.name}.power", facility, site.power, "W")
    room = [r for r in inst.rows if r.rule == "racks" and r.field and not r.commit]
    for field in dict.fromkeys(r.field for r in room):
        mine = [r for r in room if r.field == field]
        taken = sum(factor * values.gear.get(g, 0) for r in mine for g, factor in r.gear)
        add(field, taken, sum(r.high or 0 for r in mine), field.rpartition(".")[2])
    for row in inst.rows:
        if row.field == "limits.operations":
            hours = sum(f * values.commit[i] for i, f in row.commit) + sum(
                f * values.hourly[i, p] for i, p, f in row.hourly
            )
            hours += sum(f * values.chosen[q] for q, f in row.chosen)
            add(row.field, hours / 1000, problem.limits.operations, "h/mo")
    for quota in inst.quotas:
        held = max(
            (sum(_held(scaled, values, o, p) for o in quota.pools) for p in range(len(inst.periods))),
            default=0,
        )
        add(quota.field, held, quota.max_nodes, "nodes")
    together = {o for quota in inst.quotas for o in quota.pools}
    for o, pool in enumerate(inst.pools):
        if pool.site is not None and pool.node_limit is not None and o not in together:
            held = max((_held(scaled, values, o, p) for p in range(len(inst.periods))), default=0)
            add(f"owned[{pool.key}]", held, pool.node_limit, "nodes")
    return tuple(out)


def _held(scaled: Scaled, values: Values, pool: int, period: int) -> int:
    inst = scaled.instance
    held = sum(
        values.commit[i] * inst.capacities[i].holds(period) if inst.capacities[i].commit else values.hourly[i, period]
        for i in inst.pool_capacities(pool)
    )
    return held + sum(
        o.nodes for q, o in enumerate(inst.options) if values.chosen[q] and o.pool == pool and not o.pooled
    )


def main_accelerator(result: Result) -> str | None:
    """Accelerator that most of the money is spent on."""
    spent: dict[str, Decimal] = {}
    for item in result.items:
        if item.accelerator is not None:
            spent[item.accelerator] = spent.get(item.accelerator, Decimal(0)) + item.total_cost
    return max(spent, key=lambda a: (spent[a], a)) if spent else None


def machines_text(scaled: Scaled, values: Values) -> str:
    """Nodes of a plan in short: 2 x NAME + 1 x NAME, each as many as its busiest period has."""
    counts: dict[str, int] = {}
    inst = scaled.instance
    for o, pool in enumerate(inst.pools):
        nodes = max((_held(scaled, values, o, p) for p in range(len(inst.periods))), default=0)
        if nodes:
            counts[pool.key] = nodes
    return " + ".join(f"{n} x {key}" for key, n in counts.items())


def runner_up_of(without: str, scaled: Scaled | None, search: Found | None, result: Result, why_not: str) -> RunnerUp:
    """Runner-up block from the search without the main accelerator."""
    if scaled is None or search is None or search.values is None or search.objective is None:
        proved = search is None or search.status is Status.INFEASIBLE
        text = why_not if proved else "not found in its share of the time"
        return RunnerUp(without=without, summary=text, total=None, difference=None, proved=proved)
    inst = scaled.instance
    text = machines_text(scaled, search.values)
    unit = 0.01 if inst.objective == "cost" else 1.0
    own = result.objective or 0.0
    if result.objective_name == "changes" and result.cost is not None:
        own = float(result.cost.total)
    value = search.objective * unit
    return RunnerUp(
        without=without,
        summary=text,
        total=Decimal(search.objective) / 100 if inst.objective == "cost" else None,
        difference=None if own == 0 else round((value - own) / abs(own), 6),
        proved=(relative_gap(search.objective, search.bound) or 0.0) <= 0.005,
    )


def digest(text: str) -> str:
    """SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()
