"""Options that several commands of `kitout` share, and what they give the commands: Asked and Answer."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from catalogs.catalog import Catalog
    from problems.load import LoadedProblem

FORMS = ("text", "json", "csv", "parquet")


class Quantity(click.ParamType[Any]):
    """An option in the units of the problem file: checked here, passed on as text."""

    def __init__(self, name: str) -> None:
        self.name = name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from pydantic import TypeAdapter, ValidationError

        from problems import units

        try:
            return TypeAdapter(getattr(units, self.name)).validate_python(value)
        except ValidationError as error:
            self.fail(str(error.errors()[0]["msg"]).removeprefix("Value error, "), param, ctx)


catalog_option = click.option(
    "--catalog",
    "overlays",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder of your own tables, laid over the catalogue. Repeatable.",
)


def with_options(command: Any, *options: Callable[[Any], Any]) -> Any:
    """Put options on a command so that they are listed in the order given."""
    return functools.reduce(lambda wrapped, option: option(wrapped), reversed(options), command)


set_option = click.option("--set", "settings", multiple=True, metavar="FIELD=VALUE", help="Change a field. Repeatable.")


def takes_problem(command: Callable[..., Any]) -> Any:
    """Give a command its `asked: Asked`: problem, settings, currency and catalogue."""

    @functools.wraps(command)
    def run(
        *args: Any,
        problem: str,
        settings: Sequence[str],
        currency: str | None,
        min_confidence: str | None,
        overlays: Sequence[Path],
        **rest: Any,
    ) -> Any:
        if currency:
            settings = [*settings, f"currency={currency}"]
        if min_confidence:
            settings = [*settings, f"policy.min_confidence={min_confidence}"]
        return command(*args, asked=Asked(problem, tuple(settings), tuple(overlays)), **rest)

    return with_options(
        run,
        click.argument("problem"),
        set_option,
        click.option("--currency", metavar="CODE", help="Currency of the answer."),
        click.option("--min-confidence", metavar="LEVEL", help="Prices to trust: listed leaves starred ones out."),
        catalog_option,
    )


def gives_answer(command: Callable[..., Any]) -> Any:
    """Give a command its `answer: Answer`: form, place, language, colour."""

    @functools.wraps(command)
    def run(
        *args: Any,
        verbose: bool,
        form: str | None,
        output: Path | None,
        lang: str | None,
        color: str,
        quiet: bool,
        **rest: Any,
    ) -> Any:
        from solver.report.answer import Answer, tell_sources

        if verbose:
            tell_sources(click.get_current_context())

        return command(*args, answer=Answer.open(form, output, lang, color, quiet), **rest)

    return with_options(
        run,
        click.option("--format", "form", type=click.Choice(FORMS), help="Form of the answer (default text)."),
        click.option(
            "-o",
            "--output",
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="Write there; form by suffix.",
        ),
        click.option("--lang", type=click.Choice(["en", "zh"]), help="Language of texts (default: the environment's)."),
        click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", show_default=True),
        click.option("-q", "--quiet", is_flag=True, help="Nothing on stderr but errors."),
        click.option("-v", "--verbose", is_flag=True, help="Say on stderr where each setting is from."),
    )


@dataclass(frozen=True)
class Asked:
    """What to work on: problem file (- for stdin), settings over it, folders over the catalogue."""

    problem: str
    settings: tuple[str, ...]
    overlays: tuple[Path, ...]

    @property
    def source(self) -> str | None:
        """The file as a user may type it again."""
        return None if self.problem == "-" else self.problem

    def load(self) -> tuple[LoadedProblem, Catalog]:
        """Read problem and catalogue, and look every name of the one up in the other."""
        from problems.load import ProblemError, load_problem

        loaded = load_problem(self.problem, self.settings)
        from catalogs.load import load_catalog
        from solver.names import unknown_names

        catalog = load_catalog(self.overlays)
        unknown = unknown_names(loaded, catalog)
        if unknown:
            raise ProblemError(unknown)
        return loaded, catalog

    def check(self) -> LoadedProblem:
        """Read the problem and look its names up, without the catalogue's frames where its tables are as sealed."""
        from catalogs.embedded import sealed_rows

        rows = None if self.overlays else sealed_rows()
        if rows is None:
            return self.load()[0]
        from problems.load import ProblemError, load_problem
        from solver.names import unknown_names

        loaded = load_problem(self.problem, self.settings)
        unknown = unknown_names(loaded, rows)
        if unknown:
            raise ProblemError(unknown)
        return loaded


def searches(command: Callable[..., Any]) -> Any:
    """Give a command that makes many searches its `time_limit`, `workers`, `seed` and `no_progress`."""
    return with_options(
        command,
        click.option("--time-limit", type=Quantity("Seconds"), metavar="TIME", help="Of each search (default: 60s)."),
        click.option("--workers", type=click.IntRange(min=0), default=0, help="Processes (default: all cores)."),
        click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True),
        click.option("--no-progress", is_flag=True, help="Show no progress."),
    )
