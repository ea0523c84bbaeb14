"""Names that a problem file may use where only certain words are allowed."""

from __future__ import annotations

from typing import Literal, get_args

Currency = Literal["USD", "CNY", "EUR", "GBP", "JPY", "HKD", "SGD"]
Percentile = Literal["mean", "p50", "p90", "p95", "p99"]
WeightPrecision = Literal["fp32", "bf16", "fp16", "fp8", "int8", "int4", "nf4", "mxfp4", "nvfp4"]
KvPrecision = Literal["bf16", "fp16", "fp8", "int8"]
Billing = Literal[
    "on_demand", "reserved", "subscription", "spot", "capacity_block", "compute_unit", "purchase", "owned"
]
Deployment = Literal[
    "vm", "container", "container_cluster", "bare_metal", "appliance", "hosted_platform", "on_premises"
]
Isolation = Literal["shared_host", "dedicated_vm", "single_tenant", "own"]
Criterion = Literal["tco", "cost", "price", "power", "carbon", "time", "latency", "technical", "memory", "service"]
Confidence = Literal["measured", "listed", "derived", "estimate", "recalled"]
CONFIDENCES: tuple[str, ...] = get_args(Confidence)
"""Where a price or figure is from: the best kind first."""
Objective = Literal["cost", "power", "carbon", "time", "scale"]
Calendar = Literal["flat", "office_hours", "day_night", "day_night_weekend", "hourly"]
HeldBilling = Literal["reserved", "subscription", "purchase"]
Apart = Literal["zone", "region", "provider", "site"]
Severity = Literal["hard", "warn", "off"]
RuleName = Literal[
    "training_ram_ratio",
    "serving_ram_ratio",
    "training_cores_per_node",
    "cores_per_gpu",
    "training_network_gbps",
    "training_network_gbps_large",
    "training_large_nodes",
    "training_warn_nodes",
    "serving_network_gbps",
    "serving_network_gbps_multinode",
    "training_nvme_tb",
    "training_nvme_gb_s",
    "serving_nvme_tb",
    "serving_large_ram_gib",
    "serving_large_params_b",
    "pcie_tensor_parallel_max",
]
