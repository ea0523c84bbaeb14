"""Plans over stages: money of commitments by hand, terms, lead times, and agreement with both oracles."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any

import polars as pl
import pytest

from catalogs.catalog import Catalog
from problems.load import LoadedProblem, load_text
from solver.candidates import Candidates, build_candidates, reduced
from solver.events import SolveOptions
from solver.instance import Instance
from solver.plan import Result
from solver.scaling import scale
from solver.solve import base_dir, solve
from solver.verify import verify
from tests.oracle.brute import Best, TooLargeError, brute_force
from tests.oracle.highs import highs_optimum
from tests.oracle.problems import random_case, real_catalog, tightened
from tests.solver.test_oracles import cp_sat

OFFER = "AWS/g6e.xlarge/us-east-1"
RATE = 2.0  # requests/s that one card of the tests serves
HOUR_PRICE = 2.0


def priced(*ways: tuple[str, float | None, float, float]) -> Catalog:
    """The catalogue with one offer only: (billing, term [months], share up front, price per hour) each."""
    catalog = real_catalog()
    row = catalog.prices.filter((pl.col("offer_id") == OFFER) & (pl.col("billing") == "on_demand")).row(0, named=True)
    rows = [
        {
            **row,
            "billing": mode,
            "term_months": term,
            "upfront_share": share,
            "price_per_hour": price,
            "currency": "USD",
        }
        for mode, term, share, price in ways
    ]
    return replace(
        catalog,
        offers=catalog.offers.filter(pl.col("offer_id") == OFFER),
        prices=pl.DataFrame(rows, schema=catalog.prices.schema),
    )


def problem(traffic: dict[str, Any], horizon: int, **more: Any) -> LoadedProblem:
    work = {
        "name": "chat",
        "kind": "serve",
        "measured": [{"accelerator": "L40S", "rate": f"{RATE} req/s"}],
        "traffic": {"isl": 100, "osl": 100, **traffic},
    }
    return load_text(json.dumps({"horizon": f"{horizon}mo", "workloads": [work], **more}))


def plan(loaded: LoadedProblem, catalog: Catalog) -> Result:
    result = solve(loaded, catalog, SolveOptions(runner_up=False, workers=1))
    assert verify(result, loaded.problem, catalog, base_dir(loaded)) == []
    return result


def candidates(loaded: LoadedProblem, catalog: Catalog) -> Candidates:
    return build_candidates(loaded.problem, catalog, base_dir(loaded))


def total(result: Result) -> float:
    assert result.cost is not None
    return float(result.cost.total)


STEP = {"rate": "2 req/s", "stages": [{"from": "0mo", "scale": "100%"}, {"from": "6mo", "scale": "200%"}]}


def test_two_machines_from_the_second_half_on_by_the_hour() -> None:
    result = plan(problem(STEP, 12), priced(("on_demand", None, 0.0, HOUR_PRICE)))
    assert total(result) == pytest.approx(HOUR_PRICE * 730 * (6 + 2 * 6))
    assert result.cost is not None
    assert float(result.cost.monthly) == pytest.approx(2 * HOUR_PRICE * 730)
    assert [(s.name, s.from_month, s.months) for s in result.stages] == [("mo 1-6", 0, 6), ("mo 7-12", 6, 6)]


def test_reservations_start_when_they_are_needed() -> None:
    """A year for the base, half a year for what comes: 1 x 12 months and 1 x 6 months at the reserved price."""
    result = plan(problem(STEP, 12), priced(("on_demand", None, 0.0, HOUR_PRICE), ("reserved", 6.0, 0.0, 1.0)))
    assert total(result) == pytest.approx(1.0 * 730 * (12 + 6))
    held = {p: sum((i.quantity_by_period or {}).get(p, 0) for i in result.items) for p in result.periods}
    assert held == {"mo 1-6": 1, "mo 7-12": 2}
    assert {i.from_month for i in result.items} == {0, 6}


def test_a_term_beyond_the_horizon_counts_in_full_or_pro_rated() -> None:
    """A 12-month term from month 6 of 12: at $1 it costs 12 months, more than 6 months at $1.90; pro-rated only 6."""
    ways = (("on_demand", None, 0.0, 1.9), ("reserved", 12.0, 0.0, 1.0))
    full = plan(problem(STEP, 12), priced(*ways))
    assert total(full) == pytest.approx(730 * (12 * 1.0 + 6 * 1.9))
    pro_rated = plan(problem(STEP, 12, policy={"pro_rate_commitments": True}), priced(*ways))
    assert total(pro_rated) == pytest.approx(730 * (12 * 1.0 + 6 * 1.0))


def test_a_short_term_is_bought_as_often_as_its_stage_needs() -> None:
    found = candidates(problem(STEP, 12), priced(("reserved", 5.0, 0.0, 1.0)))
    rows = found.capacity.sort("start", "paid_months").select(
        "start", "first_stage", "until_stage", "paid_months", "held_months"
    )
    # Two terms of five months cover the first six, three cover all twelve (three reach to month 15).
    assert rows.rows() == [(0.0, 0, 1, 10.0, 10.0), (0.0, 0, 2, 15.0, 12.0), (6.0, 1, 2, 10.0, 6.0)]


def test_a_long_term_is_held_in_the_stages_it_covers_whole() -> None:
    loaded = problem({"rate": "2 req/s", "growth": "5%/mo"}, 12)
    found = candidates(loaded, priced(("reserved", 7.0, 0.0, 1.0)))
    rows = found.capacity.filter(pl.col("start") == 0).sort("paid_months").select("until_stage", "paid_months")
    assert rows.rows() == [(2, 7.0), (4, 14.0)]


def test_money_up_front_falls_in_the_month_of_the_start_and_is_discounted_from_there() -> None:
    """Half of six months at $1 up front in month 6, the rest in six payments: by hand at 12 % a year."""
    loaded = problem(STEP, 12, policy={"discount_rate": "12%"})
    found = candidates(loaded, priced(("reserved", 6.0, 0.5, 1.0)))
    row = found.capacity.filter(pl.col("start") == 6).row(0, named=True)
    rent = 6 * 730.0
    later = sum(1.12 ** (-m / 12) for m in range(7, 13))
    assert row["capex"] == pytest.approx(rent / 2)
    assert row["costs"][0] == pytest.approx(rent / 2 * 1.12**-0.5 + rent / 2 / 6 * later)
    assert row["monthlies"] == pytest.approx([0, rent / 2 / 6])
    by_hour = candidates(loaded, priced(("on_demand", None, 0.0, 1.0))).capacity.row(0, named=True)
    assert by_hour["costs"][1] == pytest.approx(730 * later)


ROOM = {"sites": [{"name": "room", "power": "10kW", "pue": 1.2, "electricity": "$0.10/kWh", "country": "US"}]}


def bought(loaded: LoadedProblem) -> pl.DataFrame:
    frame = reduced(candidates(loaded, real_catalog())).capacity.filter(pl.col("billing") == "purchase")
    return frame.sort("pool", "start")


def test_what_is_bought_later_is_paid_then_and_run_for_the_months_left() -> None:
    policy = {"billing": ["purchase"], "residual_value": "20%", "discount_rate": "12%"}
    frame = bought(problem(STEP, 12, limits={"accelerators": ["L40S"]}, policy=policy, **ROOM))
    early, late = frame.filter(pool=frame["pool"][0]).iter_rows(named=True)
    assert (early["start"], late["start"]) == (0, 6)
    assert late["c_server"] == early["c_server"] == late["capex"]
    for part in ("c_maintenance", "c_energy"):
        assert late[part] == pytest.approx(early[part] / 2)
    running = (late["c_maintenance"] + late["c_energy"]) / 6
    later = sum(1.12 ** (-m / 12) for m in range(7, 13))
    assert late["costs"][0] == pytest.approx(late["c_server"] * (1.12**-0.5 - 0.2 * 1.12**-1) + running * later)
    assert late["monthlies"] == pytest.approx([0, running])


def test_until_ordered_machines_arrive_the_demand_is_rented() -> None:
    limits = {"accelerators": ["L40S"]}
    policy = {"billing": ["on_demand", "purchase"], "lead_time": {"purchase": "2mo"}}
    loaded = problem({"rate": "2 req/s"}, 36, limits=limits, policy=policy, **ROOM)
    catalog = priced(("on_demand", None, 0.0, 9.0))
    result = plan(loaded, catalog)
    server = next(i for i in result.items if i.kind == "server")
    rented = [i for i in result.items if i.kind == "rental"]
    assert server.from_month == 2
    assert server.quantity_by_period == {"mo 3-36": 1}
    assert [i.quantity_by_period for i in rented] == [{"mo 1-2": 1}]
    early = result.model_copy(
        update={"items": tuple(i.model_copy(update={"from_month": 0.0}) if i is server else i for i in result.items)}
    )
    assert any("after the order" in text for text in verify(early, loaded.problem, catalog))


def test_an_offers_own_lead_time_counts_where_there_are_stages() -> None:
    catalog = priced(("reserved", 6.0, 0.0, 1.0))
    late = replace(catalog, offers=catalog.offers.with_columns(lead_time_days=pl.lit(45.0)))
    assert candidates(problem(STEP, 12), catalog).capacity["start"].to_list() == [0.0, 6.0]
    assert candidates(problem(STEP, 12), late).capacity["start"].to_list() == [6.0]
    assert candidates(problem({"rate": "2 req/s"}, 12), late).capacity["start"].to_list() == [0.0]


def test_what_arrives_after_the_horizon_cannot_be_planned_with() -> None:
    policy = {"billing": ["purchase"], "lead_time": {"purchase": "40mo"}}
    loaded = problem({"rate": "2 req/s"}, 36, limits={"accelerators": ["L40S"]}, policy=policy, **ROOM)
    assert bought(loaded).is_empty()
    result = solve(loaded, real_catalog(), SolveOptions(runner_up=False, workers=1))
    assert result.status.value == "infeasible"
    assert any("not within the horizon" in text for text in result.assumptions)


def test_a_stage_without_traffic_needs_nothing() -> None:
    pause = {"rate": "2 req/s", "stages": [{"from": "0mo", "scale": "0%"}, {"from": "6mo", "scale": "100%"}]}
    result = plan(problem(pause, 12), priced(("on_demand", None, 0.0, HOUR_PRICE)))
    assert total(result) == pytest.approx(HOUR_PRICE * 730 * 6)
    assert [i.quantity_by_period for i in result.items] == [{"mo 7-12": 1}]


def test_the_highest_month_of_any_stage_is_what_the_budget_binds() -> None:
    catalog = priced(("on_demand", None, 0.0, HOUR_PRICE))
    month = HOUR_PRICE * 730
    fits = problem(STEP, 12, limits={"budget": {"monthly": f"${2 * month:.2f}/mo"}})
    assert total(plan(fits, catalog)) == pytest.approx(18 * month)
    tight = problem(STEP, 12, limits={"budget": {"monthly": f"${2 * month - 0.01:.2f}/mo"}})
    assert solve(tight, catalog, SolveOptions(runner_up=False, workers=1)).status.value == "infeasible"


def test_watts_are_limited_in_every_stage() -> None:
    limits = {"accelerators": ["L40S"]}
    policy = {"billing": ["purchase"]}
    grown = plan(problem(STEP, 12, limits=limits, policy=policy, **ROOM), real_catalog())
    assert grown.power is not None
    need = grown.power.facility_peak_w
    first = plan(problem({"rate": "2 req/s"}, 12, limits=limits, policy=policy, **ROOM), real_catalog())
    assert first.power is not None
    assert first.power.facility_peak_w < need
    short = problem(
        STEP, 12, limits={**limits, "power": f"{(need + first.power.facility_peak_w) / 2:.0f}W"}, policy=policy, **ROOM
    )
    cut = solve(short, real_catalog(), SolveOptions(runner_up=False, workers=1))
    assert cut.power is None or cut.power.facility_peak_w < need


def test_no_growth_gives_the_very_same_integers() -> None:
    def integers(traffic: dict[str, Any]) -> Instance:
        loaded = problem({"rate": "7 req/s", "calendar": "day_night", **traffic}, 12, limits={"accelerators": ["L40S"]})
        return scale(reduced(candidates(loaded, real_catalog())), real_catalog()).instance

    plain = integers({})
    assert integers({"growth": "0%/mo"}) == plain
    assert integers({"stages": [{"from": "0mo", "scale": "100%"}]}) == plain
    assert plain.stages == [[0, 1]]


# --- oracles ---------------------------------------------------------------------------------------------

KINDS, MOST_STEPS = 12, 40_000


def growing(first_seed: int) -> Iterator[tuple[str, Instance, Best | None]]:
    """Random problems whose load changes, with their optimum by enumeration, and again with a cap near what it pays."""
    for seed in count(first_seed):
        inst = random_case(seed, growing=True).instance()
        if inst is None or len(inst.replicas) > KINDS or len(inst.stages) == 1:
            continue
        try:
            best = brute_force(inst, MOST_STEPS)
            yield f"seed {seed}", inst, best
            if best is not None:
                tight = tightened(inst, random.Random(seed), best.cash, best.monthly, best.capex)
                yield f"seed {seed} tightened", tight, brute_force(tight, MOST_STEPS)
        except TooLargeError:
            continue


def compare(first_seed: int, number: int) -> None:
    seen: Counter[str] = Counter()
    cases = growing(first_seed)
    for name, inst, best in (next(cases) for _ in range(number)):
        expected = None if best is None else best.objective
        assert cp_sat(inst).objective == expected, name
        assert highs_optimum(inst).objective == expected, name
        seen["infeasible" if best is None else "feasible"] += 1
    assert min(seen["infeasible"], seen["feasible"]) >= 1, seen


@pytest.mark.slow
def test_cp_sat_equals_both_oracles_where_the_load_changes() -> None:
    compare(200_000, 12)


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(1))
def test_cp_sat_equals_both_oracles_where_the_load_changes_at_length(chunk: int) -> None:
    compare(210_000 + 1000 * chunk, 30)


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(2))
def test_cp_sat_equals_highs_where_several_sizes_of_request_grow(chunk: int) -> None:
    compared = 0
    for seed in count(250_000 + 1000 * chunk):
        inst = random_case(seed, several=True, small=True, growing=True).instance()
        if inst is None or len(inst.replicas) * len(inst.periods) > 12:
            continue
        assert cp_sat(inst).objective == highs_optimum(inst).objective, f"seed {seed}"
        compared += 1
        if compared == 8:
            return


def test_tokens_are_those_that_come_not_those_planned_for() -> None:
    """Month by month at 10 % growth, and hours below their level: neither is sold as served."""
    hours = list(range(1, 25))
    growing = {"rate": "2 req/s", "growth": "10%/mo", "calendar": {"hours": hours}}
    result = plan(problem(growing, 6), priced(("on_demand", None, 0.0, HOUR_PRICE)))
    tokens = result.workloads[0].tokens
    assert tokens is not None
    month = 2.0 * (sum(hours) / 24 / 24) * 730 * 3600
    assert tokens.input_millions * 1e6 == pytest.approx(100 * month * sum(1.1**m for m in range(6)))


@pytest.mark.slow
def test_nothing_that_a_growing_plan_needs_is_left_out() -> None:
    """Candidates with and without reductions have the same optimum."""
    compared = 0
    for seed in count(300_000):
        case = random_case(seed, growing=True, redundant=False)
        small, whole = case.instance(), case.instance(prune=False)
        if small is None or whole is None or len(whole.stages) == 1 or len(whole.replicas) > 40:
            continue
        assert cp_sat(small).objective == cp_sat(whole).objective, f"seed {seed}"
        compared += 1
        if compared == 12:
            return
