"""How far single quantities are rounded for people; the units themselves are printed by `problems.units`."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction

from problems import units
from problems.scan import print_quantity, rounded

#: What stands in for characters that a terminal without UTF-8 cannot show.
ASCII = str.maketrans(
    {
        "×": "x",
        "·": "-",
        "±": "+-",
        "≤": "<=",
        "≥": ">=",
        "–": "-",
        "—": "-",
        "…": "...",
        "¥": "CNY ",
        "€": "EUR ",
        "£": "GBP ",
        "²": "2",
        "µ": "u",
        "°": " deg ",
        "└": "`",
        "█": "#",
        "▒": "+",
        "░": ".",
        "├": "|",
        "─": "-",
        "“": '"',
        "”": '"',
        "’": "'",
    }
)


def to_ascii(text: str) -> str:
    """Rewrite `text` so that any terminal shows it; what has no stand-in becomes ``?``."""
    return text.translate(ASCII).encode("ascii", "replace").decode("ascii")


def money(amount: Decimal | float | None, currency: str) -> str:
    """Write an amount with its currency; cents only below 1,000; unknown is ``-``."""
    if amount is None:
        return "-"
    exact = amount if isinstance(amount, Decimal) else Decimal(repr(amount))
    places = 2 if abs(exact) < 1000 else 0
    return units.format_money(exact.quantize(Decimal(10) ** -places, ROUND_HALF_UP), currency, places=places)


def number(value: float, digits: int = 3) -> str:
    """Write a number to so many significant digits; none before the point is dropped. Thousands separated."""
    whole, point, rest = rounded(Fraction(abs(value)), digits).partition(".")
    return f"{'-' if value < 0 else ''}{int(whole):,}{point}{rest}"


def watts(value: float | None) -> str:
    """Write a power [W] as W, kW or MW; unknown is ``-``."""
    return "-" if value is None else units.format_power(value, 3)


def energy(kwh: float) -> str:
    """Write an energy [kWh] as kWh, MWh or GWh."""
    text, unit = print_quantity(kwh, (("GWh", 10**6), ("MWh", 1000), ("kWh", 1)), digits=3)
    return f"{text} {unit}"


def share(value: float | None, digits: int = 2) -> str:
    """Write a ratio as per cent; unknown is ``-``."""
    return "-" if value is None else units.format_ratio(value, digits)


def signed_share(value: float) -> str:
    """Write a relative difference with its sign."""
    return f"+{share(value)}" if value > 0 else share(value)


def seconds(value: float) -> str:
    """Write how long something took [s]."""
    return f"{value:.1f} s" if value < 10 else f"{value:.0f} s"


def milliseconds(value: float | None) -> str:
    """Write a latency [ms] to three digits; unknown is ``-``."""
    return "-" if value is None else units.format_duration(value / 1000, 3)


def quantity(value: float, unit: str, currency: str) -> str:
    """Write a limit's figure in the unit that the result names (W, a currency code, ``CODE/mo``, counts)."""
    base, slash, per = unit.partition("/")
    if base == "W":
        return watts(value) + slash + per
    if base == currency or base in units.CURRENCIES:
        return money(value, base) + slash + per
    return f"{number(value)} {unit}".strip()


def objective(value: float | None, name: str, currency: str) -> str:
    """Write a value of the objective `name`; unknown is ``-``."""
    if value is None:
        return "-"
    if name == "cost":
        return money(value, currency)
    return watts(value) if name == "power" else number(value)
