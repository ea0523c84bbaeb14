"""Menus of racks and circuits that were cut down, loosened: a problem whose bound holds for every way to put things up.

Types of a long menu are left out (`solver.candidates.rack_menu`). In the loosened instance some that stayed have the places of
all that were left out, more than any one of them has. It has the pools, options and gear of the instance, and a plan of the
same cost for every plan of the whole menu; so its bound holds for that, and where it has no plan, there is none.
"""

from __future__ import annotations

from dataclasses import replace

from solver.bounding.beyond import MANY_POOLS
from solver.bounding.fold import fold, remember
from solver.instance import Instance
from solver.search import Values


def loosened(inst: Instance) -> Instance | None:
    """The instance with what was cut off menus, and more; None where nothing was. Its families are those of the instance."""
    if not any(row.loose for row in inst.rows):
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


def pools_of(inst: Instance, plan: Values) -> list[int]:
    """Pools of which a plan holds nodes, or on which it runs a job."""
    held = {inst.capacities[i].pool for i, n in plan.commit.items() if n}
    held |= {inst.capacities[i].pool for (i, _), n in plan.hourly.items() if n}
    return sorted(held | {inst.options[q].pool for q, n in plan.chosen.items() if n})
