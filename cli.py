"""The `kitout` command: reads files, calls the solver, shows the answer. No arithmetic, no model.

stdout carries the answer only, everything else goes to stderr. Heavy packages are imported inside the
commands that need them, so that help and completion stay quick.
"""

from __future__ import annotations

import gc
import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli_options import Asked, Quantity, catalog_option, gives_answer, searches, set_option, takes_problem

if TYPE_CHECKING:
    from solver.report.answer import Answer

PACKAGES = ("problems", "catalogs", "solver")
VALIDATIONS = ("memory", "training", "inference", "power", "tco")
COLLECT = (100_000, 20, 50)
"""Objects, and collections of the younger ones, after which garbage is looked for."""
EXAMPLE = "kitout solve problems/lora-70b.yaml"


class Commands(click.Group):
    """The group of all commands: turns whatever goes wrong into one message and its exit code."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, cmd_name) or self.loaded(ctx).get(cmd_name)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self.loaded(ctx))

    def loaded(self, ctx: click.Context) -> dict[str, click.Command]:
        """All commands, those that stand in modules of ours among them."""
        refuse_shadows(ctx)
        from solver.report.speed_commands import add_commands

        add_commands(self, Quantity, catalog_option, gives_answer)
        return dict(self.commands)

    def invoke(self, ctx: click.Context) -> Any:
        refuse_shadows(ctx)
        # Most of what a command makes lives to its end: looking for cycles among it as often as Python does takes a tenth of the time.
        gc.set_threshold(*COLLECT)
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit):
            raise
        except (KeyboardInterrupt, click.Abort):
            click.echo("\nInterrupted.", err=True)
            ctx.exit(130)
        except Exception as error:
            from solver.report.failures import explain

            code, said = explain(error)
            click.echo(said, err=True)
            ctx.exit(code)


def refuse_shadows(ctx: click.Context) -> None:
    """Refuse to run when a package of ours would be imported from elsewhere; their names are common words."""
    here = Path(__file__).resolve().parent
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        found = Path(spec.origin).resolve().parent if spec and spec.origin else None
        if found != here / name:
            where = f"shadowed by {found}" if found else "missing or shadowed"
            said = f"kitout: its package {name!r} is {where}; unset PYTHONPATH or leave this folder"
            click.echo(said, err=True)
            ctx.exit(2)


# --- commands ---------------------------------------------------------------------------------------------


@click.group(
    cls=Commands,
    invoke_without_command=True,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "auto_envvar_prefix": "KITOUT",
        "max_content_width": 100,
    },
)
@click.version_option(package_name="kitout", prog_name="kitout")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Decide which AI compute to buy or rent, and prove how good the choice is."""
    if ctx.invoked_subcommand is None:
        click.echo(
            "kitout decides which AI compute to buy or rent, and proves how good the choice is.\n\n"
            "  kitout init              write a first problem file\n"
            "  kitout solve PROBLEM     find the cheapest plan\n"
            "  kitout --help            all commands\n"
            f"Example: {EXAMPLE}"
        )


@main.command()
@takes_problem
@click.option("--time-limit", type=Quantity("Seconds"), metavar="TIME", help="Stop after, e.g. 60s.")
@click.option("--gap", type=Quantity("Ratio"), metavar="SHARE", help="Gap to be content with, e.g. 1%.")
@click.option("--workers", type=click.IntRange(min=0), default=0, help="Solver threads (default: all cores).")
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True)
@click.option("--log", is_flag=True, help="Show the solver's log on stderr.")
@click.option("--no-progress", is_flag=True, help="Show no progress.")
@click.option(
    "--no-runner-up",
    is_flag=True,
    help="Only the best plan: none without its main accelerator, all rented or all bought.",
)
@gives_answer
@click.pass_context
def solve(ctx: click.Context, /, asked: Asked, answer: Answer, log: bool, no_progress: bool, **how: Any) -> None:
    """Find the cheapest plan, or the best by the problem's own objective, and prove how good it is.

    PROBLEM is a YAML or JSON file, or - for stdin. The first Ctrl-C stops and reports the best plan so far.
    """
    loaded, catalog = asked.load()

    from solver.events import SolveOptions
    from solver.report.failures import exit_code
    from solver.report.give import give_result
    from solver.report.progress import Progress, watch
    from solver.report.text import objective_writer
    from solver.solve import solve as search
    from solver.verify import verify as recheck

    wanted = loaded.problem
    options = SolveOptions(how["time_limit"], how["gap"], how["workers"], how["seed"], log, not how["no_runner_up"])
    shown = Progress(
        sys.stderr, answer.quiet or no_progress or log, objective_writer(wanted.objective, wanted.currency)
    )
    result = watch(lambda on_event, stop: search(loaded, catalog, options, on_event, stop), shown)
    faults = recheck(result, wanted, catalog, loaded.base_dir) if result.cost is not None else []
    if faults:
        raise RuntimeError("the plan failed its recheck: " + "; ".join(faults))
    give_result(answer, result, asked.source)
    ctx.exit(exit_code(result, wanted.gap if options.gap is None else options.gap))


@main.command()
@takes_problem
@click.option("--axes", metavar="A,B[,C]", help="Of cost, power, carbon, time, latency, risk.")
@click.option("--score", metavar="A:W,..", help="Mark the plans by weight, e.g. tco:50,power:20,technical:30.")
@click.option("--points", type=click.IntRange(min=0), default=12, show_default=True, help="At most; 0 for all.")
@click.option("--near", type=Quantity("Ratio"), metavar="SHARE", help="Also plans of another kind within, e.g. 5%.")
@searches
@gives_answer
@click.pass_context
def pareto(
    ctx: click.Context, /, asked: Asked, answer: Answer, axes: str | None, no_progress: bool, **how: Any
) -> None:
    """List the plans that no other plan beats on two or three counts, each proved.

    For example: --axes cost,power --near 5%. With --score (or a tender block in PROBLEM) the plans are ranked too.
    """
    loaded, catalog = asked.load()
    from solver.front.axes import parse_axes
    from solver.front.scoring import axes_for, parse_weights
    from solver.pareto import pareto as run
    from solver.report.front_text import front_code, give_front
    from solver.report.steps import stepwise
    from solver.whatif.study import Study

    study = Study(loaded, catalog, how["seed"], how["time_limit"])
    tender = loaded.problem.tender
    weights = parse_weights(how["score"]) if how["score"] else tender.by_criterion if tender else None
    if axes is None and weights is None:
        raise click.UsageError("Missing option '--axes' (or --score), e.g. --axes cost,power")
    at = (study, parse_axes(axes or axes_for(weights or {}, loaded.problem)), how["points"], how["near"])
    found = stepwise(lambda tell, stop: run(*at, stop, tell, weights), answer.quiet or no_progress)
    give_front(answer, found)
    ctx.exit(front_code(found))


@main.command()
@takes_problem
@click.option("--why-not", "names", multiple=True, metavar="NAME", help="Accelerator, provider or offer. Repeatable.")
@click.option("--problem", "of", metavar="FILE", help="The problem, where a saved RESULT is to be explained.")
@searches
@gives_answer
@click.pass_context
def explain(ctx: click.Context, /, asked: Asked, answer: Answer, of: str | None, no_progress: bool, **how: Any) -> None:
    """Say why there is no plan and what would make one; or what limits cost, and why this plan and not another.

    PROBLEM is a problem file, or a saved result if --problem names its problem. For example: --why-not MI300X
    """
    from solver.explaining.explanation import explain as run
    from solver.report.explain_text import explanation_code, give_explanation, of_result
    from solver.report.steps import stepwise
    from solver.whatif.study import Study

    saved, asked = of_result(asked, of)
    loaded, catalog = asked.load()
    study = Study(loaded, catalog, how["seed"], how["time_limit"])
    quiet = answer.quiet or no_progress
    found = stepwise(lambda tell, stop: run(study, how["names"], stop, tell), quiet)
    give_explanation(answer, found, asked.source, saved)
    ctx.exit(explanation_code(found))


@main.command("what-if")
@takes_problem
@click.option(
    "--vary", multiple=True, metavar="PATH=LO..HI:STEP", help="Field or prices.NAME, range or list. Repeatable."
)
@click.option("--sample", multiple=True, metavar="PATH:LAW(..)", help="Draw by lognormal, normal, uniform, triangular.")
@click.option("-n", "draws", type=click.IntRange(min=1), help="Scenarios to draw (default 200).")
@click.option("--stress", multiple=True, metavar="PATH=LO..HI", help="Replay the plan with loads times so much.")
@click.option("--no-breaks", is_flag=True, help="Do not look for the points between where the plan changes.")
@click.option("--store", type=click.Path(path_type=Path), metavar="DIR", help="Keep answers there; go on from them.")
@click.option("--cluster", metavar="ADDRESS", help="dask://HOST:PORT or ray, instead of processes here.")
@searches
@gives_answer
@click.pass_context
def what_if(ctx: click.Context, /, asked: Asked, answer: Answer, no_progress: bool, **how: Any) -> None:
    """Solve again and again while fields or prices vary: grids, random draws, or one plan under more load.

    For example: --vary limits.power=20kW..60kW:5kW, --vary gpu.power_limit=60%..100%:10%,
    --sample prices.spot:lognormal(0.3), --stress workloads.*.traffic.rate=1.0..1.5:0.1
    """
    loaded, catalog = asked.load()
    from solver.report.steps import stepwise
    from solver.report.sweep_text import give_what_if, what_if_code
    from solver.sweep import How
    from solver.whatif.study import Study
    from solver.whatif.what_if import Wanted, processes
    from solver.whatif.what_if import what_if as run

    study = Study(loaded, catalog, how["seed"], how["time_limit"])
    wanted = Wanted(how["vary"], how["sample"], how["stress"], how["draws"])
    at = (processes(how["workers"]), how["cluster"], how["store"], not how["no_breaks"])
    found = stepwise(lambda tell, stop: run(study, wanted, How(*at, stop, tell)), answer.quiet or no_progress)
    give_what_if(answer, found)
    ctx.exit(what_if_code(found, loaded.problem.gap))


@main.command()
@takes_problem
@click.option("-q", "--quiet", is_flag=True, help="Say nothing if all is well.")
def check(asked: Asked, quiet: bool) -> None:
    """Check a problem file: every fault at once, with line and column. Solves nothing."""
    loaded = asked.check()
    if not quiet:
        from solver.report.problem_text import problem_summary

        click.echo(problem_summary(loaded.problem, asked.problem))


@main.command()
@click.argument("result")
@click.option("--problem", required=True, help="The problem that the result answers.")
@set_option
@catalog_option
@click.pass_context
def verify(
    ctx: click.Context, result: str, problem: str, settings: tuple[str, ...], overlays: tuple[Path, ...]
) -> None:
    """Check a saved RESULT against its problem and the catalogue, in plain arithmetic, without the solver."""
    from solver.report.answer import read_text
    from solver.report.export import read_result
    from solver.report.problem_text import verdict

    saved = read_result(read_text(result), result)
    loaded, catalog = Asked(problem, settings, overlays).load()
    from solver.verify import verify as recheck

    faults = recheck(saved, loaded.problem, catalog, loaded.base_dir)
    click.echo(verdict(saved, loaded.sha256, catalog.sha256, faults))
    ctx.exit(3 if faults else 0)


@main.command()
@click.argument("result")
@click.option(
    "--rows",
    type=click.Choice(["bill", "cash-flow"]),
    default="bill",
    show_default=True,
    help="What CSV and Parquet hold: lines of the bill, or months.",
)
@gives_answer
def report(result: str, answer: Answer, rows: str) -> None:
    """Show a saved RESULT again, or write it in another form."""
    from solver.report.answer import read_text
    from solver.report.export import read_result
    from solver.report.give import give_result

    give_result(answer, read_result(read_text(result), result), None, rows)


@main.command()
@click.argument("kind", type=click.Choice(["problem", "catalog", "result"]))
def schema(kind: str) -> None:
    """Print the JSON schema of problem files, of results, or of the catalogue's tables."""
    from solver.report.answer import Answer
    from solver.report.export import to_json

    if kind == "problem":
        from problems.schema import Problem

        found = Problem.model_json_schema()
    elif kind == "result":
        from solver.plan import Result

        found = Result.model_json_schema(mode="serialization")
    else:
        from solver.report.catalog_text import catalog_schema

        found = catalog_schema()
    Answer("json").give(to_json(found))


@main.command()
@click.option("--task", metavar="KIND", help="serve, finetune, pretrain, batch or fixed.")
@click.option("--model", metavar="NAME", help="A model's name, or a size such as 70B.")
@click.option("--rate", metavar="RATE", help="Requests, runs, tokens or hours: 5 req/s, 4/mo, 300B, 60h/mo.")
@click.option("--months", metavar="TIME", help="For how long: 12mo, 3y.")
@click.option("--budget", metavar="MONEY", help="$300k in all, or $20k/mo.")
@click.option("--region", metavar="PLACES", help="Countries it must stay in: US, DE.")
@click.option("--compliance", metavar="TAGS", help="Certificates: soc2, hipaa.")
@click.option("-o", "--output", type=click.Path(path_type=Path), default="problem.yaml", show_default=True)
@click.option("--force", is_flag=True, help="Overwrite the file if it is there.")
def init(output: Path, force: bool, **given: str | None) -> None:
    """Write a first problem file, with comments. In a terminal, asks what is not given as an option."""
    from solver.report.answer import Answer, NoAnswer
    from solver.report.ask import first_problem

    target = Answer.open("text", output, None, "never", False)
    if target.output and output.exists() and not force:
        raise NoAnswer(f"{output}: exists already; --force overwrites it")
    target.give(first_problem(given, ask=sys.stdin.isatty()))
    if target.output:
        click.echo(f"{output} written. Next: kitout solve {output}", err=True)


class CatalogCommands(click.Group):
    """The group of catalogue commands; most of them stand in a module that is loaded when the group is used."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, cmd_name) or self.loaded().get(cmd_name)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self.loaded())

    def loaded(self) -> dict[str, click.Command]:
        from solver.report.catalog_commands import add_commands

        add_commands(self, catalog_option, gives_answer)
        return dict(self.commands)


@main.group(cls=CatalogCommands)
def catalog() -> None:
    """Look into the catalogue of accelerators, offers, servers and parts."""


@catalog.command("list")
@click.option("--gpu", metavar="NAME", help="Accelerator, e.g. H100.")
@click.option("--provider", metavar="NAME")
@click.option("--region", metavar="NAME", help="Region, a part of its name, a country code, or EU.")
@click.option("--country", metavar="CODE")
@click.option("--billing", metavar="MODE", help="on_demand, reserved, spot, ...")
@click.option("--deployment", metavar="MODE", help="vm, container, bare_metal, ...")
@click.option("--min-confidence", metavar="LEVEL", help="measured, listed, derived, estimate or recalled.")
@click.option("--sort", default="price_per_gpu_hour", show_default=True, metavar="COLUMN")
@click.option("--descending", is_flag=True)
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="Rows to show (default: 20 as text, else all).")
@click.option("--columns", metavar="A,B,..", help="Columns to show.")
@click.option("--currency", default="USD", show_default=True, metavar="CODE")
@catalog_option
@gives_answer
def list_command(answer: Answer, overlays: tuple[Path, ...], currency: str, columns: str | None, **how: Any) -> None:
    """List offers with their prices, the cheapest per GPU-hour first."""
    from catalogs.load import load_catalog
    from catalogs.query import Where, list_offers
    from solver.report.catalog_text import chosen_columns, offer_table
    from solver.report.give import give_table

    order = {name: how.pop(name) for name in ("sort", "descending", "limit")}
    if order["limit"] is None and answer.form == "text":
        order["limit"] = 20
    page = list_offers(load_catalog(overlays), Where(**how), currency=currency, **order)
    names = chosen_columns(columns, page.frame)
    shown = page.frame.select(names) if names else page.frame
    give_table(answer, shown, lambda view: offer_table(page.frame, page.total, currency, names, view))


@catalog.command("show")
@click.argument("name")
@click.option("--currency", default="USD", show_default=True, metavar="CODE")
@catalog_option
@gives_answer
def show_command(answer: Answer, overlays: tuple[Path, ...], name: str, currency: str) -> None:
    """Show everything known of an accelerator, offer, server or part."""
    from catalogs.load import load_catalog
    from catalogs.query import show
    from solver.report.catalog_text import sections_bytes, sections_text

    sections = show(load_catalog(overlays), name, currency)
    view = answer.view()
    answer.give(
        sections_text(sections, currency, view) if answer.form == "text" else sections_bytes(sections, answer.form)
    )


@main.command()
@click.option("--model", required=True, metavar="NAME", help="Catalogue name, or path of a config.json.")
@click.option("--gpu", "gpus", multiple=True, metavar="NAME", help="Accelerator, or all (default). Repeatable.")
@click.option("--engine", default="vllm", show_default=True)
@click.option("--precision", default="bf16", show_default=True)
@click.option("--kv-precision", default="bf16", show_default=True)
@click.option(
    "--context",
    type=Quantity("Tokens"),
    help="Longest request, or sequence (default: isl + osl, or 8192).",
)
@click.option("--isl", type=Quantity("Tokens"), help="Input tokens; with --osl, rates are shown too.")
@click.option("--osl", type=Quantity("Tokens"), help="Output tokens.")
@click.option("--ttft", type=Quantity("Seconds"), metavar="TIME", help="Limit of the time to first token, e.g. 500ms.")
@click.option("--tpot", type=Quantity("Seconds"), metavar="TIME", help="Limit of the time per output token.")
@click.option("--percentile", type=click.Choice(["mean", "p50", "p90", "p95", "p99"]), default="p95", show_default=True)
@click.option("--rate", type=Quantity("RequestRate"), help="Load to be served, e.g. 12 req/s.")
@click.option("--offline", is_flag=True, help="All requests queued: no latency counts.")
@click.option("--concurrency", type=click.FloatRange(min=0, min_open=True), default=1.0, show_default=True)
@click.option("--tp", type=click.IntRange(min=1), help="Tensor-parallel size (default: as many as it takes).")
@click.option("--pp", type=click.IntRange(min=1), help="Pipeline stages.")
@click.option(
    "--method",
    type=click.Choice(["pretrain", "full", "lora", "qlora"]),
    help="Size training instead of serving.",
)
@click.option("--optimizer", default="adamw", show_default=True)
@click.option("--micro-batch", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("--checkpointing", type=click.Choice(["none", "selective", "full"]), default="full", show_default=True)
@click.option("--lora-rank", type=click.IntRange(min=1), default=16, show_default=True)
@click.option("--cards", type=click.IntRange(min=1), help="Cards to train on (default: as many as it takes).")
@catalog_option
@gives_answer
def size(answer: Answer, overlays: tuple[Path, ...], model: str, gpus: tuple[str, ...], **asked: Any) -> None:
    """Show what a model needs on each accelerator: does it fit, on how many GPUs, at what rate. No prices, no solver."""
    if (asked["isl"] is None) != (asked["osl"] is None):
        raise click.UsageError("rates need both --isl and --osl")
    if asked["isl"] is None and (asked["offline"] or any(asked[name] is not None for name in ("rate", "ttft", "tpot"))):
        raise click.UsageError("--rate, --ttft, --tpot and --offline need --isl and --osl")
    from catalogs.load import load_catalog
    from solver.report.give import give_table
    from solver.report.size_text import render_size
    from solver.size import size_model

    title, frame = size_model(load_catalog(overlays), model, gpus, asked)
    give_table(answer, frame, lambda view: render_size(title, frame, view))


@main.command()
@click.argument("kind", type=click.Choice(VALIDATIONS))
@click.argument("file", type=click.Path(path_type=Path))
@catalog_option
@gives_answer
def validate(answer: Answer, overlays: tuple[Path, ...], kind: str, file: Path) -> None:
    """Set what the models predict beside the measurements of a CSV FILE: error by row, by group, and over all.

    KIND tco works out the published buying cases of a JSON FILE and says which agree with the values stated there.
    """
    from catalogs.load import load_catalog
    from solver.report.tco_text import cases_bytes, render_cases
    from solver.report.validate_text import render_validation, validation_bytes
    from solver.validation.validate_tco import validate_tco
    from solver.validation.validations import run_validation

    if kind == "tco":
        cases, view = validate_tco(load_catalog(overlays), file), answer.view()
        shown = render_cases(f"tco: {file}", cases, view) if answer.form == "text" else cases_bytes(cases, answer.form)
        answer.give(shown)
        return
    found = run_validation(kind, load_catalog(overlays), file)
    text = answer.form == "text"
    title = f"{kind}: {file}"
    answer.give(render_validation(title, found, answer.view()) if text else validation_bytes(found, answer.form))


if __name__ == "__main__":
    main()
