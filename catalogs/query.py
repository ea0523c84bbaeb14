"""Questions to a catalogue: list, show, sources. Pure functions of frames; nothing is printed here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from difflib import get_close_matches

import polars as pl

from catalogs.catalog import Catalog
from catalogs.errors import UnknownName
from catalogs.market import BILLINGS, DEPLOYMENTS
from catalogs.money import age_days, convert
from catalogs.names import match_accelerators, suggest_accelerators
from catalogs.schema import TABLES
from problems.terms import CONFIDENCES

# fmt: off
EU = (
    "AT", "BE", "BG", "CY", "CZ", "DE", "DK", "EE", "ES", "FI", "FR", "GR", "HR", "HU", "IE", "IT", "LT",
    "LU", "LV", "MT", "NL", "PL", "PT", "RO", "SE", "SI", "SK",
)
# fmt: on
SORTS = (
    "price_per_gpu_hour",
    "price",
    "provider",
    "accelerator",
    "accelerator_count",
    "country",
    "age_days",
    "ram_gib",
    "vcpus",
)


@dataclass(frozen=True)
class Where:
    """What to list; None: no restriction. `region` is a region, a part of its name, a country code, or EU."""

    gpu: str | None = None
    provider: str | None = None
    region: str | None = None
    country: str | None = None
    billing: str | None = None
    deployment: str | None = None
    min_confidence: str | None = None
    doubtful: bool = True


@dataclass(frozen=True)
class Page:
    """Rows shown, of how many that match."""

    frame: pl.DataFrame
    total: int

    @property
    def caption(self) -> str:
        return f"shown {self.frame.height} of {self.total}"


@dataclass(frozen=True)
class Section:
    """A titled part of an entry, from table `table`."""

    title: str
    table: str
    frame: pl.DataFrame


def price_list(
    catalog: Catalog, currency: str = "USD", today: date | None = None, only: pl.Expr | None = None
) -> pl.DataFrame:
    """One row per offer and price, unpriced offers included (their price columns are null); offers that pass `only`.

    Adds `price` [currency/h for the instance], `price_per_gpu_hour` [currency/h] and `age_days` [d] (null:
    the price has no date). Provenance columns are the price's, the offer's where it has none.

    Raises
    ------
    UnknownName
        No rate leads to `currency`.
    """
    day = today or date.today()
    chosen = catalog.offers if only is None else catalog.offers.filter(only)
    offers = chosen.rename({name: f"offer_{name}" for name in ("source", "as_of", "confidence", "notes")})
    rows = offers.join(catalog.prices, on="offer_id", how="left", maintain_order="left")
    rows = convert(rows, "price_per_hour", catalog, currency)
    return rows.with_columns(
        price_per_gpu_hour=pl.col("price") / (pl.col("accelerator_count") * pl.col("accelerator_share").fill_null(1.0)),
        price_currency=pl.lit(currency),
        source=pl.coalesce("source", "offer_source"),
        confidence=pl.coalesce("confidence", "offer_confidence"),
        notes=pl.coalesce("notes", "offer_notes"),
        as_of=pl.when(pl.col("price_per_hour").is_null()).then("offer_as_of").otherwise("as_of"),
    ).with_columns(age_days=age_days("as_of", day))


def list_offers(
    catalog: Catalog,
    where: Where | None = None,
    *,
    sort: str = "price_per_gpu_hour",
    descending: bool = False,
    limit: int | None = None,
    currency: str = "USD",
    today: date | None = None,
) -> Page:
    """List offers that match, cheapest per accelerator-hour first; rows without a price come last.

    Raises
    ------
    UnknownName
        Accelerator, provider, region, country, billing mode, currency or sort column that the catalogue
        does not know.
    """
    if sort not in SORTS:
        raise UnknownName(sort, "sort column", _near(sort, SORTS), hint=f"(one of {', '.join(SORTS)})")
    asked = where or Where()
    rows = price_list(catalog, currency, today, pl.all_horizontal(pl.lit(True), *_of_offers(catalog, asked)))
    for condition in _of_prices(asked):
        rows = rows.filter(condition)
    order = [sort, "price_per_gpu_hour", "offer_id", "billing", "term_months"]
    keys = list(dict.fromkeys(order))
    rows = rows.sort(keys, descending=[descending, *[False] * (len(keys) - 1)], nulls_last=True)
    return Page(rows if limit is None else rows.head(limit), rows.height)


def _of_offers(catalog: Catalog, where: Where) -> Iterable[pl.Expr]:
    """What an offer must be."""
    offers = catalog.offers
    if where.gpu is not None:
        names = match_accelerators(catalog, where.gpu)
        # Cards that the catalogue does not know are listed under the name that a price list gives them.
        labelled = pl.col("accelerator").is_null() & (pl.col("label").str.to_lowercase() == where.gpu.lower())
        if not names and offers.filter(labelled).is_empty():
            raise UnknownName(where.gpu, "accelerator", suggest_accelerators(catalog, where.gpu))
        yield (pl.col("accelerator").is_in(list(names)) | labelled).fill_null(False)
    if where.provider is not None:
        yield pl.col("provider").is_in(_providers(offers, where.provider))
    if where.region is not None:
        yield _region(offers, where.region)
    if where.country is not None:
        code = where.country.upper()
        known = offers["country"].drop_nulls().unique().sort().to_list()
        if code not in known and code != "EU":
            raise UnknownName(where.country, "country", _near(code, known), hint=f"(known: {', '.join(known)}, EU)")
        yield pl.col("country").is_in(list(EU) if code == "EU" else [code])
    if where.deployment is not None:
        if where.deployment not in DEPLOYMENTS:
            near = _near(where.deployment, DEPLOYMENTS)
            raise UnknownName(where.deployment, "deployment mode", near, hint=f"(one of {', '.join(DEPLOYMENTS)})")
        yield pl.col("deployment_mode") == where.deployment
    if not where.doubtful:
        yield ~pl.col("doubtful")


def _of_prices(where: Where) -> Iterable[pl.Expr]:
    """What a price must be."""
    if where.billing is not None:
        if where.billing not in BILLINGS:
            raise UnknownName(where.billing, "billing mode", _near(where.billing, BILLINGS))
        yield pl.col("billing") == where.billing
    if where.min_confidence is not None:
        yield trusted(where.min_confidence)


def trusted(minimum: str) -> pl.Expr:
    """Rows whose confidence is `minimum` or better (measured, listed, derived, estimate, recalled).

    Raises
    ------
    UnknownName
        `minimum` is no confidence.
    """
    if minimum not in CONFIDENCES:
        raise UnknownName(minimum, "confidence", _near(minimum, CONFIDENCES))
    return pl.col("confidence").is_in(list(CONFIDENCES[: CONFIDENCES.index(minimum) + 1]))


def _providers(offers: pl.DataFrame, asked: str) -> list[str]:
    known = offers["provider"].unique(maintain_order=True).to_list()
    folded = asked.strip().casefold()
    exact = [p for p in known if p.casefold() == folded]
    found = exact or [p for p in known if folded and p.casefold().startswith(folded)]
    found = found or [p for p in known if folded and folded in p.casefold()]
    if not found:
        by_fold = {p.casefold(): p for p in known}
        raise UnknownName(asked, "provider", [by_fold[n] for n in _near(folded, by_fold)])
    return found


def _region(offers: pl.DataFrame, asked: str) -> pl.Expr:
    folded = asked.strip().casefold()
    condition = pl.col("region").str.to_lowercase().str.contains(folded, literal=True)
    if len(folded) == 2:
        countries = list(EU) if folded == "eu" else [folded.upper()]
        # Two letters name a place: in region names only where they stand as a word or begin it (eu-north1).
        condition = pl.col("country").is_in(countries) | pl.col("region").str.to_lowercase().str.contains(
            rf"^{folded}(-|$|rope)" if folded == "eu" else rf"^{folded}(-|$)"
        )
    if offers.filter(condition).is_empty():
        known = offers["region"].unique().sort().to_list()
        raise UnknownName(asked, "region", _near(folded, known))
    return condition


def show(catalog: Catalog, name: str, currency: str = "USD", today: date | None = None) -> tuple[Section, ...]:
    """Find everything the catalogue holds under `name`: an accelerator, an offer, a server or a part.

    Raises
    ------
    UnknownName
        Nothing has this name; carries suggestions over all tables.
    """
    folded = name.strip().casefold()
    sections = list(_show_rows(catalog, folded))
    names = match_accelerators(catalog, name)
    if names:
        sections += _show_accelerators(catalog, names, currency, today)
    else:
        rows = price_list(catalog, currency, today)
        named = (pl.col("offer").str.to_lowercase() == folded) | (pl.col("offer_id").str.to_lowercase() == folded)
        short = pl.concat_str("provider", "offer", separator="/").str.to_lowercase() == folded
        offers = rows.filter(named | short)
        if offers.height:
            sections.append(Section("offers", "offers", offers))
    if not sections:
        raise UnknownName(name, "catalogue entry", _suggest(catalog, folded))
    return tuple(sections)


# Table -> column that names its rows, for `show`.
NAMED = {"servers": "server", "cpus": "cpu", "ram": "module", "storage": "storage", "network": "network"}


def _show_rows(catalog: Catalog, folded: str) -> Iterable[Section]:
    for table, column in NAMED.items():
        frame: pl.DataFrame = getattr(catalog, table)
        hit = frame.filter(pl.col(column).str.to_lowercase() == folded)
        if hit.height:
            yield Section(table, table, hit)


def _show_accelerators(
    catalog: Catalog, names: tuple[str, ...], currency: str, today: date | None
) -> Iterable[Section]:
    chosen = list(names)
    yield Section("accelerators", "accelerators", catalog.accelerators.filter(pl.col("accelerator").is_in(chosen)))
    rows = price_list(catalog, currency, today).filter(pl.col("accelerator").is_in(chosen))
    yield Section("offers", "offers", rows.sort("price_per_gpu_hour", "offer_id", nulls_last=True))
    fits = pl.col("fits").str.split(";").list.set_intersection(chosen).list.len() > 0
    yield Section("servers that take it", "servers", catalog.servers.filter(fits))


def _suggest(catalog: Catalog, folded: str) -> list[str]:
    pool = {name.casefold(): name for table, column in NAMED.items() for name in getattr(catalog, table)[column]}
    pool |= {name.casefold(): name for name in catalog.offers["offer"].unique().sort()}
    near = [pool[n] for n in get_close_matches(folded, list(pool), n=3, cutoff=0.6)]
    return list(dict.fromkeys([*suggest_accelerators(catalog, folded, 2), *near]))[:4]


def sources(catalog: Catalog, today: date | None = None) -> pl.DataFrame:
    """Count rows per table and source, with oldest and newest date, age of the newest [d], undated rows."""
    day = today or date.today()
    frames: list[pl.DataFrame] = [
        getattr(catalog, table).select(pl.lit(table).alias("table"), "source", "as_of", "confidence")
        for table in TABLES
    ]
    return (
        pl.concat(frames)
        .group_by("table", "source", "confidence", maintain_order=True)
        .agg(
            rows=pl.len(),
            oldest=pl.col("as_of").min(),
            newest=pl.col("as_of").max(),
            undated=pl.col("as_of").is_null().sum(),
        )
        .with_columns(age_days=age_days("newest", day))
        .sort("table", "rows", "source", descending=[False, True, False])
    )


def _near(name: str, known: Iterable[str]) -> list[str]:
    return get_close_matches(name, list(known), n=3, cutoff=0.5)
