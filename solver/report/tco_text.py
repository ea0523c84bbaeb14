"""Published buying cases beside what kitout works out: cases that differ or are not supported, then a tally by kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import RenderableType

from solver.report import forms
from solver.report.export import to_csv, to_json, to_parquet
from solver.report.page import Column, View, line, notes, render, table
from solver.validation.validate_tco import case_rows

Report = Mapping[str, Any]
VERDICTS = {True: "yes", False: "no", None: "-"}


def render_cases(title: str, report: Report, view: View) -> str:
    """Render what a validation of buying cases found.

    Parameters
    ----------
    title
        What was validated, and on which file.
    report
        ``{n, within, unsupported, outside, kinds, cases}`` as `solver.validation.validate_tco` gives it.
    """

    def page() -> Iterator[RenderableType]:
        yield line(title, view, "bold")
        yield ""
        columns = [Column("Case", flexible=True), Column("Figure", flexible=True), Column("Stated", flexible=True)]
        columns += [Column("Worked out", flexible=True), Column("Within"), Column("Remark", flexible=True)]
        yield table(columns, _figures(report), view)
        yield ""
        yield table(
            [Column("Kind"), Column("Cases", "right"), Column("Within", "right"), Column("Unsupported", "right")],
            [[k, str(v["n"]), str(v["within"]), str(v["unsupported"])] for k, v in report["kinds"].items()],
            view,
        )
        yield ""
        said = f"{report['within']} of {report['n']} within the tolerance, {report['outside']} outside"
        yield notes([("cases", f"{said}, {report['unsupported']} not supported")], view)

    return render(page(), view)


def _figures(report: Report) -> Iterator[list[str]]:
    for case in report["cases"]:
        first = True
        for name, stated in case["expected"].items():
            got = case["got"].get(name)
            cells = [case["id"] if first else "", name, _shown(stated), "-" if name not in case["got"] else _shown(got)]
            yield [*cells, VERDICTS[case["within"]] if first else "", (case["reason"] or "") if first else ""]
            first = False


def _shown(value: Any) -> str:
    if value is None:
        return "never"
    if isinstance(value, list):
        return ", ".join(_shown(v) for v in value)
    if isinstance(value, Mapping):
        return ", ".join(f"{k}: {_shown(v)}" for k, v in value.items())
    if isinstance(value, int | float) and not isinstance(value, bool):
        return forms.number(value)
    return str(value)


def cases_bytes(report: Report, form: str) -> bytes:
    """Write what a validation of buying cases found: JSON holds all of it, CSV and Parquet one row for each case."""
    if form == "json":
        return to_json(report).encode()
    rows = case_rows(report)
    return to_csv(rows.to_dicts(), tuple(rows.columns)).encode() if form == "csv" else to_parquet(rows)
