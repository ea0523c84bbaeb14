"""Comparisons that buyers make by hand: how many fit one budget or power cap, price per unit of work, tender scores."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

import polars as pl


def exact(value: float) -> Fraction:
    """Read a float as the decimal number a person wrote [same unit]: 30.8 is 308/10, not its nearest binary."""
    return Fraction(repr(value)) if isinstance(value, float) else Fraction(value)


def count_within(budget: float, unit: float, used: float = 0.0, used_unit: float = 0.0) -> int:
    """Whole units that fit a budget beside `used` units of another kind; exact decimals, no float floor.

    Parameters
    ----------
    budget : float
        Money, watts, rack units ... [same unit throughout].
    unit, used_unit : float
        Taken by one unit of each kind.

    Raises
    ------
    ValueError
        A unit takes nothing, or the used ones pass the budget by themselves.
    """
    if unit <= 0:
        raise ValueError(f"a unit of {unit:g} takes nothing of the budget")
    left = exact(budget) - exact(used) * exact(used_unit)
    if left < 0:
        raise ValueError(f"{used:g} units of {used_unit:g} pass the budget of {budget:g}")
    return math.floor(left / exact(unit))


def mix_use(mix: Mapping[str, float], unit: Mapping[str, float]) -> float:
    """Budget that a mix of units takes [same unit]; a kind without a unit is an error.

    Raises
    ------
    KeyError
        A kind of the mix has no unit.
    """
    return float(sum((exact(n) * exact(unit[kind]) for kind, n in mix.items()), Fraction(0)))


def iso_power(frame: pl.DataFrame, cap_w: float, reference: str | None = None) -> pl.DataFrame:
    """Count the units that one power cap carries, and what they do together.

    Parameters
    ----------
    frame : pl.DataFrame
        option, unit_w (node or card with its share of host and cooling) [W], rate (of one unit) [any rate].
    cap_w : float
        The cap, in the same kind of watts [W].
    reference : str, optional
        Option that relative_rate is set against (default: the best one).

    Returns
    -------
    pl.DataFrame
        The frame with count, total_w [W], total_rate, relative_rate, rate_per_kw.
    """
    counted = frame.with_columns(count=(pl.lit(cap_w) / pl.col("unit_w") + 1e-9).floor().cast(pl.Int64)).with_columns(
        total_w=pl.col("count") * pl.col("unit_w"),
        total_rate=pl.col("count") * pl.col("rate"),
        rate_per_kw=pl.col("rate") / pl.col("unit_w") * 1000.0,
    )
    base = pl.col("total_rate").max()
    if reference is not None:
        base = pl.col("total_rate").filter(pl.col("option") == reference).first()
    return counted.with_columns(relative_rate=pl.when(base > 0).then(pl.col("total_rate") / base))


def extra_share(power_from_w: float, power_to_w: float) -> float:
    """More units in the same power after the cap is lowered [fraction]: from / to - 1."""
    return power_from_w / power_to_w - 1.0


def break_even_speed(power_from_w: float, power_to_w: float) -> float:
    """Relative speed of a capped unit below which the extra units do not make up for the cap [ratio]."""
    return power_to_w / power_from_w


def relative_cost(price_ratio: float, speedup: float) -> float:
    """Cost per unit of work of a dearer, faster machine, relative to the other [ratio]."""
    if speedup <= 0:
        raise ValueError("a speed-up must be above 0")
    return price_ratio / speedup


def weighted_mean(scores: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """Mean of marks already given, by weight [marks]; a criterion without a mark counts as zero.

    Raises
    ------
    ValueError
        The weights sum to nothing.
    """
    whole = sum(weights.values())
    if whole <= 0:
        raise ValueError("weights must be 0 or more and not all zero")
    return sum(weight * scores.get(name, 0.0) for name, weight in weights.items()) / whole


def tender_scores(bids: pl.DataFrame, weights: Mapping[str, float], lower_is_better: set[str]) -> pl.DataFrame:
    """Score bids by weighted criteria, as public tenders do.

    Each criterion gives its weight to the best bid and a share to the others: best / value where lower is better
    (price, TCO, watts), value / best otherwise. This proportional rule is the usual one; a bid without a value gets
    nothing for it.

    Parameters
    ----------
    bids : pl.DataFrame
        bid, and one non-negative column per criterion.
    weights : mapping
        Criterion to weight; any sum [points].
    lower_is_better : set of str

    Returns
    -------
    pl.DataFrame
        bids with points_<criterion> and score, best first; ties by bid name.

    Raises
    ------
    ValueError
        A weight is negative, all are zero, or a criterion is no column.
    """
    lacking = sorted(set(weights) - set(bids.columns))
    if lacking:
        raise ValueError(f"no column for criteria {', '.join(lacking)}")
    if min(weights.values(), default=-1.0) < 0 or sum(weights.values()) <= 0:
        raise ValueError("weights must be 0 or more and not all zero")
    points = {}
    for name, weight in weights.items():
        value = pl.col(name)
        if name in lower_is_better:
            # Something for nothing is the best there can be, and leaves nothing for any other price.
            share = pl.when(value == 0).then(1.0).otherwise(value.min() / value)
        else:
            share = pl.when(value.max() > 0).then(value / value.max()).otherwise(1.0)
        points[f"points_{name}"] = (share * weight).fill_null(0.0)
    return (
        bids.with_columns(**points)
        .with_columns(score=pl.sum_horizontal(list(points)))
        .sort(["score", "bid"], descending=[True, False])
    )
