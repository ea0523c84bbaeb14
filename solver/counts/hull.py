"""Rows that whole replicas of one service in one period obey and fractional ones do not: least costs of carrying its demand.

Whatever prices u >= 0 its kinds k have, whole counts R that carry the demand cost at least

    sum_k u_k R_k >= z(u),    z(u) = min {sum_k u_k R_k : R whole, and in all rows of `Cover`}.

Each u is a row of the model over counts. The prices that matter are those at which the relaxation sees replicas: what the rest of the
model (nodes held, limits) asks for one. The small integer programs behind z are settled in hundredths of a second.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray
from ortools.linear_solver import pywraplp
from ortools.math_opt.python import mathopt

from solver.counts.cover import Cover, Floats
from solver.counts.model import ROUND, CountsModel
from solver.counts.program import rows_of

EACH_S = 0.5
"""Longest search for one least cost [s]; its bound serves where it is not settled."""
GAP = 5e-4
SURE = 1e-6
"""A least cost in floating point is taken so much lower (relative)."""
BROKEN = 1e-5
"""By so much (relative) a relaxed point must fall short of a least cost to be worth a row."""
STALLED = 1e-5
"""A round that raises the relaxation by less (relative) has found nothing."""
PATIENCE = 3
"""Rounds in a row that may find nothing."""
LARGEST_COST = 1000.0


def least_cost(cover: Cover, w: int, period: int, prices: Floats, time_limit_s: float = EACH_S) -> float:
    """A bound of what whole replicas that carry a service's demand in a period cost at given prices, one per `cover.kinds[w]`."""
    kept = _undominated(cover.rate[w], prices)
    unit = float(prices[kept].max(initial=0.0))
    if unit <= 0:
        return 0.0
    model = mathopt.Model()
    rows = [row for y in cover.weights[w] if (row := cover.row(w, y, period)) is not None]
    if not rows:
        return 0.0
    counts = [model.add_integer_variable(lb=0) for _ in kept]
    for row in rows:
        added = model.add_linear_constraint(lb=1.0 - ROUND)
        for x, done in zip(counts, row[kept].tolist(), strict=True):
            added.set_coefficient(x, done)
    for x, price in zip(counts, prices[kept].tolist(), strict=True):
        model.objective.set_linear_coefficient(x, price / unit)
    parameters = mathopt.SolveParameters(
        time_limit=datetime.timedelta(seconds=max(0.02, time_limit_s)), relative_gap_tolerance=GAP
    )
    result = mathopt.solve(model, mathopt.SolverType.GSCIP, params=parameters)
    bound = result.termination.objective_bounds.dual_bound * unit
    return max(0.0, bound - SURE * abs(bound)) if np.isfinite(bound) else 0.0


def _undominated(rate: Floats, prices: Floats) -> NDArray[np.int64]:
    """Kinds of which none other does as much of every size for no more; the first of equals."""
    order = np.lexsort((-rate.sum(axis=1), prices))
    kept: list[int] = []
    for i in order.tolist():
        if rate[i].any() and not any((rate[j] >= rate[i]).all() for j in kept):
            kept.append(i)
    return np.array(kept, np.int64)


class Hull:
    """The relaxation of a model over counts, and the rows of least costs it has broken so far."""

    def __init__(self, counts: CountsModel, threads: int) -> None:
        self._counts, self._threads = counts, max(1, threads)
        inst, var, proto = counts.inst, counts.built.context.variables, counts.model.proto
        self._solver = pywraplp.Solver.CreateSolver("GLOP")
        endless = self._solver.infinity()
        self._scale = max(1.0, max((abs(c) for c in counts.cost.values()), default=0.0) / LARGEST_COST)
        self._goal = self._solver.Objective()
        self._goal.SetMinimization()
        self._column: list[pywraplp.Variable] = []
        for v, variable in enumerate(proto.variables):
            domain = list(variable.domain)
            self._column.append(self._solver.NumVar(float(domain[0]), float(domain[-1]), ""))
            self._goal.SetCoefficient(self._column[v], counts.cost.get(v, 0) / self._scale)
        self._own = {x.index: (inst.replicas[k].work, p) for (k, p), x in var.replicas.items()}
        # Rows on other things than one service's replicas in one period: these make the prices.
        self._others: list[pywraplp.Constraint] = []
        entries: list[tuple[int, int, float]] = []
        for columns, factors, low, high in (row for c in proto.constraints for row in rows_of(c, proto)):
            largest = max((abs(f) for f in factors), default=1)
            row = self._solver.Constraint(
                -endless if low == -np.inf else low / largest, endless if high == np.inf else high / largest
            )
            for v, f in zip(columns, factors, strict=True):
                row.SetCoefficient(self._column[v], f / largest)
            if len({self._own.get(v) for v in columns}) != 1 or columns[0] not in self._own:
                entries += [(len(self._others), v, f / largest) for v, f in zip(columns, factors, strict=True)]
                self._others.append(row)
        self._entries = np.array(entries, float).reshape(-1, 3)
        self._cost = np.array([counts.cost.get(v, 0) / self._scale for v in range(len(proto.variables))])
        self.value = -np.inf

    def run(self, left: Callable[[], float], over: Callable[[], bool]) -> int:
        """Add rows to the model, round by round, while they raise the relaxation; gives their number."""
        idle, added = 0, 0
        works = [(w, p) for w in self._counts.cover.works for p in range(len(self._counts.inst.periods))]
        with ThreadPoolExecutor(self._threads) as crew:
            while idle < PATIENCE and left() > 0 and not over() and self._solve(left()):
                value = self._goal.Value()
                idle = idle + 1 if value <= self.value + STALLED * abs(value) else 0
                self.value = max(self.value, value)
                point, prices = np.array([x.solution_value() for x in self._column]), self._prices()
                jobs = [(w, p, *self._of(w, p, prices, point)) for w, p in works]
                least = list(crew.map(lambda j: least_cost(self._counts.cover, j[0], j[1], j[2], left()), jobs))
                fresh = [
                    (w, p, u / z)
                    for (w, p, u, held), z in zip(jobs, least, strict=True)
                    if z > 0 and float(u @ held) < z * (1 - BROKEN)
                ]
                if not fresh:
                    break
                for w, p, parts in fresh:
                    self._add(w, p, parts)
                added += len(fresh)
        return added

    def _solve(self, time_limit_s: float) -> bool:
        self._solver.SetTimeLimit(max(1, int(time_limit_s * 1000)))
        return bool(self._solver.Solve() == pywraplp.Solver.OPTIMAL)

    def _prices(self) -> Floats:
        """What one of each column costs as all rows but those of its own service and period see it.

        Pools that the relaxation could make dearer without using them less count as dear as they may be.
        """
        inst, var = self._counts.inst, self._counts.built.context.variables
        duals = np.array([row.dual_value() for row in self._others])
        row, column, factor = self._entries.T
        size = len(self._cost)
        seen: Floats = self._cost - np.bincount(column.astype(int), factor * duals[row.astype(int)], size)
        slack = np.full((len(inst.pools), len(inst.periods)), np.inf)
        for (i, p), x in var.hourly.items():
            slack[inst.capacities[i].pool, p] = min(slack[inst.capacities[i].pool, p], max(0.0, seen[x.index]))
        spread = np.where(np.isfinite(slack), slack, 0.0)
        for i, x in var.commit.items():
            way = inst.capacities[i]
            held = np.array([way.holds(p) for p in range(len(inst.periods))])
            whole = float(spread[way.pool][held].sum())
            share = spread[way.pool] / whole if whole > 0 else np.full(len(held), 1 / max(1, held.sum()))
            slack[way.pool] = np.where(
                held, np.minimum(slack[way.pool], share * max(0.0, seen[x.index])), slack[way.pool]
            )
        slack[~np.isfinite(slack)] = 0.0
        for (k, p), x in var.replicas.items():
            replica = inst.replicas[k]
            seen[x.index] += slack[replica.pool, p] * replica.gpus / inst.pools[replica.pool].gpus
        return np.asarray(np.maximum(seen, 0.0), float)

    def _of(self, w: int, p: int, prices: Floats, point: Floats) -> tuple[Floats, Floats]:
        """Prices and counts of one service's kinds in one period."""
        var = self._counts.built.context.variables.replicas
        columns = [var[k, p].index for k in self._counts.cover.kinds[w].tolist()]
        return prices[columns], point[columns]

    def _add(self, w: int, p: int, parts: Floats) -> None:
        """Take a row into the model and the relaxation."""
        var = self._counts.built.context.variables.replicas
        row = self._solver.Constraint(1.0, self._solver.infinity())
        for k, part in zip(self._counts.cover.kinds[w].tolist(), np.minimum(1.0, parts).tolist(), strict=True):
            row.SetCoefficient(self._column[var[k, p].index], part)
        self._counts.demand(w, p, parts)
