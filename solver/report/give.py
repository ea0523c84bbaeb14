"""Hand answers over in the form asked for: results and tables, laid out for people or as data."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from solver.plan import Result
from solver.report.answer import Answer
from solver.report.export import frame_bytes, result_bytes
from solver.report.page import View
from solver.report.text import render_result, summary

if TYPE_CHECKING:
    import polars as pl


def give_table(answer: Answer, frame: pl.DataFrame, text: Callable[[View], str] | None = None) -> None:
    """Hand a table over in the form asked for; `text` renders it where it is no plain list of rows."""
    if answer.form != "text":
        answer.give(frame_bytes(frame, answer.form))
    else:
        from solver.report.catalog_text import render_table

        view = answer.view()
        answer.give(text(view) if text else render_table(frame, len(frame), view))


def give_result(answer: Answer, result: Result, source: str | None, rows: str = "bill") -> None:
    """Hand a result over in the form asked for, and a line about it where the answer is not read at once.

    `rows` : what CSV and Parquet hold, bill or cash-flow.
    """
    view = answer.view(source)
    answer.give(render_result(result, view) if answer.form == "text" else result_bytes(result, answer.form, rows))
    if answer.output is not None or answer.form != "text":
        where = f"{answer.output}: " if answer.output else ""
        answer.note(f"{where}{summary(result, view)}")
