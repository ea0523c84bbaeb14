"""Rows of the first sheet of an XLSX workbook, by a small reader of its XML; styles and formulas are left alone.

A quote sheet is a header and rows of cells, so no spreadsheet package is needed for it. What cannot be read safely is
refused: merged cells (which row do they belong to?), formulas without a saved value, error values.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

from catalogs.errors import CatalogError, Issue

MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
CELL = re.compile(r"([A-Z]+)(\d+)")
MOST_BYTES = 100_000_000


def xlsx_rows(path: Path) -> tuple[list[str], list[list[str]], list[int], str]:
    """Header, rows of the header's width, their row numbers in the sheet, and the sheet's name.

    Raises
    ------
    CatalogError
        Not a workbook, merged cells, cells beside the header's columns, error values.
    """
    file = str(path)
    try:
        with zipfile.ZipFile(path) as book:
            name, sheet = _first_sheet(book, file)
            shared = _shared(book, file)
    except (OSError, zipfile.BadZipFile, KeyError, ElementTree.ParseError) as error:
        raise CatalogError([Issue(file, None, None, f"is not readable as XLSX ({error})")]) from None
    where = f"{file} [{name}]"
    merged = [str(found.get("ref")) for found in sheet.iter(f"{MAIN}mergeCell")]
    if merged:
        said = [
            Issue(where, _row(ref), None, f"cells {ref} are merged", "one value per cell; unmerge and repeat the value")
            for ref in merged
        ]
        raise CatalogError(said)
    rows = [(number, cells) for number, cells in _rows(sheet, shared, where) if any(cells.values())]
    if not rows:
        raise CatalogError([Issue(where, None, None, "is empty", "a header row and rows")])
    header_cells = rows[0][1]
    width = max(index for index, text in header_cells.items() if text) + 1
    header = [header_cells.get(index, "").strip() for index in range(width)]
    beside = [
        Issue(where, number, None, f"{text!r} stands right of the header's columns")
        for number, cells in rows[1:]
        for index, text in cells.items()
        if index >= width and text
    ]
    if beside:
        raise CatalogError(beside)
    body = [[cells.get(index, "") for index in range(width)] for _, cells in rows[1:]]
    return header, body, [number for number, _ in rows[1:]], where


def _row(ref: str) -> int | None:
    found = CELL.match(ref)
    return int(found[2]) if found else None


def _part(book: zipfile.ZipFile, name: str, file: str) -> ElementTree.Element:
    if book.getinfo(name).file_size > MOST_BYTES:
        raise CatalogError([Issue(file, None, None, f"its part {name} is larger than 100 MB unpacked")])
    data = book.read(name)
    if b"<!DOCTYPE" in data[:1000] or b"<!ENTITY" in data:
        raise CatalogError([Issue(file, None, None, "holds XML entities, which no spreadsheet writes")])
    return ElementTree.fromstring(data)


def _first_sheet(book: zipfile.ZipFile, file: str) -> tuple[str, ElementTree.Element]:
    """Name and XML of the first sheet: sheets are listed in the workbook, files named by relations."""
    workbook = _part(book, "xl/workbook.xml", file)
    first = next(workbook.iter(f"{MAIN}sheet"))
    relation = next((value for key, value in first.attrib.items() if key.endswith("}id")), None)
    targets = {r.get("Id"): r.get("Target") for r in _part(book, "xl/_rels/workbook.xml.rels", file)}
    target = str(targets[relation])
    return str(first.get("name")), _part(book, target.lstrip("/") if target.startswith("/") else f"xl/{target}", file)


def _shared(book: zipfile.ZipFile, file: str) -> list[str]:
    if "xl/sharedStrings.xml" not in book.namelist():
        return []
    return [_text(item) for item in _part(book, "xl/sharedStrings.xml", file).iter(f"{MAIN}si")]


def _text(item: ElementTree.Element) -> str:
    """Text of a string item: its runs joined, phonetic hints left out."""
    return "".join(t.text or "" for t in [*item.findall(f"{MAIN}t"), *item.findall(f"{MAIN}r/{MAIN}t")])


def _rows(sheet: ElementTree.Element, shared: list[str], where: str) -> Iterator[tuple[int, dict[int, str]]]:
    number = 0
    for row in sheet.iter(f"{MAIN}row"):
        number = int(row.get("r") or number + 1)
        cells: dict[int, str] = {}
        index = -1
        for cell in row.findall(f"{MAIN}c"):
            found = CELL.fullmatch(cell.get("r") or "")
            index = _column(found[1]) if found else index + 1
            cells[index] = _value(cell, shared, where, number)
        yield number, cells


def _column(letters: str) -> int:
    index = 0
    for letter in letters:
        index = index * 26 + ord(letter) - ord("A") + 1
    return index - 1


def _value(cell: ElementTree.Element, shared: list[str], where: str, row: int) -> str:
    kind = cell.get("t")
    inline = cell.find(f"{MAIN}is")
    value = cell.find(f"{MAIN}v")
    raw = value.text if value is not None and value.text is not None else ""
    if kind == "e":
        raise CatalogError([Issue(where, row, cell.get("r"), f"holds the error {raw}")])
    if kind == "inlineStr":
        return _text(inline) if inline is not None else ""
    if cell.find(f"{MAIN}f") is not None and not raw:
        raise CatalogError([Issue(where, row, cell.get("r"), "is a formula without a saved value", "open and save it")])
    if kind == "s":
        return shared[int(raw)]
    if kind == "b":
        return "true" if raw == "1" else "false"
    return raw.strip()
