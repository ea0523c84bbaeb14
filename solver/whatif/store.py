"""Answers of a sweep kept in a folder of Parquet files, one per finished task, found again by the hash of their scenario."""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

import polars as pl

from solver.whatif.scatter import Row
from solver.whatif.vary import BadRequest

SCHEMA = {"key": pl.String, "implied": pl.Boolean, "result": pl.String}


class Store:
    """A folder of answers; None keeps nothing. Files are written whole or not at all."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        if folder is None:
            return
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadRequest(f"--store {folder}: {error.strerror}") from None

    def load(self, keys: Iterable[str]) -> dict[str, tuple[bool, str]]:
        """Answers that are there, by hash of scenario; files that are no answers of ours are passed over."""
        wanted = set(keys)
        found: dict[str, tuple[bool, str]] = {}
        if self._folder is None:
            return found
        for path in sorted(self._folder.glob("*.parquet")):
            try:
                frame = pl.read_parquet(path)
            except (pl.exceptions.ComputeError, OSError):
                continue
            if set(SCHEMA) <= set(frame.columns):
                for key, implied, result in frame.select(list(SCHEMA)).iter_rows():
                    if key in wanted:
                        found[key] = (implied, result)
        return found

    def add(self, rows: list[Row]) -> None:
        """Keep the answers of one task."""
        if self._folder is None or not rows:
            return
        frame = pl.DataFrame([(r.key, r.implied, r.result) for r in rows], schema=SCHEMA, orient="row")
        out = io.BytesIO()
        frame.write_parquet(out, compression="zstd")
        handle, name = tempfile.mkstemp(dir=self._folder, prefix=".part-", suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(out.getvalue())
            Path(name).replace(self._folder / f"{rows[0].key[:32]}.parquet")
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
