"""Large-neighbourhood search: free a part of the best plan, hold the rest, and let CP-SAT look for something better.

Neighbourhoods, in turns: one load period (hourly nodes, replicas and loads of it), some pools (everything on them, and the
loads and replicas of all), one workload. Each only reports plans of the whole model; bounds are no business of this file.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from solver.bounding.restrict import restricted
from solver.instance import Instance
from solver.model import PlanModel, build_model
from solver.search import Values, run

EACH_S = 1.5


def improve(
    inst: Instance,
    values: Values,
    objective: int,
    pools: Sequence[int],
    *,
    step: int,
    seed: int,
    workers: int,
    left: Callable[[], float],
    over: Callable[[], bool],
    on_better: Callable[[int, Values], None],
) -> None:
    """Look for better plans until time is over or a whole round of neighbourhoods finds none.

    Parameters
    ----------
    pools
        Pools worth a look, the most promising first; those that the plan uses are always in.
    step
        Every plan costs a multiple of it.
    """
    rng = random.Random(seed)
    periods = len(inst.periods)
    idle = 0
    turn = 0
    while not over() and left() > 0 and idle < 3 * (periods + 4):
        used = _used(inst, values)
        kind = turn % 3 if periods > 1 else 1
        turn += 1
        few = sorted(set(used) | set(pools[: max(4, 12 - len(used) // 2)]))
        if kind == 1:
            few = sorted(set(used) | set(rng.sample(list(pools), min(len(pools), 12))))
        part = restricted(inst, few)
        known = part.narrowed(values)
        if known is None:
            return
        built = build_model(part.instance)
        if kind == 0:
            free_periods = {rng.randrange(periods), rng.randrange(periods)}
            _hold(built, known, lambda pool, work, p, free=free_periods: p in free, commits=False)
        elif kind == 1:
            some = set(rng.sample(range(len(few)), min(len(few), 4 + len(few) // 3)))
            _hold(built, known, lambda pool, work, p, some=some: pool in some, commits=True)
        else:
            works = {rng.randrange(len(inst.services)), rng.randrange(len(inst.services))}
            _hold(built, known, lambda pool, work, p, works=works: work in works, commits=True)
        built.model.add(built.objective <= objective - step)
        found = run(
            built,
            time_limit_s=min(EACH_S, left()),
            gap=0.0,
            workers=workers,
            seed=rng.randrange(1 << 30),
            patience=1.0,
        )
        if found.values is not None and found.objective is not None and found.objective < objective:
            objective, values = found.objective, part.widened(found.values)
            on_better(objective, values)
            idle = 0
        else:
            idle += 1


def _used(inst: Instance, values: Values) -> list[int]:
    """Pools that the plan holds or hires nodes of."""
    used = {inst.capacities[i].pool for i, n in values.commit.items() if n}
    used |= {inst.capacities[i].pool for (i, _), n in values.hourly.items() if n}
    used |= {inst.options[q].pool for q, n in values.chosen.items() if n}
    return sorted(used)


def _hold(built: PlanModel, known: Values, free: Callable[..., bool], *, commits: bool) -> None:
    """Fix replicas that are not free to the plan's, and hint all; nodes stay free where the neighbourhood says so."""
    inst, var, model = built.context.instance, built.context.variables, built.model
    for i, c in var.commit.items():
        model.add_hint(c, known.commit[i])
        if not commits:
            model.add(c == known.commit[i])
    for (i, p), e in var.hourly.items():
        model.add_hint(e, known.hourly[i, p])
    for (k, p), r in var.replicas.items():
        model.add_hint(r, known.replicas[k, p])
        replica = inst.replicas[k]
        if not free(replica.pool, replica.work, p):
            model.add(r == known.replicas[k, p])
    for key, f in var.load.items():
        model.add_hint(f, known.load[key])
    for q, x in var.chosen.items():
        model.add_hint(x, known.chosen[q])
    for g, n in var.gear.items():
        model.add_hint(n, known.gear[g])
