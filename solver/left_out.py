"""What a plan leaves out, what it would cost, and how far the same limits carry with a single billing mode.

Additions are priced with the budgets lifted and all other limits kept: everything that the plan serves stays served at least
as far, one workload (or all of them) is served in full, and the cheapest such plan is looked for.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from catalogs.catalog import Catalog
from problems.schema import Problem
from solver.bill import Bill, bill, money
from solver.candidates import Candidates
from solver.events import SolveOptions
from solver.hints import give_hint
from solver.instance import SHARE_UNIT, Instance
from solver.loosened import Looked, of_all_menus
from solver.model import build_model
from solver.plan import Extra, LeftOut, Level, Portfolio, SingleMode, Status
from solver.priorities import Ranked, most_value, ranked, value_of
from solver.scaling import Scaled, priorities, scale
from solver.search import Found, Values, run
from solver.single_modes import each_alone, modes_of

ALONE_S = 5.0
"""Most that the search for one addition may take [s]."""
GAP = 0.005
"""Gap at which the price of an addition counts as found."""


@dataclass
class Limited:
    """Time for what is asked beside the plan itself [s], and how to search."""

    time_s: float
    options: SolveOptions
    stop: threading.Event | None

    def stopped(self) -> bool:
        return self.stop is not None and self.stop.is_set()

    def search(self, instance: Instance, near: Values | None, time_s: float) -> Found:
        deadline = time.monotonic() + time_s

        def search(some: Instance, _: float) -> Looked:
            built = build_model(some)
            if near is not None and some.pools == instance.pools:
                give_hint(built, near)
            found = run(
                built,
                time_limit_s=max(0.2, deadline - time.monotonic()),
                gap=GAP,
                workers=self.options.workers,
                seed=self.options.seed,
                stop=self.stop,
            )
            return Looked(found)

        return of_all_menus(instance, search, GAP).found


def level_unit(problem: Problem, priority: int) -> str:
    """Unit that the value of a priority is counted in."""
    valued = any(w.value is not None for w in problem.workloads if (w.priority or 1) == priority)
    return f"{problem.currency}/mo" if valued else "workloads"


def in_unit(value: int, unit: str) -> float:
    """A value in 1/SHARE_UNIT of cents or of workloads, as people read it."""
    return round(value / SHARE_UNIT / (1 if unit == "workloads" else 100), 6)


def levels_at(problem: Problem, inst: Instance, values: Values, bounds: Sequence[int]) -> tuple[Level, ...]:
    """Value of every priority in a plan, with the most it could be [bounds in 1/SHARE_UNIT of Wish.value]."""
    out = []
    for level, (number, bound) in enumerate(zip(priorities(problem), bounds, strict=True)):
        unit = level_unit(problem, number)
        value = value_of(inst, values.share, level)
        out.append(
            Level(
                priority=number,
                unit=unit,
                value=in_unit(value, unit),
                wanted=in_unit(most_value(inst, level), unit),
                bound=in_unit(max(bound, value), unit),
                proved=value >= bound,
            )
        )
    return tuple(out)


def portfolio(
    problem: Problem,
    everything: Candidates,
    catalog: Catalog,
    scaled: Scaled,
    ranks: Ranked,
    final: Found,
    limited: Limited,
) -> Portfolio:
    """Levels with their proof, what was left out and its price, and the best single billing modes."""
    assert final.values is not None
    levels = levels_at(problem, scaled.instance, final.values, [x.bound for x in ranks.levels])
    if not limited.options.additions:
        return Portfolio(levels=levels, left_out=_additions(problem, scaled, final.values, None)[1])
    whole, left = _additions(problem, scaled, final.values, limited)
    modes = _single_modes(problem, everything, catalog, [x.unit for x in levels], limited)
    return Portfolio(levels=levels, left_out=left, whole=whole, next_best=_next_best(problem, left), single_modes=modes)


def kept_portfolio(problem: Problem, scaled: Scaled, values: Values) -> Portfolio | None:
    """Portfolio of another plan that keeps the settled values of an instance; None where workloads are not weighed."""
    if not scaled.instance.wishes:
        return None
    levels = levels_at(problem, scaled.instance, values, scaled.instance.floors)
    return Portfolio(levels=levels, left_out=_additions(problem, scaled, values, None)[1])


def _additions(
    problem: Problem, scaled: Scaled, values: Values, limited: Limited | None
) -> tuple[Extra | None, tuple[LeftOut, ...]]:
    inst, share = scaled.instance, values.share
    lacking = [i for i in range(len(inst.wishes)) if share[i] < SHARE_UNIT]
    if not lacking:
        return None, ()
    free = replace(inst, limit_capex=None, limit_monthly=None, limit_total=None, floors=(), goal=None, objective="cost")
    able = [_has_candidates(inst, i) for i in range(len(inst.wishes))]
    now = bill(scaled, values, problem)
    deadline = time.monotonic() + (limited.time_s if limited else 0.0)
    jobs = [*([] if len(lacking) == 1 or not all(able) else [tuple(lacking)]), *((i,) for i in lacking if able[i])]
    found: dict[tuple[int, ...], Found] = {}
    for number, full in enumerate(jobs):
        if limited is None or limited.stopped():
            break
        wishes = tuple(
            replace(w, least=SHARE_UNIT, must=True)
            if i in full
            else replace(w, least=max(share[i], w.least) if share[i] else w.least, must=share[i] > 0)
            for i, w in enumerate(inst.wishes)
        )
        left = (deadline - time.monotonic()) / (len(jobs) - number)
        found[full] = limited.search(replace(free, wishes=wishes), values, min(ALONE_S, left))
    out = []
    for i in lacking:
        work = problem.workloads[i]
        search = found.get((i,))
        out.append(
            LeftOut(
                name=work.name,
                priority=work.priority or 1,
                served_share=share[i] / SHARE_UNIT,
                because=_because(search, able[i]),
                alone=_extra(scaled, search, now, problem),
            )
        )
    everything = found.get(tuple(lacking))
    return _extra(scaled, everything, now, problem), tuple(out)


def _has_candidates(inst: Instance, index: int) -> bool:
    wish = inst.wishes[index]
    return any(x.work == wish.work for x in (inst.options if wish.job else inst.replicas))


def _because(search: Found | None, able: bool) -> str:
    if not able:
        return "no offer or server can do it"
    if search is not None and search.status is Status.INFEASIBLE:
        return "the other limits leave no room for it, whatever is paid"
    return "no room for it in the budget beside what comes first"


def _extra(scaled: Scaled, search: Found | None, now: Bill, problem: Problem) -> Extra | None:
    if search is None or search.values is None:
        return None
    then = bill(scaled, search.values, problem)
    return Extra(
        total=money(then.cash - now.cash),
        monthly=money(then.monthly - now.monthly),
        capex=money(then.capex - now.capex),
        proved=(search.gap or 0.0) <= GAP,
    )


def _next_best(problem: Problem, left: tuple[LeftOut, ...]) -> str | None:
    """Of the first priority that lacks something: the most value that is missing for the least money."""
    known = [x for x in left if x.alone is not None]
    if not known:
        return None
    first = min(x.priority for x in known)
    values = {w.name: Decimal(1) if w.value is None else w.value.amount for w in problem.workloads}

    def price(x: LeftOut) -> tuple[Decimal, str]:
        assert x.alone is not None
        missing = values[x.name] * Decimal(repr(1 - x.served_share))
        cost = x.alone.total
        # Money saved on top of more value comes first, whatever the value.
        return (cost if cost <= 0 or missing <= 0 else cost / missing), x.name

    return min((x for x in known if x.priority == first), key=price).name


def _single_modes(
    problem: Problem, everything: Candidates, catalog: Catalog, units: list[str], limited: Limited
) -> tuple[SingleMode, ...]:
    """Each billing mode alone under the same limits, best first; nothing where there is only one to choose."""
    modes = modes_of(everything)
    if len(modes) < 2:
        return ()
    out = [
        _alone(problem, small, catalog, units, mode, limited, share)
        for mode, small, share in each_alone(everything, modes, limited.time_s, limited.stop)
    ]
    return tuple(sorted(out, key=lambda m: (*(-v for v in m.values), m.total or 0, m.billing)))


def _alone(
    problem: Problem,
    small: Candidates,
    catalog: Catalog,
    units: list[str],
    mode: str,
    limited: Limited,
    time_s: float,
) -> SingleMode:
    if len(small.unserved) == len(problem.workloads):
        return SingleMode(billing=mode, values=tuple(0.0 for _ in units), total=None, proved=True)
    scaled = scale(small, catalog)
    deadline = time.monotonic() + time_s

    def look(instance: Instance, near: Values | None, share: float) -> Found:
        return limited.search(instance, near, share * (deadline - time.monotonic()))

    ranks = ranked(scaled.instance, look)
    values = ranks.found.values
    if values is None:
        return SingleMode(
            billing=mode,
            values=tuple(0.0 for _ in units),
            total=None,
            proved=ranks.found.status is Status.INFEASIBLE,
        )
    reached = [in_unit(value_of(scaled.instance, values.share, i), unit) for i, unit in enumerate(units)]
    total = money(bill(scaled, values, problem).cash)
    return SingleMode(billing=mode, values=tuple(reached), total=total, proved=ranks.unproved is None)
