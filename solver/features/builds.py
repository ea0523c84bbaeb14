"""Whole servers on premises: for every server, card, card count and requirement level the best machine that can be built.

Parts bind each other (power supply, lanes, speed of slots), so no part is chosen by itself: every combination is tried, and
what cannot be built is refused by the name of its incompatibility. Systems that are sold whole come as they are.

The price of a build holds its NICs and its nameplate their watts; cables and switches are planned apart.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import polars as pl

from solver.features.builds_idle import useful
from solver.features.builds_reduce import unbeaten
from solver.features.parts import (
    BUILD_RULES,
    HOST_NEEDS,
    KEY,
    LEVEL_SCHEMA,
    NETWORK_NEEDS,
    SHELL_RULES,
    Parts,
    boarded,
    first_broken,
    nic_lanes,
    supply_w,
    worst_confidence,
)
from solver.features.parts_choice import HOST, host_choices, with_nics
from solver.features.storage_room import INSIDE, storage_room

WHOLE = "whole"
"""Level of systems sold whole: nothing in them is chosen."""

COLUMNS = [
    *KEY,
    "variant",
    "deployment_mode",
    "complete",
    "cooling",
    "rack_units",
    "cpu",
    "cores",
    "module",
    "ram_count",
    "ram_gib",
    "storage",
    "drive_count",
    "nvme_have_tb",
    "nvme_have_gb_s",
    "network",
    "nic_count",
    "network_gbps",
    "has_rdma",
    "price_usd",
    "price_confidence",
    "price_as_of",
    "nameplate_w",
    "host_nameplate_w",
    "supply_w",
    "supply_max_w",
    "lanes_used",
    "lanes",
    "storage_room",
    "spans",
    "parts",
]


TYPES: dict[str, Any] = {
    "gpus": pl.Int64,
    "ram_count": pl.Int64,
    "drive_count": pl.Int64,
    "nic_count": pl.Int64,
    "lanes_used": pl.Int64,
    "lanes": pl.Int64,
    **dict.fromkeys(
        (
            "rack_units",
            "cores",
            "ram_gib",
            "nvme_have_tb",
            "nvme_have_gb_s",
            "network_gbps",
            "price_usd",
            "nameplate_w",
            "host_nameplate_w",
            "supply_w",
            "supply_max_w",
        ),
        pl.Float64,
    ),
    **dict.fromkeys(
        ("cpu", "module", "storage", "network", "cooling", "price_confidence", "price_as_of", "storage_room"), pl.String
    ),
    "has_rdma": pl.Boolean,
    "spans": pl.Boolean,
}


@dataclass(frozen=True)
class Unpowered:
    """Builds that no site could power: those that draw more than `watts` [W] with their cards held to `cap_share` of their rating.

    `cap_share` is one share, or that of each accelerator (those that are not named are never capped). No plan within the limits has one, nor one of those that need more than `site_w` [W] for all that they must stand beside
    (`solver.features.builds_idle`). They matter to what plans would be without a limit alone, where a watt may be worth
    `watt_usd` at most [USD/W].
    """

    watts: float
    cap_share: float | Mapping[str, float]
    watt_usd: float
    site_w: float = math.inf


class Built(NamedTuple):
    """What `server_builds` gives: builds (`COLUMNS`), refused (`KEY`, reason) and beaten (columns as builds)."""

    builds: pl.DataFrame
    refused: pl.DataFrame
    beaten: pl.DataFrame


def server_builds(
    parts: Parts,
    levels: pl.DataFrame,
    *,
    watt_usd: float = 0.0,
    unpowered: Unpowered | None = None,
    alike: Sequence[str] | None = None,
    least_confidence: str = "recalled",
    stored: Sequence[str] = (),
) -> Built:
    """Everything worth buying: systems as they are, and the best builds of the rest for every requirement level.

    Parameters
    ----------
    levels : pl.DataFrame
        As `solver.features.parts.LEVEL_SCHEMA`.
    watt_usd, unpowered
        What a watt less may be worth (see `compatible_builds`) [USD/W].
    alike : sequence of str, optional
        Leave out builds for which another with the same cards and NICs stands in (`solver.features.builds_reduce.unbeaten`),
        if it is equal in these columns, too. Without it only builds that are the same in all parts are one.
    least_confidence : str
        Builds whose price is less sure stand in for no others that are.
    stored : sequence of str
        Storage networks of which a site may want NICs in its servers (see `compatible_builds`).

    Returns
    -------
    builds, refused, beaten : pl.DataFrame
        In builds, parts is the bill of materials as text. Of systems sold whole, parts inside are not named but for the
        CPUs, and network and nic_count are null where the catalogue does not tell. A machine that several levels lead to is
        there once. `spans`: it is there for work across nodes only; for other work there are machines with fewer NICs.
    """
    built, refused, spare = _compatible(parts, levels, watt_usd, unpowered, stored)
    whole, unpriced = complete_systems(parts)
    same = ["server", "accelerator", "gpus", "parts"]
    systems = pl.lit(False) if unpowered is None else least_w(unpowered.cap_share) > unpowered.watts
    # A machine that several levels lead to is of use if it is so for any of them.
    marked = pl.concat(
        [whole.with_columns(spare=systems), built.join(spare, on=[*KEY, "variant"], how="left", maintain_order="left")]
    ).with_columns(pl.col("spare").fill_null(False).min().over(same), pl.col("spans").min().over(same))
    every = marked.unique(same, keep="first", maintain_order=True)
    worth = math.inf if unpowered is None else unpowered.watt_usd
    best = every if alike is None else unbeaten(every, levels, parts.accelerators, alike, least_confidence, worth)
    every, best = every.drop("spare"), best.drop("spare")
    beaten = every.join(best, on=[*KEY, "variant"], how="anti", maintain_order="left")
    return Built(best, pl.concat([unpriced, refused]), beaten)


def compatible_builds(
    parts: Parts,
    levels: pl.DataFrame,
    *,
    watt_usd: float = 0.0,
    unpowered: Unpowered | None = None,
    stored: Sequence[str] = (),
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Find the cheapest machine without any incompatibility for each server, card, card count and level.

    Parameters
    ----------
    parts : Parts
        Catalogue tables. Servers may have `psu_count` and `psu_spare` (supplies that may fail); without them
        `max_power_w` is what they give.
    levels : pl.DataFrame
        Requirement levels as in `solver.features.parts.LEVEL_SCHEMA`.
    watt_usd : float
        The most that a watt of nameplate may be worth [USD/W]. Beside the cheapest every dearer machine is kept that saves
        enough watts for its price against all cheaper ones: one of these may be the better buy. Infinite where watts are
        limited: then all that draw less than every cheaper one stay. They are numbered by price in `variant`, from 0.
    unpowered : Unpowered, optional
        Builds of which only those stay that are worth their price by money alone; the others keep their numbers.
    stored : sequence of str
        Storage networks of which a site may want NICs: what is cheapest is asked of builds with the same room for these
        (`solver.features.storage_room`), since a cheaper one may have none.

    Returns
    -------
    builds : pl.DataFrame
        `COLUMNS`. Servers that are sold whole are not among them: their parts are not chosen.
    refused : pl.DataFrame
        `KEY`, reason: the incompatibility that stands in the way (of several, the one most combinations break).
    """
    builds, refused, _ = _compatible(parts, levels, watt_usd, unpowered, stored)
    return builds, refused


def _compatible(
    parts: Parts, levels: pl.DataFrame, watt_usd: float, unpowered: Unpowered | None, stored: Sequence[str]
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """What `compatible_builds` gives, and which of the builds no site could power (`KEY`, variant, spare)."""
    numbered = levels.cast(LEVEL_SCHEMA).with_columns(  # type: ignore[arg-type]
        needs=pl.struct(list(HOST_NEEDS)).rank("dense").cast(pl.UInt32)
    )
    wanted = numbered.select("level", "needs", *NETWORK_NEEDS)
    shells, broken = _shells(parts, numbered.select("needs", *HOST_NEEDS).unique("needs", maintain_order=True))
    hosts, short = host_choices(shells, parts)
    builds, unplugged = with_nics(hosts.join(wanted, on="needs", how="inner"), parts)
    judged = _totals(builds).with_columns(
        reason=first_broken(BUILD_RULES), storage_room=storage_room(stored, parts.network)
    )
    ordered = ["price_usd", "supply_w", "cpu", "module", "ram_count", "storage", "network"]
    fine = judged.filter(pl.col("reason").is_null()).sort(*KEY, *ordered)
    kept = worth_keeping(fine, watt_usd).with_columns(variant=pl.int_range(pl.len()).over(KEY).cast(pl.Int64))
    marked = _marked(kept, unpowered)
    best = marked if unpowered is None else marked.filter(~pl.col("spare") | _worth_it(unpowered.watt_usd))
    stuck = judged.join(best, on=KEY, how="anti").group_by(*KEY, "reason").len()
    stuck = stuck.sort(*KEY, "len", "reason", descending=[False] * len(KEY) + [True, False])
    refused = pl.concat(
        [
            *(_by_level(frame, wanted) for frame in (broken, short)),
            unplugged,
            stuck.group_by(KEY, maintain_order=True).first().select(*KEY, "reason"),
        ]
    )
    spare = best.select(*KEY, "variant", "spare")
    return _billed(best), refused.unique(KEY, keep="first", maintain_order=True).sort(KEY), spare


def worth_keeping(builds: pl.DataFrame, watt_usd: float) -> pl.DataFrame:
    """Builds that save enough watts for their price against every cheaper one of their key and room for storage NICs.

    `builds` are ordered by price_usd within `KEY`; `watt_usd` as in `compatible_builds`.
    """
    return builds.filter(_worth_it(watt_usd))


def _worth_it(watt_usd: float) -> pl.Expr:
    worth = pl.col("supply_w") if math.isinf(watt_usd) else pl.col("price_usd") + watt_usd * pl.col("supply_w")
    return (worth < worth.cum_min().shift(1).over(*KEY, "storage_room")).fill_null(True)


def _marked(builds: pl.DataFrame, unpowered: Unpowered | None) -> pl.DataFrame:
    """Add spare: true for builds (ordered as for `worth_keeping`) that no site could power, or not beside what they are good for."""
    if unpowered is None:
        return builds.with_columns(spare=pl.lit(False))
    least = least_w(unpowered.cap_share)
    named = builds.with_columns(
        nameplate_w="supply_w", host_nameplate_w=pl.col("supply_w") - pl.col("card_w") * pl.col("gpus")
    )
    powered = (least <= unpowered.watts) & useful(least, unpowered.site_w)
    return named.with_columns(spare=~powered).select(*builds.columns, "spare")


def least_w(cap_share: float | Mapping[str, float]) -> pl.Expr:
    """Nameplate of a server with its cards held to a share of their rating, of all or by accelerator [W].

    Reads accelerator, nameplate_w, host_nameplate_w.
    """
    if isinstance(cap_share, Mapping):
        share = pl.col("accelerator").replace_strict(dict(cap_share), default=1.0, return_dtype=pl.Float64)
    else:
        share = pl.lit(cap_share)
    return pl.col("host_nameplate_w") + (pl.col("nameplate_w") - pl.col("host_nameplate_w")) * share


def _by_level(refused: pl.DataFrame, wanted: pl.DataFrame) -> pl.DataFrame:
    return refused.join(wanted, on="needs", how="inner").select(*KEY, "reason")


def _cards(parts: Parts) -> pl.DataFrame:
    return parts.accelerators.select(
        "accelerator",
        "memory_gib",
        "nvlink_domain",
        card_form_factor="form_factor",
        card_w="tdp_w",
        card_usd="price_usd",
        card_confidence="price_confidence",
        price_as_of="price_as_of",
    )


def _servers(parts: Parts, *columns: str) -> pl.DataFrame:
    """Server x card: one row per accelerator that a server's `fits` names and the catalogue knows."""
    return (
        parts.servers.select(
            "server",
            "deployment_mode",
            "complete",
            "cooling",
            "cpu_sockets",
            "cpu_default",
            "max_power_w",
            *columns,
            slots=pl.col("slots").cast(pl.Int64),
            rack_units=pl.col("rack_units").cast(pl.Float64),
            chassis_usd="price_usd",
            chassis_confidence="price_confidence",
            accelerator=pl.col("fits").str.split(";"),
        )
        .explode("accelerator")
        .with_columns(pl.col("accelerator").str.strip_chars())
        .join(_cards(parts), on="accelerator", how="inner")
    )


def _shells(parts: Parts, needs: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Server x card x card count x needs; those broken by themselves go out with their name (`HOST`, reason)."""
    supplies = [c for c in ("psu_count", "psu_spare") if c in parts.servers.columns]
    columns = ["max_ram_gib", "ram_slots", "drive_bays", "nic_slots", "chassis_overhead_w", "accelerator_form_factor"]
    servers = _servers(parts, "price_includes_gpu", *columns, *supplies).filter(~pl.col("complete"))
    servers = servers.with_columns(
        pl.lit(None, pl.Int64).alias(c) for c in ("psu_count", "psu_spare") if c not in supplies
    )
    slots = pl.col("slots")
    # A board of cards is sold whole.
    splits = ~pl.col("price_includes_gpu") & ~boarded()
    counts = pl.concat_list([pl.when(splits & (slots > c)).then(pl.lit(c, pl.Int64)) for c in (1, 2, 4, 8)] + [slots])
    shells = (
        servers.with_columns(
            gpus=counts.list.drop_nulls(),
            supply_max_w=supply_w(pl.col("max_power_w"), pl.col("psu_count"), pl.col("psu_spare")),
        )
        .explode("gpus")
        .join(needs, how="cross")
        .with_columns(
            cores_need=pl.max_horizontal("cores_min", pl.col("cores_per_gpu") * pl.col("gpus")),
            ram_need_gib=pl.max_horizontal(
                pl.col("ram_ratio") * pl.col("memory_gib") * pl.col("gpus"), pl.col("ram_min_gib")
            ),
            cards_usd=pl.when("price_includes_gpu").then(0.0).otherwise(pl.col("card_usd") * pl.col("gpus")),
        )
    )
    judged = shells.with_columns(reason=first_broken(SHELL_RULES))
    broken = judged.filter(pl.col("reason").is_not_null()).select(*HOST, "reason")
    return judged.filter(pl.col("reason").is_null()).drop("reason"), broken


def _totals(builds: pl.DataFrame) -> pl.DataFrame:
    return builds.with_columns(
        price_usd=pl.col("host_usd") + pl.col("nics_usd"),
        supply_w=pl.col("host_w") + pl.col("nics_w"),
        lanes_used=pl.col("host_lanes_used") + nic_lanes(),
    )


def _billed(best: pl.DataFrame) -> pl.DataFrame:
    """Final columns of chosen builds, with their bill of materials."""
    lines = pl.concat_list(
        pl.format("1 x {}", "server"),
        pl.format("{} x {}", "gpus", "accelerator"),
        pl.format("{} x {}", "cpu_sockets", "cpu"),
        pl.format("{} x {}", "ram_count", "module"),
        pl.format("{} x {}", "drive_count", "storage"),
        pl.format("{} x {} ({})", "nic_count", "nic_model", "network"),
    )
    sure = worst_confidence(
        "chassis_confidence", "cpu_confidence", "ram_confidence", "drive_confidence", "nic_confidence"
    )
    with_cards = worst_confidence("sure", "card_confidence")
    return (
        # pl.format wants its columns in equal chunks, which joins do not promise.
        best.rechunk()
        .with_columns(
            cores=(pl.col("cores") * pl.col("cpu_sockets")).cast(pl.Float64),
            nameplate_w=pl.col("supply_w").cast(pl.Float64),
            host_nameplate_w=(pl.col("supply_w") - pl.col("card_w") * pl.col("gpus")).cast(pl.Float64),
            parts=lines,
            sure=sure,
        )
        .with_columns(price_confidence=pl.when("price_includes_gpu").then("sure").otherwise(with_cards))
        .select(COLUMNS)
        .cast(TYPES)  # type: ignore[arg-type]
    )


def complete_systems(parts: Parts) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Systems that are sold whole, one row per accelerator they come with.

    Their power is the rated maximum. `included_network` and `included_nics` name the ports inside where that is known.

    Returns
    -------
    systems : pl.DataFrame
        `COLUMNS`, level `WHOLE`.
    refused : pl.DataFrame
        `KEY`, reason.
    """
    inside = [c for c in parts.servers.columns if c.startswith("included_")]
    cpus = parts.cpus.select(cpu_default="cpu", cpu="cpu", cpu_cores="cores")
    systems = (
        _servers(parts, *inside)
        .filter(pl.col("complete"))
        .join(cpus, on="cpu_default", how="left")
        .rechunk()
        .with_columns(gpus=pl.col("slots"), level=pl.lit(WHOLE))
    )
    unknown = pl.any_horizontal(pl.col(c).is_null() for c in ("memory_gib", "card_w", "max_power_w"))
    judged = systems.with_columns(
        reason=pl.when(pl.col("chassis_usd").is_null())
        .then(pl.lit("system has no price"))
        .when(unknown)
        .then(pl.lit("figures of the system or its accelerator unknown"))
    )
    bought = judged.filter(pl.col("reason").is_null()).with_columns(
        cores=pl.col("cpu_cores") * pl.col("cpu_sockets"),
        ram_gib="included_ram_gib",
        nvme_have_tb="included_nvme_tb",
        nvme_have_gb_s="included_nvme_gb_s",
        network="included_network",
        nic_count="included_nics",
        network_gbps="included_network_gbps",
        has_rdma="included_rdma",
        price_usd="chassis_usd",
        price_confidence="chassis_confidence",
        nameplate_w="max_power_w",
        host_nameplate_w=pl.col("max_power_w") - pl.col("card_w") * pl.col("gpus"),
        variant=pl.lit(0, pl.Int64),
        storage_room=pl.lit(INSIDE),
        spans=pl.lit(False),
        parts=pl.concat_list(
            pl.format("1 x {}", "server"),
            pl.format("{} x {}", "gpus", "accelerator"),
            pl.when(pl.col("cpu").is_not_null()).then(pl.format("{} x {}", "cpu_sockets", "cpu")),
        ).list.drop_nulls(),
    )
    missing = [pl.lit(None).alias(c) for c in COLUMNS if c not in bought.columns]
    refused = judged.filter(pl.col("reason").is_not_null()).select(*KEY, "reason")
    return bought.with_columns(missing).select(COLUMNS).cast(TYPES), refused  # type: ignore[arg-type]
