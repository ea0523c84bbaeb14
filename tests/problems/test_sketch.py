"""The problem file that the design page shows, whole: its names are binding."""

from __future__ import annotations

from pathlib import Path

import pytest

from problems.load import ProblemError, load_problem
from problems.schema import Fixed, Serve

SKETCH = Path(__file__).with_name("design_sketch.yaml")


def test_every_name_of_the_sketch_is_read() -> None:
    problem = load_problem(SKETCH).problem
    chat, tune, lab = problem.workloads
    assert isinstance(chat, Serve)
    assert chat.traffic.growth == 0
    assert tune.kind == "finetune"
    assert isinstance(lab, Fixed)
    assert lab.spot
    assert problem.owned[0].count == 4
    assert problem.policy.spot_share == 0.5


@pytest.mark.parametrize(
    ("override", "said"),
    [("owned.0.may_sell=true", "needs resale")],
)
def test_what_is_not_planned_for_yet_is_refused_not_ignored(override: str, said: str) -> None:
    with pytest.raises(ProblemError, match=said):
        load_problem(SKETCH, [override])
