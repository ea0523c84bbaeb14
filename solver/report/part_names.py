"""What stands in a rack, a circuit or a box, in the reader's language; parts of machines keep their catalogue names."""

from __future__ import annotations

import re

from solver.report.messages import Messages

FORMS = (
    "{n} x node of up to {watts} W and {height}U",
    "{n} x node of up to {watts} W",
    "{n} x place for storage of up to {watts} W and {height}U",
    "{n} x place for storage of up to {watts} W",
    "{n} x place for a switch or box",
    "{n} x drive bay",
    "{n} x port {network}",
    "{n} ports {network}",
    "{height}U high",
    "paid with the TB",
)
VALUES = {"n": r"\d+", "watts": r"\d+", "height": r"\d+(?:\.\d+)?", "network": r"\S+"}


def _pattern(form: str) -> re.Pattern[str]:
    text = re.escape(form)
    for name, value in VALUES.items():
        text = text.replace(re.escape("{" + name + "}"), f"(?P<{name}>{value})")
    return re.compile(text)


PATTERNS = {form: _pattern(form) for form in FORMS}


def part_text(part: str, t: Messages) -> str:
    """Write a part of an item."""
    for form, pattern in PATTERNS.items():
        found = pattern.fullmatch(part)
        if found:
            return t(form, **found.groupdict())
    return part
