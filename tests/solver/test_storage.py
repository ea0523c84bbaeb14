"""Storage tiers in plans: hand-worked cases with the tier that must win, and what it must cost."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import polars as pl
import pytest

from catalogs.catalog import Catalog
from catalogs.load import load_catalog
from problems.load import load_text
from solver.events import SolveOptions
from solver.plan import Item, Result, StoredData
from solver.solve import solve
from solver.verify import verify

BASE = {"source": "made up", "as_of": "2026-11", "confidence": "listed", "notes": None}
"""Columns that every row made up here has."""


def rows_like(table: pl.DataFrame, rows: list[dict[str, Any]]) -> pl.DataFrame:
    """Rows in the types of a table; what is not given is null."""
    full = [{c: {**BASE, **r}.get(c) for c in table.columns} for r in rows]
    return pl.DataFrame(full, schema=table.schema)


def cloud(name: str, kind: str, provider: str, price: float, **more: Any) -> dict[str, Any]:
    what = {"storage": name, "class": kind, "tier": "hot", "location": "cloud", "provider": provider}
    return {**what, "min_size_tb": 0.0, "price_usd_per_tb_month": price, **more}


def system(name: str, kind: str, price: float, **more: Any) -> dict[str, Any]:
    what = {"storage": name, "class": kind, "tier": "hot", "location": "on-prem"}
    return {**what, "min_size_tb": 0.0, "price_usd_per_tb": price, "power_w": 0.0, **more}


STORE = cloud("cold store", "object", "AWS", 20.0)
FAST = cloud("fast files", "parallel_fs", "AWS", 100.0, gb_s_per_tb=1.0)
OTHER = cloud("other store", "object", "GCP", 10.0)
DISKS = system("disks", "object", 50.0, gb_s_per_tb=0.02)
FLASH = system("flash", "parallel_fs", 400.0, gb_s_per_tb=0.5)


@pytest.fixture(scope="module")
def whole() -> Catalog:
    return load_catalog()


def small(whole: Catalog, tiers: list[dict[str, Any]], drives_tb: float = 0.0) -> Catalog:
    """One rented machine, 8 H100 of AWS at 50 $/h by the hour, one that can be bought, and the tiers given."""
    offer = "AWS/p5.48xlarge/us-east-1"
    offers = whole.offers.filter(pl.col("offer_id") == offer).with_columns(
        local_storage_tb=pl.lit(drives_tb or None, pl.Float64)
    )
    prices = whole.prices.filter(
        (pl.col("offer_id") == offer) & (pl.col("billing") == "on_demand") & (pl.col("currency") == "USD")
    ).head(1)
    assert prices.height == 1
    drives = whole.storage.filter(pl.col("capacity_tb").is_not_null())
    return replace(
        whole,
        offers=offers,
        prices=prices.with_columns(price_per_hour=pl.lit(50.0)),
        storage=pl.concat([drives, rows_like(whole.storage, tiers)]),
        storage_terms=whole.storage_terms.clear(),
    )


def plan(catalog: Catalog, text: str) -> Result:
    loaded = load_text(text)
    result = solve(loaded, catalog, SolveOptions(time_limit_s=20, workers=2, gap=0.0, runner_up=False))
    if result.cost is not None:
        assert verify(result, loaded.problem, catalog) == []
    return result


def fixed(data: str, more: str = "") -> str:
    """A reservation of one machine for 100 h a month over 10 months: 50,000 $."""
    return f"""
horizon: 10mo
workloads:
  - {{name: lab, kind: fixed, accelerator: H100-80GB-SXM5, count: 8, hours: 100h/mo, data: [{data}]}}
{more}
"""


def copies(result: Result) -> list[tuple[str, str, str]]:
    return [(c.role, c.tier, c.place) for c in result.storage]


def lines(result: Result, *kinds: str) -> list[Item]:
    return [i for i in result.items if i.kind in kinds]


def total(result: Result) -> Decimal:
    assert result.cost is not None
    return result.cost.total


def test_without_speed_the_cheap_tier_wins(whole: Catalog) -> None:
    result = plan(small(whole, [STORE, FAST]), fixed("{class: training_data, size: 10TB}"))
    assert copies(result) == [("only", "cold store", "AWS")]
    assert total(result) == 50_000 + 10 * 20 * 10


def test_speed_beyond_the_cheap_tier_is_bought_by_the_terabyte(whole: Catalog) -> None:
    """20 GB/s at 1 GB/s per TB: 20 TB, though 12.5 TB would hold 10 TB at 80 % fill."""
    text = fixed("{class: training_data, size: 10TB, read: 20GB/s, staged: no}")
    result = plan(small(whole, [STORE, FAST]), text)
    assert copies(result) == [("only", "fast files", "AWS")]
    assert lines(result, "storage")[0].quantity == 20
    assert total(result) == 50_000 + 20 * 100 * 10


def test_a_file_system_is_filled_to_four_fifths(whole: Catalog) -> None:
    result = plan(small(whole, [FAST]), fixed("{class: training_data, size: 10TB, read: 1GB/s}"))
    assert lines(result, "storage")[0].quantity == 12.5


def test_least_size_is_paid(whole: Catalog) -> None:
    tier = {**FAST, "min_size_tb": 100.0}
    result = plan(small(whole, [tier]), fixed("{class: training_data, size: 10TB, read: 1GB/s}"))
    assert lines(result, "storage")[0].quantity == 100


@pytest.mark.parametrize(
    ("speed", "price", "winner"),
    [("8GB/s", 20.0, "cold store"), ("8.1GB/s", 20.0, "fast files"), ("8GB/s", 101.0, "fast files")],
)
def test_a_store_gives_the_usual_speed_and_no_more(whole: Catalog, speed: str, price: float, winner: str) -> None:
    """8 TB at 8 GB/s: 8 x 20 against 10 TB of files at 100, until the store is dearer by itself."""
    store = {**STORE, "price_usd_per_tb_month": price * 10 / 8}
    text = fixed(f"{{class: training_data, size: 8TB, read: {speed}, staged: no}}")
    assert copies(plan(small(whole, [store, FAST]), text))[0][1] == winner


def test_unknown_operations_meet_no_stated_ones(whole: Catalog) -> None:
    result = plan(small(whole, [STORE, FAST]), fixed("{class: training_data, size: 8TB, iops: 1000, staged: no}"))
    assert result.cost is None
    assert any("training_data" in why for why in result.no_plan_because)


def test_master_and_working_copy_beat_one_fast_copy_with_room_for_it_all(whole: Catalog) -> None:
    """The nodes' drives read fast and cost nothing: master in the store, 10 TB x 20, and an hour's rent for staging."""
    text = fixed("{class: training_data, size: 10TB, read: 10GB/s, within: 1h}")
    result = plan(small(whole, [STORE, FAST], drives_tb=20.0), text)
    assert copies(result) == [("working", "drives of the nodes", "AWS"), ("master", "cold store", "AWS")]
    assert total(result) == 50_000 + 10 * 20 * 10 + 50 * 10
    # Without drives, a fast copy alone is cheaper than a fast copy beside a master.
    assert copies(plan(small(whole, [STORE, FAST]), text)) == [("only", "fast files", "AWS")]


def test_drives_must_hold_it_at_four_fifths_and_under_their_raid(whole: Catalog) -> None:
    text = fixed("{class: training_data, size: 10TB, read: 10GB/s, within: 1h}")
    assert copies(plan(small(whole, [STORE, FAST], drives_tb=12.5), text))[0][1] == "drives of the nodes"
    assert copies(plan(small(whole, [STORE, FAST], drives_tb=12.4), text))[0][1] == "fast files"
    mirrored = text.replace("within: 1h", "within: 1h, raid: raid10")
    assert copies(plan(small(whole, [STORE, FAST], drives_tb=24.9), mirrored))[0][1] == "fast files"
    assert copies(plan(small(whole, [STORE, FAST], drives_tb=25.0), mirrored))[0][1] == "drives of the nodes"


def test_staging_too_fast_for_the_master_rules_it_out(whole: Catalog) -> None:
    """10 TB from 8 GB/s take 1,250 s: within 21 min they do, within 20 min not."""
    text = fixed("{class: training_data, size: 10TB, read: 10GB/s, within: 21min}")
    assert len(plan(small(whole, [STORE, FAST], drives_tb=40.0), text).storage) == 2
    short = text.replace("21min", "20min")
    assert copies(plan(small(whole, [STORE, FAST], drives_tb=40.0), short)) == [("only", "fast files", "AWS")]


def test_egress_dearer_than_a_dearer_tier_keeps_data_near(whole: Catalog) -> None:
    """10 TB read once a month: 10 x 120 $ of egress a month save 10 x 10 $ of storage. Moved seldom, they do not."""
    near = fixed("{class: training_data, size: 10TB}")
    catalog = small(whole, [STORE, OTHER])
    gcp = whole.offers.filter(pl.col("provider") == "GCP").head(1)
    catalog = replace(catalog, offers=pl.concat([catalog.offers, gcp]))
    assert copies(plan(catalog, near)) == [("only", "cold store", "AWS")]
    result = plan(catalog, near.replace("10TB", "10TB, moved: 500GB"))
    assert copies(result) == [("only", "other store", "GCP")]
    assert [i.total_cost for i in lines(result, "egress")] == [Decimal(600)]  # 0.5 TB x 120 $ x 10 months
    assert total(result) == 50_000 + 10 * 10 * 10 + 600
    assert result.storage[0].egress_tb_month == 0.5


def test_what_leaves_a_place_without_a_price_stays(whole: Catalog) -> None:
    catalog = small(whole, [OTHER])
    catalog = replace(catalog, offers=pl.concat([catalog.offers, whole.offers.filter(pl.col("provider") == "GCP")]))
    text = fixed("{class: training_data, size: 10TB}")
    assert copies(plan(catalog, text)) == [("only", "other store", "GCP")]
    nothing = replace(catalog, egress=catalog.egress.filter(pl.col("provider") != "GCP"))
    assert plan(nothing, text).cost is None


def test_archives_are_sent_by_the_work(whole: Catalog) -> None:
    """12 TB kept for 10 months: 1.2 TB a month leave AWS at 90 $ per TB."""
    catalog = small(whole, [OTHER])
    catalog = replace(catalog, offers=pl.concat([catalog.offers, whole.offers.filter(pl.col("provider") == "GCP")]))
    result = plan(catalog, fixed("{class: archive, size: 12TB}"))
    assert sum(i.total_cost for i in lines(result, "egress")) == Decimal("1080.00")


def test_a_fee_for_reading_back_leaves_a_store_to_archives(whole: Catalog) -> None:
    seldom = cloud("seldom store", "object", "AWS", 5.0)
    catalog = small(whole, [STORE, seldom])
    terms = {"storage": "seldom store", "retrieval_usd_per_tb": 10.0, "lasting": True}
    catalog = replace(catalog, storage_terms=rows_like(whole.storage_terms, [terms]))
    result = plan(catalog, fixed("{class: archive, size: 10TB}, {class: training_data, size: 10TB}"))
    assert {c.data_class: c.tier for c in result.storage} == {"archive": "seldom store", "training_data": "cold store"}


ROOM = "sites: [{name: room, country: US, pue: 1.0, electricity: $0.10/kWh}]"


def tune(data: str, *, deadline: str, more: str = "dataset: 10TB") -> str:
    return f"""
horizon: 12mo
workloads:
  - name: tune
    kind: finetune
    method: lora
    model: llama-3-8b
    tokens: 50M
    runs: 2/mo
    deadline: {deadline}
    {more}
    data: [{data}]
policy: {{billing: [on_demand]}}
"""


def test_the_short_form_is_planned_for(whole: Catalog) -> None:
    result = plan(small(whole, [STORE, FAST]), tune("", deadline="48h"))
    assert copies(result) == [("only", "cold store", "AWS")]
    copy = result.storage[0]
    assert (copy.name, copy.size_tb) == ("tune training_data", 10)
    rate = result.workloads[0].placements[0].rate
    assert copy.read_gb_s == pytest.approx(rate * 4 / 1e9)  # tokens of 4 bytes


def test_adapters_are_what_a_lora_checkpoint_saves(whole: Catalog) -> None:
    """Rank 16 on the seven matrices of 32 layers of Llama-3-8B: 41,943,040 parameters; 14 bytes each, five and one more."""
    result = plan(small(whole, [STORE]), tune("{class: checkpoints}", deadline="48h", more=""))
    assert result.storage[0].size_tb == pytest.approx(41_943_040 * 14 * 6 / 1e12)
    # An hour between checkpoints, 5 % of the time for them: 189.47 s for one.
    assert result.storage[0].write_gb_s == pytest.approx(41_943_040 * 14 / 1e9 / (3600 * 0.05 / 0.95))


def test_staging_counts_against_the_deadline(whole: Catalog) -> None:
    """A run of some hours and two hours of staging: a tighter deadline takes more nodes, then a single fast copy."""
    data = "{class: training_data, size: 10TB, read: 10GB/s, within: 2h}"
    catalog = small(whole, [STORE, FAST], drives_tb=40.0)
    calm = plan(catalog, tune(data, deadline="48h", more=""))
    assert copies(calm)[0][:2] == ("working", "drives of the nodes")
    took = calm.workloads[0].placements[0].duration_h
    assert took is not None
    just = plan(catalog, tune(data, deadline=f"{took + 2.001:.6f}h", more=""))
    assert (copies(just)[0][0], just.workloads[0].placements[0].nodes) == ("working", 1)
    more = plan(catalog, tune(data, deadline=f"{took + 1.95:.6f}h", more=""))
    assert (copies(more)[0][0], more.workloads[0].placements[0].nodes > 1) == ("working", True)  # quicker on more nodes
    assert copies(plan(catalog, tune(data, deadline="1.9h", more=""))) == [("only", "fast files", "AWS")]


def test_own_disks_hold_archives_and_draw_power(whole: Catalog) -> None:
    """250 TB of disks hold 200 TB; 1 W each at 70 %, for a year."""
    disks = {**DISKS, "power_w": 1.0}
    text = fixed("", f"{ROOM}\ndata: [{{class: archive, size: 200TB, site: room}}]")
    result = plan(small(whole, [STORE, disks, FLASH]), text)
    assert copies(result) == [("only", "disks", "room")]
    by_kind = {i.kind: i.total_cost for i in lines(result, "storage", "maintenance", "energy") if i.unit == "TB"}
    assert by_kind["storage"] == 250 * 50
    assert by_kind["maintenance"] == pytest.approx(Decimal(250 * 50 * 0.08 * 10 / 12), abs=Decimal("2.5"))
    assert float(by_kind["energy"]) == pytest.approx(250 * 0.7 * 730 * 10 / 1000 * 0.10, abs=2.5)
    assert result.power is not None
    assert result.power.it_peak_w == 250


def test_own_disks_without_egress_price_serve_no_cloud(whole: Catalog) -> None:
    """Training data at an own site would leave it for AWS, and no price of that is known."""
    text = fixed("{class: training_data, size: 10TB}", ROOM)
    cheap = {**DISKS, "price_usd_per_tb": 1.0}
    assert copies(plan(small(whole, [STORE, cheap]), text)) == [("only", "cold store", "AWS")]


def serve(data: str, more: str = "") -> str:
    return f"""
horizon: 10mo
workloads:
  - name: chat
    kind: serve
    measured: [{{accelerator: H100-80GB-SXM5, accelerators: 8, rate: 10 req/s}}]
    traffic: {{rate: 25 req/s, isl: 100, osl: 100}}
    data: [{data}]
{more}
"""


def test_an_offload_is_split_over_replicas_by_their_traffic(whole: Catalog) -> None:
    """Three replicas carry at most 10 of 25 req/s each: 40 % of 20 TB, on drives of 10 TB at 80 %."""
    text = serve("{class: kv_offload, size: 20TB, read: 15GB/s, write: 5GB/s}")
    result = plan(small(whole, [FAST], drives_tb=10.0), text)
    assert copies(result) == [("only", "drives of the nodes", "AWS")]
    assert copies(plan(small(whole, [FAST], drives_tb=9.9), text)) == [("only", "fast files", "AWS")]


def test_weights_are_on_every_node(whole: Catalog) -> None:
    text = serve("{class: weights, size: 1TB, within: 100s, staged: yes, readers: 1}")
    # 10 GB/s to load, and to stage: more than the store has.
    result = plan(small(whole, [STORE, FAST], drives_tb=20.0), text)
    assert {c.role for c in result.storage} == {"working", "master"}
    assert next(c for c in result.storage if c.role == "master").tier == "fast files"


@pytest.mark.parametrize(
    "change",
    [
        {"size_tb": 9.0},
        {"read_gb_s": 19.0},
        {"tier": "cold store", "gear": "cloud AWS/cold store"},
        {"gear": "cloud AWS/no such tier"},
        {"role": "master"},
        {"place": "GCP"},
        {"gear": None},
        {"data_class": "archive"},
    ],
)
def test_verify_refuses_other_copies(whole: Catalog, change: dict[str, Any]) -> None:
    catalog = small(whole, [STORE, FAST])
    loaded = load_text(fixed("{class: training_data, size: 10TB, read: 20GB/s, staged: no}"))
    result = plan(catalog, fixed("{class: training_data, size: 10TB, read: 20GB/s, staged: no}"))
    copy: StoredData = result.storage[0].model_copy(update=change)
    assert verify(result.model_copy(update={"storage": (copy,)}), loaded.problem, catalog)
    assert verify(result.model_copy(update={"storage": ()}), loaded.problem, catalog)


def test_verify_refuses_less_storage_than_is_used_and_unpaid_egress(whole: Catalog) -> None:
    catalog = small(whole, [STORE, OTHER])
    catalog = replace(catalog, offers=pl.concat([catalog.offers, whole.offers.filter(pl.col("provider") == "GCP")]))
    text = fixed("{class: training_data, size: 10TB, moved: 500GB}")
    result, problem = plan(catalog, text), load_text(text).problem
    for kind in ("storage", "egress"):
        items = tuple(
            i.model_copy(update={"quantity": i.quantity / 2, "total_cost": i.total_cost / 2}) if i.kind == kind else i
            for i in result.items
        )
        assert any(
            "due" in w or "TB" in w for w in verify(result.model_copy(update={"items": items}), problem, catalog)
        )


@pytest.mark.parametrize(
    ("provider", "store", "per_tb"),
    [
        ("Nebius", "Nebius Object Storage Standard", "13.69"),
        ("CoreWeave", "CoreWeave AI Object Storage", "55.88"),
        ("Crusoe", "Crusoe Object Storage", "55.88"),
        ("Scaleway", "Scaleway Object Storage Standard Multi-AZ", "16.94"),
        ("DigitalOcean", "DigitalOcean Spaces", "18.63"),
        ("Verda (DataCrunch)", "Verda NVMe block volume", "186.26"),
    ],
)
def test_gpu_clouds_keep_checkpoints(whole: Catalog, provider: str, store: str, per_tb: str) -> None:
    """Saved states of an 8B model, 112 GB each and four of them: 0.5 TB of an object store, 0.6 of a volume that fills to 80 %."""
    result = plan(whole, clouds(f"[{provider}]", "{class: checkpoints, kept: 3, within: 2min}"))
    assert copies(result) == [("only", store, provider)]
    (held,) = lines(result, "storage")
    tenths = 6 if provider.startswith("Verda") else 5
    assert held.quantity == pytest.approx(tenths / 10)
    assert held.total_cost == pytest.approx(Decimal(per_tb) * tenths / 10, abs=Decimal("0.06"))


def test_a_volume_of_unknown_speed_keeps_no_checkpoints(whole: Catalog) -> None:
    """Nothing leaves Hyperstack at a price, so its checkpoints go to another provider's store."""
    data = "{class: checkpoints, kept: 3}"
    cards = "accelerators: [RTX-A6000]"
    assert plan(whole, clouds("[Hyperstack]", data, cards, "lora")).status == "infeasible"
    result = plan(whole, clouds("[Hyperstack, Nebius]", data, cards, "lora"))
    assert copies(result) == [("only", "Nebius Object Storage Standard", "Nebius")]
    assert {w for w in result.warnings if "storage known" in w} == {
        "no speed of storage known at Hyperstack: "
        "machines there only with data sent from or to other places, or on their drives"
    }


def clouds(providers: str, data: str, more: str = "", method: str = "full") -> str:
    """Tuning of an 8B model by the hour at these providers."""
    return f"""
workloads:
  - name: tune
    kind: finetune
    method: {method}
    model: llama-3-8b
    tokens: 500M
    sequence: 4096
    runs: 4/mo
    deadline: 5d
    data: [{data}]
limits: {{providers: {providers}{", " + more if more else ""}}}
horizon: 1mo
policy: {{billing: on_demand}}
"""
