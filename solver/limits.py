"""Limits of an instance, and the same instance without them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from solver.instance import Instance, Pool, Site


def limits_of(instance: Instance, site_names: list[str]) -> dict[str, Instance]:
    """Field path of every limit in the instance -> the instance without it."""
    out: dict[str, Instance] = {}
    if instance.limit_capex is not None:
        out["limits.budget.capex"] = replace(instance, limit_capex=None)
    if instance.limit_monthly is not None:
        out["limits.budget.monthly"] = replace(instance, limit_monthly=None)
    if instance.limit_total is not None:
        out["limits.budget.total"] = replace(instance, limit_total=None)
    if instance.limit_power_w is not None:
        out["limits.power"] = replace(instance, limit_power_w=None)

    def with_site(s: int, free: Site) -> Instance:
        return replace(instance, sites=(*instance.sites[:s], free, *instance.sites[s + 1 :]))

    for s, site in enumerate(instance.sites):
        if site.limit_it_w is not None:
            out[f"sites.{site_names[s]}.it_power"] = with_site(s, replace(site, limit_it_w=None))
        if site.limit_facility_w is not None:
            out[f"sites.{site_names[s]}.power"] = with_site(s, replace(site, limit_facility_w=None))
    for name in sorted({row.field for row in instance.rows if row.field}):
        out[name] = replace(instance, rows=tuple(row for row in instance.rows if row.field != name))
    for q, quota in enumerate(instance.quotas):
        rest = (*instance.quotas[:q], *instance.quotas[q + 1 :])
        out[quota.field] = replace(instance, quotas=rest, pools=_unlimited(instance, quota.pools))
    return out


def _unlimited(instance: Instance, which: Iterable[int]) -> tuple[Pool, ...]:
    """Pools, those of `which` without their own node limit (it says the same as the quotas that hold them)."""
    free = set(which)
    return tuple(
        replace(p, node_limit=None) if o in free and p.node_limit is not None else p
        for o, p in enumerate(instance.pools)
    )


MOST_KEPT = 2
_kept: list[tuple[Instance, Instance]] = []


def without_limits(instance: Instance) -> Instance:
    """The instance without any limit of money, power or quota; the same one each time, so that what is known of it is found."""
    known = next((free for whole, free in list(_kept) if whole is instance), None)
    if known is None:
        known = _freed(instance)
        _kept.append((instance, known))
        del _kept[:-MOST_KEPT]
    return known


def _freed(instance: Instance) -> Instance:
    sites = tuple(replace(s, limit_it_w=None, limit_facility_w=None) for s in instance.sites)
    return replace(
        instance,
        limit_capex=None,
        limit_monthly=None,
        limit_total=None,
        limit_power_w=None,
        sites=sites,
        quotas=(),
        rows=tuple(row for row in instance.rows if not row.field),
        pools=_unlimited(instance, range(len(instance.pools))),
    )
