"""Hours of the week in which a job may run, as people write them: nights, weekend, ``mon-fri 20:00-06:00``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
WEEK_H = 24 * len(DAYS)
NAMED = {"nights": "daily 20:00-08:00", "weekend": "sat,sun 00:00-24:00", "office_hours": "mon-fri 08:00-18:00"}
FORMS = "nights, weekend, office_hours, mon-fri 20:00-06:00, sat,sun 00:00-24:00, daily 22:00-06:00, or a list of such"
_FORM = re.compile(
    r"(?:(?P<days>[a-z,\- ]+?)\s+)?(?P<a>\d{1,2})(?::(?P<am>\d\d))?\s*-\s*(?P<b>\d{1,2})(?::(?P<bm>\d\d))?"
)


@dataclass(frozen=True)
class Windows:
    """Spans of the week that a run must lie in, from its start to its end.

    `spans` : (first hour, hour after the last), counted from Monday 00:00; one that runs past Sunday ends above 168 [h].
    `text` : as written.
    """

    spans: tuple[tuple[int, int], ...]
    text: tuple[str, ...]

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            parse_windows,
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda w: list(w.text),
                return_schema=core_schema.list_schema(core_schema.str_schema()),
                when_used="json",
            ),
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {
            "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
            "description": FORMS,
            "examples": ["nights", ["mon-fri 20:00-06:00", "weekend"]],
        }


def parse_windows(value: object) -> Windows:
    """Read windows from text or a list of texts.

    Raises
    ------
    ValueError
        The text is none of the forms, hours are not whole or a span is empty.
    """
    if isinstance(value, Windows):
        return value
    texts = [value] if isinstance(value, str) else list(value) if isinstance(value, list | tuple) else []
    if not texts or not all(isinstance(t, str) for t in texts):
        raise ValueError(f"{value!r} is no window; write {FORMS}")
    free = [False] * WEEK_H
    for text in texts:
        for first, last in _spans(str(text)):
            for hour in range(first, last):
                free[hour % WEEK_H] = True
    return Windows(_merged(free), tuple(str(t).strip() for t in texts))


def _spans(text: str) -> list[tuple[int, int]]:
    words = NAMED.get(text.strip().lower(), text.strip().lower())
    hit = _FORM.fullmatch(words)
    if hit is None:
        raise ValueError(f"{text!r} is no window; write {FORMS}")
    if any(hit[m] not in (None, "00") for m in ("am", "bm")):
        raise ValueError(f"{text!r}: windows start and end on whole hours")
    start, end = int(hit["a"]), int(hit["b"])
    if start > 23 or end > 24 or start == end:
        raise ValueError(f"{text!r}: hours run from 00:00 to 24:00, and a window is not empty")
    end = end if end > start else end + 24
    return [(24 * day + start, 24 * day + end) for day in _days(hit["days"] or "daily", text)]


def _days(words: str, text: str) -> list[int]:
    if words.strip() in ("daily", "every day", "all"):
        return list(range(len(DAYS)))
    days: list[int] = []
    for part in re.split(r"[,\s]+", words.strip()):
        names = [name.strip()[:3] for name in part.split("-")]
        if len(names) > 2 or any(name not in DAYS for name in names):
            raise ValueError(
                f"{text!r}: days are mon, tue, wed, thu, fri, sat, sun, as in mon-fri or sat,sun, or daily"
            )
        first, last = DAYS.index(names[0]), DAYS.index(names[-1])
        days += [day % len(DAYS) for day in range(first, last + 1 if last >= first else last + 1 + len(DAYS))]
    return sorted(set(days))


def _merged(free: list[bool]) -> tuple[tuple[int, int], ...]:
    """Spans of free hours in a row; the week is a ring, so that Sunday night goes on into Monday."""
    if all(free):
        return ((0, WEEK_H),)
    starts = [h for h in range(WEEK_H) if free[h] and not free[h - 1]]
    out = []
    for start in starts:
        end = start
        while free[end % WEEK_H]:
            end += 1
        out.append((start, end))
    return tuple(out)
