"""Builds opened as they are wanted: which of some ten thousand builds a plan could use, found from merged ones.

Merged builds (`solver.candidates.merged`) make a small problem whose best plan costs no more than any real one. The families that
this plan uses, and those nearest to paying, are opened: coarse ones into fine ones, fine ones into their builds; then the small
problem is solved again. Once the best plan uses real builds only, it is the best of all; whatever stays merged could not make a
better one. Where time ends before, the opened builds have a plan, and the last small problem a bound for it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from catalogs.catalog import Catalog
from solver.candidates import Candidates, reduced
from solver.candidates.merged import families, merged, only, together
from solver.compare_plans import BOUGHT
from solver.instance import Instance
from solver.loosened import Looked, bounded
from solver.plan import Result, Status
from solver.scaling import Scaled, scale
from solver.search import Found

MANY_BUILDS = 60_000
"""So many builds are not even compared with one another first, which takes longer than opening them (50,000: two seconds)."""
MANY_LEFT = 8_000
"""So many pools, after what others beat is out, are too many to be searched at once."""
AT_ONCE = 10
"""Families that are opened in one step, those in use aside."""
NEAR = 0.01
"""A family that costs no more than this share of the plan beyond its bound is near to paying."""
ROUND_SHARE = 0.3
"""Share of the time left that one small problem may take."""

LEAST_S = 5.0
"""A small problem gets so much time at least [s]."""
FEW_BUILDS = 200
"""So many open builds are searched beside the likely ones where time ran out."""


Look = Callable[[Instance, float], Looked]


@dataclass(frozen=True)
class Floor:
    """Candidates of which all are real, and what no plan of all builds costs less than; infinite where there is none at all."""

    candidates: Candidates
    bound: float
    rounds: int = 0

    def holds_for(self, found: Found, gap: float) -> Found:
        """What a search of the open builds says of all builds: its plan, with the bound of all of them."""
        return bounded(found, self.bound, gap)


@dataclass
class _Families:
    """Families and their builds, and which are open."""

    whole: Candidates
    coarse: pl.DataFrame = field(init=False)
    fine: pl.DataFrame = field(init=False)
    tops: Candidates = field(init=False)
    real: set[str] = field(init=False)
    names: set[str] = field(init=False)
    open: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.coarse = families(self.whole, coarse=True).with_columns(name=pl.format("coarse {}", "family"))
        self.fine = families(self.whole, coarse=False).with_columns(name=pl.format("fine {}", "family"))
        self.tops = merged(self.whole, self.coarse, "coarse")
        self.names = {*self.coarse["name"], *self.fine["name"]}
        grouped = self.coarse["pool"].implode()
        self.real = set(self.whole.pools.filter(~pl.col("pool").is_in(grouped))["pool"])

    def is_merged(self, pool: str) -> bool:
        """Whether a pool of the small problem is no real one."""
        return pool in self.names

    def open_up(self, names: set[str]) -> None:
        self.open |= names

    def likely(self, names: set[str]) -> pl.Series:
        """Real builds to look for a plan among: those in no family, and of each fine family in some families the extremes."""
        inside = self.coarse.filter(pl.col("name").is_in(list(names)))["pool"]
        mine = pl.col("name").is_in(list(names)) | pl.col("pool").is_in(inside.implode())
        cost = self.whole.capacity.group_by("pool").agg(cost=pl.col("costs").list.sum().min())
        watts = self.whole.pools.select("pool", "it_w")
        known = self.fine.filter(mine).join(cost, on="pool").join(watts, on="pool").sort("cost", "it_w", "pool")
        ends = known.group_by("family").agg(cheap=pl.col("pool").first(), lean=pl.col("pool").sort_by("it_w").first())
        return pl.concat([pl.Series("pool", sorted(self.real), pl.String), ends["cheap"], ends["lean"]]).unique()

    def builds(self) -> pl.Series:
        """Real pools: all that are in no family, and the builds of open fine families."""
        opened = self.fine.filter(pl.col("name").is_in(list(self.open)))["pool"]
        return pl.concat([pl.Series("pool", sorted(self.real), pl.String), opened])

    def candidates(self) -> Candidates:
        """Real builds where families are open, and merged ones for the rest."""
        down = self.coarse.filter(pl.col("name").is_in(list(self.open)))["pool"]
        half = self.fine.filter(pl.col("pool").is_in(down.implode()) & ~pl.col("name").is_in(list(self.open)))
        shut = self.coarse.filter(~pl.col("name").is_in(list(self.open)))["name"].unique()
        parts = [only(self.whole, self.builds()), only(self.tops, shut)]
        if not half.is_empty():
            parts.append(merged(self.whole, half, "fine"))
        return together(parts)


def many_builds(found: Candidates) -> bool:
    """Whether a problem has more builds than are worth comparing with one another before any is opened."""
    return _may_open(found) and _servers(found) >= MANY_BUILDS


def many_left(small: Candidates) -> bool:
    """Whether of reduced candidates so many are left that they are better opened as they are wanted."""
    return _may_open(small) and _servers(small) >= MANY_LEFT


def _servers(found: Candidates) -> int:
    return found.pools.filter(pl.col("kind") == "server").height


def _may_open(found: Candidates) -> bool:
    return found.problem.objective == "cost" and not found.problem.weighed


def opened(found: Candidates, catalog: Catalog, look: Look, time_limit_s: float, gap: float) -> Floor:
    """Find the builds that matter. `look` minimises an instance in a time [s]; a plan of real builds within `gap` of its bound
    will do. Without one in time, the plan is looked for among builds like those of the plans that were found."""
    deadline = time.monotonic() + time_limit_s
    held, bound, rounds, share = _Families(found), -math.inf, 0, ROUND_SHARE
    seen: set[str] = set()
    while True:
        rounds += 1
        small = reduced(held.candidates(), within_watts=True)
        if small.unserved:
            return Floor(only(found, held.builds()), math.inf, rounds)
        scaled = scale(small, catalog)
        left = deadline - time.monotonic()
        looked = look(scaled.instance, max(LEAST_S, share * left))
        if looked.found.status is Status.INFEASIBLE:
            return Floor(only(found, held.builds()), math.inf, rounds)
        if looked.found.bound is not None:
            bound = max(bound, looked.found.bound)
        used, near = _wanted(scaled, looked, held)
        if looked.found.values is not None or not seen:
            seen |= used
        late = time.monotonic() + LEAST_S >= deadline
        if used and late:
            opened_ones = held.builds()
            few = opened_ones if len(opened_ones) <= len(held.real) + FEW_BUILDS else pl.Series("pool", [], pl.String)
            return Floor(only(found, pl.concat([held.likely(seen), few]).unique()), bound, rounds)
        if not used:
            if late or share == 1.0 or (looked.found.gap or 0.0) <= gap:
                return Floor(only(found, held.builds()), bound, rounds)
            # Nothing is left to open: what time there is goes to the bound.
            share = 1.0
            continue
        share = ROUND_SHARE
        held.open_up(used | near)


def _wanted(scaled: Scaled, looked: Looked, held: _Families) -> tuple[set[str], set[str]]:
    """Merged builds that the plan uses (without a plan, the relaxation), and those near to paying."""
    keys = [p.key for p in scaled.instance.pools]
    shut = {o for o, key in enumerate(keys) if held.is_merged(key)}
    used, near, extra = _used(scaled.instance, looked.found) & shut, set[int](), looked.extra
    if extra is not None:
        room = NEAR * abs(extra.bound)
        order = [o for o in np.argsort(extra.pools, kind="stable").tolist() if o in shut]
        near = {o for o in order[:AT_ONCE] if extra.pools[o] <= room}
        if looked.found.values is None:
            used = set(extra.used) & shut or set(order[:1])
    elif looked.found.values is None:
        used = set(sorted(shut)[:AT_ONCE])
    return {keys[o] for o in used}, {keys[o] for o in near}


def _used(inst: Instance, found: Found) -> set[int]:
    """Pools that a plan holds or hires."""
    if found.values is None:
        return set()
    used = {inst.capacities[i].pool for i, n in found.values.commit.items() if n}
    used |= {inst.capacities[i].pool for (i, _), n in found.values.hourly.items() if n}
    return used | {inst.options[q].pool for q, n in found.values.chosen.items() if n}


def of_opened_builds(result: Result) -> Result:
    """A result whose comparisons were made among open builds: what was found there is true, that nothing is better is not said."""
    changed: dict[str, object] = {
        "alternatives": tuple(
            a.model_copy(update={"proved": False}) if a.total is not None and a.name == BOUGHT else a
            for a in result.alternatives
        ),
        "single_modes": tuple(a.model_copy(update={"proved": False}) for a in result.single_modes),
    }
    if result.runner_up is not None:
        changed["runner_up"] = result.runner_up.model_copy(update={"proved": False})
    if result.single_type is not None:
        changed["single_type"] = result.single_type.model_copy(update={"proved": False, "bound": None, "saving": 0.0})
    if result.unshared is not None:
        changed["unshared"] = result.unshared.model_copy(update={"proved": False})
    return result.model_copy(update=changed)
