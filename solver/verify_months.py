"""When each line of a bill is paid, by an own reading of its terms: by month, and in a month of each stage."""

from __future__ import annotations

import math
import re
from collections import defaultdict

from problems.schema import Fixed, Problem, Serve
from solver.plan import Item, Result
from solver.verify_fleet import lease_months, leased
from solver.verify_money import paid_months
from solver.verify_tco import invested, payments
from solver.verify_traffic import months_held, period_hours, spans, there

COMMITMENT = re.compile(r"\w+ (\d+(?:\.\d+)?)mo(?: (\d+)% upfront)?")
SURCHARGED = ("rental", "goodput", "support", "tax")
HELD_BY_HOUR = ("on_demand", "spot")


def commitment(item: Item) -> tuple[float, float]:
    """Term [months] and share paid up front of a line; 0, 0 where it is no commitment."""
    match = COMMITMENT.fullmatch(item.billing)
    if match is None or item.kind not in SURCHARGED or item.billing.startswith("over "):
        return 0.0, 0.0
    return float(match[1]), float(match[2] or 0) / 100


def repeats(item: Item) -> float:
    """Months after which a line of replacements is due again and again; 0 for all other lines."""
    every = item.billing.removeprefix("every ").removesuffix("mo")
    return float(every) if item.kind == "replacement" else 0.0


def one_off(item: Item, problem: Problem) -> bool:
    """A line of runs that do not come back every month."""
    name = item.parts[0].removeprefix("for ") if item.parts else ""
    return any(w.name == name and not isinstance(w, Fixed | Serve) and not w.runs.per_month for w in problem.workloads)


def lease_paid(item: Item, problem: Problem) -> float | None:
    """Months paid for a running lease that reaches beyond the horizon; None for all other lines."""
    lease = leased(item, problem)
    h = problem.horizon
    if lease is None or lease.ends is None or lease.ends <= h or problem.policy.pro_rate_commitments:
        return None
    return min(lease.ends, h + (lease.ends if lease.notice is None else lease.notice))


def _of_work(item: Item) -> bool:
    """Electricity or compute units that services use in one stage."""
    work = item.kind == "energy" and item.pool is None and item.gear is None
    units = item.billing == "compute_unit" and item.kind != "rental"
    return (work or units) and item.from_month is not None


def _over(amount: float, start: float, end: float) -> dict[int, float]:
    """An amount paid evenly from one time to another, by month."""
    out = {}
    for month in range(1, math.ceil(end - 1e-9) + 1):
        inside = min(float(month), end) - max(month - 1.0, start)
        if inside > 1e-9:
            out[month] = amount * inside / (end - start)
    return out


def due_by_month(item: Item, result: Result, problem: Problem) -> dict[int, float]:
    """What of a line must be paid in each month [money]; month 0 is the start."""
    h, amount, start = problem.horizon, float(item.total_cost), item.from_month or 0.0
    last, first = max(1, math.ceil(h - 1e-9)), math.floor(start + 1e-9)
    due: dict[int, float] = defaultdict(float)
    share, months, _ = payments(problem, start)
    term, upfront = commitment(item)
    if item.billing in ("purchase", "with purchase"):
        due[first] += amount * share
        for m in range(1, months + 1):
            due[first + m] += amount * (1 - share) / months
    elif item.kind == "financing":
        for m in range(1, months + 1):
            due[first + m] += amount / months
    elif item.kind == "residual":
        due[last] += amount
    elif every := repeats(item):
        times = [every * n for n in range(1, last + 1) if every * n < h - start - 1e-9]
        for t in times:
            due[min(last, first + math.ceil(t - 1e-9))] += amount / len(times)
    elif item.billing in ("once", "sold"):
        due[first] += amount
    elif term:
        paid = paid_months(item, result, problem, term)
        inside = min(paid, h - start)
        monthly = amount * (1 - upfront) / paid
        due |= _over(monthly * inside, start, start + inside)
        due[last] += monthly * (paid - inside)
        for n in range(math.ceil(paid / term - 1e-9)):
            due[min(last, math.floor(start + n * term + 1e-9))] += amount * upfront * min(term, paid - n * term) / paid
    elif (kept := lease_paid(item, problem)) is not None:
        due |= _over(amount * h / kept, 0.0, h)
        due[last] += amount * (kept - h) / kept
    elif one_off(item, problem) and item.hours_per_month and item.billing == "capacity_block":
        due[1] += amount
    elif one_off(item, problem) and item.hours_per_month:
        due |= _over(amount, 0.0, min(h, item.hours_per_month * h / 730))
    elif item.billing in HELD_BY_HOUR and item.quantity_by_period is not None:
        for begin, end, part in _by_stage(item, result, problem):
            for m, money in _over(amount * part, begin, end).items():
                due[m] += money
    elif _of_work(item):
        due |= _over(amount, start, _stage_end(item, result, problem))
    else:
        due |= _over(amount, start, h)
    return due


def _by_stage(item: Item, result: Result, problem: Problem) -> list[tuple[float, float, float]]:
    """From, to [months] and share of a line held by the hour that falls into each stage: its price is one for all hours."""
    hours = period_hours(result, problem)
    whole = sum(hours[p] * there(item, p) for p in hours)
    return [
        (begin, end, sum(hours[p] * there(item, p) for p in periods) / whole if whole else 0.0)
        for begin, end, periods in spans(result, problem)
    ]


def _stage_end(item: Item, result: Result, problem: Problem) -> float:
    ends = [end for begin, end, _ in spans(result, problem) if abs(begin - (item.from_month or 0.0)) < 1e-9]
    return ends[0] if ends else problem.horizon


def month_by_stage(item: Item, result: Result, problem: Problem) -> list[float]:
    """The most that a month of each stage pays for a line, capex aside [money]; for what has worn out nothing."""
    h, total, start = problem.horizon, float(item.total_cost), item.from_month or 0.0
    stages = spans(result, problem)

    def between(money: float, begin: float, end: float) -> list[float]:
        return [money if a < end - 1e-9 and b > begin + 1e-9 else 0.0 for a, b, _ in stages]

    if start >= h:
        return between(0.0, 0.0, h)
    if item.billing == "purchase":
        share, months, each = payments(problem, start)
        return between(invested(item, problem) * (1 - share) * each, start, math.floor(start + 1e-9) + months)
    if item.kind in ("residual", "replacement", "financing") or item.billing in ("with purchase", "once", "sold"):
        return between(0.0, 0.0, h)
    term, upfront = commitment(item)
    if term:
        paid = paid_months(item, result, problem, term)
        return between(total * (1 - upfront) / paid, start, start + min(paid, months_held(item, problem)))
    lease = leased(item, problem)
    if lease is not None and lease.ends is not None:
        paid = lease_months(item, lease, result, problem)
        return [total / paid if any(there(item, p) for p in periods) else 0.0 for _, _, periods in stages]
    if one_off(item, problem):
        hours = (item.hours_per_month or 0.0) * h
        return between(total * min(1.0, 730 / hours) if hours else 0.0, 0.0, h)
    if item.billing in HELD_BY_HOUR and item.quantity_by_period is not None:
        return [total * part / max(1e-9, end - begin) for begin, end, part in _by_stage(item, result, problem)]
    if _of_work(item):
        end = _stage_end(item, result, problem)
        return between(total / (end - start), start, end)
    return between(total / months_held(item, problem), start, h)
