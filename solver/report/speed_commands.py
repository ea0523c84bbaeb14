"""Commands around speed: refit the models, compare a running plan, take in measurements, reckon load from users.

They are put into the command group when it is first asked for a command, so that starting up loads nothing of this.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from solver.report.answer import Answer

Decorator = Callable[[Any], Any]


def add_commands(
    group: click.Group, quantity: Callable[[str], Any], catalog_option: Decorator, gives: Decorator
) -> None:
    """Put the commands into `group`; options and the answer's form are those that all commands share."""
    if "calibrate" in group.commands:
        return

    @group.command("calibrate")
    @click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
    @click.option("-o", "--output", "out", type=click.Path(path_type=Path), metavar="DIR", help="Overlay folder.")
    @click.option("--against", metavar="RESULT", help="Compare a running plan with FILE instead of refitting.")
    @click.option("--source", metavar="TEXT", help="Where the measurements are from (default: names of the files).")
    @click.option("--as-of", metavar="DATE", help="Date of the measurements (default: this month): 2026-11.")
    @click.option("--iterations", type=click.IntRange(min=1), default=150, show_default=True, help="Of the search.")
    @click.option("--untuned", is_flag=True, help="Fit on sources known for untuned engines too.")
    @click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
    @catalog_option
    def calibrate_command(
        files: tuple[Path, ...],
        out: Path | None,
        against: str | None,
        source: str | None,
        as_of: str | None,
        form: str,
        overlays: tuple[Path, ...],
        iterations: int,
        untuned: bool,
    ) -> None:
        """Refit the speed and power models from measurement FILES, with errors on rows left out of the fit.

        The kind of a file shows by its columns: those of published serving, training and power measurements. DIR becomes
        an overlay folder for --catalog. With --against, FILE has the columns workload, rate and, where known,
        gpu_utilisation, data_wait_share, network_utilisation, hours, cost; the likely bottleneck is named.
        """
        from solver.report.answer import Answer
        from solver.report.catalog_commands import refuse_date

        answer = Answer(form)
        if against is not None:
            if out is not None:
                raise click.UsageError("--against compares, it writes no overlay: leave out -o")
            _compare(answer, against, files)
            return
        from catalogs.cache import refuse_place, write_overlay
        from catalogs.load import load_catalog
        from solver.refit import refit
        from solver.report.export import to_json
        from solver.report.speed_text import refit_data, refit_text

        refuse_date(as_of)
        if out is not None:
            refuse_place(out)
        named = source or "own measurements: " + ", ".join(path.name for path in files)
        found = refit(
            load_catalog(overlays),
            files,
            source=named,
            as_of=as_of or f"{date.today():%Y-%m}",
            iterations=iterations,
            keep_untuned=untuned,
        )
        if out is not None and found.tables:
            write_overlay(out, found.tables, steps_aside=(), imported={"source": named, "rows": found.rows})
        written = out if found.tables else None
        answer.give(
            to_json(refit_data(found, written)) if form == "json" else refit_text(found, written, answer.view())
        )

    @group.command("import")
    @click.argument("source", type=click.Choice(["aiconfigurator", "benchmark", "gpu-mix"]))
    @click.argument("path", metavar="FILE", type=click.Path(exists=True, path_type=Path))
    @click.option("-o", "--output", "out", required=True, type=click.Path(path_type=Path), metavar="DIR")
    @click.option("--as-of", metavar="DATE", help="Date of the measurements (default: this month): 2026-11.")
    @click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
    @catalog_option
    def import_command(
        source: str, path: Path, out: Path, as_of: str | None, form: str, overlays: tuple[Path, ...]
    ) -> None:
        """Import measured rates into the overlay folder DIR; each is checked against what the cards can do at all.

        SOURCE is aiconfigurator (its best_config or pareto CSV) or benchmark (a CSV of accelerator, model, precision, tp,
        isl, osl, output_tokens_per_s and, where known, concurrency, ttft_ms, tpot_ms, engine, kv_precision, pp, offer).
        They go before the models in solve and size. Price lists are read by `kitout catalog import`.

        gpu-mix (JSON: gpu_types, buckets, max_rps, total_rate_rps) also writes DIR/problem.yaml: which counts of which GPU
        types carry a mix of request sizes, each at the rate measured for it.
        """
        from catalogs.cache import refuse_place, write_overlay
        from catalogs.load import load_catalog
        from solver.report.answer import Answer
        from solver.report.catalog_commands import refuse_date
        from solver.report.export import to_json
        from solver.report.speed_text import import_data, import_text
        from solver.validation.import_measurements import read_benchmark

        refuse_date(as_of)
        refuse_place(out)
        if source == "gpu-mix":
            from solver.report.mix_import import import_gpu_mix

            import_gpu_mix(path, out, overlays, as_of or f"{date.today():%Y-%m}", Answer(form))
            return
        named = f"{source}: {path.name}"
        table, refused = read_benchmark(
            path, load_catalog(overlays), source=named, as_of=as_of or f"{date.today():%Y-%m}", kind=source
        )
        written = out if table.height else None
        if written is not None:
            write_overlay(out, {"user_measurements": table}, steps_aside=(), imported={"source": named})
        answer = Answer(form)
        data = import_data(table, refused, written)
        answer.give(to_json(data) if form == "json" else import_text(table, refused, written))

    @group.command("load")
    @click.option("--users", type=quantity("Count"), required=True, help="People who may use the service.")
    @click.option(
        "--active", type=quantity("Ratio"), required=True, metavar="SHARE", help="Of them in the busiest hour."
    )
    @click.option(
        "--requests", type=quantity("RequestRate"), required=True, metavar="RATE", help="Of an active one: 6/h."
    )
    @click.option("--isl", type=quantity("Tokens"), required=True, help="Input tokens of a request.")
    @click.option("--osl", type=quantity("Tokens"), required=True, help="Output tokens of a request.")
    @click.option("--latency", type=quantity("Seconds"), metavar="TIME", help="A request's; gives those in flight.")
    @click.option("--peak", type=click.FloatRange(min=1), default=1.0, show_default=True, help="Minutes over the hour.")
    @gives
    def load_command(
        answer: Answer,
        users: float,
        active: float,
        requests: float,
        isl: float,
        osl: float,
        latency: float | None,
        peak: float,
    ) -> None:
        """Reckon the load of a service from its users, step by step.

        For example: --users 5000 --active 4% --requests 6/h --isl 1000 --osl 300 --latency 8s
        """
        import polars as pl

        from solver.load import users_to_load
        from solver.report.give import give_table
        from solver.report.speed_text import load_text

        try:
            steps = users_to_load(users, active, requests * 3600.0, isl, osl, latency_s=latency, peak_factor=peak)
        except ValueError as error:
            raise click.UsageError(str(error)) from None
        frame = pl.DataFrame([{"what": s.what, "formula": s.formula, "value": s.value, "unit": s.unit} for s in steps])
        give_table(answer, frame, lambda view: load_text(steps, view))


def _compare(answer: Answer, against: str, files: tuple[Path, ...]) -> None:
    """Set a saved plan beside what was measured of it."""
    from solver.report.answer import read_text
    from solver.report.export import read_result, to_json
    from solver.report.speed_text import finding_data, finding_text
    from solver.validation.against import compare_plan, read_plan_rows

    if len(files) > 1:
        raise click.UsageError("--against takes one FILE of measurements")
    result = read_result(read_text(against), against).model_dump(mode="json")
    found = compare_plan(result, read_plan_rows(files[0]))
    data = [finding_data(finding) for finding in found]
    answer.give(to_json(data) if answer.form == "json" else finding_text(found, answer.view()))
