"""What a service survives in a plan: how many nodes may fail in its worst load period, and how much of the time that is enough."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from catalogs.catalog import Catalog
from problems.schema import Serve
from solver.candidates.survival import with_unavailability
from solver.features.availability import at_most_down, nodes_to_lose
from solver.scaling import Scaled
from solver.search import Values


def survived(work: Serve, service: int, scaled: Scaled, values: Values, catalog: Catalog) -> dict[str, Any]:
    """`spare_nodes` and `availability` of a service that asks for either; nothing for others.

    Nodes that carry it are counted as the model does: by like pools no more than are held, nor than its replicas stand on.
    """
    if not work.nodes_to_lose and work.availability is None:
        return {}
    inst = scaled.instance
    down = with_unavailability(scaled.pools, catalog)["unavailability"].to_list()
    sets = inst.like_pools
    lose, sure = work.nodes_to_lose, 1.0
    for p in range(len(inst.periods)):
        spanned: dict[int, int] = defaultdict(int)
        for k, r in enumerate(inst.replicas):
            if r.work == service and values.replicas[k, p]:
                spanned[r.pool] += r.nodes * values.replicas[k, p]
        nodes = sum(
            min(sum(spanned.get(o, 0) for o in pools), sum(_held(scaled, values, o, p) for o in pools))
            for pools in sets
            if not spanned.keys().isdisjoint(pools)
        )
        worst = max((down[o] for o in spanned), default=0.0)
        here = work.nodes_to_lose
        if work.availability is not None:
            here = max(here, nodes_to_lose(nodes, worst, work.availability))
        lose, sure = max(lose, here), min(sure, at_most_down(nodes, here, worst))
    return {"spare_nodes": lose, "availability": sure}


def _held(scaled: Scaled, values: Values, pool: int, period: int) -> int:
    inst = scaled.instance
    return sum(
        values.commit[i] if inst.capacities[i].commit else values.hourly[i, period] for i in inst.pool_capacities(pool)
    )
