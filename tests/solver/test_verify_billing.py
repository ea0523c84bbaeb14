"""Plans tampered with in how machines are billed: spot, compute units, blocks, days, hourly nodes and jobs; each is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from catalogs.catalog import Catalog
from problems.load import LoadedProblem, load_text
from solver.events import SolveOptions
from solver.plan import Alone, Item, Result
from solver.solve import solve
from solver.verify import verify
from tests.solver.test_invoices import SHAPE, SOLD, WORK_DAY, batch, catalog_of, price, problem, service
from tests.solver.test_verify import rebilled

LEVELS = {"hours": {"mon-fri": {"8-18": "100%", "18-22": "50%"}}}
Case = tuple[LoadedProblem, Catalog, Result]


def _night() -> LoadedProblem:
    """Two reserved machines that serve by day; a job at night on one of them."""
    work = service(2, WORK_DAY)
    job = batch(6 * 3600, "4/mo", window="nights", deadline="10h")
    whole = json.loads(json.dumps({"horizon": "12mo", "workloads": [work, job], "limits": {"providers": ["N"]}}))
    whole["policy"] = {"rules": {"serving_nvme_tb": "off", "serving_ram_ratio": "off", "cores_per_gpu": "off"}}
    return load_text(json.dumps(whole), "night")


@lru_cache
def case(name: str) -> Case:
    folder = Path(mkdtemp())
    full, cheap = price("on_demand", 4.0), price("spot", 1.0, taken="0.25")
    both = {"policy": {"billing": ["on_demand", "spot"], "spot_share": "50%"}}
    cases: dict[str, Callable[[], tuple[LoadedProblem, Catalog]]] = {
        "spot": lambda: (problem(service(2, interruptible=True), **both), catalog_of(folder, full, cheap)),
        "units": lambda: (problem(service(3, WORK_DAY), "2mo"), catalog_of(folder, gpus=8, compute_units=SOLD)),
        "block": lambda: (
            problem(batch(100 * 3600, deadline="40h"), "3mo"),
            catalog_of(folder, price("capacity_block", 10.0, least=24, step=86400), capacity_blocks=SHAPE),
        ),
        "day": lambda: (problem(service(2, LEVELS), "1mo"), catalog_of(folder, price("on_demand", 2.0, step=86400))),
        "hourly": lambda: (problem(service(3, LEVELS), "1mo"), catalog_of(folder, price("on_demand", 2.0))),
        "night": lambda: (_night(), catalog_of(folder, price("reserved", 0.5, term=12), price("on_demand", 4.0))),
        "mix": lambda: (
            problem(service(4, LEVELS)),
            catalog_of(folder, price("on_demand", 2.0), price("reserved", 0.7, term=12)),
        ),
    }
    loaded, catalog = cases[name]()
    options = SolveOptions(time_limit_s=30, gap=0.0, workers=2, runner_up=False, single_modes=True)
    result = solve(loaded, catalog, options)
    assert result.cost is not None, result.no_plan_because
    return loaded, catalog, result


def with_line(result: Result, kind: str, change: Callable[[Item], dict[str, Any]], billing: str = "") -> Result:
    """The result with one line changed and every sum made to agree."""
    items = list(result.items)
    at = next(n for n, i in enumerate(items) if i.kind == kind and i.billing.startswith(billing))
    items[at] = items[at].model_copy(update=change(items[at]))
    return rebilled(result, items)


def cheaper(part: str) -> Callable[[Item], dict[str, Any]]:
    """A line at so much of its price."""
    share = Decimal(part)

    def change(item: Item) -> dict[str, Any]:
        total = (item.total_cost * share).quantize(Decimal("0.01"))
        return {"unit_cost": total / Decimal(repr(item.quantity)), "total_cost": total}

    return change


def one_less(item: Item) -> dict[str, Any]:
    """A line with one node less in the busiest period that it is there in."""
    counts = item.quantity_by_period or {}
    left = {name: n - (name == next(iter(counts))) for name, n in counts.items()}
    return {"quantity_by_period": {name: n for name, n in left.items() if n}}


def with_job(result: Result, **change: Any) -> Result:
    """The result with its job's placement changed."""
    plans = []
    for w in result.workloads:
        placed = w.placements if w.kind == "serve" else tuple(p.model_copy(update=change) for p in w.placements)
        plans.append(w.model_copy(update={"placements": placed}))
    return result.model_copy(update={"workloads": tuple(plans)})


def boasting(result: Result) -> Result:
    best = result.single_modes[0]
    return result.model_copy(update={"single_modes": (best.model_copy(update={"saving": 0.9}),)})


def undercut(result: Result) -> Result:
    """A single mode that would be cheaper than what is proved cheapest."""
    other = Alone(billing="on_demand", total=Decimal("1.00"), bound=1.0, saving=0.0, proved=True)
    return result.model_copy(update={"single_modes": (other,)})


CHANGES: dict[str, tuple[str, Callable[[Result], Result], str]] = {
    "spot without its time on demand": (
        "spot",
        lambda r: with_line(r, "rental", lambda i: {"fallback_share": None}, "spot"),
        "expected on demand",
    ),
    "spot at the bare price": ("spot", lambda r: with_line(r, "rental", cheaper("0.986"), "spot"), "price x hours"),
    "spot called on demand": (
        "spot",
        lambda r: with_line(r, "rental", lambda i: {"billing": "on_demand"}, "spot"),
        "price x hours",
    ),
    "fewer units than the work takes": (
        "units",
        lambda r: with_line(r, "compute_units", lambda i: {"quantity": i.quantity / 2}),
        "units on the bill",
    ),
    "units at half their price": (
        "units",
        lambda r: with_line(r, "compute_units", cheaper("0.5")),
        "paid for compute units",
    ),
    "no line of units": (
        "units",
        lambda r: rebilled(r, [i for i in r.items if i.kind != "compute_units"]),
        "paid for compute units",
    ),
    "idle machines that cost money": (
        "units",
        lambda r: with_line(r, "rental", lambda i: {"unit_cost": Decimal(10), "total_cost": Decimal(10)}),
        "price x hours",
    ),
    "a block of three nodes": (
        "block",
        lambda r: with_line(r, "rental", lambda i: {"quantity": 3.0}),
        "come with 1, 2, 4 nodes",
    ),
    "a block by the hour": ("block", lambda r: with_line(r, "rental", cheaper("0.53")), "price x hours"),
    "days billed as hours": ("day", lambda r: with_line(r, "rental", cheaper("0.5")), "price x hours"),
    "an hourly node less": ("hourly", lambda r: with_line(r, "rental", one_less), "find no room"),
    "a job outside its window": ("night", lambda r: with_job(r, starts_h=(9,)), "leaves its window"),
    "a job with no hours": ("night", lambda r: with_job(r, starts_h=()), "has no hours of the week"),
    "a job among busy replicas": ("night", lambda r: with_job(r, starts_h=(4,)), "find no room"),
    "a saving that is not there": ("mix", boasting, "is not 90.0% cheaper"),
    "a single mode below the bound": ("mix", undercut, "below the bound"),
}


@pytest.mark.parametrize("name", ["spot", "units", "block", "day", "hourly", "night", "mix"])
def test_plans_as_they_are_pass(name: str) -> None:
    loaded, catalog, result = case(name)
    assert verify(result, loaded.problem, catalog) == []
    assert verify(Result.model_validate_json(result.model_dump_json()), loaded.problem, catalog) == []


@pytest.mark.parametrize("name", CHANGES)
def test_tampered_plans_are_refused(name: str) -> None:
    which, change, expected = CHANGES[name]
    loaded, catalog, result = case(which)
    wrong = verify(change(result), loaded.problem, catalog)
    assert any(expected in said for said in wrong), wrong


@pytest.mark.slow
def test_the_mix_beats_its_single_modes_and_the_shared_machines_theirs() -> None:
    _, _, mix = case("mix")
    assert {a.billing for a in mix.single_modes} == {"on_demand", "reserved"}
    assert all((a.saving or 0) > 0 and a.proved for a in mix.single_modes)
    _, _, night = case("night")
    assert night.unshared is not None
    # Alone the job would take a card of its own all month, or hire one for 24 h a month at 4 $.
    assert night.unshared.total == pytest.approx(Decimal("9912.00"))
