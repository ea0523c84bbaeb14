"""Where an answer goes: the only way to stdout, or to a file that is written whole or not at all."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

import click

from solver.report.export import SUFFIXES, write_file
from solver.report.page import View, view_of


class NoAnswer(Exception):  # noqa: N818 - reads as what it says
    """A place or form that an answer cannot be given in."""


@dataclass(frozen=True)
class Answer:
    """Form and place of an answer. `output` None is stdout; `lang` None is the environment's language."""

    form: str = "text"
    output: Path | None = None
    lang: str | None = None
    color: str = "auto"
    quiet: bool = False

    @classmethod
    def open(cls, form: str | None, output: Path | None, lang: str | None, color: str, quiet: bool) -> Answer:
        """Settle form and place before any work is done, so that a plan is never lost to a wrong path.

        Raises
        ------
        NoAnswer
            For a suffix that names no form, and for a place that cannot be written to.
        """
        if output is None or str(output) == "-":
            return cls(form or "text", None, lang, color, quiet)
        form = form or SUFFIXES.get(output.suffix.lower())
        if form is None:
            raise NoAnswer(f"{output}: cannot tell the form from the suffix; use {', '.join(SUFFIXES)} or --format")
        if output.is_dir() or not output.parent.is_dir():
            raise NoAnswer(f"{output}: {'is a folder' if output.is_dir() else 'its folder does not exist'}")
        if not os.access(output if output.exists() else output.parent, os.W_OK):
            raise NoAnswer(f"{output}: cannot be written to")
        return cls(form, output, lang, color, quiet)

    def view(self, source: str | None = None) -> View:
        """How to lay out text for where it goes; `source` is the problem file as the user named it."""
        return view_of(sys.stdout, self.output is not None, self.lang, self.color, source)

    def give(self, data: str | bytes) -> None:
        """Hand the answer over. A reader that has gone away is no error.

        Raises
        ------
        NoAnswer
            Where the file cannot be written after all, or binary data would go to a terminal.
        """
        if self.output is not None:
            try:
                write_file(self.output, data if isinstance(data, bytes) else data.encode())
            except OSError as error:
                raise NoAnswer(f"{self.output}: {error.strerror}") from error
            return
        if self.form == "parquet" and sys.stdout.isatty():
            raise NoAnswer("parquet is no text: give -o FILE or a pipe")
        encoding = sys.stdout.encoding or "utf-8"
        # Data keeps its UTF-8; only what is laid out for people follows the terminal.
        raw = data if isinstance(data, bytes) else data.encode(encoding if self.form == "text" else "utf-8", "replace")
        try:
            sys.stdout.buffer.write(raw)
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            # Python flushes stdout once more at exit; let that go nowhere.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def note(self, text: str) -> None:
        """Say something beside the answer, on stderr."""
        if not self.quiet:
            print(text, file=sys.stderr)


def read_text(name: str) -> str:
    """Text of a file, or of stdin for ``-``.

    Raises
    ------
    NoAnswer
        For a file that cannot be read as text.
    """
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise NoAnswer(f"{name}: is not UTF-8 text") from None
    except OSError as error:
        raise NoAnswer(f"{name}: {error.strerror}") from None


def tell_sources(ctx: click.Context) -> None:
    """Say on stderr where each setting of a command is from: option, environment, problem file or default."""
    for name, value in ctx.params.items():
        source = ctx.get_parameter_source(name)
        said = source.name.lower().replace("_", " ") if source else "default"
        if value is None or value == ():
            value, said = "-", "problem file or default"
        click.echo(f"  {name:<12} {value}  ({said})", err=True)
