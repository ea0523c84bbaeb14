"""Recompute what own machines cost beside their price: electricity, space and the value left at the end."""

from __future__ import annotations

import polars as pl

from catalogs.catalog import Catalog
from problems.schema import Finetune, Fixed, Pretrain, Problem, Serve, Site
from problems.units import Money
from solver.features.power import with_gpu_power
from solver.features.speed_tables import SpeedTables
from solver.plan import Item, Placement, Result
from solver.verify_money import HOURS, exchange, part_list
from solver.verify_places import capped_w, nameplate_w
from solver.verify_traffic import months_held, period_hours

ROUNDING = 0.011
"""Money that rounding up to a cent may add to each amount of the model [money]."""


def check_running(result: Result, problem: Problem, catalog: Catalog) -> list[str]:
    """Electricity (idle and at work), space and residual value of every own site against the catalogue and the problem."""
    wrong: list[str] = []
    watts = _gpu_watts(catalog)
    for site in problem.sites:
        servers = [i for i in result.items if i.kind == "server" and i.site == site.name and part_list(i)]
        wrong += _check_idle(result, problem, catalog, site, servers, watts)
        wrong += _check_work(result, problem, catalog, site, servers, watts)
        wrong += _check_space(result, problem, catalog, site, servers)
    return wrong + _check_residual(result, problem)


def _money(amount: Money, problem: Problem, catalog: Catalog) -> float:
    rate = exchange(catalog, amount.currency, problem.currency)
    return 0.0 if rate is None else float(amount.amount) * rate


def _value(catalog: Catalog, key: str) -> float:
    return float(catalog.assumptions.filter(pl.col("key") == key)["value"][0])


def _per_it_kwh(site: Site, problem: Problem, catalog: Catalog) -> float:
    """Money for one kWh drawn by the machines, with the facility's overhead."""
    pue = site.pue if site.pue is not None else _value(catalog, "own_room_pue")
    if site.electricity is not None:
        return pue * _money(site.electricity, problem, catalog)
    known = catalog.electricity.filter(pl.col("country") == (site.country or "")).sort("region", nulls_last=False)
    usd = float(known["price_per_kwh_usd"][0]) if known.height else _value(catalog, "electricity_usd_per_kwh")
    return pue * usd * (exchange(catalog, "USD", problem.currency) or 1.0)


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
    price, share = _per_it_kwh(site, problem, catalog), _value(catalog, "host_draw_share")
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
    price, pools = _per_it_kwh(site, problem, catalog), {i.pool for i in servers}
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
                busy_h = sum(n * hours[name] for name, n in p.replicas_by_period.items())
                due += extra_w(p, "mixed") * busy_h / 1000 * price
                cents += sum(p.replicas_by_period.values()) * p.accelerators_per_replica
                continue
            phase = "training" if isinstance(work, Pretrain | Finetune) else "mixed"
            runs = problem.horizon
            if not isinstance(work, Fixed):
                runs = work.runs.value * (problem.horizon if work.runs.per_month else 1)
            due += extra_w(p, phase) * (p.duration_h or 0.0) * runs / 1000 * price
            cents += 1
    lines = [i for i in result.items if i.kind == "energy" and i.pool is None and i.site == site.name]
    return _off(f"electricity for the work at {site.name}", _paid(lines), due, cents)


def _check_space(result: Result, problem: Problem, catalog: Catalog, site: Site, servers: list[Item]) -> list[str]:
    """Colocation by IT nameplate."""
    price = 0.0 if site.space is None else _money(site.space, problem, catalog)
    due = sum(nameplate_w(i, catalog) * i.quantity * months_held(i, problem) for i in servers) / 1000 * price
    lines = [i for i in result.items if i.kind == "space" and i.site == site.name]
    return _off(f"space at {site.name}", _paid(lines), due, sum(i.quantity for i in servers))


def _check_residual(result: Result, problem: Problem) -> list[str]:
    """Bought servers are credited the policy's share of their price."""
    bought = [i for i in result.items if i.kind == "server" and i.billing == "purchase"]
    due = -_paid(bought) * problem.policy.residual_value
    lines = [i for i in result.items if i.kind == "residual"]
    return _off("residual value", _paid(lines), due, sum(i.quantity for i in bought))
