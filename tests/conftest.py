"""Settings of all tests: hypothesis judges results, never the speed of a shared machine."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("kitout", deadline=None, max_examples=25)
settings.load_profile("kitout")
