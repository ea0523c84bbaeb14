"""Recompute what own machines cost to run: electricity and space."""

from __future__ import annotations

import polars as pl

from catalogs.catalog import Catalog
from problems.schema import Finetune, Fixed, Pretrain, Problem, Serve, Site
from solver.features.power import with_gpu_power
from solver.features.speed_tables import SpeedTables
from solver.plan import Item, Placement, Result
from solver.verify_money import HOURS, part_list
from solver.verify_places import capped_w, nameplate_w
from solver.verify_tariff import per_it_kwh, per_it_kwh_in, space_price
from solver.verify_traffic import months_held, period_hours

ROUNDING = 0.011
"""Money that rounding up to a cent may add to each amount of the model [money]."""


def check_running(result: Result, problem: Problem, catalog: Catalog) -> list[str]:
    """Electricity (idle and at work) and space of every own site against the catalogue and the problem."""
    wrong: list[str] = []
    watts = _gpu_watts(catalog)
    for site in problem.sites:
        servers = [i for i in result.items if i.kind == "server" and i.site == site.name and part_list(i)]
        wrong += _check_idle(result, problem, catalog, site, servers, watts)
        wrong += _check_work(result, problem, catalog, site, servers, watts)
        wrong += _check_space(result, problem, catalog, site, servers)
    return wrong


def _value(catalog: Catalog, key: str) -> float:
    return float(catalog.assumptions.filter(pl.col("key") == key)["value"][0])


def _gpu_watts(catalog: Catalog) -> dict[tuple[str, str], float]:
    """Expected watts of one card without a power limit by (accelerator, phase) [W]."""
    cards = catalog.accelerators.filter(pl.col("tdp_w").is_not_null()).select("accelerator", "tdp_w")
    phases = pl.DataFrame({"phase": ["idle", "mixed", "training"]})
    frame = with_gpu_power(cards.join(phases, how="cross"), SpeedTables.of(catalog))
    rows = frame.select("accelerator", "phase", "gpu_expected_w").iter_rows()
    return {(card, phase): float(watts) for card, phase, watts in rows}


def _card_w(watts: dict[tuple[str, str], float], card: str | None, phase: str, limit_w: float | None) -> float:
    expected = watts.get((card or "", phase), 0.0)
    return expected if limit_w is None else min(expected, limit_w)


def _off(what: str, paid: float, due: float, cents: float) -> list[str]:
    """Paid is due, or more by no more than the rounding up of `cents` amounts."""
    slack = 0.01 + 1e-6 * abs(due)
    if due - slack <= paid <= due + slack + ROUNDING * cents:
        return []
    return [f"{what}: {paid:.2f} paid, {due:.2f} due"]


def _paid(items: list[Item]) -> float:
    return sum(float(i.total_cost) for i in items)


def _check_idle(
    result: Result,
    problem: Problem,
    catalog: Catalog,
    site: Site,
    servers: list[Item],
    watts: dict[tuple[str, str], float],
) -> list[str]:
    """Draw of idle servers through every hour of the horizon."""
    price, share = per_it_kwh(site, problem, catalog), _value(catalog, "host_draw_share")
    tdp = dict(catalog.accelerators.select("accelerator", "tdp_w").iter_rows())
    due = 0.0
    for i in servers:
        cards = (i.accelerators or 0) / i.quantity
        host = nameplate_w(i, catalog) + capped_w(i, catalog) - cards * (tdp.get(i.accelerator) or 0.0)
        idle = host * share + cards * _card_w(watts, i.accelerator, "idle", i.power_limit_w)
        due += i.quantity * idle * HOURS * months_held(i, problem) / 1000 * price
    lines = [i for i in result.items if i.kind == "energy" and i.pool is not None and i.site == site.name]
    return _off(f"idle electricity at {site.name}", _paid(lines), due, sum(i.quantity for i in servers))


def _check_work(
    result: Result,
    problem: Problem,
    catalog: Catalog,
    site: Site,
    servers: list[Item],
    watts: dict[tuple[str, str], float],
) -> list[str]:
    """What busy cards draw above idle ones, for the hours that replicas and jobs run."""
    price, pools = per_it_kwh(site, problem, catalog), {i.pool for i in servers}
    price_in = per_it_kwh_in(site, result, problem, catalog)
    works = {w.name: w for w in problem.workloads}
    hours = period_hours(result, problem)
    due = cents = 0.0

    def extra_w(p: Placement, phase: str) -> float:
        busy, idle = (_card_w(watts, p.accelerator, x, p.power_limit_w) for x in (phase, "idle"))
        return max(0.0, busy - idle) * p.accelerators_per_replica

    for plan in result.workloads:
        work = works.get(plan.name)
        for p in plan.placements:
            if work is None or p.pool not in pools:
                continue
            if isinstance(work, Serve):
                busy = sum(n * hours[name] * price_in[name] for name, n in p.replicas_by_period.items())
                due += extra_w(p, "mixed") * busy / 1000
                cents += sum(p.replicas_by_period.values()) * p.accelerators_per_replica
                continue
            phase = "training" if isinstance(work, Pretrain | Finetune) else "mixed"
            runs = problem.horizon
            if not isinstance(work, Fixed):
                runs = work.runs.value * (problem.horizon if work.runs.per_month else 1)
            due += extra_w(p, phase) * (p.duration_h or 0.0) * runs / 1000 * price
            cents += 1
    lines = [
        i for i in result.items if i.kind == "energy" and i.pool is None and i.gear is None and i.site == site.name
    ]
    return _off(f"electricity for the work at {site.name}", _paid(lines), due, cents)


def _check_space(result: Result, problem: Problem, catalog: Catalog, site: Site, servers: list[Item]) -> list[str]:
    """Colocation by IT nameplate."""
    price = space_price(site, problem, catalog)
    due = sum(nameplate_w(i, catalog) * i.quantity * months_held(i, problem) for i in servers) / 1000 * price
    lines = [i for i in result.items if i.kind == "space" and i.gear is None and i.site == site.name]
    return _off(f"space at {site.name}", _paid(lines), due, sum(i.quantity for i in servers))
