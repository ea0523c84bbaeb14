"""What can be wrong with a catalogue or with a name looked up in it, in words a user can act on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Issue:
    """One fault of a catalogue file.

    `row` is the line of the file [1 = header]; None where the fault is the file's as a whole.
    """

    file: str
    row: int | None
    column: str | None
    what: str
    allowed: str = ""

    def __str__(self) -> str:
        where = self.file if self.row is None else f"{self.file}:{self.row}"
        text = f"{where}  {self.column}  {self.what}" if self.column else f"{where}  {self.what}"
        return f"{text}, allowed: {self.allowed}" if self.allowed else text


class CatalogError(Exception):
    """A catalogue that cannot be used: all its faults at once, in `issues`."""

    def __init__(self, issues: Iterable[Issue]) -> None:
        self.issues: tuple[Issue, ...] = tuple(issues)
        super().__init__(str(self))

    def __str__(self) -> str:
        return "\n".join(str(issue) for issue in self.issues)


class UnknownName(Exception):  # noqa: N818 - the name is shared with the other houses
    """A name that the catalogue does not hold.

    `kind` says what was looked for ("accelerator", "model", ...), `suggestions` what comes near, best first.
    """

    def __init__(self, name: str, kind: str, suggestions: Sequence[str] = (), hint: str = "") -> None:
        self.name = name
        self.kind = kind
        self.suggestions: tuple[str, ...] = tuple(suggestions)
        self.hint = hint
        super().__init__(str(self))

    def __str__(self) -> str:
        text = f"unknown {self.kind} {self.name!r}"
        if self.suggestions:
            text += f"; did you mean {' or '.join(self.suggestions)}?"
        return f"{text} {self.hint}".rstrip()
