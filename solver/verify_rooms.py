"""Recheck that what a plan puts into own rooms can be put up there: racks, circuits and cooling.

The bill lists racks and circuits by type: so many nodes of at most so many watts, so many boxes. Each type must be possible
in the room, and all nodes and boxes must find places in what is listed.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass

import polars as pl

from catalogs.catalog import Catalog
from problems.rooms import Circuit
from problems.schema import Problem, Site
from solver.plan import Item, Result
from solver.verify_boxes import box_height, full_box_w, is_box
from solver.verify_gear import box_count, box_w, is_bought
from solver.verify_money import part_list
from solver.verify_places import nameplate_w
from solver.verify_storage_network import added_w
from solver.verify_tariff import money_of

NODES = re.compile(r"(\d+) x node of up to (\d+) W(?: and (\d+(?:\.\d+)?)U)?")
PLACES = re.compile(r"(\d+) x place for a switch or box")
STORES = re.compile(r"(\d+) x place for storage of up to (\d+) W(?: and (\d+(?:\.\d+)?)U)?")
CLASSES = {"air": {"air", "rear_door"}, "liquid": {"liquid"}, "air or liquid": {"air", "rear_door", "liquid"}}
WHOLE_RACK = 42.0
"""Height from which a system is a rack of its own [U]."""


@dataclass(frozen=True)
class Place:
    """A type of rack or circuit on the bill: nodes of at most `watts` each, switches, storage (count, watts and height of each
    size), and how many of it there are."""

    nodes: int
    watts: float
    height: float
    boxes: int
    cooling: str
    count: int
    circuit: int | None = None
    stores: tuple[tuple[int, float, float], ...] = ()

    @property
    def stores_w(self) -> float:
        """Watts that its places for storage may take."""
        return sum(n * watts for n, watts, _ in self.stores)


@dataclass(frozen=True)
class Node:
    """Servers of one line: watts of each after its power limit, height, cooling."""

    watts: float
    height: float
    cooling: str
    count: int


def check_rooms(result: Result, problem: Problem, catalog: Catalog) -> list[str]:
    """Cooling, racks and circuits of every own site."""
    wrong: list[str] = []
    for site in problem.sites:
        nodes = _nodes(result, site, catalog)
        for node in nodes:
            if not CLASSES.get(node.cooling, set()) & set(site.cooling):
                wrong.append(
                    f"{site.name}: a server needs {node.cooling} cooling, the room has {', '.join(site.cooling)}"
                )
        switches = [i for i in result.items if i.site == site.name and is_bought(i) and box_count(i)]
        boxes = sum(box_count(i) for i in switches)
        each_w = max((box_w(i, catalog) for i in switches), default=0.0)
        stores = [
            Node(full_box_w(i, catalog), box_height(i, catalog), "", round(i.quantity))
            for i in result.items
            if i.site == site.name and is_bought(i) and is_box(i)
        ]
        if site.racks is not None:
            wrong += _check_racks(result, problem, catalog, site, nodes, boxes, each_w)
            wrong += _check_stores(result, site, stores, "rack")
        if site.circuits:
            wrong += _check_circuits(result, site, nodes, boxes, each_w)
            wrong += _check_stores(result, site, stores, "circuit")
    return wrong


def _check_stores(result: Result, site: Site, stores: list[Node], what: str) -> list[str]:
    """Storage boxes find places of their height and watts."""
    places = [p for _, p in _places(result, site, what)]
    wrong = []
    for height in sorted({s.height for s in stores}) if what == "rack" else [None]:
        some = [s for s in stores if height is None or s.height == height]
        room = [(w, n * p.count) for p in places for n, w, h in p.stores if height is None or h == height]
        missing = _unplaced(some, room)
        if missing:
            tall = "" if height is None else f" of {height:g}U"
            wrong.append(f"{site.name}: {missing} storage boxes{tall} in no {what}")
    return wrong


def _nodes(result: Result, site: Site, catalog: Catalog) -> list[Node]:
    out = []
    for item in result.items:
        if item.kind != "server" or item.site != site.name or not item.quantity:
            continue
        parts = part_list(item)
        found = catalog.servers.filter(pl.col("server") == (parts[0][1] if parts else ""))
        if found.is_empty():
            continue  # refused elsewhere
        server = found.row(0, named=True)
        height = float(server["rack_units"] or 0.0)
        cooling = server["cooling"] or "air"
        watts = nameplate_w(item, catalog) + added_w(item, result, catalog)
        out.append(Node(watts, height, cooling, round(item.quantity)))
    return out


def _places(result: Result, site: Site, what: str) -> list[tuple[Item, Place]]:
    """Racks or circuits on the bill."""
    out = []
    for item in result.items:
        key = (item.gear or "").split(" ")
        if item.kind != "rack" or key[0] != what or item.site != site.name or len(key) < 3 or key[1] != site.name:
            continue
        nodes = next((m for p in item.parts if (m := NODES.fullmatch(p))), None)
        boxes = next((m for p in item.parts if (m := PLACES.fullmatch(p))), None)
        tag = key[2].split("-")
        place = Place(
            nodes=int(nodes[1]) if nodes else 0,
            watts=float(nodes[2]) if nodes else 0.0,
            height=float(nodes[3] or 0.0) if nodes else 0.0,
            boxes=int(boxes[1]) if boxes else 0,
            cooling=tag[2].replace("_", " ") if what == "rack" and len(tag) == 3 else "",
            count=round(item.quantity),
            circuit=int(key[2]) if what == "circuit" else None,
            stores=tuple(
                (int(m[1]), float(m[2]), float(m[3] or 0.0)) for p in item.parts if (m := STORES.fullmatch(p))
            ),
        )
        out.append((item, place))
    return out


def _unplaced(nodes: list[Node], places: list[tuple[float, int]]) -> int:
    """Nodes that find no place when the largest go first into the largest places."""
    free = sorted(places, reverse=True)
    missing = 0
    taken = 0  # places used so far, counted over all places large enough for the present node
    for node in sorted(nodes, key=lambda n: -n.watts):
        room = sum(count for watts, count in free if watts >= node.watts - 1e-6)
        fits = min(node.count, max(0, room - taken))
        taken += fits
        missing += node.count - fits
    return missing


def _check_racks(
    result: Result, problem: Problem, catalog: Catalog, site: Site, nodes: list[Node], boxes: int, each_w: float
) -> list[str]:
    assert site.racks is not None
    wrong = []
    listed = _places(result, site, "rack")
    tall = catalog.assumption("switch_rack_units")
    price = 0.0 if site.racks.price is None else money_of(site.racks.price, problem, catalog)
    for item, place in listed:
        needs = CLASSES.get(place.cooling, {"air", "rear_door", "liquid"}) & set(site.cooling)
        most = site.racks.power or max((catalog.assumption(f"rack_limit_{c}_w") for c in needs), default=0.0)
        if place.nodes * place.watts + place.boxes * each_w + place.stores_w > most * (1 + 1e-9) + 1e-6:
            wrong.append(f"{site.name}: more than {most:.0f} W in a rack ({'; '.join(item.parts)})")
        height = place.nodes * place.height + place.boxes * tall + sum(n * h for n, _, h in place.stores)
        own = place.nodes == 1 and place.height >= WHOLE_RACK and not place.boxes and not place.stores
        if height > site.racks.units + 1e-9 and not own:
            wrong.append(f"{site.name}: more than {site.racks.units}U in a rack ({'; '.join(item.parts)})")
        due = price * problem.horizon
        if abs(float(item.unit_cost) - due) > 0.011 + 1e-9 * due:
            wrong.append(f"{site.name}: {item.unit_cost} for a rack, {due:.2f} due")
    count = sum(p.count for _, p in listed)
    if site.racks.count is not None and count > site.racks.count:
        wrong.append(f"{site.name}: {count} racks of {site.racks.count}")
    kinds: dict[tuple[float, str], list[Node]] = defaultdict(list)
    for node in nodes:
        kinds[node.height, node.cooling].append(node)
    for (height, cooling), some in kinds.items():
        room = [(p.watts, p.nodes * p.count) for _, p in listed if (p.height, p.cooling) == (height, cooling)]
        missing = _unplaced(some, room)
        if missing:
            wrong.append(f"{site.name}: {missing} servers of {height:g}U stand in no rack")
    if boxes > sum(p.boxes * p.count for _, p in listed):
        wrong.append(f"{site.name}: {boxes} switches and boxes, not all of them in a rack")
    return wrong


def carried_w(circuit: Circuit) -> float:
    """Watts a circuit carries: volts x amps, on three phases times the root of three, less what code keeps back."""
    three = (circuit.phases or (3 if circuit.volts >= 380 else 1)) == 3
    return circuit.volts * circuit.amps * (3**0.5 if three else 1.0) * circuit.derate


def _check_circuits(result: Result, site: Site, nodes: list[Node], boxes: int, each_w: float) -> list[str]:
    wrong = []
    listed = _places(result, site, "circuit")
    used: dict[int, int] = defaultdict(int)
    room: list[tuple[float, int]] = []
    slots = 0
    for item, place in listed:
        if place.circuit is None or not 0 <= place.circuit < len(site.circuits):
            wrong.append(f"{site.name}: no such circuit ({item.item})")
            continue
        each = carried_w(site.circuits[place.circuit])
        used[place.circuit] += place.count
        # A node that one circuit is too small for takes as many as it needs, all of them to itself and its boxes.
        group = 1
        while place.nodes == 1 and place.watts > group * each * (1 + 1e-9):
            group += 1
        if place.count % group:
            wrong.append(f"{site.name}: {place.count} circuits for nodes that take {group} each")
        load = place.nodes * place.watts / group + -(-place.boxes // group) * each_w + place.stores_w
        if group > 1 and place.stores:
            wrong.append(f"{site.name}: storage on circuits that a node has to itself")
        if load > each * (1 + 1e-9) + 1e-6:
            wrong.append(f"{site.name}: {load:.0f} W on a circuit of {each:.0f} W ({'; '.join(item.parts)})")
        room.append((place.watts, place.nodes * (place.count // group)))
        slots += place.boxes * (place.count // group)
    for n, circuit in enumerate(site.circuits):
        working = {"n": circuit.count, "n+1": circuit.count - 1, "2n": circuit.count // 2}[site.redundancy]
        if used[n] > max(0, working):
            wrong.append(f"{site.name}: {used[n]} circuits in use, {working} may be ({site.redundancy})")
    missing = _unplaced(nodes, room)
    if missing:
        wrong.append(f"{site.name}: {missing} servers hang on no circuit")
    if boxes > slots:
        wrong.append(f"{site.name}: {boxes} switches and boxes, not all of them on a circuit")
    return wrong
