"""Counts to start from: the relaxation's replicas rounded up, less those that nothing needs, on the cheapest nodes for them."""

from __future__ import annotations

import numpy as np

from solver.bounding.linear import Floats, Linear
from solver.counts.cover import Cover

Counts = dict[tuple[int, int], int]


def trimmed(lin: Linear, cover: Cover, load: Floats) -> Counts:
    """Replicas by kind and period that carry all demands, none of which could be left out.

    Those that the relaxation uses least for their price go first.

    Parameters
    ----------
    load : (columns,)
        Loads of the relaxation [replicas].
    """
    inst = lin.instance
    busy = np.zeros((len(inst.replicas), len(inst.periods)))
    np.add.at(busy, (lin.load_kind, lin.load_period), load)
    price = _gpu_price(lin)
    out: Counts = {}
    for w in cover.works:
        kinds = cover.kinds[w]
        for p in range(len(inst.periods)):
            counts = {int(k): int(np.ceil(busy[k, p] - 1e-6)) for k in kinds if busy[k, p] > 1e-6}
            if cover.break_of(w, p, counts) is not None:
                # Rounding of the relaxation itself; one replica more of each does.
                counts = {k: n + 1 for k, n in counts.items()}
            idle = sorted(
                (k for k, n in counts.items() for _ in range(n)),
                key=lambda k: (
                    (busy[k, p] - np.floor(busy[k, p] - 1e-6)) / (price[inst.replicas[k].pool] * inst.replicas[k].gpus)
                ),
            )
            for k in idle:
                fewer = {**counts, k: counts[k] - 1}
                if cover.break_of(w, p, fewer) is None:
                    counts = fewer
            out.update({(k, p): n for k, n in counts.items() if n})
    for w, service in enumerate(inst.services):
        if len(service.demand) == 1:
            for k in cover.kinds[w].tolist():
                out.update({(k, p): int(np.ceil(n - 1e-6)) for p, n in enumerate(busy[k]) if n > 1e-6})
    return out


def _gpu_price(lin: Linear) -> Floats:
    """Least that a GPU of each pool costs for a period, on average [objective]."""
    gpus = np.array([p.gpus for p in lin.instance.pools], float)
    spread = lin.hold_cost / np.maximum(lin.hold_active.sum(axis=1), 1)
    least = np.full(lin.pools, np.inf)
    np.minimum.at(least, lin.hold_pool, spread)
    return np.asarray(least / gpus, float)


def held_for(lin: Linear, counts: Counts) -> Floats:
    """Nodes of every column of `lin` for given replicas, pool by pool: commitments as far as they beat hiring by the hour."""
    inst = lin.instance
    periods = len(inst.periods)
    gpus = np.zeros((lin.pools, periods))
    for (k, p), n in counts.items():
        gpus[inst.replicas[k].pool, p] += inst.replicas[k].gpus * n
    need = np.ceil(gpus / np.array([[p.gpus] for p in inst.pools], float) - 1e-9)
    hold = np.zeros(len(lin.hold_way))
    for o in np.flatnonzero(need.any(axis=1)).tolist():
        mine = np.flatnonzero(lin.hold_pool == o)
        hourly, commits = mine[lin.hold_period[mine] >= 0], mine[lin.hold_period[mine] < 0]
        cheapest = np.full(periods, np.inf)
        which = np.full(periods, -1)
        for h in hourly.tolist():
            p = int(lin.hold_period[h])
            if lin.hold_cost[h] < cheapest[p]:
                cheapest[p], which[p] = lin.hold_cost[h], h
        left = need[o].copy()
        while left.any():
            # One node more of the commitment that saves most; a period that cannot be hired asks for it at any price.
            saved = [
                (np.where(left > 0, cheapest, 0.0)[lin.hold_active[h]].sum() - lin.hold_cost[h], -h)
                for h in commits.tolist()
                if hold[h] < lin.hold_upper[h]
            ]
            best = max(saved, default=(0.0, 0))
            if best[0] <= 0:
                break
            hold[-best[1]] += 1
            left = np.maximum(0.0, left - lin.hold_active[-best[1]])
        for p in np.flatnonzero(left > 0).tolist():
            if which[p] >= 0:
                hold[which[p]] += left[p]
    return hold
