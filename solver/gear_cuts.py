"""Implied rows on gear: what a choice brings along, in whole units.

Of some choices exactly one is taken: on which tier a data class lies, say. Whatever tier it is asks for so many drives, these for
boxes, and boxes for a switch. The relaxation takes a part of each: 3.1 boxes for 75 drives of 24 to a box, and a quarter of the
switch that four boxes hang on. So every choice z is taken in turn, and bounds of counts are drawn from the rows over gear alone, each
rounded to whole units before the next is drawn. With L_z <= G <= U_z for every choice z of a row sum_z z = 1,

    sum_z L_z z <= G <= sum_z U_z z

holds for all plans. A choice that leaves no room for its own consequences is none.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from solver.expressions import total
from solver.instance import Gear, Instance, Row, Terms

if TYPE_CHECKING:
    from solver.context import Context

MOST_TURNS = 20
"""Most times that the rows are gone through for one choice; bounds that are not drawn to the end hold all the same."""
Bounds = dict[int, tuple[int, int]]
Consequence = tuple[tuple[int, ...], list[Bounds | None]]
MOST_KEPT = 4
_kept: list[tuple[tuple[tuple[Gear, ...], list[Row]], list[Consequence]]] = []


def gear_cuts(ctx: Context) -> None:
    """Implied: least and most units of gear for each of some choices of which one is taken."""
    var = ctx.variables.gear
    for choices, follow in consequences(ctx.instance):
        for z, bounds in zip(choices, follow, strict=True):
            if bounds is None:
                ctx.model.add(var[z] == 0)
        possible = [(z, bounds) for z, bounds in zip(choices, follow, strict=True) if bounds is not None]
        for g in sorted({g for _, bounds in possible for g in bounds} - set(choices)):
            most = ctx.instance.gear[g].max_count
            each = [(z, *bounds.get(g, (0, most))) for z, bounds in possible]
            if any(low for _, low, _ in each):
                ctx.model.add(var[g] >= total(low * var[z] for z, low, _ in each))
            if any(high < most for _, _, high in each):
                ctx.model.add(var[g] <= total(high * var[z] for z, _, high in each))


def consequences(inst: Instance) -> list[Consequence]:
    """Sets of choices of which exactly one is taken, and for each choice the bounds of gear that follow from it.

    Of bounds only those that differ from 0 and `max_count` are given; None for a choice that no plan can take. The last ones are kept:
    parts of an instance with the same gear have the same.
    """
    rows = [
        r
        for r in inst.rows
        if r.gear and not (r.commit or r.hourly or r.chosen or r.used or r.replicas or r.served or r.sums or _idle(r))
    ]
    read = (inst.gear, rows)
    known = next((said for about, said in list(_kept) if about == read), None)
    if known is None:
        known = _consequences(inst, rows)
        _kept.append((read, known))
        del _kept[:-MOST_KEPT]
    return known


def _idle(row: Row) -> bool:
    """Whether any counts of gear keep a row: places for nodes where none are left."""
    return row.low is None and (row.high or 0) >= 0 and all(factor <= 0 for _, factor in row.gear)


def _consequences(inst: Instance, rows: list[Row]) -> list[Consequence]:
    parts = [(part, limit) for r in rows for part, limit in _at_most(r)]
    holds: dict[int, list[int]] = defaultdict(list)
    for n, (part, _) in enumerate(parts):
        for g, _ in part:
            holds[g].append(n)
    out = []
    for choices in (_choices(inst, r) for r in rows):
        if choices:
            start = dict.fromkeys(choices, (0, 0))
            out.append((choices, [_follows(inst, {**start, z: (1, 1)}, parts, holds) for z in choices]))
    return out


def _choices(inst: Instance, row: Row) -> tuple[int, ...]:
    """Gear of a row that says that exactly one of several is taken; none for other rows."""
    one = row.low == row.high == 1 and len(row.gear) > 1
    chosen = one and all(factor == 1 and inst.gear[g].max_count == 1 for g, factor in row.gear)
    return tuple(g for g, _ in row.gear) if chosen else ()


def _at_most(row: Row) -> list[tuple[Terms, int]]:
    """The sides of a row as sum of terms <= limit."""
    sides: list[tuple[Terms, int]] = []
    if row.high is not None:
        sides.append((row.gear, row.high))
    if row.low is not None:
        sides.append((tuple((g, -factor) for g, factor in row.gear), -row.low))
    return sides


def _follows(
    inst: Instance, start: Bounds, parts: list[tuple[Terms, int]], holds: dict[int, list[int]]
) -> Bounds | None:
    """Bounds of gear that follow from some that are given; None where they leave no plan."""
    bounds = dict(start)
    waiting = {n for g in start for n in holds[g]}
    for _ in range(MOST_TURNS):
        if not waiting:
            break
        changed: set[int] = set()
        for n in sorted(waiting):
            terms, limit = parts[n]
            known = [bounds.get(g, (0, inst.gear[g].max_count)) for g, _ in terms]
            least = sum(f * (low if f > 0 else high) for (_, f), (low, high) in zip(terms, known, strict=True))
            if least > limit:
                return None
            for (g, f), (low, high) in zip(terms, known, strict=True):
                # f x <= limit - the least that the others come to
                rest = limit - least + f * (low if f > 0 else high)
                new = (low, min(high, rest // f)) if f > 0 else (max(low, -(rest // -f)), high)
                if new[0] > new[1]:
                    return None
                if new != (low, high):
                    bounds[g] = new
                    changed.add(g)
        waiting = {n for g in changed for n in holds[g]}
    return {g: b for g, b in bounds.items() if g not in start and b != (0, inst.gear[g].max_count)}
