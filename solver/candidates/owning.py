"""Terms of owning and renting that a problem sets (tco:) as expressions over the rows that money is worked out for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from catalogs.catalog import Catalog
from problems.schema import Problem
from problems.tco import PART_CLASSES, ClassLives, ClassShares
from problems.units import Money
from solver.candidates.frames import fx_rates, money_in
from solver.candidates.terms import assumption
from solver.features.cost import replacements, unworn_share
from solver.features.finance import annuity, annuity_factor, monthly_rate


@dataclass(frozen=True)
class Owning:
    """By row of a frame with `part_class` (server, network, storage; anything else counts as facility).

    maintenance [share of price a year], residual, spares [share of price]; bought_again [times within the horizon] and
    every [months between]; unworn [share of what is to be worn off that is left at the end].
    """

    maintenance: pl.Expr
    residual: pl.Expr
    spares: pl.Expr
    bought_again: pl.Expr
    every: pl.Expr
    unworn: pl.Expr


def _by_class(values: Mapping[str, float]) -> pl.Expr:
    return pl.col("part_class").replace_strict(values, default=values["facility"], return_dtype=pl.Float64)


def _given(stated: ClassShares | ClassLives, defaults: Mapping[str, float]) -> dict[str, float]:
    return {c: defaults[c] if getattr(stated, c) is None else float(getattr(stated, c)) for c in PART_CLASSES}


def life_months(problem: Problem, catalog: Catalog) -> dict[str, float]:
    """Useful life by class of parts: the problem's, else the catalogue's [months]."""
    return _given(problem.tco.life, {c: assumption(catalog, f"life_months_{c}") for c in PART_CLASSES})


def maintenance_shares(problem: Problem, catalog: Catalog) -> dict[str, float]:
    """Maintenance by class of parts [share of price a year]."""
    usual = assumption(catalog, "maintenance_share_per_year")
    return _given(problem.tco.maintenance, dict.fromkeys(PART_CLASSES, usual))


def residual_shares(problem: Problem) -> dict[str, float]:
    """Residual value by class of parts [share of price]."""
    return _given(problem.tco.residual, dict.fromkeys(PART_CLASSES, problem.policy.residual_value))


def owning(problem: Problem, catalog: Catalog, held_months: pl.Expr) -> Owning:
    """What a problem says of owning, per class of parts, for things held so many months to the end of the horizon."""
    tco, h = problem.tco, held_months
    again, every, unworn = pl.lit(0.0), pl.lit(1.0), pl.lit(0.0)
    if tco.depreciation != "cash":
        every = _by_class(life_months(problem, catalog))
        again = replacements(h, every)
        interest = monthly_rate(problem.policy.discount_rate) if tco.depreciation == "annuity" else 0.0
        unworn = unworn_share(h - again * every, every, interest)
    return Owning(
        maintenance=_by_class(maintenance_shares(problem, catalog)),
        residual=_by_class(residual_shares(problem)),
        spares=_by_class(_given(tco.spares.parts, dict.fromkeys(PART_CLASSES, 0.0))),
        bought_again=again,
        every=every,
        unworn=unworn,
    )


@dataclass(frozen=True)
class Instalments:
    """How purchases are paid: a share up front, the rest in equal payments at the ends of the first months.

    `payment` is one month's and `present` the value of all payments when the first part is paid, per unit borrowed.
    """

    upfront: float
    months: int
    payment: float
    present: float


def instalments(problem: Problem, start: float = 0.0) -> Instalments:
    """Financing of what is bought in a month, paid off within the horizon; without any, all is paid up front."""
    plan = problem.tco.financing
    if plan is None:
        return Instalments(1.0, 1, 0.0, 0.0)
    left = math.ceil(problem.horizon - 1e-9) - math.floor(start + 1e-9)
    months = max(1, min(math.ceil((plan.term or problem.horizon) - 1e-9), left))
    payment = annuity(1.0, monthly_rate(plan.rate), months)
    return Instalments(
        plan.upfront, months, payment, payment * annuity_factor(monthly_rate(problem.policy.discount_rate), months)
    )


def provider_frame(problem: Problem, providers: pl.Series) -> pl.DataFrame:
    """Surcharges of providers: provider, x_goodput, x_support, x_tax [share of price], and x_all, their sum with the price.

    `providers` : names, each once.
    """
    rows = [{"provider": name, **{f"x_{k}": v for k, v in problem.tco.surcharges(name).items()}} for name in providers]
    schema = {"provider": pl.String, **dict.fromkeys(("x_goodput", "x_support", "x_tax"), pl.Float64)}
    frame = pl.DataFrame(rows, schema=schema)
    return frame.with_columns(x_all=1.0 + pl.sum_horizontal("x_goodput", "x_support", "x_tax"))


def amount(money: Money | None, problem: Problem, catalog: Catalog) -> float:
    """Money in the problem's currency; nothing given is nothing due.

    Raises
    ------
    ValueError
        The catalogue has no rate for the money's currency.
    """
    return 0.0 if money is None else money_in(money, fx_rates(catalog, problem.currency))


def staff_per_node_month(problem: Problem, catalog: Catalog) -> float:
    """People's work on one own server [money/month]."""
    staff = problem.tco.staff
    return 0.0 if staff is None else amount(staff.salary, problem, catalog) / 12 * staff.per_node
