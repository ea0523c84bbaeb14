"""Why this plan: what its limits cost."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from decimal import Decimal

from solver.binding import binding_limits
from solver.candidates import Candidates, reduced
from solver.explaining.explain_fields import in_room, is_counted
from solver.explaining.explain_points import LimitWorth
from solver.instance import Instance
from solver.left_out import in_unit, level_unit
from solver.limits import limits_of
from solver.model import PlanModel, build_model
from solver.plan import LimitUse, Result, Status
from solver.priorities import ranked
from solver.scaling import Scaled, priorities, scale
from solver.search import Found
from solver.whatif.breaks import limit_text, per_unit, usage
from solver.whatif.study import Study
from solver.whatif.sweep_points import plan_text

ONE_MORE = {"W": 1000, "money": 100_000, "h": 1000}
"""One more unit of a limit in the model's whole numbers: a kilowatt, a thousand of the currency, an hour a month."""
OPERATIONS = "limits.operations"


@dataclass
class Solved:
    """The best plan of a study with everything it was found from."""

    study: Study
    everything: Candidates
    small: Candidates
    scaled: Scaled
    found: Found
    result: Result
    stop: threading.Event

    @property
    def site_names(self) -> list[str]:
        return [s.name for s in self.study.loaded.problem.sites]

    def with_floors(self, scaled: Scaled) -> Scaled:
        """Other integers of the same problem, held to the values of the priorities that the best plan serves."""
        return replace(scaled, instance=replace(scaled.instance, floors=self.scaled.instance.floors))

    def objective_of(self, inst: Instance, upto: int | None = None) -> Found:
        """Best plan of a changed integer problem; `upto` bounds the objective."""

        def build(part: Instance) -> PlanModel:
            built = build_model(part)
            if upto is not None:
                built.model.add(built.objective <= upto)
            return built

        return self.study.least(inst, build, self.stop).found


def solved(study: Study, stop: threading.Event) -> Solved | None:
    """Solve a study; None where a workload has no candidate or no plan was found."""
    everything = study.compiled(study.loaded, study.catalog, any_watts=True)
    small = reduced(everything)
    if small.unserved and (not small.problem.weighed or len(small.unserved) == len(small.problem.workloads)):
        return None
    scaled, ranks = study.settled(scale(small, study.catalog), stop)
    at = study.least(scaled.instance, stop=stop) if ranks is None else study.all_of(scaled.instance, ranks.found)
    found = at.found
    if found.values is None:
        return None
    names = [s.name for s in study.loaded.problem.sites]
    binding = binding_limits(scaled.instance, names, found, replace(study.options, workers=1), stop, study.limit_s)
    final = study.ties(at, stop)
    result = study.answer(study.loaded, study.catalog, small, scaled, found, final, binding)
    return Solved(study, everything, small, scaled, found, result, stop)


def worth_of(at: Solved, use: LimitUse) -> LimitWorth | None:
    """What more of a binding limit is worth; None where the plan is not proved or costs are not what is minimised."""
    best = at.found.objective
    if at.found.status is not Status.OPTIMAL or best is None or at.study.loaded.problem.objective != "cost":
        return None
    loaded = at.study.loaded
    inst = at.scaled.instance
    free = limits_of(inst, at.site_names).get(use.field)
    if free is None:
        return None
    money = use.field.startswith("limits.budget.")
    watts = is_counted(use.field) and not money and not in_room(use.field)
    kind = "money" if money else "W" if watts else "h" if use.field == OPERATIONS else "node"
    if in_room(use.field):
        kind = use.field.rpartition(".")[2].removesuffix("s")
    step = ONE_MORE.get(kind, 1)
    more = at.objective_of(loosened(inst, use.field, at.site_names, step))
    saved = (
        None if more.objective is None or more.status is not Status.OPTIMAL else Decimal(best - more.objective) / 100
    )
    base = {
        "field": use.field,
        "limit": limit_text(use.field, use.limit, loaded.problem.currency) if money or watts else f"{use.limit:g}",
        "where": loaded.where(use.field),
        "unit": {"money": f"1000 {loaded.problem.currency}", "W": "kW", "h": "h/mo"}.get(kind, kind),
        "one_more": saved,
    }
    if inst.wishes and is_counted(use.field):
        base["more_value"] = _more_value(at, loosened(inst, use.field, at.site_names, step))
    none = {"next_at": None, "next_saves": None, "per_unit_month": None, "next_plan": ""}
    if not (money or watts) or base.get("more_value"):
        return LimitWorth.model_validate({**base, **none})
    # The next better plan is the one that needs least of this limit among all that cost less.

    def sparing(part: Instance) -> PlanModel:
        built = build_model(part)
        built.model.add(built.objective <= best - 1)
        asked = usage(built.context, use.field, at.site_names)
        built.model.minimize(asked)
        return PlanModel(built.context, asked)

    least = at.study.least(free, sparing, at.stop).found
    if least.objective is None or least.status is not Status.OPTIMAL:
        return LimitWorth.model_validate({**base, **none})
    level = least.objective * per_unit(use.field)
    extra = least.objective - round(use.limit / per_unit(use.field))
    then = at.objective_of(loosened(inst, use.field, at.site_names, extra))
    if then.objective is None:
        return LimitWorth.model_validate({**base, **none})
    gain = Decimal(best - then.objective) / 100
    result = at.study.answer(loaded, at.study.catalog, at.small, at.scaled, then)
    units = extra / step
    months = 1.0 if money else loaded.problem.horizon
    return LimitWorth.model_validate(
        {
            **base,
            "next_at": limit_text(use.field, level, loaded.problem.currency),
            "next_saves": gain,
            "per_unit_month": round(float(gain) / units / months, 2) if units > 0 else None,
            "next_plan": plan_text(result),
        }
    )


def _more_value(at: Solved, wider: Instance) -> str:
    """What of the first priority that gains a looser limit adds; empty where none does."""
    ranks = ranked(replace(wider, floors=()), lambda inst, near, share: at.study.best(inst, share=share, stop=at.stop))
    problem = at.study.loaded.problem
    for level, (number, floor) in enumerate(zip(priorities(problem), at.scaled.instance.floors, strict=True)):
        if level < len(ranks.levels) and ranks.levels[level].value > floor:
            unit = level_unit(problem, number)
            return f"{in_unit(ranks.levels[level].value - floor, unit):g} {unit} of priority {number}"
    return ""


def loosened(inst: Instance, field: str, names: list[str], more: int) -> Instance:
    """The integer problem with a limit raised by `more` whole units of the model."""
    if field == "limits.power":
        return replace(inst, limit_power_w=(inst.limit_power_w or 0) + more)
    if field.startswith("limits.budget."):
        part = f"limit_{field.rpartition('.')[2]}"
        return replace(inst, **{part: getattr(inst, part) + more})
    if field == OPERATIONS or in_room(field):
        # A row with nodes says that some fit nowhere: no more room changes that.
        rows = (
            replace(r, high=r.high + more)
            if r.field == field and r.high is not None and (field == OPERATIONS or not (r.commit or r.sums))
            else r
            for r in inst.rows
        )
        return replace(inst, rows=tuple(rows))
    if field.startswith("sites."):
        _, name, part = field.split(".")
        s = names.index(name)
        key = "limit_it_w" if part == "it_power" else "limit_facility_w"
        site = replace(inst.sites[s], **{key: getattr(inst.sites[s], key) + more})
        return replace(inst, sites=(*inst.sites[:s], site, *inst.sites[s + 1 :]))
    quotas = tuple(replace(q, max_nodes=q.max_nodes + more) if q.field == field else q for q in inst.quotas)
    hit = {o for q in inst.quotas if q.field == field for o in q.pools}
    pools = tuple(
        replace(p, node_limit=p.node_limit + more) if o in hit and p.node_limit is not None else p
        for o, p in enumerate(inst.pools)
    )
    return replace(inst, quotas=quotas, pools=pools)
