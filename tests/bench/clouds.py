"""Problems of one to six workloads on every offer of the shared price lists, and single choices against a plain query.

The price lists are read in place, through the same import as `kitout catalog import skypilot`, into a folder that is thrown away.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from catalogs.catalog import Catalog
from catalogs.imports import import_source
from catalogs.load import load_catalog
from problems.load import load_text
from solver.candidates import build_candidates, reduced
from solver.cheapest import Request, cheapest
from solver.instance import Instance
from solver.scaling import scale
from tests.catalogs.direct_query import cheapest as direct
from tests.catalogs.direct_query import read_rows, whole_machines, with_outliers

ROOT = Path(__file__).parents[2]
SIZES = "[{isl: 300, osl: 150, share: 50%}, {isl: 1500, osl: 300, share: 35%}, {isl: 6000, osl: 500, share: 15%}]"
WORKLOADS = (
    f"{{name: chat, kind: serve, model: llama-3-70b, precision: [fp8, bf16], traffic: {{rate: 40 req/s, sizes: {SIZES}, "
    "calendar: office_hours}, slo: {ttft: 2s, tpot: 100ms}}",
    "{name: tune, kind: finetune, method: lora, model: llama-3-70b, tokens: 50M, sequence: 4096, runs: 4/mo, deadline: 48h}",
    "{name: lab, kind: fixed, accelerator: {memory: 16GB}, count: 1, cpus: 8+, ram: 32GB+, hours: 60h/mo, spot: true}",
    f"{{name: helper, kind: serve, model: llama-3-8b, traffic: {{rate: 100 req/s, sizes: {SIZES}, calendar: day_night}}, "
    "slo: {ttft: 1s, tpot: 50ms}}",
    "{name: search, kind: serve, model: llama-3-8b, traffic: {rate: 60 req/s, isl: 4000, osl: 200, calendar: day_night}, "
    "slo: {ttft: 3s, tpot: 100ms}}",
    "{name: agents, kind: serve, model: llama-3-70b, precision: [fp8, bf16], traffic: {rate: 8 req/s, isl: 7000, osl: 600, "
    "calendar: office_hours}, slo: {ttft: 4s, tpot: 100ms}}",
)
POLICY = "policy: {billing: [on_demand, reserved, spot]}"
CLOUDS = {"1 workload": 1, "2 workloads": 2, "3 workloads": 3, "6 workloads": 6}


def shared() -> Path | None:
    """Folder with the reference files, where there is one."""
    for place in (os.environ.get("KITOUT_SHARED"), ROOT.parent / "shared"):
        if place and Path(place).is_dir():
            return Path(place)
    return None


def price_lists() -> Path | None:
    """Folder of the price lists of all clouds, where there is one."""
    found = shared()
    lists = None if found is None else found / "reference" / "skypilot-catalog"
    return lists if lists is not None and lists.is_dir() else None


def text(works: int) -> str:
    """A problem of the first workloads; spot is open to all that tolerate it, whatever the number of workloads."""
    return (
        "\n".join(["name: clouds", "horizon: 12mo", "workloads:", *(f"  - {w}" for w in WORKLOADS[:works]), POLICY])
        + "\n"
    )


def imported() -> tuple[Catalog, float]:
    """The price lists as a catalogue, and how long the import takes [s]."""
    lists = price_lists()
    assert lists is not None
    with tempfile.TemporaryDirectory() as folder:
        started = time.monotonic()
        import_source("skypilot", lists, Path(folder) / "out", load_catalog())
        took = time.monotonic() - started
        return load_catalog([Path(folder) / "out"]), took


def compiled(case: str) -> tuple[Instance, dict[str, Any]]:
    """The integers of a case, with the time of import and compilation [s] and the number of offers."""
    catalog, import_s = imported()
    problem = load_text(text(CLOUDS[case])).problem
    started = time.monotonic()
    found = build_candidates(problem, catalog, ROOT)
    inst = scale(reduced(found), catalog).instance
    took = {"import_s": import_s, "compile_s": time.monotonic() - started, "offers": catalog.offers.height}
    return inst, took | {"pools": len(inst.pools)}


def asked(request: dict[str, Any]) -> Request:
    """A request of the reference file as ours."""
    gpu = None
    if request.get("accelerators"):
        ((name, count),) = request["accelerators"].items()
        gpu = f"{name}:{count}"
    least = {key: float(request[key].rstrip("+")) if key in request else None for key in ("cpus", "memory")}
    return Request(
        gpu=gpu,
        cpus=least["cpus"],
        memory_gib=least["memory"],
        spot=request.get("use_spot", False),
        provider=request.get("cloud"),
        region=request.get("region"),
        nodes=request.get("num_nodes", 1),
        max_hourly=request.get("max_hourly_cost"),
    )


def choices() -> dict[str, Any] | None:
    """Time and answers of single choices by `cheapest`, with those of a plain query over all machines beside; None without lists."""
    if price_lists() is None:
        return None
    folder = price_lists()
    assert folder is not None
    cases = json.loads((folder.parent / "skypilot-choices.json").read_text("utf-8"))["requests"]
    catalog, import_s = imported()
    started = time.monotonic()
    machines = with_outliers(whole_machines(read_rows(folder)))
    read_s = time.monotonic() - started
    ours, plain, same = [], [], 0
    for case in cases:
        # Without a price of its own in the screened list the cheapest is the same with and without the screen.
        expected = case.get("expected_without_price_outliers", case["expected"])["price_per_hour"]
        started = time.monotonic()
        found = cheapest(catalog, asked(case["request"])).price_per_hour
        ours.append(time.monotonic() - started)
        started = time.monotonic()
        price, _ = direct(machines, case["request"])
        plain.append(time.monotonic() - started)
        same += _equal(found, price) and _equal(found, expected)
    return {
        "offers": catalog.offers.height,
        "requests": len(cases),
        "same": same,
        "import_s": import_s,
        "read_s": read_s,
        "ours_s": (statistics.median(ours), max(ours)),
        "plain_s": (statistics.median(plain), max(plain)),
    }


def _equal(a: float | None, b: float | None) -> bool:
    return a is b if a is None or b is None else abs(a - b) <= 1e-9 * abs(b)
