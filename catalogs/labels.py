"""What a request calls an accelerator -> the machines that have it, over built-in offers and imported price lists.

A price list has names of its own (`label`): "A100" is its 40 GB card there, and "H100" may be three cards. Offers of price
lists match by that name alone, case ignored, and by exactly so many accelerators as are asked for, as such lists count; or
by the catalogue's full name of the card. Offers without a label, and servers, match by the catalogue's reading of a name and
by at least so many. ``NAME:COUNT`` asks for exactly so many (a fraction: a part of one card) of all, and of price lists by
their own name only. ``none`` asks for machines without accelerators.
"""

from __future__ import annotations

import polars as pl

from catalogs.asked import NONE as NONE
from catalogs.asked import is_label as is_label
from catalogs.asked import read_asked as read_asked
from catalogs.catalog import Catalog
from catalogs.names import match_accelerators, plain_label

# Counts agree within this: a third is written 0.333.
COUNT_TOLERANCE = 0.01


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
