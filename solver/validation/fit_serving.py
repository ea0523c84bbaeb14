"""Fit the serving constants to measured cases: a random local search over all groups at once.

Every group (speed class, engine, kind) is fitted beside copies of itself that leave out one fold each; the error on the
fold left out is the cross-validated one. Folds are whole configurations (model, accelerator, tp, pp), so that a row's
neighbours in the same table do not help it. The loss is the mean absolute logarithm of predicted over measured, capped,
so that a row which no constants explain does not bend them, plus a weak pull towards the starting values.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

import polars as pl

from solver.features.speed_tables import SERVING_CONSTANTS
from solver.features.throughput_serving import with_step_terms
from solver.validation.serving_cases import QUANTITIES
from solver.validation.serving_predict import predict_cases

BOUNDS: Final = {
    "e_weights": (0.1, 0.95),
    "e_kv": (0.1, 0.95),
    "e_compute": (0.02, 0.90),
    "e_prefill": (0.02, 0.85),
    "step_ms": (0.05, 20.0),
    "layer_us": (0.5, 120.0),
    "seq_us": (0.1, 40.0),
    "hop_us": (1.0, 120.0),
    "e_schedule": (0.6, 1.0),
}
"""Range of each constant; efficiencies stay below 1 so that no physical peak is passed."""

KEY: Final = ["speed_class", "engine", "kind", "fold"]
PULL: Final = 0.004
CAP: Final = 0.8
PROPOSALS: Final = 10
FIRST_STEP: Final = 0.5
LAST_STEP: Final = 0.02


@dataclass(frozen=True)
class Fit:
    """Constants per group, and the errors of every case under constants that never saw its configuration."""

    constants: pl.DataFrame
    errors: pl.DataFrame


def fit_serving(
    cases: pl.DataFrame,
    start: pl.DataFrame,
    links: pl.DataFrame,
    quantisation: pl.DataFrame,
    *,
    iterations: int = 120,
    folds: int = 5,
    seed: int = 1,
    fold_by: str = "configuration",
) -> Fit:
    """Fit the constants of each group in `cases`.

    Parameters
    ----------
    cases
        Cases with model, accelerator and memory columns and `speed_class`, `engine`, `kind`; several rows of one case_id
        are layouts of which the fastest counts.
    start
        Starting values: speed_class, engine, kind and `SERVING_CONSTANTS`.
    links
        Link table.
    iterations, folds, seed
        Length of the search, number of folds, seed of the random proposals (results repeat for one seed).
    """
    configuration = pl.concat_str("label", "accelerator", "pp", "gpu_count", "precision", separator="|")
    unit = configuration if fold_by == "configuration" else pl.col("case_id")
    cases = cases.with_columns(fold=unit.hash(seed=7) % folds)
    groups = start.select("speed_class", "engine", "kind", *SERVING_CONSTANTS)
    current = groups.join(pl.DataFrame({"fold": pl.Series(range(-1, folds), dtype=pl.Int64)}), how="cross")
    origin = current.rename({c: f"origin_{c}" for c in SERVING_CONSTANTS})
    training = (
        cases.drop("fold")
        .with_columns(_own=cases["fold"].cast(pl.Int64))
        .join(pl.DataFrame({"fold": pl.Series(range(-1, folds), dtype=pl.Int64)}), how="cross")
        .filter(pl.col("fold") != pl.col("_own"))
    )
    random_ = random.Random(seed)
    for i in range(iterations):
        size = FIRST_STEP * (LAST_STEP / FIRST_STEP) ** (i / max(1, iterations - 1))
        tries = _proposals(current, random_, size)
        loss = _loss(_errors(training, tries, links, quantisation), tries, origin)
        best = loss.sort(*KEY, "loss", "try").unique(KEY, keep="first", maintain_order=True)
        current = tries.join(best.select(*KEY, "try"), on=[*KEY, "try"], how="semi").drop("try")
    whole = current.filter(pl.col("fold") == -1)
    unseen = _errors(
        cases.with_columns(pl.col("fold").cast(pl.Int64)),
        current.with_columns(_try=pl.lit(0)).rename({"_try": "try"}),
        links,
        quantisation,
    )
    return Fit(whole.drop("fold"), unseen)


def _proposals(current: pl.DataFrame, random_: random.Random, size: float) -> pl.DataFrame:
    """The current constants, and variations in which each constant moves with probability 0.4."""
    rows = []
    for row in current.iter_rows(named=True):
        rows.append({**row, "try": 0})
        for k in range(1, PROPOSALS):
            new = dict(row)
            for name, (low, high) in BOUNDS.items():
                if random_.random() < 0.4:
                    moved = row[name] * 2.718281828 ** random_.gauss(
                        0.0, size * (0.25 if name == "e_schedule" else 1.0)
                    )
                    new[name] = min(high, max(low, moved))
            rows.append({**new, "try": k})
    return pl.DataFrame(rows, schema_overrides={"fold": pl.Int64, "try": pl.Int64})


def _errors(cases: pl.DataFrame, tries: pl.DataFrame, links: pl.DataFrame, quantisation: pl.DataFrame) -> pl.DataFrame:
    """Log of predicted over measured for every case, try and quantity."""
    frame = cases.join(tries.rename({c: f"cal_{c}" for c in SERVING_CONSTANTS}), on=KEY, how="inner")
    frame = predict_cases(with_step_terms(frame, links, quantisation), servers=False)
    keep = [*KEY, "try", "case_id"]
    frame = frame.sort("predicted_output_tokens_per_s", nulls_last=False).unique(keep, keep="last")
    return pl.concat(
        frame.select(
            *keep,
            "accelerator",
            "label",
            "mode",
            quantity=pl.lit(q),
            error=(pl.col(f"predicted_{q}") / pl.col(m)).log(),
        ).filter(pl.col("error").is_not_null())
        for q, m in QUANTITIES.items()
    )


def _loss(errors: pl.DataFrame, tries: pl.DataFrame, origin: pl.DataFrame) -> pl.DataFrame:
    # Ways of running weigh by the root of their number, so that many offline rows do not drown the online ones.
    fit = (
        errors.group_by(*KEY, "try", "mode")
        .agg(loss=pl.col("error").abs().clip(0.0, CAP).mean(), weight=pl.len().sqrt())
        .group_by(*KEY, "try")
        .agg(loss=(pl.col("loss") * pl.col("weight")).sum() / pl.col("weight").sum())
    )
    pull = tries.join(origin, on=KEY).select(
        *KEY,
        "try",
        pull=PULL * pl.sum_horizontal((pl.col(c) / pl.col(f"origin_{c}")).log() ** 2 for c in SERVING_CONSTANTS),
    )
    return fit.join(pull, on=[*KEY, "try"]).with_columns(loss=pl.col("loss") + pl.col("pull"))
