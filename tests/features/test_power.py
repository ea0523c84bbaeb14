"""Power: cap curves, watts by phase, power states."""

from __future__ import annotations

import polars as pl
import pytest

from solver.features.power import PHASES, host_overhead_share, power_states, throughput_at_cap, with_gpu_power
from tests.features.speed_frames import CATALOG, TABLES

CARDS = CATALOG.accelerators.filter(pl.col("tdp_w").is_not_null()).select("accelerator", "tdp_w", "min_power_limit_w")


@pytest.mark.parametrize("phase", PHASES)
def test_a_lower_limit_never_raises_throughput(phase: str) -> None:
    shares = pl.DataFrame({"share": [x / 100 for x in range(20, 121)]})
    frame = CARDS.join(shares, how="cross", maintain_order="left_right").with_columns(
        phase=pl.lit(phase), power_limit_w=pl.col("tdp_w") * pl.col("share")
    )
    rated = throughput_at_cap(frame, TABLES)
    for part in rated.partition_by("accelerator"):
        values = part["relative_throughput"].drop_nulls().to_list()
        assert values == sorted(values)
        assert all(0 < v <= 1 for v in values)
    # At the rated power or above, and without a limit, nothing is lost.
    assert (rated.filter(pl.col("share") >= 1)["relative_throughput"] == 1).all()


def test_h200_capped_at_500_w_loses_about_a_fifth_on_a_saturated_server() -> None:
    frame = pl.DataFrame(
        {
            "accelerator": ["H200-141GB-SXM5"] * 2,
            "tdp_w": [700.0] * 2,
            "power_limit_w": [500.0, 350.0],
            "phase": ["mixed"] * 2,
        }
    )
    at_500, at_350 = throughput_at_cap(frame, TABLES)["relative_throughput"].to_list()
    assert 0.77 <= at_500 <= 0.85
    assert 0.58 <= at_350 <= 0.68


def test_limits_below_the_cards_minimum_are_refused() -> None:
    frame = pl.DataFrame(
        {
            "accelerator": ["H100-80GB-SXM5"],
            "tdp_w": [700.0],
            "min_power_limit_w": [200],
            "power_limit_w": [150.0],
            "phase": ["decode"],
        }
    )
    capped = throughput_at_cap(frame, TABLES)
    assert capped["relative_throughput"].to_list() == [None]
    assert capped["cap_reason"].to_list() == ["the card takes no power limit under 200 W"]


def test_states_say_where_their_curve_comes_from() -> None:
    states = power_states(CARDS, TABLES)
    assert set(states.filter(pl.col("power_limit_w").is_not_null())["curve_source"]) == {"class"}
    full = states.filter(pl.col("power_limit_w").is_null())
    assert (full.select(f"relative_{p}" for p in PHASES).min_horizontal() == 1.0).all()
    capped = states.filter(pl.col("power_limit_w").is_not_null())
    assert capped.filter(pl.col("curve_error") <= 0).is_empty()
    # Cards without a power class (no figures of their kind) have their rated power only.
    assert states.filter(pl.col("accelerator") == "MI300X").filter(pl.col("power_limit_w").is_not_null()).is_empty()
    assert states.filter(pl.col("accelerator") == "H200-141GB-SXM5").height >= 5


def test_watts_rise_with_load_and_stay_under_the_limit() -> None:
    loads = pl.DataFrame({"load_share": [0.0, 0.25, 0.5, 1.0]})
    phases = pl.DataFrame({"phase": ["idle", *PHASES]})
    frame = CARDS.join(phases, how="cross", maintain_order="left_right").join(
        loads, how="cross", maintain_order="left_right"
    )
    drawn = with_gpu_power(frame, TABLES)
    assert drawn.filter((pl.col("gpu_expected_w") > pl.col("tdp_w")) | (pl.col("gpu_expected_w") <= 0)).is_empty()
    assert drawn.filter(pl.col("gpu_expected_w") < pl.col("gpu_idle_w") * (1 - 1e-9)).is_empty()
    for part in drawn.partition_by("accelerator", "phase"):
        watts = part["gpu_expected_w"].to_list()
        assert watts == sorted(watts)
    capped = with_gpu_power(frame.with_columns(power_limit_w=pl.col("tdp_w") * 0.5), TABLES)
    assert capped.filter(pl.col("gpu_expected_w") > pl.col("tdp_w") * 0.5 + 1e-9).is_empty()
    assert (capped["gpu_nameplate_w"] == capped["tdp_w"] * 0.5).all()


def test_h100_under_load_draws_what_was_measured() -> None:
    """486 W at a small batch of an 8B to 690 W saturated; MoE below."""
    frame = pl.DataFrame(
        {"accelerator": ["H100-80GB-SXM5"] * 2, "tdp_w": [700.0] * 2, "phase": ["mixed"] * 2, "load_share": [0.1, 1.0]}
    )
    low, full = with_gpu_power(frame, TABLES)["gpu_expected_w"].to_list()
    assert 380 <= low <= 520
    assert 550 <= full <= 700


def test_host_adds_a_fifth_to_a_third() -> None:
    assert 0.2 <= host_overhead_share(TABLES) <= 0.33
