"""Quantities of a problem file: the only place that parses or prints units.

Each annotated type below reads text (`parse_*`), holds a number in the unit its docstring names, and prints
the same forms back (`format_*`) when a problem is saved as JSON. A bare number where a unit is needed is an
error. The work is done in `scan` (grammar), `quantities`, `rates` and `money`; all else imports this module.

Conventions
-----------
- ``k`` is 1000, also for tokens: ``32k`` is 32,000 tokens; ``32Ki`` is 32,768.
- ``GB`` is 10^9 bytes and ``GiB`` 2^30; ``gb`` reads as GB (memory is never in bits); ``Gb`` is refused.
- A month is 730 h, a year 12 such months; ``m`` alone is refused for a duration (``min`` or ``mo``).
- Bits and bytes per second: ``400Gb/s`` = ``400Gbps`` = ``50GB/s``.
- ``$`` is USD, ``¥``, ``元`` and ``RMB`` are CNY.
- Full-width characters read as their plain forms.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from problems.money import (
    CURRENCIES,
    Money,
    MoneyPerHour,
    MoneyPerKwh,
    MoneyPerKwMonth,
    MoneyPerMonth,
    MoneyPerYear,
    find_currency,
    format_money,
)
from problems.quantities import (
    AT_LEAST_BYTES,
    AT_LEAST_COUNT,
    BANDWIDTH,
    BYTES,
    CARBON,
    COUNT,
    DURATION,
    HOURS_PER_MONTH,
    MONTHS,
    POWER,
    RATIO,
    THROUGHPUT,
    TOKENS,
    format_at_least_bytes,
    format_at_least_count,
    format_bandwidth,
    format_bytes,
    format_carbon,
    format_count,
    format_duration,
    format_months,
    format_power,
    format_ratio,
    format_throughput,
    format_tokens,
    parse_at_least_bytes,
    parse_at_least_count,
    parse_bandwidth,
    parse_bytes,
    parse_carbon,
    parse_count,
    parse_duration,
    parse_months,
    parse_number,
    parse_power,
    parse_ratio,
    parse_throughput,
    parse_tokens,
)
from problems.rates import (
    EFFORT,
    HOURS,
    ONCE,
    RATE,
    Runs,
    format_hours_per_month,
    format_rate,
    format_runs,
    parse_effort,
    parse_hours_per_month,
    parse_rate,
    parse_runs,
)
from problems.scan import JSON_NUMBER, Kind, UnitError, shown

__all__ = [
    "COUNT",
    "CURRENCIES",
    "EFFORT",
    "HOURS",
    "HOURS_PER_MONTH",
    "MONTHS",
    "ONCE",
    "RATE",
    "TOKENS",
    "AtLeastBytes",
    "AtLeastCount",
    "Bytes",
    "CarbonIntensity",
    "Count",
    "EffortPerMonth",
    "GBytesPerS",
    "GbPerS",
    "HoursPerMonth",
    "Money",
    "MoneyPerHour",
    "MoneyPerKwMonth",
    "MoneyPerKwh",
    "MoneyPerMonth",
    "MoneyPerYear",
    "Months",
    "Number",
    "Ratio",
    "RequestRate",
    "Runs",
    "Seconds",
    "Tokens",
    "UnitError",
    "Watts",
    "Whole",
    "find_currency",
    "format_at_least_bytes",
    "format_at_least_count",
    "format_bandwidth",
    "format_bytes",
    "format_carbon",
    "format_count",
    "format_duration",
    "format_hours_per_month",
    "format_money",
    "format_months",
    "format_power",
    "format_rate",
    "format_ratio",
    "format_runs",
    "format_throughput",
    "format_tokens",
    "parse_at_least_bytes",
    "parse_at_least_count",
    "parse_bandwidth",
    "parse_bytes",
    "parse_carbon",
    "parse_count",
    "parse_duration",
    "parse_effort",
    "parse_hours_per_month",
    "parse_months",
    "parse_number",
    "parse_power",
    "parse_rate",
    "parse_ratio",
    "parse_runs",
    "parse_throughput",
    "parse_tokens",
]

# --- annotated types -----------------------------------------------------------------------------------


def _json(kind: Kind, pattern: str | None = None) -> WithJsonSchema:
    return WithJsonSchema(kind.describe(pattern))


_COUNTED = rf"^\s*{JSON_NUMBER}\s*[^0-9]*$"
_AT_LEAST = r"^\s*((>=|≥|at least|至少)\s*)?[0-9][0-9_,.]*\s*[A-Za-z]*\s*(\+|以上)?\s*$"
_PER = r"^\s*[0-9][0-9_,.]*([eE][+-]?[0-9]+)?.*(/|per |每|[rqRQ][pP][smhSMH]).*$"

Number = Annotated[float, BeforeValidator(parse_number)]
"""A number without a unit."""
Whole = Annotated[int, BeforeValidator(parse_count)]
"""A whole number without a unit."""
Count = Annotated[
    int,
    BeforeValidator(parse_count),
    PlainSerializer(format_count, str, when_used="json"),
    _json(COUNT, _COUNTED),
]
"""A count."""
Tokens = Annotated[
    int,
    BeforeValidator(parse_tokens),
    PlainSerializer(format_tokens, str, when_used="json"),
    _json(TOKENS, _COUNTED),
]
"""A number of tokens."""
Bytes = Annotated[int, BeforeValidator(parse_bytes), PlainSerializer(format_bytes, str, when_used="json"), _json(BYTES)]
"""A size [bytes]."""
Watts = Annotated[
    float, BeforeValidator(parse_power), PlainSerializer(format_power, str, when_used="json"), _json(POWER)
]
"""A power [W]."""
Seconds = Annotated[
    float,
    BeforeValidator(parse_duration),
    PlainSerializer(format_duration, str, when_used="json"),
    _json(DURATION),
]
"""A duration [s]."""
Months = Annotated[
    float, BeforeValidator(parse_months), PlainSerializer(format_months, str, when_used="json"), _json(MONTHS)
]
"""A length [months of 730 h]."""
Ratio = Annotated[
    float, BeforeValidator(parse_ratio), PlainSerializer(format_ratio, str, when_used="json"), _json(RATIO)
]
"""A share [1]."""


_GROWTH_HELP = "forms allowed: 3%/mo, 40%/y, -2%/mo"


def parse_growth(value: object) -> float:
    """Growth per month [1/mo], compounded: ``3%/mo``, ``40%/y`` (the twelfth root), ``-2%/mo``; 0 without a unit.

    Raises
    ------
    UnitError
        For text that is no share per month or year, or a loss of everything.
    """
    text = value.strip() if isinstance(value, str) else value
    months = 0
    if isinstance(text, str):
        for unit, length in (("/mo", 1), ("/month", 1), (" per month", 1), ("/y", 12), ("/yr", 12), ("/year", 12)):
            if text.endswith(unit):
                text, months = text[: -len(unit)], length
    sign = -1 if isinstance(text, str) and text.lstrip()[:1] in "-−" and text.strip() else 1
    try:
        share = sign * parse_ratio(text.strip().lstrip("+-−") if isinstance(text, str) else text)
    except UnitError as error:
        raise UnitError(error.message, _GROWTH_HELP) from None
    if share and not months:
        raise UnitError(f"growth is a share per month or year (given: {shown(value)})", _GROWTH_HELP)
    if share <= -1:
        raise UnitError("a load cannot shrink by all of it a month", _GROWTH_HELP)
    if share > 10:
        raise UnitError("growth of more than 1000% a month or year", _GROWTH_HELP)
    return share if months != 12 else (1 + share) ** (1 / 12) - 1


def format_growth(share: float) -> str:
    """Print a growth per month: ``3%/mo``."""
    return f"{'-' * (share < 0)}{format_ratio(abs(share))}/mo"


Growth = Annotated[
    float,
    BeforeValidator(parse_growth),
    PlainSerializer(format_growth, str, when_used="json"),
    WithJsonSchema({"type": "string", "examples": ["3%/mo", "40%/y"], "description": "growth per month, compounded"}),
]
"""Growth of a load per month [1/mo]."""
GbPerS = Annotated[
    float,
    BeforeValidator(parse_bandwidth),
    PlainSerializer(format_bandwidth, str, when_used="json"),
    _json(BANDWIDTH),
]
"""A network speed [Gb/s]."""
GBytesPerS = Annotated[
    float,
    BeforeValidator(parse_throughput),
    PlainSerializer(format_throughput, str, when_used="json"),
    _json(THROUGHPUT),
]
"""A storage speed [GB/s], bytes and not bits."""
CarbonIntensity = Annotated[
    float, BeforeValidator(parse_carbon), PlainSerializer(format_carbon, str, when_used="json"), _json(CARBON)
]
"""A carbon intensity [g CO2e/kWh]."""
RequestRate = Annotated[
    float, BeforeValidator(parse_rate), PlainSerializer(format_rate, str, when_used="json"), _json(RATE, _PER)
]
"""A request rate [1/s]."""
AtLeastCount = Annotated[
    int,
    BeforeValidator(parse_at_least_count),
    PlainSerializer(format_at_least_count, str, when_used="json"),
    _json(AT_LEAST_COUNT, _AT_LEAST),
]
"""A least count."""
AtLeastBytes = Annotated[
    int,
    BeforeValidator(parse_at_least_bytes),
    PlainSerializer(format_at_least_bytes, str, when_used="json"),
    _json(AT_LEAST_BYTES, _AT_LEAST),
]
"""A least size [bytes]."""
HoursPerMonth = Annotated[
    float,
    BeforeValidator(parse_hours_per_month),
    PlainSerializer(format_hours_per_month, str, when_used="json"),
    _json(HOURS, r"^\s*([0-9].*(/|per ).*|always|24/7)\s*$"),
]
"""Hours of use [h per month of 730 h]."""
EffortPerMonth = Annotated[
    float,
    BeforeValidator(parse_effort),
    PlainSerializer(format_hours_per_month, str, when_used="json"),
    _json(EFFORT, r"^\s*[0-9].*(/|per ).*$"),
]
"""Hours of people's work [h per month of 730 h]."""
