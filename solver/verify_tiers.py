"""Storage tiers looked up again in the catalogue: room, speed, who may use them, and what they cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from catalogs.catalog import Catalog
from problems.schema import Problem, Site
from solver.plan import Item, Result
from solver.verify_boxes import Made, box_usd, is_box, made_of, storage_key
from solver.verify_data import Due
from solver.verify_gear import storage_w
from solver.verify_money import HOURS, exchange
from solver.verify_tariff import per_it_kwh, space_price

RANK = ("recalled", "estimate", "derived", "listed", "measured")
KINDS = ("parallel_fs", "object", "block", "drives")
FILLED = 0.8
"""Share of a file system or volume that may be filled."""


@dataclass(frozen=True)
class TierRow:
    """One tier at one place; speeds as in the catalogue, None where none is known; `unit_*`: of a TB, of a pool of a drive."""

    own: bool
    place: str
    name: str
    row: dict[str, Any]
    fill: float
    least_tb: float
    read_gb_s: float | None
    write_gb_s: float | None
    iops: float | None
    unit_read: float | None
    unit_write: float | None
    unit_iops: float
    seldom: bool
    lasting: bool
    unit_tb: float = 1.0
    made: Made | None = None

    def reading(self, held: float) -> float | None:
        """GB/s of so many units."""
        return self.read_gb_s if self.unit_read is None else self.unit_read * held

    def writing(self, held: float) -> float | None:
        """GB/s of so many units."""
        return self.write_gb_s if self.unit_write is None else self.unit_write * held

    def operations(self, held: float) -> float | None:
        """Operations a second of so many units."""
        return self.unit_iops * held if self.iops is None and self.unit_iops else self.iops

    def not_allowed(self, problem: Problem, catalog: Catalog, dues: Sequence[Due]) -> list[str]:
        """Why the problem does not allow the tier, or some of its data to be there."""
        wrong, limits = [], problem.limits
        if self.row["class"] not in KINDS:
            wrong.append(f"{self.name}: not a tier that can be held by itself")
        sure = self.row["confidence"] if self.made is None else self.made.surely(self.row["confidence"])
        if RANK.index(sure) < RANK.index(problem.policy.min_confidence):
            wrong.append(f"{self.name}: price less sure than {problem.policy.min_confidence}")
        modes = problem.billing_modes
        if (self.own and "purchase" not in modes) or (not self.own and not modes & {"on_demand", "subscription"}):
            wrong.append(f"{self.name}: billing not allowed")
        only = limits.deployment
        if only is not None and (("on_premises" not in only) if self.own else set(only) <= {"on_premises"}):
            wrong.append(f"{self.name}: deployment not allowed")
        for due in dues:
            if not self._open_to(due, problem, catalog):
                wrong.append(f"{self.name} at {self.place}: place not allowed for {due.name}")
        return wrong

    def _open_to(self, due: Due, problem: Problem, catalog: Catalog) -> bool:
        limits = problem.limits
        kept = next((k for k in problem.data if due.work is None and _name(k, problem) == due.name), None)
        lists: list[tuple[str, ...]] = [] if limits.countries is None else [limits.countries]
        tags = set(limits.compliance)
        if due.work is not None:
            lists += [] if due.work.countries is None else [due.work.countries]
            tags |= set(due.work.compliance)
        if kept is not None and kept.country is not None:
            lists.append((kept.country,))
        if kept is not None and kept.site is not None and not (self.own and self.place == kept.site):
            return False
        if self.own:
            site = next((s for s in problem.sites if s.name == self.place), None)
            return site is not None and _fits(lists, tags, site.country, site.compliance)
        named = self.place.lower()
        picked = limits.providers
        if picked is not None:
            if picked.allow is not None and named not in {p.lower() for p in picked.allow}:
                return False
            if named in {p.lower() for p in picked.deny}:
                return False
        offers = catalog.offers.filter(pl.col("provider") == self.place)
        if limits.regions is not None:
            offers = offers.filter(~pl.col("region").is_in(list(limits.regions.deny)).fill_null(False))
            if limits.regions.allow is not None:
                offers = offers.filter(pl.col("region").is_in(list(limits.regions.allow)).fill_null(False))
        return any(
            _fits(lists, tags, r["country"], (r["compliance"] or "").split(";")) for r in offers.iter_rows(named=True)
        )


def _name(kept: Any, problem: Problem) -> str:
    if kept.name:
        return str(kept.name)
    return str(kept.kind) if len(problem.data) == 1 else f"{kept.kind} {problem.data.index(kept) + 1}"


def _plain(tag: str) -> str:
    return "".join(c for c in tag.lower() if c.isalnum())


def _fits(lists: list[tuple[str, ...]], tags: set[str], country: str | None, have: Sequence[str]) -> bool:
    known = {_plain(t) for t in have}
    return all(country in countries for countries in lists) and all(_plain(t) in known for t in tags)


def tier_row(key: str, catalog: Catalog) -> TierRow | None:
    """The tier that a key of gear names; None where the catalogue has none such at such a place."""
    named = storage_key(key, catalog)
    if named is None:
        return None
    kind, place, row = named
    own = kind == "site"
    if (row["location"] == "on-prem") != own or (not own and row["provider"] != place):
        return None
    made = made_of(row, catalog) if own else None
    if row["class"] == "drives":
        return None if made is None else _pool(place, row, made)
    terms = catalog.storage_terms.filter(pl.col("storage") == row["storage"]).to_dicts()
    usual = catalog.assumption("cloud_object_gb_s") if row["class"] == "object" and not own else None
    media = "flash" if row["class"] == "parallel_fs" else "hdd"
    many = [row["read_iops"], row["write_iops"]]
    fewest = None if None in many else min(many)
    return TierRow(
        own=own,
        place=place,
        name=row["storage"],
        row=row,
        fill=1.0 if row["class"] == "object" and not own else FILLED,
        least_tb=row["min_size_tb"] or 0.0,
        read_gb_s=terms[0]["read_gb_s"] if terms else row["read_gb_s"] or usual,
        write_gb_s=terms[0]["write_gb_s"] if terms else row["write_gb_s"] or usual,
        iops=terms[0]["included_iops"] if terms else fewest,
        unit_read=row["gb_s_per_tb"],
        unit_write=row["gb_s_per_tb"],
        unit_iops=catalog.assumption(f"{media}_storage_iops_per_tb") if own else 0.0,
        seldom=bool(terms and terms[0]["retrieval_usd_per_tb"]),
        lasting=not terms or terms[0]["lasting"],
        made=made,
    )


def _pool(place: str, row: dict[str, Any], made: Made) -> TierRow:
    """A pool: so much usable of each drive, writing loses what protection takes."""
    return TierRow(
        own=True,
        place=place,
        name=row["storage"],
        row=row,
        fill=FILLED,
        least_tb=row["least_drives"] * made.usable_tb,
        read_gb_s=None,
        write_gb_s=None,
        iops=None,
        unit_read=made.drive["read_gb_s"],
        unit_write=made.drive["write_gb_s"] * made.kept,
        unit_iops=min(made.drive["read_iops"], made.drive["write_iops"]) * row["iops_share"],
        seldom=False,
        lasting=True,
        unit_tb=made.usable_tb,
        made=made,
    )


def egress_per_tb(place: str, problem: Problem, catalog: Catalog) -> float | None:
    """Money per TB that leaves a place (`cloud PROVIDER`): the provider's dearest row; None where there is none."""
    kind, _, provider = place.partition(" ")
    rows = catalog.egress.filter(pl.col("provider") == provider)
    rate = exchange(catalog, "USD", problem.currency)
    if kind != "cloud" or rows.is_empty() or rate is None:
        return None
    return float(max(rows["price_usd_per_gb"].to_list())) * 1000 * rate


def check_tier_bill(result: Result, problem: Problem, catalog: Catalog) -> list[str]:
    """Price, draw and space of every line of storage; nothing is paid for that no data needs a tier for."""
    wrong = []
    for item in result.items:
        if item.kind != "storage" or item.billing not in ("purchase", "monthly", "once"):
            continue
        if is_box(item):
            wrong += _check_box(item, problem, catalog)
            continue
        tier = tier_row(item.gear or "", catalog)
        if tier is None:
            if not (item.gear or "").startswith("staging "):
                wrong.append(f"{item.item}: storage that the catalogue does not have")
            continue
        wrong += _check_price(item, tier, problem, catalog)
    for site in problem.sites:
        wrong += _check_running(result, problem, catalog, site)
    return wrong


def _check_price(item: Item, tier: TierRow, problem: Problem, catalog: Catalog) -> list[str]:
    rate = exchange(catalog, "USD", problem.currency)
    bought = item.billing == "purchase"
    usd = tier.row["price_usd_per_tb" if bought else "price_usd_per_tb_month"]
    if usd is not None and tier.row["class"] == "drives":
        usd *= tier.row["capacity_tb"]
    if usd is None or rate is None:
        return [f"{item.item}: no price in the catalogue"]
    exact = usd * rate * (1.0 if bought else problem.horizon)
    # Units of a tenth of a TB are rounded up to a cent each.
    if not -0.005 <= float(item.unit_cost) - exact <= 0.11 + 1e-9 * exact:
        return [f"{item.item}: unit cost {item.unit_cost}, the catalogue says {exact:.2f}"]
    if item.site != tier.place:
        return [f"{item.item}: stands at {item.site}, its tier is at {tier.place}"]
    return []


def _check_box(item: Item, problem: Problem, catalog: Catalog) -> list[str]:
    """A box costs what the catalogue says, or nothing where the price per TB has it in it."""
    usd, rate = box_usd(item, catalog), exchange(catalog, "USD", problem.currency)
    if usd is None or rate is None or item.billing != "purchase":
        return [f"{item.item}: no such box for {item.gear}"]
    if not -0.005 <= float(item.unit_cost) - usd * rate <= 0.011 + 1e-9 * usd * rate:
        return [f"{item.item}: unit cost {item.unit_cost}, the catalogue says {usd * rate:.2f}"]
    return []


def _check_running(result: Result, problem: Problem, catalog: Catalog, site: Site) -> list[str]:
    """Electricity and space of bought storage."""
    share = catalog.assumption("host_draw_share")
    lines = [i for i in result.items if i.site == site.name and i.gear is not None]
    mine = {i.gear for i in lines if i.kind == "storage"}
    watts = sum(storage_w(i, catalog) for i in lines)
    cents = sum(i.quantity for i in lines if i.kind == "storage")
    due = {
        "energy": watts * share * HOURS * problem.horizon / 1000 * per_it_kwh(site, problem, catalog),
        "space": watts / 1000 * space_price(site, problem, catalog) * problem.horizon,
    }
    wrong = []
    for kind, owed in due.items():
        paid = sum(float(i.total_cost) for i in lines if i.kind == kind and i.gear in mine)
        if not owed * (1 - 1e-6) - 0.01 <= paid <= owed * (1 + 1e-6) + 0.01 + 0.011 * cents:
            wrong.append(f"{kind} of storage at {site.name}: {paid:.2f} paid, {owed:.2f} due")
    return wrong
