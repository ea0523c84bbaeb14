"""The linear relaxation of a whole model, whatever rules it has: a bound that holds, and what each variable costs beyond it.

Read off the built model: its linear rows (those that hold only where a literal is true, and intervals, are left out), solved by
GLOP. Whatever the duals y, with reduced costs d = c - A'y,

    bound = sum_i min over [low_i, high_i] of y_i r + sum_j min over [l_j, u_j] of d_j x

is no more than any plan's objective, so the bound does not lean on the precision of the simplex; what the sums themselves lose in
floating point is taken off. A plan with x_j >= 1 where d_j > 0 costs at least bound + d_j.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from ortools.linear_solver import pywraplp

from solver.model import PlanModel

Floats = NDArray[np.float64]
ENDLESS = 2.0**62
"""A side of a row from here on is no limit."""
WIDE = 1e12
"""A variable that may be so large has no limit in the simplex, which such numbers would upset."""
ROUNDING = 2.0**-50
"""Relative error of a term of a sum, with room to spare."""


@dataclass(frozen=True)
class Relaxation:
    """`bound` of the objective, and per variable of the model its reduced cost (rounded down) and value in the relaxation."""

    bound: float
    reduced: Floats
    values: Floats


@dataclass(frozen=True)
class _Matrix:
    low: Floats
    high: Floats
    cost: Floats
    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    entries: Floats
    least: Floats
    most: Floats
    given: float


def relaxed_model(built: PlanModel, time_limit_s: float) -> Relaxation | None:
    """Solve the linear relaxation of a model; None where it is not solved in time."""
    m = _matrix(built)
    solver = pywraplp.Solver.CreateSolver("GLOP")
    endless = solver.infinity()
    cost_scale = max(1.0, float(np.abs(m.cost).max(initial=0.0)))
    scale = np.zeros(len(m.least))
    np.maximum.at(scale, m.rows, np.abs(m.entries))
    scale[scale == 0] = 1.0
    tops = np.where(m.high >= WIDE, endless, m.high)
    x = [solver.NumVar(a, b, "") for a, b in zip(m.low.tolist(), tops.tolist(), strict=True)]
    rows = [
        solver.Constraint(-endless if a <= -ENDLESS else a / s, endless if b >= ENDLESS else b / s)
        for a, b, s in zip(m.least.tolist(), m.most.tolist(), scale.tolist(), strict=True)
    ]
    scaled = (m.entries / scale[m.rows]).tolist()
    for r, c, v in zip(m.rows.tolist(), m.columns.tolist(), scaled, strict=True):
        rows[r].SetCoefficient(x[c], v)
    goal = solver.Objective()
    goal.SetMinimization()
    for j in np.flatnonzero(m.cost).tolist():
        goal.SetCoefficient(x[j], float(m.cost[j]) / cost_scale)
    solver.SetTimeLimit(max(1, int(time_limit_s * 1000)))
    if solver.Solve() != pywraplp.Solver.OPTIMAL:
        return None
    duals = np.array([row.dual_value() for row in rows]) * cost_scale / scale
    return _bounded(m, duals, np.array([v.solution_value() for v in x]))


def _bounded(m: _Matrix, duals: Floats, values: Floats) -> Relaxation | None:
    """Bound and reduced costs of any duals, rounded against us."""
    y = np.where(((m.least <= -ENDLESS) & (duals > 0)) | ((m.most >= ENDLESS) & (duals < 0)), 0.0, duals)
    size = len(m.cost)
    paid = m.entries * y[m.rows]
    lost = ROUNDING * (np.abs(m.cost) + np.bincount(m.columns, np.abs(paid), size))
    # Terms of a column are few; each addition may lose once more.
    lost *= 1 + np.bincount(m.columns, minlength=size)
    d = m.cost - np.bincount(m.columns, paid, size)
    sides = np.where(y > 0, m.least, m.most)
    given = y * np.where(y == 0, 0.0, sides)
    floor = np.minimum((d - lost) * m.low, (d - lost) * m.high)
    floor = np.minimum(floor, np.minimum((d + lost) * m.low, (d + lost) * m.high))
    terms = np.concatenate([given, floor, [m.given]])
    bound = math.fsum(terms.tolist()) - ROUNDING * float(np.abs(terms).sum())
    return Relaxation(bound, d - 2 * lost, values) if math.isfinite(bound) else None


def _matrix(built: PlanModel) -> _Matrix:
    """Columns and unconditional linear rows of a model."""
    proto = built.model.proto
    domains = [list(v.domain) for v in proto.variables]
    cost = np.zeros(len(domains))
    cost[list(proto.objective.vars)] = list(proto.objective.coeffs)
    sizes: list[int] = []
    columns: list[int] = []
    entries: list[int] = []
    least: list[int] = []
    most: list[int] = []
    for c in proto.constraints:
        if len(c.enforcement_literal):
            if not c.has_bool_and():
                continue
            # An implication a -> b is b - a >= 0; literals that are negated (below zero) are left out.
            literals = [*c.enforcement_literal, *c.bool_and.literals]
            if len(literals) != 2 or min(literals) < 0:
                continue
            names, factors, side = literals, [-1, 1], (0, 1)
        elif c.has_linear():
            names, factors = list(c.linear.vars), list(c.linear.coeffs)
            domain = list(c.linear.domain)
            side = (domain[0], domain[-1])
        elif c.has_exactly_one():
            names = list(c.exactly_one.literals)
            factors, side = [1] * len(names), (1, 1)
        else:
            continue
        if not names or min(names) < 0:
            continue
        sizes.append(len(names))
        columns += names
        entries += factors
        least.append(side[0])
        most.append(side[1])
    return _Matrix(
        low=np.array([d[0] for d in domains], float),
        high=np.array([d[-1] for d in domains], float),
        cost=cost,
        rows=np.repeat(np.arange(len(sizes)), sizes),
        columns=np.array(columns, np.int64),
        entries=np.array(entries, float),
        least=np.array(least, float),
        most=np.array(most, float),
        given=float(proto.objective.offset),
    )
