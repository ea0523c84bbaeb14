"""Rows that whole replicas of one service in one period obey and fractional ones do not: least costs of carrying its demand.

Whatever prices u >= 0 its kinds k have, whole counts R that carry the demand cost at least

    sum_k u_k R_k >= z(u),    z(u) = min {sum_k u_k R_k : R whole, R carries the demand}.

Each u is a row of the model over counts. The prices that matter are those at which the relaxation sees replicas: what the rest of the
model (nodes held, limits) asks for one. The small integer programs behind z are settled in hundredths of a second.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from ortools.linear_solver import pywraplp

from solver.counts.cover import Floats
from solver.counts.least_cost import EACH_S, LeastCost
from solver.counts.model import CountsModel
from solver.counts.program import rows_of

BROKEN = 1e-5
"""By so much (relative) a relaxed point must fall short of a least cost to be worth a row."""
STALLED = 1e-5
"""A round that raises the relaxation by less (relative) has found nothing."""
PATIENCE = 3
"""Rounds in a row that may find nothing."""
LARGEST_COST = 1000.0
SMALL_COST = 1e-3
"""Least costs below this, where the dearest column costs `LARGEST_COST`, are worth no row."""
SMALL_PART = 1e-6
"""A row takes replicas that do less for more: tiny factors upset the simplex."""
UNHAD = 2 * LARGEST_COST
"""What a node costs of which no more may be held."""


class Hull:
    """The relaxation of a model over counts, and the rows of least costs it has broken so far.

    Attributes
    ----------
    now, point
        Value [scaled money] and columns where it was solved last.
    value
        The best of `run`.
    """

    def __init__(self, counts: CountsModel, threads: int) -> None:
        self.counts, self._threads = counts, max(1, threads)
        self.least = LeastCost(counts.cover, counts.lock)
        inst, var, proto = counts.inst, counts.built.context.variables, counts.model.proto
        self._solver = pywraplp.Solver.CreateSolver("GLOP")
        # Rows and ends that change leave the dual point feasible.
        self._solver.SetSolverSpecificParametersAsString("use_dual_simplex: true")
        self._scale = max(1.0, max((abs(c) for c in counts.cost.values()), default=0.0) / LARGEST_COST)
        self._anew = pywraplp.MPSolverParameters()
        self._anew.SetIntegerParam(self._anew.INCREMENTALITY, self._anew.INCREMENTALITY_OFF)
        self._goal = self._solver.Objective()
        self._goal.SetMinimization()
        self._column: list[pywraplp.Variable] = []
        self.ends: list[tuple[float, float]] = []
        for v, variable in enumerate(proto.variables):
            domain = list(variable.domain)
            self.ends.append((float(domain[0]), float(domain[-1])))
            self._column.append(self._solver.NumVar(*self.ends[v], ""))
            self._goal.SetCoefficient(self._column[v], counts.cost.get(v, 0) / self._scale)
        self.cost = np.array([counts.cost.get(v, 0) / self._scale for v in range(len(proto.variables))])
        self.own = {x.index: (inst.replicas[k].work, p) for (k, p), x in var.replicas.items()}
        # Rows on other things than one service's replicas in one period: these make the prices.
        self._others: list[pywraplp.Constraint] = []
        self._entries = np.zeros((0, 3))
        self._bounded: dict[int, tuple[float, float]] = {}
        self._rows = 0
        self.value = self.now = -np.inf
        self.point = np.zeros(len(self._column))
        self.grow()

    def run(self, left: Callable[[], float], over: Callable[[], bool]) -> int:
        """Add rows to the model, round by round, while they raise the relaxation; gives their number."""
        idle, before = 0, self._rows
        while idle < PATIENCE and left() > 0 and not over() and self.solve(left()) is True:
            value = self.now
            idle = idle + 1 if value <= self.value + STALLED * abs(value) else 0
            self.value = max(self.value, value)
            if not self.separate(left):
                break
        return self._rows - before

    def money(self, value: float) -> float:
        """A value of the relaxation as the model's objective."""
        return value * self._scale + float(self.counts.model.proto.objective.offset)

    def bind(self, ends: Mapping[int, tuple[float, float]]) -> None:
        """Hold columns between given ends; all others are as free as the model has them."""
        for v in [v for v in self._bounded if v not in ends]:
            self._column[v].SetBounds(*self.ends[v])
        for v, (low, high) in ends.items():
            if self._bounded.get(v) != (low, high):
                self._column[v].SetBounds(low, high)
        self._bounded = dict(ends)

    def solve(self, time_limit_s: float) -> bool | None:
        """Solve the relaxation; False where it has no point, None where the simplex fails or has no time."""
        status = pywraplp.Solver.NOT_SOLVED
        for parameters in ((), (self._anew,)):
            self._solver.SetTimeLimit(max(1, int(time_limit_s * 1000)))
            status = self._solver.Solve(*parameters)
            if status == pywraplp.Solver.OPTIMAL:
                self.now = float(self._goal.Value())
                self.point = np.array([x.solution_value() for x in self._column])
                return True
            if status == pywraplp.Solver.FEASIBLE:
                return None
            # From another basis it may do: what is said to have no point is asked twice as well.
        return False if status == pywraplp.Solver.INFEASIBLE else None

    def separate(self, left: Callable[[], float]) -> int:
        """Add the rows of least costs that the relaxation's point breaks; gives the number of rows that are new."""
        before = self._rows
        point, prices = self.point, self._prices()
        works = [(w, p) for w in self.counts.cover.works for p in range(len(self.counts.inst.periods))]
        jobs = [(w, p, *self._of(w, p, prices, point)) for w, p in works]
        # Where counts are known that cost no more than the relaxed ones there is nothing to be found.
        jobs = [j for j in jobs if self.least.known(j[0], j[1], j[2]) > float(j[2] @ j[3]) * (1 + BROKEN)]

        def one(job: tuple[int, int, Floats, Floats]) -> float:
            return self.least.bound(job[0], job[1], job[2], max(0.02, min(EACH_S, left())))

        if self._threads == 1 or len(jobs) < 2:
            least = [one(j) for j in jobs]
        else:
            with ThreadPoolExecutor(self._threads) as crew:
                least = list(crew.map(one, jobs))
        with self.counts.lock:
            for (w, p, u, held), z in zip(jobs, least, strict=True):
                if z > SMALL_COST and float(u @ held) < z * (1 - BROKEN):
                    self.counts.demand(w, p, np.maximum(SMALL_PART, u / z))
        self.grow()
        return self._rows - before

    def grow(self) -> int:
        """Take in the rows of all weights that are new; gives their number."""
        before = self._rows
        with self.counts.lock:
            self.counts.grow()
            self._take_rows()
        return self._rows - before

    def _take_rows(self) -> None:
        """Take in the rows that the model got since."""
        proto, endless = self.counts.model.proto, self._solver.infinity()
        entries: list[tuple[int, int, float]] = []
        for i in range(self._rows, len(proto.constraints)):
            for columns, factors, low, high in rows_of(proto.constraints[i], proto):
                largest = max((abs(f) for f in factors), default=1)
                row = self._solver.Constraint(
                    -endless if low == -np.inf else low / largest, endless if high == np.inf else high / largest
                )
                for v, f in zip(columns, factors, strict=True):
                    row.SetCoefficient(self._column[v], f / largest)
                if len({self.own.get(v) for v in columns}) != 1 or columns[0] not in self.own:
                    entries += [(len(self._others), v, f / largest) for v, f in zip(columns, factors, strict=True)]
                    self._others.append(row)
        self._rows = len(proto.constraints)
        self._entries = np.vstack((self._entries, np.array(entries, float).reshape(-1, 3)))

    def _prices(self) -> Floats:
        """What one of each column costs as all rows but those of its own service and period see it.

        Pools that the relaxation could make dearer without using them less count as dear as they may be.
        """
        inst, var = self.counts.inst, self.counts.built.context.variables
        duals = np.array([row.dual_value() for row in self._others])
        row, column, factor = self._entries.T
        size = len(self.cost)
        seen: Floats = self.cost - np.bincount(column.astype(int), factor * duals[row.astype(int)], size)
        dear = np.maximum(0.0, seen)
        for v, (_, high) in self._bounded.items():
            if self._column[v].solution_value() >= high - 1e-9:
                dear[v] = UNHAD
        slack = np.full((len(inst.pools), len(inst.periods)), np.inf)
        for (i, p), x in var.hourly.items():
            slack[inst.capacities[i].pool, p] = min(slack[inst.capacities[i].pool, p], dear[x.index])
        spread = np.where(np.isfinite(slack), slack, 0.0)
        for i, x in var.commit.items():
            way = inst.capacities[i]
            held = np.array([way.holds(p) for p in range(len(inst.periods))])
            whole = float(spread[way.pool][held].sum())
            share = spread[way.pool] / whole if whole > 0 else np.full(len(held), 1 / max(1, held.sum()))
            slack[way.pool] = np.where(held, np.minimum(slack[way.pool], share * dear[x.index]), slack[way.pool])
        slack[~np.isfinite(slack)] = 0.0
        for (k, p), x in var.replicas.items():
            replica = inst.replicas[k]
            seen[x.index] += slack[replica.pool, p] * replica.gpus / inst.pools[replica.pool].gpus
        return np.asarray(np.maximum(seen, 0.0), float)

    def _of(self, w: int, p: int, prices: Floats, point: Floats) -> tuple[Floats, Floats]:
        """Prices and counts of one service's kinds in one period."""
        var = self.counts.built.context.variables.replicas
        columns = [var[k, p].index for k in self.counts.cover.kinds[w].tolist()]
        return prices[columns], point[columns]
