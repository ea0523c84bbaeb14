"""Pools that differ in money and watts alone as one pool with the best of each: a smaller instance that bounds the whole one.

A server has many builds that do the same: dearer ones that draw less, other chassis of the same height. A family of such pools
is folded into one pool whose node costs what the cheapest costs and draws what the leanest draws. Put all nodes of a family
in its place: the plan costs no more and breaks no rule, whatever builds share a site, a rack or a circuit. So the folded
instance has a plan no dearer than any of the whole one, and its bound is a bound of the whole; what using a family costs beyond
that bound, using any of its pools costs at least.

Pools are of one family where the rules say the same of them: equal GPUs and site, equal replicas and options but for money,
the same terms in the same rows and sums. Sums of a chain are the exception, since racks and circuits go by watts: the later a
node's sum the less it asks for, so that there a family counts as what the lightest of its pools does. Pools of which there are only so many, or whose losses are counted, are left as they are.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from solver.bounding.moved import moved
from solver.bounding.restrict import Part, restricted
from solver.instance import Capacity, Instance, Option, Pool, Replica, Row, Sum, Terms
from solver.search import Values

Members = tuple[tuple[int, ...], ...]
"""Per thing of the folded instance the things of the whole one that it stands for."""


@dataclass(frozen=True)
class Folded:
    """The folded instance, and what its pools, ways to hold them, replicas and options stand for."""

    instance: Instance
    pools: Members
    capacities: Members
    replicas: Members
    options: Members

    def image(self, values: Values) -> Values:
        """The plan of the folded instance that a plan of the whole one is."""
        way, kind, pick = (_numbers(some) for some in (self.capacities, self.replicas, self.options))
        commit: Counter[int] = Counter()
        hourly: Counter[tuple[int, int]] = Counter()
        replicas: Counter[tuple[int, int]] = Counter()
        load: Counter[tuple[int, int, int]] = Counter()
        chosen: Counter[int] = Counter()
        for i, n in values.commit.items():
            commit[way[i]] += n
        for (i, p), n in values.hourly.items():
            hourly[way[i], p] += n
        for (k, p), n in values.replicas.items():
            replicas[kind[k], p] += n
        for (k, b, p), n in values.load.items():
            load[kind[k], b, p] += n
        for q, n in values.chosen.items():
            chosen[pick[q]] += n
        return replace(values, commit=commit, hourly=hourly, replicas=replicas, load=load, chosen=chosen)

    def behind(self, values: Values) -> tuple[int, ...]:
        """Pools of the whole instance that stand behind those in use in a plan of the folded one."""
        ways, options = self.instance.capacities, self.instance.options
        used = {ways[i].pool for i, n in values.commit.items() if n}
        used |= {ways[i].pool for (i, _), n in values.hourly.items() if n}
        used |= {options[q].pool for q, n in values.chosen.items() if n}
        return tuple(o for f in sorted(used) for o in self.pools[f])


def _numbers(members: Members) -> dict[int, int]:
    """Number of the thing that stands for each of the whole instance."""
    return {j: n for n, some in enumerate(members) for j in some}


READ = ("pools", "capacities", "services", "replicas", "options", "quotas", "rows", "sums")
"""What families are read from: instances that share these differ in limits alone."""
MOST_KEPT = 12
_kept: list[tuple[tuple[object, ...], Folded | None]] = []


def fold(inst: Instance, apart: frozenset[int] = frozenset()) -> Folded | None:
    """Fold the families of an instance but for pools that stay `apart`; None where no two pools are of one.

    The last ones are kept: many searches differ in a limit or in what is minimised alone.
    """
    if apart:
        return _fold(inst, apart)
    read = tuple(getattr(inst, name) for name in READ)
    known = next((k for k in list(_kept) if all(a is b for a, b in zip(read, k[0], strict=True))), None)
    folded = _fold(inst) if known is None else known[1]
    if known is None:
        remember(inst, folded)
    if folded is None:
        return None
    small = {name: getattr(folded.instance, name) for name in READ}
    return replace(folded, instance=replace(inst, **small))


def remember(inst: Instance, folded: Folded | None) -> None:
    """Keep a folded instance that came of another one: `fold` gives it from then on."""
    _kept.append((tuple(getattr(inst, name) for name in READ), folded))
    del _kept[:-MOST_KEPT]


def folded_part(folded: Folded, part: Part) -> Folded | None:
    """A part of an instance folded as the whole was; None where it has some pools or ways of a family only."""

    def kept(members: Members, inside: Sequence[int]) -> tuple[list[int], Members] | None:
        number = {j: n for n, j in enumerate(inside)}
        some = [n for n, same in enumerate(members) if not number.keys().isdisjoint(same)]
        if any(j not in number for n in some for j in members[n]):
            return None
        return some, tuple(tuple(number[j] for j in members[n]) for n in some)

    pools, ways = kept(folded.pools, part.pools), kept(folded.capacities, part.capacities)
    kinds, picks = kept(folded.replicas, part.replicas), kept(folded.options, part.options)
    if pools is None or ways is None or kinds is None or picks is None:
        return None
    small = restricted(folded.instance, pools[0], picks[0], kinds[0])
    return Folded(small.instance, pools[1], ways[1], kinds[1], picks[1])


def _fold(inst: Instance, apart: frozenset[int] = frozenset()) -> Folded | None:
    view = _View(inst, apart)
    families: dict[Hashable, list[int]] = defaultdict(list)
    for o in range(len(inst.pools)):
        families[view.signature(o)].append(o)
    if len(families) == len(inst.pools):
        return None
    return _folded(view, [tuple(f) for f in families.values()])


class _View:
    """What an instance says of each pool, in lists of the same order for pools of one family."""

    def __init__(self, inst: Instance, apart: frozenset[int]) -> None:
        self.inst = inst
        self.ways: dict[int, list[int]] = defaultdict(list)
        self.kinds: dict[int, list[int]] = defaultdict(list)
        self.picks: dict[int, list[int]] = defaultdict(list)
        for i, c in enumerate(inst.capacities):
            self.ways[c.pool].append(i)
        for k, r in enumerate(inst.replicas):
            self.kinds[r.pool].append(k)
        for q, x in enumerate(inst.options):
            self.picks[x.pool].append(q)
        for o in range(len(inst.pools)):
            self.ways[o].sort(key=lambda i: _way(inst.capacities[i]))
            self.kinds[o].sort(key=lambda k: _kind(inst.replicas[k]))
            self.picks[o].sort(key=lambda q: _pick(inst.options[q]))
        self.alone = self._alone() | apart
        self.terms: dict[int, list[Hashable]] = defaultdict(list)
        self.own: dict[int, list[int]] = defaultdict(list)
        self.place = [
            {j: n for js in some.values() for n, j in enumerate(js)} for some in (self.ways, self.kinds, self.picks)
        ]
        for n, row in enumerate(inst.rows):
            self._note(n, row)
        self.falling = _falling(inst)
        for s, part in enumerate(inst.sums):
            self._note_sum(s, part)

    def _alone(self) -> set[int]:
        """Pools that are left as they are: hired, limited in number, or with losses that are counted."""
        inst = self.inst
        counted = {w for w, s in enumerate(inst.services) if s.redundant or s.ladders or s.groups}
        alone = {o for o, p in enumerate(inst.pools) if p.site is None or p.node_limit is not None}
        alone |= {o for x in inst.quotas for o in x.pools}
        alone |= {r.pool for r in inst.replicas if r.work in counted}
        return alone | {c.pool for c in inst.capacities if not c.commit}

    def _note(self, n: int, row: Row) -> None:
        """Note what one row says of each pool in it."""
        said: dict[int, list[tuple[str, int, int]]] = defaultdict(list)
        for pool, kind, place, factor in self._placed(row):
            said[pool].append((kind, place, factor))
        for pool, mine in said.items():
            used = {factor for kind, _, factor in mine if kind == "used"}
            if len(said) == 1 and all(kind == "used" for kind, _, _ in mine):
                # A row for this pool alone that asks for something once it is used: the same is asked of a family.
                about = (row.rule, row.field, row.low, row.high, row.period, row.gear, row.served)
                self.terms[pool].append((about, *sorted(mine)))
                self.own[pool].append(n)
            elif any((f < 0 and row.high is not None) or (f > 0 and row.low is not None) for f in used):
                self.alone.add(pool)  # pools that are used count one by one, a family once
            else:
                self.terms[pool].append((n, *sorted(mine)))

    def _note_sum(self, s: int, part: Sum) -> None:
        """Note what one sum says of each pool in it; of a chain, that it is in one of its sums."""
        name = (-2, part.chain) if part.chain in self.falling else (-1, s)
        inst, (ways, _, picks) = self.inst, self.place
        said: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
        for i, factor in part.commit:
            said[inst.capacities[i].pool].append((0, ways[i], factor))
        for q, factor in part.chosen:
            said[inst.options[q].pool].append((1, picks[q], factor))
        for pool, mine in said.items():
            self.terms[pool].append((name, *(mine if len(mine) == 1 else sorted(mine))))

    def _placed(self, row: Row) -> Iterable[tuple[int, str, int, int]]:
        """Terms of a row by pool: kind of the variable, its place in the pool's list, factor."""
        inst, (ways, kinds, picks) = self.inst, self.place
        for i, factor in row.commit:
            yield inst.capacities[i].pool, "commit", ways[i], factor
        for i, _, factor in row.hourly:
            yield inst.capacities[i].pool, "hourly", i, factor
        for k, factor in row.replicas:
            yield inst.replicas[k].pool, "replica", kinds[k], factor
        for q, factor in row.chosen:
            yield inst.options[q].pool, "chosen", picks[q], factor
        for pool, factor in row.used:
            yield pool, "used", 0, factor

    def signature(self, o: int) -> Hashable:
        """Equal for pools of one family."""
        if o in self.alone:
            return o
        inst, p = self.inst, self.inst.pools[o]
        return (
            (p.accelerator, p.gpus, p.site, p.spot),
            tuple(_way(inst.capacities[i]) for i in self.ways[o]),
            tuple(_kind(inst.replicas[k]) for k in self.kinds[o]),
            tuple(_pick(inst.options[q]) for q in self.picks[o]),
            tuple(self.terms[o]),
        )


def _way(c: Capacity) -> tuple[object, ...]:
    return (c.billing, c.commit, c.start, c.active, len(c.monthly))


def _kind(r: Replica) -> tuple[object, ...]:
    return (r.work, r.gpus, r.nodes, r.rate, r.blend, r.node_blend)


def _pick(x: Option) -> tuple[object, ...]:
    return (x.work, x.billing, x.pooled, x.gpus, x.nodes, x.duration_s, x.slots)


def _falling(inst: Instance) -> set[int | None]:
    """Chains of sums whose nodes ask every row for less, or as much, the later their sum is."""
    chains: dict[int | None, list[int]] = defaultdict(list)
    for s, part in enumerate(inst.sums):
        if part.chain is not None:
            chains[part.chain].append(s)
    wrong = {part.chain for part in inst.sums if part.chosen}
    for row in inst.rows:
        factor = dict(row.sums)
        for c in {inst.sums[s].chain for s in factor} & chains.keys():
            factors = [factor.get(s, 0) for s in chains[c]]
            if row.low is not None or any(a < b for a, b in pairwise(factors)):
                wrong.add(c)
    return set(chains) - wrong


def _folded(view: _View, families: list[tuple[int, ...]]) -> Folded:
    inst = view.inst
    number = {o: f for f, family in enumerate(families) for o in family}

    def groups(lists: dict[int, list[int]]) -> list[tuple[int, ...]]:
        return [tuple(same) for family in families for same in zip(*(lists[o] for o in family), strict=True)]

    ways, kinds, picks = groups(view.ways), groups(view.kinds), groups(view.picks)
    way = _numbers(tuple(ways))
    # One member of each stands for all where a row says the same of them.
    way_of, kind_of, pick_of = ({same[0]: n for n, same in enumerate(some)} for some in (ways, kinds, picks))
    dropped = {n for family in families for o in family[1:] for n in view.own[o]}
    services = (
        replace(
            s,
            groups=tuple(tuple(number[o] for o in g) for g in s.groups),
            ladders=tuple(replace(x, pools=tuple(number[o] for o in x.pools)) for x in s.ladders),
        )
        for s in inst.services
    )
    rows = []
    for n, row in enumerate(inst.rows):
        if n in dropped:
            continue
        if not (row.commit or row.hourly or row.chosen or row.used or row.replicas):
            rows.append(row)
            continue
        rows.append(
            replace(
                row,
                commit=_terms(row.commit, way_of),
                replicas=_terms(row.replicas, kind_of),
                chosen=_terms(row.chosen, pick_of),
                used=tuple({number[o]: (number[o], factor) for o, factor in row.used}.values()),
                hourly=tuple((way[i], p, factor) for i, p, factor in row.hourly),
            )
        )
    small = replace(
        inst,
        pools=tuple(_pool([inst.pools[o] for o in family]) for family in families),
        capacities=tuple(_capacity([inst.capacities[i] for i in same], number) for same in ways),
        replicas=tuple(_replica([inst.replicas[k] for k in same], number) for same in kinds),
        options=tuple(_option([inst.options[q] for q in same], number) for same in picks),
        services=tuple(services),
        quotas=tuple(replace(x, pools=tuple(number[o] for o in x.pools)) for x in inst.quotas),
        rows=tuple(rows),
        sums=_sums(view, way, way_of, pick_of),
    )
    return Folded(small, tuple(families), tuple(ways), tuple(kinds), tuple(picks))


def _terms(terms: Terms, number: dict[int, int]) -> Terms:
    """Terms over families, where a row says the same of all members: those of the members that `number` has."""
    return tuple((number[j], factor) for j, factor in terms if j in number)


def _sums(view: _View, way: dict[int, int], way_of: dict[int, int], pick_of: dict[int, int]) -> tuple[Sum, ...]:
    """Sums over families; of a chain a family is in the last one that any of its members is in."""
    last: dict[tuple[int | None, int], tuple[int, int]] = {}
    for s, part in enumerate(view.inst.sums):
        if part.chain in view.falling:
            last.update({(part.chain, way[i]): (s, factor) for i, factor in part.commit})
    mine: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for (_, i), (s, factor) in last.items():
        mine[s].append((i, factor))
    return tuple(
        Sum(tuple(sorted(mine[s])), (), part.chain)
        if part.chain in view.falling
        else Sum(_terms(part.commit, way_of), _terms(part.chosen, pick_of), part.chain)
        for s, part in enumerate(view.inst.sums)
    )


def _least(amounts: Iterable[Sequence[int]]) -> tuple[int, ...]:
    return tuple(min(some) for some in zip(*amounts, strict=True))


def _pool(some: Sequence[Pool]) -> Pool:
    if len(some) == 1:
        return some[0]
    return replace(some[0], it_w=min(p.it_w for p in some), facility_w=min(p.facility_w for p in some))


def _capacity(some: Sequence[Capacity], number: dict[int, int]) -> Capacity:
    if len(some) == 1:
        return moved(some[0], number[some[0].pool])
    return replace(
        some[0],
        pool=number[some[0].pool],
        max_nodes=sum(c.max_nodes for c in some),
        capex=min(c.capex for c in some),
        cost=_least(c.cost for c in some),
        cash=_least(c.cash for c in some),
        monthly=_least(c.monthly for c in some),
        carbon=_least(c.carbon for c in some),
    )


def _replica(some: Sequence[Replica], number: dict[int, int]) -> Replica:
    if len(some) == 1:
        return moved(some[0], number[some[0].pool])
    return replace(
        some[0],
        pool=number[some[0].pool],
        max_count=sum(r.max_count for r in some),
        cost=_least(r.cost for r in some),
        cash=_least(r.cash for r in some),
        monthly=_least(r.monthly for r in some),
        carbon=_least(r.carbon for r in some),
    )


def _option(some: Sequence[Option], number: dict[int, int]) -> Option:
    if len(some) == 1:
        return moved(some[0], number[some[0].pool])
    return replace(
        some[0],
        pool=number[some[0].pool],
        cost=min(x.cost for x in some),
        cash=min(x.cash for x in some),
        monthly=min(x.monthly for x in some),
        carbon=min(x.carbon for x in some),
    )
