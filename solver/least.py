"""The cheapest plan of an instance by the search that suits it (docs/solving.md): the plan itself, and all that it is held against."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace

from solver.blend import blended, has_mixes, hint, remixed, unmixed
from solver.bounding.beyond import Extra
from solver.bounding.restrict import Part, restricted
from solver.focus import focused
from solver.instance import Instance
from solver.loosened import loosened, pools_of
from solver.model import build_model
from solver.plan import Status, StopReason
from solver.search import PATIENCE, Found, relative_gap, run
from solver.search_state import How
from solver.staged import staged

BLEND_SHARE = 0.25
"""Share of the time limit that the search for a first plan with blended rates may take."""
LOOSE_SHARE = 0.5
"""Share of the time limit that the search of a loosened instance may take."""
LEAST_S = 1.0
"""Time for CP-SAT, whatever is left [s]."""


@dataclass(frozen=True)
class Looked:
    """What a search found; where they are known the part in which every plan as good lies, and what pools cost beyond the bound."""

    found: Found
    part: Part | None = None
    extra: Extra | None = None
    unlimited: bool = False
    """No plan is better without any limit either."""


def least(inst: Instance, how: How, patience: float = PATIENCE, *, slack_first: bool = False) -> Looked:
    """Minimise an instance.

    Parameters
    ----------
    patience
        Of CP-SAT, where it searches the whole at once (see `solver.search.run`).
    slack_first
        Whether limits bind will be asked next (see `solver.focus.focused`).
    """
    loose = loosened(inst)
    if loose is None:
        return _searched(inst, how, patience, slack_first)
    return _of_all_menus(inst, loose, how, patience, slack_first)


def _of_all_menus(inst: Instance, loose: Instance, how: How, patience: float, slack_first: bool) -> Looked:
    """Minimise an instance whose menus were cut down, with a bound for the whole ones.

    The loosened instance is searched first. Where the pools that its plan uses have a plan as good with the types that there are,
    that is the best; else all are searched, and what the loosened instance has for less stays the bound.
    """
    started = time.monotonic()

    def left() -> float:
        return max(LEAST_S, how.time_limit_s - (time.monotonic() - started))

    def bounds_only(_: float | None, bound: float | None) -> None:
        how.on_progress(None, bound)

    first = replace(how, time_limit_s=LOOSE_SHARE * how.time_limit_s, on_progress=bounds_only)
    wide = _searched(loose, first, patience, slack_first)
    if wide.found.status is Status.INFEASIBLE:
        return wide
    low = -math.inf if wide.found.bound is None else wide.found.bound
    part = None if wide.part is None else restricted(inst, wide.part.pools, wide.part.options)
    best: Found | None = None
    if wide.found.values is not None:
        near = restricted(inst, pools_of(inst, wide.found.values))
        inside = replace(how, time_limit_s=left(), floor=max(low, how.floor))
        found = _searched(near.instance, inside, patience, False).found
        if found.values is not None:
            best = bounded(replace(found, values=near.widened(found.values)), low, how.gap)
            late = time.monotonic() - started >= PATIENCE * how.time_limit_s
            if best.status is Status.OPTIMAL or (late and best.gap is not None and best.gap <= how.gap):
                # What beats it with no limit at all would beat it with any menu too.
                return Looked(replace(best, wall_s=time.monotonic() - started), part, wide.extra, wide.unlimited)
    if how.time_limit_s <= time.monotonic() - started:
        none = replace(
            wide.found, status=Status.UNKNOWN, stop_reason=StopReason.TIME_LIMIT, objective=None, values=None
        )
        return Looked(best or none, part, wide.extra)
    rest = _searched(inst, replace(how, time_limit_s=left(), floor=max(low, how.floor)), patience, False)
    found = rest.found
    if best is not None and (found.objective is None or (best.objective or 0) < found.objective):
        found = best
    return Looked(replace(bounded(found, low, how.gap), wall_s=time.monotonic() - started), rest.part, rest.extra)


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


def _searched(inst: Instance, how: How, patience: float, slack_first: bool) -> Looked:
    """Minimise an instance as it stands."""
    started = time.monotonic()
    plain = unmixed(inst)
    looked = _least(plain, how, patience, slack_first)
    if plain is inst or looked.found.values is None:
        return looked
    values = remixed(inst, looked.found.values)
    if values is None:
        left = how.time_limit_s - (time.monotonic() - started)
        return _least(inst, replace(how, time_limit_s=max(LEAST_S, left)), patience, slack_first)
    part = None if looked.part is None else restricted(inst, looked.part.pools, looked.part.options)
    return Looked(replace(looked.found, values=values), part, looked.extra, looked.unlimited)


def _least(inst: Instance, how: How, patience: float, slack_first: bool) -> Looked:
    if not inst.wishes:
        in_stages = staged(inst, how) if has_mixes(inst) else None
        if in_stages is not None:
            return Looked(in_stages)
        in_focus = focused(inst, how, slack_first=slack_first)
        if in_focus is not None:
            return Looked(in_focus.found, in_focus.part, in_focus.extra, in_focus.unlimited)
    built = build_model(inst)
    spent = 0.0
    if has_mixes(inst):
        first = run(
            build_model(blended(inst)),
            time_limit_s=BLEND_SHARE * how.time_limit_s,
            gap=0.01,
            workers=how.workers,
            seed=how.seed,
            stop=how.stop,
            patience=0.2,
        )
        spent = first.wall_s
        if first.values is not None:
            hint(built, first.values)
    found = run(
        built,
        time_limit_s=max(LEAST_S, how.time_limit_s - spent),
        gap=how.gap,
        workers=how.workers,
        seed=how.seed,
        log=how.log,
        stop=how.stop,
        # What is told is the problem's objective; the value of a priority is not.
        on_progress=how.on_progress if inst.goal is None else None,
        patience=patience,
        known_bound=how.floor if math.isfinite(how.floor) else None,
    )
    return Looked(found)
