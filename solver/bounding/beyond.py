"""What the cheapest use of a pool costs beyond the bound of the relaxation, and the part of an instance that may beat a figure."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from solver.bounding.fold import Folded, Members, fold
from solver.bounding.program import Floats, relaxed_model
from solver.bounding.restrict import Part, restricted
from solver.instance import Instance
from solver.model import PlanModel, build_model

Build = Callable[[Instance], PlanModel]
"""Makes a model of an instance, or of a part of it: with an objective and limits of its own, where they are other than its."""


MANY_POOLS = 80
"""With fewer pools than that the relaxation is quick as it is, and says more of each pool."""


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


def priced(inst: Instance, time_limit_s: float, build: Build = build_model) -> tuple[Extra, Folded | None] | None:
    """As `beyond`, of the relaxation in which pools that differ in money and watts alone are one (see `solver.bounding.fold`).

    The folded instance comes with it, where there is one; None where the relaxation says nothing in time.
    """
    folded = fold(inst) if len(inst.pools) >= MANY_POOLS else None
    extra = beyond(build(inst if folded is None else folded.instance), time_limit_s)
    if extra is None or folded is None:
        return None if extra is None else (extra, None)
    used = sorted(o for family in extra.used for o in folded.pools[family])
    pools = _spread(extra.pools, folded.pools, len(inst.pools))
    options = _spread(extra.options, folded.options, len(inst.options))
    return Extra(extra.bound, pools, options, tuple(used)), folded


def _spread(amounts: Floats, members: Members, count: int) -> Floats:
    """Amounts of families as amounts of all their members."""
    out = np.full(count, math.inf)
    for amount, some in zip(amounts, members, strict=True):
        out[list(some)] = amount
    return out


def promising(inst: Instance, most: int, time_limit_s: float, build: Build = build_model) -> Part | None:
    """The part of an instance in which every plan of an objective up to `most` lies; None where the relaxation says nothing."""
    found = priced(inst, time_limit_s, build)
    return None if found is None else within(inst, found[0], most - found[0].bound)


def within(inst: Instance, extra: Extra, room: float) -> Part:
    """The part of an instance whose pools and options cost at most so much beyond the bound."""
    return restricted(
        inst, np.flatnonzero(extra.pools <= room).tolist(), np.flatnonzero(extra.options <= room).tolist()
    )
