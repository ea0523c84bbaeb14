"""Which limits bind: those whose removal alone makes a better plan possible, found by solving again without them.

Better is more value of a priority at as much of those before it, where workloads are weighed, and else the objective."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from solver.bounding.fold import fold, remember
from solver.events import SolveOptions
from solver.focus import at_most
from solver.instance import Instance
from solver.limits import limits_of, without_limits
from solver.loosened import any_of_all_menus
from solver.model import build_model
from solver.plan import Status
from solver.search import Found, run
from solver.search_state import How

MANY_POOLS = 200
"""From so many pools on, those that no better plan can use are looked for first."""


def _without(field: str, site_names: list[str], instance: Instance) -> Instance:
    return limits_of(instance, site_names)[field]


def binding_limits(
    instance: Instance,
    site_names: list[str],
    found: Found,
    options: SolveOptions,
    stop: threading.Event | None,
    time_limit_s: float,
    *,
    unlimited: bool = False,
) -> dict[str, bool]:
    """Field path -> does the limit bind. Limits that could not be judged in time are left out.

    Only a proved plan is judged. One search without any limit comes first: if nothing is gained, nothing binds.

    Parameters
    ----------
    unlimited
        The plan is known to be the best without any limit too.
    """
    fields = limits_of(instance, site_names)
    if found.status is not Status.OPTIMAL or found.objective is None or not fields:
        return {}
    if unlimited:
        return dict.fromkeys(fields, False)
    started = time.monotonic()
    families = fold(instance) if len(instance.pools) >= MANY_POOLS and not instance.wishes else None

    def better(free: Instance, lift: Callable[[Instance], Instance]) -> bool | None:
        """Whether the instance without a limit has a better plan; `lift` takes the same limit off another one."""
        if families is not None:
            remember(free, replace(families, instance=lift(families.instance)))
        return any_of_all_menus(free, improved)

    def improved(free: Instance) -> bool | None:
        left = time_limit_s - (time.monotonic() - started)
        if left <= 0.05 or (stop is not None and stop.is_set()):
            return None
        assert found.objective is not None
        for level in range(len(free.floors)):
            more = run(
                build_model(replace(free, floors=free.floors[: level + 1], goal=level)),
                time_limit_s=left,
                gap=0.0,
                workers=options.workers,
                seed=options.seed,
                stop=stop,
            )
            if more.objective is not None and -more.objective > free.floors[level]:
                return True
            if more.status is not Status.OPTIMAL:
                return None
        # The first plan that is better will do.
        if len(free.pools) >= MANY_POOLS and not free.wishes and found.values is not None:
            how = How(left, 1.0, options.workers, options.seed, stop=stop)
            some = at_most(free, found.objective - 1, found.values, how)
            if some is not None:
                return True if some.values is not None else False if some.status is Status.INFEASIBLE else None
        built = build_model(free)
        built.model.add(built.objective <= found.objective - 1)
        again = run(
            built,
            time_limit_s=max(0.05, time_limit_s - (time.monotonic() - started)),
            gap=1.0,
            workers=options.workers,
            seed=options.seed,
            stop=stop,
            patience=0.0,
        )
        if again.values is not None:
            return True
        return False if again.status is Status.INFEASIBLE else None

    if better(without_limits(instance), without_limits) is False:
        return dict.fromkeys(fields, False)
    judged = {field: better(free, partial(_without, field, site_names)) for field, free in fields.items()}
    return {field: verdict for field, verdict in judged.items() if verdict is not None}
