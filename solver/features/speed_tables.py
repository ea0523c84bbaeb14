"""The catalogue tables that the speed and power models read, and how a row of work finds its constants.

A fitted row of `calibration_serving` names a speed class, an engine and a kind (dense or moe); ``*`` in a key stands
for "any". `serving_constants` spreads these few rows over every (accelerator, engine, kind), the most specific
row first, and widens the expected error by the distance between what was measured and what is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Final, Self

import polars as pl

SERVING_CONSTANTS: Final = (
    "e_weights",
    "e_kv",
    "e_compute",
    "e_prefill",
    "step_ms",
    "layer_us",
    "seq_us",
    "hop_us",
    "e_schedule",
)
"""Columns of `calibration_serving` that the serving model reads; efficiencies are shares of a physical peak."""

ERROR_FLOOR: Final = {"same": 0.0, "similar": 0.20, "architecture": 0.40}
"""Least expected relative error by how near the measured card is (`speed_classes.serving_basis`)."""

OTHER_ENGINE_ERROR: Final = 0.20
"""Least expected relative error where the constants were fitted on another engine of the same class."""


@dataclass(frozen=True)
class SpeedTables:
    """Frames of the speed and power models; attribute names are catalogue table names."""

    speed_classes: pl.DataFrame
    calibration_serving: pl.DataFrame
    calibration_training: pl.DataFrame
    calibration_links: pl.DataFrame
    power_curves: pl.DataFrame
    power_phases: pl.DataFrame
    engine_support: pl.DataFrame
    quantisation: pl.DataFrame
    measurements_serving: pl.DataFrame | None = None
    measurements_training: pl.DataFrame | None = None
    user_measurements: pl.DataFrame | None = None

    @classmethod
    def of(cls, catalog: Any, user_measurements: pl.DataFrame | None = None) -> Self:
        """Take the tables out of a catalogue (anything with the table names as attributes)."""
        found: dict[str, Any] = {f.name: getattr(catalog, f.name, None) for f in fields(cls)}
        if user_measurements is not None:
            found["user_measurements"] = user_measurements
        return cls(**found)


def serving_constants(tables: SpeedTables) -> pl.DataFrame:
    """Spread the fitted constants over every (accelerator, engine, moe).

    Returns
    -------
    pl.DataFrame
        accelerator, engine, moe (bool), the columns of `SERVING_CONSTANTS` as ``cal_*``, `cal_error` (expected
        relative error), `cal_p90`, `cal_class`, `cal_reason` (null unless the accelerator is refused).
    """
    engines = tables.engine_support.select("engine", "kin").unique()
    keys = (
        tables.speed_classes.select("accelerator", "serving_class", "serving_basis", "reason")
        .join(engines, how="cross")
        .join(pl.DataFrame({"moe": [False, True]}), how="cross")
        .with_columns(kind=pl.when("moe").then(pl.lit("moe")).otherwise(pl.lit("dense")))
    )
    fitted = tables.calibration_serving.join(
        engines.rename({"kin": "cal_kin"}), on="engine", how="left", maintain_order="left"
    ).select(
        "speed_class",
        "cal_kin",
        pl.col("engine").alias("cal_engine"),
        pl.col("kind").alias("cal_kind"),
        *(pl.col(c).alias(f"cal_{c}") for c in SERVING_CONSTANTS),
        pl.col("cv_median_abs_rel").alias("cal_error"),
        pl.col("cv_p90_abs_rel").alias("cal_p90"),
    )
    same_engine = pl.col("cal_engine") == pl.col("engine")
    same_kind = pl.col("cal_kind") == pl.col("kind")
    found = (
        keys.join(fitted, left_on="serving_class", right_on="speed_class", how="inner")
        .filter(same_kind | (pl.col("cal_kind") == "*"))
        # Rank: the very engine, "*" for any, one of its kin (batching servers, local single streams), any other.
        .with_columns(
            rank=pl.when(same_engine)
            .then(0)
            .when(pl.col("cal_engine") == "*")
            .then(2)
            .when(pl.col("cal_kin") == pl.col("kin"))
            .then(4)
            .otherwise(6)
            + pl.when(same_kind).then(0).otherwise(1)
        )
        .sort("accelerator", "engine", "moe", "rank", "cal_error", "cal_engine")
        .unique(["accelerator", "engine", "moe"], keep="first", maintain_order=True)
    )
    floor = pl.col("serving_basis").replace_strict(ERROR_FLOOR, default=1.0, return_dtype=pl.Float64)
    widen = pl.when(pl.col("cal_engine") == pl.col("engine")).then(0.0).otherwise(OTHER_ENGINE_ERROR)
    found = found.with_columns(
        cal_error=pl.max_horizontal("cal_error", floor, widen),
        cal_p90=pl.max_horizontal("cal_p90", 2.0 * floor, 2.0 * widen),
        cal_class=pl.format("{}/{}/{}", "serving_class", "cal_engine", "cal_kind"),
    )
    wanted = [
        "accelerator",
        "engine",
        "moe",
        *(f"cal_{c}" for c in SERVING_CONSTANTS),
        "cal_error",
        "cal_p90",
        "cal_class",
    ]
    return keys.join(found.select(wanted), on=["accelerator", "engine", "moe"], how="left").select(
        *wanted,
        cal_reason=pl.when(pl.col("cal_class").is_null()).then(
            pl.coalesce("reason", pl.lit("no calibrated serving model for this accelerator"))
        ),
    )
