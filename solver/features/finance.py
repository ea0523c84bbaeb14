"""Money over time: annuities, present values, depreciation, and the points where buying and renting cost the same.

Plain floats in one currency; nothing is rounded. A month has 730 h (8,760 / 12) unless the caller says otherwise, since
some published studies use 720 h. A point that is never reached is None, never infinity.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from solver.features.cost import HOURS_PER_MONTH

HOURS_PER_YEAR = 8760.0
DAYS_PER_YEAR = 365.0


def annuity_factor(rate: float, periods: float) -> float:
    """Present value of one unit paid at the end of each period [periods].

    (1 - (1 + r)^-n) / r, and n itself at a rate of zero. `periods` may be fractional.

    Parameters
    ----------
    rate : float
        Interest per period [fraction].
    periods : float
        Number of payments.

    Raises
    ------
    ValueError
        `periods` is not positive, or the rate is -100 % or less.
    """
    if periods <= 0:
        raise ValueError(f"an annuity needs at least one period, not {periods:g}")
    if rate <= -1:
        raise ValueError(f"a rate of {rate:.0%} per period leaves nothing to pay back")
    if abs(rate) < 1e-12:
        return periods
    # expm1 and log1p keep their digits where the rate is tiny.
    return -math.expm1(-periods * math.log1p(rate)) / rate


def annuity(principal: float, rate: float, periods: float, residual: float = 0.0) -> float:
    """Equal payment at the end of each period that pays `principal` back but for `residual` [money per period].

    The residual comes back at the end of the last period, so its present value is taken off first (a lease with a
    balloon, or the yearly cost of a machine that is sold at the end).
    """
    factor = annuity_factor(rate, periods)
    return float((principal - residual * (1 + rate) ** -periods) / factor)


def monthly_rate(yearly_rate: float) -> float:
    """Monthly rate that compounds to the yearly one [fraction]: (1 + r)^(1/12) - 1."""
    return math.expm1(math.log1p(yearly_rate) / 12)


def present_value(flows: Sequence[float], rate: float, *, first_period: int = 0) -> float:
    """Sum of the flows discounted to the start [money]; flow i falls at the end of period `first_period` + i."""
    return float(sum(flow * (1 + rate) ** -(first_period + i) for i, flow in enumerate(flows)))


def straight_line(capex: float, residual: float, life_years: float) -> float:
    """Yearly depreciation from price to residual value over the life [money/year].

    Raises
    ------
    ValueError
        The life is not positive.
    """
    if life_years <= 0:
        raise ValueError(f"life of {life_years:g} years: must be above 0")
    return (capex - residual) / life_years


def tax_depreciation(capex: float, percents: Sequence[float]) -> list[float]:
    """Deduction of each year under a table of percentages, as MACRS gives it (IRS publication 946) [money].

    Raises
    ------
    ValueError
        The percentages pass 100 in sum, or one is negative.
    """
    if min(percents, default=0.0) < 0 or sum(percents) > 100 + 1e-6:
        raise ValueError(f"depreciation percentages {list(percents)} are negative or pass 100 in sum")
    return [capex * p / 100.0 for p in percents]


def residual_value(price: float, months: float, share: float, share_after_months: float = 36.0) -> float:
    """Resale value after `months`, falling by the same share each month [money].

    price x share^(months / share_after_months): `share` of the price is left after `share_after_months`. Geometric,
    since used prices fall fastest at first.
    """
    if not 0 <= share <= 1:
        raise ValueError(f"residual share of {share:g}: must be between 0 and 1")
    if months <= 0:
        return price
    return float(price * share ** (months / share_after_months))


def break_even_hours(capex: float, own_per_h: float, rent_per_h: float, residual: float = 0.0) -> float | None:
    """Hours of use after which buying has cost less than renting [h]; None if it never does.

    (capex - residual) / (rent - own running cost): both rates for the same machine while it is used. A machine that
    costs nothing net is ahead from the start, if running it costs no more than renting.
    """
    net = capex - residual
    if net <= 0 and own_per_h <= rent_per_h:
        return 0.0
    saved = rent_per_h - own_per_h
    return net / saved if saved > 0 else None


def break_even_months(
    hours: float | None, hours_per_month: float = HOURS_PER_MONTH, utilisation: float = 1.0
) -> float | None:
    """Break-even hours as months of a machine used a share of the time [months]; None if never."""
    if hours is None or (utilisation <= 0 and hours > 0):
        return None
    return hours / (hours_per_month * utilisation) if hours else 0.0


def discounted_break_even_months(net_capex: float, saved_per_month: float, yearly_rate: float = 0.0) -> float | None:
    """Months until savings at the end of each month pay back what was spent at the start [months]; None if never.

    n = -ln(1 - r capex / saving) / ln(1 + r) with the compound monthly rate r; capex / saving at a rate of zero.
    """
    if net_capex <= 0:
        return 0.0
    if saved_per_month <= 0:
        return None
    rate = monthly_rate(yearly_rate)
    if abs(rate) < 1e-12:
        return net_capex / saved_per_month
    paid = rate * net_capex / saved_per_month
    return -math.log1p(-paid) / math.log1p(rate) if paid < 1 else None


def break_even_years(hours: float | None, hours_per_day: float = 24.0) -> float | None:
    """Break-even hours as years of 365 days at some hours of use a day [years]; None if never."""
    if hours is None or (hours_per_day <= 0 and hours > 0):
        return None
    return hours / (DAYS_PER_YEAR * hours_per_day) if hours else 0.0


def break_even_utilisation(own_fixed_per_h: float, rent_per_h: float, own_variable_per_h: float = 0.0) -> float | None:
    """Share of hours in use above which owning costs less than renting by the hour [fraction]; None if never.

    fixed / (rent - variable): `own_fixed_per_h` is paid every hour (capital, staff, space), the variable part and the
    rent only for hours used. A share above 1 cannot be reached: None.
    """
    saved = rent_per_h - own_variable_per_h
    if saved <= 0:
        return None
    share = own_fixed_per_h / saved
    return share if share <= 1 else None


def cost_per_used_hour(own_fixed_per_h: float, utilisation: float, own_variable_per_h: float = 0.0) -> float | None:
    """Unit cost of an owned machine per hour of work done [money/h]; None when it does none."""
    return None if utilisation <= 0 else own_fixed_per_h / utilisation + own_variable_per_h


def payback_months(own: Sequence[float], rent: Sequence[float], yearly_rate: float = 0.0) -> float | None:
    """Month in which the money spent on owning falls below that spent on renting, for good [months]; None if it does not.

    Parameters
    ----------
    own, rent : sequence of float
        Payments by month; entry 0 is what is paid up front, entry t the payment at the end of month t [money].
    yearly_rate : float
        Discount rate per year [fraction].

    Notes
    -----
    Within the month of the last crossing the difference is taken as linear. A saving that is later lost again (a
    refresh bought inside the horizon) does not count.
    """
    months = max(len(own), len(rent))
    step = 1 + monthly_rate(yearly_rate)
    ahead, found, before = 0.0, None, 0.0
    for t in range(months):
        saved = (rent[t] if t < len(rent) else 0.0) - (own[t] if t < len(own) else 0.0)
        before, ahead = ahead, ahead + saved * step**-t
        if ahead < -1e-9:
            found = None
        elif found is None:
            found = t - 1 + before / (before - ahead) if before < 0 else float(t)
    return found


def hours_of(years: float = 0.0, months: float = 0.0, utilisation: float = 1.0) -> float:
    """Hours of use in so many years and months [h]."""
    return (years * HOURS_PER_YEAR + months * HOURS_PER_MONTH) * utilisation


def forward_price(short_price: float, short_years: float, long_price: float, long_years: float) -> float:
    """Price that contracts imply for the years between a short and a long term [money/h].

    A buyer is indifferent when the long term costs what the short one and its renewals do:
    (long x years - short x years) / years between.

    Raises
    ------
    ValueError
        The long term is not longer.
    """
    if long_years <= short_years:
        raise ValueError(f"a term of {long_years:g} years is not longer than {short_years:g}")
    return (long_price * long_years - short_price * short_years) / (long_years - short_years)


def spot_multiplier(interruptions_per_h: float, checkpoint_interval_h: float, overhead: float = 0.0) -> float | None:
    """Hours billed per hour of work on spot capacity [ratio]; None when no work is ever finished.

    (1 + overhead) / (1 - rate x interval / 2): each interruption loses half a checkpoint interval on average
    (Young 1974, first order). Without checkpoints the interval is the length of the job.
    """
    kept = 1 - interruptions_per_h * checkpoint_interval_h / 2
    return (1 + overhead) / kept if kept > 0 else None


def checkpoint_interval_h(write_h: float, interruptions_per_h: float) -> float:
    """Interval between checkpoints that loses least time [h]: sqrt(2 x write / rate) (Young 1974).

    Raises
    ------
    ValueError
        The work is never interrupted, so that no interval is too long.
    """
    if interruptions_per_h <= 0:
        raise ValueError("without interruptions no checkpoint is needed")
    return math.sqrt(2 * write_h / interruptions_per_h)


def restarted_hours(interruptions_per_h: float, job_h: float) -> float | None:
    """Hours billed on spot capacity for a job that starts over at each interruption [h]; None where that overflows.

    (e^(rate x length) - 1) / rate: expected time to one stretch without an interruption, these being Poisson.
    """
    if interruptions_per_h <= 0:
        return job_h
    try:
        return math.expm1(interruptions_per_h * job_h) / interruptions_per_h
    except OverflowError:
        return None


def spot_break_even(spot: float, on_demand: float, checkpoint_interval_h: float, overhead: float = 0.0) -> float:
    """Interruptions per hour at which spot costs what on demand does [1/h]; 0 when it never pays."""
    if checkpoint_interval_h <= 0:
        raise ValueError("the checkpoint interval must be above 0 h")
    return max(0.0, 2 * (1 - spot * (1 + overhead) / on_demand) / checkpoint_interval_h)


def cost_per_million_tokens(price_per_h: float, tokens_per_s: float) -> float:
    """Price of a million tokens at a rate [money/Mtoken]."""
    if tokens_per_s <= 0:
        raise ValueError("tokens per second must be above 0")
    return price_per_h / 3600.0 / tokens_per_s * 1e6


def training_gpu_hours(params: float, tokens: float, peak_flops: float, mfu: float) -> float:
    """GPU-hours of a training run [h]: 6 N D / (MFU x peak), the usual 6 FLOP per parameter and token (Kaplan 2020)."""
    if not 0 < mfu <= 1:
        raise ValueError(f"MFU of {mfu:g}: must be above 0 and at most 1")
    return 6.0 * params * tokens / (mfu * peak_flops * 3600.0)
