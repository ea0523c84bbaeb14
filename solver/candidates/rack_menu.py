"""The menu of rack and circuit types of a site: what of nodes, switches and storage boxes one of them may hold.

Types are made from the candidates that are left after others that they equal or beat. That loses nothing where the menu is whole
(`_whole_menu`): every number of nodes, with the watts of every kind of node at which more fits beside them, and every number
of boxes of each model. For let a plan have some nodes that went, with types of a menu made from all kinds. Each of these nodes
may be swapped for one that stayed of the same height and cooling and no more watts. In a rack with n nodes, w the watts of the
largest once they are swapped: n nodes of w leave no less room than the type did that the rack had, whose watts were no less; so
the whole menu of what is left has a type with n nodes of w and the same boxes and slots, or one that covers it. The racks are
as many, and cost as much.

Menus of more than `MOST_IN_MENU` types (many kinds of nodes beside storage boxes of several models) are cut down to likely ones
(`_likely_types`), of which some carry what was left out: their `loose` places. Let a rack of a plan hold n nodes, n > 0. It leaves
no more room than n of the lightest kind, so it has no more slots, and no more places for each model by itself, than fit in that; and
its nodes draw no more than the largest of which n fit. A type of at least n nodes of at least those watts, with those slots and
places, is therefore as good for it; and as every rack counts with the nodes that it holds, racks of n are no more than all nodes
together / n. Likewise one type without nodes, with all that an empty rack takes of each. And all boxes together are no higher and
draw no more than all racks leave beside their nodes. So the problem in which carriers have
their loose places (`solver.loosened`) has a plan for every plan of the whole menu, with the same nodes, gear and cost: its bound
holds for the whole menu, and a plan of likely types that meets it is the best of all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from solver.features.racks import units_within

FULL_HEIGHT = 42.0
"""A system of this height and more is a rack of its own [U]: it takes the place of one, whatever height the others have."""
MOST_TYPES = 4
"""Types with the same number of nodes and storage boxes that differ in the watts of a node and in the switches beside them."""
MOST_MODELS = 4
"""Storage boxes of more models than this are told apart by their height alone."""
FEW = 4
"""Up to so many racks or circuits, storage boxes of two models may share one, where the menu is cut down."""
MOST_IN_MENU = 80
"""A menu of so many types is whole; of one that would be larger only likely types are offered."""
MOST_LOOKED_AT = 400
"""Of a menu that begins with more types than that, what others cover is not even looked for."""


@dataclass(frozen=True)
class Kind:
    """Nodes that stand alike: height [U] and cooling decide where, watts how many; `pools` with their most nodes."""

    watts: int
    height: float
    cooling: str
    pools: dict[str, int]


@dataclass(frozen=True)
class Model:
    """Storage boxes that stand alike: `boxes` in one unit, by gear; height [U] and watts of one box with its drives."""

    boxes: dict[str, int]
    height: float
    watts: int
    most: int

    def fit(self, height: float, watts: float) -> int:
        """How many there could be in so much height and so many watts."""
        tall = units_within(height, self.height) if self.height else self.most
        return min(self.most, tall, units_within(watts, self.watts) if self.watts else self.most)


@dataclass(frozen=True)
class Boxes:
    """Gear that stands in racks: switches take slots of one size, storage boxes places of their own model.

    `small`: switches in one unit, by gear; `height`, `watts` of a slot.
    """

    small: dict[str, int]
    height: float
    watts: float
    models: tuple[Model, ...] = ()

    def slots(self, height: float, watts: float) -> int:
        """Slots in so much height and so many watts."""
        if not self.small:
            return 0
        tall = units_within(height, self.height) if self.height else 10**6
        return min(tall, units_within(watts, self.watts) if self.watts else tall)

    def fillings(self, height: float, watts: float, *, few: bool) -> list[tuple[tuple[int, ...], int]]:
        """Ways to fill so much height and so many watts: storage boxes by model, and slots beside them.

        Of one model, two or as many as fit; where racks are `few`, also one, and two models together.
        """
        return self._filled(
            height, watts, lambda fit: {0, *(n for n in ((1, 2, fit) if few else (2, fit)) if n <= fit)}, 1 + few
        )

    def every_filling(self, height: float, watts: float) -> list[Filling]:
        """All ways to fill so much height and so many watts."""
        return self._filled(height, watts, lambda fit: set(range(fit + 1)), len(self.models))

    def _filled(
        self, height: float, watts: float, numbers: Callable[[int], set[int]], most_models: int
    ) -> list[Filling]:
        found: list[tuple[int, ...]] = [()]
        for model in self.models:
            fit = model.fit(height, watts)
            some = sorted(numbers(fit))
            found = [(*f, n) for f in found for n in some if n == 0 or sum(k > 0 for k in f) < most_models]
        out = []
        for counts in found:
            tall = height - sum(n * m.height for n, m in zip(counts, self.models, strict=True))
            left = watts - sum(n * m.watts for n, m in zip(counts, self.models, strict=True))
            if tall >= -1e-9 and left >= -1e-9:
                out.append((counts, self.slots(max(0.0, tall), max(0.0, left))))
        return out


Filling = tuple[tuple[int, ...], int]
"""Storage boxes by model, and slots beside them."""


@dataclass(frozen=True)
class Loose:
    """At least the places of every type that was left out for another: `fewest` nodes in one of these, slots, boxes by model.

    `height` [U] and `watts` are what all boxes together have in one of them.
    """

    fewest: int
    slots: int
    boxes: tuple[int, ...]
    height: float
    watts: float


@dataclass(frozen=True)
class Type:
    """One way to use a rack, or `takes` circuits: `nodes` of at most `watts` each, `slots` for switches, storage `boxes` by model.

    `likely`: one of a menu that was cut down; `loose`: what it carries of those that were left out, where it does.
    """

    nodes: int
    watts: int
    slots: int
    takes: int = 1
    boxes: tuple[int, ...] = ()
    likely: bool = False
    loose: Loose | None = None

    def covers(self, other: Type) -> bool:
        """Whether it has all places that another has."""
        ours = self.boxes or (0,) * len(other.boxes)
        theirs = other.boxes or (0,) * len(self.boxes)
        return (
            self.nodes >= other.nodes
            and self.watts >= other.watts
            and self.slots >= other.slots
            and all(a >= b for a, b in zip(ours, theirs, strict=True))
        )


def types_of(kinds: Sequence[Kind], boxes: Boxes, watts: float, height: float | None, *, few: bool) -> list[Type]:
    """Useful types of one rack or circuit for these kinds, the largest first; `height` None: only watts count."""
    whole = _whole_menu(kinds, boxes, watts, height)
    if whole is not None:
        return whole
    return _carrying(_likely_types(kinds, boxes, watts, height, few=few), kinds, boxes, watts, height)


def _fit(kind: Kind, watts: float, height: float | None) -> int:
    by_height = 10**6 if height is None or not kind.height else units_within(height, kind.height)
    if height is not None and kind.height >= FULL_HEIGHT:
        by_height = 1
    return min(by_height, units_within(watts, kind.watts) if kind.watts else 10**6)


def _most_nodes(kinds: Sequence[Kind], watts: float, height: float | None) -> int:
    # Nodes of several kinds may stand in one rack.
    return min(max((_fit(k, watts, height) for k in kinds), default=0), sum(sum(k.pools.values()) for k in kinds))


def _height_left(kinds: Sequence[Kind], nodes: int, height: float | None) -> float:
    return 10**6 if height is None or not kinds else max(0.0, height - nodes * kinds[0].height)


def _whole_menu(kinds: Sequence[Kind], boxes: Boxes, watts: float, height: float | None) -> list[Type] | None:
    """All types that no other covers; None where they are too many."""
    most = _most_nodes(kinds, watts, height)
    ways = math.prod(m.fit(_height_left(kinds, 0, height), watts) + 1 for m in boxes.models)
    if most * ways > MOST_LOOKED_AT:
        return None
    found: list[Type] = []
    for nodes in range(most, 0, -1):
        fitting = [k for k in kinds if _fit(k, watts, height) >= nodes]
        left = _height_left(kinds, nodes, height)
        best: dict[tuple[int, ...], int] = {}

        def filled(at: int, nodes: int = nodes, left: float = left, some: list[Kind] = fitting) -> list[Filling]:
            return boxes.every_filling(left, watts - nodes * some[at].watts)

        for at, fillings in _changes(filled, len(fitting) if boxes.small or boxes.models else min(1, len(fitting))):
            for counts, slots in fillings:
                if slots > best.get(counts, -1):
                    found.append(Type(nodes, fitting[at].watts, slots, 1, counts))
                    best[counts] = slots
        if len(found) > MOST_LOOKED_AT:
            return None
    useful = _useful(found)
    return useful if len(useful) <= MOST_IN_MENU else None


def _likely_types(kinds: Sequence[Kind], boxes: Boxes, watts: float, height: float | None, *, few: bool) -> list[Type]:
    """Part of the menu of one rack or circuit: numbers of nodes, of boxes and of kinds that are likely to do."""
    found: list[Type] = []
    most = _most_nodes(kinds, watts, height)
    for nodes in _counts(most):
        best: dict[tuple[int, ...], int] = {}
        seen: dict[tuple[int, ...], int] = {}
        fitting = [k for k in kinds if _fit(k, watts, height) >= nodes]
        left = _height_left(kinds, nodes, height)

        def filled(at: int, nodes: int = nodes, left: float = left, some: list[Kind] = fitting) -> list[Filling]:
            return boxes.fillings(left, watts - nodes * some[at].watts, few=few)

        # From the largest node on: one that is smaller only earns a type of its own if it leaves more room.
        for at, fillings in _changes(filled, len(fitting) if boxes.small or boxes.models else min(1, len(fitting))):
            for counts, slots in fillings:
                # As many as fit differs from kind to kind: counted as one.
                like = tuple(min(n, 3) for n in counts)
                most_types = MOST_TYPES if few or max(like, default=0) < 3 else 2
                if slots > best.get(counts, -1) and seen.get(like, 0) < most_types:
                    found.append(Type(nodes, fitting[at].watts, slots, 1, counts))
                    best[counts], seen[like] = slots, seen.get(like, 0) + 1
    return _useful(found)


def _carrying(
    likely: list[Type], kinds: Sequence[Kind], boxes: Boxes, watts: float, height: float | None
) -> list[Type]:
    """Likely types with what they carry of the rest; for a number of nodes that none could carry, one more."""
    menu = [replace(t, likely=True) for t in likely]
    carried: dict[int, list[Loose]] = {}
    for nodes in range(_most_nodes(kinds, watts, height), 0, -1):
        fitting = [k for k in kinds if _fit(k, watts, height) >= nodes]
        left, heaviest = _height_left(kinds, nodes, height), fitting[0].watts
        able = [at for at, t in enumerate(menu) if t.nodes >= nodes and t.watts >= heaviest]
        if not able:
            slots = boxes.slots(left, watts - nodes * heaviest)
            menu.append(Type(nodes, heaviest, slots, 1, (0,) * len(boxes.models), likely=True))
            able = [len(menu) - 1]
        at = min(able, key=lambda n: (menu[n].nodes, n))
        carried.setdefault(at, []).append(_most_beside(boxes, nodes, left, watts - nodes * fitting[-1].watts))
    return [replace(t, loose=_together(carried[at])) if at in carried else t for at, t in enumerate(menu)]


def _most_beside(boxes: Boxes, nodes: int, height: float, watts: float) -> Loose:
    """The most slots, and the most places for each model by itself, in so much height and so many watts."""
    fit = tuple(m.fit(height, watts) for m in boxes.models)
    return Loose(nodes, boxes.slots(height, watts), fit, height, watts)


def _together(some: Sequence[Loose]) -> Loose:
    boxes = tuple(max(n) for n in zip(*(x.boxes for x in some), strict=True))
    room = max(x.height for x in some), max(x.watts for x in some)
    return Loose(min(x.fewest for x in some), max(x.slots for x in some), boxes, *room)


def _changes(filled: Callable[[int], list[Filling]], count: int) -> Iterator[tuple[int, list[Filling]]]:
    """The first of `count` nodes, and every one that leaves other room than the one before; room only grows along them."""

    def between(
        low: int, at_low: list[Filling], high: int, at_high: list[Filling]
    ) -> Iterator[tuple[int, list[Filling]]]:
        if at_low == at_high:
            return
        if high - low == 1:
            yield high, at_high
            return
        middle = (low + high) // 2
        at_middle = filled(middle)
        yield from between(low, at_low, middle, at_middle)
        yield from between(middle, at_middle, high, at_high)

    if count:
        first, last = filled(0), filled(count - 1)
        yield 0, first
        yield from between(0, first, count - 1, last)


def _useful(types: list[Type]) -> list[Type]:
    """Without those that another covers: fewer nodes only make sense where that leaves room for more boxes."""
    return [t for t in types if not any(o != t and o.covers(t) for o in types)]


def _counts(most: int) -> list[int]:
    """Numbers of nodes in a rack that are considered: all of few, the upper ones and some of many."""
    if most <= 8:
        return list(range(most, 0, -1))
    return sorted({most, most - 1, most - 2, most - 4, most * 3 // 4, most // 2, most // 4, 1}, reverse=True)


def box_types(boxes: Boxes, height: float, watts: float, *, few: bool) -> list[Type]:
    """Useful types of a rack or circuit without nodes: all, or likely ones where there are too many."""
    if math.prod(m.fit(height, watts) + 1 for m in boxes.models) <= MOST_LOOKED_AT:
        every = [Type(0, 0, slots, 1, counts) for counts, slots in boxes.every_filling(height, watts)]
        useful = [t for t in _useful(every) if t.slots or any(t.boxes)]
        if len(useful) <= MOST_IN_MENU:
            return useful
    made = [Type(0, 0, slots, 1, counts) for counts, slots in boxes.fillings(height, watts, few=few)]
    likely = [replace(t, likely=True) for t in _useful(made) if t.slots or any(t.boxes)]
    return [replace(t, loose=_most_beside(boxes, 0, height, watts)) if n == 0 else t for n, t in enumerate(likely)]


def bundles(kinds: Sequence[Kind], boxes: Boxes, watts: float) -> list[Type]:
    """Nodes that take several whole circuits: types for each number of them, by the largest such node that leaves so many slots."""
    found: list[Type] = []
    most: dict[int, int] = {}
    for kind in kinds:
        takes = math.ceil(kind.watts / watts - 1e-9)
        if takes > 1:
            left = takes * boxes.slots(10**6, watts - kind.watts / takes)
            if left > most.get(takes, -1):
                found.append(Type(1, kind.watts, left, takes))
                most[takes] = left
    return found
