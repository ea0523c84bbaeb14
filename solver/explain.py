"""Why there is no plan: fields that cannot hold together, and what would make a plan possible, solved and priced.

A set of fields is in conflict when the problem that asks for these alone has no plan. Members are found by deletion: a field is
left out for good where what remains still has none, so that without any one of the members the others can hold. The search
has no objective and one worker. Candidate filters and limits of the model are fields alike.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import polars as pl

from problems.schema import Problem
from solver.bounding.fold import fold
from solver.bounding.restrict import restricted
from solver.candidates import Candidates, reduced
from solver.explaining.explain_fields import asked_fields, is_counted, is_load, value_text, without_fields
from solver.explaining.explain_points import Conflict, Dropped, Member
from solver.focus import MANY_POOLS
from solver.instance import Instance
from solver.limits import limits_of
from solver.loosened import any_of_all_menus
from solver.model import build_model
from solver.notes import summary_of_drops
from solver.plan import Status
from solver.scaling import Scaled, scale
from solver.search import Found
from solver.whatif.study import Study

Tell = Callable[[int, int, str], None]
DEEPEST = 3
"""Most fields that one relaxation changes."""
MOST_WAYS = 6
"""Relaxations looked for."""


@dataclass
class Feasibility:
    """Answers whether a plan exists without some fields; compiled candidates are kept per set of filters."""

    study: Study
    stop: threading.Event | None = None
    _scaled: dict[frozenset[str], Scaled | None] = field(default_factory=dict)
    _known: dict[frozenset[str], bool | None] = field(default_factory=dict)

    @property
    def problem(self) -> Problem:
        return self.study.loaded.problem

    def stopped(self) -> bool:
        return self.stop is not None and self.stop.is_set()

    def compiled(self, gone: frozenset[str]) -> Scaled | None:
        """Integers of the problem without some fields that candidates depend on; None where a workload has no candidate."""
        if gone not in self._scaled:
            problem = without_fields(self.problem, gone)
            if not problem.workloads:
                self._scaled[gone] = None
            else:
                loaded = replace(self.study.loaded, problem=problem)
                small = reduced(self.study.compiled(loaded, self.study.catalog, any_watts=True))
                self._scaled[gone] = None if small.unserved else scale(small, self.study.catalog)
        return self._scaled[gone]

    def instance(self, gone: Iterable[str]) -> Instance | None:
        """The integer problem without some fields."""
        gone = frozenset(gone)
        scaled = self.compiled(frozenset(g for g in gone if not is_counted(g)))
        if scaled is None:
            return None
        inst = scaled.instance
        names = [s.name for s in self.problem.sites]
        for path in sorted(g for g in gone if is_counted(g)):
            inst = limits_of(inst, names).get(path, inst)
        return inst

    def without(self, gone: Iterable[str]) -> bool | None:
        """Whether a plan exists without some fields: True, False (proved), None (not known in time)."""
        key = frozenset(gone)
        if key not in self._known:
            self._known[key] = self._asked(key)
        return self._known[key]

    def _asked(self, gone: frozenset[str]) -> bool | None:
        if not without_fields(self.problem, [g for g in gone if is_load(self.problem, g)]).workloads:
            return True
        inst = self.instance(gone)
        if inst is None:
            return False
        return self.feasible(inst)

    def feasible(self, inst: Instance) -> bool | None:
        """Whether an integer problem has any solution, however racks and circuits are filled."""
        return any_of_all_menus(inst, self._feasible)

    def _feasible(self, inst: Instance) -> bool | None:
        folded = fold(inst) if len(inst.pools) >= MANY_POOLS else None
        if folded is not None:
            best = self._any(folded.instance)
            if best.status is Status.INFEASIBLE:
                # Where pools with the best of their families have no plan, the pools themselves have none.
                return False
            if best.values is not None:
                near = restricted(inst, folded.behind(best.values))
                if self._any(near.instance).values is not None:
                    return True
        found = self._any(inst)
        if found.status is Status.INFEASIBLE:
            return False
        return True if found.values is not None else None

    def _any(self, inst: Instance) -> Found:
        """Any plan of an integer problem."""
        built = build_model(replace(inst, objective="cost"))
        built.model.clear_objective()  # type: ignore[no-untyped-call]
        return self.study.search(built, stop=self.stop)


def find_conflict(ask: Feasibility, fields: Sequence[str], gone: Iterable[str] = ()) -> tuple[str, ...] | None:
    """Fields in conflict, none to spare, when `gone` are left out already; None where there is none, or none was proved.

    Two orders of deletion are tried and the smaller conflict kept.
    """
    start = frozenset(gone)
    if ask.without(start) is not False:
        return None
    best: tuple[str, ...] | None = None
    counted = [f for f in fields if is_counted(f)]
    others = [f for f in fields if not is_counted(f)]
    for order in (fields, [*counted, *others]):
        removed = set(start)
        _shrink(ask, removed, [f for f in order if f not in start])
        members = tuple(f for f in fields if f not in removed)
        if best is None or len(members) < len(best):
            best = members
        if len(best) <= 2:
            break
    return best


def _shrink(ask: Feasibility, removed: set[str], fields: Sequence[str]) -> None:
    """Leave out as many of `fields` as can be without making a plan possible: all at once, else by halves.

    A field that had to stay stays needed, since later ones left out only make more plans possible.
    """
    if not fields or ask.stopped():
        return
    if ask.without(removed | set(fields)) is False:
        removed |= set(fields)
    elif len(fields) > 1:
        half = len(fields) // 2
        _shrink(ask, removed, fields[:half])
        _shrink(ask, removed, fields[half:])


def conflict_of(ask: Feasibility, members: Sequence[str]) -> Conflict:
    """The conflict with values and places; proved where it was solved again by itself, and without each member in turn."""
    fields = asked_fields(ask.problem)
    rest = frozenset(fields) - frozenset(members)
    alone = Feasibility(ask.study, ask.stop)
    proved = alone.without(rest) is False and all(alone.without(rest | {m}) is True for m in members)
    loaded = ask.study.loaded
    found = tuple(Member(field=m, value=value_text(loaded, m), where=loaded.where(m)) for m in members)
    return Conflict(members=found, proved=proved)


def ways_out(ask: Feasibility, members: Sequence[str]) -> list[tuple[str, ...]]:
    """Smallest sets of fields without which a plan exists, by breadth: one field each where that is enough."""
    fields = asked_fields(ask.problem)
    out: list[tuple[str, ...]] = []
    level: list[frozenset[str]] = [frozenset([m]) for m in members]
    for _ in range(DEEPEST):
        deeper: list[frozenset[str]] = []
        for gone in level:
            if ask.stopped() or len(out) >= MOST_WAYS:
                return out
            if any(set(known) <= gone for known in out):
                continue
            if ask.without(gone) is True:
                out.append(tuple(f for f in fields if f in gone))
            else:
                deeper.append(gone)
        if any(not is_load(ask.problem, f) for way in out for f in way):
            return out
        # Leaving work out is a poor way: other ways are looked for, though they change more fields.
        level = []
        for gone in deeper:
            more = find_conflict(ask, fields, gone) or ()
            level += [gone | {m} for m in more]
        level = list(dict.fromkeys(level))
    return out


def dropped_of(found: Candidates, names: Sequence[str] = ()) -> tuple[Dropped, ...]:
    """How many candidates each filter took, most first; of some workloads, and of pools in general."""
    frame = found.dropped
    if names:
        mine = pl.any_horizontal(pl.col("item").str.starts_with(f"{n} on ") for n in names)
        frame = frame.filter(mine | ~pl.col("item").str.contains(" on ", literal=True))
    counts = (
        frame.with_columns(reason=summary_of_drops())
        .group_by("reason")
        .len()
        .sort("len", "reason", descending=[True, False])
    )
    return tuple(Dropped(reason=r["reason"], count=r["len"]) for r in counts.iter_rows(named=True))
