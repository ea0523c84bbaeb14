"""Servers on a site's storage network: NICs, cables, ports, room for the NICs, their watts, and what a bill must say."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from catalogs.catalog import Catalog
from solver.candidates import build_candidates, rack_gear, reduced
from solver.features.builds import server_builds
from solver.features.parts import Parts
from solver.features.storage_room import INSIDE, has_room, sets_of
from solver.model import build_model
from solver.plan import Item, Result
from solver.scaling import scale
from solver.search import run
from solver.solve import solve
from solver.verify import verify
from solver.verify_parts import check_more_nics
from tests.features.part_tables import LEVELS, levels
from tests.oracle.brute import TooLargeError, brute_force
from tests.oracle.highs import highs_optimum
from tests.solver.test_fabric_plans import OPTIONS, problem, scaled
from tests.solver.test_rack_plans import hall, only

HGX = "HGX-H100-8U"
TLC = "NVMe pool of 15.36 TB drives"
DISKS = "HDD pool of 24 TB drives in 4U"
QUICK = {"class": "archive", "site": "hall", "size": "10TB"}


def stored(*servers: str, pools: tuple[str, ...] = (TLC,), **figures: Any) -> Catalog:
    """These servers, pools of drives and three networks alone; `figures` of the servers changed."""
    cat = only(*servers)
    networks = ["RoCEv2-25G", "100GbE", "200GbE", *["InfiniBand-NDR"] * ("DGX-H100" in servers)]
    ports = cat.network.filter(pl.col("network").is_in(networks))
    named = pl.col("storage").is_in(pools) | pl.col("capacity_tb").is_not_null()
    changed = cat.servers.with_columns(pl.lit(v).cast(cat.servers.schema[k]).alias(k) for k, v in figures.items())
    systems = cat.storage_systems.filter(pl.col("system").is_in(pools))
    return replace(cat, network=ports, servers=changed, storage=cat.storage.filter(named), storage_systems=systems)


def plan(cat: Catalog, read: str, count: int = 1, **more: Any) -> Result:
    loaded = problem(**{**hall(count), "data": [{**QUICK, "read": read}], **more})
    result = solve(loaded, cat, OPTIONS)
    if result.cost is not None:
        assert verify(result, loaded.problem, cat) == []
    return result


def lines(result: Result) -> dict[str, Item]:
    """Bought parts of storage networks by role."""
    some = [i for i in result.items if (i.gear or "").startswith("storage-network ") and i.billing == "purchase"]
    return {(i.gear or "").split(" ")[1]: i for i in some}


def counts(result: Result) -> dict[str, float]:
    return {role: i.quantity for role, i in lines(result).items()}


# --- how many ------------------------------------------------------------------------------------------------


def test_a_cluster_of_thirty_two_beside_four_boxes() -> None:
    """32 servers and four boxes of two ports are 40 ports: two switches of 32, 40 cables, 32 NICs."""
    result = plan(stored(HGX), "180GB/s", 32)
    found = lines(result)
    assert counts(result) == {"flat2": 2, "links": 40, "nic": 32}
    assert (found["nic"].unit_cost, found["nic"].power_w) == (1100, 32 * 22)
    assert (found["flat2"].unit_cost, found["flat2"].power_w) == (25_000, 2 * 450)
    assert found["links"].unit_cost == 300


def test_one_box_hangs_on_the_network_of_the_site() -> None:
    assert counts(plan(stored(HGX), "45GB/s", 2)) == {"links": 2}
    assert counts(plan(stored(HGX), "46GB/s", 2)) == {"switch": 1, "links": 6, "nic": 2}


def test_systems_sold_whole_bring_their_nics() -> None:
    assert counts(plan(stored("DGX-H100"), "46GB/s", 2)) == {"switch": 1, "links": 6}


def test_owned_machines_bring_theirs() -> None:
    owned = [{"accelerator": "H100-80GB-SXM5", "count": 8, "build": HGX, "site": "hall", "may_sell": False}]
    result = plan(stored(HGX), "46GB/s", 1, owned=owned, policy={"min_confidence": "recalled"})
    assert [i.billing for i in result.items if i.kind == "server" and i.quantity] == ["owned"]
    assert counts(result) == {"switch": 1, "links": 5}


def test_every_network_has_ports_of_its_own() -> None:
    """Two boxes of flash for the speed and two of disks for the room: a NIC of 200 and one of 100 Gb/s in every server."""
    data = [{**QUICK, "read": "46GB/s", "iops": 100_000}, {**QUICK, "class": "backups", "size": "1PB"}]
    result = plan(stored(HGX, pools=(TLC, DISKS)), "", 2, data=data)
    bought = [i for i in result.items if (i.gear or "").startswith("storage-network nic") and i.billing == "purchase"]
    assert {(i.gear or "").split(" ")[3]: i.quantity for i in bought} == {"200GbE": 2, "100GbE": 2}


# --- room: trivially feasible, just feasible, just infeasible -----------------------------------------------------


@pytest.mark.parametrize(("slots", "status"), [(12, "optimal"), (2, "optimal"), (1, "infeasible")])
def test_a_server_has_a_slot_for_the_nic(slots: int, status: str) -> None:
    """The cheapest build has one NIC of its own."""
    assert plan(stored(HGX, nic_slots=slots), "46GB/s").status == status
    assert plan(stored(HGX, nic_slots=slots), "45GB/s").status == "optimal"


def test_supplies_carry_the_nic() -> None:
    """A supply that gives what the leanest build draws, and 22 W more."""
    alone = plan(stored(HGX), "45GB/s", policy={"billing": "purchase", "min_confidence": "recalled"}, objective="power")
    leanest = next(i.power_w for i in alone.items if i.kind == "server" and i.billing == "purchase")
    assert leanest is not None
    assert plan(stored(HGX, max_power_w=leanest), "45GB/s").status == "optimal"
    assert plan(stored(HGX, max_power_w=leanest + 22), "46GB/s").status == "optimal"
    assert plan(stored(HGX, max_power_w=leanest + 21), "46GB/s").status == "infeasible"


def test_room_is_what_the_parts_leave() -> None:
    """Every build of the catalogue: its room says of each set of networks what the recheck of its parts does."""
    cat = only("PCIe-4GPU-2U", "PCIe-2xL40S-2U", "Workstation-2GPU", HGX)
    parts = Parts(cat.servers, cat.accelerators, cat.cpus, cat.ram, cat.storage, cat.network)
    networks = ["100GbE", "200GbE", "400GbE"]
    rows = {r["network"]: r for r in cat.network.iter_rows(named=True)}
    built = server_builds(parts, levels(LEVELS), stored=networks).builds
    seen = set()
    for row in built.iter_rows(named=True):
        item = Item.model_construct(item=row["server"], parts=tuple(row["parts"]))
        for number, some in enumerate(sets_of(networks)):
            fits = not check_more_nics(item, [rows[n] for n in some], cat)
            assert has_room(row["storage_room"], number) == fits, (row["parts"], some)
            seen.add(fits)
    assert seen == {True, False}
    assert has_room(INSIDE, 6)
    assert not has_room(None, 0)


# --- watts -----------------------------------------------------------------------------------------------------


def room_w(cat: Catalog, read: str, **more: Any) -> float:
    """Nameplate of the servers and NICs of the leanest plan."""
    result = plan(cat, read, objective="power", **more)
    return sum(i.power_w or 0.0 for i in result.items if i.billing == "purchase")


@pytest.mark.parametrize("few", [True, False])
def test_racks_and_circuits_carry_the_nic(few: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rack that carries the server, its NIC, two boxes and a switch, and one of a watt less."""
    if not few:
        monkeypatch.setattr(rack_gear, "MOST_APART", 0)
    cat = stored(HGX)
    needed = room_w(cat, "46GB/s", workloads=hall(1)["workloads"])
    # Drives stand in every bay of a box: 24 of 22 W, of which eight are held in all.
    full = needed + (48 - 8) * 22
    for watts, status in ((full + 500, "optimal"), (full, "optimal"), (full - 1, "infeasible")):
        room = hall(1, racks={"count": 1, "power": f"{watts:g}W", "units": 60})
        assert plan(cat, "46GB/s", sites=room["sites"]).status == status


@pytest.mark.parametrize(("more", "status"), [(100, "optimal"), (0, "optimal"), (-1, "infeasible")])
def test_the_site_carries_the_nics(more: int, status: str) -> None:
    watts = room_w(stored(HGX), "46GB/s")
    room = hall(1, power=f"{watts + more:g}W")
    assert plan(stored(HGX), "46GB/s", sites=room["sites"]).status == status


# --- tampered plans -------------------------------------------------------------------------------------------


def test_tampered_networks_are_refused() -> None:
    cat = stored(HGX)
    loaded = problem(**{**hall(2, racks={"count": 2, "power": "40kW"}), "data": [{**QUICK, "read": "46GB/s"}]})
    result = solve(loaded, cat, OPTIONS)
    assert verify(result, loaded.problem, cat) == []

    def said(role: str, change: Callable[[Item], Item | None], to: Catalog = cat) -> str:
        items = [change(i) if (i.gear or "").startswith(f"storage-network {role} ") else i for i in result.items]
        changed = result.model_copy(update={"items": tuple(i for i in items if i is not None)})
        return "; ".join(verify(changed, loaded.problem, to))

    def bought(**update: Any) -> Callable[[Item], Item]:
        return lambda i: i.model_copy(update=update) if i.billing == "purchase" else i

    def same(item: Item) -> Item:
        return item

    assert "1 storage NICs for 2 servers" in said("nic", bought(quantity=1.0))
    assert "nameplate is" in said("nic", lambda i: None)
    assert "unit cost" in said("nic", bought(unit_cost=result.items[0].unit_cost / 1000))
    assert "energy of the storage network" in said("nic", lambda i: i if i.kind != "energy" else None)
    assert "5 cables for 6 ports of storage" in said("links", bought(quantity=5.0))
    assert "6 ports of storage on 0 switches" in said("switch", lambda i: None)
    assert "switches without links" in said("switch", bought(gear="storage-network flat3 hall 200GbE", quantity=3.0))
    assert "uplinks" in said("switch", bought(gear="storage-network leaf hall 200GbE"))
    assert "stands at no own site" in said("switch", bought(gear="storage-network switch shed 200GbE"))
    assert "NIC slots: 2 NICs in 1 slots" in said("nic", same, stored(HGX, nic_slots=1))


# --- agreement ------------------------------------------------------------------------------------------------


def random_hall(rng: random.Random) -> tuple[dict[str, Any], Catalog]:
    """A few servers, with and without room, beside one box or two, in a small room."""
    servers = rng.sample([HGX, "DGX-H100", "HGX-H100-6U"], rng.choice([1, 2]))
    cat = stored(
        *servers, pools=tuple(rng.sample([TLC, DISKS], rng.choice([1, 1, 2]))), nic_slots=rng.choice([1, 2, 3, 12])
    )
    data = [{**QUICK, "size": rng.choice(["20TB", "900TB"]), "read": rng.choice(["1GB/s", "14GB/s", "60GB/s"])}]
    if rng.random() < 0.4:
        data.append({**QUICK, "class": "backups", "size": rng.choice(["20TB", "900TB"])})
    room: dict[str, Any] = {}
    if rng.random() < 0.5:
        room["racks"] = {
            "count": rng.choice([1, 2]),
            "power": f"{rng.choice([13, 16, 25])}kW",
            "units": rng.choice([20, 42]),
        }
    return {**hall(rng.choice([1, 2]), **room), "data": data}, cat


@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(s, marks=pytest.mark.slow) for s in range(6, 40))])
def test_all_solvers_agree_on_ports(seed: int) -> None:
    changes, cat = random_hall(random.Random(seed))
    loaded = problem(**changes)
    inst = scaled(loaded, cat).instance
    found = run(build_model(inst), time_limit_s=30, gap=0.0, workers=2, seed=1)
    assert highs_optimum(inst).objective == found.objective
    whole = scale(reduced(build_candidates(loaded.problem, cat, Path()), prune=False), cat).instance
    assert run(build_model(whole), time_limit_s=30, gap=0.0, workers=2, seed=1).objective == found.objective
    result = solve(loaded, cat, OPTIONS)
    assert (result.cost is None) == (found.objective is None)
    if result.cost is not None:
        assert verify(result, loaded.problem, cat) == []
    try:
        best = brute_force(inst, 50_000)
    except (TooLargeError, ValueError):
        return
    assert found.objective == (None if best is None else best.objective)


# --- speed ----------------------------------------------------------------------------------------------------


def trained(read: str, count: int, cat: Catalog, data: dict[str, Any] | None = None) -> Result:
    """A reservation of some nodes that reads its own data at a stated speed."""
    work = {
        **hall(count)["workloads"][0],
        "data": [{"class": "training_data", "size": "10TB", "read": read, **(data or {})}],
    }
    loaded = problem(workloads=[work], sites=hall(count)["sites"])
    result = solve(loaded, cat, OPTIONS)
    if result.cost is not None:
        assert verify(result, loaded.problem, cat) == []
    return result


@pytest.mark.parametrize(
    ("read", "count", "status"),
    [("46GB/s", 2, "optimal"), ("50GB/s", 2, "optimal"), ("50.1GB/s", 2, "infeasible"), ("50.1GB/s", 3, "optimal")],
)
def test_work_reads_no_faster_than_the_ports_of_its_nodes(read: str, count: int, status: str) -> None:
    """25 GB/s a node; on the nodes' own drives nothing may lie alone."""
    assert trained(read, count, stored(HGX), {"staged": "no"}).status == status


def test_one_box_is_reached_over_the_network_of_the_site() -> None:
    assert trained("45GB/s", 1, stored(HGX), {"staged": "no"}).status == "optimal"
    assert trained("46GB/s", 1, stored(HGX), {"staged": "no"}).status == "infeasible"


def test_a_plan_whose_ports_are_too_slow_is_refused() -> None:
    cat = stored(HGX)
    work = {
        **hall(2)["workloads"][0],
        "data": [{"class": "training_data", "size": "10TB", "read": "50GB/s", "staged": "no"}],
    }
    loaded = problem(workloads=[work], sites=hall(2)["sites"])
    result = solve(loaded, cat, OPTIONS)
    slower = cat.network.with_columns(
        gbps_per_port=pl.when(pl.col("network") == "200GbE").then(100.0).otherwise("gbps_per_port")
    )
    said = "; ".join(verify(result, loaded.problem, replace(cat, network=slower)))
    assert "lab: 50 GB/s to read through ports of 25" in said


def test_a_replica_is_held_to_its_part_of_a_node() -> None:
    """Weights that two replicas load at once: each half of the speed, over its cards' share of 25 GB/s."""
    chat = {
        "name": "chat",
        "kind": "serve",
        "model": "llama-3-70b",
        "precision": ["fp8"],
        "traffic": {"rate": "1 req/s", "isl": 500, "osl": 100, "calendar": "flat"},
    }

    def served(read: str) -> Result:
        data = [{"class": "weights", "size": "10TB", "read": read, "readers": 2, "staged": "no"}]
        loaded = problem(workloads=[{**chat, "data": data}], sites=hall(1)["sites"])
        result = solve(loaded, stored(HGX), OPTIONS)
        if result.cost is not None:
            assert verify(result, loaded.problem, stored(HGX)) == []
        return result

    eight = served("50GB/s")
    assert {p.accelerators_per_replica for w in eight.workloads for p in w.placements} == {8}
    assert served("50.1GB/s").status == "infeasible"
