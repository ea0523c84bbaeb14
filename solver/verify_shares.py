"""Recheck what a plan leaves out: shares within their limits, values of the priorities, and the list of what is missing."""

from __future__ import annotations

from collections import defaultdict

from catalogs.catalog import Catalog
from problems.schema import Problem, Serve, Workload
from solver.plan import Portfolio, Result, WorkloadPlan
from solver.verify_money import exchange

SLACK = 1e-6


def check_shares(result: Result, problem: Problem, catalog: Catalog) -> list[str]:
    """Everything is served, or, where workloads are weighed, each in no part or at least its least share."""
    plans = {w.name: w for w in result.workloads}
    works = [(w, plans[w.name]) for w in problem.workloads if w.name in plans]
    if not problem.weighed:
        return [f"{w.name}: served to {p.served_share:.1%}, not in full" for w, p in works if p.served_share != 1]
    wrong = [text for work, plan in works for text in _check_share(work, plan)]
    if result.portfolio is None:
        return [*wrong, "plan that weighs workloads without its priorities"]
    missing = {w.name for w, p in works if p.served_share < 1}
    named = {x.name: x.served_share for x in result.portfolio.left_out}
    if named != {w.name: p.served_share for w, p in works if p.served_share < 1}:
        wrong.append(f"left out are {sorted(missing)}, the plan names {sorted(named)}")
    return wrong + _check_levels(result, result.portfolio, works, problem, catalog)


def _check_share(work: Workload, plan: WorkloadPlan) -> list[str]:
    share = plan.served_share
    if share == 0:
        return [f"{work.name}: left out, but it runs somewhere"] if plan.placements else []
    least = (work.min_share or 1.0) if isinstance(work, Serve) else 1.0
    if not least - SLACK <= share <= 1:
        return [f"{work.name}: served to {share:.1%}, least share {least:.1%}"]
    return []


def _check_levels(
    result: Result,
    stated: Portfolio,
    works: list[tuple[Workload, WorkloadPlan]],
    problem: Problem,
    catalog: Catalog,
) -> list[str]:
    """Value of every priority: sum of value x share, in the problem's currency; and what is said of its proof."""
    wrong = []
    served: dict[int, float] = defaultdict(float)
    wanted: dict[int, float] = defaultdict(float)
    for work, plan in works:
        value = 1.0
        if work.value is not None:
            value = float(work.value.amount) * (exchange(catalog, work.value.currency, problem.currency) or 0.0)
        served[work.priority or 1] += value * plan.served_share
        wanted[work.priority or 1] += value
    if [x.priority for x in stated.levels] != sorted(served):
        return [f"priorities are {sorted(served)}, the plan has {[x.priority for x in stated.levels]}"]
    for x in stated.levels:
        cents = 0.01 * len(works) + SLACK * wanted[x.priority]  # values are rounded down to cents
        for what, said, due in (("value", x.value, served), ("value wanted", x.wanted, wanted)):
            if abs(said - due[x.priority]) > cents:
                wrong.append(f"priority {x.priority}: {what} is {due[x.priority]:.2f}, the plan says {said:.2f}")
        if x.bound < x.value - 0.01 or x.proved != (abs(x.bound - x.value) <= SLACK * max(1.0, x.value)):
            wrong.append(f"priority {x.priority}: value {x.value}, bound {x.bound}, called proved: {x.proved}")
    unproved = [x for x in stated.levels if not x.proved]
    if unproved and result.status == "optimal":
        wrong.append(f"called optimal, but the value of priority {unproved[0].priority} is not proved")
    if bool(unproved) != (result.objective_name == "value"):
        wrong.append(f"objective is {result.objective_name}, with {len(unproved)} priorities not proved")
    if unproved and abs((result.objective or 0.0) - unproved[0].value) > 0.011:
        wrong.append(f"objective {result.objective} is not the value of priority {unproved[0].priority}")
    return wrong
