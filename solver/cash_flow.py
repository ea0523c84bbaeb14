"""Cash by month from the lines of a bill: what is paid up front, each month, and what comes back at the end.

Every line is spread over months in whole cents by how it is billed, so that the months add up to the bill to the cent.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal

from problems.schema import Fixed, Problem, Serve
from solver.plan import CashMonth, Item

COLUMN_OF = {
    "server": "capex",
    "network": "capex",
    "storage": "capex",
    "rack": "capex",
    "spares": "capex",
    "replacement": "capex",
    "setup": "capex",
    "rental": "rental",
    "goodput": "rental",
    "energy": "energy",
    "maintenance": "maintenance",
    "staff": "staff",
    "operations": "staff",
    "residual": "residual",
    "sale": "residual",
}
"""Column of each kind of line; hardware kinds that are not bought, and all others, are `other`."""
COLUMNS = ("capex", "rental", "energy", "maintenance", "staff", "other", "residual")
HARDWARE = ("network", "storage", "rack")
AT_ONCE = ("once", "sold")
BOUGHT = ("purchase", "with purchase")
TERM = re.compile(r"\w+ (\d+(?:\.\d+)?)mo(?: (\d+)% upfront)?")
LEASE = re.compile(r"lease (\d+)")
EVERY = re.compile(r"every (\d+(?:\.\d+)?)mo")
OVER = re.compile(r"over (\d+)mo")

Profile = Mapping[int, float]
"""Month -> weight of what falls into it; 0 is the start."""


def cash_flow(items: Iterable[Item], problem: Problem) -> tuple[CashMonth, ...]:
    """Months 0 to the end of the horizon, with every line of a bill in them.

    Purchases fall at the start, or in part into the first months where they are financed; commitments paid up front at the
    start of each term; what a commitment costs beyond the horizon, and the value left over, in the last month. Runs that
    are not repeated monthly start with the first month. All else is even over the horizon, a part of a month in
    proportion. A running lease that reaches beyond the horizon is owed for what is left of it in the last month.
    """
    last = max(1, math.ceil(problem.horizon - 1e-9))
    cents = {name: [0] * (last + 1) for name in COLUMNS}
    for item in items:
        for month, part in spread(int(item.total_cost * 100), profile(item, problem, last)).items():
            cents[column_of(item)][month] += part
    out, spent = [], 0
    for month in range(last + 1):
        total = sum(cents[name][month] for name in COLUMNS)
        spent += total
        parts = {name: Decimal(cents[name][month]) / 100 for name in COLUMNS}
        out.append(CashMonth(month=month, **parts, total=Decimal(total) / 100, cumulative=Decimal(spent) / 100))
    return tuple(out)


def column_of(item: Item) -> str:
    """Column that a line is shown in."""
    if item.kind == "tax":
        return "capex" if item.billing in BOUGHT else "other"
    if item.kind in HARDWARE and item.billing not in (*BOUGHT, "once"):
        return "other"
    return COLUMN_OF.get(item.kind, "other")


def profile(item: Item, problem: Problem, last: int) -> Profile:
    """Months that a line is paid in, by weight."""
    even = _even(problem.horizon, last)
    if item.kind == "residual":
        return {last: 1.0}
    if item.billing in AT_ONCE:
        return {0: 1.0}
    if item.billing in BOUGHT:
        return _financed(problem, last)
    if match := EVERY.fullmatch(item.billing):
        return _repeated(float(match[1]), problem.horizon, last)
    if match := OVER.fullmatch(item.billing):
        return dict.fromkeys(range(1, int(match[1]) + 1), 1.0)
    if (match := LEASE.fullmatch(item.billing)) and item.kind in ("rental", "goodput", "support", "tax"):
        lease = problem.leases[int(match[1]) - 1]
        paid = lease.keep_months(problem.horizon, pro_rate=problem.policy.pro_rate_commitments)
        return {**even, last: even[last] + paid - problem.horizon}
    if match := TERM.fullmatch(item.billing):
        return _committed(float(match[1]), int(match[2] or 0) / 100, problem, last)
    return _runs(item, problem, last) or even


def _even(months: float, last: int) -> dict[int, float]:
    """So many months from the first on, the last in part."""
    return {m: min(1.0, months - (m - 1)) for m in range(1, last + 1) if months - (m - 1) > 1e-9}


def _financed(problem: Problem, last: int) -> Profile:
    plan = problem.tco.financing
    if plan is None:
        return {0: 1.0}
    months = max(1, math.ceil(min(plan.term or problem.horizon, problem.horizon) - 1e-9))
    return {0: plan.upfront, **dict.fromkeys(range(1, months + 1), (1.0 - plan.upfront) / months)}


def _repeated(every: float, horizon: float, last: int) -> Profile:
    """Ends of every so many months, before the end of the horizon."""
    out: dict[int, float] = {}
    for n in range(1, math.ceil(horizon / every - 1e-9)):
        month = min(last, math.ceil(n * every - 1e-9))
        out[month] = out.get(month, 0.0) + 1.0
    return out


def _committed(term: float, upfront: float, problem: Problem, last: int) -> Profile:
    """A share of each term's price at its start, the rest by month; what lies beyond the horizon in the last month."""
    h = problem.horizon
    paid = h if problem.policy.pro_rate_commitments else max(1, math.ceil(h / term - 1e-9)) * term
    out = {m: share * (1.0 - upfront) for m, share in _even(h, last).items()}
    out[last] += (paid - h) * (1.0 - upfront)
    start = 0.0
    while upfront and start < paid - 1e-9:
        month = min(last, round(start))
        out[month] = out.get(month, 0.0) + min(term, paid - start) * upfront
        start += term
    return out


def _runs(item: Item, problem: Problem, last: int) -> Profile | None:
    """Runs that do not come back every month, one after another from the start."""
    name = item.parts[0].removeprefix("for ") if item.parts else ""
    work = next((w for w in problem.workloads if w.name == name), None)
    if item.hours_per_month is None or work is None or isinstance(work, Fixed | Serve) or work.runs.per_month:
        return None
    if item.billing == "capacity_block":
        return {1: 1.0}  # paid when it is booked, not as its hours pass
    return _even(min(problem.horizon, item.hours_per_month * problem.horizon / 730), last)


def spread(cents: int, weights: Profile) -> dict[int, int]:
    """Whole cents over months by weight; each month gets what the running total, rounded, has grown by."""
    whole = sum(weights.values())
    out: dict[int, int] = {}
    seen, given = 0.0, 0
    for month in sorted(weights):
        seen += weights[month]
        due = round(cents * (seen / whole))
        out[month] = due - given
        given = due
    if given != cents and out:
        out[max(out)] += cents - given
    return out
