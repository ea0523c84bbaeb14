"""Billing modes that a problem leaves to choose, and the candidates under each of them alone; what is owned or leased stays."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence

from solver.candidates import Candidates, reduced
from solver.candidates.exclude import excluding
from solver.candidates.leases import lease_number


def modes_of(found: Candidates) -> list[str]:
    """Billing modes that something could be had under; what is owned or leased already is there in any case."""
    modes = set(found.capacity["billing"]) if found.capacity.height else set()
    if found.options.height:
        modes |= set(found.options["billing"]) - {"held"}
    return sorted(mode for mode in modes - {"owned"} if lease_number(mode) is None)


def each_alone(
    found: Candidates, modes: Sequence[str], time_s: float, stop: threading.Event | None, later: int = 0
) -> Iterator[tuple[str, Candidates, float]]:
    """Each mode with its candidates and its share of the time [s]; `later` searches after these have a share too."""
    deadline = time.monotonic() + time_s
    for number, mode in enumerate(modes):
        if stop is not None and stop.is_set():
            return
        small = reduced(excluding(found, frozenset(("billing", m) for m in modes if m != mode)), within_watts=True)
        yield mode, small, (deadline - time.monotonic()) / (len(modes) + later - number)
