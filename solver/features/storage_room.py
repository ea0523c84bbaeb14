"""Room of a server for NICs of storage networks: slots, lanes, watts of its supplies and speed of its slots beside what is in it.

A site may have several storage networks, by the boxes that hang on them. `storage_room` says of every set of them whether a
server has room for a NIC of each: one character for each set of `sets_of`, "1" where it has. Systems sold whole come with such
NICs, and so do machines that stand already.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import polars as pl

from solver.features.parts import NIC_LANES, SLOW_NIC_GBPS, SLOW_NIC_LANES, boarded

INSIDE = "inside"
"""Room of a machine that comes with its NICs."""


def sets_of(networks: Sequence[str]) -> list[tuple[str, ...]]:
    """All sets of networks but the empty one, the smaller first."""
    return [some for n in range(1, len(networks) + 1) for some in combinations(networks, n)]


def has_room(room: str | None, number: int) -> bool:
    """Whether a machine of such a room takes the NICs of set `number` of `sets_of`; of others nothing is known, so they do not."""
    return room == INSIDE or (room is not None and number < len(room) and room[number] == "1")


def storage_room(networks: Sequence[str], table: pl.DataFrame) -> pl.Expr:
    """Room of a build for NICs of storage networks.

    Reads nic_slots, nic_count, lanes, lanes_used, lane_gbps [Gb/s], supply_w, supply_max_w [W], accelerator_form_factor.

    Parameters
    ----------
    networks : sequence of str
        Storage networks that a site may have.
    table : pl.DataFrame
        network, gbps_per_port [Gb/s], nic_price_usd, nic_power_w [W]; what is not known there finds no room.
    """
    rows = {r["network"]: r for r in table.iter_rows(named=True)}
    known = ("gbps_per_port", "nic_price_usd", "nic_power_w")
    marks = []
    for some in sets_of(networks):
        nics = [rows.get(name) for name in some]
        if any(r is None or any(r[c] is None for c in known) for r in nics):
            marks.append(pl.lit("0"))
            continue
        figures = [r for r in nics if r is not None]
        fits = pl.col("nic_count") + len(figures) <= pl.col("nic_slots")
        fits &= pl.col("supply_w") + sum(float(r["nic_power_w"]) for r in figures) <= pl.col("supply_max_w")
        fits &= pl.col("lane_gbps") * NIC_LANES >= max(float(r["gbps_per_port"]) for r in figures)
        lanes = pl.sum_horizontal(_lanes(float(r["gbps_per_port"])) for r in figures)
        # On boards NICs hang behind the same switches as the cards.
        fits &= boarded() | (pl.col("lanes_used") + lanes <= pl.col("lanes"))
        marks.append(pl.when(fits.fill_null(value=False)).then(pl.lit("1")).otherwise(pl.lit("0")))
    return pl.concat_str(marks) if marks else pl.lit("")


def _lanes(gbps: float) -> pl.Expr:
    """Host lanes of one NIC in a slot."""
    narrow = (pl.col("lane_gbps") * SLOW_NIC_LANES >= gbps) if gbps <= SLOW_NIC_GBPS else pl.lit(value=False)
    return pl.when(narrow).then(SLOW_NIC_LANES).otherwise(NIC_LANES)


def stands_in() -> pl.Expr:
    """True where a machine (storage_room_a) takes the storage NICs that another one (storage_room) does, at no more money."""
    mine, other = pl.col("storage_room_a"), pl.col("storage_room")
    whole = mine.str.contains("^1+$") & (other != INSIDE)
    return mine.eq_missing(other) | ((mine == INSIDE) | whole).fill_null(value=False)
