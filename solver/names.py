"""Names in a problem against the catalogue: each model, accelerator, provider ... that it does not hold."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence

from catalogs.asked import known as known_machine
from catalogs.catalog import Catalog
from catalogs.embedded import HasRows
from catalogs.errors import UnknownName
from catalogs.model_config import ConfigError
from catalogs.model_names import STAND_IN_CONTEXT, is_config, match_model
from catalogs.names import match_accelerators, suggest_accelerators
from problems.issues import Issue
from problems.load import LoadedProblem
from problems.schema import BareModel, Batch, ConfigModel, Fixed, ModelRef, Pick, Serve, TrainingBase

Fault = tuple[str, Exception]


class TooLongError(ValueError):
    """A request that does not fit the model's context."""


def unknown_names(loaded: LoadedProblem, catalog: HasRows) -> list[Issue]:
    """Look every name of a problem up.

    Returns
    -------
    list of Issue
        What is unknown, each at its place in the file; in the order of the problem.
    """
    faults = [*_workloads(loaded, catalog), *_owned(loaded, catalog), *_limits(loaded, catalog)]
    return [loaded.issue(field, str(error)) for field, error in faults]


def _workloads(loaded: LoadedProblem, catalog: HasRows) -> Iterator[Fault]:
    engines = catalog.distinct("engines", "engine")
    for workload in loaded.problem.workloads:
        field = f"workloads.{workload.name}"
        if isinstance(workload, Serve | Batch):
            if workload.model is not None:
                yield from _model(f"{field}.model", workload.model, loaded, catalog)
                yield from _context(field, workload, loaded, catalog)
            yield from _listed([(f"{field}.engine", workload.engine)], engines, "engine")
            measured = [(f"{field}.measured.{i}.accelerator", m.accelerator) for i, m in enumerate(workload.measured)]
            yield from _accelerators(measured, catalog)
        elif isinstance(workload, TrainingBase):
            yield from _model(f"{field}.model", workload.model, loaded, catalog)
        elif isinstance(workload, Fixed):
            asked = workload.accelerator
            if isinstance(asked, str):
                yield from _machines([(f"{field}.accelerator", asked)], catalog)
            elif isinstance(asked, tuple):
                yield from _machines(_items(f"{field}.accelerator", asked), catalog)
            providers = catalog.distinct("offers", "provider")
            yield from _listed(_items(f"{field}.providers", workload.providers or ()), providers, "provider")
        yield from _accelerators(_picked(f"{field}.accelerators", workload.accelerators, loaded), catalog)


def _owned(loaded: LoadedProblem, catalog: HasRows) -> Iterator[Fault]:
    for number, owned in enumerate(loaded.problem.owned):
        yield from _accelerators([(f"owned.{number}.accelerator", owned.accelerator)], catalog)
        if owned.build is not None:
            servers = catalog.distinct("servers", "server")
            yield from _listed([(f"owned.{number}.build", owned.build)], servers, "server")


def _limits(loaded: LoadedProblem, catalog: HasRows) -> Iterator[Fault]:
    limits = loaded.problem.limits
    yield from _accelerators(_picked("limits.accelerators", limits.accelerators, loaded), catalog)
    for kind, pick, table in (
        ("provider", limits.providers, "offers"),
        ("vendor", limits.vendors, "accelerators"),
        ("region", limits.regions, "offers"),
    ):
        if pick is not None:
            yield from _listed(_picked(f"limits.{kind}s", pick, loaded), catalog.distinct(table, kind), kind)
    if not limits.quota:
        return
    offers = catalog.rows("offers", "offer", "offer_id", "provider")
    quotable = {name for offer, offer_id, of in offers for name in (offer, offer_id, f"{of}/{offer}")}
    for number, quota in enumerate(limits.quota):
        if quota.offer not in quotable:
            near = difflib.get_close_matches(quota.offer, sorted(quotable), n=3, cutoff=0.6)
            yield f"limits.quota.{number}.offer", UnknownName(quota.offer, "offer", near)


def _items(field: str, names: Sequence[str]) -> list[tuple[str, str]]:
    """Names of a list, each with its own field."""
    return [(f"{field}.{number}", name) for number, name in enumerate(names)]


def _picked(field: str, pick: Pick | None, loaded: LoadedProblem) -> list[tuple[str, str]]:
    """Names of an allow or deny list, which may be written as a plain list of what is allowed."""
    if pick is None:
        return []
    allow = f"{field}.allow" if loaded.given(f"{field}.allow") else field
    return _items(allow, pick.allow or ()) + _items(f"{field}.deny", pick.deny)


def _model(field: str, ref: ModelRef, loaded: LoadedProblem, catalog: HasRows) -> Iterator[Fault]:
    try:
        _max_context(ref, loaded, catalog)
    except (UnknownName, ConfigError) as error:
        yield field, error


def _max_context(ref: ModelRef, loaded: LoadedProblem, catalog: HasRows) -> float | None:
    """Longest context of a model [tokens], None where none is known; raises what is wrong with the reference."""
    if isinstance(ref, BareModel):
        return STAND_IN_CONTEXT
    if isinstance(ref, ConfigModel) or is_config(ref):
        # The reader of a config counts parameters in frames; names alone are looked up without.
        from catalogs.load import load_catalog
        from catalogs.models import resolve_model

        whole = catalog if isinstance(catalog, Catalog) else load_catalog()
        limit: float | None = resolve_model(whole, ref, loaded.base_dir)["max_context"]
        return limit
    contexts: dict[str, float | None] = dict(catalog.rows("models", "model", "max_context"))
    return contexts[match_model(catalog, ref)]


def _context(field: str, work: Serve | Batch, loaded: LoadedProblem, catalog: HasRows) -> Iterator[Fault]:
    """Requests longer than the model's context."""
    try:
        assert work.model is not None
        limit = _max_context(work.model, loaded, catalog)
    except (UnknownName, ConfigError):
        return
    if not limit:
        return
    if isinstance(work, Batch):
        sizes, context, place = [(work.isl, work.osl)], None, field
    else:
        sizes, context, place = [(b.isl, b.osl) for b in work.traffic.buckets], work.context, f"{field}.traffic"
    longest = max(isl + osl for isl, osl in sizes)
    if longest > limit:
        yield (
            place,
            TooLongError(f"a request of {longest:,.0f} tokens is longer than the model's context of {limit:,.0f}"),
        )
    if context is not None and context > limit:
        yield (
            f"{field}.context",
            TooLongError(f"{context:,.0f} tokens are more than the model's context of {limit:,.0f}"),
        )


def _accelerators(names: Iterable[tuple[str, str]], catalog: HasRows) -> Iterator[Fault]:
    for field, name in names:
        if not match_accelerators(catalog, name):
            yield field, UnknownName(name, "accelerator", suggest_accelerators(catalog, name))


def _machines(names: Iterable[tuple[str, str]], catalog: HasRows) -> Iterator[Fault]:
    """Names of a fixed workload may be those of a price list too, with a count, or none."""
    for field, name in names:
        if not known_machine(catalog, name):
            yield field, UnknownName(name, "accelerator", suggest_accelerators(catalog, name))


def _listed(names: Iterable[tuple[str, str]], known: Iterable[str], kind: str) -> Iterator[Fault]:
    spelt = {name.lower(): name for name in known}
    for field, name in names:
        if name.lower() not in spelt:
            near = difflib.get_close_matches(name.lower(), list(spelt), n=3, cutoff=0.6)
            yield field, UnknownName(name, kind, [spelt[match] for match in near])
