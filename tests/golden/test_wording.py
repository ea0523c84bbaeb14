"""What the report claims, and what it must not claim."""

from __future__ import annotations

import io
import re
import string
from pathlib import Path

import pytest

from solver.events import Event
from solver.plan import Result, Status, StopReason
from solver.report import forms, messages
from solver.report import text_parts as parts
from solver.report.messages import ZH, Messages, default_lang
from solver.report.page import View
from solver.report.progress import Progress
from solver.report.text import render_result
from tests.golden import sample

EN = Messages("en")


def page(result: Result) -> str:
    return render_result(result, View(width=120))


def test_cheapest_is_said_of_proved_least_cost_only() -> None:
    proved = sample.cheapest()
    assert "Cheapest" in page(proved)
    for result in (
        sample.mixed(),
        proved.model_copy(update={"objective_name": "power"}),
        proved.model_copy(update={"status": Status.FEASIBLE, "stop_reason": StopReason.GAP_REACHED}),
    ):
        assert "heapest" not in page(result)


def test_distance_is_measured_from_the_bound() -> None:
    result = sample.mixed().model_copy(update={"objective": 110.0, "bound": 100.0})
    assert parts.distance(result) == pytest.approx(0.1)
    assert "at most 10% above the optimum" in page(result)


def test_unknown_bound_claims_nothing() -> None:
    result = sample.mixed().model_copy(update={"bound": None, "gap": None})
    assert "not known" in page(result)


@pytest.mark.parametrize(
    ("objective", "bound"),
    [(110.0, -5.0), (110.0, 0.0), (110.0, 40.0), (0.0, -5.0)],
    ids=["below", "none", "far", "nil"],
)
def test_a_bound_that_says_nothing_is_no_distance(objective: float, bound: float) -> None:
    gap = 1.0 if not objective else (objective - bound) / objective
    result = sample.mixed().model_copy(update={"objective": objective, "bound": bound, "gap": gap})
    assert "there is no useful bound" in page(result)
    assert not re.search(r"above the optimum| gap \d", page(result))
    assert "没有有用的界" in render_result(result, View(width=120, lang="zh"))
    assert result.model_dump(mode="json")["bound"] == bound


def test_credits_on_both_sides_are_compared() -> None:
    result = sample.mixed().model_copy(update={"objective": -90.0, "bound": -100.0})
    assert "at most 10% above the optimum" in page(result)


def test_progress_tells_no_gap_without_a_useful_bound() -> None:
    shown = Progress(io.StringIO(), True, str)
    shown.on_event(Event("incumbent", 1.0, best=10.0, bound=-5.0, gap=1.5))
    assert "gap" not in shown.line(1.0)
    shown.on_event(Event("bound", 2.0, bound=9.0, gap=0.1))
    assert "gap 10%" in shown.line(2.0)


def test_scale_is_measured_downwards() -> None:
    result = sample.mixed().model_copy(update={"objective_name": "scale", "objective": 9.0, "bound": 10.0})
    assert "at most 10% below the optimum" in page(result)


def test_total_is_the_last_line_of_the_bill() -> None:
    lines = page(sample.mixed()).splitlines()
    total = next(number for number, line in enumerate(lines) if line.startswith("TOTAL"))
    assert "$1,065,375" in lines[total]
    assert any("electricity, room" in line for line in lines[:total])
    assert not any("electricity, room" in line for line in lines[total:])


def test_stars_stand_by_what_is_not_firm() -> None:
    text = page(sample.mixed())
    assert re.search(r"A100-SXM4-80GB, room \*", text)
    assert "estimate (1)" in text
    assert "* 730 hours per month" in text
    assert " *" not in page(sample.cheapest())


def test_limits_say_binding_and_slack() -> None:
    text = page(sample.mixed())
    assert re.search(r"Binding +sites\.room\.power", text)
    assert re.search(r"Slack +limits\.budget\.total \$134,625", text)


def test_infeasible_says_why_and_counts_the_drops() -> None:
    text = page(sample.infeasible())
    assert "No plan: proved" in text
    for line in sample.infeasible().no_plan_because:
        assert line in text
    assert re.search(r"does not fit memory +905", text)


def test_unknown_does_not_claim_infeasible() -> None:
    text = page(sample.unknown())
    assert "before the search stopped" in text
    assert "proved that none" not in text


def test_chinese_texts_keep_the_fields_of_the_english_ones() -> None:
    def fields(text: str) -> set[str]:
        return {name for _, name, _, _ in string.Formatter().parse(text) if name}

    for english, chinese in ZH.items():
        assert fields(english) == fields(chinese), english


def test_every_translated_text_is_in_use() -> None:
    """A text that was reworded in English only would silently stay English."""
    folder = Path(messages.__file__).parent
    code = "".join(path.read_text() for path in folder.glob("*.py") if path.name != "messages.py")
    unused = [text for text in ZH if f'"{text}"' not in code and f"'{text}'" not in code]
    assert unused == []


@pytest.mark.parametrize(
    ("environ", "lang"),
    [
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LC_ALL": "en_US.UTF-8", "LANG": "zh_CN.UTF-8"}, "en"),
        ({"LC_ALL": "", "LANG": "zh_TW"}, "zh"),
        ({}, "en"),
    ],
)
def test_language_of_the_environment(environ: dict[str, str], lang: str) -> None:
    assert default_lang(environ) == lang


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0.0, "$0.00"),
        (12.345, "$12.35"),
        (999.994, "$999.99"),
        (1234.5, "$1,235"),
        (-50.0, "-$50.00"),
    ],
)
def test_money(value: float | None, text: str) -> None:
    assert forms.money(value, "USD") == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (-0.25, "-0.25"), (0.00012, "0.00012"), (12.345, "12.3"), (1234567, "1,234,567")],
)
def test_number(value: float, text: str) -> None:
    assert forms.number(value) == text


def test_small_shares_do_not_read_as_nothing() -> None:
    assert forms.share(0.00001) == "0.001%"
    assert forms.share(None) == "-"
