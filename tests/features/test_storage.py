"""Sizes and speeds of storage by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalogs.load import load_catalog
from solver.features import storage
from solver.features.storage import DriveSet


@pytest.mark.parametrize(
    ("raid", "drives", "parity", "kept"),
    [
        ("none", 1, 0, 1.0),
        ("raid0", 8, 0, 1.0),
        ("raid1", 2, 0, 0.5),
        ("raid10", 8, 0, 0.5),
        ("raid5", 5, 0, 0.8),
        ("raid6", 10, 0, 0.8),
        ("raidz3", 12, 0, 0.75),
        ("ec", 12, 4, 8 / 12),
    ],
)
def test_what_a_level_keeps(raid: storage.Raid, drives: int, parity: int, kept: float) -> None:
    assert storage.raid_share(raid, drives, parity) == pytest.approx(kept)


@pytest.mark.parametrize(("raid", "drives"), [("raid1", 1), ("raid10", 3), ("raid5", 2), ("raid6", 3), ("ec", 1)])
def test_too_few_drives(raid: storage.Raid, drives: int) -> None:
    with pytest.raises(ValueError, match=raid):
        storage.raid_share(raid, drives)


def test_a_fifth_stays_empty() -> None:
    # 100 TB filled to 80 % takes 125 TB; in RAID 6 of ten drives 125 / 0.8 = 156.25 TB
    assert storage.raw_tb(100) == 125
    assert storage.raw_tb(100, 0.8) == pytest.approx(156.25)
    assert storage.usable_tb(156.25, 0.8) == pytest.approx(100)
    with pytest.raises(ValueError, match="fill"):
        storage.raw_tb(100, max_fill=0)


def test_drives_by_capacity_or_by_speed() -> None:
    # 100 TB filled: 125 / 15.36 = 8.14, so 9 drives, 110.6 TB to fill
    by_size = storage.drives_needed(100, 15.36, drive_read_gb_s=7, drive_write_gb_s=4)
    assert by_size.drives == 9
    assert by_size.usable_tb == pytest.approx(110.592)
    # 100 GB/s at 7 a drive: 14.3, so 15
    by_speed = storage.drives_needed(100, 15.36, read_gb_s=100, drive_read_gb_s=7, drive_write_gb_s=4)
    assert by_speed.drives == 15
    # RAID 6 in groups of 10 keeps 0.8: 156.25 / 15.36 = 10.2, so two groups; they write 20 x 4 x 0.8 = 64 GB/s
    grouped = storage.drives_needed(100, 15.36, raid="raid6", group=10, drive_read_gb_s=7, drive_write_gb_s=4)
    assert grouped == DriveSet(20, pytest.approx(196.608), 140, pytest.approx(64))
    with pytest.raises(ValueError, match="hold something"):
        storage.drives_needed(1, 0)


@given(st.floats(0.1, 5000), st.floats(1, 60), st.floats(0, 500), st.sampled_from([None, 4, 10]))
def test_drives_hold_and_read_what_is_asked(need: float, drive: float, speed: float, group: int | None) -> None:
    raid: storage.Raid = "raid5" if group else "none"
    found = storage.drives_needed(
        need, drive, read_gb_s=speed, drive_read_gb_s=5, drive_write_gb_s=3, raid=raid, group=group
    )
    assert found.usable_tb >= need * (1 - 1e-6)
    assert found.read_gb_s >= speed * (1 - 1e-6)
    step = group or 1
    fewer = found.drives - step
    if fewer > 0:
        kept = storage.raid_share(raid, step)
        assert storage.usable_tb(fewer * drive, kept) < need or fewer * 5 < speed


def test_checkpoints() -> None:
    # 70e9 x 14 bytes = 0.98 TB; within 98 s that is 10 GB/s; at 2 GB/s it takes 490 s
    size = storage.checkpoint_tb(70e9, 14)
    assert size == pytest.approx(0.98)
    assert storage.checkpoint_gb_s(size, 98) == pytest.approx(10)
    assert storage.transfer_s(size, 2) == pytest.approx(490)
    # Every half hour: 490 / 2,290 of the time
    assert storage.checkpoint_overhead(490, 1800) == pytest.approx(0.21397, abs=1e-5)
    assert storage.checkpoint_overhead(0, 0) == 0
    # Three kept and one in the making
    assert storage.checkpoint_store_tb(size, 3) == pytest.approx(3.92)
    with pytest.raises(ValueError, match="time"):
        storage.checkpoint_gb_s(1, 0)
    with pytest.raises(ValueError, match="speed"):
        storage.transfer_s(1, 0)


def test_bytes_of_a_saved_state_come_from_the_catalogue() -> None:
    table = load_catalog().optimisers
    # Weights 2, master copy 4, two moments of 4 each
    assert storage.saved_bytes_per_param(table, "adamw") == 14
    assert storage.saved_bytes_per_param(table, "adamw_bf16") == 6
    with pytest.raises(ValueError, match="known are"):
        storage.saved_bytes_per_param(table, "no such")


def test_start_up_and_streaming() -> None:
    # 140 GB of weights on 10 nodes from a store of 50 GB/s: 5 GB/s each, though their links take 25: 28 s
    assert storage.load_s(140, 10, 50, 25) == pytest.approx(28)
    assert storage.load_s(140, 1, 50, 25) == pytest.approx(5.6)
    # 20,000 images a second of 115 kB: 2.3 GB/s
    assert storage.stream_gb_s(20_000, 115e3) == pytest.approx(2.3)
    # 100 TB from an object store of 20 GB/s to four nodes of 10 GB/s: each copies all of it at 5 GB/s, or its quarter
    assert storage.staging_s(100, 20, 10, 4) == pytest.approx(20_000)
    assert storage.staging_s(100, 20, 10, 4, split=True) == pytest.approx(5000)
    # Held back by the target: 1 GB/s drives
    assert storage.staging_s(1, 100, 1) == pytest.approx(1000)


def test_building_blocks() -> None:
    assert [storage.arrays_needed(n, 4) for n in (1, 4, 5, 8)] == [1, 1, 2, 2]
    with pytest.raises(ValueError, match="serve"):
        storage.arrays_needed(1, 0)
