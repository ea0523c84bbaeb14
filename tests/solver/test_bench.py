"""The bench's own rules: who overruns is stopped with what it had, and answers that cannot both be true are told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.bench.apart import highs_apart
from tests.bench.page import agreement, disagreements, page, read_rows, row_line
from tests.bench.portfolios import portfolio
from tests.oracle.highs_timed import timed

OURS = {
    "status": "optimal",
    "objective": 100,
    "bound": 100.0,
    "gap": 0.0,
    "proof_s": 1.0,
    "first_s": 0.5,
    "size": "1 pools",
}
HIGHS = {"objective": 100.0, "bound": 100.0, "exact": 100, "proved": True, "gap": 0.0, "wall_s": 2.0, "note": ""}


def saying(said: dict[str, Any] | None, then: str) -> tuple[str, ...]:
    """Arguments of a process that says a line and then does something."""
    first = "pass" if said is None else f"print({json.dumps(said)!r}, flush=True)"
    return "timeit", "-n1", "-r1", "-s", f"import time; {first}", then


def test_what_overruns_is_stopped_with_what_it_had() -> None:
    found = highs_apart(*saying({"objective": 12.0, "bound": 9.0}, "time.sleep(600)"), limit=0.2, grace=0.3)
    assert (found["objective"], found["bound"], found["gap"]) == (12.0, 9.0, 0.25)
    assert not found["proved"]
    assert found["note"] == "no proof in 0 s, stopped at 0 s"
    none = highs_apart(*saying({"columns": 3}, "time.sleep(600)"), limit=1.0, grace=1.0)
    assert none["objective"] is None
    assert none["note"] == "no plan in 1 s, stopped at 2 s"


def test_what_never_begins_or_fails_says_so() -> None:
    assert highs_apart(*saying(None, "time.sleep(600)"), limit=9.0, build=0.5)["note"] == "program not made in 0 s"
    assert highs_apart(*saying(None, "raise MemoryError"), limit=9.0)["note"] == "out of memory"
    assert "ZeroDivisionError" in highs_apart(*saying({"columns": 3}, "1 / 0"), limit=9.0)["note"]


def test_highs_tells_its_plan_in_whole_numbers() -> None:
    found = timed(portfolio(1, 1, 3), 20.0, 1)
    assert found.proved
    assert found.exact is not None
    assert found.objective == pytest.approx(found.exact)


@pytest.mark.parametrize(
    ("ours", "highs", "said"),
    [
        ({}, {}, None),
        ({}, {"proved": False, "objective": 101.0, "exact": 101, "bound": 99.0}, None),
        ({}, {"proved": False, "objective": None, "exact": None, "bound": None}, None),
        ({}, {"objective": 99.9999999, "exact": None}, None),
        ({}, {"objective": 99.0, "bound": 99.0, "exact": 99}, "both prove an optimum"),
        ({}, {"objective": 101.0, "exact": 101}, "both prove an optimum"),
        ({}, {"proved": False, "bound": 100.1, "exact": None}, "is above a plan of 100"),
        ({"status": "feasible", "bound": 98.0}, {"objective": 97.0, "bound": 90.0, "exact": 97}, "HiGHS's plan of 97"),
        ({}, {"objective": None, "bound": None, "exact": None}, "proves that there is no plan"),
        ({"status": "infeasible", "objective": None, "bound": None}, {}, "no plan is said to exist"),
        ({"status": "infeasible", "objective": None, "bound": None}, {"objective": None, "exact": None}, None),
    ],
)
def test_answers_that_cannot_both_be_true_are_told(
    ours: dict[str, Any], highs: dict[str, Any], said: str | None, tmp_path: Path
) -> None:
    row = {"name": "example x", "limit": 30.0, "ours": OURS | ours, "highs": HIGHS | highs}
    row |= {"day": "2026-11-30", "cores": 2, "threads": 2, "load": 0.1}
    found = disagreements(row["ours"], row["highs"])
    assert any(said in fault for fault in found) if said else found == []
    assert ("DISAGREES" in row_line(row)) == ("NOT ALL AGREE" in agreement([row])) == bool(said)
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(row | {"ours": None}) + "\n" + json.dumps(row) + "\n", "utf-8")
    assert read_rows(path) == {"example x": row}
    assert row_line(row) in page([row], None).splitlines()
