"""Machines rented by more than the hour: held for a set of load levels, each stretch of the clock rounded up by itself.

An hourly price needs no such thing: stretches are whole hours. Where an offer is billed by the day, or for at least some hours,
holding it from 8 to 18 and from 18 to 22 is one stretch, not two, so that what a level costs depends on the others. Such
offers are held like commitments, for one stage and one of these sets of levels: the busiest n of them, or one alone.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import polars as pl

from solver.candidates.periods import LoadCalendar, Stage

HOURS = 730.0


def stretch_lengths(hours: Sequence[int], levels: Collection[int]) -> list[int] | None:
    """Lengths of the stretches of hours at any of the levels [h]; the hours are a ring. None: all of them, without an end."""
    inside = [h in levels for h in hours]
    if all(inside):
        return None
    starts = [i for i, here in enumerate(inside) if here and not inside[i - 1]]
    out = []
    for start in starts:
        length = 0
        while inside[(start + length) % len(inside)]:
            length += 1
        out.append(length)
    return out


def billed_per_month(hours: Sequence[int], levels: Collection[int], granularity_h: float, min_hours: float) -> float:
    """Hours billed in a month of 730 h for holding a node at some levels; never more than all hours of the month."""
    lengths = stretch_lengths(hours, levels)
    if lengths is None:
        return HOURS
    billed = sum(max(math.ceil(n / granularity_h - 1e-9) * granularity_h, min_hours) for n in lengths)
    return min(HOURS, HOURS * billed / len(hours))


def by_stretch() -> pl.Expr:
    """Hourly ways that are billed by more than the hour; reads granularity_s, min_hours."""
    return (pl.col("granularity_s") > 3600.0) | (pl.col("min_hours") > 1.0)


def sets_of(levels: int) -> list[tuple[int, ...]]:
    """Sets of levels offered: the busiest n, and each alone."""
    busiest = [tuple(range(n + 1)) for n in range(levels)]
    return list(dict.fromkeys([*busiest, *((n,) for n in range(levels))]))


def stretched(capacity: pl.DataFrame, calendar: LoadCalendar, stages: Sequence[Stage]) -> pl.DataFrame:
    """Give every hourly way that is billed by more than the hour a row per stage and set of levels.

    Parameters
    ----------
    capacity : granularity_s, min_hours, commit, and the columns of `solver.candidates.starts.started`

    Returns
    -------
    pl.DataFrame
        With month_hours (billed in a month where held) and levels (those it is held at; null: all).
    """
    frame = capacity.with_columns(month_hours=pl.lit(HOURS), levels=pl.lit(None, pl.List(pl.Int64)))
    rows = frame.filter(~pl.col("commit") & by_stretch()).to_dicts()
    if not rows:
        return frame
    out = []
    for row in rows:
        for levels in sets_of(len(calendar.levels)):
            hours = billed_per_month(calendar.hours, levels, row["granularity_s"] / 3600.0, row["min_hours"])
            for s, stage in enumerate(stages):
                held = {"start": stage.start, "first_stage": s, "until_stage": s + 1, "held_worth": stage.discounted}
                months = {"paid_months": stage.months, "held_months": stage.months}
                out.append({**row, **held, **months, "commit": True, "month_hours": hours, "levels": list(levels)})
    more = pl.DataFrame(out, schema=frame.schema)
    return pl.concat([frame.filter(pl.col("commit") | ~by_stretch()), more])
