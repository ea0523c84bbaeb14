"""Staging goes through the ports of the nodes on a storage network, and is no quicker than they and the boxes' ports are."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from catalogs.catalog import Catalog
from problems.load import LoadedProblem
from solver.candidates import build_candidates, reduced
from solver.model import build_model
from solver.plan import Result
from solver.scaling import scale
from solver.search import run
from solver.solve import solve
from solver.verify import verify
from tests.oracle.brute import TooLargeError, brute_force
from tests.oracle.highs import highs_optimum
from tests.solver.test_fabric_plans import OPTIONS, problem, scaled
from tests.solver.test_rack_plans import hall
from tests.solver.test_storage_ports import DISKS, TLC, stored

DGX = "DGX-H100"
"""Eight cards with 24.6 TB of drives that may be filled, written at 16.3 and read at 25 GB/s."""


def lab(count: int, **data: Any) -> LoadedProblem:
    """A reservation of some nodes with a working copy of its own data."""
    work = {
        **hall(count)["workloads"][0],
        "data": [{"class": "training_data", "size": "10TB", "staged": "yes", **data}],
    }
    return problem(workloads=[work], sites=hall(count)["sites"])


def chat(**data: Any) -> LoadedProblem:
    """A service of 70B on eight cards a replica that loads its weights from a copy."""
    work = {
        "name": "chat",
        "kind": "serve",
        "model": "llama-3-70b",
        "precision": ["fp8"],
        "traffic": {"rate": "1 req/s", "isl": 500, "osl": 100, "calendar": "flat"},
        "data": [{"class": "weights", "size": "2TB", "staged": "yes", **data}],
    }
    return problem(workloads=[work], sites=hall(1)["sites"])


def plan(loaded: LoadedProblem, cat: Catalog) -> Result:
    result = solve(loaded, cat, OPTIONS)
    if result.cost is not None:
        assert verify(result, loaded.problem, cat) == []
    return result


def copies(result: Result) -> dict[str, str]:
    return {c.role: c.tier for c in result.storage}


@pytest.mark.parametrize(
    ("within", "count", "status"),
    [
        ("834s", 1, "optimal"),  # 12 GB/s of one box on the network of the site
        ("800s", 1, "optimal"),  # two boxes, and 12.5 GB/s through the node's port of 100 Gb/s
        ("799s", 1, "infeasible"),
        ("799s", 2, "optimal"),
        ("400s", 2, "optimal"),
        ("399s", 2, "infeasible"),
    ],
)
def test_nodes_fetch_a_copy_for_their_drives_through_their_ports(within: str, count: int, status: str) -> None:
    """10 TB from disks, which are too slow to read 20 GB/s from through one port."""
    result = plan(lab(count, within=within, read="20GB/s"), stored(DGX, pools=(DISKS,)))
    assert result.status == status
    if result.cost is not None:
        assert copies(result) == {"working": "drives of the nodes", "master": DISKS}


@pytest.mark.parametrize(
    ("within", "count", "status"),
    [
        ("334s", 1, "optimal"),  # 30 GB/s into one box on the network of the site
        ("333s", 1, "infeasible"),  # two boxes, but 25 GB/s through the node's port of 200 Gb/s
        ("333s", 2, "optimal"),
        ("200s", 2, "optimal"),
        ("199s", 2, "infeasible"),
    ],
)
def test_nodes_write_what_is_staged_onto_boxes(within: str, count: int, status: str) -> None:
    """10 TB between boxes of flash, which nodes read on the one way and write on the other."""
    result = plan(lab(count, within=within), stored("HGX-H100-8U"))
    assert result.status == status
    if result.cost is not None:
        assert copies(result) == {"working": TLC, "master": TLC}


@pytest.mark.parametrize(
    ("within", "readers", "status"),
    [("160s", 1, "optimal"), ("159s", 1, "infeasible"), ("160s", 2, "optimal"), ("159s", 2, "infeasible")],
)
def test_every_replica_fetches_all_of_a_copy_for_its_drives(within: str, readers: int, status: str) -> None:
    """2 TB in 160 s are 12.5 GB/s, whoever else loads it."""
    cat = stored(DGX, pools=(DISKS,), included_nvme_gb_s=60.0)
    result = plan(chat(within=within, readers=readers), cat)
    assert result.status == status
    if result.cost is not None:
        assert copies(result) == {"working": "drives of the nodes", "master": DISKS}


def test_a_box_gives_what_its_ports_carry() -> None:
    """Disks behind two ports of 25 Gb/s read 6.25 GB/s: two boxes for 10 TB in 800 s, where one would give 12."""
    cat = stored(DGX, pools=(DISKS,))
    narrow = cat.storage_boxes.with_columns(
        pl.when(pl.col("box") == "HDD-4U60-server").then(pl.lit("RoCEv2-25G")).otherwise("network").alias("network")
    )
    for boxes, read in ((1, "6.25GB/s"), (2, "6.26GB/s"), (2, "12.5GB/s"), (3, "12.51GB/s")):
        data = [{"class": "archive", "site": "hall", "size": "10TB", "read": read}]
        result = plan(problem(**{**hall(1), "data": data}), replace(cat, storage_boxes=narrow))
        held = [i.quantity for i in result.items if i.item == "HDD-4U60-server" and i.billing == "purchase"]
        assert held == [boxes]


def test_tampered_stagings_are_refused() -> None:
    cat = stored(DGX, pools=(DISKS,))
    loaded = lab(1, within="800s", read="20GB/s")
    result = plan(loaded, cat)

    def said(problem: LoadedProblem, to: Catalog, what: Result = result) -> str:
        return "; ".join(verify(what, problem.problem, to))

    assert "lab: 12.5156 GB/s to read through ports of 12.5" in said(lab(1, within="799s", read="20GB/s"), cat)
    slower = cat.network.with_columns(
        pl.when(pl.col("network") == "100GbE").then(50.0).otherwise("gbps_per_port").alias("gbps_per_port")
    )
    text = said(loaded, replace(cat, network=slower))
    assert "lab: 12.5 GB/s to read through ports of 6.25" in text
    assert "12.5 GB/s to read asked of 2 boxes" not in text  # two ports of 6.25 each
    third = cat.network.with_columns(
        pl.when(pl.col("network") == "100GbE").then(20.0).otherwise("gbps_per_port").alias("gbps_per_port")
    )
    assert "12.5 GB/s to read asked of 2 boxes" in said(loaded, replace(cat, network=third))
    served = chat(within="160s")
    quick = stored(DGX, pools=(DISKS,), included_nvme_gb_s=60.0)
    assert "chat: 12.5786 GB/s to read while it is staged through ports of 12.5" in said(
        chat(within="159s"), quick, plan(served, quick)
    )


# --- agreement ------------------------------------------------------------------------------------------------


def random_lab(rng: random.Random) -> tuple[LoadedProblem, Catalog]:
    """A few nodes, or a service, with one or two classes, of which one is staged near what ports carry."""
    cat = stored(
        *rng.choice([(DGX,), ("HGX-H100-8U",), (DGX, "HGX-H100-8U")]),
        pools=tuple(rng.choice([(DISKS,), (TLC, DISKS)])),
    )
    data: dict[str, Any] = {
        "staged": rng.choice(["yes", "auto"]),
        "within": f"{rng.choice([250, 400, 401, 799, 800, 1200])}s",
    }
    if rng.random() < 0.3:
        return chat(
            **{**data, "size": "2TB", "within": f"{rng.choice([120, 159, 160, 400])}s", "readers": rng.choice([1, 2])}
        ), cat
    if rng.random() < 0.5:
        data["read"] = rng.choice(["1GB/s", "13GB/s", "20GB/s"])
    loaded = lab(rng.choice([1, 2]), **data)
    return loaded, cat


@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(s, marks=pytest.mark.slow) for s in range(6, 40))])
def test_all_solvers_agree_on_staging(seed: int) -> None:
    loaded, cat = random_lab(random.Random(seed))
    inst = scaled(loaded, cat).instance
    found = run(build_model(inst), time_limit_s=30, gap=0.0, workers=2, seed=1)
    assert highs_optimum(inst).objective == found.objective
    whole = scale(reduced(build_candidates(loaded.problem, cat, Path()), prune=False), cat).instance
    assert run(build_model(whole), time_limit_s=30, gap=0.0, workers=2, seed=1).objective == found.objective
    assert (plan(loaded, cat).cost is None) == (found.objective is None)
    try:
        best = brute_force(inst, 50_000)
    except (TooLargeError, ValueError):
        return
    assert found.objective == (None if best is None else best.objective)
