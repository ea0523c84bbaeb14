"""How much a plan owes to mixing billing modes and types of accelerator, and to sharing machines over time.

Every billing mode is asked to serve everything alone (what is owned or leased stays), and a plan whose jobs run in hours that others
leave free is held against the same problem in which every job on held machines has them all month, or hires its own.
"""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass, replace
from decimal import Decimal

from catalogs.catalog import Catalog
from solver.bounding.beyond import MANY_POOLS
from solver.bounding.fold import fold, remember
from solver.candidates import Candidates
from solver.candidates.leases import ON_DEMAND, TERM
from solver.cheaper import Cheaper
from solver.events import SolveOptions
from solver.focus import refitted
from solver.instance import Instance
from solver.plan import Alone, Result, SingleType, Status
from solver.scaling import Scaled, scale
from solver.search import Found, Values
from solver.search_state import How
from solver.single_modes import each_alone, modes_of
from solver.single_type import NOT_BEGUN, cheapest, single_type, too_many, types_used

EACH_S = 3.0
"""Most that the search for one alternative may take [s]."""
TYPES_S = 5.0
"""Most that the search for the best single type of accelerator may take [s]."""
GAP = 0.001
"""Gap at which an alternative counts as found; what is stated of it is its bound."""


@dataclass(frozen=True)
class Comparison:
    """What the plan is held against: each billing mode alone (cheapest first), one type of accelerator, no machine shared over time."""

    single_modes: tuple[Alone, ...] = ()
    unshared: Alone | None = None
    single_type: SingleType | None = None

    def stated(self) -> dict[str, object]:
        """Fields of the result."""
        return {"single_modes": self.single_modes, "unshared": self.unshared, "single_type": self.single_type}


def compared(
    found: Candidates,
    catalog: Catalog,
    small: Candidates,
    scaled: Scaled,
    values: Values,
    result: Result,
    time_limit: float,
    options: SolveOptions,
    stop: threading.Event | None,
    floor: float = -math.inf,
    cheaper: Cheaper | None = None,
) -> Comparison:
    """Solve the alternatives of a plan of least cost, in a share of the time each; nothing where it has none.

    `small`, `scaled` : the reduced candidates that the plan was chosen from, and their integers. `floor` : what no plan costs less
    than [cents]. `cheaper` : told of the plans that are found.
    """
    cheaper = Cheaper(-math.inf) if cheaper is None else cheaper
    if result.objective_name != "cost" or result.objective is None:
        return Comparison()
    modes = modes_of(found)
    mixed = len(used_modes(result)) > 1 and len(modes) > 1
    shares = shares_time(scaled.instance, values)
    deadline = time.monotonic() + time_limit

    def stopped() -> bool:
        return stop is not None and stop.is_set()

    of_one_type = None
    used = types_used(scaled.instance, values)
    if len(used) > 1 and not stopped():
        # Half of the time where something else is asked as well.
        limit = min(TYPES_S, time_limit / 2 if mixed or shares else time_limit)
        of_one_type = single_type(found, catalog, result, limit, options, stop, used, (small, scaled), cheaper)
    out: list[Alone] = []
    left = deadline - time.monotonic()
    for mode, only, share in each_alone(found, modes if mixed else (), left, stop, later=int(shares)):
        if only.unserved:
            because = f"cannot serve {', '.join(only.unserved)}"
            out.append(Alone(billing=mode, total=None, bound=None, saving=None, proved=True, because=because))
            continue
        integers = scale(only, catalog)
        search = cheapest(integers.instance, min(EACH_S, share), GAP, options, stop, floor)
        cheaper.offer(only, integers, search)
        out.append(_alone(mode, search, result))
    unshared = None
    if shares and not stopped():
        share = min(EACH_S, deadline - time.monotonic())
        search = NOT_BEGUN
        if not too_many(scaled.instance, share):
            apart = without_sharing(scaled.instance)
            families = fold(scaled.instance) if len(apart.pools) >= MANY_POOLS else None
            if families is not None:
                remember(apart, replace(families, instance=without_sharing(families.instance)))
            search = cheapest(apart, share, GAP, options, stop, floor)
        if search.objective is not None and search.objective < cheaper.objective:
            # Its jobs have their machines all month: they have yet to be given their hours.
            how = How(EACH_S, GAP, options.workers, options.seed, stop=stop)
            placed = refitted(scaled.instance, how, search)
            cheaper.offer(small, scaled, replace(search, values=placed))
        unshared = _alone("unshared", search, result)
    return Comparison(
        tuple(sorted(out, key=lambda a: (a.total is None, a.total or 0, a.billing))), unshared, of_one_type
    )


def used_modes(result: Result) -> set[str]:
    """Billing modes of a plan's machines, what is owned or leased already aside."""
    machines = [i.billing for i in result.items if i.kind in ("rental", "server") and i.gear is None]
    return {billing.split(" ")[0] for billing in machines if not billing.startswith((TERM, ON_DEMAND))} - {"owned"}


def shares_time(inst: Instance, values: Values) -> bool:
    """Whether a job runs in hours of the week on machines that are held."""
    return any(o.pooled and o.slots and values.chosen[q] for q, o in enumerate(inst.options))


def without_sharing(inst: Instance) -> Instance:
    """The same problem with every job that runs on held machines taking them all month."""
    return replace(inst, options=tuple(replace(o, slots=0) if o.pooled and o.slots else o for o in inst.options))


def _alone(name: str, search: Found, result: Result) -> Alone:
    """An alternative with what the plan saves against it: of its bound, so that the figure holds whatever was left open."""
    if search.objective is None or search.bound is None:
        proved = search.status is Status.INFEASIBLE
        because = "cannot meet the limits" if proved else "not found in its share of the time"
        return Alone(billing=name, total=None, bound=None, saving=None, proved=proved, because=because)
    bound, own = search.bound / 100, result.objective or 0.0
    return Alone(
        billing=name,
        total=Decimal(search.objective) / 100,
        bound=round(bound, 2),
        saving=0.0 if bound <= own else round(1 - own / bound, 6),
        proved=(search.gap or 0.0) <= GAP,
    )
