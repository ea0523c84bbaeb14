"""What a problem asks for, field by field, and the same problem without some of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import BaseModel

from problems.load import LoadedProblem
from problems.schema import Fixed, Problem, Serve, Workload

FILTERS = (
    "limits.countries",
    "limits.regions",
    "limits.providers",
    "limits.deployment",
    "limits.start_within",
    "limits.isolation",
    "limits.operations",
    "limits.accelerators",
    "limits.vendors",
    "limits.compliance",
    "policy.billing",
    "policy.min_confidence",
    "policy.gpu_power_limit",
    "policy.spot_share",
)
OF_WORK = (
    "countries",
    "compliance",
    "accelerators",
    "slo.ttft",
    "slo.tpot",
    "redundancy",
    "availability",
    "spread",
    "deadline",
    "network",
)
COUNTED = ("limits.power", "limits.budget.capex", "limits.budget.monthly", "limits.budget.total")
IN_ROOM = ("racks", "circuits")
"""Parts of a site that limit what stands there, beside watts."""
_QUOTA = re.compile(r"^limits\.quota\[(\d+)\]$")


def load_field(work: Workload) -> str:
    """Path below the workload of what says how much work there is."""
    if isinstance(work, Serve):
        traffic = work.traffic
        if traffic.rate is not None:
            return "traffic.rate"
        return "traffic.concurrency" if traffic.concurrency is not None else "traffic.users.total"
    if isinstance(work, Fixed):
        return "count"
    return "requests" if work.kind == "batch" else "tokens"


def asked_fields(problem: Problem) -> list[str]:
    """Every field that takes plans away: filters first, then watts and money, the workloads last."""
    out = [path for path in FILTERS if _differs(problem, path)]
    for work in problem.workloads:
        for part in OF_WORK:
            if _differs(work, part):
                out.append(f"workloads.{work.name}.{part}")
    out += [f"limits.quota[{n}]" for n in range(len(problem.limits.quota))]
    for site in problem.sites:
        out += [f"sites.{site.name}.{part}" for part in ("power", "it_power", *IN_ROOM) if getattr(site, part)]
    out += [path for path in COUNTED if _get(problem, path) is not None]
    out += [f"workloads.{work.name}.{load_field(work)}" for work in problem.workloads]
    return out


def is_counted(path: str) -> bool:
    """Whether the limit stands in the integers as watts, money, racks or circuits, so that no candidate depends on it."""
    return path in COUNTED or path.startswith("sites.")


def in_room(path: str) -> bool:
    """Whether the field counts racks or circuits of a site."""
    return path.startswith("sites.") and path.endswith(IN_ROOM)


def is_load(problem: Problem, path: str) -> bool:
    """Whether the field says how much work a workload is."""
    return any(path == f"workloads.{w.name}.{load_field(w)}" for w in problem.workloads)


def _get(node: Any, path: str) -> Any:
    for part in path.split("."):
        node = getattr(node, part, None)
        if node is None:
            return None
    return node


def _differs(node: BaseModel, path: str) -> bool:
    """Whether a field holds something else than what asks for nothing."""
    head, _, rest = path.partition(".")
    if head not in type(node).model_fields:
        return False
    value = getattr(node, head)
    if rest:
        return isinstance(value, BaseModel) and _differs(value, rest)
    return value is not None and value != type(node).model_fields[head].get_default(call_default_factory=True)


def _cleared(node: BaseModel, path: str) -> BaseModel:
    head, _, rest = path.partition(".")
    if rest:
        return node.model_copy(update={head: _cleared(getattr(node, head), rest)})
    empty = type(node).model_fields[head].get_default(call_default_factory=True)
    return node.model_copy(update={head: empty})


def without_fields(problem: Problem, paths: Iterable[str]) -> Problem:
    """The problem with these fields asking for nothing; a workload whose load is among them is left out."""
    gone = set(paths)
    quotas: set[int] = set()
    for path in sorted(gone):
        quota = _QUOTA.match(path)
        if quota:
            quotas.add(int(quota.group(1)))
        elif path.startswith("workloads."):
            problem = _work_without(problem, path)
        elif path.startswith("sites."):
            _, name, part = path.split(".")
            sites = tuple(
                s.model_copy(update={part: () if part == "circuits" else None}) if s.name == name else s
                for s in problem.sites
            )
            problem = problem.model_copy(update={"sites": sites})
        else:
            cleared = _cleared(problem, path)
            assert isinstance(cleared, Problem)
            problem = cleared
    if quotas:
        kept = tuple(q for n, q in enumerate(problem.limits.quota) if n not in quotas)
        problem = problem.model_copy(update={"limits": problem.limits.model_copy(update={"quota": kept})})
    return problem


def _work_without(problem: Problem, path: str) -> Problem:
    def changed() -> Iterator[Workload]:
        for work in problem.workloads:
            below = path.removeprefix(f"workloads.{work.name}.")
            if below == path:
                yield work
            elif below != load_field(work):
                yield _cleared(work, below)  # type: ignore[misc]

    return problem.model_copy(update={"workloads": tuple(changed())})


def value_text(loaded: LoadedProblem, path: str) -> str:
    """What the problem says at a path, as one would write it."""
    data: Any = loaded.problem.model_dump(mode="json")
    quota = _QUOTA.match(path)
    if quota:
        entry = data["limits"]["quota"][int(quota.group(1))]
        return f"at most {entry['max']} x {entry['offer']}"
    for part in path.split("."):
        if isinstance(data, list):
            data = next((x for x in data if x.get("name") == part), None)
        else:
            data = None if data is None else data.get(part)
    if isinstance(data, dict):
        return ", ".join(f"{k} {_listed(v)}" for k, v in data.items() if v not in (None, [], ()))
    return _listed(data)


def _listed(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
