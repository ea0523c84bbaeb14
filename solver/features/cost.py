"""Money: polars expressions from prices and watts to cost over the horizon, in the problem's currency.

Hours of a month are 730 (8,760 / 12) throughout. All amounts are plain floats here; `solver.scaling` turns them into
integer cents, rounded against the buyer.
"""

from __future__ import annotations

import polars as pl

HOURS_PER_MONTH = 730.0


def discount_months(horizon_months: float, yearly_rate: float) -> float:
    """Present value of one unit of money paid at the end of every month of the horizon [months].

    An annuity of n = horizon payments at monthly rate (1 + r)^(1/12) - 1; without a rate it is the horizon itself. A
    fractional last month counts in proportion.

    Parameters
    ----------
    horizon_months : float
        Length of the horizon [months].
    yearly_rate : float
        Discount rate per year [fraction].
    """
    if yearly_rate == 0:
        return horizon_months
    whole = int(horizon_months)
    monthly: float = (1 + yearly_rate) ** (1 / 12)
    total: float = sum(monthly**-t for t in range(1, whole + 1))
    return total + float((horizon_months - whole) * monthly ** -(whole + 1))


def whole_terms(term_months: pl.Expr, months: pl.Expr) -> pl.Expr:
    """Fewest whole terms that last `months` [terms]; at least one."""
    return (months / term_months - 1e-9).ceil().clip(1.0)


def energy_cost_per_watt_month(price_per_kwh: pl.Expr, pue: pl.Expr) -> pl.Expr:
    """Cost of one IT watt drawn through a whole month, with the facility's overhead [money/(W month)]."""
    return price_per_kwh * pue * HOURS_PER_MONTH / 1000.0


def rework_share(
    interruption_per_month: pl.Expr, nodes: pl.Expr, checkpoint_interval_s: float, restart_s: float
) -> pl.Expr:
    """Expected share of spot time lost to interruptions [fraction, at most 1].

    Each node is interrupted at rate -ln(1 - q) per month (q: share of instances interrupted in a month); one
    interruption stops the whole job, loses half a checkpoint interval on average and then `restart_s` to come back.
    At q = 1 nothing is ever finished: the share is 1.

    Source: first-order checkpoint/restart model (Young 1974), with q as published by providers' spot advisors.
    """
    rate_per_hour = -(1.0 - interruption_per_month.clip(0.0, 1.0)).log() / HOURS_PER_MONTH
    lost = rate_per_hour * nodes * (checkpoint_interval_s / 2 + restart_s) / 3600.0
    return pl.when(interruption_per_month >= 1).then(1.0).otherwise(lost.clip(0.0, 1.0))


def fallback_share(interruption_per_month: pl.Expr, fallback_h: float) -> pl.Expr:
    """Expected share of the time that work on spot spends elsewhere after interruptions [fraction].

    A node runs for 1 / rate hours on average, then spends `fallback_h` elsewhere until spot is back; rate is
    -ln(1 - q) / 730 per hour, with q the share of instances interrupted in a month. Renewal-reward: h / (h + 1 / rate).
    """
    rate_per_hour = -(1.0 - interruption_per_month.clip(0.0, 1.0)).log() / HOURS_PER_MONTH
    away = rate_per_hour * fallback_h
    return pl.when(interruption_per_month >= 1).then(1.0).otherwise(away / (1.0 + away))


def block_hours(hours: pl.Expr, long_hours: pl.Expr, long_step_hours: pl.Expr) -> pl.Expr:
    """Hours of a capacity block that covers `hours`: above `long_hours` in whole steps of `long_step_hours` [h]."""
    stepped = (hours / long_step_hours - 1e-9).ceil() * long_step_hours
    return pl.when((hours > long_hours * (1 + 1e-9)).fill_null(False)).then(stepped).otherwise(hours)


def billed_hours(duration_h: pl.Expr, granularity_s: pl.Expr, min_hours: pl.Expr) -> pl.Expr:
    """Hours billed for one use of `duration_h` under the offer's granularity and minimum [h]."""
    step_h = granularity_s / 3600.0
    stepped = pl.when(step_h > 0).then((duration_h / step_h - 1e-9).ceil() * step_h).otherwise(duration_h)
    return pl.max_horizontal(stepped, min_hours)
