"""Where a modelled serving rate leaves the range of what was measured, and what was measured in its place."""

from __future__ import annotations

from typing import Final

import polars as pl

from solver.features.speed_tables import SpeedTables, serving_constants

SMALLER: Final = 0.5
LARGER: Final = 1.5
"""A model this much smaller or larger than any measured one is outside the range; sizes between are near enough."""


def with_validity(frame: pl.DataFrame, tables: SpeedTables) -> pl.DataFrame:
    """Add `rate_warning`: what of a modelled rate lies outside the measured range; null inside it, and for measured rates.

    Parameters
    ----------
    frame
        accelerator, engine, experts, params_total_b, isl, osl [tokens], rate_source.
    tables
        Calibration and class tables.
    """
    classes = tables.speed_classes.select("accelerator", "serving_basis", "serving_class")
    ranges = tables.calibration_serving.select(
        cal_class=pl.format("{}/{}/{}", "speed_class", "engine", "kind"),
        _engine=pl.col("engine"),
        _derived=pl.col("n") == 0,
        _least="params_least_b",
        _most="params_most_b",
        _tokens="tokens_most",
    )
    constants = serving_constants(tables).select("accelerator", "engine", moe="moe", cal_class="cal_class")
    size, tokens = pl.col("params_total_b"), pl.col("isl") + pl.col("osl")
    said = (
        pl.when(pl.col("_derived") & pl.col("moe")).then(
            pl.lit("no mixture of experts was measured on this class of card")
        ),
        pl.when(pl.col("_derived") & ~pl.col("moe")).then(pl.lit("no dense model was measured on this class of card")),
        pl.when(pl.col("_engine") != pl.col("engine")).then(
            pl.format("{} was not measured on this class of card, {} was", "engine", "_engine")
        ),
        pl.when(pl.col("serving_basis") != "same").then(
            pl.format("this card was not measured, cards of class {} were", "serving_class")
        ),
        pl.when(size < SMALLER * pl.col("_least")).then(
            pl.format("no model under {}B was measured on this class of card", "_least")
        ),
        pl.when(size > LARGER * pl.col("_most")).then(
            pl.format("no model over {}B was measured on this class of card", "_most")
        ),
        pl.when(tokens > pl.col("_tokens")).then(
            pl.format("no request over {} tokens was measured on this class of card", pl.col("_tokens").cast(pl.Int64))
        ),
    )
    modelled = (pl.col("rate_source") == "model").fill_null(False)
    found = (
        frame.select("accelerator", "engine", "params_total_b", "isl", "osl", "rate_source", "experts")
        .with_columns(moe=pl.col("experts").fill_null(0) > 0)
        .join(constants, on=["accelerator", "engine", "moe"], how="left", maintain_order="left")
        .join(ranges, on="cal_class", how="left", maintain_order="left")
        .join(classes, on="accelerator", how="left", maintain_order="left")
        .select(rate_warning=pl.when(modelled).then(pl.concat_str(said, separator="; ", ignore_nulls=True)))
        .with_columns(pl.col("rate_warning").replace("", None))
    )
    return frame.drop("rate_warning", strict=False).hstack(found)
