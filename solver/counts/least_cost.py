"""The least that whole replicas of one service in one period cost at given prices, and counts that cost no more.

z(u) = min {sum_k u_k R_k : R whole, R carries the demand}. Rows of `Cover` stand for the demand: counts that are found and do not
carry it break a row that is not there yet, which is taken in, and the search begins anew.
"""

from __future__ import annotations

import threading

import numpy as np
from numpy.typing import NDArray
from ortools.sat.python import cp_model

from solver.counts.cover import Cover, Floats
from solver.cp_sat import new_solver

EACH_S = 0.5
"""Longest search for one least cost [s]; its bound serves where it is not settled."""
GAP = 5e-4
REPAIRS = 12
"""Times that a search begins anew for a row that its counts break."""
DONE, PRICE = 100_000, 10_000_000
"""Units in which rows and prices are counted: of all that a row asks for, and of the cheapest counts of a single kind."""
ROUND = 1e-9
LARGEST = 1_000_000


class LeastCost:
    """Least costs of all services and periods, and counts found on the way. `lock` : held while the cover grows."""

    def __init__(self, cover: Cover, lock: threading.Lock | None = None) -> None:
        self.cover = cover
        self._lock = threading.Lock() if lock is None else lock
        self._rows: dict[tuple[int, int], tuple[int, Floats]] = {}
        self._known: dict[tuple[int, int], Floats] = {}
        self._most = {w: cover.most(w) for w in range(len(cover.kinds))}

    def known(self, w: int, period: int, prices: Floats) -> float:
        """What the cheapest of the counts found so far costs; the least cost is no more."""
        found = self._known.get((w, period))
        return np.inf if found is None else float((found @ prices).min())

    def bound(self, w: int, period: int, prices: Floats, time_limit_s: float = EACH_S) -> float:
        """A bound of the least cost at given prices, one per `cover.kinds[w]`."""
        low = 0.0
        for _ in range(REPAIRS):
            low, counts = self._searched(w, period, prices, time_limit_s)
            if counts is None:
                return low
            held = {int(self.cover.kinds[w][i]): float(counts[i]) for i in np.flatnonzero(counts)}
            weights = self.cover.break_of(w, period, held)
            with self._lock:
                if weights is not None and not self.cover.add(w, weights):
                    return low
            if weights is None:
                self.learn(w, period, counts)
                return low
        return low

    def learn(self, w: int, period: int, counts: Floats) -> None:
        """Keep counts that carry the demand."""
        with self._lock:
            old = self._known.get((w, period))
            if old is None:
                self._known[w, period] = counts[None, :]
            elif not (old == counts).all(axis=1).any():
                self._known[w, period] = np.vstack((old, counts))

    def all_known(self, w: int, period: int) -> Floats | None:
        """Counts of `cover.kinds[w]` known to carry the demand, one set a row; None where there are none."""
        return self._known.get((w, period))

    def matrix(self, w: int, period: int) -> Floats:
        """What one of each kind does of each row, of all that the row asks for [rows, kinds]."""
        size = len(self.cover.weights[w])
        known = self._rows.get((w, period))
        if known is None or known[0] < size:
            rows = [row for y in self.cover.weights[w][:size] if (row := self.cover.row(w, y, period)) is not None]
            known = size, np.array(rows, float).reshape(len(rows), len(self.cover.kinds[w]))
            self._rows[w, period] = known
        return known[1]

    def _searched(self, w: int, period: int, prices: Floats, time_limit_s: float) -> tuple[float, Floats | None]:
        """A bound over the rows there are, and counts that are in all of them."""
        rows = self.matrix(w, period)
        kept = undominated(self.cover.rate[w], prices)
        if not len(rows) or not len(kept) or prices[kept].max() <= 0:
            return 0.0, None
        # A replica dearer than some counts of one kind is in no cheapest counts, and may count as dear as those.
        most = self._most[w][:, period]
        alone = np.where(np.isfinite(most), np.where(np.isfinite(most), most, 0.0) * prices, np.inf)
        unit = float(alone.min())
        if unit <= 0:
            return 0.0, None
        unit = unit if np.isfinite(unit) else float(prices[kept].max())
        done = np.ceil(np.minimum(1.0, rows[:, kept]) * DONE * (1 + ROUND)).astype(np.int64)
        cost = np.floor(np.minimum(1.0, prices[kept] / unit) * PRICE).astype(np.int64)
        with np.errstate(divide="ignore"):
            enough = np.where(done > 0, np.ceil(DONE / done), 0.0).max(axis=0)
        model = cp_model.CpModel()
        counts = [model.new_int_var(0, int(min(n, LARGEST)), "") for n in enough.tolist()]
        for row in done.tolist():
            model.add(cp_model.LinearExpr.weighted_sum(counts, row) >= DONE)
        model.minimize(cp_model.LinearExpr.weighted_sum(counts, cost.tolist()))
        solver = new_solver()
        solver.parameters.num_workers = 1
        # Presolve takes longer than the search.
        solver.parameters.cp_model_presolve = False
        solver.parameters.relative_gap_limit = GAP
        solver.parameters.max_time_in_seconds = max(0.02, time_limit_s)
        status = solver.solve(model)
        if status == cp_model.INFEASIBLE:
            return 0.0, None
        low = max(0.0, float(np.floor(solver.best_objective_bound + ROUND))) * unit / PRICE * (1 - ROUND)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return low, None
        found = np.zeros(len(prices))
        found[kept] = [solver.value(x) for x in counts]
        return low, found


def least_cost(cover: Cover, w: int, period: int, prices: Floats, time_limit_s: float = EACH_S) -> float:
    """A bound of what whole replicas that carry a service's demand in a period cost at given prices, one per `cover.kinds[w]`."""
    return LeastCost(cover).bound(w, period, prices, time_limit_s)


def undominated(rate: Floats, prices: Floats) -> NDArray[np.int64]:
    """Kinds of which none other does as much of every size for no more; the first of equals."""
    order = np.lexsort((-rate.sum(axis=1), prices))
    kept: list[int] = []
    for i in order.tolist():
        if rate[i].any() and not (kept and (rate[kept] >= rate[i]).all(axis=1).any()):
            kept.append(i)
    return np.array(kept, np.int64)
