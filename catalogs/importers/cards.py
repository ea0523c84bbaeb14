"""Accelerators of imported price lists: which card of the catalogue a machine has, never guessed.

The name that the source gives says the family; what it leaves open (form factor, memory) is settled by rules of
known instance types, by words in the instance type, by the memory that the source states; and where several
cards are still possible, by the catalogue's documented default, which the report names.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

import polars as pl

from catalogs.catalog import Catalog
from catalogs.importers.report import ImportReport
from catalogs.names import match_accelerators, resolve_accelerator

OWN = Path(__file__).parent / "own"
FORMS = ("sxm", "pcie", "nvl")
# A size is taken for a card's if it is within this of what the card is sold with.
MEMORY_TOLERANCE = 0.12
SLICE = re.compile(r"^tpu-", re.IGNORECASE)


@lru_cache(maxsize=1)
def _rules() -> tuple[tuple[str, re.Pattern[str], str, str], ...]:
    rows = pl.read_csv(OWN / "instance_cards.csv", infer_schema=False).iter_rows()
    return tuple((provider, re.compile(pattern), label.lower(), card) for provider, pattern, label, card in rows)


def with_cards(frame: pl.DataFrame, catalog: Catalog, report: ImportReport) -> pl.DataFrame:
    """Add `accelerator` (null: no accelerator, a slice of a pod, or a name the catalogue does not know).

    `frame` : provider, offer, label, label_count, memory_gib (of one card or of all; null: not stated).
    """
    key = ["provider", "offer", "label", "label_count", "memory_gib"]
    asked = frame.filter(pl.col("label").is_not_null()).group_by(key, maintain_order=True).len()
    found: list[str | None] = []
    unknown: dict[str, int] = {}
    assumed: dict[str, int] = {}
    for provider, offer, label, count, memory, rows in asked.iter_rows():
        names = possible_cards(catalog, provider, offer, label, count, memory)
        card = names[0] if names else None
        if card is None and not SLICE.match(label):
            unknown[label] = unknown.get(label, 0) + rows
        elif card is None:
            report.remark("slice of a TPU pod, priced as a whole", rows)
        if len(names) > 1:
            card = resolve_among(catalog, label, names)
            told = f"{label} taken as {card}"
            assumed[told] = assumed.get(told, 0) + rows
        found.append(card)
    report.unknown = dict(sorted(unknown.items()))
    report.assumed = dict(sorted(assumed.items()))
    cards = asked.select(key).with_columns(pl.Series("accelerator", found, pl.String))
    return frame.join(cards, on=key, how="left", nulls_equal=True, maintain_order="left")


def possible_cards(
    catalog: Catalog, provider: str, offer: str, label: str, count: float | None, memory_gib: float | None
) -> tuple[str, ...]:
    """Cards of the catalogue that `label` on this machine may be."""
    names = _matches(catalog, label)
    if not names:
        return ()
    for who, pattern, name, card in _rules():
        if who in (provider.lower(), "*") and name == label.lower() and pattern.search(offer):
            return (card,)
    names = _narrowed(names, [n for n in names if _has_form(n, offer)])
    if memory_gib is not None:
        whole = count if count is not None and count >= 1 else 1.0
        sizes = (memory_gib, memory_gib / whole)
        names = _narrowed(names, [n for n in names if any(_same_size(_memory(catalog)[n], s) for s in sizes)])
    return names


@lru_cache(maxsize=8192)
def _matches(catalog: Catalog, label: str) -> tuple[str, ...]:
    return match_accelerators(catalog, label)


@lru_cache(maxsize=4)
def _memory(catalog: Catalog) -> dict[str, float | None]:
    return dict(catalog.accelerators.select("accelerator", "memory_gb_nominal").iter_rows())


def _narrowed(names: tuple[str, ...], some: list[str]) -> tuple[str, ...]:
    return tuple(some) or names


def _has_form(name: str, offer: str) -> bool:
    told = [form for form in FORMS if form in offer.lower()]
    return any(form in name.lower() for form in told)


def _same_size(sold: float | None, stated: float) -> bool:
    return sold is not None and abs(sold - stated) <= MEMORY_TOLERANCE * sold


def resolve_among(catalog: Catalog, label: str, names: tuple[str, ...]) -> str:
    """The documented default among several cards: that of the label where it is one of them, else of the first name."""
    default = resolve_accelerator(catalog, label)
    return default if default in names else min(names, key=lambda n: ("SXM" not in n, n))


def with_countries(frame: pl.DataFrame, catalog: Catalog) -> pl.DataFrame:
    """Add `country` of each region: by the catalogue's table, by rules of region names, by a country code in the name."""
    places = frame.select("provider", "region").unique(maintain_order=True)
    known = {
        (p.lower(), r.lower()): c for p, r, c in catalog.regions.select("provider", "region", "country").iter_rows()
    }
    found = [_country(known, provider, region) for provider, region in places.iter_rows()]
    return frame.join(
        places.with_columns(pl.Series("country", found, pl.String)),
        on=["provider", "region"],
        how="left",
        nulls_equal=True,
        maintain_order="left",
    )


@lru_cache(maxsize=1)
def _country_rules() -> tuple[tuple[str, re.Pattern[str], str], ...]:
    rows = pl.read_csv(OWN / "region_countries.csv", infer_schema=False).iter_rows()
    return tuple((provider, re.compile(pattern), country) for provider, pattern, country in rows)


def _country(known: dict[tuple[str, str], str | None], provider: str, region: str) -> str | None:
    listed = known.get((provider.lower(), region.lower()))
    if listed:
        return listed
    for who, pattern, country in _country_rules():
        if who in (provider.lower(), "*") and pattern.search(region.lower() if who != "verda" else region):
            return country
    # "Denmark, DK, EU": place, country, continent.
    written = re.fullmatch(r"[^,]*, ([A-Z]{2}), [A-Z]{2}", region)
    return written[1] if written else None
