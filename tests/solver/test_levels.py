"""Load levels: exact for one service, never below an hour for any, and the periods that come of them."""

from __future__ import annotations

import itertools
import json
import math
import random
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from problems.load import LoadedProblem, load_text
from solver.candidates.load_levels import MOST_LEVELS, compress, levels_of
from solver.candidates.periods import LoadCalendar, load_calendar, load_periods, stages_of
from tests.oracle.problems import real_catalog


def excess(level_of: dict[float, float], hours: dict[float, int]) -> float:
    return sum(n * (level_of[v] - v) for v, n in hours.items())


def least_excess(hours: dict[float, int], most: int) -> float:
    """Every way to cut the sorted loads into at most so many runs."""
    values = sorted(hours)
    n = len(values)
    cuts = (c for k in range(min(most, n)) for c in itertools.combinations(range(1, n), k))
    return min(
        sum(
            hours[v] * (values[end - 1] - v)
            for start, end in itertools.pairwise((0, *cut, n))
            for v in values[start:end]
        )
        for cut in cuts
    )


@settings(max_examples=150, deadline=None)
@given(
    hours=st.dictionaries(st.integers(0, 60).map(float), st.integers(1, 20), min_size=1, max_size=9),
    most=st.integers(1, 5),
)
def test_levels_of_one_service_waste_as_little_as_any_cut(hours: dict[float, int], most: int) -> None:
    level_of = levels_of(hours, most)
    assert level_of.keys() == hours.keys()
    assert len(set(level_of.values())) <= most
    assert all(level >= v for v, level in level_of.items())
    assert excess(level_of, hours) == pytest.approx(least_excess(hours, most), abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(
    points=st.dictionaries(
        st.tuples(st.integers(0, 9), st.integers(0, 9)).map(lambda p: (float(p[0]), float(p[1]))),
        st.integers(1, 9),
        min_size=1,
        max_size=40,
    ),
    most=st.integers(1, 6),
)
def test_common_levels_are_never_below_an_hour_of_any_service(points: dict[tuple[float, ...], int], most: int) -> None:
    level_of = compress(points, most)
    assert level_of.keys() == points.keys()
    assert len(set(level_of.values())) <= most or len(points) <= most
    assert all(x <= y for p, level in level_of.items() for x, y in zip(p, level, strict=True))
    # Every level is reached by some hour of it in each service.
    for level in set(level_of.values()):
        mine = [p for p, top in level_of.items() if top == level]
        assert tuple(map(max, zip(*mine, strict=True))) == level


def test_common_levels_are_close_to_the_best_on_small_cases() -> None:
    """All set partitions of seven vectors into at most three groups; the merge may be worse, but not by much."""
    rng = random.Random(5)
    ratios = []
    for _ in range(30):
        points = {(float(rng.randint(0, 9)), float(rng.randint(1, 9))): rng.randint(1, 9) for _ in range(7)}
        total = [sum(p[s] * n for p, n in points.items()) or 1.0 for s in (0, 1)]

        def cost(groups: Any, points: Any = points, total: Any = total) -> float:
            tops = [tuple(map(max, zip(*g, strict=True))) for g in groups]
            return sum(
                points[p] * (top[s] - p[s]) / total[s]
                for g, top in zip(groups, tops, strict=True)
                for p in g
                for s in (0, 1)
            )

        best = math.inf
        keys = list(points)
        for labels in itertools.product(range(3), repeat=len(keys)):
            groups = [[k for k, x in zip(keys, labels, strict=True) if x == g] for g in range(3)]
            best = min(best, cost([g for g in groups if g]))
        level_of = compress(points, 3)
        mine = cost([[p for p in keys if level_of[p] == top] for top in set(level_of.values())])
        assert mine >= best - 1e-12
        ratios.append(mine / best if best else 1.0)
    assert sorted(ratios)[len(ratios) // 2] <= 1.02
    assert max(ratios) < 1.5


def calendar_of(*traffics: dict[str, Any], name: str = "<text>") -> LoadCalendar:
    return load_calendar(problem_of(*traffics, name=name).problem, real_catalog())


def problem_of(*traffics: dict[str, Any], name: str = "<text>", **more: Any) -> LoadedProblem:
    works = [
        {"name": f"s{n}", "kind": "serve", "model": "llama-3-8b", "traffic": {"isl": 100, "osl": 100, **t}}
        for n, t in enumerate(traffics)
    ]
    return load_text(json.dumps({"workloads": works, **more}), name)


def test_a_month_has_730_hours_whatever_the_calendar() -> None:
    for name in ("flat", "office_hours", "day_night", "day_night_weekend", "hourly"):
        found = calendar_of({"rate": "3 req/s", "calendar": name})
        assert sum(level.hours_per_month for level in found.levels) == pytest.approx(730)
        assert found.loss == (0.0,)
        assert [found.levels[level].loads[0] for level in found.week] == [
            found.levels[level].loads[0] for level in found.hours
        ]
    office = calendar_of({"rate": "3 req/s", "calendar": "office_hours"})
    assert [(level.name, level.loads) for level in office.levels] == [("busy", (1.0,)), ("off", (0.0,))]
    assert office.levels[0].hours_per_month == pytest.approx(730 * 50 / 168)


def test_hours_without_traffic_are_a_level_of_their_own() -> None:
    levels = calendar_of({"rate": "3 req/s", "calendar": {"hours": [0, *range(1, 24)]}}).levels
    assert len(levels) == MOST_LEVELS
    assert levels[-1].name == "off"
    assert levels[-1].hours_per_month == pytest.approx(730 / 24)


def test_more_than_twelve_levels_are_compressed_and_the_loss_is_told() -> None:
    found = calendar_of({"rate": "3 req/s", "calendar": {"hours": list(range(1, 25))}})
    # 24 loads of equal length in pairs: each pair wastes one step, 12 of 300 in all.
    assert found.loss[0] == pytest.approx(12 / 300)
    assert "24 different hours planned at 12 load levels" in found.notes[0]
    assert "s0 4.0%" in found.notes[0]
    assert len({level.name for level in found.levels}) == 12


def measured(path: Path, hours: int, load: Any) -> str:
    start = datetime(2026, 11, 30)
    rows = [f"{(start + timedelta(hours=n)).isoformat()},{load(n)}" for n in range(hours)]
    path.write_text("timestamp,requests\n" + "\n".join(rows) + "\n")
    return path.name


def test_measured_weeks_are_taken_hour_by_hour(tmp_path: Path) -> None:
    file = measured(tmp_path / "t.csv", 24 * 14, lambda n: 360 if n % 24 >= 8 else (36 if n < 168 else 72))
    found = calendar_of({"calendar": {"csv": file}}, name=str(tmp_path / "p.yaml"))
    assert [level.loads[0] for level in found.levels] == [1.0, 0.2, 0.1]
    assert found.levels[1].hours_per_month == pytest.approx(730 * 8 / 48)
    assert len(found.hours) == 24 * 14
    # At night the second week was busier: that is the level of the hour of the week.
    assert found.week[:10] == (1,) * 8 + (0,) * 2


def test_a_file_beside_a_calendar_shares_its_clock(tmp_path: Path) -> None:
    file = measured(tmp_path / "t.csv", 168, lambda n: 10 if n % 24 == 3 else 1)
    found = calendar_of(
        {"calendar": {"csv": file}}, {"rate": "3 req/s", "calendar": "office_hours"}, name=str(tmp_path / "p.yaml")
    )
    assert sorted(level.loads for level in found.levels) == [(0.1, 0.0), (0.1, 1.0), (1.0, 0.0)]


def test_a_short_file_beside_a_calendar_is_folded_into_a_week(tmp_path: Path) -> None:
    """One measured day: the other days look like it, and the other service keeps its office hours."""
    file = measured(tmp_path / "t.csv", 24, lambda n: 10 if n == 9 else 1)
    found = calendar_of(
        {"calendar": {"csv": file}}, {"rate": "3 req/s", "calendar": "office_hours"}, name=str(tmp_path / "p.yaml")
    )
    assert len(found.hours) == 168
    loads = [found.levels[level].loads for level in found.week]
    assert loads[9] == loads[33] == (1.0, 1.0)
    assert loads[24 * 5 + 9] == (1.0, 0.0)
    assert loads[0] == (0.1, 0.0)


def test_files_of_different_hours_are_folded_at_their_busiest(tmp_path: Path) -> None:
    first = measured(tmp_path / "a.csv", 336, lambda n: 10 if n in (0, 200) else 1)
    second = measured(tmp_path / "b.csv", 168, lambda n: 5 if n == 7 else 1)
    found = calendar_of({"calendar": {"csv": first}}, {"calendar": {"csv": second}}, name=str(tmp_path / "p.yaml"))
    loads = [found.levels[level].loads for level in found.week]
    assert [slot for slot in range(168) if loads[slot][0] == 1] == [0, 32]
    assert [slot for slot in range(168) if loads[slot][1] == 1] == [7]


def test_a_year_of_noise_comes_down_to_twelve_levels_above_every_hour(tmp_path: Path) -> None:
    rng = random.Random(3)
    loads = [round(1000 * (1.2 + math.sin(n / 24 * 2 * math.pi)) * rng.uniform(0.8, 1.2)) for n in range(8760)]
    file = measured(tmp_path / "t.csv", 8760, lambda n: loads[n])
    found = calendar_of({"calendar": {"csv": file}}, name=str(tmp_path / "p.yaml"))
    assert len(found.levels) == 12
    for load, level in zip(loads, found.hours, strict=True):
        assert found.levels[level].loads[0] >= load / max(loads)
    assert 0 < found.loss[0] < 0.08


# --- stages ----------------------------------------------------------------------------------------------


def stages(*traffics: dict[str, Any], **more: Any) -> list[tuple[str, float, float]]:
    return [(s.name, s.start, s.months) for s in stages_of(problem_of(*traffics, **more).problem)]


def test_without_growth_there_is_one_stage() -> None:
    assert stages({"rate": "3 req/s"}, horizon="36mo") == [("", 0, 36)]
    assert stages({"rate": "3 req/s", "growth": "0%/mo"}, horizon="36mo") == [("", 0, 36)]
    same = [{"from": "0mo", "scale": "80%"}, {"from": "3mo", "scale": "80%"}]
    assert stages({"rate": "3 req/s", "stages": same}, horizon="6mo") == [("", 0, 6)]


def test_growth_cuts_the_horizon_in_quarters_the_last_may_be_short() -> None:
    assert stages({"rate": "3 req/s", "growth": "1%/mo"}, horizon="7mo") == [("Q1", 0, 3), ("Q2", 3, 3), ("Q3", 6, 1)]
    assert len(stages({"rate": "3 req/s", "growth": "1%/mo"}, horizon="36mo")) == 12
    assert len(stages({"rate": "3 req/s", "growth": "1%/mo"}, horizon="60mo")) == 10


def test_steps_and_lead_times_cut_where_they_are() -> None:
    steps = [{"from": "0mo", "scale": "100%"}, {"from": "6mo", "scale": "150%"}]
    assert stages({"rate": "3 req/s", "stages": steps}) == [("mo 1-6", 0, 6), ("mo 7-12", 6, 6)]
    late = {"policy": {"lead_time": {"purchase": "2mo"}}}
    assert stages({"rate": "3 req/s"}, **late) == [("mo 1-2", 0, 2), ("mo 3-12", 2, 10)]
    both = stages({"rate": "3 req/s", "stages": steps}, {"rate": "1 req/s", "growth": "2%/mo"}, horizon="9mo")
    assert [s[1] for s in both] == [0, 3, 6]


def test_periods_are_levels_in_stages_at_the_highest_month() -> None:
    problem = problem_of({"rate": "3 req/s", "calendar": "day_night", "growth": "10%/mo"}, horizon="6mo").problem
    calendar = load_calendar(problem, real_catalog())
    periods = load_periods(problem, calendar, stages_of(problem))
    assert [p.name for p in periods] == ["Q1 busy", "Q1 quiet 30%", "Q2 busy", "Q2 quiet 30%"]
    assert [p.levels[0] for p in periods] == pytest.approx([1.1**2, 0.3 * 1.1**2, 1.1**5, 0.3 * 1.1**5])
    assert [p.stage for p in periods] == [0, 0, 1, 1]
