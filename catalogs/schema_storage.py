"""Schemas of what storage stands in: boxes that take drives, and the systems that are made of boxes and drives."""

from __future__ import annotations

import dataframely as dy
import polars as pl

from catalogs.columns import Sourced, choice, count, flag, positive, share, text

HOLDS = ("nvme", "sata", "hdd")
SYSTEM_KINDS = ("tier", "class", "drives")


class StorageBoxes(Sourced):
    """A box with bays for drives: a storage server, an appliance or a shelf of disks. Price, watts and speed without drives.

    Speeds are the most that a box gives, whatever its drives. What is null is not known: a box without a price or watts is
    in no plan, one without a speed meets no stated one. `verified`: figures were read at the source named.
    """

    box = text(key=True)
    holds = choice(HOLDS)
    rack_units = positive(nullable=False)
    drive_bays = count()
    price_usd = positive()
    power_w = positive()
    read_gb_s = positive()
    write_gb_s = positive()
    network = text(nullable=True)
    ports = count(nullable=True)
    price_basis = text(nullable=True)
    verified = flag()

    @dy.rule()
    def ports_of_a_network(cls) -> pl.Expr:  # noqa: N805
        """Ports are of a network, or there are none."""
        return pl.col("network").is_null() == pl.col("ports").is_null()


class StorageSystems(Sourced):
    """Which boxes and drives a storage system is made of.

    kind tier: `system` is a row of table storage sold by the usable TB; class: all other such rows of that class; drives:
    a pool of its own, bought by the drive. `data_share`: what protection leaves of the drives; `iops_share`: of a drive's
    own operations, of a pool; `boxes_in_price`: the price per TB has the boxes in it already.
    """

    system = text(key=True)
    kind = choice(SYSTEM_KINDS)
    box = text()
    drive = text()
    data_share = share(nullable=False)
    least_drives = count()
    iops_share = share()
    boxes_in_price = flag()

    @dy.rule()
    def pools_pay_boxes(cls) -> pl.Expr:  # noqa: N805
        """A pool is bought by the drive: it pays for its boxes and says what becomes of operations."""
        return (pl.col("kind") != "drives") | (~pl.col("boxes_in_price") & pl.col("iops_share").is_not_null())
