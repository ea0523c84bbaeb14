"""What a plan gains by mixing billing modes and accelerators, and by sharing machines over time, as lines."""

from __future__ import annotations

from collections.abc import Iterator

from solver.plan import Alone, Result, SingleType
from solver.report import forms
from solver.report.messages import Messages


def alone_lines(result: Result, t: Messages) -> Iterator[tuple[str, str]]:
    """One line each, where the plan mixes billing modes or types of accelerator, or shares machines over time."""
    if result.single_modes:
        yield t("One mode"), modes_text(result, t)
    if result.single_type is not None:
        yield t("One type"), _type_text(result.single_type, result, t)
    if result.unshared is not None:
        yield t("Shared"), _shared(result.unshared, result, t)


def mode_name(billing: str) -> str:
    """A billing mode as people say it."""
    return billing.replace("_", " ")


def modes_text(result: Result, t: Messages) -> str:
    """The best single billing mode and by how much the plan beats it; then the others."""
    best, *others = result.single_modes
    sure = all(x.proved for x in result.single_modes)
    if best.total is None:
        said = [
            t("No single billing mode serves it all") if sure else t("No single billing mode was found to serve it all")
        ]
        others = list(result.single_modes)
    else:
        name = mode_name(best.billing)
        if best.saving:
            said = [t("Beats the best single billing mode ({mode}) by {share}", mode=name, share=_share(best))]
        elif best.proved:
            said = [t("The best single billing mode ({mode}) costs as little", mode=name)]
        else:
            said = [t("Best found with a single billing mode ({mode})", mode=name)]
        said[0] += f": {_total(best, result)}" + ("" if sure else f" ({t('best found, not proved')})")
    said += [f"{mode_name(x.billing)} {_total(x, result) if x.total is not None else x.because}" for x in others]
    return "; ".join(said)


def _type_text(best: SingleType, result: Result, t: Messages) -> str:
    """The cheapest plan of one type of accelerator and by how much the plan beats it."""
    if best.total is None:
        if not best.proved:
            return t("One type of accelerator alone: none was found to serve it all in its share of the time")
        return t(
            "No type of accelerator alone {can}", can=t("keeps the limits" if best.types else "can do all the work")
        )
    name = best.accelerator or ""
    if best.saving:
        said = t("Beats the best single type of accelerator ({name}) by {share}", name=name, share=_share(best))
    elif best.proved:
        said = t("The best single type of accelerator ({name}) costs as little", name=name)
    else:
        said = t("Best found with a single type of accelerator ({name})", name=name)
    of = [t("of {n} that can do all the work", n=best.types)] if best.types > 1 else []
    of += [] if best.proved else [t("best found, not proved")]
    return f"{said}: {_total(best, result)}" + (f" ({'; '.join(of)})" if of else "")


def _shared(other: Alone, result: Result, t: Messages) -> str:
    if other.total is None:
        if not other.proved:
            return t("Without sharing machines over time no plan was found in its share of the time")
        because = f" ({other.because})" if other.because else ""
        return t("Without sharing machines over time there is no plan") + because
    if not other.saving:
        return t("Sharing machines over time saves nothing") if other.proved else _total(other, result)
    return t("Sharing machines over time saves {share}", share=_share(other)) + f": {_total(other, result)}"


def _share(other: Alone | SingleType) -> str:
    return forms.share(other.saving, 3)


def _total(other: Alone | SingleType, result: Result) -> str:
    assert result.cost is not None
    assert other.total is not None
    return forms.money(other.total, result.cost.currency) + ("" if other.proved else " *")
