"""Plans for node counts that a search proposes: the exact model makes them, or says that there is none."""

from __future__ import annotations

import numpy as np

from solver.bounding.branch import Counts
from solver.bounding.linear import Floats, Linear
from solver.bounding.restrict import Part, restricted
from solver.bounding.route import balanced
from solver.fixed_values import filled, objective_of
from solver.model import build_model
from solver.search import Found, Values, run
from solver.search_state import State, likely_pools

PROPOSAL_S = 2.0


def plan_of(state: State, lin: Linear, hold: Floats, counts: Counts) -> float | None:
    """Value of the plan that the model makes of given node counts; None where it finds none.

    The replica counts proposed are tried first; then the nodes alone are given.
    """
    at_once = _at_once(state, lin, hold, counts)
    if at_once is not None:
        return at_once
    for replicas in (counts, {}) if counts else ({},):
        found, part = _fixed(state, lin, hold, replicas)
        if found.values is not None and found.objective is not None:
            state.take(found.objective, part.widened(found.values))
            return float(found.objective)
    return None


def _at_once(state: State, lin: Linear, hold: Floats, counts: Counts) -> float | None:
    """Value of the plan with exactly these nodes and replicas and nothing else, where it is one."""
    inst = state.inst
    loads = balanced(inst, counts) if counts and not inst.gear and not inst.options else {}
    if not loads:
        return None
    part = restricted(inst, np.unique(lin.hold_pool[hold > 0.5]).tolist())
    way, kind = ({j: i for i, j in enumerate(x)} for x in (part.capacities, part.replicas))
    if any(k not in kind for k, _ in counts):
        return None
    held = [(int(lin.hold_way[h]), int(lin.hold_period[h]), round(hold[h])) for h in np.flatnonzero(hold > 0.5)]
    values = Values(
        commit={way[i]: n for i, p, n in held if p < 0},
        hourly={(way[i], p): n for i, p, n in held if p >= 0},
        replicas={(kind[k], p): n for (k, p), n in counts.items()},
        load={(kind[k], b, p): n for (k, b, p), n in loads.items()},
        chosen={},
    )
    built = build_model(part.instance)
    objective = objective_of(built, values)
    if objective is not None:
        state.take(objective, part.widened(filled(built, values)))
    return objective


def _fixed(state: State, lin: Linear, hold: Floats, counts: Counts) -> tuple[Found, Part]:
    inst = state.inst
    part = restricted(inst, np.unique(lin.hold_pool[hold > 0.5]).tolist() + likely_pools(state))
    built = build_model(part.instance)
    number = {j: i for i, j in enumerate(part.capacities)}
    kinds = {j: i for i, j in enumerate(part.replicas)}
    var = built.context.variables
    # Jobs on held nodes may need more of them than were proposed for the replicas.
    open_to_jobs = {o.pool for o in inst.options if o.pooled}
    for h, count in enumerate(hold.tolist()):
        i = int(lin.hold_way[h])
        if i in number:
            at = int(lin.hold_period[h])
            held = var.commit[number[i]] if at < 0 else var.hourly[number[i], at]
            if inst.capacities[i].pool in open_to_jobs:
                built.model.add(held >= round(count))
            else:
                built.model.add(held == round(count))
    replicas = _replicas(state, lin, hold, counts)
    loads = balanced(inst, replicas)
    for (k, p), n in replicas.items():
        if k in kinds:
            built.model.add_hint(var.replicas[kinds[k], p], n)
            if (k, p) in counts:
                built.model.add(var.replicas[kinds[k], p] == n)
    for (k, b, p), load in var.load.items():
        built.model.add_hint(load, loads.get((part.replicas[k], b, p), 0))
    found = run(
        built,
        time_limit_s=min(PROPOSAL_S, max(0.05, state.left())),
        gap=0.0,
        workers=1,
        seed=state.how.seed,
        stop=state.how.stop,
    )
    return found, part


def _replicas(state: State, lin: Linear, hold: Floats, counts: Counts) -> Counts:
    """Replicas on given nodes: as counted, or as many as the nodes hold where a pool has one kind that fills a node."""
    inst = state.inst
    nodes: dict[tuple[int, int], int] = {}
    for h in np.flatnonzero(hold > 0.5).tolist():
        for p in np.flatnonzero(lin.hold_active[h]).tolist():
            key = int(lin.hold_pool[h]), p
            nodes[key] = nodes.get(key, 0) + round(float(hold[h]))
    out = dict(counts)
    for k, r in enumerate(inst.replicas):
        if r.gpus == inst.pools[r.pool].gpus:
            for p in range(len(inst.periods)):
                if (k, p) not in out and nodes.get((r.pool, p), 0):
                    out[k, p] = min(r.max_count, nodes[r.pool, p])
    return out
