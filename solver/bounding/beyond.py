"""What the cheapest use of a pool costs beyond the bound of the relaxation, and the part of an instance that may beat a figure."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from solver.bounding.program import Floats, relaxed_model
from solver.bounding.restrict import Part, restricted
from solver.instance import Instance
from solver.model import PlanModel, build_model


@dataclass(frozen=True)
class Extra:
    """What the cheapest use of each pool, and each option, costs beyond the bound."""

    bound: float
    pools: Floats
    options: Floats
    used: tuple[int, ...]


def beyond(built: PlanModel, time_limit_s: float) -> Extra | None:
    """Bound of the relaxation, and what using each pool or option costs beyond it."""
    relaxed = relaxed_model(built, time_limit_s)
    if relaxed is None:
        return None
    inst, var = built.context.instance, built.context.variables
    pools = np.full(len(inst.pools), math.inf)
    used: set[int] = set()

    def note(pool: int, index: int) -> None:
        pools[pool] = min(pools[pool], relaxed.reduced[index])
        if relaxed.values[index] > 1e-6:
            used.add(pool)

    for i, commit in var.commit.items():
        note(inst.capacities[i].pool, commit.index)
    for (i, _), hourly in var.hourly.items():
        note(inst.capacities[i].pool, hourly.index)
    options = np.array([relaxed.reduced[x.index] for x in var.chosen.values()])
    for q, chosen in var.chosen.items():
        if not inst.options[q].pooled:
            note(inst.options[q].pool, chosen.index)
    return Extra(relaxed.bound, pools, options, tuple(sorted(used)))


def promising(inst: Instance, most: int, time_limit_s: float) -> Part | None:
    """The part of an instance in which every plan of an objective up to `most` lies; None where the relaxation says nothing."""
    extra = beyond(build_model(inst), time_limit_s)
    if extra is None:
        return None
    room = most - extra.bound
    return restricted(
        inst, np.flatnonzero(extra.pools <= room).tolist(), np.flatnonzero(extra.options <= room).tolist()
    )
