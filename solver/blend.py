"""First plan for problems with several request sizes: every replica serves the workload's own mix.

With a blended rate per replica kind, 1 / sum_b (share_b / rate_b), loads F drop out of the model, which is then small and
quick. Its plans are feasible in the full model (each replica splits its time as the mix asks), so its best is a hint and an
upper bound; its bound says nothing about the full model and is never reported.
"""

from __future__ import annotations

from dataclasses import replace

from solver.instance import DEMAND_UNIT, LOAD_UNIT, Instance
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
