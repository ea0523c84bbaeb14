"""Pages as they are printed, kept beside the tests: read the difference before you accept it."""

from __future__ import annotations

import unicodedata

import pytest
from syrupy.assertion import SnapshotAssertion

from solver.plan import Result
from solver.report.page import View
from solver.report.text import render_result
from tests.golden import sample

RESULTS = {
    "mixed": sample.mixed,
    "cheapest": sample.cheapest,
    "infeasible": sample.infeasible,
    "unknown": sample.unknown,
}


def columns(line: str) -> int:
    """Width of a line on a terminal [columns]."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in line)


@pytest.fixture(params=sorted(RESULTS))
def result(request: pytest.FixtureRequest) -> Result:
    made: Result = RESULTS[request.param]()
    return made


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("width", [80, 120])
def test_page(result: Result, width: int, lang: str, snapshot: SnapshotAssertion) -> None:
    view = View(width=width, lang=lang, source="problems/example.yaml")  # type: ignore[arg-type]
    page = render_result(result, view)
    assert max(columns(line) for line in page.splitlines()) <= width
    assert page == snapshot


def test_ascii_page(result: Result, snapshot: SnapshotAssertion) -> None:
    page = render_result(result, View(width=80, ascii=True))
    assert page.isascii()
    assert max(len(line) for line in page.splitlines()) <= 80
    assert page == snapshot


@pytest.mark.parametrize("width", [60, 72, 100, 160])
def test_nothing_is_wider_than_the_page_or_cut_off(result: Result, width: int) -> None:
    page = render_result(result, View(width=width))
    assert max(columns(line) for line in page.splitlines()) <= width
    assert "…" not in page


def test_wide_page_names_every_item_and_part() -> None:
    made = sample.mixed()
    page = render_result(made, View(width=160))
    for item in made.items:
        assert item.item in page
        for part in item.parts:
            assert part in page


def test_colour_adds_nothing_but_colour(result: Result) -> None:
    import re

    plain = render_result(result, View(width=100))
    coloured = render_result(result, View(width=100, colour=True))
    assert "\x1b[" in coloured
    stripped = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
    assert [line.rstrip() for line in stripped.splitlines()] == plain.splitlines()


def test_samples_add_up() -> None:
    for made in (sample.mixed(), sample.cheapest()):
        assert made.cost is not None
        assert sum(item.total_cost for item in made.items) == made.cost.total
        assert sum(made.cost.by_category.values()) == made.cost.total
