"""Names of the choices of data: the gear that says where a class lies, and what is paid for its leaving a place."""

from __future__ import annotations

from solver.candidates.storage_needs import DataNeed
from solver.candidates.storage_tiers import Tier


def work_key(need: DataNeed, tier: Tier) -> str:
    """Name of the choice that a class lies on a tier, to be worked on."""
    return f"data {need.key} on {tier.key}"


def master_key(need: DataNeed, tier: Tier) -> str:
    """Name of the choice that its master copy does."""
    return f"data {need.key} master on {tier.key}"


def drives_key(need: DataNeed, place: str) -> str:
    """Name of the choice that its working copy is on the drives of the nodes at a place."""
    return f"data {need.key} on nodes at {place}"


def egress_key(need: DataNeed, sender: str, receiver: str) -> str:
    """Name of what is paid for its leaving a place."""
    return f"egress {need.key} from {sender} to {receiver}"


def master_egress_key(need: DataNeed, sender: str) -> str:
    """Name of what is paid for the staging of a master copy elsewhere."""
    return f"egress {need.key} master from {sender}"


def rent_key(need: DataNeed, place: str) -> str:
    """Name of what hired nodes cost while their drives are filled."""
    return f"staging {need.key} on nodes at {place}"


def boxes_key(tier: Tier) -> str:
    """Name of the boxes that a tier of an own site stands in."""
    return f"boxes of {tier.key}"
