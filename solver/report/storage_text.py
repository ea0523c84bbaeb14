"""Where the data of a plan lies: a short table of its copies, each with its tier, place and what it asks of it."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType

from problems import units
from solver.plan import Item, Result, StoredData
from solver.report import forms
from solver.report.messages import Messages
from solver.report.page import Column, View, table


def storage_table(result: Result, view: View) -> Iterator[RenderableType]:
    """The table with a blank line after it; nothing where the plan keeps no data."""
    t = view.messages
    if not result.storage:
        return
    columns = [
        Column(t("Storage"), flexible=True),
        Column(t("Size"), "right"),
        Column(t("Lies on"), flexible=True),
        Column(t("Place"), flexible=True),
        Column(t("Read"), "right"),
        Column(t("Write"), "right"),
        Column(t("Notes"), flexible=True),
    ]
    boxes = {i.gear: i for i in result.items if i.billing == "purchase" and i.gear}
    rows = [_row(copy, boxes.get(f"boxes of {copy.gear}"), t) for copy in result.storage]
    yield table(columns, rows, view)
    yield ""


def _row(copy: StoredData, boxes: Item | None, t: Messages) -> list[str]:
    role = {"working": t("working copy"), "master": t("master copy")}.get(copy.role)
    name = copy.name.replace("_", " ")
    return [
        f"{name}, {role}" if role else name,
        units.format_bytes(copy.size_tb * 1e12, digits=3, binary=False),
        t("drives of the nodes") if copy.gear is None else copy.tier,
        copy.place,
        _speed(copy.read_gb_s),
        _speed(copy.write_gb_s),
        "\n".join(_notes(copy, boxes, t)),
    ]


def _speed(gb_s: float) -> str:
    return units.format_throughput(gb_s, digits=3) if gb_s else "-"


def _notes(copy: StoredData, boxes: Item | None, t: Messages) -> Iterator[str]:
    if boxes is not None:
        yield t("in {n} x {box}", n=forms.number(boxes.quantity), box=boxes.item)
    if copy.iops:
        yield t("{n} operations/s", n=forms.number(copy.iops))
    if copy.staging_h:
        yield t("staged in {hours} h", hours=forms.number(copy.staging_h))
    if copy.egress_tb_month:
        yield t("{size} a month leave", size=units.format_bytes(copy.egress_tb_month * 1e12, digits=3, binary=False))
