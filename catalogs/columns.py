"""Column kinds shared by the frame schemas: text, choices, positive numbers, dates as text, provenance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import dataframely as dy
import polars as pl

from problems.terms import CONFIDENCES, Currency

CURRENCIES: tuple[str, ...] = get_args(Currency)
AS_OF = r"^\d{4}-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?$"
COUNTRY = r"^[A-Z]{2}$"


def text(*, key: bool = False, nullable: bool = False) -> dy.String:
    """Text that is not empty."""
    return dy.String(nullable=nullable, primary_key=key, min_length=1)


def choice(values: Sequence[str], *, key: bool = False, nullable: bool = False) -> dy.String:
    """One of `values`."""
    allowed = list(values)

    def known(column: pl.Expr) -> pl.Expr:
        return column.is_in(allowed)

    return dy.String(nullable=nullable, primary_key=key, check=known, metadata={"allowed": " | ".join(allowed)})


def positive(*, nullable: bool = True) -> dy.Float64:
    """A number above zero."""
    return dy.Float64(nullable=nullable, min_exclusive=0)


def at_least_zero(*, nullable: bool = True, key: bool = False) -> dy.Float64:
    """A number of zero or more."""
    return dy.Float64(nullable=nullable, primary_key=key, min=0)


def number(*, nullable: bool = True) -> dy.Float64:
    """Any finite number."""
    return dy.Float64(nullable=nullable)


def share(*, nullable: bool = True, key: bool = False) -> dy.Float64:
    """A fraction of one."""
    return dy.Float64(nullable=nullable, primary_key=key, min=0, max=1)


def count(*, nullable: bool = False, minimum: int = 1, key: bool = False) -> dy.Int64:
    """A whole number of `minimum` or more."""
    return dy.Int64(nullable=nullable, primary_key=key, min=minimum)


def flag(*, nullable: bool = False) -> dy.Bool:
    return dy.Bool(nullable=nullable)


def date_text(*, nullable: bool = True) -> dy.String:
    """A date as text, YYYY-MM or YYYY-MM-DD."""
    return dy.String(nullable=nullable, regex=AS_OF, metadata={"allowed": "YYYY-MM or YYYY-MM-DD"})


def country(*, nullable: bool = True, key: bool = False) -> dy.String:
    return dy.String(
        nullable=nullable,
        primary_key=key,
        regex=COUNTRY,
        metadata={"allowed": "ISO 3166 code of two letters, US"},
    )


class Sourced(dy.Schema):
    """Provenance of every row: where the figure stands, of what date, how far to trust it."""

    source = text()
    as_of = date_text()
    confidence = choice(CONFIDENCES)
    notes = dy.String(nullable=True)
