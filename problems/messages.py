"""Pydantic's errors as issues of the problem file: one plain message per place, with position and help."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from problems.issues import Issue, Span
from problems.paths import item_label, join_path
from problems.scan import UnitError, shown
from problems.schema import Problem
from problems.tree import Node

MAX_ISSUES = 100
"""Most errors of one file that are told in full."""


def to_issues(errors: Sequence[ErrorDetails], root: Node) -> list[Issue]:
    """Issues for the errors of one validation, in the order of the text, each once."""
    above = {e["loc"][:depth] for e in errors for depth in range(len(e["loc"]))}
    issues: dict[tuple[object, ...], Issue] = {}
    for error in errors[:MAX_ISSUES]:
        loc = error["loc"]
        if error["type"] == "too_short" and loc in above:
            continue  # items that failed do not count as missing too
        issue = _Walk(loc, root, missing=error["type"] == "missing").issue(error)
        issues.setdefault((issue.where, issue.field, issue.message), issue)
    if len(errors) > MAX_ISSUES:
        more = f"{len(errors) - MAX_ISSUES:,} more errors are not shown"
        issues[()] = Issue(root.span.source.name, None, None, "", more)
    return sorted(issues.values(), key=Issue.order)


class _Walk:
    """Follows a pydantic location through the tree and through the models.

    Locations hold tags of unions, and keys that shorthand forms leave out; what the tree lacks is skipped.
    """

    def __init__(self, loc: tuple[int | str, ...], root: Node, missing: bool) -> None:
        self.node, self.span = root, root.span
        self.key_span: Span | None = None
        self.fields: list[str | int] = []
        self.models: list[type[BaseModel]] = [Problem]
        self.lost: str | None = None
        self.at_key = False
        self.parents = self.models
        self.node_keys: set[str] = set()
        tag_next = False
        for index, part in enumerate(loc):
            last = index == len(loc) - 1
            tag, tag_next = tag_next, False
            if tag and isinstance(part, str) and not last:
                self.models = [m for m in self.models if _is_kind(m, part)] or self.models
            elif isinstance(part, str) and part.startswith("<"):
                continue
            elif part == "[key]":
                self.span = self.key_span or self.span
                self.at_key = True
                self.node = Node("scalar", self.span, str(self.fields[-1]) if self.fields else "")
            elif isinstance(part, int):
                self.enter_item(part)
                tag_next = len(self.models) > 1
            else:
                self.enter_key(part)
                if part not in self.node_keys and last and missing:
                    self.fields.append(part)

    def enter_item(self, index: int) -> None:
        """Step into an item of a list; a single value that stands for a list stays where it is."""
        if self.node.kind == "list" and index < len(self.node.items):
            self.fields.append(item_label(self.node, index))
            self.node = self.node.items[index]
            self.span = self.node.span
            self.key_span = None

    def enter_key(self, key: str) -> None:
        """Step into a key, in the tree and in the models."""
        self.node_keys = set()
        self.parents = self.models
        self.lost = key
        found = [m.model_fields[key].annotation for m in self.models if key in m.model_fields]
        entry = self.node.entries.get(key) if self.node.kind == "map" else None
        if found:
            self.models = [m for annotation in found for m in models_in(annotation)]
        if entry is None:
            return
        self.node_keys = {key}
        self.key_span, self.node = entry
        empty = self.node.kind == "scalar" and self.node.value is None
        self.span = self.node.span if self.node.kind == "scalar" and not empty else self.key_span
        self.fields.append(key)
        if not found:
            self.models = []

    def issue(self, error: ErrorDetails) -> Issue:
        """Issue for the error at the end of the location."""
        kind, ctx = error["type"], error.get("ctx") or {}
        field = join_path(self.fields)
        if kind == "extra_forbidden":
            message, hint = self.unknown_key()
            return (self.key_span or self.span).issue(field, message, hint)
        if kind == "missing":
            return self.span.issue(field, f"missing required key {shown(self.lost or '')}", self.example())
        if kind in ("union_tag_invalid", "union_tag_not_found"):
            return self.no_kind(kind, ctx, field)
        if kind == "fault":
            message, _, hint = error["msg"].partition("; ")
            return self.span.issue(field, message, hint)
        cause = ctx.get("error")
        if isinstance(cause, UnitError):
            return self.span.issue(field, cause.message, cause.help)
        if kind == "literal_error":
            return self.span.issue(field, *self.not_among(re.findall(r"'([^']*)'", str(ctx.get("expected", "")))))
        return self.span.issue(field, *self.plain(error, kind, ctx))

    def unknown_key(self) -> tuple[str, str]:
        """Message and help for a key that no model has."""
        key = self.lost or ""
        known = list(dict.fromkeys(info.alias or name for m in self.parents for name, info in m.model_fields.items()))
        below = [
            name
            for m in self.parents
            for name, info in m.model_fields.items()
            if any(key in child.model_fields for child in models_in(info.annotation))
        ]
        if below:
            return f"unknown key {shown(key)} here", f"{key} belongs under {below[0]}"
        near = get_close_matches(key, known, n=1, cutoff=0.6)
        maybe = f"; did you mean {near[0]}?" if near else ""
        return f"unknown key {shown(key)}{maybe}", f"keys here: {', '.join(known)}"

    def example(self) -> str:
        """Help for a missing key: an example of it."""
        for m in self.parents:
            info = next((f for name, f in m.model_fields.items() if (f.alias or name) == self.lost), None)
            if info is not None and info.examples:
                return f"e.g. {self.lost}: {info.examples[0]}"
            if info is not None and (words := literals(info.annotation)):
                return f"{self.lost} is one of: {', '.join(words)}"
        return ""

    def no_kind(self, error: str, ctx: dict[str, Any], field: str) -> Issue:
        """Issue for a workload whose kind is missing or unknown."""
        kinds = re.findall(r"'([^']*)'", str(ctx.get("expected_tags", "")))
        kinds = kinds or [word for m in self.models for word in literals(m.model_fields["kind"].annotation)]
        entry = self.node.entries.get("kind")
        hint = f"kinds: {', '.join(kinds)}"
        if entry is not None and entry[1].kind != "scalar":
            return entry[0].issue(f"{field}.kind", "kind must be a single word", hint)
        if entry is None or entry[1].value is None or error == "union_tag_not_found":
            return (entry[0] if entry else self.span).issue(field, 'missing required key "kind"', hint)
        near = get_close_matches(str(ctx.get("tag", "")), kinds, n=1, cutoff=0.5)
        maybe = f"; did you mean {near[0]}?" if near else ""
        return entry[1].span.issue(f"{field}.kind", f"unknown kind {shown(entry[1].plain())}{maybe}", hint)

    def not_among(self, words: list[str]) -> tuple[str, str]:
        """Message and help for a value outside of a fixed set."""
        value = self.node.plain()
        name = next((f for f in reversed(self.fields) if isinstance(f, str)), "value").replace("_", " ")
        name = "key" if self.at_key else name
        near = get_close_matches(str(value).lower(), [w.lower() for w in words], n=1, cutoff=0.5)
        match = next((w for w in words if near and w.lower() == near[0]), None)
        maybe = f"; did you mean {match}?" if match else ""
        return f"unknown {name} {shown(value)}{maybe}", f"allowed: {', '.join(words)}"

    def plain(self, error: ErrorDetails, kind: str, ctx: dict[str, Any]) -> tuple[str, str]:
        """Message and help for all other errors."""
        if self.node.kind == "scalar" and self.node.value is None and kind.endswith("_type"):
            return "is empty", "give it a value or remove the key"
        bounds = {
            "greater_than": ("must be greater than {gt:g}", ""),
            "greater_than_equal": ("must be at least {ge:g}", ""),
            "less_than": ("must be less than {lt:g}", ""),
            "less_than_equal": (
                "must be at most {le:g}",
                "a share is written 5% or 0.05" if ctx.get("le") == 1 else "",
            ),
            "too_short": ("must have at least {min_length} item", ""),
            "string_too_short": ("must not be empty", ""),
            "string_pattern_mismatch": (
                "must be a name without spaces, dots, brackets and *",
                "e.g. chat-70b",
            ),
            "string_type": ("must be text", ""),
            "bool_parsing": ("must be true or false", ""),
            "bool_type": ("must be true or false", ""),
            "tuple_type": ("must be a list", "e.g. [a, b], or one item per line after a dash"),
            "dict_type": ("must be a mapping of keys to values", ""),
            "model_type": ("must be a mapping of keys to values", ""),
            "model_attributes_type": ("must be a mapping of keys to values", ""),
        }
        if kind in bounds:
            message, hint = bounds[kind]
            if kind.startswith("model_") and self.models:
                hint = f"keys: {', '.join(dict.fromkeys(n for m in self.models for n in m.model_fields))}"
            return message.format(**ctx) + self.given(), hint
        words = str(ctx["error"]) if "error" in ctx else error["msg"]
        return words[:1].lower() + words[1:], ""

    def given(self) -> str:
        """What was given, in brackets."""
        if self.node.kind == "scalar":
            return f" (given: {shown(self.node.value)})"
        return f" (given: {'a list' if self.node.kind == 'list' else 'a mapping'})" * bool(self.node.size > 1)


def models_in(annotation: Any) -> list[type[BaseModel]]:
    """Model classes that an annotation names."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return list(dict.fromkeys(m for arg in _args(annotation) for m in models_in(arg)))


def literals(annotation: Any) -> list[str]:
    """Fixed words that an annotation allows."""
    return [word for arg in _args(annotation) for word in ([arg] if isinstance(arg, str) else literals(arg))]


def _args(annotation: Any) -> Iterable[Any]:
    return get_args(annotation)


def _is_kind(model: type[BaseModel], kind: str) -> bool:
    info = model.model_fields.get("kind")
    return info is not None and kind in literals(info.annotation)
