"""From the running fleet to a plan: what is kept, renewed, given up and added, with what each step costs."""

from __future__ import annotations

from problems.schema import Lease, Problem
from solver.bill import billing_label, money
from solver.candidates.fleet_gear import GIVEN_UP, STARTED
from solver.candidates.leases import lease_number, way_name
from solver.plan import Change
from solver.scaling import Scaled
from solver.search import Values


def changes(scaled: Scaled, values: Values, problem: Problem) -> tuple[Change, ...]:
    """Steps of a problem that has leases or owned machines; none elsewhere."""
    if not problem.leases and not problem.owned:
        return ()
    inst = scaled.instance
    rows = scaled.capacity.to_dicts()
    gear = {g.key: (g, values.gear.get(n, 0)) for n, g in enumerate(inst.gear)}
    kept: list[Change] = []
    dropped: list[Change] = []
    added: list[Change] = []
    for i, (c, row) in enumerate(zip(inst.capacities, rows, strict=True)):
        pool = inst.pools[c.pool].key
        if c.commit:
            count, cents = values.commit[i], c.cash[0] * values.commit[i]
        else:
            by_period = [values.hourly[i, p] for p in range(len(inst.periods))]
            count = max(by_period)
            cents = sum(n * each for n, each in zip(by_period, c.cash, strict=True))
        if not count:
            continue
        number = lease_number(str(row["billing"]))
        label = billing_label(row)
        if number is not None:
            lease = problem.leases[number]
            renewed = lease.ends is not None and float(row["paid_months"]) > lease.ends
            kept += _kept(pool, count, cents, lease, problem.horizon, renewed=renewed)
        elif row["billing"] == "owned":
            kept.append(Change(action="keep", item=pool, count=count, before="owned", after="owned", cost=money(cents)))
        else:
            added.append(Change(action="add", item=pool, count=count, before="", after=label, cost=money(cents)))
    for number, lease in enumerate(problem.leases):
        option, count = gear[f"{GIVEN_UP}{way_name(number, lease)}"]
        if count:
            dropped.append(
                Change(
                    action="drop",
                    item=lease.offer,
                    count=count,
                    before=lease.billing,
                    after="",
                    cost=money(option.cash * count),
                )
            )
    return (*kept, *dropped, *_with_moves(added, {k: g.cash * n for k, (g, n) in gear.items()}))


def _kept(pool: str, count: int, cents: int, lease: Lease, horizon: float, *, renewed: bool) -> list[Change]:
    """A kept lease, which from its end on is renewed or let run out."""
    ends = lease.ends
    if ends is None or ends >= horizon or not renewed:
        return [
            Change(action="keep", item=pool, count=count, before=lease.billing, after=lease.billing, cost=money(cents))
        ]
    first = round(cents * ends / horizon)
    steps = (("keep", first), ("renew", cents - first))
    return [
        Change(action=action, item=pool, count=count, before=lease.billing, after=lease.billing, cost=money(part))
        for action, part in steps
    ]


def _with_moves(added: list[Change], cents: dict[str, int]) -> list[Change]:
    """What starting nodes costs goes to the first step that adds nodes of their pool."""
    left = dict(cents)
    out = []
    for change in added:
        move = left.pop(f"{STARTED}{change.item}", 0)
        out.append(change.model_copy(update={"cost": change.cost + money(move)}))
    return out
