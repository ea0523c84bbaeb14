"""Random small problems over small catalogues cut out of the real one, made from a seed: real inputs, tiny models."""

from __future__ import annotations

import json
import math
import random
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import polars as pl

from catalogs.catalog import Catalog
from catalogs.load import load_catalog
from problems.load import LoadedProblem, load_text
from solver.candidates import Candidates, build_candidates, reduced
from solver.instance import Instance
from solver.scaling import scale

HOURS = 730.0
SPAN_MONTHS = (6, 12, 24, 36)


@dataclass(frozen=True)
class Case:
    """One random problem with the catalogue it is posed against."""

    seed: int
    loaded: LoadedProblem
    catalog: Catalog

    def candidates(self) -> Candidates:
        return build_candidates(self.loaded.problem, self.catalog, Path())

    def instance(self, *, prune: bool = True) -> Instance | None:
        """Integers of the case; None where some workload has no candidate at all."""
        small = reduced(self.candidates(), prune=prune)
        return None if small.unserved else scale(small, self.catalog).instance


@lru_cache(maxsize=1)
def real_catalog() -> Catalog:
    """The embedded catalogue."""
    return load_catalog()


@lru_cache(maxsize=1)
def _rentable() -> pl.DataFrame:
    """Offers that can be drawn: priced by the hour, sure, of common cards, at most 8 of them."""
    catalog = real_catalog()
    common = catalog.offers.group_by("accelerator").len().filter(pl.col("len") >= 3)["accelerator"]
    by_hour = catalog.prices.filter(pl.col("billing").is_in(["on_demand", "spot", "reserved"]))
    return catalog.offers.filter(
        ~pl.col("doubtful")
        & (pl.col("accelerator_count") <= 8)
        & pl.col("accelerator").is_in(common.implode())
        & pl.col("offer_id").is_in(by_hour["offer_id"].implode())
    ).sort("offer_id")


def small_catalog(rng: random.Random, offers: int, servers: int) -> Catalog:
    """Cut a few offers and servers out of the real catalogue and shift their prices.

    Half of the offers share one accelerator, so that rows compete; servers are drawn among those that take a drawn card.
    """
    catalog = real_catalog()
    frame = _rentable()
    cards = sorted(frame["accelerator"].unique())
    favourite = rng.choice(cards)
    ids: list[str] = []
    for n in range(offers):
        some = frame if n % 2 else frame.filter(pl.col("accelerator") == favourite)
        ids.append(rng.choice(some["offer_id"].to_list()))
    drawn = catalog.offers.filter(pl.col("offer_id").is_in(ids))
    factors = {i: rng.uniform(0.6, 1.6) for i in sorted(set(ids))}
    prices = catalog.prices.filter(
        pl.col("offer_id").is_in(ids) & pl.col("billing").is_in(["on_demand", "spot", "reserved"])
    ).with_columns(
        price_per_hour=(pl.col("price_per_hour") * pl.col("offer_id").replace_strict(factors)).round(4),
    )
    prices = _with_reservations(rng, prices)
    fitting = [
        s["server"]
        for s in catalog.servers.iter_rows(named=True)
        if s["price_usd"] is not None and set(s["fits"].split(";")) & set(drawn["accelerator"])
    ]
    chosen = rng.sample(fitting, min(servers, len(fitting)))
    rows = catalog.servers.filter(pl.col("server").is_in(chosen)).with_columns(
        price_usd=(pl.col("price_usd") * rng.uniform(0.2, 1.2)).round(2)
    )
    return replace(catalog, offers=drawn, prices=prices, servers=rows)


def _with_reservations(rng: random.Random, prices: pl.DataFrame) -> pl.DataFrame:
    """Give some on-demand offers a reservation at a discount, some of it paid up front."""
    extra = []
    for row in prices.filter(pl.col("billing") == "on_demand").sort("offer_id").iter_rows(named=True):
        if rng.random() < 0.4:
            term = rng.choice([1.0, 12.0, 36.0])
            cheaper = round(row["price_per_hour"] * rng.uniform(0.35, 0.9), 4)
            share = rng.choice([0.0, 0.0, 0.5, 1.0])
            extra.append(
                {**row, "billing": "reserved", "term_months": term, "upfront_share": share, "price_per_hour": cheaper}
            )
    more = pl.DataFrame(extra, schema=prices.schema)
    key = ["offer_id", "billing", "term_months", "upfront_share", "currency"]
    return pl.concat([prices, more]).unique(key, keep="first", maintain_order=True)


def _rate(value: float) -> str:
    return f"{value:.6g} req/s"


def _measured(rng: random.Random, cards: list[str], rate: float, steps: float) -> list[dict[str, Any]]:
    """Rates of cards such that about 1 to `steps` replicas carry `rate`; sometimes of two sizes of replica."""
    out = []
    for card in rng.sample(cards, rng.randint(1, len(cards))):
        each = rate / rng.uniform(0.6, steps)
        if rng.random() < 0.3:
            each = rate / rng.randint(1, max(1, int(steps)))  # exactly so many
        sizes = rng.choice([(1,), (1,), (2,), (1, 2), (4,)])
        for size in sizes:
            grown = each * (size ** rng.uniform(0.7, 1.2) if size > sizes[0] else 1.0)
            out.append({"accelerator": card, "accelerators": size, "rate": _rate(grown)})
    return out


SHORT = (300, 1000)


def _service(
    rng: random.Random, name: str, cards: list[str], *, several: bool, redundant: bool, spot: bool
) -> dict[str, Any]:
    modelled = several or rng.random() < 0.12
    rate = round(rng.uniform(0.5, 40.0), 2)
    traffic: dict[str, Any] = {"rate": _rate(rate), "calendar": rng.choice(["flat", "office_hours", "day_night"])}
    if several:
        cut = rng.randint(20, 80)
        shares = [cut, 100 - cut] if rng.random() < 0.7 else [cut // 2, cut - cut // 2, 100 - cut]
        traffic["sizes"] = [
            {"isl": rng.choice([200, 500, 1500, 4000]), "osl": rng.choice([50, 150, 400]), "share": f"{share}%"}
            for share in shares
        ]
    else:
        traffic |= {"isl": rng.choice(SHORT), "osl": 200}
    work: dict[str, Any] = {"name": name, "kind": "serve", "traffic": traffic}
    if modelled:
        work["model"] = rng.choice(["mistral-7b", "llama-3-8b"])
        work["precision"] = ["bf16"]
        traffic["rate"] = _rate(round(rng.uniform(2.0, 60.0), 2))
    else:
        work["measured"] = _measured(rng, cards, rate, rng.choice([1.5, 2.5, 4.0]))
    if redundant and rng.random() < 0.35:
        work["redundancy"] = "n+1"
    if spot and rng.random() < 0.7:
        work["interruptible"] = True
    return work


def _job(rng: random.Random, name: str, cards: list[str], *, spot: bool) -> dict[str, Any]:
    kind = rng.choice(["fixed", "fixed", "fixed", "batch", "batch", "finetune"])
    if kind == "fixed":
        work: dict[str, Any] = {
            "name": name,
            "kind": "fixed",
            "accelerator": rng.choice([rng.choice(cards), {"memory": "16GB"}]),
            "count": rng.choice([1, 1, 2, 3]),
            "spot": spot and rng.random() < 0.5,
        }
        if rng.random() < 0.7:
            work["hours"] = f"{rng.choice([20, 60, 300])}h/mo"
        return work
    runs = rng.choice(["2/mo", "4/mo", 3])
    if kind == "batch":
        rate = rng.uniform(1.0, 20.0)
        return {
            "name": name,
            "kind": "batch",
            "measured": _measured(rng, cards, rate, 2.0),
            "requests": int(rate * 3600 * rng.choice([2, 20])),
            "isl": 500,
            "osl": 100,
            "runs": runs,
            "deadline": f"{rng.choice([4, 24, 96])}h",
            "interruptible": spot,
        }
    return {
        "name": name,
        "kind": "finetune",
        "method": rng.choice(["lora", "qlora"]),
        "model": "mistral-7b",
        "tokens": rng.choice(["5M", "20M"]),
        "runs": runs,
        "deadline": f"{rng.choice([12, 48, 96])}h",
        "interruptible": spot,
    }


def _sites(rng: random.Random) -> list[dict[str, Any]]:
    sites = []
    for name in rng.sample(["room", "cellar"], rng.choice([1, 1, 2])):
        site: dict[str, Any] = {"name": name, "country": "US", "electricity": f"${rng.uniform(0.05, 0.4):.2f}/kWh"}
        if rng.random() < 0.6:
            site["pue"] = round(rng.uniform(1.05, 1.8), 2)
        if rng.random() < 0.4:
            site["power"] = f"{rng.uniform(0.8, 16):.1f}kW"
        if rng.random() < 0.3:
            site["it_power"] = f"{rng.uniform(0.8, 12):.1f}kW"
        if rng.random() < 0.3:
            site["space"] = f"${rng.randint(50, 250)}/kW/mo"
        sites.append(site)
    return sites


def random_case(
    seed: int,
    *,
    several: bool = False,
    redundant: bool = True,
    objective: bool = True,
    small: bool = False,
    growing: bool = False,
) -> Case:
    """Make a problem and a catalogue from a seed.

    Parameters
    ----------
    several : bool
        Services with two or three request sizes, on models; else mostly one size, measured.
    redundant, objective : bool
        Whether n+1 and other objectives than cost may occur.
    small : bool
        Two or three offers and no own machines.
    growing : bool
        Load that changes over a short horizon, and lead times.
    """
    rng = random.Random(seed)
    with_sites = rng.random() < 0.45 and not small
    catalog = small_catalog(rng, rng.randint(2, 3 if small else 6), rng.randint(1, 2) if with_sites else 0)
    cards = sorted(catalog.offers["accelerator"].unique())
    with_spot = rng.random() < 0.5
    services, jobs = (1, rng.choice([0, 0, 1])) if several else rng.choice([(1, 0), (1, 1), (2, 0), (0, 1), (1, 2)])
    works = [
        _service(rng, f"serve{n}", cards, several=several, redundant=redundant, spot=with_spot) for n in range(services)
    ]
    works += [_job(rng, f"job{n}", cards, spot=with_spot) for n in range(jobs)]
    horizon = rng.choice(SPAN_MONTHS)
    problem: dict[str, Any] = {"horizon": f"{horizon}mo", "workloads": works, "limits": {"accelerators": cards}}
    if with_sites:
        problem["sites"] = _sites(rng)
        if rng.random() < 0.3:
            card = rng.choice(cards)
            problem["owned"] = [
                {"accelerator": card, "count": rng.choice([2, 4, 8]), "site": problem["sites"][0]["name"]}
            ]
        if rng.random() < 0.2:
            problem["limits"]["power"] = f"{rng.uniform(1, 20):.1f}kW"
    billing = ["on_demand", "reserved", "purchase", "owned"]
    if rng.random() < 0.25:
        billing = rng.choice([["reserved", "purchase"], ["on_demand"], ["reserved"], ["purchase", "owned"]])
    if with_spot:
        billing = [*billing, "spot"]
    policy: dict[str, Any] = {"billing": billing}
    if with_spot and rng.random() < 0.6:
        policy["spot_share"] = f"{rng.choice([0, 25, 50, 80])}%"
    if rng.random() < 0.25:
        policy["discount_rate"] = f"{rng.choice([4, 8, 15])}%"
    if rng.random() < 0.25:
        policy["residual_value"] = f"{rng.choice([10, 30])}%"
    if rng.random() < 0.3:
        policy["pro_rate_commitments"] = True
    policy["rules"] = {"serving_nvme_tb": "off"} if rng.random() < 0.5 else {}
    problem["policy"] = policy
    if rng.random() < 0.4:
        offers = catalog.offers.sort("offer_id")["offer"].to_list()
        problem["limits"]["quota"] = [{"offer": rng.choice(offers), "max": rng.choice([0, 1, 2, 3])}]
    if rng.random() < 0.35:
        problem["limits"]["budget"] = _budget(rng, catalog, horizon)
    if objective and rng.random() < 0.25:
        problem["objective"] = rng.choice(["power", "carbon", "time"])
    if growing:
        _grow(random.Random(f"growth {seed}"), problem)
    return Case(seed, load_text(json.dumps(problem), f"<seed {seed}>"), catalog)


def _grow(rng: random.Random, problem: dict[str, Any]) -> None:
    """Let services grow, shrink or change in steps, on one calendar or another, and let machines take time to arrive."""
    horizon = rng.choice([4, 6, 6, 9])
    problem["horizon"] = f"{horizon}mo"
    for work in problem["workloads"]:
        if work["kind"] != "serve":
            continue
        if rng.random() < 0.75:
            work["traffic"]["growth"] = rng.choice(["4%/mo", "12%/mo", "30%/mo", "-8%/mo"])
        else:
            later = f"{rng.choice([1, 3])}mo"
            scales = rng.choice([("50%", "100%"), ("100%", "0%"), ("100%", "250%")])
            work["traffic"]["stages"] = [{"from": "0mo", "scale": scales[0]}, {"from": later, "scale": scales[1]}]
        if rng.random() < 0.3:
            work["traffic"]["calendar"] = {"hours": {"mon-fri": {"8-18": "100%", "18-22": "40%"}, "sat": "10%"}}
    if rng.random() < 0.3:
        problem["policy"]["lead_time"] = {rng.choice(["purchase", "reserved"]): f"{rng.choice([1, 3])}mo"}


def _budget(rng: random.Random, catalog: Catalog, horizon: int) -> dict[str, str]:
    """Caps around what one or two nodes cost."""
    per_hour = rng.choice(catalog.prices.sort("offer_id", "billing")["price_per_hour"].to_list())
    month = per_hour * HOURS * rng.uniform(0.3, 4.0)
    caps = {
        "total": f"${math.ceil(month * horizon)}",
        "monthly": f"${math.ceil(month)}/mo",
        "capex": f"${rng.randint(0, 60)}k",
    }
    kept = rng.sample(sorted(caps), rng.choice([1, 1, 2]))
    return {k: caps[k] for k in kept}


def tightened(inst: Instance, rng: random.Random, cash: int, monthly: int, capex: int) -> Instance:
    """Put a cap at, or one cent below, what a known plan pays: just feasible, or feasible by another plan, or not at all."""
    less = rng.choice([0, 1, 1, max(1, cash // 10)])
    which = rng.choice(["limit_total", "limit_monthly", "limit_capex"] if capex else ["limit_total", "limit_monthly"])
    value = {"limit_total": cash, "limit_monthly": monthly, "limit_capex": capex}[which]
    return replace(inst, **{which: max(0, value - less)})
