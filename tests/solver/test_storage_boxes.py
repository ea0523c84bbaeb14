"""Storage boxes through the whole model: bays, GB/s, rack units, circuits, watts, ports and money, and what a bill must say."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from catalogs.catalog import Catalog
from solver.model import build_model
from solver.plan import Item, Result
from solver.report.export import item_records
from solver.report.page import View
from solver.report.text import render_result
from solver.search import run
from solver.solve import solve
from solver.verify import verify
from tests.oracle.brute import TooLargeError, brute_force
from tests.oracle.highs import highs_optimum
from tests.solver.test_fabric_plans import OPTIONS, problem, scaled
from tests.solver.test_rack_plans import DGX, hall, only

CEPH = "Ceph/object HDD pool (self-built)"
LUSTRE = "Lustre-all-flash (self-built)"
TLC = "NVMe pool of 15.36 TB drives"
QLC = "NVMe pool of 30.72 TB QLC drives"
DISKS = "HDD pool of 24 TB drives in 4U"
SMALL_DISKS = "HDD pool of 16 TB drives in 2U"


def tiers(*names: str) -> Catalog:
    """One server, and these systems and pools alone."""
    cat = only(DGX)
    named = pl.col("storage").is_in(names) | pl.col("capacity_tb").is_not_null()
    systems = cat.storage_systems.filter(pl.col("system").is_in(names) | (pl.col("kind") == "class"))
    return replace(cat, storage=cat.storage.filter(named), storage_systems=systems)


def with_data(data: list[dict[str, Any]], count: int = 1, **room: Any) -> dict[str, Any]:
    return {**hall(count, **room), "data": [{"class": "archive", "site": "hall", **d} for d in data]}


def plan(cat: Catalog, size: str, more: dict[str, Any] | None = None, **room: Any) -> Result:
    loaded = problem(**with_data([{"size": size, **(more or {})}], **room))
    result = solve(loaded, cat, OPTIONS)
    if result.cost is not None:
        assert verify(result, loaded.problem, cat) == []
    return result


def boxes(result: Result) -> dict[str, float]:
    return {
        i.item: i.quantity for i in result.items if (i.gear or "").startswith("boxes of ") and i.billing == "purchase"
    }


def held(result: Result, name: str) -> Item:
    return next(i for i in result.items if i.gear == f"site hall/{name}" and i.billing == "purchase")


# --- how many ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "count"), [("10TB", 1), ("768TB", 1), ("769TB", 2), ("1PB", 2), ("3PB", 4)])
def test_disks_by_the_terabyte_stand_in_boxes_of_sixty(size: str, count: int) -> None:
    """60 disks of 24 TB keep two thirds: 960 TB, of which 80 % may be filled."""
    assert boxes(plan(tiers(CEPH), size)) == {"HDD-4U60-server": count}


def test_a_petabyte_on_disks() -> None:
    """1 PB filled to 80 % under an erasure code of 1.5: 79 disks of 24 TB, two boxes of 4U; a pool pays for both."""
    result = plan(tiers(DISKS), "1PB")
    assert held(result, DISKS).quantity == 79
    line = next(i for i in result.items if i.item == "HDD-4U60-server" and i.billing == "purchase")
    assert (line.quantity, line.unit_cost, line.power_w) == (2, 14_500, 2 * 350)


def test_published_boxes_draw_what_was_measured() -> None:
    """60 disks of 16 TB in a shelf drew 480 W; an appliance of 24 drives is rated at 2.2 kW."""
    cat = only(DGX)
    rows = {r["box"]: r for r in cat.storage_boxes.iter_rows(named=True)}
    drive = {r["storage"]: r["power_w"] for r in cat.storage.iter_rows(named=True)}
    assert rows["HDD-4U60-shelf"]["power_w"] + 60 * drive["HDD-nearline-16TB"] == pytest.approx(480)
    assert rows["NVMe-2U24-appliance"]["power_w"] + 24 * drive["NVMe-TLC-Gen4-15.36TB"] == pytest.approx(2200, rel=0.01)


def test_speed_takes_boxes_too() -> None:
    """10 TB need eight drives at least; 100 GB/s need fifteen, and three boxes of 45 GB/s."""
    slow = plan(tiers(TLC), "10TB")
    assert (held(slow, TLC).quantity, boxes(slow)) == (8, {"NVMe-2U24-server": 1})
    quick = plan(tiers(TLC), "10TB", {"read": "100GB/s"})
    assert (held(quick, TLC).quantity, boxes(quick)) == (15, {"NVMe-2U24-server": 3})


def test_a_price_per_terabyte_pays_for_its_boxes() -> None:
    result = plan(tiers(LUSTRE), "1PB")
    line = next(i for i in result.items if i.item == "NVMe-2U24-server" and i.billing == "purchase")
    assert (line.quantity, line.total_cost) == (10, 0)  # 138 TB each
    assert "paid with the TB" in line.parts


def test_a_box_without_price_makes_no_pool() -> None:
    cat = tiers(TLC)
    unknown = replace(cat, storage_boxes=cat.storage_boxes.with_columns(price_usd=pl.lit(None, pl.Float64)))
    assert plan(unknown, "10TB").status == "infeasible"


def test_boxes_that_a_price_per_terabyte_leaves_out() -> None:
    """They are paid, and where their price is not known the system cannot be had."""
    cat = tiers(LUSTRE)
    apart = replace(cat, storage_systems=cat.storage_systems.with_columns(boxes_in_price=pl.lit(value=False)))
    line = next(i for i in plan(apart, "1PB").items if i.item == "NVMe-2U24-server" and i.billing == "purchase")
    assert (line.quantity, line.unit_cost) == (10, 22_400)
    unknown = replace(apart, storage_boxes=cat.storage_boxes.with_columns(price_usd=pl.lit(None, pl.Float64)))
    assert plan(unknown, "1PB").status == "infeasible"


def test_denser_drives_save_boxes() -> None:
    """Of two pools the model takes the one that is cheaper with its boxes."""
    both = plan(tiers(TLC, QLC), "1PB")
    assert boxes(both) == {"NVMe-2U24-server": 3}
    assert held(both, QLC).quantity == 55


# --- rack units, circuits, watts: trivially feasible, just feasible, just infeasible ------------------------------


@pytest.mark.parametrize(("units", "status"), [(42, "optimal"), (12, "optimal"), (11, "infeasible")])
def test_boxes_take_rack_units(units: int, status: str) -> None:
    """A system of 8U and a box of 4U in one rack."""
    assert plan(tiers(CEPH), "500TB", racks={"count": 1, "power": "20kW", "units": units}).status == status


@pytest.mark.parametrize(("kw", "status"), [("20kW", "optimal"), ("11.03kW", "optimal"), ("11.029kW", "infeasible")])
def test_boxes_take_power_of_a_rack(kw: str, status: str) -> None:
    """10,200 W beside a box of 350 W with 60 disks of 8 W."""
    assert plan(tiers(CEPH), "500TB", racks={"count": 1, "power": kw}).status == status


@pytest.mark.parametrize(("volts", "status"), [(400, "optimal"), (220.6, "optimal"), (220.58, "infeasible")])
def test_boxes_hang_on_circuits(volts: float, status: str) -> None:
    """11,030 W on one circuit of 50 A; a second circuit does where one is too small."""
    circuit = {"volts": volts, "amps": 50, "phases": 1, "derate": "100%", "count": 1}
    assert plan(tiers(CEPH), "500TB", circuits=[circuit]).status == status
    assert plan(tiers(CEPH), "500TB", circuits=[{**circuit, "count": 2}]).status == "optimal"


@pytest.mark.parametrize(("watts", "status"), [(20_000, "optimal"), (11_242, "optimal"), (11_241, "infeasible")])
def test_boxes_and_drives_draw_at_the_site(watts: int, status: str) -> None:
    """10,200 W, eleven drives of 22 W and a box of 800 W."""
    assert plan(tiers(TLC), "100TB", power=f"{watts}W").status == status


@pytest.mark.parametrize(("units", "status"), [(42, "optimal"), (14, "optimal"), (13, "infeasible")])
def test_two_models_share_a_rack(units: int, status: str) -> None:
    """8U of system, 2U of flash for the operations and 4U of disks; each box alone on its network, so no switch."""
    data = [{"size": "10TB", "iops": 100_000}, {"size": "600TB", "class": "backups"}]
    cat = tiers(TLC, DISKS)
    loaded = problem(**with_data(data, racks={"count": 1, "power": "40kW", "units": units}))
    result = solve(loaded, cat, OPTIONS)
    assert result.status == status
    if result.cost is not None:
        assert verify(result, loaded.problem, cat) == []
        assert boxes(result) == {"NVMe-2U24-server": 1, "HDD-4U60-server": 1}


# --- ports ----------------------------------------------------------------------------------------------------


def network(result: Result) -> dict[str, float]:
    lines = [i for i in result.items if (i.gear or "").startswith("storage-network ") and i.billing == "purchase"]
    return {(i.gear or "").split(" ")[1]: i.quantity for i in lines}


@pytest.mark.parametrize(
    ("speed", "expected"),
    [
        (45, {"links": 2}),
        (46, {"switch": 1, "links": 5}),
        (675, {"switch": 1, "links": 31}),
        (676, {"flat2": 2, "links": 33}),
        (1395, {"flat2": 2, "links": 63}),
        (1396, {"leaf": 5, "spine4": 4, "links": 65, "trunk": 80}),
    ],
)
def test_ports_of_boxes(speed: int, expected: dict[str, int]) -> None:
    """Two ports of 200 Gb/s a box of 45 GB/s and one of the system, switches of 32 ports; one box alone needs none.

    Two switches need no links between them, as every box has a port on each: 64 ports. Of 65, sixteen to a leaf, five leaves have 80
    links upward: three spines have the ports, four spread the sixteen of a leaf evenly.
    """
    assert network(plan(tiers(TLC), "10TB", {"read": f"{speed}GB/s"})) == expected


def test_the_fabric_of_the_nodes_stays_as_published() -> None:
    """32 systems with 8 ports each: 8 leaves and 4 spines, with storage or without."""
    loaded = problem(**with_data([{"size": "1PB", "read": "100GB/s"}], count=32))
    result = solve(loaded, tiers(TLC), OPTIONS)
    assert verify(result, loaded.problem, tiers(TLC)) == []
    counted = {
        (i.gear or "").split(" ")[1]: i.quantity
        for i in result.items
        if (i.gear or "").startswith("fabric ") and i.billing == "purchase"
    }
    assert counted == {"links": 256, "leaf": 8, "spine4": 4, "trunk": 256}


# --- tampered plans -------------------------------------------------------------------------------------------


def test_tampered_boxes_are_refused() -> None:
    cat = tiers(TLC)
    room = {"racks": {"count": 2, "power": "20kW"}, "circuits": ["400V 32A x4"]}
    loaded = problem(**with_data([{"size": "300TB", "read": "60GB/s"}], **room))
    result = solve(loaded, cat, OPTIONS)
    assert verify(result, loaded.problem, cat) == []
    assert boxes(result) == {"NVMe-2U24-server": 2}

    def said(prefix: str, change: Callable[[Item], Item | None]) -> str:
        items = [change(i) if (i.gear or "").startswith(prefix) else i for i in result.items]
        changed = result.model_copy(update={"items": tuple(i for i in items if i is not None)})
        return "; ".join(verify(changed, loaded.problem, cat))

    def bought(**update: Any) -> Callable[[Item], Item]:
        return lambda i: i.model_copy(update=update) if i.billing == "purchase" else i

    def no_place(item: Item) -> Item:
        return item.model_copy(update={"parts": tuple(p for p in item.parts if "storage" not in p)})

    def more_places(item: Item) -> Item:
        return item.model_copy(
            update={
                "parts": tuple(
                    p.replace("x place for storage", "0 x place for storage", 1).replace(" 0 x", "0 x")
                    for p in item.parts
                )
            }
        )

    assert "drives in 1 boxes of 24 bays" in said("boxes of ", bought(quantity=1.0))
    assert "GB/s to read asked of 1 boxes" in said("boxes of ", bought(quantity=1.0))
    assert "unit cost" in said("boxes of ", bought(unit_cost=result.items[0].unit_cost / 1000))
    assert "no such box" in said("boxes of ", bought(item="HDD-2U12-server"))
    assert "storage boxes of 2U in no rack" in said("rack ", no_place)
    assert "storage boxes in no circuit" in said("circuit ", no_place)
    assert "W in a rack" in said("rack ", more_places)
    assert "ports of storage on 0 switches" in said("storage-network switch", lambda i: None)
    assert "0 cables for 5 ports of storage" in said("storage-network links", lambda i: None)
    assert "energy of the storage network" in said(
        "storage-network switch", lambda i: i if i.kind != "energy" else None
    )
    assert "nameplate is" in said("boxes of ", lambda i: None)


# --- agreement ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(s, marks=pytest.mark.slow) for s in range(6, 60))])
def test_all_solvers_agree_with_boxes_racks_and_circuits(seed: int) -> None:
    inst = scaled(problem(**random_room(random.Random(seed))), random_tiers(random.Random(seed + 1))).instance
    found = run(build_model(inst), time_limit_s=30, gap=0.0, workers=2, seed=1)
    assert highs_optimum(inst).objective == found.objective
    try:
        best = brute_force(inst, 50_000)
    except TooLargeError:
        pytest.skip("too many plans to try")
    assert found.objective == (None if best is None else best.objective)


def random_tiers(rng: random.Random) -> Catalog:
    return tiers(*rng.sample([CEPH, LUSTRE, TLC, QLC, DISKS, SMALL_DISKS], rng.choice([1, 1, 2])))


def random_room(rng: random.Random) -> dict[str, Any]:
    data = [
        {"size": rng.choice(["20TB", "90TB", "200TB"]), "class": kind}
        for kind in rng.sample(["archive", "backups"], rng.choice([1, 1, 2]))
    ]
    if rng.random() < 0.5:
        data[0]["read"] = rng.choice(["1GB/s", "4GB/s", "14GB/s"])
    room: dict[str, Any] = {}
    if rng.random() < 0.7:
        room["racks"] = {
            "count": rng.randint(1, 2),
            "power": f"{rng.choice([11, 12, 15])}kW",
            "units": rng.choice([10, 12, 16]),
        }
    if rng.random() < 0.5:
        room["circuits"] = [{"volts": 400, "amps": rng.choice([16, 32]), "count": rng.randint(1, 4)}]
    return with_data(data, **room)


# --- on the page ----------------------------------------------------------------------------------------------


def test_pages_and_exports_list_boxes() -> None:
    result = plan(tiers(DISKS), "1PB", racks={"count": 2, "power": "30kW"}, circuits=["400V 63A x4"])
    english = render_result(result, View(width=160))
    for text in ("in 2 x HDD-4U60-server", "60 x drive bay", "4U high", "place for storage of up to 830 W and 4U"):
        assert text in english
    chinese = render_result(result, View(width=160, lang="zh"))
    for text in ("装于 2 台 HDD-4U60-server", "60 个盘位", "高 4U", "个存储位，每个至多 830 W、4U"):
        assert text in chinese
    records = {r["item"]: r for r in item_records(result) if r["billing"] == "purchase"}
    assert records["HDD-4U60-server"]["parts"] == "4U high; 60 x drive bay; 2 x port 100GbE"
    assert records["storage switch, SN2700/SN3700C 32x100G"]["quantity"] == 1
