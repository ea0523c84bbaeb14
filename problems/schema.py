"""What is wanted: the problem file as pydantic models.

Every quantity is parsed by `problems.units` into a number in the unit that the docstring names, so nothing
behind this module ever sees text such as ``"3kW"``; saved as JSON it is text again and reads back as the same
problem. Defaults stand here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from pydantic import Field

from problems import units
from problems.base import Fault, Strict
from problems.data import DataClass as DataClass
from problems.data import KeptData as KeptData
from problems.leases import Lease as Lease
from problems.picks import Pick as Pick
from problems.policy import Budget as Budget
from problems.policy import Limits as Limits
from problems.policy import Policy as Policy
from problems.policy import Quota as Quota
from problems.policy import RuleSetting as RuleSetting
from problems.sites import Owned as Owned
from problems.sites import Site as Site
from problems.tco import Tco as Tco
from problems.tender import Tender as Tender
from problems.terms import Billing as Billing
from problems.terms import Calendar as Calendar
from problems.terms import Confidence as Confidence
from problems.terms import Criterion as Criterion
from problems.terms import Currency as Currency
from problems.terms import Deployment as Deployment
from problems.terms import Isolation as Isolation
from problems.terms import KvPrecision as KvPrecision
from problems.terms import Objective as Objective
from problems.terms import Percentile as Percentile
from problems.terms import RuleName as RuleName
from problems.terms import Severity as Severity
from problems.terms import WeightPrecision as WeightPrecision
from problems.traffic import MeasuredRate as MeasuredRate
from problems.traffic import SizeBucket as SizeBucket
from problems.traffic import Slo as Slo
from problems.traffic import Traffic as Traffic
from problems.traffic import Users as Users
from problems.weights import weight_faults, weights_of
from problems.workloads import AcceleratorChoice as AcceleratorChoice
from problems.workloads import AcceleratorNeed as AcceleratorNeed
from problems.workloads import BareModel as BareModel
from problems.workloads import Batch as Batch
from problems.workloads import ConfigModel as ConfigModel
from problems.workloads import Finetune as Finetune
from problems.workloads import Fixed as Fixed
from problems.workloads import ModelRef as ModelRef
from problems.workloads import Pretrain as Pretrain
from problems.workloads import Serve as Serve
from problems.workloads import TrainingBase as TrainingBase
from problems.workloads import Workload as Workload
from problems.workloads import WorkloadBase as WorkloadBase


def _all(given: Mapping[str, Any], key: str, part: str) -> list[str]:
    """`part` of every item of the list `key`, as text; unreadable ones get names of their own."""
    items = given.get(key)
    texts: list[str] = []
    for item in items if isinstance(items, list | tuple) else ():
        value = item.get(part) if isinstance(item, dict) else getattr(item, part, None)
        texts.append(value.strip() if isinstance(value, str) else "\0" * bool(part == "name") * (len(texts) + 1))
    return texts


def _order_faults(given: Mapping[str, Any]) -> Iterator[Fault]:
    """Jobs that others wait for exist, are jobs, and do not wait for one another in a circle."""
    items = given.get("workloads")
    items = items if isinstance(items, list | tuple) else ()

    def part(item: object, key: str) -> Any:
        return item.get(key) if isinstance(item, dict) else getattr(item, key, None)

    kinds = {str(part(i, "name")): part(i, "kind") for i in items}
    waits: dict[str, list[str]] = {}
    for index, item in enumerate(items):
        after = part(item, "after") or ()
        names = (
            [after] if isinstance(after, str) else [str(a) for a in after] if isinstance(after, list | tuple) else []
        )
        waits[str(part(item, "name"))] = names
        for name in names:
            if name not in kinds:
                near = get_close_matches(name, list(kinds), n=1)
                known = f"did you mean {near[0]}?" if near else f"workloads: {', '.join(kinds)}"
                yield ("workloads", index, "after"), f"waits for unknown workload {name}; {known}"
            elif kinds[name] in ("serve", "fixed"):
                yield ("workloads", index, "after"), f"waits for {name}, which is no job that ends (kind {kinds[name]})"
    for index, item in enumerate(items):
        start = str(part(item, "name"))
        reached, left = set(), list(waits.get(start, ()))
        while left:
            name = left.pop()
            if name not in reached:
                reached.add(name)
                left += waits.get(name, ())
        if start in reached:
            yield ("workloads", index, "after"), f"{start} waits for itself"


class Problem(Strict):
    """A whole problem file."""

    name: str | None = None
    horizon: units.Months = Field(default=12.0, gt=0, le=240, examples=["12mo"])
    objective: Objective = "cost"
    currency: Currency = "USD"
    gap: units.Ratio = Field(default=0.005, ge=0, le=1)
    time_limit: units.Seconds = Field(default=60.0, gt=0)
    workloads: tuple[Workload, ...] = Field(min_length=1)
    sites: tuple[Site, ...] = ()
    owned: tuple[Owned, ...] = ()
    data: tuple[KeptData, ...] = ()
    leases: tuple[Lease, ...] = ()
    limits: Limits = Limits.model_construct()
    policy: Policy = Policy.model_construct()
    tco: Tco = Tco.model_construct()
    tender: Tender | None = None

    @classmethod
    def _faults(cls, given: Mapping[str, Any]) -> Iterator[Fault]:
        for key, what in (("workloads", "workload"), ("sites", "site")):
            seen: set[str] = set()
            for index, name in enumerate(_all(given, key, "name")):
                if name in seen:
                    yield (key, index, "name"), f"two {what}s are called {name}"
                seen |= {name}
        yield from _order_faults(given)
        sites = _all(given, "sites", "name")
        for index, site in enumerate(_all(given, "owned", "site")):
            if site and site not in sites:
                near = get_close_matches(site, sites, n=1)
                known = f"did you mean {near[0]}?" if near else f"sites: {', '.join(sites) or 'none'}"
                yield ("owned", index, "site"), f"owned machines stand at unknown site {site}; {known}"
        for index, site in enumerate(_all(given, "data", "site")):
            if site and site not in sites:
                yield ("data", index, "site"), f"data at unknown site {site}; sites: {', '.join(sites) or 'none'}"
        yield from weight_faults(given)
        policy = given.get("policy")
        kept = policy.get("keep_unless_saves") if isinstance(policy, Mapping) else None
        if kept is not None and given.get("objective") not in (None, "cost"):
            yield ("policy", "keep_unless_saves"), "is a share of costs: it goes with objective cost only"

    @property
    def weighed(self) -> bool:
        """Whether workloads may be left out: some workload has a priority, a value or a least share."""
        return any(weights_of(w) for w in self.workloads)

    @property
    def billing_modes(self) -> frozenset[Billing]:
        """Billing modes that a plan may use; spot only where asked for, by policy or by a workload."""
        if self.policy.billing is not None:
            return frozenset(self.policy.billing)
        modes: set[Billing] = {"on_demand", "reserved", "subscription", "capacity_block", "purchase", "owned"}
        modes.add("compute_unit")
        if any(isinstance(w, Fixed) and w.spot for w in self.workloads):
            modes.add("spot")
        return frozenset(modes)
