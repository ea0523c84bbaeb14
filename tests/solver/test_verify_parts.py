"""Every rule about the parts of a server, broken one at a time in a good plan: `verify` names the one that is broken."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from catalogs.catalog import Catalog
from solver.plan import Item, Result
from solver.verify import verify
from solver.verify_parts import check_parts
from tests.solver.test_verify import catalog, plan, with_line

GOOD = (
    "1 x PCIe-2xL40S-2U",
    "2 x L40S",
    "2 x Xeon-4310",
    "16 x DDR4-3200-RDIMM-16GB",
    "1 x NVMe-TLC-Gen4-3.84TB",
    "1 x ConnectX-6 Lx (25GbE)",
)
BOARD = (
    "1 x HGX-H100-8U",
    "8 x H100-80GB-SXM5",
    "2 x Xeon-8468",
    "32 x DDR5-4800-RDIMM-64GB",
    "2 x NVMe-TLC-Gen5-3.84TB",
    "8 x ConnectX-7 NDR (InfiniBand-NDR)",
)


def faults(parts: tuple[str, ...], on: Catalog | None = None) -> list[str]:
    return check_parts(SimpleNamespace(item="server", parts=parts), on or catalog())  # type: ignore[arg-type]


def swapped(parts: tuple[str, ...], at: int, text: str) -> tuple[str, ...]:
    return (*parts[:at], text, *parts[at + 1 :])


def changed(table: str, key: str, name: str, **values: Any) -> Catalog:
    """The catalogue with some values of one row changed."""
    frame: pl.DataFrame = getattr(catalog(), table)
    here = pl.col(key) == name
    new = frame.with_columns(
        pl.when(here).then(pl.lit(v)).otherwise(pl.col(c)).cast(frame.schema[c]).alias(c) for c, v in values.items()
    )
    return replace(catalog(), **{table: new})


@pytest.mark.parametrize("parts", [GOOD, BOARD])
def test_machines_that_can_be_built_are_accepted(parts: tuple[str, ...]) -> None:
    assert faults(parts) == []


@pytest.mark.parametrize(
    ("parts", "at", "text", "named"),
    [
        (GOOD, 1, "2 x H100-80GB-SXM5", "form factor"),
        (swapped(GOOD, 0, "1 x Edge-1U-4xL4"), 1, "2 x L40S", "form factor"),
        (GOOD, 1, "3 x L40S", "slots"),
        (BOARD, 1, "4 x H100-80GB-SXM5", "board"),
        (BOARD, 1, "8 x A100-80GB-SXM4", "form factor"),
        (GOOD, 2, "1 x Xeon-4310", "sockets"),
        (GOOD, 2, "3 x Xeon-4310", "sockets"),
        (GOOD, 2, "2 x EPYC-7402", "CPU family"),
        (GOOD, 3, "48 x DDR4-3200-RDIMM-16GB", "memory slots"),
        (GOOD, 3, "12 x DDR4-3200-RDIMM-16GB", "memory channels"),
        (GOOD, 3, "24 x DDR4-3200-RDIMM-16GB", "memory channels"),
        (GOOD, 3, "16 x DDR5-4800-RDIMM-16GB", "memory type"),
        (BOARD, 3, "64 x DDR5-4800-RDIMM-256GB", "memory"),
        (GOOD, 4, "9 x NVMe-TLC-Gen4-3.84TB", "drive bays"),
        (GOOD, 4, "1 x HDD-nearline-16TB", "drive bays"),
        (GOOD, 5, "4 x ConnectX-6 Lx (25GbE)", "NIC slots"),
        (GOOD, 5, "1 x ConnectX-7 NDR (InfiniBand-NDR)", "PCIe generation"),
    ],
)
def test_each_rule_by_parts(parts: tuple[str, ...], at: int, text: str, named: str) -> None:
    found = faults(swapped(parts, at, text))
    assert any(f.startswith(f"server: {named}") for f in found), found


@pytest.mark.parametrize(
    ("parts", "table", "key", "name", "values", "named"),
    [
        (BOARD, "accelerators", "accelerator", "H100-80GB-SXM5", {"nvlink_domain": 4}, "NVLink domain"),
        (GOOD, "cpus", "cpu", "Xeon-4310", {"max_sockets": 1}, "sockets"),
        (GOOD, "cpus", "cpu", "Xeon-4310", {"max_memory_gib": 100.0}, "memory"),
        (GOOD, "servers", "server", "PCIe-2xL40S-2U", {"max_ram_gib": 128.0}, "memory"),
        # 2 x 16 for the cards, 4 for the drive and 8 for the NIC: 44.
        (GOOD, "cpus", "cpu", "Xeon-4310", {"pcie_lanes": 21}, "PCIe lanes"),
        # 8 x 8 for the board, 2 x 4 for the drives: 72; two EPYC have 96 lanes fewer than their sum.
        (BOARD, "cpus", "cpu", "Xeon-8468", {"pcie_lanes": 83, "vendor": "AMD"}, "PCIe lanes"),
        (GOOD, "servers", "server", "PCIe-2xL40S-2U", {"max_power_w": 1366.0}, "power supply"),
        (GOOD, "servers", "server", "PCIe-2xL40S-2U", {"psu_count": 2, "psu_spare": 1}, "power supply"),
        (BOARD, "servers", "server", "HGX-H100-8U", {"nic_slots": 7}, "NIC slots"),
        (GOOD, "servers", "server", "PCIe-2xL40S-2U", {"cpu_default": None}, "CPU family"),
    ],
)
def test_each_rule_by_what_the_catalogue_says(
    parts: tuple[str, ...], table: str, key: str, name: str, values: dict[str, Any], named: str
) -> None:
    found = faults(parts, changed(table, key, name, **values))
    assert [f for f in found if f.startswith(f"server: {named}")] == found != []


@pytest.mark.parametrize(
    ("table", "key", "name", "values"),
    [
        ("cpus", "cpu", "Xeon-4310", {"pcie_lanes": 22}),
        # 350 + 2 x 350 + 2 x 120 + 16 x 3 + 17 + 12 = 1,367 W.
        ("servers", "server", "PCIe-2xL40S-2U", {"max_power_w": 1367.0}),
        ("servers", "server", "PCIe-2xL40S-2U", {"max_power_w": 2734.0, "psu_count": 2, "psu_spare": 1}),
        (
            "servers",
            "server",
            "PCIe-2xL40S-2U",
            {"nic_slots": 1, "drive_bays": 1, "ram_slots": 16, "max_ram_gib": 256.0},
        ),
        ("servers", "server", "PCIe-2xL40S-2U", {"complete": True, "max_power_w": 1.0}),
    ],
)
def test_limits_may_be_met_exactly(table: str, key: str, name: str, values: dict[str, Any]) -> None:
    assert faults(GOOD, changed(table, key, name, **values)) == []


@pytest.mark.parametrize("missing", range(1, 6))
def test_no_part_is_missing_or_unknown(missing: int) -> None:
    assert "not whole" in faults((*GOOD[:missing], *GOOD[missing + 1 :]))[0]
    assert "not whole" in faults(swapped(GOOD, missing, "1 x thing"))[0]
    assert "not whole" in faults((*GOOD, GOOD[missing]))[0]


def test_a_plan_with_tampered_parts_is_refused() -> None:
    loaded, result = plan("bought")

    def narrower(item: Item) -> dict[str, Any]:
        return {"parts": tuple("9 x ConnectX-6 Lx (25GbE)" if p.endswith("(25GbE)") else p for p in item.parts)}

    tampered: Result = with_line(result, narrower, ("server",))
    assert any("NIC slots" in text for text in verify(tampered, loaded.problem, catalog()))
