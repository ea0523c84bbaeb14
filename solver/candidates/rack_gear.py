"""Racks and circuits of own sites as gear: every node and box stands in a rack and hangs on a circuit.

A rack is planned as a type: so many nodes of at most so many watts each, so many storage boxes of one model (of two where
racks are few), and with what is left of its power and height, so many places for switches. A circuit likewise, by watts
alone; a node that one circuit is too small for takes several whole ones. Nodes of one height and cooling share types, a
smaller one may take the place of a larger; a rack holds nodes of one height. All of it is on the safe side, and the types on
the bill say how everything can be put up (`solver.candidates.rack_menu`).
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
from solver.candidates.gear import GearContext, GearOption, GearRule, GearSum, Made
from solver.candidates.rack_menu import FEW, MOST_MODELS, Boxes, Kind, Loose, Model, Type, box_types, bundles, types_of
from solver.candidates.rooms import COOLED_BY
from solver.candidates.storage_network import nic_watts
from solver.candidates.terms import assumption
from solver.features.racks import circuit_w, default_phases, usable_w
from solver.features.storage_room import INSIDE

RULE = "racks"
SCALE = 100
"""Hundredths of units and watts, in which rooms are summed."""
MOST_APART = 300
"""With more pools than that at a site every node counts with a storage NIC, whether there is a storage network or not."""
COARSE = 4
"""Watts by which nodes with several storage NICs are told apart, where pools are so many."""


def rack_gear(context: GearContext) -> Made:
    """Racks and circuits of every site that counts or pays them."""
    options: list[GearOption] = []
    rules: list[GearRule] = []
    for site in context.found.problem.sites:
        if site.racks is None and not site.circuits:
            continue
        states, some, tied = _states(site, context)
        options += some
        rules += tied
        if site.racks is not None:
            some, tied = _racks(site, context, states)
            options += some
            rules += tied
        if site.circuits:
            some, tied = _circuits(site, context, states)
            options += some
            rules += tied
    return options, rules


@dataclass(frozen=True)
class State:
    """Nodes of a site as storage networks make them: `kinds` hold where the choice `but` is 0 (None: always), since every server
    that was built then has storage NICs of so many watts. `coarse`: told apart by few watts only, on the safe side.
    """

    kinds: list[Kind]
    but: str | None
    coarse: bool = False


Stated = tuple[list[State], list[GearOption], list[GearRule]]


def _states(site: Site, context: GearContext) -> Stated:
    """Nodes without storage NICs, with the largest one that a network may bring, and with one of each network.

    The choices that tell them apart: no storage network, and at most one. Of many pools the first two are one, with the NIC.
    """
    watts = nic_watts(context.options, site.name)
    largest, every = max(watts.values(), default=0.0), sum(watts.values())
    options: list[GearOption] = []
    rules: list[GearRule] = []

    def choice(name: str, needed: int) -> str:
        key = f"rack-{name} {site.name}"
        options.append(GearOption(key, "choice", key, None, "", 1))
        rules.append(GearRule(RULE, "", None, 0, gear={**dict.fromkeys(watts, -1), key: needed}))
        return key

    plain = _kinds(site, context, 0.0)
    many = sum(len(k.pools) for k in plain) > MOST_APART
    states = [State(_kinds(site, context, largest) if many else plain, None)]
    if watts and not many:
        states.append(State(_kinds(site, context, largest), choice("none", len(watts))))
    if len(watts) > 1:
        states.append(State(_kinds(site, context, every), choice("one", len(watts) - 1), many))
    return states, options, rules


def _all_kinds(states: Sequence[State]) -> list[Kind]:
    """Kinds of nodes of every state, the largest first; a pool counts once."""
    groups: dict[tuple[int, float, str], dict[str, int]] = {}
    for n, state in enumerate(states):
        for k in () if state.coarse else state.kinds:
            groups.setdefault((k.watts, k.height, k.cooling), {}).update({} if n else k.pools)
    return [Kind(*key, pools) for key, pools in sorted(groups.items(), reverse=True)]


def _kinds(site: Site, context: GearContext, nic_w: float) -> list[Kind]:
    """Kinds of nodes that could be held at a site, the largest first; `nic_w`: of the storage NICs of each that was built [W]."""
    pools = context.found.pools
    held = pools.filter((pl.col("site") == site.name) & pl.col("pool").is_in(list(context.most_nodes)))
    groups: dict[tuple[int, float, str], dict[str, int]] = {}
    read = held.sort("pool").select("pool", "storage_room", "it_w", "rack_units", "cooling")
    for row in read.iter_rows(named=True):
        most = context.most_nodes[row["pool"]]
        if most:
            inside = row["storage_room"] in (None, INSIDE)
            watts = row["it_w"] + (0.0 if inside else nic_w)
            key = (math.ceil(round(watts, 6)), float(row["rack_units"] or 0.0), row["cooling"] or "air")
            groups.setdefault(key, {})[row["pool"]] = most
    return [Kind(*key, pools) for key, pools in sorted(groups.items(), reverse=True)]


def _boxes(site: Site, context: GearContext) -> Boxes:
    """Boxes that could stand at a site: network gear in slots, storage by model."""
    here = [o for o in context.options if o.site == site.name and o.rack_units > 0]
    small = [o for o in here if o.kind == "network"]
    large = [o for o in here if o.kind != "network"]
    by_item = len({(o.item, o.rack_units) for o in large}) <= MOST_MODELS
    groups: dict[tuple[str, float], list[GearOption]] = {}
    for o in large:
        groups.setdefault((o.item if by_item else "", o.rack_units), []).append(o)
    models = tuple(
        Model(
            boxes={o.key: o.pieces for o in some},
            height=height,
            watts=max(math.ceil(round(_box_w(o), 6)) for o in some),
            most=sum(o.pieces * o.max_count for o in some),
        )
        for (_, height), some in sorted(groups.items())
    )
    height = max((o.rack_units for o in small), default=0.0)
    return Boxes({o.key: o.pieces for o in small}, height, max((_box_w(o) for o in small), default=0.0), models)


def _box_w(option: GearOption) -> float:
    """Nameplate of one box with what stands in it."""
    return option.it_w / option.pieces if option.rack_w is None else option.rack_w


def rack_limit_w(site: Site, cooling: str, catalog: Catalog) -> float:
    """Watts of one rack: what the problem says, else what the best cooling of the room carries for such nodes."""
    assert site.racks is not None
    if site.racks.power is not None:
        return site.racks.power
    able = [c for c in site.cooling if c in COOLED_BY.get(cooling, ())]
    return max((assumption(catalog, f"rack_limit_{c}_w") for c in able), default=0.0)


def _standing_rows(states: Sequence[State], keys: dict[str, Type], limit: str) -> list[GearRule]:
    """Every node has a place: those larger than a type's watts stand in types for larger ones.

    Nodes that no type takes have none: that is up to the `limit`.
    """
    watts = sorted({t.watts for t in keys.values() if t.nodes}, reverse=True)
    rules: list[GearRule] = []
    told: list[dict[str, float]] = []
    for state in states:
        some = watts[:: -(-len(watts) // COARSE)] if state.coarse and watts else watts
        chain, most = object(), 0
        held: dict[GearSum, int] = {}
        since: dict[str, float] = {}
        for level, below in pairwise([math.inf, *some, -1]):
            more = {pool: n for k in state.kinds if below < k.watts <= level for pool, n in k.pools.items()}
            if more:
                held[GearSum(dict.fromkeys(more, 1), chain=chain)] = 1
                most += sum(more.values())
                since.update(dict.fromkeys(more, level))
            if not most or any(_same(since, other, level) for other in told):
                continue
            places = {key: -t.nodes for key, t in keys.items() if t.watts >= level and t.nodes}
            gear = places if state.but is None else {**places, state.but: -most}
            about = limit if level == math.inf else ""
            rules.append(GearRule(RULE, about, None, 0, sums=dict(held), gear=gear))
        told.append(since)
    return rules


def _same(since: dict[str, float], other: dict[str, float], level: float) -> bool:
    """Whether the rows of a level are about the same nodes in two states; they are of those that came in at it or before."""
    return all(other.get(pool, -1) >= level for pool in since) and all(
        pool in since for pool, at in other.items() if at >= level
    )


def _box_rows(boxes: Boxes, keys: dict[str, Type]) -> list[GearRule]:
    """Every switch has its slot, every storage box a place of its model."""
    rules = []
    cut = any(t.likely for t in keys.values())

    def row(ours: dict[str, int], places: dict[str, int], loose: dict[str, int]) -> None:
        gear, wide = ({k: -n for k, n in some.items() if n} for some in (places, loose))
        rules.append(GearRule(RULE, "", None, 0, gear=ours | gear, loose=ours | wide if cut else {}))

    if boxes.small:
        row(boxes.small, *({k: t.slots for k, t in some.items()} for some in (keys, _loose(keys))))
    for n, model in enumerate(boxes.models):
        row(model.boxes, *({k: t.boxes[n] for k, t in some.items() if t.boxes} for some in (keys, _loose(keys))))
    return rules


Room = tuple[float, float]
"""Height [U] and watts that a rack or circuit leaves for boxes."""


def _room_rows(boxes: Boxes, rooms: dict[str, Room], keys: dict[str, Type]) -> list[GearRule]:
    """Where menus are loosened: boxes together are no higher and draw no more than what all racks leave for them."""
    if not any(t.likely for t in keys.values()):
        return []
    kinds = [(boxes.small, boxes.height, boxes.watts), *((m.boxes, m.height, m.watts) for m in boxes.models)]
    rules = []
    for n in (0, 1):
        taken = {k: pieces * math.floor(SCALE * each[n] + 1e-6) for some, *each in kinds for k, pieces in some.items()}
        wide = {k: rooms[k] if t.loose is None else (t.loose.height, t.loose.watts) for k, t in keys.items()}
        left = {k: -math.ceil(SCALE * room[n] - 1e-6) for k, room in wide.items()}
        rules.append(GearRule(RULE, "", None, 0, loose=taken | left))
    return rules


def _loose(keys: dict[str, Type]) -> dict[str, Type | Loose]:
    """Types with the places that they carry for others, where they do."""
    return {k: t if t.loose is None else t.loose for k, t in keys.items()}


def _narrow(shape: Type) -> bool:
    """Whether another type carries what this one can hold where menus are loosened."""
    return shape.likely and shape.loose is None


def _parts(kind: Kind | None, shape: Type, boxes: Boxes, *, tall: bool) -> tuple[str, ...]:
    """What stands in one: read again by who checks the plan."""
    lines = []
    if kind is not None and shape.nodes:
        high = f" and {kind.height:g}U" if kind.height else ""
        lines.append(f"{shape.nodes} x node of up to {shape.watts} W{high}")
    for count, model in zip(shape.boxes, boxes.models, strict=False):
        if count:
            high = f" and {model.height:g}U" if tall else ""
            lines.append(f"{count} x place for storage of up to {model.watts} W{high}")
    if shape.slots:
        lines.append(f"{shape.slots} x place for a switch or box")
    return tuple(lines)


def _tag(shape: Type) -> str:
    """Nodes, slots and storage boxes of a type, for its key."""
    return "+".join(str(n) for n in (shape.nodes, shape.slots, *(shape.boxes if any(shape.boxes) else ())))


def _racks(site: Site, context: GearContext, states: Sequence[State]) -> Made:
    catalog, problem = context.catalog, context.found.problem
    assert site.racks is not None
    boxes = _boxes(site, context)
    monthly = _rack_price(site, problem, catalog)
    field = f"sites.{site.name}.racks"
    options: list[GearOption] = []
    rules: list[GearRule] = []
    every: dict[str, Type] = {}
    rooms: dict[str, Room] = {}
    units = float(site.racks.units)
    few = site.racks.count is not None and site.racks.count <= FEW

    def add(kind: Kind | None, shape: Type, most: int, limit: float) -> str:
        tag = "boxes" if kind is None else f"{shape.watts}W-{kind.height:g}U-{kind.cooling.replace(' ', '_')}"
        key = f"rack {site.name} {tag} {_tag(shape)}"
        parts = _parts(kind, shape, boxes, tall=True)
        options.append(
            GearOption(
                key, "rack", "rack", site.name, site.name, most, monthly=monthly, parts=parts, narrow=_narrow(shape)
            )
        )
        every[key] = shape
        rooms[key] = (
            max(0.0, units - shape.nodes * (0.0 if kind is None else kind.height)),
            limit - shape.nodes * shape.watts,
        )
        return key

    for (height, cooling), some in _grouped(_all_kinds(states)):
        limit = rack_limit_w(site, cooling, catalog)
        types = types_of(some, boxes, limit, units, few=few)
        most = sum(sum(k.pools.values()) for k in some)
        keys = {add(Kind(0, height, cooling, {}), t, math.ceil(most / _fewest(t)), limit): t for t in types}
        like = [
            State([k for k in state.kinds if (k.height, k.cooling) == (height, cooling)], state.but) for state in states
        ]
        rules += _standing_rows(like, keys, field)
    limit = max(rack_limit_w(site, c, catalog) for c in COOLED_BY)
    for shape in box_types(boxes, units, limit, few=few):
        add(None, shape, _most_boxes(shape, boxes, context.options), limit)
    rules += _box_rows(boxes, every) + _room_rows(boxes, rooms, every)
    if site.racks.count is not None:
        used = dict.fromkeys(every, 1)
        rules.append(GearRule(RULE, field, None, site.racks.count, gear=used))
    return options, rules


def _fewest(shape: Type) -> int:
    """The fewest nodes in a rack that it is, or carries."""
    return shape.nodes if shape.loose is None else min(shape.nodes, shape.loose.fewest)


def _rack_price(site: Site, problem: Problem, catalog: Catalog) -> float:
    assert site.racks is not None
    return 0.0 if site.racks.price is None else money_in(site.racks.price, fx_rates(catalog, problem.currency))


def _most_boxes(shape: Type, boxes: Boxes, options: Iterable[GearOption]) -> int:
    """The most racks of a type without nodes that boxes could ever ask for."""
    switches = sum(boxes.small[o.key] * o.max_count for o in options if o.key in boxes.small)
    wide = [] if shape.loose is None else [shape.loose]
    asked = [(switches, shape.slots), *((switches, x.slots) for x in wide)]
    for places in (shape.boxes, *(x.boxes for x in wide)):
        asked += [(m.most, n) for m, n in zip(boxes.models, places, strict=False)]
    return max(math.ceil(most / n) for most, n in asked if n) + 1


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


def _circuits(site: Site, context: GearContext, states: Sequence[State]) -> Made:
    boxes = _boxes(site, context)
    kinds = _all_kinds(states)
    field = f"sites.{site.name}.circuits"
    options: list[GearOption] = []
    every: dict[str, Type] = {}
    rooms: dict[str, Room] = {}
    rules: list[GearRule] = []
    for n, circuit in enumerate(site.circuits):
        watts = circuit_watts(circuit)
        working = int(usable_w(circuit.count, 1.0, site.redundancy))
        if not working:
            rules.append(GearRule(RULE, field, None, 0))
            continue
        few = working <= FEW
        types = types_of([k for k in kinds if k.watts <= watts], boxes, watts, None, few=few)
        types += bundles(kinds, boxes, watts) + box_types(boxes, 10**6, watts, few=few)
        used: dict[str, int] = {}
        for shape in types:
            key = f"circuit {site.name} {n} {shape.watts}W {_tag(shape)}x{shape.takes}"
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
                    parts=_parts(kind, shape, boxes, tall=False),
                    narrow=_narrow(shape),
                )
            )
            every[key] = shape
            rooms[key] = 10.0**6 * shape.takes, shape.takes * watts - shape.nodes * shape.watts
            used[key] = shape.takes
        rules.append(GearRule(RULE, field, None, working, gear=used))
    rules += _standing_rows(states, every, field) + _box_rows(boxes, every) + _room_rows(boxes, rooms, every)
    return options, rules
