"""Hours of traffic -> at most `MOST_LEVELS` load levels, none below any of its hours.

What a level has above its hours is over-provisioning, and that is what is kept least: for one service exactly, by dynamic
programming over the sorted loads; for several services by merging what costs least and moving hours between levels after.
Hours without any traffic are a level of their own.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

MOST_LEVELS = 12
MOST_PAIRED = 300
"""Different hours that are merged pair by pair; more are first grouped service by service."""

Loads = tuple[float, ...]


def compress(points: Mapping[Loads, int], most: int = MOST_LEVELS) -> dict[Loads, Loads]:
    """Assign every vector of loads (one per service) to the level that its hours are planned for.

    Parameters
    ----------
    points : mapping
        Vector of loads -> number of hours with just these.
    most : int
        Most levels.

    Returns
    -------
    dict
        Vector -> level, a vector that is no smaller in any entry; at most `most` different ones. Where there are no more
        vectors than that, each is its own level.
    """
    if len(points) <= most:
        return {p: p for p in points}
    width = len(next(iter(points)))
    idle = (0.0,) * width
    if idle in points and most > 1:
        # Hours without any traffic need no machine: they are never planned with others.
        rest = compress({p: n for p, n in points.items() if p != idle}, most - 1)
        return {idle: idle, **rest}
    if width == 1:
        tops = levels_of({p[0]: n for p, n in points.items()}, most)
        return {p: (tops[p[0]],) for p in points}
    return _joint(points, most, width)


def levels_of(loads: Mapping[float, int], most: int) -> dict[float, float]:
    """Load -> level for one service, with the least over-provisioning that `most` levels allow.

    Sorted loads v_1 < .. < v_n with w_i hours each are cut into runs; a run from i+1 to j costs
    v_j (W_j - W_i) - (S_j - S_i), W and S being sums of hours and of load-hours. The best cut at each number of runs is a
    minimum over lines of slope -W_i at v_j, and both grow, so that every line enters and leaves the envelope once.
    """
    values = sorted(loads)
    n = len(values)
    hours, work = [0], [0.0]
    for v in values:
        hours.append(hours[-1] + loads[v])
        work.append(work[-1] + v * loads[v])
    before = [values[j - 1] * hours[j] - work[j] if j else 0.0 for j in range(n + 1)]
    cuts: list[list[int]] = []
    for _ in range(1, min(most, n)):
        now, cut = list(before), [0] * (n + 1)
        hull: list[int] = []
        first = 0

        def line(i: int, at: float, base: Sequence[float] = tuple(before)) -> float:
            return base[i] - at * hours[i] + work[i]

        def late(a: int, b: int, base: Sequence[float] = tuple(before)) -> float:
            """Load from which on line b is below line a."""
            return (base[b] + work[b] - base[a] - work[a]) / (hours[b] - hours[a])

        for j in range(1, n + 1):
            i = j - 1
            while len(hull) - first >= 2 and late(hull[-1], i) <= late(hull[-2], hull[-1]):
                hull.pop()
            hull.append(i)
            first = min(first, len(hull) - 1)
            at = values[j - 1]
            while first + 1 < len(hull) and line(hull[first + 1], at) <= line(hull[first], at):
                first += 1
            now[j] = at * hours[j] - work[j] + line(hull[first], at)
            cut[j] = hull[first]
        cuts.append(cut)
        before = now
    out: dict[float, float] = {}
    end = n
    for cut in reversed(cuts):
        out |= dict.fromkeys(values[cut[end] : end], values[end - 1])
        end = cut[end]
        if end == 0:
            return out
    return out | dict.fromkeys(values[:end], values[end - 1])


def _joint(points: Mapping[Loads, int], most: int, width: int) -> dict[Loads, Loads]:
    """Several services: levels are upper envelopes of groups of hours; what counts is the mean relative excess of the services."""
    total = [sum(p[s] * n for p, n in points.items()) for s in range(width)]
    price = [1 / t if t else 0.0 for t in total]
    groups = _first_groups(points, width)
    top = [_envelope(g) for g in groups]
    size = [sum(points[p] for p in g) for g in groups]

    def excess(a: int, b: int) -> float:
        """Over-provisioning that merging two groups adds."""
        whole = size[a] + size[b]
        return sum(
            c * (whole * max(x, y) - size[a] * x - size[b] * y) for c, x, y in zip(price, top[a], top[b], strict=True)
        )

    alive = set(range(len(groups)))
    queue = [(excess(a, b), a, b) for a in alive for b in alive if a < b]
    heapq.heapify(queue)
    while len(alive) > most:
        _, a, b = heapq.heappop(queue)
        if a not in alive or b not in alive:
            continue
        alive -= {a, b}
        new = len(groups)
        groups.append(groups[a] + groups[b])
        top.append(tuple(map(max, top[a], top[b])))
        size.append(size[a] + size[b])
        for other in alive:
            heapq.heappush(queue, (excess(other, new), other, new))
        alive.add(new)
    return _settled([groups[g] for g in sorted(alive)], price)


def _first_groups(points: Mapping[Loads, int], width: int) -> list[list[Loads]]:
    """Each vector alone; where there are too many, those whose loads fall on the same levels, service by service."""
    if len(points) <= MOST_PAIRED:
        return [[p] for p in sorted(points)]
    surely = max(1, int(MOST_PAIRED ** (1 / width)))
    for steps in (2 * surely, surely):
        tops = []
        for s in range(width):
            loads: dict[float, int] = {}
            for p, n in points.items():
                loads[p[s]] = loads.get(p[s], 0) + n
            tops.append(levels_of(loads, steps))
        groups: dict[Loads, list[Loads]] = {}
        for p in sorted(points):
            groups.setdefault(tuple(top[x] for top, x in zip(tops, p, strict=True)), []).append(p)
        if len(groups) <= MOST_PAIRED:
            break
    return list(groups.values())


def _envelope(group: Sequence[Loads]) -> Loads:
    return tuple(map(max, zip(*group, strict=True)))


def _settled(groups: Sequence[Sequence[Loads]], price: Sequence[float]) -> dict[Loads, Loads]:
    """Move every vector to the cheapest level that is above it, and lower the levels to what is left in them; repeat."""
    level = {p: _envelope(g) for g in groups for p in g}
    for _ in range(20):
        tops = sorted(set(level.values()), key=lambda top: (sum(map(float.__mul__, price, top)), top))
        members: dict[Loads, list[Loads]] = {}
        for p in level:
            best = next(top for top in tops if all(x <= y for x, y in zip(p, top, strict=True)))
            members.setdefault(best, []).append(p)
        new = {p: _envelope(group) for group in members.values() for p in group}
        if new == level:
            break
        level = new
    return level
