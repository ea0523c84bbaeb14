"""The cheapest offer of a folder of price CSVs by a direct polars query: what `catalog cheapest` must agree with.

Written apart from the importer and the solver: it reads the files row by row and knows the rules of the requests only.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import polars as pl

TEXT = ("InstanceType", "AcceleratorName", "Region", "AvailabilityZone")
NUMBERS = ("AcceleratorCount", "vCPUs", "MemoryGiB", "Price", "SpotPrice")
# Cards per machine: most vCPUs and GiB of an n1 machine that takes them.
N1_LIMITS = {
    "T4": {1: (48, 312), 2: (48, 312), 4: (96, 624)},
    "P4": {1: (24, 156), 2: (48, 312), 4: (96, 624)},
    "P100": {1: (16, 104), 2: (32, 208), 4: (96, 624)},
    "V100": {1: (12, 78), 2: (24, 156), 4: (48, 312), 8: (96, 624)},
}
HOSTS = {
    **{("A100", n): [f"a2-highgpu-{n}g"] for n in (1, 2, 4, 8)},
    ("A100", 16): ["a2-megagpu-16g"],
    **{("A100-80GB", n): [f"a2-ultragpu-{n}g"] for n in (1, 2, 4, 8)},
    **{("H100", n): [f"a3-highgpu-{n}g"] for n in (1, 2, 4, 8)},
    ("H100-MEGA", 8): ["a3-megagpu-8g"],
    ("H200", 8): ["a3-ultragpu-8g"],
    ("B200", 8): ["a4-highgpu-8g"],
    ("L4", 1): [f"g2-standard-{n}" for n in (4, 8, 12, 16, 32)],
    ("L4", 2): ["g2-standard-24"],
    ("L4", 4): ["g2-standard-48"],
    ("L4", 8): ["g2-standard-96"],
}


def read_rows(folder: Path) -> pl.DataFrame:
    """Every row of every cloud's vms.csv as text and numbers, exact duplicates once."""
    found: list[dict[str, Any]] = []
    for path in sorted(folder.glob("*/vms.csv")):
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = csv.reader(file)
            header = next(lines)
            for line in lines:
                row = dict(zip(header, line, strict=False))
                found.append(
                    {"cloud": path.parent.name}
                    | {k: row.get(k) or None for k in TEXT}
                    | {k: float(row[k]) if row.get(k) else None for k in NUMBERS}
                )
    types: dict[str, Any] = {"cloud": pl.String, **dict.fromkeys(TEXT, pl.String), **dict.fromkeys(NUMBERS, pl.Float64)}
    return pl.DataFrame(found, schema=types).unique(maintain_order=True)


def whole_machines(rows: pl.DataFrame) -> pl.DataFrame:
    """Machines with everything in their price: accelerators priced apart are put on their hosts."""
    apart = (pl.col("cloud") == "gcp") & pl.col("InstanceType").is_null()
    hosts = rows.filter(pl.col("cloud") == "gcp", pl.col("InstanceType").is_not_null())
    cards = rows.filter(apart, ~pl.col("AcceleratorName").str.starts_with("tpu"))
    pairs = [
        (host, card, float(count), float("inf"), float("inf"))
        for (card, count), names in HOSTS.items()
        for host in names
    ]
    n1 = [name for name in hosts["InstanceType"].unique() if name.startswith("n1-") and not name.endswith("-tpu")]
    pairs += [
        (host, card, float(count), float(cpus), float(ram))
        for card, limits in N1_LIMITS.items()
        for count, (cpus, ram) in limits.items()
        for host in n1
    ]
    fits = pl.DataFrame(
        pairs,
        schema={
            "InstanceType": pl.String,
            "AcceleratorName": pl.String,
            "AcceleratorCount": pl.Float64,
            "most_cpus": pl.Float64,
            "most_ram": pl.Float64,
        },
        orient="row",
    )
    free = pl.col("Price") == 0
    joined = (
        hosts.drop("AcceleratorName", "AcceleratorCount")
        .join(fits, on="InstanceType")
        .filter(pl.col("vCPUs") <= pl.col("most_cpus"), pl.col("MemoryGiB") <= pl.col("most_ram"))
        .join(
            cards.select(
                "AcceleratorName", "AcceleratorCount", "AvailabilityZone", card="Price", card_spot="SpotPrice"
            ),
            on=["AcceleratorName", "AcceleratorCount", "AvailabilityZone"],
        )
        .with_columns(
            Price=pl.when(pl.col("card") > 0).then(pl.col("Price") + pl.col("card")),
            SpotPrice=pl.when(pl.col("card_spot") > 0).then(
                pl.when(free | (pl.col("SpotPrice") > 0)).then(pl.col("SpotPrice").fill_null(0) + pl.col("card_spot"))
            ),
        )
        .select(rows.columns)
    )
    bound = pl.col("InstanceType").str.contains(r"^(a2|a3|a4|g2)-") & (pl.col("cloud") == "gcp")
    slices = rows.filter(apart, pl.col("AcceleratorName").str.starts_with("tpu"))
    return pl.concat([rows.filter(~apart & ~bound), slices, joined])


def with_outliers(machines: pl.DataFrame) -> pl.DataFrame:
    """Mark prices far under the median on-demand price of their type, where it is seen in 5 regions or more."""
    kind = ["cloud", "InstanceType", "AcceleratorName", "AcceleratorCount"]
    median = pl.col("Price").median().over(kind)
    many = pl.col("Region").n_unique().over(kind) >= 5
    return machines.with_columns(
        outlier=(many & ((pl.col("Price") < 0.25 * median) | (pl.col("SpotPrice") < 0.1 * median))).fill_null(False)
    )


def cheapest(
    machines: pl.DataFrame, request: dict[str, Any], *, screened: bool = True
) -> tuple[float | None, pl.DataFrame]:
    """Price of all nodes and the machines that have it; None and no rows where nothing fits."""
    price = "SpotPrice" if request.get("use_spot") else "Price"
    rows = machines.filter(pl.col(price) > 0)
    if screened:
        rows = rows.filter(~pl.col("outlier"))
    asked = request.get("accelerators")
    if asked:
        ((name, count),) = asked.items()
        rows = rows.filter(
            pl.col("AcceleratorName").str.to_lowercase() == name.lower(),
            (pl.col("AcceleratorCount") - count).abs() < 0.01,
        )
    else:
        rows = rows.filter(pl.col("AcceleratorName").is_null())
    for key, column in (("cpus", "vCPUs"), ("memory", "MemoryGiB")):
        if request.get(key):
            rows = rows.filter(pl.col(column) >= float(str(request[key]).rstrip("+")))
    for key, column in (("cloud", "cloud"), ("region", "Region"), ("zone", "AvailabilityZone")):
        if request.get(key):
            rows = rows.filter(pl.col(column).str.to_lowercase() == str(request[key]).lower())
    if request.get("max_hourly_cost"):
        rows = rows.filter(pl.col(price) <= request["max_hourly_cost"])
    if rows.is_empty():
        return None, rows
    least = rows[price].min()
    assert isinstance(least, float)
    return least * int(request.get("num_nodes", 1)), rows.filter(pl.col(price) <= least * (1 + 1e-9))
