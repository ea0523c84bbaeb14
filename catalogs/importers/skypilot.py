"""Price lists in SkyPilot's `vms.csv` format -> offers and prices.

Columns are taken by name, in any order; unknown ones are left aside. Rows without an instance type price
accelerators apart from their host (GCP): each is put on the machines that take it, in the same zone. TPU slices
are machines of their own. Hosts that are only sold with their accelerators are no machines on their own.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from catalogs.catalog import Catalog
from catalogs.errors import CatalogError, Issue
from catalogs.importers.cards import OWN
from catalogs.importers.market import build_market
from catalogs.importers.report import Imported, ImportReport
from catalogs.importers.rows import FILE, LINE, NUMBER, csv_rows, need_columns, numbers

NEEDED = ("InstanceType", "vCPUs", "MemoryGiB", "AcceleratorName", "AcceleratorCount", "Price", "Region")
OPTIONAL = ("SpotPrice", "AvailabilityZone", "GpuInfo")
NUMBERS = ("AcceleratorCount", "vCPUs", "MemoryGiB", "Price", "SpotPrice")
SOURCE = "SkyPilot-format price list {file}"
LIST_NAME = "vms.csv"
RESERVED_NAME = "reserved.csv"
# Hosts whose bare row is the price of the machine without the accelerators it always comes with.
HOSTS_WITH_CARDS = r"^(a2|a3|a4|a4x|g2|g4)-"
TPU_HOSTS = r"^n1-.*-tpu$"
RESERVED_COLUMN = r"^Reserved(\d)y(?:Standard|Convertible)?(No|Partial|All)Upfront$"
UPFRONT = {"No": 0.0, "Partial": 0.5, "All": 1.0}


def import_skypilot(path: Path, catalog: Catalog, *, as_of: str | None = None, encoding: str | None = None) -> Imported:
    """Import a folder with one folder per cloud, one cloud's folder, or one file.

    Raises
    ------
    CatalogError
        Nothing of the format there, missing columns, cells that are no number.
    """
    report = ImportReport("skypilot")
    machines, reserved = [], []
    for file, provider in price_lists(path):
        rows = read_list(file, report, encoding)
        machines.append(_machines(rows, provider, report))
        beside = file.parent / RESERVED_NAME
        if file.name == LIST_NAME and beside.is_file():
            reserved += _reserved(beside, provider, report, encoding)
    return build_market(
        pl.concat(machines),
        catalog,
        report,
        source=SOURCE,
        as_of=as_of,
        reserved=pl.concat(reserved) if reserved else None,
        own_names=True,
    )


def price_lists(path: Path) -> list[tuple[Path, str]]:
    """Files of a price list with the provider of each: the name of the folder that `vms.csv` lies in, else of the file.

    Raises
    ------
    CatalogError
        No such file in the folder.
    """
    if path.is_file():
        return [(path, path.resolve().parent.name if path.name == LIST_NAME else path.stem)]
    found = sorted(path.glob(f"*/{LIST_NAME}")) or [p for p in [path / LIST_NAME] if p.is_file()]
    if not found:
        raise CatalogError([Issue(str(path), None, None, f"holds no {LIST_NAME}", f"CLOUD/{LIST_NAME}")])
    return [(file, file.resolve().parent.name) for file in found]


def read_list(file: Path, report: ImportReport, encoding: str | None) -> pl.DataFrame:
    """Rows of one list with numbers as numbers, exact duplicates once."""
    rows = csv_rows(file, report, encoding)
    need_columns(rows, NEEDED, str(file), "SkyPilot's vms.csv")
    rows = rows.with_columns(pl.lit(None, pl.String).alias(name) for name in OPTIONAL if name not in rows.columns)
    # An unquoted comma in a number moves the cells behind it to the right.
    moved = pl.col("Region").str.contains(NUMBER).fill_null(False)
    for line, region in rows.filter(moved).select(LINE, "Region").iter_rows():
        report.refuse(f"cells are moved: the region reads {region}", f"{file}:{line}")
    rows = numbers(rows.filter(~moved).select(*NEEDED, *OPTIONAL, FILE, LINE), NUMBERS)
    return (
        rows.rechunk()
        .with_columns(FILE_NAME.alias(FILE), pl.format("{}:{}", FILE, LINE).alias("where"), memory_gib=_card_memory())
        .drop("GpuInfo")
    )


# Provenance names the list, not the machine it was read on.
FILE_NAME = pl.col(FILE).str.split("/").list.tail(2).list.join("/")


def _card_memory() -> pl.Expr:
    """Memory that GpuInfo states [GiB], of one card or of all: sizes under a thousand "MiB" are GiB."""
    size = pl.col("GpuInfo").str.extract(r"SizeInMiB\D{1,4}(\d+(?:\.\d+)?)").cast(pl.Float64)
    # The cards' marketing gigabytes are compared, so MiB / 1000 stands near enough.
    return pl.when(size < 1000).then(size).otherwise(size / 1024)


def _machines(rows: pl.DataFrame, provider: str, report: ImportReport) -> pl.DataFrame:
    """Machines of one cloud, cards priced apart put on their hosts."""
    once = rows.unique([c for c in rows.columns if c not in (FILE, LINE, "where")], keep="first", maintain_order=True)
    report.drop("duplicate", rows.height - once.height)
    apart = pl.col("InstanceType").is_null() & pl.col("AcceleratorName").is_not_null()
    nameless = once.filter(pl.col("InstanceType").is_null() & pl.col("AcceleratorName").is_null())
    report.drop("neither instance type nor accelerator", nameless.height)
    hosts = once.filter(pl.col("InstanceType").is_not_null())
    cards = once.filter(apart)
    parts = [hosts.with_columns(attached=pl.lit(False))]
    if cards.height:
        bare = pl.col("AcceleratorName").is_null()
        bound = bare & pl.col("InstanceType").str.contains(HOSTS_WITH_CARDS)
        slices = cards.filter(pl.col("AcceleratorName").str.to_lowercase().str.starts_with("tpu"))
        loose = cards.join(slices.select("where"), on="where", how="anti", maintain_order="left")
        joined = _on_hosts(hosts.filter(bare), loose)
        unused = hosts.filter(bound).join(
            joined.select("host_where"), left_on="where", right_on="host_where", how="anti"
        )
        lost = loose.join(joined.select("card_where"), left_on="where", right_on="card_where", how="anti")
        report.drop("host that is only sold with accelerators, none priced in its zone", unused.height)
        report.drop("accelerator priced apart, no machine in its zone takes it", lost.height)
        report.remark("machine put together from a host and accelerators priced apart", joined.height)
        # A whole without any price is no row of the source, and no machine.
        joined = joined.filter((pl.col("Price") > 0) | (pl.col("SpotPrice") > 0))
        parts = [
            hosts.filter(~bound).with_columns(attached=pl.lit(False)),
            slices.with_columns(InstanceType="AcceleratorName", attached=pl.lit(False)),
            joined.select(parts[0].columns),
        ]
    found = pl.concat(parts).select(
        provider=pl.lit(provider),
        offer="InstanceType",
        region="Region",
        zone="AvailabilityZone",
        label="AcceleratorName",
        label_count="AcceleratorCount",
        memory_gib="memory_gib",
        vcpus=pl.when(pl.col("vCPUs") > 0).then("vCPUs"),
        ram_gib=pl.when(pl.col("MemoryGiB") > 0).then("MemoryGiB"),
        price="Price",
        spot="SpotPrice",
        attached="attached",
        file=FILE,
        line=LINE,
    )
    report.drop("no region", found.filter(pl.col("region").is_null()).height)
    return found.filter(pl.col("region").is_not_null())


def _on_hosts(hosts: pl.DataFrame, cards: pl.DataFrame) -> pl.DataFrame:
    """Every machine of a zone with every count of cards it takes there.

    A machine price of zero is bundled in that of its accelerators; elsewhere a part without a price leaves the whole
    without one.
    """
    rules = pl.read_csv(OWN / "gcp_hosts.csv").rename({"label": "AcceleratorName", "count": "AcceleratorCount"})
    rules = rules.with_columns(pl.col("AcceleratorCount").cast(pl.Float64))
    types = hosts.select("InstanceType", "vCPUs", "MemoryGiB").unique(maintain_order=True)
    types = types.filter(~pl.col("InstanceType").str.contains(TPU_HOSTS))
    fits = (
        types.join(rules, how="cross")
        .filter(
            pl.col("InstanceType").str.contains(pl.col("host")),
            pl.col("vCPUs") <= pl.col("max_vcpus").fill_null(float("inf")),
            pl.col("MemoryGiB") <= pl.col("max_ram_gib").fill_null(float("inf")),
        )
        .select("InstanceType", "vCPUs", "MemoryGiB", "AcceleratorName", "AcceleratorCount")
    )
    priced = cards.select(
        "AcceleratorName",
        "AcceleratorCount",
        "Region",
        "AvailabilityZone",
        "memory_gib",
        card_price="Price",
        card_spot="SpotPrice",
        card_where="where",
    )
    both = hosts.drop("AcceleratorName", "AcceleratorCount", "memory_gib").join(
        fits, on=["InstanceType", "vCPUs", "MemoryGiB"], how="inner", maintain_order="left"
    )
    both = both.join(
        priced,
        on=["AcceleratorName", "AcceleratorCount", "Region", "AvailabilityZone"],
        how="inner",
        maintain_order="left",
    )
    bundled = (pl.col("Price") == 0).fill_null(False)

    def whole(host: str, card: str) -> pl.Expr:
        of_host = pl.when(pl.col(host) > 0).then(host).when(bundled).then(0.0)
        return pl.when(pl.col(card) > 0).then(of_host + pl.col(card))

    return both.with_columns(
        Price=whole("Price", "card_price"),
        SpotPrice=whole("SpotPrice", "card_spot"),
        attached=pl.col("InstanceType").str.starts_with("n1-"),
        host_where="where",
    )


def _reserved(file: Path, provider: str, report: ImportReport, encoding: str | None) -> list[pl.DataFrame]:
    """Commitment prices beside a list: InstanceType, Region and columns such as Reserved1yStandardNoUpfront."""
    rows = csv_rows(file, report, encoding)
    need_columns(rows, ("InstanceType", "Region"), str(file), "a list of reserved prices")
    terms = rows.select(pl.selectors.matches(RESERVED_COLUMN)).columns
    rows = numbers(rows, terms)
    found = []
    for name in terms:
        years, upfront = pl.Series([name]).str.extract_groups(RESERVED_COLUMN)[0].values()
        priced = rows.filter(pl.col(name) > 0)
        found.append(
            priced.select(
                provider=pl.lit(provider),
                offer="InstanceType",
                region="Region",
                term_months=pl.lit(12.0 * int(years)),
                upfront_share=pl.lit(UPFRONT[upfront]),
                price_per_hour=name,
            ).unique(["offer", "region"], keep="first", maintain_order=True)
        )
    return found
