"""Terms of owning and renting that a plan rests on, in words for the report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import polars as pl

from catalogs.catalog import Catalog
from problems.schema import Problem
from problems.tco import ClassShares
from solver.candidates import Candidates
from solver.candidates.owning import life_months, maintenance_shares, residual_shares
from solver.candidates.terms import HOURS_PER_MONTH

METHODS = {"straight_line": "in equal parts", "annuity": "as an annuity"}


def tco_notes(problem: Problem, catalog: Catalog, found: Candidates) -> Iterator[str]:
    """One line for each term that holds for the machines among the candidates."""
    tco = problem.tco
    own = found.pools["site"].is_not_null()
    if own.any():
        kept = f"residual value {_shares(residual_shares(problem))}"
        if tco.depreciation != "cash":
            lives = _by_class({c: f"{m:g} mo" for c, m in life_months(problem, catalog).items()})
            rate = f" at {_percent(problem.policy.discount_rate)} a year" if tco.depreciation == "annuity" else ""
            kept += f" at the end of a life of {lives}, worn off {METHODS[tco.depreciation]}{rate}"
        yield f"bought machines: maintenance {_shares(maintenance_shares(problem, catalog))} of price a year, {kept}"
        yield from _stated(problem)
        yield (
            f"limits count nameplate watts, or the power limit set; energy counts drawn watts, {HOURS_PER_MONTH:g} hours a month"
        )
    for name in sorted(set(found.pools.filter(pl.col("site").is_null())["provider"])):
        terms = tco.provider(name)
        said = [f"goodput {_percent(terms.goodput)}"] if terms.goodput < 1 else []
        said += [f"support {_percent(terms.support)}"] if terms.support else []
        if said and any(key.lower() == name.lower() for key in tco.providers):
            yield f"{name}: {', '.join(said)} (tco.providers)"
    rest = tco.providers.get("any")
    if rest is not None and (rest.goodput < 1 or rest.support):
        yield f"other providers: goodput {_percent(rest.goodput)}, support {_percent(rest.support)} (tco.providers.any)"
    if tco.tax.rental:
        yield f"tax on rentals {_percent(tco.tax.rental)} of the bill (tco.tax)"


def _stated(problem: Problem) -> Iterator[str]:
    tco = problem.tco
    if tco.financing is not None:
        term = min(tco.financing.term or problem.horizon, problem.horizon)
        yield (
            f"purchases: {_percent(tco.financing.upfront)} up front, the rest over {term:g} months at {_percent(tco.financing.rate)} a year"
        )
    if any(getattr(tco.spares.parts, c) for c in ClassShares.model_fields):
        yield "spare parts are bought with the machines (tco.spares.parts)"
    if tco.spares.nodes or tco.spares.node_share:
        yield "spare nodes stand by, powered, at every site (tco.spares)"
    if tco.tax.purchase:
        yield f"tax on purchases {_percent(tco.tax.purchase)} of the price (tco.tax)"
    if tco.staff is None:
        yield "no staff is counted (tco.staff)"


def _shares(values: Mapping[str, float]) -> str:
    return _by_class({c: _percent(v) for c, v in values.items()})


def _by_class(texts: Mapping[str, str]) -> str:
    """One text where all classes agree, else each with its class."""
    if len(set(texts.values())) == 1:
        return next(iter(texts.values()))
    return ", ".join(f"{name} {text}" for name, text in texts.items())


def _percent(share: float) -> str:
    return f"{share * 100:.4g}%"
