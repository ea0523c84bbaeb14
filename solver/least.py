"""The cheapest plan of an instance by the search that suits it (docs/solving.md): the plan itself, and all that it is held against."""

from __future__ import annotations

import math
import time
from dataclasses import replace

from solver.blend import blended, has_mixes, hint, remixed, unmixed
from solver.bounding.restrict import restricted
from solver.focus import focused
from solver.instance import Instance
from solver.loosened import Looked, is_cut, of_all_menus
from solver.model import build_model
from solver.plan import Status
from solver.search import PATIENCE, Found, run
from solver.search_state import How
from solver.staged import staged

BLEND_SHARE = 0.25
"""Share of the time limit that the search for a first plan with blended rates may take."""
LOOSE_SHARE = 0.5
"""Share of the time limit that the search of a loosened instance may take."""
LEAST_S = 1.0
"""Time for CP-SAT, whatever is left [s]."""


def least(inst: Instance, how: How, patience: float = PATIENCE, *, slack_first: bool = False) -> Looked:
    """Minimise an instance.

    Parameters
    ----------
    patience
        Of CP-SAT, where it searches the whole at once (see `solver.search.run`).
    slack_first
        Whether limits bind will be asked next (see `solver.focus.focused`).
    """
    if not is_cut(inst):
        return _searched(inst, how, patience, slack_first)
    started = time.monotonic()

    def first(loose: Instance) -> Looked:
        part = replace(how, time_limit_s=LOOSE_SHARE * how.time_limit_s, on_progress=bounds_only)
        return _searched(loose, part, patience, slack_first)

    def bounds_only(_: float | None, bound: float | None) -> None:
        how.on_progress(None, bound)

    def search(some: Instance, low: float) -> Looked:
        left = max(LEAST_S, how.time_limit_s - (time.monotonic() - started))
        return _searched(some, replace(how, time_limit_s=left, floor=max(low, how.floor)), patience, False)

    def enough(best: Found) -> bool:
        spent = time.monotonic() - started
        if best.status is Status.OPTIMAL or spent >= how.time_limit_s:
            return True
        return spent >= PATIENCE * how.time_limit_s and best.gap is not None and best.gap <= how.gap

    looked = of_all_menus(inst, search, how.gap, first, enough)
    return replace(looked, found=replace(looked.found, wall_s=time.monotonic() - started))


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
