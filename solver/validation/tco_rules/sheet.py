"""Reads a published buying case: the names, units and currencies of its figures, and what only its words state.

A case is ``{kind, question, inputs, expected, tolerance}``. Its figures get one spelling (`canonical`), so that a rule
asks for `cloud_per_h` whether the case wrote `cloud_usd_per_h` or `rental_rate_eur_per_hour`. A `Sheet` then answers for
any quantity: from the inputs, by a change of unit, by a rule that derives it, or from the words of the question.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from catalogs.catalog import Catalog
from solver.validation.tco_rules.names import unit_siblings

Value = Any
"""A figure, or a list or mapping of figures that a rule works through one by one."""


class MissingQuantityError(Exception):
    """A rule asked for a quantity that the case neither gives nor lets one derive."""


def over(function: Callable[..., Any], *values: Value) -> Value:
    """Apply a scalar function to figures, lists and mappings alike; a shorter value stands for each element.

    Raises
    ------
    MissingQuantityError
        Two lists differ in length.
    """
    for value in values:
        if isinstance(value, Mapping):
            return {k: over(function, *(v[k] if isinstance(v, Mapping) else v for v in values)) for k in value}
    lengths = {len(v) for v in values if isinstance(v, list)}
    if not lengths:
        return function(*values)
    if len(lengths) > 1:
        raise MissingQuantityError("lists of one length")
    return [over(function, *(v[i] if isinstance(v, list) else v for v in values)) for i in range(lengths.pop())]


def total(values: Iterable[Value]) -> Value:
    """Sum of figures and lists."""
    out: Value = 0.0
    for value in values:
        out = over(lambda a, b: a + b, out, value)
    return out


def numbers(value: Value) -> bool:
    """True for a figure, or a list or mapping of nothing but figures."""
    if isinstance(value, list):
        return bool(value) and all(numbers(v) for v in value)
    if isinstance(value, Mapping):
        return bool(value) and all(numbers(v) for v in value.values())
    return isinstance(value, int | float) and not isinstance(value, bool)


Rule = Callable[["Sheet", re.Match[str]], Value]


@dataclass(frozen=True)
class RuleEntry:
    """One way to derive the quantities whose names match a pattern, for some kinds of case or for all."""

    pattern: re.Pattern[str]
    kinds: frozenset[str]
    derive: Rule


class RuleBook:
    """Rules in the order in which they are tried; those for a kind before those for all."""

    def __init__(self) -> None:
        self.entries: list[RuleEntry] = []

    def rule(self, pattern: str, *kinds: str) -> Callable[[Rule], Rule]:
        """Register a function (sheet, match) -> value for names that match the whole pattern."""

        def register(function: Rule) -> Rule:
            self.entries.append(RuleEntry(re.compile(pattern), frozenset(kinds), function))
            return function

        return register

    def matching(self, name: str, kind: str) -> Iterable[tuple[RuleEntry, re.Match[str]]]:
        """Rules for a quantity."""
        found = [(e, m) for e in self.entries if (not e.kinds or kind in e.kinds) and (m := e.pattern.fullmatch(name))]
        return sorted(found, key=lambda item: not item[0].kinds)


@dataclass
class Sheet:
    """What a case gives, and all that follows from it by the rules."""

    kind: str
    given: dict[str, Value]
    text: str
    rules: RuleBook
    catalog: Catalog | None = None
    others: Callable[[str, str], Value] | None = None  # (name of another case, quantity) -> its value
    asked: set[str] = field(default_factory=set)
    money: list[str] = field(default_factory=list)  # names of given figures that carry a currency
    _open: set[str] = field(default_factory=set)
    _known: dict[str, Value] = field(default_factory=dict)

    def has(self, *names: str) -> bool:
        """True if any of the names is given (not: derivable)."""
        return any(name in self.given for name in names)

    def get(self, *names: str, default: Value = None) -> Value:
        """First of some quantities that is given or derivable, else the default."""
        for name in names:
            try:
                return self.need(name)
            except MissingQuantityError:
                continue
        return default

    def number(self, *names: str) -> float:
        """First of some quantities, as one number.

        Raises
        ------
        MissingQuantityError
            None of them is known, or it is a list.
        """
        for name in names:
            value = self.get(name)
            if isinstance(value, int | float):
                return float(value)
        raise MissingQuantityError(names[0])

    def need(self, name: str) -> Value:
        """Give a quantity: given, converted, derived or read from the words.

        Raises
        ------
        MissingQuantityError
            There is no way to it.
        """
        if name in self.given:
            return self.given[name]
        if name in self._known:
            return self._known[name]
        if name in self._open:
            raise MissingQuantityError(name)
        self._open.add(name)
        try:
            value = self._derive(name)
        finally:
            self._open.discard(name)
        # What was found while other quantities were being worked out may have missed a way that goes through them.
        if not self._open:
            self._known[name] = value
        return value

    def _derive(self, name: str) -> Value:
        if name not in self.asked:  # what a case asks for may share its name with an input in another unit
            for sibling, factor in unit_siblings(name):
                if sibling in self.given:
                    return over(lambda v, f=factor: v * f, self.given[sibling])
        lacking = ""
        for entry, match in self.rules.matching(name, self.kind):
            try:
                return entry.derive(self, match)
            except MissingQuantityError as error:
                lacking = lacking or str(error)
            except (ValueError, TypeError, ArithmeticError, LookupError) as error:
                # Figures of a shape or size that the formula has no meaning for: another rule may have.
                lacking = lacking or str(error) or type(error).__name__
        if (read := from_words(name, self.text)) is not None:
            return read
        for sibling, factor in unit_siblings(name):
            try:
                return over(lambda v, f=factor: v * f, self.need(sibling))
            except MissingQuantityError:
                continue
        raise MissingQuantityError(lacking or name)


NUMBER = r"\d[\d,]*(?:\.\d+)?"
LISTED = rf"({NUMBER}(?:\s*(?:,|and|or|to|,\s*and)\s*{NUMBER})*)"
# Quantities that cases state in words only.
WORDS: dict[str, str] = {
    "hours_per_day": rf"{LISTED}\s*(?:h|hours?)\s*(?:of use\s*)?(?:a|per|/)\s*day",
    "interruptions_per_h": rf"{LISTED}\s*%\s*per\s*hour",
    "budget_units": rf"\(({NUMBER})\s*units\)",
    "gpus_per_node": rf"({NUMBER})[- ]GPU (?:node|server|system|machine)",
}
PERCENT = frozenset({"interruptions_per_h"})


def from_words(name: str, text: str) -> Value:
    """Read a quantity from the words of a case, where it is one that cases state so; None if it is not there."""
    if name == "phases":
        if re.search(r"three[- ]phase|3[- ]phase", text, re.IGNORECASE):
            return 3
        return 1 if re.search(r"single[- ]phase|1[- ]phase", text, re.IGNORECASE) else None
    pattern = WORDS.get(name)
    found = re.search(pattern, text, re.IGNORECASE) if pattern else None
    if found is None:
        return None
    values = [float(v.replace(",", "").rstrip(".")) for v in re.findall(rf"{NUMBER}", found[1].replace(", ", " "))]
    if name in PERCENT:
        values = [v / 100.0 for v in values]
    return values[0] if len(values) == 1 else values
