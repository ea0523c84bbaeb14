"""Refits, imports of measurements, running plans and load reckonings, as text and as data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import polars as pl
from rich.console import RenderableType

from solver.load import Step
from solver.refit import Refit
from solver.report import forms
from solver.report.page import Column, View, line, notes, render, table
from solver.validation.against import EXPECTED_UTILISATION, Finding

SHOWN = 20


def refit_data(found: Refit, written: Path | None) -> dict[str, Any]:
    """A refit as plain data."""
    return {
        "rows": found.rows,
        "tables": {name: frame.height for name, frame in found.tables.items()},
        "errors": found.errors.to_dicts(),
        "left_out": found.left_out.to_dicts(),
        "written": None if written is None else str(written),
    }


def refit_text(found: Refit, written: Path | None, view: View) -> str:
    """What was refitted, with the error on rows left out of the fit."""

    def page() -> Iterator[RenderableType]:
        yield line(f"{found.rows:,} rows read; error on rows left out of the fit, by group", view, "bold")
        yield ""
        columns = [Column("Table"), Column("Group", flexible=True), Column("Rows", "right")]
        columns += [Column("Median", "right"), Column("90th pct", "right")]
        cells = [
            [name, group, str(n), forms.share(middle), forms.share(worst)]
            for name, group, n, middle, worst in found.errors.iter_rows()
        ]
        yield table(columns, cells, view) if cells else line("no group has rows enough to be refitted", view)
        yield ""
        yield notes(_refit_notes(found, written), view)

    return render(page(), view)


def _refit_notes(found: Refit, written: Path | None) -> Iterator[tuple[str, str]]:
    for reason, count in Counter(found.left_out["reason"]).most_common():
        yield "left out", f"{count} {reason}"
    if not found.tables:
        yield "written", "nothing: the constants stay as they are"
    elif written is None:
        yield "written", "nothing; -o DIR writes the tables as an overlay"
    else:
        tables = ", ".join(f"{name} ({frame.height} rows)" for name, frame in found.tables.items())
        yield "written", f"{tables} to {written}; use it with --catalog {written}"


def import_data(kept: pl.DataFrame, refused: pl.DataFrame, written: Path | None) -> dict[str, Any]:
    """An import of measurements as plain data."""
    return {
        "kept": kept.height,
        "refused": refused.to_dicts(),
        "written": None if written is None else str(written),
        "measurements": kept.select(pl.exclude("source", "as_of", "confidence", "notes")).to_dicts(),
    }


def import_text(kept: pl.DataFrame, refused: pl.DataFrame, written: Path | None) -> str:
    """How many rows were taken in, and which were not and why."""
    lines = [f"{kept.height:,} measurements kept, {refused.height:,} rows refused"]
    lines += [f"  row {row}: {reason}" for row, reason in refused.head(SHOWN).iter_rows()]
    if refused.height > SHOWN:
        lines.append(f"  and {refused.height - SHOWN:,} more")
    lines.append("nothing written" if written is None else f"written to {written}; use it with --catalog {written}")
    return "\n".join(lines) + "\n"


def finding_data(finding: Finding) -> dict[str, Any]:
    """A workload of a running plan as plain data."""
    return asdict(finding)


def finding_text(found: Sequence[Finding], view: View) -> str:
    """A running plan beside its measurements: rate, utilisation, hours and cost, and what holds it back."""

    def page() -> Iterator[RenderableType]:
        columns = [Column("Workload"), Column("Figure"), Column("Planned", "right"), Column("Measured", "right")]
        columns.append(Column("Difference", "right"))
        cells: list[list[str]] = []
        for f in found:
            figures = (
                ("rate", f.planned_rate, f.measured_rate),
                ("hours", f.planned_hours, f.measured_hours),
                ("cost", f.planned_cost, f.measured_cost),
            )
            known = [row for row in figures if row[2] is not None]
            for number, (name, planned, measured) in enumerate(known):
                assert measured is not None
                apart = "-" if not planned else forms.signed_share(measured / planned - 1)
                guess = "-" if planned is None else forms.number(planned)
                cells.append([f.workload if number == 0 else "", name, guess, forms.number(measured), apart])
            if f.gpu_utilisation is not None:
                wanted = f"over {forms.share(EXPECTED_UTILISATION)}"
                cells.append(
                    ["" if known else f.workload, "GPU utilisation", wanted, forms.share(f.gpu_utilisation), ""]
                )
        yield table(columns, cells, view)
        yield ""
        yield notes([(f.workload, f"bottleneck: {f.bottleneck}; {f.why}") for f in found], view)

    return render(page(), view)


def load_text(steps: Sequence[Step], view: View) -> str:
    """The steps from users to load, one below the other."""

    def page() -> Iterator[RenderableType]:
        columns = [Column("Step"), Column("Reckoning", flexible=True), Column("Value", "right"), Column("Unit")]
        yield table(columns, [[s.what, s.formula, forms.number(s.value), s.unit] for s in steps], view)
        yield ""
        rate = next(s.value for s in steps if s.what == "request rate")
        yield line(f"in a problem file: traffic: {{rate: {rate:.6g} req/s, isl: .., osl: ..}}", view)

    return render(page(), view)
