"""Practice rules applied to placements: hard ones drop, the others become warnings of the plan."""

from __future__ import annotations

import polars as pl

from problems.schema import RuleName
from solver.candidates.terms import Rule


def is_large(params_b: float, rules: dict[RuleName, Rule]) -> bool:
    """True for models that the rules for large models speak of (`params_b`: total parameters [billions])."""
    return params_b >= rules["serving_large_params_b"].value


def broken_rules(rules: dict[RuleName, Rule], frame: pl.DataFrame, kind: str, *, hard: bool) -> pl.Series:
    """First practice rule that a placement breaks (null: none), among hard ones or among warnings.

    Unknown figures of a rented or complete machine (null) break nothing that is hard.
    """
    gpu_memory = pl.col("memory_gib") * pl.col("node_gpus")
    spans = pl.col("nodes") > 1
    checks: list[tuple[RuleName, pl.Expr, str]] = [
        ("cores_per_gpu", pl.col("cores") / pl.col("node_gpus"), "CPU cores per GPU")
    ]
    if kind == "serving":
        checks += [
            ("serving_ram_ratio", pl.col("ram_gib") / gpu_memory, "host RAM over GPU memory"),
            ("serving_network_gbps", pl.when(~spans).then(pl.col("network_gbps")), "network Gb/s"),
            (
                "serving_network_gbps_multinode",
                pl.when(spans).then(pl.col("network_gbps")),
                "network Gb/s of a replica that spans nodes",
            ),
            ("serving_nvme_tb", pl.when(pl.col("large")).then(pl.col("nvme_tb")), "local NVMe TB"),
            (
                "serving_large_ram_gib",
                pl.when(pl.col("large")).then(pl.col("ram_gib")),
                "host RAM GiB for a large model",
            ),
        ]
    else:
        large = pl.col("nodes") >= rules["training_large_nodes"].value
        checks += [
            ("training_ram_ratio", pl.col("ram_gib") / gpu_memory, "host RAM over GPU memory"),
            ("training_cores_per_node", pl.col("cores"), "CPU cores per node"),
            (
                "training_network_gbps",
                pl.when(spans & ~large).then(pl.col("network_gbps")),
                "network Gb/s between nodes",
            ),
            (
                "training_network_gbps_large",
                pl.when(spans & large).then(pl.col("network_gbps")),
                "network Gb/s between nodes",
            ),
            ("training_nvme_tb", pl.col("nvme_tb"), "local NVMe TB"),
            ("training_nvme_gb_s", pl.col("nvme_gb_s"), "local NVMe GB/s"),
        ]
    found = []
    for rule_name, have, what in checks:
        rule = rules[rule_name]
        bought = (pl.col("kind") == "server") & ~pl.col("complete")
        severity = pl.when(bought).then(pl.lit(rule.bought)).otherwise(pl.lit(rule.rented))
        wanted = severity == ("hard" if hard else "warn")
        text = pl.format(
            "{} {} below the rule's {} (" + rule_name + ")",
            pl.lit(what),
            have.round(2),
            pl.lit(f"{rule.value:g}"),
        )
        found.append(pl.when(wanted & (have < rule.value * (1 - 1e-9))).then(text))
    return frame.select(pl.coalesce(found).alias("broken")).to_series()
