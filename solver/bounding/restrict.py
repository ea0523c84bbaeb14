"""An instance without some of its pools, and the way back of a plan's values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from solver.bounding.moved import moved
from solver.instance import Instance, Service, Sum, Terms
from solver.search import Values


@dataclass(frozen=True)
class Part:
    """A smaller instance; `capacities[i]` is the number in the whole one of its i-th capacity, and so on."""

    whole: Instance
    instance: Instance
    pools: tuple[int, ...]
    capacities: tuple[int, ...]
    replicas: tuple[int, ...]
    options: tuple[int, ...]

    def widened(self, values: Values) -> Values:
        """Values of the whole instance: zero for everything left out."""
        periods = range(len(self.whole.periods))
        commit = {i: 0 for i, c in enumerate(self.whole.capacities) if c.commit}
        commit.update({self.capacities[i]: n for i, n in values.commit.items()})
        hourly = {(i, p): 0 for i, c in enumerate(self.whole.capacities) if not c.commit for p in periods}
        hourly.update({(self.capacities[i], p): n for (i, p), n in values.hourly.items()})
        replicas = {(k, p): 0 for k in range(len(self.whole.replicas)) for p in periods}
        replicas.update({(self.replicas[k], p): n for (k, p), n in values.replicas.items()})
        load = {
            (k, b, p): 0
            for k, r in enumerate(self.whole.replicas)
            if len(self.whole.services[r.work].demand) > 1
            for b in range(len(self.whole.services[r.work].demand))
            for p in periods
        }
        load.update({(self.replicas[k], b, p): n for (k, b, p), n in values.load.items()})
        chosen = dict.fromkeys(range(len(self.whole.options)), 0)
        chosen.update({self.options[q]: n for q, n in values.chosen.items()})
        return replace(values, commit=commit, hourly=hourly, replicas=replicas, load=load, chosen=chosen)

    def narrowed(self, values: Values) -> Values | None:
        """Values of the part; None where the plan uses something that was left out."""
        c = {j: i for i, j in enumerate(self.capacities)}
        k = {j: i for i, j in enumerate(self.replicas)}
        q = {j: i for i, j in enumerate(self.options)}
        lost = any(n and i not in c for i, n in values.commit.items())
        lost |= any(n and i not in c for (i, _), n in values.hourly.items())
        lost |= any(n and i not in q for i, n in values.chosen.items())
        lost |= any(n and i not in k for (i, _), n in values.replicas.items())
        if lost:
            return None
        return replace(
            values,
            commit={c[i]: n for i, n in values.commit.items() if i in c},
            hourly={(c[i], p): n for (i, p), n in values.hourly.items() if i in c},
            replicas={(k[i], p): n for (i, p), n in values.replicas.items() if i in k},
            load={(k[i], b, p): n for (i, b, p), n in values.load.items() if i in k},
            chosen={q[i]: n for i, n in values.chosen.items() if i in q},
        )


def _numbered(kept: Sequence[int]) -> dict[int, int]:
    """New number of each thing that is kept."""
    return {j: i for i, j in enumerate(kept)}


def _kept(terms: Terms, number: Mapping[int, int]) -> Terms:
    """Terms of what is kept, in its new numbers; the rest is zero."""
    return tuple((number[j], factor) for j, factor in terms if j in number)


def _service(service: Service, number: Mapping[int, int]) -> Service:
    """A service whose losses speak of the pools that are kept: what is not there cannot be lost."""
    groups = tuple(tuple(number[o] for o in group if o in number) for group in service.groups)
    ladders = tuple(replace(x, pools=tuple(number[o] for o in x.pools if o in number)) for x in service.ladders)
    return replace(service, groups=tuple(g for g in groups if g), ladders=tuple(x for x in ladders if x.pools))


def restricted(
    inst: Instance, pools: Iterable[int], options: Iterable[int] | None = None, kinds: Iterable[int] | None = None
) -> Part:
    """The instance with only these pools and all gear, and of the options of jobs and the kinds of replicas only these (all on
    the pools where not given)."""
    kept = tuple(sorted(set(pools)))
    number = _numbered(kept)
    capacities = tuple(i for i, c in enumerate(inst.capacities) if c.pool in number)
    able = range(len(inst.replicas)) if kinds is None else sorted(set(kinds))
    replicas = tuple(k for k in able if inst.replicas[k].pool in number)
    wanted = range(len(inst.options)) if options is None else sorted(set(options))
    chosen = tuple(q for q in wanted if inst.options[q].pool in number)
    way, kind, pick = _numbered(capacities), _numbered(replicas), _numbered(chosen)
    small = replace(
        inst,
        pools=tuple(inst.pools[o] for o in kept),
        capacities=tuple(moved(inst.capacities[i], number[inst.capacities[i].pool]) for i in capacities),
        replicas=tuple(moved(inst.replicas[k], number[inst.replicas[k].pool]) for k in replicas),
        options=tuple(moved(inst.options[q], number[inst.options[q].pool]) for q in chosen),
        services=tuple(_service(s, number) for s in inst.services),
        quotas=tuple(replace(x, pools=tuple(number[o] for o in x.pools if o in number)) for x in inst.quotas),
        rows=tuple(
            replace(
                row,
                hourly=tuple((way[i], p, f) for i, p, f in row.hourly if i in way),
                commit=_kept(row.commit, way),
                chosen=_kept(row.chosen, pick),
                used=_kept(row.used, number),
                replicas=_kept(row.replicas, kind),
            )
            if row.commit or row.chosen or row.used or row.replicas or row.hourly
            else row
            for row in inst.rows
        ),
        sums=tuple(Sum(_kept(x.commit, way), _kept(x.chosen, pick), x.chain) for x in inst.sums),
    )
    return Part(inst, small, kept, capacities, replicas, chosen)


def part_of(part: Part, inner: Part) -> Part:
    """A part of a part's instance as a part of the whole; its capacities, kinds and options keep the numbers that they have in it."""
    return restricted(
        part.whole,
        [part.pools[o] for o in inner.pools],
        [part.options[q] for q in inner.options],
        [part.replicas[k] for k in inner.replicas],
    )
