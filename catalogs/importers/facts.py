"""The folder of fact tables -> the embedded default catalogue; repeatable.

`import_facts(facts, data)` rewrites every table that is made from facts. Tables of our own (aliases,
calendars, rules, assumptions, carbon, regions, models, engines) live in `catalogs/data` and are left alone;
regions are read from there.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from catalogs.importers import facts_hardware as hardware
from catalogs.importers import facts_offers as market
from catalogs.importers import facts_terms as terms
from catalogs.importers.facts_common import write_table
from catalogs.read import column_order
from catalogs.schema import TABLES

OWN = Path(__file__).parent / "own"


@dataclass(frozen=True)
class ImportReport:
    """Rows written per table."""

    rows: dict[str, int]


def fact_tables(facts: Path, regions: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Build every catalogue table that comes from the fact tables in folder `facts`.

    Raises
    ------
    OSError
        A fact table is missing.
    """
    accelerators = hardware.accelerators(facts)
    shaped = market.shaped_offers(facts, accelerators, regions)
    billing = terms.billing_rows(facts)
    interruption = terms.spot_interruption(billing)
    return {
        "accelerators": accelerators,
        "servers": hardware.servers(facts, OWN / "server_contents.csv"),
        "cpus": hardware.cpus(facts),
        "ram": hardware.ram(facts),
        "storage": hardware.storage(facts, OWN / "storage.csv"),
        "network": hardware.network(facts),
        "offers": market.offers(shaped),
        "prices": market.prices(shaped, interruption),
        "discounts": terms.discounts(billing),
        "spot_interruption": interruption,
        "terms": terms.terms(billing),
        "egress": terms.egress(billing, OWN / "egress.csv"),
        "electricity": terms.electricity(billing),
        "pue": terms.pue(billing),
        "colocation": terms.colocation(billing),
        "maintenance": terms.maintenance(billing),
        "trends": terms.trends(billing),
        "fx": terms.fx(billing, OWN / "fx.csv"),
        "refused": pl.concat([market.refused_prices(shaped), terms.refused(billing)]),
    }


def import_facts(facts: Path, out: Path) -> ImportReport:
    """Write the tables made from folder `facts` into folder `out`, which holds regions.csv."""
    regions = pl.read_csv(out / "regions.csv", infer_schema=False)
    tables = fact_tables(facts, regions)
    for name, frame in tables.items():
        write_table(frame, out, name, column_order(TABLES[name]))
    return ImportReport({name: frame.height for name, frame in tables.items()})
