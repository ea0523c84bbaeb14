"""Solution values -> Result: bill, placements, limits with their slack, prices with their age, assumptions and warnings."""

from __future__ import annotations

import hashlib
import re
from decimal import Decimal
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import polars as pl

from catalogs.catalog import Catalog
from catalogs.names import match_accelerators
from problems.load import LoadedProblem
from problems.schema import AcceleratorNeed, Fixed, Problem, Serve
from solver.answer import Answer as Answer
from solver.bill import Bill, bill, money
from solver.candidates import Candidates
from solver.cash_flow import cash_flow, spans_of
from solver.changes import changes
from solver.events import SolveOptions
from solver.instance import SHARE_UNIT
from solver.notes import assumptions, price_uses, summary_of_drops, warnings_of
from solver.placements import workload_plans
from solver.plan import (
    CalendarUse,
    Cost,
    Inputs,
    LimitUse,
    Power,
    Result,
    RunnerUp,
    Search,
    StageUse,
    Status,
    Stayed,
    StopReason,
)
from solver.scaling import Scaled
from solver.search import Found, Values, relative_gap
from solver.stored import nowhere_to_keep, stored_data, without_storage
from solver.token_cost import with_costs, with_utilisation


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
    workloads = with_costs(workload_plans(answer, values), scaled, values, problem)
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
    room = [r for r in inst.rows if r.rule == "racks" and r.field and not (r.commit or r.sums)]
    for field in dict.fromkeys(r.field for r in room):
        mine = [r for r in room if r.field == field]
        taken = sum(factor * values.gear.get(g, 0) for r in mine for g, factor in r.gear)
        add(field, taken, sum(r.high or 0 for r in mine), field.rpartition(".")[2])
    for row in inst.rows:
        if row.field == "limits.operations":
            row = inst.written_out(row)
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
    used = {inst.capacities[i].pool for i, n in values.commit.items() if n}
    used |= {inst.capacities[i].pool for (i, _), n in values.hourly.items() if n}
    used |= {inst.options[q].pool for q, n in values.chosen.items() if n}
    for o in sorted(used):
        nodes = max((_held(scaled, values, o, p) for p in range(len(inst.periods))), default=0)
        if nodes:
            counts[inst.pools[o].key] = nodes
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
