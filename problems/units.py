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
from problems.scan import JSON_NUMBER, Kind, UnitError

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


def parse_growth(value: object) -> float:
    """Growth per month [1/mo] of `0%/mo` or 0; nothing else is planned for yet.

    Raises
    ------
    UnitError
        For text that is no share per month, and for any growth that is not zero.
    """
    text = value.strip() if isinstance(value, str) else value
    share = parse_ratio(text[: -len("/mo")] if isinstance(text, str) and text.endswith("/mo") else text)
    if share != 0:
        raise UnitError("growth is not planned for yet", "leave it out (0%/mo) and give the load at its highest")
    return 0.0


Growth = Annotated[
    float,
    BeforeValidator(parse_growth),
    PlainSerializer(lambda share: f"{format_ratio(share)}/mo", str, when_used="json"),
    _json(RATIO),
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
