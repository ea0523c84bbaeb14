"""What a million tokens of each service and batch job cost, as lines of the text report."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import ROUND_HALF_UP, Decimal

from problems import units
from solver.plan import Result, TokenCost
from solver.report import forms
from solver.report.messages import Messages


def token_lines(result: Result, t: Messages) -> Iterator[tuple[str, str]]:
    """One line per workload that makes tokens: price of a million in and out, and the sum they are a part of."""
    currency = result.cost.currency if result.cost else "USD"
    label = t("Tokens")
    for workload in result.workloads:
        tokens = workload.tokens
        if tokens is None or tokens.per_million is None or workload.cost is None:
            continue
        said = t(
            "{name}: {prices}; {cost} for {read} in, {written} out",
            name=workload.name,
            prices=_prices(tokens, currency, t),
            cost=forms.money(workload.cost, currency),
            read=forms.number(tokens.input_millions) + "M",
            written=forms.number(tokens.output_millions) + "M",
        )
        if tokens.input_time_share is not None:
            said += "; " + t("{share} of the time reads prompts", share=forms.share(tokens.input_time_share))
        yield label, said
        label = ""


def _prices(tokens: TokenCost, currency: str, t: Messages) -> str:
    if tokens.per_million_input is None or tokens.per_million_output is None:
        return t("{price} per million tokens", price=price(tokens.per_million, currency))
    return t(
        "{read} per million tokens in, {written} out",
        read=price(tokens.per_million_input, currency),
        written=price(tokens.per_million_output, currency),
    )


def price(amount: Decimal | None, currency: str) -> str:
    """Write a small price with three figures, since cents would round it away."""
    if amount is None:
        return "-"
    if abs(amount) >= 1:
        return forms.money(amount, currency)
    places = min(6, max(2, 2 - amount.adjusted()))
    return units.format_money(amount.quantize(Decimal(10) ** -places, ROUND_HALF_UP), currency, places=places)
