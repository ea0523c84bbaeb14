"""Where the plan changes along a varied field, beyond the grid: exact for limits of watts and money, else by bisection."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass, replace
from decimal import Decimal

from solver.constraints import Context, Expr, money, site_watts, total
from solver.instance import Instance
from solver.limits import limits_of
from solver.model import PlanModel, build_model
from solver.plan import Result, Status
from solver.scaling import Scaled
from solver.whatif.implied import CEILING, is_limit, used
from solver.whatif.study import Study, number_at
from solver.whatif.sweep_points import BreakPoint, plan_text, signature
from solver.whatif.vary import Amount, Scenario

MOST_PER_STEP = 20
"""Break points looked for between two neighbouring points."""
HALVINGS = 10
"""Bisection stops at 1/2^HALVINGS of a grid step."""
COUNTED = ("limits.power", "limits.budget.capex", "limits.budget.monthly", "limits.budget.total")


def usage(ctx: Context, field: str, site_names: list[str]) -> Expr:
    """What a plan uses of a limit [W or cents], as an expression of the model."""
    inst = ctx.instance
    if field.startswith("limits.budget."):
        part = field.rpartition(".")[2]
        return money(ctx, {"total": "cash"}.get(part, part))
    if field.endswith((".racks", ".circuits")):
        return total(factor * ctx.variables.gear[g] for g, factor in room_terms(inst, field))
    if field == "limits.power":
        sites = range(len(inst.sites))
    else:
        sites = range(site_names.index(field.split(".")[1]), site_names.index(field.split(".")[1]) + 1)
    after_pue = not field.endswith(".it_power")
    by_stage = [site_watts(ctx, sites, stage, facility=after_pue) for stage in inst.stages]
    return ctx.highest(by_stage, f"highest {field}")


def room_terms(inst: Instance, field: str) -> list[tuple[int, int]]:
    """Gear that takes racks or circuits of a site, and how many each, read from its keys (the limit's row may be gone)."""
    _, name, part = field.split(".")
    out = []
    for g, x in enumerate(inst.gear):
        if x.key.startswith(f"{part.removesuffix('s')} {name} "):
            out.append((g, int(x.key.rsplit("x", 1)[1]) if part == "circuits" else 1))
    return out


def countable(field: str) -> bool:
    """Whether the model has the use of this limit as a whole number of watts or cents."""
    return is_limit(field) and (field in COUNTED or field.startswith("sites."))


def per_unit(field: str) -> float:
    """Plain units of a limit per unit of the model: 1 W, or 0.01 of the currency."""
    return 0.01 if field.startswith("limits.budget.") else 1.0


def without(scaled: Scaled, field: str, site_names: list[str]) -> Scaled:
    """The integers without one limit."""
    free = limits_of(scaled.instance, site_names).get(field)
    return scaled if free is None else replace(scaled, instance=free)


@dataclass
class Breaks:
    """Looks for break points of one study. Searches are few and remembered by their scenario."""

    study: Study
    stop: threading.Event | None = None

    def stopped(self) -> bool:
        return self.stop is not None and self.stop.is_set()

    def least_use(self, scenario: Scenario, field: str, at_cost: int | None) -> tuple[int | None, bool]:
        """Least use of a limit [model units] that any plan needs, or any plan at an objective of at most `at_cost`.

        Returns
        -------
        use, proved : int or None, bool
            None where no plan exists whatever the limit.
        """
        loaded, catalog = self.study.at(scenario)
        _, scaled = self.study.integers(loaded, catalog, axes=("power",))
        if scaled is None:
            return None, True
        names = [s.name for s in loaded.problem.sites]
        free = without(self.study.settled(scaled, self.stop)[0], field, names).instance

        def build(inst: Instance) -> PlanModel:
            built = build_model(inst)
            if at_cost is not None:
                built.model.add(built.objective <= at_cost)
            use = usage(built.context, field, names)
            built.model.minimize(use)
            return PlanModel(built.context, use)

        part = None if at_cost is None else self.study.part(free, at_cost)
        found = self.study.least(free if part is None else part.instance, build, self.stop).found
        return found.objective, found.status in (Status.OPTIMAL, Status.INFEASIBLE)

    def between(
        self, field: str, low: tuple[Scenario, Result], high: tuple[Scenario, Result], others: dict[str, str]
    ) -> list[BreakPoint]:
        """Break points between two neighbours whose plans differ, in rising order of the field."""
        if countable(field):
            return self._exact(field, low, high, others)
        if field == CEILING:
            return self._states(low, high, others)
        return self._bisected(field, low, high, others)

    def _exact(
        self, field: str, low: tuple[Scenario, Result], high: tuple[Scenario, Result], others: dict[str, str]
    ) -> list[BreakPoint]:
        """From the looser end down: the least limit at which its cost holds, the plan just below that, and so on."""
        found: list[BreakPoint] = []
        unit = per_unit(field)
        above_scenario, above = high
        floor = number_at(self.study.at(low[0])[0], field)
        assert floor is not None
        for _ in range(MOST_PER_STEP):
            if self.stopped() or above.objective is None:
                break
            cents = round(above.objective * (100 if above.objective_name == "cost" else 1))
            use, proved = self.least_use(above_scenario, field, cents)
            if use is None or not proved:
                break
            at = use * unit
            below_scenario = with_value(self.study, above_scenario, field, (use - 1) * unit)
            below = low[1]
            if floor < (use - 1) * unit:
                below = self.study.solve(below_scenario, self.stop)
            if at <= floor or below.status is Status.UNKNOWN:
                break
            found.append(_break(field, others, (at, at), (below, above), exact=True))
            if _same(below, low[1]):
                break
            above_scenario, above = below_scenario, below
        return found[::-1]

    def _states(
        self, low: tuple[Scenario, Result], high: tuple[Scenario, Result], others: dict[str, str]
    ) -> list[BreakPoint]:
        """Power states are few: the plan of the looser end holds down to the highest cap that it uses."""
        found: list[BreakPoint] = []
        floor = number_at(self.study.at(low[0])[0], CEILING)
        assert floor is not None
        scenario, above = high
        for _ in range(MOST_PER_STEP):
            at = used(above, CEILING, self.study.catalog) if above.cost is not None else None
            if self.stopped() or at is None or at <= floor or _same(above, low[1]):
                break
            at = math.ceil(at * 1e4) / 1e4
            scenario = with_value(self.study, scenario, CEILING, at - 1e-4)
            below = low[1] if at - 1e-4 <= floor else self.study.solve(scenario, self.stop)
            found.append(_break(CEILING, others, (at, at), (below, above), exact=True))
            above = below
        return found[::-1]

    def _bisected(
        self, field: str, low: tuple[Scenario, Result], high: tuple[Scenario, Result], others: dict[str, str]
    ) -> list[BreakPoint]:
        """Halve the step until the change is known to 1/2^HALVINGS of it; a third plan on the way is followed too."""
        a, b = _amount(low[0], field), _amount(high[0], field)
        if (a.prefix, a.suffix.strip()) != (b.prefix, b.suffix.strip()) or a.number == b.number:
            return []
        width = (b.number - a.number) / 2**HALVINGS
        found: list[BreakPoint] = []

        def solve(number: Decimal) -> Result:
            return self.study.solve(with_text(low[0], field, str(a.at(number.normalize()))), self.stop)

        def halve(x: Decimal, at_x: Result, y: Decimal, at_y: Result) -> None:
            if self.stopped() or len(found) >= MOST_PER_STEP or _same(at_x, at_y):
                return
            if abs(y - x) <= abs(width) * Decimal("1.001"):
                texts = (str(a.at(x.normalize())), str(a.at(y.normalize())))
                found.append(_break(field, others, (float(x), float(y)), (at_x, at_y), exact=False, texts=texts))
                return
            middle = (x + y) / 2
            at_middle = solve(middle)
            halve(x, at_x, middle, at_middle)
            halve(middle, at_middle, y, at_y)

        halve(a.number, low[1], b.number, high[1])
        return found


def _same(a: Result, b: Result) -> bool:
    return a.status == b.status and signature(a) == signature(b)


def _break(
    field: str,
    others: dict[str, str],
    at: tuple[float, float],
    plans: tuple[Result, Result],
    *,
    exact: bool,
    texts: tuple[str, str] | None = None,
) -> BreakPoint:
    below, above = plans
    currency = next((r.cost.currency for r in plans if r.cost is not None), "USD")
    shown = texts or (limit_text(field, at[0], currency), limit_text(field, at[1], currency))
    return BreakPoint(
        field=field,
        others=others,
        at=at[0],
        until=at[1],
        at_text=shown[0],
        until_text=shown[1],
        exact=exact,
        below=plan_text(below) or str(below.status),
        above=plan_text(above) or str(above.status),
        cost_below=None if below.cost is None else below.cost.total,
        cost_above=None if above.cost is None else above.cost.total,
    )


def limit_text(field: str, value: float, currency: str) -> str:
    """Value of a limit as one would write it in a problem: exact to the watt or the cent."""
    if field.startswith("limits.budget."):
        return f"{value:.2f}{currency}" + ("/mo" if field.endswith("monthly") else "")
    if field.endswith("gpu_power_limit"):
        return f"{value * 100:g}%"
    return f"{value:.0f}W"


def _entry(scenario: Scenario, field: str) -> str:
    return dict((*scenario.settings, *scenario.factors, *scenario.prices))[field]


def _amount(scenario: Scenario, field: str) -> Amount:
    return Amount.parse(_entry(scenario, field))


def with_value(study: Study, scenario: Scenario, field: str, value: float) -> Scenario:
    """The scenario with another value of a limit [plain units]."""
    return with_text(scenario, field, limit_text(field, value, study.loaded.problem.currency))


def with_text(scenario: Scenario, field: str, text: str) -> Scenario:
    """The scenario with another text for what it varies at `field`."""

    def changed(pairs: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
        return tuple((path, text if path == field else value) for path, value in pairs)

    return Scenario(changed(scenario.settings), changed(scenario.factors), changed(scenario.prices))
