"""Relaxations: how far each field must give way for a plan to exist, and what the best plan costs then."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

from problems.load import LoadedProblem, load_text
from solver.explain import Feasibility
from solver.explaining.explain_fields import in_room, is_counted, is_load, load_field, value_text
from solver.explaining.explain_points import Change, Relaxation
from solver.instance import Instance
from solver.model import PlanModel, build_model
from solver.plan import Status
from solver.whatif.breaks import limit_text, per_unit, usage
from solver.whatif.study import WHOLE, Study, number_at, values_at
from solver.whatif.sweep_points import plan_text
from solver.whatif.vary import Amount

SHARES = 1000
"""Loads are cut to whole thousandths."""
LARGEST_STRETCH = 1024.0
"""Times and latencies are stretched at most so far before the field is dropped altogether."""
STRETCHED = (".slo.ttft", ".slo.tpot", ".deadline", ".start_within", ".operations")


def relaxed(ask: Feasibility, way: Sequence[str]) -> Relaxation | None:
    """The least relaxation of these fields, the plan then, and its cost; None where it did not turn out feasible."""
    changes: list[Change] = []
    for n, path in enumerate(way):
        later = way[n + 1 :]
        change = _change(ask, path, changes, later)
        if change is None:
            return None
        changes.append(change)
    loaded = _with(ask, changes)
    result = ask.study.solve_loaded(loaded, ask.study.catalog, ask.stop)
    if result.cost is None:
        return None
    return Relaxation(
        changes=tuple(changes),
        total=result.cost.total,
        currency=result.cost.currency,
        proved=result.status is Status.OPTIMAL,
        plan=plan_text(result),
        result=result,
    )


def _with(ask: Feasibility, changes: Sequence[Change]) -> LoadedProblem:
    """The problem with changes applied the way a user would: by overrides."""
    base = ask.study.loaded
    texts = [c.override for c in changes if c.override]
    loaded = load_text(base.text, base.path, (*base.overrides, *texts)) if texts else base
    names = {c.field.split(".")[1] for c in changes if not c.override}
    if names:
        kept = tuple(w for w in loaded.problem.workloads if w.name not in names)
        loaded = replace(loaded, problem=loaded.problem.model_copy(update={"workloads": kept}))
    return loaded


def _asking(ask: Feasibility, loaded: LoadedProblem) -> Feasibility:
    """The same question about another problem."""
    study = ask.study
    changed = Study(loaded, study.catalog, study.seed, study.time_limit_s, study.user_measurements, study.memo)
    return Feasibility(changed, ask.stop)


def _change(ask: Feasibility, path: str, done: Sequence[Change], later: Sequence[str]) -> Change | None:
    before = value_text(ask.study.loaded, path)
    here = _asking(ask, _with(ask, done))
    if in_room(path):
        return _more_room(here, path, before, later)
    if is_counted(path):
        least = _least(here, path, later)
        if least is None:
            return None
        text = limit_text(path, least, ask.problem.currency)
        return Change(field=path, before=before, after=text, override=f"{path}={text}")
    if is_load(ask.problem, path):
        return _less_work(here, path, before, later)
    if path.endswith(STRETCHED):
        stretched = _stretched(here, path, before, later)
        if stretched is not None:
            return stretched
    if path.startswith("limits.quota["):
        return _more_nodes(here, path, before, later)
    if path == "policy.spot_share":
        return Change(field=path, before=before, after="100%", override=f"{path}=100%")
    return Change(field=path, before=before, after="no limit", override=f"{path}=null")


def _least(here: Feasibility, path: str, later: Sequence[str]) -> float | None:
    """Least value of a limit of watts or money at which a plan exists [plain unit], fields of `later` not asked for."""
    inst = here.instance([path, *later])
    if inst is None:
        return None

    def build(part: Instance) -> PlanModel:
        built = build_model(part)
        use = usage(built.context, path, [s.name for s in here.problem.sites])
        built.model.minimize(use)
        return PlanModel(built.context, use)

    found = here.study.least(replace(inst, objective="cost"), build, here.stop).found
    if found.objective is None:
        return None
    return found.objective * per_unit(path)


def _more_room(here: Feasibility, path: str, before: str, later: Sequence[str]) -> Change:
    """The fewest racks, or circuits of the only kind, with which a plan exists; else none are counted."""
    _, name, part = path.split(".")
    site = next(s for s in here.problem.sites if s.name == name)
    freed = Change(field=path, before=before, after="not counted", override=f"{path}=null")
    if (part == "racks" and (site.racks is None or site.racks.count is None)) or len(site.circuits) > 1:
        return freed
    least = _least(here, path, later)
    if not least:
        return freed
    if part == "racks":
        return Change(field=path, before=before, after=f"{least:.0f} racks", override=f"{path}.count={least:.0f}")
    installed = round(least) * (2 if site.redundancy == "2n" else 1) + (site.redundancy == "n+1")
    after = f"{installed} circuits"
    return Change(field=path, before=before, after=after, override=f"{path}[0].count={installed}")


def _probe(here: Feasibility, override: str, later: Sequence[str]) -> bool:
    base = here.study.loaded
    # Overrides bring the file's workloads back; those left out by an earlier change stay out.
    names = {w.name for w in base.problem.workloads}
    loaded = load_text(base.text, base.path, (*base.overrides, override))
    kept = tuple(w for w in loaded.problem.workloads if w.name in names)
    loaded = replace(loaded, problem=loaded.problem.model_copy(update={"workloads": kept}))
    return _asking(here, loaded).without(later) is True


def _less_work(here: Feasibility, path: str, before: str, later: Sequence[str]) -> Change:
    """The most of a workload that fits, in thousandths; else the workload is left out."""
    whole = Change(field=path, before=before, after="left out", override="")
    name = path.split(".")[1]
    work = next(w for w in here.problem.workloads if w.name == name)
    if load_field(work) == "count":
        return whole
    amount = Amount.parse(values_at(here.study.loaded, path)[0][1])
    plain = number_at(here.study.loaded, path)

    def text(steps: int) -> str:
        if path.endswith(WHOLE) and plain is not None:
            return str(max(1, int(plain) * steps // SHARES))
        return str(amount.at(_down(amount.number * steps / SHARES)))

    low, high = 0, SHARES
    while high - low > 1 and not here.stopped():
        middle = (low + high) // 2
        if _probe(here, f"{path}={text(middle)}", later):
            low = middle
        else:
            high = middle
    if low == 0:
        return whole
    return Change(field=path, before=before, after=text(low), override=f"{path}={text(low)}")


def _down(number: Decimal) -> Decimal:
    """Down to five significant digits."""
    if number == 0:
        return number
    return Decimal(f"{math.floor(float(number) / 10 ** (e := math.floor(math.log10(float(number))) - 4))}e{e}")


def _stretched(here: Feasibility, path: str, before: str, later: Sequence[str]) -> Change | None:
    """The least multiple of a time, to about 1 %, at which a plan exists; None where no multiple helps."""
    amount = Amount.parse(values_at(here.study.loaded, path)[0][1])

    def text(factor: float) -> str:
        return str(amount.at(float(f"{float(amount.number) * factor:.3g}")))

    if not _probe(here, f"{path}={text(LARGEST_STRETCH)}", later):
        return None
    high = 2.0
    while high < LARGEST_STRETCH and not _probe(here, f"{path}={text(high)}", later):
        high *= 2
    low = high / 2
    while high / low > 1.01 and not here.stopped():
        middle = math.sqrt(low * high)
        low, high = (low, middle) if _probe(here, f"{path}={text(middle)}", later) else (middle, high)
    return Change(field=path, before=before, after=text(high), override=f"{path}={text(high)}")


def _more_nodes(here: Feasibility, path: str, before: str, later: Sequence[str]) -> Change | None:
    """The least quota at which a plan exists."""
    number = int(path[len("limits.quota[") : -1])
    quota = here.problem.limits.quota[number]

    def override(most: int) -> str:
        return f"limits.quota[{number}].max={most}"

    low, high = quota.max, max(1, quota.max * 2)
    while not _probe(here, override(high), later):
        if high > 1_000_000 or here.stopped():
            return None
        low, high = high, high * 2
    while high - low > 1 and not here.stopped():
        middle = (low + high) // 2
        low, high = (low, middle) if _probe(here, override(middle), later) else (middle, high)
    return Change(field=f"{path}.max", before=before, after=f"at most {high} x {quota.offer}", override=override(high))
