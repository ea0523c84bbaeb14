"""The storage network of a site: switches of its own that join the ports of storage boxes and of servers.

Published designs of GPU clusters keep storage on a fabric of its own, so that counts of the compute fabric do not change. One
box alone hangs on the site's network and needs no switch. Where a site has two boxes or more on one network, every server that
stands there has a port on it too: a NIC (systems sold whole and machines that are owned come with theirs), a cable and a port of a
switch. A server without room for the NIC cannot be held beside such a network (`solver.features.storage_room`).

Per site and network, with P ports of servers, N nodes and L = 1 where there is no storage network: P >= sum N - M L. Switches
carry box ports + P: one, or as many side by side as every box has ports, since then every server reaches every box without
links between switches; beyond that leaf-spine, as in the fabric of the nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import polars as pl

from solver.candidates.gear import GearContext, GearOption
from solver.candidates.storage_boxes import Box, storage_networks
from solver.candidates.storage_use import Book, Sum, gear, plus, times
from solver.candidates.switch_tree import SwitchTree
from solver.candidates.terms import assumption
from solver.features.storage_room import INSIDE, has_room, sets_of

PREFIX = "storage-network"


@dataclass(frozen=True)
class Held:
    """Boxes that a site may hold: their gear, the most of them."""

    key: str
    site: str
    box: Box
    most: int


@dataclass(frozen=True)
class Nodes:
    """Nodes of a pool that a site may hold: room for storage NICs, the most of them, and what jobs take of them.

    `jobs`: nodes of each way to run a job on the pool, by job and candidate row.
    """

    pool: str
    room: str | None
    most: int
    jobs: dict[str, dict[int, int]]

    @property
    def pays(self) -> bool:
        """Whether its NICs are bought apart."""
        return self.room != INSIDE


def network_key(role: str, site: str, network: str) -> str:
    """Key of the switches, cables or NICs of a site's storage network."""
    return f"{PREFIX} {role} {site} {network}"


def network_rows(book: Book, boxes: Sequence[Held]) -> None:
    """Switches, cables and NICs of the storage networks of every site."""
    groups: dict[str, dict[str, list[Held]]] = {}
    for held in boxes:
        if held.box.network is not None and held.box.ports:
            groups.setdefault(held.site, {}).setdefault(held.box.network, []).append(held)
    for site, networks in groups.items():
        nodes = _nodes(book.context, site)
        made = {name: _Network(book, site, name, some, nodes) for name, some in networks.items()}
        for network in made.values():
            network.build()
        _room_rows(book, {name: network.alone for name, network in made.items()}, nodes)


def nic_watts(options: Iterable[GearOption], site: str) -> dict[str, float]:
    """Nameplate of one NIC of each storage network that a site may have [W], by the choice that it has none."""
    start = network_key("nic", site, "")
    return {network_key("alone", site, o.key[len(start) :]): o.it_w for o in options if o.key.startswith(start)}


def _nodes(context: GearContext, site: str) -> list[Nodes]:
    found = context.found
    here = found.pools.filter(pl.col("site") == site).select("pool", "storage_room").sort("pool")
    jobs: dict[str, dict[str, dict[int, int]]] = {}
    if not found.options.is_empty():
        mine = found.options.filter(pl.col("pooled") & pl.col("pool").is_in(here["pool"].implode()))
        for work, row, pool, count in mine.select("work", "row", "pool", "nodes").iter_rows():
            jobs.setdefault(pool, {}).setdefault(work, {})[row] = count
    most = context.most_nodes
    return [Nodes(pool, room, most[pool], jobs.get(pool, {})) for pool, room in here.iter_rows() if most.get(pool)]


def _held(nodes: Iterable[Nodes]) -> Sum:
    return {("nodes", n.pool): 1 for n in nodes}


def _room_rows(book: Book, alone: dict[str, str], nodes: Sequence[Nodes]) -> None:
    """No node beside storage networks whose NICs it has no room for: sum N <= M sum of L over each such set of networks."""
    refused: dict[str, list[frozenset[str]]] = {}
    for number, some in enumerate(sets_of(storage_networks(book.context.catalog))):
        if not set(some) <= alone.keys():
            continue
        # Where a smaller set finds no room, that says it all.
        without = [
            n
            for n in nodes
            if not has_room(n.room, number) and not any(s <= set(some) for s in refused.get(n.pool, []))
        ]
        if without:
            most = sum(n.most for n in without)
            book.row(_held(without), *(gear(alone[name], -most) for name in some), high=0)
        for n in without:
            refused.setdefault(n.pool, []).append(frozenset(some))


class _Network(SwitchTree):
    """Options and rows of one storage network."""

    def __init__(self, book: Book, site: str, network: str, boxes: list[Held], nodes: list[Nodes]) -> None:
        self.book, self.boxes, self.nodes = book, boxes, nodes
        self.most_boxes = sum(h.most for h in boxes)
        self.box_ports = plus(*(gear(h.key, h.box.ports) for h in boxes))
        most = sum(h.box.ports * h.most for h in boxes) + sum(n.most for n in nodes)
        super().__init__(
            book.context, site, network, "storage", most, flat=min(h.box.ports for h in boxes), named="storage "
        )
        self.alone = book.choice(self._key("alone"))

    def _key(self, role: str) -> str:
        return network_key(role, self.site, self.network)

    def build(self) -> None:
        """Make everything that the network could be made of."""
        if not self._can_cable():
            self.book.row(self.box_ports, high=0)
            return
        links = self._cable("links", "cable", self.ports)
        # L = 1: at most one box.
        self.book.row(
            plus(*(gear(h.key) for h in self.boxes)), gear(self.alone, self.most_boxes - 1), high=self.most_boxes
        )
        room = {self.alone: -max(h.box.ports for h in self.boxes)}
        if self._can_switch() and self.most_boxes > 1:
            room |= self._switched()
            self._most(dict.fromkeys([self.alone, *self.forms], 1), 1)
        asked = self._servers()
        self.book.row(self.box_ports, asked, {("gear", key): n for key, n in room.items()}, high=0)
        self.book.row(self.box_ports, asked, gear(links, -1), high=0)
        for option in self.options:
            self.book.hold(option)
        self.book.rules += self.rules

    def _servers(self) -> Sum:
        """Ports of the servers, with their NICs."""
        most = min(sum(n.most for n in self.nodes), max(self.reach.values(), default=0))
        if not self.nodes or self.most_boxes < 2:
            return {}
        ports = self.book.choice(self._key("ports"), most)
        self._at_least(ports, self.nodes)
        paying = [n for n in self.nodes if n.pays]
        if paying and None not in (self.row["nic_price_usd"], self.row["nic_power_w"]):
            self._at_least(self._nic(min(most, sum(n.most for n in paying))), paying)
        self._forms_of_jobs()
        return gear(ports)

    def _at_least(self, key: str, nodes: list[Nodes]) -> None:
        """One for each node where there is a storage network; and, implied, for each node of any one job."""
        self.book.row(_held(nodes), gear(key, -1), gear(self.alone, -sum(n.most for n in nodes)), high=0)
        for ways in _ways(nodes).values():
            self.book.row(
                {("options", row): count for row, count in ways.items()},
                gear(key, -1),
                gear(self.alone, -max(ways.values())),
                high=0,
            )

    def _nic(self, most: int) -> str:
        assert self.per_usd is not None
        watts = float(self.row["nic_power_w"])
        return self._add(
            "nic",
            "network",
            f"storage NIC, {self.row['nic_model']} ({self.network})",
            most,
            price=float(self.row["nic_price_usd"]) * self.per_usd,
            it_w=watts,
            draw_w=watts * assumption(self.context.catalog, "host_draw_share"),
            pieces=0,
            **self._source(),
        )

    def _forms_of_jobs(self) -> None:
        """Implied: a job on many nodes needs a form that reaches their ports and those of two boxes."""
        least = 2 * min(h.box.ports for h in self.boxes)
        for ways in _ways(self.nodes).values():
            for below in sorted(set(self.reach.values())):
                needing: Sum = {("options", row): 1 for row, count in ways.items() if count + least > below}
                able: Sum = {("gear", key): 1 for key, reach in self.reach.items() if reach > below}
                if needing:
                    self.book.row(needing, times(-1, able), gear(self.alone, -1), high=0)


def _ways(nodes: Iterable[Nodes]) -> dict[str, dict[int, int]]:
    """Nodes that each way to run a job takes, by job and candidate row."""
    out: dict[str, dict[int, int]] = {}
    for n in nodes:
        for work, ways in n.jobs.items():
            out.setdefault(work, {}).update(ways)
    return out
