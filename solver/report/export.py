"""Results and tables as files: JSON, CSV, Parquet; written whole or not at all."""

from __future__ import annotations

import csv
import io
import json
import os
import stat
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

    from solver.plan import Result

SUFFIXES = {".txt": "text", ".json": "json", ".csv": "csv", ".parquet": "parquet"}


class NotAResult(ValueError):  # noqa: N818 - reads as what it says
    """A file that is no saved result, or one of a format that this version does not read."""


def to_json(value: Any) -> str:
    """Write plain data as indented JSON, text kept as it is, ending in a newline."""
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def result_json(result: Result) -> str:
    """Write a result as JSON: money as decimal strings, other quantities as numbers in their key's unit."""
    return to_json(result.model_dump(mode="json"))


def read_result(text: str, name: str) -> Result:
    """Read a saved result back.

    Raises
    ------
    NotAResult
        Where `text` is no result; the message names the file and the first fault.
    """
    from pydantic import ValidationError

    from solver.plan import FORMAT_VERSION, Result

    try:
        data = json.loads(text)
    except ValueError as error:
        raise NotAResult(f"{name}: not JSON, so no saved result ({error})") from None
    version = data.get("format_version") if isinstance(data, dict) else None
    if not isinstance(version, str):
        raise NotAResult(
            f"{name}: no format_version, so no saved result; write one with: kitout solve PROBLEM -o {name}"
        )
    if version.partition(".")[0] != FORMAT_VERSION.partition(".")[0]:
        raise NotAResult(f"{name}: format {version}, but this kitout reads {FORMAT_VERSION}")
    try:
        return Result.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise NotAResult(f"{name}: {where}: {first['msg']}") from None


def item_records(result: Result) -> list[dict[str, Any]]:
    """Lines of the bill as flat records, one per item, lists and maps as text."""
    records = []
    for item in result.items:
        record = item.model_dump(mode="json")
        record["parts"] = "; ".join(item.parts)
        periods = item.quantity_by_period
        record["quantity_by_period"] = None if periods is None else "; ".join(f"{k}={v}" for k, v in periods.items())
        records.append(record)
    return records


def to_csv(records: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """Write records as CSV with a header, also where there are none; nothing is an empty field."""
    out = io.StringIO()
    writer = csv.DictWriter(out, fieldnames=list(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return out.getvalue()


def to_parquet(frame: pl.DataFrame) -> bytes:
    """Write a frame as Parquet."""
    out = io.BytesIO()
    frame.write_parquet(out)
    return out.getvalue()


def cash_bytes(result: Result, form: str) -> bytes:
    """Write the cash flow as csv (amounts as exact decimals) or parquet (as numbers), one row per month."""
    from solver.plan import CashMonth

    columns = list(CashMonth.model_fields)
    records = [month.model_dump(mode="json") for month in result.cash_flow]
    if form == "csv":
        return to_csv(records, columns).encode()
    import polars as pl

    frame = pl.DataFrame(records, schema={c: pl.Int64 if c == "month" else pl.String for c in columns})
    return to_parquet(frame.with_columns(pl.col(c).cast(pl.Float64) for c in columns if c != "month"))


def result_bytes(result: Result, form: str, rows: str = "bill") -> bytes:
    """Write a result without layout: json (all of it), csv or parquet (one row per line of the bill, or per month).

    `rows` : bill or cash-flow; JSON holds both.
    """
    if form == "json":
        return result_json(result).encode()
    if rows == "cash-flow":
        return cash_bytes(result, form)
    from solver.plan import Item

    columns = list(Item.model_fields)
    if form == "csv":
        return to_csv(item_records(result), columns).encode()
    if form == "parquet":
        import polars as pl

        numbers = {"quantity", "power_w", "power_limit_w", "hours_per_month"}
        numbers |= {"start_h", "granularity_s", "min_term_h", "operations_h"}
        types: dict[str, Any] = {name: pl.Float64 if name in numbers else pl.String for name in columns}
        types |= {"accelerators": pl.Int64, "starred": pl.Boolean}
        return to_parquet(pl.DataFrame(item_records(result), schema=types))
    raise ValueError(f"no such form: {form}")


def frame_bytes(frame: pl.DataFrame, form: str) -> bytes:
    """Write a table in a form without layout: json (list of records), csv or parquet."""
    if form == "json":
        return to_json(frame.to_dicts()).encode()
    if form == "csv":
        return frame.write_csv().encode()
    if form == "parquet":
        return to_parquet(frame)
    raise ValueError(f"no such form: {form}")


def write_file(path: Path, data: bytes) -> None:
    """Write `data` to `path` whole or not at all: by a temporary file beside it and a rename.

    Pipes and devices are written to as they are.

    Raises
    ------
    OSError
        Where the place cannot be written to; what stood there before is untouched.
    """
    if path.exists() and not path.is_file():
        path.write_bytes(data)
        return
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o666 & ~_umask()
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(data)
        Path(name).chmod(mode)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
