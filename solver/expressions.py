"""Small expressions that all rules of the model share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ortools.sat.python import cp_model

Expr = cp_model.LinearExpr


def total(terms: Iterable[Any]) -> Expr:
    """Sum of linear terms as an expression, also where there are none."""
    return cp_model.LinearExpr.sum([*terms, 0])


def required(demand: int) -> int:
    """What must be covered of a scaled demand: all of it less the coverage slack (COVERAGE_SLACK, relative)."""
    return demand - demand // 1_000_000
