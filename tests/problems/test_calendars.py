"""Calendars of one's own and files of measured traffic: what is read, what is put right, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from problems.calendars import CsvCalendar, HoursCalendar
from problems.load import LoadedProblem, ProblemError, load_text
from problems.measured import MeasuredTraffic, TrafficFileError, read_traffic
from problems.schema import Serve, Traffic

MONDAY = datetime(2026, 11, 30)


def loaded(traffic: dict[str, Any], name: str = "<text>", **more: Any) -> LoadedProblem:
    work = {"name": "a", "kind": "serve", "model": "llama-3-8b", "traffic": {"isl": 100, "osl": 100, **traffic}}
    return load_text(json.dumps({"workloads": [work], **more}), name)


def traffic_of(given: LoadedProblem) -> Traffic:
    work = given.problem.workloads[0]
    assert isinstance(work, Serve)
    return work.traffic


def week(hours: Any) -> tuple[float, ...]:
    calendar = traffic_of(loaded({"rate": "3 req/s", "calendar": {"hours": hours}})).calendar
    assert isinstance(calendar, HoursCalendar)
    return calendar.hours


def test_hours_of_a_week_as_people_write_them() -> None:
    levels = week({"mon-fri": {"8-18": "100%", "18-22": "40%"}, "sat-sun": "20%"})
    assert len(levels) == 168
    assert (levels[7], levels[8], levels[17], levels[18], levels[22]) == (0, 1, 1, 0.4, 0)
    assert set(levels[120:]) == {0.2}
    assert week({"weekdays": {"8:00-18:00": 1}, "Saturday, sun": 0.5})[120] == 0.5
    late = week({"fri-mon": {"22-6": 1}})
    assert [day for day in range(7) if late[24 * day + 23]] == [0, 4, 5, 6]
    assert late[0] == late[5] == 1
    assert late[6] == late[24] == 0


def test_numbers_above_one_are_loads_of_which_the_largest_is_all() -> None:
    assert week(list(range(24)))[12] == 12 / 23
    assert week([0.5] * 24) == (0.5,) * 168
    assert week(list(range(168)))[167] == 1
    assert week({"all": list(range(0, 48, 2))})[6] == 12 / 46


@pytest.mark.parametrize(
    ("hours", "said"),
    [
        ({"mon-foo": {"8-18": 1}}, 'unknown day "foo"'),
        ({"mon": {"8-28": 1}}, 'mon: unknown hours "8-28"'),
        ({"mon": {"8.30-9": 1}}, "unknown hours"),
        ({"mon-fri": {"8-18": 1}, "fri": {"17-18": 0.5}}, "fri 17-18 is given twice"),
        ({"mon": {"8-18": "120%"}}, "at most 100%"),
        ({"mon": [1, 2, 3]}, "24 numbers"),
        ([1, 2, 3], "a list of 3"),
        ([0] * 24, "0 in every hour"),
        ([-1] * 24, "negative"),
        ({"mon": {"8-18": "busy"}}, "cannot read"),
    ],
)
def test_hours_that_cannot_be_meant_are_refused_with_the_forms_allowed(hours: Any, said: str) -> None:
    with pytest.raises(ProblemError, match=said) as error:
        week(hours)
    issue = error.value.issues[0]
    assert issue.field == "workloads.a.traffic.calendar.hours"
    assert "forms allowed" in issue.help
    assert issue.line == 1


@pytest.mark.parametrize("calendar", ["flat", "office_hours", "day_night", "day_night_weekend", "hourly"])
def test_presets_are_in_the_catalogue(calendar: str) -> None:
    from catalogs.load import load_catalog

    rows = load_catalog().calendars.filter(calendar=calendar)
    assert rows["level"].max() == 1
    assert rows["day"].n_unique() == 7


@pytest.mark.parametrize(
    ("growth", "per_month"),
    [
        ("3%/mo", 0.03),
        ("-2%/mo", -0.02),
        ("100%/y", 2 ** (1 / 12) - 1),
        (0, 0.0),
        ("0%/mo", 0.0),
        ("+5% per month", 0.05),
    ],
)
def test_growth_is_read_and_written_again(growth: Any, per_month: float) -> None:
    given = loaded({"rate": "3 req/s", "growth": growth})
    assert traffic_of(given).growth == pytest.approx(per_month, abs=1e-15)
    assert load_text(given.problem.model_dump_json()).problem == given.problem


@pytest.mark.parametrize("growth", ["3%", 0.03, "-100%/mo", "fast", "5000%/mo", True])
def test_growth_without_a_time_or_a_number_is_refused(growth: Any) -> None:
    with pytest.raises(ProblemError) as error:
        loaded({"rate": "3 req/s", "growth": growth})
    assert error.value.issues[0].field == "workloads.a.traffic.growth"


def test_stages_are_read_and_written_again() -> None:
    steps = [{"from": "0mo", "scale": "100%"}, {"from": "6mo", "scale": "150%"}]
    given = loaded({"rate": "3 req/s", "stages": steps})
    traffic = traffic_of(given)
    assert [(s.start, s.scale) for s in traffic.stages or ()] == [(0, 1), (6, 1.5)]
    assert load_text(given.problem.model_dump_json()).problem == given.problem
    assert (traffic.highest(0, 6), traffic.highest(3, 7), traffic.highest(6, 12)) == (1, 1.5, 1.5)


@pytest.mark.parametrize(
    ("stages", "growth", "said"),
    [
        ([{"from": "1mo", "scale": "100%"}], 0, "begin at 0mo"),
        ([{"from": "0mo", "scale": "100%"}, {"from": "0mo", "scale": "50%"}], 0, "follow one another"),
        ([{"from": "0mo", "scale": "0%"}], 0, "0 in every stage"),
        ([{"from": "0mo", "scale": "100%"}], "2%/mo", "growth or stages"),
        ([{"since": "0mo", "scale": "100%"}], 0, 'missing required key "from"'),
        ([], 0, "at least 1 item"),
    ],
)
def test_stages_that_cannot_be_meant_are_refused(stages: Any, growth: Any, said: str) -> None:
    with pytest.raises(ProblemError, match=said):
        loaded({"rate": "3 req/s", "stages": stages, "growth": growth})


def test_a_month_counts_at_its_highest() -> None:
    traffic = traffic_of(loaded({"rate": "3 req/s", "growth": "10%/mo"}))
    assert traffic.highest(0, 1) == 1
    assert traffic.highest(0, 3) == pytest.approx(1.1**2)
    assert traffic.highest(3, 5.5) == pytest.approx(1.1**5)
    falling = traffic_of(loaded({"rate": "3 req/s", "growth": "-10%/mo"}))
    assert falling.highest(3, 6) == pytest.approx(0.9**3)


def test_lead_time_is_for_what_is_ordered() -> None:
    given = loaded({"rate": "3 req/s"}, policy={"lead_time": {"purchase": "2mo", "reserved": "2wk"}})
    assert given.problem.policy.lead_time["purchase"] == 2
    with pytest.raises(ProblemError, match="unknown key"):
        loaded({"rate": "3 req/s"}, policy={"lead_time": {"spot": "2mo"}})


# --- files of measured traffic ---------------------------------------------------------------------------


def write(path: Path, rows: Sequence[Sequence[Any]], head: str = "timestamp,requests") -> Path:
    path.write_text("\n".join([head, *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


def hourly(values: Sequence[float], start: datetime = MONDAY) -> list[tuple[str, float]]:
    return [((start + timedelta(hours=n)).isoformat(), x) for n, x in enumerate(values)]


def read(tmp_path: Path, rows: Sequence[Sequence[Any]], head: str = "timestamp,requests") -> MeasuredTraffic:
    return read_traffic(write(tmp_path / "t.csv", rows, head))


def test_an_hourly_file_is_taken_as_it_is(tmp_path: Path) -> None:
    found = read(tmp_path, hourly([5, 6, 7]))
    assert found.requests == (5, 6, 7)
    assert found.slots == (0, 1, 2)
    assert found.notes == ()


def test_one_row_is_one_hour(tmp_path: Path) -> None:
    assert read(tmp_path, hourly([5])).requests == (5,)


@pytest.mark.parametrize(
    "form",
    [
        "%Y-%m-%d %H:%M",
        "%Y-%m-%dT%H:%M:%SZ",
        "%Y%m%dT%H%M",
        "%Y/%m/%d %H:%M",
        "%m/%d/%Y %I:%M %p",
        "%d/%m/%Y %H:%M",
        "%d.%m.%Y %H:%M",
        "%d/%b/%Y:%H:%M:%S +0000",
        "%Y-%m-%d %H:%M:%S UTC",
        "epoch",
        "epoch ms",
    ],
)
def test_any_common_form_of_time_is_read(form: str, tmp_path: Path) -> None:
    times = [MONDAY + timedelta(hours=n) for n in range(30)]
    if form.startswith("epoch"):
        factor = 1000 if form.endswith("ms") else 1
        texts = [str(int(t.replace(tzinfo=UTC).timestamp() * factor)) for t in times]
    else:
        texts = [t.strftime(form) for t in times]
    found = read(tmp_path, [(text, n + 1) for n, text in enumerate(texts)], "Time,Request Count".replace(" ", "_"))
    assert found.slots == tuple(range(30))
    assert found.requests == tuple(range(1, 31))


def test_day_and_month_are_told_apart_by_the_order_of_the_rows(tmp_path: Path) -> None:
    hours = [datetime(2026, 3, 4) + timedelta(hours=n) for n in range(48)]
    found = read(tmp_path, [(t.strftime("%d/%m/%Y %H:%M"), 1) for t in hours])
    assert found.first.startswith("2026-03-04")
    with pytest.raises(TrafficFileError, match="day/month or month/day"):
        read(tmp_path, [("03/04/2026 08:00", 1), ("03/04/2026 09:00", 1)])


def test_a_gap_counts_as_the_busiest_of_its_hour_of_the_week_and_is_told(tmp_path: Path) -> None:
    values = [float(10 + n % 24) for n in range(24 * 21)]
    values[200] = 99.0  # the second week, at the hour of the week that is missing in the third
    rows = hourly(values)
    missing = 200 + 168
    found = read(tmp_path, rows[:missing] + rows[missing + 1 :])
    assert found.requests is not None
    assert found.requests[missing] == 99
    assert len(found.requests) == len(values)
    assert "1 of 504 hours are missing" in found.notes[0]


def test_a_gap_never_seen_before_counts_as_the_busier_of_its_ends(tmp_path: Path) -> None:
    rows = hourly([5, 9, 0, 0, 7, 3])
    assert read(tmp_path, rows[:2] + rows[4:]).requests == (5, 9, 9, 9, 7, 3)


def test_a_clock_set_back_repeats_an_hour_and_the_larger_counts(tmp_path: Path) -> None:
    rows = hourly([5, 9, 7, 3])
    rows.insert(2, (rows[1][0], 11))
    found = read(tmp_path, rows)
    assert found.requests == (5, 11, 7, 3)
    assert "repeat a time" in found.notes[0]


def test_with_their_distance_to_utc_both_hours_of_a_clock_set_back_are_there(tmp_path: Path) -> None:
    rows = [
        ("2026-10-25T01:00+02:00", 4),
        ("2026-10-25T02:00+02:00", 5),
        ("2026-10-25T02:00+01:00", 6),
        ("2026-10-25T03:00+01:00", 7),
    ]
    found = read(tmp_path, rows)
    assert found.requests == (4, 5, 6, 7)
    assert [slot % 24 for slot in found.slots] == [1, 2, 2, 3]
    assert found.notes == ()


def test_finer_rows_add_up_and_half_an_hour_counts_for_all_of_it(tmp_path: Path) -> None:
    rows = [((MONDAY + timedelta(minutes=15 * n)).isoformat(), 10) for n in range(12)]
    assert read(tmp_path, rows).requests == (40, 40, 40)
    found = read(tmp_path, rows[2:])
    assert found.requests == (40, 40, 40)
    assert "1 hours lack some of their 4 rows" in found.notes[0]


def test_tokens_make_an_hour_heavier_not_lighter(tmp_path: Path) -> None:
    rows = [(t, x, tokens) for (t, x), tokens in zip(hourly([10, 10, 10]), [1000, 4000, 2000], strict=True)]
    found = read(tmp_path, rows, "timestamp,requests,total tokens")
    assert found.load(200) == (10, 20, 10)
    only = read(tmp_path, [(t, n) for t, _, n in rows], "timestamp,tokens")
    assert only.load(200) == (5, 20, 10)


def test_columns_may_go_by_other_names_and_signs(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(
        "\ufeffwhen;n;who\n2026-11-30 00:00;1,234;x\n\n2026-11-30 01:00;;x\n2026-11-30 02:00;5;x\n", "utf-8"
    )
    with pytest.raises(TrafficFileError, match="lacks a column of times"):
        read_traffic(path)
    found = read_traffic(path, {"time": "When", "requests": "n"})
    assert found.requests == (1234, 1234, 5)


@pytest.mark.parametrize(
    ("text", "said", "line"),
    [
        ("", "empty", None),
        ("timestamp,requests\n", "no rows", None),
        ("timestamp,requests\nyesterday,5\n", 'cannot read the time "yesterday"', 2),
        ("timestamp,requests\n2026-11-30 00:00,many\n", 'requests "many" is no number', 2),
        ("timestamp,requests\n2026-11-30 00:00,1\n2026-11-30 01:00,-4\n", "is no count", 3),
        ("timestamp,requests\n2026-11-30,1\n2026-12-01,4\n", "a row every 24 h", None),
        ("timestamp,requests\n2026-11-30 00:00,1\n2026-11-30 00:07,4\n", "no even part", None),
        (
            "timestamp,requests\n2026-11-30 00:00,1\n2026-11-30 01:00,4\n2026-11-30 01:07,4\n2026-11-30 01:09,4\n",
            "no regular step",
            None,
        ),
        ("timestamp,requests\n2026-11-30 00:00,0\n2026-11-30 01:00,0\n", "every figure is 0", None),
        ("timestamp,requests\n2026-11-30 00:00,\n", "no figures", None),
        ("timestamp,errors\n2026-11-30 00:00,1\n", "lacks a column of requests", 1),
        ("timestamp,requests\n2026-11-30 00:00,1\n2026-11-30T01:00Z,4\n", "some do not", 3),
        (
            "timestamp,requests\n1970-01-01 00:00,1\n2026-11-30 00:00,4\n2026-11-30 01:00,4\n2026-11-30 02:00,4\n",
            "years",
            None,
        ),
    ],
)
def test_files_that_cannot_be_used_say_where_and_why(text: str, said: str, line: int | None, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(TrafficFileError) as error:
        read_traffic(path)
    assert said in error.value.message
    assert error.value.line == line


def test_a_file_stands_beside_the_problem_and_may_say_the_load(tmp_path: Path) -> None:
    write(tmp_path / "t.csv", hourly([3600, 7200, 1800]))
    name = str(tmp_path / "problem.yaml")
    given = loaded({"calendar": {"csv": "t.csv"}}, name)
    assert traffic_of(given).load == 2.0
    assert traffic_of(loaded({"rate": "5 req/s", "calendar": {"csv": "t.csv"}}, name)).load == 5.0
    assert load_text(given.problem.model_dump_json(), name).problem == given.problem
    write(tmp_path / "t.csv", hourly([3600, 7200, 1801]))
    assert loaded({"calendar": {"csv": "t.csv"}}, name).sha256 != given.sha256
    assert isinstance(traffic_of(given).calendar, CsvCalendar)


def test_what_is_wrong_with_a_file_is_said_at_its_place_in_the_problem(tmp_path: Path) -> None:
    write(tmp_path / "t.csv", [("2026-11-30 00:00", "x")])
    with pytest.raises(ProblemError) as error:
        loaded({"calendar": {"csv": "t.csv"}}, str(tmp_path / "problem.yaml"))
    issue = error.value.issues[0]
    assert issue.field == "workloads.a.traffic.calendar.csv"
    assert issue.message == 't.csv, line 2: requests "x" is no number'
    assert issue.line == 1
    with pytest.raises(ProblemError, match="no such file"):
        loaded({"calendar": {"csv": "nowhere.csv"}})
