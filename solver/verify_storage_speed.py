"""Recheck that no work reads or writes faster than the ports of its nodes on a storage network."""

from __future__ import annotations

from collections import defaultdict

from catalogs.catalog import Catalog
from problems.schema import Problem, Serve, Workload
from solver.plan import Placement, Result, StoredData
from solver.verify_boxes import made_of, storage_key
from solver.verify_data import Due
from solver.verify_drives import part_of_nodes, share_of_class
from solver.verify_storage_network import storage_nics, storage_port
from solver.verify_work import placements_of, pool_line, pool_place, tokens_per_s

SLACK = 1e-6


def check_port_speeds(result: Result, problem: Problem, catalog: Catalog, due: dict[str, Due]) -> list[str]:
    """Every workload's data on boxes of a storage network against the ports of the nodes that it runs on there.

    Nodes move what is staged, too: they read master copies and write the working ones.
    """
    wrong: list[str] = []
    joined = {s.name: storage_nics(result, s.name, catalog) for s in problem.sites}
    for work in problem.workloads:
        mine = [c for c in result.storage if c.workload == work.name and c.name in due]
        lying: dict[tuple[str, str], list[StoredData]] = defaultdict(list)
        for copy in mine:
            key = _network(copy, catalog)
            if key is not None:
                lying[key].append(copy)
        for (site, network), copies in lying.items():
            row = storage_port(catalog, network)
            if network not in joined.get(site, []) or row is None:
                continue
            on_drives = {c.name for c in mine if c.gear is None and c.place == site}
            for placement in placements_of(work.name, result):
                if pool_place(placement.pool, result) != f"site {site}":
                    continue
                line = pool_line(placement.pool, result)
                if line is not None:
                    part = part_of_nodes(placement, line, each=isinstance(work, Serve))
                    have = float(row["gbps_per_port"]) / 8 * part
                    wrong += _slow(work, placement, copies, on_drives, have, result, due)
    return wrong


def _network(copy: StoredData, catalog: Catalog) -> tuple[str, str] | None:
    """Own site and network of the boxes that a copy lies in."""
    named = None if copy.gear is None else storage_key(copy.gear, catalog)
    if named is None or named[0] != "site":
        return None
    made = made_of(named[2], catalog)
    network = None if made is None else made.box["network"]
    return None if network is None else (named[1], str(network))


def _slow(
    work: Workload,
    placement: Placement,
    copies: list[StoredData],
    on_drives: set[str],
    have: float,
    result: Result,
    due: dict[str, Due],
) -> list[str]:
    """What ports of `have` GB/s are too slow for; `on_drives`: classes whose working copy is on the nodes' own."""
    each = isinstance(work, Serve)
    rate = tokens_per_s(work, result)
    asked = {"read": 0.0, "write": 0.0}
    staged: dict[str, float] = {}
    for copy in copies:
        told = due[copy.name]
        readers = (told.data.readers if told.data is not None else None) or 1
        if copy.role != "only":
            way = "read" if copy.role == "master" else "write"
            # A replica fetches all of what goes on its own drives; what goes on boxes is fetched by all readers together.
            shared = each and not (way == "read" and copy.name in on_drives)
            moved = told.stage_speed / (readers if shared else 1)
            if each:
                staged[way] = max(staged.get(way, 0.0), moved)
            else:
                asked[way] += moved
        if copy.role != "master":
            share = 1 / readers if each and told.kind == "weights" else share_of_class(copy, placement, work, result)
            asked["read"] += max(told.read, rate * told.token_bytes / 1e9) * share
            asked["write"] += told.write * share
    named = [(f"to {way}", speed) for way, speed in asked.items()]
    named += [(f"to {way} while it is staged", speed) for way, speed in staged.items()]
    return [
        f"{work.name}: {speed:.6g} GB/s {what} through ports of {have:.6g}"
        for what, speed in named
        if speed > have * (1 + SLACK) + 1e-9
    ]
