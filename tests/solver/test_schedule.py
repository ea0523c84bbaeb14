"""Jobs in the week, on hand-made and random integers: CP-SAT's intervals, HiGHS hour by hour, and plain enumeration agree.

A week of six hours: three busy ones, in which the service takes both GPUs of a held node, then three in which it takes none.
A node costs 100 cents, a run of the job one cent.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from catalogs.catalog import Catalog
from catalogs.load import load_catalog
from problems.load import LoadedProblem, load_text
from problems.windows import parse_windows
from solver import schedule
from solver.counts.model import countable
from solver.events import SolveOptions
from solver.fixed_values import objective_of
from solver.instance import DEMAND_UNIT, Instance, Runs
from solver.model import build_model
from solver.plan import Result, Status
from solver.search import Values, run
from solver.search_state import How
from solver.solve import solve
from solver.staged import staged
from solver.verify import verify
from tests.oracle.brute import brute_force
from tests.oracle.highs import highs_optimum
from tests.solver.test_rules import HALF, instance, kind, option, pool, service, way

WEEK = (0, 0, 0, 1, 1, 1)
ANY = (0, 5)


def week(
    *, slots: tuple[int, ...] = (3,), runs: tuple[Runs, ...] | None = None, gpus: int = 2, quiet: int = 0, **more: Any
) -> Instance:
    jobs = tuple(f"j{n}" for n in range(len(slots)))
    base = instance(
        periods=("busy", "quiet"),
        capacities=(way(billing="reserved", commit=True, cost=(100,), cash=(100,), monthly=(10,)),),
        services=(service(demand=((DEMAND_UNIT, quiet),)),),
        replicas=(kind(cost=(0, 0), cash=(0, 0), monthly=(0, 0), carbon=(0, 0)),),
        jobs=jobs,
        options=tuple(option(work=n, pooled=True, gpus=gpus, cost=1, cash=1, slots=h) for n, h in enumerate(slots)),
        runs=runs or tuple(Runs((ANY,)) for _ in slots),
        weeks=(WEEK,),
    )
    return replace(base, **more)


def values_of(inst: Instance) -> tuple[int | None, Values | None]:
    found = run(build_model(inst), time_limit_s=20, gap=0.0, workers=2, seed=1)
    return found.objective, found.values


def all_say(inst: Instance) -> int | None:
    best = brute_force(inst)
    expected = None if best is None else best.objective
    assert values_of(inst)[0] == expected
    assert highs_optimum(inst).objective == expected
    return expected


def test_a_job_runs_while_the_service_sleeps() -> None:
    assert all_say(week(slots=(1,))) == 101
    assert all_say(week(slots=(3,))) == 101  # exactly fills the quiet hours
    assert all_say(week(slots=(4,))) == 201  # an hour too long: a second node
    one = (way(billing="reserved", commit=True, cost=(100,), cash=(100,), max_nodes=1),)
    assert all_say(week(slots=(4,), capacities=one)) is None


def test_jobs_follow_one_another_on_one_node() -> None:
    assert all_say(week(slots=(2, 1))) == 102
    assert all_say(week(slots=(2, 2))) == 202
    assert all_say(week(slots=(2, 2), gpus=1)) == 102  # side by side
    assert all_say(week(slots=(2, 2), gpus=1, quiet=HALF)) == 202  # the service keeps one GPU: 4 GPU-hours, 3 are free


def test_the_week_is_a_ring() -> None:
    """Quiet hours at both ends of the week are one night."""
    ring = ((1, 1, 0, 0, 0, 1),)
    assert all_say(week(slots=(3,), weeks=ring)) == 101
    _, values = values_of(week(slots=(3,), weeks=ring))
    assert values is not None
    assert values.start[0, 0] == 5


def test_windows() -> None:
    assert all_say(week(slots=(2,), runs=(Runs((ANY,), ((3, 6),)),))) == 101
    assert all_say(week(slots=(2,), runs=(Runs((ANY,), ((3, 5),)),))) == 101  # exactly fills its window
    assert all_say(week(slots=(2,), runs=(Runs((ANY,), ((2, 4),)),))) == 201  # reaches into the busy hours
    assert all_say(week(slots=(2,), runs=(Runs((ANY,), ((3, 4),)),))) is None  # longer than its window
    assert all_say(week(slots=(2,), runs=(Runs((ANY,), ((5, 7),)),))) == 201  # past the end of the week into hour 0


def test_several_runs() -> None:
    assert all_say(week(slots=(1,), runs=(Runs((ANY, ANY, ANY)),))) == 101
    assert all_say(week(slots=(1,), runs=(Runs((ANY,) * 4),))) == 201
    assert all_say(week(slots=(1,), runs=(Runs(((0, 2), (3, 5))),))) == 201  # the first has its own half of the week


def test_jobs_that_wait() -> None:
    free, waits = Runs((ANY,)), Runs((ANY,), (), (0,))
    assert all_say(week(slots=(1, 2), runs=(free, waits))) == 102
    # The first must run at the end of the quiet hours: nothing is left of the week after it.
    assert all_say(week(slots=(1, 1), runs=(Runs(((5, 5),)), waits))) is None
    assert all_say(week(slots=(1, 1), runs=(Runs(((4, 4),)), waits))) == 102
    _, values = values_of(week(slots=(1, 2), runs=(free, waits)))
    assert values is not None
    assert values.start[1, 0] >= values.start[0, 0] + 1


def test_hired_jobs_keep_the_order_too() -> None:
    hired = option(work=0, cost=1, cash=1, slots=2)
    waits = option(work=1, pooled=True, gpus=2, cost=1, cash=1, slots=2)
    runs = (Runs(((2, 2),)), Runs((ANY,), (), (0,)))
    assert all_say(week(slots=(2, 2), options=(hired, waits), runs=runs)) == 102
    runs = (Runs(((3, 3),)), Runs((ANY,), (), (0,)))
    # It ends at hour 5; the other has one quiet hour left and the first busy one of the next week.
    assert all_say(week(slots=(2, 2), options=(hired, waits), runs=runs)) == 202


def test_stages_share_one_schedule() -> None:
    """A second stage with its own load: a run must find room in the same hours of both."""
    late = (1, 1, 1, 0, 0, 0)
    assert all_say(week(slots=(1,), weeks=(WEEK, late))) == 201


def random_week(rng: random.Random) -> Instance:
    """Up to three jobs with up to two options each on up to two pools."""
    pools = rng.randrange(1, 3)
    hours = rng.choice([4, 5, 6])
    jobs = rng.randrange(1, 4)
    slots = [rng.randrange(1, 4) for _ in range(jobs)]
    options, runs = [], []
    for w in range(jobs):
        for _ in range(rng.randrange(1, 3)):
            pooled = rng.random() < 0.8
            kept = 0 if rng.random() < 0.15 else slots[w]
            money = rng.randrange(1, 60)
            options.append(
                option(
                    work=w,
                    pool=rng.randrange(pools),
                    pooled=pooled,
                    gpus=rng.choice([1, 2]),
                    cost=money,
                    cash=money,
                    slots=kept,
                )
            )
        count = 1 if rng.random() < 0.7 else 2
        spans = ((a := rng.randrange(hours), a + rng.randrange(1, hours + 1)),) if rng.random() < 0.4 else ()
        after = (rng.randrange(w),) if w and rng.random() < 0.4 else ()
        # Whoever waits, or is waited for, has hours of its own in every option.
        runs.append(Runs(((0, hours - 1),) * count, spans, after))
    ordered = {a for r in runs for a in r.after} | {w for w, r in enumerate(runs) if r.after or r.spans}
    options = [replace(o, slots=slots[o.work]) if o.work in ordered else o for o in options]
    levels = tuple(rng.randrange(2) for _ in range(hours))
    return instance(
        periods=("busy", "quiet"),
        pools=tuple(pool(key=f"p{o}") for o in range(pools)),
        capacities=(
            *(
                way(pool=o, billing="reserved", commit=True, max_nodes=3, cost=(rng.randrange(50, 150),), cash=(100,))
                for o in range(pools)
            ),
            way(pool=0, max_nodes=2, cost=(70, 40), cash=(70, 40), monthly=(5, 5), carbon=(1, 1)),
        ),
        services=(service(demand=((DEMAND_UNIT, rng.choice([0, HALF])),)),),
        replicas=tuple(
            kind(pool=o, max_count=3, cost=(0, 0), cash=(0, 0), monthly=(0, 0), carbon=(0, 0)) for o in range(pools)
        ),
        jobs=tuple(f"j{w}" for w in range(jobs)),
        options=tuple(options),
        runs=tuple(runs),
        weeks=(levels,),
    )


@pytest.mark.parametrize("few", [schedule.FEW_POOLS, 0])
@pytest.mark.parametrize("chunk", range(4))
def test_random_weeks(chunk: int, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With all pools in full from the start, and with pools in full only where a plan turned out to have no schedule."""
    monkeypatch.setattr(schedule, "FEW_POOLS", few)
    rng = random.Random(chunk)
    seen = {True: 0, False: 0}
    for _ in range(10):
        inst = random_week(rng)
        expected = all_say(inst)
        seen[expected is None] += 1
    assert seen[False] >= 3


@pytest.mark.parametrize("chunk", range(3))
def test_mixes_beside_runs_are_searched_over_counts(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts know of the week what every schedule obeys; what is found has a schedule, and is the best of all."""
    monkeypatch.setattr("solver.staged.SMALL_COUNTED", 0)
    rng = random.Random(100 + chunk)
    proved = 0
    for _ in range(12):
        base = random_week(rng)
        inst = replace(
            base,
            services=tuple(replace(s, demand=s.demand * 2) for s in base.services),
            replicas=tuple(replace(r, rate=(*r.rate, round(r.rate[0] * rng.uniform(0.6, 1.9)))) for r in base.replicas),
        )
        assert countable(inst)
        exact = run(build_model(inst), time_limit_s=20, gap=0.0, workers=2, seed=1, patience=1.0)
        found = staged(inst, How(20.0, 0.0, 2, 1))
        assert found is not None
        assert (found.status, found.objective) == (exact.status, exact.objective)
        if found.values is None:
            continue
        proved += 1
        assert set(found.values.start) == set(build_model(inst).context.variables.start)
        assert objective_of(build_model(inst), found.values) == found.objective
    assert proved >= 3


def test_windows_read_as_people_write_them() -> None:
    assert parse_windows("nights").spans[0] == (20, 32)
    assert parse_windows(["mon-fri 20:00-06:00", "weekend"]).spans[-1] == (116, 168)
    assert parse_windows("sun 22-04").spans == ((166, 172),)
    for bad in ("noon", "mon 10:30-12:00", "moon 1-2", "3-3", "25-26"):
        with pytest.raises(ValueError, match=r"window|days are|hours|whole"):
            parse_windows(bad)


NIGHT = """
name: night
horizon: 12mo
workloads:
  - {name: chat, kind: serve, measured: [{accelerator: L40S, accelerators: 1, rate: 4 req/s}],
     traffic: {rate: 7 req/s, isl: 1000, osl: 300, calendar: office_hours}}
  - {name: tune, kind: batch, measured: [{accelerator: L40S, accelerators: 1, rate: 4 req/s}], isl: 100, osl: 100,
     requests: 200k, runs: 2/wk, window: nights}
  - {name: evals, kind: batch, measured: [{accelerator: L40S, accelerators: 1, rate: 4 req/s}], isl: 100, osl: 100,
     requests: 50k, runs: 2/wk, after: tune}
sites: [{name: room, country: US}]
limits: {accelerators: [L40S]}
policy: {billing: [purchase]}
"""


def planned() -> tuple[LoadedProblem, Catalog, Result]:
    catalog = load_catalog()
    loaded = load_text(NIGHT, "night.yaml")
    return loaded, catalog, solve(loaded, catalog, SolveOptions(runner_up=False))


def test_night_shift_shares_the_cards_of_the_day() -> None:
    loaded, catalog, result = planned()
    assert result.status is Status.OPTIMAL
    assert verify(result, loaded.problem, catalog) == []
    cards = sum(i.accelerators or 0 for i in result.items if i.kind == "server")
    assert cards == 2  # what the service alone needs by day
    runs = {w.name: w.placements[0] for w in result.workloads if w.kind == "batch"}
    assert len(runs["tune"].starts_h) == len(runs["evals"].starts_h) == 2
    used = next(i.utilisation for i in result.items if i.kind == "server")
    assert used is not None
    assert 0.2 < used < 0.5


@pytest.mark.parametrize("tamper", ["early", "window", "fewer", "crowded", "none"])
def test_a_tampered_schedule_is_refused(tamper: str) -> None:
    loaded, catalog, result = planned()
    runs = {w.name: w.placements[0].starts_h for w in result.workloads if w.kind == "batch"}
    new: dict[str, dict[str, tuple[int, ...]]] = {
        "early": {"evals": (runs["tune"][0], runs["evals"][1])},
        "window": {"tune": (10, runs["tune"][1])},
        "fewer": {"tune": runs["tune"][:1]},
        "crowded": {"evals": (24 * 4 + 8, 24 * 4 + 9)},  # by day, when the service has both cards
        "none": {"tune": ()},
    }
    workloads = tuple(
        w.model_copy(update={"placements": (w.placements[0].model_copy(update={"starts_h": new[tamper][w.name]}),)})
        if w.name in new[tamper]
        else w
        for w in result.workloads
    )
    assert verify(result.model_copy(update={"workloads": workloads}), loaded.problem, catalog) != []


def test_every_start_has_a_value_whichever_option_is_chosen() -> None:
    """Also of a job that hires freely beside an option with hours: hints and later models read all of them."""
    hired = option(work=0, cost=1, cash=1, slots=0)
    held = option(work=0, pooled=True, gpus=2, cost=200, cash=200, slots=2)
    other = option(work=1, pooled=True, gpus=2, cost=1, cash=1, slots=2)
    inst = week(slots=(2, 2), options=(hired, held, other))
    _, values = values_of(inst)
    assert values is not None
    assert set(values.start) == {(0, 0), (1, 0)}
