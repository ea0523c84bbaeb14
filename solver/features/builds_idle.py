"""Builds for work inside nodes on a network that pays only where work across nodes stands on it, under a limit of watts.

On a network that another one is no worse than (`solver.candidates.plain_networks`), nodes without work across them stand for one
reason: its switch is there anyhow, for nodes with such work. Of a level on such a network a build of w watts is of use

- beside two other nodes of the network with work across them, and its switch: w + 2 v + s <= W, where v is the lightest build of
  a level for such work on the network (one of another level that could do it meets that level's needs, so is no lighter), s the
  switch (`beside_w`) and W all that the site may draw (`Unpowered.site_w`);
- or where it has such work itself, which takes two of it, as fast as any of these levels asks: 2 w + s <= W. Without the switch (`pair_w` = 0) only where work that is
  no service may run on the two beside; else a build of the level for work across nodes with as many NICs does the same, as two
  nodes that also serve need the switch.

In a plan within W that holds it otherwise, no work spans nodes of the network, and all nodes there move to the other one.

A build of a level for work across nodes is of use only for that, 2 w + s <= W (s = 0 for jobs, of which two nodes may be linked
without a switch): work inside a node has a level of its own with the same needs of the host and no more NICs.
"""

from __future__ import annotations

import polars as pl


def useful(least_w: pl.Expr, site_w: float) -> pl.Expr:
    """True for builds of use at a site that may draw `site_w` [W] in all.

    Reads network, gpus, network_gbps, node_gbps and spans of its level, beside_w and pair_w [W] (null: of use by themselves) of all
    builds; `least_w` is what one draws at least [W].
    """
    lightest = least_w.filter("spans").min().over("network")
    slowest = pl.col("node_gbps").filter("spans").min().over("network")
    several = (pl.col("gpus") > 1) & (pl.col("network_gbps") >= slowest)
    beside = least_w + 2.0 * lightest + pl.col("beside_w") <= site_w
    pair = several & (2.0 * least_w + pl.col("pair_w") <= site_w)
    return pl.col("beside_w").is_null() | beside.fill_null(value=False) | pair.fill_null(value=False)
