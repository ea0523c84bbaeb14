"""Pools that no other pool stands in for: an exact reduction of whole instances, before they are relaxed or searched.

Pool A stands in for pool B where m = G_B / G_A nodes of A in place of every node of B cost no more in any way of holding them,
and carry whatever B's carried. It is asked only of instances in which nothing but demand and money speaks of pools
(`speaks_of_money`); there any plan with nodes of B has an equal or better one without. Of pools that stand in for each other the
first stays, and since "stands in for" is transitive, some pool that stays stands in for every one that goes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from solver.instance import Instance

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
MOST_PAIRS = 20_000
MOST_POOLS = 2_000
"""Pairs, and pools of many, that are compared at a time."""


def speaks_of_money(inst: Instance) -> bool:
    """True where pools matter by what their nodes cost and carry, and in no other way."""
    limits = (inst.limit_power_w, inst.limit_capex, inst.limit_monthly, inst.limit_total)
    beside = inst.gear or inst.rows or inst.options or inst.jobs or inst.wishes or inst.runs or inst.quotas
    losses = any(s.redundant or s.groups or s.ladders for s in inst.services)
    return not (beside or losses or inst.sites or any(x is not None for x in limits)) and inst.objective == "cost"


def unbeaten(inst: Instance) -> Ints:
    """Numbers of the pools that stay; all of them where the instance speaks of more than money."""
    everything = np.arange(len(inst.pools))
    if not speaks_of_money(inst) or len(inst.pools) < 2:
        return everything
    table = _Table(inst)
    # Most pools are the same node at another price: those go first, so that few are left to be compared with one another.
    stay = [group[~_lost(table, group, group, len(group), everywhere=True)] for group in table.alike()]
    left = np.sort(np.concatenate(stay))
    lost = np.zeros(len(left), bool)
    for mine in np.unique(table.gpus[left]).tolist():
        for other in np.unique(table.gpus[left]).tolist():
            if other % mine == 0:
                ours, theirs = (np.flatnonzero(table.gpus[left] == g) for g in (mine, other))
                lost[theirs] |= _lost(table, left[ours], left[theirs], MOST_POOLS)
    return np.asarray(left[~lost], np.int64)


def _lost(table: _Table, mine: Ints, other: Ints, at_once: int, *, everywhere: bool = False) -> NDArray[np.bool_]:
    """Which pools of `other` some pool of `mine` stands in for; `everywhere`: they carry the same."""
    lost = np.zeros(len(other), bool)
    for part in np.array_split(np.arange(len(other)), max(1, len(other) // max(1, at_once))):
        a, b = _pairs(table, mine, other[part])
        if not everywhere and len(a):
            chunks = np.array_split(np.arange(len(a)), max(1, len(a) // MOST_PAIRS))
            able = np.concatenate([_able(table, a[c], b[c]) for c in chunks])
            a, b = a[able], b[able]
        if not len(a):
            continue
        # Of pools that stand in for each other the first stays.
        same = table.gpus[a] == table.gpus[b]
        tied = same & table.as_cheap(b, a)
        if not everywhere and tied.any():
            at = np.flatnonzero(tied)
            tied[at] = _able(table, b[at], a[at])
        lost[np.isin(other, b[~tied | (a < b)])] = True
    return lost


class _Table:
    """What pools cost and carry, in arrays over pools."""

    def __init__(self, inst: Instance) -> None:
        periods, pools, works = len(inst.periods), len(inst.pools), len(inst.services)
        self.gpus = np.array([p.gpus for p in inst.pools], np.int64)
        self.spot = np.array([p.spot for p in inst.pools], bool)
        self.free = np.array([p.node_limit is None for p in inst.pools], bool)
        spans = sorted({c.active for c in inst.capacities if c.commit} | {()})
        self.active = np.array([s or (True,) * periods for s in spans], bool)
        self.hourly = np.full((pools, periods), np.inf)
        self.commit = np.full((pools, len(spans)), np.inf)
        top = np.full(pools, np.inf)
        for c in inst.capacities:
            top[c.pool] = min(top[c.pool], c.max_nodes)
            if c.commit:
                at = spans.index(c.active)
                self.commit[c.pool, at] = min(self.commit[c.pool, at], c.cost[0])
            else:
                self.hourly[c.pool] = np.minimum(self.hourly[c.pool], c.cost)
        # A commitment serves where a shorter one would, and hiring by the hour where either would.
        own = self.commit.copy()
        for s, span in enumerate(self.active):
            wider = (self.active >= span).all(axis=1)
            self.commit[:, s] = np.minimum(own[:, wider].min(axis=1), self.hourly[:, span].sum(axis=1))
        self.asked = own
        kinds: dict[tuple[int, int], list[int]] = {}
        for k, r in enumerate(inst.replicas):
            kinds.setdefault((r.pool, r.work), []).append(k)
        depth = max((len(x) for x in kinds.values()), default=1)
        sizes = max((len(s.demand) for s in inst.services), default=1)
        self.size = np.zeros((pools, works, depth), np.int64)  # GPUs of a kind; 0: no kind
        self.rate = np.zeros((pools, works, depth, sizes))
        self.cost = np.full((pools, works, depth, periods), np.inf)
        enough = np.zeros(pools)
        for (o, w), some in kinds.items():
            for d, k in enumerate(some):
                r = inst.replicas[k]
                self.size[o, w, d] = r.gpus
                # The model counts several sizes in tens, see `solver.constraints.coverage`.
                tens = 10 if len(r.rate) > 1 else 1
                self.rate[o, w, d, : len(r.rate)] = [x // tens for x in r.rate]
                self.cost[o, w, d] = r.cost
                self.free[o] &= r.nodes == 1
            enough[o] += max(-(-_most(inst, k) * inst.replicas[k].gpus // inst.pools[o].gpus) for k in some)
            self.free[o] &= all(inst.replicas[k].max_count >= _most(inst, k) for k in some)
        # A pool may stand in for others only where as many nodes of it as could be needed may be held.
        self.free &= enough <= top

    def alike(self) -> list[Ints]:
        """Pools that carry the same on as many GPUs, and differ at most in price."""
        pools = len(self.gpus)
        figures = [self.gpus, self.spot, self.size.reshape(pools, -1), self.rate.reshape(pools, -1)]
        figures.append(np.nan_to_num(self.cost.reshape(pools, -1), posinf=-1.0))
        rows = np.column_stack([np.asarray(f, float).reshape(pools, -1) for f in figures])
        keys = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
        order = np.argsort(keys, kind="stable")
        return np.split(order, np.flatnonzero(np.diff(keys[order])) + 1)

    def as_cheap(self, a: Ints, b: Ints) -> NDArray[np.bool_]:
        """Whether pools a, with as many GPUs, cost no more than pools b in any way of holding them."""
        fine = self.free[a] & (~self.spot[a] | self.spot[b])
        fine &= (self.hourly[a] <= self.hourly[b]).all(axis=1)
        return np.asarray(fine & (self.commit[a] <= self.asked[b]).all(axis=1))


def _most(inst: Instance, k: int) -> int:
    """Replicas of a kind that carry all there is of their service alone; 0 where they carry nothing of some size."""
    r, demand = inst.replicas[k], inst.services[inst.replicas[k].work].demand
    if min(r.rate) < 10:
        return 0
    periods = range(len(demand[0]))
    return max(sum(-(-d[p] // (x // 10 * 10)) for d, x in zip(demand, r.rate, strict=True)) for p in periods)


def _pairs(table: _Table, mine: Ints, other: Ints) -> tuple[Ints, Ints]:
    """Pairs of a pool of `mine` and one of `other` that costs no less in any way of holding it."""
    mine = mine[table.free[mine]]
    fold = 1 if not (len(mine) and len(other)) else int(table.gpus[other[0]] // table.gpus[mine[0]])
    good = mine[:, None] != other[None, :]
    good &= ~table.spot[mine][:, None] | table.spot[other][None, :]
    for p in range(table.hourly.shape[1]):
        good &= fold * table.hourly[mine, p][:, None] <= table.hourly[other, p][None, :]
    for s in range(table.commit.shape[1]):
        good &= fold * table.commit[mine, s][:, None] <= table.asked[other, s][None, :]
    i, j = np.nonzero(good)
    return mine[i], other[j]


def _able(table: _Table, a: Ints, b: Ints) -> NDArray[np.bool_]:
    """Whether every kind of replica on pool b has one on pool a of which whole ones do as much on no more GPUs for no more."""
    able = np.ones(len(a), bool)
    for w in range(table.size.shape[1]):
        for at in range(table.size.shape[2]):
            wanted = table.size[b, w, at]
            found = wanted == 0
            for of in range(table.size.shape[2]):
                size = table.size[a, w, of]
                fits = (size > 0) & (wanted % np.maximum(size, 1) == 0)
                fold = wanted // np.maximum(size, 1)
                fast = (table.rate[a, w, of] * fold[:, None] >= table.rate[b, w, at]).all(axis=1)
                cheap = (table.cost[a, w, of] * np.maximum(fold, 1)[:, None] <= table.cost[b, w, at]).all(axis=1)
                found |= fits & fast & cheap
            able &= found
    return able
