"""`kitout calibrate FILE..`: which constants a set of measurement files can refit, the refit, and how good it is.

Files are told apart by their columns: serving, training, power. What comes out are tables for an overlay folder; they
hold the refitted rows only, so that laid over the catalogue they leave everything else as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import polars as pl

from catalogs.catalog import Catalog
from solver.features.speed_tables import SpeedTables
from solver.features.throughput_training import with_training_rate
from solver.validation.calibrate import LEAST_ROWS, UNTUNED, calibrate_serving, calibrate_training, read_measurements
from solver.validation.fit_power import GENERIC, fit_curves, fit_watts
from solver.validation.fit_training import training_frame
from solver.validation.training_rate_cases import training_cases
from solver.validation.validate_memory import ValidationError

KINDS: Final = {
    "power": "power_cap_w",
    "training": "tokens_per_s_per_gpu",
    "serving": "output_tokens_per_s_total",
}
"""Column that tells a kind of file."""

WHOLE_FIT_ROWS: Final = 100
"""Training rows from which on all coefficients are fitted anew; fewer only move the base of their own class."""

ERROR_SCHEMA: Final = {"table": pl.String, "group": pl.String, "n": pl.Int64, "median": pl.Float64, "p90": pl.Float64}


@dataclass(frozen=True)
class Refit:
    """Tables to lay over the catalogue, errors on rows left out of the fit by group, and rows that were not used."""

    tables: dict[str, pl.DataFrame] = field(default_factory=dict)
    errors: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=ERROR_SCHEMA))
    left_out: pl.DataFrame = field(
        default_factory=lambda: pl.DataFrame(schema={"case_id": pl.String, "reason": pl.String})
    )
    rows: int = 0


def refit(
    catalog: Catalog,
    paths: Sequence[Path],
    *,
    source: str,
    as_of: str,
    iterations: int = 150,
    keep_untuned: bool = False,
) -> Refit:
    """Refit what the files tell of.

    Parameters
    ----------
    source, as_of
        Provenance of the refitted rows.
    iterations
        Rounds of the search for serving constants.
    keep_untuned
        Fit on sources known for untuned engines too (`solver.validation.calibrate.UNTUNED`).

    Raises
    ------
    ValidationError
        A file cannot be read, is of no known kind, or lacks columns; names it.
    """
    by_kind = _by_kind(paths)
    found = []
    if serving := by_kind.get("serving"):
        rows = _read(serving)
        exclude = () if keep_untuned else UNTUNED
        fit = calibrate_serving(
            catalog, rows, source=source, as_of=as_of, exclude=exclude, iterations=iterations, folds=5
        )
        table = fit.table.filter(pl.col("source") == source)
        used = ~rows["case_id"].is_in(fit.left_out["case_id"].implode())
        few = (
            rows.filter(used)
            .join(fit.errors, on="case_id", how="anti")
            .select("case_id", reason=pl.lit(f"fewer than {LEAST_ROWS} rows of its class, engine and kind of model"))
        )
        found.append(
            Refit(
                {"calibration_serving": table},
                _errors("calibration_serving", table),
                pl.concat([fit.left_out, few]),
                rows.height,
            )
        )
    if training := by_kind.get("training"):
        found.append(_training(catalog, _read(training), source, as_of))
    if power := by_kind.get("power"):
        found.append(_power(catalog, power, source, as_of))
    return Refit(
        {name: table for part in found for name, table in part.tables.items() if table.height},
        pl.concat([part.errors for part in found]),
        pl.concat([part.left_out.select("case_id", "reason") for part in found]),
        sum(part.rows for part in found),
    )


def _by_kind(paths: Sequence[Path]) -> dict[str, list[Path]]:
    out: dict[str, list[Path]] = {}
    for path in paths:
        try:
            columns = pl.read_csv(path, infer_schema=False, n_rows=1).columns
        except OSError as error:
            raise ValidationError(f"{path}: cannot be read ({error.strerror})") from None
        except pl.exceptions.PolarsError as error:
            raise ValidationError(f"{path}: not a CSV in UTF-8 ({str(error).splitlines()[0]})") from None
        kinds = [kind for kind, column in KINDS.items() if column in columns]
        if not kinds:
            told = ", ".join(f"{column} ({kind})" for kind, column in KINDS.items())
            raise ValidationError(f"{path}: no known kind of measurements; a column of {told} tells it")
        out.setdefault(kinds[0], []).append(path)
    return out


def _read(paths: Sequence[Path]) -> pl.DataFrame:
    try:
        return read_measurements(paths)
    except ValueError as error:
        raise ValidationError(str(error)) from None


def _errors(name: str, table: pl.DataFrame) -> pl.DataFrame:
    """Cross-validated errors of the refitted groups that were measured themselves."""
    if "term" in table.columns:
        table = table.filter(pl.col("kind") == "base").drop("kind")
    parts = [c for c in ("speed_class", "power_class", "engine", "kind", "phase", "precision") if c in table.columns]
    absolute = "cv_median_abs" in table.columns
    return (
        table.filter(pl.col("n") > 0, pl.col("cv_median_abs" if absolute else "cv_median_abs_rel").is_not_null())
        .select(
            table=pl.lit(name),
            group=pl.concat_str(parts, separator="/"),
            n="n",
            median="cv_median_abs" if absolute else "cv_median_abs_rel",
            p90="cv_p90_abs" if absolute else "cv_p90_abs_rel",
        )
        .unique(maintain_order=True)
        .cast(ERROR_SCHEMA)  # type: ignore[arg-type]
    )


def _training(catalog: Catalog, rows: pl.DataFrame, source: str, as_of: str) -> Refit:
    usable = training_frame(rows, catalog)
    if usable.height >= WHOLE_FIT_ROWS:
        fit = calibrate_training(catalog, rows, source=source, as_of=as_of)
        table, left_out = fit.table.filter(pl.col("source") == source), fit.left_out
    else:
        table, left_out = _moved_bases(catalog, rows, source, as_of)
    return Refit({"calibration_training": table}, _errors("calibration_training", table), left_out, rows.height)


def _moved_bases(catalog: Catalog, rows: pl.DataFrame, source: str, as_of: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Few rows: the base efficiency of each class and precision times the median of measured over predicted.

    The error is that of each row under the median of the others; a class of one row keeps its base.
    """
    provenance = ["source", "as_of", "confidence", "notes"]
    classes = training_frame(rows, catalog).select(
        "case_id", speed_class="training_class", precision="_precision", efficiency=pl.col("target").exp()
    )
    cases = training_cases(rows, catalog).join(classes, on="case_id", how="semi")
    # What is moved is the base itself, not the most that a class is allowed to reach.
    open_ended = catalog.calibration_training.filter(pl.col("kind") != "best")
    rated = with_training_rate(
        cases.join(catalog.accelerators.drop(provenance), on="accelerator", how="left", suffix="_card"),
        replace(SpeedTables.of(catalog), calibration_training=open_ended),
    ).select(
        "case_id",
        ratio=pl.col("measured") * pl.col("nodes") * pl.col("accelerators_per_node") / pl.col("tokens_per_s"),
    )
    key = ["speed_class", "precision"]
    pairs = classes.join(rated.filter(pl.col("ratio").is_not_null()), on="case_id")
    others = (
        pairs.join(pairs, on=key, suffix="_other")
        .filter(pl.col("case_id") != pl.col("case_id_other"))
        .group_by("case_id", *key, "ratio", "efficiency")
        .agg(middle=pl.col("ratio_other").median())
        .with_columns(error=(pl.col("middle") / pl.col("ratio") - 1.0).abs())
    )
    moved = others.group_by(key).agg(
        n=pl.len().cast(pl.Int64),
        move=pl.col("ratio").median(),
        cv_median_abs_rel=pl.col("error").median().round(3),
        cv_p90_abs_rel=pl.col("error").quantile(0.9, "linear").round(3),
        reached=pl.col("efficiency").max(),
    )
    old = catalog.calibration_training.filter(pl.col("kind").is_in(["base", "best"]))
    table = (
        old.drop("n", "cv_median_abs_rel", "cv_p90_abs_rel", *provenance)
        .join(moved, on=key)
        .with_columns(
            value=pl.when(pl.col("kind") == "base")
            .then(pl.col("value") * pl.col("move"))
            .otherwise(pl.max_horizontal("value", "reached"))
            .clip(0.0, 0.95)
            .round_sig_figs(3),
            source=pl.lit(source),
            as_of=pl.lit(as_of),
            confidence=pl.lit("derived"),
            notes=pl.lit("base moved by the median of measured over predicted; coefficients as they were"),
        )
        .select(catalog.calibration_training.columns)
        .sort("kind", "speed_class", "precision")
    )
    lost = (
        rows.select("case_id")
        .join(others, on="case_id", how="anti")
        .with_columns(reason=pl.lit("carries no rate that can be predicted, or is alone in its class"))
    )
    return table, lost


def _power(catalog: Catalog, paths: Sequence[Path], source: str, as_of: str) -> Refit:
    needed = ("gpu", "workload", "power_cap_w", "relative_throughput", "avg_power_w", "note")
    frames = [pl.read_csv(path, infer_schema=False) for path in paths]
    for path, frame in zip(paths, frames, strict=True):
        lacks = [name for name in needed if name not in frame.columns]
        if lacks:
            raise ValidationError(f"{path}: columns {', '.join(lacks)} are missing")
    rows = pl.concat(frames, how="diagonal").with_columns(pl.all().str.strip_chars().replace("", None))
    # The generic curve is of all that was published; one user's cards do not stand for it.
    curves = fit_curves(rows, catalog, source=source, as_of=as_of).filter(pl.col("power_class") != GENERIC)
    watts = fit_watts(rows, catalog, source=source, as_of=as_of)
    tables = {
        "power_curves": curves.select(catalog.power_curves.columns),
        "power_phases": watts.filter(pl.col("source") == source),
    }
    return Refit(tables, pl.concat([_errors(name, table) for name, table in tables.items()]), rows=rows.height)
