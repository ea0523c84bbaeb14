"""Recompute capex, the highest month and the cash of every month from the lines of a bill and the problem's terms."""

from __future__ import annotations

import math
from collections import defaultdict
from decimal import Decimal

from catalogs.catalog import Catalog
from problems.schema import Fixed, Problem, Serve
from problems.units import Money
from solver.plan import Alternative, CashMonth, Item, Result
from solver.verify_money import exchange
from solver.verify_months import commitment, due_by_month, month_by_stage, repeats
from solver.verify_tco import invested, payments
from solver.verify_traffic import spans

AMOUNTS = ("capex", "rental", "energy", "maintenance", "staff", "other", "residual")


def check_cash(result: Result, problem: Problem, catalog: Catalog) -> list[str]:
    """Capex, monthly and budgets; the cash flow; the plans beside the best one and the break-even."""
    assert result.cost is not None
    wrong = _check_parts(result, problem)
    wrong += _check_budgets(result, problem, catalog)
    wrong += _check_flow("the plan", result.cash_flow, result.cost.total, problem)
    wrong += _check_months(result, problem)
    wrong += _check_discounted(result, problem)
    for other in result.alternatives:
        wrong += _check_alternative(other, result, problem)
    return wrong + _check_break_even(result)


def _any_one_off(problem: Problem) -> bool:
    return any(not isinstance(w, Fixed | Serve) and not w.runs.per_month for w in problem.workloads)


def rounded_units(item: Item) -> float:
    """Units of a line that were each rounded up to a cent: rented storage is counted in tenths of a TB."""
    return max(1.0, item.quantity) * (10 if item.unit == "TB" else 1)


def _check_parts(result: Result, problem: Problem) -> list[str]:
    """Capex is what is paid up front, whenever that is; monthly is what a month of the dearest stage costs on top."""
    assert result.cost is not None
    capex = units = 0.0
    stages = [0.0] * len(spans(result, problem))
    for item in result.items:
        total = float(item.total_cost)
        units += rounded_units(item) * max(1, len(result.periods))
        stages = [a + b for a, b in zip(stages, month_by_stage(item, result, problem), strict=True)]
        if item.billing == "purchase":
            capex += invested(item, problem) * payments(problem, 0.0)[0]
        elif item.billing == "once" and not (item.kind == "tax" and item.gear):
            capex += total
        elif item.billing == "sold":
            capex += total if problem.policy.sales_fund_capex else 0.0
        else:
            capex += total * commitment(item)[1]
    month = max(stages)
    for w in result.workloads:
        for p in w.placements:
            units += p.accelerators_per_replica * sum(p.replicas_by_period.values())
    wrong = []
    slack = 0.02 + 0.011 * units
    if not -slack - 1e-6 * capex <= float(result.cost.capex) - capex <= slack + 1e-6 * abs(capex):
        wrong.append(f"capex is {capex:.2f}, the plan says {result.cost.capex}")
    stated = float(result.cost.monthly)
    # Runs that come once are counted whole, whichever month they fall in.
    too_much = not _any_one_off(problem) and stated > month + slack + 1e-6 * month
    if stated < month - slack - 1e-6 * month or too_much:
        wrong.append(f"a month costs {month:.2f}, the plan says {result.cost.monthly}")
    return wrong


def _check_budgets(result: Result, problem: Problem, catalog: Catalog) -> list[str]:
    assert result.cost is not None
    budget, cost = problem.limits.budget, result.cost

    def over(what: str, used: Decimal, limit: Money | None) -> list[str]:
        if limit is None:
            return []
        rate = exchange(catalog, limit.currency, problem.currency)
        if rate is None:
            return [f"no exchange rate for the budget in {limit.currency}"]
        cap = float(limit.amount) * rate
        return [f"{what} {used} over the budget of {cap:.2f}"] if float(used) > cap + 0.005 else []

    return [
        *over("capex", cost.capex, budget.capex),
        *over("monthly", cost.monthly, budget.monthly),
        *over("total", cost.total, budget.total),
    ]


def _check_flow(what: str, flow: tuple[CashMonth, ...], total: Decimal, problem: Problem) -> list[str]:
    """Months follow one another, add up across and down, and reach the total."""
    if not flow:
        return [f"{what} has no cash flow"]
    wrong = []
    if [m.month for m in flow] != list(range(max(1, math.ceil(problem.horizon - 1e-9)) + 1)):
        wrong.append(f"cash flow of {what}: months do not run from 0 to the end of the horizon")
    spent = Decimal(0)
    for m in flow:
        spent += m.total
        if sum((getattr(m, name) for name in AMOUNTS), Decimal(0)) != m.total or spent != m.cumulative:
            wrong.append(f"cash flow of {what}: month {m.month} does not add up")
    if spent != total:
        wrong.append(f"cash flow of {what} adds up to {spent}, its total is {total}")
    return wrong


def _check_months(result: Result, problem: Problem) -> list[str]:
    """What each month must hold, from the lines: purchases and up-front money at their months, the rest spread."""
    due: dict[int, float] = defaultdict(float)
    for item in result.items:
        for month, money in due_by_month(item, result, problem).items():
            due[month] += money
    slack = 0.02 * (len(result.items) + 1)
    return [
        f"month {m.month} of the cash flow has {m.total}, due {due[m.month]:.2f}"
        for m in result.cash_flow
        if abs(float(m.total) - due[m.month]) > slack + 1e-6 * abs(due[m.month])
    ]


def _present(flow: tuple[CashMonth, ...], yearly_rate: float) -> float:
    return float(sum(float(m.total) / (1 + yearly_rate) ** (m.month / 12) for m in flow))


def _check_discounted(result: Result, problem: Problem) -> list[str]:
    """With a discount rate the objective is the present value of the cash flow.

    Both round every unit of a line to a cent on their own, and lines are cut into whole cents of months. Terms and lives that are no whole months are paid in the month
    that they end in, and may be moved by less than a month.
    """
    rate = problem.policy.discount_rate
    if result.objective_name != "cost" or not rate or result.objective is None or _any_one_off(problem):
        return []
    worth = _present(result.cash_flow, rate)
    units = sum(rounded_units(i) for i in result.items) * max(1, len(result.periods))
    units += sum(
        p.accelerators_per_replica * sum(p.replicas_by_period.values()) for w in result.workloads for p in w.placements
    )
    parts = [i for i in result.items if (repeats(i) or commitment(i)[0]) % 1]
    moved = sum(abs(float(i.total_cost)) for i in parts) * ((1 + rate) ** (1 / 12) - 1)
    cents = 0.01 * (1 + units + len(result.items))
    if abs(worth - result.objective) > cents + moved + 1e-9 * abs(worth):
        return [f"objective {result.objective}, present value of the cash flow {worth:.2f}"]
    return []


def _check_alternative(other: Alternative, result: Result, problem: Problem) -> list[str]:
    """A plan of one kind is no better than the bound of the best plan, and its months add up."""
    if other.total is None:
        return [] if other.because else [f"{other.name}: no plan, and no reason for it"]
    wrong = _check_flow(other.name, other.cash_flow, other.total, problem)
    if other.cost is None or other.cost.total != other.total:
        wrong.append(f"{other.name}: total and cost differ")
    if result.objective is None or result.bound is None or result.objective_name == "scale":
        return wrong
    least = (result.bound - result.objective) / abs(result.objective) if result.objective else 0.0
    if other.difference is not None and other.difference < least - 1e-5:
        wrong.append(f"{other.name} is better than the bound of the best plan")
    if result.objective_name == "cost" and other.difference is not None:
        worth = _present(other.cash_flow, problem.policy.discount_rate)
        value = result.objective + other.difference * abs(result.objective)
        if not _any_one_off(problem) and abs(worth - value) > 0.01 * abs(value) + 1:
            wrong.append(f"{other.name} costs {worth:.2f}, the difference says {value:.2f}")
    return wrong


def _check_break_even(result: Result) -> list[str]:
    """At the break-even month within the horizon, what buying has cost falls below what renting has."""
    point = result.break_even
    if point is None or point.months is None or point.beyond_horizon:
        return []
    flows = {a.name: a.cash_flow for a in result.alternatives}
    own, rent = flows.get("all bought", ()), flows.get("all rented", ())
    if not own or len(own) != len(rent):
        return ["a break-even without the two plans that it is of"]

    def ahead(month: int) -> float:
        pairs = zip(own[: month + 1], rent[: month + 1], strict=True)
        return float(sum(float(r.total - o.total) / (1 + point.discount_rate) ** (o.month / 12) for o, r in pairs))

    before, after = math.floor(point.months - 1e-6), math.ceil(point.months - 1e-6)
    if (before >= 0 and ahead(before) > 0.02) or ahead(max(0, after)) < -0.02:
        return [f"break-even after {point.months:.1f} months is not where the two cash flows meet"]
    return []
