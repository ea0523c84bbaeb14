"""Rates of one replica on each accelerator as text: speed, latency, where the figure is from and its error."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl
from rich.console import RenderableType

from solver.report import forms
from solver.report.page import Column, View, table
from solver.report.text_parts import SOURCE_TEXT


def rates(frame: pl.DataFrame, view: View) -> RenderableType:
    """One row per accelerator that serves, the fastest per GPU first; GPUs in all where a load was given."""
    loaded = "all_gpus" in frame.columns
    columns = [Column("Accelerator", flexible=True), Column("GPUs", "right"), Column("Requests/s", "right")]
    columns += [Column("Tokens/s out", "right"), Column("TTFT / TPOT", "right"), Column("Source")]
    columns += [Column("For the load", "right")] if loaded else []
    known = frame.filter(pl.col("rate_req_s").is_not_null())
    cells = []
    for row in known.sort(pl.col("rate_req_s") / pl.col("gpus"), descending=True).rows(named=True):
        latency = (row["ttft_s"], row["tpot_s"])
        ttft, tpot = (forms.milliseconds(None if s is None else s * 1000) for s in latency)
        source = f"{SOURCE_TEXT[row['rate_source']]} ± {forms.share(row['rate_error'])}"
        star = " *" if row["rate_warning"] else ""
        cells.append(
            [
                row["accelerator"],
                str(row["gpus"]),
                forms.number(row["rate_req_s"]),
                forms.number(row["output_tokens_per_s"]),
                f"{ttft} / {tpot}",
                source + star,
                *([f"{row['replicas']:,} × {row['gpus']} = {row['all_gpus']:,}"] if loaded else []),
            ]
        )
    return table(columns, cells, view)


def rate_notes(frame: pl.DataFrame) -> Iterator[tuple[str, str]]:
    """Why cards have no rate, and which rates lie outside the measured range (starred)."""
    fits = frame.filter(pl.col("verdict") == "fits")
    for label, column in (("no rate", "rate_reason"), ("* outside", "rate_warning")):
        found = fits.filter(pl.col(column).is_not_null())
        grouped = found.group_by(column, maintain_order=True).agg(pl.col("accelerator").sort())
        for reason, names in grouped.iter_rows():
            yield label, f"{reason}: {', '.join(names)}"
    if fits["rate_req_s"].is_not_null().any():
        yield "assumed", "a tuned engine; an untuned one may be a factor of two slower"
