"""What the cheapest use of a pool costs beyond the bound of the relaxation, and the part of an instance that may beat a figure."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

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


MOST_KEPT = 3
_kept: list[tuple[Instance, tuple[Extra, Folded | None]]] = []


@dataclass(frozen=True)
class Extra:
    """What the cheapest use of each pool, and each option, costs beyond the bound; and at least one node of each way to hold
    some, one replica of each kind and one unit of gear. Several cost at least as many times that."""

    bound: float
    pools: Floats
    options: Floats
    ways: Floats
    replicas: Floats
    gear: Floats
    used: tuple[int, ...]

    def of(self, part: Part) -> Extra:
        """The same of a part of the instance."""
        used = set(self.used)
        return Extra(
            self.bound,
            self.pools[list(part.pools)],
            self.options[list(part.options)],
            self.ways[list(part.capacities)],
            self.replicas[list(part.replicas)],
            self.gear,
            tuple(n for n, o in enumerate(part.pools) if o in used),
        )


def beyond(built: PlanModel, time_limit_s: float) -> Extra | None:
    """Bound of the relaxation, and what using each pool or option costs beyond it."""
    relaxed = relaxed_model(built, time_limit_s)
    if relaxed is None:
        return None
    inst, var = built.context.instance, built.context.variables
    pools, ways = np.full(len(inst.pools), math.inf), np.full(len(inst.capacities), math.inf)
    replicas = np.full(len(inst.replicas), math.inf)
    used: set[int] = set()

    def note(pool: int, index: int) -> None:
        pools[pool] = min(pools[pool], relaxed.reduced[index])
        if relaxed.values[index] > 1e-6:
            used.add(pool)

    held = [(i, commit) for i, commit in var.commit.items()] + [(i, hourly) for (i, _), hourly in var.hourly.items()]
    for i, way in held:
        note(inst.capacities[i].pool, way.index)
        ways[i] = min(ways[i], max(0.0, relaxed.reduced[way.index]))
    node = np.full(len(inst.pools), math.inf)
    np.minimum.at(node, np.array([c.pool for c in inst.capacities], np.int64), ways)
    for (k, _), count in var.replicas.items():
        replicas[k] = min(replicas[k], max(0.0, relaxed.reduced[count.index]))
    options = np.array([relaxed.reduced[x.index] for x in var.chosen.values()])
    for q, chosen in var.chosen.items():
        x = inst.options[q]
        if not x.pooled:
            note(x.pool, chosen.index)
        elif node[x.pool] < math.inf:
            # A job on held nodes comes with as many of them.
            options[q] = max(0.0, options[q]) + -(-x.gpus // inst.pools[x.pool].gpus) * node[x.pool]
    gear = np.array([max(0.0, relaxed.reduced[g.index]) for g in var.gear.values()])
    return Extra(relaxed.bound, pools, options, ways, replicas, gear, tuple(sorted(used)))


def priced(inst: Instance, time_limit_s: float, build: Build = build_model) -> tuple[Extra, Folded | None] | None:
    """As `beyond`, of the relaxation in which pools that differ in money and watts alone are one (see `solver.bounding.fold`).

    The folded instance comes with it, where there is one; None where the relaxation says nothing in time. What was said last is
    kept: a bound is asked for first, and a plan then.
    """
    kept = next((said for known, said in list(_kept) if known is inst), None) if build is build_model else None
    if kept is not None:
        return kept
    said = _priced(inst, time_limit_s, build)
    if said is not None and build is build_model:
        _kept.append((inst, said))
        del _kept[:-MOST_KEPT]
    return said


def _priced(inst: Instance, time_limit_s: float, build: Build) -> tuple[Extra, Folded | None] | None:
    folded = fold(inst) if len(inst.pools) >= MANY_POOLS else None
    extra = beyond(build(inst if folded is None else folded.instance), time_limit_s)
    if extra is None or folded is None:
        return None if extra is None else (extra, None)
    return unfolded(extra, folded, inst), folded


def unfolded(extra: Extra, folded: Folded, inst: Instance) -> Extra:
    """What is known of families as known of all their members."""
    return Extra(
        extra.bound,
        _spread(extra.pools, folded.pools, len(inst.pools)),
        _spread(extra.options, folded.options, len(inst.options)),
        _spread(extra.ways, folded.capacities, len(inst.capacities)),
        _spread(extra.replicas, folded.replicas, len(inst.replicas)),
        extra.gear,
        tuple(sorted(o for family in extra.used for o in folded.pools[family])),
    )


def of_families(extra: Extra, folded: Folded) -> Extra:
    """What is known of pools as known of the families that they are folded into: least of their members', which are equal."""

    def least(amounts: Floats, members: Members) -> Floats:
        return np.array([amounts[list(some)].min() for some in members])

    used = set(extra.used)
    return Extra(
        extra.bound,
        least(extra.pools, folded.pools),
        least(extra.options, folded.options),
        least(extra.ways, folded.capacities),
        least(extra.replicas, folded.replicas),
        extra.gear,
        tuple(f for f, some in enumerate(folded.pools) if not used.isdisjoint(some)),
    )


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
    """The part of an instance whose pools and options cost at most so much beyond the bound, with no more of anything than that
    pays for."""
    pools, options = np.flatnonzero(extra.pools <= room).tolist(), np.flatnonzero(extra.options <= room).tolist()
    if not math.isfinite(room):
        return restricted(inst, pools, options)
    lossless = [not (s.redundant or s.ladders or s.groups) for s in inst.services]
    each = np.full(len(inst.pools), math.inf)
    np.minimum.at(each, np.array([c.pool for c in inst.capacities], np.int64), extra.ways)
    kinds = [
        k
        for k, r in enumerate(inst.replicas)
        # A replica stands on whole nodes. What may be lost is counted by the kinds there are, so those stay.
        if extra.replicas[k] + r.nodes * each[r.pool] <= room or not lossless[r.work]
    ]
    part = restricted(inst, pools, options, kinds)
    ways, replicas, gear = (_most(amounts, room) for amounts in (extra.ways, extra.replicas, extra.gear))
    small = part.instance
    return replace(
        part,
        instance=replace(
            small,
            capacities=tuple(
                c if ways[i] >= c.max_nodes else replace(c, max_nodes=int(ways[i]))
                for i, c in zip(part.capacities, small.capacities, strict=True)
            ),
            replicas=tuple(
                r if replicas[k] >= r.max_count else replace(r, max_count=int(replicas[k]))
                for k, r in zip(part.replicas, small.replicas, strict=True)
            ),
            gear=tuple(
                g if most >= g.max_count else replace(g, max_count=int(most))
                for g, most in zip(small.gear, gear, strict=True)
            ),
        ),
    )


def _most(each: Floats, room: float) -> Floats:
    """How many of each so much room pays for."""
    with np.errstate(divide="ignore", invalid="ignore"):
        most = np.floor(room / each * (1 + 1e-12) + 1e-9)
    return np.where(each > 0, np.maximum(most, 0.0), math.inf)
