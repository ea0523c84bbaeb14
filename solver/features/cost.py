"""Money: polars expressions from prices and watts to cost over the horizon, in the problem's currency.

Hours of a month are 730 (8,760 / 12) throughout. All amounts are plain floats here; `solver.scaling` turns them into
integer cents, rounded against the buyer.
"""

from __future__ import annotations

import math

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


def replacements(horizon_months: float | pl.Expr, life_months: pl.Expr) -> pl.Expr:
    """Number of times that something is bought again within the horizon, having worn out [1].

    What wears out with the last month is not bought again.
    """
    return ((horizon_months / life_months - 1e-9).ceil() - 1).clip(0.0)


def unworn_share(age_months: pl.Expr, life_months: pl.Expr, monthly_rate: float) -> pl.Expr:
    """Share of the amount to be worn off that is left at an age [fraction]; the rest has become residual value.

    With equal payments at interest i over a life of L months, (g^L - g^a) / (g^L - 1) of it is still owed at age a
    (g = 1 + i): the balance of an annuity. At a rate of zero this is straight line, 1 - a / L.

    Parameters
    ----------
    age_months, life_months : pl.Expr
        Age of the last purchase and useful life [months].
    monthly_rate : float
        Interest per month [fraction]; 0 for straight line.
    """
    if abs(monthly_rate) < 1e-12:
        left = 1.0 - age_months / life_months
    else:
        grown = math.log1p(monthly_rate)
        left = ((life_months * grown).exp() - (age_months * grown).exp()) / ((life_months * grown).exp() - 1.0)
    return left.clip(0.0, 1.0)


def present_of_months(months: pl.Expr, yearly_rate: float) -> pl.Expr:
    """Present value of one unit paid at the end of so many months [fraction]."""
    return (months * (-math.log1p(yearly_rate) / 12)).exp()


def present_of_repeats(count: pl.Expr, every_months: pl.Expr, yearly_rate: float) -> pl.Expr:
    """Present value of one unit paid `count` times, at the ends of every so many months [units]: a geometric sum."""
    if yearly_rate == 0:
        return count
    step = present_of_months(every_months, yearly_rate)
    return step * (1.0 - step.pow(count)) / (1.0 - step)


def upfront_present(term_months: pl.Expr, paid_months: pl.Expr, yearly_rate: float) -> pl.Expr:
    """Present value of one unit paid up front in all, each term's part at the start of the term [fraction].

    `paid_months` are whole terms, or end with a part of one (see `paid_months`).
    """
    full = (paid_months / term_months + 1e-9).floor()
    rest = (paid_months - full * term_months).clip(0.0)
    whole = pl.when(full >= 1).then(1.0 + present_of_repeats(full - 1.0, term_months, yearly_rate)).otherwise(0.0)
    return (term_months * whole + rest * present_of_months(full * term_months, yearly_rate)) / paid_months
