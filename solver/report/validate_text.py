"""Predicted beside measured as text: every row, then the error by group, by quantity, and the verdicts last."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import RenderableType

from solver.report import forms
from solver.report.export import to_csv, to_json, to_parquet
from solver.report.page import Column, View, line, notes, render, table

ROW_COLUMNS = ("case_id", "quantity", "measured", "predicted", "reason")
# Shares of a whole: their error is a difference of shares, not a ratio of them.
SHARES = ("kv_pool_share_of_card", "relative_throughput")
Report = Mapping[str, Any]


def render_validation(title: str, report: Report, view: View) -> str:
    """Render what a validation found.

    Parameters
    ----------
    title
        What was validated, and on which file.
    report
        ``{n, refused, metrics, verdicts, groups, rows}`` as the validations of `solver` give it.
    """

    def page() -> Iterator[RenderableType]:
        yield line(title, view, "bold")
        yield ""
        yield _rows(report, view)
        yield ""
        for groups in _groups(report["groups"]):
            yield _metrics(groups, view)
            yield ""
        yield _metrics({"all": report["metrics"]}, view)
        yield ""
        if report.get("worst"):
            yield line("worst rows", view, "bold")
            yield _rows({"rows": report["worst"]}, view)
            yield ""
        yield notes(_last(report), view)

    return render(page(), view)


def validation_bytes(report: Report, form: str) -> bytes:
    """Write what a validation found: JSON holds all of it, CSV and Parquet the rows."""
    if form == "json":
        return to_json(report).encode()
    if form == "csv":
        return to_csv([{name: row[name] for name in ROW_COLUMNS} for row in report["rows"]], ROW_COLUMNS).encode()
    import polars as pl

    return to_parquet(pl.DataFrame(report["rows"], infer_schema_length=None))


def _groups(found: Mapping[str, Any]) -> Iterator[Mapping[str, Mapping[str, Report]]]:
    """Metrics by group: one table, or one for each way to group (by accelerator, by engine ...)."""
    if all("metrics" in group for group in found.values()):
        if len(found) > 1:  # one group is the same as all rows
            yield {name: group["metrics"] for name, group in found.items()}
    else:
        yield from (groups for groups in found.values() if len(groups) > 1)


def _rows(report: Report, view: View) -> RenderableType:
    columns = [Column("Case", flexible=True), Column("Quantity", flexible=True), Column("Measured", "right")]
    columns += [Column("Predicted", "right"), Column("Error", "right"), Column("Declined because", flexible=True)]
    cells = []
    for row in report["rows"]:
        measured, predicted = row["measured"], row["predicted"]
        if predicted is None or (not measured and row["quantity"] not in SHARES):
            error = "-"
        elif row["quantity"] in SHARES:
            error = f"{predicted - measured:+.3g}"
        else:
            error = forms.signed_share(predicted / measured - 1)
        guess = "-" if predicted is None else forms.number(predicted)
        cells.append([str(row["case_id"]), row["quantity"], forms.number(measured), guess, error, row["reason"] or ""])
    return table(columns, cells, view)


def _metrics(groups: Mapping[str, Mapping[str, Report]], view: View) -> RenderableType:
    """Errors by group and quantity: relative ones, absolute where a quantity is judged so."""
    columns = [Column("Group", flexible=True), Column("Quantity", flexible=True), Column("Rows", "right")]
    columns += [Column("Declined", "right"), Column("Median", "right"), Column("90th pct", "right")]
    columns.append(Column("Bias", "right"))
    cells = []
    for group, metrics in groups.items():
        for quantity, found in metrics.items():
            declined = found.get("refused")
            middle = found.get("median_abs" if quantity in SHARES else "median_abs_rel")
            worst = found.get("p90_abs" if quantity in SHARES else "p90_abs_rel")
            bias = found.get("mean_signed_rel")
            row = [group, quantity, str(found["n"]), "-" if declined is None else str(declined)]
            row += [forms.share(middle), forms.share(worst)]
            cells.append([*row, "-" if bias is None else forms.signed_share(bias)])
    return table(columns, cells, view)


def _last(report: Report) -> Iterator[tuple[str, str]]:
    yield "rows", f"{report['n']} with a measured quantity, {report['refused']} declined"
    verdicts = report.get("verdicts") or {}
    if verdicts.get("n"):
        said = f"{verdicts['right']} of {verdicts['n']} right"
        yield "fit", f"{said}, {verdicts['wrong_fits']} said to fit that ran out of memory"
    for quantity, found in report["metrics"].items():
        if found.get("under_predicted_share"):
            yield "low", f"{quantity}: {forms.share(found['under_predicted_share'])} more than 15% under"
    reasons = Counter(row["reason"] for row in report["rows"] if row["predicted"] is None)
    for reason, count in reasons.most_common():
        yield "declined", f"{count} {reason}"
