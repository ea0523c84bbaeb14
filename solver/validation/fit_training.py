"""Fit the training efficiencies: a linear model of the logarithm, least absolute deviation, few coefficients.

ln(measured x time per token at full peak) = ln(base of class and precision) + sum of coefficient x feature. Solved by
reweighted least squares; a weak pull (towards a common base, and coefficients towards zero) keeps what one or two rows
say within bounds. Coefficients that could only describe a loss may not come out as a gain: they are dropped to zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

from catalogs.catalog import Catalog
from solver.features.throughput_training import FEATURES, compute_precision, with_terms
from solver.validation.training_rate_cases import training_cases

MEDIAN_EFFICIENCY: Final = 0.38
BASE_PULL: Final = 0.15
FACTOR_PULL: Final = 0.2
SOFTENING: Final = 0.15
"""Deviation [log] under which the loss is quadratic: the median matters, and the tail does too."""
ROUNDS: Final = 60
LOSSES: Final = frozenset(FEATURES) - {"size"}
"""Features whose coefficient may only lower the efficiency."""


@dataclass(frozen=True)
class TrainingFit:
    """Base efficiencies by (class, precision), coefficients by feature, and errors of cases left out."""

    bases: dict[tuple[str, str], float]
    factors: dict[str, float]
    errors: pl.DataFrame


def training_frame(rows: pl.DataFrame, catalog: Catalog) -> pl.DataFrame:
    """Cases with a rate, a class and the terms of the model; `target` is the log of the efficiency that was reached."""
    provenance = ["source", "as_of", "confidence", "notes"]
    cases = training_cases(rows, catalog)
    return with_terms(
        cases.filter(pl.col("reason").is_null() & pl.col("measured").is_not_null())
        .join(catalog.accelerators.drop(provenance), on="accelerator", how="left", suffix="_card")
        .join(catalog.speed_classes.select("accelerator", "training_class"), on="accelerator", how="left")
        .filter(pl.col("training_class").is_not_null())
        .with_columns(_precision=compute_precision())
    ).with_columns(target=(pl.col("measured") * pl.col("_s_per_token")).log())


def fit_training(frame: pl.DataFrame, *, folds: int = 10) -> TrainingFit:
    """Fit bases and coefficients; errors are those of folds left out (folds by case)."""
    frame = frame.with_columns(_fold=pl.col("case_id").hash(seed=3) % folds)
    bases, factors = _fit(frame)
    unseen = []
    for fold in range(folds):
        held = frame.filter(pl.col("_fold") == fold)
        if held.is_empty():
            continue
        b, f = _fit(frame.filter(pl.col("_fold") != fold))
        unseen.append(_scored(held, b, f))
    return TrainingFit(bases, factors, pl.concat(unseen))


def _scored(frame: pl.DataFrame, bases: dict[tuple[str, str], float], factors: dict[str, float]) -> pl.DataFrame:
    known = pl.DataFrame(
        [{"training_class": c, "_precision": p, "_ln": math.log(v)} for (c, p), v in bases.items()],
        schema={"training_class": pl.String, "_precision": pl.String, "_ln": pl.Float64},
    )
    exponent = pl.sum_horizontal(pl.col(f"_x_{name}") * value for name, value in factors.items())
    return frame.join(known, on=["training_class", "_precision"], how="left").select(
        "case_id",
        "training_class",
        "_precision",
        error=(pl.col("_ln").fill_null(math.log(MEDIAN_EFFICIENCY)) + exponent - pl.col("target")),
    )


def _fit(frame: pl.DataFrame) -> tuple[dict[tuple[str, str], float], dict[str, float]]:
    cells = sorted({(c, p) for c, p in frame.select("training_class", "_precision").iter_rows()})
    names = [n for n in FEATURES if frame[f"_x_{n}"].abs().sum() > 0]
    while True:
        solution = _solve(frame, cells, names)
        wrong = [n for n, v in zip(names, solution[len(cells) :], strict=True) if n in LOSSES and v > 0]
        if not wrong:
            break
        names = [n for n in names if n not in wrong]
    bases = {cell: math.exp(v) for cell, v in zip(cells, solution, strict=False)}
    return bases, dict(zip(names, solution[len(cells) :], strict=True))


def _solve(frame: pl.DataFrame, cells: Sequence[tuple[str, str]], names: Sequence[str]) -> list[float]:
    """Reweighted least squares with a pull; rows are sparse: one cell and the features."""
    place = {cell: i for i, cell in enumerate(cells)}
    columns = frame.select("training_class", "_precision", "target", *(f"_x_{n}" for n in names))
    rows = [(place[(r[0], r[1])], r[2], r[3:]) for r in columns.iter_rows()]
    first = len(cells)
    size = first + len(names)
    start = math.log(MEDIAN_EFFICIENCY)
    solution = [start] * first + [0.0] * len(names)
    weights = [1.0] * len(rows)
    for _ in range(ROUNDS):
        matrix = [[0.0] * size for _ in range(size)]
        right = [0.0] * size
        for i in range(size):
            pull = BASE_PULL if i < first else FACTOR_PULL
            matrix[i][i] = pull
            right[i] = pull * (start if i < first else 0.0)
        for (cell, target, xs), w in zip(rows, weights, strict=True):
            entries = [(cell, 1.0), *((first + j, x) for j, x in enumerate(xs) if x != 0.0)]
            for i, a in entries:
                right[i] += w * a * target
                for j, b in entries:
                    matrix[i][j] += w * a * b
        solution = _gauss(matrix, right)
        weights = [
            0.1 / max(SOFTENING, abs(target - solution[cell] - sum(x * solution[first + j] for j, x in enumerate(xs))))
            for cell, target, xs in rows
        ]
    return solution


def _gauss(matrix: list[list[float]], right: list[float]) -> list[float]:
    """Solve a positive definite system by elimination."""
    n = len(right)
    for i in range(n):
        for k in range(i + 1, n):
            factor = matrix[k][i] / matrix[i][i]
            if factor == 0.0:
                continue
            for j in range(i, n):
                matrix[k][j] -= factor * matrix[i][j]
            right[k] -= factor * right[i]
    x = [0.0] * n
    for i in reversed(range(n)):
        x[i] = (right[i] - sum(matrix[i][j] * x[j] for j in range(i + 1, n))) / matrix[i][i]
    return x
