"""Fabrics through the whole model: counts as in published pods and as the counting function has them, and no way around."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from ruamel.yaml import YAML

from catalogs.catalog import Catalog
from catalogs.load import load_catalog
from problems.load import LoadedProblem, load_text
from solver.candidates import build_candidates, reduced
from solver.events import SolveOptions
from solver.features.fabric import build_fabric
from solver.model import build_model
from solver.plan import Item, Result
from solver.scaling import Scaled, scale
from solver.search import run
from solver.solve import solve
from solver.verify import verify

OPTIONS = SolveOptions(time_limit_s=20, workers=2, runner_up=False)


@lru_cache(maxsize=1)
def catalog() -> Catalog:
    return load_catalog()


def only(*servers: str) -> Catalog:
    return replace(catalog(), servers=catalog().servers.filter(pl.col("server").is_in(servers)))


def problem(**changes: Any) -> LoadedProblem:
    base: dict[str, Any] = {
        "horizon": "12mo",
        "workloads": [{"name": "lab", "kind": "fixed", "accelerator": "H100-80GB-SXM5", "count": 8, "nodes": 32}],
        "sites": [{"name": "hall", "pue": 1.3, "electricity": "$0.1/kWh"}],
        "policy": {"billing": "purchase", "min_confidence": "recalled"},
    }
    from io import StringIO

    text = StringIO()
    YAML(typ="safe").dump({**base, **changes}, text)
    return load_text(text.getvalue(), "<test>")


def nodes(count: int) -> dict[str, Any]:
    work = {"name": "lab", "kind": "fixed", "accelerator": "H100-80GB-SXM5", "count": 8, "nodes": count}
    return {"workloads": [work]}


def scaled(loaded: LoadedProblem, cat: Catalog) -> Scaled:
    return scale(reduced(build_candidates(loaded.problem, cat, Path())), cat)


def counts(loaded: LoadedProblem, cat: Catalog) -> dict[str, int]:
    """Switches and cables by tier of the cheapest plan."""
    made = scaled(loaded, cat)
    found = run(build_model(made.instance), time_limit_s=20, gap=0.0, workers=2, seed=1)
    assert found.values is not None
    out: dict[str, int] = {}
    for g, row in enumerate(made.gear.iter_rows(named=True)):
        if row["kind"] == "network" and found.values.gear[g]:
            tier = row["key"].split(" ")[1].rstrip("0123456789")
            out[tier] = out.get(tier, 0) + round(found.values.gear[g] * row["per_unit"])
    return out


def expected(count: int, nics: int = 8, radix: int = 64) -> dict[str, int]:
    """The same from the counting function."""
    fabric = build_fabric(count, nics, radix, even=True)
    tiers = {
        "links": fabric.cables_node_leaf,
        "trunk": fabric.cables_leaf_spine + fabric.cables_spine_core,
        "switch": fabric.leaf if fabric.tiers == 1 else 0,
        "leaf": fabric.leaf if fabric.tiers > 1 else 0,
        "spine": fabric.spine if fabric.tiers == 2 else 0,
        "middle": fabric.spine if fabric.tiers == 3 else 0,
        "core": fabric.core,
    }
    return {tier: n for tier, n in tiers.items() if n}


@pytest.mark.parametrize(
    ("count", "leaf", "spine", "links", "trunk"),
    [(32, 8, 4, 256, 256), (64, 16, 8, 512, 512), (127, 32, 16, 1016, 1024)],
)
def test_published_pods(count: int, leaf: int, spine: int, links: int, trunk: int) -> None:
    found = counts(problem(**nodes(count)), only("DGX-H100"))
    assert found == {"leaf": leaf, "spine": spine, "links": links, "trunk": trunk}


@pytest.mark.parametrize("count", [3, 8, 9, 12, 17, 33, 100, 256, 257, 300, 512])
def test_counts_are_those_of_the_function(count: int) -> None:
    assert counts(problem(**nodes(count)), only("DGX-H100")) == expected(count)


def test_one_system_needs_none_and_two_a_cable_each_way() -> None:
    assert counts(problem(**nodes(1)), only("DGX-H100")) == {}
    assert counts(problem(**nodes(2)), only("DGX-H100")) == {"links": 8}


def test_two_nodes_that_serve_need_a_switch() -> None:
    """They talk to others than one another."""
    chat = {
        "name": "chat",
        "kind": "serve",
        "model": "llama-3-70b",
        "precision": "bf16",
        "traffic": {"rate": "60 req/s", "isl": 1000, "osl": 300},
    }
    found = counts(problem(workloads=[chat]), only("DGX-H100"))
    assert found["links"] % 8 == 0
    assert found["links"] >= 16
    assert found.keys() == {"links", "island"}


def _solved(loaded: LoadedProblem, cat: Catalog) -> Result:
    result = solve(loaded, cat, OPTIONS)
    assert result.cost is not None
    assert verify(result, loaded.problem, cat) == []
    return result


def _changed(result: Result, change: Callable[[Item], Item | None]) -> Result:
    return result.model_copy(update={"items": tuple(i for i in map(change, result.items) if i is not None)})


def _fewer(tier: str, by: int = 1) -> Callable[[Item], Item]:
    def change(item: Item) -> Item:
        if item.gear is None or item.billing != "purchase" or not item.gear.startswith(f"fabric {tier}"):
            return item
        return item.model_copy(
            update={
                "quantity": item.quantity - by,
                "total_cost": item.total_cost * round(item.quantity - by) / round(item.quantity),
            }
        )

    return change


@pytest.mark.parametrize(
    ("tier", "said"),
    [("leaf", "leaves"), ("spine", "uplinks"), ("links", "cables for"), ("trunk", "links between switches")],
)
def test_fewer_parts_are_refused(tier: str, said: str) -> None:
    result = _solved(problem(), only("DGX-H100"))
    wrong = verify(_changed(result, _fewer(tier)), problem().problem, only("DGX-H100"))
    assert any(said in text for text in wrong), wrong


def test_a_cheaper_switch_is_refused() -> None:
    def cheaper(item: Item) -> Item:
        if item.gear is None or not item.gear.startswith("fabric leaf") or item.billing != "purchase":
            return item
        return item.model_copy(update={"unit_cost": item.unit_cost / 2, "total_cost": item.total_cost / 2})

    result = _changed(_solved(problem(), only("DGX-H100")), cheaper)
    assert any("the catalogue says" in text for text in verify(result, problem().problem, only("DGX-H100")))


def test_watts_of_switches_count_at_the_site() -> None:
    """32 systems of 10.2 kW and 12 switches of 1,070 W; with capped cards as little as their lowest state leaves."""

    def hall(**limits: str) -> LoadedProblem:
        return problem(sites=[{"name": "hall", "pue": 1.0, "electricity": "$0.1/kWh", **limits}])

    plain = _solved(hall(), only("DGX-H100"))
    assert plain.power is not None
    assert plain.power.it_peak_w == 32 * 10_200 + 12 * 1_070
    capped = _solved(hall(it_power="339kW"), only("DGX-H100"))
    assert capped.power is not None
    least = round(capped.power.it_peak_w)
    assert (least - 12 * 1_070) % 32 == 0
    _solved(hall(it_power=f"{least}W"), only("DGX-H100"))
    assert solve(hall(it_power=f"{least - 1}W"), only("DGX-H100"), OPTIONS).status == "infeasible"


def test_a_slimmer_network_is_used_where_it_is_worth_it() -> None:
    """With switches and cables forty times as dear, a job that spans leaves takes longer over fewer of them."""
    dear = only("DGX-H100")
    dear = replace(
        dear,
        network=dear.network.with_columns(pl.col("switch_price_usd") * 40, pl.col("cable_price_usd") * 40),
    )
    job = {
        "name": "pre",
        "kind": "pretrain",
        "model": "llama-3-70b",
        "tokens": "1T",
        "sequence": 8192,
        "runs": 1,
        "deadline": "120d",
    }
    found = _solved(problem(workloads=[job]), dear)
    pools = {p.pool for w in found.workloads for p in w.placements}
    assert all(pool.endswith("/2:1") for pool in pools)
    bought = [i for i in found.items if i.billing == "purchase"]
    leaves = sum(i.quantity for i in bought if (i.gear or "").startswith("fabric leaf 2 hall"))
    ports = sum(i.quantity for i in bought if (i.gear or "").startswith("fabric links 2 hall"))
    assert 42 * (leaves - 1) < ports <= 42 * leaves
