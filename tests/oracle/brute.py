"""Plain enumeration of an Instance: the exact optimum or infeasibility, with neither a solver nor the model's code.

Written from the definitions of `solver.instance` and the design's rules alone. Only services with one request-size
bucket are taken (with several, loads are continuous in all but name).

How it enumerates
-----------------
1. options: every combination of one option per job;
2. commitments: every combination of counts, depth first, cut off where a cap is broken or the money spent so far
   already reaches the best plan (every amount is at least 0, but for gear that is sold: until gear is chosen the most
   that it could bring is taken off first);
3. per load period: every *minimal* vector of replica counts (taking one replica away would leave demand unserved:
   more replicas than that never cost less), and for each the hourly nodes that the held ones lack, over every split among
   hourly ways; kept are the Pareto-best (objective, cash, monthly, peaks);
4. periods are combined, again by their Pareto sets, under the caps on cash and monthly money.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from solver.instance import COVERAGE_SLACK, SHARE_UNIT, Instance, Option

State = tuple[
    int, ...
]  # objective, cash, monthly of every stage, then the peak of every hourly way (objective power only)


@dataclass(frozen=True)
class Best:
    """Exact minimum, with what the cheapest (then least cash, least monthly) optimal plan pays."""

    objective: int
    cash: int
    monthly: int  # of the highest stage
    capex: int


DEEPEST = 300
"""Commitments, or gear, of which counts are chosen one after another, each in a call of its own."""


class TooLargeError(Exception):
    """More combinations than the caller allows, or more things to count than calls can be nested."""


def needed(demand: int) -> int:
    """Least supply that counts as serving `demand`: integers may miss it by COVERAGE_SLACK, relative."""
    return demand - demand // round(1 / COVERAGE_SLACK)


def asked(amount: int, share: int) -> int:
    """What a share of `amount` asks for: nothing where left out, else the shortfall is taken off in whole steps."""
    return 0 if share == 0 else amount - amount // SHARE_UNIT * (SHARE_UNIT - share)


def pareto(states: Iterable[State], tick: Callable[[int], None]) -> list[State]:
    """States that no other state beats or equals in every entry."""
    kept: list[State] = []
    for state in sorted(set(states)):
        tick(len(kept) // 20)
        if not any(all(map(operator.le, other, state)) for other in kept):
            kept.append(state)
    return kept


def worst_loss(inst: Instance, kinds: list[int], inside: dict[int, int], nodes: int) -> int:
    """Most that any so many nodes carry: every way to share the nodes out among pools, full nodes first.

    Pools that are like each other are one pool here.
    """

    def name(pool: int) -> str:
        like = inst.pools[pool].like
        return f"pool {pool}" if like is None else f"like {like}"

    node: dict[str, int] = {}
    for k in kinds:
        o = name(inst.replicas[k].pool)
        node[o] = max(node.get(o, 0), inst.replicas[k].node_blend)
    all_of: dict[str, int] = {}
    for pool, carried in inside.items():
        all_of[name(pool)] = all_of.get(name(pool), 0) + carried
    worst = 0
    for lost in itertools.combinations_with_replacement(sorted(all_of), nodes):
        worst = max(worst, sum(min(all_of[o], node[o] * lost.count(o)) for o in set(lost)))
    return worst


def serves(inst: Instance, work: int, period: int, counts: dict[int, int], share: int = SHARE_UNIT) -> bool:
    """Whether replica counts (kind -> number) serve a service in a period, with its redundancy and spot share."""
    service = inst.services[work]
    demand = service.demand[0][period]
    if demand == 0:
        return True
    if sum(inst.replicas[k].rate[0] * n for k, n in counts.items()) < asked(needed(demand), share):
        return False
    kinds = [k for k, r in enumerate(inst.replicas) if r.work == work]

    def pool_of(k: int) -> int:
        return inst.replicas[k].pool

    blended = {k: inst.replicas[k].blend * n for k, n in counts.items()}
    supply = sum(blended.values())
    inside: dict[int, int] = {}
    for k, v in blended.items():
        inside[pool_of(k)] = inside.get(pool_of(k), 0) + v
    if supply - worst_loss(inst, kinds, inside, service.redundant) < asked(needed(demand), share):
        return False
    for group in service.groups:
        if sum(v for o, v in inside.items() if o not in group) < asked(needed(demand), share):
            return False
    firm_ppm = 1_000_000 - inst.spot_share_ppm
    if firm_ppm > 0:
        firm = sum(v for k, v in blended.items() if not inst.pools[pool_of(k)].spot)
        if firm < asked(needed(demand) * firm_ppm // 1_000_000, share):
            return False
    return True


def minimal_counts(
    inst: Instance, work: int, period: int, tick: Callable[[], None], share: int = SHARE_UNIT
) -> Iterator[dict[int, int]]:
    """Every vector of replica counts that serves, and would not with its last kind one lower."""
    kinds = [k for k, r in enumerate(inst.replicas) if r.work == work]

    def extend(at: int, counts: dict[int, int]) -> Iterator[dict[int, int]]:
        tick()
        if serves(inst, work, period, counts, share):
            yield counts
            return
        if at == len(kinds):
            return
        kind = kinds[at]
        for n in range(inst.replicas[kind].max_count + 1):
            mine = {**counts, kind: n} if n else counts
            if n and serves(inst, work, period, mine, share):
                yield mine
                return
            yield from extend(at + 1, mine)

    yield from extend(0, {})


@dataclass
class _Search:
    inst: Instance
    most_steps: int
    shares: dict[tuple[bool, int], int] = field(default_factory=dict)
    steps: int = 0
    best: tuple[State, int] | None = None
    memo: dict[tuple[object, ...], list[State]] = field(default_factory=dict)
    splits: dict[tuple[int, int], list[dict[int, int]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        inst = self.inst
        if any(len(s.demand) > 1 for s in inst.services):
            raise ValueError("only services with one bucket")
        if any(s.ladders for s in inst.services):
            raise ValueError("chance constraints count nodes beside replicas: see tests.solver.test_availability")
        self.periods = range(len(inst.periods))
        self.stage_of = inst.stage_of or (0,) * len(inst.periods)
        self.stages = range(max(self.stage_of) + 1)
        self.money = 2 + len(self.stages)
        self.ways = [i for i, c in enumerate(inst.capacities) if not c.commit]
        self.commits = [i for i, c in enumerate(inst.capacities) if c.commit]
        self.peaks = inst.objective == "power"
        self.groups = [((o,), p.node_limit) for o, p in enumerate(inst.pools) if p.node_limit is not None]
        self.groups += [(q.pools, q.max_nodes) for q in inst.quotas]
        self.loads = [self._loads(p) for p in self.periods]
        if any(r.replicas or r.used or r.hourly or r.served for r in inst.rows):
            raise ValueError("rows over replicas, hourly nodes and pools in use are for HiGHS")
        self.chosen: set[int] = set()
        self.busy: tuple[tuple[int, ...], ...] = ()
        self.counts: dict[int, int] = {}
        self.gear: dict[int, int] = {}
        credit = [sum(min(0, self.amount(g)[j]) * g.max_count for g in inst.gear) for j in range(3)]
        self.credit = self.spread((credit[0], credit[1], credit[2]), self.stages)
        self.capex_credit = sum(min(0, g.capex) * g.max_count for g in inst.gear)

    def tick(self, steps: int = 1) -> None:
        self.steps += steps
        if self.steps > self.most_steps:
            raise TooLargeError

    def amount(self, thing: object, period: int | None = None) -> tuple[int, int, int]:
        """Objective, cash and monthly money of one unit (duration and watts are added elsewhere)."""
        part = self.inst.objective if self.inst.objective in ("cost", "carbon") else None
        out = []
        for name in (part, "cash", "monthly"):
            value = 0 if name is None else getattr(thing, name)
            out.append(value if isinstance(value, int) else value[0 if period is None else period])
        return out[0], out[1], out[2]

    def spread(self, unit: tuple[int, int, int], stages: Iterable[int]) -> list[int]:
        """Objective, cash, and the monthly payment in each of the stages that it falls in."""
        here = set(stages)
        return [unit[0], unit[1], *(unit[2] if s in here else 0 for s in self.stages)]

    def committed_w(self, held: list[list[int]]) -> int:
        """Watts of committed nodes in the stage in which they draw most (objective power only)."""
        if not self.peaks:
            return 0
        return max(sum(p.facility_w * n for p, n in zip(self.inst.pools, now, strict=True)) for now in held)

    def _loads(self, period: int) -> list[tuple[tuple[int, ...], tuple[int, int, int]]]:
        """Ways to serve all services in a period: GPUs taken of every pool, and (objective, cash, monthly)."""
        size = len(self.inst.pools)
        total: set[tuple[int, ...]] = {(0,) * (size + 3)}
        for w in range(len(self.inst.services)):
            mine = set()
            for counts in minimal_counts(self.inst, w, period, self.tick, self.shares.get((False, w), SHARE_UNIT)):
                row = [0] * (size + 3)
                for k, n in counts.items():
                    replica = self.inst.replicas[k]
                    row[replica.pool] += replica.gpus * n
                    for j, value in enumerate(self.amount(replica, period)):
                        row[size + j] += value * n
                mine.add(tuple(row))
            small = pareto(mine, self.tick)
            self.tick(len(total) * len(small) // 10)
            total = {tuple(a + b for a, b in zip(x, y, strict=True)) for x in total for y in small}
        return [(row[:size], row[size:]) for row in pareto(total, self.tick)]  # type: ignore[misc]

    def run(self) -> Best | None:
        if max(len(self.commits), len(self.inst.gear)) > DEEPEST:
            raise TooLargeError
        numbered = list(enumerate(self.inst.options))
        wanted = [w for w in range(len(self.inst.jobs)) if self.shares.get((True, w), SHARE_UNIT)]
        per_job = [[(q, o) for q, o in numbered if o.work == w] for w in wanted]
        for picks in itertools.product(*per_job):
            self.chosen = {q for q, _ in picks}
            chosen = [o for _, o in picks]
            spent = [0] * self.money
            taken = [0] * len(self.inst.pools)
            hired = [0] * len(self.inst.pools)
            for option in chosen:
                spent = [a + b for a, b in zip(spent, self.spread(self.amount(option), self.stages), strict=True)]
                if option.pooled and not option.slots:
                    taken[option.pool] += option.gpus
                elif not option.pooled:
                    hired[option.pool] += option.nodes
                    if self.peaks:
                        spent[0] += self.inst.pools[option.pool].facility_w * option.nodes
            if self.inst.objective == "time":
                spent[0] = max((o.duration_s for o in chosen), default=0)
            for busy in self._busy(picks):
                self.busy = busy
                self._commit(0, [[0] * len(self.inst.pools) for _ in self.stages], spent, 0, taken, hired)
        if self.best is None:
            return None
        (objective, cash, *monthly), capex = self.best
        return Best(objective, cash, max(monthly), capex)

    def _busy(self, picks: tuple[tuple[int, Option], ...]) -> set[tuple[tuple[int, ...], ...]]:
        """Every way to place the runs of the chosen options in the week: GPUs that they take at most, by pool and period."""
        inst = self.inst
        timed = [o for _, o in picks if o.slots]
        nothing = tuple((0,) * len(inst.pools) for _ in self.periods)
        if not timed:
            return {nothing}
        length = len(inst.weeks[0])
        per_job = []
        for o in timed:
            runs = inst.runs[o.work]
            may = [[h for h in range(a, b + 1) if self._in_span(h, o)] for a, b in runs.starts]
            per_job.append([s for s in itertools.product(*may) if list(s) == sorted(s)])
        out = set()
        for starts in itertools.product(*per_job):
            self.tick()
            begun = {o.work: s for o, s in zip(timed, starts, strict=True)}
            slots = {o.work: o.slots for o in timed}
            late = any(
                begun[w][j] < begun[b][min(j, len(begun[b]) - 1)] + slots[b]
                for w in begun
                for b in inst.runs[w].after
                for j in range(len(begun[w]))
            )
            if late:
                continue
            most = [[0] * len(inst.pools) for _ in self.periods]
            for week in inst.weeks:
                for h in range(length):
                    for o_index in range(len(inst.pools)):
                        now = sum(
                            o.gpus * sum((h - s) % length < o.slots for s in begun[o.work])
                            for o in timed
                            if o.pooled and o.pool == o_index
                        )
                        most[week[h]][o_index] = max(most[week[h]][o_index], now)
            out.add(tuple(tuple(row) for row in most))
        return out

    def _in_span(self, hour: int, option: Option) -> bool:
        length = len(self.inst.weeks[0])
        spans = self.inst.runs[option.work].spans
        return not spans or any(
            b - a >= length or (a <= hour + turn and hour + turn + option.slots <= b)
            for a, b in spans
            for turn in (0, length)
        )

    def _commit(
        self, at: int, held: list[list[int]], spent: list[int], capex: int, taken: list[int], hired: list[int]
    ) -> None:
        """Choose counts of commitment number `at` and later ones."""
        self.tick()
        inst = self.inst
        if self._over(self._at_best(spent), capex + self.capex_credit, held, hired):
            return
        if at == len(self.commits):
            if inst.gear and not self._works(held, spent, capex, taken, hired):
                return
            for gear in self._gears(self._at_best(spent)[0]):
                self.gear = gear
                now = list(spent)
                more = 0
                for g, n in gear.items():
                    unit = self.spread(self.amount(inst.gear[g]), self.stages)
                    for s in self.stages:
                        if inst.gear[g].paid_off is not None and s >= inst.gear[g].paid_off:
                            unit[2 + s] -= inst.gear[g].instalment
                    if self.peaks:
                        unit[0] += inst.gear[g].facility_w
                    now = [a + b * n for a, b in zip(now, unit, strict=True)]
                    more += inst.gear[g].capex * n
                if not self._over(now, capex + more, held, hired):
                    self._fill(held, now, capex + more, taken, hired)
            self.gear = {}
            return
        capacity = inst.capacities[self.commits[at]]
        pool = capacity.pool
        active = [s for s in self.stages if not capacity.active or capacity.active[self.stage_of.index(s)]]
        unit = [*self.amount(capacity)[:2], *capacity.monthly]

        def hold(more: int) -> None:
            for s in active:
                held[s][pool] += more

        for n in range(capacity.max_nodes + 1):
            hold(n)
            self.counts[self.commits[at]] = n
            now = [a + b * n for a, b in zip(spent, unit, strict=True)]
            if self._over(self._at_best(now), capex + capacity.capex * n + self.capex_credit, held, hired):
                hold(-n)
                break
            self._commit(at + 1, held, now, capex + capacity.capex * n, taken, hired)
            hold(-n)

    def _works(self, held: list[list[int]], spent: list[int], capex: int, taken: list[int], hired: list[int]) -> bool:
        """Whether the work can be done on these nodes at all, were gear free."""
        known, self.best = self.best, None
        self._fill(held, self._at_best(spent), capex + self.capex_credit, taken, hired)
        found, self.best = self.best is not None, known
        return found

    def _at_best(self, spent: list[int]) -> list[int]:
        """Money spent, less all that gear sold could bring."""
        return [a + b for a, b in zip(spent, self.credit, strict=True)]

    def _gears(self, spent: int) -> Iterator[dict[int, int]]:
        """Every vector of gear that keeps all rows beside the commitments and jobs chosen; `spent` of the objective so far.

        Counts that no row leaves open, whatever the later ones, are not tried, nor those that cost more than the best plan.
        """
        inst = self.inst
        most = [g.max_count for g in inst.gear]
        rows = []
        for row in map(inst.written_out, inst.rows):
            base = sum(f * self.counts[i] for i, f in row.commit)
            base += sum(f for q, f in row.chosen if q in self.chosen)
            low = -math.inf if row.low is None else row.low - base
            high = math.inf if row.high is None else row.high - base
            factor: dict[int, int] = {}
            for g, f in row.gear:
                factor[g] = factor.get(g, 0) + f
            if not factor and not low <= 0 <= high:
                return
            rows.append((low, high, factor))
        costs = [self.amount(g)[0] for g in inst.gear]
        yield from self._gear(0, {}, [0] * len(rows), rows, most, costs, spent)

    def _gear(
        self,
        at: int,
        counts: dict[int, int],
        sums: list[int],
        rows: list[tuple[float, float, dict[int, int]]],
        most: list[int],
        costs: list[int],
        spent: int,
    ) -> Iterator[dict[int, int]]:
        self.tick()
        if at == len(most):
            yield counts
            return
        first, last = 0, most[at]
        mine = [(n, *row) for n, row in enumerate(rows) if at in row[2]]
        for n, low, high, factor in mine:
            f = factor[at]
            later = [(c, most[g]) for g, c in factor.items() if g > at]
            least = sums[n] + sum(min(0, c) * m for c, m in later)
            greatest = sums[n] + sum(max(0, c) * m for c, m in later)
            # low <= f x + (least .. greatest) <= high
            bounds = [(high - least) / f, (low - greatest) / f]
            upper, lower = bounds if f > 0 else (bounds[1], bounds[0])
            first = max(first, first if lower == -math.inf else math.ceil(lower - 1e-9))
            last = min(last, last if upper == math.inf else math.floor(upper + 1e-9))
        for count in range(first, last + 1):
            now = spent + max(0, costs[at]) * count
            if self.best is not None and now >= self.best[0][0]:
                break
            ahead = list(sums)
            for n, _, _, factor in mine:
                ahead[n] += factor[at] * count
            yield from self._gear(at + 1, {**counts, at: count}, ahead, rows, most, costs, now)

    def _over(self, spent: list[int], capex: int, held: list[list[int]], hired: list[int]) -> bool:
        """Whether a cap is broken already (nothing later lowers any of these sums), or nothing can be gained."""
        inst = self.inst
        least = (spent[0] + self.committed_w(held), *spent[1:])
        if self.best is not None and least >= self.best[0]:
            return True
        for used, limit in (
            (capex, inst.limit_capex),
            (max(spent[2:]), inst.limit_monthly),
            (spent[1], inst.limit_total),
        ):
            if limit is not None and used > limit:
                return True
        return any(self._too_many(now, hired) for now in held)

    def _too_many(self, held: list[int], hired: list[int]) -> bool:
        """Whether watts or counts of nodes in one stage break a limit."""
        inst = self.inst
        everywhere = 0
        for s, site in enumerate(inst.sites):
            here = [o for o, p in enumerate(inst.pools) if p.site == s]
            gear = [(inst.gear[g], n) for g, n in self.gear.items() if inst.gear[g].site == s]
            it = sum(inst.pools[o].it_w * held[o] for o in here) + sum(x.it_w * n for x, n in gear)
            facility = sum(inst.pools[o].facility_w * held[o] for o in here) + sum(x.facility_w * n for x, n in gear)
            everywhere += facility
            if site.limit_it_w is not None and it > site.limit_it_w:
                return True
            if site.limit_facility_w is not None and facility > site.limit_facility_w:
                return True
        if inst.limit_power_w is not None and everywhere > inst.limit_power_w:
            return True
        return any(sum(held[o] + hired[o] for o in pools) > most for pools, most in self.groups)

    def _fill(self, held: list[list[int]], spent: list[int], capex: int, taken: list[int], hired: list[int]) -> None:
        """Commitments and jobs are set: choose replicas and hourly nodes in every period."""
        inst = self.inst
        states = [(*spent, *([0] * len(self.ways) if self.peaks else []))]
        for period in self.periods:
            now, busy = held[self.stage_of[period]], self.busy[period]
            room = tuple(most - sum(now[o] + hired[o] for o in pools) for pools, most in self.groups)
            free = tuple(p.gpus * now[o] - taken[o] - busy[o] for o, p in enumerate(inst.pools))
            key = (period, free, room)
            if key not in self.memo:
                self.memo[key] = pareto(self._period(period, free, room), self.tick)
            both = (self._join(a, b) for a in states for b in self.memo[key])
            states = pareto((s for s in both if self._within(s)), self.tick)
            self.tick(len(states))
        for state in states:
            watts = (inst.pools[inst.capacities[i].pool].facility_w for i in self.ways)
            objective = state[0] + sum(w * n for w, n in zip(watts, state[self.money :], strict=False))
            final = (objective + self.committed_w(held), *state[1 : self.money])
            if self.best is None or final < self.best[0]:
                self.best = (final, capex)

    def _join(self, a: State, b: State) -> State:
        m = self.money
        sums = tuple(x + y for x, y in zip(a[:m], b[:m], strict=True))
        return sums + tuple(max(x, y) for x, y in zip(a[m:], b[m:], strict=True))

    def _within(self, state: State) -> bool:
        inst = self.inst
        return (inst.limit_total is None or state[1] <= inst.limit_total) and (
            inst.limit_monthly is None or max(state[2 : self.money]) <= inst.limit_monthly
        )

    def _period(self, period: int, free: tuple[int, ...], room: tuple[int, ...]) -> Iterator[State]:
        """Outcomes of one period, given GPUs free on held nodes (negative: jobs lack some) and room for more nodes."""
        inst = self.inst
        for gpus, money in self.loads[period]:
            self.tick()
            # Hourly nodes may carry runs too, where they are held in the period.
            short = [(o, g - free[o]) for o, g in enumerate(gpus) if g > free[o]]
            splits = [self._split(o, -(-less // inst.pools[o].gpus)) for o, less in short]
            for pick in itertools.product(*splits):
                self.tick()
                counts = {i: n for part in pick for i, n in part.items()}
                extra = (sum(n for i, n in counts.items() if inst.capacities[i].pool in g) for g, _ in self.groups)
                if any(n > r for n, r in zip(extra, room, strict=True)):
                    continue
                state = list(money)
                for i, n in counts.items():
                    for j, value in enumerate(self.amount(inst.capacities[i], period)):
                        state[j] += value * n
                row = self.spread((state[0], state[1], state[2]), [self.stage_of[period]])
                yield (*row, *((counts.get(i, 0) for i in self.ways) if self.peaks else ()))

    def _split(self, pool: int, nodes: int) -> list[dict[int, int]]:
        """Every way to hold `nodes` more nodes of a pool by the hour."""
        if (pool, nodes) not in self.splits:
            ways = [i for i in self.ways if self.inst.capacities[i].pool == pool]
            ranges = (range(min(nodes, self.inst.capacities[i].max_nodes) + 1) for i in ways)
            exact = (c for c in itertools.product(*ranges) if sum(c) == nodes)
            self.splits[pool, nodes] = [dict(zip(ways, c, strict=True)) for c in exact]
        return self.splits[pool, nodes]


def brute_force(inst: Instance, most_steps: int = 10_000_000) -> Best | None:
    """Exact minimum of an instance; None where no plan meets every rule.

    Raises
    ------
    TooLargeError
        After `most_steps` combinations.
    """
    return _Search(inst, most_steps).run()


def brute_ranked(inst: Instance, most_steps: int = 10_000_000) -> tuple[tuple[int, ...], Best] | None:
    """Largest value of each level in turn and the least objective at that, over every vector of shares.

    Raises
    ------
    TooLargeError
        After `most_steps` combinations for one vector, or for more than `most_steps` vectors.
    """
    wishes = inst.wishes
    choices = [[*([] if w.must else [0]), *range(w.least, SHARE_UNIT + 1)] for w in wishes]
    if math.prod(len(c) for c in choices) > most_steps:
        raise TooLargeError
    levels = range(1 + max(w.level for w in wishes))

    def values(shares: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sum(w.value * s for w, s in zip(wishes, shares, strict=True) if w.level == n) for n in levels)

    vectors = sorted(itertools.product(*choices), key=values, reverse=True)
    for reached, alike in itertools.groupby(vectors, key=values):
        found = []
        for shares in alike:
            taken = {(w.job, w.work): s for w, s in zip(wishes, shares, strict=True)}
            best = _Search(inst, most_steps, taken).run()
            found += [] if best is None else [best]
        if found:
            return reached, min(found, key=lambda b: b.objective)
    return None
