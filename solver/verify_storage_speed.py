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
    """Every workload's data on boxes of a storage network against the ports of the nodes that it runs on there."""
    wrong: list[str] = []
    joined = {s.name: storage_nics(result, s.name, catalog) for s in problem.sites}
    for work in problem.workloads:
        lying: dict[tuple[str, str], list[StoredData]] = defaultdict(list)
        for copy in result.storage:
            key = _network(copy, catalog)
            if copy.workload == work.name and copy.role != "master" and copy.name in due and key is not None:
                lying[key].append(copy)
        for (site, network), copies in lying.items():
            row = storage_port(catalog, network)
            if network not in joined.get(site, []) or row is None:
                continue
            for placement in placements_of(work.name, result):
                if pool_place(placement.pool, result) == f"site {site}":
                    wrong += _slow(work, placement, copies, float(row["gbps_per_port"]) / 8, result, due)
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
    port_gb_s: float,
    result: Result,
    due: dict[str, Due],
) -> list[str]:
    line = pool_line(placement.pool, result)
    if line is None:
        return []
    each = isinstance(work, Serve)
    have = port_gb_s * part_of_nodes(placement, line, each=each)
    rate = tokens_per_s(work, result)
    reading = writing = 0.0
    for copy in copies:
        told = due[copy.name]
        readers = (told.data.readers if told.data is not None else None) or 1
        share = 1 / readers if each and told.kind == "weights" else share_of_class(copy, placement, work, result)
        reading += max(told.read, rate * told.token_bytes / 1e9) * share
        writing += told.write * share
    return [
        f"{work.name}: {asked:.6g} GB/s to {what} through ports of {have:.6g}"
        for what, asked in (("read", reading), ("write", writing))
        if asked > have * (1 + SLACK) + 1e-9
    ]
