"""Sizes of one model on each accelerator as text: fits or short by how much, how a card's memory is split."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl
from rich.console import RenderableType

from solver.report import forms
from solver.report.page import Column, View, line, notes, render, table
from solver.report.size_rates_text import rate_notes, rates

BAR = 20
MARKS = ("█", "▒", "░")


def render_size(title: str, frame: pl.DataFrame, view: View) -> str:
    """Render what `solver.size` found, served or trained by the columns it has."""

    sized = frame.filter(pl.col("verdict") != "refused")

    def page() -> Iterator[RenderableType]:
        yield line(title, view, "bold")
        yield ""
        yield _serving(sized, view) if served else _training(sized, view)
        yield ""
        if "rate_req_s" in frame.columns:
            yield rates(sized, view)
            yield ""
        fits = sized.filter(pl.col("verdict") == "fits").height
        yield line(
            f"fits on {fits} of {frame.height} accelerators; figures are GiB per GPU, as software sees it",
            view,
        )
        if view.wide:
            parts = ("weights", "engine", "KV cache") if served else ("states", "activations and the rest", "free")
            yield line("split: " + ", ".join(f"{mark} {part}" for mark, part in zip(MARKS, parts, strict=True)), view)
        yield notes([*_refused(frame), *(rate_notes(sized) if "rate_req_s" in frame.columns else ())], view)

    served = "kv_tokens" in frame.columns
    return render(page(), view)


def _refused(frame: pl.DataFrame) -> Iterator[tuple[str, str]]:
    """Accelerators that no amount of memory would help, by reason."""
    refused = frame.filter(pl.col("verdict") == "refused")
    grouped = refused.group_by("reason", maintain_order=True).agg(pl.col("accelerator").sort())
    for reason, names in grouped.iter_rows():
        yield "refused", f"{reason}: {', '.join(names)}"


def bar(parts: Sequence[float], whole: float) -> str:
    """Draw how parts share a whole, in twentieths; nothing runs over the end."""
    drawn, done = "", 0.0
    for mark, part in zip(MARKS, parts, strict=True):
        done += max(part, 0.0)
        upto = min(round(BAR * done / whole), BAR) if whole > 0 else 0
        drawn += mark * max(upto - len(drawn), 0)
    return drawn


def verdict(row: dict[str, Any]) -> str:
    """Say whether it fits, or by how much it is short."""
    return "fits" if row["verdict"] == "fits" else f"short {forms.number(-row['slack_gib'])}"


def gib(value: float | None) -> str:
    """Write a size [GiB] as a bare number; unknown is ``-``."""
    return "-" if value is None else forms.number(value)


def _serving(frame: pl.DataFrame, view: View) -> RenderableType:
    columns = [
        Column("Accelerator", flexible=True),
        Column("Memory", "right"),
        Column("GPUs = TP × PP" if view.wide else "GPUs", "right"),
        Column("Verdict"),
        Column("Weights", "right"),
        Column("KV pool", "right"),
        Column("KV tokens", "right"),
        Column("Requests", "right"),
        *([Column("Split of one GPU")] if view.wide else []),
    ]
    rows = []
    for row in frame.rows(named=True):
        shares = (row["weights_gib"] or 0.0, row["overhead_gib"] or 0.0, row["kv_pool_gib"] or 0.0)
        cells = [
            row["accelerator"],
            gib(row["usable_gib"]),
            split_text(row),
            verdict(row),
            gib(row["weights_gib"]),
        ]
        pool = row["kv_pool_gib"]
        cells += [
            gib(pool if pool is None or pool > 0 else 0.0),
            count(row["kv_tokens"]),
            count(row["max_concurrency"]),
        ]
        rows.append(cells + ([bar(shares, row["usable_gib"] or 0.0)] if view.wide else []))
    return table(columns, rows, view)


def _training(frame: pl.DataFrame, view: View) -> RenderableType:
    columns = [
        Column("Accelerator", flexible=True),
        Column("Memory", "right"),
        Column("GPUs", "right"),
        Column("Verdict"),
        Column("States", "right"),
        Column("Activations", "right"),
        Column("Peak", "right"),
        *([Column("Split of one GPU")] if view.wide else []),
    ]
    rows = []
    for row in frame.rows(named=True):
        states, peak, usable = (row[name] or 0.0 for name in ("states_gib", "peak_gib", "usable_gib"))
        cells = [row["accelerator"], gib(row["usable_gib"]), str(row["gpus"]), verdict(row)]
        cells += [gib(row[name]) for name in ("states_gib", "activations_gib", "peak_gib")]
        shares = (states, peak - states, usable - peak)
        rows.append(cells + ([bar(shares, usable)] if view.wide else []))
    return table(columns, rows, view)


def split_text(row: dict[str, Any]) -> str:
    """Write the number of cards, with TP x PP where stages are used."""
    return str(row["gpus"]) if row["pp"] == 1 else f"{row['gpus']} = {row['tp']} × {row['pp']}"


def count(value: float | None) -> str:
    """Write a count; unknown is ``-``."""
    return "-" if value is None else f"{value:,.0f}"
