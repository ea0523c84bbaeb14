"""`verify` is the specification: every way to make a good plan wrong, one at a time, is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from typing import Any

import pytest

from catalogs.catalog import Catalog
from catalogs.load import load_catalog
from problems.load import LoadedProblem, load_text
from problems.schema import Problem
from solver.events import SolveOptions
from solver.plan import Item, Placement, Result, WorkloadPlan
from solver.solve import solve
from solver.verify import verify

SERVE: dict[str, Any] = {
    "name": "chat",
    "kind": "serve",
    "model": "mistral-7b",
    "precision": ["bf16"],
    "traffic": {"rate": "30 req/s", "isl": 500, "osl": 100, "calendar": "day_night"},
}
RENTED: dict[str, Any] = {
    "workloads": [SERVE],
    "limits": {"accelerators": ["L40S", "A100"], "countries": ["US", "DE", "FI", "FR"]},
    "policy": {"billing": ["on_demand", "reserved"]},
}
MIXED: dict[str, Any] = {
    **RENTED,
    "workloads": [
        {
            **SERVE,
            "traffic": {
                "rate": "20 req/s",
                "sizes": [{"isl": 200, "osl": 50, "share": "60%"}, {"isl": 2000, "osl": 200, "share": "40%"}],
            },
        }
    ],
}
BOUGHT: dict[str, Any] = {
    "horizon": "36mo",
    "workloads": [{**SERVE, "traffic": {**SERVE["traffic"], "rate": "20 req/s"}}],
    "sites": [
        {"name": "room", "power": "30kW", "pue": 1.4, "electricity": "$0.12/kWh", "country": "US", "space": "$90/kW/mo"}
    ],
    "limits": {"accelerators": ["L40S"], "budget": {"capex": "$1M"}},
    "policy": {"billing": ["purchase"], "residual_value": "20%"},
}
JOBS: dict[str, Any] = {
    "workloads": [
        {
            "name": "tune",
            "kind": "finetune",
            "method": "qlora",
            "model": "mistral-7b",
            "tokens": "20M",
            "runs": "4/mo",
            "deadline": "48h",
        },
        {"name": "lab", "kind": "fixed", "accelerator": "L40S", "count": 1, "cpus": "4+", "hours": "60h/mo"},
    ],
    "limits": {"accelerators": ["L40S", "A100"]},
    "policy": {"billing": ["on_demand"]},
}
OWNED: dict[str, Any] = {
    "workloads": [{**SERVE, "traffic": {"rate": "4 req/s", "isl": 500, "osl": 100}}],
    "sites": [{"name": "room", "electricity": "$0.12/kWh"}],
    "owned": [{"accelerator": "A100-80GB-SXM4", "count": 4, "build": "HGX-A100-4GPU-2U", "site": "room"}],
    "policy": {"billing": ["owned"]},
}
PLANS = {"rented": RENTED, "mixed": MIXED, "bought": BOUGHT, "jobs": JOBS, "owned": OWNED}


@lru_cache(maxsize=1)
def catalog() -> Catalog:
    return load_catalog()


@lru_cache
def plan(name: str) -> tuple[LoadedProblem, Result]:
    """A proved plan of one of the problems above."""
    loaded = load_text(json.dumps(PLANS[name]), name)
    result = solve(loaded, catalog(), SolveOptions(time_limit_s=30, gap=0.0, workers=2, runner_up=False))
    assert result.cost is not None, result.no_plan_because
    return loaded, result


def refused(result: Result, problem: Problem) -> list[str]:
    return verify(result, problem, catalog())


@pytest.mark.parametrize("name", PLANS)
def test_good_plans_are_accepted(name: str) -> None:
    loaded, result = plan(name)
    assert refused(result, loaded.problem) == []


@pytest.mark.parametrize("name", PLANS)
def test_good_plans_are_accepted_after_being_saved(name: str) -> None:
    loaded, result = plan(name)
    assert refused(Result.model_validate_json(result.model_dump_json()), loaded.problem) == []


# --- changes to a result -------------------------------------------------------------------------------


def rebilled(result: Result, items: list[Item]) -> Result:
    """The result with other lines, and with every sum made to agree with them."""
    assert result.cost is not None
    total = sum((i.total_cost for i in items), Decimal(0))
    kinds: dict[str, Decimal] = {}
    for i in items:
        kinds[i.kind] = kinds.get(i.kind, Decimal(0)) + i.total_cost
    cost = result.cost.model_copy(update={"total": total, "by_category": kinds})
    return result.model_copy(
        update={"items": tuple(items), "cost": cost, "objective": float(total), "bound": float(total)}
    )


def with_line(result: Result, change: Callable[[Item], dict[str, Any] | None], kinds: tuple[str, ...]) -> Result:
    """Change (or drop, on None) the first line of one of the kinds."""
    items, done = [], False
    for item in result.items:
        update = change(item) if item.kind in kinds and not done else {}
        done |= item.kind in kinds
        if update is not None:
            items.append(item.model_copy(update=update))
    assert done
    return rebilled(result, items)


def fewer(item: Item) -> dict[str, Any] | None:
    """One node fewer, in every period."""
    if item.quantity <= 1:
        return None
    left = item.quantity - 1
    periods = item.quantity_by_period and {p: n - 1 for p, n in item.quantity_by_period.items()}
    cards = None if item.accelerators is None else round(item.accelerators * left / item.quantity)
    return {
        "quantity": left,
        "total_cost": item.unit_cost * Decimal(repr(left)),
        "quantity_by_period": periods,
        "accelerators": cards,
    }


def cheaper(item: Item) -> dict[str, Any]:
    return {"unit_cost": item.unit_cost * Decimal("0.9"), "total_cost": item.total_cost * Decimal("0.9")}


def with_placement(result: Result, name: str, change: Callable[[Placement], dict[str, Any]]) -> Result:
    """Change every placement of a workload."""
    plans = [
        w.model_copy(update={"placements": tuple(p.model_copy(update=change(p)) for p in w.placements)})
        if w.name == name
        else w
        for w in result.workloads
    ]
    return result.model_copy(update={"workloads": tuple(plans)})


def loads_up(placement: Placement) -> dict[str, Any]:
    load = {p: tuple(1.5 * x for x in v) for p, v in placement.load_by_bucket_and_period.items()}
    return {"load_by_bucket_and_period": load}


def with_power(result: Result, **update: float) -> Result:
    assert result.power is not None
    return result.model_copy(update={"power": result.power.model_copy(update=update)})


def with_cost(result: Result, **update: Decimal) -> Result:
    assert result.cost is not None
    return result.model_copy(update={"cost": result.cost.model_copy(update=update)})


def without_part(item: Item) -> dict[str, Any]:
    return {"parts": tuple(p for p in item.parts if "RDIMM" not in p and "DDR" not in p)}


def cost_of(result: Result) -> Decimal:
    assert result.cost is not None
    return result.cost.total


MACHINES = ("rental", "server")
RESULTS: list[tuple[str, str, Callable[[Result], Result]]] = [
    ("one rented node fewer", "rented", lambda r: with_line(r, fewer, MACHINES)),
    ("one bought server fewer", "bought", lambda r: with_line(r, fewer, MACHINES)),
    ("one owned server fewer", "owned", lambda r: with_line(r, fewer, MACHINES)),
    ("node of a job left off", "jobs", lambda r: with_line(r, lambda i: None, MACHINES)),
    ("wrong rental price", "rented", lambda r: with_line(r, cheaper, MACHINES)),
    ("wrong price of a job's hours", "jobs", lambda r: with_line(r, cheaper, MACHINES)),
    ("wrong server price", "bought", lambda r: with_line(r, cheaper, MACHINES)),
    ("too little maintenance", "bought", lambda r: with_line(r, cheaper, ("maintenance",))),
    ("no maintenance", "bought", lambda r: with_line(r, lambda i: None, ("maintenance",))),
    ("no idle electricity", "bought", lambda r: with_line(r, lambda i: None, ("energy",))),
    ("no electricity for the work", "bought", lambda r: rebilled(r, [i for i in r.items if i.kind != "energy" or i.pool])),
    ("no space", "bought", lambda r: with_line(r, lambda i: None, ("space",))),
    ("more value left", "bought", lambda r: with_line(r, lambda i: {"unit_cost": 2 * i.unit_cost, "total_cost": 2 * i.total_cost}, ("residual",))),
    ("too little electricity", "bought", lambda r: with_line(r, cheaper, ("energy",))),
    ("unit cost and total disagree", "rented", lambda r: with_line(r, lambda i: {"unit_cost": i.unit_cost / 2}, MACHINES)),
    ("cheaper total", "rented", lambda r: with_cost(r, total=cost_of(r) - 1)),
    ("cheaper category", "rented", lambda r: with_cost(r, by_category={"rental": cost_of(r) - 1})),  # type: ignore[arg-type]
    ("cheaper objective", "rented", lambda r: r.model_copy(update={"objective": (r.objective or 0) * 0.9})),
    ("smaller capex", "bought", lambda r: with_cost(r, capex=Decimal(1))),
    ("bound above the objective", "rented", lambda r: r.model_copy(update={"bound": (r.objective or 0) * 1.1})),
    ("optimal with a gap", "rented", lambda r: r.model_copy(update={"gap": 0.01})),
    ("no bound", "rented", lambda r: r.model_copy(update={"bound": None})),
    ("wrong site power", "bought", lambda r: with_power(r, it_peak_w=1000.0)),
    ("wrong facility power", "bought", lambda r: with_power(r, facility_peak_w=1000.0)),
    ("billing not in the catalogue", "rented", lambda r: with_line(r, lambda i: {"billing": "reserved 7mo"}, MACHINES)),
    ("offer not in the catalogue", "rented", lambda r: with_line(r, lambda i: {"pool": "x/y/z"}, MACHINES)),
    ("other accelerator than the offer's", "rented", lambda r: with_line(r, lambda i: {"accelerator": "T4"}, MACHINES)),
    ("more accelerators than the offer has", "rented", lambda r: with_line(r, lambda i: {"accelerators": 99}, MACHINES)),
    ("unknown server", "bought", lambda r: with_line(r, lambda i: {"parts": ("1 x Nothing",)}, MACHINES)),
    ("server without memory", "bought", lambda r: with_line(r, without_part, ("server",))),
    ("server at another site", "bought", lambda r: with_line(r, lambda i: {"site": "elsewhere"}, ("server",))),
    ("fewer replicas", "rented", lambda r: with_placement(r, "chat", lambda p: {"replicas_by_period": dict.fromkeys(p.replicas_by_period, 0)})),
    ("higher rate than the model's", "rented", lambda r: with_placement(r, "chat", lambda p: {"rates_by_bucket": tuple(2 * x for x in p.rates_by_bucket)})),
    ("other accelerator than allowed", "rented", lambda r: with_placement(r, "chat", lambda p: {"accelerator": "T4"})),
    ("precision not asked for", "rented", lambda r: with_placement(r, "chat", lambda p: {"precision": "int4"})),
    ("layout of another size", "rented", lambda r: with_placement(r, "chat", lambda p: {"accelerators_per_replica": 2 * p.accelerators_per_replica})),
    ("moved to spot", "rented", lambda r: with_placement(r, "chat", lambda p: {"pool": p.pool + "#spot"})),
    ("a size not served", "mixed", lambda r: with_placement(r, "chat", lambda p: {"load_by_bucket_and_period": {k: (v[0], 0.0) for k, v in p.load_by_bucket_and_period.items()}})),
    ("overloaded replica", "mixed", lambda r: with_placement(r, "chat", loads_up)),
    ("missed deadline", "jobs", lambda r: with_placement(r, "tune", lambda p: {"duration_h": 49.0})),
    ("faster than its rate", "jobs", lambda r: with_placement(r, "tune", lambda p: {"duration_h": (p.duration_h or 0) / 2})),
    ("no memory left", "jobs", lambda r: with_placement(r, "tune", lambda p: {"memory_slack_gib": -1.0})),
    ("too few cards for a reservation", "jobs", lambda r: with_placement(r, "lab", lambda p: {"accelerators_per_replica": 0})),
    ("job on held nodes that nobody holds", "jobs", lambda r: with_placement(r, "lab", lambda p: {"billing": "held (on_demand)"})),
    ("job left out", "jobs", lambda r: r.model_copy(update={"workloads": r.workloads[:1]})),
    ("service left out", "rented", lambda r: r.model_copy(update={"workloads": ()})),
    ("hours lost", "rented", lambda r: r.model_copy(update={"periods": {k: v / 2 for k, v in r.periods.items()}})),
    ("lighter traffic", "rented", lambda r: r.model_copy(update={"workloads": tuple(lighter(w) for w in r.workloads)})),
]  # fmt: skip


def lighter(work: WorkloadPlan) -> WorkloadPlan:
    return work.model_copy(update={"demand_by_period": {k: v / 2 for k, v in work.demand_by_period.items()}})


@pytest.mark.parametrize(("what", "name", "change"), RESULTS, ids=[r[0] for r in RESULTS])
def test_a_changed_result_is_refused(what: str, name: str, change: Callable[[Result], Result]) -> None:
    loaded, result = plan(name)
    assert refused(change(result), loaded.problem), what


# --- the same result against a stricter problem --------------------------------------------------------


def deny_used(problem: dict[str, Any], result: Result) -> None:
    problem["limits"]["accelerators"] = {"deny": [p.accelerator for w in result.workloads for p in w.placements]}


def quota_less(problem: dict[str, Any], result: Result) -> None:
    item = next(i for i in result.items if i.kind == "rental")
    problem["limits"]["quota"] = [{"offer": item.pool, "max": int(item.quantity) - 1}]


def budget(part: str, unit: str = "") -> Callable[[dict[str, Any], Result], None]:
    def less(problem: dict[str, Any], result: Result) -> None:
        assert result.cost is not None
        cap = getattr(result.cost, part) - Decimal("0.01")
        problem["limits"]["budget"] = {part: f"${cap:.2f}{unit}"}

    return less


def set_limit(key: str, value: Any) -> Callable[[dict[str, Any], Result], None]:
    return lambda problem, result: problem["limits"].update({key: value})


def set_work(n: int, **update: Any) -> Callable[[dict[str, Any], Result], None]:
    return lambda problem, result: problem["workloads"][n].update(update)


def site_watts(key: str, which: str) -> Callable[[dict[str, Any], Result], None]:
    def less(problem: dict[str, Any], result: Result) -> None:
        assert result.power is not None
        watts = getattr(result.power, which) - 1
        problem["sites"][0].pop("power", None)
        if key == "limits":
            problem["limits"]["power"] = f"{watts:.3f}W"
        else:
            problem["sites"][0][key] = f"{watts:.3f}W"

    return less


STRICTER: list[tuple[str, str, Callable[[dict[str, Any], Result], None]]] = [
    ("forbidden accelerator", "rented", deny_used),
    ("accelerator the work may not use", "rented", set_work(0, accelerators=["H100"])),
    ("forbidden vendor", "rented", set_limit("vendors", {"deny": ["NVIDIA"]})),
    ("another provider", "rented", set_limit("providers", ["AWS-not-this-one"])),
    ("another region", "rented", set_limit("regions", ["nowhere"])),
    ("another country", "rented", set_limit("countries", ["JP"])),
    ("another deployment mode", "rented", set_limit("deployment", ["appliance"])),
    ("compliance tag", "rented", set_limit("compliance", ["no-such-tag"])),
    ("compliance tag of the site", "bought", set_limit("compliance", ["iso27001"])),
    ("quota", "rented", quota_less),
    ("total budget", "rented", budget("total")),
    ("monthly budget", "rented", budget("monthly", "/mo")),
    ("capex budget", "bought", budget("capex")),
    ("power of the site", "bought", site_watts("power", "facility_peak_w")),
    ("IT power of the site", "bought", site_watts("it_power", "it_peak_w")),
    ("power of all sites", "bought", site_watts("limits", "facility_peak_w")),
    ("billing not allowed", "rented", lambda p, r: p["policy"].update({"billing": ["spot", "reserved"]})),
    ("prices not sure enough", "bought", lambda p, r: p["policy"].update({"min_confidence": "measured"})),
    ("n+1", "rented", set_work(0, redundancy="n+1")),
    ("shorter deadline", "jobs", set_work(0, deadline="1min")),
    ("more CPUs", "jobs", set_work(1, cpus="4000+")),
    ("more RAM", "jobs", set_work(1, ram="90TB+")),
    ("more cards", "jobs", set_work(1, count=64)),
    ("more nodes", "jobs", set_work(1, nodes=3)),
    ("a card with more memory", "jobs", set_work(1, accelerator={"memory": "900GB"})),
    ("more runs than hours", "jobs", set_work(0, tokens="900B")),
    ("more traffic", "rented", lambda p, r: p["workloads"][0]["traffic"].update({"rate": "300 req/s"})),
    ("quicker answers", "rented", set_work(0, slo={"tpot": "1ms"})),
    ("longer requests", "rented", lambda p, r: p["workloads"][0]["traffic"].update({"isl": 8000})),
    ("a larger model", "rented", set_work(0, model="llama-3-70b")),
    ("longer horizon", "rented", lambda p, r: p.update({"horizon": "24mo"})),
    ("fewer machines owned", "owned", lambda p, r: p["owned"][0].update({"count": 1})),
]


@pytest.mark.parametrize(("what", "name", "change"), STRICTER, ids=[s[0] for s in STRICTER])
def test_the_plan_is_refused_where_it_breaks_a_limit(
    what: str, name: str, change: Callable[[dict[str, Any], Result], None]
) -> None:
    loaded, result = plan(name)
    problem = json.loads(loaded.text)
    change(problem, result)
    assert refused(result, load_text(json.dumps(problem)).problem), what


@pytest.mark.parametrize("measured", ["9 req/s", "9.1 req/s"])
def test_a_measured_rate_is_held_to_what_was_measured(measured: str) -> None:
    problem = {
        "workloads": [
            {
                "name": "w",
                "kind": "serve",
                "measured": [{"accelerator": "L40S", "rate": measured}],
                "traffic": {"rate": "18 req/s", "isl": 1, "osl": 1},
            }
        ],
        "policy": {"billing": ["on_demand"]},
    }
    result = solve(load_text(json.dumps(problem)), catalog(), SolveOptions(workers=2, runner_up=False))
    problem["workloads"][0]["measured"] = [{"accelerator": "L40S", "rate": "9 req/s"}]  # type: ignore[index]
    assert bool(refused(result, load_text(json.dumps(problem)).problem)) == (measured != "9 req/s")
