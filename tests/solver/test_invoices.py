"""One invoice per billing mode, worked out by hand: catalogue row, pool, plan and bill to the cent, and accepted by verify.

Prices stand in small catalogues of their own; months have 730 hours, also in leap years. `100 req/s` of an accelerator that
does 1 req/s are 100 replicas of it.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from catalogs.catalog import Catalog
from catalogs.load import load_catalog
from problems.load import LoadedProblem, load_text
from solver.events import SolveOptions
from solver.plan import Item, Result
from solver.solve import solve
from solver.verify import verify

OFFERS = (
    "offer_id,provider,offer,deployment_mode,accelerator,accelerator_count,vcpus,ram_gib,rdma,interconnect_class,country,"
    "region,doubtful,source,confidence\n"
)
PRICES = (
    "offer_id,billing,term_months,upfront_share,price_per_hour,currency,min_hours,granularity_s,interruption_per_month,"
    "source,confidence\n"
)
UNITS = "provider,accelerator,unit,units_per_accelerator_hour,price_per_unit,currency,min_hours,granularity_s,source,confidence\n"
BLOCKS = "provider,nodes,max_hours,long_hours,long_step_hours,source,confidence\n"
WORK_DAY = {"hours": {"mon-fri": {"8-18": "100%"}}}
WORK_H = 730 * 50 / 168  # hours of a month in WORK_DAY


def price(
    billing: str,
    amount: float,
    *,
    term: float = 0,
    upfront: float = 0,
    least: float = 0,
    step: float = 1,
    taken: str = "",
    offer: str = "one",
) -> str:
    return f"{offer},{billing},{term},{upfront},{amount},USD,{least},{step},{taken},s,listed\n"


def catalog_of(folder: Path, *prices: str, gpus: int = 1, **tables: str) -> Catalog:
    """The embedded catalogue with offers `one` and `two` (another region) of provider N: nodes of L40S."""
    rows = [f"{name},N,{name},vm,L40S,{gpus},64,512,false,pcie,DE,{place},false,s,listed\n" for name, place in PLACES]
    (folder / "offers.csv").write_text(OFFERS + "".join(rows))
    (folder / "prices.csv").write_text(PRICES + "".join(prices))
    for name, text in tables.items():
        (folder / f"{name}.csv").write_text(text)
    return load_catalog([folder])


PLACES = (("one", "here"), ("two", "there"))


def service(nodes: float = 1, calendar: Any = "flat", **more: Any) -> dict[str, Any]:
    traffic = {"rate": f"{nodes:g} req/s", "isl": 100, "osl": 100, "calendar": calendar, **more.pop("traffic", {})}
    rates = [{"accelerator": "L40S", "accelerators": 1, "rate": "1 req/s"}]
    return {"name": "web", "kind": "serve", "measured": rates, "traffic": traffic, **more}


def batch(seconds: float, runs: Any = 1, deadline: str = "700h", **more: Any) -> dict[str, Any]:
    """A job of so many seconds on one L40S."""
    rates = [{"accelerator": "L40S", "accelerators": 1, "rate": "1 req/s"}]
    work = {"name": "nightly", "kind": "batch", "measured": rates, "requests": seconds, "isl": 100, "osl": 100}
    return {**work, "runs": runs, "deadline": deadline, **more}


def problem(work: dict[str, Any], horizon: str = "12mo", **more: Any) -> LoadedProblem:
    rules = {"serving_nvme_tb": "off", "serving_ram_ratio": "off", "cores_per_gpu": "off"}
    policy = {"rules": rules, **more.pop("policy", {})}
    whole = {"horizon": horizon, "workloads": [work], "limits": {"providers": ["N"]}, "policy": policy, **more}
    return load_text(json.dumps(whole), "invoice")


def plan(loaded: LoadedProblem, catalog: Catalog) -> Result:
    """The proved plan, accepted by verify."""
    result = solve(loaded, catalog, SolveOptions(time_limit_s=30, gap=0.0, workers=2, runner_up=False))
    assert result.cost is not None, result.no_plan_because
    assert result.status == "optimal"
    assert verify(result, loaded.problem, catalog) == []
    return result


def total(result: Result) -> float:
    assert result.cost is not None
    return float(result.cost.total)


def line(result: Result, kind: str = "rental") -> Item:
    (item,) = [i for i in result.items if i.kind == kind]
    return item


# --- on demand --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "least", "amount"),
    [
        (1, 0, 30.00),  # 5,000 s at 0.001 $/s are 5 $; six runs
        (60, 0, 30.24),  # 84 minutes of 6 cents
        (3600, 0, 43.20),  # 2 hours of 3.60 $
        (1, 4, 86.40),  # at least 4 hours
        (86400, 0, 518.40),  # a day
    ],
)
def test_on_demand_runs_are_billed_by_second_minute_or_hour_with_a_minimum(
    tmp_path: Path, step: float, least: float, amount: float
) -> None:
    catalog = catalog_of(tmp_path, price("on_demand", 3.6, step=step, least=least))
    assert total(plan(problem(batch(5000, "2/mo"), "3mo"), catalog)) == amount


def test_on_demand_nodes_of_a_service_are_billed_while_there_is_traffic(tmp_path: Path) -> None:
    """Three nodes at 2 $ through 50 h of the week, 217.26 h a month: 434.53 $ each; without traffic none is held."""
    catalog = catalog_of(tmp_path, price("on_demand", 2.0))
    result = plan(problem(service(3, WORK_DAY), "1mo"), catalog)
    assert total(result) == 3 * 434.53
    assert line(result).quantity_by_period == {"busy": 3}


def test_nodes_billed_by_the_day_pay_every_stretch_as_whole_days(tmp_path: Path) -> None:
    """Five stretches of 10 h are five days, 120 h of the week's 168."""
    catalog = catalog_of(tmp_path, price("on_demand", 2.0, step=86400))
    result = plan(problem(service(3, WORK_DAY), "1mo"), catalog)
    assert total(result) == pytest.approx(3 * 2 * 730 * 120 / 168, abs=0.03) == 3128.58


def test_a_stretch_over_two_load_levels_is_one(tmp_path: Path) -> None:
    """One node from 8 to 22, a second until 18: a day each, five times a week. By level it would be 14 h more each time."""
    levels = {"hours": {"mon-fri": {"8-18": "100%", "18-22": "50%"}}}
    catalog = catalog_of(tmp_path, price("on_demand", 2.0, step=86400))
    result = plan(problem(service(2, levels), "1mo"), catalog)
    assert total(result) == pytest.approx(2 * 2 * 730 * 120 / 168, abs=0.02)
    assert all(next(iter(i.quantity_by_period or {})) == "busy" for i in result.items)


def test_a_node_that_never_stops_is_billed_for_its_hours_alone(tmp_path: Path) -> None:
    catalog = catalog_of(tmp_path, price("on_demand", 2.0, step=86400, least=48))
    always = {"hours": {"daily": {"0-8": "100%", "8-24": "50%"}}}
    assert total(plan(problem(service(1, always), "2mo"), catalog)) == 2 * 730 * 2.0


# --- commitments ------------------------------------------------------------------------------------------


def test_monthly_subscription_is_paid_for_the_months_held(tmp_path: Path) -> None:
    catalog = catalog_of(tmp_path, price("subscription", 1.5, term=1))
    assert total(plan(problem(service(2), "3mo"), catalog)) == 2 * 3 * 730 * 1.5
    steps = {"stages": [{"from": "0mo", "scale": "100%"}, {"from": "2mo", "scale": "50%"}]}
    result = plan(problem(service(2, traffic=steps), "6mo"), catalog)
    assert total(result) == (2 * 2 + 1 * 4) * 730 * 1.5  # a second node for two months
    assert result.cost is not None
    assert float(result.cost.monthly) == 2 * 730 * 1.5


@pytest.mark.parametrize(("pro_rate", "months"), [(False, 24), (True, 18)])
def test_annual_subscription_beyond_the_horizon_counts_in_full_or_pro_rated(
    tmp_path: Path, pro_rate: bool, months: int
) -> None:
    catalog = catalog_of(tmp_path, price("subscription", 1.2, term=12))
    loaded = problem(service(1), "18mo", policy={"pro_rate_commitments": pro_rate})
    assert total(plan(loaded, catalog)) == pytest.approx(months * 730 * 1.2)


@pytest.mark.parametrize(("share", "up_front", "monthly"), [(0, 0, 584), (0.5, 3504, 292), (1, 7008, 0)])
def test_reserved_year_with_no_partial_and_full_upfront(
    tmp_path: Path, share: float, up_front: float, monthly: float
) -> None:
    """0.80 $/h x 730 h x 12 months = 7,008 $."""
    catalog = catalog_of(tmp_path, price("reserved", 0.8, term=12, upfront=share))
    cost = plan(problem(service(1)), catalog).cost
    assert cost is not None
    assert (float(cost.total), float(cost.capex), float(cost.monthly)) == (7008, up_front, monthly)


@pytest.mark.parametrize(("pro_rate", "amount"), [(False, 36 * 730 * 0.5), (True, 12 * 730 * 0.5)])
def test_three_year_plan_for_one_year(tmp_path: Path, pro_rate: bool, amount: float) -> None:
    catalog = catalog_of(tmp_path, price("reserved", 0.5, term=36))
    loaded = problem(service(1), policy={"pro_rate_commitments": pro_rate})
    assert total(plan(loaded, catalog)) == pytest.approx(amount)


def test_committed_use_discount(tmp_path: Path) -> None:
    """37 % off 2 $/h for a year of commitment, where the list has no price for it: 1.26 $/h."""
    discounts = (
        "provider,item,billing,term_months,role,discount,source,confidence\nN,CUD,reserved,12,working,0.37,s,listed\n"
    )
    catalog = catalog_of(tmp_path, price("on_demand", 2.0), discounts=discounts)
    result = plan(problem(service(1)), catalog)
    assert total(result) == pytest.approx(12 * 730 * 1.26)
    assert line(result).starred is False or line(result).price_confidence == "derived"


# --- capacity blocks --------------------------------------------------------------------------------------

SHAPE = BLOCKS + "N,1;2;4,1000,336,168,s,listed\n"


def block_plan(folder: Path, work: dict[str, Any], **more: Any) -> Result:
    catalog = catalog_of(folder, price("capacity_block", 10.0, least=24, step=86400), capacity_blocks=SHAPE)
    return plan(problem(work, "3mo", **more), catalog)


def test_capacity_blocks_come_in_days(tmp_path: Path) -> None:
    result = block_plan(tmp_path, batch(30 * 3600, "1/mo"))
    assert total(result) == 3 * 48 * 10.0  # 30 h are two days
    assert block_plan(tmp_path, batch(3600)).cost.total == 24 * 10  # type: ignore[union-attr]


def test_capacity_blocks_come_in_numbers_of_nodes(tmp_path: Path) -> None:
    """100 h of work in 40 h: three nodes would do, blocks have 1, 2 or 4; four nodes take 25 h, two days."""
    result = block_plan(tmp_path, batch(100 * 3600, deadline="40h"))
    assert (line(result).quantity, total(result)) == (4, 4 * 48 * 10.0)


def test_long_capacity_blocks_come_in_weeks_and_are_due_at_once(tmp_path: Path) -> None:
    """400 h are 17 days; above 14 days blocks come in weeks: 504 h, all of it due in the month it begins."""
    result = block_plan(tmp_path, batch(400 * 3600))
    assert total(result) == 504 * 10.0
    assert result.cost is not None
    assert float(result.cost.monthly) == 5040.0


def test_a_block_has_a_longest_length(tmp_path: Path) -> None:
    """1,100 h fit no block (1,000 h at most, 1,176 in whole weeks); two nodes take 550 h, four weeks."""
    result = block_plan(tmp_path, batch(1100 * 3600, deadline="1000h"))
    assert (line(result).quantity, total(result)) == (2, 2 * 672 * 10.0)
    catalog = load_catalog([tmp_path])
    late = solve(problem(batch(1100 * 3600, deadline="1100h"), "3mo"), catalog, SolveOptions(time_limit_s=10))
    assert late.cost is None


# --- spot -------------------------------------------------------------------------------------------------


def test_spot_pays_the_on_demand_price_while_it_is_away(tmp_path: Path) -> None:
    """A quarter of the nodes taken back within a month, half a day on demand each time: 0.47 % of the time at 4 $."""
    catalog = catalog_of(tmp_path, price("on_demand", 4.0), price("spot", 1.0, taken="0.25"))
    result = plan(problem(service(2, interruptible=True), policy={"billing": ["on_demand", "spot"]}), catalog)
    away = 12 * -math.log(0.75) / 730
    share = away / (1 + away)
    assert share == pytest.approx(0.00471, abs=1e-5)
    assert total(result) == pytest.approx(2 * 8760 * ((1 - share) * 1.0 + share * 4.0), abs=0.03)
    assert line(result).fallback_share == pytest.approx(share)
    assert line(result).fallback_price_per_hour == "4"


def test_spot_job_pays_for_rework_and_fallback(tmp_path: Path) -> None:
    """Each interruption loses half a checkpoint interval of 10 min and a quarter of an hour to come back: 1/3 h."""
    catalog = catalog_of(tmp_path, price("on_demand", 4.0), price("spot", 1.0, taken="0.25"))
    loaded = problem(batch(100 * 3600, interruptible=True), policy={"billing": ["on_demand", "spot"]})
    rate = -math.log(0.75) / 730
    hours = math.ceil(360000 / (1 - rate / 3)) / 3600
    share = 12 * rate / (1 + 12 * rate)
    assert total(plan(loaded, catalog)) == pytest.approx(hours * ((1 - share) + share * 4.0), abs=0.011)


def test_spot_without_on_demand_waits(tmp_path: Path) -> None:
    catalog = catalog_of(tmp_path, price("on_demand", 4.0), price("spot", 1.0, taken="0.25"))
    result = plan(problem(service(2, interruptible=True), policy={"billing": ["spot"]}), catalog)
    assert total(result) == 2 * 8760
    assert line(result).fallback_share is None


def test_spot_above_on_demand_is_not_taken(tmp_path: Path) -> None:
    catalog = catalog_of(tmp_path, price("on_demand", 1.0), price("spot", 1.1, taken="0.05"))
    result = plan(problem(service(1, interruptible=True), policy={"billing": ["on_demand", "spot"]}), catalog)
    assert [i.billing for i in result.items] == ["on_demand"]


def test_spot_that_is_always_interrupted_is_no_candidate(tmp_path: Path) -> None:
    catalog = catalog_of(tmp_path, price("on_demand", 9.0), price("spot", 0.1, taken="1"))
    loaded = problem(service(1, interruptible=True), policy={"billing": ["on_demand", "spot"]})
    result = plan(loaded, catalog)
    assert [i.billing for i in result.items] == ["on_demand"]
    assert result.search is not None
    assert result.search.dropped["spot is always interrupted"] == 1


# --- compute units ----------------------------------------------------------------------------------------

SOLD = UNITS + "N,L40S,CU,2,1.5,USD,0,1,s,listed\n"  # 3 $ per accelerator-hour in use


def test_compute_units_are_charged_on_the_work_of_services(tmp_path: Path) -> None:
    """Three replicas in office hours: 6 units an hour, of an eight-card machine that costs nothing while it idles."""
    catalog = catalog_of(tmp_path, gpus=8, compute_units=SOLD)
    result = plan(problem(service(3, WORK_DAY), "2mo"), catalog)
    units = line(result, "compute_units")
    assert (units.quantity, units.unit) == (pytest.approx(3 * 2 * WORK_H * 2), "CU")
    assert float(units.unit_cost) == pytest.approx(1.5, rel=1e-4)
    assert total(result) == pytest.approx(3 * 2 * WORK_H * 2 * 1.5, abs=0.04)
    assert (line(result).quantity_by_period, float(line(result).total_cost)) == ({"busy": 1}, 0.0)


def test_compute_units_are_charged_on_the_work_of_jobs(tmp_path: Path) -> None:
    """One card of eight for 10 h: 20 units."""
    catalog = catalog_of(tmp_path, gpus=8, compute_units=SOLD)
    assert total(plan(problem(batch(36000, "3/mo"), "2mo"), catalog)) == 6 * 20 * 1.5


def test_compute_units_pay_where_there_is_little_to_do(tmp_path: Path) -> None:
    """3 $ an hour in use against 0.8 $ all the time: by the hour below 27 % of the time, reserved above."""
    both = {"compute_units": SOLD, "gpus": 1}
    catalog = catalog_of(tmp_path, price("reserved", 0.8, term=12), **both)  # type: ignore[arg-type]
    short = {"hours": {"mon-fri": {"9-17": "100%"}}}  # 24 % of the week
    assert {i.billing for i in plan(problem(service(1, short)), catalog).items} == {"compute_unit"}
    assert {i.billing for i in plan(problem(service(1, WORK_DAY)), catalog).items} == {"reserved 12mo"}


# --- bought and owned -------------------------------------------------------------------------------------


def test_purchase_is_price_maintenance_electricity_and_space_less_what_is_left(tmp_path: Path) -> None:
    """Server by its parts' prices, 8 % of it a year, 730 h of idle draw a month, space by nameplate, 20 % of it back."""
    catalog = load_catalog()
    room = {"name": "room", "electricity": "$0.10/kWh", "pue": 1.5, "space": "$100/kW/mo", "country": "US"}
    policy = {"billing": ["purchase"], "residual_value": "20%"}
    limits = {"accelerators": ["L40S"]}
    result = plan(problem(service(1), "24mo", sites=[room], policy=policy, limits=limits), catalog)
    server = line(result, "server")
    bought, kw = float(server.total_cost), (server.power_w or 0.0) / 1000
    assert float(line(result, "maintenance").total_cost) == pytest.approx(bought * 0.08 * 2, abs=0.02)
    assert float(line(result, "space").total_cost) == pytest.approx(kw * 100 * 24, abs=0.02)
    assert float(line(result, "residual").total_cost) == pytest.approx(-bought * 0.2, abs=0.02)
    assert result.power is not None
    energy = sum(float(i.total_cost) for i in result.items if i.kind == "energy")
    assert energy == pytest.approx(result.power.energy_kwh * 0.10, rel=1e-3)
    assert total(result) == pytest.approx(bought * (1 + 0.16 - 0.2) + kw * 2400 + energy, abs=0.1)


def test_what_is_owned_costs_its_electricity_alone(tmp_path: Path) -> None:
    catalog = load_catalog()
    room = {"name": "room", "electricity": "$0.10/kWh", "pue": 1.0, "country": "US"}
    owned = [{"accelerator": "A100-80GB-SXM4", "count": 4, "build": "HGX-A100-4GPU-2U", "site": "room"}]
    work = service(1)
    work["measured"] = [{"accelerator": "A100-80GB-SXM4", "accelerators": 1, "rate": "1 req/s"}]
    loaded = problem(work, sites=[room], owned=owned, policy={"billing": ["owned"]}, limits={})
    result = plan(loaded, catalog)
    assert float(line(result, "server").total_cost) == 0.0
    assert result.power is not None
    assert total(result) == pytest.approx(result.power.energy_kwh * 0.10, abs=0.05)


# --- edges ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("hours", "fits"), [(12.0, True), (12.1, False)])
def test_a_job_that_exactly_fills_its_window(tmp_path: Path, hours: float, fits: bool) -> None:
    """Nights have twelve hours; what takes longer needs a second machine."""
    catalog = catalog_of(tmp_path, price("on_demand", 1.0))
    loaded = problem(batch(hours * 3600, "1/mo", window="nights", deadline="20h"), "1mo")
    result = solve(loaded, catalog, SolveOptions(time_limit_s=30, workers=2, runner_up=False))
    assert result.cost is not None
    assert verify(result, loaded.problem, catalog) == []
    assert line(result).quantity == (1 if fits else 2)


def test_every_month_has_730_hours(tmp_path: Path) -> None:
    """Twelve months are 8,760 hours whether or not one of them has a leap day."""
    catalog = catalog_of(tmp_path, price("on_demand", 1.0))
    assert total(plan(problem(service(1), "12mo"), catalog)) == 8760.0
    assert total(plan(problem(service(1), "1mo"), catalog)) == 730.0
    assert total(plan(problem(service(1), "48mo"), catalog)) == 4 * 8760.0  # 1,461 days of a leap cycle are 24 h more


def test_surcharges_come_on_top_of_compute_units(tmp_path: Path) -> None:
    """Units over a goodput of 90 %, 10 % of support on that, 5 % of tax on both."""
    catalog = catalog_of(tmp_path, gpus=8, compute_units=SOLD)
    tco = {"providers": {"N": {"support": "10%", "goodput": "90%"}}, "tax": {"rental": "5%"}}
    result = plan(problem(service(3, WORK_DAY), "2mo", tco=tco), catalog)
    assert total(result) == pytest.approx(3 * 2 * WORK_H * 2 * 1.5 / 0.9 * 1.1 * 1.05, abs=0.05)
