"""No work reads or writes faster than the ports of its nodes on the storage network.

Per job, site and network with ports of v GB/s, where a way q to run the job takes n_q nodes (its share of their GPUs):
sum of what its classes there ask <= sum v n_q x_q, unless the site has no storage network (one box alone) or the job runs elsewhere.
Of a service each replica is held to its part of a node: an offload asks it for its share of the traffic, weights for one reader's
part.

Nothing but the nodes moves data between tiers, so staging goes through their ports: they read the master copy and write the
working one. A job is staged while the run before goes on, so both count together; the replicas of a service are staged before they
load. Each fetches all of a copy for its own drives, or one reader's part of a copy for boxes.
"""

from __future__ import annotations

import math

import polars as pl

from solver.candidates.storage_boxes import SPEED
from solver.candidates.storage_keys import drives_key
from solver.candidates.storage_network import network_key
from solver.candidates.storage_place import Placing, speed
from solver.candidates.storage_tiers import site_place
from solver.candidates.storage_use import Book, Kind, Sum, Use, gear, plus, times

STREAMS = (True, False)
"""Reading, writing."""


def port_rows(book: Book, use: Use, placings: list[Placing]) -> None:
    """Hold all classes of a workload that lie on boxes of own sites against the ports of its nodes."""
    catalog = book.context.catalog
    for site, network in sorted({key for p in placings for key in (*p.ported, *p.pulled)}):
        gbps = catalog.network.filter(pl.col("network") == network)["gbps_per_port"]
        if not gbps.len():
            continue  # no box hangs there
        port = float(gbps[0]) / 8 * SPEED
        mine = [p for p in placings if (site, network) in p.ported or (site, network) in p.pulled]
        for reading in STREAMS:
            if use.job:
                _job_row(book, use, mine, (site, network), port, reading)
            else:
                _replica_rows(book, use, mine, (site, network), port, reading)


def _job_row(book: Book, use: Use, placings: list[Placing], key: tuple[str, str], port: float, reading: bool) -> None:
    asked: Sum = {}
    most = 0
    for p in placings:
        fixed = speed(p.need.read_gb_s if reading else p.need.write_gb_s)
        lying = p.ported.get(key, [])
        if lying:
            most += fixed + (p.most if reading else 0)
        for here, stream in lying:
            asked = plus(asked, times(fixed, here), stream if reading else {})
        moved, staging = _staged(p, key, reading), speed(p.need.stage_gb_s)
        if moved:
            most += staging
        asked = plus(asked, *(times(staging, here) for here in moved))
    there = site_place(key[0])
    able = {w.row: math.floor(port * w.part + 1e-6) if w.place == there else most for w in use.ways}
    if min(able.values(), default=most) < most:
        have: Sum = {("options", row): min(most, n) for row, n in able.items()}
        book.row(asked, times(-1, have), gear(network_key("alone", *key), -most), high=0)


def _staged(placing: Placing, key: tuple[str, str], reading: bool) -> list[Sum]:
    """Choices by which a class is read from, or written to, boxes of a network while it is staged: at most one is taken."""
    return (placing.pulled if reading else placing.filled).get(key, [])


def _replica_rows(
    book: Book, use: Use, placings: list[Placing], key: tuple[str, str], port: float, reading: bool
) -> None:
    for kind in (k for k in use.kinds if k.place == site_place(key[0])):
        able = math.floor(port * kind.part + 1e-6)
        asked: Sum = {}
        for p in placings:
            each = _each(p, kind, reading)
            asked = plus(asked, *(times(each, here) for here, _ in p.ported.get(key, [])))
        _hold(book, use, kind, key, asked, able, sum(asked.values()))
        for p in placings:
            moved, whole = _staged(p, key, reading), speed(p.need.stage_gb_s)
            if not moved:
                continue
            part = math.ceil(whole / p.need.readers - 1e-9)
            _hold(book, use, kind, key, plus(*(times(part, here) for here in moved)), able, part)
            drives = drives_key(p.need, kind.place)
            if reading and part < whole and ("gear", drives) in p.here.get(kind.place, {}):
                # All of it where the master is here and the copy on the replica's drives.
                both = plus(gear(drives, whole), *(times(whole, here) for here in moved))
                _hold(book, use, kind, key, both, able + whole, 2 * whole)


def _hold(book: Book, use: Use, kind: Kind, key: tuple[str, str], asked: Sum, able: int, most: int) -> None:
    """asked <= able, if a kind of replica is in use and the site has a storage network; `most` of it is ever asked."""
    slack = most - able
    if slack > 0:
        used = book.choice(f"{use.work} replica {kind.row} in use")
        book.row({("replicas", kind.row): 1}, gear(used, -kind.most), high=0)
        book.row(asked, gear(used, slack), gear(network_key("alone", *key), -slack), high=able + slack)


def _each(placing: Placing, kind: Kind, reading: bool) -> int:
    """What one replica asks of a class [0.1 MB/s]."""
    need = placing.need
    share = 1 / need.readers if need.kind == "weights" else kind.share
    return math.ceil(speed(need.read_gb_s if reading else need.write_gb_s) * share - 1e-9)
