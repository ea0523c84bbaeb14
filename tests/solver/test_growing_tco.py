"""Cash by month where the load changes: a late purchase on instalments and a renewed reservation by hand, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from functools import lru_cache
from typing import Any

import polars as pl
import pytest

from catalogs.catalog import Catalog
from problems.load import LoadedProblem, load_text
from solver.cash_flow import Span, cash_flow
from solver.compare_plans import BOUGHT, RENTED
from solver.events import SolveOptions
from solver.plan import Item, Result, Status
from solver.solve import solve
from solver.verify import verify
from tests.oracle.problems import real_catalog
from tests.solver.test_growth import OFFER, ROOM, STEP, priced, problem

PRICE = 10_000.0
TERMS: dict[str, Any] = {
    "maintenance": "12%",
    "staff": {"salary": "$120k/yr", "per_node": 0.01},
    "setup": {"site": "$1k", "node": "$500"},
    "financing": {"upfront": "40%", "term": "24mo"},
    "tax": {"purchase": "10%"},
}


def free_power() -> list[dict[str, Any]]:
    return [{**ROOM["sites"][0], "electricity": "$0/kWh"}]


def with_server(*ways: tuple[str, float | None, float, float]) -> Catalog:
    """Ways to rent one offer, and one server that costs 10,000 with its card."""
    whole = real_catalog().servers.filter(pl.col("fits").str.split(";").list.contains("L40S"))
    one = whole.filter(pl.col("price_usd").is_not_null()).sort("server").head(1)
    server = one.with_columns(complete=pl.lit(True), price_usd=PRICE)
    return replace(priced(*ways), servers=server)


def posed(horizon: int = 12, **more: Any) -> LoadedProblem:
    """One machine for six months, two for the next six; one may be rented, and nothing bought is there before month 6."""
    policy = {
        "billing": ["reserved", "purchase"],
        "residual_value": "20%",
        "lead_time": {"purchase": "6mo"},
        "rules": {"serving_nvme_tb": "off"},
        **more.pop("policy", {}),
    }
    limits = {"accelerators": ["L40S"], "quota": [{"offer": OFFER, "max": 1}]}
    return problem(STEP, horizon, sites=free_power(), policy=policy, limits=limits, tco=more.pop("tco", TERMS), **more)


def catalog() -> Catalog:
    return with_server(("reserved", 4.0, 0.5, 1.0))


@lru_cache(maxsize=2)
def plan(rate: str = "0%") -> tuple[LoadedProblem, Result]:
    loaded = posed(policy={"discount_rate": rate})
    result = solve(loaded, catalog(), SolveOptions(workers=1, gap=0.0))
    assert result.status is Status.OPTIMAL
    return loaded, result


FLOW = [1460 + 1000, 365, 365, 365, 365 + 1460, 365, 365 + 4400 + 500, 1665, 1665, 1300, 1300, 1300, 1300 - 2000]
"""Two terms of four months at $730 a month, half of each up front, in months 0 and 4; the site is set up at once. In month 6
the server: 40 % of 11,000 with tax, and its set-up; six instalments of 1,100, and 100 of maintenance and 100 of staff a month.
"""


def test_a_late_purchase_and_a_renewed_reservation_by_hand() -> None:
    loaded, result = plan()
    assert verify(result, loaded.problem, catalog()) == []
    assert result.cost is not None
    assert [float(m.total) for m in result.cash_flow] == FLOW
    assert float(result.cost.total) == 5840 + 11_000 + 1500 + 600 + 600 - 2000 == sum(FLOW)
    assert float(result.cost.capex) == 2 * 1460 + 1000 + 4400 + 500
    # Month 7: the reservation is paid until month 8, although it is not needed after the first stage.
    assert float(result.cost.monthly) == 365 + 1100 + 200
    assert [float(m.capex) for m in result.cash_flow] == [1000, 0, 0, 0, 0, 0, 4900, *[1100] * 6]
    assert [float(m.rental) for m in result.cash_flow] == [1460, 365, 365, 365, 1825, *[365] * 4, 0, 0, 0, 0]


def test_the_present_value_of_these_months_is_the_objective() -> None:
    loaded, result = plan("12%")
    assert verify(result, loaded.problem, catalog()) == []
    worth = sum(paid * 1.12 ** (-month / 12) for month, paid in enumerate(FLOW))
    assert result.objective == pytest.approx(worth, abs=0.05)


def test_a_budget_binds_the_dearest_month() -> None:
    def with_budget(month: str) -> Result:
        given = json.loads(posed().text)
        given["limits"]["budget"] = {"monthly": month}
        return solve(load_text(json.dumps(given)), catalog(), SolveOptions(workers=1, gap=0.0, runner_up=False))

    assert with_budget("$1665/mo").status is Status.OPTIMAL
    assert with_budget("$1664.99/mo").status is Status.INFEASIBLE


def test_instalments_end_before_the_dearest_stage() -> None:
    """A server of eight cards on two instalments of 5,000, no room for another: eight cards by the hour from month 6 on."""
    loaded = problem(
        {**STEP, "rate": "16 req/s"},
        12,
        sites=[{**free_power()[0], "power": "10kW"}],
        policy={"billing": ["on_demand", "purchase"], "rules": {"serving_nvme_tb": "off"}},
        limits={"accelerators": ["L40S"]},
        tco={"maintenance": "0%", "financing": {"upfront": "0%", "term": "2mo"}},
    )
    one = with_server(("on_demand", None, 0.0, 2.0))
    result = solve(loaded, one, SolveOptions(workers=1, gap=0.0))
    assert verify(result, loaded.problem, one) == []
    assert result.cost is not None
    assert [float(m.total) for m in result.cash_flow] == [0, 5000, 5000, 0, 0, 0, 0, *[8 * 1460] * 6]
    assert float(result.cost.monthly) == 8 * 1460


def test_what_wears_out_does_so_from_its_purchase_on() -> None:
    """Life of four months in the six that are left: bought again once, half of the second machine is left."""
    loaded = posed(tco={"maintenance": "0%", "depreciation": "straight_line", "life": "4mo", "residual": "0%"})
    result = solve(loaded, catalog(), SolveOptions(workers=1, gap=0.0))
    assert verify(result, loaded.problem, catalog()) == []
    by_kind = {i.kind: float(i.total_cost) for i in result.items if i.kind != "rental"}
    assert by_kind == {"server": PRICE, "replacement": PRICE, "residual": -PRICE / 2}
    capex = {m.month: float(m.capex) for m in result.cash_flow if m.capex}
    assert capex == {6: PRICE, 10: PRICE}


def test_spares_stand_by_in_every_stage() -> None:
    """A spare of the second stage is no spare of the first: it is bought at once with the machine at work."""
    policy = {"billing": ["purchase"], "rules": {"serving_nvme_tb": "off"}}
    step = {**STEP, "rate": "16 req/s"}  # one server of eight cards, then two
    loaded = problem(
        step, 12, sites=free_power(), policy=policy, limits={"accelerators": ["L40S"]}, tco={"spares": {"nodes": 1}}
    )
    given = json.loads(loaded.text)
    given["sites"][0].pop("power")
    loaded = load_text(json.dumps(given))
    catalog_ = with_server(("on_demand", None, 0.0, 9.0))
    result = solve(loaded, catalog_, SolveOptions(workers=1, gap=0.0))
    assert verify(result, loaded.problem, catalog_) == []
    bought = sorted((i.from_month, i.quantity) for i in result.items if i.kind == "server")
    assert bought == [(0.0, 2.0), (6.0, 1.0)]


# --- lines over months ------------------------------------------------------------------------------------

SPANS = (Span(0.0, 2.0, {"a busy": 200.0, "a quiet": 530.0}), Span(2.0, 1.5, {"b busy": 200.0, "b quiet": 530.0}))


def line(total: float, **given: Any) -> Item:
    base = {"item": "x", "quantity": 1, "site": "s", "unit_cost": Decimal(0), "total_cost": Decimal(str(total))}
    return Item(**{**base, **given})


def months(item: Item) -> list[float]:
    loaded = problem({"rate": "2 req/s"}, 12)
    short = loaded.problem.model_copy(update={"horizon": 3.5})
    return [float(m.total) for m in cash_flow([item], short, SPANS)]


@pytest.mark.parametrize(
    ("given", "flow"),
    [
        # 2 months of 200 h and 1.5 of 530 h at $1: the last half month in part.
        ({"total": 1195, "quantity_by_period": {"a busy": 1, "b quiet": 1}}, [0, 200, 200, 530, 265]),
        ({"total": 800, "quantity_by_period": {"a busy": 2}}, [0, 400, 400, 0, 0]),
        ({"total": 150, "kind": "energy", "billing": "per kWh", "from_month": 2.0}, [0, 0, 0, 100, 50]),
        ({"total": 35, "kind": "energy", "billing": "per kWh"}, [0, 10, 10, 10, 5]),
        ({"total": 15, "kind": "staff", "billing": "over the horizon", "from_month": 2.0}, [0, 0, 0, 10, 5]),
        ({"total": 9, "kind": "server", "billing": "purchase", "from_month": 2.0}, [0, 0, 9, 0, 0]),
        ({"total": -9, "kind": "residual", "billing": "over the horizon", "from_month": 2.0}, [0, 0, 0, 0, -9]),
        # A term of one month, half up front, bought twice; the second reaches half a month beyond the horizon.
        (
            {
                "total": 40,
                "billing": "reserved 1mo 50% upfront",
                "from_month": 2.0,
                "quantity_by_period": {"b busy": 1, "b quiet": 1},
            },
            [0, 0, 10, 10 + 10, 5 + 5],
        ),
        # One term of three months from the start on, held in the first stage only.
        (
            {
                "total": 30,
                "billing": "reserved 3mo",
                "from_month": 0.0,
                "quantity_by_period": {"a busy": 1, "a quiet": 1},
            },
            [0, 10, 10, 10, 0],
        ),
    ],
)
def test_months_that_a_line_falls_into(given: dict[str, Any], flow: list[float]) -> None:
    total = given.pop("total")
    assert months(line(total, **{"kind": "rental", "billing": "on_demand", **given})) == flow


# --- plans of one kind ------------------------------------------------------------------------------------


def test_plans_of_one_kind_stand_beside_a_growing_one() -> None:
    given = json.loads(posed().text)
    given["limits"].pop("quota")
    given["policy"].pop("lead_time")
    given["policy"]["billing"] = ["on_demand", "reserved", "purchase"]
    loaded = load_text(json.dumps(given))
    both = with_server(("on_demand", None, 0.0, 2.0), ("reserved", 4.0, 0.5, 1.0))
    result = solve(loaded, both, SolveOptions(workers=1, gap=0.0))
    assert verify(result, loaded.problem, both) == []
    rent, own = result.alternatives
    assert (rent.name, own.name) == (RENTED, BOUGHT)
    # A machine for twelve months in three terms, and one for six in two: eight months are paid. Or six by the hour at twice.
    assert float(rent.total or 0) == 730 * (12 + 8)
    assert [float(m.total) for m in rent.cash_flow[:2]] == [1460, 365]
    assert own.cash_flow[0].total == Decimal("5900")  # the site, the node, and 40 % of 11,000
    assert result.break_even is not None
    assert not result.break_even.beyond_horizon
    # In use all the time it is 18 machine-months by the hour; what owning costs is that share of them.
    assert result.break_even.utilisation == pytest.approx(float(own.total or 0) / (18 * 730 * 2.0), abs=1e-3)


# --- what verify refuses ----------------------------------------------------------------------------------

Change = Callable[[Result], Result]


def moved(source: int, target: int, column: str) -> Change:
    """A hundred of one month is said to be paid in another; all sums still agree."""

    def change(result: Result) -> Result:
        flow, spent = list(result.cash_flow), Decimal(0)
        for month, by in ((source, -100), (target, 100)):
            m = flow[month]
            flow[month] = m.model_copy(update={column: getattr(m, column) + by, "total": m.total + by})
        for n, m in enumerate(flow):
            spent += m.total
            flow[n] = m.model_copy(update={"cumulative": spent})
        return result.model_copy(update={"cash_flow": tuple(flow)})

    return change


def changed(kind: str, **update: Any) -> Change:
    return lambda r: r.model_copy(
        update={"items": tuple(i.model_copy(update=update) if i.kind == kind else i for i in r.items)}
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (moved(6, 0, "capex"), "month 6"),  # the purchase, in part, at the start
        (moved(4, 0, "rental"), "month 4"),  # the renewal
        (moved(12, 1, "maintenance"), "month 12"),
        (changed("server", from_month=0.0), "month 0"),
        (changed("maintenance", from_month=None), "month 1 of"),
        (changed("residual", total_cost=Decimal(-4000), unit_cost=Decimal(-4000)), "residual for"),
        (changed("staff", total_cost=Decimal(1200), unit_cost=Decimal(1200)), "staff for"),
        (
            lambda r: r.model_copy(update={"cost": r.cost.model_copy(update={"monthly": Decimal(1300)})}),
            "a month costs",
        ),  # type: ignore[union-attr]
        (
            lambda r: r.model_copy(update={"cost": r.cost.model_copy(update={"monthly": Decimal(2000)})}),
            "a month costs",
        ),  # type: ignore[union-attr]
    ],
)
def test_verify_refuses(change: Change, said: str) -> None:
    loaded, result = plan()
    wrong = verify(change(result), loaded.problem, catalog())
    assert any(said in text for text in wrong), wrong


def test_verify_refuses_an_objective_that_is_not_the_present_value() -> None:
    loaded, result = plan("12%")
    assert result.objective is not None
    cheaper = result.model_copy(update={"objective": result.objective - 1, "bound": result.objective - 1})
    wrong = verify(cheaper, loaded.problem, catalog())
    assert any("present value of the cash flow" in text for text in wrong), wrong
