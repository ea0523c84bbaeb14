"""Solution values -> where each class of data lies, with what it asks of its tier and what leaves its place."""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl

from catalogs.catalog import Catalog
from solver.candidates import Candidates
from solver.candidates.storage_keys import drives_key, master_key, work_key
from solver.candidates.storage_needs import DataNeed
from solver.candidates.storage_tiers import Tier, cloud_place, site_place, storage_tiers
from solver.plan import StoredData
from solver.scaling import Scaled
from solver.search import Values

ON_NODES = "drives of the nodes"


def nowhere_to_keep(found: Candidates, scaled: Scaled) -> list[str]:
    """Classes of data that no tier at all can hold: too fast for what is known, or not allowed at any place."""
    keys = scaled.gear["key"].to_list()
    return [
        f"{need.key}: no storage at an allowed place is known to hold it at the speed asked for"
        for need in found.data
        if not any(key.startswith(f"data {need.key} on ") for key in keys)
    ]


def without_storage(found: Candidates, catalog: Catalog) -> list[str]:
    """Warnings of providers whose machines could be had, but whose storage, or its speed, the catalogue does not know."""
    needs = [n for n in found.data if n.work is not None]
    if not needs:
        return []
    tiers = storage_tiers(found.problem, catalog)
    asked = [(n.read_gb_s > 0 or n.token_bytes > 0, n.write_gb_s > 0, n.iops > 0) for n in needs]
    told = {t.place for t in tiers if any(t.serves(read=r, write=w, iops=i) for r, w, i in asked)}
    have = {t.place for t in tiers}
    rented = found.pools.filter(pl.col("site").is_null())["provider"].unique().sort()
    warnings = []
    for what, missing in (
        ("storage", [p for p in rented if cloud_place(p) not in have]),
        ("speed of storage", [p for p in rented if cloud_place(p) in have - told]),
    ):
        if missing:
            warnings.append(
                f"no {what} known at {', '.join(missing)}: "
                "machines there only with data sent from or to other places, or on their drives"
            )
    return warnings


@dataclass
class _Run:
    """Where a workload runs in the plan, and how fast it trains [tokens/s]."""

    places: set[str] = field(default_factory=set)
    tokens_per_s: float = 0.0


def stored_data(found: Candidates, catalog: Catalog, scaled: Scaled, values: Values) -> tuple[StoredData, ...]:
    """Every copy of every class of data in a plan, in the order of the problem, masters behind what is worked on."""
    if not found.data:
        return ()
    keys = scaled.gear["key"].to_list()
    held = {keys[g] for g, count in values.gear.items() if count}
    tiers = storage_tiers(found.problem, catalog)
    runs = _runs(scaled, values)
    out: list[StoredData] = []
    for need in found.data:
        run = runs.get(need.work or "", _Run())
        masters = [t for t in tiers if master_key(need, t) in held]
        out += [_on_tier(need, t, run, bool(masters)) for t in tiers if work_key(need, t) in held]
        out += [
            _on_nodes(need, place, run, bool(masters))
            for place in sorted(run.places)
            if drives_key(need, place) in held
        ]
        at = {m for copy in out if copy.name == need.key for m in (copy.place,)}
        out += [_master(need, t, at) for t in masters]
    return tuple(out)


def _runs(scaled: Scaled, values: Values) -> dict[str, _Run]:
    inst = scaled.instance
    pools = scaled.pools.to_dicts()

    def place(pool: int) -> str:
        row = pools[pool]
        return cloud_place(row["provider"]) if row["site"] is None else site_place(row["site"])

    runs: dict[str, _Run] = {}
    rows = scaled.options.to_dicts() if inst.options else []
    for q, option in enumerate(inst.options):
        if values.chosen[q]:
            run = runs.setdefault(inst.jobs[option.work], _Run())
            run.places.add(place(option.pool))
            run.tokens_per_s = rows[q]["rate"] if rows[q]["rate_unit"] == "tokens/s" else 0.0
    for (k, _), count in values.replicas.items():
        if count:
            replica = inst.replicas[k]
            runs.setdefault(inst.services[replica.work].name, _Run()).places.add(place(replica.pool))
    return runs


def _asked(need: DataNeed, run: _Run, staged: bool) -> dict[str, float]:
    return {
        "size_tb": need.size_tb,
        "read_gb_s": max(need.read_gb_s, run.tokens_per_s * need.token_bytes / 1e9),
        "write_gb_s": need.write_gb_s + (need.stage_gb_s if staged else 0.0),
        "iops": need.iops,
    }


def _on_tier(need: DataNeed, tier: Tier, run: _Run, staged: bool) -> StoredData:
    away = run.places - {tier.place}
    # Data that the work sends leaves each of its places; what it reads is sent to each of them.
    sent = need.moved_tb * len(away) if need.sender != "nobody" else 0.0
    return StoredData(
        name=need.key,
        workload=need.work,
        data_class=need.kind,
        role="working" if staged else "only",
        tier=tier.name,
        place=tier.place_name,
        gear=tier.key,
        **_asked(need, run, staged),
        staging_h=need.stage_h if staged else None,
        egress_tb_month=sent,
    )


def _on_nodes(need: DataNeed, place: str, run: _Run, staged: bool) -> StoredData:
    return StoredData(
        name=need.key,
        workload=need.work,
        data_class=need.kind,
        role="working" if staged else "only",
        tier=ON_NODES,
        place=place.split(" ", 1)[1],
        gear=None,
        **_asked(need, run, staged),
        staging_h=need.stage_h if staged else None,
    )


def _master(need: DataNeed, tier: Tier, at: set[str]) -> StoredData:
    return StoredData(
        name=need.key,
        workload=need.work,
        data_class=need.kind,
        role="master",
        tier=tier.name,
        place=tier.place_name,
        gear=tier.key,
        size_tb=need.size_tb,
        read_gb_s=need.stage_gb_s,
        write_gb_s=0.0,
        iops=0.0,
        egress_tb_month=0.0 if at <= {tier.place_name} else need.staged_tb,
    )
