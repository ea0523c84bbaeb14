"""The model of an instance without loads: every rule on nodes, replicas, jobs and gear, and rows of `Cover` for what is served.

Of the hours of the week only the rows are in it that every schedule obeys; points are asked for their schedule when they are found.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from ortools.sat.python import cp_model

from solver.counts.cover import UNIT, Cover, Floats
from solver.expressions import total
from solver.instance import DEMAND_UNIT, Instance
from solver.model import PlanModel, build_model
from solver.search import Values, scheduled

ROUND = 1e-9
"""Rows ask for so much less than they could, for the rounding of floating point."""


def countable(inst: Instance) -> bool:
    """True where counts alone say what is served: some service has several sizes, and none of those must survive a loss."""
    mixed = [s for s in inst.services if len(s.demand) > 1]
    firm = inst.spot_share_ppm < 1_000_000 and any(p.spot for p in inst.pools)
    calm = not any(s.redundant or s.groups or s.ladders for s in mixed)
    return bool(mixed) and calm and not firm and not inst.wishes


class CountsModel:
    """A model over counts, and the rows it has so far. Every plan of the instance is a point of it; not every point a plan.

    `small` : of the solvers the one that proves small programs soonest is taken.
    """

    def __init__(self, inst: Instance, cover: Cover) -> None:
        self.inst = inst
        self.cover = cover
        self.built: PlanModel = build_model(_projected(inst, cover), hours=False)
        self.rows = [0] * len(inst.services)
        self.lock = threading.Lock()
        self.small = False
        goal = self.built.model.proto.objective
        self.cost: dict[int, int] = {}
        for v, c in zip(goal.vars, goal.coeffs, strict=True):
            self.cost[v] = self.cost.get(v, 0) + int(c)
        self.grow()

    @property
    def model(self) -> cp_model.CpModel:
        return self.built.model

    def columns_of(self, period: int) -> list[int]:
        """Variables of one load period, and the commitments."""
        var = self.built.context.variables
        mine = [x.index for x in var.commit.values()]
        mine += [x.index for (_, p), x in var.hourly.items() if p == period]
        return mine + [x.index for (_, p), x in var.replicas.items() if p == period]

    def apart(self) -> bool:
        """True where nothing but the commitments binds periods to one another, nor anything that is held beside nodes."""
        inst = self.inst
        limits = (inst.limit_capex, inst.limit_monthly, inst.limit_total)
        return not (inst.gear or inst.rows or inst.options or inst.jobs or any(x is not None for x in limits))

    def grow(self) -> int:
        """Add the rows of all weights that are new; gives their number."""
        added = 0
        for w in self.cover.works:
            for y in self.cover.weights[w][self.rows[w] :]:
                for p in range(len(self.inst.periods)):
                    done = self.cover.row(w, y, p)
                    if done is not None:
                        self.demand(w, p, done)
                        added += 1
            self.rows[w] = len(self.cover.weights[w])
        return added

    def demand(self, w: int, period: int, parts: Floats) -> None:
        """Add a row: a service's replicas in a period do all that it asks for, one of each of its kinds so great a part of it."""
        var = self.built.context.variables.replicas
        whole = np.ceil(np.minimum(1.0, parts) * UNIT * (1 + ROUND)).astype(int)
        terms = zip(np.minimum(whole, UNIT).tolist(), self.cover.kinds[w].tolist(), strict=True)
        self.model.add(total(n * var[k, period] for n, k in terms if n) >= UNIT)

    def broken(self, replicas: Mapping[tuple[int, int], float], slack: float = 1e-9) -> int:
        """Find rows that counts of replicas break, and keep their weights; gives how many services and periods broke one."""
        found = 0
        for w in self.cover.works:
            for p in range(len(self.inst.periods)):
                counts = {k: replicas.get((k, p), 0.0) for k in self.cover.kinds[w].tolist()}
                y = self.cover.break_of(w, p, counts, slack)
                if y is not None:
                    found += 1
                    self.cover.add(w, y)
        return found

    def tops(self) -> dict[int, int]:
        """Most that is worth having of a replica kind or of nodes, by number of the variable, where counts only cost."""
        inst, var = self.inst, self.built.context.variables
        if any(r.replicas or r.hourly or r.commit or r.sums for r in inst.rows) or inst.options:
            return {}
        top: dict[int, int] = {}
        nodes: dict[tuple[int, int], int] = {}
        for w in range(len(inst.services)):
            most = self.cover.most(w)
            for i, k in enumerate(self.cover.kinds[w].tolist()):
                replica = inst.replicas[k]
                for p in range(len(inst.periods)):
                    count = int(min(replica.max_count, most[i, p]))
                    top[var.replicas[k, p].index] = count
                    held = -(-count * replica.gpus // inst.pools[replica.pool].gpus)
                    nodes[replica.pool, p] = nodes.get((replica.pool, p), 0) + held
        for (i, p), x in var.hourly.items():
            top[x.index] = nodes.get((inst.capacities[i].pool, p), 0)
        for i, x in var.commit.items():
            top[x.index] = max(nodes.get((inst.capacities[i].pool, p), 0) for p in range(len(inst.periods)))
        return top

    def solution(self, values: Values) -> list[int]:
        """Values of all variables for those of a plan; helpers that a plan does not name are worked out or 0."""
        inst, var = self.inst, self.built.context.variables
        out = [0] * len(self.model.proto.variables)
        used = {inst.options[q].pool for q, n in values.chosen.items() if n}
        for i, x in var.commit.items():
            out[x.index] = values.commit[i]
            used |= {inst.capacities[i].pool} if values.commit[i] else set()
        for (i, p), x in var.hourly.items():
            out[x.index] = values.hourly[i, p]
            used |= {inst.capacities[i].pool} if values.hourly[i, p] else set()
        for key, x in var.replicas.items():
            out[x.index] = values.replicas[key]
        for q, x in var.chosen.items():
            out[x.index] = values.chosen[q]
        for g, x in var.gear.items():
            out[x.index] = values.gear.get(g, 0)
        for o, x in var.used.items():
            out[x.index] = int(o in used)
        return out

    def unserved(self, replicas: Mapping[tuple[int, int], float], period: int) -> bool:
        """True where counts of one period break some row; its weights are kept, and the model grows."""
        with self.lock:
            found = False
            for w in self.cover.works:
                counts = {k: replicas.get((k, period), 0.0) for k in self.cover.kinds[w].tolist()}
                y = self.cover.break_of(w, period, counts)
                if y is not None:
                    found = True
                    self.cover.add(w, y)
            if found:
                self.grow()
            return found

    def placed(self, solution: list[int]) -> bool:
        """True where the runs of jobs have a schedule on what values of all variables leave free."""
        return scheduled(self.built, self.values(solution)) is not None

    def objective(self, solution: list[int]) -> int:
        """Objective of values of all variables."""
        return round(sum(c * solution[v] for v, c in self.cost.items()) + self.model.proto.objective.offset)

    def completed(self, solution: list[int]) -> list[int]:
        """Values of all variables for those of nodes and replicas."""
        return self.solution(self.values(solution))

    def values(self, solution: list[int]) -> Values:
        """Values of a solution, without loads."""
        var = self.built.context.variables
        return Values(
            commit={i: solution[x.index] for i, x in var.commit.items()},
            hourly={i: solution[x.index] for i, x in var.hourly.items()},
            replicas={i: solution[x.index] for i, x in var.replicas.items()},
            load={},
            chosen={i: solution[x.index] for i, x in var.chosen.items()},
            gear={i: solution[x.index] for i, x in var.gear.items()},
        )


def _projected(inst: Instance, cover: Cover) -> Instance:
    """Each service with several sizes as one of a single size: the sizes weighed together, every replica at its best."""
    services, rates = list(inst.services), [r.rate for r in inst.replicas]
    for w in cover.works:
        y = _weights(cover, w)
        need = y @ cover.need[w]
        scale = DEMAND_UNIT / float(need.max(initial=1e-300))
        asked = np.floor(need * scale * (1 - ROUND)).astype(int).tolist()
        services[w] = replace(services[w], demand=(tuple(asked),))
        done = np.ceil(np.max(y * cover.rate[w], axis=1) * scale * (1 + ROUND)).astype(int).tolist()
        for k, rate in zip(cover.kinds[w].tolist(), done, strict=True):
            rates[k] = (rate,)
    replicas = tuple(
        replace(r, rate=rate, blend=rate[0], node_blend=inst.pools[r.pool].gpus // r.gpus * rate[0])
        if r.work in cover.works
        else r
        for r, rate in zip(inst.replicas, rates, strict=True)
    )
    return replace(inst, services=tuple(services), replicas=replicas)


def _weights(cover: Cover, w: int) -> Floats:
    """Weights of all sizes, each by the fastest kind."""
    best: Floats = 1.0 / np.maximum(cover.rate[w].max(axis=0, initial=0.0), 1.0)
    scaled: Floats = best / best.max()
    return scaled
