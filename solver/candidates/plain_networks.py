"""Networks for work that spans no nodes: which of them could make the cheapest plan, NICs, switches and cables together.

Networks on which work may span nodes all stay: their switches may be there for that work, and what plain nodes save by sharing
them is a whole switch of another network; or they draw less, where watts are short. No price says that this cannot pay.

Of the others, on which nothing spans nodes, one goes where another that stays is no worse in anything (`unbeaten_networks`):
it meets every need that the first meets, is no faster, and NIC, cable and as many switches as have the ports of one of the
first cost no more and draw no more. Proof: nodes without work across them hang on switches that lead to the site's own network,
as many as the ports fill. Let a plan have n ports on the first network, with r to a switch, and m on the second, with q. Move
all nodes of the first, of all levels, to the second, with the same hosts: a NIC that is no faster takes no more lanes and no faster
slot. The plan pays ceil(n / r) switches less, and ceil((n + m) / q) <= ceil(n / q) + ceil(m / q) instead of ceil(m / q), that is
at most ceil(n / q) <= ceil(r / q) ceil(n / r) more, which cost and draw no more; so it is as good. Where racks or circuits are
counted q >= r is asked for, so that switches are no more in number, either. Whoever stands in for another that stands in for a
third stands in for it, and of two that stand in for each other the first by name stays: all that go have one that stays.
Networks of systems sold whole stay, since these cannot be moved.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import polars as pl

from catalogs.catalog import Catalog
from problems.schema import Problem
from solver.candidates.fabric_pools import SWITCH_FIGURES
from solver.candidates.terms import trusted

FIGURES = ("nic_price_usd", "nic_power_w", *SWITCH_FIGURES)


def plain_networks(
    problem: Problem,
    catalog: Catalog,
    needs_gbps: Sequence[float],
    spanned: Iterable[str],
    there: Iterable[str] = (),
) -> pl.DataFrame:
    """Networks to build nodes for whose work spans no others: network, gbps_per_port.

    Parameters
    ----------
    needs_gbps
        Least speed of a NIC, of every level of such work [Gb/s].
    spanned
        Networks that work across nodes may stand on.
    there
        Networks whose switches may be there in any case: those of systems sold whole.
    """
    known = catalog.network.filter(
        trusted("confidence", problem.policy.min_confidence),
        pl.all_horizontal(pl.col(c).is_not_null() for c in ("nic_price_usd", "nic_power_w", "gbps_per_port")),
    ).select("network", "gbps_per_port", "rdma", *FIGURES)
    plain = known.filter(~pl.col("network").is_in(sorted(set(spanned))))
    few = any(s.racks is not None or s.circuits for s in problem.sites)
    best = unbeaten_networks(plain, needs_gbps, one_for_one=few)
    kept = pl.col("network").is_in(sorted({*best["network"], *there, *spanned}))
    return known.filter(kept).select("network", "gbps_per_port").sort("gbps_per_port", "network")


def unbeaten_networks(
    networks: pl.DataFrame,
    needs_gbps: Sequence[float],
    *,
    one_for_one: bool,
) -> pl.DataFrame:
    """Networks that no other of them may take the place of.

    Another one may if it meets every need that the network meets, is no faster (a faster NIC may need more lanes), and its NIC, its
    cable and as many of its switches as have the ports of one cost no more and draw no more. A switch of which something is not
    known cannot be bought, so only one node alone is ever on such a network.

    Parameters
    ----------
    networks
        network, gbps_per_port and `FIGURES`.
    one_for_one
        Count switches as pieces, too: one may only take the place of one.
    """
    pairs = networks.join(networks.rename({c: f"{c}_b" for c in networks.columns}), how="cross").filter(
        pl.col("network") != pl.col("network_b")
    )
    meets = pl.all_horizontal(
        pl.lit(True), *((pl.col("gbps_per_port") < g) | (pl.col("gbps_per_port_b") >= g) for g in set(needs_gbps))
    )
    pieces = (pl.col("switch_ports") / pl.col("switch_ports_b")).ceil()
    nic = [("nic_price_usd", pl.lit(1.0)), ("nic_power_w", pl.lit(1.0))]
    gear = [("switch_price_usd", pieces), ("cable_price_usd", pl.lit(1.0)), ("switch_power_w", pieces)]

    def no_worse(figures: Iterable[tuple[str, pl.Expr]]) -> pl.Expr:
        return pl.all_horizontal((pl.col(f"{c}_b") * n <= pl.col(c)).fill_null(False) for c, n in figures)

    unknown = pl.any_horizontal(pl.col(c).is_null() for c in SWITCH_FIGURES)
    switched = no_worse(gear) & ((pieces <= 1) if one_for_one else pl.lit(True))
    slower = pl.col("gbps_per_port_b") <= pl.col("gbps_per_port")
    stands_in = pairs.filter(meets & slower & no_worse(nic) & (unknown | switched).fill_null(False))
    # Of two that may take the place of each other, the one that comes first by name stays.
    back = stands_in.select(network="network_b", network_b="network", mutual=True)
    beaten = stands_in.join(back, on=["network", "network_b"], how="left").filter(
        pl.col("mutual").is_null() | (pl.col("network_b") < pl.col("network"))
    )
    return networks.join(beaten.select("network").unique(), on="network", how="anti", maintain_order="left")
