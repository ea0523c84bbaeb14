"""Work that machines make for their user, in hours a month: limited, or paid by the hour."""

from __future__ import annotations

import math
from collections.abc import Iterable

from problems.schema import Fixed, Problem, Serve
from solver.candidates.deploying import operations_count
from solver.candidates.frames import fx_rates, money_in
from solver.candidates.gear import GearContext, GearOption, GearRule, Made
from solver.candidates.terms import HOURS_PER_MONTH

KEY = "operations"
STEPS = 1000
"""Hours are counted in thousandths, so that rounding up each node does not add up to much."""
PAID_STEP = 100
"""They are paid in tenths of an hour."""


def operations_gear(context: GearContext) -> Made:
    """Rows over all nodes held and hired: a node makes its mode's hours of work for the share of the month that it runs."""
    problem = context.found.problem
    if not operations_count(problem):
        return [], []
    effort = dict(context.found.pools.select("pool", "operations_h").iter_rows())
    hourly = {
        (pool, n): thousandths(hours * period.hours_per_month / HOURS_PER_MONTH)
        for pool, hours in effort.items()
        for n, period in enumerate(context.found.periods)
    }
    # A node held throughout makes as much work as one hired in every period, to the last thousandth.
    nodes = {pool: sum(hourly[pool, n] for n in range(len(context.found.periods))) for pool in effort}
    hired = dict(_hired(context, effort))
    most = sum(nodes[pool] * context.most_nodes.get(pool, 0) for pool in nodes) + sum(hired.values())
    options, rules = [], []
    if problem.limits.operations is not None:
        limit = math.floor(round(problem.limits.operations * STEPS, 6))
        rules.append(
            GearRule("operations", "limits.operations", None, limit, nodes=nodes, hourly=hourly, options=hired)
        )
    if problem.policy.operations_rate is not None and most:
        rate = money_in(problem.policy.operations_rate, fx_rates(context.catalog, problem.currency))
        options.append(
            GearOption(
                key=KEY,
                kind="operations",
                item="work on the machines",
                site=None,
                place="",
                max_count=-(-most // PAID_STEP),
                monthly=rate * PAID_STEP / STEPS,
                unit="h/mo",
                per_unit=PAID_STEP / STEPS,
                pieces=0,
                confidence="estimate",
                source="policy.operations_rate times hours of table deployment_modes",
            )
        )
        rules.append(
            GearRule("operations", "", None, 0, nodes=nodes, hourly=hourly, options=hired, gear={KEY: -PAID_STEP})
        )
    return options, rules


def thousandths(hours: float) -> int:
    """Hours up to the next thousandth."""
    return math.ceil(round(hours * STEPS, 6))


def runs_per_month(problem: Problem, name: str) -> float:
    """How often a job runs in a mean month of the horizon [1/month]; a fixed workload's hours are a month's already."""
    work = next(w for w in problem.workloads if w.name == name)
    if isinstance(work, Fixed | Serve):
        return 1.0
    return work.runs.value / (1.0 if work.runs.per_month else problem.horizon)


def _hired(context: GearContext, effort: dict[str, float]) -> Iterable[tuple[int, int]]:
    """Candidate row of each hired option, and the work that its nodes make in a month [1/1000 h]."""
    options = context.found.options
    if options.is_empty():
        return
    runs = {w.name: runs_per_month(context.found.problem, w.name) for w in context.found.problem.workloads}
    for row, work, pool, nodes, hours, pooled in options.select(
        "row", "work", "pool", "nodes", "duration_h", "pooled"
    ).iter_rows():
        if not pooled:
            yield row, thousandths(effort[pool] * nodes * hours * runs[work] / HOURS_PER_MONTH)
