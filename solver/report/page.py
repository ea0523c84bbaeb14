"""A page of text for a terminal or a pipe: width, language, colour and character set stand in one View."""

from __future__ import annotations

import io
import os
import re
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TextIO

from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from solver.report.forms import to_ascii
from solver.report.messages import Lang, Messages, default_lang

MIN_WIDTH, DEFAULT_WIDTH, MAX_WIDTH = 60, 100, 160
Justify = Literal["left", "right"]

# A private character holds figure and unit together while lines are broken; the finished page has a blank.
GLUE = "\ue000"
UNIT = re.compile(r"(?<=\d) (?=(?:[kMG]?Wh?|GiB|TB|GB|ms|s|min|h)(?!\w))|(?<=[TPD]P) (?=\d)|(?<=±) ")


@dataclass(frozen=True)
class View:
    """How to show a page: `width` [columns], language, characters, colour, the file as the user named it."""

    width: int = 100
    lang: Lang = "en"
    ascii: bool = False
    colour: bool = False
    source: str | None = None

    @property
    def messages(self) -> Messages:
        """Texts in the view's language."""
        return Messages(self.lang)

    def text(self, text: str) -> str:
        """Ready `text` for layout: characters that the terminal has, no line break before a unit."""
        glued = UNIT.sub(GLUE, text)
        return GLUE.join(to_ascii(piece) for piece in glued.split(GLUE)) if self.ascii else glued

    @property
    def wide(self) -> bool:
        """Whether there is room for the columns that narrow pages leave out."""
        return self.width >= 110


@dataclass(frozen=True)
class Column:
    """A table column; `flexible` ones give way and wrap, the others keep every character on one line."""

    title: str
    justify: Justify = "left"
    flexible: bool = False


def render(parts: Iterable[RenderableType], view: View) -> str:
    """Lay `parts` out one below the other and return the text, without trailing blanks."""
    out = io.StringIO()
    console = Console(
        file=out,
        width=max(view.width, MIN_WIDTH),
        force_terminal=view.colour,
        color_system="standard" if view.colour else None,
        no_color=not view.colour,
        legacy_windows=False,
        highlight=False,
        markup=False,
        emoji=False,
    )
    for part in parts:
        console.print(part)
    lines = (row.rstrip() for row in out.getvalue().splitlines())
    text = "\n".join(lines).strip("\n").replace(GLUE, " ") + "\n"
    return to_ascii(text) if view.ascii else text


def table(columns: Sequence[Column], rows: Iterable[Sequence[str]], view: View, last_is_total: bool = False) -> Table:
    """Build a light table; rows may be shorter than the columns. A total in the last row stands apart."""
    made = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False, header_style="bold")
    for column in columns:
        made.add_column(
            Text(view.text(column.title)),
            justify=column.justify,
            no_wrap=not column.flexible,
            overflow="fold",
        )
    listed = list(rows)
    for number, row in enumerate(listed):
        total = last_is_total and number == len(listed) - 1
        before = last_is_total and number == len(listed) - 2
        made.add_row(*(Text(view.text(cell)) for cell in row), style="bold" if total else "", end_section=before)
    return made


def line(text: str, view: View, style: str = "") -> Text:
    """Build one paragraph."""
    return Text(view.text(text), style=style)


def notes(lines: Iterable[tuple[str, str]], view: View) -> Table:
    """Build a list of labelled notes; an empty label continues the note above it."""
    made = Table.grid(padding=(0, 2, 0, 0))
    made.add_column(no_wrap=True, style="bold")
    made.add_column(overflow="fold")
    for label, text in lines:
        made.add_row(Text(view.text(label)), Text(view.text(text)))
    return made


def view_of(stream: TextIO, to_file: bool, lang: str | None, color: str, source: str | None) -> View:
    """Choose a view for `stream`, or for a file that is to be written.

    Pipes and files get a fixed width, no colour and no cursor control. What the encoding of the stream cannot
    carry is not sent there: Chinese turns English, lines and signs turn ASCII.
    """
    encoding = "utf-8" if to_file else getattr(stream, "encoding", None) or "utf-8"
    asked: Lang = default_lang() if lang is None else "zh" if lang == "zh" else "en"
    terminal = not to_file and stream.isatty()
    if terminal:
        width = min(max(shutil.get_terminal_size((DEFAULT_WIDTH, 24)).columns, MIN_WIDTH), MAX_WIDTH)
    else:
        asked_width = os.environ.get("COLUMNS", "")
        width = max(int(asked_width), MIN_WIDTH) if asked_width.isdecimal() else DEFAULT_WIDTH
    plain = not carries(encoding, "─├×·±")
    plain_terminal = "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
    return View(
        width=width,
        lang="en" if plain or not carries(encoding, "中") else asked,
        ascii=plain,
        colour=color == "always" or (color == "auto" and terminal and not plain_terminal),
        source=source,
    )


def carries(encoding: str, text: str) -> bool:
    """Whether `encoding` has every character of `text`."""
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True
