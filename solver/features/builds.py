"""Whole servers on premises: every server row with the cheapest CPU, RAM, NVMe and NIC that meet a requirement level.

A requirement level (a row of `levels`) states what the practice rules ask of one node; the result holds one row per
server x accelerator x accelerator count x level, with its bill of materials, price and nameplate. Systems sold whole
(`complete`) come as they are: their parts are neither chosen nor priced apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

KEY = ["server", "accelerator", "gpus", "level"]


@dataclass(frozen=True)
class Parts:
    """Catalogue tables that a build is made from (frames as in `catalogs`)."""

    servers: pl.DataFrame
    accelerators: pl.DataFrame
    cpus: pl.DataFrame
    ram: pl.DataFrame
    storage: pl.DataFrame
    network: pl.DataFrame


LEVEL_SCHEMA = {
    "level": pl.String,
    "ram_ratio": pl.Float64,  # host RAM over total accelerator memory
    "ram_min_gib": pl.Float64,
    "cores_min": pl.Float64,  # per node
    "cores_per_gpu": pl.Float64,
    "nvme_tb": pl.Float64,
    "nvme_gb_s": pl.Float64,
    "nic_gbps": pl.Float64,  # per NIC
    "nic_per_gpu": pl.Boolean,  # one NIC per accelerator instead of one per node
    "rdma": pl.Boolean,
}


def server_builds(parts: Parts, levels: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Build every server for every requirement level.

    Returns
    -------
    builds : pl.DataFrame
        One row per server x accelerator x gpus x level with cores, ram_gib, nvme_tb, nvme_gb_s, network_gbps, rdma,
        price_usd, nameplate_w [W], host_nameplate_w [W], parts (list of text), price_confidence, price_as_of.
    refused : pl.DataFrame
        server, accelerator, gpus, level, reason.
    """
    base = _shells(parts, levels)
    chosen = base.join(_cpu_choice(base, parts), on=KEY, how="left")
    chosen = chosen.join(_ram_choice(chosen, parts.ram), on=KEY, how="left")
    chosen = chosen.join(_drive_choice(chosen, parts.storage), on=KEY, how="left")
    chosen = chosen.join(_nic_choice(chosen, parts.network), on=KEY, how="left")
    # pl.format wants its columns in equal chunks, which joins do not promise.
    chosen = _priced(chosen.rechunk()).with_columns(reason=_why_not())
    refused = chosen.filter(pl.col("reason").is_not_null()).select(*KEY, "reason")
    return chosen.filter(pl.col("reason").is_null()).drop("reason"), refused


def _shells(parts: Parts, levels: pl.DataFrame) -> pl.DataFrame:
    """Server x accelerator x accelerator count x level, before any part is chosen."""
    cards = parts.accelerators.select(
        "accelerator",
        "vendor",
        "memory_gib",
        "tdp_w",
        card_price_usd="price_usd",
        card_confidence="price_confidence",
        card_as_of="price_as_of",
    )
    pcie = (
        pl.col("accelerator_form_factor").str.starts_with("PCIe") & ~pl.col("complete") & ~pl.col("price_includes_gpu")
    )
    counts = pl.concat_list(
        [pl.when(pcie & (pl.col("slots") > c)).then(pl.lit(c, pl.Int64)) for c in (1, 2, 4, 8)]
        + [pl.col("slots").cast(pl.Int64)]
    ).list.drop_nulls()
    return (
        parts.servers.rename(
            {"vendor": "server_vendor", "price_usd": "chassis_price_usd", "price_confidence": "chassis_confidence"}
        )
        .drop("source", "notes", "as_of", "confidence", strict=False)
        .with_columns(accelerator=pl.col("fits").str.split(";"), gpus=counts)
        .explode("accelerator")
        .explode("gpus")
        .with_columns(pl.col("accelerator").str.strip_chars())
        .join(cards, on="accelerator", how="inner")
        .join(levels.cast(LEVEL_SCHEMA), how="cross")  # type: ignore[arg-type]
        .with_columns(
            gpu_memory_gib=pl.col("memory_gib") * pl.col("gpus"),
            cores_need=pl.max_horizontal("cores_min", pl.col("cores_per_gpu") * pl.col("gpus")),
        )
        .with_columns(ram_need_gib=pl.max_horizontal(pl.col("ram_ratio") * pl.col("gpu_memory_gib"), "ram_min_gib"))
    )


def _cpu_choice(base: pl.DataFrame, parts: Parts) -> pl.DataFrame:
    """Cheapest CPU of the default CPU's family with enough cores; complete systems keep their own."""
    cpus = parts.cpus.select(
        "cpu",
        "family",
        "cores",
        "memory_channels",
        "memory_type",
        "max_memory_gib",
        "pcie_gen",
        "max_sockets",
        cpu_tdp_w="tdp_w",
        cpu_price_usd="price_usd",
        cpu_confidence="confidence",
    )
    family = cpus.select(cpu_default="cpu", family="family")
    options = (
        base.select(*KEY, "cpu_default", "cpu_sockets", "cores_need", "complete")
        .join(family, on="cpu_default", how="inner")
        .join(cpus, on="family", how="inner")
        .filter(
            pl.when(pl.col("complete"))
            .then(pl.col("cpu") == pl.col("cpu_default"))
            .otherwise(
                pl.col("cpu_price_usd").is_not_null()
                & (pl.col("max_sockets") >= pl.col("cpu_sockets"))
                & (pl.col("cores") * pl.col("cpu_sockets") >= pl.col("cores_need"))
            )
        )
    )
    return (
        options.sort(pl.col("cpu_price_usd"), pl.col("cpu"))
        .group_by(KEY, maintain_order=True)
        .first()
        .with_columns(cores_total=pl.col("cores") * pl.col("cpu_sockets"))
        .drop("cpu_default", "cpu_sockets", "cores_need", "complete", "family", "cores", "max_sockets")
    )


def _ram_choice(base: pl.DataFrame, ram: pl.DataFrame) -> pl.DataFrame:
    """Cheapest even fill of the memory channels that reaches the need without passing server or CPU limits."""
    channels = (pl.col("memory_channels") * pl.col("cpu_sockets")).cast(pl.Int64)
    fills = pl.concat_list(
        pl.min_horizontal(channels, pl.col("ram_slots").cast(pl.Int64)),
        pl.when(channels * 2 <= pl.col("ram_slots")).then(channels * 2),
    ).list.drop_nulls()
    options = (
        base.filter(~pl.col("complete") & pl.col("cpu").is_not_null())
        .select(
            *KEY,
            "memory_type",
            "memory_channels",
            "cpu_sockets",
            "ram_slots",
            "max_ram_gib",
            "max_memory_gib",
            "ram_need_gib",
        )
        .with_columns(ram_count=fills)
        .explode("ram_count")
        .join(
            ram.filter(pl.col("price_usd").is_not_null()).select(
                "module",
                "size_gib",
                module_price_usd="price_usd",
                module_w="power_w",
                memory_type="type",
                ram_confidence="confidence",
            ),
            on="memory_type",
            how="inner",
        )
        .with_columns(ram_total_gib=pl.col("size_gib") * pl.col("ram_count"))
        .filter(
            (pl.col("ram_total_gib") >= pl.col("ram_need_gib"))
            & (pl.col("ram_total_gib") <= pl.col("max_ram_gib"))
            & (pl.col("ram_total_gib") <= pl.col("max_memory_gib") * pl.col("cpu_sockets"))
        )
        .with_columns(
            ram_price_usd=pl.col("module_price_usd") * pl.col("ram_count"),
            ram_w=pl.col("module_w") * pl.col("ram_count"),
        )
    )
    return (
        options.sort("ram_price_usd", "ram_count", "module")
        .group_by(KEY, maintain_order=True)
        .first()
        .select(*KEY, "module", "ram_count", "ram_total_gib", "ram_price_usd", "ram_w", "ram_confidence")
    )


def _drive_choice(base: pl.DataFrame, storage: pl.DataFrame) -> pl.DataFrame:
    """Cheapest set of equal TLC NVMe drives in the bays with the capacity and read bandwidth asked for."""
    drives = storage.filter(
        (pl.col("class") == "nvme_tlc") & (pl.col("location") == "on-prem") & pl.col("price_usd_per_tb").is_not_null()
    )
    options = (
        base.filter(~pl.col("complete"))
        .select(*KEY, "drive_bays", "nvme_tb", "nvme_gb_s")
        .join(
            drives.select(
                "storage",
                "capacity_tb",
                "read_gb_s",
                "price_usd_per_tb",
                drive_w="power_w",
                drive_confidence="confidence",
            ),
            how="cross",
        )
        .with_columns(
            drive_count=pl.max_horizontal(
                (pl.col("nvme_tb") / pl.col("capacity_tb")).ceil(),
                (pl.col("nvme_gb_s") / pl.col("read_gb_s")).ceil(),
                pl.lit(1.0),
            ).cast(pl.Int64)
        )
        .filter(pl.col("drive_count") <= pl.col("drive_bays"))
        .with_columns(
            drive_price_usd=pl.col("price_usd_per_tb") * pl.col("capacity_tb") * pl.col("drive_count"),
            drives_w=pl.col("drive_w") * pl.col("drive_count"),
            drive_tb=pl.col("capacity_tb") * pl.col("drive_count"),
            drive_gb_s=pl.col("read_gb_s") * pl.col("drive_count"),
        )
    )
    return (
        options.sort("drive_price_usd", "drive_count", "storage")
        .group_by(KEY, maintain_order=True)
        .first()
        .select(
            *KEY,
            "storage",
            "drive_count",
            "drive_tb",
            "drive_gb_s",
            "drive_price_usd",
            "drives_w",
            "drive_confidence",
        )
    )


def _nic_choice(base: pl.DataFrame, network: pl.DataFrame) -> pl.DataFrame:
    """Cheapest port (NIC, cable and its share of a switch) with the speed and RDMA asked for."""
    ports = network.filter(
        pl.col("nic_price_usd").is_not_null() & pl.col("per_port_switch_price_usd").is_not_null()
    ).select(
        "network",
        "gbps_per_port",
        "nic_model",
        has_rdma="rdma",
        port_price_usd=pl.col("nic_price_usd")
        + pl.col("per_port_switch_price_usd")
        + pl.col("cable_price_usd").fill_null(0),
        port_w=pl.col("nic_power_w") + pl.col("per_port_switch_power_w"),
        nic_confidence="confidence",
    )
    options = (
        base.filter(~pl.col("complete"))
        .select(*KEY, "nic_slots", "nic_gbps", "nic_per_gpu", "rdma")
        .with_columns(
            nic_count=pl.when(pl.col("nic_per_gpu"))
            .then(pl.min_horizontal(pl.col("gpus"), "nic_slots"))
            .otherwise(1)
            .cast(pl.Int64)
        )
        .join(ports, how="cross")
        .filter(
            (pl.col("gbps_per_port") >= pl.col("nic_gbps"))
            & (pl.col("has_rdma") | ~pl.col("rdma"))
            & (pl.col("nic_count") >= 1)
        )
        .with_columns(
            nic_total_usd=pl.col("port_price_usd") * pl.col("nic_count"),
            nics_w=pl.col("port_w") * pl.col("nic_count"),
        )
    )
    return (
        options.sort("nic_total_usd", "network")
        .group_by(KEY, maintain_order=True)
        .first()
        .select(
            *KEY,
            "network",
            "gbps_per_port",
            "nic_model",
            "nic_count",
            "nic_total_usd",
            "nics_w",
            "has_rdma",
            "nic_confidence",
        )
    )


def _priced(chosen: pl.DataFrame) -> pl.DataFrame:
    whole = pl.col("complete") | pl.col("price_includes_gpu")
    cards_usd = pl.when(whole).then(0.0).otherwise(pl.col("card_price_usd") * pl.col("gpus"))
    cpu_usd = pl.when(pl.col("complete")).then(0.0).otherwise(pl.col("cpu_price_usd") * pl.col("cpu_sockets"))
    parts_w = (
        pl.col("chassis_overhead_w")
        + pl.col("cpu_tdp_w").fill_null(0) * pl.col("cpu_sockets").fill_null(0)
        + pl.col("tdp_w") * pl.col("gpus")
        + pl.col("ram_w").fill_null(0)
        + pl.col("drives_w").fill_null(0)
        + pl.col("nics_w").fill_null(0)
    )
    nameplate = pl.when(pl.col("complete")).then(pl.col("max_power_w")).otherwise(parts_w)
    price = (
        pl.col("chassis_price_usd")
        + cards_usd
        + cpu_usd
        + pl.when(pl.col("complete"))
        .then(0.0)
        .otherwise(pl.col("ram_price_usd") + pl.col("drive_price_usd") + pl.col("nic_total_usd"))
    )
    text = pl.concat_list(
        pl.format("1 x {}", "server"),
        pl.format("{} x {}", "gpus", "accelerator"),
        pl.when(pl.col("cpu").is_not_null()).then(pl.format("{} x {}", "cpu_sockets", "cpu")),
        pl.when(pl.col("module").is_not_null()).then(pl.format("{} x {}", "ram_count", "module")),
        pl.when(pl.col("storage").is_not_null()).then(pl.format("{} x {}", "drive_count", "storage")),
        pl.when(pl.col("network").is_not_null()).then(pl.format("{} x {} ({})", "nic_count", "nic_model", "network")),
    ).list.drop_nulls()
    return chosen.with_columns(
        price_usd=price,
        nameplate_w=nameplate,
        host_nameplate_w=nameplate - pl.col("tdp_w") * pl.col("gpus"),
        cores=pl.col("cores_total"),
        ram_gib=pl.when(pl.col("complete"))
        .then(pl.col("max_ram_gib"))
        .otherwise(pl.col("ram_total_gib"))
        .cast(pl.Float64),
        nvme_have_tb=pl.col("drive_tb"),
        nvme_have_gb_s=pl.col("drive_gb_s"),
        # Switch ports draw beside the server, not from its supplies.
        supply_w=parts_w,
        network_gbps=pl.when(pl.col("complete"))
        .then(pl.col("included_network_gbps").cast(pl.Float64))
        .otherwise(pl.col("gbps_per_port").cast(pl.Float64) * pl.col("nic_count")),
        has_rdma=pl.when(pl.col("complete")).then("included_rdma").otherwise("has_rdma"),
        parts=text,
        price_confidence=pl.min_horizontal(
            *[
                _rank(c)
                for c in (
                    "chassis_confidence",
                    "cpu_confidence",
                    "ram_confidence",
                    "drive_confidence",
                    "nic_confidence",
                )
            ],
            pl.when(whole).then(None).otherwise(_rank("card_confidence")),
        ).replace_strict({v: k for k, v in CONFIDENCE_RANK.items()}, return_dtype=pl.String),
        price_as_of="card_as_of",
    )


CONFIDENCE_RANK = {"measured": 5, "listed": 4, "derived": 3, "estimate": 2, "recalled": 1}


def _rank(column: str) -> pl.Expr:
    """Rank of a confidence column; the worst part decides what a build's price is worth."""
    return pl.col(column).replace_strict(CONFIDENCE_RANK, default=None, return_dtype=pl.Int64)


def _why_not() -> pl.Expr:
    whole = pl.col("complete")
    return (
        pl.when(pl.col("chassis_price_usd").is_null())
        .then(pl.lit("server has no price"))
        .when(~whole & ~pl.col("price_includes_gpu") & pl.col("card_price_usd").is_null())
        .then(pl.lit("accelerator has no street price"))
        .when(pl.col("memory_gib").is_null() | pl.col("tdp_w").is_null())
        .then(pl.lit("accelerator figures unknown"))
        .when(~whole & pl.col("cpu_default").is_null())
        .then(pl.lit("server's CPU is not in the catalogue"))
        .when(~whole & pl.col("cpu").is_null())
        .then(pl.lit("no CPU of the socket has the cores asked for (or a price)"))
        .when(~whole & pl.col("module").is_null())
        .then(pl.lit("no even fill of the memory slots reaches the RAM asked for"))
        .when(~whole & pl.col("storage").is_null())
        .then(pl.lit("drive bays too few for the NVMe asked for"))
        .when(~whole & pl.col("network").is_null())
        .then(pl.lit("no network port meets the speed asked for"))
        .when(~whole & (pl.col("supply_w") > pl.col("max_power_w")))
        .then(pl.lit("parts draw more than the power supplies give"))
        .when(pl.col("price_usd").is_null())
        .then(pl.lit("price unknown"))
    )
