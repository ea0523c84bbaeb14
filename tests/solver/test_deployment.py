"""Deployment modes: their table, limits on start, isolation and work, the price of work, the report, the recheck."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from functools import lru_cache
from typing import Any, get_args

import polars as pl
import pytest

from catalogs.catalog import Catalog
from catalogs.errors import UnknownName
from catalogs.importers.market import BARE_METAL
from catalogs.load import load_catalog
from catalogs.query import Where, list_offers
from catalogs.schema_modes import ISOLATIONS
from problems.load import LoadedProblem, ProblemError, load_text
from problems.schema import Deployment
from solver.candidates import build_candidates, reduced
from solver.events import SolveOptions
from solver.explaining.explain_fields import asked_fields, without_fields
from solver.model import build_model
from solver.plan import Item, Result
from solver.report.deployment_text import deployment_rows
from solver.report.messages import Messages
from solver.scaling import scale
from solver.search import run
from solver.solve import base_dir, solve
from solver.verify import verify
from tests.oracle.highs import highs_optimum

CHAT: dict[str, Any] = {
    "name": "chat",
    "kind": "serve",
    "model": "mistral-7b",
    "precision": ["bf16"],
    "traffic": {"rate": "12 req/s", "isl": 500, "osl": 100, "calendar": "office_hours"},
}
TUNE: dict[str, Any] = {
    "name": "tune",
    "kind": "finetune",
    "method": "qlora",
    "model": "mistral-7b",
    "tokens": "20M",
    "runs": "4/mo",
    "deadline": "48h",
}
RENTED: dict[str, Any] = {
    "workloads": [CHAT],
    "limits": {"accelerators": ["A100"]},
    "policy": {"billing": ["on_demand", "reserved"]},
}
BOUGHT: dict[str, Any] = {
    "workloads": [CHAT],
    "sites": [{"name": "room", "pue": 1.4, "electricity": "$0.12/kWh"}],
    "limits": {"accelerators": ["L40S"]},
    "policy": {"billing": ["purchase"]},
}


@lru_cache(maxsize=1)
def catalog() -> Catalog:
    return load_catalog()


def asked(base: dict[str, Any], **changes: Any) -> LoadedProblem:
    """The problem with keys of limits and policy added, or other keys replaced."""
    merged = {k: {**base[k], **v} if isinstance(v, dict) and k in base else v for k, v in changes.items()}
    return load_text(json.dumps({**base, **merged}), "deployment")


def solved(loaded: LoadedProblem, tables: Catalog | None = None) -> Result:
    made = tables or catalog()
    result = solve(loaded, made, SolveOptions(time_limit_s=30, gap=0.0, workers=2, runner_up=False))
    if result.cost is not None:
        assert verify(result, loaded.problem, made) == []
    return result


def machines(result: Result) -> list[Item]:
    return [i for i in result.items if i.kind in ("rental", "server")]


# --- catalogue -----------------------------------------------------------------------------------------


def test_every_mode_has_its_properties() -> None:
    table = catalog().deployment_modes
    assert sorted(table["mode"]) == sorted(get_args(Deployment))
    assert table["source"].null_count() == table["as_of"].null_count() == 0
    strength = dict(zip(table["mode"], (ISOLATIONS.index(i) for i in table["isolation"]), strict=True))
    assert strength["container"] < strength["vm"] < strength["bare_metal"] < strength["on_premises"]


def test_whole_machines_are_bare_metal_in_the_built_in_list() -> None:
    """Names that say bare metal carry that mode, and the other way round for OCI, which says it in every name."""
    offers = catalog().offers
    named = offers.filter(pl.col("offer").str.contains(r"(?i)^bm\.|metal"))
    assert named.height > 10
    assert set(named["deployment_mode"]) == {"bare_metal"}
    oci = offers.filter((pl.col("provider") == "OCI") & ~pl.col("offer").str.starts_with("BM."))
    assert set(oci["deployment_mode"]) == {"vm"}
    for provider, mode in (("RunPod", "container"), ("CoreWeave", "container_cluster"), ("AutoDL", "container")):
        assert set(offers.filter(pl.col("provider") == provider)["deployment_mode"]) == {mode}


def test_imported_names_of_whole_machines_are_known() -> None:
    names = pl.Series(
        ["BM.GPU4.8", "g4dn.metal", "i3.metal-24xl", "gpu-baremetal", "p5.48xlarge", "VM.GPU.A10.1", "metallic"]
    )
    assert names.str.contains(BARE_METAL).to_list() == [True, True, True, True, False, False, False]


def test_offers_are_listed_by_mode() -> None:
    page = list_offers(catalog(), Where(deployment="bare_metal"))
    assert set(page.frame["deployment_mode"]) == {"bare_metal"}
    with pytest.raises(UnknownName, match="did you mean bare_metal"):
        list_offers(catalog(), Where(deployment="bare"))


# --- limits --------------------------------------------------------------------------------------------


def pools(loaded: LoadedProblem) -> tuple[pl.DataFrame, pl.DataFrame]:
    found = build_candidates(loaded.problem, catalog(), base_dir(loaded))
    return found.pools, found.dropped


@pytest.mark.parametrize(
    ("least", "modes"),
    [
        ("shared_host", {"vm", "container", "container_cluster", "bare_metal"}),
        ("dedicated_vm", {"vm", "container_cluster", "bare_metal"}),
        ("single_tenant", {"bare_metal"}),
        ("own", set()),
    ],
)
def test_isolation_is_at_least_what_is_asked_for(least: str, modes: set[str]) -> None:
    base = {**RENTED, "limits": {}}
    kept, dropped = pools(asked(base, limits={"isolation": least}))
    assert set(kept["deployment_mode"]) == modes
    named = dropped["reason"].str.contains("limits.isolation", literal=True).sum()
    assert (named > 0) == (least != "shared_host")


def test_start_counts_delivery_of_what_is_bought_and_lead_times_of_offers() -> None:
    both = {**BOUGHT, "policy": {"billing": ["purchase", "on_demand"]}}
    kept, dropped = pools(asked(both, limits={"start_within": "1d"}))
    assert set(kept["kind"]) == {"rental"}
    assert "takes longer to start than allowed (limits.start_within)" in set(dropped["reason"])
    days = catalog().assumption("bought_lead_time_days")
    slow = 24 * days + 72
    assert set(pools(asked(both, limits={"start_within": f"{slow}h"}))[0]["kind"]) == {"rental", "server"}
    sooner = pools(asked(both, limits={"start_within": f"{slow - 1}h"}))[0]
    assert set(sooner.filter(pl.col("kind") == "server")["deployment_mode"]) <= {"appliance"}  # set up faster
    late = replace(catalog(), offers=catalog().offers.with_columns(lead_time_days=pl.lit(2.0)))
    found = build_candidates(asked(both, limits={"start_within": "1d"}).problem, late, base_dir(asked(both)))
    assert found.pools.is_empty()


def test_owned_machines_run_at_once() -> None:
    owned = [{"accelerator": "A100-80GB-SXM4", "count": 4, "build": "HGX-A100-4GPU-2U", "site": "room"}]
    loaded = asked(
        BOUGHT, owned=owned, limits={"accelerators": ["A100"], "start_within": "1h"}, policy={"billing": ["owned"]}
    )
    result = solved(loaded)
    assert [(i.start_h, i.isolation, i.deployment_mode) for i in machines(result)] == [(0.0, "own", "on_premises")]
    assert next(deployment_rows(result, Messages("en")))[2:5] == ["at once", "own", "owned"]


def test_hosted_platforms_take_fine_tuning_only() -> None:
    """The cheapest offer of a card becomes a hosted platform: jobs go there, services do not."""
    offers = catalog().offers
    cheap = offers.filter(pl.col("offer_id") == solved(asked(RENTED)).items[0].pool)
    assert cheap.height == 1
    mode = pl.when(pl.col("offer_id") == cheap["offer_id"][0]).then(pl.lit("hosted_platform"))
    prices = catalog().prices
    mine = (pl.col("offer_id") == cheap["offer_id"][0]) & (pl.col("billing") == "on_demand")
    nearly_free = pl.when(mine).then(0.01).otherwise("price_per_hour")
    tables = replace(
        catalog(),
        offers=offers.with_columns(deployment_mode=mode.otherwise("deployment_mode")),
        prices=prices.with_columns(price_per_hour=nearly_free),
    )
    result = solved(asked(RENTED, workloads=[CHAT, TUNE]), tables)
    chat, tune = (w.placements for w in result.workloads)
    assert {p.pool for p in tune} == {cheap["offer_id"][0]}
    assert cheap["offer_id"][0] not in {p.pool for p in chat}
    dropped = build_candidates(asked(RENTED).problem, tables, base_dir(asked(RENTED))).dropped
    said = dropped.filter(pl.col("item") == f"chat on {cheap['offer_id'][0]}")["reason"].to_list()
    assert said == ["hosted platform takes fine-tuning only (deployment mode hosted_platform)"]


# --- work on machines ----------------------------------------------------------------------------------


def integers(loaded: LoadedProblem, tables: Catalog | None = None, *, prune: bool = True) -> Any:
    found = reduced(build_candidates(loaded.problem, tables or catalog(), base_dir(loaded)), prune=prune)
    return scale(found, tables or catalog()).instance


def test_work_is_paid_by_the_hour_for_every_node_while_it_runs() -> None:
    loaded = asked(RENTED, workloads=[CHAT, TUNE], policy={"operations_rate": "$80/h"})
    result = solved(loaded)
    line = next(i for i in result.items if i.kind == "operations")
    hours = 0.0
    for i in machines(result):
        share = 1.0
        if i.quantity_by_period is not None:
            share = sum(result.periods[p] for p in i.quantity_by_period) / 730
        if i.hours_per_month is not None:
            share = i.hours_per_month / 730
        hours += i.quantity * share * (i.operations_h or 0.0)
    assert line.quantity == pytest.approx(hours, abs=0.1 + 1e-3)
    assert line.quantity >= hours - 1e-9
    assert line.total_cost == Decimal(repr(line.quantity)) * 80 * 12
    assert line.unit == "h/mo"


@pytest.mark.parametrize("extra", [{}, {"limits": {"operations": "7h/mo"}}, {"policy": {"operations_rate": "$500/h"}}])
def test_work_agrees_with_highs_and_needs_no_pruned_row(extra: dict[str, Any]) -> None:
    """CP-SAT on the reduced problem and HiGHS on the unreduced one have the same optimum."""
    base = {
        **RENTED,
        "limits": {"providers": {"allow": ["RunPod", "Hyperstack", "OCI", "Lambda"]}, "accelerators": ["A100", "H100"]},
    }
    loaded = asked(base, workloads=[CHAT, TUNE], **extra)
    small = integers(loaded)
    found = run(build_model(small), time_limit_s=30, gap=0.0, workers=2, seed=1)
    assert found.objective == highs_optimum(small).objective == highs_optimum(integers(loaded, prune=False)).objective
    assert found.objective is not None


def test_a_limit_of_work_just_holds_and_just_does_not() -> None:
    free = solved(asked(RENTED))
    need = sum(
        i.quantity
        * (i.operations_h or 0)
        * (1 if i.quantity_by_period is None else sum(free.periods[p] for p in i.quantity_by_period) / 730)
        for i in machines(free)
    )
    enough = solved(asked(RENTED, limits={"operations": f"{need + 0.01:.4f}h/mo"}))
    assert enough.objective == free.objective
    use = next(x for x in enough.limits if x.field == "limits.operations")
    assert use.used == pytest.approx(need, abs=0.01)
    assert solved(asked(RENTED, limits={"operations": "0.01h/mo"})).cost is None


def test_work_can_decide_between_modes() -> None:
    """At a high rate of work the mode with least work wins over the cheaper machine."""
    base = {**RENTED, "limits": {"accelerators": ["A100", "H100"]}}
    dear = solved(asked(base, policy={"operations_rate": "$5000/h"}))
    least = catalog().deployment_modes.filter(pl.col("mode") == "container")["operations_h_per_node_month"][0]
    assert {i.operations_h for i in machines(dear)} == {least}


# --- result, report, recheck ---------------------------------------------------------------------------


def test_bought_machines_tell_their_mode_and_the_report_shows_it() -> None:
    result = solved(asked(BOUGHT))
    line = machines(result)[0]
    start = 24 * catalog().assumption("bought_lead_time_days") + 72
    assert (line.deployment_mode, line.start_h, line.isolation) == ("on_premises", start, "own")
    assert (line.granularity_s, line.min_term_h, line.operations_h) == (None, None, 8.0)
    assert next(deployment_rows(result, Messages("en")))[1:] == ["on premises", "87 d", "own", "bought", "-", "8 h/mo"]


def test_commitments_have_their_term_as_the_least() -> None:
    result = solved(asked({**RENTED, "policy": {"billing": ["reserved"]}}))
    assert {i.min_term_h for i in machines(result)} <= {730.0 * 12, 730.0 * 36, 730.0}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"isolation": "own"}, "deployment stated as"),
        ({"start_h": 0.0}, "deployment stated as"),
        ({"operations_h": 0.0}, "deployment stated as"),
        ({"deployment_mode": None}, "deployment stated as"),
    ],
)
def test_the_recheck_reads_the_mode_from_the_catalogue(changes: dict[str, Any], said: str) -> None:
    loaded = asked(RENTED)
    result = solved(loaded)
    items = [i.model_copy(update=changes) if i.kind == "rental" else i for i in result.items]
    assert any(said in w for w in verify(result.model_copy(update={"items": tuple(items)}), loaded.problem, catalog()))


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"isolation": "own"}, "is weaker than own"),
        ({"start_within": "1min"}, "allowed are 0.0166667 h"),
        ({"operations": "0.01h/mo"}, "h of work a month, allowed are 0.01 h"),
    ],
)
def test_the_recheck_holds_plans_to_the_limits(limits: dict[str, str], said: str) -> None:
    result = solved(asked(RENTED))
    problem = asked(RENTED, limits=limits).problem
    assert any(said in w for w in verify(result, problem, catalog()))


def test_the_recheck_reckons_the_work_itself() -> None:
    loaded = asked(RENTED, policy={"operations_rate": "$80/h"})
    result = solved(loaded)
    others = tuple(i for i in result.items if i.kind != "operations")
    line = next(i for i in result.items if i.kind == "operations")
    for items in (others, (*others, line.model_copy(update={"quantity": line.quantity + 1}))):
        said = verify(result.model_copy(update={"items": items}), loaded.problem, catalog())
        assert any("h of work a month are paid" in w for w in said)
    cheap = line.model_copy(update={"total_cost": line.total_cost - 1})
    said = verify(result.model_copy(update={"items": (*others, cheap)}), loaded.problem, catalog())
    assert any("work on machines costs" in w for w in said)


def test_explaining_knows_the_fields() -> None:
    loaded = asked(RENTED, limits={"start_within": "1d", "isolation": "dedicated_vm", "operations": "9h/mo"})
    fields = ["limits.start_within", "limits.isolation", "limits.operations"]
    assert [f for f in asked_fields(loaded.problem) if f in fields] == fields
    cleared = without_fields(loaded.problem, fields).limits
    assert (cleared.start_within, cleared.isolation, cleared.operations) == (None, None, None)


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"start_within": 5}, "has no unit"),
        ({"isolation": "single"}, "did you mean single_tenant"),
        ({"operations": "20h"}, "does not say per what time"),
        ({"deployment": ["hosted"]}, "did you mean hosted_platform"),
    ],
)
def test_faults_of_the_fields_are_named(limits: dict[str, Any], said: str) -> None:
    with pytest.raises(ProblemError, match=said):
        asked(RENTED, limits=limits)


def test_the_rate_of_work_needs_its_hour() -> None:
    with pytest.raises(ProblemError, match="lacks /h"):
        asked(RENTED, policy={"operations_rate": "$80"})
