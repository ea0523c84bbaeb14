"""Field paths with names in them: ``workloads.chat.traffic.rate``, ``sites.room.power``, ``owned[0].count``.

An item of a list goes by its ``name``, else by its number in brackets. Overrides of the form ``path=value``
change a tree by such paths; ``*`` stands for every item of a list.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches

from problems.issues import Issue, ProblemError, Source, Span
from problems.scan import shown
from problems.tree import Node, parse_tree, resolve

_EXCLUSIVE = ({"concurrency", "rate", "users"}, {"growth", "stages"})
"""Keys of which a problem holds one: overriding one replaces what the file says with another."""


def split_path(path: str) -> list[str]:
    """Parts of a field path; ``a[0].b`` is a, 0, b."""
    return [part for part in re.split(r"\.|\[([^\[\]]*)\]", path) if part]


def join_path(parts: Sequence[str | int]) -> str:
    """Field path of parts; an integer is an unnamed item."""
    text = ""
    for part in parts:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def item_label(node: Node, index: int) -> str | int:
    """How an item of a list is called in a path: its name where it has one that tells, else its number."""
    item = node.items[index]
    name = item.label if item.kind == "map" else None
    return name if name and not re.search(r"[.\s*\[\]]", name) else index


def find_item(node: Node, part: str) -> int | None:
    """Number of the item of a list that `part` names, None where there is none."""
    for index, item in enumerate(node.items):
        if item.kind == "map" and item.label == part:
            return index
    if re.fullmatch("[0-9]{1,6}", part) and int(part) < len(node.items):
        return int(part)
    return None


def locate(root: Node, path: str) -> tuple[Span, bool]:
    """Place of a field: of its value where that is a scalar, else of its key.

    Returns
    -------
    tuple
        The place, and whether it is the field itself (else its nearest parent that the text holds).
    """
    node, span = root, root.span
    for part in split_path(path):
        if node.kind == "list" and (index := find_item(node, part)) is not None:
            node = node.items[index]
            span = node.span
        elif node.kind == "map" and part in node.entries:
            key, node = node.entries[part]
            span = node.span if node.kind == "scalar" and node.value is not None else key
        else:
            return span, False
    return span, True


def apply_overrides(root: Node | None, overrides: Sequence[str], issues: list[Issue]) -> Node | None:
    """Change `root` by ``path=value`` texts; what is wrong with them is added to `issues`.

    A value that begins with ``[ { " '`` is read as YAML, any other as it stands. ``null`` takes a key out.
    Setting one of ``concurrency``, ``rate``, ``users`` replaces the other that the file gives.
    """
    for text in overrides:
        source = Source(f"--set {text}", (text,), numbered=False)
        path, equals, raw = text.partition("=")
        value = raw.strip()
        start = len(path) + 1 + len(raw) - len(raw.lstrip())
        parts = split_path(path.strip())
        whole = Span(source, 0, 0, max(1, len(path)))
        if not equals or not parts or not value:
            help_ = "write path=value, e.g. limits.power=30kW or workloads.chat.traffic.rate='3 req/s'"
            issues.append(whole.issue("", "an override must be path=value", help_))
            continue
        node: Node | None = Node("scalar", Span(source, 0, start, len(value)), resolve(value))
        if value[0] in "[{\"'":
            try:
                node = parse_tree(value, source, issues, start)
            except ProblemError as error:
                issues.extend(error.issues)
                continue
        assert node is not None
        root = root if root is not None else Node("map", whole)
        touched = _set(root, parts, node, whole, [], issues)
        if touched == 0:
            issues.append(whole.issue(path.strip(), "nothing in the problem matches this path"))
    return root


def _set(node: Node, parts: list[str], value: Node, key: Span, done: list[str], issues: list[Issue]) -> int:
    """Set `value` at `parts` below `node`; return how many places were set or reported."""
    part, rest = parts[0], parts[1:]
    field = join_path([*done, part])
    if node.kind == "list":
        if part == "*":
            return sum(
                _set(item, rest, value, key, [*done, part], issues)
                for item in node.items
                if rest and _reaches(item, rest[:-1])
            )
        index = find_item(node, part)
        if index is None:
            names = [str(item_label(node, i)) for i in range(len(node.items))]
            near = get_close_matches(part, names, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there: {', '.join(names) or 'none'}"
            issues.append(key.issue(field, f"no item {shown(part)} in {join_path(done)}", hint))
            return 1
        if rest:
            return _set(node.items[index], rest, value, key, [*done, part], issues)
        node.items[index] = value.copy()
        return 1
    if node.kind == "scalar":
        issues.append(key.issue(field, f"{join_path(done)} is a single value and has no {shown(part)} below it"))
        return 1
    if rest:
        below = node.get(part)
        if below is None or (below.kind == "scalar" and below.value is None):
            if value.kind == "scalar" and value.value is None:
                return 1
            node.entries[part] = (key, Node("map", key))
        return _set(node.entries[part][1], rest, value, key, [*done, part], issues)
    if value.kind == "scalar" and value.value is None:
        node.entries.pop(part, None)
        return 1
    for group in _EXCLUSIVE:
        for other in (group - {part}) if part in group else ():
            if other in node.entries and node.entries[other][0].source.numbered:
                del node.entries[other]
    node.entries[part] = (key, value.copy())
    return 1


def _reaches(node: Node, parts: Sequence[str]) -> bool:
    """True where `node` holds a value at `parts` (``*``: any item)."""
    for part in parts:
        if node.kind == "list" and part == "*":
            return any(_reaches(item, parts[1:]) for item in node.items)
        index = find_item(node, part) if node.kind == "list" else None
        below = node.items[index] if index is not None else node.get(part)
        if below is None:
            return False
        node, parts = below, parts[1:]
    return True
