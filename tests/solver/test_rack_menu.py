"""Menus of racks and circuits against every way to put things up, and the plans that whole menus make possible."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from solver.candidates import rack_menu
from solver.candidates.rack_menu import (
    MOST_IN_MENU,
    Boxes,
    Kind,
    Model,
    Type,
    box_types,
    bundles,
    types_of,
)

MOST_RACKS = 4


def splits(count: int, racks: int) -> Iterator[tuple[int, ...]]:
    """All ways to put `count` like things into numbered racks."""
    if racks == 1:
        yield (count,)
        return
    for first in range(count + 1):
        for rest in splits(count - first, racks - 1):
            yield (first, *rest)


def fits(
    nodes: Sequence[int], slots: int, stores: Sequence[int], boxes: Boxes, watts: float, height: float, tall: float
) -> bool:
    """Whether one rack holds nodes of these watts, switches and storage boxes, by the rule of the model: all nodes count as the largest."""
    load = len(nodes) * max(nodes, default=0) + slots * boxes.watts
    load += sum(n * m.watts for n, m in zip(stores, boxes.models, strict=True))
    high = (
        len(nodes) * tall + slots * boxes.height + sum(n * m.height for n, m in zip(stores, boxes.models, strict=True))
    )
    return load <= watts + 1e-9 and high <= height + 1e-9


def fewest_racks(
    nodes: Sequence[int], slots: int, stores: Sequence[int], boxes: Boxes, watts: float, height: float, tall: float
) -> int | None:
    """Fewest racks over every way to put each thing into each rack."""
    for racks in range(1, MOST_RACKS + 1):
        ways = itertools.product(
            itertools.product(range(racks), repeat=len(nodes)),
            splits(slots, racks),
            *(splits(n, racks) for n in stores),
        )
        for where, switches, *rest in ways:
            if all(
                fits(
                    [w for w, at in zip(nodes, where, strict=True) if at == r],
                    switches[r], [s[r] for s in rest], boxes, watts, height, tall,
                )
                for r in range(racks)
            ):  # fmt: skip
                return racks
    return None


def enough(types: Sequence[Type], nodes: Sequence[int], slots: int, stores: Sequence[int]) -> bool:
    """Whether racks of these types have a place for everything, by the rows of the model."""
    if slots > sum(t.slots for t in types):
        return False
    if any(n > sum(t.boxes[k] for t in types) for k, n in enumerate(stores)):
        return False
    return all(sum(w >= level for w in nodes) <= sum(t.nodes for t in types if t.watts >= level) for level in nodes)


def fewest_of(menu: Sequence[Type], nodes: Sequence[int], slots: int, stores: Sequence[int]) -> int | None:
    for racks in range(1, MOST_RACKS + 1):
        if any(enough(some, nodes, slots, stores) for some in itertools.combinations_with_replacement(menu, racks)):
            return racks
    return None


def drawn(rng: random.Random) -> tuple[Boxes, float, float, list[int], int, list[int], float]:
    models = tuple(
        Model({f"m{k}": 1}, float(rng.choice([1, 2, 4])), rng.choice([3, 5, 9]), 2)
        for k in range(rng.choice([0, 1, 1, 2]))
    )
    boxes = Boxes({"switch": 1}, 1.0, float(rng.choice([1, 2, 4])), models)
    nodes = [rng.choice([7, 8, 10, 11, 13]) for _ in range(rng.choice([1, 2, 3]))]
    stores = [rng.choice([0, 1, 2]) for _ in models]
    return boxes, float(rng.randrange(13, 45)), float(rng.randrange(6, 14)), nodes, rng.randrange(0, 5), stores, 2.0


def is_whole(kinds: Sequence[Kind], boxes: Boxes, watts: float, height: float) -> bool:
    return rack_menu._whole_menu(kinds, boxes, watts, height) is not None


def test_most_of_these_menus_are_whole() -> None:
    cases = [drawn(random.Random(seed)) for seed in range(60)]
    whole = [
        is_whole(
            [Kind(w, tall, "air", {"p": nodes.count(w)}) for w in sorted({*nodes}, reverse=True)], boxes, watts, height
        )
        for boxes, watts, height, nodes, _, _, tall in cases
    ]
    assert sum(whole) > 50


@pytest.mark.parametrize("seed", range(60))
def test_a_whole_menu_needs_no_more_racks_than_the_best_way_to_put_things_up(seed: int) -> None:
    """With the kinds that stand there alone, and beside others that do not: no kind that is gone is missed."""
    rng = random.Random(seed)
    boxes, watts, height, nodes, slots, stores, tall = drawn(rng)
    best = fewest_racks(nodes, slots, stores, boxes, watts, height, tall)
    for more in ([], [6, 9, 12]):
        kinds = [Kind(w, tall, "air", {f"p{w}": max(1, nodes.count(w))}) for w in sorted({*nodes, *more}, reverse=True)]
        menu = [*types_of(kinds, boxes, watts, height, few=False), *box_types(boxes, height, watts, few=False)]
        found = fewest_of(menu, nodes, slots, stores)
        if is_whole(kinds, boxes, watts, height):
            assert len(menu) <= 2 * MOST_IN_MENU
            assert found == best
        else:
            assert found is None or (best is not None and found >= best)
        # Nothing in the menu is more than a rack holds.
        assert all(fits([t.watts] * t.nodes, t.slots, t.boxes, boxes, watts, height, tall) for t in menu)


def carried(menu: Sequence[Type]) -> list[Type]:
    """Types of a menu that was cut down as its loosened rows have them: carriers with what they carry, no others."""
    return [replace(t, slots=t.loose.slots, boxes=t.loose.boxes) for t in menu if t.loose is not None]


@pytest.mark.parametrize("seed", range(60))
def test_loosened_menus_need_no_more_racks_than_the_best_way_to_put_things_up(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However few types are left of a menu: what they carry is no less than what any rack holds."""
    rng = random.Random(seed)
    boxes, watts, height, nodes, slots, stores, tall = drawn(rng)
    best = fewest_racks(nodes, slots, stores, boxes, watts, height, tall)
    monkeypatch.setattr(rack_menu, "MOST_LOOKED_AT", -1)
    every = rack_menu._likely_types
    monkeypatch.setattr(
        rack_menu, "_likely_types", lambda *a, **k: rng.sample(found := every(*a, **k), len(found) // 2)
    )
    for more in ([], [6, 9, 12]):
        kinds = [Kind(w, tall, "air", {f"p{w}": max(1, nodes.count(w))}) for w in sorted({*nodes, *more}, reverse=True)]
        menu = [*types_of(kinds, boxes, watts, height, few=False), *box_types(boxes, height, watts, few=False)]
        assert all(t.likely for t in menu)
        found = fewest_of(menu, nodes, slots, stores)
        loose = fewest_of(carried(menu), nodes, slots, stores)
        if best is not None:
            assert loose is not None
            assert loose <= best
        assert found is None or (best is not None and found >= best)
        # A rack of each type counts by the fewest nodes that it carries.
        most = rack_menu._most_nodes(kinds, watts, height)
        assert set(range(1, most + 1)) <= {
            n for t in menu if t.loose is not None and t.nodes for n in range(t.loose.fewest, t.nodes + 1)
        }


def test_one_place_less_is_sometimes_what_saves_a_rack() -> None:
    """Three boxes beside a node, where likely types have two or as many as fit: a menu of these would take two racks."""
    models = (Model({"m": 1}, 1.0, 3, 5),)
    boxes = Boxes({"switch": 1}, 1.0, 4.0, models)
    kinds = [Kind(10, 2.0, "air", {"p": 2})]
    menu = types_of(kinds, boxes, 27.0, 20.0, few=False)
    assert Type(1, 10, 2, 1, (3,)) in menu
    assert fewest_of(menu, [10], 2, [3]) == 1


def test_nodes_of_several_kinds_share_a_rack() -> None:
    """Two of one kind and one of another stand in one rack of three, though no kind has three nodes."""
    boxes = Boxes({}, 0.0, 0.0)
    kinds = [Kind(10, 2.0, "air", {"a": 1}), Kind(9, 2.0, "air", {"b": 2})]
    menu = types_of(kinds, boxes, 30.0, 20.0, few=False)
    assert fewest_of(menu, [10, 9, 9], 0, []) == 1


def test_a_menu_that_would_be_too_long_is_cut_down_and_holds_what_racks_hold() -> None:
    models = tuple(Model({f"m{k}": 1}, 1.0, 100 + 10 * k, 30) for k in range(3))
    boxes = Boxes({"switch": 1}, 1.0, 300.0, models)
    kinds = [Kind(w, 4.0, "air", {f"p{w}": 8}) for w in range(6000, 3000, -25)]
    menu = types_of(kinds, boxes, 45_000.0, 48.0, few=False)
    assert 0 < len(menu) < 400
    assert all(fits([t.watts] * t.nodes, t.slots, t.boxes, boxes, 45_000.0, 48.0, 4.0) for t in menu)
    assert {t.nodes for t in menu} >= {1, max(t.nodes for t in menu)}


def test_smaller_nodes_on_several_circuits_leave_more_slots() -> None:
    boxes = Boxes({"switch": 1}, 1.0, 300.0)
    kinds = [Kind(w, 0.0, "", {f"p{w}": 1}) for w in (1900, 1300, 1100)]
    assert [(t.watts, t.takes, t.slots) for t in bundles(kinds, boxes, 1000.0)] == [(1900, 2, 0), (1300, 2, 2)]
