"""Explanations: conflicts minimal, relaxations feasible, limits worth what they are said to be, why-not by proof."""

from __future__ import annotations

import os
import random
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from catalogs.load import load_catalog
from problems.load import LoadedProblem, load_problem, load_text
from solver.explain import Feasibility, find_conflict
from solver.explaining.explain_fields import asked_fields, without_fields
from solver.explaining.explain_plan import loosened, solved
from solver.explaining.explain_points import Explanation
from solver.explaining.explain_prices import CLOSE, probe
from solver.explaining.explain_tiers import tier_of_choice, tier_of_size
from solver.explaining.explanation import explain
from solver.plan import Status
from solver.verify import verify
from solver.whatif.study import Study
from solver.whatif.sweep_points import Signature, signature
from solver.whatif.vary import BadRequest, Scenario
from tests.oracle.problems import random_case

ROOT = Path(__file__).resolve().parents[2]
PROBLEMS = ROOT / "problems"
COUNT = int(os.environ.get("KITOUT_INFEASIBLE", "6"))
"""Random infeasible problems to look at; 100 take some minutes."""


def study_of(name: str, *overrides: str) -> Study:
    return Study(load_problem(PROBLEMS / f"{name}.yaml", overrides), load_catalog())


def explained(study: Study, *names: str) -> Explanation:
    return explain(study, names, threading.Event())


def infeasible_studies(count: int) -> list[Study]:
    """Random problems with a limit squeezed until nothing is feasible."""
    out: list[Study] = []
    for seed in range(1000):
        if len(out) == count:
            break
        case = random_case(seed, objective=False)
        rng = random.Random(seed)
        cheap, weak = f"${rng.randint(1, 40)}", f"{rng.randint(20, 200)}W"
        squeeze = [
            [f"limits.budget.total={cheap}"],
            [f"limits.budget.monthly={cheap}/mo"],
            ["limits.countries=[IS]"],
            ["limits.deployment=appliance"],
            ["limits.compliance=[fedramp-high]", f"limits.budget.total={cheap}"],
            ["policy.billing=purchase", f"limits.power={weak}"],
        ]
        for texts in rng.sample(squeeze, len(squeeze)):
            base = case.loaded
            study = Study(load_text(base.text, base.path, (*base.overrides, *texts)), case.catalog)
            ask = Feasibility(study)
            if ask.without(()) is False:
                out.append(study)
                break
    return out


def has_plan(study: Study, loaded: LoadedProblem) -> bool:
    """Whether a problem has a plan, by solving it from the start."""
    result = Study(loaded, study.catalog).solve()
    assert result.status is not Status.UNKNOWN
    return result.cost is not None


@pytest.mark.slow
def test_conflicts_are_minimal_and_relaxations_feasible_on_random_problems() -> None:
    studies = infeasible_studies(COUNT)
    assert len(studies) == COUNT
    relaxed = 0
    for study in studies:
        fields = asked_fields(study.loaded.problem)
        ask = Feasibility(study)
        members = find_conflict(ask, fields)
        assert members
        rest = frozenset(fields) - set(members)
        problem = without_fields(study.loaded.problem, rest)
        assert not has_plan(study, replace(study.loaded, problem=problem)), members
        for member in members:
            kept = without_fields(study.loaded.problem, rest | {member})
            assert not kept.workloads or has_plan(study, replace(study.loaded, problem=kept)), (members, member)
    for study in studies[::5]:
        found = explained(study)
        assert found.conflict is not None
        assert found.conflict.proved
        for way in found.relaxations:
            assert way.result.cost is not None
            overrides = [c.override for c in way.changes if c.override]
            gone = {c.field.split(".")[1] for c in way.changes if not c.override}
            base = study.loaded
            loaded = load_text(base.text, base.path, (*base.overrides, *overrides))
            works = tuple(w for w in loaded.problem.workloads if w.name not in gone)
            problem = loaded.problem.model_copy(update={"workloads": works})
            assert verify(way.result, problem, study.catalog) == []
            relaxed += 1
    assert relaxed >= 3


@pytest.mark.slow
def test_power_conflict_is_named_with_its_place_and_least_relaxation() -> None:
    study = study_of("power-capped-room", "sites.room.power=8kW")
    found = explained(study)
    assert not found.feasible
    assert found.conflict is not None
    fields = {m.field: m for m in found.conflict.members}
    assert "sites.room.power" in fields
    assert "workloads.chat.traffic.rate" in fields
    assert fields["workloads.chat.traffic.rate"].where.startswith(str(PROBLEMS / "power-capped-room.yaml:"))
    watts = next(w for w in found.relaxations if [c.field for c in w.changes] == ["sites.room.power"])
    least = int(watts.changes[0].after.removesuffix("W"))
    # The least is the least: a watt less has no plan.
    assert study_of("power-capped-room", f"sites.room.power={least}W").solve().cost is not None
    assert study_of("power-capped-room", f"sites.room.power={least - 1}W").solve().status is Status.INFEASIBLE
    load = next(w for w in found.relaxations if [c.field for c in w.changes] == ["workloads.chat.traffic.rate"])
    assert 0 < float(load.changes[0].after.split()[0]) < 20
    totals = [w.total for w in found.relaxations if w.total is not None]
    assert totals == sorted(totals)


def test_an_empty_frame_says_which_filters_took_the_candidates() -> None:
    found = explained(study_of("experiments", "limits.countries=[IS]"))
    assert not found.feasible
    assert any("country" in d.reason for d in found.dropped)
    assert all(d.count > 0 for d in found.dropped)
    assert found.conflict is not None
    assert "limits.countries" in {m.field for m in found.conflict.members}
    assert any(c.override == "limits.countries=null" for w in found.relaxations for c in w.changes)


@pytest.mark.slow
def test_a_binding_limit_is_worth_what_solving_again_saves() -> None:
    study = study_of("power-capped-room", "sites.room.power=16kW")
    found = explained(study)
    worth = next(w for w in found.worth if w.field == "sites.room.power")
    base = found.result.objective
    assert base is not None
    more = study_of("power-capped-room", "sites.room.power=17kW").solve().objective
    assert more is not None
    assert float(worth.one_more or 0) == pytest.approx(base - more, abs=0.01)
    assert worth.next_at is not None
    level = int(worth.next_at.removesuffix("W"))
    then = study_of("power-capped-room", f"sites.room.power={level}W").solve().objective
    before = study_of("power-capped-room", f"sites.room.power={level - 1}W").solve().objective
    assert then is not None
    assert then == pytest.approx(base - float(worth.next_saves or 0), abs=0.01)
    assert before == base
    assert "limits.budget.capex" not in {w.field for w in found.worth}


@pytest.mark.slow
def test_why_not_gives_the_best_plan_with_it_and_the_difference_by_category() -> None:
    study = study_of("power-capped-room")
    found = explained(study, "H200", "aws")
    other, cloud = found.why_not
    assert other.possible
    assert other.result is not None
    assert other.result.cost is not None
    assert found.result.cost is not None
    assert any("H200" in (i.accelerator or "") for i in other.result.items)
    assert other.result.cost.total >= found.result.cost.total
    assert sum(other.by_category.values()) == other.difference
    assert verify(other.result, study.loaded.problem, study.catalog, PROBLEMS) == []
    assert not cloud.possible
    assert any("billing" in d.reason for d in cloud.reasons)
    with pytest.raises(BadRequest, match="Voodoo2"):
        explained(study, "Voodoo2")


def test_a_card_that_limits_bar_is_named_by_them_and_not_by_its_namesakes() -> None:
    """L4 is barred, L40S is not; what stands in the way of builds with the latter says nothing of the former."""
    found = explained(study_of("small-office"), "L4", "B200-180GB-SXM6")
    for other in found.why_not:
        assert not other.possible
        assert {d.reason for d in other.reasons} == {"accelerator not allowed (limits.accelerators)"}


def test_prices_hold_to_where_the_plan_changes() -> None:
    study = study_of("experiments")
    found = explained(study)
    assert found.prices

    def plan_at(selector: str, factor: float) -> Signature:
        return signature(study.solve(Scenario(prices=((selector, repr(factor)),))))

    for move in found.prices:
        assert plan_at(move.selector, move.holds) == signature(found.result)
        assert move.changes is None or plan_at(move.selector, move.changes) != signature(found.result)
        assert move.direction == ("up" if move.holds >= 1 else "down")
        if move.changes is not None:
            assert 1 <= max(move.changes / move.holds, move.holds / move.changes) <= 1.0101
            assert move.then


@given(st.floats(0.25, 4.0, allow_nan=False), st.floats(0.25, 4.0, allow_nan=False), st.none() | st.floats(0.01, 100.0))
def test_a_probe_lies_between_what_is_known(holds: float, changes: float, crossing: float | None) -> None:
    low, high = sorted([holds, changes])
    assume(high / low > CLOSE)
    assert low < probe(holds, changes, crossing) < high


def test_two_probes_place_a_crossing() -> None:
    """One on either side, near enough for both to lie within the ratio asked for."""
    beyond = probe(1.0, 4.0, 2.0)
    short = probe(1.0, beyond, 2.0)
    assert short < 2.0 < beyond
    assert beyond / short <= CLOSE


@pytest.mark.slow
def test_a_limit_raised_in_the_integers_is_the_limit_raised_in_the_file() -> None:
    low = solved(study_of("power-capped-room", "sites.room.power=16kW"), threading.Event())
    high = solved(study_of("power-capped-room", "sites.room.power=17kW"), threading.Event())
    assert low is not None
    assert high is not None
    assert loosened(low.scaled.instance, "sites.room.power", ["room"], 1000) == high.scaled.instance


@pytest.mark.parametrize(("params_b", "tier"), [(7.2, 0), (34.0, 1), (70.6, 1), (175.0, 2)])
def test_usual_tiers(params_b: float, tier: int) -> None:
    assert tier_of_size(params_b) == tier


def test_tiers_of_choices() -> None:
    assert tier_of_choice(24.0, 1) == 0
    assert tier_of_choice(39.4, 1) == 1
    assert tier_of_choice(80.0, 4) == 2
