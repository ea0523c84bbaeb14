"""The rows of a counts model as a mixed-integer program for HiGHS, which is the quicker at small parts of it.

What HiGHS finds is a proposal in whole numbers, which the exact model checks.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from ortools.math_opt.python import mathopt

from solver.counts.model import CountsModel

Ints = NDArray[np.int64]
Row = tuple[list[int], list[int], float, float]
"""Columns, factors, least and most."""
LARGEST = 1e15
"""Bounds of rows beyond this are none."""
LARGEST_COST = 1000.0
"""The dearest column after scaling."""
ENDED = (mathopt.TerminationReason.OPTIMAL, mathopt.TerminationReason.INFEASIBLE)


@dataclass(frozen=True)
class Answer:
    """Values by number of the variable (None: no point found), the objective, its bound, and whether the search ended by itself."""

    values: dict[int, float] | None
    objective: float
    bound: float
    closed: bool


class Program:
    """Columns of the model, all or those of one load period with the commitments, and the rows on them; grows with the model's.

    Raises
    ------
    NotImplementedError
        For a constraint that is no linear row.
    """

    def __init__(self, counts: CountsModel, period: int | None = None) -> None:
        self._counts = counts
        self._rows = 0
        self._period = period
        proto = counts.model.proto
        self._model = mathopt.Model()
        top = counts.tops()
        inside = range(len(proto.variables)) if period is None else counts.columns_of(period)
        self._low: dict[int, int] = {}
        self._high: dict[int, int] = {}
        self._columns: dict[int, mathopt.Variable] = {}
        for i in inside:
            domain = proto.variables[i].domain
            self._low[i] = int(domain[0])
            self._high[i] = min(int(domain[len(domain) - 1]), top.get(i, 1 << 60))
            self._columns[i] = self._model.add_integer_variable(lb=self._low[i], ub=self._high[i])
        self._cost = {v: float(c) for v, c in counts.cost.items() if v in self._columns}
        self._offset = float(proto.objective.offset) if period is None else 0.0
        self._scale = max(1.0, max((abs(c) for c in self._cost.values()), default=0.0) / LARGEST_COST)
        self._cutoff = self._model.add_linear_constraint(lb=-math.inf, ub=math.inf)
        self.price(self._cost)
        self._fixed: list[int] = []
        self.grow_safely()

    def price(self, cost: Mapping[int, float]) -> None:
        """Set the cost of columns; the rest costs nothing."""
        self._cost = {v: c for v, c in cost.items() if v in self._columns}
        for v, column in self._columns.items():
            each = self._cost.get(v, 0.0) / self._scale
            self._model.objective.set_linear_coefficient(column, each)
            self._cutoff.set_coefficient(column, each)

    def grow(self) -> None:
        """Take in the rows that the model got since."""
        constraints = self._counts.model.proto.constraints
        for i in range(self._rows, len(constraints)):
            for columns, factors, low, high in rows_of(constraints[i], self._counts.model.proto):
                if self._period is not None and not all(v in self._columns for v in columns):
                    continue
                largest = max((abs(f) for f in factors), default=1)
                row = self._model.add_linear_constraint(lb=low / largest, ub=high / largest)
                for v, f in zip(columns, factors, strict=True):
                    row.set_coefficient(self._columns[v], f / largest)
        self._rows = len(constraints)

    def grow_safely(self) -> None:
        """As `grow`, while other threads may add rows."""
        with self._counts.lock:
            self.grow()

    def fix(self, values: Mapping[int, int]) -> None:
        """Hold columns at values; all others are free again."""
        for v in self._fixed:
            self._columns[v].lower_bound, self._columns[v].upper_bound = self._low[v], self._high[v]
        self._fixed = [v for v in values if v in self._columns]
        for v in self._fixed:
            self._columns[v].lower_bound = self._columns[v].upper_bound = values[v]

    def solve(
        self,
        time_limit_s: float,
        *,
        cutoff: float = math.inf,
        gap: float = 1e-3,
        slack: float = 0.0,
        hint: Mapping[int, float] | None = None,
    ) -> Answer:
        """Search for the best whole point no dearer than `cutoff`; `gap` (relative) or `slack` (absolute) above it will do."""
        self._cutoff.upper_bound = (cutoff - self._offset) / self._scale
        parameters = mathopt.SolveParameters(
            time_limit=datetime.timedelta(seconds=max(0.02, time_limit_s)),
            relative_gap_tolerance=gap,
            absolute_gap_tolerance=slack / self._scale,
        )
        extra = mathopt.ModelSolveParameters()
        if hint is not None:
            known = {self._columns[v]: float(x) for v, x in hint.items() if v in self._columns}
            extra = mathopt.ModelSolveParameters(solution_hints=[mathopt.SolutionHint(variable_values=known)])
        result = self._solved(parameters, extra)
        bound = result.termination.objective_bounds.dual_bound * self._scale + self._offset
        closed = result.termination.reason in ENDED
        if not result.has_primal_feasible_solution():
            return Answer(None, math.inf, bound, closed)
        found = zip(self._columns, result.variable_values(list(self._columns.values())), strict=True)
        values = {v: float(round(x)) for v, x in found}
        objective = sum(c * values[v] for v, c in self._cost.items()) + self._offset
        return Answer(values, objective, bound, closed)

    def _solved(self, parameters: mathopt.SolveParameters, extra: mathopt.ModelSolveParameters) -> mathopt.SolveResult:
        """SCIP settles small programs of all periods sooner than HiGHS; what its interface cannot report goes to HiGHS."""
        if self._counts.small and self._period is None:
            try:
                return mathopt.solve(self._model, mathopt.SolverType.GSCIP, params=parameters, model_params=extra)
            except (AttributeError, RuntimeError, ValueError):
                # E.g. a point found within tolerance of a cutoff that nothing meets: an error, not a result.
                pass
        return mathopt.solve(self._model, mathopt.SolverType.HIGHS, params=parameters, model_params=extra)

    def relaxed(self, time_limit_s: float) -> Answer:
        """Optimum of the relaxation, with no bound where there is none in time."""
        for column in self._columns.values():
            column.integer = False
        self._cutoff.upper_bound = math.inf
        parameters = mathopt.SolveParameters(time_limit=datetime.timedelta(seconds=max(0.02, time_limit_s)))
        result = mathopt.solve(self._model, mathopt.SolverType.HIGHS, params=parameters)
        for column in self._columns.values():
            column.integer = True
        if result.termination.reason != mathopt.TerminationReason.OPTIMAL:
            infeasible = result.termination.reason == mathopt.TerminationReason.INFEASIBLE
            return Answer(None, math.inf, math.inf if infeasible else -math.inf, infeasible)
        found = zip(self._columns, result.variable_values(list(self._columns.values())), strict=True)
        value = result.objective_value() * self._scale + self._offset
        return Answer(dict(found), value, value, True)


def rows_of(constraint: object, proto: object) -> list[Row]:
    """Columns, factors and bounds of the rows that say what a constraint of a model does.

    A row that only holds where literals do is let go by as much as its columns can miss it by, where one of them does not.

    Parameters
    ----------
    proto
        The model, for the bounds of its variables.

    Raises
    ------
    NotImplementedError
        For a constraint that rows cannot say.
    """
    c = constraint
    # A literal that must hold for the constraint to count stands for 1 less than itself where it does not.
    unless = [-x - 1 for x in c.enforcement_literal]  # type: ignore[attr-defined]
    if c.has_linear():  # type: ignore[attr-defined]
        linear = c.linear  # type: ignore[attr-defined]
        terms = list(zip(linear.vars, linear.coeffs, strict=True))
        low, high = float(linear.domain[0]), float(linear.domain[len(linear.domain) - 1])
        if len(linear.domain) > 2:
            raise NotImplementedError("a rule of the model has gaps")
        low, high = (low if low > -LARGEST else -math.inf), (high if high < LARGEST else math.inf)
        return _let_go(_row(terms, low, high), unless, proto) if unless else [_row(terms, low, high)]
    if c.has_bool_and():  # type: ignore[attr-defined]
        return [_literals([x, *unless], 1.0, math.inf) for x in c.bool_and.literals]  # type: ignore[attr-defined]
    if c.has_bool_or():  # type: ignore[attr-defined]
        return [_literals([*c.bool_or.literals, *unless], 1.0, math.inf)]  # type: ignore[attr-defined]
    if unless:
        raise NotImplementedError("a rule of the model is no linear row")
    if c.has_exactly_one():  # type: ignore[attr-defined]
        return [_literals(list(c.exactly_one.literals), 1.0, 1.0)]  # type: ignore[attr-defined]
    if c.has_at_most_one():  # type: ignore[attr-defined]
        return [_literals(list(c.at_most_one.literals), -math.inf, 1.0)]  # type: ignore[attr-defined]
    raise NotImplementedError("a rule of the model is no linear row")


def _literals(literals: list[int], least: float, most: float) -> Row:
    """So many of the literals hold; a negated one is 1 less its variable."""
    negated = sum(x < 0 for x in literals)
    return _row(((x, 1) if x >= 0 else (-x - 1, -1) for x in literals), least - negated, most - negated)


def _row(terms: Iterable[tuple[int, int]], low: float, high: float) -> Row:
    """A row with every column once."""
    factors: dict[int, int] = {}
    for v, f in terms:
        factors[v] = factors.get(v, 0) + f
    return list(factors), list(factors.values()), low, high


def _let_go(row: Row, unless: list[int], proto: object) -> list[Row]:
    """A row that holds unless one of the literals does, as one for each of its sides."""
    columns, factors, low, high = row
    ends = [(d[0], d[len(d) - 1]) for d in (proto.variables[v].domain for v in columns)]  # type: ignore[attr-defined]
    least = sum(f * (a if f > 0 else b) for f, (a, b) in zip(factors, ends, strict=True))
    most = sum(f * (b if f > 0 else a) for f, (a, b) in zip(factors, ends, strict=True))
    free, signs, negated, _ = _literals(unless, 0.0, 0.0)
    out: list[Row] = []
    if math.isfinite(low) and low > least:
        short = round(low - least)
        terms = [*zip(columns, factors, strict=True), *((v, short * f) for v, f in zip(free, signs, strict=True))]
        out.append(_row(terms, low + short * negated, math.inf))
    if math.isfinite(high) and high < most:
        over = round(most - high)
        terms = [*zip(columns, factors, strict=True), *((v, -over * f) for v, f in zip(free, signs, strict=True))]
        out.append(_row(terms, -math.inf, high - over * negated))
    return out
