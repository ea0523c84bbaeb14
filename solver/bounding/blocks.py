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
    values = _Worth(lin, worth)
    ways = _Ways(lin, hold)
    # With every node worth no more than the best: profits of a first node, and a floor of what further ones add.
    profit, share = ways.least_loss(values.best_node)
    poor = profit >= 0
    saved = np.zeros(lin.pools)
    penalty = np.where(poor, profit, 0.0)
    rest = np.flatnonzero(~poor) if not exact else np.arange(lin.pools)
    for o in rest.tolist():
        if np.isinf(profit[o]):
            penalty[o] = 0.0  # nothing can be held: no node is ever used
            continue
        saved[o], with_node = _pool(values, o, ways.commit[o], ways.hourly[o])
        if not ways.to_the_end[o]:
            # Terms that end are longer there than they are; what each period would pay is another bound.
            other, other_node = _paid(
                values, o, share[o] * values.best_node[o], ways.losses(o, share[o], values.best_node)
            )
            saved[o], with_node = min(saved[o], other), min(with_node, other_node)
        penalty[o] = max(0.0, saved[o] - with_node)
    return saved, np.where(np.isfinite(penalty), penalty, 0.0)


class _Ways:
    """What a node of each pool costs: by the hour, and committed to from some period on.

    `commit[o, p]` : least cost of one that is there from period p on. `to_the_end[o]` : every commitment lasts to the end, so that
    nothing else needs to be said.
    """

    def __init__(self, lin: Linear, hold: Floats) -> None:
        periods = len(lin.instance.periods)
        once = lin.hold_period < 0
        self._lin, self._hold = lin, hold
        self._order = np.argsort(lin.hold_pool, kind="stable")
        self._first = np.searchsorted(lin.hold_pool[self._order], np.arange(lin.pools + 1))
        active = lin.hold_active[once]
        begun = np.argmax(active, axis=1)
        self.commit = np.full((lin.pools, periods), np.inf)
        self.hourly = np.full((lin.pools, periods), np.inf)
        self.to_the_end = np.ones(lin.pools, bool)
        np.minimum.at(self.commit, (lin.hold_pool[once], begun), hold[once])
        np.minimum.at(self.hourly, (lin.hold_pool[~once], lin.hold_period[~once]), hold[~once])
        lasting = active.sum(axis=1) == periods - begun
        self.to_the_end[lin.hold_pool[once][~lasting]] = False

    def least_loss(self, paid: Floats) -> tuple[Floats, Floats]:
        """Per pool the least that a node costs beyond what is paid for it by period, and the share of that which no node loses by."""
        lin = self._lin
        earned = (paid[lin.hold_pool] * lin.hold_active).sum(axis=1)
        loss, share = np.full(lin.pools, np.inf), np.ones(lin.pools)
        np.minimum.at(loss, lin.hold_pool, self._hold - earned)
        with np.errstate(divide="ignore", invalid="ignore"):
            np.minimum.at(share, lin.hold_pool, np.where(earned > 0, self._hold / earned, 1.0))
        return loss, share * (1 - MARGIN)

    def losses(self, o: int, share: float, paid: Floats) -> float:
        """The least that a node of one pool costs beyond a share of what is paid for it."""
        lin = self._lin
        mine = self._order[self._first[o] : self._first[o + 1]]
        return float(np.min(self._hold[mine] - share * (paid[o] * lin.hold_active[mine]).sum(axis=1)))


def _whole(corners: Floats) -> Floats:
    """Whole numbers around corners, with 0 and 1."""
    near = np.concatenate(
        (np.floor(corners + EDGE), np.ceil(corners - EDGE), np.floor(corners), np.ceil(corners), [0.0, 1.0])
    )
    return np.unique(np.maximum(near, 0.0))


def _pool(values: _Worth, o: int, commit: Floats, hourly: Floats) -> tuple[float, float]:
    """What the pool saves at best, and what at best with at least one node held.

    Committed nodes only come to those there are, at the periods where a commitment may begin: the best numbers follow from those up
    to the period before (a program over periods and numbers of nodes, all of which are corners of some G).
    """
    periods = len(hourly)
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
    if np.isfinite(commit).any():
        tried = _whole(np.concatenate([turn, *(nodes for nodes, _ in corners)]))
        total = np.where(tried > 0, -np.inf, 0.0)
        for p, (nodes, value) in enumerate(corners):
            if np.isfinite(commit[p]):
                total = np.maximum.accumulate(total + commit[p] * tried) - commit[p] * tried
            held = np.maximum(tried, turn[p]) if np.isfinite(hourly[p]) else tried
            total = total + np.interp(held, nodes, value)
            if np.isfinite(hourly[p]):
                total = total - hourly[p] * (held - tried)
        best = max(best, float(np.max(total)))
        with_node = max(with_node, float(np.max(total[tried >= 1], initial=-np.inf)))
    return max(best, 0.0), with_node


def _paid(values: _Worth, o: int, paid: Floats, loss: float) -> tuple[float, float]:
    """As `_pool`, if each period pays so much for a node: a bound where no node costs less than it is paid, by `loss` or more."""
    best = 0.0
    for p in range(len(paid)):
        nodes, value = values.corners(o * len(paid) + p)
        tried = _whole(nodes)
        best += float(np.max(np.interp(tried, nodes, value) - paid[p] * tried))
    return best, best - loss


def usable(priced: Priced, incumbent: int) -> Ints:
    """Pools that a plan better than (or as good as) the incumbent may still use."""
    room = incumbent - priced.bound
    return np.flatnonzero(priced.penalty <= room).astype(np.int64)
