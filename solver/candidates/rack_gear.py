"""Racks and circuits of own sites as gear: every node and box stands in a rack and hangs on a circuit.

A rack is planned as a type: so many nodes of at most so many watts each, and with what is left of its power and height, so
many boxes (switches, storage). A circuit likewise, by watts alone; a node that one circuit is too small for takes several
whole ones. Nodes of one height and cooling share types, a smaller one may take the place of a larger; a rack holds nodes of
one height. All of it is on the safe side, and the types on the bill say how everything can be put up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import polars as pl

from catalogs.catalog import Catalog
from problems.rooms import Circuit
from problems.schema import Problem, Site
from solver.candidates.frames import fx_rates, money_in
from solver.candidates.gear import GearContext, GearOption, GearRule, Made
from solver.candidates.rooms import COOLED_BY
from solver.candidates.terms import assumption
from solver.features.racks import circuit_w, default_phases, units_within, usable_w

RULE = "racks"
FULL_HEIGHT = 42.0
"""A system of this height and more is a rack of its own [U]: it takes the place of one, whatever height the others have."""
MOST_TYPES = 4
"""Types with the same number of nodes that differ in the watts of a node and in the boxes beside them."""


@dataclass(frozen=True)
class Kind:
    """Nodes that stand alike: height [U] and cooling decide where, watts how many; `pools` with their most nodes."""

    watts: int
    height: float
    cooling: str
    pools: dict[str, int]


@dataclass(frozen=True)
class Boxes:
    """Gear that stands in racks: slots are sized for the smaller class, `large` boxes take `fold` of them.

    `small`, `large`: boxes in one unit, by gear; `height`, `watts` of a slot.
    """

    small: dict[str, int]
    large: dict[str, int]
    height: float
    watts: float
    fold: int

    def slots(self, height: float, watts: float) -> int:
        """Slots in so much height and so many watts."""
        if not self.small:
            return 0
        tall = units_within(height, self.height) if self.height else 10**6
        return min(tall, units_within(watts, self.watts) if self.watts else tall)


@dataclass(frozen=True)
class Type:
    """One way to use a rack, or `takes` circuits: `nodes` of at most `watts` each, and `slots` for boxes."""

    nodes: int
    watts: int
    slots: int
    takes: int = 1


def rack_gear(context: GearContext) -> Made:
    """Racks and circuits of every site that counts or pays them."""
    options: list[GearOption] = []
    rules: list[GearRule] = []
    for site in context.found.problem.sites:
        if site.racks is not None:
            some, tied = _racks(site, context)
            options += some
            rules += tied
        if site.circuits:
            some, tied = _circuits(site, context)
            options += some
            rules += tied
    return options, rules


def _kinds(site: Site, context: GearContext) -> list[Kind]:
    """Kinds of nodes that could be held at a site, the largest first."""
    pools = context.found.pools
    held = pools.filter((pl.col("site") == site.name) & pl.col("pool").is_in(list(context.most_nodes)))
    groups: dict[tuple[int, float, str], dict[str, int]] = {}
    for row in held.sort("pool").iter_rows(named=True):
        most = context.most_nodes[row["pool"]]
        if most:
            key = (math.ceil(round(row["it_w"], 6)), float(row["rack_units"] or 0.0), row["cooling"] or "air")
            groups.setdefault(key, {})[row["pool"]] = most
    return [Kind(*key, pools) for key, pools in sorted(groups.items(), reverse=True)]


def _boxes(site: Site, context: GearContext) -> Boxes:
    """Boxes that could stand at a site: network gear is the smaller class, all else the larger."""
    here = [o for o in context.options if o.site == site.name and o.rack_units > 0]
    classes = [[o for o in here if (o.kind == "network") == small] for small in (True, False)]
    small, large = classes if classes[0] else (classes[1], [])
    height = max((o.rack_units for o in small), default=0.0)
    watts = max((o.it_w / o.pieces for o in small), default=0.0)
    folds = [math.ceil(o.rack_units / height - 1e-9) for o in large if height]
    folds += [math.ceil(o.it_w / o.pieces / watts - 1e-9) for o in large if watts]
    return Boxes({o.key: o.pieces for o in small}, {o.key: o.pieces for o in large}, height, watts, max([1, *folds]))


def rack_limit_w(site: Site, cooling: str, catalog: Catalog) -> float:
    """Watts of one rack: what the problem says, else what the best cooling of the room carries for such nodes."""
    assert site.racks is not None
    if site.racks.power is not None:
        return site.racks.power
    able = [c for c in site.cooling if c in COOLED_BY.get(cooling, ())]
    return max((assumption(catalog, f"rack_limit_{c}_w") for c in able), default=0.0)


def _types(kinds: Sequence[Kind], boxes: Boxes, watts: float, height: float | None) -> list[Type]:
    """Useful types of one rack or circuit for these kinds; `height` None: only watts count."""
    found: list[Type] = []

    def fit(kind: Kind) -> int:
        by_height = 10**6 if height is None or not kind.height else units_within(height, kind.height)
        if height is not None and kind.height >= FULL_HEIGHT:
            by_height = 1
        return min(by_height, units_within(watts, kind.watts) if kind.watts else 10**6)

    most = max((min(fit(k), sum(k.pools.values())) for k in kinds), default=0)
    for nodes in _counts(most):
        best = -1
        # From the largest node on: one that is smaller only earns a type of its own if it leaves more slots.
        for kind in [k for k in kinds if fit(k) >= nodes][: None if boxes.small else 1]:
            left = 10**6 if height is None else max(0.0, height - nodes * kind.height)
            slots = boxes.slots(left, watts - nodes * kind.watts)
            if slots > best and sum(t.nodes == nodes for t in found) < MOST_TYPES:
                found.append(Type(nodes, kind.watts, slots))
                best = slots
    # Fewer nodes in a rack only make sense where that leaves room for more boxes.
    return [
        t
        for t in found
        if not any(o.nodes >= t.nodes and o.watts >= t.watts and o.slots >= t.slots and o != t for o in found)
    ]


def _counts(most: int) -> list[int]:
    """Numbers of nodes in a rack that are considered: all of few, the upper ones and some of many."""
    if most <= 8:
        return list(range(most, 0, -1))
    return sorted({most, most - 1, most - 2, most - 4, most * 3 // 4, most // 2, most // 4, 1}, reverse=True)


def _standing_rows(kinds: Sequence[Kind], keys: dict[str, Type], limit: str) -> list[GearRule]:
    """Every node has a place: those larger than a type's watts stand in types for larger ones.

    Nodes that no type takes have none: that is up to the `limit`.
    """
    levels = [math.inf, *sorted({t.watts for t in keys.values() if t.nodes}, reverse=True), -1]
    rules = []
    for level, below in pairwise(levels):
        nodes = {pool: 1 for k in kinds if k.watts > below for pool in k.pools}
        places = {key: -t.nodes for key, t in keys.items() if t.watts >= level and t.nodes}
        if nodes:
            rules.append(GearRule(RULE, limit if level == math.inf else "", None, 0, nodes=nodes, gear=places))
    return rules


def _box_rows(boxes: Boxes, keys: dict[str, Type]) -> list[GearRule]:
    """Every box has its slots, large ones in one rack."""
    rules = []
    if boxes.small:
        taken = boxes.small | {key: n * boxes.fold for key, n in boxes.large.items()}
        rules.append(GearRule(RULE, "", None, 0, gear=taken | {k: -t.slots for k, t in keys.items() if t.slots}))
    if boxes.large:
        places = {k: -(t.slots // boxes.fold) for k, t in keys.items() if t.slots >= boxes.fold}
        rules.append(GearRule(RULE, "", None, 0, gear=boxes.large | places))
    return rules


def _parts(kind: Kind | None, shape: Type) -> tuple[str, ...]:
    """What stands in one: read again by who checks the plan."""
    lines = []
    if kind is not None and shape.nodes:
        tall = f" and {kind.height:g}U" if kind.height else ""
        lines.append(f"{shape.nodes} x node of up to {shape.watts} W{tall}")
    if shape.slots:
        lines.append(f"{shape.slots} x place for a switch or box")
    return tuple(lines)


def _racks(site: Site, context: GearContext) -> Made:
    catalog, problem = context.catalog, context.found.problem
    assert site.racks is not None
    boxes = _boxes(site, context)
    kinds = _kinds(site, context)
    monthly = _rack_price(site, problem, catalog)
    field = f"sites.{site.name}.racks"
    options: list[GearOption] = []
    rules: list[GearRule] = []
    every: dict[str, Type] = {}
    most_boxes = _most_boxes(boxes, context.options)

    def add(kind: Kind | None, shape: Type, most: int) -> str:
        tag = "boxes" if kind is None else f"{shape.watts}W-{kind.height:g}U-{kind.cooling.replace(' ', '_')}"
        key = f"rack {site.name} {tag} {shape.nodes}+{shape.slots}"
        parts = _parts(kind, shape)
        options.append(GearOption(key, "rack", "rack", site.name, site.name, most, monthly=monthly, parts=parts))
        every[key] = shape
        return key

    for (height, cooling), some in _grouped(kinds):
        limit = rack_limit_w(site, cooling, catalog)
        types = _types(some, boxes, limit, float(site.racks.units))
        most = sum(sum(k.pools.values()) for k in some)
        keys = {add(Kind(0, height, cooling, {}), t, math.ceil(most / t.nodes)): t for t in types}
        rules += _standing_rows(some, keys, field)
    if boxes.small:
        limit = max(rack_limit_w(site, c, catalog) for c in COOLED_BY)
        slots = boxes.slots(float(site.racks.units), limit)
        if slots:
            add(None, Type(0, 0, slots), math.ceil(most_boxes / max(1, slots // boxes.fold)) + 1)
    rules += _box_rows(boxes, every)
    if site.racks.count is not None:
        used = dict.fromkeys(every, 1)
        rules.append(GearRule(RULE, field, None, site.racks.count, gear=used))
    return options, rules


def _rack_price(site: Site, problem: Problem, catalog: Catalog) -> float:
    assert site.racks is not None
    return 0.0 if site.racks.price is None else money_in(site.racks.price, fx_rates(catalog, problem.currency))


def _most_boxes(boxes: Boxes, options: Iterable[GearOption]) -> int:
    """The most slots that boxes could ever ask for."""
    weight = boxes.small | {key: n * boxes.fold for key, n in boxes.large.items()}
    return sum(weight[o.key] * o.max_count for o in options if o.key in weight)


def _grouped(kinds: Sequence[Kind]) -> list[tuple[tuple[float, str], list[Kind]]]:
    """Kinds that share types, by height and cooling."""
    groups: dict[tuple[float, str], list[Kind]] = {}
    for kind in kinds:
        groups.setdefault((kind.height, kind.cooling), []).append(kind)
    return sorted(groups.items())


def circuit_watts(circuit: Circuit) -> float:
    """Watts that one circuit may carry continuously."""
    phases = circuit.phases or default_phases(circuit.volts)
    return circuit_w(circuit.volts, circuit.amps, phases, circuit.derate)


def circuit_text(circuit: Circuit) -> str:
    """A circuit as an electrician writes it."""
    return f"{circuit.volts:g} V {circuit.amps:g} A {circuit.phases or default_phases(circuit.volts)}ph"


def _circuits(site: Site, context: GearContext) -> Made:
    boxes = _boxes(site, context)
    kinds = _kinds(site, context)
    field = f"sites.{site.name}.circuits"
    options: list[GearOption] = []
    every: dict[str, Type] = {}
    rules: list[GearRule] = []
    for n, circuit in enumerate(site.circuits):
        watts = circuit_watts(circuit)
        working = int(usable_w(circuit.count, 1.0, site.redundancy))
        if not working:
            rules.append(GearRule(RULE, field, None, 0))
            continue
        types = _types([k for k in kinds if k.watts <= watts], boxes, watts, None) + _bundles(kinds, boxes, watts)
        slots = boxes.slots(10**6, watts)
        if slots:
            types.append(Type(0, 0, slots))
        used: dict[str, int] = {}
        for shape in types:
            key = f"circuit {site.name} {n} {shape.watts}W {shape.nodes}+{shape.slots}x{shape.takes}"
            kind = Kind(shape.watts, 0.0, "", {}) if shape.nodes else None
            options.append(
                GearOption(
                    key,
                    "rack",
                    f"circuit, {circuit_text(circuit)}",
                    site.name,
                    site.name,
                    working // shape.takes,
                    per_unit=float(shape.takes),
                    parts=_parts(kind, shape),
                )
            )
            every[key] = shape
            used[key] = shape.takes
        rules.append(GearRule(RULE, field, None, working, gear=used))
    return options, rules + _standing_rows(kinds, every, field) + _box_rows(boxes, every)


def _bundles(kinds: Sequence[Kind], boxes: Boxes, watts: float) -> list[Type]:
    """Nodes that take several whole circuits: one type for each number of them, by the largest such node."""
    found: dict[int, Type] = {}
    for kind in kinds:
        takes = math.ceil(kind.watts / watts - 1e-9)
        if takes > 1 and takes not in found:
            left = takes * boxes.slots(10**6, watts - kind.watts / takes)
            found[takes] = Type(1, kind.watts, left, takes)
    return list(found.values())
