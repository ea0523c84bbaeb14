"""YAML 1.2 and JSON text to a tree of nodes that know where they stand.

The tree is built from the parser's events, so that limits on depth and size hold before anything is built,
aliases cannot blow it up, every key and value keeps its position, and duplicate keys are all found.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.reader import ReaderError

from problems.issues import Issue, ProblemError, Source, Span
from problems.scan import shown

MAX_NODES = 50_000
"""Most keys and values of a file, aliases counted in full."""
MAX_DEPTH = 40
"""Deepest nesting."""

Scalar = str | int | float | bool | None


@dataclass
class Node:
    """A value: a scalar, a list (`items`) or a mapping (`entries`: key -> span of the key, value)."""

    kind: Literal["scalar", "list", "map"]
    span: Span
    value: Scalar = None
    items: list[Node] = field(default_factory=list)
    entries: dict[str, tuple[Span, Node]] = field(default_factory=dict)
    size: int = 1

    def plain(self) -> Any:
        """Plain Python value."""
        if self.kind == "list":
            return [item.plain() for item in self.items]
        if self.kind == "map":
            return {key: node.plain() for key, (_, node) in self.entries.items()}
        return self.value

    def copy(self) -> Node:
        """Deep copy; spans are shared."""
        items = [item.copy() for item in self.items]
        entries = {key: (span, node.copy()) for key, (span, node) in self.entries.items()}
        return replace(self, items=items, entries=entries)

    def get(self, key: str) -> Node | None:
        """Value under `key`, None where there is none."""
        found = self.entries.get(key)
        return found[1] if found else None

    @property
    def label(self) -> str | None:
        """Text under the key ``name``, None where there is none."""
        name = self.get("name")
        return name.value.strip() if name is not None and isinstance(name.value, str) else None


# YAML 1.2 core schema.
_INT = re.compile(r"[-+]?[0-9][0-9_]*")
_OCT, _HEX = re.compile(r"0o[0-7]+"), re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_WORDS: dict[str, Scalar] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}


def resolve(text: str) -> Scalar:
    """Value of a plain (unquoted) scalar under the YAML 1.2 core schema; ``1_000`` is a number too."""
    if text in _WORDS:
        return _WORDS[text]
    if len(text) > 100:
        return text
    if _INT.fullmatch(text):
        return int(text.replace("_", ""))
    if _OCT.fullmatch(text):
        return int(text[2:], 8)
    if _HEX.fullmatch(text):
        return int(text, 16)
    if _FLOAT.fullmatch(text):
        return float(text.replace("_", ""))
    return text


def split_lines(text: str) -> tuple[str, ...]:
    """Lines as the YAML reader counts them."""
    return tuple(re.split("\r\n|[\n\r\x85\u2028\u2029]", text))


def parse_tree(text: str, source: Source, issues: list[Issue], column: int = 0) -> Node | None:
    """Build the tree of a text; None for an empty document.

    Duplicate keys, foreign tags and bad merges are added to `issues`, so that reading goes on.

    Parameters
    ----------
    column
        Where `text` begins in the (single) line of `source`, for overrides.

    Raises
    ------
    ProblemError
        When the text is no YAML, or is nested or aliased beyond all measure.
    """
    builder = _Builder(source, issues, column)
    try:
        for event in YAML(typ="safe", pure=True).parse(_untabbed(text)):
            builder.take(event)
    except ProblemError:
        raise
    except YAMLError as error:
        raise ProblemError([_syntax(error, text, source, column)]) from None
    except Exception:
        # The parser trips over some garbage in undocumented ways; whatever it says, the text is no YAML.
        span = Span(source, builder.line, column)
        raise ProblemError([span.issue("", "invalid YAML: the text cannot be read from here on")]) from None
    return builder.root


def _untabbed(text: str) -> str:
    """JSON may be indented with tabs, YAML may not: turn them into spaces, which moves nothing."""
    if "\t" in text and text.lstrip()[:1] in ("{", "["):
        try:
            json.loads(text)
        except (ValueError, RecursionError):
            return text
        return text.replace("\t", " ")
    return text


class _Builder:
    """Takes parser events one by one and builds nodes."""

    def __init__(self, source: Source, issues: list[Issue], column: int) -> None:
        self.source = source
        self.issues = issues
        self.column = column
        self.line = 0
        self.root: Node | None = None
        self.documents = 0
        self.nodes = 0
        self.stack: list[tuple[Node, str | None]] = []  # open collections, with their anchors
        self.keys: list[tuple[str, Span] | None] = []  # key waiting for its value, one per open collection
        self.anchors: dict[str, Node] = {}

    def span(self, event: Any) -> Span:
        """Where an event stands; a mark on a later line is cut at the end of the first."""
        start, end = event.start_mark, event.end_mark
        lines = self.source.lines
        stop = len(lines[start.line]) if start.line < len(lines) else start.column + 1
        if end.line == start.line:
            stop = end.column + self.column
        first = start.column + self.column
        return Span(self.source, start.line, first, max(1, stop - first))

    def stop(self, event: Any, message: str, help: str = "") -> ProblemError:  # noqa: A002
        """Error that ends reading."""
        return ProblemError([*self.issues, self.span(event).issue("", message, help)])

    def take(self, event: Any) -> None:
        """Take the next event."""
        kind = type(event).__name__
        self.line = event.start_mark.line
        if kind == "DocumentStartEvent":
            self.documents += 1
            if self.documents > 1:
                raise self.stop(event, "a second YAML document starts here", "a problem file holds one problem")
        elif kind == "ScalarEvent":
            self.scalar(event)
        elif kind == "AliasEvent":
            self.alias(event)
        elif kind in ("MappingStartEvent", "SequenceStartEvent"):
            self.open(event, "map" if kind == "MappingStartEvent" else "list")
        elif kind in ("MappingEndEvent", "SequenceEndEvent"):
            node, anchor = self.stack.pop()
            self.keys.pop()
            if node.kind == "map":
                self.merge(node)
            self.put(node, anchor)

    def count(self, event: Any, more: int = 1) -> None:
        """Count nodes against the limit."""
        self.nodes += more
        if self.nodes > MAX_NODES:
            raise self.stop(event, f"the file holds more than {MAX_NODES:,} values, aliases counted in full")

    def tag(self, event: Any) -> None:
        """Refuse tags that are not YAML's own."""
        tag = str(event.tag or "")
        if tag not in ("", "!") and not re.fullmatch(r"(tag:yaml\.org,2002:|!!)(str|int|float|bool|null|map|seq)", tag):
            name = shown(tag.replace("tag:yaml.org,2002:", "!!"))
            issue = self.span(event).issue("", f"YAML tag {name} is not used in problem files", "remove it")
            self.issues.append(issue)

    def scalar(self, event: Any) -> None:
        """Take a scalar: a key or a value."""
        self.count(event)
        self.tag(event)
        span = self.span(event)
        text = _joined_surrogates(event.value)
        if self.stack and self.stack[-1][0].kind == "map" and self.keys[-1] is None:
            self.keys[-1] = (text, span)
            return
        as_text = not event.implicit[0] and not str(event.tag or "").endswith((":int", ":float", ":bool", ":null"))
        self.put(Node("scalar", span, text if as_text else resolve(text)), event.anchor)

    def alias(self, event: Any) -> None:
        """Copy what an alias stands for, positions included."""
        node = self.anchors.get(event.anchor)
        if node is None:
            inside = any(anchor == event.anchor for _, anchor in self.stack)
            what = "an alias inside of what it stands for" if inside else "no anchor of this name above"
            raise self.stop(event, f"*{event.anchor}: {what}")
        self.no_key(event)
        self.count(event, node.size)
        self.put(node.copy(), None)

    def no_key(self, event: Any) -> None:
        """Refuse keys that are no plain text."""
        if self.stack and self.stack[-1][0].kind == "map" and self.keys[-1] is None:
            raise self.stop(
                event, "a key must be a name, not a list or a mapping", "quote text that begins with { or ["
            )

    def open(self, event: Any, kind: Literal["list", "map"]) -> None:
        """Begin a list or a mapping."""
        self.no_key(event)
        self.count(event)
        self.tag(event)
        if len(self.stack) >= MAX_DEPTH:
            raise self.stop(event, f"nested more than {MAX_DEPTH} levels deep")
        self.stack.append((Node(kind, self.span(event)), event.anchor))
        self.keys.append(None)

    def put(self, node: Node, anchor: str | None) -> None:
        """Hand a finished node to the collection that is open, or make it the root."""
        if anchor is not None:
            self.anchors[anchor] = node
        if not self.stack:
            self.root = node
            return
        parent = self.stack[-1][0]
        parent.size += node.size
        if parent.kind == "list":
            parent.items.append(node)
            return
        pending = self.keys[-1]
        assert pending is not None
        self.keys[-1] = None
        key, span = pending
        if key in parent.entries:
            first = parent.entries[key][0]
            self.issues.append(span.issue("", f"duplicate key {shown(key)}", f"first given at {first}"))
            return
        parent.entries[key] = (span, node)

    def merge(self, node: Node) -> None:
        """Carry out a merge key: keys of the merged mappings that `node` lacks."""
        found = node.entries.pop("<<", None)
        if found is None:
            return
        span, value = found
        parts = value.items if value.kind == "list" else [value]
        for part in parts:
            if part.kind != "map":
                self.issues.append(span.issue("", "<< merges mappings only", "write <<: *anchor or <<: [*a, *b]"))
                return
            for key, entry in part.entries.items():
                node.entries.setdefault(key, entry)


def _joined_surrogates(text: str) -> str:
    """JSON writes characters beyond the basic plane as two escapes; join them, replace what stays alone."""
    if not any("\ud800" <= c <= "\udfff" for c in text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


# --- what the parser's complaints mean -------------------------------------------------------------------

_PLAIN_WORDS: tuple[tuple[str, str, str], ...] = (
    (r"character '\\t'", "a tab where YAML needs spaces", "indent with spaces"),
    (
        r"mapping values are not allowed",
        "unexpected ':'",
        "quote text that holds ': ', or check the indentation",
    ),
    (r"expected ',' or '}'", "the { is not closed, or a comma is missing", "write {key: value, key: value}"),
    (r"expected ',' or '\]'", "the [ is not closed, or a comma is missing", "write [a, b]"),
    (r"could not find expected ':'", "a key without ': '", "write key: value, with a space after the colon"),
    (r"expected <block end>", "this line does not fit the lines above", "check the indentation"),
    (r"unexpected end of stream", "the text ends inside quotes", "close the quotes"),
    (r"that cannot start any token", "text cannot start with this character", "put it in quotes"),
    (
        r"unknown escape character",
        "unknown escape in double quotes",
        r"write \\ for a backslash, or use single quotes",
    ),
    (
        r"found undefined tag|could not determine a constructor",
        "YAML tags are not used in problem files",
        "remove it",
    ),
)


def _syntax(error: YAMLError, text: str, source: Source, column: int) -> Issue:
    """Issue for text that is no YAML."""
    if isinstance(error, ReaderError):
        at = error.position if isinstance(error.position, int) else 0
        lines = split_lines(text[:at])
        code = error.character if isinstance(error.character, int) else ord(str(error.character)[:1] or "\0")
        span = Span(source, len(lines) - 1, len(lines[-1]) + column)
        return span.issue("", f"character U+{code:04X} is not allowed in a text file", "remove it")
    problem = str(getattr(error, "problem", None) or getattr(error, "context", None) or error).split("\n")[0]
    mark = None
    if isinstance(error, MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        opened = error.context_mark
        if "while scanning a quoted scalar" in str(error.context) and opened is not None:
            mark = opened
            problem = "unexpected end of stream"
    line, at = (mark.line, mark.column) if mark is not None else (0, 0)
    span = Span(source, line, at + column)
    message, hint = next(
        ((say, tip) for pattern, say, tip in _PLAIN_WORDS if re.search(pattern, problem)),
        (problem, ""),
    )
    if any("：" in row for row in source.lines[max(0, line - 1) : line + 1]):
        hint = "write the colon as ':' and a space, not as '：'"
    return span.issue("", f"invalid YAML: {message}", hint)
