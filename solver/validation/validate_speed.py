"""`kitout validate training|inference|power FILE`: predicted beside measured for every row, and what that comes to.

The models are judged as they stand in the catalogue: published measurements of the very case, which would answer in a
plan, are left out here, or every row would be compared with itself.
"""

from __future__ import annotations

from typing import Any, Final

import polars as pl

from catalogs.catalog import Catalog
from catalogs.errors import UnknownName
from catalogs.names import match_accelerators
from solver.features.power import throughput_at_cap, with_gpu_power
from solver.features.speed_tables import SpeedTables
from solver.features.throughput_serving import with_step_terms
from solver.features.throughput_training import with_training_rate
from solver.validation.serving_cases import QUANTITIES, serving_cases, serving_frame, with_constants
from solver.validation.serving_predict import predict_cases
from solver.validation.training_rate_cases import training_cases

Validation = dict[str, Any]
WORST: Final = 10
LEAST_HELD: Final = 0.6
"""Share of its own running batch that a row's tokens/s and time per token must account for."""


def validate_inference(rows: pl.DataFrame, catalog: Catalog) -> Validation:
    """Judge the serving model on measured rows (`solver.validation.calibrate.read_measurements`)."""
    cases = serving_cases(rows, catalog)
    frame = with_constants(serving_frame(cases, catalog), catalog)
    frame = frame.with_columns(
        _refused=pl.when(pl.col("cal_reason").is_not_null())
        .then("cal_reason")
        .when(pl.col("kv_pool_gib_per_gpu").is_null())
        .then("memory_reason")
        .when(pl.col("kv_pool_gib_per_gpu") <= 0)
        .then(pl.lit("the memory model says it does not fit"))
    )
    good = with_step_terms(frame.filter(pl.col("_refused").is_null()), catalog.calibration_links, catalog.quantisation)
    predicted = predict_cases(good)
    # The fastest layout where several stand for one row.
    predicted = predicted.sort("predicted_output_tokens_per_s", nulls_last=False).unique("case_id", keep="last")
    refused = frame.filter(pl.col("_refused").is_not_null()).unique("case_id").select("case_id", "_refused")
    base = cases.join(
        predicted.select("case_id", "cal_class", *(f"predicted_{q}" for q in QUANTITIES)), on="case_id", how="left"
    ).join(refused, on="case_id", how="left")
    # Tokens/s x time per token is the number in flight (Little); a row that says otherwise holds no steady state.
    held = pl.col("output_tokens_per_s_total") * pl.col("tpot_ms") / 1e3 / pl.col("concurrency_or_batch")
    contradicts = (
        pl.col("note").fill_null("").str.contains("average running") & (held < LEAST_HELD) & pl.col("reason").is_null()
    )
    base = base.with_columns(
        predicted_output_tokens_per_s=pl.when(~contradicts.fill_null(False)).then("predicted_output_tokens_per_s"),
        reason=pl.when(contradicts)
        .then(
            pl.format(
                "contradicts itself: tokens/s x TPOT is {}% of its running batch", (held * 100).round(0).cast(pl.Int64)
            )
        )
        .otherwise("reason"),
    )
    long = pl.concat(
        base.select(
            "case_id",
            quantity=pl.lit(q),
            measured=pl.col(m),
            predicted=pl.col(f"predicted_{q}"),
            reason=pl.when(pl.col(f"predicted_{q}").is_null()).then(
                pl.coalesce("reason", "_refused", pl.lit(_not_told(q)))
            ),
            accelerator=pl.col("accelerator").fill_null(pl.col("gpu")),
            kind=pl.when(pl.col("cal_class").str.ends_with("/moe")).then(pl.lit("moe")).otherwise(pl.lit("dense")),
            engine=pl.col("engine_name"),
            scale=_scale(pl.col("gpu_count")),
        ).filter(pl.col("measured") > 0)
        for q, m in QUANTITIES.items()
    )
    return _report(long, relative=True, groups=("accelerator", "kind", "engine", "scale"))


def _not_told(quantity: str) -> str:
    return {
        "output_tokens_per_s": "below saturation the throughput is the arrival rate, which is given",
        "tpot_ms": "offline runs fix no time per token of one request",
        "ttft_ms": "how requests were offered is not stated: TTFT is queueing",
    }[quantity]


def validate_training(rows: pl.DataFrame, catalog: Catalog) -> Validation:
    """Judge the training model on measured rows: tokens/s per accelerator."""
    cases = training_cases(rows, catalog).filter(pl.col("measured").is_not_null())
    provenance = ["source", "as_of", "confidence", "notes"]
    frame = cases.filter(pl.col("reason").is_null()).join(
        catalog.accelerators.drop(provenance), on="accelerator", how="left", suffix="_card"
    )
    rated = with_training_rate(frame, SpeedTables.of(catalog)).select(
        "case_id",
        predicted=pl.col("tokens_per_s") / (pl.col("nodes") * pl.col("accelerators_per_node")),
        _refused="rate_reason",
    )
    joined = cases.join(rated, on="case_id", how="left")
    long = joined.select(
        "case_id",
        "measured",
        "predicted",
        quantity=pl.lit("tokens_per_s_per_gpu"),
        reason=pl.when(pl.col("predicted").is_null()).then(pl.coalesce("reason", "_refused")),
        accelerator=pl.col("accelerator").fill_null(pl.col("gpu")),
        kind=pl.coalesce("method", "kind"),
        model=pl.when(pl.col("params_total_b") > 1.05 * pl.col("params_active_b"))
        .then(pl.lit("moe"))
        .otherwise(pl.lit("dense")),
        scale=_scale(pl.col("gpu_count")),
    ).filter(pl.col("measured") > 0)
    return _report(long, relative=True, groups=("accelerator", "kind", "model", "scale"))


def validate_power(rows: pl.DataFrame, catalog: Catalog) -> Validation:
    """Judge cap curves (relative throughput, points) and watts (cap rows and load curves) on measured rows."""
    frame = power_frame(rows, catalog)
    tables = SpeedTables.of(catalog)
    caps = frame.filter(
        ~pl.col("load_curve") & ~pl.col("lock") & pl.col("power_limit_w").is_not_null() & pl.col("tdp_w").is_not_null()
    )
    at_cap = throughput_at_cap(caps.drop("relative_throughput"), tables).select(
        "case_id", _at="relative_throughput", _why="cap_reason"
    )
    at_reference = throughput_at_cap(
        caps.drop("relative_throughput").with_columns(power_limit_w=pl.col("reference_w").fill_null(pl.col("tdp_w"))),
        tables,
    ).select("case_id", _reference="relative_throughput")
    loads = frame.filter(pl.col("tdp_w").is_not_null() & ~pl.col("lock")).with_columns(
        load_share=pl.when("load_curve").then(pl.col("relative")).otherwise(1.0)
    )
    drawn = with_gpu_power(loads, tables).select("case_id", "gpu_expected_w")
    joined = (
        frame.join(at_cap, on="case_id", how="left")
        .join(at_reference, on="case_id", how="left")
        .join(drawn, on="case_id", how="left")
    )
    no_card = pl.when(pl.col("accelerator").is_null()).then(
        pl.format("accelerator not in the catalogue, or its form is not stated: {}", pl.col("gpu"))
    )
    locked = pl.when("lock").then(pl.lit("a clock lock, not a power limit"))
    common = ["case_id"]
    relative = joined.filter(pl.col("relative").is_not_null() & ~pl.col("load_curve")).select(
        *common,
        quantity=pl.lit("relative_throughput"),
        measured="relative",
        predicted=pl.when(~pl.col("lock")).then((pl.col("_at") / pl.col("_reference")).clip(0.0, 1.05)),
        reason=pl.coalesce(
            no_card, locked, "_why", pl.when(pl.col("power_limit_w").is_null()).then(pl.lit("no power limit given"))
        ),
        accelerator=pl.col("accelerator").fill_null(pl.col("gpu")),
        kind="phase",
        scale=pl.lit("1"),
    )
    watts = joined.filter(pl.col("watts").is_not_null()).select(
        *common,
        quantity=pl.lit("avg_power_w"),
        measured="watts",
        predicted=pl.when(~pl.col("lock")).then("gpu_expected_w"),
        reason=pl.coalesce(no_card, locked, pl.lit("no power figures for this class of card")),
        accelerator=pl.col("accelerator").fill_null(pl.col("gpu")),
        kind=pl.when("load_curve").then(pl.lit("load curve")).otherwise("phase"),
        scale=pl.lit("1"),
    )
    long = pl.concat([relative, watts]).with_columns(reason=pl.when(pl.col("predicted").is_null()).then("reason"))
    return _report(long, relative=False, groups=("accelerator", "kind"))


def power_frame(rows: pl.DataFrame, catalog: Catalog) -> pl.DataFrame:
    """Read measured power rows: card, phase, limit, relative throughput and its reference, watts, what kind of row."""
    rows = rows.with_row_index("_n", offset=1)
    if "case_id" not in rows.columns:
        rows = rows.with_columns(case_id=pl.format("power-{}", "_n"))
    names = {g: _one_card(catalog, g) for g in rows["gpu"].drop_nulls().unique()}
    note = pl.col("note").fill_null("")
    return (
        rows.with_columns(
            accelerator=pl.col("gpu").replace_strict(names, default=None, return_dtype=pl.String),
            phase=pl.col("workload"),
            power_limit_w=pl.col("power_cap_w").cast(pl.Float64, strict=False),
            relative=pl.col("relative_throughput").cast(pl.Float64, strict=False),
            watts=pl.col("avg_power_w").cast(pl.Float64, strict=False),
            load_curve=note.str.contains("LOAD CURVE"),
            lock=note.str.contains("(?i)clock lock"),
            reference_w=note.str.extract(r"(?i)(?:relative to|baseline cap|against)(?: the highest cap)? (\d+) W").cast(
                pl.Float64
            ),
        )
        .join(catalog.accelerators.select("accelerator", "tdp_w", "min_power_limit_w"), on="accelerator", how="left")
        .join(catalog.speed_classes.select("accelerator", "power_class", "power_basis"), on="accelerator", how="left")
    )


def _one_card(catalog: Catalog, label: str) -> str | None:
    """The accelerator of a label; None if it names none, or several that differ in power."""
    try:
        found = match_accelerators(catalog, label)
    except UnknownName:
        return None
    if len(found) == 1:
        return found[0]
    ratings = catalog.accelerators.filter(pl.col("accelerator").is_in(found))["tdp_w"].n_unique()
    return found[0] if found and ratings == 1 else None


def _scale(cards: pl.Expr) -> pl.Expr:
    labels = ((8, "1-8"), (64, "9-64"), (512, "65-512"), (2048, "513-2048"))
    out = pl.lit("more than 2048")
    for most, label in reversed(labels):
        out = pl.when(cards <= most).then(pl.lit(label)).otherwise(out)
    return pl.when(cards.is_null()).then(pl.lit("not given")).otherwise(out)


def _metrics(rows: pl.DataFrame, *, relative: bool) -> dict[str, float | int | None]:
    """Error figures of rows of one quantity; absolute ones (points, watts as shares of measured) where `relative` is off."""
    done = rows.filter(pl.col("predicted").is_not_null())
    share = done.select(e=pl.col("predicted") / pl.col("measured") - 1.0)["e"]
    points = done.select(e=pl.col("predicted") - pl.col("measured"))["e"]
    names = ["median_abs_rel", "p90_abs_rel", "mean_signed_rel", "median_signed_rel"]
    names += [] if relative else ["median_abs", "p90_abs"]
    out: dict[str, float | int | None] = {"n": rows.height, "refused": rows.height - done.height}
    # Every key is there, null where no row was predicted.
    out |= dict.fromkeys(names)
    if done.is_empty():
        return out
    figures = (
        share.abs().median(),
        share.abs().quantile(0.9, "linear"),
        share.mean(),
        share.median(),
        points.abs().median(),
        points.abs().quantile(0.9, "linear"),
    )
    return out | {name: _figure(value) for name, value in zip(names, figures, strict=False)}


def _figure(value: Any) -> float:
    return round(float(value), 4)


def _report(long: pl.DataFrame, *, relative: bool, groups: tuple[str, ...]) -> Validation:
    quantities = long["quantity"].unique(maintain_order=True).to_list()
    of = {q: long.filter(pl.col("quantity") == q) for q in quantities}
    by_group = {
        g: {
            str(name): {
                q: _metrics(part.filter(pl.col("quantity") == q), relative=relative)
                for q in quantities
                if (part["quantity"] == q).any()
            }
            for (name,), part in sorted(long.partition_by(g, as_dict=True).items(), key=lambda kv: str(kv[0]))
        }
        for g in groups
    }
    error = (pl.col("predicted") / pl.col("measured")).log().abs()
    worst = (
        long.filter(pl.col("predicted").is_not_null())
        .with_columns(_e=error)
        .sort("_e", descending=True, nulls_last=True)
        .head(WORST)
    )
    keep = ["case_id", "quantity", "measured", "predicted", "reason"]
    refusals = (
        long.filter(pl.col("predicted").is_null())
        .group_by("reason")
        .len()
        .sort("len", "reason", descending=[True, False])
    )
    return {
        "n": long.height,
        "refused": long.filter(pl.col("predicted").is_null()).height,
        "metrics": {q: _metrics(rows, relative=relative) for q, rows in of.items()},
        "verdicts": {"n": 0, "right": 0, "wrong_fits": 0},
        "groups": by_group,
        "refusals": [{"reason": r, "n": n} for r, n in refusals.iter_rows()],
        "worst": worst.select(keep).to_dicts(),
        "rows": long.select(keep).to_dicts(),
    }
