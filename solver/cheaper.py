"""A plan that is better than the one that others are held against: where a proof is missing, a comparison may come upon one."""

from __future__ import annotations

from dataclasses import dataclass, replace

from solver.candidates import Candidates
from solver.plan import Status, StopReason
from solver.scaling import Scaled
from solver.search import Found, relative_gap


@dataclass
class Cheaper:
    """The best plan that comparisons found below an objective, with the candidates and integers that its values speak of."""

    objective: float
    small: Candidates | None = None
    scaled: Scaled | None = None
    found: Found | None = None

    def offer(self, small: Candidates, scaled: Scaled, found: Found) -> None:
        """Keep a plan that is better than the best one known."""
        if found.values is not None and found.objective is not None and found.objective < self.objective:
            self.objective, self.small, self.scaled, self.found = found.objective, small, scaled, found


def in_its_place(better: Found, before: Found, gap: float) -> Found:
    """What is known of all plans once a better one was found: its objective, under the bound that the search had."""
    assert better.objective is not None
    bound = None if before.bound is None else min(before.bound, float(better.objective))
    left = relative_gap(better.objective, bound)
    why, status = before.stop_reason, Status.FEASIBLE
    if left == 0.0:
        why, status = StopReason.PROVED, Status.OPTIMAL
    elif left is not None and left <= gap and why is not StopReason.INTERRUPTED:
        why = StopReason.GAP_REACHED
    return replace(better, status=status, stop_reason=why, bound=bound, wall_s=before.wall_s, first_s=before.first_s)
