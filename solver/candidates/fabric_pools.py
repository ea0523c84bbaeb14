"""Pools on own sites with a slimmer network: the same servers on leaves with fewer ports upward than down.

Oversubscription is a choice for training: fewer spines and cables against slower exchange between nodes that do not hang on
one leaf. The servers are the same, the fabric another, so each choice is a pool of its own.
"""

from __future__ import annotations

import polars as pl

from catalogs.catalog import Catalog
from problems.schema import Finetune, Pretrain, Problem
from solver.candidates.frames import CAPACITY_COLUMNS, Pools, typed_capacity, typed_pools
from solver.candidates.terms import trusted

OVERSUBSCRIPTION = 2.0
"""Ratio that is offered beside a fabric that does not block."""
SWITCH_FIGURES = ("switch_ports", "switch_price_usd", "switch_power_w", "cable_price_usd")


def with_oversubscription(found: Pools, problem: Problem, catalog: Catalog) -> Pools:
    """Add each pool whose network carries training between nodes once more, on leaves of `OVERSUBSCRIPTION` : 1.

    Only where some workload trains: what serves on several nodes stays on few of them.
    """
    trains = any(isinstance(w, Pretrain | Finetune) for w in problem.workloads)
    radix = catalog.network.select("network", radix="switch_ports")
    down = (pl.col("radix") * OVERSUBSCRIPTION / (OVERSUBSCRIPTION + 1) + 1e-9).floor().cast(pl.Int64)
    slim = (
        found.pools.filter(pl.lit(trains) & pl.col("rdma").fill_null(False) & (pl.col("nic_count") > 0))
        .join(radix, on="network", how="inner")
        .filter(pl.col("radix") >= OVERSUBSCRIPTION + 1)
        .rechunk()
        .with_columns(
            whole=pl.col("pool"),
            pool=pl.format("{}/{}:1", "pool", pl.lit(f"{OVERSUBSCRIPTION:g}")),
            oversubscription=pl.lit(OVERSUBSCRIPTION),
            leaf_nodes=down // pl.col("nic_count"),
        )
    )
    ways = slim.select("whole", renamed="pool").join(found.capacity, left_on="whole", right_on="pool", how="inner")
    capacity = ways.with_columns(pool=pl.col("renamed")).select(CAPACITY_COLUMNS)
    return Pools(
        pl.concat([found.pools, typed_pools(slim)]),
        pl.concat([found.capacity, typed_capacity(capacity)]),
        found.dropped,
    )


def narrowed(frame: pl.DataFrame) -> pl.DataFrame:
    """Make network_gbps what nodes have between them: their share of the uplinks where they do not hang on one leaf.

    `frame` has nodes, network_gbps, oversubscription and leaf_nodes (nodes that one leaf takes); port_gbps is added and keeps
    the speed of the NICs [Gb/s].
    """
    wide = pl.col("oversubscription").is_null() | (pl.col("nodes") <= pl.col("leaf_nodes").fill_null(0))
    return frame.with_columns(
        port_gbps=pl.col("network_gbps"),
        network_gbps=pl.when(wide).then("network_gbps").otherwise(pl.col("network_gbps") / pl.col("oversubscription")),
    )


def with_fabric(pools: pl.DataFrame, problem: Problem, catalog: Catalog) -> pl.DataFrame:
    """Add what a pool's own network asks for at its site, null where that is not all known and trusted.

    outdoes: networks whose switches and cables this one equals or beats, joined by ";" (null: none): a switch has as many
    ports, costs and draws no more, and so does a cable. And the figures: switch_ports, switch_price_usd, switch_power_w [W],
    cable_price_usd.
    """
    known = catalog.network.filter(trusted("confidence", problem.policy.min_confidence)).select(
        "network", *SWITCH_FIGURES
    )
    known = known.drop_nulls()
    pairs = known.join(known, how="cross", suffix="_b").filter(
        (pl.col("network") != pl.col("network_b"))
        & (pl.col("switch_ports") >= pl.col("switch_ports_b"))
        & pl.all_horizontal(pl.col(c) <= pl.col(f"{c}_b") for c in SWITCH_FIGURES if c != "switch_ports")
    )
    listed = pairs.sort("network", "network_b").group_by("network", maintain_order=True)
    outdone = listed.agg(outdoes=pl.col("network_b").str.join(";"))
    return pools.join(known.join(outdone, on="network", how="left"), on="network", how="left", maintain_order="left")
