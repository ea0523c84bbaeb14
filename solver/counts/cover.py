"""What whole counts of replicas must do for a mix of request sizes: loads projected out of the model, row by row.

Counts R of a service's replicas can carry its demand d if and only if for all weights y >= 0 of the request sizes

    sum_k max_b(y_b rate[k,b]) R_k >= sum_b y_b d_b

(the dual of the linear program that splits the loads). Each y is a row over counts alone; those that matter are found as counts
break them. Rates of a service are the same in all periods, so weights found in one are of use in all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from ortools.linear_solver import pywraplp

from solver.expressions import required
from solver.instance import Instance

Floats = NDArray[np.float64]
UNIT = 1_000_000
"""A row asks for so much in all; what one replica does is rounded up."""
DIGITS = 1e-4
"""Weights that differ by less are the same."""


class Cover:
    """Rows of every service with several request sizes.

    Attributes
    ----------
    kinds : list of arrays
        Replica kinds of each service.
    weights : list of list of array
        Of each service, scaled so that the greatest is 1.
    """

    def __init__(self, inst: Instance) -> None:
        self.inst = inst
        self.kinds = [
            np.array([k for k, r in enumerate(inst.replicas) if r.work == w]) for w in range(len(inst.services))
        ]
        # The model counts in tens, see `solver.constraints.coverage`.
        self.rate = [
            np.array([[x // 10 for x in inst.replicas[k].rate] for k in kinds], float).reshape(len(kinds), -1)
            for kinds in self.kinds
        ]
        self.need = [
            np.array([[required(x) // 10 for x in by_period] for by_period in s.demand], float) for s in inst.services
        ]
        self.weights: list[list[Floats]] = [[] for _ in inst.services]
        self._seen: set[tuple[int, tuple[int, ...]]] = set()
        for w, service in enumerate(inst.services):
            if len(service.demand) > 1:
                self._begin(w)

    @property
    def works(self) -> list[int]:
        """Services with several request sizes."""
        return [w for w, s in enumerate(self.inst.services) if len(s.demand) > 1]

    def _begin(self, w: int) -> None:
        """Every size alone, and the sizes as each kind weighs them."""
        for b in range(self.need[w].shape[0]):
            self.add(w, np.eye(self.need[w].shape[0])[b])
        for rates in np.unique(self.rate[w], axis=0):
            if rates.min() > 0:
                self.add(w, 1.0 / rates)

    def add(self, w: int, weights: Sequence[float] | Floats) -> bool:
        """Keep weights of a service; False where they are known."""
        y = np.maximum(np.asarray(weights, float), 0.0)
        if y.max(initial=0.0) <= 0:
            return False
        y = y / y.max()
        key = w, tuple(np.round(y / DIGITS).astype(int).tolist())
        if key in self._seen:
            return False
        self._seen.add(key)
        self.weights[w].append(y)
        return True

    def row(self, w: int, y: Floats, period: int) -> Floats | None:
        """What each kind of `kinds[w]` does of all that the row asks for; None where it asks for nothing."""
        need = float(y @ self.need[w][:, period])
        if need <= 0:
            return None
        done: Floats = np.minimum(1.0, np.max(y * self.rate[w], axis=1) / need)
        return done

    def break_of(self, w: int, period: int, counts: Mapping[int, float], slack: float = 1e-9) -> Floats | None:
        """Weights of a row that the counts of a service's replicas break the most; None where they carry the demand."""
        served = self.need[w][:, period] > 0
        if not served.any():
            return None
        solver = pywraplp.Solver.CreateSolver("GLOP")
        infinity = solver.infinity()
        part = solver.NumVar(0.0, 2.0, "")
        rows = {}
        for b in np.flatnonzero(served).tolist():
            rows[b] = solver.Constraint(0.0, infinity)
            rows[b].SetCoefficient(part, -1.0)
        for i, k in enumerate(self.kinds[w].tolist()):
            held = float(counts.get(k, 0.0))
            if held <= 0:
                continue
            busy = solver.Constraint(-infinity, held)
            for b, row in rows.items():
                if self.rate[w][i, b] > 0:
                    load = solver.NumVar(0.0, infinity, "")
                    busy.SetCoefficient(load, 1.0)
                    row.SetCoefficient(load, self.rate[w][i, b] / self.need[w][b, period])
        goal = solver.Objective()
        goal.SetMaximization()
        goal.SetCoefficient(part, 1.0)
        if solver.Solve() != pywraplp.Solver.OPTIMAL or part.solution_value() >= 1.0 - slack:
            return None
        y = np.zeros(len(served))
        for b, row in rows.items():
            y[b] = max(0.0, -row.dual_value()) / self.need[w][b, period]
        return y

    def most(self, w: int) -> Floats:
        """Replicas of each of `kinds[w]` that serve all there is alone, by period; 0 where they cannot [kinds, periods]."""
        with np.errstate(divide="ignore", invalid="ignore"):
            each = self.need[w][None, :, :] / self.rate[w][:, :, None]
        alone = np.ceil(np.where(self.need[w][None, :, :] > 0, each, 0.0).sum(axis=1) * (1 + 1e-9))
        return np.asarray(alone, float)
