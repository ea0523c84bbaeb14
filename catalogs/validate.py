"""Rules of the frame schemas and references between tables, as issues with file, line and column."""

from __future__ import annotations

from collections.abc import Mapping

import dataframely as dy
import polars as pl

from catalogs.errors import Issue
from catalogs.read import describe, nearest
from catalogs.schema import REFERENCES, TABLES, Reference
from catalogs.seal import FILE, LINE


def rule_issues(name: str, frame: pl.DataFrame) -> list[Issue]:
    """Broken rules of table `name`; `frame` carries `FILE` and `LINE` and has unique keys."""
    schema = TABLES[name]
    if schema.is_valid(frame):
        return []
    _, failure = schema.filter(frame)
    broken = failure.counts()
    where = frame.select(*schema.primary_key(), FILE, LINE)
    details = failure.details().join(where, on=schema.primary_key(), how="left", maintain_order="left")
    issues: list[Issue] = []
    for rule in broken:
        column, _, kind = rule.partition("|")
        rows = details.filter(pl.col(rule).cast(pl.String) == "invalid")
        if kind:
            said = rows.select(FILE, LINE, column)
            allowed = describe(schema.columns()[column])
            issues += [Issue(file, line, column, _shown(value), allowed) for file, line, value in said.iter_rows()]
        else:
            text = rule_text(schema, rule)
            issues += [
                Issue(file, line, None, f"breaks the rule {rule}", text)
                for file, line in rows.select(FILE, LINE).iter_rows()
            ]
    return issues


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else repr(value)


def rule_text(schema: type[dy.Schema], rule: str) -> str:
    """First line of a rule's docstring."""
    factory = getattr(schema, rule, None)
    function = getattr(factory, "validation_fn", None)
    doc = (getattr(function, "__doc__", None) or "").strip()
    return doc.splitlines()[0].rstrip(".") if doc else ""


def orphans(tables: Mapping[str, pl.DataFrame], reference: Reference) -> pl.DataFrame:
    """Rows of the referring table whose name is unknown in the target, with the name in column `name`."""
    rows = tables[reference.table].with_columns(name=pl.col(reference.column))
    if reference.listed:
        rows = (
            rows.with_columns(pl.col("name").str.split(";"))
            .explode("name")
            .with_columns(pl.col("name").str.strip_chars())
        )
    known = tables[reference.target].select(name=pl.col(reference.target_column))
    return rows.filter(pl.col("name").is_not_null()).join(known, on="name", how="anti", maintain_order="left")


def reference_issues(tables: Mapping[str, pl.DataFrame]) -> list[Issue]:
    """Names that refer to no row, over all references."""
    issues: list[Issue] = []
    for reference in REFERENCES:
        if reference.table not in tables or reference.target not in tables:
            continue
        lost = orphans(tables, reference).select(FILE, LINE, "name")
        if lost.height:
            known = tables[reference.target][reference.target_column].to_list()
            issues += [
                Issue(
                    file,
                    line,
                    reference.column,
                    f"unknown {reference.target_column} {value!r}{nearest(value, known)}",
                    f"a name of table {reference.target}",
                )
                for file, line, value in lost.iter_rows()
            ]
    return issues
