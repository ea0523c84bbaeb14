"""Recheck data on the drives of nodes: room and speed of each job's share of them, and rent while they are filled."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from catalogs.catalog import Catalog
from problems.schema import Problem, Serve
from solver.plan import Item, Placement, Result, StoredData
from solver.verify_data import Due
from solver.verify_money import part_list
from solver.verify_work import placements_of, pool_line, pool_place

FILLED = 0.8
SLACK = 1e-6
KEPT = {"none": 1.0, "raid10": 0.5}
Drives = tuple[float, float, float, float]
"""TB that may be filled, GB/s to read and to write, operations/s."""


def check_drives(result: Result, problem: Problem, catalog: Catalog, due: dict[str, Due]) -> list[str]:
    """Every workload's data on drives against the drives of the nodes it runs on."""
    wrong: list[str] = []
    on_drives: dict[str, list[StoredData]] = {}
    for copy in result.storage:
        if copy.gear is None and copy.name in due:
            on_drives.setdefault(copy.workload or "", []).append(copy)
    for work in problem.workloads:
        copies = on_drives.get(work.name, [])
        if not copies:
            continue
        for placement in placements_of(work.name, result):
            line = pool_line(placement.pool, result)
            place = pool_place(placement.pool, result)
            here = [c for c in copies if place.split(" ", 1)[1] == c.place]
            if line is None or not here:
                continue  # a place without its data is refused elsewhere
            have = _drives_of(placement, line, catalog, each=isinstance(work, Serve))
            shares = [share_of_class(c, placement, work, result) for c in here]
            wrong += _short(work.name, have, here, shares, due)
            if not isinstance(work, Serve):
                wrong += _check_rent(placement, here, result, problem, due)
    return wrong


def node_drives(line: Item, catalog: Catalog) -> Drives:
    """Drives of one node of a line of the bill."""
    per_tb = [catalog.assumption(f"local_nvme_{k}_per_tb") for k in ("read_gb_s", "write_gb_s", "iops")]
    if line.kind == "rental":
        name = (line.pool or "").removesuffix("#spot").removesuffix("#units")
        found = catalog.offers.filter(pl.col("offer_id") == name)["local_storage_tb"]
        tb = float(found[0] or 0.0) if found.len() else 0.0
        return tb * FILLED, tb * per_tb[0], tb * per_tb[1], tb * per_tb[2]
    if line.billing == "owned":
        return 0.0, 0.0, 0.0, 0.0
    tb = read = write = iops = 0.0
    parts = part_list(line)
    server = catalog.servers.filter(pl.col("server") == parts[0][1]).to_dicts() if parts else []
    if server and server[0]["complete"]:
        tb = server[0]["included_nvme_tb"] or 0.0
        known = server[0]["included_nvme_gb_s"]
        return tb * FILLED, tb * per_tb[0] if known is None else known, tb * per_tb[1], tb * per_tb[2]
    for count, name in parts:
        drive = catalog.storage.filter((pl.col("storage") == name) & pl.col("capacity_tb").is_not_null())
        for r in drive.iter_rows(named=True):
            tb += count * r["capacity_tb"]
            read += count * r["read_gb_s"]
            write += count * r["write_gb_s"]
            iops += count * min(r["read_iops"], r["write_iops"])
    return tb * FILLED, read, write, iops


def part_of_nodes(placement: Placement, line: Item, *, each: bool) -> float:
    """A job's part of the nodes of a line, or that of one replica [nodes]."""
    size = (line.accelerators or 0) / line.quantity
    held = placement.billing.startswith("held") or each
    return placement.accelerators_per_replica / size if held and size else float(placement.nodes)


def _drives_of(placement: Placement, line: Item, catalog: Catalog, *, each: bool) -> Drives:
    """Drives of a job's nodes, or of one replica's part of them."""
    part = part_of_nodes(placement, line, each=each)
    a, b, c, d = node_drives(line, catalog)
    return a * part, b * part, c * part, d * part


def share_of_class(copy: StoredData, placement: Placement, work: object, result: Result) -> float:
    """Part of a class that one replica keeps: all weights, and of an offload as much as it serves of the traffic."""
    if not isinstance(work, Serve) or copy.data_class == "weights":
        return 1.0
    plan = next(w for w in result.workloads if w.name == work.name)
    most = max(plan.demand_by_period.values(), default=0.0)
    rate = placement.rates_by_bucket[0] if len(placement.rates_by_bucket) == 1 else placement.rate
    return min(1.0, rate / most) if most and rate > 0 else 1.0


def _short(
    name: str, have: Drives, copies: Sequence[StoredData], shares: Sequence[float], due: dict[str, Due]
) -> list[str]:
    wrong = []
    kept = [KEPT[(due[c.name].data.raid or "none") if due[c.name].data else "none"] for c in copies]  # type: ignore[union-attr]
    rows = list(zip(copies, shares, kept, strict=True))
    asked = (
        sum(c.size_tb * s / k for c, s, k in rows),
        sum(c.read_gb_s * s for c, s, _ in rows),
        sum(c.write_gb_s * s / k for c, s, k in rows),
        sum(c.iops * s for c, s, _ in rows),
    )
    units = ("TB", "GB/s to read", "GB/s to write", "operations/s")
    for want, has, unit in zip(asked, have, units, strict=True):
        if want > has * (1 + SLACK) + 1e-9:
            wrong.append(f"{name}: {want:.6g} {unit} asked of drives that have {has:.6g}")
    return wrong


def _check_rent(
    placement: Placement, copies: Sequence[StoredData], result: Result, problem: Problem, due: dict[str, Due]
) -> list[str]:
    """Nodes hired for a job are paid for while their drives are filled."""
    if placement.billing.startswith("held") or not placement.duration_h:
        return []
    wrong = []
    for copy in copies:
        each = due[copy.name]
        if each.work is None or not each.stage_h:
            continue
        rent = sum(
            float(i.total_cost)
            for i in result.items
            if i.kind == "rental" and i.pool == placement.pool and i.parts == (f"for {each.work.name}",)
        )
        owed = rent * each.stage_h / placement.duration_h
        start = f"staging {copy.name} on nodes at "
        paid = sum(
            float(i.total_cost) for i in result.items if (i.gear or "").startswith(start) and i.kind == "storage"
        )
        if paid < owed * (1 - SLACK) - 0.01:
            wrong.append(f"{copy.name}: nodes hired while it is staged {paid:.2f} paid, {owed:.2f} due")
    return wrong
