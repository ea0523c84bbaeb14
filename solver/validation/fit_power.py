"""Fit cap curves and watts by phase to measured rows: few knots, least absolute deviation, never falling with power."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import polars as pl

from catalogs.catalog import Catalog
from solver.features.power import PHASES
from solver.validation.validate_speed import power_frame

KNOTS: Final = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
LEAST_ROWS: Final = 2
SMOOTH: Final = 0.02
"""Weight of bends, so that a knot between two measured ones lies near their line."""
ROUNDS: Final = 60
FOLDS: Final = 5
GENERIC: Final = "generic"


def fit_curves(rows: pl.DataFrame, catalog: Catalog, *, source: str, as_of: str) -> pl.DataFrame:
    """Refit `power_curves`: one curve per power class and phase measured, and one `generic` per phase over all classes.

    A phase that no class was measured in takes the prefill shape (compute-bound), or what there is of `mixed`.
    """
    frame = power_frame(rows, catalog).filter(
        pl.col("power_class").is_not_null()
        & ~pl.col("load_curve")
        & ~pl.col("lock")
        & pl.col("relative").is_not_null()
        & pl.col("power_limit_w").is_not_null()
        & (pl.col("power_basis") == "same")
    )
    points: dict[tuple[str, str], list[tuple[float, float, float]]] = {}
    for r in frame.iter_rows(named=True):
        reference = min(1.0, (r["reference_w"] or r["tdp_w"]) / r["tdp_w"])
        point = (min(1.0, r["power_limit_w"] / r["tdp_w"]), reference, r["relative"])
        points.setdefault((r["power_class"], r["phase"]), []).append(point)
    table = []
    for (name, phase), rows_ in sorted(points.items()):
        if len({round(x, 2) for x, _, _ in rows_}) >= LEAST_ROWS:
            table += _rows(name, phase, rows_)
    for phase in PHASES:
        pooled = [p for (_, found), ps in points.items() if found == phase for p in ps]
        if pooled:
            table += _rows(GENERIC, phase, pooled)
    if not table:
        return catalog.power_curves.clear()
    return pl.DataFrame(table).with_columns(
        source=pl.lit(source), as_of=pl.lit(as_of), confidence=pl.lit("derived"), notes=pl.lit(None, pl.String)
    )


def _rows(name: str, phase: str, points: Sequence[tuple[float, float, float]]) -> list[dict[str, object]]:
    lowest = min(x for x, _, _ in points)
    knots = [k for k in KNOTS if k >= lowest - 0.051] or [1.0]
    values = _curve(knots, points)
    errors = []
    for fold in range(FOLDS):
        held = [p for i, p in enumerate(points) if i % FOLDS == fold]
        rest = [p for i, p in enumerate(points) if i % FOLDS != fold]
        if held and rest:
            v = _curve(knots, rest)
            errors += [abs(_relative(knots, v, x, ref) - y) for x, ref, y in held]
    errors.sort()
    return [
        {
            "power_class": name,
            "phase": phase,
            "cap_share": k,
            "relative_throughput": round(v, 3),
            "n": len(points),
            "cv_median_abs": round(errors[len(errors) // 2], 3),
            "cv_p90_abs": round(errors[math.ceil(0.9 * len(errors)) - 1], 3),
        }
        for k, v in zip(knots, values, strict=True)
    ]


def _relative(knots: Sequence[float], values: Sequence[float], x: float, reference: float) -> float:
    return _at(knots, values, x) / max(1e-6, _at(knots, values, reference))


def _at(knots: Sequence[float], values: Sequence[float], x: float) -> float:
    if x <= knots[0]:
        return values[0] * x / knots[0]
    for (x0, y0), (x1, y1) in pairwise(zip(knots, values, strict=True)):
        if x <= x1:
            return y0 + (y1 - y0) * (x - x0) / (x1 - x0)
    return values[-1]


def _curve(knots: Sequence[float], points: Sequence[tuple[float, float, float]]) -> list[float]:
    """Coordinate search of the knots' values; the last is 1, none above the next."""
    values = [min(1.0, 0.35 + 0.75 * k) for k in knots]
    values[-1] = 1.0

    def loss() -> float:
        fit = sum(abs(_relative(knots, values, x, ref) - y) for x, ref, y in points) / len(points)
        bends = sum(abs(a - 2 * b + c) for a, b, c in zip(values, values[1:], values[2:], strict=False))
        return fit + SMOOTH * bends

    step = 0.1
    for _ in range(ROUNDS):
        for i in range(len(values) - 1):
            best, kept = loss(), values[i]
            for move in (-step, step, -step / 3, step / 3):
                low = values[i - 1] if i else 0.02
                values[i] = min(values[i + 1], max(low, kept + move))
                now = loss()
                if now < best - 1e-9:
                    best, kept = now, values[i]
            values[i] = kept
        step *= 0.9
    return values


def fit_watts(rows: pl.DataFrame, catalog: Catalog, *, source: str, as_of: str) -> pl.DataFrame:
    """Refit `power_phases`: watts at full load per class and phase from uncapped rows, low and gamma from load curves.

    Phases without a measurement and the idle and host shares stay as they stand in the catalogue.
    """
    frame = power_frame(rows, catalog).filter(
        pl.col("power_class").is_not_null() & pl.col("watts").is_not_null() & ~pl.col("lock")
    )
    found = []
    for (name, phase, loaded), part in sorted(
        frame.partition_by("power_class", "phase", "load_curve", as_dict=True).items()
    ):
        share = (part["watts"] / part["tdp_w"]).to_list()
        if loaded:
            loads = part["relative"].to_list()
            low, full, gamma, errors = _load_curve(loads, share)
        else:
            # Uncapped, or capped above what the card draws: the drawn watts, not the limit.
            free = [
                s
                for s, limit, tdp in zip(share, part["power_limit_w"].to_list(), part["tdp_w"].to_list(), strict=True)
                if limit is not None and limit >= 0.95 * tdp
            ]
            if len(free) < LEAST_ROWS:
                continue
            middle = min(1.0, sorted(free)[len(free) // 2])
            errors = sorted(abs(middle / s - 1.0) for s in free)
            low, full, gamma = 0.75 * middle, middle, 0.5
        found.append(
            {
                "power_class": name,
                "phase": phase,
                "low": round(low, 3),
                "full": round(full, 3),
                "gamma": round(gamma, 3),
                "n": len(share),
                "cv_median_abs_rel": round(errors[len(errors) // 2], 3),
                "cv_p90_abs_rel": round(errors[math.ceil(0.9 * len(errors)) - 1], 3),
                "source": source,
                "as_of": as_of,
                "confidence": "derived",
                "notes": None,
            }
        )
    new = pl.DataFrame(found, schema=catalog.power_phases.schema)
    kept = catalog.power_phases.join(new, on=["power_class", "phase"], how="anti")
    return pl.concat([new, kept]).sort("power_class", "phase")


def _load_curve(loads: Sequence[float], share: Sequence[float]) -> tuple[float, float, float, list[float]]:
    """Least absolute relative deviation of low + (full - low) x load^gamma over a grid."""
    best = (float("inf"), 0.0, 0.0, 0.0)
    for low in (x / 100 for x in range(30, 85, 2)):
        for full in (x / 100 for x in range(50, 101, 2)):
            for gamma in (0.2, 0.35, 0.5, 0.7, 1.0):
                loss = sum(abs((low + (full - low) * x**gamma) / s - 1.0) for x, s in zip(loads, share, strict=True))
                if full >= low and loss < best[0]:
                    best = (loss, low, full, gamma)
    _, low, full, gamma = best
    errors = sorted(abs((low + (full - low) * x**gamma) / s - 1.0) for x, s in zip(loads, share, strict=True))
    return low, full, gamma, errors
