"""What-if runs: texts of options, implied answers, exact break points, Monte Carlo the same wherever it runs, resuming."""

from __future__ import annotations

import threading
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from catalogs.load import load_catalog
from problems.load import load_problem
from problems.schema import Serve
from solver.plan import Status
from solver.sweep import How, sample, sweep
from solver.verify import verify
from solver.whatif.mix import largest_mix
from solver.whatif.price_factors import matches, with_factors
from solver.whatif.stress import stress
from solver.whatif.study import Study, multiplied, number_at
from solver.whatif.sweep_points import Stress, Sweep, risk_of, signature
from solver.whatif.vary import Amount, BadRequest, Scenario, draws, grid, parse_law, parse_vary
from solver.whatif.what_if import Wanted, what_if

ROOT = Path(__file__).resolve().parents[2]
PROBLEMS = ROOT / "problems"
DRAWS = 24
LAWS = ("prices.on_demand:lognormal(0.25)", "prices.purchase:triangular(0.6,1,1.2)")


def study_of(name: str, *overrides: str) -> Study:
    return Study(load_problem(PROBLEMS / f"{name}.yaml", overrides), load_catalog())


# --- texts ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("limits.power=20kW..30kW:5kW", ("20kW", "25kW", "30kW")),
        ("limits.power=20..30kW:5", ("20kW", "25kW", "30kW")),
        ("a.b=$80k/mo..$90k/mo:$4k/mo", ("$80k/mo", "$84k/mo", "$88k/mo", "$90k/mo")),
        ("a.b=0.1..0.3:0.1", ("0.1", "0.2", "0.3")),
        ("a.b=1 req/s, 2 req/s", ("1 req/s", "2 req/s")),
        ("prices.spot=50%..100%:25%", ("0.5", "0.75", "1")),
        ("prices.h100=0.8,1.2", ("0.8", "1.2")),
        ("a=5kW..5kW", ("5kW",)),
    ],
)
def test_ranges_and_lists(text: str, values: tuple[str, ...]) -> None:
    assert parse_vary(text).values == values


def test_gpu_power_limit_is_a_policy() -> None:
    assert parse_vary("gpu.power_limit=60%..100%:20%").path == "policy.gpu_power_limit"


@pytest.mark.parametrize(
    "text",
    [
        "limits.power",
        "limits.power=",
        "a=1kW..2MW:1W",
        "a=3..1:1",
        "a=1..2:0",
        "a=1..2:-1",
        "a=1..9:0.0001",
        "prices.x=$3",
    ],
)
def test_bad_ranges(text: str) -> None:
    with pytest.raises(BadRequest):
        parse_vary(text)


@pytest.mark.parametrize(
    "text",
    [
        "prices.spot",
        "prices.spot:gamma(1)",
        "prices.spot:normal(1)",
        "prices.spot:uniform(2,1)",
        "prices.spot:uniform($1,$2)",
        "limits.power:lognormal(3kW)",
        "limits.power:uniform(3,4kW)",
    ],
)
def test_bad_laws(text: str) -> None:
    with pytest.raises(BadRequest):
        parse_law(text)


def test_draws_do_not_depend_on_what_else_is_drawn() -> None:
    one, two = parse_law(LAWS[0]), parse_law(LAWS[1])
    alone, both = draws([one], 5, 7), draws([two, one], 9, 7)
    assert [dict(s.prices)[one.path] for s in alone] == [dict(s.prices)[one.path] for s in both[:5]]
    assert draws([one], 5, 8) != alone


def test_factors_multiply_what_the_file_says_whatever_its_form() -> None:
    study = study_of("small-office")
    got = multiplied(study.loaded, "workloads.*.traffic.rate", Decimal("1.5"))
    assert dict(got).keys() == {"workloads.mistral.traffic.rate", "workloads.llama.traffic.rate"}
    loaded, _ = study.at(Scenario(factors=(("workloads.*.traffic.rate", "1.5"),)))
    assert [w.traffic.rate for w in loaded.problem.workloads if isinstance(w, Serve)] == [4.5, 7.5]
    chat = study_of("chat-70b-int4").loaded
    assert multiplied(chat, "workloads.chat.traffic.rate", Decimal(2)) == [
        ("workloads.chat.traffic.concurrency", "200")
    ]
    assert str(Amount.parse("$80k/mo").at(Decimal("81.5"))) == "$81.5k/mo"
    with pytest.raises(BadRequest, match="no number"):
        multiplied(chat, "workloads.chat.traffic.calendar.x", Decimal(2))


# --- prices -----------------------------------------------------------------------------------------------


def test_price_selectors() -> None:
    catalog = load_catalog()
    problem = study_of("small-office").loaded.problem
    _, changed = with_factors(problem, catalog, [("prices.l40s", 2.0)])
    hit, cards, everything = matches(catalog, "l40s")
    assert hit.any()
    assert not everything
    assert cards == ("L40S",)
    before, after = catalog.prices["price_per_hour"], changed.prices["price_per_hour"]
    assert (after.filter(hit) / before.filter(hit) - 2).abs().max() < 1e-5
    assert (after.filter(~hit) == before.filter(~hit)).all()
    assert changed.sha256 != catalog.sha256
    both, _, _ = matches(catalog, "aws.spot")
    aws, spot = matches(catalog, "aws")[0], matches(catalog, "spot")[0]
    assert (both == (aws & spot)).all()
    with pytest.raises(BadRequest, match="did you mean"):
        matches(catalog, "awz")


def test_electricity_factor_moves_a_sites_own_price_too() -> None:
    study = study_of("power-capped-room")
    loaded, catalog = study.at(Scenario(prices=(("prices.electricity", "2"),)))
    site = loaded.problem.sites[0]
    assert site.electricity is not None
    assert site.electricity.amount == Decimal("0.24")
    dear = study.solve_loaded(loaded, catalog)
    assert dear.objective is not None
    assert dear.objective > (study.solve().objective or 0.0)
    assert verify(dear, loaded.problem, catalog, PROBLEMS) == []


# --- grids ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["two cards", pytest.param("all cards", marks=pytest.mark.slow)])
def room_study(request: pytest.FixtureRequest) -> Callable[..., Study]:
    """The room with a choice of two cards, which changes with the power; with all of the catalogue, each search takes seconds."""
    cards = "limits.accelerators=[B200-180GB-SXM6, MI355X]"
    return partial(study_of, "power-capped-room", *([cards] if request.param == "two cards" else []))


@pytest.fixture(scope="module")
def room(room_study: Callable[..., Study]) -> Sweep:
    return sweep(room_study(), [parse_vary("sites.room.power=9kW..24kW:3kW")], How())


def test_cost_falls_as_power_grows_and_below_the_least_there_is_no_plan(
    room: Sweep, room_study: Callable[..., Study]
) -> None:
    costs = [p.result.objective for p in room.points if p.result.objective is not None]
    assert costs == sorted(costs, reverse=True)
    assert costs[0] > costs[-1]
    status = [p.result.status for p in room.points]
    gone = status.count(Status.INFEASIBLE)
    assert gone >= 1
    assert status == [Status.INFEASIBLE] * gone + [Status.OPTIMAL] * (len(status) - gone)
    least = int(room.least["sites.room.power"].removesuffix("W"))
    assert room_study(f"sites.room.power={least}W").solve().status is Status.OPTIMAL
    assert room_study(f"sites.room.power={least - 1}W").solve().status is Status.INFEASIBLE


def test_implied_answers_are_those_that_solving_gives(room: Sweep, room_study: Callable[..., Study]) -> None:
    study = room_study()
    assert room.implied >= 2
    assert room.solved + room.implied == len(room.points)
    for point in room.points:
        scenario = Scenario(tuple(point.varied.items()))
        loaded, catalog = study.at(scenario)
        again = study.solve_loaded(loaded, catalog)
        assert (again.status, again.objective) == (point.result.status, point.result.objective)
        assert point.result.inputs.problem_sha256 == loaded.sha256
        assert verify(point.result, loaded.problem, catalog, PROBLEMS) == []


def test_break_points_are_exact_to_the_watt(room: Sweep, room_study: Callable[..., Study]) -> None:
    assert len(room.breaks) >= 5
    study = room_study()
    for found in room.breaks:
        assert found.exact
        at = study.solve(Scenario((("sites.room.power", f"{found.at:.0f}W"),)))
        under = study.solve(Scenario((("sites.room.power", f"{found.at - 1:.0f}W"),)))
        assert at.cost is not None
        assert at.cost.total == found.cost_above
        assert (None if under.cost is None else under.cost.total) == found.cost_below
        assert found.cost_below is None or found.cost_below > at.cost.total


def test_marginal_value_is_the_saving_per_kilowatt_and_month(room: Sweep) -> None:
    for before, point in zip(room.points, room.points[1:], strict=False):
        if point.marginal is None:
            continue
        assert before.result.cost is not None
        assert point.result.cost is not None
        saved = float(before.result.cost.total - point.result.cost.total)
        assert point.marginal == pytest.approx(saved / 3 / 36, abs=0.006)
        assert point.marginal_unit == "USD per kW-month"
    assert any(p.binding for p in room.points)
    assert room.points[-1].binding == ()


def test_gpu_power_limits_cap_every_card_and_cost_never_falls_with_them() -> None:
    cards = "limits.accelerators=[B200-180GB-SXM6, H100-94GB-NVL, MI355X]"
    study = study_of("power-capped-room", "sites.room.power=25kW", cards)
    found = sweep(study, [parse_vary("gpu.power_limit=70%,85%,100%")], How(breaks=False))
    rated = dict(study.catalog.accelerators.select("accelerator", "tdp_w").iter_rows())
    costs = []
    for point, share in zip(found.points, (0.7, 0.85, 1.0), strict=True):
        loaded, catalog = study.at(Scenario(tuple(point.varied.items())))
        assert verify(point.result, loaded.problem, catalog, PROBLEMS) == []
        for item in point.result.items:
            if item.kind == "server" and item.accelerator is not None:
                limit = item.power_limit_w or rated[item.accelerator]
                assert limit <= rated[item.accelerator] * share + 0.5
        costs.append(point.result.objective)
    assert costs == sorted(costs, key=lambda c: -(c or 0.0))
    loose = found.points[-1].result
    tight, catalog = study.at(Scenario((("policy.gpu_power_limit", "70%"),)))
    if signature(loose) != signature(found.points[0].result):
        assert any("cards may draw" in fault for fault in verify(loose, tight.problem, catalog, PROBLEMS))


def test_other_fields_are_bisected() -> None:
    study = rented_office()
    found = sweep(study, [parse_vary("workloads.llama.traffic.rate=5 req/s..20 req/s:15 req/s")], How())
    assert len(found.breaks) == 2
    for a in found.breaks:
        assert not a.exact
        assert 5 <= a.at < a.until <= 20
        assert a.until - a.at <= 15 / 1000
        assert a.below != a.above


def test_values_and_paths() -> None:
    study = study_of("power-capped-room", "limits.budget.monthly=35万元/月")
    assert number_at(study.loaded, "sites.room.power") == 30_000
    assert number_at(study.loaded, "limits.budget.capex") == 1_200_000
    assert number_at(study.loaded, "limits.budget.monthly") is None
    assert number_at(study.loaded, "workloads.chat.traffic.rate") == 20
    assert number_at(study.loaded, "prices.spot") is None
    assert len(grid([parse_vary("a=1,2"), parse_vary("prices.spot=1,2,3")])) == 6


@pytest.mark.parametrize(
    "wanted",
    [
        Wanted(),
        Wanted(vary=["prices.nobody=1,2"]),
        Wanted(vary=["limits.power=1kW"], stress=["workloads.*.traffic.rate=1..2"]),
        Wanted(vary=["limits.power=1kW", "limits.power=2kW"]),
        Wanted(vary=["limits.power=1kW"], draws=5),
        Wanted(stress=["limits.power=1..2"]),
        Wanted(stress=["workloads.nobody.traffic.rate=1..2"]),
        Wanted(sample=["workloads.nobody.traffic.rate:uniform(1,2)"]),
    ],
)
def test_what_cannot_be_done_is_said_before_the_work(wanted: Wanted) -> None:
    with pytest.raises(BadRequest):
        what_if(study_of("small-office"), wanted, How())


# --- Monte Carlo ------------------------------------------------------------------------------------------


def drawn(study: Study, count: int, **how: Any) -> Sweep:
    return sample(study, [parse_law(law) for law in LAWS], [], count, How(**how))


def rented_office() -> Study:
    """The office where nothing is bought: a search takes half the time."""
    return study_of("small-office", "policy.billing=[on_demand, reserved]")


def table(found: Sweep) -> list[tuple[object, ...]]:
    return [(sorted(p.varied.items()), p.result.model_dump_json()) for p in found.points]


@pytest.fixture(scope="module")
def alone() -> Sweep:
    return drawn(rented_office(), DRAWS)


def test_risk_sums_up_the_scenarios(alone: Sweep) -> None:
    assert alone.risk is not None
    costs = sorted(p.result.cost.total for p in alone.points if p.result.cost is not None)
    assert len(costs) == alone.risk.scenarios == DRAWS
    assert alone.risk.mean == sum(costs) / DRAWS
    assert alone.risk.p50 == costs[DRAWS // 2 - 1]
    assert alone.risk.p95 == costs[DRAWS - 2] < costs[DRAWS - 1]
    assert sum(s.scenarios for s in alone.risk.plans) == DRAWS
    assert len({p.result.objective for p in alone.points}) > 20
    again = risk_of([p.result for p in alone.points])
    assert again == alone.risk


def test_same_draws_on_two_processes(alone: Sweep) -> None:
    assert table(drawn(rented_office(), DRAWS, workers=2)) == table(alone)


def test_interrupted_and_resumed_the_table_is_the_same(alone: Sweep, tmp_path: Path) -> None:
    stop = threading.Event()

    def after_some(done: int, of: int, said: str) -> None:
        del of, said
        if done >= 16:
            stop.set()

    part = drawn(rented_office(), DRAWS, store=tmp_path, stop=stop, tell=after_some)
    assert not part.complete
    assert 16 <= len(part.points) < DRAWS
    assert list(tmp_path.glob("*.parquet"))
    (tmp_path / "torn.parquet").write_bytes(b"PAR1 torn")
    rest = drawn(rented_office(), DRAWS, store=tmp_path)
    assert rest.complete
    assert rest.resumed == len(part.points)
    assert table(rest) == table(alone)


def test_store_does_not_mix_problems(tmp_path: Path) -> None:
    laws = [parse_law(LAWS[0])]
    first = sample(study_of("experiments"), laws, [], 3, How(store=tmp_path))
    other = sample(study_of("experiments", "horizon=6mo"), laws, [], 3, How(store=tmp_path))
    assert other.resumed == 0
    assert [p.result.objective for p in first.points] != [p.result.objective for p in other.points]


@pytest.mark.filterwarnings("ignore")
def test_same_draws_on_a_dask_cluster(alone: Sweep) -> None:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50
    ) as cluster:
        address = cluster.scheduler_address.replace("tcp://", "dask://")
        found = drawn(rented_office(), DRAWS, cluster=address)
    assert table(found) == table(alone)


@pytest.mark.parametrize("cluster", ["http://somewhere", "slurm"])
def test_unknown_clusters(cluster: str) -> None:
    with pytest.raises(BadRequest, match="dask://HOST:PORT"):
        drawn(study_of("experiments"), 2, cluster=cluster)


# --- a plan under more load -------------------------------------------------------------------------------


def stressed(name: str, text: str, *overrides: str) -> Stress:
    found = what_if(study_of(name, *overrides), Wanted(stress=[text]), How())
    assert isinstance(found, Stress)
    return found


def test_a_plan_breaks_where_its_headroom_ends() -> None:
    found = stressed("power-capped-room", "workloads.*.traffic.rate=1.0..1.4:0.2")
    only = found.breaks[0]
    plan = found.base.workloads[0]
    assert only.holds_to == pytest.approx(1 + plan.headroom, rel=1e-6)
    for step in found.steps:
        assert bool(step.broken) == (step.factor > only.holds_to)
        assert step.extra is not None
        assert step.extra >= 0
    assert found.steps[0].extra == 0
    assert "TTFT" in only.first or "TPOT" in only.first


@pytest.mark.slow
def test_n_plus_one_is_replayed_with_a_node_lost() -> None:
    study = study_of("small-office", "workloads.*.redundancy=n+1")
    found = stress(study, parse_vary("workloads.*.traffic.rate=1,2"), threading.Event())
    assert all(b.holds_to >= 1 - 1e-6 for b in found.breaks)
    for b in found.breaks:
        spare = next(w.headroom for w in found.base.workloads if w.name == b.workload)
        assert b.holds_to < 1 + spare


def test_mix_of_sizes_is_a_linear_programme() -> None:
    assert largest_mix([1.0], [([2.0], 3)]) == pytest.approx(6.0)
    # Each kind serves what it is better at: 2 x 2.0 of one size, 1 x 3.0 and a part of the other.
    assert largest_mix([0.5, 0.5], [([1.0, 2.0], 2), ([3.0, 1.0], 1)]) == pytest.approx(20 / 3)
    assert largest_mix([0.5, 0.5], [([0.0, 2.0], 2)]) == pytest.approx(0.0)
