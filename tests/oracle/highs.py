"""The same Instance as a mixed-integer program for HiGHS, written from the rules, not from the model's code."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from solver.instance import LOAD_UNIT, MOST_TO_LOSE, SHARE_UNIT, Gear, Instance, Ladder
from tests.oracle.program import Program

Terms = Mapping[int, int]


def _needed(demand: int) -> int:
    return demand - demand // 1_000_000


def _add(into: dict[int, int], terms: Terms, factor: int = 1) -> None:
    for v, c in terms.items():
        into[v] = into.get(v, 0) + factor * c


class _OfPool(Protocol):
    @property
    def pool(self) -> int: ...


def _by_pool(things: Sequence[_OfPool]) -> dict[int, list[int]]:
    """Numbers of what stands in each pool."""
    inside: dict[int, list[int]] = {}
    for number, thing in enumerate(things):
        inside.setdefault(thing.pool, []).append(number)
    return inside


class _Builder:
    def __init__(self, inst: Instance) -> None:
        self.inst, self.program = inst, Program()
        self.periods = range(len(inst.periods))
        stage_of = inst.stage_of or (0,) * len(inst.periods)
        self.stages = [[p for p in self.periods if stage_of[p] == s] for s in range(max(stage_of) + 1)]
        self.ways_in = _by_pool(inst.capacities)
        self.kinds_in = _by_pool(inst.replicas)
        self.options_in = _by_pool(inst.options)
        first: dict[int, int] = {}
        for o, pool in enumerate(inst.pools):
            if pool.like is not None:
                first.setdefault(pool.like, o)
        self.first_like = [o if x.like is None else first[x.like] for o, x in enumerate(inst.pools)]
        new = self.program.variable
        self.hold = {
            (i, p): v
            for i, c in enumerate(inst.capacities)
            for p, v in enumerate(
                [new(c.max_nodes)] * len(self.periods) if c.commit else [new(c.max_nodes) for _ in self.periods]
            )
        }
        self.count = {(k, p): new(r.max_count) for k, r in enumerate(inst.replicas) for p in self.periods}
        self.pick = {q: new(1) for q in range(len(inst.options))}
        self.begin = {
            (q, j, h): new(1)
            for q, x in enumerate(inst.options)
            if x.slots
            for j in range(len(inst.runs[x.work].starts))
            for h in range(len(inst.weeks[0]))
        }
        self.gear = {g: new(x.max_count) for g, x in enumerate(inst.gear)}
        self.kept = [new(1) for _ in inst.wishes]
        self.share = [new(SHARE_UNIT) for _ in inst.wishes]
        self.load: dict[tuple[int, int, int], int] = {}
        for k, r in enumerate(inst.replicas):
            buckets = len(inst.services[r.work].demand)
            if buckets > 1:
                for b in range(buckets):
                    for p in self.periods:
                        self.load[k, b, p] = new(LOAD_UNIT * r.max_count)

    def build(self) -> Program:
        for w in range(len(self.inst.services)):
            for p in self.periods:
                self._service(w, p)
        self._nodes()
        self._jobs()
        self._week()
        self._wishes()
        self._sites()
        self._gear()
        self._money()
        self._objective()
        return self.program

    def _asked(self, terms: dict[int, int], w: int, amount: int) -> None:
        """Row: terms cover `amount`, less its shortfall in steps of 1/SHARE_UNIT where the service has a share."""
        for i, wish in enumerate(self.inst.wishes):
            if (wish.job, wish.work) == (False, w):
                step, rest = divmod(amount, SHARE_UNIT)
                self.program.row({**terms, self.kept[i]: -rest, self.share[i]: -step}, low=0)
                return
        self.program.row(terms, low=amount)

    def _service(self, w: int, p: int) -> None:
        inst, row = self.inst, self.program.row
        service = inst.services[w]
        kinds = [k for k, r in enumerate(inst.replicas) if r.work == w]
        several = len(service.demand) > 1
        for b in range(len(service.demand)):
            demand = service.demand[b][p]
            if several:
                # In 1/LOAD_UNIT of a replica; rates lose their last digit, as they do in the model's integers.
                terms = {self.load[k, b, p]: inst.replicas[k].rate[b] // 10 for k in kinds}
                self._asked(terms, w, _needed(demand) // 10 * LOAD_UNIT)
            else:
                self._asked({self.count[k, p]: inst.replicas[k].rate[b] for k in kinds}, w, _needed(demand))
        if several:
            for k in kinds:
                loads = {self.load[k, b, p]: 1 for b in range(len(service.demand))}
                row({**loads, self.count[k, p]: -LOAD_UNIT}, high=0)
        demand = service.demand[0][p]
        if demand == 0:
            return
        blended = {self.count[k, p]: inst.replicas[k].blend for k in kinds}
        asked = _needed(demand)
        if service.redundant:
            self._survives(w, kinds, p, blended, asked, service.redundant, None)
        if service.ladders:
            for nodes, allowed in enumerate(self._to_lose(service.ladders, kinds, p), start=1):
                self._survives(w, kinds, p, blended, asked, nodes, allowed)
        for group in map(frozenset, service.groups):
            self._asked(
                {v: c for (v, c), k in zip(blended.items(), kinds, strict=True) if inst.replicas[k].pool not in group},
                w,
                asked,
            )
        firm_ppm = 1_000_000 - inst.spot_share_ppm
        firm = [k for k in kinds if not self._spot(k)]
        if firm_ppm <= 0 or firm == kinds:
            return
        if several:
            for b in range(len(service.demand)):
                terms = {self.load[k, b, p]: inst.replicas[k].rate[b] // 10 for k in firm}
                self._asked(terms, w, _needed(demand) // 10 * LOAD_UNIT * firm_ppm // 1_000_000)
        else:
            terms = {self.count[k, p]: inst.replicas[k].rate[0] for k in firm}
            self._asked(terms, w, _needed(demand) * firm_ppm // 1_000_000)

    def _spot(self, kind: int) -> bool:
        return self.inst.pools[self.inst.replicas[kind].pool].spot

    def _survives(
        self,
        w: int,
        kinds: list[int],
        p: int,
        blended: dict[int, int],
        demand: int,
        nodes: int,
        allowed: int | None,
    ) -> None:
        """For every way to share so many lost nodes out among pools: supply less their loss covers demand (if `allowed`).

        Pools like each other are one, named by the first of them.
        """
        replicas = self.inst.replicas
        pools = sorted({self.first_like[replicas[k].pool] for k in kinds})
        pool_of = {self.count[k, p]: self.first_like[replicas[k].pool] for k in kinds}
        node = dict.fromkeys(pools, 0)
        for k in kinds:
            at = pool_of[self.count[k, p]]
            node[at] = max(node[at], replicas[k].node_blend)
        wish = next((i for i, x in enumerate(self.inst.wishes) if (x.job, x.work) == (False, w)), None)
        for ways in itertools.combinations_with_replacement(pools, nodes):
            hit = sorted(set(ways))
            # One choice per pool that is hit: all of it counts as lost, or as many full nodes.
            whole = {o: self.program.variable(1) for o in hit}
            for gone in itertools.chain.from_iterable(itertools.combinations(hit, n) for n in range(len(hit) + 1)):
                loss = sum(ways.count(o) * node[o] for o in hit if o not in gone)
                slack = demand + loss
                terms = {v: c for v, c in blended.items() if pool_of[v] not in gone}
                low = demand + loss
                if wish is not None:
                    step, rest = divmod(demand, SHARE_UNIT)
                    terms |= {self.kept[wish]: -rest, self.share[wish]: -step}
                    low = loss
                for o in hit:
                    terms[whole[o]] = -slack if o in gone else slack
                    low -= slack if o in gone else 0
                if allowed is not None:
                    terms[allowed] = -slack
                    low -= slack
                self.program.row(terms, low=low)

    def _to_lose(self, ladders: tuple[Ladder, ...], kinds: list[int], p: int) -> list[int]:
        """Variables that say that more than 0, 1 ... nodes must be allowed to fail."""
        inst, new, row = self.inst, self.program.variable, self.program.row
        counts: list[int] = []
        top = 0
        alike: dict[int, set[int]] = {}
        for o, first in enumerate(self.first_like):
            alike.setdefault(first, set()).add(o)
        for first in sorted({self.first_like[inst.replicas[k].pool] for k in kinds}):
            like = alike[first]
            mine = [k for k in kinds if inst.replicas[k].pool in like]
            spans = {self.count[k, p]: inst.replicas[k].nodes for k in mine}
            most = sum(inst.replicas[k].nodes * inst.replicas[k].max_count for k in mine)
            held = {self.hold[i, p]: 1 for i, c in enumerate(inst.capacities) if c.pool in like and self._there(i, p)}
            n, few = new(most), new(1)
            counts.append(n)
            top += most
            row({n: 1, **{v: -c for v, c in spans.items()}, few: most}, low=0)
            ceiling = sum(c.max_nodes for c in inst.capacities if c.pool in like)
            row({n: 1, **{v: -c for v, c in held.items()}, few: -ceiling}, low=-ceiling)
        depth = min(MOST_TO_LOSE, max(len(x.steps) for x in ladders))
        allowed = [new(1) for _ in range(depth)]
        for j in range(depth - 1):
            row({allowed[j]: 1, allowed[j + 1]: -1}, low=0)
        for rungs in ladders:
            mine = [k for k in kinds if inst.replicas[k].pool in rungs.pools]
            used = new(1)
            for k in mine:
                row({self.count[k, p]: 1, used: -inst.replicas[k].max_count}, high=0)
            for j, step in enumerate(rungs.steps[: MOST_TO_LOSE + 1]):
                terms = dict.fromkeys(counts, 1) | {used: top}
                if j < depth:
                    terms[allowed[j]] = -top
                row(terms, high=step - 1 + top)
        return allowed

    def _nodes(self) -> None:
        """Room on the nodes held, and limits on their number."""
        inst = self.inst
        for p in self.periods:
            for o, pool in enumerate(inst.pools):
                terms: dict[int, int] = {}
                for i in self.ways_in.get(o, ()):
                    if self._there(i, p):
                        _add(terms, {self.hold[i, p]: -pool.gpus})
                _add(terms, {self.count[k, p]: inst.replicas[k].gpus for k in self.kinds_in.get(o, ())})
                _add(terms, self._always(o))
                self.program.row(terms, high=0)
            limits = [((o,), x.node_limit) for o, x in enumerate(inst.pools) if x.node_limit is not None]
            for pools, most in [*limits, *((q.pools, q.max_nodes) for q in inst.quotas)]:
                terms = {
                    self.hold[i, p]: 1 for o in sorted(set(pools)) for i in self.ways_in.get(o, ()) if self._there(i, p)
                }
                for o in sorted(set(pools)):
                    for q in self.options_in.get(o, ()):
                        if not inst.options[q].pooled:
                            _add(terms, {self.pick[q]: inst.options[q].nodes})
                self.program.row(terms, high=most)

    def _always(self, pool: int) -> dict[int, int]:
        """GPUs of a pool that jobs without hours of their own take."""
        options = ((q, self.inst.options[q]) for q in self.options_in.get(pool, ()))
        return {self.pick[q]: x.gpus for q, x in options if x.pooled and not x.slots}

    def _jobs(self) -> None:
        for w in range(len(self.inst.jobs)):
            ways = {self.pick[q]: 1 for q, x in enumerate(self.inst.options) if x.work == w}
            wish = next((i for i, x in enumerate(self.inst.wishes) if (x.job, x.work) == (True, w)), None)
            if wish is None:
                self.program.row(ways, 1, 1)
            else:
                self.program.row({**ways, self.kept[wish]: -1}, 0, 0)

    def _value(self, level: int) -> dict[int, int]:
        return {self.share[i]: w.value for i, w in enumerate(self.inst.wishes) if w.level == level}

    def _wishes(self) -> None:
        for i, wish in enumerate(self.inst.wishes):
            self.program.row({self.share[i]: 1, self.kept[i]: -wish.least}, low=0)
            self.program.row({self.share[i]: 1, self.kept[i]: -SHARE_UNIT}, high=0)
            if wish.must:
                self.program.row({self.kept[i]: 1}, low=1)
            for before in self.inst.runs[wish.work].after if wish.job and self.inst.runs else ():
                first = next(k for k, x in enumerate(self.inst.wishes) if (x.job, x.work) == (True, before))
                self.program.row({self.kept[i]: 1, self.kept[first]: -1}, high=0)
        for level, floor in enumerate(self.inst.floors):
            self.program.row(self._value(level), low=floor)

    def _there(self, way: int, period: int) -> bool:
        """Whether nodes held in some way are there in a period: always by the hour, from start to end if committed."""
        active = self.inst.capacities[way].active
        return not active or active[period]

    def _week(self) -> None:
        """Runs of jobs, indexed by the hour that they begin in: one hour each, allowed, in order, GPUs free in each hour."""
        inst, row = self.inst, self.program.row
        if not self.begin:
            return
        length = len(inst.weeks[0])
        hours = range(length)
        begins: dict[tuple[int, int], dict[int, int]] = {}  # job, run -> weighted by hour
        ends: dict[tuple[int, int], dict[int, int]] = {}
        for q, x in enumerate(inst.options):
            runs = inst.runs[x.work] if x.slots else None
            for j, (first, last) in enumerate(runs.starts if runs else ()):
                mine = {h: self.begin[q, j, h] for h in hours}
                row({**dict.fromkeys(mine.values(), 1), self.pick[q]: -1}, 0, 0)
                for h, v in mine.items():
                    spans = runs.spans if runs else ()
                    inside = not spans or any(
                        b - a >= length or (a <= h + turn and h + turn + x.slots <= b)
                        for a, b in spans
                        for turn in (0, length)
                    )
                    if not (first <= h <= last and inside):
                        row({v: 1}, high=0)
                    _add(begins.setdefault((x.work, j), {}), {v: h})
                    _add(ends.setdefault((x.work, j), {}), {v: h + x.slots})
        for (w, j), terms in begins.items():
            if j:
                order = dict(begins[w, j - 1])
                _add(order, terms, -1)
                row(order, high=0)
            for before in inst.runs[w].after:
                order = dict(ends[before, min(j, len(inst.runs[before].starts) - 1)])
                _add(order, terms, -1)
                row(order, high=0)
        begun: dict[int, list[tuple[int, int, int, int]]] = {}  # pool -> variable, begin, hours, GPUs
        for (q, _, begin), v in self.begin.items():
            x = inst.options[q]
            if x.pooled:
                begun.setdefault(x.pool, []).append((v, begin, x.slots, x.gpus))
        for week in inst.weeks:
            for o, runs_in in begun.items():
                use: list[dict[int, int]] = [{} for _ in hours]
                for v, begin, slots, gpus in runs_in:
                    for h in hours if slots >= length else ((begin + turn) % length for turn in range(slots)):
                        use[h][v] = gpus
                for h in hours:
                    p, terms_h = week[h], use[h]
                    if not terms_h:
                        continue
                    _add(terms_h, self._always(o))
                    _add(terms_h, {self.count[k, p]: inst.replicas[k].gpus for k in self.kinds_in.get(o, ())})
                    for i in self.ways_in.get(o, ()):
                        if self._there(i, p):
                            _add(terms_h, {self.hold[i, p]: -inst.pools[o].gpus})
                    row(terms_h, high=0)

    def _sites(self) -> None:
        inst = self.inst
        for stage in self.stages:
            total: dict[int, int] = {}
            for s, site in enumerate(inst.sites):
                here = [
                    (i, inst.pools[c.pool])
                    for i, c in enumerate(inst.capacities)
                    if inst.pools[c.pool].site == s and self._there(i, stage[0])
                ]
                gear = [(self.gear[g], x) for g, x in enumerate(inst.gear) if x.site == s]
                watts = {self.hold[i, stage[0]]: x.it_w for i, x in here}
                self.program.row({**watts, **{v: x.it_w for v, x in gear}}, high=site.limit_it_w)
                facility = {self.hold[i, stage[0]]: x.facility_w for i, x in here}
                facility.update({v: x.facility_w for v, x in gear})
                self.program.row(facility, high=site.limit_facility_w)
                _add(total, facility)
            self.program.row(total, high=inst.limit_power_w)

    def _gear(self) -> None:
        """Rows that tie gear to nodes, jobs and replicas; a pool in use has a node held in some period, or hired."""
        inst, used = self.inst, dict[int, int]()
        for o in sorted({o for r in inst.rows for o, _ in r.used}):
            used[o] = self.program.variable(1)
            for i in self.ways_in.get(o, ()):
                for p in self.periods:
                    self.program.row({self.hold[i, p]: 1, used[o]: -inst.capacities[i].max_nodes}, high=0)
            for q in self.options_in.get(o, ()):
                if not inst.options[q].pooled:
                    self.program.row({self.pick[q]: 1, used[o]: -1}, high=0)
        for r in map(inst.written_out, inst.rows):
            terms: dict[int, int] = {}
            _add(terms, {self.hold[i, 0]: f for i, f in r.commit})
            _add(terms, {self.hold[i, p]: f for i, p, f in r.hourly})
            _add(terms, {self.pick[q]: f for q, f in r.chosen})
            _add(terms, {used[o]: f for o, f in r.used})
            _add(terms, {self.gear[g]: f for g, f in r.gear})
            _add(terms, {self.kept[i]: f for i, f in r.served})
            _add(terms, {self.count[k, r.period]: f for k, f in r.replicas})
            self.program.row(terms, r.low, r.high)

    def _of_gear(self, gear: Gear, part: str, stage: list[int] | None) -> int:
        """Money of one unit of gear; in a month of a stage without the instalments that ended before it."""
        amount: int = getattr(gear, part)
        if stage is None or gear.paid_off is None or self.stages.index(stage) < gear.paid_off:
            return amount
        return amount - gear.instalment

    def _sum(self, part: str, stage: list[int] | None = None) -> dict[int, int]:
        """Terms of one kind of money, or of carbon; of what is paid in a month of one stage only."""
        periods = list(self.periods) if stage is None else stage
        inst, terms = self.inst, dict[int, int]()
        for i, c in enumerate(inst.capacities):
            if c.commit:
                number = 0 if stage is None else self.stages.index(stage)
                amount = c.capex if part == "capex" else getattr(c, part)[number]
                _add(terms, {self.hold[i, 0]: amount})
            elif part != "capex":
                for p in periods:
                    _add(terms, {self.hold[i, p]: getattr(c, part)[p]})
        _add(terms, {v: self._of_gear(inst.gear[g], part, stage) for g, v in self.gear.items()})
        if part != "capex":
            for (k, p), v in self.count.items():
                if p in periods:
                    _add(terms, {v: getattr(inst.replicas[k], part)[p]})
            for q, v in self.pick.items():
                _add(terms, {v: getattr(inst.options[q], part)})
        return terms

    def _money(self) -> None:
        inst = self.inst
        self.program.row(self._sum("capex"), high=inst.limit_capex)
        for stage in self.stages:
            self.program.row(self._sum("monthly", stage), high=inst.limit_monthly)
        self.program.row(self._sum("cash"), high=inst.limit_total)

    def _objective(self) -> None:
        inst = self.inst
        if inst.goal is not None:
            self.program.cost = {v: -c for v, c in self._value(inst.goal).items()}
        elif inst.objective in ("cost", "carbon"):
            self.program.cost = self._sum(inst.objective)
        elif inst.objective == "time":
            longest = self.program.variable(max((x.duration_s for x in inst.options), default=0))
            for q, x in enumerate(inst.options):
                self.program.row({longest: 1, self.pick[q]: -x.duration_s}, low=0)
            self.program.cost = {longest: 1}
        else:
            highest = self.program.variable(10**9)
            for stage in self.stages:
                now = {
                    self.hold[i, 0]: inst.pools[c.pool].facility_w
                    for i, c in enumerate(inst.capacities)
                    if c.commit and self._there(i, stage[0])
                }
                self.program.row({**now, highest: -1}, high=0)
            self.program.cost = {highest: 1}
            for i, c in enumerate(inst.capacities):
                watts = inst.pools[c.pool].facility_w
                if c.commit:
                    continue
                peak = self.program.variable(c.max_nodes)
                for p in self.periods:
                    self.program.row({peak: 1, self.hold[i, p]: -1}, low=0)
                self.program.cost[peak] = watts
            for g, v in self.gear.items():
                self.program.cost[v] = inst.gear[g].facility_w
            for q, x in enumerate(inst.options):
                if not x.pooled:
                    self.program.cost[self.pick[q]] = inst.pools[x.pool].facility_w * x.nodes


@dataclass(frozen=True)
class Answer:
    """Least objective of an instance; None where infeasible."""

    objective: int | None


def program_of(inst: Instance) -> Program:
    """The program of an instance."""
    return _Builder(inst).build()


def highs_optimum(inst: Instance) -> Answer:
    """Solve an instance with HiGHS to a gap of zero."""
    return Answer(program_of(inst).solve())


def highs_ranked(inst: Instance) -> tuple[tuple[int, ...], int] | None:
    """Largest value of each level in turn, and the least objective at that; None where there is no plan at all."""
    floors: tuple[int, ...] = ()
    for level in range(1 + max(w.level for w in inst.wishes)):
        best = highs_optimum(replace(inst, floors=floors, goal=level)).objective
        if best is None:
            return None
        floors = (*floors, -best)
    last = highs_optimum(replace(inst, floors=floors, goal=None)).objective
    assert last is not None
    return floors, last
