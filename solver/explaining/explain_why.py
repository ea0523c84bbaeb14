"""Why not something else: the best plan that uses a named thing, beside the best plan of all."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from functools import partial

import polars as pl

from catalogs.catalog import Catalog
from catalogs.names import match_accelerators
from solver.candidates import Candidates, reduced
from solver.constraints import total
from solver.explain import dropped_of
from solver.explaining.explain_plan import Solved
from solver.explaining.explain_points import Dropped, WhyNot
from solver.instance import Instance
from solver.model import PlanModel, build_model
from solver.plan import Status
from solver.scaling import scale
from solver.whatif.sweep_points import plan_text
from solver.whatif.vary import BadRequest


def named_pools(catalog: Catalog, pools: pl.DataFrame, name: str) -> pl.Expr:
    """Pools that a name means: an accelerator, a provider, an offer, a region or a site.

    Raises
    ------
    BadRequest
        Where the catalogue knows none of these by that name.
    """
    low = name.lower()
    cards = match_accelerators(catalog, name)
    offers = catalog.offers
    known = (
        bool(cards)
        or (offers["provider"].str.to_lowercase() == low).any()
        or ((offers["offer"] == name) | (offers["offer_id"] == name)).any()
        or (pools["pool"] == name).any()
    )
    if not known:
        raise BadRequest(f"--why-not {name}: no accelerator, provider or offer of that name in the catalogue")
    return (
        pl.col("accelerator").is_in(list(cards))
        | (pl.col("provider").str.to_lowercase() == low)
        | (pl.col("offer") == name)
        | (pl.col("pool").str.replace("#(spot|units)$", "") == name)
    ).fill_null(False)


def why_not(at: Solved, name: str) -> WhyNot:
    """Best plan that uses what `name` means on at least one node, beside the best plan of all."""
    catalog, everything = at.study.catalog, at.everything
    mask = named_pools(catalog, everything.pools, name)
    names = everything.pools.filter(mask)["pool"]
    mine_already = {i.pool for i in at.result.items if i.kind in ("rental", "server")} & set(names)
    if mine_already and at.result.cost is not None:
        zero = Decimal(0)
        plan, total_now = plan_text(at.result), at.result.cost.total
        proved = at.found.status is Status.OPTIMAL
        return WhyNot(
            name=name,
            possible=True,
            total=total_now,
            difference=zero,
            share=0.0,
            plan=plan,
            proved=proved,
            result=at.result,
        )
    small = _both(everything, names)
    wanted = set(small.pools.filter(pl.col("pool").is_in(names.implode()))["pool"])
    reasons = _reasons(everything, catalog, name)
    if not wanted or (small.unserved and not small.problem.weighed):
        return WhyNot(name=name, possible=False, reasons=reasons)
    scaled = at.with_floors(scale(small, catalog))
    found = at.study.best(scaled.instance, partial(_using, wanted), stop=at.stop)
    if found.values is None:
        return WhyNot(name=name, possible=False, reasons=reasons, proved=found.status is Status.INFEASIBLE)
    result = at.study.answer(at.study.loaded, catalog, small, scaled, found)
    assert result.cost is not None
    assert at.result.cost is not None
    mine, theirs = at.result.cost.by_category, result.cost.by_category
    difference = result.cost.total - at.result.cost.total
    return WhyNot(
        name=name,
        possible=True,
        total=result.cost.total,
        difference=difference,
        share=None if at.result.cost.total == 0 else round(float(difference / at.result.cost.total), 6),
        by_category={
            k: theirs.get(k, Decimal(0)) - mine.get(k, Decimal(0))
            for k in sorted({*mine, *theirs})
            if theirs.get(k, Decimal(0)) != mine.get(k, Decimal(0))
        },
        plan=plan_text(result),
        proved=found.status is Status.OPTIMAL,
        result=result,
    )


def _using(wanted: set[str], inst: Instance) -> PlanModel:
    """Model of an instance whose plans put work on some pools [keys]."""
    built = build_model(inst)
    var = built.context.variables
    # used[o] may be 1 without any node of o: it takes a node to count.
    nodes = [var.commit[i] for i, c in enumerate(inst.capacities) if c.commit and inst.pools[c.pool].key in wanted]
    nodes += [x for (i, _), x in var.hourly.items() if inst.pools[inst.capacities[i].pool].key in wanted]
    nodes += [var.chosen[q] for q, o in enumerate(inst.options) if not o.pooled and inst.pools[o.pool].key in wanted]
    busy = [x for (k, _), x in var.replicas.items() if inst.pools[inst.replicas[k].pool].key in wanted]
    busy += [var.chosen[q] for q, o in enumerate(inst.options) if inst.pools[o.pool].key in wanted]
    for some in ([v for o, v in var.used.items() if inst.pools[o].key in wanted], nodes, busy):
        built.model.add(total(some) >= 1)
    return built


def _both(found: Candidates, names: pl.Series) -> Candidates:
    """Candidates with the named pools reduced among themselves, so that none falls to a pool of another name."""
    inside = reduced(_only(found, pl.col("pool").is_in(names.implode())))
    outside = reduced(_only(found, ~pl.col("pool").is_in(names.implode())))

    def joined(a: pl.DataFrame, b: pl.DataFrame) -> pl.DataFrame:
        return b if a.is_empty() else a if b.is_empty() else pl.concat([a, b], how="diagonal_relaxed")

    unserved = tuple(w for w in inside.unserved if w in outside.unserved)
    return replace(
        outside,
        pools=joined(outside.pools, inside.pools),
        capacity=joined(outside.capacity, inside.capacity),
        replicas=joined(outside.replicas, inside.replicas),
        options=joined(outside.options, inside.options),
        unserved=unserved,
    )


def _only(found: Candidates, keep: pl.Expr) -> Candidates:
    def rest(frame: pl.DataFrame) -> pl.DataFrame:
        return frame if frame.is_empty() else frame.filter(keep)

    return replace(
        found,
        pools=rest(found.pools),
        capacity=rest(found.capacity),
        replicas=rest(found.replicas),
        options=rest(found.options),
    )


def _reasons(found: Candidates, catalog: Catalog, name: str) -> tuple[Dropped, ...]:
    """Why candidates of that name were dropped."""
    cards = match_accelerators(catalog, name)
    offers = catalog.offers.filter(
        pl.col("accelerator").is_in(list(cards))
        | (pl.col("provider").str.to_lowercase() == name.lower())
        | (pl.col("offer") == name)
    )["offer_id"]
    item = pl.col("item")
    after = item.str.split(" on ").list.last().str.replace("#(spot|units)$", "")
    mine = after.is_in([*offers, *cards]) | pl.any_horizontal(
        pl.lit(False), *(item.str.contains(rf"(^|[ /]){re.escape(card)}([ /@]|$)") for card in cards)
    )
    return dropped_of(replace(found, dropped=found.dropped.filter(mine)))[:6]
