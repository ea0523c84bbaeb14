"""What a choice of gear brings along: drawn right, known to the relaxation, and no plan is lost to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count

import pytest

from solver import model
from solver.bounding.program import relaxed_model
from solver.gear_cuts import consequences, gear_cuts
from solver.instance import Gear, Instance, Row
from solver.model import build_model
from solver.search import Found, run
from tests.oracle.bare import bare
from tests.oracle.data_problems import data_case

FLASH, DISK, DRIVES, BOXES, DISKS, SWITCHES, ALONE = range(7)


def gear(key: str, most: int, cost: int = 0) -> Gear:
    return Gear(key, "storage", 0, most, cost, cost, 0, 0, 0, 0, 0)


def tiers(**changes: object) -> Instance:
    """750 TB on drives of 10 TB, 24 to a box, with boxes on a switch but for a single one; or on disks that cost more."""
    things = (
        gear("flash", 1),
        gear("disk", 1),
        gear("drives", 90, 1),
        gear("boxes", 7, 100),
        gear("disks", 40, 20),
        gear("switches", 5, 1000),
        gear("alone", 1),
    )

    def row(low: int | None, high: int | None, *terms: tuple[int, int], rule: str = "storage") -> Row:
        return Row(rule, "", low, high, gear=terms)

    rows = (
        row(1, 1, (FLASH, 1), (DISK, 1)),
        row(None, 0, (FLASH, 748), (DRIVES, -10)),
        row(0, None, (DRIVES, -1), (BOXES, 24)),
        row(None, 0, (DISK, 1400), (DISKS, -35)),
        row(None, 7, (BOXES, 1), (ALONE, 6)),
        row(None, 0, (BOXES, 2), (ALONE, -2), (SWITCHES, -16)),
    )
    return replace(bare(gear=things, rows=rows), **changes)  # type: ignore[arg-type]


def optimum(inst: Instance) -> Found:
    return run(build_model(inst), time_limit_s=60, gap=0.0, workers=1, seed=1, patience=1.0)


def test_consequences_are_drawn_in_whole_units() -> None:
    ((choices, (flash, disk)),) = consequences(tiers())
    assert choices == (FLASH, DISK)
    assert flash == {DRIVES: (75, 90), BOXES: (4, 7), ALONE: (0, 0), SWITCHES: (1, 5)}
    assert disk == {DISKS: (40, 40)}


def test_the_relaxation_knows_what_a_choice_brings_along() -> None:
    """Flash with a switch is 1475, all disks 800; a part of each is no longer cheaper than either."""
    relaxed = relaxed_model(build_model(tiers()), 10.0)
    assert relaxed is not None
    assert relaxed.bound == pytest.approx(800, abs=0.1)
    assert optimum(tiers()).objective == 800
    dear = tiers(gear=tuple(replace(g, cost=50) if g.key == "disks" else g for g in tiers().gear))
    relaxed = relaxed_model(build_model(dear), 10.0)
    assert relaxed is not None
    assert relaxed.bound == pytest.approx(1475, abs=0.1)
    assert optimum(dear).objective == 1475


def test_a_choice_without_room_for_its_consequences_is_none() -> None:
    small = tiers(gear=tuple(replace(g, max_count=3) if g.key == "boxes" else g for g in tiers().gear))
    ((_, (flash, disk)),) = consequences(small)
    assert flash is None
    assert disk is not None
    found = optimum(small)
    assert found.values is not None
    assert (found.values.gear[DISK], found.objective) == (1, 800)


def test_rows_with_anything_but_gear_are_left_alone() -> None:
    inst = tiers()
    mixed = tiers(rows=tuple(replace(r, used=((0, 1),)) if (BOXES, 24) in r.gear else r for r in inst.rows))
    ((_, (flash, _)),) = consequences(mixed)
    assert flash == {DRIVES: (75, 90)}


def drawn(first: int, wanted: int) -> Iterator[Instance]:
    made = 0
    for seed in count(first):
        inst = data_case(seed).instance()
        if inst is None or len(inst.options) + len(inst.replicas) > 120 or not consequences(inst):
            continue
        made += 1
        yield inst
        if made == wanted:
            return


@pytest.mark.slow
def test_no_plan_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    every = list(drawn(71_500, 24))
    expected = [optimum(inst) for inst in every]
    monkeypatch.setattr(model, "CONSTRAINTS", tuple(c for c in model.CONSTRAINTS if c is not gear_cuts))
    solved = 0
    for inst, with_rows in zip(every, expected, strict=True):
        without = optimum(inst)
        assert (with_rows.status, with_rows.objective) == (without.status, without.objective)
        solved += without.objective is not None
    assert solved >= 12
