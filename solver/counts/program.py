"""The rows of a counts model as a mixed-integer program for HiGHS, which is the quicker at small parts of it.

What HiGHS finds is a proposal in whole numbers, which the exact model checks; its bounds are not used.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from ortools.math_opt.python import mathopt

from solver.counts.model import CountsModel

Ints = NDArray[np.int64]
LARGEST = 1e15
"""Bounds of rows beyond this are none."""
LARGEST_COST = 1000.0
"""The dearest column after scaling."""


@dataclass(frozen=True)
class Proposal:
    """Whole values of all variables, or None; whether the search ran to its end."""

    solution: list[int] | None
    closed: bool


class Program:
    """A copy of the model that grows with its rows.

    Raises
    ------
    NotImplementedError
        For a constraint that is no linear row.
    """

    def __init__(self, counts: CountsModel) -> None:
        self._counts = counts
        self._rows = 0
        proto = counts.model.proto
        self._model = mathopt.Model()
        top = counts.tops()
        self._low = [int(v.domain[0]) for v in proto.variables]
        self._high = [min(int(v.domain[len(v.domain) - 1]), top.get(i, 1 << 60)) for i, v in enumerate(proto.variables)]
        pairs = zip(self._low, self._high, strict=True)
        self._columns = [self._model.add_integer_variable(lb=low, ub=high) for low, high in pairs]
        cost = np.zeros(len(self._columns))
        for v, c in zip(proto.objective.vars, proto.objective.coeffs, strict=True):
            cost[v] += c
        self._offset = float(proto.objective.offset)
        self._scale = max(1.0, float(np.max(np.abs(cost), initial=0.0)) / LARGEST_COST)
        for v in np.flatnonzero(cost).tolist():
            self._model.objective.set_linear_coefficient(self._columns[v], cost[v] / self._scale)
        self._model.objective.is_maximize = False
        self._cutoff = self._model.add_linear_constraint(lb=-math.inf, ub=math.inf)
        for v in np.flatnonzero(cost).tolist():
            self._cutoff.set_coefficient(self._columns[v], cost[v] / self._scale)
        self._fixed: list[int] = []
        self.grow()

    def grow(self) -> None:
        """Take in the rows that the model got since."""
        constraints = self._counts.model.proto.constraints
        for i in range(self._rows, len(constraints)):
            columns, factors, low, high = _row(constraints[i])
            largest = max((abs(f) for f in factors), default=1)
            row = self._model.add_linear_constraint(lb=low / largest, ub=high / largest)
            for v, f in zip(columns, factors, strict=True):
                row.set_coefficient(self._columns[v], f / largest)
        self._rows = len(constraints)

    def search(self, fixed: Ints, best: Sequence[int], cutoff: float, time_limit_s: float) -> Proposal:
        """Look for a point no dearer than `cutoff` with the values of `best` in `fixed`; `best` itself may break newer rows."""
        for v in self._fixed:
            self._columns[v].lower_bound, self._columns[v].upper_bound = self._low[v], self._high[v]
        self._fixed = fixed.tolist()
        for v in self._fixed:
            self._columns[v].lower_bound = self._columns[v].upper_bound = best[v]
        self._cutoff.upper_bound = (cutoff - self._offset) / self._scale
        parameters = mathopt.SolveParameters(
            time_limit=datetime.timedelta(seconds=max(0.02, time_limit_s)), relative_gap_tolerance=1e-3
        )
        result = mathopt.solve(self._model, mathopt.SolverType.HIGHS, params=parameters)
        reason = result.termination.reason
        closed = reason not in (mathopt.TerminationReason.FEASIBLE, mathopt.TerminationReason.NO_SOLUTION_FOUND)
        if not result.has_primal_feasible_solution():
            return Proposal(None, closed)
        return Proposal([round(x) for x in result.variable_values(self._columns)], closed)


    def relaxed(self, time_limit_s: float) -> list[float] | None:
        """Values of the relaxation's optimum; None where there is none in time."""
        for column in self._columns:
            column.integer = False
        parameters = mathopt.SolveParameters(time_limit=datetime.timedelta(seconds=time_limit_s))
        result = mathopt.solve(self._model, mathopt.SolverType.HIGHS, params=parameters)
        for column in self._columns:
            column.integer = True
        optimal = result.termination.reason == mathopt.TerminationReason.OPTIMAL
        return list(result.variable_values(self._columns)) if optimal else None


def _row(constraint: object) -> tuple[list[int], list[int], float, float]:
    """Columns, factors and bounds of a constraint of the model."""
    c = constraint
    if c.has_linear() and not len(c.enforcement_literal):  # type: ignore[attr-defined]
        linear = c.linear  # type: ignore[attr-defined]
        low, high = float(linear.domain[0]), float(linear.domain[len(linear.domain) - 1])
        return (
            list(linear.vars),
            list(linear.coeffs),
            low if low > -LARGEST else -math.inf,
            high if high < LARGEST else math.inf,
        )
    if c.has_exactly_one():  # type: ignore[attr-defined]
        literals, least, most = list(c.exactly_one.literals), 1.0, 1.0  # type: ignore[attr-defined]
    elif c.has_bool_or():  # type: ignore[attr-defined]
        # An implication: one of its literals holds, or one that it rests on does not.
        literals = [*c.bool_or.literals, *(-x - 1 for x in c.enforcement_literal)]  # type: ignore[attr-defined]
        least, most = 1.0, math.inf
    else:
        raise NotImplementedError("a rule of the model is no linear row")
    negated = sum(x < 0 for x in literals)
    columns = [x if x >= 0 else -x - 1 for x in literals]
    return columns, [1 if x >= 0 else -1 for x in literals], least - negated, most - negated
