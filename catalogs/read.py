"""One CSV of a catalogue -> a typed frame, with every fault named by file, line and column.

Two bookkeeping columns travel with the rows until the catalogue is assembled: `FILE` and `LINE`.
"""

from __future__ import annotations

import csv
import difflib
import io
from collections.abc import Iterable

import dataframely as dy
import polars as pl

from catalogs.columns import Sourced
from catalogs.errors import Issue
from catalogs.seal import FILE, LINE, ColumnTypes

TRUE = ("true", "yes")
FALSE = ("false", "no")


def parse_table(data: bytes, file: str, schema: type[dy.Schema]) -> tuple[pl.DataFrame, list[Issue]]:
    """Read the CSV text `data` of file `file` into the columns of `schema` plus `FILE` and `LINE`.

    Rows with a fault are left out of the frame and reported; nullable columns may be missing altogether.
    """
    text, issues = _decode(data, file)
    if text is None:
        return empty(schema), issues
    header, rows, lines, faults = _split(text, file)
    issues += faults
    if header is None:
        return empty(schema), issues
    header_issues = _check_header(header, file, schema)
    if header_issues:
        return empty(schema), issues + header_issues
    frame = pl.DataFrame(rows, schema=dict.fromkeys(header, pl.String), orient="row").with_columns(
        pl.all().str.strip_chars().replace("", None)
    )
    frame = frame.with_columns(pl.Series(LINE, lines, dtype=pl.Int64), pl.lit(file).alias(FILE))
    columns = schema.columns()
    frame = frame.with_columns(pl.lit(None, pl.String).alias(c) for c in columns if c not in header)
    frame, cell_issues = _cast(frame, file, columns)
    frame, key_issues = _check_keys(frame, file, schema.primary_key())
    return frame.select(*column_order(schema), FILE, LINE), issues + cell_issues + key_issues


def empty(schema: type[dy.Schema]) -> pl.DataFrame:
    """A table without rows."""
    return (
        schema.create_empty()
        .select(column_order(schema))
        .with_columns(pl.lit("").alias(FILE), pl.lit(0, pl.Int64).alias(LINE))
    )


def column_order(schema: type[dy.Schema]) -> list[str]:
    """Columns as files and frames hold them: the table's own, then provenance."""
    names = schema.column_names()
    provenance = Sourced.column_names()
    return [n for n in names if n not in provenance] + [n for n in names if n in provenance]


def column_types(schema: type[dy.Schema]) -> ColumnTypes:
    """Columns in the order of files and frames, with their types."""
    columns = schema.columns()
    return {name: type(columns[name].dtype) for name in column_order(schema)}


def nearest(name: str, known: Iterable[str]) -> str:
    """`; did you mean X?` where a known name comes near, else nothing."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near else ""


def _decode(data: bytes, file: str) -> tuple[str | None, list[Issue]]:
    try:
        return data.decode("utf-8-sig"), []
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        return None, [Issue(file, line, None, "is not UTF-8 text", "CSV saved as UTF-8 (with or without BOM)")]


def _split(text: str, file: str) -> tuple[list[str] | None, list[list[str]], list[int], list[Issue]]:
    """Header, rows of the header's width, their line numbers; ragged rows and broken quotes as issues."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    header: list[str] | None = None
    rows: list[list[str]] = []
    lines: list[int] = []
    issues: list[Issue] = []
    line = 1
    try:
        for row in reader:
            if not any(cell.strip() for cell in row) and len(row) <= 1:
                pass
            elif header is None:
                header = [cell.strip() for cell in row]
            elif len(row) == len(header):
                rows.append(row)
                lines.append(line)
            else:
                issues.append(Issue(file, line, None, f"has {len(row)} fields", f"{len(header)} as in the header"))
            line = reader.line_num + 1
    except csv.Error as error:
        issues.append(Issue(file, line, None, f"is not readable as CSV ({error})", "comma-separated, quotes doubled"))
    if header is None and not issues:
        issues.append(Issue(file, None, None, "is empty", "a header line and rows"))
    return header, rows, lines, issues


def _check_header(header: list[str], file: str, schema: type[dy.Schema]) -> list[Issue]:
    columns = schema.columns()
    issues = [
        Issue(file, 1, name, "column appears twice", "each column once")
        for name in sorted({h for h in header if header.count(h) > 1})
    ]
    issues += [
        Issue(file, 1, name or "(blank)", f"unknown column{nearest(name, columns)}", ", ".join(columns))
        for name in dict.fromkeys(header)
        if name not in columns
    ]
    issues += [
        Issue(file, 1, name, "column is missing", describe(column))
        for name, column in columns.items()
        if not column.nullable and name not in header
    ]
    return issues


def describe(column: dy.Column) -> str:
    """What a column may hold, in words."""
    named = (column.metadata or {}).get("allowed")
    if named:
        words = str(named)
    elif isinstance(column, dy.Bool):
        words = "true | false"
    elif isinstance(column, dy.Float64 | dy.Int64):
        words = "a whole number" if isinstance(column, dy.Int64) else "a number"
        for limit, sign in (
            (column.min_exclusive, "above"),
            (column.min, "of at least"),
            (column.max, "and at most"),
            (column.max_exclusive, "and below"),
        ):
            if limit is not None:
                words += f" {sign} {limit:g}"
    else:
        words = "text"
    return f"{words}, or blank" if column.nullable else words


def _cast(frame: pl.DataFrame, file: str, columns: dict[str, dy.Column]) -> tuple[pl.DataFrame, list[Issue]]:
    """Text -> the columns' types; cells that do not fit and blanks that must not be become issues."""
    values: list[pl.Expr] = []
    broken: list[pl.Expr] = []
    for name, column in columns.items():
        value = _converted(name, column)
        blank = pl.col(name).is_null() & (not column.nullable)
        broken.append(((pl.col(name).is_not_null() & value.is_null()) | blank).alias(name))
        values.append(value.alias(name))
    bad = frame.select(*broken)
    issues: list[Issue] = []
    if bad.select(pl.any_horizontal(pl.all()).any()).item():
        for name, column in columns.items():
            hit = frame.filter(bad[name]).select(LINE, name)
            issues += [
                Issue(file, line, name, "is blank" if text is None else f"{text!r}", describe(column))
                for line, text in hit.iter_rows()
            ]
        frame = frame.filter(~bad.select(pl.any_horizontal(pl.all())).to_series())
    return frame.with_columns(*values), issues


def _converted(name: str, column: dy.Column) -> pl.Expr:
    """The text column `name` as the type of `column`, null where it does not fit."""
    text = pl.col(name)
    if isinstance(column, dy.Bool):
        known = dict.fromkeys(TRUE, True) | dict.fromkeys(FALSE, False)
        return text.str.to_lowercase().replace_strict(known, default=None, return_dtype=pl.Boolean)
    if isinstance(column, dy.Float64):
        return text.cast(pl.Float64, strict=False)
    if isinstance(column, dy.Int64):
        value = text.cast(pl.Float64, strict=False)
        return pl.when(value == value.round()).then(value.cast(pl.Int64, strict=False))
    return text


def _check_keys(frame: pl.DataFrame, file: str, key: list[str]) -> tuple[pl.DataFrame, list[Issue]]:
    """Rows whose key stood in an earlier line of the same file become issues."""
    first = pl.col(LINE).first().over(key)
    twice = frame.with_columns(first.alias("__first__")).filter(pl.col(LINE) != pl.col("__first__"))
    issues = [
        Issue(
            file,
            row[LINE],
            "+".join(key),
            f"{'/'.join(str(row[k]) for k in key)!r} stands in line {row['__first__']} too",
            "each key once",
        )
        for row in twice.iter_rows(named=True)
    ]
    return frame.filter(pl.col(LINE) == first), issues
