"""GPU power: watts by phase and load, and what a GPU power limit costs in throughput.

Measured cap curves stand in `power_curves`: relative throughput at shares of the card's rated power, by power class and
phase (decode, prefill, mixed, training). A class without a curve for a phase takes the generic curve, widened and
marked "class"; a card without a power class has no cap states at all ("none"). Watts by phase stand in `power_phases`
as shares of rated power: `low` at a trickle of load, `full` when saturated, with load^gamma in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from solver.features.speed_tables import SpeedTables

PHASES: Final = ("decode", "prefill", "mixed", "training")
STATE_SHARES: Final = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5)
"""Power limits offered as candidates, as shares of rated power."""
KNOTS: Final = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""Shares of rated power at which curves are held."""
GENERIC_ERROR: Final = 0.15
"""Least expected error of a borrowed cap curve [points of relative throughput, 0.15 = 15 points]."""
SIMILAR_ERROR: Final = 0.08


def curve_tables(tables: SpeedTables) -> pl.DataFrame:
    """Give the cap curve of every (accelerator, phase), on one set of knots.

    In order: the class's own curve for the phase; its `mixed` curve; the generic curves, of which the phase's and the
    mixed one are taken point by point at their lower value, since what a borrowed curve promises nobody has measured.

    Returns
    -------
    pl.DataFrame
        accelerator, phase, `_y0`.. (relative throughput at `KNOTS`), curve_source (measured|class), curve_error
        (absolute, as a fraction).
    """
    curves: dict[tuple[str, str], tuple[list[float], list[float], float]] = {
        (str(name), str(phase)): (
            part["cap_share"].to_list(),
            part["relative_throughput"].to_list(),
            float(part["cv_p90_abs"][0]),
        )
        for (name, phase), part in tables.power_curves.sort("cap_share")
        .partition_by("power_class", "phase", as_dict=True)
        .items()
    }
    rows = []
    cards = tables.speed_classes.filter(pl.col("power_class").is_not_null())
    for card, name, basis in cards.select("accelerator", "power_class", "power_basis").iter_rows():
        for phase in PHASES:
            found = _best_curve(curves, name, basis, phase)
            if found is not None:
                values, source, error = found
                rows.append(
                    {"accelerator": card, "phase": phase, "curve_source": source, "curve_error": error}
                    | {f"_y{i}": v for i, v in enumerate(values)}
                )
    schema = {"accelerator": pl.String, "phase": pl.String, "curve_source": pl.String, "curve_error": pl.Float64}
    return pl.DataFrame(rows, schema={**schema, **{f"_y{i}": pl.Float64 for i in range(len(KNOTS))}})


def _best_curve(
    curves: dict[tuple[str, str], tuple[list[float], list[float], float]], name: str, basis: str, phase: str
) -> tuple[list[float | None], str, float] | None:
    if own := curves.get((name, phase)):
        floor = 0.0 if basis == "same" else SIMILAR_ERROR
        return _on_knots(own), "measured" if basis == "same" else "class", max(own[2], floor)
    if mixed := curves.get((name, "mixed")):
        return _on_knots(mixed), "class", max(mixed[2], SIMILAR_ERROR)
    borrowed = [_on_knots(c) for c in (curves.get(("generic", phase)), curves.get(("generic", "mixed"))) if c]
    if not borrowed:
        return None
    low = [None if None in at else min(v for v in at if v is not None) for at in zip(*borrowed, strict=True)]
    return low, "class", GENERIC_ERROR


def _on_knots(curve: tuple[list[float], list[float], float]) -> list[float | None]:
    """A curve at `KNOTS`; null below what was measured. Values never fall as power rises."""
    xs, ys, _ = curve
    best = 0.0
    out: list[float | None] = []
    for k in KNOTS:
        best = max(best, _interpolate(k, xs, ys))
        out.append(best if k >= xs[0] - 0.02 else None)
    return out


def throughput_at_cap(frame: pl.DataFrame, tables: SpeedTables) -> pl.DataFrame:
    """Add the relative throughput at a power limit.

    Parameters
    ----------
    frame
        accelerator, tdp_w [W], power_limit_w [W] (null: no limit), phase; optional min_power_limit_w [W].

    Returns
    -------
    pl.DataFrame
        The frame with relative_throughput (1 at the rated power; never above 1, never falling as the limit rises),
        curve_source (measured|class|none), curve_error (absolute), cap_reason (null when the limit is possible).
    """
    wide, knots = curve_tables(tables), KNOTS
    share = pl.min_horizontal(pl.col("power_limit_w") / pl.col("tdp_w"), pl.lit(1.0))
    value = pl.lit(None, pl.Float64)
    lowest = pl.lit(None, pl.Float64)
    for i in range(len(knots) - 1):
        reach = (share - knots[i]) / (knots[i + 1] - knots[i])
        here = (share >= knots[i]) & (share <= knots[i + 1])
        value = (
            pl.when(here).then(pl.col(f"_y{i}") + (pl.col(f"_y{i + 1}") - pl.col(f"_y{i}")) * reach).otherwise(value)
        )
    for i in reversed(range(len(knots))):
        lowest = pl.when(pl.col(f"_y{i}").is_not_null()).then(pl.lit(knots[i])).otherwise(lowest)
    uncapped = pl.col("power_limit_w").is_null() | (share >= 1.0)
    floor = pl.col("min_power_limit_w") if "min_power_limit_w" in frame.columns else pl.lit(None, pl.Float64)
    below = (pl.col("power_limit_w") < floor).fill_null(False)
    curved = lowest.is_not_null()
    return (
        frame.join(wide, on=["accelerator", "phase"], how="left", maintain_order="left")
        .with_columns(
            relative_throughput=pl.when(uncapped).then(1.0).when(curved & ~below).then(value.clip(0.0, 1.0)),
            curve_source=pl.col("curve_source").fill_null("none"),
            cap_reason=pl.when(uncapped)
            .then(None)
            .when(below)
            .then(pl.format("the card takes no power limit under {} W", floor.cast(pl.Int64)))
            .when(~curved)
            .then(pl.lit("no cap curve was measured for this class of card"))
            .when(share < lowest)
            .then(pl.format("below the measured range ({}% of rated power)", (lowest * 100).round(0).cast(pl.Int64))),
        )
        .drop(f"_y{i}" for i in range(len(knots)))
    )


def _interpolate(x: float, xs: Sequence[float], ys: Sequence[float]) -> float:
    """Piecewise linear; below the first knot along the line to (0, 0), since no power gives no work."""
    if x <= xs[0]:
        return ys[0] * x / xs[0]
    for (x0, y0), (x1, y1) in zip(zip(xs, ys, strict=True), zip(xs[1:], ys[1:], strict=True), strict=False):
        if x <= x1:
            return y0 + (y1 - y0) * (x - x0) / (x1 - x0)
    return ys[-1]


def power_states(
    accelerators: pl.DataFrame, tables: SpeedTables, shares: Sequence[float] = STATE_SHARES
) -> pl.DataFrame:
    """List the power states of each card: its rated power, and the limits that its cap curves cover.

    Parameters
    ----------
    accelerators
        accelerator, tdp_w [W], min_power_limit_w [W, nullable].
    shares
        Limits to offer, as shares of rated power; the rated power is always among them.

    Returns
    -------
    pl.DataFrame
        accelerator, power_limit_w [W] (null: no limit), cap_share, and per phase ``relative_decode``, ``relative_prefill``,
        ``relative_mixed``, ``relative_training``, curve_source and curve_error (the worst of the phases).
    """
    wanted = pl.DataFrame({"cap_share": sorted({1.0, *shares}, reverse=True)})
    grid = (
        accelerators.select("accelerator", "tdp_w", "min_power_limit_w")
        .join(wanted, how="cross")
        .with_columns(
            power_limit_w=pl.when(pl.col("cap_share") < 1.0).then((pl.col("tdp_w") * pl.col("cap_share")).round(0))
        )
        .join(pl.DataFrame({"phase": PHASES}), how="cross")
    )
    found = throughput_at_cap(grid, tables).filter(pl.col("relative_throughput").is_not_null())
    worst = pl.col("curve_source").replace_strict({"measured": 0, "class": 1, "none": 2}, return_dtype=pl.Int64).max()
    return (
        found.group_by("accelerator", "power_limit_w", "cap_share", maintain_order=True)
        .agg(
            *(
                pl.col("relative_throughput").filter(pl.col("phase") == p).first().alias(f"relative_{p}")
                for p in PHASES
            ),
            curve_source=worst.replace_strict({0: "measured", 1: "class", 2: "none"}, return_dtype=pl.String),
            curve_error=pl.col("curve_error").max(),
        )
        .filter(pl.all_horizontal(pl.col(f"relative_{p}").is_not_null() for p in PHASES))
        .with_columns(curve_error=pl.when(pl.col("power_limit_w").is_not_null()).then("curve_error").otherwise(0.0))
    )


def with_gpu_power(frame: pl.DataFrame, tables: SpeedTables) -> pl.DataFrame:
    """Add expected and nameplate watts of one card at a load.

    Parameters
    ----------
    frame
        accelerator, tdp_w [W], phase (idle|decode|prefill|mixed|training). Optional: load_share (0..1 of the saturated
        rate, default 1), power_limit_w [W].

    Returns
    -------
    pl.DataFrame
        The frame with gpu_expected_w (while working at that load), gpu_idle_w, gpu_nameplate_w [W], power_source.
    """
    shares = tables.power_phases.filter(pl.col("phase") != "host").select(
        "power_class", "phase", "low", "full", "gamma"
    )
    generic = (
        shares.filter(pl.col("power_class") == "*")
        .drop("power_class")
        .rename({"low": "g_low", "full": "g_full", "gamma": "g_gamma"})
    )
    idle = shares.filter(pl.col("phase") == "idle").select("power_class", idle="full")
    any_idle = float(idle.filter(pl.col("power_class") == "*")["idle"][0])
    load = pl.col("load_share").fill_null(1.0).clip(0.0, 1.0) if "load_share" in frame.columns else pl.lit(1.0)
    limit = pl.col("power_limit_w") if "power_limit_w" in frame.columns else pl.lit(None, pl.Float64)
    nameplate = pl.min_horizontal(pl.col("tdp_w"), limit)
    classes = tables.speed_classes.select("accelerator", _class="power_class")
    low, full, gamma = (pl.coalesce(c, f"g_{c}") for c in ("low", "full", "gamma"))
    return (
        frame.join(classes, on="accelerator", how="left", maintain_order="left")
        .join(shares, left_on=["_class", "phase"], right_on=["power_class", "phase"], how="left", maintain_order="left")
        .join(generic, on="phase", how="left", maintain_order="left")
        .join(idle, left_on="_class", right_on="power_class", how="left", maintain_order="left")
        .with_columns(
            gpu_nameplate_w=nameplate,
            gpu_idle_w=pl.min_horizontal(pl.col("tdp_w") * pl.col("idle").fill_null(any_idle), nameplate),
            gpu_expected_w=pl.min_horizontal(pl.col("tdp_w") * (low + (full - low) * load**gamma), nameplate),
            power_source=pl.when(pl.col("low").is_not_null()).then(pl.lit("measured")).otherwise(pl.lit("class")),
        )
        .drop("_class", "low", "full", "gamma", "g_low", "g_full", "g_gamma", "idle")
    )


def host_overhead_share(tables: SpeedTables) -> float:
    """Watts of a node beside its cards (CPUs, memory, fans, network), as a share of their rated power.

    For machines whose parts are not known (rented nodes, own ones without a build); bought ones add up their parts.
    """
    return float(tables.power_phases.filter(pl.col("phase") == "host")["full"][0])
