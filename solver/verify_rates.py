"""Recompute what every placement claims to do: does it fit memory, does it run at the stated rate, in the stated time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from catalogs.catalog import Catalog
from catalogs.labels import has_accelerator, read_asked, units
from catalogs.models import models_frame, resolve_model
from catalogs.names import match_accelerators
from problems.schema import AcceleratorNeed, Batch, Finetune, Fixed, Pretrain, Problem, Serve
from solver.features.measured import with_measured_offer
from solver.features.memory import with_serving_memory
from solver.features.memory_tables import MemoryTables
from solver.features.power import throughput_at_cap
from solver.features.speed_tables import SpeedTables
from solver.features.throughput import with_batch_rate, with_serving_rate
from solver.plan import Placement, Result, WorkloadPlan

SLACK = 1e-6
AS_MEASURED = "as measured"
"""Precision of a placement whose rate the problem file states (`measured`)."""


def check_rates(result: Result, problem: Problem, catalog: Catalog, base_dir: Path) -> list[str]:
    """Memory, rate and duration of every placement, one at a time, from the physical models alone."""
    wrong: list[str] = []
    plans = {w.name: w for w in result.workloads}
    for work in problem.workloads:
        plan = plans.get(work.name)
        if plan is None:
            continue
        for placement in plan.placements:
            wrong += _allowed(work, placement, catalog, problem.policy.billing)
            if isinstance(work, Serve | Batch):
                wrong += _check_serving(work, placement, catalog, base_dir)
            elif isinstance(work, Pretrain | Finetune):
                wrong += _check_training(work, placement)
            else:
                wrong += _check_fixed(work, placement, plan, catalog)
    return wrong


def _allowed(work: Any, placement: Placement, catalog: Catalog, billing: object) -> list[str]:
    """The workload's own accelerator limits, and spot only for work that takes interruptions."""
    wrong = []
    pick = work.accelerators
    if pick is not None:
        names = {n for a in pick.allow or () for n in match_accelerators(catalog, a)}
        denied = {n for d in pick.deny for n in match_accelerators(catalog, d)}
        if (pick.allow is not None and placement.accelerator not in names) or placement.accelerator in denied:
            wrong.append(f"{work.name}: {placement.accelerator} is not allowed for it")
    takes = work.spot if isinstance(work, Fixed) else work.interruptible
    if placement.pool.endswith("#spot") and not takes:
        wrong.append(f"{work.name}: on spot, which it does not take")
    elif placement.pool.endswith("#spot") and billing is None and not isinstance(work, Fixed):
        wrong.append(f"{work.name}: on spot, which nothing asks for")
    return wrong


def _card(catalog: Catalog, name: str) -> pl.DataFrame:
    return catalog.accelerators.filter(pl.col("accelerator") == name).drop(
        "source", "as_of", "notes", "confidence", strict=False
    )


def _link_class(placement: Placement, catalog: Catalog) -> str | None:
    """Link class of the node: as the offer says, or as the card has it inside an own server."""
    offer = catalog.offers.filter(pl.col("offer_id") == placement.pool.removesuffix("#spot").removesuffix("#units"))
    if offer.height:
        value = offer["interconnect_class"][0]
        return None if value is None else str(value)
    domain = _card(catalog, placement.accelerator)["nvlink_domain"][0] or 1
    return "nvlink" if domain >= 4 else "bridge" if domain >= 2 else "pcie"


def _check_serving(work: Serve | Batch, placement: Placement, catalog: Catalog, base_dir: Path) -> list[str]:
    if isinstance(work, Serve) and work.profile is not None:
        return _check_profile(work, placement, catalog)
    if work.measured and placement.precision == AS_MEASURED:
        return _check_measured(work, placement, catalog)
    if work.model is None or placement.precision not in work.precision:
        return [f"{work.name}: precision {placement.precision} is not allowed"]
    buckets = [(b.isl, b.osl) for b in work.traffic.buckets] if isinstance(work, Serve) else [(work.isl, work.osl)]
    context = float(max(i + o for i, o in buckets))
    if isinstance(work, Serve) and work.context is not None:
        context = max(context, float(work.context))
    slo = work.slo if isinstance(work, Serve) else None
    sizes = pl.DataFrame({"isl": [float(i) for i, _ in buckets], "osl": [float(o) for _, o in buckets]})
    model = models_frame(catalog, [resolve_model(catalog, work.model, base_dir)]).drop(
        "source", "as_of", "notes", "confidence", strict=False
    )
    tables = SpeedTables.of(catalog)
    frame = _card(catalog, placement.accelerator).join(model, how="cross").join(sizes, how="cross")
    frame = frame.with_columns(
        interconnect_class=pl.lit(_link_class(placement, catalog), pl.String),
        tp=pl.lit(placement.tp, pl.Int64),
        pp=pl.lit(placement.pp, pl.Int64),
        precision=pl.lit(placement.precision),
        kv_precision=pl.lit(work.kv_precision),
        engine=pl.lit(work.engine),
        offer=pl.lit(_measured_offer(placement, catalog, tables), pl.String),
        context_tokens=pl.lit(context),
        min_concurrency=pl.lit(1.0),
        ttft_limit_s=pl.lit(slo.ttft if slo else None, pl.Float64),
        tpot_limit_s=pl.lit(slo.tpot if slo else None, pl.Float64),
        percentile=pl.lit(slo.percentile if slo else "mean"),
    )
    left = _left_by_cap(placement, catalog, tables)
    if left is None:
        return [f"{work.name}: no cap curve for {placement.accelerator} at {placement.power_limit_w} W"]
    # Slower cards must meet the limits too: the uncapped model has to be that much quicker.
    frame = frame.with_columns(
        ttft_limit_s=pl.col("ttft_limit_s") * left["prefill"], tpot_limit_s=pl.col("tpot_limit_s") * left["mixed"]
    )
    frame = with_serving_memory(frame, MemoryTables.of(catalog))
    if not frame["fits_memory"].all():
        reason = str(frame["memory_reason"].drop_nulls().first())
        return [f"{work.name}: does not fit on {placement.accelerator}: {reason}"]
    rated = with_serving_rate(frame, tables) if isinstance(work, Serve) else with_batch_rate(frame, tables)
    flight = isinstance(work, Serve) and work.traffic.concurrency is not None
    rates: list[float] = rated["in_flight" if flight else "rate_req_s"].fill_null(0.0).to_list()
    if not flight:
        rates = [r * left["mixed"] for r in rates]
    if isinstance(work, Batch):
        count = placement.accelerators_per_replica / (placement.tp * placement.pp)
        return _check_batch(work, placement, rates[0] * count)
    wrong = []
    for stated, each in zip(placement.rates_by_bucket, rates, strict=True):
        if stated > each * (1 + SLACK):
            wrong.append(
                f"{work.name}: claims {stated:.6g} per replica on {placement.accelerator}, the model gives {each:.6g}"
            )
    if placement.tp * placement.pp != placement.accelerators_per_replica:
        wrong.append(f"{work.name}: tp x pp is not the replica's {placement.accelerators_per_replica} accelerators")
    return wrong


def _measured_offer(placement: Placement, catalog: Catalog, tables: SpeedTables) -> str | None:
    """The placement's offer as a measurement of the user's names it; None where none is tied to it."""
    offer_id = placement.pool.removesuffix("#spot").removesuffix("#units")
    offer = catalog.offers.filter(pl.col("offer_id") == offer_id).select("provider", "offer", pool="offer_id")
    found = with_measured_offer(offer, tables)["measured_offer"].to_list()
    return found[0] if found else None


def _left_by_cap(placement: Placement, catalog: Catalog, tables: SpeedTables) -> dict[str, float] | None:
    """Share of throughput left by the placement's power limit in each phase; None where no curve says."""
    if placement.power_limit_w is None:
        return {"prefill": 1.0, "mixed": 1.0}
    card = _card(catalog, placement.accelerator).select("accelerator", "tdp_w", "min_power_limit_w")
    phases = pl.DataFrame({"phase": ["prefill", "mixed"]})
    frame = card.join(phases, how="cross").with_columns(power_limit_w=pl.lit(placement.power_limit_w))
    found = throughput_at_cap(frame, tables)
    if found["relative_throughput"].null_count():
        return None
    return dict(zip(found["phase"], found["relative_throughput"], strict=True))


def _check_measured(work: Serve | Batch, placement: Placement, catalog: Catalog) -> list[str]:
    """The stated rate is one that the user measured on as many of these cards."""
    size = placement.tp * placement.pp
    known = [
        m.rate
        for m in work.measured
        if m.accelerators == size and placement.accelerator in match_accelerators(catalog, m.accelerator)
    ]
    if not known:
        return [f"{work.name}: no measurement for {size} x {placement.accelerator}"]
    if isinstance(work, Batch):
        return _check_batch(work, placement, max(known) * placement.accelerators_per_replica / size)
    claimed = max(placement.rates_by_bucket)
    if claimed > max(known) * (1 + SLACK):
        return [f"{work.name}: claims {claimed:.6g} on {placement.accelerator}, measured were {max(known):.6g}"]
    return []


def _check_profile(work: Serve, placement: Placement, catalog: Catalog) -> list[str]:
    """No stated rate is above the user's own for that machine and size; rows of the offer go before those of the card."""
    rows = catalog.user_rates.filter(
        (pl.col("profile") == work.profile) & (pl.col("accelerator") == placement.accelerator)
    )
    offer_id = placement.pool.removesuffix("#spot").removesuffix("#units")
    for name in (offer_id, placement.offer, placement.offer.split("/", 1)[-1], "*"):
        named = rows.filter(pl.col("offer") == name)
        if named.height:
            break
    known = {
        (r["isl"], r["osl"]): r["rate_req_s"]
        for r in named.filter(pl.col("accelerators") == placement.accelerators_per_replica).iter_rows(named=True)
    }
    wrong = []
    for bucket, stated in zip(work.traffic.buckets, placement.rates_by_bucket, strict=True):
        most = known.get((round(bucket.isl), round(bucket.osl)), 0.0)
        if stated > most * (1 + SLACK):
            wrong.append(
                f"{work.name}: claims {stated:.6g} requests/s of {bucket.isl:g}/{bucket.osl:g} tokens on {placement.offer}, "
                f"profile {work.profile} has {most:.6g}"
            )
    return wrong


def _check_batch(work: Batch, placement: Placement, rate: float) -> list[str]:
    if placement.rate > rate * (1 + SLACK):
        return [f"{work.name}: claims {placement.rate:.6g} requests/s, the model gives {rate:.6g}"]
    least = work.requests / placement.rate / 3600
    if (placement.duration_h or 0) < least * (1 - SLACK):
        return [f"{work.name}: claims {placement.duration_h} h, the rate needs {least:.4f} h"]
    return []


def _check_training(work: Pretrain | Finetune, placement: Placement) -> list[str]:
    """Time is at least tokens over the stated rate, and the stated memory leaves the stated slack."""
    wrong = []
    least = work.tokens / placement.rate / 3600
    if (placement.duration_h or 0) < least * (1 - SLACK):
        wrong.append(f"{work.name}: claims {placement.duration_h} h, its rate needs {least:.4f} h")
    if placement.memory_slack_gib is None or placement.memory_slack_gib < 0:
        wrong.append(f"{work.name}: does not fit the memory of {placement.accelerator}")
    if placement.accelerators_per_replica % (placement.tp * placement.pp):
        wrong.append(f"{work.name}: {placement.accelerators_per_replica} accelerators are no multiple of tp x pp")
    return wrong


def _check_fixed(work: Fixed, placement: Placement, plan: WorkloadPlan, catalog: Catalog) -> list[str]:
    """The machine has the card, CPUs and RAM asked for, on as many nodes."""
    wrong = []
    need = work.accelerator
    offer = catalog.offers.filter(pl.col("offer_id") == placement.pool.removesuffix("#spot").removesuffix("#units"))
    counted = True
    if isinstance(need, AcceleratorNeed):
        card = _card(catalog, placement.accelerator).row(0, named=True)
        if (card["memory_gb_nominal"] or 0) * 1e9 < need.memory * (1 - 1e-9):
            wrong.append(f"{work.name}: {placement.accelerator} has too little memory")
    else:
        labels = [need] if isinstance(need, str) else list(need)
        counted = all(read_asked(label).count is None and not read_asked(label).nothing for label in labels)
        machine = (
            offer.select("accelerator", "label", units=units())
            if offer.height
            else pl.DataFrame(
                {"accelerator": [placement.accelerator], "label": [None], "units": [float(work.count)]},
                schema_overrides={"label": pl.String},
            )
        )
        if not any(machine.select(has_accelerator(catalog, label, work.count)).item() for label in labels):
            wrong.append(f"{work.name}: {placement.accelerator} is not the accelerator asked for")
    least = work.count * work.nodes if counted else 0
    if placement.nodes < work.nodes or placement.accelerators_per_replica < least:
        wrong.append(f"{work.name}: fewer nodes or accelerators than asked for")
    if offer.height:
        row = offer.row(0, named=True)
        if work.cpus is not None and (row["vcpus"] or 0) < work.cpus:
            wrong.append(f"{work.name}: {placement.offer} has too few CPUs")
        if work.ram is not None and (row["ram_gib"] or 0) * 2**30 < work.ram * (1 - 1e-9):
            wrong.append(f"{work.name}: {placement.offer} has too little RAM")
    return wrong
