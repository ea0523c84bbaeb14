"""Problem files: YAML 1.2 or JSON to `Problem`, every error at its place, and the place of every field."""

from __future__ import annotations

import hashlib
import stat
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import NoReturn

from pydantic import ValidationError

from problems.calendars import CsvCalendar
from problems.issues import Issue, ProblemError, Source, Span
from problems.measured import TrafficFileError, read_traffic
from problems.messages import to_issues
from problems.paths import apply_overrides, locate
from problems.schema import Problem, Serve
from problems.tree import Node, parse_tree, split_lines

__all__ = ["MAX_BYTES", "Issue", "LoadedProblem", "ProblemError", "load_problem", "load_text"]

MAX_BYTES = 1_000_000
"""Largest problem file [bytes]; problems are some kB, and the YAML reader is slow."""
STDIN = "<stdin>"


@dataclass(frozen=True)
class LoadedProblem:
    """A problem, and where each of its fields stands.

    Attributes
    ----------
    problem
        The problem, overrides applied.
    path
        The file as the user named it; ``<stdin>`` for standard input.
    sha256
        Of the bytes of the file, and of the overrides where there are any.
    text
        The text of the file.
    overrides
        The overrides as given.
    """

    problem: Problem
    path: str
    sha256: str
    text: str
    overrides: tuple[str, ...] = ()
    tree: Node = field(repr=False, compare=False, kw_only=True)

    @property
    def base_dir(self) -> Path:
        """Folder that relative paths in the problem start from."""
        return Path() if self.path == STDIN else Path(self.path).parent

    def given(self, field_path: str) -> bool:
        """True where the file or an override gives this field; False where its default holds."""
        return locate(self.tree, field_path)[1]

    def where(self, field_path: str) -> str:
        """Place of a field such as ``limits.power``: ``file:line:column``, or the override that set it.

        For a field that is not given, the place of its nearest parent; the file where there is none.
        """
        span, found = locate(self.tree, field_path)
        return str(span) if found or span != self.tree.span else self.path

    def issue(self, field_path: str, message: str, help: str = "") -> Issue:  # noqa: A002
        """Issue at a field, for checks that need more than the file (names of models, accelerators)."""
        return locate(self.tree, field_path)[0].issue(field_path, message, help)


def load_problem(path: str | Path, overrides: Sequence[str] = ()) -> LoadedProblem:
    """Read a problem file.

    Parameters
    ----------
    path
        The file; ``-`` is standard input.
    overrides
        ``path=value`` texts such as ``limits.power=30kW``, ``workloads.*.traffic.rate=3 req/s``.

    Raises
    ------
    ProblemError
        With everything that is wrong.
    """
    name = STDIN if str(path) == "-" else str(path)
    data = _read(name)
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        _refuse(name, "is UTF-16 text; a problem file is UTF-8", "save it as UTF-8")
    if b"\0" in data:
        _refuse(name, f"is not a text file (NUL byte at {data.index(0):,})", "a problem file is YAML or JSON text")
    if len(data) > MAX_BYTES:
        _refuse(name, f"is larger than {MAX_BYTES // 1000:,} kB", "a problem file is some kB of YAML or JSON")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ProblemError([_not_utf8(name, data, error.start)]) from None
    return load_text(text, name, overrides, data)


def load_text(
    text: str, name: str = "<text>", overrides: Sequence[str] = (), data: bytes | None = None
) -> LoadedProblem:
    """Read a problem from text; `name` stands in messages for the file.

    Raises
    ------
    ProblemError
        With everything that is wrong.
    """
    source = Source(name, split_lines(text))
    issues: list[Issue] = []
    root = parse_tree(text, source, issues)
    empty = root is None or (root.kind == "scalar" and root.value is None)
    if empty and not overrides:
        what = "holds only comments" if text.strip() else "is empty"
        _refuse(name, f"{what}; a problem needs workloads", "kitout init writes a first problem file")
    if root is not None and not empty and root.kind != "map":
        kind = "a list" if root.kind == "list" else "a single value"
        issues.append(root.span.issue("", f"{kind} at the top; a problem is a mapping", "begin with workloads:"))
        raise ProblemError(issues)
    root = apply_overrides(None if empty else root, overrides, issues)
    if root is None:
        raise ProblemError(issues)
    try:
        problem = Problem.model_validate(root.plain())
    except ValidationError as error:
        issues += to_issues(error.errors(include_url=False), root)
    if issues:
        raise ProblemError(sorted(issues, key=Issue.order))
    problem = _with_traffic(problem, name, root, issues)
    if issues:
        raise ProblemError(sorted(issues, key=Issue.order))
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass") if data is None else data)
    for work in problem.workloads:
        if isinstance(work, Serve) and isinstance(work.traffic.calendar, CsvCalendar):
            digest.update(work.traffic.calendar.measured.sha256.encode())
    for override in overrides:
        digest.update(b"\0" + override.encode("utf-8", "surrogatepass"))
    return LoadedProblem(problem, name, digest.hexdigest(), text, tuple(overrides), tree=root)


def _with_traffic(problem: Problem, name: str, root: Node, issues: list[Issue]) -> Problem:
    """The problem with its files of measured traffic read; paths start from the folder of the problem file."""
    base = Path() if name.startswith("<") else Path(name).parent
    works = []
    for work in problem.workloads:
        calendar = work.traffic.calendar if isinstance(work, Serve) else None
        if isinstance(work, Serve) and isinstance(calendar, CsvCalendar):
            columns = {"time": calendar.time, "requests": calendar.requests, "tokens": calendar.tokens}
            try:
                read = calendar.with_measured(read_traffic(base / calendar.csv, columns))
            except TrafficFileError as error:
                at = calendar.csv + (f", line {error.line}" if error.line is not None else "")
                field_path = f"workloads.{work.name}.traffic.calendar.csv"
                issues.append(locate(root, field_path)[0].issue(field_path, f"{at}: {error.message}", error.help))
            else:
                work = work.model_copy(update={"traffic": work.traffic.model_copy(update={"calendar": read})})
        works.append(work)
    return problem.model_copy(update={"workloads": tuple(works)})


def _refuse(name: str, message: str, help_: str = "") -> NoReturn:
    raise ProblemError([Issue(name, None, None, "", message, help_)])


def _read(name: str) -> bytes:
    """Bytes of a file or of standard input, one more than allowed at most."""
    if name == STDIN:
        stdin = getattr(sys.stdin, "buffer", None)
        if stdin is None:
            _refuse(name, "standard input is closed")
        return bytes(stdin.read(MAX_BYTES + 1))
    if not name:
        _refuse(name, "the name of the file is empty")
    path = Path(name)
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            inside = sorted(p.name for p in path.iterdir() if p.suffix in (".yaml", ".yml", ".json"))
            hint = f"in it: {', '.join(inside[:8])}{', ...' * (len(inside) > 8)}" if inside else ""
            _refuse(name, "is a directory; name a problem file", hint)
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        _refuse(name, "no such file", _similar(path))
    except (OSError, ValueError) as error:
        _refuse(name, f"cannot be read: {getattr(error, 'strerror', None) or error}")


def _similar(path: Path) -> str:
    """Did-you-mean for a file that does not exist."""
    try:
        names = [p.name for p in path.parent.iterdir() if p.is_file()]
    except OSError:
        return ""
    near = get_close_matches(path.name, names, n=1) or get_close_matches(path.name + ".yaml", names, n=1)
    return f"did you mean {path.parent / near[0]}?" if near else ""


def _not_utf8(name: str, data: bytes, at: int) -> Issue:
    """Issue for bytes that are no UTF-8, with the likely encoding."""
    before = data[:at].decode("utf-8-sig", "replace")
    lines = split_lines(before)
    message, hint = "is not UTF-8 text", "save it as UTF-8"
    try:
        data.decode("gb18030")
    except UnicodeDecodeError:
        pass
    else:
        message = "is not UTF-8 text; it looks like GBK"
        hint = f"convert it: iconv -f GBK -t UTF-8 {name} > utf8.yaml"
    return Span(Source(name), len(lines) - 1, len(lines[-1])).issue("", message, hint)
