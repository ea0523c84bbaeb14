"""Files of measured traffic: rows of a time with requests and tokens, read into whole hours without holes.

Rows stand at a regular step of an hour or less. What is not as it should be is put right on the safe side and told:
an hour with some of its rows missing counts in proportion, a missing hour as the busiest that its hour of the week has
seen, a time given twice as the larger of the two.
"""

from __future__ import annotations

import csv
import hashlib
import io
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Final

from problems.scan import shown

MAX_BYTES: Final = 64_000_000
MAX_HOURS: Final = 5 * 8766
"""Longest span of a file [h]; more is most often a wrong time."""
HOUR: Final = timedelta(hours=1)
TIME_NAMES: Final = ("timestamp", "time", "datetime", "date", "ts", "hour", "period", "start", "start_time")
REQUEST_NAMES: Final = ("requests", "request_count", "num_requests", "count", "calls", "queries", "hits", "reqs")
TOKEN_NAMES: Final = ("tokens", "total_tokens", "token_count", "num_tokens")
TIME_FORMATS: Final = (
    ("%m/%d/%Y %H:%M:%S", "%m/%d/%Y %H:%M", "%m/%d/%Y %I:%M:%S %p", "%m/%d/%Y %I:%M %p", "%m/%d/%Y"),
    ("%d/%m/%Y %H:%M:%S", "%d/%m/%Y %H:%M", "%d/%m/%Y %I:%M:%S %p", "%d/%m/%Y %I:%M %p", "%d/%m/%Y"),
    ("%d.%m.%Y %H:%M:%S", "%d.%m.%Y %H:%M"),
    ("%Y/%m/%d %H:%M:%S", "%Y/%m/%d %H:%M"),
    ("%d/%b/%Y:%H:%M:%S %z",),
    ("%d %b %Y %H:%M:%S", "%d %b %Y %H:%M", "%b %d, %Y %I:%M %p", "%b %d, %Y %H:%M"),
)
TIME_HELP: Final = (
    "times allowed: 2026-11-30 08:00, 2026-11-30T08:00Z, 11/30/2026 8:00 AM, 30.11.2026 08:00, seconds since 1970"
)


class TrafficFileError(Exception):
    """A file of traffic that cannot be used: `line` counts from 1 (None: the whole file), `help` says what may stand there."""

    def __init__(self, message: str, line: int | None = None, help: str = "") -> None:  # noqa: A002
        super().__init__(message)
        self.message, self.line, self.help = message, line, help


@dataclass(frozen=True)
class MeasuredTraffic:
    """Traffic by the hour, in the order of time, without holes.

    Attributes
    ----------
    slots
        Hour of the week of each hour, by the clock of the file: 0 is Monday 0:00.
    requests, tokens
        In each hour; None where the file does not tell.
    notes
        What was put right, in words.
    sha256
        Of the bytes of the file.
    """

    slots: tuple[int, ...]
    requests: tuple[float, ...] | None
    tokens: tuple[float, ...] | None
    first: str
    notes: tuple[str, ...]
    sha256: str

    def load(self, tokens_per_request: float) -> tuple[float, ...]:
        """Requests in each hour: as counted, or as many as its tokens make at the mean size where that is more."""
        if self.tokens is None:
            assert self.requests is not None
            return self.requests
        implied = [t / tokens_per_request for t in self.tokens]
        return tuple(implied if self.requests is None else map(max, self.requests, implied))


def read_traffic(path: Path, columns: Mapping[str, str | None] | None = None) -> MeasuredTraffic:
    """Read a file of measured traffic.

    Parameters
    ----------
    columns
        Names of the columns `time`, `requests` and `tokens` where they go by other names than the usual ones.

    Raises
    ------
    TrafficFileError
        With the line, and what may stand there.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise TrafficFileError("no such file") from None
    except OSError as error:
        raise TrafficFileError(f"cannot be read: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise TrafficFileError(f"is larger than {MAX_BYTES // 10**6} MB", None, "one row an hour is enough")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TrafficFileError("is not UTF-8 text", data[: error.start].count(b"\n") + 1, "save it as UTF-8") from None
    return _parsed(text, tuple((columns or {}).items()), hashlib.sha256(data).hexdigest())


@lru_cache(maxsize=8)
def _parsed(text: str, columns: tuple[tuple[str, str | None], ...], sha256: str) -> MeasuredTraffic:
    """What a text holds; kept, since what-if studies read the same file over and over."""
    rows = _rows(text)
    named = _columns(rows[0][1], dict(columns))
    body = rows[1:]
    if not body:
        raise TrafficFileError("has no rows below its heading")
    times, aware = parse_times([(line, _cell(row, named["time"])) for line, row in body])
    values = {
        kind: [_number(_cell(row, at), line, kind) for line, row in body]
        for kind, at in named.items()
        if kind != "time"
    }
    return _hours(times, values, sha256, aware=aware)


def _rows(text: str) -> list[tuple[int, list[str]]]:
    """Lines with their cells; the sign between cells is the one that the heading has most of."""
    head = next((line for line in text.splitlines() if line.strip()), "")
    sign = max(",;\t|", key=head.count)
    reader = csv.reader(io.StringIO(text), delimiter=sign)
    try:
        rows = [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise TrafficFileError(f"is no CSV ({error})", reader.line_num) from None
    if not rows:
        raise TrafficFileError("is empty")
    return rows


def _columns(head: Sequence[str], asked: Mapping[str, str | None]) -> dict[str, int]:
    """Number of the column of each kind of figure."""
    names = [cell.strip().lower().replace(" ", "_") for cell in head]
    found: dict[str, int] = {}
    for kind, usual in (("time", TIME_NAMES), ("requests", REQUEST_NAMES), ("tokens", TOKEN_NAMES)):
        own = asked.get(kind)
        wanted = usual if own is None else (own.strip().lower().replace(" ", "_"),)
        hits = [names.index(name) for name in wanted if name in names]
        if hits:
            found[kind] = hits[0]
        elif own is not None:
            raise TrafficFileError(f"has no column {shown(own)}", 1, f"its columns: {', '.join(head)}")
    if "time" not in found or len(found) < 2:
        lacks = "a column of times" if "time" not in found else "a column of requests or tokens"
        hint = "a first line such as timestamp,requests,tokens; or name the columns: {csv: FILE, time: t, requests: n}"
        raise TrafficFileError(f"lacks {lacks} (columns: {', '.join(head)})", 1, hint)
    return found


def _cell(row: Sequence[str], at: int) -> str:
    return row[at].strip() if at < len(row) else ""


def _number(text: str, line: int, kind: str) -> float | None:
    """A figure, None for an empty cell."""
    if text.lower() in ("", "nan", "null", "none", "na", "n/a", "-"):
        return None
    plain = text.replace(",", "") if re.fullmatch(r"\d{1,3}(,\d{3})+(\.\d+)?", text) else text
    try:
        value = float(plain)
    except ValueError:
        raise TrafficFileError(f"{kind} {shown(text)} is no number", line, "e.g. 1234, 1234.5 or 1,234") from None
    if not 0 <= value < 1e18:
        raise TrafficFileError(f"{kind} {shown(text)} is no count", line, "0 or more")
    return value


def parse_times(cells: Sequence[tuple[int, str]]) -> tuple[list[datetime], bool]:
    """Times of (line, text) rows, all in one form, and whether they say their distance to UTC.

    Raises
    ------
    TrafficFileError
        At the first row that none of the forms reads.
    """
    failed = (-1, 0, "")
    fitting: list[list[datetime]] = []
    readers: list[Callable[[str], datetime | None]] = [_iso, _epoch, *(partial(_first_of, f) for f in TIME_FORMATS)]
    for form in readers:
        times = []
        for number, (line, text) in enumerate(cells):
            time = form(text)
            if time is None:
                failed = max(failed, (number, line, text))
                break
            times.append(time)
        else:
            fitting.append(times)
    if not fitting:
        raise TrafficFileError(f"cannot read the time {shown(failed[2])}", failed[1], TIME_HELP)
    # 3/4/2026 is March or April: the order of the rows tells which.
    best = min(fitting, key=_unrest)
    if sum(_unrest(times) == _unrest(best) for times in fitting) > 1:
        hint = "write 2026-11-30 08:00"
        raise TrafficFileError(f"{shown(cells[0][1])} may be day/month or month/day", cells[0][0], hint)
    if len({time.tzinfo is None for time in best}) > 1:
        mixed = next(n for n, time in enumerate(best) if (time.tzinfo is None) != (best[0].tzinfo is None))
        raise TrafficFileError("some times say their distance to UTC and some do not", cells[mixed][0], TIME_HELP)
    return best, best[0].tzinfo is not None


def _unrest(times: Sequence[datetime]) -> int:
    """How many steps between rows differ from the usual one."""
    ordered = sorted(t.replace(tzinfo=None) for t in times)
    steps = Counter(b - a for a, b in pairwise(ordered))
    return sum(steps.values()) - max(steps.values(), default=0)


def _iso(text: str) -> datetime | None:
    if not re.match(r"\d{4}-\d{2}-\d{2}|\d{8}T", text):
        return None
    try:
        return datetime.fromisoformat(re.sub(r"\s+(UTC|GMT)$", "+00:00", text))
    except ValueError:
        return None


def _epoch(text: str) -> datetime | None:
    """Seconds or milliseconds since 1970."""
    if not re.fullmatch(r"\d{9,10}(\.\d+)?|\d{12,13}", text):
        return None
    return datetime.fromtimestamp(float(text) / (1000 if re.fullmatch(r"\d{12,13}", text) else 1), UTC)


def _first_of(formats: Sequence[str], text: str) -> datetime | None:
    """Time by the first of some formats that fits."""
    for form in formats:
        try:
            return datetime.strptime(text, form)
        except ValueError:
            continue
    return None


def _step(times: Sequence[datetime]) -> timedelta:
    """Usual distance of two rows.

    Raises
    ------
    TrafficFileError
        When there is none, or it is more than an hour or no even part of one.
    """
    ordered = sorted(set(times))
    steps = Counter(b - a for a, b in pairwise(ordered))
    if not steps:
        return HOUR
    step, often = max(steps.items(), key=lambda x: (x[1], -x[0].total_seconds()))
    hint = "one row an hour, or every 30, 15, 10, 5 or 1 minutes"
    if often < 0.5 * sum(steps.values()):
        raise TrafficFileError("has rows at no regular step", None, hint)
    if step > HOUR:
        raise TrafficFileError(
            f"has a row every {step.total_seconds() / 3600:g} h; a row an hour is needed", None, hint
        )
    if 3600 % step.total_seconds():
        raise TrafficFileError(
            f"has a row every {step.total_seconds():g} s, which is no even part of an hour", None, hint
        )
    return step


def _hours(
    times: Sequence[datetime], values: Mapping[str, Sequence[float | None]], sha256: str, *, aware: bool
) -> MeasuredTraffic:
    """Rows -> whole hours without holes."""
    notes: list[str] = []
    moments = [t.astimezone(UTC) if aware else t for t in times]
    step = _step(moments)
    per_hour = round(HOUR / step)
    rows: dict[datetime, dict[str, float]] = {}
    walls: dict[datetime, datetime] = {}
    hour_of: dict[datetime, datetime] = {}
    twice = 0
    for n, moment in enumerate(moments):
        mine = {kind: column[n] for kind, column in values.items()}
        if all(value is None for value in mine.values()):
            continue
        full = {kind: value or 0.0 for kind, value in mine.items()}
        if moment in rows:
            twice += 1
            full = {kind: max(value, rows[moment][kind]) for kind, value in full.items()}
        rows[moment] = full
        walls[_whole(times[n], aware=aware)] = times[n]
        hour_of[moment] = _whole(times[n], aware=aware)
    if not rows:
        raise TrafficFileError("has no figures")
    if twice:
        notes.append(f"{twice:,} rows repeat a time (a clock set back, or written twice): the larger of the two counts")
    sums: dict[datetime, dict[str, float]] = defaultdict(lambda: dict.fromkeys(values, 0.0))
    have: Counter[datetime] = Counter()
    for moment, figures in rows.items():
        hour = hour_of[moment]
        have[hour] += 1
        for kind, value in figures.items():
            sums[hour][kind] += value
    partial = [hour for hour, count in have.items() if count < per_hour]
    for hour in partial:
        sums[hour] = {kind: value * per_hour / have[hour] for kind, value in sums[hour].items()}
    if partial:
        notes.append(f"{len(partial):,} hours lack some of their {per_hour} rows: the rest counts for the whole hour")
    first, last = min(sums), max(sums)
    span = round((last - first) / HOUR) + 1
    if span > MAX_HOURS:
        raise TrafficFileError(f"spans {span / 8766:.1f} years; at most {MAX_HOURS // 8766}", None, TIME_HELP)
    return _filled(first, span, sums, walls, values, notes, sha256)


def _whole(time: datetime, *, aware: bool) -> datetime:
    """Begin of the hour that a time falls in by its own clock, in UTC where its distance to UTC is known."""
    begin = time.replace(minute=0, second=0, microsecond=0)
    return begin.astimezone(UTC) if aware else begin


def _filled(
    first: datetime,
    span: int,
    sums: Mapping[datetime, Mapping[str, float]],
    walls: Mapping[datetime, datetime],
    values: Mapping[str, object],
    notes: list[str],
    sha256: str,
) -> MeasuredTraffic:
    """Every hour from first to last, holes filled with the busiest that their hour of the week has seen."""
    hours = [first + n * HOUR for n in range(span)]
    slots: list[int] = []
    for hour in hours:
        wall = walls.get(hour)
        slots.append((slots[-1] + 1) % 168 if wall is None else wall.weekday() * 24 + wall.hour)
    missing = [n for n, hour in enumerate(hours) if hour not in sums]
    columns: dict[str, tuple[float, ...]] = {}
    for kind in values:
        line = [sums[hour][kind] if hour in sums else 0.0 for hour in hours]
        if missing:
            _fill(line, missing, slots)
        columns[kind] = tuple(line)
    if missing:
        notes.append(
            f"{len(missing):,} of {span:,} hours are missing: each counts as the busiest seen at its hour of the week"
            " (write 0 where there was no traffic)"
        )
    if not any(any(column) for column in columns.values()):
        raise TrafficFileError("has no traffic: every figure is 0")
    start = walls[first].strftime("%Y-%m-%d %H:00")
    return MeasuredTraffic(tuple(slots), columns.get("requests"), columns.get("tokens"), start, tuple(notes), sha256)


def _fill(line: list[float], missing: Sequence[int], slots: Sequence[int]) -> None:
    """Put the largest of the same hour of the week in each hole; else the larger of what stands on both sides."""
    holes = set(missing)
    busiest: dict[int, float] = {}
    for n, value in enumerate(line):
        if n not in holes:
            busiest[slots[n]] = max(busiest.get(slots[n], 0.0), value)
    before, ahead = list(line), list(line)
    for n in missing:
        before[n] = before[n - 1]
    for n in reversed(missing):
        ahead[n] = ahead[n + 1]
    for n in missing:
        line[n] = busiest.get(slots[n], max(before[n], ahead[n]))
