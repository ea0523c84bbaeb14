"""Figures that must be right, each against the value that is often misquoted or the vendor's own."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from catalogs.catalog import Catalog


def row(frame: pl.DataFrame, key: str, name: str) -> dict[str, Any]:
    return frame.row(by_predicate=pl.col(key) == name, named=True)


@pytest.mark.parametrize(
    ("accelerator", "figures"),
    [
        (
            "A100-80GB-SXM4",
            {"memory_gib": 80, "bandwidth_gb_s": 2039, "fp16_dense_tflops": 312, "tdp_w": 400},
        ),
        (
            "A100-80GB-PCIe",
            {"memory_gib": 80, "bandwidth_gb_s": 1935, "fp16_dense_tflops": 312, "tdp_w": 300},
        ),
        # 3.35 TB/s, 989 TFLOPS and 700 W belong to the SXM5 module only.
        (
            "H100-80GB-SXM5",
            {"bandwidth_gb_s": 3350, "fp16_dense_tflops": 989, "tdp_w": 700, "nvlink_domain": 8},
        ),
        (
            "H100-80GB-PCIe",
            {"bandwidth_gb_s": 2000, "fp16_dense_tflops": 756, "tdp_w": 350, "nvlink_domain": 2},
        ),
        (
            "H200-141GB-SXM5",
            {"memory_gib": 140.4, "bandwidth_gb_s": 4800, "fp16_dense_tflops": 989, "tdp_w": 700},
        ),
        # Not 182.
        ("L40S", {"fp16_dense_tflops": 362, "bf16_dense_tflops": 362, "fp8_dense_tflops": 733, "tdp_w": 350}),
        ("A10", {"fp16_dense_tflops": 125, "tdp_w": 150, "bandwidth_gb_s": 600}),
        ("A10G", {"fp16_dense_tflops": 70, "memory_gib": 22.49, "bandwidth_gb_s": 600}),
        ("RTX-4090", {"fp16_dense_tflops": 165.2, "bandwidth_gb_s": 1008, "tdp_w": 450, "nvlink_domain": 1}),
        ("RTX-4060Ti-16GB", {"memory_gb_nominal": 16, "bandwidth_gb_s": 288, "tdp_w": 165}),
        ("RTX-6000-Ada", {"fp16_dense_tflops": 364.2, "memory_gb_nominal": 48, "tdp_w": 300}),
        ("B100-SXM6", {"fp16_dense_tflops": 1750, "tdp_w": 700}),
        (
            "B200-180GB-SXM6",
            {"fp16_dense_tflops": 2250, "bandwidth_gb_s": 8000, "tdp_w": 1000, "nvlink_domain": 8},
        ),
        (
            "Ascend-910B",
            {"vendor": "Huawei", "software_stack": "cann", "fp16_dense_tflops": 320, "memory_gib": 64},
        ),
        ("Groq-LPU-v1", {"memory_type": "SRAM", "software_stack": "groq", "fp16_dense_tflops": 188}),
        ("Cerebras-CS-3", {"memory_type": "SRAM", "software_stack": "cerebras", "tdp_w": 23000}),
    ],
)
def test_accelerator(catalog: Catalog, accelerator: str, figures: dict[str, Any]) -> None:
    found = row(catalog.accelerators, "accelerator", accelerator)
    assert {name: found[name] for name in figures} == figures


@pytest.mark.parametrize("name", ["Ascend-910B2", "Ascend-910B3", "Ascend-910B4"])
def test_variants_without_published_figures_hold_none(catalog: Catalog, name: str) -> None:
    found = row(catalog.accelerators, "accelerator", name)
    assert found["memory_gib"] is None
    assert found["fp16_dense_tflops"] is None
    assert found["price_usd"] is None


@pytest.mark.parametrize(
    ("cpu", "figures"),
    [
        # A server with it cannot hold DDR5.
        (
            "EPYC-7742",
            {"cores": 64, "memory_type": "DDR4", "memory_mts": 3200, "memory_channels": 8, "pcie_gen": 4},
        ),
        (
            "EPYC-9654",
            {"cores": 96, "threads": 192, "memory_type": "DDR5", "memory_channels": 12, "pcie_gen": 5},
        ),
        ("Xeon-4310", {"cores": 12, "memory_type": "DDR4", "memory_mts": 2667, "pcie_gen": 4}),
        ("Xeon-8490H", {"cores": 60, "threads": 120, "memory_type": "DDR5", "pcie_gen": 5}),
    ],
)
def test_cpu(catalog: Catalog, cpu: str, figures: dict[str, Any]) -> None:
    found = row(catalog.cpus, "cpu", cpu)
    assert {name: found[name] for name in figures} == figures


@pytest.mark.parametrize(
    ("network", "gbps", "rdma"),
    [
        ("InfiniBand-HDR", 200, True),
        ("InfiniBand-NDR", 400, True),
        ("RoCEv2-25G", 25, True),
        ("RoCEv2-100G", 100, True),
        ("25GbE", 25, False),
        ("100GbE", 100, False),
    ],
)
def test_network(catalog: Catalog, network: str, gbps: float, rdma: bool) -> None:
    found = row(catalog.network, "network", network)
    assert (found["gbps_per_port"], found["rdma"]) == (gbps, rdma)


def test_links_and_bus_generations(catalog: Catalog) -> None:
    cards = catalog.accelerators
    nvlink = {"A100-80GB-SXM4": ("NVLink3", 600.0), "H100-80GB-SXM5": ("NVLink4", 900.0)}
    for name, link in nvlink.items():
        found = row(cards, "accelerator", name)
        assert (found["interconnect"], found["interconnect_gb_s"]) == link
    assert row(cards, "accelerator", "L40S")["interconnect"] == "PCIe4"
    assert row(cards, "accelerator", "RTX-5090")["interconnect"] == "PCIe5"
    assert {4, 5} <= set(cards["pcie_gen"])


def test_storage_kinds(catalog: Catalog) -> None:
    names = catalog.storage["storage"].str.to_lowercase()
    for part in ("nvme", "hdd", "lustre", "gpfs", "s3"):
        assert names.str.contains(part).any()
    assert {"nvme_tlc", "hdd", "parallel_fs", "object"} <= set(catalog.storage["class"])


def test_memory_and_server_of_one_cpu_go_together(catalog: Catalog) -> None:
    """Every default CPU has memory modules of its type on sale, or its system is sold whole."""
    types = set(catalog.ram["type"])
    rows = catalog.servers.join(catalog.cpus, left_on="cpu_default", right_on="cpu")
    assert set(rows.filter(~pl.col("complete"))["memory_type"]) <= types


def test_accelerators_fit_servers_of_their_form_factor(catalog: Catalog) -> None:
    """A chassis takes its own form factor; only the one sold with several baseboards takes others."""
    fits = catalog.servers.select("server", "accelerator_form_factor", pl.col("fits").str.split(";")).explode("fits")
    rows = fits.join(catalog.accelerators, left_on="fits", right_on="accelerator")
    board = pl.col("accelerator_form_factor").str.extract(r"^(\w+)")
    card = pl.col("form_factor").str.extract(r"^(\w+)")
    odd = rows.filter((board != card) & ~pl.col("accelerator_form_factor").str.contains("module"))
    assert set(odd["server"]) <= {"HGX-H100-6U"}


def test_complete_systems_state_what_is_inside(catalog: Catalog) -> None:
    whole = catalog.servers.filter(pl.col("complete") & (pl.col("slots") == 8) & pl.col("price_usd").is_not_null())
    assert whole.height >= 5
    assert whole["included_ram_gib"].null_count() == 0
    assert whole["included_network_gbps"].null_count() == 0
    assert (
        catalog.servers.filter(~pl.col("complete"))["included_ram_gib"].null_count()
        == catalog.servers.filter(~pl.col("complete")).height
    )


def test_rules_name_every_rule_of_the_problem_schema_once(catalog: Catalog) -> None:
    from catalogs.places import RULES

    assert sorted(catalog.rules["rule"]) == sorted(RULES)
    values = dict(catalog.rules.select("rule", "value").iter_rows())
    assert values["training_ram_ratio"] == 2
    assert values["training_network_gbps_large"] == 400
    assert values["training_large_nodes"] == 8


def test_calendars_cover_the_week(catalog: Catalog) -> None:
    hours = catalog.calendars.with_columns(hours=pl.col("hour_to") - pl.col("hour_from"))
    total = hours.group_by("calendar").agg(pl.col("hours").sum(), load=(pl.col("hours") * pl.col("level")).sum())
    named = ("flat", "office_hours", "day_night", "day_night_weekend", "hourly")
    assert dict(total.select("calendar", "hours").iter_rows()) == dict.fromkeys(named, 168)
    load = dict(total.select("calendar", "load").iter_rows())
    plain = {name: load[name] for name in ("flat", "office_hours", "day_night")}
    assert plain == pytest.approx({"flat": 168, "office_hours": 50, "day_night": 7 * (14 + 0.3 * 10)})
    assert all(50 < load[name] < 168 for name in ("day_night_weekend", "hourly"))


def test_assumptions_answer_by_key(catalog: Catalog) -> None:
    assert catalog.assumption("hours_per_month") == 730
    with pytest.raises(KeyError):
        catalog.assumption("luck")
