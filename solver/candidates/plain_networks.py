"""Networks for work that spans no nodes: which of them could make the cheapest plan, NICs, switches and cables together.

A node for such work has the fewest NICs of its network that reach what its level asks for; more of them cost, draw and take ports
for nothing.

Networks on which work may span nodes all stay: their switches may be there for that work, and what plain nodes save by sharing
them is a whole switch of another network; or they draw less, where watts are short. No price says that this cannot pay.

Of the others, on which nothing spans nodes, one goes where another that stays is no worse in anything (`unbeaten_networks`): for
every need its NICs are no more, cost no more, draw no more and take no more lanes in any slot that the first go into, and neither do
their cables and as many switches as have the ports of one of the first. Proof: nodes without work across them hang on switches that
lead to the site's own network, as many as the ports fill. Let a plan have n ports on the first network, with r to a switch, and m
on the second, with q. Move all nodes of the first, of all levels, to the second, with the same hosts: they fit, and have n' <= n
ports there. The plan pays ceil(n / r) switches less, and ceil((n' + m) / q) <= ceil(n / q) + ceil(m / q) instead of ceil(m / q), that
is at most ceil(n / q) <= ceil(r / q) ceil(n / r) more, which cost and draw no more; so it is as good. Where racks or circuits are
counted q >= r is asked for, so that switches are no more in number, either. Whoever stands in for another that stands in for a
third stands in for it, and of two that stand in for each other the first by name stays: all that go have one that stays.
Networks of systems sold whole stay, since these cannot be moved, and stand in for none: one such system alone there has no switch.

A network on which work may span nodes is `idle` without such work where one of those that stay is no worse in the same sense: then
plain nodes on it pay only beside nodes with such work, which matters under a limit of watts (`solver.features.builds_idle`). As
n <= M, all ports that the limit feeds, ceil(min(r, M) / q) switches of the second are no worse than one of the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import polars as pl

from catalogs.catalog import Catalog
from problems.schema import Problem
from solver.candidates.fabric_pools import SWITCH_FIGURES
from solver.candidates.terms import trusted
from solver.features.parts import LANE_GBPS, NIC_LANES, fewest_nics, lanes_of_nic

FIGURES = ("nic_price_usd", "nic_power_w", *SWITCH_FIGURES)
NO_SLOT = 1e9
"""Lanes of a NIC that no slot of a generation is fast enough for."""


def plain_networks(
    problem: Problem,
    catalog: Catalog,
    needs_gbps: Sequence[float],
    spanned: Iterable[str],
    there: Iterable[str] = (),
    site_w: float = float("inf"),
) -> pl.DataFrame:
    """Networks to build nodes for whose work spans no others: network, gbps_per_port, idle, switch_power_w.

    Parameters
    ----------
    needs_gbps
        Least speed of a node's NICs together, of every level of such work [Gb/s].
    spanned
        Networks that work across nodes may stand on.
    there
        Networks whose switches may be there in any case: those of systems sold whole.
    site_w
        All that the servers of a site may draw [W].
    """
    known = catalog.network.filter(
        trusted("confidence", problem.policy.min_confidence),
        pl.all_horizontal(pl.col(c).is_not_null() for c in ("nic_price_usd", "nic_power_w", "gbps_per_port")),
    ).select("network", "gbps_per_port", "rdma", *FIGURES)
    generations = pcie_generations(catalog)
    named, sold = sorted(set(spanned)), sorted({*there, *_sold(catalog)})
    plain = known.filter(~pl.col("network").is_in(named))
    few = any(s.racks is not None or s.circuits for s in problem.sites)
    best = unbeaten_networks(plain, needs_gbps, generations, one_for_one=few, keep=sold)
    kept = known.filter(pl.col("network").is_in(sorted({*best["network"], *there, *named})))
    stands_in = pl.col("network_b").is_in(best["network"].implode()) & ~pl.col("network_b").is_in(sold)
    shared = pl.col("network").is_in(named) & ~pl.col("network").is_in(sorted(there))
    idle = no_worse(kept, needs_gbps, generations, one_for_one=few, most_ports=_most_ports(catalog, site_w))
    served = pl.col("network").is_in(idle.filter(shared, stands_in)["network"].implode())
    return kept.select("network", "gbps_per_port", "switch_power_w", idle=served).sort("gbps_per_port", "network")


def pcie_generations(catalog: Catalog) -> list[int]:
    """Generations of the slots that NICs may go into."""
    known = catalog.cpus["pcie_gen"].cast(pl.Int64).unique().drop_nulls().sort().to_list()
    return [g for g in known if g in LANE_GBPS]


def _sold(catalog: Catalog) -> list[str]:
    """Networks of systems sold whole."""
    if "included_network" not in catalog.servers.columns:
        return []
    return catalog.servers["included_network"].drop_nulls().unique().to_list()


def _most_ports(catalog: Catalog, site_w: float) -> float:
    """The most NIC ports of built servers that so many watts can feed: none has more than its slots, and all draw at least the chassis."""
    built = catalog.servers.filter(~pl.col("complete"), pl.col("nic_slots") > 0)
    least = built.select((pl.col("chassis_overhead_w").fill_null(0) / pl.col("nic_slots")).min()).item()
    return site_w // least if least else float("inf")


def bundles(networks: pl.DataFrame, needs_gbps: Sequence[float], generations: Sequence[int]) -> pl.DataFrame:
    """Add what NICs of a node take for each need, so that less is better: NICs, money, watts, and lanes by generation of slots.

    Columns `nics i`, `usd i`, `watts i`, `cables i`, `lanes i g` for need number i and generation g.
    """
    out = networks
    for i, need in enumerate(needs_gbps):
        nics = fewest_nics(pl.lit(float(need)), pl.col("gbps_per_port"))
        out = out.with_columns(nics.alias(f"nics {i}"))
        nics = pl.col(f"nics {i}")
        out = out.with_columns(
            (pl.col("nic_price_usd") * nics).alias(f"usd {i}"),
            (pl.col("nic_power_w") * nics).alias(f"watts {i}"),
            *(_lanes(g, nics).alias(f"lanes {i} {g}") for g in generations),
        )
        if "cable_price_usd" in networks.columns:
            out = out.with_columns((pl.col("cable_price_usd") * nics).alias(f"cables {i}"))
    return out


def _lanes(generation: int, nics: pl.Expr) -> pl.Expr:
    lane = LANE_GBPS[generation]
    fits = pl.col("gbps_per_port") <= lane * NIC_LANES
    return pl.when(fits).then(lanes_of_nic(pl.col("gbps_per_port"), pl.lit(lane)) * nics).otherwise(NO_SLOT)


def no_worse(
    networks: pl.DataFrame,
    needs_gbps: Sequence[float],
    generations: Sequence[int],
    *,
    one_for_one: bool,
    most_ports: float = float("inf"),
) -> pl.DataFrame:
    """Pairs of networks of which the second (network_b) may take the place of the first for nodes without work across them.

    For every need its NICs are no more, cost, draw and take no more lanes, nor do their cables, and as many of its switches as have
    the ports of one, or all ports there are (`most_ports`). A switch of which something is not known cannot be bought, so only one
    node alone is ever on such a network.

    Parameters
    ----------
    networks
        network, gbps_per_port and `FIGURES`.
    generations
        Of the slots that NICs go into.
    one_for_one
        Count switches as pieces, too: one may only take the place of one.
    """
    needs = sorted(set(needs_gbps))
    each = bundles(networks, needs, generations)
    pairs = each.join(each.rename({c: f"{c}_b" for c in each.columns}), how="cross").filter(
        pl.col("network") != pl.col("network_b")
    )
    pieces = (pl.min_horizontal("switch_ports", pl.lit(most_ports)) / pl.col("switch_ports_b")).ceil()

    def within(columns: Iterable[str], times: pl.Expr) -> pl.Expr:
        each = ((pl.col(f"{c}_b") * times <= pl.col(c)).fill_null(False) for c in columns)
        return pl.all_horizontal(pl.lit(True), *each)

    new = [c for c in each.columns if c not in networks.columns]
    cables = [c for c in new if c.startswith("cables ")]
    one = pl.lit(1.0)
    unknown = pl.any_horizontal(pl.col(c).is_null() for c in SWITCH_FIGURES)
    switched = within(cables, one) & within(["switch_price_usd", "switch_power_w"], pieces)
    switched &= (pieces <= 1) if one_for_one else pl.lit(True)
    nics = within([c for c in new if c not in cables], one)
    return pairs.filter(nics & (unknown | switched).fill_null(False)).select("network", "network_b")


def unbeaten_networks(
    networks: pl.DataFrame,
    needs_gbps: Sequence[float],
    generations: Sequence[int],
    *,
    one_for_one: bool,
    keep: Sequence[str] = (),
) -> pl.DataFrame:
    """Networks that no other of them may take the place of (`no_worse`); those of `keep` take the place of none."""
    stands_in = no_worse(networks, needs_gbps, generations, one_for_one=one_for_one)
    stands_in = stands_in.filter(~pl.col("network_b").is_in(list(keep)))
    # Of two that may take the place of each other, the one that comes first by name stays.
    back = stands_in.select(network="network_b", network_b="network", mutual=True)
    beaten = stands_in.join(back, on=["network", "network_b"], how="left").filter(
        pl.col("mutual").is_null() | (pl.col("network_b") < pl.col("network"))
    )
    return networks.join(beaten.select("network").unique(), on="network", how="anti", maintain_order="left")
