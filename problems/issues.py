"""What is wrong with a problem file, where, and what may be written instead."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

MAX_EXCERPT = 100
"""Widest piece of a source line that is shown [characters]."""
MAX_CARETS = 40


@dataclass(frozen=True)
class Source:
    """Lines of a text that issues point into; `numbered` is False for an override, which is one line."""

    name: str
    lines: tuple[str, ...] = ()
    numbered: bool = True


@dataclass(frozen=True)
class Span:
    """A piece of one line of a source; `line` and `column` count from 0."""

    source: Source
    line: int
    column: int
    length: int = 1

    def __str__(self) -> str:
        if not self.source.numbered:
            return self.source.name
        return f"{self.source.name}:{self.line + 1}:{self.column + 1}"

    def issue(self, field: str, message: str, help: str = "") -> Issue:  # noqa: A002
        """Issue at this place."""
        lines = self.source.lines
        excerpt = lines[self.line] if self.line < len(lines) else ""
        line = self.line + 1 if self.source.numbered else None
        return Issue(self.source.name, line, self.column + 1, field, message, help, excerpt, self.length)


@dataclass(frozen=True)
class Issue:
    """One thing that is wrong.

    `line` and `column` count from 1; `line` is None where there is no place in a file (an override, no file).
    `excerpt` is the offending source line, of which `length` characters from `column` on are meant.
    """

    path: str
    line: int | None
    column: int | None
    field: str
    message: str
    help: str = ""
    excerpt: str = ""
    length: int = 1

    @property
    def where(self) -> str:
        """``file:line:column``, or what there is of it."""
        path = _printable(self.path) or '""'
        return path if self.line is None else f"{path}:{self.line}:{self.column}"

    def order(self) -> tuple[bool, int, int]:
        """Sort key: by place in the file; what has no place comes last, in the order found."""
        return (self.line is None, self.line or 0, 0 if self.line is None else self.column or 0)

    def render(self) -> str:
        """Position and field, the source line with a caret under the fault, the message, the help."""
        head = f"{self.where}  {self.field}" if self.field else self.where
        body = [f"   {self.message}"]
        if self.excerpt and self.column is not None:
            line, before, marked = _window(self.excerpt, self.column - 1, self.length)
            gutter = f"{self.line:>4} | " if self.line is not None else "     | "
            body = [
                f"{gutter}{line}",
                f"     | {' ' * before}{'^' * min(max(1, marked), MAX_CARETS)} {self.message}",
            ]
        tail = [f"   help: {self.help}"] if self.help else []
        return "\n".join([head, *body, *tail])


class ProblemError(Exception):
    """A problem file that cannot be used; `issues` holds everything that is wrong with it."""

    def __init__(self, issues: Iterable[Issue]) -> None:
        self.issues = tuple(issues)
        super().__init__(self.issues)

    def render(self) -> str:
        """All issues, ready to print."""
        return "\n".join(issue.render() for issue in self.issues)

    def __str__(self) -> str:
        return self.render()


def _printable(text: str) -> str:
    """`text` with one visible character for each of its own."""
    return "".join(c if c.isprintable() else " " if c == "\t" else "\N{REPLACEMENT CHARACTER}" for c in text)


def _width(text: str) -> int:
    """Columns that `text` takes in a terminal."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _window(line: str, column: int, length: int) -> tuple[str, int, int]:
    """Piece of `line` around the fault, with the columns before the fault and those of the fault."""
    start = max(0, column - MAX_EXCERPT // 2) if len(line) > MAX_EXCERPT else 0
    end = min(len(line), start + MAX_EXCERPT)
    shown = _printable(line[start:end])
    before = ("..." if start else "") + shown[: column - start]
    marked = shown[column - start : column - start + length]
    text = ("..." if start else "") + shown.rstrip() + ("..." if end < len(line) else "")
    return text, _width(before), _width(marked)
