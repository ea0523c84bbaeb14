"""Where data can lie: storage systems and drive pools bought for own sites, storage services of providers.

A place is an own site or a provider. Systems are sold by the usable TB, pools are bought by the drive; both stand in boxes
(`storage_boxes`). Services whose price leaves out what they run on are no tiers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import polars as pl

from catalogs.catalog import Catalog
from problems.schema import Problem, Site
from solver.candidates.frames import fx_rates
from solver.candidates.storage_boxes import (
    SPEED,
    Box,
    DrivePool,
    System,
    box_of_drives,
    box_of_tb,
    drive_pools,
    system_of,
)
from solver.candidates.terms import compliance_key, trusted
from solver.features.storage import MAX_FILL

GB = 1000
"""Sizes are counted in GB [1/TB]."""
RENTED_MODES = frozenset({"on_demand", "subscription"})
"""Billing modes of a policy under which storage may be rented by the month."""


def site_place(site: str) -> str:
    """Key of an own site as a place."""
    return f"site {site}"


def cloud_place(provider: str) -> str:
    """Key of a provider as a place."""
    return f"cloud {provider}"


def place() -> pl.Expr:
    """Place of a pool: its own site or its provider."""
    return (
        pl.when(pl.col("site").is_not_null())
        .then(pl.lit("site ") + pl.col("site"))
        .otherwise(pl.lit("cloud ") + pl.col("provider"))
    )


@dataclass(frozen=True)
class Tier:
    """One storage system or service at one place, held in whole units of `unit_tb`.

    Parameters
    ----------
    unit_tb, min_tb : float
        Size of one unit, and the least that can be had [TB].
    fill : float
        Share of it that may be filled [fraction].
    unit_read_gb_s, unit_write_gb_s, unit_ops : float, optional
        Reading, writing and operations of one unit, where they grow with size [GB/s, GB/s, 1/s].
    read_gb_s, write_gb_s, iops : float, optional
        Of all of it, whatever its size; None: not known.
    price, monthly : float
        Of one unit, bought, or rented for a month [money of the problem].
    watts : float
        Nameplate of one unit [W].
    seldom : bool
        Reading back is charged by the TB: for archives and backups only.
    lasting : bool
        Whether it may hold the only copy.
    counted, per_unit : str, float
        What the bill counts, and how much of it one unit is ("TB", 0.1).
    parts : tuple of str
        What one unit is made of.
    box : Box, optional
        What units stand in; None for services.
    """

    key: str
    name: str
    place: str
    site: str | None
    place_name: str
    unit_tb: float
    min_tb: float
    fill: float
    unit_read_gb_s: float | None
    unit_write_gb_s: float | None
    unit_ops: float | None
    read_gb_s: float | None
    write_gb_s: float | None
    iops: float | None
    price: float
    monthly: float
    watts: float
    seldom: bool
    lasting: bool
    as_of: str | None
    confidence: str
    source: str
    counted: str = "TB"
    per_unit: float = 1.0
    parts: tuple[str, ...] = ()
    box: Box | None = None

    @property
    def network(self) -> tuple[str, str] | None:
        """Own site and network on which its boxes hang; None for services and boxes without ports."""
        if self.site is None or self.box is None or self.box.network is None or not self.box.ports:
            return None
        return self.site, self.box.network

    @property
    def unit_gb(self) -> int:
        """GB of data in one unit."""
        return math.floor(self.unit_tb * self.fill * GB + 1e-6)

    @property
    def unit_read(self) -> int:
        """Reading of one unit [0.1 MB/s]; 0 where it does not grow with size."""
        return _whole(self.unit_read_gb_s, SPEED)

    @property
    def unit_write(self) -> int:
        """Writing of one unit [0.1 MB/s]; 0 where it does not grow with size."""
        return _whole(self.unit_write_gb_s, SPEED)

    @property
    def unit_iops(self) -> int:
        """Operations of one unit [1/s]; 0 where they do not grow with size."""
        return _whole(self.unit_ops, 1)

    @property
    def least_units(self) -> int:
        """Fewest units that are sold."""
        return max(1, math.ceil(self.min_tb / self.unit_tb - 1e-9))

    def serves(self, *, read: bool, write: bool, iops: bool) -> bool:
        """Whether it states the speeds that are asked for: unknown is not infinite."""
        box = self.box
        return (
            (not read or ((self.unit_read > 0 or self.read_gb_s is not None) and (box is None or box.read > 0)))
            and (not write or ((self.unit_write > 0 or self.write_gb_s is not None) and (box is None or box.write > 0)))
            and (not iops or self.unit_iops > 0 or self.iops is not None)
        )


def _whole(value: float | None, unit: int) -> int:
    return 0 if value is None else math.floor(value * unit + 1e-6)


def storage_tiers(problem: Problem, catalog: Catalog) -> list[Tier]:
    """Every tier that the problem's limits and policy allow, by place and name.

    Services count as rented by the month, systems as bought. A provider is open where the catalogue has one of its offers in
    a country and region, and with the compliance tags, that the limits allow.
    """
    rates = fx_rates(catalog, problem.currency).filter(pl.col("price_currency") == "USD")
    if rates.is_empty():
        return []
    usd = float(rates["rate_to_problem"][0])
    rows = catalog.storage.filter(trusted("confidence", problem.policy.min_confidence)).sort("storage")
    rows = rows.join(
        catalog.storage_terms.select(
            "storage",
            "retrieval_usd_per_tb",
            own_terms=pl.lit(True),
            told_read="read_gb_s",
            told_write="write_gb_s",
            told_iops="included_iops",
            lasting="lasting",
        ),
        on="storage",
        how="left",
        maintain_order="left",
    )
    modes, limits = problem.billing_modes, problem.limits
    deployment = limits.deployment
    tiers: list[Tier] = []
    if "purchase" in modes and (deployment is None or "on_premises" in deployment):
        systems = rows.filter(
            (pl.col("location") == "on-prem")
            & pl.col("class").is_in(["parallel_fs", "object", "block"])
            & pl.col("price_usd_per_tb").is_not_null()
        ).to_dicts()
        made = {r["storage"]: system_of(r, catalog) for r in systems}
        least = problem.policy.min_confidence
        systems = [r for r in systems if (m := made[r["storage"]]) is None or m.can_be_paid(least)]
        pools = drive_pools(catalog, problem.policy.min_confidence)
        for site in problem.sites:
            if open_site(site, limits.countries, limits.compliance):
                tiers += [_system(r, made[r["storage"]], site, catalog, usd) for r in systems]
                tiers += [_pool(p, site, usd) for p in pools]
    if modes & RENTED_MODES and (deployment is None or set(deployment) - {"on_premises"}):
        services = rows.filter(
            (pl.col("location") == "cloud")
            & pl.col("class").is_in(["parallel_fs", "object", "block"])
            & pl.col("provider").is_not_null()
            & pl.col("price_usd_per_tb_month").is_not_null()
        ).to_dicts()
        providers = open_providers(problem, catalog, limits.countries, limits.compliance)
        tiers += [_service(r, catalog, usd) for r in services if r["provider"] in providers]
    return tiers


def open_site(site: Site, countries: tuple[str, ...] | None, tags: tuple[str, ...]) -> bool:
    """Whether an own site is in one of the countries and has every compliance tag."""
    have = {compliance_key(t) for t in site.compliance}
    return (countries is None or site.country in countries) and all(compliance_key(t) in have for t in tags)


def open_providers(
    problem: Problem, catalog: Catalog, countries: tuple[str, ...] | None, tags: tuple[str, ...]
) -> set[str]:
    """Providers that the limits allow and that have an offer in one of the countries, with the compliance tags."""
    picked, regions = problem.limits.providers, problem.limits.regions
    allow = None if picked is None or picked.allow is None else {p.lower() for p in picked.allow}
    deny = set() if picked is None else {p.lower() for p in picked.deny}
    found = set()
    offers = catalog.offers.select("provider", "country", "region", "compliance").unique()
    for r in offers.iter_rows(named=True):
        name = r["provider"].lower()
        have = {compliance_key(t) for t in (r["compliance"] or "").split(";")}
        if (
            (allow is None or name in allow)
            and name not in deny
            and (countries is None or r["country"] in countries)
            and (regions is None or regions.allow is None or r["region"] in regions.allow)
            and (regions is None or r["region"] not in regions.deny)
            and all(compliance_key(t) in have for t in tags)
        ):
            found.add(r["provider"])
    return found


def _system(r: dict[str, Any], made: System | None, site: Site, catalog: Catalog, usd: float) -> Tier:
    """A system bought for an own site, by the usable TB."""
    kind = "flash" if r["class"] == "parallel_fs" else "hdd"
    own_iops = _least(r["read_iops"], r["write_iops"])
    if r["power_w"] is not None:
        per_tb = r["power_w"]  # of all of it: boxes draw no more
    else:
        per_tb = catalog.assumption(f"{kind}_storage_w_per_tb") if made is None else made.tb_w
    grows = r["gb_s_per_tb"]
    return Tier(
        key=f"{site_place(site.name)}/{r['storage']}",
        name=r["storage"],
        place=site_place(site.name),
        site=site.name,
        place_name=site.name,
        unit_tb=1.0,
        min_tb=r["min_size_tb"] or 0.0,
        fill=MAX_FILL,
        unit_read_gb_s=grows,
        unit_write_gb_s=grows,
        unit_ops=catalog.assumption(f"{kind}_storage_iops_per_tb") if own_iops is None else None,
        read_gb_s=r["read_gb_s"],
        write_gb_s=r["write_gb_s"],
        iops=own_iops,
        price=r["price_usd_per_tb"] * usd,
        monthly=0.0,
        watts=per_tb,
        seldom=False,
        lasting=True,
        as_of=r["as_of"],
        confidence=r["confidence"],
        source=r["source"],
        box=None if made is None else box_of_tb(made, usd, r["power_w"]),
    )


def _pool(p: DrivePool, site: Site, usd: float) -> Tier:
    """Drives in boxes, bought by the drive."""
    return Tier(
        key=f"{site_place(site.name)}/{p.name}",
        name=p.name,
        place=site_place(site.name),
        site=site.name,
        place_name=site.name,
        unit_tb=p.drive_tb * p.data_share,
        min_tb=p.least_drives * p.drive_tb * p.data_share,
        fill=MAX_FILL,
        unit_read_gb_s=p.read_gb_s,
        unit_write_gb_s=p.write_gb_s * p.data_share,
        unit_ops=p.iops,
        read_gb_s=None,
        write_gb_s=None,
        iops=None,
        price=p.drive_usd * usd,
        monthly=0.0,
        watts=p.drive_w,
        seldom=False,
        lasting=True,
        as_of=p.as_of,
        confidence=p.confidence,
        source=p.source,
        counted="drives",
        parts=(f"1 x {p.drive}",),
        box=box_of_drives(p, usd),
    )


def _service(r: dict[str, Any], catalog: Catalog, usd: float) -> Tier:
    """A service of a provider, by the TB and month; object stores are paid for what lies in them."""
    store = r["class"] == "object"
    told = bool(r["own_terms"])
    usual = catalog.assumption("cloud_object_gb_s") if store else None
    unit = 0.1
    return Tier(
        key=f"{cloud_place(r['provider'])}/{r['storage']}",
        name=r["storage"],
        place=cloud_place(r["provider"]),
        site=None,
        place_name=r["provider"],
        unit_tb=unit,
        min_tb=r["min_size_tb"] or 0.0,
        fill=1.0 if store else MAX_FILL,
        unit_read_gb_s=None if r["gb_s_per_tb"] is None else r["gb_s_per_tb"] * unit,
        unit_write_gb_s=None if r["gb_s_per_tb"] is None else r["gb_s_per_tb"] * unit,
        unit_ops=None,
        read_gb_s=r["told_read"] if told else (r["read_gb_s"] or usual),
        write_gb_s=r["told_write"] if told else (r["write_gb_s"] or usual),
        iops=r["told_iops"] if told else _least(r["read_iops"], r["write_iops"]),
        price=0.0,
        monthly=r["price_usd_per_tb_month"] * unit * usd,
        watts=0.0,
        seldom=bool(r["retrieval_usd_per_tb"]),
        lasting=r["lasting"] is not False,
        as_of=r["as_of"],
        confidence=r["confidence"],
        source=r["source"],
        per_unit=unit,
    )


def _least(*values: float | None) -> float | None:
    known = [v for v in values if v is not None]
    return min(known) if len(known) == len(values) else None


def egress_prices(problem: Problem, catalog: Catalog) -> dict[str, float]:
    """Money per TB that leaves a place, the dearest row of a provider; places without a row are not in it."""
    rates = fx_rates(catalog, problem.currency).filter(pl.col("price_currency") == "USD")
    if rates.is_empty():
        return {}
    usd = float(rates["rate_to_problem"][0])
    dearest = catalog.egress.group_by("provider").agg(pl.col("price_usd_per_gb").max()).sort("provider")
    return {cloud_place(p): float(each) * 1000 * usd for p, each in dearest.iter_rows()}
