"""A cut-down parts list, and a plain search over every combination of it that knows nothing of frames or stages."""

from __future__ import annotations

import itertools
import math
from typing import Any

import polars as pl

from solver.features.parts import LEVEL_SCHEMA, Parts

SERVERS: list[dict[str, Any]] = [
    {
        "server": "box", "complete": False, "accelerator_form_factor": "PCIe", "slots": 4, "fits": "card;board-card",
        "cpu_sockets": 1, "cpu_default": "small", "max_ram_gib": 1024, "ram_slots": 16, "drive_bays": 4, "nic_slots": 2,
        "chassis_overhead_w": 300.0, "max_power_w": 2600.0, "price_usd": 5000.0, "price_includes_gpu": False,
    },
    {
        "server": "pair", "complete": False, "accelerator_form_factor": "PCIe", "slots": 8, "fits": "card",
        "cpu_sockets": 2, "cpu_default": "small", "max_ram_gib": 2048, "ram_slots": 32, "drive_bays": 8, "nic_slots": 4,
        "chassis_overhead_w": 600.0, "max_power_w": 5000.0, "price_usd": 9000.0, "price_includes_gpu": False,
    },
    {
        "server": "rig", "complete": False, "accelerator_form_factor": "SXM5", "slots": 8, "fits": "board-card",
        "cpu_sockets": 2, "cpu_default": "small", "max_ram_gib": 4096, "ram_slots": 32, "drive_bays": 10, "nic_slots": 8,
        "chassis_overhead_w": 2000.0, "max_power_w": 9500.0, "price_usd": 90000.0, "price_includes_gpu": True,
    },
]  # fmt: skip
CARDS: list[dict[str, Any]] = [
    {"accelerator": "card", "form_factor": "PCIe", "memory_gib": 45.0, "nvlink_domain": 1, "tdp_w": 350.0, "price_usd": 8000.0},
    {"accelerator": "board-card", "form_factor": "SXM5", "memory_gib": 80.0, "nvlink_domain": 8, "tdp_w": 700.0, "price_usd": 25000.0},
]  # fmt: skip
CPUS: list[dict[str, Any]] = [
    {"cpu": "small", "vendor": "Intel", "cores": 16, "pcie_lanes": 64, "tdp_w": 200.0, "price_usd": 1000.0},
    {"cpu": "wide", "vendor": "Intel", "cores": 16, "pcie_lanes": 96, "tdp_w": 280.0, "price_usd": 1500.0},
    {"cpu": "many", "vendor": "Intel", "cores": 64, "pcie_lanes": 80, "tdp_w": 350.0, "price_usd": 4000.0},
]
COMMON = {
    "family": "F",
    "memory_channels": 8,
    "memory_type": "DDR5",
    "max_memory_gib": 2048,
    "pcie_gen": 4,
    "max_sockets": 2,
    "confidence": "estimate",
}
SOLD = {
    "deployment_mode": "on_premises",
    "cooling": "air",
    "rack_units": 4.0,
    "price_confidence": "listed",
}
FLASH = {"class": "nvme_tlc", "location": "on-prem", "confidence": "listed"}
RAM: list[dict[str, Any]] = [
    {"module": "16", "type": "DDR5", "size_gib": 16, "price_usd": 100.0, "power_w": 5.0},
    {"module": "64", "type": "DDR5", "size_gib": 64, "price_usd": 420.0, "power_w": 9.0},
    {"module": "old", "type": "DDR4", "size_gib": 64, "price_usd": 10.0, "power_w": 5.0},
]
DRIVES: list[dict[str, Any]] = [
    {"storage": "fast", "capacity_tb": 4.0, "read_gb_s": 14.0, "price_usd_per_tb": 250.0, "power_w": 20.0},
    {"storage": "large", "capacity_tb": 16.0, "read_gb_s": 7.0, "price_usd_per_tb": 180.0, "power_w": 22.0},
]
NETWORK: list[dict[str, Any]] = [
    {"network": "25", "gbps_per_port": 25, "rdma": False, "nic_price_usd": 280.0, "nic_power_w": 12.0},
    {"network": "100r", "gbps_per_port": 100, "rdma": True, "nic_price_usd": 900.0, "nic_power_w": 18.0},
    {"network": "400r", "gbps_per_port": 400, "rdma": True, "nic_price_usd": 1800.0, "nic_power_w": 25.0},
]
PLAIN: dict[str, Any] = {"usual": False, "beside_w": None, "pair_w": None}
LEVELS: list[dict[str, Any]] = [
    {
        "level": "serve", "ram_ratio": 1.0, "ram_min_gib": 0.0, "cores_min": 1.0, "cores_per_gpu": 4.0, "nvme_tb": 2.0,
        "nvme_gb_s": 0.0, "node_gbps": 10.0, "spans": False, "rdma": False, "network": None,
    },
    {
        "level": "train", "ram_ratio": 2.0, "ram_min_gib": 0.0, "cores_min": 16.0, "cores_per_gpu": 4.0, "nvme_tb": 8.0,
        "nvme_gb_s": 20.0, "node_gbps": 100.0, "spans": True, "rdma": True, "network": None,
    },
    {
        "level": "named", "ram_ratio": 1.0, "ram_min_gib": 200.0, "cores_min": 1.0, "cores_per_gpu": 4.0, "nvme_tb": 2.0,
        "nvme_gb_s": 0.0, "node_gbps": 10.0, "spans": False, "rdma": True, "network": "400r",
    },
    # Several slow NICs, or one fast one: whichever is cheapest.
    {
        "level": "fast", "ram_ratio": 1.0, "ram_min_gib": 0.0, "cores_min": 1.0, "cores_per_gpu": 4.0, "nvme_tb": 2.0,
        "nvme_gb_s": 0.0, "node_gbps": 50.0, "spans": False, "rdma": False, "network": None,
    },
    {
        "level": "both", "ram_ratio": 1.0, "ram_min_gib": 0.0, "cores_min": 1.0, "cores_per_gpu": 4.0, "nvme_tb": 2.0,
        "nvme_gb_s": 0.0, "node_gbps": 150.0, "spans": True, "rdma": True, "network": "100r",
    },
    {
        "level": "one-or-all", "ram_ratio": 1.0, "ram_min_gib": 0.0, "cores_min": 1.0, "cores_per_gpu": 4.0, "nvme_tb": 2.0,
        "nvme_gb_s": 0.0, "node_gbps": 50.0, "spans": True, "usual": True, "rdma": True, "network": "100r",
    },
]  # fmt: skip


def tables(
    servers: Any = None, cards: Any = None, cpus: Any = None, ram: Any = None, drives: Any = None, network: Any = None
) -> Parts:
    return Parts(
        servers=pl.DataFrame([{**SOLD, **s} for s in servers or SERVERS]),
        accelerators=pl.DataFrame(
            [{"price_confidence": "listed", "price_as_of": "2026-11", **c} for c in cards or CARDS],
            schema_overrides={"price_usd": pl.Float64},
        ),
        cpus=pl.DataFrame([{**COMMON, **c} for c in cpus or CPUS]),
        ram=pl.DataFrame([{"confidence": "listed", **m} for m in ram or RAM]),
        storage=pl.DataFrame([{**FLASH, **d} for d in drives or DRIVES]),
        network=pl.DataFrame([{"nic_model": "nic", "confidence": "listed", **n} for n in network or NETWORK]),
    )


def levels(rows: list[dict[str, Any]] | None = None) -> pl.DataFrame:
    return pl.DataFrame([{**PLAIN, **r} for r in rows or LEVELS], schema=LEVEL_SCHEMA)


LANE = {3: 7.877, 4: 15.754, 5: 31.508, 6: 60.5}
Key = tuple[str, str, int, str]


def every_build(parts: Parts, wanted: pl.DataFrame) -> dict[Key, list[tuple[float, float]]]:
    """Price [USD] and watts of every machine that can be built, by server, card, card count and level."""
    found: dict[Key, list[tuple[float, float]]] = {}
    every = itertools.product(
        *(t.to_dicts() for t in (parts.servers, parts.accelerators, wanted, parts.cpus, parts.ram, parts.storage, parts.network))
    )  # fmt: skip
    for server, card, level, cpu, ram, drive, nic in every:
        if card["accelerator"] not in server["fits"].split(";"):
            continue
        board = not server["accelerator_form_factor"].startswith("PCIe")
        for gpus in {1, 2, 4, 8, server["slots"]}:
            for modules, nics in itertools.product(fills(server, cpu), counts(server, level, nic, gpus)):
                built = try_build(server, card, level, cpu, ram, drive, nic, gpus, modules, nics, board)
                if built is not None:
                    # Machines for work across nodes are compared with those of as many NICs.
                    name = f"{level['level']}-x{nics}" if level["spans"] and nics > 1 else level["level"]
                    found.setdefault((server["server"], card["accelerator"], gpus, name), []).append(built)
    return found


def counts(server: Any, level: Any, nic: Any, gpus: int) -> list[int]:
    """Numbers of NICs that reach the level: for work across nodes all that cards share evenly, else the fewest."""
    able = [n for n in range(1, server["nic_slots"] + 1) if n * nic["gbps_per_port"] >= level["node_gbps"]]
    if not level["spans"]:
        return able[:1]
    if gpus == 1:
        return []  # work across nodes runs on nodes of several cards
    each = min(gpus, server["nic_slots"])
    if level.get("usual"):
        return [n for n in able if n in (1, each) and nic["gbps_per_port"] >= level["node_gbps"]]
    return [n for n in able if n == each or max(n, gpus) % min(n, gpus) == 0]


def fills(server: Any, cpu: Any) -> set[int]:
    channels = cpu["memory_channels"] * server["cpu_sockets"]
    if server["ram_slots"] < channels:
        return {server["ram_slots"]}
    return {n * channels for n in (1, 2) if n * channels <= server["ram_slots"]}


def front(built: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Price and watts of the machines that no other beats in both, by price."""
    kept: list[tuple[float, float]] = []
    for price, watts in sorted(set(built)):
        if not kept or watts < kept[-1][1]:
            kept.append((price, watts))
    return kept


def try_build(
    server: Any,
    card: Any,
    level: Any,
    cpu: Any,
    ram: Any,
    drive: Any,
    nic: Any,
    gpus: int,
    modules: int,
    nics: int,
    board: bool,
) -> tuple[float, float] | None:
    if gpus > server["slots"] or (board and gpus != server["slots"]) or (board and card["nvlink_domain"] < gpus):
        return None
    if card["form_factor"] != server["accelerator_form_factor"]:
        return None
    sockets = server["cpu_sockets"]
    if cpu["max_sockets"] < sockets or cpu["cores"] * sockets < max(level["cores_min"], level["cores_per_gpu"] * gpus):
        return None
    have = modules * ram["size_gib"]
    need = max(level["ram_ratio"] * card["memory_gib"] * gpus, level["ram_min_gib"])
    if ram["type"] != cpu["memory_type"] or have < need:
        return None
    if have > server["max_ram_gib"] or have > cpu["max_memory_gib"] * sockets:
        return None
    lane = LANE[cpu["pcie_gen"]]
    reads = min(drive["read_gb_s"], lane * 4 / 8)
    drives = max(math.ceil(level["nvme_tb"] / drive["capacity_tb"]), math.ceil(level["nvme_gb_s"] / reads), 1)
    if level["network"] not in (None, nic["network"]):
        return None
    if drives > server["drive_bays"] or (level["rdma"] and not nic["rdma"]):
        return None
    if nic["gbps_per_port"] > lane * 16:
        return None
    each = 8 if nic["gbps_per_port"] <= min(100, lane * 8) else 16
    lanes = (8 * gpus if board else 16 * gpus + each * nics) + 4 * drives
    own = cpu["pcie_lanes"] - (48 if cpu["vendor"] == "AMD" and sockets > 1 else 0)
    if lanes > own * sockets:
        return None
    watts = server["chassis_overhead_w"] + card["tdp_w"] * gpus + cpu["tdp_w"] * sockets + ram["power_w"] * modules
    watts += drive["power_w"] * drives + nic["nic_power_w"] * nics
    supplies, spare = server.get("psu_count"), server.get("psu_spare")
    given = server["max_power_w"] * ((supplies - spare) / supplies if supplies and spare else 1)
    if watts > given:
        return None
    price: float = server["price_usd"] + (0 if server["price_includes_gpu"] else card["price_usd"] * gpus)
    price += cpu["price_usd"] * sockets + ram["price_usd"] * modules
    price += drive["price_usd_per_tb"] * drive["capacity_tb"] * drives + nic["nic_price_usd"] * nics
    return price, watts
