"""Total cost of ownership worked by hand: held money, charges, cash by month, plans of one kind, break-even."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from typing import Any

import polars as pl
import pytest

from catalogs.catalog import Catalog
from catalogs.load import load_catalog
from problems.load import LoadedProblem, load_text
from problems.schema import Problem
from solver.candidates.money import held_money, money_terms
from solver.candidates.periods import Period, load_calendar, stages_of
from solver.cash_flow import cash_flow, spread
from solver.compare_plans import BOUGHT, RENTED
from solver.events import SolveOptions
from solver.features.finance import annuity, annuity_factor, monthly_rate, payback_months
from solver.plan import CashMonth, Item, Result
from solver.report.cash_text import by_year
from solver.report.export import result_bytes
from solver.solve import solve
from solver.verify import verify

CHAT: dict[str, Any] = {
    "name": "chat",
    "kind": "serve",
    "model": "mistral-7b",
    "precision": ["bf16"],
    "traffic": {"rate": "20 req/s", "isl": 500, "osl": 100},
}
ROOM: dict[str, Any] = {"name": "room", "pue": 1.4, "electricity": "$0.12/kWh", "country": "US"}
LAB: dict[str, Any] = {"name": "lab", "kind": "fixed", "accelerator": "L40S", "count": 1}
TERMS: dict[str, Any] = {
    "depreciation": "straight_line",
    "life": {"server": "24mo"},
    "spares": {"parts": "5%", "nodes": 1},
    "staff": {"salary": "$120k/yr", "persons": 0.25, "per_node": 0.02},
    "setup": {"site": "$30k", "node": "$500", "provider": "$2k"},
    "providers": {"any": {"support": "10%", "goodput": "96%", "fee": "$100/mo"}},
    "financing": {"upfront": "30%", "rate": "6%", "term": "24mo"},
    "tax": {"purchase": "8%", "rental": "5%"},
}


@lru_cache(maxsize=1)
def catalog() -> Catalog:
    return load_catalog()


def problem_of(horizon: int, tco: dict[str, Any], **policy: Any) -> Problem:
    given = {"horizon": f"{horizon}mo", "workloads": [LAB], "sites": [ROOM], "policy": policy, "tco": tco}
    return load_text(json.dumps(given)).problem


def held(
    horizon: int, tco: dict[str, Any] | None = None, part_class: str = "server", **policy: Any
) -> dict[str, float]:
    """Money of one machine at 100,000 that draws nothing, without maintenance unless stated."""
    problem = problem_of(horizon, {"maintenance": "0%", **(tco or {})}, **policy)
    frame = pl.DataFrame(
        {
            "part_class": [part_class],
            "price": [100_000.0],
            **{c: [0.0] for c in ("once", "monthly", "it_w", "idle_w", "energy_price", "space_per_kw_month")},
            **{c: [1.0] for c in ("pue", "carbon_g_per_kwh")},
        }
    )
    periods, calendar = (Period("always", 730.0, ()),), load_calendar(problem, catalog())
    terms = money_terms(problem, periods, stages_of(problem), calendar)
    return held_money(frame, problem, catalog(), terms).row(0, named=True)


# --- one machine ------------------------------------------------------------------------------------------


def test_cash_pays_the_price_and_gets_the_residual_value_back() -> None:
    row = held(36, {"maintenance": "8%"}, residual_value="25%")
    assert row["c_maintenance"] == pytest.approx(24_000)  # 3 years at 8 %
    assert row["c_residual"] == pytest.approx(-25_000)
    assert row["held_cash"] == pytest.approx(99_000)
    assert row["held_capex"] == pytest.approx(100_000)
    assert row["held_monthly"] == pytest.approx(24_000 / 36)


def test_straight_line_costs_its_share_of_the_life() -> None:
    # 90,000 worn off over 60 months: 54,000 in 36 of them, so that 46,000 is left.
    row = held(36, {"depreciation": "straight_line", "life": "60mo", "residual": "10%"})
    assert row["c_residual"] == pytest.approx(-46_000)
    assert row["held_cash"] == pytest.approx(54_000)


def test_what_wears_out_is_bought_again() -> None:
    # A life of 24 months in 36: 90,000 / 24 a month all the same; half of the second machine is left, 55,000.
    row = held(36, {"depreciation": "straight_line", "life": "24mo", "residual": "10%"})
    assert row["c_replacement"] == pytest.approx(90_000)
    assert row["c_residual"] == pytest.approx(-55_000)
    assert row["held_cash"] == pytest.approx(36 * 90_000 / 24)


def test_an_annuity_is_worth_its_payments() -> None:
    """At 8 %: 1,877.22 a month for 60 months pay 100,000 back but for 10,000; 36 of them are the objective's money."""
    row = held(36, {"depreciation": "annuity", "life": "60mo", "residual": "10%"}, discount_rate="8%")
    assert row["c_residual"] == pytest.approx(-50_196.71, abs=0.01)  # what 24 payments and the 10,000 are worth then
    assert row["held_cost"] == pytest.approx(60_152.23, abs=0.01)
    rate = monthly_rate(0.08)
    assert row["held_cost"] == pytest.approx(annuity(100_000, rate, 60, 10_000) * annuity_factor(rate, 36))


def test_annuity_and_cash_agree_over_the_whole_life() -> None:
    over_life = held(60, {"depreciation": "annuity", "life": "60mo"}, discount_rate="8%", residual_value="10%")
    assert over_life["held_cost"] == pytest.approx(held(60, discount_rate="8%", residual_value="10%")["held_cost"])


def test_straight_line_is_an_annuity_without_interest() -> None:
    lines = [held(36, {"depreciation": d, "life": "60mo", "residual": "10%"}) for d in ("straight_line", "annuity")]
    assert lines[0]["held_cash"] == pytest.approx(lines[1]["held_cash"])


def test_lives_and_residual_values_differ_by_class() -> None:
    tco = {
        "depreciation": "straight_line",
        "life": {"server": "60mo", "network": "72mo"},
        "residual": {"network": "50%"},
    }
    assert held(36, tco)["held_cash"] == pytest.approx(60_000)  # 36/60
    assert held(36, tco, "network")["held_cash"] == pytest.approx(25_000)  # half of 50,000
    assert held(36, tco, "rack")["held_cash"] == pytest.approx(20_000)  # a facility: 36 of 180 months by the catalogue


def test_purchases_paid_in_part_over_months() -> None:
    # 70,000 over 24 months at 6 % a year (0.486755 % a month): 3,097.43 a month, 4,338.37 of interest.
    row = held(36, {"financing": {"upfront": "30%", "rate": "6%", "term": "24mo"}})
    assert row["held_capex"] == pytest.approx(30_000)
    assert row["held_monthly"] == pytest.approx(3_097.43, abs=0.01)
    assert row["c_financing"] == pytest.approx(4_338.37, abs=0.01)
    assert row["held_cash"] == pytest.approx(104_338.37, abs=0.01)


def test_a_loan_at_the_discount_rate_changes_no_present_value() -> None:
    loan = held(36, {"financing": {"upfront": "30%", "rate": "6%"}}, discount_rate="6%")
    assert loan["held_cost"] == pytest.approx(100_000)


def test_spares_and_tax_stand_on_the_price() -> None:
    row = held(36, {"spares": {"parts": "5%"}, "tax": {"purchase": "8%"}})
    assert (row["c_spares"], row["c_tax"]) == pytest.approx((5_000, 8_400))
    assert row["held_capex"] == pytest.approx(113_400)


def test_without_a_rate_the_objective_is_the_sum() -> None:
    for tco in ({}, TERMS, {**TERMS, "depreciation": "annuity"}, {**TERMS, "depreciation": "cash"}):
        row = held(36, tco, residual_value="20%")
        assert row["held_cost"] == pytest.approx(row["held_cash"])


# --- whole plans ------------------------------------------------------------------------------------------


def posed(
    horizon: int = 30, billing: tuple[str, ...] = ("purchase",), tco: Any = None, **changes: Any
) -> LoadedProblem:
    given = {
        "horizon": f"{horizon}mo",
        "workloads": [CHAT],
        "sites": [ROOM],
        "limits": {"accelerators": ["L40S"]},
        "policy": {"billing": list(billing), **changes.pop("policy", {})},
        "tco": TERMS if tco is None else tco,
        **changes,
    }
    return load_text(json.dumps(given))


@lru_cache(maxsize=8)
def plan(name: str) -> tuple[LoadedProblem, Result]:
    cases: dict[str, LoadedProblem] = {
        "bought": posed(policy={"residual_value": "20%", "discount_rate": "8%"}),
        "rented": posed(billing=("on_demand", "reserved"), policy={"discount_rate": "8%"}),
        "either": posed(120, ("purchase", "on_demand", "reserved"), {"setup": {"site": "$2k"}}),
        "no room": posed(12, ("purchase", "on_demand"), {}, sites=[]),
    }
    loaded = cases[name]
    result = solve(loaded, catalog(), SolveOptions(time_limit_s=60, gap=0.0, workers=2))
    assert result.status == "optimal"
    return loaded, result


@pytest.mark.parametrize("name", ["bought", "rented", "either", "no room"])
def test_plans_are_accepted(name: str) -> None:
    loaded, result = plan(name)
    assert verify(result, loaded.problem, catalog()) == []


def sum_of(result: Result, kind: str) -> Decimal:
    return sum((i.total_cost for i in result.items if i.kind == kind), Decimal(0))


def test_charges_of_own_machines() -> None:
    _, result = plan("bought")
    servers = [i for i in result.items if i.kind == "server"]
    nodes = sum(int(i.quantity) for i in servers)
    assert nodes >= 2  # one of them spare
    # A quarter of a person for 30 months, and 0.02 of one for each node: 10,000 a month each.
    assert sum_of(result, "staff") == 75_000 + nodes * 6_000
    assert sum_of(result, "setup") == 30_000 + nodes * 500


def test_charges_of_providers() -> None:
    _, result = plan("rented")
    rent = sum_of(result, "rental")
    providers = {i.provider for i in result.items if i.kind == "rental"}
    assert sum_of(result, "setup") == 2_000 * len(providers)
    fees = 100 * 30 * len(providers)
    paid = float(rent) / 0.96
    assert float(sum_of(result, "goodput")) == pytest.approx(paid - float(rent), abs=1)
    assert float(sum_of(result, "support")) == pytest.approx(paid * 0.1 + fees, abs=1)
    assert float(sum_of(result, "tax")) == pytest.approx(paid * 1.1 * 0.05, abs=1)


def test_what_is_not_in_use_is_not_charged() -> None:
    for name, absent in (("rented", {"staff"}), ("bought", {"support", "goodput", "rental"})):
        assert absent.isdisjoint(i.kind for i in plan(name)[1].items)


@pytest.mark.parametrize("name", ["bought", "rented", "either"])
def test_months_add_up_to_the_bill_to_the_cent(name: str) -> None:
    loaded, result = plan(name)
    assert result.cost is not None
    flows = [(result.cash_flow, result.cost.total)]
    flows += [(a.cash_flow, a.total) for a in result.alternatives if a.total is not None]
    for flow, total in flows:
        assert len(flow) == loaded.problem.horizon + 1
        assert sum((m.total for m in flow), Decimal(0)) == total == flow[-1].cumulative


def test_discounted_months_are_the_objective() -> None:
    for name in ("bought", "rented"):
        _, result = plan(name)
        worth = sum(float(m.total) / 1.08 ** (m.month / 12) for m in result.cash_flow)
        assert worth == pytest.approx(result.objective, rel=1e-5)


def test_purchases_fall_where_they_are_paid() -> None:
    _, result = plan("bought")
    first, *rest = result.cash_flow
    assert result.cost is not None
    assert first.capex == first.total
    assert float(first.capex) == pytest.approx(float(result.cost.capex), abs=0.05)  # rounded line by line, or at once
    assert all(m.capex > 0 for m in rest[:24])  # instalments
    assert rest[23].capex > rest[22].capex + 1_000  # and the second machine, after 24 months
    assert [m.month for m in rest if m.residual] == [30]


def test_plans_of_one_kind_stand_beside_the_best() -> None:
    _, result = plan("either")
    assert [a.name for a in result.alternatives] == [RENTED, BOUGHT]
    for other in result.alternatives:
        assert other.difference is not None
        assert other.difference >= 0
        assert other.status == "optimal"
    assert 0.0 in [a.difference for a in result.alternatives] or len({i.kind for i in result.items}) > 1


def test_break_even_is_where_the_two_cash_flows_meet() -> None:
    _, result = plan("either")
    rent, own = result.alternatives
    point = result.break_even
    assert point is not None
    flows = [[float(m.total) for m in a.cash_flow] for a in (own, rent)]
    months = payback_months(*flows)
    if months is not None:
        assert point.months == pytest.approx(months, abs=0.01)
        assert not point.beyond_horizon
    else:
        assert point.months is None or point.months > 120
    assert point.utilisation is not None
    # At that share of the hours the two cost the same: rent by the hour and the electricity of the work fall with it.
    work = float(sum(i.total_cost for i in result.items if i.billing == "per kWh")) if own.difference == 0 else None
    if work is not None:
        assert own.total is not None
        assert rent.total is not None
        share = (float(own.total) - work) / (float(rent.total) - work)
        assert point.utilisation == pytest.approx(share, abs=1e-3)


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        ("bought", RENTED, "policy.billing allows nothing rented"),
        ("rented", BOUGHT, "policy.billing allows nothing bought"),
        ("no room", BOUGHT, "no own site"),
    ],
)
def test_a_kind_that_the_problem_rules_out_is_said_to_be(name: str, kind: str, said: str) -> None:
    _, result = plan(name)
    (other,) = [a for a in result.alternatives if a.name == kind]
    assert other.total is None
    assert said in other.because
    assert result.break_even is None


def test_a_provider_fee_is_weighed_against_a_dearer_price() -> None:
    """A cheap price with a high fee loses to a dearer one without; leaving out dominated candidates must not hide that."""
    free = posed(12, ("on_demand",), {})
    cheapest = solve(free, catalog(), SolveOptions(workers=2, runner_up=False))
    provider = next(i.provider for i in cheapest.items if i.kind == "rental")
    assert provider is not None
    charged = posed(12, ("on_demand",), {"providers": {provider: {"setup": "$10M"}}})
    other = solve(charged, catalog(), SolveOptions(workers=2, runner_up=False))
    assert provider not in {i.provider for i in other.items}
    assert other.cost is not None
    assert other.cost.total < 10_000_000


# --- what verify refuses ----------------------------------------------------------------------------------

Change = Callable[[Result], Result]


def _item(result: Result, pick: Callable[[Item], bool], **update: Any) -> Result:
    """Change the first line that is picked, and keep the sums so that nothing else is wrong."""
    place = next(n for n, i in enumerate(result.items) if pick(i))
    items = list(result.items)
    items[place] = items[place].model_copy(update=update)
    return _summed(result, items)


def _summed(result: Result, items: list[Item]) -> Result:
    assert result.cost is not None
    kinds = {i.kind for i in items}
    by = {k: sum((i.total_cost for i in items if i.kind == k), Decimal(0)) for k in kinds}
    total = sum(by.values(), Decimal(0))
    cost = result.cost.model_copy(update={"total": total, "by_category": by})
    problem = plan("bought")[0].problem
    return result.model_copy(update={"items": tuple(items), "cost": cost, "cash_flow": cash_flow(items, problem)})


def _halved(kind: str) -> Change:
    def change(result: Result) -> Result:
        line = next(i for i in result.items if i.kind == kind)
        return _item(
            result,
            lambda i: i.kind == kind,
            total_cost=(line.total_cost / 2).quantize(Decimal("0.01")),
            unit_cost=line.unit_cost / 2,
        )

    return change


def _without(kind: str) -> Change:
    return lambda r: _summed(r, [i for i in r.items if i.kind != kind])


def _cost(**update: Any) -> Change:
    return lambda r: r.model_copy(update={"cost": r.cost.model_copy(update=update)})  # type: ignore[union-attr]


def _month(month: int, **update: Any) -> Change:
    def change(result: Result) -> Result:
        flow: list[CashMonth] = list(result.cash_flow)
        flow[month] = flow[month].model_copy(update=update)
        return result.model_copy(update={"cash_flow": tuple(flow)})

    return change


def _moved(result: Result) -> Result:
    """A thousand of month 3's rent is said to be paid in month 4; all sums still agree."""
    flow, spent = list(result.cash_flow), Decimal(0)
    for month, by in ((3, -1000), (4, 1000)):
        m = flow[month]
        flow[month] = m.model_copy(update={"other": m.other + by, "total": m.total + by})
    for n, m in enumerate(flow):
        spent += m.total
        flow[n] = m.model_copy(update={"cumulative": spent})
    return result.model_copy(update={"cash_flow": tuple(flow)})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        *(
            (_halved(k), k)
            for k in ("spares", "tax", "financing", "replacement", "residual", "maintenance", "staff", "setup")
        ),
        *((_without(k), k) for k in ("spares", "tax", "financing", "replacement", "maintenance", "staff", "setup")),
        (_cost(capex=Decimal("1.00")), "capex"),
        (_cost(monthly=Decimal("1.00")), "a month costs"),
        (_month(2, energy=Decimal("5.00")), "month 2 does not add up"),
        (lambda r: r.model_copy(update={"cash_flow": r.cash_flow[:-1]}), "months do not run"),
        (lambda r: r.model_copy(update={"cash_flow": ()}), "no cash flow"),
        (_moved, "month 3"),
    ],
)
def test_verify_refuses(change: Change, said: str) -> None:
    loaded, result = plan("bought")
    wrong = verify(change(result), loaded.problem, catalog())
    assert any(said in line for line in wrong), wrong


def test_verify_refuses_too_few_spare_nodes() -> None:
    loaded, result = plan("bought")
    more = loaded.problem.tco.model_copy(update={"spares": loaded.problem.tco.spares.model_copy(update={"nodes": 5})})
    wrong = verify(result, loaded.problem.model_copy(update={"tco": more}), catalog())
    assert any("too few spares" in line for line in wrong)


@pytest.mark.parametrize("kind", ["goodput", "support", "tax", "setup"])
def test_verify_refuses_rent_without_its_surcharges(kind: str) -> None:
    loaded, result = plan("rented")
    items = tuple(i for i in result.items if i.kind != kind)
    wrong = verify(result.model_copy(update={"items": items}), loaded.problem, catalog())
    assert any(line.startswith(f"{kind} for ") for line in wrong), wrong


def test_verify_refuses_a_better_plan_of_one_kind() -> None:
    loaded, result = plan("either")
    others = tuple(a.model_copy(update={"difference": -0.2}) for a in result.alternatives)
    wrong = verify(result.model_copy(update={"alternatives": others}), loaded.problem, catalog())
    assert any("better than the bound" in line for line in wrong)


def test_verify_refuses_a_break_even_that_is_none() -> None:
    loaded, result = plan("either")
    assert result.break_even is not None
    early = result.break_even.model_copy(update={"months": 0.5, "beyond_horizon": False})
    wrong = verify(result.model_copy(update={"break_even": early}), loaded.problem, catalog())
    assert any("break-even" in line for line in wrong)


# --- cents over months ------------------------------------------------------------------------------------


def test_cents_are_spread_whole() -> None:
    assert spread(100, {1: 1.0, 2: 1.0, 3: 1.0}) == {1: 33, 2: 34, 3: 33}
    assert spread(-5, {1: 1.0, 2: 1.0}) == {1: -2, 2: -3}
    assert spread(7, {0: 1.0}) == {0: 7}


def test_months_are_written_as_a_table() -> None:
    _, result = plan("bought")
    rows = list(csv.DictReader(io.StringIO(result_bytes(result, "csv", "cash-flow").decode())))
    assert [int(r["month"]) for r in rows] == list(range(31))
    assert [Decimal(r["total"]) for r in rows] == [m.total for m in result.cash_flow]
    frame = pl.read_parquet(io.BytesIO(result_bytes(result, "parquet", "cash-flow")))
    assert result.cost is not None
    assert frame["total"].sum() == pytest.approx(float(result.cost.total))


def test_years_of_the_report_add_up() -> None:
    _, result = plan("bought")
    years = by_year(result.cash_flow)
    assert [year for year, _ in years] == [0, 1, 2, 3]
    assert result.cost is not None
    assert sum((sums["total"] for _, sums in years), Decimal(0)) == result.cost.total == years[-1][1]["cumulative"]
