"""How far prices may move before the plan changes.

A plan costs a sum that is linear in a price factor, so between two factors with different plans the change is looked for where
the lines of the two cross: a probe just beyond the crossing finds either the same plan as before it or a third one, whose line
is tried next. Every third probe halves the ratio, whatever the lines say: items that hold a price only in part, or workloads
that may be left out, make the crossing a guess.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from decimal import Decimal

from solver.assemble import main_accelerator
from solver.candidates import reduced
from solver.explaining.explain_plan import Solved
from solver.explaining.explain_points import PriceMove
from solver.plan import Item, Result
from solver.scaling import scale
from solver.whatif.sweep_points import Signature, plan_text, signature
from solver.whatif.vary import PRICES, Scenario

RISE, FALL = 4.0, 0.25
"""Price factors between which a change of plan is looked for."""
CLOSE = 1.01
"""A change of plan is placed to this ratio."""
MOST_PRICES = 4
BESIDE = 0.4
"""A probe lies so much of `CLOSE` (as a power) beside a crossing: two of them, one on either side, place it."""


def price_moves(at: Solved) -> list[PriceMove]:
    """For the dearest things in the plan: how far up their price may go before the plan changes; and for the main
    accelerator's nearest rival how far down."""
    spent: dict[str, Decimal] = {}
    for item in at.result.items:
        selector = _selector(item)
        if selector is not None:
            spent[selector] = spent.get(selector, Decimal(0)) + item.total_cost
    out: list[PriceMove] = []
    for selector in sorted(spent, key=lambda s: (-spent[s], s))[:MOST_PRICES]:
        if at.stop.is_set():
            return out
        out.append(_moved(at, selector, RISE))
    main = main_accelerator(at.result)
    rival = _rival(at, main)
    if rival is not None and not at.stop.is_set():
        out.append(_moved(at, f"{PRICES}{rival}", FALL))
    return out


def _rival(at: Solved, main: str | None) -> str | None:
    """Main accelerator of the best plan without this one's."""
    if main is None:
        return None
    small = reduced(at.everything, without_accelerator=main)
    if small.unserved and not small.problem.weighed:
        return None
    scaled = at.with_floors(scale(small, at.study.catalog))
    found = at.study.least(scaled.instance, stop=at.stop).found
    if found.values is None:
        return None
    return main_accelerator(at.study.answer(at.study.loaded, at.study.catalog, small, scaled, found))


@dataclass
class _Lines:
    """What plans cost by the factor of one price."""

    selector: str
    points: dict[Signature, list[tuple[float, float]]] = field(default_factory=dict)
    slopes: dict[Signature, float] = field(default_factory=dict)

    def note(self, factor: float, result: Result) -> None:
        """Keep what the plan costs at a factor."""
        assert result.cost is not None
        plan = signature(result)
        self.points.setdefault(plan, []).append((factor, float(result.cost.total)))
        accelerator = self.selector.removeprefix(PRICES)
        held = [i.total_cost for i in result.items if _selector(i) == self.selector or i.accelerator == accelerator]
        self.slopes.setdefault(plan, float(sum(held)) / factor)

    def line(self, plan: Signature) -> tuple[float, float]:
        """Cost without the price, and what a factor of 1 adds: read from two points where there are two."""
        (at, cost), *more = self.points[plan]
        slope = (more[-1][1] - cost) / (more[-1][0] - at) if more and more[-1][0] != at else self.slopes[plan]
        return cost - slope * at, slope

    def crossing(self, one: Signature, other: Signature) -> float | None:
        """Factor at which two plans cost the same."""
        if one not in self.points or other not in self.points:
            return None
        (a, slope), (b, steeper) = self.line(one), self.line(other)
        return None if slope == steeper else (b - a) / (slope - steeper)


def _moved(at: Solved, selector: str, limit: float) -> PriceMove:
    """Place the change of plan between 1 and `limit` times the price."""
    before = signature(at.result)
    lines = _Lines(selector)
    lines.note(1.0, at.result)

    def at_factor(factor: float) -> Result:
        result = at.study.solve(Scenario(prices=((selector, repr(factor)),)), at.stop)
        if result.cost is not None:
            lines.note(factor, result)
        return result

    direction = "up" if limit > 1 else "down"
    far = at_factor(limit)
    if signature(far) == before:
        return PriceMove(selector=selector, direction=direction, holds=limit, changes=None, then="")
    holds, changes, then = 1.0, limit, far
    probes = 0
    while max(changes / holds, holds / changes) > CLOSE and not at.stop.is_set():
        probes += 1
        crossing = None if probes % 3 == 0 else lines.crossing(before, signature(then))
        factor = round(probe(holds, changes, crossing), 4)
        result = at_factor(factor)
        if signature(result) == before:
            holds = factor
        else:
            changes, then = factor, result
    text = plan_text(then)
    return PriceMove(selector=selector, direction=direction, holds=holds, changes=changes, then=text)


def probe(holds: float, changes: float, crossing: float | None) -> float:
    """Where to look next between a factor at which the plan holds and one at which it does not: beside the crossing of their
    lines where it lies between them, on the far side first, else in the middle of their ratio."""
    low, high = sorted([holds, changes])
    step = CLOSE ** (BESIDE if changes > holds else -BESIDE)
    # Next to an end that is known nothing new would be learnt.
    apart = CLOSE ** (BESIDE / 2)
    beside = [] if crossing is None or not low < crossing < high else [crossing * step, crossing / step]
    return next((x for x in beside if low * apart < x < high / apart), math.sqrt(low * high))


def _selector(item: Item) -> str | None:
    """The price that most of an item's cost hangs on."""
    if item.kind == "rental" and item.pool is not None:
        return PRICES + item.pool.removesuffix("#spot").removesuffix("#units")
    if item.kind == "server" and item.accelerator is not None and item.total_cost:
        return f"{PRICES}{item.accelerator}.purchase"
    return PRICES + "electricity" if item.kind == "energy" else None
