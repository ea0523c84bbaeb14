"""Problems with several request sizes, with every replica serving the workload's own mix: a first plan, or as good as any.

With a blended rate per replica kind, 1 / sum_b (share_b / rate_b), loads F drop out of the model, which is then small and
quick. Its plans are feasible in the full model (each replica splits its time as the mix asks), so its best is a hint and an
upper bound; its bound says nothing about the full model and is never reported.

Services that must outlive losses are another matter. What is left to them is counted by blended rates (`solver.losses`), and what
they have before the loss is more; so every replica can serve the mix in any plan of theirs, and how loads are split is of no
consequence. Of such services the blended instance has just the same plans (`unmixed`).
"""

from __future__ import annotations

from dataclasses import replace

from solver.bounding.route import balanced
from solver.expressions import required
from solver.instance import DEMAND_UNIT, LOAD_UNIT, Instance, Service
from solver.model import PlanModel
from solver.search import Values


def has_mixes(instance: Instance) -> bool:
    """True where a service has several request sizes."""
    return any(len(s.demand) > 1 for s in instance.services)


def blended(instance: Instance) -> Instance:
    """The instance with one bucket per service and blended rates; kinds that cannot serve the whole mix do nothing."""
    services = tuple(replace(s, demand=s.demand[:1]) for s in instance.services)
    replicas = tuple(replace(r, rate=(r.blend,)) for r in instance.replicas)
    return replace(instance, services=services, replicas=replicas)


def unmixed(instance: Instance) -> Instance:
    """The instance with one bucket for each service whose losses say all there is to say of loads; itself where there is none."""
    works = _settled(instance)
    if not works:
        return instance
    single = blended(instance)
    services = tuple(single.services[w] if w in works else s for w, s in enumerate(instance.services))
    replicas = tuple(single.replicas[k] if r.work in works else r for k, r in enumerate(instance.replicas))
    return replace(instance, services=services, replicas=replicas)


def remixed(instance: Instance, values: Values) -> Values | None:
    """A plan of the unmixed instance with loads for all sizes; None where whole numbers leave some of a demand uncovered."""
    works = _settled(instance)
    even = balanced(instance, {key: n for key, n in values.replicas.items() if n})
    load = dict(values.load)
    for k, r in enumerate(instance.replicas):
        if r.work not in works:
            continue
        for p in range(len(instance.periods)):
            count = values.replicas[k, p]
            split = _split(r.rate) if not even and count and min(r.rate) > 0 else [0] * len(r.rate)
            for b in range(len(r.rate)):
                load[k, b, p] = even.get((k, b, p), 0) if even else split[b] * count
    for w in works:
        kinds = [k for k, r in enumerate(instance.replicas) if r.work == w]
        for b, by_period in enumerate(instance.services[w].demand):
            for p, demand in enumerate(by_period):
                done = sum(instance.replicas[k].rate[b] // 10 * load[k, b, p] for k in kinds)
                if done < required(demand) // 10 * LOAD_UNIT:
                    return None
    return replace(values, load=load)


def _settled(instance: Instance) -> set[int]:
    """Services with several request sizes of which nothing but their losses matters."""
    if instance.wishes:
        return set()
    firm = instance.spot_share_ppm < 1_000_000
    on_spot = {r.work for r in instance.replicas if firm and instance.pools[r.pool].spot}
    return {w for w, s in enumerate(instance.services) if len(s.demand) > 1 and w not in on_spot and _outlives(s)}


def _outlives(service: Service) -> bool:
    """True where demand holds after a loss whatever the plan; all sizes are wanted alike then and now."""
    return bool(service.redundant or any(service.groups)) and len(set(service.demand)) == 1


def hint(built: PlanModel, values: Values) -> None:
    """Hint the full model with a plan of the blended one."""
    instance, var, model = built.context.instance, built.context.variables, built.model
    for i, c in var.commit.items():
        model.add_hint(c, values.commit[i])
    for key, e in var.hourly.items():
        model.add_hint(e, values.hourly[key])
    for key, s in var.start.items():
        model.add_hint(s, values.start[key])
    for g, n in var.gear.items():
        model.add_hint(n, values.gear[g])
    for q, x in var.chosen.items():
        model.add_hint(x, values.chosen[q])
    for key, r in var.replicas.items():
        model.add_hint(r, values.replicas[key])
    for (k, b, p), load in var.load.items():
        count = values.replicas[k, p]
        rates = instance.replicas[k].rate
        model.add_hint(load, _split(rates)[b] * count if count and min(rates) > 0 else 0)


def _split(rates: tuple[int, ...]) -> list[int]:
    """Time of one replica per bucket in 1/LOAD_UNIT so that all buckets are served in proportion to their demand."""
    times = [DEMAND_UNIT / r for r in rates]
    whole = sum(times)
    shares = [int(LOAD_UNIT * t / whole) for t in times]
    shares[0] += LOAD_UNIT - sum(shares)
    return shares
