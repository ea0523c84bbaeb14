"""What the readers of the fact tables share: reading, names, confidence, writing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

# How a row was verified -> how far a plan may trust it. A doubtful or conflicting figure is worth no more
# than a recalled one. Rows without figures ("gap") are listed for their names alone.
CONFIDENCE: Mapping[str, str] = {
    "seen": "listed",
    "seen, summed": "derived",
    "derived": "derived",
    "estimate": "estimate",
    "recall": "recalled",
    "partly recall": "recalled",
    "conflicting": "recalled",
    "doubtful": "recalled",
    "gap": "recalled",
}

# Names that carry a remark.
RENAMED: Mapping[str, str] = {
    "GB200-186GB (per GPU)": "GB200-186GB",
    "GB300-288GB (per GPU)": "GB300-288GB",
}

PROVENANCE = ("source", "as_of", "confidence", "notes")


def read_facts(path: Path) -> pl.DataFrame:
    """Read a fact table as text, blanks as null; `fact_row` is the line of the file [2 = first row]."""
    frame = pl.read_csv(path, infer_schema=False)
    return frame.with_row_index("fact_row", offset=2).with_columns(
        pl.col(pl.String).str.strip_chars().replace("", None)
    )


def confidence() -> pl.Expr:
    """Confidence of a row from its `verified` column."""
    return pl.col("verified").replace_strict(CONFIDENCE, return_dtype=pl.String).alias("confidence")


def price_confidence(price: str, basis: str = "price_basis") -> pl.Expr:
    """Confidence of a street price from the text that says where it comes from; null without a price."""
    text = pl.col(basis).fill_null("")
    return (
        pl.when(pl.col(price).is_null())
        .then(None)
        .when(text.str.contains("(?i)recall|^MSRP"))
        .then(pl.lit("recalled"))
        .otherwise(pl.lit("estimate"))
        .alias("price_confidence")
    )


def number(column: str, factor: float = 1.0) -> pl.Expr:
    """A text column as a number, scaled."""
    value = pl.col(column).cast(pl.Float64)
    return value if factor == 1.0 else (value * factor).round(9)


def yes(column: str) -> pl.Expr:
    """yes/no as a boolean, null where blank."""
    return pl.col(column).replace_strict({"yes": True, "no": False}, default=None, return_dtype=pl.Boolean)


def joined(*parts: pl.Expr) -> pl.Expr:
    """Remarks joined by "; ", null where there is none."""
    return pl.concat_str(parts, separator="; ", ignore_nulls=True).replace("", None).alias("notes")


def clean_name(column: str) -> pl.Expr:
    """An accelerator's name without the remarks that facts carry in it."""
    return pl.col(column).replace(dict(RENAMED))


def with_own(frame: pl.DataFrame, own: Path, key: str) -> pl.DataFrame:
    """A table made from facts and after it the rows of our own in file `own`, which has the table's columns.

    A row of our own whose `key` the facts have too replaces theirs: the same thing from a better source.
    """
    more = pl.read_csv(own, infer_schema=False)
    kept = frame.select(more.columns).filter(~pl.col(key).is_in(more[key].implode()))
    return pl.concat([kept.with_columns(pl.all().cast(pl.String)), more.select(kept.columns)])


def write_table(frame: pl.DataFrame, out: Path, name: str, columns: Sequence[str]) -> None:
    """Write one catalogue table with its columns in schema order."""
    frame.select(columns).write_csv(out / f"{name}.csv", line_terminator="\n")
