"""Settings of all tests: hypothesis judges results, never the speed of a shared machine.

Examples are the same in every run, so that a change is judged and not the luck of the draw; KITOUT_EXPLORE=1 draws new
ones, many more of them.
"""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest
from hypothesis import settings

from tests.commands import SOUND

# Each of several test processes has a core of its own; threads of polars beside them only wait for one another.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("POLARS_MAX_THREADS", "1")

settings.register_profile("kitout", deadline=None, max_examples=25, derandomize=True, database=None)
settings.register_profile("explore", deadline=None, max_examples=300)
settings.load_profile("explore" if os.environ.get("KITOUT_EXPLORE") else "kitout")


def pytest_collection_finish() -> None:
    """Modules and collected tests stay to the end: the garbage collector need not look at them again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, with one sound problem."""
    monkeypatch.chdir(tmp_path)
    for name in ("LC_ALL", "LC_MESSAGES", "LANG", "COLUMNS", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "wanted.yaml").write_text(SOUND)
    return tmp_path
