"""Rows of the catalogue as text: lists of offers, one thing in full, sources; and its tables as JSON schema."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import polars as pl
from rich.console import RenderableType

from catalogs.errors import UnknownName
from catalogs.query import Section
from catalogs.read import describe
from catalogs.schema import TABLES
from solver.report import forms
from solver.report.export import frame_bytes, to_json
from solver.report.page import Column, View, line, notes, render, table

IN_FULL = 3
SOURCES = 5
PROVENANCE = ("source", "as_of", "confidence", "notes")


def cell(value: object) -> str:
    """Write one cell of a catalogue table; nothing known is ``-``."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.4f}".rstrip("0").rstrip(".") if abs(value) < 100 else forms.number(value, 4)
    return str(value)


def render_table(frame: pl.DataFrame, total: int, view: View, right: Collection[str] = ()) -> str:
    """Render rows of a table with the line "shown N of M" below.

    Parameters
    ----------
    frame
        Rows and columns to show.
    total
        Rows that there were before the list was cut short.
    right
        Text columns that hold figures, to be set flush right.
    view
        Width [columns], language, characters and colour.
    """
    rows = [[cell(value) for value in row] for row in frame.rows()]
    columns = [
        Column(
            name.replace("_", " "),
            "right" if dtype.is_numeric() or name in right else "left",
            not dtype.is_numeric(),
        )
        for name, dtype in frame.schema.items()
    ]
    shown = view.messages("shown {n} of {total}", n=f"{len(frame):,}", total=f"{total:,}")
    return render([table(columns, rows, view), "", line(shown, view)], view)


def render_record(title: str, record: Sequence[tuple[str, object]], view: View) -> str:
    """Render one thing in full: what is known of it, one field below the other."""

    def page() -> Iterator[RenderableType]:
        yield line(title, view, "bold")
        yield notes([(name, cell(value)) for name, value in record if value is not None], view)

    return render(page(), view)


OFFER_COLUMNS = (
    "provider",
    "offer",
    "region",
    "accelerator",
    "accelerator_count",
    "billing",
    "price_per_gpu_hour",
)
WIDE_COLUMNS = (*OFFER_COLUMNS, "price", "age_days", "confidence")
TITLES = {
    "accelerator_count": "gpus",
    "price_per_gpu_hour": "per gpu-h",
    "price": "per h",
    "age_days": "days old",
}
FIRM = ("measured", "listed")


def offer_table(frame: pl.DataFrame, total: int, currency: str, columns: Sequence[str], view: View) -> str:
    """Render offers with their prices in `currency`; prices that are not firm are starred."""
    chosen = list(columns or (WIDE_COLUMNS if view.wide else OFFER_COLUMNS))
    shown = frame.select(offer_column(name, currency) for name in chosen)
    prices = [f"{currency} {TITLES[name]}" for name in ("price", "price_per_gpu_hour")]
    text = render_table(shown, total, view, [*prices, TITLES["accelerator_count"]])
    starred = frame.filter(pl.col("price").is_not_null() & ~pl.col("confidence").is_in(FIRM)).height
    return f"{text}* derived, estimated or recalled price\n" if starred else text


def offer_column(name: str, currency: str) -> pl.Expr:
    """One column of the list of offers: prices with a star where they are not firm, billing with its term."""
    column = pl.col(name)
    if name in ("price", "price_per_gpu_hour"):
        star = pl.when(pl.col("confidence").is_in(FIRM)).then(pl.lit("")).otherwise(pl.lit(" *"))
        text = column.map_elements(lambda value: f"{value:,.2f}", return_dtype=pl.String)
        return pl.when(column.is_not_null()).then(text + star).alias(f"{currency} {TITLES[name]}")
    if name == "accelerator":
        # Cards that the catalogue does not know go by the name of the price list, machines without by none.
        return pl.coalesce(column, "label", pl.lit("none")).alias(name)
    if name == "accelerator_count":
        part = pl.col("accelerator_share").round(3).cast(pl.String)
        return pl.coalesce(part, column.cast(pl.String), pl.lit("0")).alias(TITLES[name])
    if name == "billing":
        term = pl.col("term_months").cast(pl.Float64)
        text = column.str.replace_all("_", " ")
        return (
            pl.when(term > 0).then(pl.format("{} {}mo", text, term.round(1).cast(pl.Int64))).otherwise(text).alias(name)
        )
    return column.alias(TITLES.get(name, name))


def catalog_schema() -> dict[str, Any]:
    """Describe every table of a catalogue as JSON schema: columns, types, what is allowed, key."""
    tables = {}
    for name, schema in TABLES.items():
        columns = schema.columns()
        tables[name] = {
            "type": "array",
            "description": " ".join((schema.__doc__ or name).split()),
            "x-primary-key": schema.primary_key(),
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": [key for key, column in columns.items() if not column.nullable],
                "properties": {
                    key: {"type": json_type(column.dtype, column.nullable), "description": describe(column)}
                    for key, column in columns.items()
                },
            },
        }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "catalogue",
        "type": "object",
        "properties": tables,
    }


def json_type(dtype: pl.DataType, nullable: bool) -> str | list[str]:
    """JSON type of a column."""
    name = (
        "boolean"
        if dtype == pl.Boolean
        else "integer"
        if dtype.is_integer()
        else "number"
        if dtype.is_float()
        else "string"
    )
    return [name, "null"] if nullable else name


def chosen_columns(asked: str | None, frame: pl.DataFrame) -> list[str]:
    """Columns that a user listed, in their order; empty where none were asked for.

    Raises
    ------
    UnknownName
        For a column that the table does not have.
    """
    names = [name.strip() for name in (asked or "").split(",") if name.strip()]
    for name in names:
        if name not in frame.columns:
            near = difflib.get_close_matches(name, frame.columns, n=3, cutoff=0.5)
            raise UnknownName(name, "column", near, hint=f"(one of {', '.join(frame.columns)})")
    return names


def sections_text(sections: Sequence[Section], currency: str, view: View) -> str:
    """Render what is known under one name: short lists of things in full, offers as a table."""
    pages = []
    for section in sections:
        if section.table == "offers" and section.frame.height > IN_FULL:
            table_text = offer_table(section.frame, section.frame.height, currency, (), view)
            pages.append(f"{section.title}\n\n{table_text}{source_lines(section.frame)}")
            continue
        if section.table == "servers" and section.frame.height > 1:
            short = section.frame.select(
                "server", "vendor", "slots", "rack_units", "max_power_w", "price_usd", "as_of", "confidence"
            )
            pages.append(f"{section.title}\n\n{render_table(short, len(short), view)}")
            continue
        for record in section.frame.rows(named=True):
            title = next(str(record[name]) for name in record if name not in PROVENANCE)
            pages.append(render_record(f"{section.title}: {title}", list(record.items()), view))
    return "\n".join(pages)


def source_lines(frame: pl.DataFrame) -> str:
    """Where the rows of a list are from, the source of most rows first."""
    counted = (
        frame.group_by("source", "as_of", maintain_order=True).len().sort("len", descending=True, maintain_order=True)
    )
    shown = [f"  {row['len']} x {row['source']}, {row['as_of'] or 'undated'}" for row in counted.rows(named=True)]
    more = [f"  and {len(shown) - SOURCES} more sources"] if len(shown) > SOURCES else []
    return "\n".join(["source of prices", *shown[:SOURCES], *more]) + "\n"


def sections_bytes(sections: Sequence[Section], form: str) -> bytes:
    """Write what is known under one name: JSON holds every part, CSV and Parquet the first."""
    if form == "json":
        return to_json({section.title: section.frame.to_dicts() for section in sections}).encode()
    return frame_bytes(sections[0].frame, form)
