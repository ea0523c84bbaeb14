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


class Near(Part):
    """A plan within the asked slack of the best one that does without something the best one uses."""

    without: tuple[str, ...]
    difference: float = Field(description="relative to the best objective")
    plan: str
    change: str
    result: Result


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
    complete: bool
    no_plan_because: tuple[str, ...] = ()
    inputs: Inputs
