"""The replay of a plan against raw traffic: good plans pass, and every way to bend hours, stages or starts is refused."""

from __future__ import annotations

import atexit
import json
import math
import random
import shutil
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from catalogs.load import load_catalog
from problems.load import LoadedProblem, load_text
from problems.schema import Serve
from solver.candidates.periods import load_calendar
from solver.events import SolveOptions
from solver.plan import Item, Result
from solver.solve import base_dir, solve
from solver.verify import verify
from solver.verify_traffic import raw_hours
from tests.oracle.problems import random_case

MODEL = {"kind": "serve", "model": "llama-3-8b", "precision": ["fp8"]}
LIMITS = {"accelerators": ["L40S", "L4"], "countries": ["US"]}


def curve(hour: int, rng: random.Random) -> int:
    """Requests of an hour: a day's wave, quieter weekends, noise."""
    wave = 1.2 + math.sin((hour % 24 - 8) / 24 * 2 * math.pi)
    return round(20_000 * wave * (0.4 if hour // 24 % 7 >= 5 else 1.0) * rng.uniform(0.9, 1.1))


def write(path: Path, hours: int, *, gap: range = range(0), tokens: bool = False, minutes: int = 60) -> None:
    rng, start = random.Random(7), datetime(2026, 11, 2)
    rows = ["timestamp,requests" + ",tokens" * tokens]
    for n in range(hours):
        for part in range(60 // minutes):
            if n not in gap:
                time = (start + timedelta(hours=n, minutes=part * minutes)).isoformat(sep=" ")
                requests = curve(n, rng) * minutes / 60
                rows.append(f"{time},{requests:g}" + f",{requests * (600 if n % 5 == 0 else 300):g}" * tokens)
    path.write_text("\n".join(rows) + "\n")


@lru_cache(maxsize=1)
def folder() -> Path:
    """Files of measured traffic beside which the problems stand."""
    made = Path(mkdtemp(prefix="kitout-traffic-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    write(made / "weeks.csv", 24 * 28)
    write(made / "gap.csv", 24 * 21, gap=range(100, 108))
    write(made / "tokens.csv", 24 * 14, tokens=True)
    write(made / "fine.csv", 24 * 7, minutes=10)
    write(made / "hour.csv", 1)
    return made


def service(name: str, **traffic: Any) -> dict[str, Any]:
    return {"name": name, **MODEL, "traffic": {"isl": 300, "osl": 100, **traffic}}


PROBLEMS: dict[str, dict[str, Any]] = {
    "weeks": {"workloads": [service("chat", calendar={"csv": "weeks.csv"})]},
    "gap": {"workloads": [service("chat", calendar={"csv": "gap.csv"})]},
    "tokens": {"workloads": [service("chat", calendar={"csv": "tokens.csv"})]},
    "fine": {"workloads": [service("chat", rate="9 req/s", calendar={"csv": "fine.csv"})]},
    "hour": {"workloads": [service("chat", calendar={"csv": "hour.csv"})]},
    "two": {
        "workloads": [
            service("chat", calendar={"csv": "weeks.csv"}),
            service("search", rate="4 req/s", calendar="office_hours"),
        ]
    },
    "folded": {
        "workloads": [
            service("chat", calendar={"csv": "weeks.csv"}),
            service("search", calendar={"csv": "gap.csv"}),
        ]
    },
    "grows": {
        "horizon": "9mo",
        "workloads": [service("chat", growth="9%/mo", calendar={"csv": "weeks.csv"})],
        "policy": {"billing": ["on_demand", "reserved"], "pro_rate_commitments": True},
    },
    "steps": {
        "workloads": [
            service(
                "chat",
                rate="40 req/s",
                calendar="day_night",
                stages=[{"from": "0mo", "scale": "60%"}, {"from": "5mo", "scale": "100%"}],
            )
        ],
        "policy": {"billing": ["on_demand", "reserved"], "pro_rate_commitments": True},
    },
}


@lru_cache(maxsize=32)
def solved(name: str) -> tuple[LoadedProblem, Result]:
    loaded = load_text(json.dumps({"limits": LIMITS, **PROBLEMS[name]}), str(folder() / "problem.yaml"))
    return loaded, solve(loaded, load_catalog(), SolveOptions(runner_up=False, workers=2, time_limit_s=6))


def wrong(name: str, result: Result) -> list[str]:
    loaded, _ = solved(name)
    return verify(result, loaded.problem, load_catalog(), base_dir(loaded))


@pytest.mark.parametrize("name", sorted(PROBLEMS))
def test_plans_over_time_pass(name: str) -> None:
    _, result = solved(name)
    assert result.cost is not None
    assert wrong(name, result) == []


@pytest.mark.parametrize("name", sorted(PROBLEMS))
def test_both_readings_of_the_traffic_agree(name: str) -> None:
    """The compiler's levels and the recheck's own hours, which share no code."""
    loaded, _ = solved(name)
    services = [w for w in loaded.problem.workloads if isinstance(w, Serve)]
    calendar = load_calendar(loaded.problem, load_catalog())
    for s, work in enumerate(services):
        slots, load = raw_hours(work, load_catalog(), folder())
        assert max(load) == pytest.approx(work.traffic.load)
        if len(slots) == len(calendar.hours):
            planned = [calendar.levels[level].loads[s] * work.traffic.load for level in calendar.hours]
            assert tuple(slots) == calendar.slots
        else:
            planned = [calendar.levels[calendar.week[slot]].loads[s] * work.traffic.load for slot in slots]
        assert all(x <= y * (1 + 1e-12) for x, y in zip(load, planned, strict=True))


def test_the_loss_of_compression_is_stated() -> None:
    _, result = solved("weeks")
    assert result.calendar is not None
    assert len(result.calendar.levels) == 12
    assert 0 < result.calendar.over_provisioned["chat"] < 0.1
    share = f"{result.calendar.over_provisioned['chat']:.1%}"
    assert any(share in text for text in result.assumptions)
    assert len(result.calendar.hours) == 24 * 28


def test_a_gap_is_told() -> None:
    _, result = solved("gap")
    assert any("gap.csv: 8 of 504 hours are missing" in text for text in result.assumptions)


def test_a_plan_of_measured_traffic_costs_less_than_one_for_its_peak() -> None:
    _, result = solved("weeks")
    loaded, _ = solved("weeks")
    work = loaded.problem.workloads[0]
    assert isinstance(work, Serve)
    flat = {"limits": LIMITS, "workloads": [service("chat", rate=f"{work.traffic.load} req/s")]}
    peak = solve(load_text(json.dumps(flat)), load_catalog(), SolveOptions(runner_up=False, workers=2, time_limit_s=6))
    assert result.objective is not None
    assert peak.bound is not None
    assert result.objective < peak.bound


def test_every_machine_says_since_when() -> None:
    _, result = solved("steps")
    commitments = [i for i in result.items if i.billing.startswith("reserved")]
    assert commitments
    assert all(i.from_month in (0, 5) and i.quantity_by_period for i in commitments)


Bend = Callable[[Result], Result]


def calendar(**changes: Any) -> Bend:
    def bend(r: Result) -> Result:
        assert r.calendar is not None
        given = {k: v(r.calendar) if callable(v) else v for k, v in changes.items()}
        return r.model_copy(update={"calendar": r.calendar.model_copy(update=given)})

    return bend


def stages(change: Callable[[Any], dict[str, Any]]) -> Bend:
    return lambda r: r.model_copy(update={"stages": tuple(s.model_copy(update=change(s)) for s in r.stages)})


def committed(change: Callable[[Item], dict[str, Any]]) -> Bend:
    return lambda r: r.model_copy(
        update={
            "items": tuple(i.model_copy(update=change(i)) if i.billing.startswith("reserved") else i for i in r.items)
        }
    )


def demand(change: Callable[[float], float]) -> Bend:
    return lambda r: r.model_copy(
        update={
            "workloads": tuple(
                w.model_copy(update={"demand_by_period": {p: change(d) for p, d in w.demand_by_period.items()}})
                for w in r.workloads
            )
        }
    )


def fewer_replicas(r: Result) -> Result:
    """One replica less in the busiest period, with the demand stated as what is left."""
    busiest = max(r.workloads[0].demand_by_period, key=lambda p: r.workloads[0].demand_by_period[p])
    first = r.workloads[0].placements[0]
    assert first.replicas_by_period[busiest]
    less = {**first.replicas_by_period, busiest: first.replicas_by_period[busiest] - 1}
    placement = first.model_copy(update={"replicas_by_period": less})
    stated = {**r.workloads[0].demand_by_period, busiest: 0.0}
    work = r.workloads[0].model_copy(
        update={"placements": (placement, *r.workloads[0].placements[1:]), "demand_by_period": stated}
    )
    return r.model_copy(update={"workloads": (work, *r.workloads[1:])})


BENDS: list[tuple[str, str, str, Bend]] = [
    ("no calendar", "weeks", "does not say which hours", lambda r: r.model_copy(update={"calendar": None})),
    ("hours swapped to a quieter level", "weeks", "asked in the busiest hour", calendar(hours=lambda c: c.hours[::-1])),
    ("an hour at no level", "weeks", "levels that there are not", calendar(hours=lambda c: "z" + c.hours[1:])),
    ("hours left out", "weeks", "its hours are", calendar(hours=lambda c: c.hours[: 24 * 7])),
    ("less loss than there is", "weeks", "the plan says 0.10%", calendar(over_provisioned={"chat": 0.001})),
    ("demand understated", "weeks", "asked in the busiest hour", demand(lambda d: d * 0.98)),
    ("demand overstated", "weeks", "asked in the busiest hour", demand(lambda d: d * 1.02)),
    ("too few replicas", "steps", "served in the busiest hour", fewer_replicas),
    ("a quiet week", "steps", "asked in the busiest hour", calendar(week=lambda c: (len(c.levels) - 1,) * 168)),
    ("stages too short", "steps", "stages end in month", stages(lambda s: {"months": s.months - 1})),
    ("stages apart", "steps", "after month", stages(lambda s: {"from_month": s.from_month * 1.1})),
    ("stages of other periods", "steps", "name different periods", stages(lambda s: {"periods": s.periods[:1] * 2})),
    ("growth forgotten", "grows", "asked in the busiest hour", demand(lambda d: min(d, 20.0))),
    ("start unsaid", "steps", "from when on", committed(lambda i: {"from_month": None})),
    ("start inside a stage", "steps", "within a stage", committed(lambda i: {"from_month": 2.0})),
    (
        "held before its start",
        "steps",
        "without a break",
        committed(lambda i: {"from_month": 5.0 - (i.from_month or 0.0)}),
    ),
    (
        "month understated",
        "steps",
        "the plan says",
        lambda r: r.model_copy(update={"cost": r.cost and r.cost.model_copy(update={"monthly": r.cost.monthly / 2})}),
    ),
]


@pytest.mark.parametrize(("name", "problem", "said", "bend"), BENDS, ids=[b[0] for b in BENDS])
def test_bent_plans_are_refused(name: str, problem: str, said: str, bend: Bend) -> None:
    _, result = solved(problem)
    found = wrong(problem, bend(result))
    assert any(said in text for text in found), found


@pytest.mark.slow
@pytest.mark.parametrize("several", [False, True])
def test_random_plans_over_time_pass(several: bool) -> None:
    """Whatever the solver says of random growing problems, the recheck says too."""
    passed = 0
    for seed in range(400_000, 400_060):
        case = random_case(seed, growing=True, several=several, small=several)
        result = solve(case.loaded, case.catalog, SolveOptions(time_limit_s=4, runner_up=False, workers=2))
        assert verify(result, case.loaded.problem, case.catalog) == [], f"seed {seed}"
        passed += result.cost is not None
    assert passed > 20
