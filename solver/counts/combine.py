"""Plans put together from counts that each carry one service in one period: which counts, and what nodes for them all.

Counts come from least costs (`LeastCost`) at prices about those of the relaxation. Which of them go together in the fewest nodes is a
choice of one for every service and period, and whatever is chosen carries all demands. A few hundred counts are chosen from in well
under a second, where replicas one by one take many times that.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import numpy as np
from ortools.sat.python import cp_model

from solver.counts.cover import UNIT, Floats
from solver.counts.least_cost import LeastCost
from solver.counts.model import ROUND, CountsModel

GATHER_S = 1.0
"""How long counts are gathered before a choice is made [s]."""
CHOOSE_S = 2.0
"""Longest search for a choice [s]."""
SPREADS = (0.05, 0.05, 0.1, 0.2)
"""How far prices are from those of the relaxation (standard deviations of their logarithms); the first more often than the last."""
FREE = 2e-3
"""Services and periods that cost less of all there is are not worth gathering counts for: their replicas are chosen one by one."""
GAP = 1e-4
IDLE = 4
"""Choices in a row without a better plan, after which there is little to be hoped for."""
REPAIRS = 6


class Combine:
    """The search.

    Parameters
    ----------
    prices
        Of one of each column, as the relaxation sees them.
    solution
        Values of all variables of the best plan known.
    """

    def __init__(
        self,
        counts: CountsModel,
        least: LeastCost,
        prices: Floats,
        solution: list[int],
        *,
        seed: int,
        step: int,
        left: Callable[[], float],
        over: Callable[[], bool],
        on_better: Callable[[int, list[int]], None],
    ) -> None:
        self.counts, self.least, self.step = counts, least, step
        self._left, self._over, self._on_better = left, over, on_better
        self._rules = counts.rules()
        self._rng = random.Random(seed)
        self.best = counts.objective(solution)
        inst, var = counts.inst, counts.built.context.variables
        self._columns = {
            (w, p): [var.replicas[k, p].index for k in counts.cover.kinds[w].tolist()]
            for w in counts.cover.works
            for p in range(len(inst.periods))
        }
        self._prices = {key: prices[columns] for key, columns in self._columns.items()}
        self._pools = {w: [inst.replicas[k].pool for k in counts.cover.kinds[w].tolist()] for w in counts.cover.works}
        self.learn(solution)
        costs = {key: least.bound(*key, u) for key, u in self._prices.items() if not self._late()}
        self._worth = [key for key, z in costs.items() if z > FREE * sum(costs.values())]

    def run(self) -> None:
        """Gather counts and choose among them, in turns, until time is over or nothing better comes of it."""
        idle = 0
        while self._worth and idle < IDLE and not self._late():
            self._gather()
            idle = 0 if self._choose() else idle + 1

    def learn(self, solution: list[int]) -> None:
        """Take in the counts of a plan."""
        for (w, p), columns in self._columns.items():
            self.least.learn(w, p, np.array([solution[v] for v in columns], float))

    def _late(self) -> bool:
        return self._over() or self._left() <= 0.05

    def _gather(self) -> None:
        """Counts that cost least at prices about those of the relaxation; those of a pool rise and fall together."""
        end = time.monotonic() + GATHER_S
        while time.monotonic() < end and not self._late():
            spread = self._rng.choice(SPREADS)
            factor = np.exp([self._rng.gauss(0.0, spread) for _ in self.counts.inst.pools])
            for w, p in self._worth:
                if self._late():
                    return
                self.least.bound(w, p, self._prices[w, p] * factor[self._pools[w]])

    def _choose(self) -> bool:
        """The best choice among all counts there are; True where it is better than the best plan."""
        for _ in range(REPAIRS):
            if self._late():
                return False
            solution = self._chosen()
            if solution is None:
                return False
            var = self.counts.built.context.variables.replicas
            with self.counts.lock:
                broken = self.counts.broken({key: solution[x.index] for key, x in var.items()})
                placed = not broken and self.counts.placed(solution)
            if broken:
                continue
            if not placed:
                return False
            self.best = self.counts.objective(solution)
            self.learn(solution)
            self._on_better(self.best, self.counts.completed(solution))
            return True
        return False

    def _chosen(self) -> list[int] | None:
        """Values of all variables for the best choice found; None where there is none better than the best plan."""
        model = self._rules.clone()
        for (w, p), columns in self._columns.items():
            replicas = [model.get_int_var_from_proto_index(v) for v in columns]
            known = self.least.all_known(w, p) if (w, p) in set(self._worth) else None
            if known is None:
                parts = np.floor(np.minimum(1.0, self.least.matrix(w, p)) * UNIT * (1 - ROUND)).astype(int)
                for row in parts.tolist():
                    model.add(cp_model.LinearExpr.weighted_sum(replicas, row) >= UNIT)
                continue
            picks = [model.new_bool_var("") for _ in known]
            model.add_exactly_one(picks)
            for i, replica in enumerate(replicas):
                model.add(replica == cp_model.LinearExpr.weighted_sum(picks, known[:, i].astype(int).tolist()))
        size = len(self.counts.model.proto.variables)
        costs = [(model.get_int_var_from_proto_index(v), c) for v, c in self.counts.cost.items()]
        offset = round(self.counts.model.proto.objective.offset)
        total = cp_model.LinearExpr.weighted_sum([x for x, _ in costs], [c for _, c in costs])
        model.add(total <= self.best - self.step - offset)
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.relative_gap_limit = GAP
        solver.parameters.max_time_in_seconds = max(0.05, min(CHOOSE_S, self._left()))
        if solver.solve(model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return None
        return [solver.value(model.get_int_var_from_proto_index(v)) for v in range(size)]
