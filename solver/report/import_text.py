"""Imports, differences and cheapest offers as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import polars as pl

from catalogs.diff import Difference
from catalogs.importers.report import ImportReport
from solver.cheapest import Found, Request
from solver.report.catalog_text import render_table
from solver.report.page import View

SHOWN = 20


def import_text(report: ImportReport, out: Path) -> str:
    """What an import did, reason by reason."""
    return "\n".join(_import_lines(report, out)) + "\n"


def _import_lines(report: ImportReport, out: Path) -> Iterator[str]:
    dropped = sum(report.dropped.values())
    yield f"{report.source}: {report.read:,} rows read, {report.kept:,} kept, {dropped:,} dropped; {report.offers:,} offers"
    yield from _counts("dropped", report.dropped)
    yield from _counts("prices left out of rows kept", report.prices_dropped)
    yield from _counts("kept with a remark", report.remarks)
    yield from _counts("unknown accelerators, kept under their own name, never sized", report.unknown)
    yield from _counts("name leaves the variant open", report.assumed)
    if report.refused:
        yield "rows to look at"
        yield from (f"  {text}" for text in report.refused[:SHOWN])
        if len(report.refused) > SHOWN:
            yield f"  and {len(report.refused) - SHOWN:,} more"
    yield f"written to {out}; use it with --catalog {out}"


def _counts(title: str, counts: Mapping[str, int]) -> Iterator[str]:
    if counts:
        yield title
        ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
        yield from (f"  {rows:>8,}  {what}" for what, rows in ordered)


def diff_text(found: Difference, limit: int, view: View) -> str:
    """Counts of changes, and the largest of them as a table."""
    counts = ", ".join(f"{number:,} {name}" for name, number in found.counts.items())
    if found.changes.is_empty():
        return f"{counts}\n"
    shown = found.changes.head(limit).with_columns(
        pl.col("billing").str.replace_all("_", " "),
        percent=pl.when(pl.col("percent").is_not_null()).then(pl.format("{}%", "percent")),
    )
    columns = ["change", "item", "billing", "term_months", "before", "after", "currency", "percent"]
    return f"{counts}\n\n{render_table(shown.select(columns), found.changes.height, view, ['percent'])}"


def cheapest_text(found: Found, asked: Request, view: View) -> str:
    """The cheapest machines with their price, or why there are none."""
    if found.price_per_hour is None:
        return "\n".join(["nothing fits", *(f"  {hint}" for hint in found.hints)]) + "\n"
    nodes = f" for {asked.nodes} nodes" if asked.nodes > 1 else ""
    mode = "spot" if asked.spot else "on demand"
    title = f"{found.price_per_hour:,.6g} {found.currency}/h{nodes}, {mode}: the cheapest, proved"
    return f"{title}\n\n{render_table(pl.DataFrame(found.offers), found.ties, view)}"
