"""Parts of the text report: request, bill, workloads, proof, limits, prices; each gives rows or lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from solver.plan import Item, LimitUse, Placement, Result, Status, StopReason, WorkloadPlan
from solver.report import forms
from solver.report.messages import Messages
from solver.report.part_names import part_text

STARRED = ("derived", "estimate", "recalled")
DROPPED_SHOWN = 4
STOP_TEXT = {
    StopReason.PROVED: "proved",
    StopReason.GAP_REACHED: "gap reached",
    StopReason.TIME_LIMIT: "time limit",
    StopReason.INTERRUPTED: "interrupted",
    StopReason.NO_CANDIDATES: "no candidates",
}
SOURCE_TEXT = {"user": "yours", "published": "published", "model": "model"}


MOST_NAMED = 6
"""Load periods that are named one by one; of more, only the range is written."""


def currency_of(result: Result) -> str:
    """Currency of the result; USD where there is no cost to name one."""
    return result.cost.currency if result.cost else "USD"


def objective_value(result: Result, value: float | None) -> str:
    """Write a value of the result's objective in its unit."""
    return forms.objective(value, result.objective_name, currency_of(result))


# --- request ----------------------------------------------------------------------------------------------


def peak(values: dict[str, float]) -> float | None:
    """Largest value over the load periods; None where there are none."""
    return max(values.values()) if values else None


def request_lines(result: Result, t: Messages) -> Iterator[tuple[str, str]]:
    """Echo what was asked: workloads, limits, horizon, and how much of the catalogue was in play."""
    for workload in result.workloads:
        demand = peak(workload.demand_by_period)
        early = peak({p: workload.demand_by_period.get(p, 0.0) for s in result.stages[:1] for p in s.periods})
        said = [workload.kind, workload.model or ""]
        if demand is not None:
            grows = "" if early is None or early == demand else f"{forms.number(early)} → "
            said.append(f"{grows}{forms.number(demand)} {workload.demand_unit}".strip())
        yield workload.name, " · ".join(part for part in said if part)
    asked = [f"{limit.field} {forms.quantity(limit.limit, limit.unit, currency_of(result))}" for limit in result.limits]
    yield t("limits"), " · ".join(asked) or t("none")
    if result.search:
        counts = t(
            "{kept} in {pools} kept; {dropped} dropped, {dominated} dominated",
            kept=counted(result.search.candidates, "1 candidate", "{n} candidates", t),
            pools=counted(result.search.pools, "1 pool", "{n} pools", t),
            dropped=f"{sum(result.search.dropped.values()):,}",
            dominated=f"{result.search.dominated:,}",
        )
        yield t("candidates"), counts


# --- bill -------------------------------------------------------------------------------------------------


def item_name(item: Item) -> str:
    """Name an item with its site, unless the name has it, and a star where a figure is not firm."""
    site = item.site if item.site and item.site.lower() not in item.item.lower() else ""
    return item.item + (f", {site}" if site else "") + (" *" if item.starred else "")


def item_price(item: Item, currency: str) -> str:
    """Write the price that the line is built on: per hour where it is rented, else per unit."""
    if item.price_per_hour is None:
        return forms.money(item.unit_cost, currency)
    return f"{item.price_per_hour} {item.price_currency or currency}/h"


def when_text(item: Item, result: Result, t: Messages) -> Iterator[str]:
    """Write when a machine is held, where the load changes over the horizon: since when, or in which stages."""
    if not result.stages or item.quantity_by_period is None or item.kind not in ("rental", "server"):
        return
    held = [s for s in result.stages if any(p in item.quantity_by_period for p in s.periods)]
    if item.from_month is not None:
        last = held[-1].from_month + held[-1].months if held else result.horizon_months
        yield t("months {first} to {last}", first=forms.number(item.from_month + 1), last=forms.number(last))
    elif len(result.periods) == len(result.stages) or all(set(s.periods) <= {*item.quantity_by_period} for s in held):
        yield t("in {when}", when=", ".join(s.name for s in held))
    elif len(item.quantity_by_period) <= MOST_NAMED:
        yield t("in {when}", when=", ".join(item.quantity_by_period))
    else:
        yield t("in {n} of {total} load periods", n=len(item.quantity_by_period), total=len(result.periods))


def item_rows(result: Result, t: Messages, wide: bool) -> Iterator[Sequence[str]]:
    """One row per line of the bill, what is in it below, and the total last."""
    assert result.cost is not None
    currency = result.cost.currency

    def monthly(amount: object) -> str:
        return forms.money(float(str(amount)) / result.horizon_months, currency)

    for item in result.items:
        count = forms.number(item.quantity) + (f" {item.unit}" if item.unit else "")
        row = [item_name(item), count, item.billing.replace("_", " ")]
        if wide:
            row.append(item_price(item, currency))
        row += [monthly(item.total_cost), forms.money(item.total_cost, currency), forms.watts(item.power_w)]
        yield row
        inside = [*when_text(item, result, t), *(part_text(part, t) for part in item.parts)]
        if item.fallback_share:
            price = f"{item.fallback_price_per_hour} {item.price_currency or currency}/h"
            share = forms.share(item.fallback_share, 3)
            inside.insert(0, t("{share} of the time expected on demand at {price}", share=share, price=price))
        for number, part in enumerate(inside):
            yield [("└ " if number == len(inside) - 1 else "├ ") + part]
    power = forms.watts(result.power.it_peak_w) if result.power and result.power.it_peak_w else "-"
    total = [t("TOTAL"), "", "", *([""] if wide else [])]
    yield [*total, monthly(result.cost.total), forms.money(result.cost.total, currency), power]


def cost_lines(result: Result, t: Messages) -> Iterator[str]:
    """Say when the money is due, what it goes to, and what own sites draw."""
    assert result.cost is not None
    cost = result.cost
    yield t(
        "Up front {capex}; highest month {monthly}; {hour} per hour over the horizon.",
        capex=forms.money(cost.capex, cost.currency),
        monthly=forms.money(cost.monthly, cost.currency),
        hour=forms.money(cost.per_hour, cost.currency),
    )
    if len(cost.by_category) > 1:
        largest = sorted(cost.by_category.items(), key=lambda pair: -pair[1])
        yield " · ".join(f"{name} {forms.money(value, cost.currency)}" for name, value in largest if value)
    if result.power and result.power.it_peak_w:
        yield t(
            "Nameplate power at own sites: {it} IT, {facility} with cooling; {energy} drawn over the horizon (730 h a month).",
            it=forms.watts(result.power.it_peak_w),
            facility=forms.watts(result.power.facility_peak_w),
            energy=forms.energy(result.power.energy_kwh),
        )


# --- workloads --------------------------------------------------------------------------------------------


def counted(number: int, one: str, many: str, t: Messages) -> str:
    """Write a count with its noun."""
    return t(one) if number == 1 else t(many, n=f"{number:,}")


def precision_text(placement: Placement) -> str:
    """Precision of the weights; nothing where the work has none of its own."""
    return "" if placement.precision == "any" else placement.precision


def placement_text(placement: Placement, t: Messages, wide: bool) -> str:
    """Write where a workload runs: GPUs = replicas x TP x PP (x DP), then the offer and its billing.

    Pages that are not wide have no column for the precision; it stands here.
    """
    counts = placement.replicas_by_period
    replicas = max(counts.values(), default=1)
    gpus = replicas * placement.accelerators_per_replica
    factors = []
    if replicas > 1 or placement.rate_unit.startswith("req"):
        factors.append(counted(replicas, "1 replica", "{n} replicas", t))
    factors += [f"TP {placement.tp}"] if placement.tp > 1 else []
    factors += [f"PP {placement.pp}"] if placement.pp > 1 else []
    split = placement.tp * placement.pp
    if split and placement.accelerators_per_replica % split == 0 and placement.accelerators_per_replica > split:
        factors.append(f"DP {placement.accelerators_per_replica // split}")
    said = counted(gpus, "1 GPU", "{n} GPUs", t)
    if factors and gpus > 1:
        said += " = " + " × ".join(factors)
    if len(set(counts.values())) > 1 and len(counts) > MOST_NAMED:
        said += " (" + t("{least} to {most} by load period", least=min(counts.values()), most=replicas) + ")"
    elif len(set(counts.values())) > 1:
        said += " (" + ", ".join(f"{period} {count}" for period, count in counts.items()) + ")"
    if placement.nodes > 1:
        said += ", " + counted(placement.nodes, "{n} nodes", "{n} nodes", t)
    if not wide and precision_text(placement):
        said += f", {precision_text(placement)}"
    way = f"{placement.accelerator}, {placement.billing.replace('_', ' ')}"
    if placement.power_limit_w is not None:
        way += ", " + t("limit {watts} per GPU", watts=forms.watts(placement.power_limit_w))
    return f"{said}\n{way}\n{placement.offer}"


def rate_text(placement: Placement, kind: str, t: Messages) -> str:
    """Write a rate, where it is from, and the error to be expected of it; for hired hours, how many."""
    if kind == "fixed":
        hours = placement.hours_per_month if placement.duration_h is None else placement.duration_h
        return "-" if hours is None else t("{hours} h/mo", hours=forms.number(hours))
    lines = []
    if placement.rate:
        each = f" {t('each')}" if max(placement.replicas_by_period.values(), default=1) > 1 else ""
        lines.append(f"{forms.number(placement.rate)} {placement.rate_unit}{each}")
    if placement.source and placement.rate:
        known = SOURCE_TEXT.get(placement.source)
        source = t(known) if known else placement.source
        lines.append(source + (f" ± {forms.share(placement.expected_error)}" if placement.expected_error else ""))
    if placement.duration_h is not None:
        lines.append(t("in {hours} h", hours=forms.number(placement.duration_h)))
    elif placement.hours_per_month is not None:
        lines.append(t("{hours} h/mo", hours=forms.number(placement.hours_per_month)))
    return "\n".join(lines) or "-"


def memory_text(placement: Placement, t: Messages) -> str:
    """Write the memory in use per GPU and what is left."""
    if placement.memory_per_gpu_gib is None:
        return "-"
    said = f"{forms.number(placement.memory_per_gpu_gib)} GiB"
    if placement.memory_slack_gib is not None:
        said += "\n" + t("spare {gib} GiB", gib=forms.number(placement.memory_slack_gib))
    return said


def latency_text(placement: Placement) -> str:
    """Write TTFT / TPOT, ``-`` where there is none."""
    if placement.ttft_ms is None and placement.tpot_ms is None:
        return "-"
    return f"{forms.milliseconds(placement.ttft_ms)} / {forms.milliseconds(placement.tpot_ms)}"


def workload_rows(workloads: Sequence[WorkloadPlan], t: Messages, wide: bool) -> Iterator[Sequence[str]]:
    """One row per placement; the workload's name and headroom stand on its first."""
    for workload in workloads:
        name = workload.name
        if workload.served_share < 1:
            part = t("{share} served", share=forms.share(workload.served_share, 3)) if workload.served_share else ""
            name += "\n" + (part or t("left out"))
        if not workload.placements:
            yield [name, "-", *(["-"] if wide else []), "-", "-", "-", *(["-"] if wide else [])]
        for number, placement in enumerate(workload.placements):
            first = number == 0
            row = [name if first else "", placement_text(placement, t, wide)]
            row += [precision_text(placement) or "-"] if wide else []
            row += [rate_text(placement, workload.kind, t), forms.share(workload.headroom) if first else ""]
            row.append(latency_text(placement))
            if wide:
                row.append(memory_text(placement, t))
            yield row


# --- proof and limits -------------------------------------------------------------------------------------


MOST_TOLD = 1.0
"""A plan that may be farther from the optimum than that [ratio] is said to have no useful bound."""


def distance(result: Result) -> float | None:
    """How far from the optimum the bound still allows the objective to be [ratio]; None where no useful bound is known."""
    best, bound = result.objective, result.bound
    if not best or not bound or (best > 0) != (bound > 0):
        return None
    far = abs(best - bound) / abs(bound)
    return far if far <= MOST_TOLD else None


def status_text(result: Result, t: Messages) -> str:
    """Say what is known about the plan. "Cheapest" is said of nothing but a proved least cost."""
    if result.stayed is not None and result.status is Status.OPTIMAL:
        within = forms.share(result.stayed.tolerance)
        return t("Fewest changes to the running fleet within {share} of the cheapest plan, proved", share=within)
    if result.stayed is not None:
        return t("Few changes to the running fleet near the cheapest plan; not proved to be the fewest")
    if result.status is Status.OPTIMAL and result.portfolio is not None and result.portfolio.left_out:
        return t("Most value within the limits, and the cheapest plan for it, proved")
    if result.status is Status.OPTIMAL:
        return t("Cheapest plan, proved") if result.objective_name == "cost" else t("Optimal, proved")
    if result.status is Status.INFEASIBLE:
        return t("No plan: proved that none meets all limits")
    if result.status is Status.UNKNOWN:
        return t("No plan found before the search stopped")
    above = distance(result)
    if above is None and result.bound is not None:
        return t("Feasible; there is no useful bound on how far it is from the optimum")
    if above is None:
        return t("Feasible; how far from the optimum is not known")
    if result.objective_name in ("scale", "value"):
        return t("Feasible, at most {gap} below the optimum", gap=forms.share(above))
    return t("Feasible, at most {gap} above the optimum", gap=forms.share(above))


def proof_text(result: Result, t: Messages) -> str:
    """Objective, bound, gap, why the search stopped and how long it took."""
    name = t("objective") if result.objective_name == "cost" else result.objective_name
    said = [f"{name} {objective_value(result, result.objective)}"] if result.objective is not None else []
    said += [f"{t('bound')} {objective_value(result, result.bound)}"] if result.bound is not None else []
    useful = result.gap is not None and (result.status is Status.OPTIMAL or distance(result) is not None)
    said += [f"{t('gap')} {forms.share(result.gap)}"] if useful else []
    said.append(f"{t('stopped')}: {t(STOP_TEXT[result.stop_reason])}")
    if result.search:
        said.append(forms.seconds(result.search.wall_s))
    return " · ".join(said)


def limit_lines(result: Result, t: Messages) -> Iterator[tuple[str, str]]:
    """Which limits bind, and how much room the others leave."""
    currency = currency_of(result)

    def said(limit: LimitUse, value: float) -> str:
        of = forms.quantity(limit.limit, limit.unit, currency)
        return f"{limit.field} {forms.quantity(value, limit.unit, currency)} / {of}"

    binding = [said(limit, limit.used) for limit in result.limits if limit.binding]
    slack = [said(limit, limit.slack) for limit in result.limits if not limit.binding]
    if not result.limits:
        yield t("Binding"), t("no limits were set")
        return
    yield t("Binding"), " · ".join(binding) or t("no limit binds")
    if slack:
        yield t("Slack"), " · ".join(slack)


def survival_lines(result: Result, t: Messages) -> Iterator[tuple[str, str]]:
    """Which services survive the loss of nodes, of how many, and for what share of the time that is enough."""
    said = []
    for w in result.workloads:
        if w.spare_nodes is not None and w.placements:
            nodes = counted(w.spare_nodes, "any one node may fail", "any {n} nodes may fail", t)
            nodes = nodes if w.spare_nodes else t("no spare node is needed")
            sure = t("enough {share} of the time", share=forms.share(w.availability, 6)) if w.availability else ""
            said.append(f"{w.name}: {nodes}" + (f", {sure}" if sure else ""))
    for number, text in enumerate(said):
        yield (t("Survives") if number == 0 else ""), text


ACTIONS = {"keep": "keep", "renew": "renew", "drop": "give up", "add": "add"}


def change_lines(result: Result, t: Messages) -> Iterator[tuple[str, str]]:
    """Steps from the running fleet to the plan, what they cost, and what the cheapest plan would save."""
    currency = currency_of(result)
    for number, change in enumerate(result.changes):
        held = (change.after or change.before).replace("_", " ")
        said = (
            f"{t(ACTIONS[change.action])} {change.count} x {change.item} ({held}): {forms.money(change.cost, currency)}"
        )
        yield (t("Changes") if number == 0 else ""), said
    if result.stayed is not None and result.cost is not None:
        saved = result.cost.total - result.stayed.cheapest
        yield (
            "",
            t(
                "{n} nodes change; the cheapest plan would save {money}",
                n=result.stayed.changed_nodes,
                money=forms.money(saved, currency),
            ),
        )


def runner_up_text(result: Result, t: Messages) -> str:
    """The best plan that does without the main accelerator, and what it costs more."""
    other = result.runner_up
    if other is None:
        return t("not looked for")
    if other.total is None:
        return t("without {what}: no plan", what=other.without) + (f" ({other.summary})" if other.summary else "")
    said = (
        t("without {what}: {summary}", what=other.without, summary=other.summary)
        if other.difference is None
        else t(
            "without {what}: {summary}, {total} ({difference})",
            what=other.without,
            summary=other.summary,
            total=forms.money(other.total, currency_of(result)),
            difference=forms.signed_share(other.difference),
        )
    )
    return said if other.proved else f"{said}, {t('not proved the best of its kind')}"


# --- prices, drops ----------------------------------------------------------------------------------------


def price_text(result: Result, t: Messages) -> str:
    """How many prices from how many sources, the oldest of them, and which are not firm."""
    prices = result.prices
    if not prices:
        return t("none")
    sources = len({price.source for price in prices})
    said = [
        t(
            "{prices} from {sources}",
            prices=counted(len(prices), "1 price", "{n} prices", t),
            sources=counted(sources, "1 source", "{n} sources", t),
        )
    ]
    dated = [price for price in prices if price.age_days is not None]
    if dated:
        oldest = max(dated, key=lambda price: price.age_days or 0)
        said.append(
            t(
                "oldest {as_of} ({item}, {days} days)",
                as_of=oldest.as_of,
                item=oldest.item,
                days=oldest.age_days,
            )
        )
    undated = len(prices) - len(dated)
    if undated:
        said.append(t("{n} undated", n=undated))
    kinds = Counter(price.confidence for price in prices if price.confidence in STARRED)
    if kinds:
        listed = ", ".join(f"{kind} ({kinds[kind]})" for kind in STARRED if kind in kinds)
        said.append("* " + t("starred prices are {kinds}", kinds=listed))
    return "; ".join(said)


def dropped(result: Result) -> list[tuple[str, int]]:
    """Reasons for which candidates were dropped, the most frequent first."""
    if result.search is None:
        return []
    return sorted(result.search.dropped.items(), key=lambda pair: (-pair[1], pair[0]))


def dropped_text(result: Result, t: Messages) -> str:
    """The main reasons for drops in one line; the rest counted."""
    reasons = dropped(result)
    said = [f"{reason} {count:,}" for reason, count in reasons[:DROPPED_SHOWN]]
    if len(reasons) > DROPPED_SHOWN:
        said.append(counted(len(reasons) - DROPPED_SHOWN, "and 1 more reason", "and {n} more reasons", t))
    return " · ".join(said)
