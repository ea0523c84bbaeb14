"""The Lagrangian bound: with prices on the linking rows every pool is a small problem of its own, solved in whole nodes.

For prices y of the linking rows (duals of any linear program will do) the least cost of the model is at least

    L(y) = sum_r y_r rhs_r + sum_pools min v_o + sum_jobs min_q cost_q(y),

where v_o is the cost of the nodes of pool o, less what their load is worth at these prices. In one period the worth of n
nodes, G(n), fills them with the loads of the highest worth per GPU, each up to what its demand can use; it is concave and
piecewise linear, so the best whole number of nodes is found among the floors and ceilings of its corners. That v_o is taken
over whole nodes makes L as strong as the linear relaxation with every residual-capacity cut of one pool.

If pool o is used at all, L grows by at least (least v_o with a node held) - (least v_o): what it must save elsewhere. Above
(incumbent - L) no better plan uses the pool.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solver.bounding.linear import Floats, Ints, Linear

EDGE = 1e-7
"""A corner of G within so much of a whole number of nodes is tried on both sides anyway; nothing depends on its size."""
MARGIN = 1e-9
"""Relative to the sum of all terms' magnitudes: far above what sums of doubles can be off by."""


@dataclass(frozen=True)
class Priced:
    """The bound at one set of prices.

    `saved[o]` >= 0: what pool o takes off the bound; `penalty[o]` >= 0: how much the bound grows, at the least, if a node of
    the pool is held. `hired[q]` : the same for option q.
    """

    bound: float
    saved: Floats
    penalty: Floats
    hired: Floats


def evaluate(lin: Linear, duals: Floats, exact: bool = True) -> Priced:
    """L at the given prices.

    Parameters
    ----------
    duals
        One per linking row; signs are put right, so any numbers give a bound.
    exact
        False: where a pool has nothing to save its penalty may be taken lower than it is (quicker).
    """
    y = np.where(lin.at_least, np.maximum(duals, 0.0), np.minimum(duals, 0.0))
    hold = lin.hold_cost - lin.hold_entries.times(y, len(lin.hold_way))
    worth = lin.load_entries.times(y, len(lin.load_kind)) - lin.load_cost
    pick = lin.pick_cost - lin.pick_entries.times(y, len(lin.pick_job))
    fixed = float(np.dot(y, lin.rhs))
    jobs, hired = _jobs(lin, pick)
    # A node that pays for being held is taken as often as it can be, and is free beyond that.
    given = float(np.dot(np.minimum(hold, 0.0), lin.hold_upper))
    saved, penalty = _pools(lin, np.maximum(hold, 0.0), worth, exact)
    magnitude = float(np.sum(np.abs(y * lin.rhs)) + np.sum(saved) + np.sum(np.abs(pick)) + np.sum(np.abs(jobs)) - given)
    given += lin.given
    bound = fixed + given - float(np.sum(saved)) + float(np.sum(jobs)) - MARGIN * magnitude - MARGIN
    return Priced(bound, saved, penalty, hired)


def _jobs(lin: Linear, pick: Floats) -> tuple[Floats, Floats]:
    """Cheapest option of each job, and how much dearer each option is."""
    count = len(lin.instance.jobs)
    least = np.full(count, np.inf)
    np.minimum.at(least, lin.pick_job, pick)
    least = np.where(np.isfinite(least), least, 0.0)
    return least, pick - least[lin.pick_job] if len(pick) else pick


class _Worth:
    """Corners of G for every pool and period: nodes filled and worth so far, best loads first."""

    def __init__(self, lin: Linear, worth: Floats) -> None:
        periods = len(lin.instance.periods)
        node_gpus = np.array([p.gpus for p in lin.instance.pools], float)
        useful = np.flatnonzero((worth > 0) & (lin.load_upper > 0))
        group = lin.load_pool[useful] * periods + lin.load_period[useful]
        each = worth[useful] / lin.load_gpus[useful]
        order = np.lexsort((-each, group))
        useful, group = useful[order], group[order]
        nodes = lin.load_upper[useful] * lin.load_gpus[useful] / node_gpus[lin.load_pool[useful]]
        self._nodes, self._value = nodes, worth[useful] * lin.load_upper[useful]
        groups = lin.pools * periods
        self._first = np.searchsorted(group, np.arange(groups + 1))
        best = np.zeros(groups)
        held = self._first[1:] > self._first[:-1]
        top = useful[self._first[:-1][held]]
        best[held] = worth[top] / lin.load_gpus[top] * node_gpus[lin.load_pool[top]]
        self.best_node = best.reshape(lin.pools, periods)
        """Worth of a node filled with the best load alone: no node is worth more."""

    def corners(self, group: int) -> tuple[Floats, Floats]:
        a, b = self._first[group], self._first[group + 1]
        nodes = np.concatenate(([0.0], np.cumsum(self._nodes[a:b])))
        return nodes, np.concatenate(([0.0], np.cumsum(self._value[a:b])))


def _pools(lin: Linear, hold: Floats, worth: Floats, exact: bool) -> tuple[Floats, Floats]:
    periods = len(lin.instance.periods)
    values = _Worth(lin, worth)
    commit = np.full(lin.pools, np.inf)
    hourly = np.full((lin.pools, periods), np.inf)
    once = lin.hold_period < 0
    np.minimum.at(commit, lin.hold_pool[once], hold[once])
    np.minimum.at(hourly, (lin.hold_pool[~once], lin.hold_period[~once]), hold[~once])
    # With every node worth no more than the best: profits of a first node, and a floor of what further ones add.
    by_hour = hourly - values.best_node
    in_all = commit - values.best_node.sum(axis=1)
    poor = (in_all >= 0) & (by_hour >= 0).all(axis=1)
    saved = np.zeros(lin.pools)
    penalty = np.where(poor, np.minimum(in_all, by_hour.min(axis=1, initial=np.inf)), 0.0)
    rest = np.flatnonzero(~poor) if not exact else np.arange(lin.pools)
    for o in rest.tolist():
        if np.isinf(commit[o]) and np.isinf(hourly[o]).all():
            penalty[o] = 0.0  # nothing can be held: no node is ever used
            continue
        saved[o], penalty[o] = _pool(values, o, periods, commit[o], hourly[o])
    return saved, np.where(np.isfinite(penalty), penalty, 0.0)


def _whole(corners: Floats) -> Floats:
    """Whole numbers around corners, with 0 and 1."""
    near = np.concatenate(
        (np.floor(corners + EDGE), np.ceil(corners - EDGE), np.floor(corners), np.ceil(corners), [0.0, 1.0])
    )
    return np.unique(np.maximum(near, 0.0))


def _pool(values: _Worth, o: int, periods: int, commit: float, hourly: Floats) -> tuple[float, float]:
    """What the pool saves at best, and how much worse it gets if at least one node must be held."""
    corners = [values.corners(o * periods + p) for p in range(periods)]
    # Hourly nodes: per period the best number n of nodes with c of them committed is max(c, n*), by concavity.
    alone = np.zeros(periods)
    turn = np.zeros(periods)
    forced = -np.inf
    for p, (nodes, value) in enumerate(corners):
        if np.isfinite(hourly[p]):
            tried = _whole(nodes)
            gain = np.interp(tried, nodes, value) - hourly[p] * tried
            at = int(np.argmax(gain))
            turn[p], alone[p] = tried[at], gain[at]
            one = float(np.max(gain[tried >= 1], initial=-np.inf))
            forced = max(forced, one - alone[p])
    best = float(alone.sum())
    with_node = best + forced
    if np.isfinite(commit):
        stops = [turn, *(nodes for nodes, _ in corners)]
        tried = _whole(np.concatenate(stops))
        gain = -commit * tried
        for p, (nodes, value) in enumerate(corners):
            held = np.maximum(tried, turn[p]) if np.isfinite(hourly[p]) else tried
            gain = gain + np.interp(held, nodes, value)
            if np.isfinite(hourly[p]):
                gain = gain - hourly[p] * (held - tried)
        best = max(best, float(np.max(gain)))
        with_node = max(with_node, float(np.max(gain[tried >= 1], initial=-np.inf)))
    best = max(best, 0.0)
    return best, max(0.0, best - with_node)


def usable(priced: Priced, incumbent: int) -> Ints:
    """Pools that a plan better than (or as good as) the incumbent may still use."""
    room = incumbent - priced.bound
    return np.flatnonzero(priced.penalty <= room).astype(np.int64)
