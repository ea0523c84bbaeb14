"""Schemas of what can be bought: accelerators, servers, parts. Prices in US dollars, street level."""

from __future__ import annotations

import dataframely as dy
import polars as pl

from catalogs.columns import (
    Sourced,
    at_least_zero,
    choice,
    count,
    date_text,
    flag,
    positive,
    text,
)
from problems.terms import CONFIDENCES

STACKS = ("cuda", "rocm", "cann", "neuron", "tpu", "gaudi", "groq", "cerebras")
SERVER_KINDS = ("server", "rack", "cluster", "workstation", "appliance")
STORAGE_CLASSES = ("nvme_tlc", "nvme_qlc", "sata_ssd", "hdd", "parallel_fs", "object", "block", "local")
TIERS = ("hot", "warm", "cold", "archive")


class Accelerators(Sourced):
    """One card, module or chip. Rates are dense, per card; `memory_gib` is what software sees.

    `nvlink_domain` counts the cards that talk over NVLink-class links (1: PCIe only). `interconnect_gb_s`
    is the sum of both directions per card. Rows of variants without published figures hold names only.
    """

    accelerator = text(key=True)
    vendor = text()
    architecture = text()
    year = dy.Int64(min=2010, max=2100)
    form_factor = text()
    memory_gib = positive()
    memory_gb_nominal = positive()
    memory_type = text(nullable=True)
    bandwidth_gb_s = positive()
    fp16_dense_tflops = positive()
    bf16_dense_tflops = positive()
    fp8_dense_tflops = positive()
    int8_dense_tops = positive()
    fp4_dense_tflops = positive()
    fp32_tflops = positive()
    tdp_w = positive()
    min_power_limit_w = positive()
    interconnect = text(nullable=True)
    interconnect_gb_s = positive()
    nvlink_domain = count(nullable=True)
    pcie_gen = count(nullable=True)
    mig = flag(nullable=True)
    price_usd = positive()
    price_low_usd = positive()
    price_high_usd = positive()
    price_as_of = date_text()
    price_basis = text(nullable=True)
    price_confidence = choice(CONFIDENCES, nullable=True)
    memory_basis = text(nullable=True)
    software_stack = choice(STACKS)

    @dy.rule()
    def memory_within_nominal(cls) -> pl.Expr:  # noqa: N805
        """Software never sees more than the nominal memory."""
        return pl.col("memory_gib") <= pl.col("memory_gb_nominal") * 1.001

    @dy.rule()
    def power_limit_within_tdp(cls) -> pl.Expr:  # noqa: N805
        """The least power limit lies below the TDP."""
        return pl.col("min_power_limit_w") <= pl.col("tdp_w")

    @dy.rule()
    def price_within_range(cls) -> pl.Expr:  # noqa: N805
        """The price lies within its own range."""
        return (pl.col("price_usd") >= pl.col("price_low_usd").fill_null(0.0)) & (
            pl.col("price_usd") <= pl.col("price_high_usd").fill_null(float("inf"))
        )

    @dy.rule()
    def price_has_confidence(cls) -> pl.Expr:  # noqa: N805
        """A price comes with a confidence."""
        return pl.col("price_usd").is_null() | pl.col("price_confidence").is_not_null()


class AcceleratorAliases(Sourced):
    """Other spellings of accelerators; a spelling may stand for several cards."""

    alias = text(key=True)
    accelerator = text(key=True)


class Servers(Sourced):
    """A chassis to fill, or a system sold whole (`complete`; then `included_*` say what is inside).

    `price_usd` is the chassis with fans, supplies and baseboard, or the whole system where
    `price_includes_gpu`. `chassis_overhead_w` covers fans, switches and conversion losses. `fits` lists
    accelerators, split by ";". `max_power_w` is what all `psu_count` supplies give together; `psu_spare` of them may
    fail (empty: `max_power_w` is what is given in any case). `included_network` names the network of the NICs inside.
    """

    server = text(key=True)
    product = text(nullable=True)
    vendor = text()
    kind = choice(SERVER_KINDS)
    deployment_mode = choice(("on_premises", "appliance"))
    complete = flag()
    accelerator_form_factor = text()
    slots = count()
    fits = text()
    cpu_sockets = count()
    cpu_default = text(nullable=True)
    max_ram_gib = positive()
    ram_slots = count(nullable=True)
    drive_bays = count(nullable=True, minimum=0)
    nic_slots = count(nullable=True, minimum=0)
    chassis_overhead_w = at_least_zero()
    max_power_w = positive()
    rack_units = positive()
    cooling = text()
    price_usd = positive()
    price_includes_gpu = flag()
    price_basis = text(nullable=True)
    price_confidence = choice(CONFIDENCES, nullable=True)
    included_ram_gib = positive()
    included_nvme_tb = positive()
    included_nvme_gb_s = positive()
    included_network_gbps = positive()
    included_rdma = flag(nullable=True)
    included_network = text(nullable=True)
    included_nics = count(nullable=True)
    psu_count = count(nullable=True)
    psu_spare = count(nullable=True, minimum=0)

    @dy.rule()
    def some_supply_works(cls) -> pl.Expr:  # noqa: N805
        """Not all power supplies may fail."""
        return pl.col("psu_spare") < pl.col("psu_count")

    @dy.rule()
    def named_nics_are_counted(cls) -> pl.Expr:  # noqa: N805
        """Named NICs inside come with their number."""
        return pl.col("included_network").is_null() | pl.col("included_nics").is_not_null()

    @dy.rule()
    def complete_includes_accelerators(cls) -> pl.Expr:  # noqa: N805
        """A system sold whole includes its accelerators, a chassis does not."""
        return pl.col("complete") == pl.col("price_includes_gpu")


class Cpus(Sourced):
    """A CPU and the host it makes: memory channels, type and speed [MT/s], PCIe lanes."""

    cpu = text(key=True)
    vendor = text()
    family = text()
    year = dy.Int64(min=2010, max=2100)
    cores = count()
    threads = count()
    base_ghz = positive(nullable=False)
    tdp_w = positive(nullable=False)
    memory_channels = count()
    memory_type = text()
    memory_mts = positive(nullable=False)
    max_memory_gib = positive(nullable=False)
    pcie_gen = count()
    pcie_lanes = count()
    max_sockets = count()
    price_usd = positive()

    @dy.rule()
    def threads_cover_cores(cls) -> pl.Expr:  # noqa: N805
        """At least one thread per core."""
        return pl.col("threads") >= pl.col("cores")


class Ram(Sourced):
    """A memory module."""

    module = text(key=True)
    type = text()
    speed_mts = positive(nullable=False)
    size_gib = positive(nullable=False)
    ecc = flag()
    price_usd = positive()
    price_low_usd = positive()
    price_high_usd = positive()
    power_w = positive(nullable=False)
    price_basis = text(nullable=True)


class Storage(Sourced):
    """A drive, a file system to build, or a storage service. Speeds are per drive or volume."""

    storage = text(key=True)
    class_ = dy.String(
        alias="class",
        check=lambda c: c.is_in(list(STORAGE_CLASSES)),
        metadata={"allowed": " | ".join(STORAGE_CLASSES)},
    )
    tier = choice(TIERS)
    location = choice(("on-prem", "cloud"))
    provider = text(nullable=True)
    capacity_tb = positive()
    read_gb_s = positive()
    write_gb_s = positive()
    read_iops = positive()
    write_iops = positive()
    min_size_tb = at_least_zero()
    gb_s_per_tb = positive()
    price_usd_per_tb = positive()
    price_usd_per_tb_month = positive()
    power_w = at_least_zero()
    price_basis = text(nullable=True)

    @dy.rule()
    def one_price_kind(cls) -> pl.Expr:  # noqa: N805
        """Bought by the TB or rented by the TB-month, not both."""
        return pl.col("price_usd_per_tb").is_null() | pl.col("price_usd_per_tb_month").is_null()


class StorageTerms(Sourced):
    """What the price of a storage service leaves out or includes: a fee per TB read back, speed of one volume or store.

    A volume or store with a row has no other speed than the row's; null: none is known at that price. What is not
    `lasting` (scratch) may hold working copies only.
    """

    storage = text(key=True)
    retrieval_usd_per_tb = at_least_zero(nullable=False)
    lasting = flag()
    read_gb_s = positive()
    write_gb_s = positive()
    included_iops = positive()


class Network(Sourced):
    """A port speed and what it takes: NIC, cable, share of a switch."""

    network = text(key=True)
    family = choice(("Ethernet", "RoCE v2", "InfiniBand"))
    gbps_per_port = positive(nullable=False)
    gb_s_per_port = positive(nullable=False)
    rdma = flag()
    latency_us = positive()
    nic_model = text()
    nic_price_usd = positive()
    nic_power_w = positive()
    switch_model = text(nullable=True)
    switch_ports = count(nullable=True)
    switch_price_usd = positive()
    switch_power_w = positive()
    per_port_switch_price_usd = positive()
    per_port_switch_power_w = positive()
    cable_price_usd = at_least_zero()
    cable_kind = text(nullable=True)
    price_basis = text(nullable=True)

    @dy.rule()
    def bytes_match_bits(cls) -> pl.Expr:  # noqa: N805
        """The byte rate is an eighth of the bit rate."""
        return (pl.col("gb_s_per_port") * 8 - pl.col("gbps_per_port")).abs() <= 0.01 * pl.col("gbps_per_port")
