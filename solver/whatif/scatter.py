"""Many searches over processes or a cluster, through joblib; what a process learns of a study it keeps.

A task carries the study once more (a megabyte), so it runs wherever the scheduler puts it; a process unpacks each study only
once and then keeps its compiled features.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import threading
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from solver.plan import Result
from solver.whatif.implied import Known, at_limits, follows, used
from solver.whatif.study import Study, number_at
from solver.whatif.vary import BadRequest, Scenario

CHUNK = 16
"""Scenarios per task where they do not follow from one another."""


@dataclass(frozen=True)
class Line:
    """Scenarios searched one after another by one process, loosest limits first; `limits` are the fields that imply."""

    number: int
    scenarios: tuple[tuple[int, Scenario], ...]
    limits: tuple[str, ...] = ()
    known: tuple[tuple[Scenario, str], ...] = field(default=())


@dataclass(frozen=True)
class Row:
    """One answer: number and hash of its scenario, whether it was implied, the Result as JSON."""

    number: int
    key: str
    implied: bool
    result: str


@lru_cache(maxsize=2)
def _study(payload: bytes) -> Study:
    found = pickle.loads(payload)
    assert isinstance(found, Study)
    return found


def run_line(study: Study, line: Line, stop: threading.Event | None = None) -> list[Row]:
    """Answers of a line of scenarios, in the order searched."""
    known: list[Known] = []
    if line.limits:
        known = [_known(study, s, line.limits, Result.model_validate_json(text)) for s, text in line.known]
    rows = []
    for number, scenario in line.scenarios:
        if stop is not None and stop.is_set():
            break
        loaded, catalog = study.at(scenario)
        at = {f: number_at(loaded, f) for f in line.limits}
        limits = {f: v for f, v in at.items() if v is not None}
        result = follows(limits, known) if line.limits and len(limits) == len(at) else None
        implied = result is not None
        if result is None:
            result = study.solve_loaded(loaded, catalog, stop)
            if stop is not None and stop.is_set():
                break
            if len(limits) == len(at):
                known.append(_known(study, scenario, line.limits, result))
        else:
            result = at_limits(result, limits, loaded.sha256)
        rows.append(Row(number, study.key(scenario), implied, result.model_dump_json()))
    return rows


def _known(study: Study, scenario: Scenario, fields: Sequence[str], result: Result) -> Known:
    loaded, catalog = study.at(scenario)
    limits = {f: v for f in fields if (v := number_at(loaded, f)) is not None}
    uses = {f: u for f in fields if (u := used(result, f, catalog)) is not None}
    return Known(limits, uses, result)


def _task(payload: bytes, parent: int, line: Line) -> list[Row]:
    if os.getpid() != parent and threading.current_thread() is threading.main_thread():
        # Ctrl-C is for the process that collects the answers; a worker finishes its task or is ended by it.
        with contextlib.suppress(ValueError):
            signal.signal(signal.SIGINT, signal.SIG_IGN)
    return run_line(_study(payload), line)


def scattered(
    study: Study, lines: Sequence[Line], workers: int, cluster: str | None, stop: threading.Event
) -> Iterator[list[Row]]:
    """Rows of the lines as they come, from this process (one worker), processes on this machine, or a cluster.

    Parameters
    ----------
    workers
        Processes; 1 stays in this one.
    cluster
        ``dask://HOST:PORT`` (a running scheduler) or ``ray`` (a running or new Ray); overrides `workers`.

    Raises
    ------
    BadRequest
        For a cluster whose package is not installed or that cannot be reached.
    """
    if cluster is None and (workers <= 1 or len(lines) <= 1):
        for line in lines:
            if stop.is_set():
                return
            yield run_line(study, line, stop)
        return
    from joblib import Parallel, delayed

    payload = pickle.dumps(study)
    tasks = [delayed(_task)(payload, os.getpid(), line) for line in lines]
    with warnings.catch_warnings(), _backend(cluster) as ordered:
        # Ending early, by Ctrl-C or an error, is no news to the user.
        warnings.filterwarnings("ignore", message=".*(still being processed|worker stopped).*")
        if ordered:
            step = 8
            for start in range(0, len(tasks), step):
                if stop.is_set():
                    return
                yield from Parallel(n_jobs=-1)(tasks[start : start + step])
            return
        jobs = -1 if cluster else workers
        found = Parallel(n_jobs=jobs, return_as="generator_unordered", pre_dispatch="3*n_jobs", batch_size=1)(tasks)
        try:
            for rows in found:
                yield rows
                if stop.is_set():
                    return
        finally:
            found.close()


@contextlib.contextmanager
def _backend(cluster: str | None) -> Iterator[bool]:
    """The joblib backend; True where it cannot hand answers over as they come (Ray)."""
    from joblib import parallel_config

    if cluster is None:
        with _one_thread_each(), parallel_config(backend="loky"):
            yield False
    elif cluster.startswith("dask://"):
        try:
            from distributed import Client
        except ImportError:
            raise BadRequest("--cluster dask://..: install kitout with its cluster extra (dask[distributed])") from None
        try:
            client = Client(cluster.replace("dask://", "tcp://", 1), timeout=10)
        except (OSError, TimeoutError, ValueError) as error:
            raise BadRequest(f"--cluster {cluster}: cannot be reached ({error})") from None
        with client, parallel_config(backend="dask"):
            yield False
    elif cluster == "ray" or cluster.startswith("ray://"):
        try:
            import ray
            from ray.util.joblib import register_ray
        except ImportError:
            raise BadRequest("--cluster ray: install ray beside kitout") from None
        if not ray.is_initialized():
            ray.init(None if cluster == "ray" else cluster, log_to_driver=False)
        register_ray()
        with parallel_config(backend="ray"):
            yield True
    else:
        raise BadRequest(f"--cluster {cluster}: write dask://HOST:PORT or ray")


@contextlib.contextmanager
def _one_thread_each() -> Iterator[None]:
    """New processes get one polars thread each: there are as many processes as cores."""
    name = "POLARS_MAX_THREADS"
    before = os.environ.get(name)
    os.environ[name] = before or "1"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(name, None)
