"""Recheck that the parts of every built server go together, from the catalogue alone and one server at a time.

Shares nothing with `solver.features`: lanes, slots and supplies are counted here once more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from catalogs.catalog import Catalog
from solver.plan import Item
from solver.verify_money import part_list

Row = dict[str, Any]

LANE_GBIT = {1: 2.0, 2: 4.0, 3: 7.877, 4: 15.754, 5: 31.508, 6: 60.5, 7: 121.0}
"""Net Gb/s that a lane of each PCIe generation carries."""


@dataclass(frozen=True)
class Machine:
    """One server of a line: its chassis, and each kind of part with how many are in it."""

    server: Row
    cards: tuple[int, Row]
    cpus: tuple[int, Row]
    modules: tuple[int, Row]
    drives: tuple[int, Row]
    nics: tuple[int, Row]


def check_parts(item: Item, catalog: Catalog) -> list[str]:
    """Name every incompatibility between the parts of a built server (none for systems sold whole)."""
    parts = part_list(item)
    server = _row(catalog.servers, "server", parts[0][1]) if parts else None
    if server is None:
        return [f"{item.item}: unknown server"]
    if server["complete"]:
        return []
    machine = _machine(parts[1:], server, catalog)
    if machine is None:
        return [f"{item.item}: bill of materials is not whole: one kind each of cards, CPUs, memory, drives and NICs"]
    found = [*_board(machine), *_host(machine, catalog), *_memory(machine), *_slots(machine), *_supply(machine)]
    return [f"{item.item}: {text}" for text in found]


def check_more_nics(item: Item, more: list[Row], catalog: Catalog) -> list[str]:
    """Name what a built server lacks for one NIC more of each of these rows of the catalogue's networks."""
    parts = part_list(item)
    server = _row(catalog.servers, "server", parts[0][1]) if parts else None
    machine = None if server is None else _machine(parts[1:], server, catalog)
    if machine is None or not more:
        return []  # refused elsewhere
    return [f"{item.item}: {text}" for text in (*_slots(machine, more), *_supply(machine, more))]


def _row(table: pl.DataFrame, key: str, name: str) -> Row | None:
    hit = table.filter(pl.col(key) == name)
    return hit.row(0, named=True) if hit.height else None


def _machine(parts: list[tuple[int, str]], server: Row, catalog: Catalog) -> Machine | None:
    tables = {
        "cards": (catalog.accelerators, "accelerator"),
        "cpus": (catalog.cpus, "cpu"),
        "modules": (catalog.ram, "module"),
        "drives": (catalog.storage, "storage"),
        "nics": (catalog.network, "network"),
    }
    found: dict[str, tuple[int, Row]] = {}
    for count, name in parts:
        for kind, (table, key) in tables.items():
            # NICs go by their network: "model (network)".
            wanted = name[name.rfind("(") + 1 : -1] if kind == "nics" and name.endswith(")") else name
            row = _row(table, key, wanted)
            if row is not None:
                if kind in found or count < 1:
                    return None
                found[kind] = (count, row)
                break
        else:
            return None
    return Machine(server, **found) if len(found) == len(tables) else None


def _in_slots(server: Row) -> bool:
    """Cards stand in PCIe slots; else they are one board with switches of its own."""
    return str(server["accelerator_form_factor"]).startswith("PCIe")


def _board(m: Machine) -> list[str]:
    """Form factor, slots, whole boards and their NVLink domain."""
    count, card = m.cards
    slot, form = str(m.server["accelerator_form_factor"]), str(card["form_factor"])
    wrong = []
    if _in_slots(m.server):
        fits = form.startswith("PCIe") and (form.endswith("LP") or not slot.endswith("LP"))
    else:
        fits = form == slot or slot.split(" ")[-1] == form
    if not fits:
        wrong.append(f"form factor: {form} cards in a server for {slot}")
    if count > m.server["slots"]:
        wrong.append(f"slots: {count} cards in a server for {m.server['slots']}")
    if not _in_slots(m.server):
        if count != m.server["slots"]:
            wrong.append(f"board: {count} cards of a board that is sold with {m.server['slots']}")
        if card["nvlink_domain"] is not None and card["nvlink_domain"] < count:
            wrong.append(f"NVLink domain: {count} cards, {card['nvlink_domain']} at most are joined")
    return wrong


def _host(m: Machine, catalog: Catalog) -> list[str]:
    """Sockets and the CPU family that they take."""
    count, cpu = m.cpus
    wrong = []
    if count != m.server["cpu_sockets"]:
        wrong.append(f"sockets: {count} CPUs in {m.server['cpu_sockets']} sockets")
    if count > cpu["max_sockets"]:
        wrong.append(f"sockets: {count} CPUs of a kind that works {cpu['max_sockets']} together at most")
    usual = _row(catalog.cpus, "cpu", str(m.server["cpu_default"]))
    if usual is None or usual["family"] != cpu["family"]:
        wrong.append(f"CPU family: {cpu['family']} in a socket for {usual['family'] if usual else 'an unknown one'}")
    return wrong


def _memory(m: Machine) -> list[str]:
    """DDR generation, memory slots, even fill and limits."""
    sockets, cpu = m.cpus
    count, module = m.modules
    slots = m.server["ram_slots"] or 0
    channels = cpu["memory_channels"] * sockets
    wrong = []
    if module["type"] != cpu["memory_type"]:
        wrong.append(f"memory type: {module['type']} on a CPU that takes {cpu['memory_type']}")
    if count > slots:
        wrong.append(f"memory slots: {count} modules in {slots} slots")
    if count % channels and not (slots < channels and count == slots):
        wrong.append(f"memory channels: {count} modules on {channels} channels is no even fill")
    size = count * module["size_gib"]
    most = min(m.server["max_ram_gib"] or 0, cpu["max_memory_gib"] * sockets)
    if size > most:
        wrong.append(f"memory: {size:g} GiB, the server takes {most:g}")
    return wrong


def _slots(m: Machine, more: Sequence[Row] = ()) -> list[str]:
    """Drive bays, NIC slots, PCIe lanes, and NICs no faster than their slot; `more`: a NIC of each of these beside its own."""
    sockets, cpu = m.cpus
    drives = m.drives[0]
    plugged = [m.nics, *((1, row) for row in more)]
    nics = sum(count for count, _ in plugged)
    wrong = []
    if m.drives[1]["class"] != "nvme_tlc" or m.drives[1]["location"] != "on-prem":
        wrong.append(f"drive bays: {m.drives[1]['storage']} is no drive for them")
    if drives > (m.server["drive_bays"] or 0):
        wrong.append(f"drive bays: {drives} drives in {m.server['drive_bays']} bays")
    if nics > (m.server["nic_slots"] or 0):
        wrong.append(f"NIC slots: {nics} NICs in {m.server['nic_slots']} slots")
    lane = LANE_GBIT.get(cpu["pcie_gen"], math.inf)
    for _, nic in plugged:
        if nic["gbps_per_port"] > 16 * lane:
            wrong.append(
                f"PCIe generation: a NIC of {nic['gbps_per_port']:g} Gb/s in a slot that carries {16 * lane:.0f}"
            )
    have = cpu["pcie_lanes"] * sockets
    if cpu["vendor"] == "AMD" and sockets > 1:
        # Three x16 links of each go to the other socket.
        have -= 48 * sockets
    used = 4 * drives
    if _in_slots(m.server):
        used += 16 * m.cards[0]
        used += sum(count * (8 if nic["gbps_per_port"] <= min(100.0, 8 * lane) else 16) for count, nic in plugged)
    else:
        # One x16 uplink for two cards, and NICs behind the same switches.
        used += 8 * m.cards[0]
    if used > have:
        wrong.append(f"PCIe lanes: {used} needed, the CPUs have {have}")
    return wrong


def _supply(m: Machine, more: Sequence[Row] = ()) -> list[str]:
    """Rated watts of all parts, NICs of `more` among them, within what the supplies give when the spare ones have failed."""
    columns = (
        (m.cards, "tdp_w"),
        (m.cpus, "tdp_w"),
        (m.modules, "power_w"),
        (m.drives, "power_w"),
        (m.nics, "nic_power_w"),
    )
    needed = m.server["chassis_overhead_w"] + sum(count * row[column] for (count, row), column in columns)
    needed += sum(row["nic_power_w"] or 0.0 for row in more)
    given = m.server["max_power_w"]
    supplies, spare = m.server.get("psu_count"), m.server.get("psu_spare")
    if supplies and spare:
        given *= max(0, supplies - spare) / supplies
    if needed > given * (1 + 1e-9):
        return [f"power supply: parts draw {needed:.0f} W, it gives {given:.0f} W"]
    return []
