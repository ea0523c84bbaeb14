"""Networks for work that spans no nodes: which of them could make the cheapest plan, NICs, switches and cables together.

Nodes without work across them hang on switches that lead to the site's own network: as many as the ports fill. So all nodes of
one such network may be moved to another whose NIC, cable and switches are no worse in anything (`unbeaten_networks`), and
the plan is as good: their switches may be fewer together, never more. That holds for the network as a whole, nodes of all
levels on it included, since they share its switches; and only for networks on which nothing spans nodes, whose ports need no
more than being filled.
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
        Networks that work across nodes may stand on. They are choices where no other network is as cheap in everything: that an
        InfiniBand switch draws a few watts less is no reason to build plain nodes for it.
    there
        Networks whose switches may be there in any case: those of systems sold whole.
    """
    known = catalog.network.filter(
        trusted("confidence", problem.policy.min_confidence),
        pl.all_horizontal(pl.col(c).is_not_null() for c in ("nic_price_usd", "nic_power_w", "gbps_per_port")),
    ).select("network", "gbps_per_port", "rdma", *FIGURES)
    span = pl.col("network").is_in(sorted(set(spanned)))
    plain = known.filter(~span)
    few = any(s.racks is not None or s.circuits for s in problem.sites)
    best = unbeaten_networks(plain, needs_gbps, plain, one_for_one=few)
    kept = plain.filter(pl.col("network").is_in([*best["network"], *there]))
    cheap = unbeaten_networks(known.filter(span), needs_gbps, plain, one_for_one=False, watts=False)
    return pl.concat([kept, cheap]).select("network", "gbps_per_port").sort("gbps_per_port", "network")


def unbeaten_networks(
    some: pl.DataFrame,
    needs_gbps: Sequence[float],
    others: pl.DataFrame,
    *,
    one_for_one: bool,
    watts: bool = True,
) -> pl.DataFrame:
    """Networks of `some` that none of `others` may take the place of.

    Another one may if it meets every need that the network meets, is no faster (a faster NIC may need more lanes), and its NIC, its
    cable and as many of its switches as have the ports of one cost no more and draw no more. A switch of which something is not
    known cannot be bought, so only one node alone is ever on such a network.

    Parameters
    ----------
    some, others
        network, gbps_per_port and `FIGURES`.
    one_for_one
        Count switches as pieces, too: one may only take the place of one.
    watts
        False: money alone.
    """
    pairs = some.join(others.rename({c: f"{c}_b" for c in others.columns}), how="cross").filter(
        pl.col("network") != pl.col("network_b")
    )
    meets = pl.all_horizontal(
        pl.lit(True), *((pl.col("gbps_per_port") < g) | (pl.col("gbps_per_port_b") >= g) for g in set(needs_gbps))
    )
    pieces = (pl.col("switch_ports") / pl.col("switch_ports_b")).ceil()
    nic = [("nic_price_usd", pl.lit(1.0))] + [("nic_power_w", pl.lit(1.0))] * watts
    gear = [("switch_price_usd", pieces), ("cable_price_usd", pl.lit(1.0))] + [("switch_power_w", pieces)] * watts

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
    return some.join(beaten.select("network").unique(), on="network", how="anti", maintain_order="left")
