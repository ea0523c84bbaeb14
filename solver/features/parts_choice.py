"""Every choice of CPU, memory, drives and NICs for a server, less those that another equals or beats.

Each stage takes one row per combination so far and gives one per combination with its part. Options that are no better
than another in price, watts and lanes are left out at once, which is exact: whatever they could do, the other does as well.
"""

from __future__ import annotations

import polars as pl

from solver.features.parts import (
    CPU_REASON,
    DRIVE_LANES,
    DRIVE_REASON,
    LANE_GBPS,
    MODULE_REASON,
    PORT_REASON,
    RAM_REASON,
    SLOT_REASON,
    Parts,
    card_lanes,
    fewest_nics,
    host_lanes,
    shared_evenly,
    undominated,
)

HOST = ["server", "accelerator", "gpus", "needs"]
"""Key of a host: what its parts but the NICs are chosen for (`needs` numbers the requirements that levels share)."""


def host_choices(shells: pl.DataFrame, parts: Parts) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Complete every shell with CPUs, memory and drives.

    Parameters
    ----------
    shells : pl.DataFrame
        One row per `HOST`, with the server's and card's columns and cores_need, ram_need_gib, nvme_tb, nvme_gb_s.

    Returns
    -------
    hosts : pl.DataFrame
        Rows of a host differ in host_usd, host_w and lanes left, none beaten in all of them by another with the same slots.
    refused : pl.DataFrame
        `HOST`, reason.
    """
    gone = []
    built = shells
    for stage, reason in (
        (_with_cpu, CPU_REASON),
        (_with_modules, MODULE_REASON),
        (_with_fill, RAM_REASON),
        (_with_drives, DRIVE_REASON),
    ):
        before = built.select(HOST).unique(maintain_order=True)
        built = stage(built, parts)
        gone.append(before.join(built, on=HOST, how="anti").with_columns(reason=pl.lit(reason)))
    hosts = built.with_columns(
        host_usd=pl.sum_horizontal("chassis_usd", "cards_usd", "cpu_usd", "ram_usd", "drives_usd"),
        host_w=pl.col("card_w") * pl.col("gpus")
        + pl.sum_horizontal("chassis_overhead_w", "cpu_w", "ram_w", "drives_w"),
        host_lanes_used=card_lanes() + pl.col("drive_count") * DRIVE_LANES,
    ).with_columns(lacking_lanes=pl.col("host_lanes_used") - pl.col("lanes"))
    ordered = hosts.sort("host_usd", "host_w", "cpu", "module", "ram_count", "storage")
    # Slots decide which NICs go in, the rest is money, watts and lanes that are left.
    return undominated(ordered, [*HOST, "lane_gbps"], ["host_usd", "host_w", "lacking_lanes"]), pl.concat(gone)


def _with_cpu(shells: pl.DataFrame, parts: Parts) -> pl.DataFrame:
    cpus = parts.cpus.select(
        "cpu",
        "family",
        "cores",
        "memory_channels",
        "memory_type",
        "max_memory_gib",
        "pcie_gen",
        "pcie_lanes",
        "max_sockets",
        linked=pl.col("vendor") == "AMD",
        cpu_w="tdp_w",
        cpu_usd="price_usd",
        cpu_confidence="confidence",
    )
    sockets = pl.col("cpu_sockets")
    options = (
        shells.join(cpus.select(cpu_default="cpu", family="family"), on="cpu_default", how="inner")
        .join(cpus, on="family", how="inner")
        .filter(
            pl.col("cpu_usd").is_not_null()
            & (pl.col("max_sockets") >= sockets)
            & (pl.col("cores") * sockets >= pl.col("cores_need"))
        )
        .with_columns(
            lanes=host_lanes(),
            lane_gbps=pl.col("pcie_gen")
            .cast(pl.Int64)
            .replace_strict(LANE_GBPS, default=None, return_dtype=pl.Float64),
            cpu_usd=pl.col("cpu_usd") * sockets,
            cpu_w=pl.col("cpu_w") * sockets,
        )
        .with_columns(lacking_lanes=-pl.col("lanes"), lacking_memory=-pl.col("max_memory_gib"))
        .sort("cpu_usd", "cpu_w", "cpu")
    )
    # What another CPU must equal to stand in for this one: memory, slots and lanes, at no more money and watts.
    group = [*HOST, "memory_type", "memory_channels", "pcie_gen"]
    return undominated(options, group, ["cpu_usd", "cpu_w", "lacking_lanes", "lacking_memory"])


def _with_modules(builds: pl.DataFrame, parts: Parts) -> pl.DataFrame:
    modules = parts.ram.filter(pl.col("price_usd").is_not_null()).select(
        "module",
        "size_gib",
        memory_type="type",
        module_usd="price_usd",
        module_w="power_w",
        ram_confidence="confidence",
    )
    return builds.join(modules, on="memory_type", how="inner")


def _with_fill(builds: pl.DataFrame, parts: Parts) -> pl.DataFrame:
    """One or two modules in every channel of every socket: an uneven fill halves the bandwidth."""
    channels = (pl.col("memory_channels") * pl.col("cpu_sockets")).cast(pl.Int64)
    slots = pl.col("ram_slots").cast(pl.Int64)
    fills = pl.concat_list(
        pl.when(channels <= slots).then(channels),
        # A board with fewer slots than channels has them all filled.
        pl.when(slots < channels).then(slots),
        pl.when(channels * 2 <= slots).then(channels * 2),
    ).list.drop_nulls()
    options = (
        builds.rechunk()
        .with_columns(ram_count=fills)
        .explode("ram_count", empty_as_null=False)
        .with_columns(
            ram_gib=(pl.col("size_gib") * pl.col("ram_count")).cast(pl.Float64),
            ram_usd=pl.col("module_usd") * pl.col("ram_count"),
            ram_w=pl.col("module_w") * pl.col("ram_count"),
        )
        .filter(
            (pl.col("ram_gib") >= pl.col("ram_need_gib"))
            & (pl.col("ram_gib") <= pl.col("max_ram_gib"))
            & (pl.col("ram_gib") <= pl.col("max_memory_gib") * pl.col("cpu_sockets"))
        )
        .sort("ram_usd", "ram_w", "ram_count", "module")
    )
    return undominated(options, [*HOST, "cpu"], ["ram_usd", "ram_w"])


def _with_drives(builds: pl.DataFrame, parts: Parts) -> pl.DataFrame:
    """Equal drives in the bays; a drive reads no faster than its four lanes carry."""
    known = [pl.col(c).is_not_null() for c in ("price_usd_per_tb", "capacity_tb", "read_gb_s", "power_w")]
    drives = parts.storage.filter(pl.col("class") == "nvme_tlc", pl.col("location") == "on-prem", *known).select(
        "storage",
        "capacity_tb",
        "price_usd_per_tb",
        drive_read="read_gb_s",
        drive_w="power_w",
        drive_confidence="confidence",
    )
    reads = pl.min_horizontal("drive_read", pl.col("lane_gbps") * DRIVE_LANES / 8)
    options = (
        builds.join(drives, how="cross")
        .with_columns(reads=reads)
        .with_columns(
            drive_count=pl.max_horizontal(
                (pl.col("nvme_tb") / pl.col("capacity_tb")).ceil(),
                (pl.col("nvme_gb_s") / pl.col("reads")).ceil(),
                pl.lit(1.0),
            ).cast(pl.Int64)
        )
        .filter(pl.col("drive_count") <= pl.col("drive_bays"))
        .with_columns(
            drives_usd=pl.col("price_usd_per_tb") * pl.col("capacity_tb") * pl.col("drive_count"),
            drives_w=pl.col("drive_w") * pl.col("drive_count"),
            nvme_have_tb=(pl.col("capacity_tb") * pl.col("drive_count")).cast(pl.Float64),
            nvme_have_gb_s=pl.col("reads") * pl.col("drive_count"),
        )
        .sort("drives_usd", "drives_w", "drive_count", "storage")
    )
    return undominated(options, [*HOST, "cpu", "module", "ram_count"], ["drives_usd", "drives_w", "drive_count"])


def with_nics(wanted: pl.DataFrame, parts: Parts) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Every kind and number of NICs that meets a level, for each host that meets it.

    Parameters
    ----------
    wanted : pl.DataFrame
        Hosts with their level and its network columns (`solver.features.parts.NETWORK_NEEDS`). Work across nodes runs on nodes of
        several cards only.

    Returns
    -------
    builds : pl.DataFrame
        With network, gbps_per_port, nic_model, nic_count, nics_usd and nics_w [W]: the NICs alone, what they are plugged
        into is planned and paid apart. Work across nodes may have more NICs than the fewest that are fast enough: numbers over
        one are part of its level's name ("-x8"), so that the best machine is found for each.
    refused : pl.DataFrame
        server, accelerator, gpus, level, reason.
    """
    key = ["server", "accelerator", "gpus", "level"]
    ports = parts.network.filter(pl.col("nic_price_usd").is_not_null() & pl.col("nic_power_w").is_not_null()).select(
        "gbps_per_port",
        "nic_model",
        "nic_price_usd",
        "nic_power_w",
        port="network",
        has_rdma="rdma",
        nic_confidence="confidence",
    )
    levels = wanted.select("level", "network", "rdma").unique(maintain_order=True)
    able = levels.join(ports, how="cross").filter(
        (pl.col("has_rdma") | ~pl.col("rdma")) & (pl.col("network").is_null() | (pl.col("network") == pl.col("port")))
    )
    several = wanted.filter(~pl.col("spans") | (pl.col("gpus") > 1))
    offered = several.join(able.drop("network", "rdma"), on="level", how="inner", maintain_order="left")
    fewest = fewest_nics(pl.col("node_gbps"), pl.col("gbps_per_port"))
    slots = pl.col("nic_slots").fill_null(0).cast(pl.Int64)
    most = pl.when("spans").then(slots).otherwise(pl.min_horizontal(fewest, slots))
    counts = pl.int_ranges(fewest, most + 1)
    one_or_all = pl.col("nic_count").is_in([1]) | (pl.col("nic_count") == pl.min_horizontal("gpus", slots))
    usual = one_or_all & (pl.col("gbps_per_port") >= pl.col("node_gbps"))
    slotted = (
        offered.with_columns(nic_count=counts)
        .filter(pl.col("nic_count").list.len() > 0)
        .explode("nic_count")
        .filter(~pl.col("spans") | shared_evenly(pl.col("nic_count"), pl.col("gpus"), slots))
        .filter(~pl.col("usual") | usual)
    )
    builds = slotted.rechunk().with_columns(
        network=pl.col("port"),
        nics_usd=pl.col("nic_price_usd") * pl.col("nic_count"),
        nics_w=pl.col("nic_power_w") * pl.col("nic_count"),
        network_gbps=(pl.col("gbps_per_port") * pl.col("nic_count")).cast(pl.Float64),
    )
    keys = [f.select(key).unique(maintain_order=True) for f in (several, offered, builds)]
    named = pl.format("{}-x{}", "level", "nic_count")
    return builds.drop("port").with_columns(
        level=pl.when(pl.col("spans") & (pl.col("nic_count") > 1)).then(named).otherwise("level")
    ), pl.concat(
        [
            keys[0].join(keys[1], on=key, how="anti").with_columns(reason=pl.lit(PORT_REASON)),
            keys[1].join(keys[2], on=key, how="anti").with_columns(reason=pl.lit(SLOT_REASON)),
        ]
    )
