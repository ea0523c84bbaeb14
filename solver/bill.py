"""Solution values -> lines of the bill. Every line's total is a sum of the model's integer cents, so bills add up exactly."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import polars as pl

from problems.schema import Fixed, Problem, Serve
from solver.bill_parts import PART_LINES, billing_of, without_surcharges
from solver.plan import Item
from solver.rounding import component_cents
from solver.scaling import Scaled
from solver.search import Values

LOW_TRUST = ("estimate", "recalled")
STORES = re.compile(r"\d+ x place for storage of up to (\d+) W.*")


@dataclass(frozen=True)
class Bill:
    """Lines with the sums that the cost block needs [cents]; `monthly` and watts are those of the highest stage."""

    items: tuple[Item, ...]
    cash: int
    capex: int
    monthly: int
    by_category: dict[str, int]
    energy_kwh: float
    it_w: float
    facility_w: float


class _Rows:
    """Rows of a frame as they are asked for: a plan uses few of thousands of pools."""

    def __init__(self, frame: pl.DataFrame) -> None:
        self.frame = frame
        self.read: dict[int, dict[str, Any]] = {}

    def __getitem__(self, number: int) -> dict[str, Any]:
        if number not in self.read:
            self.read[number] = self.frame.row(number, named=True)
        return self.read[number]


def money(value: int) -> Decimal:
    """Cents as a decimal amount."""
    return Decimal(value) / 100


def billing_label(row: dict[str, Any]) -> str:
    """How a capacity row is billed, in words: on_demand, reserved 12mo, reserved 36mo 50% upfront, purchase, owned."""
    label = str(row["billing"])
    if row.get("term_months"):
        label += f" {row['term_months']:g}mo"
    share = row.get("upfront_share") or 0.0
    if share and row["billing"] != "purchase":
        label += f" {share:.0%} upfront"
    return label


def bill(scaled: Scaled, values: Values, problem: Problem) -> Bill:
    """Price a solution line by line."""
    inst = scaled.instance
    pools, rows, options = _Rows(scaled.pools), _Rows(scaled.capacity), _Rows(scaled.options)
    items: list[Item] = []
    cash = capex = 0
    monthly = [0] * len(inst.stages)
    stage_of = inst.stage_of or (0,) * len(inst.periods)
    # Energy of the work done, above idle, by site and stage; of jobs, the same in all of them, by site alone.
    work_cents: dict[tuple[str, int], int] = defaultdict(int)
    work_kwh: dict[tuple[str, int], float] = defaultdict(float)
    unit_cents: dict[tuple[int, int], int] = defaultdict(int)  # compute units that replicas take, by pool and stage
    node_hours: dict[tuple[int, int], float] = defaultdict(float)
    energy_kwh = 0.0
    it_w, facility_w = [0.0] * len(inst.stages), [0.0] * len(inst.stages)
    hours = range(len(inst.periods))
    h = problem.horizon
    for i, c in enumerate(inst.capacities):
        if c.commit:
            count = values.commit[i]
            if count == 0:
                continue
            pool, row = pools[c.pool], rows[i]
            capex += c.capex * count
            cash += c.cash[0] * count
            for s, stage in enumerate(inst.stages):
                monthly[s] += c.monthly[s] * count
                if c.holds(stage[0]) and pool["site"] is not None:
                    it_w[s] += pool["it_w"] * count
                    facility_w[s] += pool["facility_w"] * count
            if pool["site"] is not None:
                energy_kwh += pool["idle_w"] * pool["pue"] * 730 * row["held_months"] / 1000 * count
            machine = "rental" if pool["kind"] == "rental" else "server"
            parts = {machine: 0, **component_cents(row)}  # what is owned already has a line too, at no cost
            held = None
            if len(inst.stages) > 1 or row["levels"] is not None:
                held = {name: count for p, name in enumerate(inst.periods) if c.holds(p)}
            items.extend(_line(pool, row, part, count, amount, held) for part, amount in parts.items())
            continue
        by_count: dict[int, list[int]] = defaultdict(list)
        for p in hours:
            count = values.hourly[i, p]
            if count:
                by_count[count].append(p)
        if not by_count:
            continue
        pool, row = pools[c.pool], rows[i]
        for count, periods in sorted(by_count.items(), reverse=True):
            unit = sum(c.cash[p] for p in periods)
            cash += unit * count
            for p in periods:
                monthly[stage_of[p]] += c.monthly[p] * count
            names = {inst.periods[p]: count for p in periods}
            split = without_surcharges(unit, problem.tco.surcharges(pool["provider"]))
            items.extend(_line(pool, row, part, count, amount, names) for part, amount in split.items())
    for q, option in enumerate(inst.options):
        if not values.chosen[q]:
            continue
        pool, row = pools[option.pool], options[q]
        cash += option.cash
        monthly = [m + option.monthly for m in monthly]
        if option.pooled:
            if pool["site"] is not None:
                work_cents[pool["site"], -1] += option.cash
                work_kwh[pool["site"], -1] += _job_kwh(pool, row, problem)
            continue
        items.extend(_hired(scaled, q, problem))
    for (k, p), count in values.replicas.items():
        if not count:
            continue
        r = inst.replicas[k]
        pool = pools[r.pool]
        cash += r.cash[p] * count
        monthly[stage_of[p]] += r.monthly[p] * count
        share = scaled.period_hours[p]
        if pool["site"] is None:
            of = r.pool, stage_of[p] if len(inst.stages) > 1 else -1
            unit_cents[of] += r.cash[p] * count
            node_hours[of] += share * h * count * r.gpus / pool["gpus"]
        else:
            extra = scaled.replicas["extra_w"][k]
            at = pool["site"], stage_of[p] if len(inst.stages) > 1 else -1
            work_cents[at] += r.cash[p] * count
            work_kwh[at] += extra * pool["pue"] * share * h / 1000 * count
    for (o, s), amount in sorted(unit_cents.items()):
        if amount:
            price = rows_of(scaled, o, "compute_unit")[0]
            split = without_surcharges(amount, problem.tco.surcharges(pools[o]["provider"]))
            lines = [_unit_line(pools[o], price, node_hours[o, s], split.pop("rental"))]
            lines.extend(_line(pools[o], price, part, 1, cents) for part, cents in split.items())
            start = scaled.stages[s].start if s >= 0 else None
            items.extend(line.model_copy(update={"from_month": start}) for line in lines)
    for (site, s), amount in sorted(work_cents.items()):
        kwh = work_kwh[site, s]
        energy_kwh += kwh
        if amount:
            per_kwh = money(amount) / Decimal(repr(kwh)) if kwh else money(amount)
            when = scaled.stages[s] if s >= 0 else None
            items.append(
                Item(
                    item=f"electricity for the work done{f', {when.name}' if when else ''}",
                    kind="energy",
                    quantity=round(kwh, 1),
                    billing="per kWh",
                    site=site,
                    unit_cost=per_kwh,
                    total_cost=money(amount),
                    from_month=when.start if when else None,
                )
            )
    gear = scaled.gear.to_dicts()
    boxes = [row for g, row in enumerate(gear) if row["rack_w"] is not None and values.gear.get(g, 0)]
    for g, row in enumerate(gear):
        count, each = values.gear.get(g, 0), inst.gear[g]
        if not count:
            continue
        cash += each.cash * count
        capex += each.capex * count
        monthly = [m + each.in_month(s) * count for s, m in enumerate(monthly)]
        if row["site"] is not None:
            it_w = [w + row["it_w"] * count for w in it_w]
            facility_w = [w + row["facility_w"] * count for w in facility_w]
            energy_kwh += row["draw_w"] * row["pue"] * 730 * h / 1000 * count
        items.extend(gear_lines(without_idle_places(row, boxes), count))
    by: dict[str, int] = defaultdict(int)
    for item in items:
        by[item.kind] += int(item.total_cost * 100)
    return Bill(tuple(items), cash, capex, max(monthly), dict(by), energy_kwh, max(it_w), max(facility_w))


def without_idle_places(row: dict[str, Any], boxes: list[dict[str, Any]]) -> dict[str, Any]:
    """A rack or circuit without the places for storage of a model of which the plan has none."""
    if row["kind"] != "rack":
        return row
    found = {part: STORES.fullmatch(part) for part in row["parts"]}
    idle = [p for p, m in found.items() if m and not any(b["rack_w"] <= float(m[1]) + 1e-6 for b in boxes)]
    return {**row, "parts": [p for p in row["parts"] if p not in idle]}


def gear_lines(row: dict[str, Any], count: int) -> list[Item]:
    """Lines of one kind of gear: its purchase, what is paid once or monthly, and what running it costs."""
    if row["kind"] == "choice":
        return []
    lines: list[Item] = []
    billing = {"server": "purchase", "once": "once", "monthly": "monthly", "sale": "sold"}
    parts = component_cents(row)
    if row["rack_units"] and "server" not in parts:
        parts = {"server": 0, **parts}  # boxes that are paid with what stands in them
    elif not parts:
        parts = {"once": 0}  # a direct link or a rack that costs nothing is held all the same
    for part, unit in parts.items():
        main = part in billing
        first = main and not any(i.power_w for i in lines)
        lines.append(
            Item(
                item=row["item"] if main else f"{PART_LINES[part].prefix}{row['item']}",
                kind=row["kind"] if main else PART_LINES[part].kind,
                quantity=round(count * row["per_unit"], 9),
                unit=row["unit"] or None,
                billing=billing.get(part) or billing_of(part, row, "once" if row["once"] else "monthly"),
                site=row["place"],
                unit_cost=money(unit) / Decimal(repr(row["per_unit"])),
                total_cost=money(unit * count),
                power_w=row["it_w"] * count if first and row["it_w"] else None,
                gear=row["key"],
                parts=tuple(row["parts"]) if main else (),
                price_as_of=row["as_of"] if main else None,
                price_confidence=row["confidence"] if main else None,
                price_source=row["source"] if main else None,
                starred=main and row["confidence"] in LOW_TRUST,
            )
        )
    return lines


def _hired(scaled: Scaled, q: int, problem: Problem) -> list[Item]:
    """Lines of the nodes that a job hires for its own hours."""
    option, row = scaled.instance.options[q], scaled.options.row(q, named=True)
    pool = scaled.pools.row(option.pool, named=True)
    price = next(r for r in rows_of(scaled, option.pool, option.billing))
    title = f"{pool['provider']} {pool['offer']}"
    lines = []
    for part, cents in without_surcharges(option.cash, problem.tco.surcharges(pool["provider"])).items():
        machine = part == "rental"
        lines.append(
            Item(
                item=title if machine else f"{PART_LINES[part].prefix}{title}",
                kind="rental" if machine else PART_LINES[part].kind,
                quantity=option.nodes,
                billing=option.billing,
                site=str(pool["region"]),
                unit_cost=money(cents) / option.nodes,
                total_cost=money(cents),
                pool=pool["pool"],
                accelerator=pool["accelerator"] if machine else None,
                accelerators=pool["gpus"] * option.nodes if machine else None,
                provider=pool["provider"] if machine else None,
                hours_per_month=round(hours_per_month(row, problem), 9),
                parts=(f"for {row['work']}",),
                **({**_price(price), **_deployment(pool, price)} if machine else {}),
            )
        )
    return lines


def rows_of(scaled: Scaled, pool: int, billing: str) -> list[dict[str, Any]]:
    """Price rows behind a hired option."""
    key = scaled.instance.pools[pool].key
    return [r for r in scaled.prices if r["pool"] == key and r["billing"] == billing]


def hours_per_month(row: dict[str, Any], problem: Problem) -> float:
    """Hours that a job option runs in a month."""
    work = next(w for w in problem.workloads if w.name == row["work"])
    hours = float(row["duration_h"])
    if isinstance(work, Fixed | Serve):
        return hours
    return hours * work.runs.value / (1 if work.runs.per_month else problem.horizon)


def _job_kwh(pool: dict[str, Any], row: dict[str, Any], problem: Problem) -> float:
    work = next(w for w in problem.workloads if w.name == row["work"])
    busy = pool["training_gpu_w"] if work.kind in ("pretrain", "finetune") else pool["serving_gpu_w"]
    extra_w = max(0.0, busy - pool["idle_gpu_w"]) * row["gpus"]
    return float(extra_w * pool["pue"] / 1000 * hours_per_month(row, problem) * problem.horizon)


def _unit_line(pool: dict[str, Any], row: dict[str, Any], node_hours: float, amount: int) -> Item:
    """Compute units that services take of a pool over the horizon; its nodes stand in a line of their own, at no cost."""
    units = node_hours * row["units_per_hour"]
    return Item(
        item=f"{pool['provider']} {pool['offer']}",
        kind="compute_units",
        quantity=round(units, 6),
        unit=row["unit"],
        billing="compute_unit",
        site=str(pool["region"]),
        unit_cost=money(amount) / Decimal(repr(round(units, 6))),
        total_cost=money(amount),
        pool=pool["pool"],
        accelerator=pool["accelerator"],
        provider=pool["provider"],
        **_price(row),
    )


def _price(row: dict[str, Any]) -> dict[str, Any]:
    away = row.get("fallback_share")
    more = (
        {"fallback_share": round(away, 9), "fallback_price_per_hour": f"{row['fallback_price']:.10g}"} if away else {}
    )
    return {
        **more,
        "price_per_hour": f"{row['price']:.10g}",
        "price_currency": row["price_currency"],
        "price_as_of": row["as_of"],
        "price_confidence": row["confidence"],
        "price_source": row["source"],
        "starred": row["confidence"] in LOW_TRUST,
    }


def _deployment(pool: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    """How a machine is had, and the terms of its price where it is rented."""
    rented = pool["kind"] == "rental"
    least = max((row["term_months"] or 0.0) * 730, row["min_hours"] or 0.0)
    return {
        **{name: pool[name] for name in ("deployment_mode", "start_h", "isolation", "operations_h")},
        "granularity_s": (row["granularity_s"] or None) if rented else None,
        "min_term_h": least if rented else None,
    }


def _line(
    pool: dict[str, Any],
    row: dict[str, Any],
    part: str,
    count: int,
    unit: int,
    names: dict[str, int] | None = None,
) -> Item:
    machine = part in ("server", "rental")
    title = f"{pool['provider']} {pool['offer']}" if pool["kind"] == "rental" else str(pool["offer"])
    price = {**_price(row), **_deployment(pool, row)} if machine else {}
    if part == "server":
        price.pop("price_per_hour")
    return Item(
        item=title if machine else f"{PART_LINES[part].prefix}{title}",
        kind=part if machine else PART_LINES[part].kind,
        quantity=count,
        billing=billing_label(row) if machine else billing_of(part, row, billing_label(row)),
        site=str(pool["site"] or pool["region"]),
        unit_cost=money(unit),
        total_cost=money(unit * count),
        power_w=pool["it_w"] * count if part == "server" else None,
        power_limit_w=pool["power_limit_w"] if machine else None,
        pool=pool["pool"],
        accelerator=pool["accelerator"] if machine else None,
        accelerators=pool["gpus"] * count if machine else None,
        provider=pool["provider"] if machine else None,
        quantity_by_period=names,
        from_month=row["start"] if names is not None and row["commit"] and row["levels"] is None else None,
        parts=tuple(pool["parts"]) if part == "server" else (),
        **price,
    )
