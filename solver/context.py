"""A model under construction: its instance, its variables and what every rule needs of them."""

from __future__ import annotations

from dataclasses import dataclass, field

from ortools.sat.python import cp_model

from solver.expressions import Expr, total
from solver.instance import SHARE_UNIT, Instance

MOST_MONEY = 10**15
"""Bound of what the highest month costs [cents] or draws [W]."""


@dataclass(frozen=True)
class Variables:
    """C[c], E[e,p], R[k,p], F[k,b,p] (services with several buckets only), x[q], used[o] (any node held or hired), G[g], and
    start[w,j] of the runs of a job in the week.

    Where workloads may be left out: served[i], and share[i] in 1/SHARE_UNIT, one of each per wish. S[s] are the sums that rows
    share, but for those of few terms.
    """

    commit: dict[int, cp_model.IntVar]
    hourly: dict[tuple[int, int], cp_model.IntVar]
    replicas: dict[tuple[int, int], cp_model.IntVar]
    load: dict[tuple[int, int, int], cp_model.IntVar]
    chosen: dict[int, cp_model.IntVar]
    used: dict[int, cp_model.IntVar]
    gear: dict[int, cp_model.IntVar]
    start: dict[tuple[int, int], cp_model.IntVar]
    served: dict[int, cp_model.IntVar]
    share: dict[int, cp_model.IntVar]
    sums: dict[int, cp_model.IntVar] = field(default_factory=dict)


@dataclass(frozen=True)
class Context:
    """A model under construction with its instance and variables.

    `placed` : pools whose hours of the week are in the model in full (see `solver.schedule`). Without `hours` runs of jobs have
    no starts: what is left of them are linear rows that every schedule obeys.
    """

    model: cp_model.CpModel
    instance: Instance
    variables: Variables
    hours: bool = True
    placed: set[int] = field(default_factory=set)
    ways: dict[int, list[int]] = field(default_factory=dict)  # pool -> its capacities
    kinds: dict[int, list[int]] = field(default_factory=dict)  # pool -> its replica kinds
    pooled: dict[int, list[int]] = field(default_factory=dict)  # pool -> options that use its held nodes

    def __post_init__(self) -> None:
        for i, c in enumerate(self.instance.capacities):
            self.ways.setdefault(c.pool, []).append(i)
        for k, r in enumerate(self.instance.replicas):
            self.kinds.setdefault(r.pool, []).append(k)
        for q, o in enumerate(self.instance.options):
            if o.pooled:
                self.pooled.setdefault(o.pool, []).append(q)

    def nodes(self, pool: int, period: int) -> Expr:
        """n[o,p]: nodes of the pool held in the period."""
        terms: list[Expr] = []
        for i in self.ways.get(pool, ()):
            if self.instance.capacities[i].commit:
                if self.instance.capacities[i].holds(period):
                    terms.append(self.variables.commit[i])
            else:
                terms.append(self.variables.hourly[i, period])
        return total(terms)

    def period_range(self) -> range:
        return range(len(self.instance.periods))

    def wish(self, work: int, *, job: bool) -> int | None:
        """Index of the wish that stands for a service or job; None where all must be served."""
        for i, wish in enumerate(self.instance.wishes):
            if wish.work == work and wish.job == job:
                return i
        return None

    def asked(self, service: int, amount: int) -> Expr | int:
        """What is asked of `amount` at the service's share: all of it at the full share, rounded up at less, 0 where left out."""
        i = self.wish(service, job=False)
        if i is None:
            return amount
        step = amount // SHARE_UNIT
        return (amount - SHARE_UNIT * step) * self.variables.served[i] + step * self.variables.share[i]

    def highest(self, by_stage: list[Expr], name: str) -> Expr:
        """At least every one of some expressions, one per stage: the expression itself where there is one stage."""
        if len(by_stage) == 1:
            return by_stage[0]
        top = self.model.new_int_var(0, MOST_MONEY, name)
        for value in by_stage:
            self.model.add(value <= top)
        return total([top])
