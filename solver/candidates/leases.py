"""Running leases as ways to hold nodes: `lease N` for the rest of a term and on, `running N` for machines on demand."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from catalogs.catalog import Catalog
from catalogs.errors import UnknownName
from problems.schema import Lease, Problem
from solver.candidates.periods import Stage
from solver.features.cost import discount_months

SLACK = 1e-9
TERM, ON_DEMAND = "lease ", "running "


def way_name(number: int, lease: Lease) -> str:
    """Name of the way to hold a lease's nodes, as in the bill; leases count from 1."""
    return f"{ON_DEMAND if lease.ends is None else TERM}{number + 1}"


def lease_number(billing: str) -> int | None:
    """Index of the lease that a way is of; None for all other ways."""
    for prefix in (TERM, ON_DEMAND):
        if billing.startswith(prefix):
            return int(billing.removeprefix(prefix)) - 1
    return None


def is_lease() -> pl.Expr:
    """True for ways that are leases; reads billing."""
    return pl.col("billing").str.starts_with(TERM) | pl.col("billing").str.starts_with(ON_DEMAND)


def is_term() -> pl.Expr:
    """True for leases with a term; reads billing."""
    return pl.col("billing").str.starts_with(TERM)


def is_running() -> pl.Expr:
    """True for leases on demand; reads billing."""
    return pl.col("billing").str.starts_with(ON_DEMAND)


def leased_offers(problem: Problem, catalog: Catalog) -> list[str]:
    """Offer of each lease, as its offer_id.

    Raises
    ------
    UnknownName
        No offer, or several, of that name and region; or no price of that billing mode, and the lease states none.
    """
    return [_offer_of(lease, number, catalog) for number, lease in enumerate(problem.leases)]


def _offer_of(lease: Lease, number: int, catalog: Catalog) -> str:
    named = (
        (pl.col("offer_id") == lease.offer)
        | (pl.col("provider") + "/" + pl.col("offer") == lease.offer)
        | (pl.col("offer") == lease.offer)
    )
    found = catalog.offers.filter(named)
    if lease.region is not None:
        found = found.filter(pl.col("region") == lease.region)
    where = f"(leases[{number}])"
    if found.is_empty():
        known: Sequence[str] = catalog.offers.filter(named)["offer_id"].head(3).to_list()
        raise UnknownName(f"{lease.offer} {lease.region or ''}".strip(), "offer", known, where)
    if found.height > 1:
        hint = f"{where}: several offers have that name; write provider/offer and region"
        raise UnknownName(lease.offer, "single offer", found["offer_id"].head(3).to_list(), hint)
    offer = str(found["offer_id"][0])
    if lease.price is None and _listed(offer, lease, catalog).is_empty():
        hint = f"{where}: the catalogue has no {lease.billing} price of it; state the lease's own price"
        raise UnknownName(offer, "price", (), hint)
    return offer


def _listed(offer: str, lease: Lease, catalog: Catalog) -> pl.DataFrame:
    """The catalogue's price of a lease: of its offer and billing mode, the shortest term."""
    same = (pl.col("offer_id") == offer) & (pl.col("billing") == lease.billing)
    return catalog.prices.filter(same).sort("term_months", "upfront_share", nulls_last=False).head(1)


def lease_prices(problem: Problem, catalog: Catalog, rates: pl.DataFrame) -> pl.DataFrame:
    """Price rows of all leases in the columns of the catalogue's prices, billing as `way_name`.

    Columns: offer_id, billing, term_months, upfront_share, price_per_hour, price_currency, rate_to_problem, min_hours,
    granularity_s, source, as_of, confidence.
    """
    rows = []
    for number, (lease, offer) in enumerate(zip(problem.leases, leased_offers(problem, catalog), strict=True)):
        if lease.price is not None:
            price, currency = float(lease.price.amount), lease.price.currency
            origin = {"source": f"leases[{number}]", "as_of": None, "confidence": "measured"}
        else:
            row = _listed(offer, lease, catalog).row(0, named=True)
            price, currency = float(row["price_per_hour"]), str(row["currency"])
            origin = {key: row[key] for key in ("source", "as_of", "confidence")}
        rows.append(
            {
                "offer_id": offer,
                "billing": way_name(number, lease),
                "price_per_hour": price,
                "price_currency": currency,
                **origin,
            }
        )
    schema = ["offer_id", "billing", "price_per_hour", "price_currency", "source", "as_of", "confidence"]
    frame = pl.DataFrame(rows, schema={c: pl.Float64 if c == "price_per_hour" else pl.String for c in schema})
    zeros = {c: pl.lit(0.0) for c in ("term_months", "upfront_share", "min_hours", "granularity_s")}
    return frame.join(rates, on="price_currency", how="inner", maintain_order="left").with_columns(**zeros)


def held_leases(ways: pl.DataFrame, problem: Problem, stages: Sequence[Stage]) -> pl.DataFrame:
    """Leases with a term among ways to hold nodes, in the columns of `solver.candidates.starts.started`.

    A term that ends within the horizon can run out, after the stages that it covers whole, or be renewed to the horizon.
    """
    rows = []
    last, horizon, rate = len(stages), problem.horizon, problem.policy.discount_rate
    pro_rate = problem.policy.pro_rate_commitments
    for number, lease in enumerate(problem.leases):
        if lease.ends is None:
            continue
        whole = sum(s.end <= lease.ends + SLACK for s in stages)
        ends = [(last, lease.keep_months(horizon, pro_rate=pro_rate))]
        if 0 < whole < last:
            ends.append((whole, lease.ends))
        for until, paid in ends:
            held = min(paid, horizon)
            rows.append((way_name(number, lease), until, paid, held, discount_months(held, rate)))
    schema = {
        "billing": pl.String,
        "until_stage": pl.Int64,
        "paid_months": pl.Float64,
        "held_months": pl.Float64,
        "held_worth": pl.Float64,
    }
    terms = pl.DataFrame(rows, schema=schema, orient="row")
    return ways.join(terms, on="billing", how="inner", maintain_order="left").with_columns(
        start=pl.lit(0.0), first_stage=pl.lit(0, pl.Int64)
    )
