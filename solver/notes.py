"""What a buyer must know beside the numbers: assumptions made, prices and their age, warnings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from typing import Any

import polars as pl

from catalogs.catalog import Catalog
from problems.calendars import calendar_text
from problems.schema import BareModel, Fixed, Problem, Serve
from solver.bill import Bill
from solver.candidates import Candidates
from solver.candidates.leases import way_name
from solver.candidates.rules import broken_rules, is_large
from solver.candidates.terms import assumption
from solver.curve_notes import curve_notes
from solver.load_notes import load_notes
from solver.plan import Item, PriceUse, WorkloadPlan
from solver.tco_notes import tco_notes


def summary_of_drops() -> pl.Expr:
    """A drop reason without its particulars, so that like reasons count together."""
    return (
        pl.col("reason")
        .str.replace(r"^(memory|speed): .*(GiB|short).*$", "$1: does not fit")
        .str.replace_all(r"\d+(\.\d+)?", "#")
    )


def assumptions(problem: Problem, catalog: Catalog, found: Candidates) -> list[str]:
    """Defaults and conventions that the plan rests on."""
    out = [f"a month has 730 hours; horizon {problem.horizon:g} months; money in {problem.currency}"]
    services = [w for w in problem.workloads if isinstance(w, Serve)]
    for s in services:
        parts = [
            f"precision {'/'.join(s.precision)}",
            f"KV cache {s.kv_precision}",
            f"calendar {calendar_text(s.traffic.calendar)}",
        ]
        if s.slo.ttft is not None or s.slo.tpot is not None:
            parts.append(f"latency at {s.slo.percentile}")
        out.append(f"{s.name}: " + ", ".join(parts))
    out.extend(load_notes(problem, found))
    if any(getattr(w, "model", None) is not None for w in problem.workloads):
        out.append("rates assume a tuned engine; an untuned one may be a factor of two slower")
    for w in problem.workloads:
        if isinstance(getattr(w, "model", None), BareModel):
            out.append(f"{w.name}: * stand-in dense architecture for a model known by its size only")
    out.extend(tco_notes(problem, catalog, found))
    if found.pools.filter(pl.col("site").is_not_null()).height:
        out.extend(curve_notes(problem, catalog, found))
    if found.data and problem.sites and "purchase" in problem.billing_modes:
        out.append(
            "storage on own sites: beside two boxes or more on one network every server has a port on it (NIC, cable, switch"
            " port); systems sold whole and owned machines come with the NIC"
        )
    if any(x.ends is not None and x.ends < problem.horizon for x in problem.leases):
        out.append("leases that end within the horizon are renewed at their price, month by month")
    if "spot" not in problem.billing_modes:
        out.append("spot not considered (policy.billing)")
    elif found.pools.filter("spot").height:
        away = assumption(catalog, "spot_fallback_h")
        told = f"on demand for {away:g} h after each interruption" if away else "no time on demand after interruptions"
        out.append(f"spot: {told} (spot_fallback_h)")
    used = found.prices.filter(pl.col("price_currency") != problem.currency)["price_currency"].unique().sort()
    for currency in used:
        rows = catalog.fx.filter(
            (pl.col("from_currency").is_in([currency, problem.currency]))
            & pl.col("to_currency").is_in([currency, problem.currency])
        )
        if rows.height:
            r = rows.row(0, named=True)
            out.append(
                f"exchange rate: 1 {r['from_currency']} = {r['rate']:g} {r['to_currency']} ({r['as_of'] or 'undated'}, {r['confidence']})"
            )
    out.extend(found.assumed)
    return out


def age_days(as_of: str | None, today: date | None = None) -> int | None:
    """Days since a date written YYYY, YYYY-MM or YYYY-MM-DD (a month counts from its last day, to be fair to it)."""
    if not as_of:
        return None
    parts = [int(p) for p in as_of.split("-")]
    if len(parts) == 3:
        then = date(*parts)
    else:
        year, month = parts[0], parts[1] if len(parts) > 1 else 12
        then = date(year + month // 12, month % 12 + 1, 1)
    return max(0, ((today or date.today()) - then).days)


def price_uses(items: Iterable[Item], currency: str) -> list[PriceUse]:
    """Prices that the plan's lines use, each once; those of gear are in the problem's own `currency`."""
    seen: dict[tuple[str, str], PriceUse] = {}
    for item in items:
        of_gear = item.gear is not None and item.price_confidence is not None and item.unit_cost > 0
        if item.price_currency is None and not of_gear:
            continue
        key = (item.item, item.billing)
        if key not in seen:
            seen[key] = PriceUse(
                item=item.item,
                billing=item.billing,
                price=item.price_per_hour or f"{item.unit_cost:.2f}",
                currency=item.price_currency or currency,
                as_of=item.price_as_of,
                age_days=age_days(item.price_as_of),
                confidence=item.price_confidence or "recalled",
                source=item.price_source or "",
            )
    return list(seen.values())


def warnings_of(
    problem: Problem,
    catalog: Catalog,
    found: Candidates,
    lines: Bill | None,
    workloads: Sequence[WorkloadPlan] | None,
) -> list[str]:
    """Stale or weak prices, practice rules that a chosen machine breaks, weak rates, purchases without a site."""
    out: list[str] = []
    if not problem.sites and problem.policy.billing is not None and "purchase" in problem.policy.billing:
        out.append(
            "purchase is allowed but no site is given: nothing can be bought (add sites: [{name: ..., power: ...}])"
        )
    ways = set(found.capacity["billing"]) if found.capacity.height else set()
    for number, lease in enumerate(problem.leases):
        if way_name(number, lease) not in ways:
            out.append(f"leases[{number}]: {lease.offer} is not allowed by the limits, or serves no workload: given up")
    if lines is not None:
        out.extend(_price_warnings(price_uses(lines.items, problem.currency), catalog))
    if workloads is not None:
        out.extend(_rule_warnings(found, workloads, catalog))
        out.extend(_range_warnings(found, workloads))
        for w in workloads:
            for p in w.placements:
                late = p.duration_h is not None and w.headroom and w.headroom < (p.expected_error or 0.0)
                if late:
                    out.append(
                        f"{w.name}: {w.headroom:.0%} of time to spare before the deadline, less than the rate's expected"
                        f" error of {p.expected_error:.0%}"
                    )
                if p.expected_error is not None and p.expected_error > 0.3:
                    out.append(
                        f"{w.name}: rate on {p.accelerator} is uncertain (expected error {p.expected_error:.0%}); measure before buying"
                    )
    return list(dict.fromkeys(out))


def _price_warnings(prices: Iterable[PriceUse], catalog: Catalog) -> list[str]:
    out = []
    for use in prices:
        days = assumption(catalog, "spot_stale_days" if use.billing == "spot" else "on_demand_stale_days")
        if use.confidence in ("estimate", "recalled"):
            out.append(
                f"price of {use.item} ({use.billing}) is an {use.confidence} price *"
                if use.confidence == "estimate"
                else f"price of {use.item} ({use.billing}) is recalled, not read *"
            )
        if use.age_days is None:
            if use.billing != "owned":
                out.append(f"price of {use.item} ({use.billing}) carries no date")
        elif use.age_days > days:
            out.append(f"price of {use.item} ({use.billing}) is {use.age_days} days old ({use.as_of})")
    return out


def _rule_warnings(found: Candidates, workloads: Sequence[WorkloadPlan], catalog: Catalog) -> list[str]:
    cards = catalog.accelerators.select("accelerator", "memory_gib")
    out: list[str] = []
    for w in workloads:
        if w.kind == "fixed":
            continue
        rows = [{"pool": p.pool, "nodes": p.nodes} for p in w.placements]
        if not rows:
            continue
        params = _params_b(found, w, catalog)
        frame = (
            pl.DataFrame(rows, schema={"pool": pl.String, "nodes": pl.Int64})
            .join(found.pools.rename({"gpus": "node_gpus"}), on="pool", how="inner")
            .join(cards, on="accelerator", how="left")
            .with_columns(large=pl.lit(is_large(params, found.rules)))
        )
        kind = "serving" if w.kind in ("serve", "batch") else "training"
        broken = broken_rules(found.rules, frame, kind, hard=False)
        out.extend(f"{w.name} on {pool}: {text}" for pool, text in zip(frame["pool"], broken, strict=True) if text)
        if kind == "training":
            warn = found.rules["training_warn_nodes"].value
            for p in w.placements:
                pool = found.pools.filter(pl.col("pool") == p.pool)
                if warn < p.nodes < found.rules["training_large_nodes"].value and (pool["network_gbps"][0] or 0) < 400:
                    out.append(f"{w.name}: {p.nodes} nodes on less than 400 Gb/s (training_warn_nodes)")
                if p.nodes > 1 and pool["network_gbps"][0] is None:
                    out.append(f"{w.name} on {p.pool}: network speed not stated by the offer; RDMA is")
    return out


def _range_warnings(found: Candidates, workloads: Sequence[WorkloadPlan]) -> Iterable[str]:
    """What of a chosen rate lies outside the range of what was measured."""
    for w in workloads:
        for p in w.placements:
            frame = found.replicas if w.kind == "serve" else found.options
            if frame.is_empty() or "rate_warning" not in frame.columns:
                continue
            same = (pl.col("work") == w.name) & (pl.col("pool") == p.pool) & (pl.col("precision") == p.precision)
            split = (pl.col("tp") == p.tp) & (pl.col("pp") == p.pp)
            for said in frame.filter(same & split)["rate_warning"].drop_nulls().unique().sort():
                yield f"{w.name}: rate on {p.accelerator} is outside the measured range: {said}"


def _params_b(found: Candidates, w: WorkloadPlan, catalog: Catalog) -> float:
    if found.replicas.is_empty() or "params_total_b" not in found.replicas.columns:
        return 0.0
    mine: Any = found.replicas.filter(pl.col("work") == w.name)["params_total_b"].max()
    return float(mine or 0.0)


__all__ = ["Fixed", "age_days", "assumptions", "price_uses", "summary_of_drops", "warnings_of"]
