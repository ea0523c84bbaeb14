"""The builds frame against a plain search over every combination of a cut-down parts list, and the whole catalogue."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalogs.load import load_catalog
from solver.features.builds import COLUMNS, WHOLE, Unpowered, compatible_builds, complete_systems, server_builds
from solver.features.builds_idle import useful
from solver.features.builds_reduce import unbeaten
from solver.features.parts import KEY, Parts
from solver.verify_parts import check_parts
from tests.features.part_tables import (
    CARDS,
    CPUS,
    DRIVES,
    LEVELS,
    NETWORK,
    RAM,
    SERVERS,
    every_build,
    front,
    levels,
    tables,
)


def compare(parts: Parts, wanted: pl.DataFrame) -> int:
    """Hold both frames against the search: the cheapest of each key, and all that draw less than the cheaper ones."""
    expected = {key: front(built) for key, built in every_build(parts, wanted).items()}
    every, refused = compatible_builds(parts, wanted, watt_usd=math.inf)
    found: dict[Any, list[tuple[float, float]]] = {}
    for row in every.sort(*KEY, "variant").iter_rows(named=True):
        found.setdefault(tuple(row[k] for k in KEY), []).append((row["price_usd"], row["nameplate_w"]))
    assert found == expected
    paid, _ = compatible_builds(parts, wanted, watt_usd=3.0)
    for key, group in paid.group_by(KEY):
        worth = sorted((p + 3.0 * w, p) for p, w in expected[key])
        assert group["price_usd"].min() == expected[key][0][0]
        # The one that is best when a watt is worth so much is among them, and so it is for any lower worth.
        assert min(group["price_usd"] + 3.0 * group["nameplate_w"]) == worth[0][0]
        assert min(group["price_usd"] + group["nameplate_w"]) == min(p + w for p, w in expected[key])
    # Of builds beyond some watts, those stay that are worth their price, under the numbers that they have.
    limit = Unpowered(1600.0, 0.5, 3.0)
    within, _ = compatible_builds(parts, wanted, watt_usd=math.inf, unpowered=limit)
    cards = {c["accelerator"]: c["tdp_w"] for c in parts.accelerators.iter_rows(named=True)}
    least_w = pl.col("nameplate_w") - 0.5 * pl.col("gpus") * pl.col("accelerator").replace_strict(cards)
    few = every.filter(least_w <= 1600)
    worth = every.join(paid.select(*KEY, "price_usd", "nameplate_w"), on=[*KEY, "price_usd", "nameplate_w"], how="semi")
    assert within.sort(*KEY, "variant").equals(pl.concat([few, worth]).unique([*KEY, "variant"]).sort(*KEY, "variant"))
    cheapest, refused_too = compatible_builds(parts, wanted)
    assert {tuple(r[k] for k in KEY): r["price_usd"] for r in cheapest.iter_rows(named=True)} == {
        key: built[0][0] for key, built in expected.items()
    }
    assert refused.equals(refused_too)
    assert refused["reason"].null_count() == 0
    assert refused.join(every, on=KEY, how="inner").is_empty()
    return len(found)


def broken_rules(builds: pl.DataFrame, parts: Parts) -> list[str]:
    """What `verify` has to say about builds: it counts every rule once more, without the features' code."""
    return [
        text
        for row in builds.iter_rows(named=True)
        for text in check_parts(SimpleNamespace(item=row["server"], parts=row["parts"]), parts)  # type: ignore[arg-type]
    ]


def test_the_search_finds_nothing_cheaper_and_nothing_more() -> None:
    assert compare(tables(), levels()) > 12


@st.composite
def part_lists(draw: st.DrawFn) -> Parts:
    """Short parts lists with whole dollars and watts, so that sums are exact."""

    def some(low: int, high: int) -> float:
        return float(draw(st.integers(low, high)))

    def one(*choices: Any) -> Any:
        return draw(st.sampled_from(choices))

    servers = [
        {**s, "max_power_w": some(800, 7000), "drive_bays": int(some(0, 6)), "nic_slots": int(some(0, 5)),
         "ram_slots": one(4, 8, 12, 16, 24, 32), "max_ram_gib": one(256, 1024, 4096), "cpu_sockets": one(1, 2),
         "psu_count": one(2, 4), "psu_spare": one(0, 1)}
        for s in SERVERS
    ]  # fmt: skip
    cards = [{**c, "tdp_w": some(70, 800), "nvlink_domain": one(1, 4, 8)} for c in CARDS]
    cpus = [
        {**c, "price_usd": some(500, 5000), "tdp_w": some(100, 400), "pcie_lanes": int(some(20, 140)), "cores": int(some(4, 64)),
         "pcie_gen": one(3, 4, 5), "vendor": one("AMD", "Intel"), "max_sockets": one(1, 2), "memory_type": one("DDR4", "DDR5")}
        for c in CPUS
    ]  # fmt: skip
    ram = [{**r, "price_usd": some(50, 900), "power_w": some(3, 60)} for r in RAM]
    drives = [{**d, "price_usd_per_tb": some(50, 400), "power_w": some(5, 120)} for d in DRIVES]
    network = [{**n, "nic_price_usd": some(100, 3000), "nic_power_w": some(5, 200)} for n in NETWORK]
    return tables(servers, cards, cpus, ram, drives, network)


@settings(max_examples=60, deadline=None)
@given(part_lists())
def test_no_parts_list_makes_it_miss_a_build(parts: Parts) -> None:
    compare(parts, levels())


@settings(max_examples=60, deadline=None)
@given(part_lists())
def test_no_build_exceeds_supplies_lanes_slots_or_bays(parts: Parts) -> None:
    builds, _ = compatible_builds(parts, levels(), watt_usd=math.inf)
    server = builds.join(parts.servers, on="server", suffix="_server")
    modules = pl.col("ram_count") * pl.col("module").replace_strict(
        {r["module"]: r["size_gib"] for r in RAM}, default=0
    )
    held = {
        "supplies": pl.col("supply_w")
        <= pl.col("max_power_w") * (1 - pl.col("psu_spare") / pl.col("psu_count")) + 1e-6,
        "lanes": pl.col("lanes_used") <= pl.col("lanes"),
        "card slots": pl.col("gpus") <= pl.col("slots"),
        "memory slots": pl.col("ram_count") <= pl.col("ram_slots"),
        "memory": modules <= pl.col("max_ram_gib"),
        "bays": pl.col("drive_count") <= pl.col("drive_bays"),
        "NIC slots": pl.col("nic_count") <= pl.col("nic_slots"),
    }
    assert server.select((~rule).sum().alias(name) for name, rule in held.items()).row(0) == (0,) * len(held)
    assert broken_rules(builds, parts) == []


# --- what a build says of itself ---------------------------------------------------------------------------------------


def test_a_build_adds_up() -> None:
    builds, _ = compatible_builds(tables(), levels())
    row = builds.filter(pl.col("server") == "pair", pl.col("gpus") == 4, pl.col("level") == "train-x4").row(
        0, named=True
    )
    # 2 x 4.0 TB "fast" reach 8 TB but lanes of the fourth generation carry 7.877 GB/s each: 20 GB/s take three.
    assert row["parts"] == [
        "1 x pair", "4 x card", "2 x small", "32 x 16", "3 x fast", "4 x nic (100r)",
    ]  # fmt: skip
    assert row["price_usd"] == 9000 + 4 * 8000 + 2 * 1000 + 32 * 100 + 3 * 4 * 250 + 4 * 900
    assert row["nameplate_w"] == 600 + 4 * 350 + 2 * 200 + 32 * 5 + 3 * 20 + 4 * 18
    assert row["host_nameplate_w"] == row["nameplate_w"] - 4 * 350
    assert (row["network"], row["nic_count"], row["network_gbps"], row["has_rdma"]) == ("100r", 4, 400.0, True)
    assert (row["cores"], row["ram_gib"], row["nvme_have_tb"]) == (32.0, 512.0, 12.0)
    assert row["nvme_have_gb_s"] == pytest.approx(3 * 7.877)
    assert (row["rack_units"], row["cooling"]) == (4.0, "air")
    # The worst part decides: CPUs here are estimates.
    assert (row["price_confidence"], row["price_as_of"]) == ("estimate", "2026-11")


def test_cables_and_switches_are_no_part_of_a_build() -> None:
    dear = [
        {**n, "per_port_switch_price_usd": 1e6, "cable_price_usd": 1e6, "per_port_switch_power_w": 1e6} for n in NETWORK
    ]
    plain, _ = compatible_builds(tables(), levels())
    other, _ = compatible_builds(tables(network=dear), levels())
    assert plain.equals(other)


def test_unknown_prices_are_never_nothing() -> None:
    unpriced = [{**NETWORK[0], "nic_price_usd": None}, {**NETWORK[1], "nic_power_w": None}, NETWORK[2]]
    cpus = [{**c, "pcie_gen": 5} for c in CPUS]
    builds, _ = compatible_builds(tables(cpus=cpus, network=unpriced), levels())
    assert set(builds["network"]) == {"400r"}
    drives = [{**DRIVES[0], "price_usd_per_tb": None}, {**DRIVES[1], "power_w": None}]
    assert compatible_builds(tables(drives=drives), levels())[0].is_empty()


def test_a_level_may_name_its_network() -> None:
    builds, refused = compatible_builds(tables(cpus=[{**c, "pcie_gen": 5} for c in CPUS]), levels([LEVELS[2]]))
    assert set(builds["network"]) == {"400r"}
    none, refused = compatible_builds(tables(), levels([{**LEVELS[2], "network": "no such"}]))
    assert none.is_empty()
    assert (
        refused.filter(pl.col("server") == "box", pl.col("accelerator") == "card")["reason"]
        .str.starts_with("network")
        .all()
    )


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


# --- systems sold whole ------------------------------------------------------------------------------------------------


def test_complete_systems_come_as_they_are() -> None:
    catalog = load_catalog()
    parts = Parts(catalog.servers, catalog.accelerators, catalog.cpus, catalog.ram, catalog.storage, catalog.network)
    systems, refused = complete_systems(parts)
    assert systems.columns == COLUMNS
    row = systems.filter(pl.col("server") == "DGX-H100").row(0, named=True)
    assert (row["level"], row["gpus"], row["price_usd"], row["nameplate_w"]) == (WHOLE, 8, 350000.0, 10200.0)
    assert (row["network"], row["nic_count"], row["network_gbps"]) == ("InfiniBand-NDR", 8, 3200.0)
    assert (row["ram_gib"], row["nvme_have_tb"], row["cores"], row["host_nameplate_w"]) == (
        2048.0,
        30.72,
        112.0,
        4600.0,
    )
    # Where remarks do not tell the kind of network, it is not made up.
    assert systems.filter(pl.col("server") == "CloudMatrix-384")["network"].to_list() in ([None], [])
    # Where ports inside are named, they make up the rate.
    told = systems.filter(pl.col("network").is_not_null()).join(catalog.network, on="network")
    assert told.height >= 6
    assert (told["nic_count"] * told["gbps_per_port"] == told["network_gbps"]).all()
    assert set(refused["reason"]) <= {"system has no price", "figures of the system or its accelerator unknown"}


def test_the_whole_catalogue() -> None:
    """What is built of the real catalogue keeps every rule, by verify's own count."""
    catalog = load_catalog()
    parts = Parts(catalog.servers, catalog.accelerators, catalog.cpus, catalog.ram, catalog.storage, catalog.network)
    builds, refused, beaten = server_builds(parts, levels(LEVELS[:2]))
    assert beaten.is_empty()
    assert builds.height > 100
    assert broken_rules(builds, parts) == []
    assert set(builds.filter("spans")["nic_count"]) >= {1, 2, 4, 8}
    assert builds.select(KEY).is_unique().all()
    assert refused["reason"].null_count() == 0
    assert builds.join(refused, on=KEY, how="inner").is_empty()
    needed = set(COLUMNS) - {"network", "nic_count", "nvme_have_tb", "nvme_have_gb_s", "price_as_of"}
    built = builds.filter(~pl.col("complete"))
    assert [c for c in needed if built[c].null_count()] == []


# --- builds that others stand in for -----------------------------------------------------------------------------------


def placed(rows: list[dict[str, Any]]) -> pl.DataFrame:
    plain = {
        "accelerator": "card", "gpus": 2, "deployment_mode": "on_premises", "complete": False, "cooling": "air",
        "network": "25", "nic_count": 1, "network_gbps": 25.0, "has_rdma": False, "price_usd": 100.0, "nameplate_w": 900.0,
        "price_confidence": "listed",
        "rack_units": 4.0, "cores": 32.0, "ram_gib": 256.0, "nvme_have_tb": 4.0, "nvme_have_gb_s": 7.0,
    }  # fmt: skip
    return pl.DataFrame([{**plain, **r, "pool": str(n)} for n, r in enumerate(rows)])


@pytest.mark.parametrize(
    "other",
    [
        {"price_usd": 99.0},
        {"nameplate_w": 899.0},
        {"network": "100r"},
        {"cooling": "liquid"},
        {"gpus": 4, "cores": 64.0},
        # The level "train" asks for 8 TB, 20 GB/s and twice the cards' memory.
        {"nvme_have_tb": 8.0, "price_usd": 101.0},
        {"nvme_have_gb_s": 21.0, "price_usd": 101.0},
    ],
)
def test_better_in_anything_that_is_asked_for_stays(other: dict[str, Any]) -> None:
    # In all else the second is the worse one.
    second = {"price_usd": 200.0, "nameplate_w": 1800.0, **other}
    left = unbeaten(placed([{}, second]), levels(LEVELS[:2]), pl.DataFrame(CARDS))
    assert left["pool"].to_list() == ["0", "1"]


@pytest.mark.parametrize(
    "other",
    [
        {},
        {"price_usd": 101.0},
        {"cores": 64.0, "price_usd": 101.0},
        {"nvme_have_tb": 7.0, "nameplate_w": 950.0},
        {"rack_units": None},
    ],
)
def test_more_of_what_nothing_asks_for_does_not_stay(other: dict[str, Any]) -> None:
    left = unbeaten(placed([{}, other]), levels(LEVELS[:2]), pl.DataFrame(CARDS))
    assert left["pool"].to_list() == ["0"]


def test_a_price_less_sure_stands_in_for_none_that_is_sure_enough() -> None:
    both = placed([{"price_confidence": "recalled"}, {"price_usd": 101.0}])
    for least, left in (("recalled", ["0"]), ("estimate", ["0", "1"]), ("measured", ["0", "1"])):
        found = unbeaten(both, levels(LEVELS[:2]), pl.DataFrame(CARDS), least_confidence=least)
        assert found["pool"].to_list() == left


def test_what_must_be_alike_beside() -> None:
    both = placed([{}, {"rack_units": 2.0, "price_usd": 101.0}])
    assert unbeaten(both, levels(LEVELS[:2]), pl.DataFrame(CARDS)).height == 1
    assert unbeaten(both, levels(LEVELS[:2]), pl.DataFrame(CARDS), ["rack_units"]).height == 2


def left_of(rows: list[dict[str, Any]], watt_usd: float = math.inf) -> list[str]:
    plain = [{"spare": False, "spans": False, **r} for r in rows]
    return unbeaten(placed(plain), levels(LEVELS[:2]), pl.DataFrame(CARDS), watt_usd=watt_usd)["pool"].to_list()


def test_where_watts_are_not_limited_a_watt_is_worth_so_much_and_no_more() -> None:
    lean = {"price_usd": 101.0, "nameplate_w": 800.0}
    assert left_of([{}, lean], 0.005) == ["0", "1"]
    # 101 + 4 against 100 + 4.50 USD, and 101 + 80 against 100 + 90.
    assert left_of([{}, {**lean, "spare": True}], 0.005) == ["0"]
    assert left_of([{}, {**lean, "spare": True}], 0.1) == ["0", "1"]
    assert left_of([{}, {**lean, "spare": True}]) == ["0", "1"]
    # Of two that are equal but for watts that cost nothing, one stays.
    assert left_of([{"spare": True}, {"spare": True, "nameplate_w": 800.0}], 0.0) == ["1"]


def test_what_is_there_for_work_across_nodes_only_stands_in_for_such_alone() -> None:
    cheap = {"price_usd": 90.0, "spans": True}
    assert left_of([{}, cheap]) == ["0", "1"]
    assert left_of([{"spans": True}, cheap]) == ["1"]
    assert left_of([{}, {**cheap, "price_usd": 101.0}]) == ["0"]


def test_what_a_build_must_stand_beside_counts_against_the_watts_of_its_site() -> None:
    rows = [
        # For work across nodes: two of 400 W, or of 900 W.
        ("s", 2, 200.0, 200.0, True, math.inf, 0.0, 400.0),
        ("s", 2, 200.0, 200.0, True, math.inf, 0.0, 900.0),
        # Inside nodes, beside two of 400 W and a switch of 300 W; too slow, or of one card, to have such work itself.
        ("s", 2, 100.0, 25.0, False, 300.0, 300.0, 600.0),
        ("s", 2, 100.0, 25.0, False, 300.0, 300.0, 601.0),
        ("s", 1, 200.0, 25.0, False, 300.0, 300.0, 601.0),
        # Fast enough to have it: two of 700 W and the switch.
        ("s", 2, 200.0, 25.0, False, 300.0, 300.0, 700.0),
        ("s", 2, 200.0, 25.0, False, 300.0, 300.0, 701.0),
        # Of use by itself.
        ("p", 2, 25.0, 25.0, False, None, None, 1700.0),
    ]
    named = ["network", "gpus", "network_gbps", "node_gbps", "spans", "beside_w", "pair_w", "w"]
    frame = pl.DataFrame(rows, schema=named, orient="row")
    kept = frame.select(useful(pl.col("w"), 1700.0)).to_series().to_list()
    assert kept == [True, False, True, False, False, True, False, True]
    assert frame.select(useful(pl.col("w"), math.inf).all()).item()
