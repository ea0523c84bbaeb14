"""When a service is busy: a named week, one's own week, or a file of measured traffic."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Discriminator, Field, PlainSerializer, PrivateAttr, Tag, WithJsonSchema

from problems.base import Strict
from problems.measured import MeasuredTraffic
from problems.quantities import parse_ratio
from problems.scan import UnitError, shown
from problems.terms import Calendar

DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
WEEK_HOURS: Final = 24 * len(DAYS)
FORMS: Final = "forms allowed: {mon-fri: {8-18: 100%, 18-22: 40%}, sat-sun: 20%} (hours not named: 0%), or a list of 24 or 168 numbers"
_GROUPS: Final = {
    "weekdays": DAYS[:5],
    "weekend": DAYS[5:],
    "all": DAYS,
    "daily": DAYS,
    "every day": DAYS,
}
_HOURS: Final = re.compile(r"(\d{1,2})(?::00)?(?:\s*(?:-|to|–)\s*(\d{1,2})(?::00)?)?")


def parse_week(value: object) -> tuple[float, ...]:
    """Level of each of the 168 hours of the week, Monday 0:00 first [1].

    Raises
    ------
    UnitError
        For anything else than the forms allowed.
    """
    week = _of_days(value) if isinstance(value, Mapping) else _of_list(value)
    if not any(week):
        raise UnitError("the load is 0 in every hour of the week", FORMS)
    return week


def _of_list(value: object) -> tuple[float, ...]:
    if not isinstance(value, list | tuple) or len(value) not in (24, WEEK_HOURS):
        what = f"a list of {len(value)}" if isinstance(value, list | tuple) else shown(value)
        raise UnitError(f"must say the load of each hour (given: {what})", FORMS)
    levels = _levels(value)
    return levels * (WEEK_HOURS // len(levels))


def _levels(values: Sequence[object]) -> tuple[float, ...]:
    """Levels as they are; numbers above 1 are loads in any unit, of which the largest is 100 %."""
    levels = [_level(v) for v in values]
    top = max(levels)
    return tuple(x / top for x in levels) if top > 1 else tuple(levels)


def _level(value: object) -> float:
    level = parse_ratio(value)
    if level < 0:
        raise UnitError(f"a load is not negative (given: {shown(value)})", FORMS)
    return level


def _of_days(value: Mapping[Any, Any]) -> tuple[float, ...]:
    week: list[float | None] = [None] * WEEK_HOURS
    for days, given in value.items():
        for day in _days(str(days)):
            for hour, level in _hours(given, str(days)):
                slot = DAYS.index(day) * 24 + hour
                if week[slot] is not None:
                    raise UnitError(f"{day} {hour}-{hour + 1} is given twice", FORMS)
                week[slot] = level
    levels = [x or 0.0 for x in week]
    if max(levels) > 1 + 1e-12:
        raise UnitError("a level is a share of the busiest load: at most 100%", FORMS)
    return tuple(levels)


def _days(text: str) -> list[str]:
    """Days that a key names: mon, mon-fri, fri-mon, 'sat, sun', weekdays, weekend, all."""
    out: list[str] = []
    for part in text.lower().split(","):
        word = part.strip()
        if word in _GROUPS:
            out += _GROUPS[word]
            continue
        ends = [_day(end.strip(), text) for end in re.split(r"\s*(?:-|–|\bto\b)\s*", word)]
        if len(ends) > 2:
            raise UnitError(f"unknown days {shown(text)}", FORMS)
        first, last = ends[0], ends[-1]
        out += [DAYS[d % 7] for d in range(first, last + 1 if last >= first else last + 8)]
    return out


def _day(word: str, text: str) -> int:
    names = [i for i, day in enumerate(DAYS) if len(word) >= 3 and word[:3] == day]
    full = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
    if not names or not full[names[0]].startswith(word):
        raise UnitError(f"unknown day {shown(word)} in {shown(text)}", FORMS)
    return names[0]


def _hours(given: object, days: str) -> Iterator[tuple[int, float]]:
    """Hours of a day with their level: one level for the whole day, 24 levels, or {8-18: 100%, ...}."""
    if isinstance(given, list | tuple):
        if len(given) != 24:
            raise UnitError(f"{days}: a list of levels has 24 numbers, one per hour (given: {len(given)})", FORMS)
        yield from enumerate(_levels(given))
        return
    if not isinstance(given, Mapping):
        yield from ((hour, _level(given)) for hour in range(24))
        return
    for span, level in given.items():
        match = _HOURS.fullmatch(str(span).strip().lower().replace(" ", ""))
        first = int(match[1]) if match else 99
        last = int(match[2]) if match and match[2] else first + 1
        if not match or first > 23 or last > 24 or last == first:
            raise UnitError(f"{days}: unknown hours {shown(span)}; whole hours from 0 to 24", FORMS)
        # 22-6 is the late and the early hours of each of these days.
        hours = range(first, last) if last > first else [*range(first, 24), *range(last)]
        share = _level(level)
        yield from ((hour, share) for hour in hours)


def _shortest(week: tuple[float, ...]) -> list[float]:
    """24 numbers where every day is the same, else 168."""
    day = week[:24]
    return list(day) if day * 7 == week else list(week)


WeekLevels = Annotated[
    tuple[float, ...],
    BeforeValidator(parse_week),
    PlainSerializer(_shortest, list[float], when_used="json"),
    WithJsonSchema(
        {
            "anyOf": [{"type": "object"}, {"type": "array", "minItems": 24, "maxItems": WEEK_HOURS}],
            "description": FORMS.removeprefix("forms allowed: "),
        }
    ),
]


class HoursCalendar(Strict):
    """One's own week: `hours` is the share of the busiest load in each hour."""

    hours: WeekLevels


class CsvCalendar(Strict):
    """Measured traffic: a CSV file with a time, requests and, optionally, tokens per row, hourly or finer.

    `time`, `requests` and `tokens` name columns that go by other names. The path is relative to the problem file, with
    which the file is read; `measured` holds it then.
    """

    csv: str = Field(min_length=1, examples=["traffic.csv"])
    time: str | None = None
    requests: str | None = None
    tokens: str | None = None
    _measured: MeasuredTraffic | None = PrivateAttr(default=None)

    @property
    def measured(self) -> MeasuredTraffic:
        """What the file holds.

        Raises
        ------
        ValueError
            Before the file was read (`problems.load` reads it).
        """
        if self._measured is None:
            raise ValueError(f"{self.csv} has not been read")
        return self._measured

    def with_measured(self, measured: MeasuredTraffic) -> CsvCalendar:
        """The same calendar with its file read."""
        copy = self.model_copy()
        copy._measured = measured
        return copy


def _form(value: Any) -> str | None:
    if isinstance(value, str):
        return "<preset>"
    if isinstance(value, CsvCalendar) or (isinstance(value, Mapping) and "csv" in value):
        return "<csv>"
    if isinstance(value, HoursCalendar) or (isinstance(value, Mapping) and "hours" in value):
        return "<hours>"
    return None


CalendarChoice = Annotated[
    Annotated[Calendar, Tag("<preset>")]
    | Annotated[CsvCalendar, Tag("<csv>")]
    | Annotated[HoursCalendar, Tag("<hours>")],
    Discriminator(
        _form,
        custom_error_type="fault",
        custom_error_message="must be flat, office_hours, day_night, day_night_weekend, hourly, {csv: FILE} or {hours: {...}}; "
        "e.g. calendar: {hours: {mon-fri: {8-18: 100%}}}",
    ),
]


def calendar_text(calendar: str | CsvCalendar | HoursCalendar) -> str:
    """How a calendar is called in reports."""
    if isinstance(calendar, CsvCalendar):
        return f"of {calendar.csv}"
    return "of its own hours" if isinstance(calendar, HoursCalendar) else calendar
