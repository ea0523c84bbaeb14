"""What a front answers: points none of which another beats, each a Result, and near-optimal plans of another kind."""

from __future__ import annotations

from pydantic import Field

from solver.plan import FORMAT_VERSION, Inputs, Part, Result


class FrontPoint(Part):
    """One proved point: its value on every axis (in the axis' shown unit), its plan, what differs from the point before."""

    values: dict[str, float]
    plan: str
    change: str = ""
    result: Result
    figures: dict[str, float] = Field(default_factory=dict, description="power [W] and carbon [kg CO2e] of the plan")


class Near(Part):
    """A plan within the asked slack of the best one that does without something the best one uses."""

    without: tuple[str, ...]
    difference: float = Field(description="relative to the best objective")
    plan: str
    change: str
    result: Result
    figures: dict[str, float] = Field(default_factory=dict, description="power [W] and carbon [kg CO2e] of the plan")


class Marks(Part):
    """One plan's marks. `index` counts the points or the near plans from 0, as `kind` says."""

    rank: int
    kind: str = Field(description="front | near")
    index: int
    score: float
    points: dict[str, float]
    figures: dict[str, float | None]
    plan: str


class Scores(Part):
    """Plans by weighted criteria, best first."""

    rule: str
    weights: dict[str, float]
    units: dict[str, str]
    lower_is_better: tuple[str, ...]
    ranking: tuple[Marks, ...]


class Front(Part):
    """A front. `whole` is True where every non-dominated point is listed, by proof."""

    format_version: str = FORMAT_VERSION
    problem: str
    axes: tuple[str, ...]
    units: dict[str, str]
    points: tuple[FrontPoint, ...]
    whole: bool
    unproved: int = Field(description="searches that ended without proof; points they might have given are missing")
    near: tuple[Near, ...] = ()
    near_slack: float | None = None
    scores: Scores | None = None
    complete: bool
    no_plan_because: tuple[str, ...] = ()
    inputs: Inputs
