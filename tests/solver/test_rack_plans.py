"""Racks, circuits and cooling through the whole model: what fits, what just fits, what does not, and what a bill must say."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from catalogs.catalog import Catalog
from catalogs.load import load_catalog
from problems.load import LoadedProblem, load_problem
from solver.candidates import build_candidates, rack_menu, reduced
from solver.features.racks import Room, nodes_in_room
from solver.instance import Instance
from solver.least import least
from solver.loosened import loosened
from solver.model import build_model
from solver.plan import Item, Result
from solver.scaling import scale
from solver.search import run
from solver.search_state import How
from solver.solve import solve
from solver.verify import verify
from tests.oracle.brute import TooLargeError, brute_force
from tests.oracle.highs import highs_optimum
from tests.solver.test_fabric_plans import OPTIONS, catalog, nodes, problem, scaled
from tests.solver.test_fabric_plans import only as with_states

DGX = "DGX-H100"
PROBLEMS = Path(__file__).resolve().parents[2] / "problems"


def only(*servers: str) -> Catalog:
    """These servers alone, with cards that cannot be capped: nodes draw what their nameplates say."""
    cat = with_states(*servers)
    return replace(cat, power_curves=cat.power_curves.filter(pl.col("cap_share") == 1))


def hall(count: int, **room: Any) -> dict[str, Any]:
    return {**nodes(count), "sites": [{"name": "hall", "pue": 1.0, "electricity": "$0.1/kWh", **room}]}


def status(count: int, **room: Any) -> str:
    loaded = problem(**hall(count, **room))
    result = solve(loaded, only(DGX), OPTIONS)
    if result.cost is not None:
        assert verify(result, loaded.problem, only(DGX)) == []
    return result.status.value


def test_nodes_fill_racks() -> None:
    """Systems of 10.2 kW and 8U: four to a rack of 42 kW; a single switch goes beside them where there is height."""
    assert status(1, racks={"count": 1, "power": "10.2kW"}) == "optimal"
    assert status(1, racks={"count": 1, "power": "10.1kW"}, cooling="air") == "infeasible"
    assert status(4, racks={"count": 1, "power": "43kW"}) == "optimal"
    assert status(4, racks={"count": 1, "power": "41kW"}) == "infeasible"  # 40.8 kW and a switch of 1.07 kW
    assert status(4, racks={"count": 2, "power": "41kW"}) == "optimal"
    assert status(5, racks={"count": 1, "power": "99kW", "units": 41}) == "optimal"
    assert status(5, racks={"count": 1, "power": "99kW", "units": 40}) == "infeasible"  # no height for the switch


def test_circuits_carry_nodes() -> None:
    """400 V and 32 A on three phases carry 17.7 kW at 80 %: one system each; the switch hangs on what is left."""
    three = {"volts": 400, "amps": 32, "count": 3}
    assert status(3, circuits=[three]) == "optimal"
    assert status(4, circuits=[three]) == "infeasible"
    assert status(4, circuits=[{**three, "count": 4}]) == "optimal"
    assert status(3, circuits=[{**three, "count": 4}], redundancy="n+1") == "optimal"
    assert status(4, circuits=[{**three, "count": 4}], redundancy="n+1") == "infeasible"
    assert status(2, circuits=[{**three, "count": 4}], redundancy="2n") == "optimal"
    assert status(3, circuits=[{**three, "count": 4}], redundancy="2n") == "infeasible"


def test_a_node_may_take_several_circuits() -> None:
    """8.6 kW are too little for 10.2 kW: two circuits for each system."""
    circuit = {"volts": 208, "amps": 30, "phases": 3}
    assert status(2, circuits=[{**circuit, "count": 4}]) == "optimal"
    assert status(2, circuits=[{**circuit, "count": 3}]) == "infeasible"


@pytest.mark.parametrize(("kw", "units", "count"), [(17, 42, 3), (21, 42, 2), (31, 48, 2), (45, 20, 3), (60, 42, 1)])
def test_as_many_nodes_as_the_function_says(kw: int, units: int, count: int) -> None:
    """Without switches to house (two systems at most), as many fit as `nodes_in_room` counts."""
    room = Room(racks=count, rack_kw=kw, rack_units=units)
    most, _ = nodes_in_room(room, 10.2, 8)
    assert most is not None
    racks = {"count": count, "power": f"{kw}kW", "units": units}
    if most <= 2:
        assert status(most, racks=racks) == "optimal"
    assert status(most + 1, racks=racks) == "infeasible"


@pytest.mark.parametrize(
    "room",
    [
        {"racks": {"count": 1, "power": "41kW"}},
        {"circuits": [{"volts": 208, "amps": 30, "phases": 3, "count": 4}]},
    ],
)
def test_cards_are_capped_where_racks_or_circuits_are_short(room: dict[str, Any]) -> None:
    """Four systems in 41 kW with their switch, or on four circuits of 8.6 kW: at rated power they would be too many."""
    loaded = problem(**hall(4, **room))
    assert solve(loaded, only(DGX), OPTIONS).status == "infeasible"
    result = solve(loaded, with_states(DGX), OPTIONS)
    assert result.status == "optimal"
    assert verify(result, loaded.problem, with_states(DGX)) == []
    servers = [i for i in result.items if i.kind == "server"]
    assert any(i.power_limit_w is not None for i in servers)


def test_cooling_must_be_there() -> None:
    liquid = problem(**hall(1, cooling="liquid"))
    result = solve(liquid, only(DGX), OPTIONS)
    assert result.status == "infeasible"
    assert any("sites.hall.cooling" in text for text in result.no_plan_because)
    rack: dict[str, Any] = {"name": "lab", "kind": "fixed", "accelerator": "GB200", "count": 72}
    for cooling, plan in (("air", False), ("liquid", True), (["air", "liquid"], True)):
        site = {"name": "hall", "electricity": "$0.1/kWh", "cooling": cooling, "racks": 1}
        found = solve(problem(workloads=[rack], sites=[site]), only("GB200-NVL72"), OPTIONS)
        assert (found.cost is not None) is plan


def test_racks_are_paid_and_counted() -> None:
    loaded = problem(**hall(5, racks={"count": 9, "power": "22kW", "price": "$1000/mo"}))
    result = solve(loaded, only(DGX), OPTIONS)
    racks = [i for i in result.items if i.kind == "rack"]
    assert sum(i.quantity for i in racks) == 3
    assert sum(i.total_cost for i in racks) == 3 * 12_000
    use = next(u for u in result.limits if u.field == "sites.hall.racks")
    assert (use.used, use.limit) == (3, 9)


def test_free_racks_are_as_few_as_can_be() -> None:
    result = solve(problem(**hall(5, racks={"count": 9, "power": "22kW"})), only(DGX), OPTIONS)
    assert sum(i.quantity for i in result.items if i.kind == "rack") == 3


def _plan() -> tuple[Result, Any]:
    loaded = problem(**hall(5, racks={"count": 3, "power": "22kW"}, circuits=["400V 32A x6"], redundancy="n+1"))
    result = solve(loaded, only(DGX), OPTIONS)
    assert verify(result, loaded.problem, only(DGX)) == []
    return result, loaded.problem


def _without(result: Result, prefix: str, change: Callable[[Item], Item | None]) -> Result:
    items = [change(i) if (i.gear or "").startswith(prefix) else i for i in result.items]
    return result.model_copy(update={"items": tuple(i for i in items if i is not None)})


def test_tampered_rooms_are_refused() -> None:
    result, wanted = _plan()

    def said(changed: Result) -> str:
        return "; ".join(verify(changed, wanted, only(DGX)))

    def fuller(item: Item) -> Item:
        parts = tuple(p.replace("2 x node", "3 x node").replace("1 x node", "3 x node") for p in item.parts)
        return item.model_copy(update={"parts": parts})

    assert "stand in no rack" in said(_without(result, "rack ", lambda i: None))
    assert "hang on no circuit" in said(_without(result, "circuit ", lambda i: None))
    assert "W in a rack" in said(_without(result, "rack ", fuller))
    assert "W on a circuit" in said(_without(result, "circuit ", fuller))
    more = _without(result, "rack ", lambda i: i.model_copy(update={"quantity": i.quantity + 5}))
    assert "racks of 3" in said(more)
    no_box = _without(result, "rack ", lambda i: i.model_copy(update={"parts": i.parts[:1]}))
    assert "not all of them in a rack" in said(no_box)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.slow
def test_all_solvers_agree_with_fabrics_racks_and_circuits(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.choice([1, 2, 3, 5, 9, 12])
    room: dict[str, Any] = {}
    if rng.random() < 0.8:
        room["racks"] = {"count": rng.randint(1, count + 2), "power": f"{rng.choice([11, 17, 22, 33, 44])}kW"}
        if rng.random() < 0.5:
            room["racks"]["price"] = f"${rng.randint(200, 2000)}/mo"
    if rng.random() < 0.6:
        room["circuits"] = [{"volts": 400, "amps": rng.choice([16, 32, 63]), "count": rng.randint(1, count + 4)}]
        room["redundancy"] = rng.choice(["n", "n+1", "2n"])
    servers = rng.sample(["DGX-H100", "HGX-H100-8U", "HGX-H100-6U"], rng.choice([1, 2]))
    inst = scaled(problem(**hall(count, **room)), only(*servers)).instance
    found = run(build_model(inst), time_limit_s=30, gap=0.0, workers=2, seed=1)
    assert highs_optimum(inst).objective == found.objective
    try:
        best = brute_force(inst, 30_000)
    except TooLargeError:
        return
    assert found.objective == (None if best is None else best.objective)


CHAT = {
    "name": "chat",
    "kind": "serve",
    "model": "llama-3-70b",
    "precision": "fp8",
    "traffic": {"rate": "40 req/s", "isl": 1000, "osl": 300, "calendar": "office_hours"},
}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.slow
def test_reductions_lose_nothing(seed: int) -> None:
    """Pools left out for others that stand in for them, networks and all, never make a plan dearer."""
    rng = random.Random(seed)
    site: dict[str, Any] = {"name": "hall", "electricity": {"peak": "$0.2/kWh", "22-06": "$0.05/kWh"}, "pue": 1.2}
    if seed % 2:
        site["racks"] = {"count": rng.randint(1, 4), "power": f"{rng.choice([11, 15, 22])}kW"}
        site["circuits"] = [{"volts": 208, "amps": 60, "phases": 3, "count": rng.randint(1, 5)}]
    cards = rng.sample(["H100-94GB-NVL", "L40S", "H100-80GB-SXM5", "H200-141GB-NVL"], 2)
    loaded = problem(workloads=[CHAT], sites=[site], limits={"accelerators": cards})
    cat = only("PCIe-8GPU-4U", "HGX-H100-8U", "HGX-H100-6U", "PCIe-4GPU-2U")
    every = build_candidates(loaded.problem, cat, Path())
    best = []
    for prune in (True, False):
        inst = scale(reduced(every, prune=prune), cat).instance
        found = run(build_model(inst), time_limit_s=60, gap=0.0, workers=4, seed=1, patience=1.0)
        best.append((found.status, found.objective))
    assert best[0] == best[1]


def test_every_pool_of_a_counted_site_has_a_height() -> None:
    made = scaled(problem(**hall(2, racks=2)), catalog())
    assert made.pools["rack_units"].null_count() == 0


@pytest.mark.slow
def test_a_menu_cut_down_costs_the_cluster_nothing() -> None:
    """Its menus are too long to be offered whole; the plan is proved to be the best of the whole ones."""
    loaded, cat = load_problem(PROBLEMS / "cluster-32-nodes.yaml"), load_catalog()
    known = json.loads((Path(__file__).parent / "example_optima.json").read_text("utf-8"))["cluster-32-nodes"]
    small = reduced(build_candidates(loaded.problem, cat, Path()), within_watts=True)
    inst = scale(small, cat).instance
    assert loosened(inst) is not None
    found = least(inst, How(60.0, 0.0, 2, 1)).found
    assert found.status == "optimal"
    assert found.objective is not None
    assert found.objective / 100 == pytest.approx(float(known["objective"]))


def storage_hall(rng: random.Random) -> LoadedProblem:
    """A few systems and data in boxes of their own, in racks or on circuits that are paid or short."""
    room: dict[str, Any] = {"racks": {"count": rng.choice([3, 4, 9]), "power": f"{rng.choice([12, 23, 34])}kW"}}
    room["racks"]["price"] = f"${rng.choice([900, 2000])}/mo"
    room["racks"]["units"] = rng.choice([12, 16, 20])
    loaded = hall(rng.choice([1, 2, 3]), **room)
    loaded["data"] = [{"name": "old", "class": "archive", "size": f"{rng.choice([100, 400, 900])}TB", "site": "hall"}]
    return problem(**loaded)


@pytest.mark.parametrize("seed", range(8))
def test_what_is_proved_of_a_menu_cut_down_holds_for_the_whole(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Menus cut down to whatever half: no plan is called the best that is not, and no bound lies above the best plan."""
    rng = random.Random(seed)
    loaded, cat = storage_hall(rng), only(DGX)
    small = reduced(build_candidates(loaded.problem, cat, Path()))
    how = How(30.0, 0.0, 2, 1)

    def inst() -> Instance:
        return scale(small, cat).instance

    for limit in ("MOST_LOOKED_AT", "MOST_IN_MENU"):
        monkeypatch.setattr(rack_menu, limit, 10**6)
    whole = inst()
    assert loosened(whole) is None
    known = least(whole, how).found
    monkeypatch.setattr(rack_menu, "MOST_LOOKED_AT", -1)
    every, useful = rack_menu._likely_types, rack_menu._useful
    for poor in (False, True):
        if poor:
            monkeypatch.setattr(rack_menu, "_likely_types", lambda *a, **k: every(*a, **k)[-1:])
            monkeypatch.setattr(rack_menu, "_useful", lambda types: useful(types)[:1])
        cut = inst()
        assert loosened(cut) is not None
        found = least(cut, how).found
        if known.objective is None:
            assert found.status in ("infeasible", "unknown")
            continue
        assert found.status != "infeasible"
        assert found.bound is None or found.bound <= known.objective
        assert found.objective is None or found.objective >= known.objective
        if found.status == "optimal":
            assert found.objective == known.objective
