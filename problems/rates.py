"""How often: request rates, runs of a job, hours of use. `problems.units` re-exports all of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from problems.quantities import HOUR, HOURS_PER_MONTH, MONTH, TIME
from problems.scan import MAGNITUDES, Kind, Scale, print_quantity, scan, shown, whole

_PER_TIME: dict[str, int] = {k: int(v) for k, v in TIME.items() if v >= 1}
_PER_TIME |= {"m": 60}  # "6/m" is only ever "per minute" of requests; months are written out
_RATE_NOUNS = (
    "",
    "req",
    "reqs",
    "request",
    "requests",
    "q",
    "query",
    "queries",
    "次",
    "请求",
    "次请求",
    "images",
    "image",
    "img",
)
RATE = Kind("a request rate", ("12 req/s", "0.5 requests/s", "6/h", "40 rps", "1M/day"), {})
_RPS = {"rps": 1, "qps": 1, "rpm": 60, "qpm": 60, "rph": HOUR}


def _split_per(text: str, value: object, kind: Kind) -> tuple[str, str]:
    """Cut a unit at "/" or "per" into what is counted and the time."""
    parts = [p.strip() for p in re.split(r"/|\bper\b|每", text)]
    if len(parts) != 2 or not parts[1]:
        raise kind.error(f"{shown(value)} does not say per what time: {kind.name} needs it")
    return parts[0], parts[1]


def _magnitude(text: str, nouns: tuple[str, ...]) -> int | None:
    """Size of a magnitude that may be followed by one of `nouns`; None where it is none."""
    for noun in sorted(nouns, key=len, reverse=True):
        if text.endswith(noun):
            rest = text[: len(text) - len(noun)].strip()
            if rest in MAGNITUDES:
                return MAGNITUDES[rest]
    return None


def parse_rate(value: object) -> float:
    """Read a request rate [1/s]: ``12 req/s``, ``6/h``, ``40 rps``; raises `UnitError`."""
    if not isinstance(value, str):
        RATE.parse(value)  # raises, with the right words for each case
    found = scan(value, RATE)
    if found.before:
        raise RATE.error(f"cannot read {shown(value)} as {RATE.name}")
    if not found.after:
        raise RATE.error(f"{shown(value)} has no unit: {RATE.name} needs one")
    short = re.fullmatch(r"(\S*?)\s*(rps|qps|rpm|qpm|rph)", found.after, re.IGNORECASE)
    if short and short[1] in MAGNITUDES:
        return float(found.number * MAGNITUDES[short[1]] / _RPS[short[2].lower()])
    counted, per = _split_per(found.after, value, RATE)
    size = _magnitude(counted, _RATE_NOUNS)
    if size is None and re.search(r"tok", counted):
        raise RATE.error(f"{shown(value)} is a rate of tokens: give requests, and their lengths as isl and osl")
    if size is None:
        raise RATE.error(f"unknown unit {shown(found.after)} in {shown(value)} for {RATE.name}")
    if per not in _PER_TIME:
        raise RATE.error(f"unknown time {shown(per)} in {shown(value)} for {RATE.name}")
    return float(found.number * size / _PER_TIME[per])


_RATE_SCALES: tuple[Scale, ...] = (
    ("s", 1),
    ("min", Fraction(1, 60)),
    ("h", Fraction(1, HOUR)),
    ("day", Fraction(1, 24 * HOUR)),
)


def format_rate(per_s: float, digits: int | None = None) -> str:
    """Print a request rate [1/s]: ``12 req/s``, ``6 req/h``; exactly, or to `digits` significant digits."""
    number, unit = print_quantity(per_s, _RATE_SCALES, digits=digits, least=0.1 if per_s >= 0.1 else 1)
    return f"{number} req/{unit}"


@dataclass(frozen=True)
class Runs:
    """How often a job runs: `value` times in all, or `value` times a month.

    `value` [runs, or runs per month of 730 h].
    """

    value: float
    per_month: bool

    def total(self, months: float) -> float:
        """Runs within a horizon of so many months."""
        return self.value * months if self.per_month else self.value

    def __str__(self) -> str:
        return format_runs(self)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            parse_runs,
            serialization=core_schema.plain_serializer_function_ser_schema(
                str, return_schema=core_schema.str_schema(), when_used="json"
            ),
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return RUNS.describe(r"^\s*([0-9].*|once)\s*$")


ONCE = Runs(1.0, per_month=False)
RUNS = Kind("a number of runs", ("4/mo", "2/wk", "1/day", "3 (in all)", "once"), {"": 1}, bare=True)
_RUN_NOUNS = ("", "run", "runs", "times", "time", "x", "次")


def parse_runs(value: object) -> Runs:
    """Read how often a job runs: ``4/mo``, ``2/wk``, or ``3`` in all; raises `UnitError`."""
    if isinstance(value, Runs):
        return value
    if not isinstance(value, str):
        number, per = RUNS.parse(value), None
    elif value.strip().lower() in ("once", "one-off"):
        return ONCE
    else:
        found = scan(value, RUNS)
        after = re.sub(r"\bin (?:all|total)$", "", found.after).strip()
        counted, per = _split_per(after, value, RUNS) if re.search(r"/|\bper\b|每", after) else (after, None)
        size = _magnitude(counted, _RUN_NOUNS)
        if size is None or found.before:
            raise RUNS.error(f"cannot read {shown(value)} as {RUNS.name}")
        if per is not None and (per not in _PER_TIME or per == "m"):
            raise RUNS.error(f"unknown time {shown(per)} in {shown(value)} for {RUNS.name}")
        number = found.number * size
    if number <= 0:
        raise RUNS.error(f"must be greater than 0 ({shown(value)})")
    if per is None:
        return Runs(float(whole(number, value, RUNS)), per_month=False)
    return Runs(float(number * MONTH / _PER_TIME[per]), per_month=True)


def format_runs(runs: Runs, digits: int | None = None) -> str:
    """Print how often a job runs: ``4/mo``, ``3``."""
    if not runs.per_month:
        return print_quantity(runs.value, (("", 1),), digits=digits)[0]
    month: tuple[Scale, ...] = (("mo", 1),)
    more: tuple[Scale, ...] = (("wk", Fraction(MONTH, 168 * HOUR)), ("day", Fraction(MONTH, 24 * HOUR)))
    number, unit = print_quantity(runs.value, month if digits is not None else (*more[::-1], *month), digits=digits)
    return f"{number}/{unit}"


HOURS = Kind("hours per month", ("60h/mo", "8h/day", "40h/wk", "always (= 730h/mo)"), {})


def parse_hours_per_month(value: object) -> float:
    """Read hours per month of 730 h [h/month]: ``60h/mo``, ``8h/day``, ``always``; raises `UnitError`."""
    if isinstance(value, str) and value.strip().lower() in ("always", "24/7", "7x24", "24x7"):
        return float(HOURS_PER_MONTH)
    hours = _hours(value, HOURS)
    if hours > HOURS_PER_MONTH:
        raise HOURS.error(f"{shown(value)} is more than the {HOURS_PER_MONTH} h that a month has")
    return float(hours)


def _hours(value: object, kind: Kind) -> Fraction:
    """Hours in a month of 730 h of a time per time."""
    if not isinstance(value, str):
        kind.parse(value)  # raises, with the right words for each case
    found = scan(value, kind)
    if not found.after:
        raise kind.error(f"{shown(value)} has no unit: {kind.name} needs one")
    counted, per = _split_per(found.after, value, kind)
    if found.before or counted not in TIME or per not in _PER_TIME or per == "m":
        raise kind.error(f"cannot read {shown(value)} as {kind.name}")
    return found.number * Fraction(TIME[counted]) / HOUR * MONTH / _PER_TIME[per]


EFFORT = Kind("hours of work per month", ("20h/mo", "5h/wk", "1h/day"), {})


def parse_effort(value: object) -> float:
    """Read hours of people's work per month of 730 h [h/month]: ``20h/mo``; several people may do more than 730 h.

    Raises `UnitError`.
    """
    return float(_hours(value, EFFORT))


def format_hours_per_month(hours: float, digits: int | None = None) -> str:
    """Print hours per month: ``60 h/mo``, ``8 h/day``."""
    more: tuple[Scale, ...] = (
        ("h/day", Fraction(HOURS_PER_MONTH, 24)),
        ("h/wk", Fraction(HOURS_PER_MONTH, 168)),
    )
    scales: tuple[Scale, ...] = (("h/mo", 1),) if digits is not None else (("h/mo", 1), *more)
    number, unit = print_quantity(hours, scales, digits=digits, least=0)
    return f"{number} {unit}"
