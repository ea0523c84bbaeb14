"""Owned machines: used, sold at once or kept; on hand-made and random integers, and through a whole problem."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from decimal import Decimal
from functools import lru_cache
from typing import Any

import pytest

from catalogs.catalog import Catalog
from catalogs.load import load_catalog
from problems.load import ProblemError, load_text
from solver.candidates import build_candidates, reduced
from solver.events import SolveOptions
from solver.instance import Gear, Instance, Quota, Row, Site
from solver.model import build_model
from solver.plan import Result
from solver.scaling import scale
from solver.search import run
from solver.solve import base_dir, solve
from solver.verify import verify
from tests.oracle.brute import TooLargeError, brute_force
from tests.oracle.highs import highs_optimum
from tests.oracle.problems import random_case
from tests.solver.test_rules import instance, own, pool, way


def sold(each: int, most: int = 3, **changes: Any) -> Gear:
    base = Gear("sale", "sale", 0, most, cost=-each, cash=-each, capex=0, monthly=0, carbon=0, it_w=0, facility_w=0)
    return replace(base, **changes)


def stock(machines: int, each: int, **changes: Any) -> Instance:
    """`machines` owned nodes that cost 10 to run, each worth `each` when sold; rent is 100."""
    pools = (pool(site=0, node_limit=machines), pool(key="rented"))
    ways = (way(billing="owned", commit=True, cost=(10,), cash=(10,), capex=0), way(pool=1))
    kinds = tuple(replace(instance().replicas[0], pool=o) for o in range(2))
    base: dict[str, Any] = {
        "pools": pools,
        "capacities": ways,
        "replicas": kinds,
        "sites": (Site("room", None, None),),
        "gear": (sold(each, machines),),
        "rows": (Row("sales", "", None, machines, commit=((0, 1),), gear=((0, 1),)),),
    }
    return instance(**{**base, **changes})


def all_say(inst: Instance) -> int | None:
    found = run(build_model(inst), time_limit_s=20, gap=0.0, workers=2, seed=1)
    best = brute_force(inst)
    assert highs_optimum(inst).objective == found.objective == (None if best is None else best.objective)
    return found.objective


def test_a_machine_is_used_or_sold() -> None:
    assert all_say(stock(1, 80)) == 10  # rent less the sale is 20
    assert all_say(stock(1, 90)) == 10  # a tie
    assert all_say(stock(1, 91)) == 9
    assert all_say(stock(3, 80)) == 10 - 160  # one used, two sold
    assert all_say(stock(3, 91)) == 100 - 273
    assert all_say(stock(0, 80)) == 100


def test_sales_are_a_credit_under_the_total_and_not_under_capex() -> None:
    bought = own(gear=(sold(500, 1),), rows=(Row("sales", "", None, 1, gear=((0, 1),)),))
    assert all_say(bought) == -400
    assert all_say(replace(bought, limit_total=-400)) == -400
    assert all_say(replace(bought, limit_total=-401)) is None
    assert all_say(replace(bought, limit_capex=80)) == -400
    assert all_say(replace(bought, limit_capex=79)) is None
    assert all_say(replace(bought, limit_capex=79, gear=(sold(500, 1, capex=-500),))) == -400
    assert all_say(replace(bought, limit_monthly=9)) is None


def test_no_sale_counts_in_another_objective() -> None:
    assert all_say(replace(stock(1, 500), objective="carbon")) == 7


@pytest.mark.parametrize("seed", range(24))
@pytest.mark.slow
def test_random_sales(seed: int) -> None:
    """Sales beside random small problems: rows over commitments, credits of any size, tight budgets."""
    inst = random_case(seed).instance()
    if inst is None or len(inst.replicas) > 16:
        pytest.skip("no such small problem at this seed")
    rng = random.Random(seed)
    commits = [i for i, c in enumerate(inst.capacities) if c.commit]
    gear, rows = [], []
    for n in range(2):
        most = rng.randrange(1, 4)
        each = rng.randrange(0, 900_000)
        gear.append(sold(each, most, key=f"sale{n}", site=None, capex=-each * rng.randrange(0, 2)))
        used = tuple((i, 1) for i in rng.sample(commits, min(2, len(commits))))
        rows.append(Row("sales", "", None, most, commit=used, gear=((n, 1),)))
    inst = replace(inst, gear=tuple(gear), rows=tuple(rows))
    if seed % 3 == 0:
        inst = replace(inst, limit_total=rng.randrange(-500_000, 5_000_000))
    found = run(build_model(inst), time_limit_s=60, gap=0.0, workers=1, seed=1, patience=1.0)
    assert highs_optimum(inst).objective == found.objective
    try:
        best = brute_force(inst, 30_000)
    except TooLargeError:
        return
    assert found.objective == (None if best is None else best.objective)


# --- problems ------------------------------------------------------------------------------------------

ROOM = {"name": "room", "pue": 1.4, "electricity": "$0.12/kWh"}
STOCK = {"accelerator": "A100-80GB-SXM4", "count": 8, "build": "HGX-A100-4GPU-2U", "site": "room"}
PROBLEM: dict[str, Any] = {
    "workloads": [
        {
            "name": "chat",
            "kind": "serve",
            "model": "mistral-7b",
            "precision": ["bf16"],
            "traffic": {"rate": "4 req/s", "isl": 500, "osl": 100},
        }
    ],
    "sites": [ROOM],
    "owned": [{**STOCK, "may_sell": True, "resale": "$1k"}],
    "limits": {"accelerators": ["A100"], "countries": ["US"]},
    "policy": {"billing": ["owned", "on_demand"]},
}
PROBLEM["sites"] = [{**ROOM, "country": "US"}]


@lru_cache(maxsize=1)
def catalog() -> Catalog:
    return load_catalog()


def solved(**changes: Any) -> tuple[Result, list[str]]:
    """Best plan of the problem with other keys, and what its recheck says."""
    loaded = load_text(json.dumps({**PROBLEM, **changes}), "sales")
    result = solve(loaded, catalog(), SolveOptions(time_limit_s=30, gap=0.0, workers=2, runner_up=False))
    assert result.cost is not None, result.no_plan_because
    return result, verify(result, loaded.problem, catalog())


def sales(result: Result) -> list[tuple[float, Decimal]]:
    return [(i.quantity, i.total_cost) for i in result.items if i.kind == "sale"]


def test_a_machine_too_many_is_sold_and_the_bill_says_so() -> None:
    result, wrong = solved()
    assert wrong == []
    used = [i for i in result.items if i.kind == "server"]
    assert [(i.quantity, i.billing) for i in used] == [(1.0, "owned")]
    assert sales(result) == [(1.0, Decimal("-4000.00"))]
    assert result.cost is not None
    assert result.cost.capex == 0
    assert sum((i.total_cost for i in result.items), Decimal(0)) == result.cost.total


def test_a_high_price_sells_all_and_rents() -> None:
    result, wrong = solved(owned=[{**STOCK, "may_sell": True, "resale": "$70k"}])
    assert wrong == []
    assert sales(result) == [(2.0, Decimal("-560000.00"))]
    assert {i.kind for i in result.items} == {"rental", "sale"}
    assert result.gap == 0.0


def test_without_leave_to_sell_nothing_is_sold() -> None:
    result, wrong = solved(owned=[STOCK])
    assert wrong == []
    assert sales(result) == []


def test_machines_that_may_not_be_used_can_still_be_sold() -> None:
    result, wrong = solved(policy={"billing": ["on_demand"]})
    assert wrong == []
    assert sales(result) == [(2.0, Decimal("-8000.00"))]


def test_two_entries_of_one_stock_are_one_stock() -> None:
    first = {**STOCK, "count": 4, "may_sell": True, "resale": "$1k"}
    result, wrong = solved(owned=[first, {**first, "may_sell": False, "resale": None}])
    assert wrong == []
    assert sales(result) == [(1.0, Decimal("-4000.00"))]  # the one that may be sold, the other is used


def test_credits_are_rounded_down() -> None:
    small = reduced_instance("$1000.00124")
    assert [(g.cash, g.cost, g.capex) for g in small.gear if g.kind == "sale"] == [(-400_000, -400_000, 0)]
    funded = reduced_instance("$1000.00124", {**PROBLEM["policy"], "sales_fund_capex": True})
    assert [g.capex for g in funded.gear if g.kind == "sale"] == [-400_000]


def reduced_instance(resale: str, policy: dict[str, Any] | None = None) -> Instance:
    owned = [{**STOCK, "may_sell": True, "resale": resale}]
    loaded = load_text(json.dumps({**PROBLEM, "owned": owned, "policy": policy or PROBLEM["policy"]}), "sales")
    found = reduced(build_candidates(loaded.problem, catalog(), base_dir(loaded)))
    return scale(found, catalog()).instance


def test_the_recheck_refuses_false_sales() -> None:
    loaded = load_text(json.dumps(PROBLEM), "sales")
    result, _ = solved()
    line = next(i for i in result.items if i.kind == "sale")
    others = [i for i in result.items if i.kind != "sale"]

    def said(**changes: Any) -> str:
        made = result.model_copy(update={"items": (*others, line.model_copy(update=changes))})
        return "; ".join(verify(made, loaded.problem, catalog()))

    assert "12 x A100-80GB-SXM4 used or sold at room, 8 owned" in said(quantity=2.0)
    assert "no price that the problem gives" in said(unit_cost=Decimal("-4000.02"))
    assert "no price that the problem gives" in said(parts=("4 x H100-80GB-SXM5",))
    assert "not told what is sold" in said(parts=())
    kept = load_text(json.dumps({**PROBLEM, "owned": [STOCK]}), "sales").problem
    assert any("no price that the problem gives" in w for w in verify(result, kept, catalog()))


@pytest.mark.parametrize(
    ("owned", "said"),
    [
        ({**STOCK, "may_sell": True}, "needs resale"),
        ({**STOCK, "resale": "$1k"}, "only read with may_sell"),
        ({**STOCK, "may_sell": True, "resale": 7000}, "has no currency"),
    ],
)
def test_faults_of_the_fields_are_named(owned: dict[str, Any], said: str) -> None:
    with pytest.raises(ProblemError, match=said):
        load_text(json.dumps({**PROBLEM, "owned": [owned]}), "sales")


def test_an_owned_stock_has_one_limit_of_nodes() -> None:
    inst = reduced_instance("$1k")
    assert [q.max_nodes for q in inst.quotas if isinstance(q, Quota)] == [2]
    assert [r.high for r in inst.rows if r.rule == "sales"] == [2]
