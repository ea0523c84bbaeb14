"""What a request calls an accelerator -> the machines that have it, over built-in offers and imported price lists.

A price list has names of its own (`label`): "A100" is its 40 GB card there, and "H100" may be three cards. Offers of price
lists match by that name alone, case ignored, and by exactly so many accelerators as are asked for, as such lists count; or
by the catalogue's full name of the card. Offers without a label, and servers, match by the catalogue's reading of a name and
by at least so many. ``NAME:COUNT`` asks for exactly so many (a fraction: a part of one card) of all, and of price lists by
their own name only. ``none`` asks for machines without accelerators.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import polars as pl

from catalogs.catalog import Catalog
from catalogs.names import match_accelerators, plain_label

NONE = "none"
# Counts agree within this: a third is written 0.333.
COUNT_TOLERANCE = 0.01
WITH_COUNT = re.compile(r"(?P<name>.+?)\s*:\s*(?P<count>\d+(?:\.\d+)?)")


@dataclass(frozen=True)
class Asked:
    """A name taken apart. `count` None: the request does not say it with the name, and the name need not be a label."""

    name: str
    count: float | None = None

    @property
    def nothing(self) -> bool:
        """Machines without accelerators are asked for."""
        return self.name.lower() == NONE


def read_asked(text: str) -> Asked:
    """Take ``A100-80GB:8`` apart."""
    found = WITH_COUNT.fullmatch(text.strip())
    return Asked(found["name"], float(found["count"])) if found else Asked(text.strip())


def is_label(catalog: Catalog, name: str) -> bool:
    """Some price list has offers under this very name."""
    return bool((catalog.offers["label"].str.to_lowercase() == name.lower()).any())


def known(catalog: Catalog, text: str) -> bool:
    """Whether anything in the catalogue goes by this name."""
    asked = read_asked(text)
    return asked.nothing or is_label(catalog, asked.name) or bool(match_accelerators(catalog, asked.name))


def has_accelerator(catalog: Catalog, text: str, count: int = 1) -> pl.Expr:
    """True for machines with the accelerator asked for; those of price lists with as many, others with one or more.

    Reads columns accelerator, label and units (accelerators per machine, a fraction for a part of a card; 0: none).

    Parameters
    ----------
    count
        How many per machine, where the name does not say it.
    """
    asked = read_asked(text)
    if asked.nothing:
        return pl.col("units") == 0
    names = list(match_accelerators(catalog, asked.name))
    labelled = pl.col("label").is_not_null()
    same = pl.col("label").str.to_lowercase() == asked.name.lower()
    card = pl.col("accelerator").is_in(names)
    if asked.count is not None:
        exact = (pl.col("units") - asked.count).abs() < COUNT_TOLERANCE
        return (pl.when(labelled).then(same).otherwise(card) & exact).fill_null(False)
    full_name = [name for name in names if plain_label(name) == plain_label(asked.name)]
    listed = (same | pl.col("accelerator").is_in(full_name)) & ((pl.col("units") - count).abs() < COUNT_TOLERANCE)
    # A part of a card is only had by asking for it. Whether whole ones are enough is asked elsewhere.
    whole = pl.col("units") >= 1 - COUNT_TOLERANCE
    return pl.when(labelled).then(listed).otherwise(card & whole).fill_null(False)


def units() -> pl.Expr:
    """Accelerators of an offer: whole ones, the part of one, or 0."""
    return pl.coalesce("accelerator_share", pl.col("accelerator_count").cast(pl.Float64), 0.0)


def plain_machine() -> pl.Expr:
    """Offers that any workload may use: whole accelerators that the catalogue knows."""
    return pl.col("accelerator").is_not_null() & pl.col("accelerator_share").is_null()


def shown_accelerator() -> pl.Expr:
    """Name of an offer's accelerator in plans: the catalogue's, else the price list's, else none."""
    return pl.coalesce("accelerator", "label", pl.lit(NONE))
