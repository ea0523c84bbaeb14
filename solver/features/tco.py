"""Total cost of ownership of a bought fleet, and of the same work rented, as cash by month.

`bought_cash` and `rented_cash` give one row per month (month 0: paid up front) with a column per category, so that a
total, a present value, a payback and a chart all come from the same figures. Money in one currency, costs positive,
what comes back (residual value) negative.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import polars as pl

from solver.features.cost import HOURS_PER_MONTH
from solver.features.finance import annuity, monthly_rate

BOUGHT = ("capex", "financing", "setup", "tax", "energy", "space", "maintenance", "staff", "support", "residual")
RENTED = ("upfront", "compute", "storage", "egress", "support", "goodput", "setup")


@dataclass(frozen=True)
class PartClass:
    """Parts bought together that live equally long.

    Parameters
    ----------
    name : str
        accelerators, servers, network, storage, ...
    price : float
        Purchase price of all of them, without spares [money].
    spare_share : float
        Spares bought on top, as a share of the price [fraction].
    maintenance_share_per_year : float
        Support contract per year, as a share of the price [fraction/year].
    residual_share : float
        Share of the price got back at the end of the horizon [fraction].
    """

    name: str
    price: float
    spare_share: float = 0.0
    maintenance_share_per_year: float = 0.0
    residual_share: float = 0.0

    @property
    def capex(self) -> float:
        """Price with spares [money]."""
        return self.price * (1 + self.spare_share)


@dataclass(frozen=True)
class Fleet:
    """What a bought fleet costs.

    Parameters
    ----------
    parts : tuple of PartClass
    it_w : float
        Drawn at the expected load, host and network included [W]. Limits take nameplate; money takes what is drawn.
    pue : float
        Facility watts per IT watt [ratio].
    energy_per_kwh : float
        Electricity [money/kWh].
    space_per_month, support_per_month : float
        Rent of rooms or racks; licences and support [money/month].
    staff_fte, staff_per_year : float
        Persons, and what one costs [money/year]. Zero unless given: a quarter of a person decides many cases.
    maintenance_per_year : tuple of float
        Contract sums by year where they are given as such; the last one goes on [money/year].
    setup : float
        One-off: installation, training, migration [money].
    tax_share : float
        Sales tax on capex that is not recovered [fraction].
    upfront_share, financing_rate : float
        Share of capex paid at once; the rest is paid back in equal instalments over the horizon at this yearly rate.
    refresh : tuple of (month, price)
        Parts bought again inside the horizon [month, money].
    """

    parts: tuple[PartClass, ...]
    it_w: float = 0.0
    pue: float = 1.0
    energy_per_kwh: float = 0.0
    space_per_month: float = 0.0
    support_per_month: float = 0.0
    staff_fte: float = 0.0
    staff_per_year: float = 0.0
    maintenance_per_year: tuple[float, ...] = ()
    setup: float = 0.0
    tax_share: float = 0.0
    upfront_share: float = 1.0
    financing_rate: float = 0.0
    hours_per_month: float = HOURS_PER_MONTH
    refresh: tuple[tuple[int, float], ...] = field(default=())

    @property
    def capex(self) -> float:
        """Purchase price with spares, without tax [money]."""
        return sum(p.capex for p in self.parts)


@dataclass(frozen=True)
class Rental:
    """What the same work costs rented.

    Parameters
    ----------
    per_gpu_h : float
        Price of one accelerator [money/h].
    gpus : float
    utilisation : float
        Share of hours paid for: 1 for a commitment, the share in use for on-demand.
    storage_per_month, egress_per_month, support_per_month, goodput_per_month : float
        [money/month]; goodput is the worth of rented time lost to faults.
    support_share : float
        Support as a share of the compute bill [fraction].
    goodput_share : float
        Share of compute time lost, charged as that much more compute [fraction].
    setup : float
        One-off [money].
    upfront_share : float
        Share of the whole compute bill paid at the start of each term [fraction].
    term_months : float
        Length of a commitment; whole terms are paid. Zero: by the hour.
    """

    per_gpu_h: float
    gpus: float
    utilisation: float = 1.0
    hours_per_month: float = HOURS_PER_MONTH
    storage_per_month: float = 0.0
    egress_per_month: float = 0.0
    support_per_month: float = 0.0
    goodput_per_month: float = 0.0
    support_share: float = 0.0
    goodput_share: float = 0.0
    setup: float = 0.0
    upfront_share: float = 0.0
    term_months: float = 0.0

    @property
    def compute_per_month(self) -> float:
        """Accelerators alone [money/month]."""
        return self.gpus * self.per_gpu_h * self.hours_per_month * self.utilisation


def energy_kwh(it_w: float, hours: float, pue: float = 1.0) -> float:
    """Energy at the meter [kWh]."""
    return it_w * hours * pue / 1000.0


def _months(horizon: float) -> pl.DataFrame:
    """Months 0..ceil(horizon) with the share of each that lies in the horizon (month 0: none)."""
    if horizon <= 0:
        raise ValueError(f"a horizon of {horizon:g} months: must be above 0")
    last = math.ceil(horizon - 1e-9)
    month = pl.int_range(0, last + 1, dtype=pl.Int64, eager=True).alias("month")
    part = (pl.lit(horizon) - (pl.col("month") - 1)).clip(0.0, 1.0)
    return month.to_frame().with_columns(part=pl.when(pl.col("month") == 0).then(0.0).otherwise(part))


def _yearly(values: Sequence[float]) -> pl.Expr:
    """Money per month from sums per year, the last of which goes on."""
    if not values:
        return pl.lit(0.0)
    year = ((pl.col("month") - 1).clip(0) // 12).clip(0, len(values) - 1)
    return year.replace_strict(dict(enumerate(values)), return_dtype=pl.Float64) / 12.0


def bought_cash(fleet: Fleet, horizon_months: float) -> pl.DataFrame:
    """Cash of a bought fleet by month.

    Returns
    -------
    pl.DataFrame
        month (0 = up front), the categories of `BOUGHT`, total [money].

    Notes
    -----
    A fractional last month counts in proportion. Financing: what is not paid up front comes back as an annuity of
    whole months at the compound monthly rate; interest is in it, so capex holds the up-front part only.
    """
    frame = _months(horizon_months)
    taxed = fleet.capex * (1 + fleet.tax_share)
    whole = frame.height - 1
    borrowed = taxed * (1 - fleet.upfront_share)
    instalment = annuity(borrowed, monthly_rate(fleet.financing_rate), whole)
    later = pl.col("month") > 0
    at_start = pl.col("month") == 0
    energy = energy_kwh(fleet.it_w, fleet.hours_per_month, fleet.pue) * fleet.energy_per_kwh
    contracts = sum(p.price * p.maintenance_share_per_year for p in fleet.parts) / 12.0
    back = sum(p.price * p.residual_share for p in fleet.parts)
    refresh = pl.sum_horizontal(
        pl.lit(0.0), *(pl.when(pl.col("month") == m).then(price).otherwise(0.0) for m, price in fleet.refresh)
    )
    frame = frame.with_columns(
        capex=pl.when(at_start).then(fleet.capex * fleet.upfront_share).otherwise(0.0) + refresh,
        financing=pl.when(later).then(instalment).otherwise(0.0),
        setup=pl.when(at_start).then(fleet.setup).otherwise(0.0),
        tax=pl.when(at_start).then((taxed - fleet.capex) * fleet.upfront_share).otherwise(0.0),
        energy=pl.col("part") * energy,
        space=pl.col("part") * fleet.space_per_month,
        maintenance=pl.col("part") * (pl.lit(contracts) + _yearly(fleet.maintenance_per_year)),
        staff=pl.col("part") * fleet.staff_fte * fleet.staff_per_year / 12.0,
        support=pl.col("part") * fleet.support_per_month,
        residual=pl.when(pl.col("month") == whole).then(-back).otherwise(0.0),
    )
    return frame.drop("part").with_columns(total=pl.sum_horizontal(BOUGHT))


def rented_cash(rental: Rental, horizon_months: float) -> pl.DataFrame:
    """Cash of rented accelerators by month.

    Whole terms are paid: a horizon of 30 months in terms of 12 pays 36, the months past the horizon with the last one.

    Returns
    -------
    pl.DataFrame
        month (0 = up front), the categories of `RENTED`, total [money].
    """
    frame = _months(horizon_months)
    whole = frame.height - 1
    term = rental.term_months
    paid = math.ceil(horizon_months / term - 1e-9) * term if term > 0 else horizon_months
    compute = rental.compute_per_month
    upfront = pl.lit(0.0)
    if rental.upfront_share > 0:
        length = term if term > 0 else paid
        # A term that starts at the end of month m is paid in row m.
        starts = [round(i * length) for i in range(math.ceil(paid / length - 1e-9))]
        upfront = pl.when(pl.col("month").is_in(starts)).then(compute * length * rental.upfront_share).otherwise(0.0)
    beyond = pl.when(pl.col("month") == whole).then(paid - horizon_months).otherwise(0.0)
    share = pl.col("part")
    frame = frame.with_columns(
        upfront=upfront,
        compute=(share + beyond) * compute * (1 - rental.upfront_share),
        storage=share * rental.storage_per_month,
        egress=share * rental.egress_per_month,
        support=share * (rental.support_per_month + compute * rental.support_share),
        goodput=share * (rental.goodput_per_month + compute * rental.goodput_share),
        setup=pl.when(pl.col("month") == 0).then(rental.setup).otherwise(0.0),
    )
    return frame.drop("part").with_columns(total=pl.sum_horizontal(RENTED))


def total_cost(cash: pl.DataFrame, yearly_rate: float = 0.0) -> float:
    """Sum of a cash frame, discounted monthly where a rate is given [money]."""
    step = 1 + monthly_rate(yearly_rate)
    return float(cash.select((pl.col("total") * pl.lit(step).pow(-pl.col("month"))).sum()).item())


def cost_by_category(cash: pl.DataFrame) -> dict[str, float]:
    """Undiscounted sum of each category that is not zero [money]."""
    sums = cash.drop("month", "total").sum().row(0, named=True)
    return {name: float(value) for name, value in sums.items() if value}


def cumulative(cash: pl.DataFrame, month: int) -> float:
    """Money spent from the start to the end of a month [money]."""
    return float(cash.filter(pl.col("month") <= month)["total"].sum())
