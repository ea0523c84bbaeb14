"""Factors on catalogue prices: ``prices.spot``, ``prices.h100``, ``prices.aws.reserved``, ``prices.p5.48xlarge``.

A selector names a billing mode, a provider, an accelerator, an offer, ``purchase`` (all bought hardware) or ``electricity``;
several names joined by dots must all match. An accelerator's factor moves rented offers of it, its purchase price, and
complete systems sold with it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal
from difflib import get_close_matches
from functools import lru_cache, reduce
from operator import and_

import polars as pl

from catalogs.catalog import Catalog
from catalogs.names import match_accelerators, suggest_accelerators
from problems.schema import Problem
from problems.tariff import Tariff
from problems.units import MoneyPerKwh
from solver.whatif.vary import PRICES, BadRequest

ELECTRICITY = "electricity"
PURCHASE = "purchase"
ALL = ("*", "all")
HARDWARE = (
    "accelerators.price_usd",
    "accelerators.price_low_usd",
    "accelerators.price_high_usd",
    "servers.price_usd",
    "cpus.price_usd",
    "ram.price_usd",
    "storage.price_usd_per_tb",
    "network.nic_price_usd",
    "network.switch_price_usd",
    "network.per_port_switch_price_usd",
    "network.cable_price_usd",
)


def with_factors(problem: Problem, catalog: Catalog, factors: Iterable[tuple[str, float]]) -> tuple[Problem, Catalog]:
    """Problem and catalogue with the matching prices multiplied (electricity stated by a site included).

    Raises
    ------
    BadRequest
        For a selector that matches nothing in the catalogue.
    """
    for selector, factor in factors:
        name = selector.removeprefix(PRICES)
        if name == ELECTRICITY:
            problem, catalog = _electricity(problem, catalog, factor)
        else:
            catalog = _scaled(catalog, selector, factor)
    return problem, catalog


def _electricity(problem: Problem, catalog: Catalog, factor: float) -> tuple[Problem, Catalog]:
    def times(price: MoneyPerKwh | Tariff) -> MoneyPerKwh | Tariff:
        exact = Decimal(repr(factor))
        if isinstance(price, Tariff):
            return price.times(exact)
        return MoneyPerKwh(price.amount * exact, price.currency)

    sites = tuple(
        s if s.electricity is None else s.model_copy(update={"electricity": times(s.electricity)})
        for s in problem.sites
    )
    is_default = pl.col("key") == "electricity_usd_per_kwh"
    changed = replace(
        catalog,
        electricity=catalog.electricity.with_columns(pl.col("price_per_kwh_usd") * factor),
        assumptions=catalog.assumptions.with_columns(
            value=pl.when(is_default).then(pl.col("value") * factor).otherwise("value")
        ),
        sha256=_digest(catalog, ELECTRICITY, factor),
    )
    return problem.model_copy(update={"sites": sites}), changed


def _scaled(catalog: Catalog, selector: str, factor: float) -> Catalog:
    rented, cards, everything = matches(catalog, selector.removeprefix(PRICES))
    changes: dict[str, pl.DataFrame] = {}
    if rented.any():
        scaled = (pl.col("price_per_hour") * factor).round_sig_figs(6)
        changes["prices"] = catalog.prices.with_columns(
            price_per_hour=pl.when(rented).then(scaled).otherwise("price_per_hour")
        )
    for target in HARDWARE:
        table, column = target.split(".")
        frame = changes.get(table, getattr(catalog, table))
        if everything:
            hit = pl.lit(True)
        elif not cards:
            continue
        elif table == "accelerators":
            hit = pl.col("accelerator").is_in(cards)
        elif table == "servers":
            sold_with = pl.col("fits").str.split(";").list.eval(pl.element().is_in(cards)).list.any()
            hit = pl.col("price_includes_gpu") & sold_with
        else:
            continue
        moved = (pl.col(column).cast(pl.Float64) * factor).round(4)
        changes[table] = frame.with_columns(pl.when(hit).then(moved).otherwise(column).alias(column))
    return replace(catalog, **changes, sha256=_digest(catalog, selector, factor))


def _digest(catalog: Catalog, selector: str, factor: float) -> str:
    return hashlib.sha256(f"{catalog.sha256} {selector} {factor!r}".encode()).hexdigest()


@lru_cache(maxsize=64)
def matches(catalog: Catalog, name: str) -> tuple[pl.Series, tuple[str, ...], bool]:
    """What a selector names: a mask over the rows of `prices`, accelerators whose purchase price moves, all hardware.

    Raises
    ------
    BadRequest
        Where it names nothing.
    """
    rows = catalog.prices.join(
        catalog.offers.select("offer_id", "offer", "provider", "accelerator"),
        on="offer_id",
        how="left",
        maintain_order="left",
    )
    offer = (rows["offer"] == name) | (rows["offer_id"] == name)
    if offer.fill_null(False).any():
        return offer.fill_null(False), (), False
    found = [_token(catalog, rows, token) for token in name.split(".")]
    rented = reduce(and_, (f[0] for f in found))
    cards = reduce(and_, (f[1] for f in found))
    everything = all(f[2] for f in found)
    if not rented.any() and not cards and not everything:
        raise BadRequest(f"{PRICES}{name} matches no price in the catalogue")
    return rented, tuple(sorted(cards)), everything


def _token(catalog: Catalog, rows: pl.DataFrame, token: str) -> tuple[pl.Series, set[str], bool]:
    low = token.lower()
    every_card = set(catalog.accelerators["accelerator"])
    nothing = pl.repeat(False, rows.height, dtype=pl.Boolean, eager=True)
    if low in ALL:
        return ~nothing, every_card, True
    if low == PURCHASE:
        return nothing, every_card, True
    billing = rows["billing"] == low
    if billing.any():
        return billing, set(), False
    provider = rows["provider"].str.to_lowercase() == low
    if provider.any():
        return provider.fill_null(False), set(), False
    cards = match_accelerators(catalog, token)
    if cards:
        return rows["accelerator"].is_in(list(cards)).fill_null(False), set(cards), False
    known = [*rows["billing"].unique(), *rows["provider"].drop_nulls().str.to_lowercase().unique()]
    near = get_close_matches(low, [*known, PURCHASE, ELECTRICITY], n=2) or suggest_accelerators(catalog, token, 2)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    raise BadRequest(
        f"{PRICES}{token}: no billing mode, provider, accelerator or offer of that name, nor purchase or electricity{hint}"
    )
