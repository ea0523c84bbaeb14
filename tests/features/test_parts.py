"""Builds against a plain search over every combination of a cut-down parts list, and each incompatibility by name."""

from __future__ import annotations

import itertools
import math
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalogs.load import load_catalog
from solver.features.builds import LEVEL_SCHEMA, Parts, server_builds
from solver.features.parts import compatible_builds, undominated

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
}
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
LEVELS: list[dict[str, Any]] = [
    {
        "level": "serve", "ram_ratio": 1.0, "ram_min_gib": 0.0, "cores_min": 1.0, "cores_per_gpu": 4.0, "nvme_tb": 2.0,
        "nvme_gb_s": 0.0, "nic_gbps": 10.0, "nic_per_gpu": False, "rdma": False,
    },
    {
        "level": "train", "ram_ratio": 2.0, "ram_min_gib": 0.0, "cores_min": 16.0, "cores_per_gpu": 4.0, "nvme_tb": 8.0,
        "nvme_gb_s": 20.0, "nic_gbps": 100.0, "nic_per_gpu": True, "rdma": True,
    },
]  # fmt: skip


def tables(
    servers: Any = None, cards: Any = None, cpus: Any = None, ram: Any = None, drives: Any = None, network: Any = None
) -> Parts:
    return Parts(
        servers=pl.DataFrame(servers or SERVERS),
        accelerators=pl.DataFrame(cards or CARDS),
        cpus=pl.DataFrame([{**COMMON, **c} for c in cpus or CPUS]),
        ram=pl.DataFrame(ram or RAM),
        storage=pl.DataFrame([{"class": "nvme_tlc", "location": "on-prem", **d} for d in drives or DRIVES]),
        network=pl.DataFrame(
            [{"per_port_switch_price_usd": 100.0, "cable_price_usd": 20.0, **n} for n in network or NETWORK]
        ),
    )


def levels(rows: list[dict[str, Any]] | None = None) -> pl.DataFrame:
    return pl.DataFrame(rows or LEVELS, schema=LEVEL_SCHEMA)


# --- a search that knows nothing of frames, stages or dominance --------------------------------------------------------

LANE = {3: 7.877, 4: 15.754, 5: 31.508, 6: 60.5}


def cheapest_by_search(parts: Parts, wanted: pl.DataFrame) -> dict[tuple[str, str, int, str], float]:
    found: dict[tuple[str, str, int, str], float] = {}
    every = itertools.product(
        *(t.to_dicts() for t in (parts.servers, parts.accelerators, wanted, parts.cpus, parts.ram, parts.storage, parts.network))
    )  # fmt: skip
    for server, card, level, cpu, ram, drive, nic in every:
        if card["accelerator"] not in server["fits"].split(";"):
            continue
        board = not server["accelerator_form_factor"].startswith("PCIe")
        for gpus in {1, 2, 4, 8, server["slots"]}:
            for per_channel in (1, 2):
                price = try_build(server, card, level, cpu, ram, drive, nic, gpus, per_channel, board)
                if price is not None:
                    key = (server["server"], card["accelerator"], gpus, level["level"])
                    found[key] = min(price, found.get(key, math.inf))
    return found


def try_build(
    server: Any,
    card: Any,
    level: Any,
    cpu: Any,
    ram: Any,
    drive: Any,
    nic: Any,
    gpus: int,
    per_channel: int,
    board: bool,
) -> float | None:
    if gpus > server["slots"] or (board and gpus != server["slots"]) or (board and card["nvlink_domain"] < gpus):
        return None
    if card["form_factor"] != server["accelerator_form_factor"]:
        return None
    sockets = server["cpu_sockets"]
    if cpu["max_sockets"] < sockets or cpu["cores"] * sockets < max(level["cores_min"], level["cores_per_gpu"] * gpus):
        return None
    modules = cpu["memory_channels"] * sockets * per_channel
    have = modules * ram["size_gib"]
    need = max(level["ram_ratio"] * card["memory_gib"] * gpus, level["ram_min_gib"])
    if ram["type"] != cpu["memory_type"] or modules > server["ram_slots"] or have < need:
        return None
    if have > server["max_ram_gib"] or have > cpu["max_memory_gib"] * sockets:
        return None
    lane = LANE[cpu["pcie_gen"]]
    reads = min(drive["read_gb_s"], lane * 4 / 8)
    drives = max(math.ceil(level["nvme_tb"] / drive["capacity_tb"]), math.ceil(level["nvme_gb_s"] / reads), 1)
    nics = min(gpus, server["nic_slots"]) if level["nic_per_gpu"] else 1
    if drives > server["drive_bays"] or nic["gbps_per_port"] < level["nic_gbps"] or (level["rdma"] and not nic["rdma"]):
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
    if watts > server["max_power_w"]:
        return None
    price: float = server["price_usd"] + (0 if server["price_includes_gpu"] else card["price_usd"] * gpus)
    price += cpu["price_usd"] * sockets + ram["price_usd"] * modules
    price += drive["price_usd_per_tb"] * drive["capacity_tb"] * drives + (nic["nic_price_usd"] + 120) * nics
    return price


def compare(parts: Parts, wanted: pl.DataFrame) -> int:
    builds, refused = compatible_builds(parts, wanted)
    found = {
        (r["server"], r["accelerator"], r["gpus"], r["level"]): r["price_usd"] for r in builds.iter_rows(named=True)
    }
    assert found == pytest.approx(cheapest_by_search(parts, wanted))
    for row in refused.iter_rows(named=True):
        assert row["reason"]
        assert (row["server"], row["accelerator"], row["gpus"], row["level"]) not in found
    return len(found)


def test_the_search_finds_nothing_cheaper_and_nothing_more() -> None:
    assert compare(tables(), levels()) > 8


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_no_parts_list_makes_it_miss_a_build(data: st.DataObject) -> None:
    def some(low: int, high: int) -> float:
        return float(data.draw(st.integers(low, high)))

    servers = [{**s, "max_power_w": some(800, 6000), "drive_bays": int(some(1, 6))} for s in SERVERS[:2]]
    cpus = [
        {**c, "price_usd": some(500, 5000), "tdp_w": some(100, 400), "pcie_lanes": int(some(20, 140)), "cores": int(some(4, 64)),
         "pcie_gen": data.draw(st.sampled_from([3, 4, 5])), "vendor": data.draw(st.sampled_from(["AMD", "Intel"]))}
        for c in CPUS
    ]  # fmt: skip
    ram = [{**r, "price_usd": some(50, 900), "power_w": some(3, 60)} for r in RAM[:2]]
    drives = [{**d, "price_usd_per_tb": some(50, 400), "power_w": some(5, 120)} for d in DRIVES]
    network = [{**n, "nic_price_usd": some(100, 3000), "nic_power_w": some(5, 200)} for n in NETWORK]
    compare(tables(servers, None, cpus, ram, drives, network), levels())


# --- each incompatibility by its name ----------------------------------------------------------------------------------


def only_reason(parts: Parts, server: str, gpus: int, level: str = "serve", card: str = "card") -> str:
    builds, refused = compatible_builds(parts, levels())
    key = {"server": server, "accelerator": card, "gpus": gpus, "level": level}
    picked = [pl.col(k) == v for k, v in key.items()]
    assert builds.filter(*picked).is_empty()
    rows = refused.filter(*picked)
    assert rows.height == 1
    return str(rows["reason"][0])


@pytest.mark.parametrize(
    ("changed", "server", "gpus", "card", "named"),
    [
        ({"cards": [CARDS[0], {**CARDS[1], "form_factor": "OAM"}]}, "rig", 8, "board-card", "form factor"),
        ({"servers": [{**SERVERS[2], "price_includes_gpu": False}]}, "rig", 4, "board-card", "board"),
        ({"cards": [CARDS[0], {**CARDS[1], "nvlink_domain": 4}]}, "rig", 8, "board-card", "NVLink domain"),
        ({"cards": [{**CARDS[0], "price_usd": None}, CARDS[1]]}, "box", 1, "card", "unknown price"),
        ({"cpus": [{**CPUS[0], "cores": 2}]}, "box", 4, "card", "CPU"),
        ({"cpus": [{**CPUS[0], "max_sockets": 1}]}, "pair", 1, "card", "CPU"),
        ({"ram": RAM[2:]}, "box", 1, "card", "memory"),
        ({"servers": [{**SERVERS[0], "ram_slots": 8, "max_ram_gib": 100}]}, "box", 1, "card", "memory"),
        ({"servers": [{**SERVERS[0], "drive_bays": 0}]}, "box", 1, "card", "drive bays"),
        ({"network": [{**NETWORK[0], "gbps_per_port": 1}]}, "box", 1, "card", "network"),
        ({"cpus": CPUS[:1]}, "box", 4, "card", "PCIe lanes"),
        ({"network": NETWORK[2:]}, "box", 1, "card", "PCIe generation"),
        ({"servers": [{**SERVERS[0], "max_power_w": 700.0}]}, "box", 2, "card", "power supply"),
    ],
)
def test_named(changed: dict[str, Any], server: str, gpus: int, card: str, named: str) -> None:
    assert only_reason(tables(**changed), server, gpus, card=card).startswith(named)


def test_a_failed_supply_leaves_less() -> None:
    # 300 + 2 x 350 + 200 + 8 x 9 + 20 + 12 W and the like: two supplies of 1,000 W feed it, one alone does not.
    box = {**SERVERS[0], "max_power_w": 2000.0, "psu_count": 2, "psu_spare": 0}
    builds, _ = compatible_builds(tables(servers=[box]), levels())
    assert builds.filter(pl.col("gpus") == 2, pl.col("level") == "serve").height == 1
    assert only_reason(tables(servers=[{**box, "psu_spare": 1}]), "box", 2).startswith("power supply")


def test_lanes_choose_the_dearer_cpu() -> None:
    # Four cards (64) + NIC (8) + drive (4) = 76 lanes: more than the cheap CPU's 64, so the next is taken.
    builds, _ = compatible_builds(tables(), levels())
    row = builds.filter(pl.col("server") == "box", pl.col("gpus") == 4, pl.col("level") == "serve")
    assert row["cpu"].to_list() == ["wide"]
    assert row["lanes_used"].to_list() == [76]


def test_two_sockets_of_one_maker_spend_lanes_on_each_other() -> None:
    cpus = [{**CPUS[0], "vendor": "AMD", "pcie_lanes": 128}]
    builds, _ = compatible_builds(tables(cpus=cpus), levels())
    assert set(builds.filter(pl.col("server") == "pair")["lanes"]) == {160}
    assert set(builds.filter(pl.col("server") == "box")["lanes"]) == {128}


def test_undominated_keeps_one_of_equals() -> None:
    frame = pl.DataFrame({"g": [1, 1, 1, 1, 2], "a": [1, 2, 1, 3, 9], "b": [2, 1, 2, 3, 9], "n": list("vwxyz")})
    assert undominated(frame, ["g"], ["a", "b"])["n"].to_list() == ["v", "w", "z"]


def test_the_whole_catalogue() -> None:
    """Within the rules of `server_builds` nothing is cheaper here than there; what is built keeps every rule."""
    catalog = load_catalog()
    parts = Parts(catalog.servers, catalog.accelerators, catalog.cpus, catalog.ram, catalog.storage, catalog.network)
    builds, refused = compatible_builds(parts, levels())
    assert builds.height > 100
    assert builds.filter(pl.col("supply_w") > pl.col("supply_max_w")).is_empty()
    assert builds.filter(pl.col("lanes_used") > pl.col("lanes")).is_empty()
    assert refused["reason"].null_count() == 0
    key = ["server", "accelerator", "gpus", "level"]
    assert builds.join(refused, on=key, how="inner").is_empty()
    old, _ = server_builds(parts, levels())
    both = builds.join(old.select(*key, old_usd="price_usd"), on=key, how="inner")
    assert both.height > 100
    assert both.filter(pl.col("price_usd") < pl.col("old_usd") - 0.01).is_empty()
