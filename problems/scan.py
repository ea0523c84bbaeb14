"""Numbers with units as text: the grammar that `problems.units` and `problems.money` share.

All arithmetic is exact (`fractions.Fraction`); a float appears only at the very end, correctly rounded.
Printing looks for the shortest text that parses back to the very same value.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from difflib import get_close_matches
from fractions import Fraction
from typing import Any

MAX_TEXT = 80
"""Longest text taken for a quantity [characters]."""
MAX_VALUE = Fraction(10) ** 24
"""Largest value of any quantity, in its base unit."""

# Digits with "_" or groups of three with ",", a decimal point, an exponent.
_UNSIGNED = r"(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9][0-9_]*)?(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3}(?![0-9a-zA-Z]))?"
_NUMBER = re.compile(r"(?P<before>[^0-9.]*)(?P<number>" + _UNSIGNED + r")(?P<after>.*)", re.DOTALL)
JSON_NUMBER = r"[0-9][0-9_,]*(\.[0-9]+)?([eE][+-]?[0-9]+)?"
"""The same grammar, loosely, for the patterns of the JSON schema."""

MAGNITUDES: Mapping[str, int] = {
    "": 1,
    "k": 10**3,
    "K": 10**3,
    "thousand": 10**3,
    "M": 10**6,
    "m": 10**6,
    "mn": 10**6,
    "million": 10**6,
    "B": 10**9,
    "b": 10**9,
    "bn": 10**9,
    "billion": 10**9,
    "T": 10**12,
    "trillion": 10**12,
    "千": 10**3,
    "万": 10**4,
    "萬": 10**4,
    "百万": 10**6,
    "千万": 10**7,
    "亿": 10**8,
    "億": 10**8,
    "万亿": 10**12,
}
"""Decimal magnitudes of counts and money; ``k`` is 1000 everywhere."""


class UnitError(ValueError):
    """A quantity that cannot be read.

    Attributes
    ----------
    message
        What is wrong, in one line.
    help
        What may be written instead.
    """

    def __init__(self, message: str, help: str = "") -> None:  # noqa: A002
        super().__init__(message)
        self.message = message
        self.help = help


@dataclass(frozen=True)
class Scanned:
    """Text cut at its one number: unit text before and after it, both stripped."""

    before: str
    number: Fraction
    after: str


@dataclass(frozen=True)
class Kind:
    """One kind of quantity: its name, how it is written, and the size of each unit in the base unit."""

    name: str
    forms: tuple[str, ...]
    units: Mapping[str, Fraction | int]
    bare: bool = False
    hints: Mapping[str, str] = field(default_factory=dict)

    @property
    def help(self) -> str:
        """Forms allowed, as one line."""
        return "forms allowed: " + ", ".join(self.forms)

    def error(self, message: str) -> UnitError:
        """Error of this kind, with the forms allowed."""
        return UnitError(message, self.help)

    def describe(self, pattern: str | None = None) -> dict[str, Any]:
        """JSON schema for editors: a pattern (from the units unless given), examples and what it is."""
        if pattern is None:
            names = sorted((u for u in self.units if u), key=lambda u: (-len(u), u))
            unit = "|".join(re.escape(name).replace("\\ ", " ").replace("\\-", "-") for name in names)
            pattern = rf"^\s*{JSON_NUMBER}\s*({unit}){'?' if self.bare else ''}\s*$"
        examples = [re.sub(r" \(.*\)$", "", form) for form in self.forms]
        text = {"type": "string", "pattern": pattern, "examples": examples}
        about = f"{self.name}, e.g. {', '.join(self.forms)}"
        if not self.bare:
            return {**text, "description": about}
        return {"anyOf": [{"type": "number"}, text], "description": about}

    def parse(self, value: object) -> Fraction:
        """Read `value` as a quantity in the base unit.

        Raises
        ------
        UnitError
            For anything that is not one of the forms allowed.
        """
        number = plain_number(value, self)
        if number is not None:
            if not self.bare:
                raise self.error(f"{shown(value)} has no unit: {self.name} needs one")
            return number
        found = scan(value, self)
        if found.before:
            raise self.error(f"cannot read {shown(value)} as {self.name}")
        if not found.after and not self.bare:
            raise self.error(f"{shown(value)} has no unit: {self.name} needs one")
        return bounded(found.number * self.unit(found.after, value), self)

    def unit(self, text: str, value: object) -> Fraction:
        """Size of the unit `text`; `value` is what the user wrote, for the message."""
        name = re.sub(r"\s+", " ", text)
        for candidate in (name, name.replace(" ", "")):
            if candidate in self.units:
                return Fraction(self.units[candidate])
        if name in self.hints:
            raise self.error(f"{shown(value)}: {self.hints[name]}")
        near = get_close_matches(name, [u for u in self.units if u], n=1, cutoff=0.6)
        maybe = f"; did you mean {near[0]}?" if near else ""
        raise self.error(f"unknown unit {shown(name)} in {shown(value)} for {self.name}{maybe}")


def shown(value: object) -> str:
    """`value` as a message may quote it: short, on one line."""
    text = str(value) if isinstance(value, str | int | float | Decimal) else type(value).__name__
    text = " ".join("".join(c if c.isprintable() else "?" for c in text).split(" "))
    text = text if len(text) <= 40 else text[:37] + "..."
    return f'"{text}"' if isinstance(value, str) else text


def plain_number(value: object, kind: Kind) -> Fraction | None:
    """Value of a number that is no text, checked; None for text.

    Raises
    ------
    UnitError
        For NaN, infinity, a negative number, a truth value, or what is neither number nor text.
    """
    if isinstance(value, bool):
        raise kind.error(f"must be {kind.name}, not {str(value).lower()}")
    if isinstance(value, str):
        return None
    if not isinstance(value, int | float | Decimal):
        what = {dict: "a mapping", list: "a list", tuple: "a list", type(None): "empty"}.get(type(value))
        raise kind.error(f"must be {kind.name}, not {what or type(value).__name__}")
    if not math.isfinite(value):
        raise kind.error("must be a finite number")
    if value < 0:
        raise kind.error(f"must not be negative ({shown(value)})")
    number = Fraction(Decimal(repr(value))) if isinstance(value, float) else Fraction(value)
    return bounded(number, kind)


def bounded(number: Fraction, kind: Kind) -> Fraction:
    """`number`, refused where it is beyond any sense."""
    if number > MAX_VALUE:
        raise kind.error(f"too large for {kind.name}")
    return number


def whole(number: Fraction, value: object, kind: Kind) -> int:
    """`number` as an integer; `value` is what the user wrote, for the message.

    Raises
    ------
    UnitError
        When it is no whole number.
    """
    if number.denominator != 1:
        raise kind.error(f"must be a whole number ({shown(value)})")
    return int(number)


def scan(value: object, kind: Kind) -> Scanned:
    """Cut text at its one number.

    Raises
    ------
    UnitError
        For empty or overlong text, text without a number or with two, NaN, infinity, and negative numbers.
    """
    text = unicodedata.normalize("NFKC", str(value)).strip()
    if not text:
        raise kind.error(f"must be {kind.name}, not empty text")
    if len(text) > MAX_TEXT:
        raise kind.error(f"must be {kind.name}, not a text of {len(text)} characters")
    if re.fullmatch(r"[+-]?\.?(nan|inf|infinity)\b.*", text, re.IGNORECASE | re.DOTALL):
        raise kind.error("must be a finite number")
    cut = _NUMBER.fullmatch(text)
    if cut is None or not re.search("[0-9]", cut["number"]):
        raise kind.error(f"cannot read {shown(value)} as {kind.name}")
    before, after = cut["before"].strip(), cut["after"].strip()
    if before.endswith(("-", "−")) or before.startswith(("-", "−")):
        raise kind.error(f"must not be negative ({shown(value)})")
    if re.match(r"[,._'][0-9]", after):
        raise kind.error(
            f"cannot read the number in {shown(value)}: write 1.5 with a point, 1,000 or 1_000 for thousands"
        )
    digits = cut["number"].replace("_", "").replace(",", "")
    return Scanned(before, bounded(Fraction(Decimal(digits)), kind), after)


# --- printing ------------------------------------------------------------------------------------------

Scale = tuple[str, Fraction | int]


def decimal_text(number: Fraction, places: int | None = None) -> str | None:
    """`number` in decimals: exactly (None where it has no finite form), or rounded half-even to `places`."""
    if places is None:
        twos, fives, rest = 0, 0, number.denominator
        while rest % 2 == 0:
            rest, twos = rest // 2, twos + 1
        while rest % 5 == 0:
            rest, fives = rest // 5, fives + 1
        if rest != 1:
            return None
        places = max(twos, fives)
    whole = round(number * 10**places)
    digits = str(abs(whole)).rjust(places + 1, "0")
    text = digits[: len(digits) - places] + ("." + digits[len(digits) - places :] if places else "")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return ("-" if whole < 0 else "") + text


def significant(text: str) -> int:
    """Significant digits of a plain decimal text."""
    return len(text.replace(".", "").replace("-", "").strip("0")) or 1


def _exact(value: float, size: Fraction, back: Callable[[Fraction], float]) -> str | None:
    """Shortest decimal of `value` in units of `size` that `back` turns into `value` again."""
    if isinstance(value, int):
        return decimal_text(Fraction(value) / size)
    scaled = float(Fraction(value) / size)
    if not math.isfinite(scaled):
        return None
    for digits in range(1, 18):
        number = Fraction(Decimal(f"{scaled:.{digits}g}"))
        if back(number * size) == value:
            return decimal_text(number)
    return None


def rounded(number: Fraction, digits: int) -> str:
    """`number` to `digits` significant digits; digits before the point are never rounded away."""
    if number == 0:
        return "0"
    lead = math.floor(math.log10(abs(number)))
    return decimal_text(number, max(0, digits - 1 - lead)) or "0"


def pick_scale(value: float, scales: Sequence[Scale], least: float = 1) -> Scale:
    """First of `scales` (largest unit first) in which `value` is at least `least`, else the last."""
    return next((s for s in scales if Fraction(value) / Fraction(s[1]) >= Fraction(least)), scales[-1])


def print_quantity(
    value: float,
    scales: Sequence[Scale],
    *,
    digits: int | None = None,
    least: float = 1,
    back: Callable[[Fraction], float] = float,
) -> tuple[str, str]:
    """Number text and unit for `value`.

    Parameters
    ----------
    value
        In the base unit.
    scales
        Units and their sizes in the base unit, largest first; one of size 1 must be among them.
    digits
        Significant digits for display; None: as many as it takes to read the same value back.
    least
        Smallest number for which a unit counts as natural.
    back
        Turns an exact number in the base unit into the type of `value`.
    """
    if not math.isfinite(value):
        return str(value), scales[-1][0]
    natural = pick_scale(abs(value), scales, least)
    if digits is not None:
        return rounded(Fraction(value) / Fraction(natural[1]), digits), natural[0]
    texts = [(_exact(value, Fraction(size), back), unit) for unit, size in scales]
    known = [(text, unit) for text, unit in texts if text is not None]
    fewest = min(significant(text) for text, _ in known)
    short = [(text, unit) for text, unit in known if significant(text) == fewest]
    return next((pair for pair in short if pair[1] == natural[0]), None) or min(short, key=lambda pair: len(pair[0]))
