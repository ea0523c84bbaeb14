"""What a plan owes to mixing types of accelerator: the cheapest plan whose machines all have one type.

What is owned or leased already stays as it is, and so do machines without accelerators. Dominance is looked for inside a
type only, since a row that another type beats may still be the best of its own. Every type gets a bound first; types are then
solved, likely ones before the others and else in the order of their bounds, until no bound is below the best plan found: of
hundreds of types, few are solved.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal

from catalogs.catalog import Catalog
from catalogs.labels import NONE
from solver.blend import has_mixes
from solver.bounding.beyond import MANY_POOLS, priced
from solver.bounding.fold import fold, folded_part, remember
from solver.bounding.linear import linear
from solver.bounding.relaxation import relax
from solver.bounding.restrict import Part, restricted
from solver.candidates import Candidates, reduced
from solver.candidates.leases import lease_number
from solver.cheaper import Cheaper
from solver.events import SolveOptions
from solver.instance import Instance
from solver.least import least
from solver.loosened import loosened
from solver.model import build_model
from solver.plan import Result, SingleType, Status, StopReason
from solver.reuse import Known, scaled_as
from solver.search import Found, Values, run
from solver.search_state import How
from solver.staged import simple

BOUND_S = 1.0
"""Most that the bound of one type may take [s]."""
GAP = 0.001
"""Gap at which the plan of a type counts as found; what is stated of it is its bound."""
LARGE_POOLS, POOLS_PER_S = 1_000, 1_700
"""Among so many pools and more no search is begun that could not end: so many are priced and built in a second."""
PRICED_PER_S = 5_000
"""So many pools are priced in a second."""
LEAST_S = 0.2
"""A search gets so much time at least [s]."""
BOUNDS_SHARE = 0.5
"""Share of the time in which bounds must be known; the others are not looked for."""


@dataclass(frozen=True)
class Best:
    """The cheapest plan of one type. `bound` is that of all types: none alone costs less; None where none can serve it all.

    `types` counts those that could do all the work by themselves, the limits aside.
    """

    types: int
    accelerator: str | None = None
    objective: int | None = None
    bound: float | None = None
    found: Found | None = field(default=None, compare=False)
    """The plan, in the numbers of the whole instance."""


def single_type(
    found: Candidates,
    catalog: Catalog,
    own: Result,
    time_limit: float,
    options: SolveOptions,
    stop: threading.Event | None,
    likely: Collection[str] = (),
    known: Known | None = None,
    cheaper: Cheaper | None = None,
) -> SingleType:
    """Compare a plan with the cheapest one of a single type of accelerator; `likely` types are looked at first.

    `known` : reduced candidates with their integers, which may be the same.
    """
    deadline = time.monotonic() + time_limit
    small = reduced(found, within_accelerator=True, within_watts=True)
    scaled = scaled_as(small, catalog, known)
    inst = scaled.instance
    floor = -math.inf if own.bound is None else own.bound * 100
    best = best_type(inst, deadline - time.monotonic(), options, stop, floor, likely)
    if cheaper is not None and best.found is not None:
        cheaper.offer(small, scaled, best.found)
    if best.bound is None:
        because = "keeps the limits" if best.types else "can do all the work"
        return _none(best.types, True, f"no single type {because}")
    if best.objective is None:
        return _none(best.types, False, "none was found in its share of the time")
    bound, cost = best.bound / 100 if math.isfinite(best.bound) else None, own.objective or 0.0
    return SingleType(
        accelerator=best.accelerator,
        types=best.types,
        total=Decimal(best.objective) / 100,
        bound=None if bound is None else round(bound, 2),
        saving=0.0 if bound is None or bound <= cost else round(1 - cost / bound, 6),
        proved=best.bound >= best.objective,
    )


def _none(types: int, proved: bool, because: str) -> SingleType:
    return SingleType(
        accelerator=None, types=types, total=None, bound=None, saving=None, proved=proved, because=because
    )


def best_type(
    inst: Instance,
    time_limit: float,
    options: SolveOptions,
    stop: threading.Event | None = None,
    floor: float = -math.inf,
    likely: Collection[str] = (),
) -> Best:
    """Find the type of accelerator that does everything for the least money; exact where time allows.

    `floor` : what no plan costs less than, whatever its types. `likely` : types that are bounded and solved before the others.
    """
    deadline = time.monotonic() + time_limit

    def left(share: float = 1.0) -> float:
        stopped = stop is not None and stop.is_set()
        return -math.inf if stopped else deadline - (1 - share) * time_limit - time.monotonic()

    able = [(name, part) for name, part in alone(inst) if serves_all(part.instance)]
    able.sort(key=lambda x: x[0] not in likely)
    pricing_s = min(BOUNDS_SHARE * time_limit, sum(len(part.instance.pools) for _, part in able) / PRICED_PER_S)
    if able and all(too_many(part.instance, left() - pricing_s) for _, part in able):
        # After the bounds no search could begin, and they alone name no type.
        return Best(len(able), bound=floor)
    bounds = []
    for _, part in able:
        bounds.append(lower_bound(part.instance, min(BOUND_S, left(BOUNDS_SHARE))) if left(BOUNDS_SHARE) > 0 else None)
    best = Best(len(able))
    open_bounds: list[float] = []
    # Types of which the relaxation says nothing most often have no plan at all: they come last.

    def rank(pair: tuple[float | None, tuple[str, Part]]) -> tuple[bool, float]:
        known, (name, _) = pair
        return name not in likely, math.inf if known is None else known

    for known, (name, part) in sorted(zip(bounds, able, strict=True), key=rank):
        only, bound = part.instance, floor if known is None else max(floor, known)
        if best.objective is not None and bound >= best.objective:
            continue
        if left() <= 0:
            open_bounds.append(bound)
            continue
        plain = known is None and len(only.pools) < MANY_POOLS and not has_mixes(only)
        if plain:
            found = plain_search(only, left(), GAP, options, stop)
        else:
            found = cheapest(only, left(), GAP, options, stop, bound)
        if found.status is Status.INFEASIBLE:
            continue
        open_bounds.append(bound if found.bound is None else max(bound, found.bound))
        if found.objective is not None and (best.objective is None or found.objective < best.objective):
            whole = None if found.values is None else part.widened(found.values)
            best = replace(best, accelerator=name, objective=found.objective, found=replace(found, values=whole))
    if not open_bounds:
        return best
    lowest = min(open_bounds)
    return replace(best, bound=lowest if best.objective is None else min(lowest, best.objective))


def stays(billing: str) -> bool:
    """Whether a way to hold nodes is one that is there in any case: owned, or a running lease."""
    return billing == "owned" or lease_number(billing) is not None


def types_used(inst: Instance, values: Values) -> set[str]:
    """Types of accelerator that a plan buys or rents."""
    pools = {inst.capacities[i].pool for i, n in values.commit.items() if n and not stays(inst.capacities[i].billing)}
    pools |= {
        inst.capacities[i].pool for (i, _), n in values.hourly.items() if n and not stays(inst.capacities[i].billing)
    }
    pools |= {inst.options[q].pool for q, n in values.chosen.items() if n and not inst.options[q].pooled}
    return {inst.pools[o].accelerator for o in pools} - {NONE}


def alone(inst: Instance) -> Iterator[tuple[str, Part]]:
    """Each type of accelerator that can be had, with the part of the instance in which nothing else can."""
    had = {c.pool for c in inst.capacities if not stays(c.billing)} | {o.pool for o in inst.options if not o.pooled}
    staying = {c.pool for c in inst.capacities if stays(c.billing)}
    folded = fold(inst) if len(inst.pools) >= MANY_POOLS else None
    for name in sorted({inst.pools[o].accelerator for o in had} - {NONE}):
        mine = {o for o, pool in enumerate(inst.pools) if pool.accelerator in (name, NONE)}
        hired = [q for q, x in enumerate(inst.options) if x.pooled or x.pool in mine]
        part = restricted(inst, mine | staying, hired)
        others = {n for n, o in enumerate(part.pools) if o not in mine}
        if not others:
            if folded is not None:
                remember(part.instance, folded_part(folded, part))
            yield name, part
            continue
        ways = tuple(
            replace(c, max_nodes=0) if c.pool in others and not stays(c.billing) else c
            for c in part.instance.capacities
        )
        yield name, replace(part, instance=replace(part.instance, capacities=ways))


def serves_all(inst: Instance) -> bool:
    """Whether every job, and every size of request of every service, can be done at all."""
    held = {c.pool for c in inst.capacities if c.max_nodes}
    jobs = {x.work for x in inst.options if not x.pooled or x.pool in held}
    sizes = {(r.work, b) for r in inst.replicas if r.pool in held for b, rate in enumerate(r.rate) if rate > 0}
    return len(jobs) == len(inst.jobs) and all(
        (w, b) in sizes or not any(levels) for w, s in enumerate(inst.services) for b, levels in enumerate(s.demand)
    )


def lower_bound(inst: Instance, time_s: float) -> float | None:
    """What no plan of an instance is below, from its linear relaxation; None where that says nothing in time."""
    inst = loosened(inst) or inst
    lin = linear(inst) if has_mixes(inst) and simple(inst) else None
    if lin is not None:
        bound = relax(lin, time_s).bound
        return math.ceil(bound - 1e-6) if math.isfinite(bound) else None
    known = priced(inst, time_s)
    return None if known is None else math.ceil(known[0].bound - 1e-6)


NOT_BEGUN = Found(Status.UNKNOWN, StopReason.TIME_LIMIT, None, None, None, 0.0, None, 0, 0)


def too_many(inst: Instance, time_s: float) -> bool:
    """Whether an instance has more pools than could be priced and built in the time."""
    return len(inst.pools) >= max(LARGE_POOLS, POOLS_PER_S * time_s)


def cheapest(
    inst: Instance,
    time_s: float,
    gap: float,
    options: SolveOptions,
    stop: threading.Event | None,
    floor: float = -math.inf,
) -> Found:
    """Minimise an instance whose plan is seen only if it is better than the plan itself."""
    if too_many(inst, time_s):
        return NOT_BEGUN
    return least(inst, How(max(LEAST_S, time_s), gap, options.workers, options.seed, stop=stop, floor=floor)).found


def plain_search(
    inst: Instance, time_s: float, gap: float, options: SolveOptions, stop: threading.Event | None
) -> Found:
    """Minimise an instance by CP-SAT at once."""
    limit = max(LEAST_S, time_s)
    return run(build_model(inst), time_limit_s=limit, gap=gap, workers=options.workers, seed=options.seed, stop=stop)
