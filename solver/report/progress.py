"""What is seen while a search runs. The first Ctrl-C stops it and keeps the best plan, the second aborts."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Generic, TextIO, TypeVar

from rich.console import Console
from rich.live import Live
from rich.text import Text

from solver.events import Event, OnEvent
from solver.report import forms

EVERY_S = 10.0
TICK_S = 0.1
ABORTED = 130

T = TypeVar("T")


class Progress:
    """Keep the latest state of a search and show it on `stream`.

    On a terminal one live line; elsewhere a line at each better plan and every 10 s; nothing if `quiet`.
    """

    def __init__(self, stream: TextIO, quiet: bool, write: Callable[[float], str]) -> None:
        self._stream = stream
        self._quiet = quiet
        self._write = write
        self._lock = threading.Lock()
        self._state = Event("candidates", 0.0)
        self._better = False
        self._began = self._said = time.monotonic()
        self._live: Live | None = None

    def on_event(self, event: Event) -> None:
        """Take one event in; called from the thread that searches."""
        with self._lock:
            old = self._state
            self._better |= event.best is not None and event.best != old.best
            self._state = Event(
                event.kind,
                event.seconds,
                old.best if event.best is None else event.best,
                old.bound if event.bound is None else event.bound,
                old.gap if event.gap is None else event.gap,
                old.candidates if event.candidates is None else event.candidates,
            )

    def line(self, seconds: float) -> str:
        """One line on where the search stands after `seconds`."""
        with self._lock:
            state = self._state
        said = [forms.seconds(seconds)]
        said += [f"best {self._write(state.best)}"] if state.best is not None else ["no plan yet"]
        said += [f"bound {self._write(state.bound)}"] if state.bound is not None else []
        # A bound of nothing and less says nothing of the best plan.
        said += [f"gap {forms.share(state.gap)}"] if state.gap is not None and state.gap < 1 else []
        said += [f"{state.candidates:,} candidates"] if state.candidates is not None else []
        return "  ".join(said)

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show the live line, where there is a terminal, for as long as the block runs."""
        if self._quiet or not self._stream.isatty():
            yield
            return
        console = Console(file=self._stream, highlight=False, markup=False)
        with Live(Text(""), console=console, transient=True, auto_refresh=False) as live:
            self._live = live
            try:
                yield
            finally:
                self._live = None

    def tick(self) -> None:
        """Bring the display up to date; called from the main thread."""
        if self._quiet:
            return
        now = time.monotonic()
        text = self.line(now - self._began)
        if self._live is not None:
            self._live.update(Text(f"{text}  Ctrl-C keeps best"), refresh=True)
            return
        with self._lock:
            better, self._better = self._better, False
        if better or now - self._said >= EVERY_S:
            self._said = now
            print(text, file=self._stream, flush=True)


class _Outcome(Generic[T]):
    """What a thread came back with."""

    value: T
    error: BaseException | None = None


def watch(work: Callable[[OnEvent, threading.Event], T], progress: Progress) -> T:
    """Run `work` in a thread of its own and show its progress.

    The main thread stays free for signals: the solver runs outside Python and would hold them back.

    Parameters
    ----------
    work
        Called with a listener and a flag; it is to stop soon after the flag is set, with the best it has.
    progress
        Where to show how it goes.

    Returns
    -------
    What `work` returned; what it raised is raised here.
    """
    stop = threading.Event()
    outcome: _Outcome[T] = _Outcome()

    def run() -> None:
        try:
            outcome.value = work(progress.on_event, stop)
        except BaseException as error:
            outcome.error = error

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            # The solver cannot be unwound from here; nothing is half written, so leave at once.
            os.write(sys.stderr.fileno(), b"\nAborted.\n")
            os._exit(ABORTED)
        stop.set()

    thread = threading.Thread(target=run, daemon=True, name="search")
    main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, interrupt) if main else None
    try:
        with progress.shown():
            thread.start()
            while thread.is_alive():
                thread.join(TICK_S)
                progress.tick()
        progress.tick()
    finally:
        if main:
            signal.signal(signal.SIGINT, before)
    if outcome.error is not None:
        raise outcome.error
    return outcome.value
