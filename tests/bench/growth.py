"""How time and memory grow: `python -m tests.bench.growth -o docs` writes growth.csv and growth.svg.

Portfolios of services (`tests.bench.portfolios`) against the number of offers, of workloads and of load periods; every point
runs in a process of its own, so that its peak memory is its own.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

from tests.bench.growth_plot import drawn

POINTS: dict[str, list[tuple[int, int, int]]] = {
    "offers": [(2, 3, n) for n in (100, 300, 1_000, 3_000, 10_000, 20_000)],
    "workloads": [(n, 3, 300) for n in (1, 2, 3, 4, 5, 6, 7, 8)],
    "periods": [(3, n, 300) for n in (1, 2, 3, 4, 6, 8, 10, 12)],
}
"""Workloads, load periods and offers of the points of each panel."""
LIMIT_S = 10.0
FIELDS = (
    "axis", "workloads", "periods", "offers", "limit_s", "build_s", "first_s", "bound_s", "five_percent_s", "proof_s", "gap",
    "wall_s", "cpu_s", "peak_mib",
)  # fmt: skip


def one(works: int, periods: int, offers: int, limit: float, threads: int) -> dict[str, Any]:
    """Make and search one portfolio."""
    import time

    from tests.bench.portfolios import portfolio
    from tests.bench.solving import searched

    started = time.monotonic()
    inst = portfolio(works, periods, offers)
    made = time.monotonic() - started
    return searched(inst, limit, threads) | {"build_s": made}


def measured(limit: float, threads: int, only: set[str], few: int | None) -> Iterator[dict[str, Any]]:
    """Rows of the table, a point that failed with empty cells."""
    from tests.bench.apart import apart

    for axis, points in POINTS.items():
        if axis not in only:
            continue
        for works, periods, offers in points[:few]:
            size = [str(n) for n in (works, periods, offers)]
            arguments = ["--one", *size, "--limit", str(limit), "--threads", str(threads)]
            found = apart("tests.bench.growth", *arguments, limit=limit) or {}
            known: dict[str, Any] = {
                "axis": axis,
                "workloads": works,
                "periods": periods,
                "offers": offers,
                "limit_s": limit,
            }
            row = known | {name: found.get(name) for name in FIELDS if name not in known}
            print(row, file=sys.stderr, flush=True)
            yield row


def _cell(name: str, value: Any) -> Any:
    if value is None or not isinstance(value, float):
        return value
    return f"{value:.6f}" if name == "gap" else f"{value:.3f}" if name.endswith("_s") else f"{value:.0f}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("-o", "--output", type=Path, default=Path("docs"), help="folder")
    parser.add_argument("--limit", type=float, default=LIMIT_S)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--axes", nargs="+", default=list(POINTS), choices=list(POINTS))
    parser.add_argument("--few", type=int, help="only so many points of each axis")
    parser.add_argument("--plot-only", action="store_true", help="draw growth.csv again")
    parser.add_argument("--one", nargs=3, type=int)
    asked = parser.parse_args()
    if asked.one:
        works, periods, offers = asked.one
        print(json.dumps(one(works, periods, offers, asked.limit, asked.threads)))
        return
    table = asked.output / "growth.csv"
    if not asked.plot_only:
        with table.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
            writer.writeheader()
            for row in measured(asked.limit, asked.threads, set(asked.axes), asked.few):
                writer.writerow({name: _cell(name, value) for name, value in row.items()})
                file.flush()
    with table.open(encoding="utf-8", newline="") as file:
        read = list(csv.DictReader(file))
    said = f"{os.cpu_count()} cores, {asked.threads} threads, {read[0]['limit_s'].rstrip('0').rstrip('.')} s for each point"
    said += "" if asked.plot_only else f", {date.today():%Y-%m-%d}"
    (asked.output / "growth.svg").write_text(drawn(read, said), encoding="utf-8")


if __name__ == "__main__":
    main()
