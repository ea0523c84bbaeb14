"""Recheck where things stand: limits on offers and sites, machines that can be built, watts and quotas."""

from __future__ import annotations

import re

import polars as pl

from catalogs.catalog import Catalog
from catalogs.names import match_accelerators
from problems.schema import Pick, Problem, Site
from solver.plan import Item, Result
from solver.verify_gear import gear_w
from solver.verify_money import part_list
from solver.verify_parts import check_parts
from solver.verify_traffic import spans, there

RANK = ("recalled", "estimate", "derived", "listed", "measured")


def check_places(result: Result, problem: Problem, catalog: Catalog) -> list[str]:
    """Offers, sites and machines of the plan respect every limit that is not money."""
    wrong: list[str] = []
    for item in result.items:
        if item.kind == "rental":
            wrong += _check_offer(item, problem, catalog)
        elif item.kind == "server":
            wrong += _check_server(item, problem, catalog)
    wrong += _check_power(result, problem, catalog)
    wrong += _check_quota(result, problem)
    wrong += _check_owned(result, problem, catalog)
    return wrong


def _picked(value: str | None, pick: Pick | None, *, lower: bool = False) -> bool:
    if pick is None:
        return True

    def norm(text: str) -> str:
        return text.lower() if lower else text

    name = None if value is None else norm(value)
    if name is not None and name in {norm(d) for d in pick.deny}:
        return False
    return pick.allow is None or (name is not None and name in {norm(a) for a in pick.allow})


def _card_picked(card: str, pick: Pick | None, catalog: Catalog) -> bool:
    if pick is None:
        return True
    if any(card in match_accelerators(catalog, d) for d in pick.deny):
        return False
    return pick.allow is None or any(card in match_accelerators(catalog, a) for a in pick.allow)


def _tag(text: str) -> str:
    return re.sub(r"[\W_]", "", text.lower())


def _tags_missing(have: list[str], wanted: tuple[str, ...]) -> list[str]:
    known = {_tag(t) for t in have}
    return [t for t in wanted if _tag(t) not in known]


def _common(
    item: Item, problem: Problem, catalog: Catalog, mode: str, country: str | None, tags: list[str]
) -> list[str]:
    limits = problem.limits
    card = item.accelerator or ""
    vendor = catalog.accelerators.filter(pl.col("accelerator") == card)["vendor"]
    wrong = []
    if not _card_picked(card, limits.accelerators, catalog):
        wrong.append(f"{item.item}: accelerator {card} not allowed")
    if not _picked(str(vendor[0]) if vendor.len() else None, limits.vendors, lower=True):
        wrong.append(f"{item.item}: vendor not allowed")
    if limits.deployment is not None and mode not in limits.deployment:
        wrong.append(f"{item.item}: deployment {mode} not allowed")
    if limits.countries is not None and country not in limits.countries:
        wrong.append(f"{item.item}: country {country} not allowed")
    wrong += [f"{item.item}: compliance tag {t} missing" for t in _tags_missing(tags, limits.compliance)]
    return wrong


def _check_offer(item: Item, problem: Problem, catalog: Catalog) -> list[str]:
    name = (item.pool or "").removesuffix("#spot").removesuffix("#units")
    hit = catalog.offers.filter(pl.col("offer_id") == name)
    if hit.is_empty():
        return [f"{item.item}: not in the catalogue"]
    offer = hit.row(0, named=True)
    limits = problem.limits
    wrong = _common(
        item,
        problem,
        catalog,
        offer["deployment_mode"],
        offer["country"],
        (offer["compliance"] or "").split(";"),
    )
    if not _picked(offer["provider"], limits.providers, lower=True):
        wrong.append(f"{item.item}: provider not allowed")
    if not _picked(offer["region"], limits.regions):
        wrong.append(f"{item.item}: region not allowed")
    if offer["doubtful"] and not problem.policy.include_doubtful:
        wrong.append(f"{item.item}: row marked doubtful")
    least = RANK.index(problem.policy.min_confidence)
    if RANK.index(item.price_confidence or "recalled") < least:
        wrong.append(f"{item.item}: price less sure than {problem.policy.min_confidence}")
    wrong += _check_spot(item, problem, catalog, name)
    if offer["stock"] is not None and item.quantity > offer["stock"]:
        wrong.append(f"{item.item}: {item.quantity:g} nodes of the {offer['stock']} that can be had")
    if item.quantity < (offer["min_nodes"] or 1):
        wrong.append(f"{item.item}: sold from {offer['min_nodes']} nodes on")
    card = offer["accelerator"] or offer["label"] or "none"
    if item.accelerator != card or item.accelerators != (offer["accelerator_count"] or 0) * item.quantity:
        wrong.append(f"{item.item}: accelerators do not match the offer")
    return wrong


def _check_spot(item: Item, problem: Problem, catalog: Catalog, offer_id: str) -> list[str]:
    """Spot saves as much, and is taken back as seldom, as the policy asks."""
    policy = problem.policy
    if item.billing != "spot":
        return []
    rows = catalog.prices.filter(pl.col("offer_id") == offer_id)
    spot = rows.filter(pl.col("billing") == "spot")
    wrong = []
    usual = catalog.assumption("spot_interruption_per_month")
    if (spot["interruption_per_month"].fill_null(usual) > policy.spot_max_interruption).any():
        wrong.append(f"{item.item}: spot is interrupted more often than {policy.spot_max_interruption:.0%} a month")
    full = rows.filter(pl.col("billing") == "on_demand")
    if policy.spot_min_saving > 0:
        both = spot.join(full, on=["offer_id", "currency"])
        enough = both["price_per_hour"] <= both["price_per_hour_right"] * (1 - policy.spot_min_saving) * (1 + 1e-9)
        if both.is_empty() or not enough.all():
            wrong.append(f"{item.item}: spot saves less than {policy.spot_min_saving:.0%}")
    return wrong


def _site(problem: Problem, name: str) -> Site | None:
    return next((s for s in problem.sites if s.name == name), None)


def _check_server(item: Item, problem: Problem, catalog: Catalog) -> list[str]:
    site = _site(problem, item.site)
    parts = part_list(item)
    if site is None or not parts:
        return [f"{item.item}: no such site or no parts"]
    row = catalog.servers.filter(pl.col("server") == parts[0][1])
    if row.is_empty():
        return [f"{item.item}: unknown server"]
    server = row.row(0, named=True)
    wrong = _common(item, problem, catalog, server["deployment_mode"], site.country, list(site.compliance))
    unsure = RANK.index(item.price_confidence or "recalled") < RANK.index(problem.policy.min_confidence)
    if item.billing == "purchase" and unsure:
        wrong.append(f"{item.item}: price less sure than {problem.policy.min_confidence}")
    cards = [(n, name) for n, name in parts[1:] if name == item.accelerator]
    if len(cards) != 1 or cards[0][0] > server["slots"]:
        wrong.append(f"{item.item}: accelerators do not fit the server's slots")
    if item.accelerator not in [f.strip() for f in server["fits"].split(";")]:
        wrong.append(f"{item.item}: server does not take {item.accelerator}")
    ceiling = problem.policy.gpu_power_limit
    if ceiling is not None and ceiling < 1 and item.accelerators:
        rated = catalog.accelerators.filter(pl.col("accelerator") == item.accelerator)["tdp_w"]
        if item.power_limit_w is None or item.power_limit_w > float(rated[0]) * ceiling + 0.5:
            wrong.append(f"{item.item}: cards may draw more than {ceiling:.0%} of {rated[0]:.0f} W")
    if not server["complete"] and item.billing != "owned":
        wrong += check_parts(item, catalog)
    return wrong


def nameplate_w(item: Item, catalog: Catalog) -> float:
    """Nameplate of one server of a line from its parts; complete systems carry their rated maximum [W]."""
    parts = part_list(item)
    found = catalog.servers.filter(pl.col("server") == (parts[0][1] if parts else ""))
    if found.is_empty():
        return 0.0  # refused elsewhere
    server = found.row(0, named=True)
    if server["complete"]:
        return float(server["max_power_w"]) - capped_w(item, catalog)
    total = float(server["chassis_overhead_w"]) - capped_w(item, catalog)
    for count, name in parts[1:]:
        for table, key, column in (
            (catalog.accelerators, "accelerator", "tdp_w"),
            (catalog.cpus, "cpu", "tdp_w"),
            (catalog.ram, "module", "power_w"),
            (catalog.storage, "storage", "power_w"),
        ):
            hit = table.filter(pl.col(key) == name)
            if hit.height:
                total += count * float(hit[column][0])
        port = (
            catalog.network.filter(pl.col("network") == name[name.rfind("(") + 1 : -1])
            if name.endswith(")")
            else pl.DataFrame()
        )
        if port.height:
            total += count * float(port["nic_power_w"][0])
    return total


def capped_w(item: Item, catalog: Catalog) -> float:
    """Watts that a power limit takes off the rated power of one server's cards."""
    if item.power_limit_w is None:
        return 0.0
    card = catalog.accelerators.filter(pl.col("accelerator") == item.accelerator).row(0, named=True)
    return float(card["tdp_w"] - item.power_limit_w) * (item.accelerators or 0) / item.quantity


def _check_power(result: Result, problem: Problem, catalog: Catalog) -> list[str]:
    """Nameplate of all servers and gear at each site, before and after PUE, within the limits; the plan's own figures agree."""
    assert result.power is not None
    wrong = []
    default_pue = float(catalog.assumptions.filter(pl.col("key") == "own_room_pue")["value"][0])
    it_all = facility_all = 0.0
    for _, _, periods in spans(result, problem):
        it_now = facility_now = 0.0
        for site in problem.sites:
            here = [i for i in result.items if i.kind == "server" and i.site == site.name]
            it = sum(nameplate_w(i, catalog) * there(i, periods[0]) for i in here)
            it += sum(gear_w(i, catalog) for i in result.items if i.site == site.name)
            facility = it * (site.pue or default_pue)
            it_now += it
            facility_now += facility
            if site.it_power is not None and it > site.it_power * (1 + 1e-9):
                wrong.append(f"{site.name}: {it:.0f} W of IT nameplate over {site.it_power:.0f} W")
            if site.power is not None and facility > site.power * (1 + 1e-9):
                wrong.append(f"{site.name}: {facility:.0f} W after PUE over {site.power:.0f} W")
        if problem.limits.power is not None and facility_now > problem.limits.power * (1 + 1e-9):
            wrong.append(f"limits.power: {facility_now:.0f} W over {problem.limits.power:.0f} W")
        it_all, facility_all = max(it_all, it_now), max(facility_all, facility_now)
    if abs(it_all - result.power.it_peak_w) > 1 + 1e-6 * it_all:
        wrong.append(f"nameplate is {it_all:.0f} W, the plan says {result.power.it_peak_w:.0f} W")
    if abs(facility_all - result.power.facility_peak_w) > 1 + 1e-6 * facility_all:
        wrong.append(f"facility power is {facility_all:.0f} W, the plan says {result.power.facility_peak_w:.0f} W")
    return wrong


def _check_quota(result: Result, problem: Problem) -> list[str]:
    """Nodes of every offer with a quota, held and hired together, in each period."""
    wrong = []
    for quota in problem.limits.quota:
        for period in result.periods:
            used = 0.0
            for i in result.items:
                offer = (i.pool or "").removesuffix("#spot").removesuffix("#units")
                named = quota.offer in (
                    offer,
                    offer.rsplit("/", 1)[0],
                    offer.split("/", 1)[-1].rsplit("/", 1)[0],
                )
                if i.kind == "rental" and named:
                    used += i.quantity if i.quantity_by_period is None else i.quantity_by_period.get(period, 0)
            if used > quota.max:
                wrong.append(f"quota of {quota.offer}: {used:g} nodes in {period}, at most {quota.max}")
    return wrong


def _check_owned(result: Result, problem: Problem, catalog: Catalog) -> list[str]:
    """No more machines used for free than are owned at a site."""
    have: dict[tuple[str, str], int] = {}
    for o in problem.owned:
        for card in match_accelerators(catalog, o.accelerator):
            have[card, o.site] = have.get((card, o.site), 0) + o.count
    used: dict[tuple[str, str], float] = {}
    for _, _, periods in spans(result, problem):
        now: dict[tuple[str, str], float] = {}
        for i in result.items:
            if i.kind == "server" and i.billing == "owned" and i.quantity:
                key = (i.accelerator or "", i.site)
                now[key] = now.get(key, 0) + (i.accelerators or 0) * there(i, periods[0]) / i.quantity
        used = {key: max(now.get(key, 0), used.get(key, 0)) for key in {*now, *used}}
    return [
        f"{count:g} x {card} used at {site}, {have.get((card, site), 0)} owned"
        for (card, site), count in used.items()
        if count > have.get((card, site), 0)
    ]
