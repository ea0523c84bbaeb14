"""Progress of work that is many searches: points done, of how many, what the last one said, time left."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import TextIO, TypeVar

from solver.report import forms
from solver.report.progress import Progress, watch

T = TypeVar("T")
Tell = Callable[[int, int, str], None]


class Steps(Progress):
    """On a terminal one live line; elsewhere a line at each point, at most one a second; nothing if `quiet`."""

    def __init__(self, stream: TextIO, quiet: bool) -> None:
        super().__init__(stream, quiet, str)
        self._step = (0, 0, "")

    def tell(self, done: int, of: int, said: str) -> None:
        """Take one step in; called from the thread that works."""
        with self._lock:
            self._better |= (done, of, said) != self._step
            self._step = (done, of, said)

    def line(self, seconds: float) -> str:
        """One line on how far the work is."""
        done, of, said = self._step
        parts = [forms.seconds(seconds), f"{done} of {of} points" if of else f"{done} points" if done else "working"]
        return "  ".join([*parts, said] if said else parts)


def stepwise(work: Callable[[Tell, threading.Event], T], quiet: bool) -> T:
    """Run `work` with a listener and a flag that Ctrl-C sets; see `solver.report.progress.watch`."""
    shown = Steps(sys.stderr, quiet)
    return watch(lambda _on_event, stop: work(shown.tell, stop), shown)
