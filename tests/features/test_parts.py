"""Each incompatibility between parts by its name."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from solver.features.builds import compatible_builds
from solver.features.parts import Parts, undominated, worst_confidence
from tests.features.part_tables import CARDS, CPUS, NETWORK, RAM, SERVERS, levels, tables


def only_reason(parts: Parts, server: str, gpus: int, level: str = "serve", card: str = "card") -> str:
    builds, refused = compatible_builds(parts, levels())
    key = {"server": server, "accelerator": card, "gpus": gpus, "level": level}
    picked = [pl.col(k) == v for k, v in key.items()]
    assert builds.filter(*picked).is_empty()
    rows = refused.filter(*picked)
    assert rows.height == 1
    return str(rows["reason"][0])


LOW = {"servers": [{**SERVERS[0], "accelerator_form_factor": "PCIe LP"}]}


@pytest.mark.parametrize(
    ("changed", "server", "gpus", "card", "named"),
    [
        ({}, "box", 4, "board-card", "form factor"),
        ({"cards": [CARDS[0], {**CARDS[1], "form_factor": "OAM"}]}, "rig", 8, "board-card", "form factor"),
        (LOW, "box", 1, "card", "form factor"),
        ({"cards": [CARDS[0], {**CARDS[1], "nvlink_domain": 4}]}, "rig", 8, "board-card", "NVLink domain"),
        ({"cards": [{**CARDS[0], "price_usd": None}, CARDS[1]]}, "box", 1, "card", "unknown price"),
        ({"cpus": [{**CPUS[0], "cores": 2}]}, "box", 4, "card", "CPU"),
        ({"cpus": [{**CPUS[0], "max_sockets": 1}]}, "pair", 1, "card", "CPU"),
        ({"ram": RAM[2:]}, "box", 1, "card", "memory type"),
        ({"servers": [{**SERVERS[0], "ram_slots": 8, "max_ram_gib": 100}]}, "box", 1, "card", "memory slots"),
        ({"servers": [{**SERVERS[0], "ram_slots": 1}]}, "box", 2, "card", "memory slots"),
        ({"servers": [{**SERVERS[0], "drive_bays": 0}]}, "box", 1, "card", "drive bays"),
        ({"servers": [{**SERVERS[0], "nic_slots": 0}]}, "box", 1, "card", "NIC slots"),
        ({"network": [{**NETWORK[0], "gbps_per_port": 1}]}, "box", 1, "card", "NIC slots"),
        ({"network": [{**NETWORK[0], "nic_price_usd": None}]}, "box", 1, "card", "network"),
        ({"cpus": CPUS[:1]}, "box", 4, "card", "PCIe lanes"),
        ({"network": NETWORK[2:]}, "box", 1, "card", "PCIe generation"),
        ({"servers": [{**SERVERS[0], "max_power_w": 700.0}]}, "box", 2, "card", "power supply"),
    ],
)
def test_named(changed: dict[str, Any], server: str, gpus: int, card: str, named: str) -> None:
    assert only_reason(tables(**changed), server, gpus, card=card).startswith(named)


def test_a_board_of_cards_is_sold_whole() -> None:
    split = {**SERVERS[2], "price_includes_gpu": False}
    builds, refused = compatible_builds(tables(servers=[split]), levels())
    assert set(builds["gpus"]) == {8}
    assert set(refused["gpus"]) <= {8}


def test_low_profile_cards_go_into_any_slot() -> None:
    low = [{**CARDS[0], "form_factor": "PCIe LP"}, CARDS[1]]
    for servers in (SERVERS, LOW["servers"]):
        builds, _ = compatible_builds(tables(servers=servers, cards=low), levels())
        assert builds.filter(pl.col("server") == "box", pl.col("level") == "serve").height > 0


def test_a_failed_supply_leaves_less() -> None:
    # 300 + 2 x 350 + 200 + 8 x 9 + 20 + 12 W and the like: two supplies of 1,000 W feed it, one alone does not.
    box = {**SERVERS[0], "max_power_w": 2000.0, "psu_count": 2, "psu_spare": 0}
    builds, _ = compatible_builds(tables(servers=[box]), levels())
    assert builds.filter(pl.col("gpus") == 2, pl.col("level") == "serve").height == 1
    assert only_reason(tables(servers=[{**box, "psu_spare": 1}]), "box", 2).startswith("power supply")


def test_undominated_keeps_one_of_equals() -> None:
    frame = pl.DataFrame({"g": [1, 1, 1, 1, 2], "a": [1, 2, 1, 3, 9], "b": [2, 1, 2, 3, 9], "n": list("vwxyz")})
    assert undominated(frame, ["g"], ["a", "b"])["n"].to_list() == ["v", "w", "z"]


def test_the_worst_part_decides_what_a_price_is_worth() -> None:
    frame = pl.DataFrame({"a": ["listed", "measured", None, None], "b": ["estimate", "listed", "recalled", None]})
    assert frame.select(worst_confidence("a", "b")).to_series().to_list() == ["estimate", "listed", "recalled", None]
