"""The cheapest machines for one request, in one line: a problem of one `fixed` workload through candidates and solver.

What is asked for, as price lists count it: the accelerator by the name that the list gives it (case ignored; offers
that come from no list match by the catalogue's reading of the name) and exactly so many per node; no accelerator asked
for means machines without any; CPUs and memory at least; the on-demand price, or with `spot` the spot price; a price of
all nodes; `max_hourly` is a cap per node. Prices in doubt (far under the median of their type) are left out unless asked for.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import polars as pl

from catalogs.catalog import Catalog
from catalogs.errors import UnknownName
from catalogs.labels import NONE, is_label, read_asked
from catalogs.names import match_accelerators, suggest_accelerators
from problems.load import LoadedProblem, load_text
from solver.candidates import Candidates, build_candidates
from solver.events import SolveOptions
from solver.plan import Status
from solver.solve import base_dir, solve

MOST_TIES = 12
SAME_PRICE = 1e-9


@dataclass(frozen=True)
class Request:
    """What is asked for. `gpu` as NAME or NAME:COUNT; `cpus` and `memory_gib` at least, per node; `max_hourly` per node."""

    gpu: str | None = None
    cpus: float | None = None
    memory_gib: float | None = None
    spot: bool = False
    provider: str | None = None
    region: str | None = None
    nodes: int = 1
    max_hourly: float | None = None
    doubtful: bool = False
    min_confidence: str = "recalled"
    currency: str = "USD"


@dataclass(frozen=True)
class Found:
    """The answer: `price_per_hour` of all nodes (None: nothing fits), the machines that have it, why nothing fits."""

    status: str
    price_per_hour: float | None
    currency: str
    offers: tuple[dict[str, Any], ...] = ()
    ties: int = 0
    hints: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """The answer as plain data, for JSON."""
        return {
            "status": self.status,
            "price_per_hour": self.price_per_hour,
            "currency": self.currency,
            "ties": self.ties,
            "offers": list(self.offers),
        }


def cheapest(catalog: Catalog, asked: Request) -> Found:
    """Find the cheapest offer for a request and prove it.

    Raises
    ------
    problems.load.ProblemError
        For a request that makes no sense as a problem.
    """
    unknown = _unknown(catalog, asked)
    if unknown:
        return Found("infeasible", None, asked.currency, hints=unknown)
    loaded = _problem(catalog, asked)
    found = build_candidates(loaded.problem, catalog, base_dir(loaded))
    options = SolveOptions(gap=0.0, workers=1, runner_up=False)
    result = solve(loaded, catalog, options, candidates=found)
    if result.status is Status.INFEASIBLE:
        return Found("infeasible", None, asked.currency, hints=result.no_plan_because)
    item = next((i for i in result.items if i.kind == "rental"), None)
    if result.status is not Status.OPTIMAL or item is None:
        return Found(str(result.status), None, asked.currency)
    tied = _at_price_of(found, item.pool or "")
    each = float(tied["each"][0])
    if asked.max_hourly is not None and each > asked.max_hourly:
        said = f"the cheapest is {each:g} {asked.currency}/h a node, above the {asked.max_hourly:g} allowed"
        return Found("infeasible", None, asked.currency, hints=(said,))
    offers = tied.head(MOST_TIES).select("provider", "offer", "region", "zone").to_dicts()
    return Found("optimal", round(each * asked.nodes, 9), asked.currency, tuple(offers), tied.height)


def _problem(catalog: Catalog, asked: Request) -> LoadedProblem:
    """The request as a problem file of one workload."""
    work: dict[str, Any] = {
        "name": "request",
        "kind": "fixed",
        "accelerator": _exactly(asked.gpu),
        "nodes": asked.nodes,
    }
    if asked.cpus is not None:
        work["cpus"] = f"{math.ceil(asked.cpus)}+"
    if asked.memory_gib is not None:
        work["ram"] = f"{math.floor(asked.memory_gib * 2**30)}B+"
    if asked.provider is not None:
        work["providers"] = [asked.provider]
    if asked.region is not None:
        work["regions"] = _spelt(catalog, "region", asked.region)
    work["spot"] = asked.spot
    policy = {
        "billing": ["spot" if asked.spot else "on_demand"],
        "include_doubtful": asked.doubtful,
        "min_confidence": asked.min_confidence,
    }
    # One month of whole hours; what a node costs an hour does not hang on it.
    problem = {"horizon": "1mo", "currency": asked.currency, "workloads": [work], "policy": policy}
    return load_text(json.dumps(problem), "request")


def _exactly(gpu: str | None) -> str:
    """NAME:COUNT, one where no count is given; none for machines without accelerators."""
    if gpu is None:
        return NONE
    read = read_asked(gpu)
    return gpu if read.count is not None or read.nothing else f"{read.name}:1"


def _spelt(catalog: Catalog, column: str, name: str) -> list[str]:
    """Values of a column of the offers that are `name`, case ignored."""
    values = catalog.offers[column].unique()
    return values.filter(values.str.to_lowercase() == name.lower()).sort().to_list()


def _unknown(catalog: Catalog, asked: Request) -> tuple[str, ...]:
    """Names that no offer goes by: nothing fits, and why."""
    said: list[str] = []
    read = read_asked(asked.gpu or NONE)
    if not read.nothing and not is_label(catalog, read.name):
        cards = match_accelerators(catalog, read.name)
        offers = catalog.offers.filter(pl.col("accelerator").is_in(list(cards)))
        if not cards:
            near = suggest_accelerators(catalog, read.name)
            said.append(str(UnknownName(read.name, "accelerator", near)))
        elif not offers["label"].is_null().any():
            labels = offers["label"].drop_nulls().unique().sort().to_list()
            told = f"; the card is listed as {', '.join(labels)}" if labels else ""
            said.append(f"no offer is listed as {read.name}{told}")
    for column, name in (("provider", asked.provider), ("region", asked.region)):
        if name is not None and not _spelt(catalog, column, name):
            known = catalog.offers[column].unique().sort().to_list()
            said.append(str(UnknownName(name, column, get_close_matches(name.lower(), known, n=3, cutoff=0.6))))
    return tuple(said)


def _at_price_of(found: Candidates, pool: str) -> pl.DataFrame:
    """Machines that cost what the one in `pool` costs, that one first; `each` is the price of a node [money/h]."""
    each = pl.col("price") * pl.col("rate_to_problem")
    prices = found.prices.select("pool", each=each).unique("pool", keep="first", maintain_order=True)
    rows = (
        found.options.filter(~pl.col("pooled"))
        .select("pool")
        .unique(maintain_order=True)
        .join(prices, on="pool", how="inner")
        .join(found.pools.select("pool", "provider", "offer", "region", "zone"), on="pool", how="inner")
    )
    chosen = float(rows.filter(pl.col("pool") == pool)["each"][0])
    near = rows.filter((pl.col("each") - chosen).abs() <= SAME_PRICE * chosen)
    return near.sort(pl.col("pool") != pool, "pool")
