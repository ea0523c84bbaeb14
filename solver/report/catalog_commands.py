"""Commands of `kitout catalog` that read a price source, compare, check or ask for the cheapest offer.

They are put into the group when it is first used, so that starting up loads nothing of this.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from solver.report.answer import Answer

SOURCES = ("skypilot", "gpuhunt", "vantage", "quotes")
BUILT_IN = "built-in"
Decorator = Callable[[Any], Any]


def add_commands(group: click.Group, catalog_option: Decorator, gives_answer: Decorator) -> None:
    """Put the commands into `group`; the options are those that all commands share."""
    if "import" in group.commands:
        return

    @group.command("import")
    @click.argument("source", type=click.Choice(SOURCES))
    @click.argument("path", type=click.Path(exists=True, path_type=Path))
    @click.option("-o", "--output", "out", required=True, type=click.Path(path_type=Path), metavar="DIR")
    @click.option("--add", "beside", is_flag=True, help="Keep the built-in offers beside those of the price list.")
    @click.option("--as-of", metavar="DATE", help="Date of the prices where the source states none: 2026-11-02.")
    @click.option("--encoding", metavar="NAME", help="Of the source's text, where it is not UTF-8: gb18030.")
    @click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
    @catalog_option
    def import_command(source: str, path: Path, out: Path, form: str, overlays: tuple[Path, ...], **how: Any) -> None:
        """Import a price source into the overlay folder DIR, whole or not at all.

        SOURCE is skypilot (folder of CLOUD/vms.csv, or one file), gpuhunt (PROVIDER.csv, a folder or zip of them),
        vantage (instances.json) or quotes (a sheet as `kitout catalog template` writes it, CSV or XLSX).
        """
        from catalogs.imports import import_source
        from catalogs.load import load_catalog
        from solver.report.export import to_json
        from solver.report.import_text import import_text

        refuse_date(how["as_of"])
        report = import_source(source, path, out, load_catalog(overlays), **how)
        Answer(form).give(to_json(report.as_dict()) if form == "json" else import_text(report, out))

    @group.command("template")
    @click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write there (CSV).")
    def template_command(output: Path | None) -> None:
        """Write an empty quote sheet with what each column takes; import it with `catalog import quotes`."""
        from catalogs.importers.quotes import template

        Answer.open("csv", output, None, "never", False).give(template())

    @group.command("diff")
    @click.argument("before", metavar="A")
    @click.argument("after", metavar="B")
    @click.option("--limit", type=click.IntRange(min=0), default=20, show_default=True, help="Rows to show as text.")
    @gives_answer
    def diff_command(answer: Answer, before: str, after: str, limit: int) -> None:
        """Show what changed in price from overlay A to overlay B; `built-in` is the catalogue without overlays."""
        from catalogs.diff import diff
        from catalogs.load import load_catalog
        from solver.report.export import frame_bytes, to_json
        from solver.report.import_text import diff_text

        old, new = (load_catalog(() if name == BUILT_IN else (Path(name),)) for name in (before, after))
        found = diff(old, new)
        if answer.form == "text":
            answer.give(diff_text(found, limit, answer.view()))
        elif answer.form == "json":
            answer.give(to_json({"counts": dict(found.counts), "changes": found.changes.to_dicts()}))
        else:
            answer.give(frame_bytes(found.changes, answer.form))

    @group.command("cheapest")
    @click.option("--gpu", metavar="NAME:COUNT", help="Accelerators per node, e.g. A100-80GB:8 (default: none).")
    @click.option("--cpus", metavar="N+", help="vCPUs per node, at least.")
    @click.option("--memory", metavar="GIB+", help="RAM per node, at least [GiB].")
    @click.option("--spot", is_flag=True, help="Spot prices instead of on-demand ones.")
    @click.option("--provider", metavar="NAME")
    @click.option("--region", metavar="NAME")
    @click.option("--nodes", type=click.IntRange(min=1), default=1, show_default=True)
    @click.option("--max-hourly", type=click.FloatRange(min=0, min_open=True), metavar="P", help="Most per node.")
    @click.option("--include-doubtful", "doubtful", is_flag=True, help="Prices far under their type's median too.")
    @click.option("--min-confidence", default="recalled", show_default=True, metavar="LEVEL")
    @click.option("--currency", default="USD", show_default=True, metavar="CODE")
    @catalog_option
    @gives_answer
    @click.pass_context
    def cheapest_command(
        ctx: click.Context,
        /,
        answer: Answer,
        overlays: tuple[Path, ...],
        cpus: str | None,
        memory: str | None,
        **how: Any,
    ) -> None:
        """Find the cheapest offer for so many accelerators, CPUs and memory, and prove it. Exit code 3: nothing fits."""
        from catalogs.load import load_catalog
        from solver.cheapest import Request, cheapest
        from solver.report.export import frame_bytes, to_json
        from solver.report.failures import NOTHING_FOUND, OK
        from solver.report.import_text import cheapest_text

        asked = Request(cpus=at_least(cpus, "--cpus"), memory_gib=at_least(memory, "--memory"), **how)
        found = cheapest(load_catalog(overlays), asked)
        if answer.form == "text":
            answer.give(cheapest_text(found, asked, answer.view()))
        elif answer.form == "json":
            answer.give(to_json(found.as_dict()))
        else:
            import polars as pl

            answer.give(frame_bytes(pl.DataFrame(found.offers), answer.form))
        if answer.form != "text":
            for hint in found.hints:
                answer.note(hint)
        ctx.exit({"optimal": OK, "infeasible": 3}.get(found.status, NOTHING_FOUND))

    @group.command("sources")
    @catalog_option
    @gives_answer
    def sources_command(answer: Answer, overlays: tuple[Path, ...]) -> None:
        """List where the figures are from, how many rows each source gives, and how old they are."""
        from catalogs.load import load_catalog
        from catalogs.query import sources
        from solver.report.give import give_table

        give_table(answer, sources(load_catalog(overlays)))

    @group.command("check")
    @click.option("--strict", is_flag=True, help="Warnings count as faults.")
    @catalog_option
    @gives_answer
    @click.pass_context
    def check_command(ctx: click.Context, answer: Answer, overlays: tuple[Path, ...], strict: bool) -> None:
        """Look for figures and prices that are allowed but look wrong. Exit code 6 where there are faults."""
        from catalogs.checks import check
        from catalogs.load import load_catalog
        from solver.report.give import give_table

        found = check(load_catalog(overlays))
        give_table(answer, found)
        faults = {"error", "warning"} if strict else {"error"}
        ctx.exit(6 if faults & set(found["severity"]) else 0)


def at_least(text: str | None, option: str) -> float | None:
    """Number of an option such as ``32+`` (at least so many; the plus may be left out).

    Raises
    ------
    click.BadParameter
        For anything else.
    """
    if text is None:
        return None
    try:
        number = float(text.strip().removesuffix("+"))
    except ValueError:
        number = -1.0
    if not 0 <= number < 1e9:
        raise click.BadParameter(f"{text!r}; write at least how many, e.g. 32+", param_hint=option)
    return number


def refuse_date(text: str | None) -> None:
    """Refuse what is no date of the catalogue.

    Raises
    ------
    click.BadParameter
        For anything but YYYY-MM or YYYY-MM-DD.
    """
    from catalogs.columns import AS_OF

    if text is not None and not re.match(AS_OF, text):
        raise click.BadParameter(f"{text!r}; write YYYY-MM or YYYY-MM-DD", param_hint="--as-of")
