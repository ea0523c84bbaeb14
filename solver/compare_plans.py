"""The all-rented and the all-bought plan beside the best one, and where buying and renting cost the same."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Sequence
from dataclasses import replace
from decimal import Decimal

import polars as pl

from catalogs.catalog import Catalog
from problems.schema import Problem
from solver.assemble import cost_of, machines_text
from solver.bill import bill, money
from solver.candidates import Candidates, reduced
from solver.cash_flow import Span, cash_flow, spans_of
from solver.cheaper import Cheaper
from solver.events import SolveOptions
from solver.features.cost import HOURS_PER_MONTH, discount_months
from solver.features.finance import (
    break_even_utilisation,
    discounted_break_even_months,
    monthly_rate,
    payback_months,
    present_value,
)
from solver.least import least
from solver.plan import Alternative, BreakEven, Item, Result, Status
from solver.scaling import Scaled, scale
from solver.search import Found, relative_gap
from solver.search_state import How

RENTED, BOUGHT = "all rented", "all bought"
OWN_MODES = frozenset({"purchase", "owned"})
GAP = 0.005
LIMIT_S = 3.0
"""Most time that either search may take [s]; plans of one kind are easier than the best of both."""
SERVICES = ("storage", "egress")
"""Kinds of gear that are rented where they stand at no own site."""

BY_HOUR = ("on_demand", "spot")

Lines = Sequence[Item]


def with_alternatives(
    found: Candidates,
    catalog: Catalog,
    result: Result,
    time_limit: float,
    options: SolveOptions,
    stop: threading.Event | None = None,
    floor: float = -math.inf,
    cheaper: Cheaper | None = None,
) -> Result:
    """Add the best plan of each kind, and the break-even of buying against renting, to a result that has a plan.

    Parameters
    ----------
    found : Candidates
        All candidates of the problem, not reduced yet: what the other kind dominated comes back.
    time_limit : float
        For each of the two searches, at most `LIMIT_S` [s].
    floor : float, optional
        What no plan costs less than [the model's unit].
    cheaper : Cheaper, optional
        Told of the plans that are found.
    """
    plans = {
        name: _alternative(name, found, catalog, result, min(LIMIT_S, time_limit), options, stop, floor, cheaper)
        for name in (RENTED, BOUGHT)
    }
    rent, own = plans[RENTED], plans[BOUGHT]
    point = break_even(own, rent, found, spans_of(found.problem, result.stages, result.periods))
    return result.model_copy(update={"alternatives": tuple(a for a, _ in (rent, own)), "break_even": point})


def _alternative(
    name: str,
    found: Candidates,
    catalog: Catalog,
    result: Result,
    time_limit: float,
    options: SolveOptions,
    stop: threading.Event | None,
    floor: float,
    cheaper: Cheaper | None,
) -> tuple[Alternative, Lines]:
    """Best plan of one kind with its lines."""
    why = _no_room(name, found.problem)
    if why:
        return Alternative(name=name, status=None, because=why), ()
    if kind_of(result.items) == name:
        return _chosen(name, result), result.items
    pools = found.pools.filter((pl.col("kind") == "rental") == (name == RENTED))
    inside = pl.col("pool").is_in(pools["pool"].implode())
    small = reduced(
        replace(
            found,
            pools=pools,
            replicas=found.replicas if found.replicas.is_empty() else found.replicas.filter(inside),
            options=found.options if found.options.is_empty() else found.options.filter(inside),
        ),
        within_watts=True,
    )
    verb = "rented" if name == RENTED else "bought"
    if small.unserved:
        because = f"nothing {verb} can do {', '.join(small.unserved)}"
        return Alternative(name=name, status=Status.INFEASIBLE, because=because), ()
    if stop is not None and stop.is_set():
        return Alternative(name=name, status=None, because="interrupted"), ()
    scaled = _one_sided(name, scale(small, catalog))
    how = How(time_limit, GAP, options.workers, options.seed, stop=stop, floor=floor)
    search = least(scaled.instance, how, patience=0.3).found
    if cheaper is not None:
        cheaper.offer(small, scaled, search)
    return _priced(name, scaled, search, result, found.problem)


def _no_room(name: str, problem: Problem) -> str:
    """Why the problem has no plans of a kind; empty where it may have some."""
    if name == RENTED:
        return "" if problem.billing_modes - OWN_MODES else "policy.billing allows nothing rented"
    if not problem.billing_modes & OWN_MODES:
        return "policy.billing allows nothing bought"
    return "" if problem.sites else "no own site to put machines in (sites)"


def kind_of(items: Iterable[Item]) -> str | None:
    """Kind that a bill is of; None where it has both rented and bought in it, or no machines."""
    kinds = set()
    for item in items:
        if item.kind in ("rental", "server"):
            kinds.add(RENTED if item.kind == "rental" else BOUGHT)
        elif item.billing == "purchase":
            kinds.add(BOUGHT)
        elif item.kind in SERVICES:
            kinds.add(RENTED)
    return kinds.pop() if len(kinds) == 1 else None


def _chosen(name: str, result: Result) -> Alternative:
    assert result.cost is not None
    return Alternative(
        name=name,
        status=result.status,
        total=result.cost.total,
        difference=0.0,
        proved=(result.gap or 0.0) <= GAP,
        summary="the plan itself",
        cost=result.cost,
        cash_flow=result.cash_flow,
    )


def _one_sided(name: str, scaled: Scaled) -> Scaled:
    """No gear of the other kind: bought hardware in a rented plan, providers' storage in a bought one."""
    rows = scaled.gear.to_dicts()
    closed = [
        r["price"] > 0
        if name == RENTED
        else r["site"] is None and r["kind"] in SERVICES and r["monthly"] + r["once"] > 0
        for r in rows
    ]
    gear = tuple(replace(g, max_count=0) if shut else g for g, shut in zip(scaled.instance.gear, closed, strict=True))
    return replace(scaled, instance=replace(scaled.instance, gear=gear))


def _priced(name: str, scaled: Scaled, search: Found, result: Result, problem: Problem) -> tuple[Alternative, Lines]:
    if search.values is None or search.objective is None:
        proved = search.status is Status.INFEASIBLE
        because = "no such plan meets the limits" if proved else "not found in its share of the time"
        return Alternative(name=name, status=search.status, because=because, proved=proved), ()
    lines = bill(scaled, search.values, problem)
    value = search.objective * (0.01 if scaled.instance.objective == "cost" else 1.0)
    base = result.objective or 0.0
    done = Alternative(
        name=name,
        status=search.status,
        total=money(lines.cash),
        difference=None if base == 0 else round((value - base) / abs(base), 6),
        proved=(relative_gap(search.objective, search.bound) or 0.0) <= GAP,
        summary=machines_text(scaled, search.values),
        cost=cost_of(lines, problem),
        cash_flow=cash_flow(lines.items, problem, spans_of(problem, result.stages, result.periods)),
    )
    return done, lines.items


# --- break-even -------------------------------------------------------------------------------------------


def break_even(
    own: tuple[Alternative, Lines], rent: tuple[Alternative, Lines], found: Candidates, spans: Sequence[Span]
) -> BreakEven | None:
    """Months and share of use from which buying costs less than renting; None where one of the plans is missing."""
    bought, rented = own[0], rent[0]
    if bought.total is None or rented.total is None:
        return None
    problem = found.problem
    rate = problem.policy.discount_rate
    mine = [float(m.total) for m in bought.cash_flow]
    theirs = [float(m.total) for m in rented.cash_flow]
    months, beyond = payback_months(mine, theirs, rate), False
    because = ""
    if months is None and len(spans) == 1:
        months = _later(bought, rented, problem)
        beyond = months is not None
    if months is None and len(spans) > 1:
        because = "not within the horizon, and payments that change with the load are not carried on beyond it"
    elif months is None:
        because = "owning costs more each month than renting, or never saves enough to pay for itself"
    return BreakEven(
        months=None if months is None else round(months, 2),
        beyond_horizon=beyond,
        utilisation=_utilisation(own[1], rent[1], found, spans),
        discount_rate=rate,
        because=because,
    )


def _later(bought: Alternative, rented: Alternative, problem: Problem) -> float | None:
    """Months after the horizon's end at which payments that go on as they are meet, without any value left over."""

    def paid(plan: Alternative) -> tuple[float, float]:
        first, *rest = plan.cash_flow
        return float(first.total - first.residual), float(sum((m.total - m.residual for m in rest), Decimal(0)))

    (start_own, own), (start_rent, rent) = paid(bought), paid(rented)
    saved = (rent - own) / problem.horizon
    months = discounted_break_even_months(start_own - start_rent, saved, problem.policy.discount_rate)
    return months if months is not None and months > problem.horizon else None


def _utilisation(own: Lines, rent: Lines, found: Candidates, spans: Sequence[Span]) -> float | None:
    """Share of the rented plan's hours above which owning is cheaper than renting the same machines by the hour.

    Commitments do not fall with use, so they count at the on-demand price of their machine, where it has one. Present
    values where a discount rate is given.
    """
    problem = found.problem
    hours = HOURS_PER_MONTH * problem.horizon
    by_hour = [i for i in rent if i.billing in BY_HOUR or i.hours_per_month is not None]
    instead = {n: at for n, i in enumerate(rent) if (at := _on_demand(i, found, spans)) is not None}
    swapped = {(rent[n].pool, rent[n].billing) for n in instead}
    fixed = [i for i in rent if i not in by_hour and (i.pool, i.billing) not in swapped]
    work = [i for i in own if i.kind == "energy" and i.billing == "per kWh"]
    paid_by_hour = _present(by_hour, problem, spans) + sum(instead.values())
    always = _present(own, problem, spans) - _present(work, problem, spans) - _present(fixed, problem, spans)
    if always <= 0:
        return 0.0
    share = break_even_utilisation(always / hours, paid_by_hour / hours, _present(work, problem, spans) / hours)
    return None if share is None else round(share, 4)


def _on_demand(item: Item, found: Candidates, spans: Sequence[Span]) -> float | None:
    """Present value of what committed nodes would cost by the hour, all hours of the stages that they are held in [money].

    None where they have no such price.
    """
    if item.kind != "rental" or item.billing in BY_HOUR or item.hours_per_month is not None or item.provider is None:
        return None
    rows = found.prices.filter((pl.col("pool") == item.pool) & (pl.col("billing") == "on_demand"))
    if rows.is_empty():
        return None
    price = rows.select((pl.col("price") * pl.col("rate_to_problem")).min()).item()
    factor = 1.0 + sum(found.problem.tco.surcharges(item.provider).values())
    rate, counts = found.problem.policy.discount_rate, item.quantity_by_period
    held = [s for s in spans if counts is None or any(counts.get(p) for p in s.hours)]
    months = sum(discount_months(s.end, rate) - discount_months(s.start, rate) for s in held)
    return float(price * factor * HOURS_PER_MONTH * months * item.quantity)


def _present(items: Iterable[Item], problem: Problem, spans: Sequence[Span]) -> float:
    flow = [float(m.total) for m in cash_flow(items, problem, spans)]
    return present_value(flow, monthly_rate(problem.policy.discount_rate))
