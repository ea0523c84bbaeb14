"""Recheck where data lies: every class kept once, with room and speed, near its work or with egress paid, and the bill of it.

Reads the plan's copies of data and the bill, and looks tiers, prices and speeds up in the catalogue again. Shares nothing
with the candidates: sizes and speeds that are due come from `solver.verify_data`.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from catalogs.catalog import Catalog
from problems.schema import Problem
from solver.plan import Result, StoredData
from solver.verify_boxes import BOXES, is_box
from solver.verify_data import Due, due_data
from solver.verify_drives import check_drives
from solver.verify_gear import is_bought
from solver.verify_storage_ports import check_storage_network
from solver.verify_storage_speed import check_port_speeds
from solver.verify_tiers import TierRow, check_tier_bill, egress_per_tb, tier_row
from solver.verify_work import runs_at, tokens_per_s

SLACK = 1e-6


def check_storage(result: Result, problem: Problem, catalog: Catalog, base_dir: Path) -> list[str]:
    """Every class of data of the problem against the plan's copies, tiers, drives and bill."""
    due = due_data(problem, catalog, base_dir)
    wrong = [f"{c.name}: no such data in the problem" for c in result.storage if c.name not in due]
    copies: dict[str, list[StoredData]] = defaultdict(list)
    for copy in result.storage:
        copies[copy.name].append(copy)
    left_out = {w.name for w in result.workloads if w.served_share == 0}
    gone = [name for name, each in due.items() if each.work is not None and each.work.name in left_out]
    wrong += [f"{name}: kept, although its work is left out" for name in gone if copies[name]]
    due = {name: each for name, each in due.items() if name not in gone}
    for name, each in due.items():
        wrong += _check_copies(each, copies[name], result)
        wrong += _check_asked(each, copies[name], result)
    tiers = {c.gear: tier_row(c.gear, catalog) for c in result.storage if c.gear is not None}
    for key, tier in tiers.items():
        if tier is None:
            wrong.append(f"{key}: no such tier in the catalogue")
            continue
        wrong += _check_tier(key, tier, result, problem, catalog, due)
    wrong += check_tier_bill(result, problem, catalog)
    wrong += check_storage_network(result, problem, catalog)
    wrong += check_port_speeds(result, problem, catalog, due)
    wrong += check_drives(result, problem, catalog, due)
    for name, each in due.items():
        wrong += _check_near(each, copies[name], result, problem, catalog)
    return wrong


def _check_copies(due: Due, copies: list[StoredData], result: Result) -> list[str]:
    """One copy to work on, and a master copy only beside it, where one is allowed or asked for."""
    roles = sorted(c.role for c in copies)
    allowed = {"no": [["only"]], "yes": [["master", "working"]], "auto": [["only"], ["master", "working"]]}[due.staged]
    wrong = []
    if roles not in allowed:
        wrong.append(f"{due.name}: kept as {', '.join(roles) or 'nothing'}")
    for copy in copies:
        if copy.data_class != due.kind or copy.workload != (None if due.work is None else due.work.name):
            wrong.append(f"{due.name}: the plan takes it for other data")
        if copy.gear is None and copy.role != "working" and due.kind != "kv_offload":
            wrong.append(f"{due.name}: its only copy on the drives of nodes")
    if "master" in roles and due.limit_h is not None and due.work is not None:
        took = max(p.duration_h or 0.0 for w in result.workloads if w.name == due.work.name for p in w.placements)
        if took + due.stage_h > due.limit_h * (1 + SLACK):
            wrong.append(f"{due.name}: staging and run take {took + due.stage_h:.2f} h, deadline {due.limit_h:.2f} h")
    return wrong


def _check_asked(due: Due, copies: list[StoredData], result: Result) -> list[str]:
    """Copies say at least the size and speed that are due."""
    rate = tokens_per_s(due.work, result)
    wrong = []
    for copy in copies:
        master = copy.role == "master"
        reading = due.stage_speed if master else max(due.read, rate * due.token_bytes / 1e9)
        writing = 0.0 if master else due.write + (due.stage_speed if copy.role == "working" else 0.0)
        for what, have, want in (
            ("TB", copy.size_tb, due.size_tb),
            ("GB/s to read", copy.read_gb_s, reading),
            ("GB/s to write", copy.write_gb_s, writing),
            ("operations/s", copy.iops, 0.0 if master else due.iops),
        ):
            if have < want * (1 - SLACK):
                wrong.append(f"{due.name}: {have:.6g} {what}, {want:.6g} due")
    return wrong


def _check_tier(
    key: str, tier: TierRow, result: Result, problem: Problem, catalog: Catalog, due: dict[str, Due]
) -> list[str]:
    """Room and speed of one tier for all that lies on it, and who may lie there at all."""
    here = [c for c in result.storage if c.gear == key]
    held = sum(
        i.quantity
        for i in result.items
        if i.gear == key and i.kind == "storage" and i.billing in ("purchase", "monthly")
    )
    wrong = tier.not_allowed(problem, catalog, [due[c.name] for c in here if c.name in due])
    usable = held * tier.unit_tb
    if usable < tier.least_tb * (1 - SLACK):
        wrong.append(f"{key}: {usable:g} TB held, sold from {tier.least_tb:g} TB on")
    size = sum(c.size_tb for c in here)
    if size > usable * tier.fill * (1 + SLACK):
        wrong.append(f"{key}: {size:g} TB on {usable:g} TB, of which {tier.fill:.0%} may be filled")
    if tier.made is not None:
        boxes = sum(i.quantity for i in result.items if is_box(i) and i.gear == f"{BOXES}{key}" and is_bought(i))
        reading, writing = sum(c.read_gb_s for c in here), sum(c.write_gb_s for c in here)
        wrong += [f"{key}: {text}" for text in tier.made.missing(boxes, held, tier.unit_tb, reading, writing)]
    for what, asked, have in (
        ("GB/s to read", sum(c.read_gb_s for c in here), tier.reading(held)),
        ("GB/s to write", sum(c.write_gb_s for c in here), tier.writing(held)),
        ("operations/s", sum(c.iops for c in here), tier.operations(held)),
    ):
        if asked > 0 and (have is None or asked > have * (1 + SLACK)):
            wrong.append(f"{key}: {asked:g} {what} asked of {'an unknown speed' if have is None else f'{have:g}'}")
    for copy in here:
        kind = copy.data_class
        if copy.place != tier.place:
            wrong.append(f"{copy.name}: said to be at {copy.place}, its tier is at {tier.place}")
        if not tier.lasting and copy.role != "working" and kind != "kv_offload":
            wrong.append(f"{copy.name}: only copy on scratch space {tier.name}")
        quiet = kind in ("archive", "backups") and copy.read_gb_s + copy.write_gb_s + copy.iops == 0
        if tier.seldom and (copy.role == "master" or not quiet):
            wrong.append(f"{copy.name}: on {tier.name}, where reading back is charged")
    return wrong


def _check_near(due: Due, copies: list[StoredData], result: Result, problem: Problem, catalog: Catalog) -> list[str]:
    """Data at the place of its work, or egress on the bill and a link that is quick enough."""
    if due.work is None:
        return []
    link = catalog.assumption("link_between_places_gb_s")
    wrong = []
    masters = [c for c in copies if c.role == "master"]
    at = {_place(c, result) for c in copies if c.role != "master"}
    runs = runs_at(due.work.name, result)
    for copy in copies:
        here = _place(copy, result)
        away = (at - {here}) if copy.role == "master" else runs - {here}
        if not away:
            continue
        fast = due.stage_speed if copy.role == "master" else max(copy.read_gb_s, copy.write_gb_s)
        if copy.role != "master" and (masters or due.sender == "nobody" or copy.gear is None):
            wrong.append(f"{due.name}: at {here}, the work at {', '.join(sorted(away))}")
            continue
        if fast > link * (1 + SLACK) or (copy.role != "master" and due.iops):
            wrong.append(f"{due.name}: {fast:g} GB/s between places, the link has {link:g}")
        senders = away if due.sender == "work" and copy.role != "master" else {here}
        moved = due.staged_tb if copy.role == "master" else due.sent_tb
        times = len(away) if senders == {here} and copy.role != "master" else 1
        wrong += _check_egress(due, senders, moved, times, copy, result, problem, catalog)
    return wrong


def _place(copy: StoredData, result: Result) -> str:
    """Key of the place of a copy."""
    if copy.gear is not None:
        return f"{copy.gear.partition(' ')[0]} {copy.place}"
    places = runs_at(copy.workload or "", result)
    return next((p for p in places if p.split(" ", 1)[1] == copy.place), f"nowhere {copy.place}")


def _check_egress(
    due: Due,
    senders: set[str],
    moved: float,
    times: int,
    copy: StoredData,
    result: Result,
    problem: Problem,
    catalog: Catalog,
) -> list[str]:
    wrong = []
    for sender in sorted(senders):
        price = egress_per_tb(sender, problem, catalog)
        if price is None:
            wrong.append(f"{due.name}: leaves {sender}, which has no egress price")
            continue
        start = f"egress {due.name} {'master ' if copy.role == 'master' else ''}from {sender}"
        paid = sum(
            float(i.total_cost)
            for i in result.items
            if i.kind == "egress" and (i.gear == start or (i.gear or "").startswith(f"{start} to "))
        )
        owed = price * moved * times * problem.horizon
        if paid < owed * (1 - SLACK) - 0.01:
            wrong.append(f"{due.name}: egress from {sender} {paid:.2f} paid, {owed:.2f} due")
    return wrong
