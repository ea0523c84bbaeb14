"""Fixtures of the catalogue tests: the default catalogue, overlay folders, the shared facts."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from catalogs.catalog import Catalog
from catalogs.load import load_catalog

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "catalogs" / "data"


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    return load_catalog()


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder of the facts and reference sets; tests that need it are skipped where it is missing."""
    folder = Path(os.environ.get("KITOUT_SHARED", ROOT.parent / "shared"))
    if not (folder / "facts").is_dir():
        pytest.skip("the shared facts are not here")
    return folder


@pytest.fixture
def overlay(tmp_path: Path) -> Callable[..., Path]:
    """Write an overlay folder from table name -> CSV text or bytes."""

    def write(**tables: str | bytes) -> Path:
        folder = tmp_path / "overlay"
        folder.mkdir()
        for name, content in tables.items():
            data = content.encode() if isinstance(content, str) else content
            (folder / f"{name}.csv").write_bytes(data)
        return folder

    return write
