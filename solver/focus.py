"""Search on few pools first, then on all that a better plan could use, where most of many pools cannot pay.

1. The linear relaxation of the whole model gives a bound, and for every pool the least that a node of it costs beyond the bound.
2. CP-SAT searches the pools that the relaxation uses and those nearest to paying: any plan of theirs is a plan.
3. Pools and options that cost more than that plan leaves are out for good; CP-SAT searches the rest, with hint and bound.

What is left out would make a plan dearer than one that is known, so bounds and optima are those of the whole instance, and so is
the set of all optimal plans. The pools left out are no less candidates for other questions (limits lifted, ties at a higher cost).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from solver.bounding.beyond import Extra, beyond
from solver.bounding.restrict import Part, restricted
from solver.hints import give_whole_hint
from solver.instance import Instance
from solver.model import build_model
from solver.plan import Status, StopReason
from solver.search import PATIENCE, Found, relative_gap, run
from solver.search_state import How

FEW_POOLS = 40
MANY_POOLS = 80
"""With fewer pools than that the model is small as it is."""
RELAX_SHARE = 0.15
FIRST_SHARE = 0.3
"""Shares of the time limit that the relaxation and the search on few pools may take."""
FIRST_GAP, FIRST_PATIENCE = 0.002, 0.05
"""The search on few pools stops at this gap, after this share of its time: what it finds is no more than a start."""


@dataclass(frozen=True)
class Focused:
    """What was found, the part of the instance in which every plan as good as it lies, and what pools cost beyond its bound."""

    found: Found
    part: Part | None = None
    extra: Extra | None = None


def focused(inst: Instance, how: How) -> Focused | None:
    """Minimise an instance of many pools; None where there are few, or where the relaxation says nothing in time."""
    if len(inst.pools) < MANY_POOLS or inst.wishes:
        return None
    started = time.monotonic()

    def left() -> float:
        return max(0.1, how.time_limit_s - (time.monotonic() - started))

    whole = build_model(inst)
    extra = beyond(whole, RELAX_SHARE * how.time_limit_s)
    if extra is None:
        return None
    bound = math.ceil(max(extra.bound, how.floor) - 1e-6)
    how.on_progress(None, bound)
    best: Found | None = None
    few = restricted(inst, _nearest(extra, FEW_POOLS))
    start = replace(how, time_limit_s=FIRST_SHARE * how.time_limit_s, gap=max(how.gap, FIRST_GAP))
    first = _search(few, bound, None, start, left, FIRST_PATIENCE)
    if first.values is not None and first.objective is not None:
        best = replace(first, values=few.widened(first.values))
    room = math.inf if best is None or best.objective is None else best.objective - extra.bound
    pools = np.flatnonzero(extra.pools <= room).tolist()
    part = restricted(inst, pools, np.flatnonzero(extra.options <= room).tolist())
    covered = set(part.pools) <= set(few.pools) and set(part.options) <= set(few.options)
    if best is not None and (covered and first.status is Status.OPTIMAL):
        return Focused(replace(best, wall_s=time.monotonic() - started), part, extra)
    found = _search(part, bound, best, replace(how, time_limit_s=left()), left, None)
    return Focused(_joined(found, best, part, bound, time.monotonic() - started), part, extra)


def _nearest(extra: Extra, count: int) -> list[int]:
    """Pools that the relaxation uses, and those that cost least beyond it."""
    order = np.argsort(extra.pools, kind="stable")[:count].tolist()
    return sorted({*extra.used, *order})


def _search(
    part: Part, bound: int, best: Found | None, how: How, left: Callable[[], float], patience: float | None
) -> Found:
    """CP-SAT on a part of the instance, which has no plan below `bound`, starting from a plan that is known."""
    built = build_model(part.instance)
    built.model.add(built.objective >= bound)
    if best is not None and best.values is not None:
        known = part.narrowed(best.values)
        if known is not None:
            give_whole_hint(built, known)

    def progress(value: float | None, low: float | None) -> None:
        # A bound of the first search is one of few pools only.
        how.on_progress(value, bound if patience is not None or low is None else max(low, bound))

    return run(
        built,
        time_limit_s=min(how.time_limit_s, left()),
        gap=how.gap,
        workers=how.workers,
        seed=how.seed,
        log=how.log,
        stop=how.stop,
        on_progress=progress,
        patience=PATIENCE if patience is None else patience,
        known_bound=bound,
    )


def _joined(found: Found, best: Found | None, part: Part, bound: int, wall_s: float) -> Found:
    """Outcome for the whole instance: the better plan, and a bound that minds the plans that were left out."""
    if found.values is not None:
        found = replace(found, values=part.widened(found.values))
    if best is None or best.objective is None:
        return replace(found, wall_s=wall_s)
    if found.objective is None or best.objective < found.objective:
        # Plans that were left out cost more than the best, and what was searched has none below its bound.
        proved = found.status is Status.INFEASIBLE
        low = float(best.objective) if proved else max(float(bound), found.bound or -math.inf)
        found = replace(
            found,
            status=Status.OPTIMAL if proved else Status.FEASIBLE,
            objective=best.objective,
            bound=min(low, float(best.objective)),
            values=best.values,
        )
    gap = relative_gap(found.objective, found.bound)
    why = found.stop_reason
    if found.status is Status.FEASIBLE and gap == 0.0:
        found, why = replace(found, status=Status.OPTIMAL), StopReason.PROVED
    return replace(found, stop_reason=why, first_s=best.first_s, wall_s=wall_s)
