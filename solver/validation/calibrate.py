"""`kitout calibrate`: refit the constants of the speed models from measurement files, with cross-validated errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl

from catalogs.catalog import Catalog
from solver.features.speed_tables import SERVING_CONSTANTS
from solver.validation.fit_serving import BOUNDS, fit_serving
from solver.validation.fit_training import fit_training, training_frame
from solver.validation.serving_cases import serving_cases, serving_frame
from solver.validation.training_rate_cases import training_cases

LEAST_ROWS: Final = 8
"""A group with fewer measured rows keeps the constants it has."""

GENERIC: Final = {
    "e_weights": 0.80, "e_kv": 0.75, "e_compute": 0.45, "e_prefill": 0.55, "step_ms": 2.0, "layer_us": 10.0, "seq_us": 2.0,
    "hop_us": 20.0, "e_schedule": 0.97,
}  # fmt: skip
"""Where the search starts for a group without constants; middle values of what engines reach."""

ASSUMED_ERROR: Final = (0.30, 0.60)
"""Median and 90th percentile written for a group of one configuration, and for a kind derived from the other."""

UNTUNED: Final = ("gpustack", "dstack", "ascend_kimi")
"""Sources (prefix of case_id) measured on engines as installed or mis-set; a roofline of a tuned engine cannot follow."""


@dataclass(frozen=True)
class Calibration:
    """Refitted rows of `calibration_serving`, the cross-validated errors behind them, and what was left out."""

    table: pl.DataFrame
    errors: pl.DataFrame
    left_out: pl.DataFrame


def read_measurements(paths: Sequence[Path]) -> pl.DataFrame:
    """Read measurement CSVs into one frame of text columns.

    Raises
    ------
    ValueError
        A file cannot be read, or lacks one of case_id, model, gpu, engine; names the file.
    """
    frames = []
    for path in paths:
        try:
            frame = pl.read_csv(path, infer_schema=False)
        except (OSError, pl.exceptions.PolarsError) as error:
            raise ValueError(f"{path}: not a readable CSV ({error})") from error
        lacking = [c for c in ("case_id", "model", "gpu") if c not in frame.columns]
        if lacking:
            raise ValueError(f"{path}: column missing: {', '.join(lacking)}")
        frames.append(frame)
    rows = pl.concat(frames, how="diagonal")
    return rows.with_columns(
        pl.when(pl.col(c).str.strip_chars() == "").then(None).otherwise(pl.col(c).str.strip_chars()).alias(c)
        for c in rows.columns
    )


def serving_rows(
    catalog: Catalog, rows: pl.DataFrame, exclude: Sequence[str] = UNTUNED
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Rows that the serving constants can be fitted on, with their class and kind, and what is left out and why."""
    cases = serving_cases(rows, catalog)
    excluded = pl.any_horizontal(pl.lit(False), *(pl.col("case_id").str.starts_with(p) for p in exclude))
    no_class = pl.lit("no speed class")
    frame = serving_frame(cases.filter(~excluded), catalog).join(
        catalog.speed_classes.select("accelerator", speed_class="serving_class"), on="accelerator", how="left"
    )
    usable = pl.col("speed_class").is_not_null() & (pl.col("kv_pool_gib_per_gpu") > 0) & (pl.col("mode") != "server")
    left_out = pl.concat(
        [
            cases.filter(pl.col("reason").is_not_null()).select("case_id", "reason"),
            cases.filter(excluded & pl.col("reason").is_null()).select("case_id", reason=pl.lit("source left out")),
            frame.filter(~usable).select(
                "case_id",
                reason=pl.when(pl.col("speed_class").is_null())
                .then(no_class)
                .when(pl.col("mode") == "server")
                .then(pl.lit("latency-limited: depends on the limits, not only on the constants"))
                .otherwise(pl.lit("the memory model says it does not fit")),
            ),
        ]
    ).unique("case_id", keep="first", maintain_order=True)
    frame = frame.filter(usable).with_columns(
        kind=pl.when("moe").then(pl.lit("moe")).otherwise(pl.lit("dense")),
        # Under a closed loop of clients TTFT is queueing, which says nothing of the constants.
        ttft_ms=pl.when((pl.col("mode") == "batch") & (pl.col("concurrency") > 1)).then(None).otherwise("ttft_ms"),
    )
    return frame, left_out


def calibrate_serving(
    catalog: Catalog,
    rows: pl.DataFrame,
    *,
    source: str,
    as_of: str,
    exclude: Sequence[str] = UNTUNED,
    iterations: int = 150,
    folds: int = 5,
    seed: int = 1,
    fold_by: str = "configuration",
) -> Calibration:
    """Refit `calibration_serving` from measured rows.

    Parameters
    ----------
    rows
        Measured rows (`read_measurements`).
    source, as_of
        Provenance written into the refitted rows.
    exclude
        Prefixes of case_id to leave out of the fit.
    iterations, folds, seed
        See `fit_serving`; one seed gives one result.

    Returns
    -------
    Calibration
        The whole table, groups without enough rows as they were.
    """
    frame, left_out = serving_rows(catalog, rows, exclude)
    groups = measured_groups(frame)
    start = _start(groups.select("speed_class", "engine", "kind", "n").sort("speed_class", "engine", "kind"))
    fit = fit_serving(
        frame,
        start,
        catalog.calibration_links,
        catalog.quantisation,
        iterations=iterations,
        folds=folds,
        seed=seed,
        fold_by=fold_by,
    )
    key = ["speed_class", "engine", "kind"]
    relative = (pl.col("error").exp() - 1.0).abs()
    quality = fit.errors.group_by(key).agg(
        cv_median_abs_rel=relative.median().round(3), cv_p90_abs_rel=relative.quantile(0.9).round(3)
    )
    alone = pl.col("cv_median_abs_rel").is_null()
    refitted = (
        fit.constants.select(*key, *SERVING_CONSTANTS)
        .join(groups, on=key)
        .join(quality, on=key, how="left")
        .with_columns(
            *(pl.col(c).round_sig_figs(3) for c in SERVING_CONSTANTS),
            source=pl.lit(source),
            as_of=pl.lit(as_of),
            confidence=pl.lit("derived"),
            notes=pl.when(alone).then(pl.lit("one configuration was measured: error assumed, not cross-validated")),
            n=pl.col("n").cast(pl.Int64),
        )
        .with_columns(
            cv_median_abs_rel=pl.col("cv_median_abs_rel").fill_null(ASSUMED_ERROR[0]),
            cv_p90_abs_rel=pl.col("cv_p90_abs_rel").fill_null(ASSUMED_ERROR[1]),
        )
        .select(catalog.calibration_serving.columns)
    )
    refitted = pl.concat([refitted, _other_kind(refitted)])
    kept = catalog.calibration_serving.filter(pl.col("n") > 0).join(refitted, on=key, how="anti")
    return Calibration(pl.concat([refitted, kept]).sort(key), fit.errors, left_out)


def measured_groups(frame: pl.DataFrame) -> pl.DataFrame:
    """Groups with enough rows, and what was measured in each: how many cases, which sizes of model, how long requests."""
    return (
        frame.group_by("speed_class", "engine", "kind")
        .agg(
            n=pl.col("case_id").n_unique(),
            params_least_b=pl.col("params_total_b").min().round_sig_figs(3),
            params_most_b=pl.col("params_total_b").max().round_sig_figs(3),
            tokens_most=(pl.col("isl") + pl.col("osl")).max().round(0),
        )
        .filter(pl.col("n") >= LEAST_ROWS)
    )


def _start(groups: pl.DataFrame) -> pl.DataFrame:
    """Every group starts from the same generic constants, so that a refit does not depend on what stood there before."""
    return groups.with_columns(pl.lit(v).alias(k) for k, v in GENERIC.items())


def _other_kind(fitted: pl.DataFrame) -> pl.DataFrame:
    """Rows for classes measured with dense models only (or MoE only): the fitted kind times the usual ratio.

    The ratio of each constant is the median over the classes where both kinds were fitted; efficiencies stay below 1.
    """
    key = ["speed_class", "engine"]
    sides = {k: fitted.filter(pl.col("kind") == k) for k in ("dense", "moe")}
    both = sides["dense"].join(sides["moe"], on=key, suffix="_moe")
    if both.is_empty():
        return fitted.head(0)
    made = []
    for have, want in (("dense", "moe"), ("moe", "dense")):
        ratio = {
            c: both.select((pl.col(f"{c}_moe") / pl.col(c)).median()).item() ** (1 if want == "moe" else -1)
            for c in SERVING_CONSTANTS
        }
        made.append(
            sides[have]
            .join(sides[want], on=key, how="anti")
            .with_columns(
                *((pl.col(c) * ratio[c]).clip(*BOUNDS[c]).round_sig_figs(3).alias(c) for c in SERVING_CONSTANTS),
                kind=pl.lit(want),
                n=pl.lit(0, pl.Int64),
                cv_median_abs_rel=pl.max_horizontal("cv_median_abs_rel", pl.lit(ASSUMED_ERROR[0])),
                cv_p90_abs_rel=pl.max_horizontal("cv_p90_abs_rel", pl.lit(ASSUMED_ERROR[1])),
                confidence=pl.lit("estimate"),
                notes=pl.lit(f"not measured: constants of {have} models times the ratio of classes with both kinds"),
            )
        )
    return pl.concat(made)


def calibrate_training(catalog: Catalog, rows: pl.DataFrame, *, source: str, as_of: str) -> Calibration:
    """Refit `calibration_training` from measured rows; constants that no rate tells (failures, restarts) stay.

    A precision that a class was not measured in takes its other one times the usual ratio, marked as an estimate.
    """
    frame = training_frame(rows, catalog)
    fit = fit_training(frame)
    cells = fit.errors.group_by("training_class", "_precision").agg(
        n=pl.len().cast(pl.Int64),
        cv_median_abs_rel=(pl.col("error").exp() - 1.0).abs().median().round(3),
        cv_p90_abs_rel=(pl.col("error").exp() - 1.0).abs().quantile(0.9).round(3),
    )
    measured = pl.DataFrame(
        [{"speed_class": c, "precision": p, "value": float(f"{v:.3g}")} for (c, p), v in fit.bases.items()]
    ).join(cells, left_on=["speed_class", "precision"], right_on=["training_class", "_precision"])
    few = pl.col("n") < LEAST_ROWS
    bases = measured.with_columns(
        cv_median_abs_rel=pl.when(few)
        .then(pl.max_horizontal("cv_median_abs_rel", pl.lit(0.20)))
        .otherwise("cv_median_abs_rel"),
        cv_p90_abs_rel=pl.when(few).then(pl.max_horizontal("cv_p90_abs_rel", pl.lit(0.50))).otherwise("cv_p90_abs_rel"),
        confidence=pl.lit("derived"),
        notes=pl.when(few).then(pl.lit("few rows: error not below what others show")),
    )
    bases = pl.concat([bases, _other_precision(bases, catalog)], how="diagonal").with_columns(
        kind=pl.lit("base"), term=pl.lit("efficiency"), unit=pl.lit("share of the precision's dense peak")
    )
    # No plan is promised more than one in twenty published runs of its class reached.
    best = (
        frame.group_by(speed_class="training_class", precision="_precision")
        .agg(value=pl.col("target").exp().quantile(0.95).round_sig_figs(3), n=pl.len().cast(pl.Int64))
        .filter(pl.col("n") >= LEAST_ROWS)
        .with_columns(
            kind=pl.lit("best"),
            term=pl.lit("efficiency"),
            unit=pl.lit("share of the precision's dense peak"),
            confidence=pl.lit("derived"),
        )
    )
    factors = pl.DataFrame(
        [
            {"term": k, "value": float(f"{v:.3g}"), "n": int(frame.filter(pl.col(f"_x_{k}") != 0).height)}
            for k, v in fit.factors.items()
        ]
    ).with_columns(
        kind=pl.lit("factor"),
        speed_class=pl.lit("*"),
        precision=pl.lit("*"),
        unit=pl.lit("ln efficiency per unit"),
        confidence=pl.lit("derived"),
        n=pl.col("n").cast(pl.Int64),
    )
    new = pl.concat([bases, best, factors], how="diagonal").with_columns(source=pl.lit(source), as_of=pl.lit(as_of))
    constants = catalog.calibration_training.filter(pl.col("kind") == "constant")
    columns = catalog.calibration_training.columns
    table = pl.concat([new.select(c for c in columns if c in new.columns), constants], how="diagonal_relaxed").select(
        columns
    )
    cases = training_cases(rows, catalog)
    left_out = cases.join(frame, on="case_id", how="anti").select(
        "case_id", reason=pl.col("reason").fill_null("carries no rate, or its class has no measured row")
    )
    return Calibration(table.sort("kind", "term", "speed_class", "precision"), fit.errors, left_out)


def _other_precision(bases: pl.DataFrame, catalog: Catalog) -> pl.DataFrame:
    """Rows for fp8 or bf16 where only the other was measured, by the median ratio of classes that have both."""
    bf16, fp8 = (bases.filter(pl.col("precision") == p) for p in ("bf16", "fp8"))
    both = bf16.join(fp8, on="speed_class", suffix="_fp8").filter((pl.col("n") >= 3) & (pl.col("n_fp8") >= 3))
    if both.is_empty():
        return bases.head(0)
    ratio = float(both.select((pl.col("value_fp8") / pl.col("value")).median()).item())
    with_fp8 = (
        catalog.speed_classes.join(catalog.accelerators, on="accelerator")
        .filter(pl.col("fp8_dense_tflops").is_not_null())
        .select(speed_class="training_class")
        .unique()
    )
    made = [
        fp8.join(bf16, on="speed_class", how="anti").with_columns(
            precision=pl.lit("bf16"), value=pl.col("value") / ratio
        ),
        bf16.join(fp8, on="speed_class", how="anti")
        .join(with_fp8, on="speed_class", how="semi")
        .with_columns(precision=pl.lit("fp8"), value=pl.col("value") * ratio),
    ]
    return pl.concat(made).with_columns(
        value=pl.col("value").clip(0.0, 0.9).round_sig_figs(3),
        n=pl.lit(0, pl.Int64),
        cv_median_abs_rel=pl.max_horizontal("cv_median_abs_rel", pl.lit(ASSUMED_ERROR[0])),
        cv_p90_abs_rel=pl.max_horizontal("cv_p90_abs_rel", pl.lit(ASSUMED_ERROR[1])),
        confidence=pl.lit("estimate"),
        notes=pl.lit("not measured: the other precision times the usual ratio"),
    )
