"""The cheapest offer for a request: through candidates and solver, against a direct query over the files."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from catalogs.catalog import Catalog
from catalogs.imports import import_source
from catalogs.load import load_catalog
from problems.load import load_text
from solver.cheapest import Found, Request, cheapest
from solver.solve import solve
from solver.verify import verify
from tests.catalogs.direct_query import cheapest as direct
from tests.catalogs.direct_query import read_rows, whole_machines, with_outliers

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "tests" / "catalogs" / "samples" / "skypilot"


def overlaid(source: Path, out: Path) -> Catalog:
    import_source("skypilot", source, out, load_catalog())
    return load_catalog([out])


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    return overlaid(SAMPLES, tmp_path_factory.mktemp("sample") / "out")


@pytest.fixture(scope="module")
def lists() -> Path:
    folder = Path(os.environ.get("KITOUT_SHARED", ROOT.parent / "shared")) / "reference"
    if not (folder / "skypilot-catalog").is_dir():
        pytest.skip("the shared price lists are not here")
    return folder


@pytest.fixture(scope="module")
def large(lists: Path, tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    return overlaid(lists / "skypilot-catalog", tmp_path_factory.mktemp("large") / "out")


@pytest.fixture(scope="module")
def machines(lists: Path) -> pl.DataFrame:
    return with_outliers(whole_machines(read_rows(lists / "skypilot-catalog")))


def asked(request: dict[str, Any], **more: Any) -> Request:
    """A request of the reference file as ours."""
    gpu = None
    if request.get("accelerators"):
        ((name, count),) = request["accelerators"].items()
        gpu = f"{name}:{count}"

    def least(key: str) -> float | None:
        return float(request[key].rstrip("+")) if key in request else None

    return Request(
        gpu=gpu,
        cpus=least("cpus"),
        memory_gib=least("memory"),
        spot=request.get("use_spot", False),
        provider=request.get("cloud"),
        region=request.get("region"),
        nodes=request.get("num_nodes", 1),
        max_hourly=request.get("max_hourly_cost"),
        **more,
    )


def check(found: Found, machines: pl.DataFrame, request: dict[str, Any], *, screened: bool = True) -> None:
    """Price and offers are those of the direct query."""
    price, tied = direct(machines, request, screened=screened)
    if price is None:
        assert (found.status, found.price_per_hour, found.offers) == ("infeasible", None, ()), request
        return
    assert found.status == "optimal", request
    assert found.price_per_hour == pytest.approx(price, rel=1e-9), request
    assert found.ties == tied.height, request
    names = pl.coalesce("InstanceType", "AcceleratorName")
    right = set(tied.select("cloud", names, "Region", "AvailabilityZone").iter_rows())
    assert {(o["provider"], o["offer"], o["region"], o["zone"]) for o in found.offers} <= right, request


def random_request(machines: pl.DataFrame, dice: random.Random) -> dict[str, Any]:
    """Ask for a machine like one of the list, or for something near to it that may not be there."""
    row = machines.row(dice.randrange(machines.height), named=True)
    if dice.random() < 0.6:
        cards = machines.filter(
            pl.col("AcceleratorName").is_not_null(), ~pl.col("AcceleratorName").str.starts_with("tpu")
        )
        name = dice.choice(cards["AcceleratorName"].unique().sort().to_list())
        mine = cards.filter(pl.col("AcceleratorName") == name)
        row = mine.row(dice.randrange(mine.height), named=True)
    request: dict[str, Any] = {}
    if row["AcceleratorName"]:
        name = row["AcceleratorName"]
        count = row["AcceleratorCount"] if dice.random() < 0.9 else dice.choice([1, 2, 3, 4, 6, 8, 16])
        request["accelerators"] = {name.upper() if dice.random() < 0.2 else name: count}
    if row["vCPUs"] and dice.random() < 0.5:
        request["cpus"] = f"{max(1, round(row['vCPUs'] * dice.choice([0.25, 0.5, 1, 1, 2])))}+"
    if row["MemoryGiB"] and dice.random() < 0.5:
        request["memory"] = f"{round(row['MemoryGiB'] * dice.choice([0.25, 0.5, 1, 1, 2]), 3)}+"
    if dice.random() < 0.4:
        request["cloud"] = row["cloud"] if dice.random() < 0.9 else "nimbus"
    if dice.random() < 0.3:
        request["region"] = row["Region"]
    if dice.random() < 0.5:
        request["use_spot"] = True
    if dice.random() < 0.3:
        request["num_nodes"] = dice.choice([2, 3, 5, 16])
    if dice.random() < 0.3:
        price, _ = direct(machines, request)
        if price is not None:
            request["max_hourly_cost"] = price / request.get("num_nodes", 1) * dice.choice([0.5, 1, 1.5])
    return request


@pytest.mark.slow
def test_reference_requests(large: Catalog, lists: Path) -> None:
    cases = json.loads((lists / "skypilot-choices.json").read_text("utf-8"))["requests"]
    assert len(cases) >= 20
    for case in cases:
        screened = "expected_without_price_outliers" in case
        for key, doubtful in (("expected_without_price_outliers", False), ("expected", screened)):
            if key not in case:
                continue
            expected = case[key]
            found = cheapest(large, asked(case["request"], doubtful=doubtful))
            assert found.price_per_hour == expected["price_per_hour"], case["id"]
            assert found.ties == expected["ties"], case["id"]
            listed = {(o["cloud"], o["instance_type"], o["region"], o["zone"]) for o in expected["offers"]}
            ours = {(o["provider"], o["offer"], o["region"], o["zone"]) for o in found.offers}
            assert ours & listed or not listed, case["id"]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.slow
def test_unseen_requests(large: Catalog, machines: pl.DataFrame, seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(12):
        request = random_request(machines, dice)
        check(cheapest(large, asked(request)), machines, request)


@pytest.mark.parametrize("seed", range(4))
def test_requests_over_the_samples(sample: Catalog, seed: int) -> None:
    machines = with_outliers(whole_machines(read_rows(SAMPLES)))
    dice = random.Random(100 + seed)
    for _ in range(12):
        request = random_request(machines, dice)
        screened = dice.random() < 0.5
        check(cheapest(sample, asked(request, doubtful=not screened)), machines, request, screened=screened)


def test_tpu_slice_is_a_machine_of_its_own(sample: Catalog) -> None:
    assert cheapest(sample, Request(gpu="tpu-v5p-64")).price_per_hour == 134.0


def test_name_is_the_price_lists_own(sample: Catalog) -> None:
    found = cheapest(sample, Request(gpu="H100-80GB-HBM3:8"))
    assert found.status == "infeasible"
    assert found.hints == ("no offer is listed as H100-80GB-HBM3; the card is listed as H100",)
    # A100 is the 40 GB card of the lists and A100-80GB another, though the one name holds the other.
    assert cheapest(sample, Request(gpu="A100:8")).price_per_hour == 22.0


def test_built_in_offers_go_by_the_catalogues_reading_of_a_name() -> None:
    found = cheapest(load_catalog(), Request(gpu="H100:8"))
    assert found.status == "optimal"
    assert found.offers[0]["zone"] is None


def test_price_cap_holds_per_node_and_its_own_price_is_allowed(sample: Catalog) -> None:
    assert cheapest(sample, Request(gpu="A100:8", nodes=3, max_hourly=22.0)).price_per_hour == 66.0
    capped = cheapest(sample, Request(gpu="A100:8", max_hourly=21.99))
    assert (capped.status, capped.price_per_hour) == ("infeasible", None)
    assert capped.hints == ("the cheapest is 22 USD/h a node, above the 21.99 allowed",)


def test_unknown_names_are_explained(sample: Catalog) -> None:
    assert "did you mean azure?" in cheapest(sample, Request(provider="azur")).hints[0]
    assert "did you mean eastus?" in cheapest(sample, Request(region="eastuss")).hints[0]
    assert "unknown accelerator 'Z9000'" in cheapest(sample, Request(gpu="Z9000")).hints[0]


FIXED = """
workloads:
  - {{name: lab, kind: fixed, accelerator: "{name}", nodes: {nodes}, spot: false}}
policy: {{billing: [on_demand]}}
horizon: 1mo
"""


@pytest.mark.parametrize(
    ("name", "nodes", "per_hour"),
    [("A100:8", 1, 22.0), ("A100:8", 2, 44.0), ("K80:1", 1, 0.9), ("none", 1, 0.2), ("A10:0.333", 3, 2.85)],
)
def test_a_problem_file_asks_the_same_and_the_plan_is_accepted(
    sample: Catalog, name: str, nodes: int, per_hour: float
) -> None:
    loaded = load_text(FIXED.format(name=name, nodes=nodes))
    result = solve(loaded, sample)
    assert result.status == "optimal"
    assert result.cost is not None
    assert float(result.cost.total) == pytest.approx(per_hour * 730, abs=0.01)
    assert verify(result, loaded.problem, sample) == []


def test_parts_of_cards_and_unknown_cards_serve_no_model(sample: Catalog) -> None:
    text = """
workloads:
  - {name: chat, kind: serve, model: llama-3-8b, traffic: {rate: 1 req/s, isl: 500, osl: 100}}
policy: {billing: [on_demand]}
"""
    result = solve(load_text(text), sample)
    used = {item.pool for item in result.items if item.pool}
    whole = sample.offers.filter(pl.col("accelerator").is_not_null(), pl.col("accelerator_share").is_null())
    assert used
    assert used <= set(whole["offer_id"])


@pytest.mark.parametrize(
    ("accelerator", "count", "per_hour"),
    [
        ("A100", 8, 22.0),
        ("A100", 4, None),  # lists have one and eight: exactly as many as asked for
        ("A100-40GB-SXM4", 8, 22.0),  # the catalogue's full name
        ("H100-80GB-HBM3", 8, None),  # neither a name of the lists nor the catalogue's
    ],
)
def test_plain_names_ask_price_lists_for_exactly_so_many(
    sample: Catalog, accelerator: str, count: int, per_hour: float | None
) -> None:
    text = (
        f"workloads: [{{name: lab, kind: fixed, accelerator: {accelerator}, count: {count}}}]\n"
        "policy: {billing: [on_demand]}\nhorizon: 1mo\n"
    )
    loaded = load_text(text)
    result = solve(loaded, sample)
    if per_hour is None:
        assert result.status == "infeasible"
        return
    assert result.cost is not None
    assert float(result.cost.total) == pytest.approx(per_hour * 730, abs=0.01)
    assert verify(result, loaded.problem, sample) == []
