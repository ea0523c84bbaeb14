"""A sound problem file, and ways to see what is said of one that is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from problems.issues import Issue
from problems.load import ProblemError, load_text

HERE = Path(__file__).parent
EXAMPLES = sorted((HERE.parent.parent / "problems").glob("*.yaml"))

GOOD = """\
name: x
horizon: 12mo
workloads:
  - name: chat
    kind: serve
    model: llama-3-70b
    traffic: {rate: 12 req/s, isl: 1000, osl: 300}
    slo: {ttft: 500ms}
sites:
  - {name: room, power: 30kW}
limits:
  budget: {capex: $300k, monthly: $40k/mo}
"""


def issues_of(text: str, *overrides: str) -> list[Issue]:
    with pytest.raises(ProblemError) as caught:
        load_text(text, "p.yaml", overrides)
    return list(caught.value.issues)


def only(text: str, *overrides: str) -> Issue:
    found = issues_of(text, *overrides)
    assert len(found) == 1, [i.message for i in found]
    return found[0]


def swap(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new)
