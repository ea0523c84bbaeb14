"""Rules for storage: sizes, speeds, checkpoints. See `solver.validation.tco_rules.sheet`."""

from __future__ import annotations

import math
import re
from typing import Any

from solver.features import storage
from solver.validation.tco_rules.base import missing
from solver.validation.tco_rules.sheet import RuleBook, Sheet, Value, over, total

BOOK = RuleBook()
rule = BOOK.rule


@rule("(?P<how>cloud|own|capex|raw|provision|provisioned|buy|needed_raw|order)_tb", "storage")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    if match["how"] == "raw" and sheet.has("drives") and sheet.has("drive_tb"):
        return over(lambda n, t: n * t, sheet.need("drives"), sheet.need("drive_tb"))
    needed = sheet.get("needed_tb", "usable_tb", "tb")
    if needed is None:
        return missing("needed_tb")
    fill = (
        sheet.get("max_fill", default=1.0)
        if not sheet.has("max_fill_percent")
        else sheet.number("max_fill_percent") / 100
    )
    return over(storage.raw_tb, needed, _raid_kept(sheet), fill)


def _raid_kept(sheet: Sheet) -> float:
    if sheet.has("raid_share", "raid_efficiency", "ec_efficiency"):
        return sheet.number("raid_share", "raid_efficiency", "ec_efficiency")
    if sheet.has("raid_overhead", "parity_overhead", "overhead_share"):
        return 1 - sheet.number("raid_overhead", "parity_overhead", "overhead_share")
    if sheet.has("data_drives", "ec_data", "data_blocks"):
        data = sheet.number("data_drives", "ec_data", "data_blocks")
        parity = sheet.number("parity_drives", "ec_parity", "parity_blocks", "parity")
        return storage.raid_share("ec", int(data + parity), int(parity))
    if sheet.has("replicas", "replication"):
        return 1 / sheet.number("replicas", "replication")
    level = sheet.given.get("raid")
    if level is not None:
        name = str(level).lower().replace(" ", "").replace("-", "")
        name = f"raid{name}" if name.isdigit() else name
        group = int(sheet.get("raid_group", "group", "drives", default=0))
        return storage.raid_share(name, group)  # type: ignore[arg-type]
    return 1.0


@rule("usable_tb|effective_tb|net_tb|capacity_tb", "storage")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    fill = float(sheet.get("max_fill", default=1.0)) if sheet.has("max_fill") else 1.0
    return over(lambda r: storage.usable_tb(r, _raid_kept(sheet), fill), sheet.need("raw_tb"))


@rule("(?P<what>drives|ssds|disks)(_needed)?", "storage")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    return over(lambda r, t: math.ceil(r / t - 1e-9), sheet.need("raw_tb"), sheet.need("drive_tb"))


@rule(r"(?P<array>\w+?)_for_(?P<count>\d+)", "storage")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    each = next(
        (
            v
            for k, v in sheet.given.items()
            if (f := re.fullmatch(r"(\w+)_per_(\w+)", k)) and f[2].rstrip("s") == match["array"].rstrip("s")
        ),
        None,
    )
    if each is None:
        return missing(f"what one of {match['array']} serves")
    return storage.arrays_needed(float(match["count"]), float(each))


@rule(r"max_(?P<what>\w+)", "storage")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    for name, each in sheet.given.items():
        found = re.fullmatch(rf"{match['what']}_per_(\w+)", name)
        if found:
            return over(lambda a, b: a * b, each, sheet.get(f"max_{found[1]}s", f"max_{found[1]}", f"{found[1]}s"))
    return missing(match[0])


@rule(r"(?P<rate>(?:read_|write_)?gb_s|tb)_per_(?P<what>dgx|node|gpu|nodes|system|client)(?:_at_max)?", "storage")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    at_max = match[0].endswith("_at_max")
    rates = [f"max_{match['rate']}", match["rate"], f"total_{match['rate']}"]
    # `dgx` is read as nodes where a case counts with it.
    counts = {"dgx": ["max_dgx", "nodes"], "gpu": ["gpus"], "system": ["systems", "nodes"]}.get(
        match["what"], ["nodes", "clients"]
    )
    rate, count = (
        sheet.get(*(rates if at_max else rates[1:] + rates[:1])),
        sheet.get(*(counts if at_max else counts[::-1])),
    )
    return over(lambda r, n: r / n, rate, count) if rate is not None and count is not None else missing("rate")


@rule("(total_|aggregate_|needed_|required_)?(?P<what>read_|write_)?gb_s(_needed|_required|_total)?", "storage")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    what = match["what"] or ""
    for count, each in (
        ("nodes", f"{what}gb_s_per_node"),
        ("gpus", f"{what}gb_s_per_gpu"),
        ("drives", f"drive_{what}gb_s"),
        ("nodes", f"{what}gb_s_per_dgx"),
    ):
        if sheet.has(each) and sheet.has(count):
            return over(lambda n, e: n * e, sheet.need(count), sheet.need(each))
    if sheet.has("samples_per_s", "tok_s", "images_per_s"):
        rate = sheet.get("samples_per_s", "tok_s", "images_per_s")
        return over(storage.stream_gb_s, rate, sheet.get("bytes_per_sample", "bytes_per_token", "bytes_per_image"))
    size, seconds = sheet.get("checkpoint_tb"), sheet.get("write_s", "checkpoint_s", "seconds", "target_s", "s")
    if size is None or seconds is None:
        return missing("checkpoint size and time")
    return over(storage.checkpoint_gb_s, size, seconds)


@rule("checkpoint_tb|state_tb|ckpt_tb", "storage", "train_cost")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    if sheet.has("bytes_per_param"):
        return over(storage.checkpoint_tb, sheet.need("params"), sheet.need("bytes_per_param"))
    optimizer = str(sheet.given.get("optimizer", "adamw"))
    if sheet.catalog is None:
        return missing("bytes_per_param")
    saved = storage.saved_bytes_per_param(sheet.catalog.optimisers, optimizer)
    return over(lambda p: storage.checkpoint_tb(p, saved), sheet.need("params"))


@rule(
    "(?P<what>checkpoint|write|load|read|staging|stage|copy|transfer|startup|restore|start_up)(_time)?_s|seconds",
    "storage",
)
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    size = sheet.get("dataset_tb", "size_tb", "weights_tb", "model_tb", "checkpoint_tb", "needed_tb", "tb")
    rate = sheet.get(
        "write_gb_s" if (match["what"] or "") in ("checkpoint", "write") else "read_gb_s", "gb_s", "link_gb_s"
    )
    if size is None or rate is None:
        return missing("size and speed")
    return over(storage.transfer_s, size, rate)


@rule("(storage_)?monthly|storage_month|price", "storage")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    rate, amount = sheet.get("price_per_tb_month", "per_tb_month"), sheet.get("cloud_tb", "raw_tb", "tb")
    if rate is None and sheet.has("price_per_gb_month", "per_gb_month"):
        rate = over(lambda v: v * 1000, sheet.get("price_per_gb_month", "per_gb_month"))
    return over(lambda r, t: r * t, rate, amount) if rate is not None and amount is not None else missing("rate")


@rule("total_tb|capacity_total_tb", "storage")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    parts: list[Any] = (
        [over(lambda n, t: n * t, sheet.need("nodes"), sheet.need("tb_per_node"))] if sheet.has("tb_per_node") else []
    )
    return total(parts) if parts else missing("total_tb")


@rule("(checkpoint_)?overhead(_(?P<unit>share|percent))?", "storage", "train_cost", "spot")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    """Share of time lost to checkpoints that stop the work."""
    gap = sheet.get("interval_s", "checkpoint_interval_s")
    if gap is None:
        return missing("checkpoint interval")
    written = sheet.get("write_s", "checkpoint_s")
    factor = 100.0 if match["unit"] == "percent" else 1.0
    return over(lambda w, g: storage.checkpoint_overhead(w, g) * factor, written, gap)
