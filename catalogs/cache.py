"""Overlay folders as imports write them: whole or not at all, large tables as Parquet, sealed so that loading is quick.

`overlay.json` says what made the folder, whether the built-in offers step aside for it, and a hash of each table's
bytes and content. A table whose bytes still have that hash was checked when it was written; any other is checked in
full at every load, so the folder stays the user's to edit.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from catalogs.embedded import file_sha256
from catalogs.errors import CatalogError, Issue
from catalogs.read import column_order
from catalogs.schema import TABLES
from catalogs.seal import FILE, LINE, Seal, content_sha256
from catalogs.validate import rule_issues

MANIFEST = "overlay.json"
FORMAT = 1
# Tables of at least so many rows are written as Parquet: text of that size is nothing to edit by hand.
PARQUET_ROWS = 5_000
MARKET = ("offers", "prices")
# What an import may write beside the tables: a problem that is posed against them.
BESIDE = "problem.yaml"


@dataclass(frozen=True)
class Manifest:
    """What `overlay.json` says. `steps_aside`: tables whose built-in rows are left out beside this overlay."""

    steps_aside: tuple[str, ...] = ()
    seals: Mapping[str, Seal] = field(default_factory=dict)
    imported: Mapping[str, Any] = field(default_factory=dict)


def read_manifest(folder: Path) -> Manifest:
    """Manifest of an overlay; a folder without one is a plain folder of tables.

    Raises
    ------
    CatalogError
        The file is not of the form.
    """
    path = folder / MANIFEST
    if not path.is_file():
        return Manifest()
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
        return Manifest(
            tuple(t for t in said["steps_aside"] if t in TABLES),
            {str(name): Seal(*pair) for name, pair in said["seals"].items()},
            said.get("imported", {}),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise CatalogError(
            [Issue(str(path), None, None, "is not readable as a manifest", "as an import writes it, or no such file")]
        ) from None


def read_parquet(
    data: bytes, file: str, name: str, *, checked: bool = False
) -> tuple[pl.DataFrame | None, list[Issue]]:
    """A table saved as Parquet, in the columns and types of its schema, with `FILE` and `LINE`.

    `checked` : the bytes are those that an import wrote.
    """
    schema = TABLES[name]
    columns = schema.columns()
    try:
        frame = pl.read_parquet(io.BytesIO(data))
        if checked:
            return booked(frame.select(column_order(schema)), file), []
    except (pl.exceptions.PolarsError, OSError) as error:
        return None, [Issue(file, None, None, f"is not readable as Parquet ({str(error).splitlines()[0][:80]})")]
    issues = [Issue(file, None, c, "unknown column", ", ".join(columns)) for c in frame.columns if c not in columns]
    missing = [c for c in columns if c not in frame.columns]
    issues += [Issue(file, None, c, "column is missing") for c in missing if not columns[c].nullable]
    if issues:
        return None, issues
    try:
        frame = frame.with_columns(pl.lit(None).alias(c) for c in missing).cast(
            {c: column.dtype for c, column in columns.items()}
        )
    except pl.exceptions.PolarsError as error:
        return None, [Issue(file, None, None, f"has cells of the wrong type ({str(error).splitlines()[0][:80]})")]
    key = schema.primary_key()
    if frame.select(key).is_duplicated().any():
        row = frame.filter(frame.select(key).is_duplicated()).row(0, named=True)
        return None, [Issue(file, None, "+".join(key), f"{'/'.join(str(row[k]) for k in key)!r} stands twice")]
    return booked(frame.select(column_order(schema)), file), []


def booked(frame: pl.DataFrame, file: str) -> pl.DataFrame:
    """Add the bookkeeping columns: file, and the line that a CSV of the same rows would have."""
    return frame.with_columns(pl.lit(file).alias(FILE), pl.int_range(2, pl.len() + 2, dtype=pl.Int64).alias(LINE))


def write_overlay(
    out: Path,
    tables: Mapping[str, pl.DataFrame],
    *,
    steps_aside: tuple[str, ...],
    imported: Mapping[str, Any],
    problem: str | None = None,
) -> None:
    """Write tables as overlay folder `out`, whole or not at all; an overlay that an import wrote there is replaced.

    `problem` : text of a problem file to stand beside the tables.

    Raises
    ------
    CatalogError
        A table breaks its schema; `out` is a file, a folder of something else, or cannot be written.
    """
    refuse_place(out)
    files: dict[str, bytes] = {}
    seals: dict[str, list[str]] = {}
    issues: list[Issue] = []
    for name, frame in tables.items():
        schema = TABLES[name]
        frame = frame.select(column_order(schema)).cast({c: column.dtype for c, column in schema.columns().items()})
        issues += rule_issues(name, booked(frame, f"{name} (imported)"))
        suffix, data = _encoded(frame.sort(schema.primary_key()))
        files[f"{name}{suffix}"] = data
        # Sorted rows make the bytes of a large table stand for its content; writing it out as text once more is slow.
        content = file_sha256(data) if suffix == ".parquet" else content_sha256(frame, schema.primary_key())
        seals[name] = [file_sha256(data), content]
    if issues:
        raise CatalogError(issues)
    said = {"format": FORMAT, "steps_aside": list(steps_aside), "imported": dict(imported), "seals": seals}
    if problem is not None:
        files[BESIDE] = problem.encode()
    files[MANIFEST] = (json.dumps(said, indent=2, ensure_ascii=False) + "\n").encode()
    _place(out, files)


def _encoded(frame: pl.DataFrame) -> tuple[str, bytes]:
    target = io.BytesIO()
    if frame.height >= PARQUET_ROWS:
        frame.write_parquet(target)
        return ".parquet", target.getvalue()
    frame.write_csv(target, line_terminator="\n")
    return ".csv", target.getvalue()


def refuse_place(out: Path) -> None:
    """Refuse to write where something else lies.

    Raises
    ------
    CatalogError
        `out` is a file, or a folder that holds anything but an imported overlay, or its parent does not exist.
    """
    if out.is_dir():
        strange = [p.name for p in out.iterdir() if p.name not in (MANIFEST, BESIDE) and p.stem not in TABLES]
        if strange or (any(out.iterdir()) and not (out / MANIFEST).is_file()):
            raise CatalogError([Issue(str(out), None, None, "holds other files", "a new folder, or an earlier import")])
    elif out.exists():
        raise CatalogError([Issue(str(out), None, None, "is a file", "a folder to write")])
    elif not out.absolute().parent.is_dir():
        raise CatalogError([Issue(str(out), None, None, "its parent folder does not exist")])


def _place(out: Path, files: Mapping[str, bytes]) -> None:
    """Put the files into a folder beside `out` and rename it: readers see the old folder or the new, never half."""
    parent = out.absolute().parent
    try:
        fresh = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=parent))
    except OSError as error:
        raise CatalogError([Issue(str(out), None, None, f"cannot be written ({error.strerror})")]) from None
    try:
        for name, data in files.items():
            (fresh / name).write_bytes(data)
        fresh.chmod(0o777 & ~_umask())
        old = None
        if out.exists():
            old = Path(tempfile.mkdtemp(prefix=f".{out.name}-old-", dir=parent))
            out.replace(old / out.name)
        fresh.replace(out)
        if old is not None:
            shutil.rmtree(old)
    except OSError as error:
        raise CatalogError([Issue(str(out), None, None, f"cannot be written ({error.strerror})")]) from None
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


__all__ = ["BESIDE", "MARKET", "Manifest", "read_manifest", "read_parquet", "refuse_place", "write_overlay"]
