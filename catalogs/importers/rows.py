"""Reading the files of price sources: rows as text with their line numbers, numbers checked cell by cell."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import polars as pl

from catalogs.errors import CatalogError, Issue
from catalogs.importers.report import ImportReport
from catalogs.read import nearest

FILE, LINE = "file", "line"
MOST_FAULTS = 20
NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
THOUSANDS = r"^[^\d-]{0,3}-?\d{1,3}([,' \x{00a0}]\d{3})+(\.\d+)?$"
MONEY = r"^\s*[$€£¥￥]|^[A-Z]{3}\s|[$€£¥￥元]\s*$"
NOTHING = ("", "nan", "NaN", "None", "null", "-")


def decoded(data: bytes, file: str, encoding: str | None) -> str:
    """Text of a file: UTF-8 with or without a byte-order mark, or the encoding named.

    Raises
    ------
    CatalogError
        The bytes are of another encoding; says at which line.
    """
    try:
        return data.decode("utf-8-sig" if encoding is None else encoding)
    except LookupError:
        raise CatalogError([Issue(file, None, None, f"unknown encoding {encoding!r}", "utf-8, gb18030 ...")]) from None
    except UnicodeDecodeError as error:
        row = data[: error.start].count(b"\n") + 1
        what = f"is not {encoding or 'UTF-8'} text"
        if encoding is None and _is_chinese(data):
            what += ", it reads as GBK/GB18030: save it as UTF-8 or import it with --encoding gb18030"
        raise CatalogError([Issue(file, row, None, what)]) from None


def _is_chinese(data: bytes) -> bool:
    try:
        text = data.decode("gb18030")
    except UnicodeDecodeError:
        return False
    return any("\u4e00" <= letter <= "\u9fff" for letter in text)


def csv_rows(path: Path, report: ImportReport, encoding: str | None = None) -> pl.DataFrame:
    """Rows of a CSV as text with `file` and `line`; blanks are null.

    A row with more fields than the header is mended where the last column is free text that holds an unquoted
    comma; any other ragged row is refused, one by one.

    Raises
    ------
    CatalogError
        Unreadable file, no header, or broken quotes.
    """
    file = str(path)
    try:
        text = decoded(path.read_bytes(), file, encoding)
    except OSError as error:
        raise CatalogError([Issue(file, None, None, f"cannot be read ({error.strerror})")]) from None
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = [name.strip() for name in next(reader, [])]
    except csv.Error as error:
        raise CatalogError([Issue(file, 1, None, f"is not readable as CSV ({error})")]) from None
    if not any(header):
        raise CatalogError([Issue(file, None, None, "is empty", "a header line and rows")])
    width = len(header)
    rows: list[list[str]] = []
    lines: list[int] = []
    mended = 0
    line = 2
    try:
        for row in reader:
            fields = len(row)
            if fields == width:
                rows.append(row)
                lines.append(line)
            elif fields > width and _is_word(row[width - 1]):
                rows.append([*row[: width - 1], ",".join(row[width - 1 :])])
                lines.append(line)
                mended += 1
            elif any(cell.strip() for cell in row):
                report.read += 1
                report.refuse(f"{fields} fields under a header of {width}", f"{file}:{line}")
            line = reader.line_num + 1
    except csv.Error as error:
        raise CatalogError([Issue(file, line, None, f"is not readable as CSV ({error})")]) from None
    report.read += len(rows)
    report.files.append(file)
    report.remark("unquoted comma in the last column mended", mended)
    return text_frame(header, rows, lines, file)


def _is_word(cell: str) -> bool:
    """Free text: a comma may belong to it; in a number it may not."""
    return bool(cell) and not cell[0].isdigit()


def text_frame(header: Sequence[str], rows: Sequence[Sequence[str]], lines: Sequence[int], file: str) -> pl.DataFrame:
    """Rows as text columns with `file` and `line`, blanks null.

    Raises
    ------
    CatalogError
        A column stands twice.
    """
    twice = sorted({name for name in header if name and list(header).count(name) > 1})
    if twice:
        raise CatalogError([Issue(file, 1, name, "column appears twice", "each column once") for name in twice])
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(header)
    frame = pl.DataFrame(
        [pl.Series(name, column, pl.String) for name, column in zip(header, columns, strict=True) if name]
    )
    stripped = pl.all().str.strip_chars()
    return frame.select(stripped.replace(dict.fromkeys(NOTHING))).with_columns(
        pl.lit(file).alias(FILE), pl.Series(LINE, lines, pl.Int64)
    )


def need_columns(frame: pl.DataFrame, needed: Iterable[str], file: str, what: str) -> None:
    """Refuse a file that is not of the form `what`.

    Raises
    ------
    CatalogError
        One issue per missing column, with the nearest column that is there.
    """
    have = [name for name in frame.columns if name not in (FILE, LINE)]
    missing = [name for name in needed if name not in have]
    if missing:
        raise CatalogError(
            Issue(file, 1, name, f"column is missing{nearest(name, have)}", f"the columns of {what}")
            for name in missing
        )


def numbers(frame: pl.DataFrame, columns: Collection[str]) -> pl.DataFrame:
    """Text columns as numbers.

    Raises
    ------
    CatalogError
        Cells that are no plain number, each with file, line and why: text, thousands separators, a currency sign.
    """
    broken = {
        name: frame.filter(pl.col(name).is_not_null() & ~pl.col(name).str.contains(NUMBER)).select(FILE, LINE, name)
        for name in columns
    }
    issues = []
    for name, hit in broken.items():
        thousands = hit[name].str.contains(THOUSANDS)
        money = hit[name].str.contains(MONEY)
        for (file, line, cell), is_thousands, is_money in zip(hit.iter_rows(), thousands, money, strict=True):
            why = " (currency sign in the cell)" if is_money else " (thousands separators)" if is_thousands else ""
            issues.append(Issue(file, line, name, f"{cell!r} is no number{why}", "plain digits with a point, 1234.5"))
    if issues:
        more = len(issues) - MOST_FAULTS
        shown = issues[:MOST_FAULTS]
        if more > 0:
            shown.append(Issue(issues[-1].file, None, None, f"and {more} more cells that are no number"))
        raise CatalogError(shown)
    return frame.with_columns(pl.col(name).cast(pl.Float64) for name in columns)
