"""Fact tables of hardware -> accelerators, servers, cpus, ram, storage, network."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from catalogs.importers.facts_common import (
    clean_name,
    confidence,
    joined,
    number,
    price_confidence,
    read_facts,
    with_own,
    yes,
)

STACK_OF_VENDOR = {
    "NVIDIA": "cuda",
    "AMD": "rocm",
    "Huawei": "cann",
    "AWS": "neuron",
    "Google": "tpu",
    "Intel": "gaudi",
    "Groq": "groq",
    "Cerebras": "cerebras",
}
PROVIDER_OF_STORAGE = {
    "AWS": "AWS",
    "GCS": "GCP",
    "GCP": "GCP",
    "Azure": "Azure",
    "Alibaba": "Alibaba Cloud",
    "OCI": "OCI",
    "RunPod": "RunPod",
}
REMARK = r"\s*\((.*)\)$"


def accelerators(facts: Path) -> pl.DataFrame:
    frame = read_facts(facts / "accelerators.csv")
    per_gpu = pl.when(pl.col("name").str.contains("(per GPU)", literal=True)).then(pl.lit("figures are per GPU"))
    board = pl.col("form_factor").str.extract(REMARK)
    return frame.with_columns(
        confidence(),
        price_confidence("street_price_usd"),
        joined(pl.col("notes"), per_gpu, board),
        accelerator=clean_name("name"),
        form_factor=pl.col("form_factor").str.replace(REMARK, ""),
        mig=yes("mig"),
        price_usd="street_price_usd",
        price_low_usd="street_price_low_usd",
        price_high_usd="street_price_high_usd",
        price_as_of="street_price_as_of",
        memory_basis="memory_gib_basis",
        software_stack=pl.col("vendor").replace_strict(STACK_OF_VENDOR),
    )


def servers(facts: Path, contents: Path) -> pl.DataFrame:
    """Servers; `contents` says what is inside systems sold whole (the facts give it in remarks only)."""
    frame = read_facts(facts / "servers.csv")
    complete = pl.col("kind").str.contains("complete") | (pl.col("kind") == "appliance")
    kind = pl.col("kind").str.split(" ").list.first()
    fits = pl.col("fits_gpus").str.split(";").list.eval(clean_name("").str.strip_chars()).list.join(";")
    frame = frame.with_columns(
        confidence(),
        price_confidence("chassis_price_usd"),
        server=pl.col("name").str.replace(REMARK, ""),
        product=pl.col("name").str.extract(REMARK),
        deployment_mode=pl.when(kind == "appliance").then(pl.lit("appliance")).otherwise(pl.lit("on_premises")),
        complete=complete,
        accelerator_form_factor="gpu_form_factor",
        slots="gpu_slots",
        fits=fits,
        max_power_w=number("max_power_kw", 1000.0),
        price_usd="chassis_price_usd",
        price_includes_gpu=yes("price_includes_gpu"),
        kind=kind,
    )
    inside = pl.read_csv(contents, infer_schema=False).rename({"notes": "included_notes"})
    return frame.join(inside, on="server", how="left", maintain_order="left").with_columns(
        joined(pl.col("notes"), pl.col("included_notes"))
    )


def cpus(facts: Path) -> pl.DataFrame:
    return read_facts(facts / "cpus.csv").with_columns(confidence(), cpu="name", price_usd="list_price_usd")


def ram(facts: Path) -> pl.DataFrame:
    return read_facts(facts / "ram.csv").with_columns(confidence(), module="name", power_w="watts", ecc=yes("ecc"))


def storage(facts: Path, own: Path) -> pl.DataFrame:
    """Drives, systems and services; `own` has services of further providers, read after the facts were made."""
    first_word = pl.col("name").str.split(" ").list.first()
    seen = read_facts(facts / "storage.csv").with_columns(
        confidence(),
        storage="name",
        power_w="watts",
        provider=pl.when(pl.col("location") == "cloud").then(
            first_word.replace_strict(PROVIDER_OF_STORAGE, default=None, return_dtype=pl.String)
        ),
    )
    return with_own(seen, own, "storage")


def network(facts: Path) -> pl.DataFrame:
    return read_facts(facts / "network.csv").with_columns(
        confidence(),
        network="name",
        rdma=yes("rdma"),
        nic_power_w="nic_w",
        switch_power_w="switch_w",
        per_port_switch_power_w="per_port_switch_w",
    )
