"""The linear relaxation of a whole model, whatever rules it has: a bound that holds, and what each variable costs beyond it.

Read off the built model: its linear rows (those that hold only where a literal is true, and intervals, are left out), solved by
GLOP. Whatever the duals y, with reduced costs d = c - A'y,

    bound = sum_i min over [low_i, high_i] of y_i r + sum_j min over [l_j, u_j] of d_j x

is no more than any plan's objective, so the bound does not lean on the precision of the simplex; what the sums themselves lose in
floating point is taken off. A plan with x_j >= 1 where d_j > 0 costs at least bound + d_j.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from ortools.linear_solver.python.model_builder_helper import (
    ModelBuilderHelper,
    ModelSolverHelper,
    SolveStatus,
    Variable,
)

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
    cost_scale = max(1.0, float(np.abs(m.cost).max(initial=0.0)))
    scale = np.zeros(len(m.least))
    np.maximum.at(scale, m.rows, np.abs(m.entries))
    scale[scale == 0] = 1.0
    solver = ModelSolverHelper("glop")
    solver.set_time_limit_in_seconds(max(0.001, time_limit_s))
    solver.solve(_program(m, scale, cost_scale))
    if solver.status() != SolveStatus.OPTIMAL:
        return None
    duals = np.array(solver.dual_values()) * cost_scale / scale
    return _bounded(m, duals, np.array(solver.variable_values()))


def _program(m: _Matrix, scale: Floats, cost_scale: float) -> ModelBuilderHelper:
    """The program for the simplex, each row divided by its scale: row by row, which takes a third of the time of term by term."""
    program = ModelBuilderHelper()
    tops = np.where(m.high >= WIDE, math.inf, m.high)
    for low, high, cost in zip(m.low.tolist(), tops.tolist(), (m.cost / cost_scale).tolist(), strict=True):
        j = program.add_var()
        program.set_var_lower_bound(j, low)
        program.set_var_upper_bound(j, high)
        if cost:
            program.set_var_objective_coefficient(j, cost)
    x = [Variable(program, j) for j in range(len(m.cost))]
    first = np.searchsorted(m.rows, np.arange(len(m.least) + 1)).tolist()
    least = np.where(m.least <= -ENDLESS, -math.inf, m.least / scale).tolist()
    most = np.where(m.most >= ENDLESS, math.inf, m.most / scale).tolist()
    columns, entries = [x[j] for j in m.columns.tolist()], (m.entries / scale[m.rows]).tolist()
    for (begin, end), low, high in zip(pairwise(first), least, most, strict=True):
        row = program.add_linear_constraint()
        program.set_constraint_lower_bound(row, low)
        program.set_constraint_upper_bound(row, high)
        program.add_terms_to_constraint(row, columns[begin:end], entries[begin:end])
    return program


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
    domains = [_ends(v.domain) for v in proto.variables]
    cost = np.zeros(len(domains))
    cost[list(proto.objective.vars)] = list(proto.objective.coeffs)
    sizes: list[int] = []
    columns: list[int] = []
    entries: list[int] = []
    least: list[int] = []
    most: list[int] = []
    for c in proto.constraints:
        before = len(columns)
        if len(c.enforcement_literal):
            if not c.has_bool_and():
                continue
            # An implication a -> b is b - a >= 0; literals that are negated (below zero) are left out.
            literals = [*c.enforcement_literal, *c.bool_and.literals]
            if len(literals) != 2 or min(literals) < 0:
                continue
            columns += literals
            entries += [-1, 1]
            side = (0, 1)
        elif c.has_linear():
            # Lists that the solver keeps are slow to read; once each.
            columns.extend(c.linear.vars)
            entries.extend(c.linear.coeffs)
            side = _ends(c.linear.domain)
        elif c.has_exactly_one() and min(literals := list(c.exactly_one.literals), default=-1) >= 0:
            columns += literals
            entries += [1] * len(literals)
            side = (1, 1)
        else:
            continue
        if len(columns) > before:
            sizes.append(len(columns) - before)
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


def _ends(domain: Sequence[int]) -> tuple[int, int]:
    """First and last number of a domain; the solver's lists do not count from the end."""
    return domain[0], domain[len(domain) - 1]
