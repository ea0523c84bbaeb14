"""Storage sizes and speeds: usable terabytes, what checkpoints ask for, how long loads and staging take.

Decimal units throughout (TB = 1e12 bytes, GB/s = 1e9 bytes/s), as storage is sold.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import polars as pl

Raid = Literal["none", "raid0", "raid1", "raid10", "raid5", "raid6", "raidz1", "raidz2", "raidz3", "ec"]

#: Parity drives per group.
PARITY: dict[str, int] = {"raid5": 1, "raid6": 2, "raidz1": 1, "raidz2": 2, "raidz3": 3}
#: Share of usable space that may be filled: flash and parallel file systems slow down beyond it (stas00/ml-engineering,
#: storage chapter).
MAX_FILL = 0.8


def raid_share(raid: Raid, drives: int, parity: int = 0) -> float:
    """Share of raw capacity that a group of drives keeps [fraction].

    Parameters
    ----------
    raid : str
        ec (erasure code) takes its parity count from `parity`: k data + m parity of `drives` = k + m.
    drives : int
        Drives in one group.

    Raises
    ------
    ValueError
        Too few drives for the level.
    """
    if raid in ("none", "raid0"):
        return 1.0
    if raid in ("raid1", "raid10"):
        if drives < 2 or (raid == "raid10" and drives % 2):
            raise ValueError(f"{raid} on {drives} drives: mirrors need pairs")
        return 1.0 / drives if raid == "raid1" else 0.5
    lost = parity if raid == "ec" else PARITY[raid]
    if lost < 0 or drives < lost + 2:
        raise ValueError(f"{raid} on {drives} drives: {lost + 2} at least")
    return (drives - lost) / drives


def usable_tb(raw_tb: float, raid_kept: float = 1.0, max_fill: float = MAX_FILL) -> float:
    """Terabytes that may be filled out of raw ones [TB]."""
    return raw_tb * raid_kept * max_fill


def raw_tb(needed_tb: float, raid_kept: float = 1.0, max_fill: float = MAX_FILL) -> float:
    """Terabytes to buy or rent for so many to be filled [TB].

    Raises
    ------
    ValueError
        Nothing may be filled.
    """
    if not 0 < raid_kept <= 1 or not 0 < max_fill <= 1:
        raise ValueError(f"RAID share {raid_kept:g} and fill {max_fill:g}: must be above 0 and at most 1")
    return needed_tb / (raid_kept * max_fill)


@dataclass(frozen=True)
class DriveSet:
    """Equal drives: count, what they keep [TB] and how fast they are together [GB/s]."""

    drives: int
    usable_tb: float
    read_gb_s: float
    write_gb_s: float


def drives_needed(
    needed_tb: float,
    drive_tb: float,
    *,
    read_gb_s: float = 0.0,
    write_gb_s: float = 0.0,
    drive_read_gb_s: float = math.inf,
    drive_write_gb_s: float = math.inf,
    raid: Raid = "none",
    group: int | None = None,
    parity: int = 0,
    max_fill: float = MAX_FILL,
) -> DriveSet:
    """Fewest drives with the capacity and speed asked for, in whole groups where a RAID level forms them.

    Parameters
    ----------
    needed_tb : float
        To be filled [TB].
    group : int, optional
        Drives per RAID group; required for a level with parity or mirrors.

    Notes
    -----
    Reads come from all drives; writes lose the RAID share (full-stripe writes).
    """
    if drive_tb <= 0:
        raise ValueError("a drive must hold something")
    size = group or 1
    kept = raid_share(raid, size, parity)
    counts = [
        raw_tb(needed_tb, kept, max_fill) / drive_tb,
        read_gb_s / drive_read_gb_s,
        write_gb_s / (drive_write_gb_s * kept),
    ]
    drives = max(1, math.ceil(max(counts) / size - 1e-9)) * size
    return DriveSet(
        drives,
        usable_tb(drives * drive_tb, kept, max_fill),
        drives * drive_read_gb_s,
        drives * drive_write_gb_s * kept,
    )


def saved_bytes_per_param(optimisers: pl.DataFrame, optimizer: str) -> float:
    """Bytes per parameter of a saved training state: weights, master copy and moments; gradients are not saved [B].

    Parameters
    ----------
    optimisers : pl.DataFrame
        The catalogue table: optimizer, weight_bytes, master_bytes, state_bytes.

    Raises
    ------
    ValueError
        The table has no such optimizer.
    """
    row = optimisers.filter(pl.col("optimizer") == optimizer)
    if row.is_empty():
        known = ", ".join(optimisers["optimizer"].to_list())
        raise ValueError(f"optimizer {optimizer}: known are {known}")
    return float(row.select(pl.sum_horizontal("weight_bytes", "master_bytes", "state_bytes")).item())


def checkpoint_tb(params: float, bytes_per_param: float) -> float:
    """Size of one saved training state [TB].

    Parameters
    ----------
    params : float
        Parameters that are saved.
    bytes_per_param : float
        See `saved_bytes_per_param`: 14 for mixed-precision AdamW, 2 for bf16 weights alone [B].
    """
    return params * bytes_per_param / 1e12


def checkpoint_gb_s(size_tb: float, seconds: float) -> float:
    """Write speed for a checkpoint within so many seconds [GB/s]."""
    return transfer_gb_s(size_tb, seconds)


def transfer_gb_s(size_tb: float, seconds: float) -> float:
    """Speed that moves so many terabytes in time [GB/s].

    Raises
    ------
    ValueError
        No time is left.
    """
    if seconds <= 0:
        raise ValueError("a transfer takes time")
    return size_tb * 1000.0 / seconds


def transfer_s(size_tb: float, gb_s: float) -> float:
    """Time that so many terabytes take [s]: checkpoints, loads at start-up, staging of data sets.

    Raises
    ------
    ValueError
        The speed is zero.
    """
    if gb_s <= 0:
        raise ValueError("a transfer needs a speed above 0 GB/s")
    return size_tb * 1000.0 / gb_s


def checkpoint_overhead(write_s: float, interval_s: float) -> float:
    """Share of time lost to checkpoints that stop training [fraction]: write / (write + interval)."""
    return write_s / (write_s + interval_s) if write_s + interval_s > 0 else 0.0


def checkpoint_store_tb(size_tb: float, kept: int) -> float:
    """Space for the checkpoints that are kept, and the one being written [TB]."""
    return size_tb * (kept + 1)


def load_s(weights_gb: float, readers: int, store_gb_s: float, node_gb_s: float) -> float:
    """Time until `readers` nodes that start together have loaded a model [s].

    Each reads all of it; a node is held back by its own link or by its part of the store, whichever is slower.
    """
    return transfer_s(weights_gb / 1000.0, min(node_gb_s, store_gb_s / max(readers, 1)))


def stream_gb_s(samples_per_s: float, bytes_per_sample: float, read_ahead: float = 1.0) -> float:
    """Read speed that training asks of its data set [GB/s].

    For text a sample is a token (2 or 4 bytes); images and video dominate. `read_ahead` above 1 for shuffling reads.
    """
    return samples_per_s * bytes_per_sample * read_ahead / 1e9


def staging_s(dataset_tb: float, source_gb_s: float, target_gb_s: float, nodes: int = 1, split: bool = False) -> float:
    """Time to copy a data set from its master copy to working copies [s].

    Parameters
    ----------
    source_gb_s : float
        Of the master copy (object store, HDD pool), all readers together [GB/s].
    target_gb_s : float
        Write speed of one node's drives, or of the shared file system with `nodes` = 1 [GB/s].
    split : bool
        Each node keeps its part only; otherwise each keeps all of it.
    """
    each = dataset_tb / nodes if split else dataset_tb
    return transfer_s(each, min(source_gb_s / nodes, target_gb_s))


def arrays_needed(nodes: float, nodes_per_array: float) -> int:
    """Storage arrays (pairs, building blocks) for so many compute nodes."""
    if nodes_per_array <= 0:
        raise ValueError("an array must serve something")
    return math.ceil(nodes / nodes_per_array - 1e-9)
