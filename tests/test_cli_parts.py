"""A parts list in which nothing goes together, through the command: no plan, exit code 3, the incompatibility by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner
from click.testing import Result as Run

import cli
from catalogs.catalog import Catalog
from catalogs.load import load_catalog

WANTED = """\
workloads:
  - {name: lab, kind: fixed, accelerator: Card-X, count: 2, hours: 100h/mo}
sites: [{name: room, electricity: $0.1/kWh, country: US, pue: 1.3}]
policy: {billing: [purchase]}
"""
CARD: dict[str, Any] = {"accelerator": "Card-X", "form_factor": "PCIe"}
BOX: dict[str, Any] = {"server": "Box-X", "slots": 2, "fits": "Card-X", "cpu_default": "CPU-X", "cpu_sockets": 1}
CPU: dict[str, Any] = {"cpu": "CPU-X", "family": "X", "price_usd": 900.0}


def row(frame: pl.DataFrame, key: str, like: str, **values: Any) -> pl.DataFrame:
    """One row of a table as another one is, but for some values."""
    hit = frame.filter(pl.col(key) == like)
    return hit.with_columns(pl.lit(v).cast(frame.schema[c]).alias(c) for c, v in values.items())


def overlay(folder: Path, changed: dict[str, dict[str, Any]]) -> Path:
    """A catalogue to lay over: one card, the one server that takes it, and the one CPU of that server's socket."""
    catalog: Catalog = load_catalog()
    change = {**{t: {} for t in ("card", "box", "cpu", "ports")}, **changed}
    ports = catalog.network.with_columns(nic_price_usd=pl.when(pl.col("gbps_per_port") == 800).then(3000.0))
    tables = {
        "accelerators": row(catalog.accelerators, "accelerator", "L40S", **{**CARD, **change["card"]}),
        "servers": row(catalog.servers, "server", "PCIe-4xL40S-2U", **{**BOX, **change["box"]}),
        "cpus": row(catalog.cpus, "cpu", "EPYC-9354", **{**CPU, **change["cpu"]}),
        **({"network": ports} if change["ports"] else {}),
    }
    folder.mkdir()
    for name, frame in tables.items():
        frame.write_csv(folder / f"{name}.csv")
    return folder


def solved(tmp_path: Path, changed: dict[str, dict[str, Any]]) -> Run:
    (tmp_path / "wanted.yaml").write_text(WANTED)
    folder = overlay(tmp_path / "mine", changed)
    arguments = ["solve", str(tmp_path / "wanted.yaml"), "--catalog", str(folder), "--format", "json", "--no-progress"]
    return CliRunner().invoke(cli.main, arguments)


def test_parts_that_go_together_are_a_plan(tmp_path: Path) -> None:
    run = solved(tmp_path, {})
    assert run.exit_code == 0, run.stderr
    server = next(i for i in json.loads(run.stdout)["items"] if i["kind"] == "server")
    assert server["parts"][:3] == ["1 x Box-X", "2 x Card-X", "1 x CPU-X"]


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"card": {"form_factor": "SXM5"}}, "form factor: the card does not go into this kind of slot"),
        ({"cpu": {"memory_type": "DDR6"}}, "memory type: no module of the CPU's DDR generation is on sale"),
        ({"cpu": {"max_sockets": 1}, "box": {"cpu_sockets": 2}}, "CPU: none of the socket's family"),
        ({"box": {"max_power_w": 900.0}}, "power supply: parts draw more than it gives"),
        (
            {"box": {"psu_count": 2, "psu_spare": 1, "max_power_w": 2000.0}},
            "power supply: parts draw more than it gives",
        ),
        ({"cpu": {"pcie_lanes": 24}}, "PCIe lanes: cards, NICs and drives need more than the CPUs have"),
        ({"box": {"nic_slots": 0}}, "NIC slots: fewer than the NICs asked for"),
        ({"box": {"max_ram_gib": 100.0}}, "memory slots: no even fill of the channels"),
        ({"box": {"drive_bays": 0}}, "drive bays: too few"),
        ({"ports": {"fast": True}, "cpu": {"pcie_gen": 4}}, "PCIe generation: the NIC is faster than its slot"),
    ],
)
def test_incompatible_parts_are_named(tmp_path: Path, changed: dict[str, dict[str, Any]], named: str) -> None:
    run = solved(tmp_path, changed)
    assert run.exit_code == 3, run.stderr
    answer = json.loads(run.stdout)
    assert answer["status"] == "infeasible"
    assert any(named in text for text in answer["no_plan_because"]), answer["no_plan_because"]
