"""Menus of racks and circuits that were cut down, loosened: a problem whose bound holds for every way to put things up.

Types of a long menu are left out (`solver.candidates.rack_menu`). In the loosened instance some that stayed have the places of
all that were left out, more than any one of them has. It has the pools, options and gear of the instance, and a plan of the
same cost for every plan of the whole menu; so its bound holds for that, and where it has no plan, there is none. Whatever is
asked of an instance and said to be proved is asked by way of `of_all_menus` or `any_of_all_menus`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from solver.bounding.beyond import MANY_POOLS, Extra
from solver.bounding.fold import fold, remember
from solver.bounding.restrict import Part, restricted
from solver.instance import Instance
from solver.plan import Status, StopReason
from solver.search import Found, Values, relative_gap


@dataclass(frozen=True)
class Looked:
    """What a search found; where they are known the part in which every plan as good lies, and what pools cost beyond the bound."""

    found: Found
    part: Part | None = None
    extra: Extra | None = None
    unlimited: bool = False
    """No plan is better without any limit either."""


Search = Callable[[Instance, float], Looked]
"""Search an instance of which nothing costs less than a figure."""


def is_cut(inst: Instance) -> bool:
    """Whether types of a menu were left out."""
    return any(row.loose for row in inst.rows)


def loosened(inst: Instance) -> Instance | None:
    """The instance with what was cut off menus, and more; None where nothing was. Its families are those of the instance."""
    if not is_cut(inst):
        return None
    loose = _loosened(inst)
    families = fold(inst) if len(inst.pools) >= MANY_POOLS else None
    if families is not None:
        remember(loose, replace(families, instance=_loosened(families.instance)))
    return loose


def _loosened(inst: Instance) -> Instance:
    return replace(
        inst,
        gear=tuple(replace(g, max_count=0) if g.narrow else g for g in inst.gear),
        rows=tuple(replace(row, gear=row.loose, loose=()) if row.loose else row for row in inst.rows),
    )


def of_all_menus(
    inst: Instance,
    search: Search,
    gap: float = 0.0,
    first: Callable[[Instance], Looked] | None = None,
    enough: Callable[[Found], bool] = lambda best: best.status is Status.OPTIMAL,
    *,
    parts: bool = True,
) -> Looked:
    """Search an instance whose menus may have been cut down, with bound and proof for the whole ones.

    The loosened instance is searched first. Where the pools that its plan uses have a plan as good with the types that there are,
    that is the best; else all are searched, and what the loosened instance has for less stays the bound.

    Parameters
    ----------
    gap
        That was asked for.
    first
        The search of the loosened instance, where it is another one.
    enough
        Whether a plan with the pools of the loosened one will do.
    parts
        Whether `search` can be asked of a part of the pools.
    """
    loose = loosened(inst)
    if loose is None:
        return search(inst, -math.inf)
    wide = search(loose, -math.inf) if first is None else first(loose)
    if wide.found.status is Status.INFEASIBLE:
        return wide
    low = -math.inf if wide.found.bound is None else wide.found.bound
    best: Found | None = None
    if parts and wide.found.values is not None:
        near = restricted(inst, pools_of(inst, wide.found.values))
        found = search(near.instance, low).found
        if found.values is not None:
            best = bounded(replace(found, values=near.widened(found.values)), low, gap)
            if enough(best):
                part = None if wide.part is None else restricted(inst, wide.part.pools, wide.part.options)
                # What beats it with no limit at all would beat it with any menu too.
                return Looked(best, part, wide.extra, wide.unlimited)
    rest = search(inst, low)
    found = rest.found
    if best is not None and (found.objective is None or (best.objective or 0) < found.objective):
        found = best
    return Looked(bounded(found, low, gap), rest.part, rest.extra)


def any_of_all_menus(inst: Instance, search: Callable[[Instance], bool | None]) -> bool | None:
    """Whether something is possible, where `search` says of one instance whether it is (None: not known)."""
    loose = loosened(inst)
    possible = True if loose is None else search(loose)
    if possible is not True:
        return possible
    # A menu cut down may miss a way to fill racks: that it has none is no proof.
    return search(inst) if loose is None else search(inst) or None


def bounded(found: Found, low: float, gap: float) -> Found:
    """What a search of a part of all choices says of all of them, where none of these costs less than `low`."""
    if found.objective is None:
        none_of_these = found.status is Status.INFEASIBLE and low < math.inf
        return replace(found, status=Status.UNKNOWN, stop_reason=StopReason.TIME_LIMIT) if none_of_these else found
    bound = min(low, float(found.objective))
    if bound >= found.objective:
        return replace(found, status=Status.OPTIMAL, stop_reason=StopReason.PROVED, bound=bound)
    why = found.stop_reason
    if why is not StopReason.INTERRUPTED:
        reached = (relative_gap(found.objective, bound) or 0.0) <= gap
        why = StopReason.GAP_REACHED if reached else StopReason.TIME_LIMIT
    return replace(found, status=Status.FEASIBLE, stop_reason=why, bound=bound if math.isfinite(bound) else None)


def pools_of(inst: Instance, plan: Values) -> list[int]:
    """Pools of which a plan holds nodes, or on which it runs a job."""
    held = {inst.capacities[i].pool for i, n in plan.commit.items() if n}
    held |= {inst.capacities[i].pool for (i, _), n in plan.hourly.items() if n}
    return sorted(held | {inst.options[q].pool for q, n in plan.chosen.items() if n})
