"""Money: exact amounts with a currency, read and printed as people write them.

``$`` is USD, ``¥``, ``元`` and ``RMB`` are CNY; yen are written ``JPY``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from difflib import get_close_matches
from fractions import Fraction
from typing import Any, ClassVar, Self

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from problems.scan import MAGNITUDES, Kind, UnitError, decimal_text, plain_number, rounded, scan, shown

CURRENCIES: tuple[str, ...] = ("USD", "CNY", "EUR", "GBP", "JPY", "HKD", "SGD")
MAX_AMOUNT = Decimal(10) ** 15

_ALIASES: dict[str, tuple[str, ...]] = {
    "USD": ("$", "US$", "美元", "美金"),
    "CNY": ("¥", "元", "CN¥", "RMB", "CNH", "人民币", "圆", "元人民币", "块"),
    "EUR": ("€", "欧元"),
    "GBP": ("£", "英镑"),
    "JPY": ("日元", "円", "JP¥"),
    "HKD": ("HK$", "港元", "港币"),
    "SGD": ("S$", "SG$", "新元", "新加坡元"),
}
_NAMES = {name: code for code, names in _ALIASES.items() for name in (code, *names)}
_SYMBOLS = {"USD": "$", "CNY": "¥", "EUR": "€", "GBP": "£", "HKD": "HK$", "SGD": "S$"}
_CHINESE = {
    "USD": "美元",
    "CNY": "元",
    "EUR": "欧元",
    "GBP": "英镑",
    "JPY": "日元",
    "HKD": "港元",
    "SGD": "新加坡元",
}

_PER = re.compile(r"/|每|\bper\b|\ba\b(?= month)")


@dataclass(frozen=True, order=False)
class Money:
    """An amount of money. `amount` is exact [units of `currency`, ISO 4217]."""

    amount: Decimal
    currency: str

    KIND: ClassVar[Kind] = Kind("an amount of money", ("$300k", "$1.2M", "50000USD", "35万元", "¥2亿", "JPY 5M"), {})
    PER: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def parse(cls, value: object) -> Self:
        """Read text such as ``$300k`` or ``35万元``.

        Raises
        ------
        UnitError
            For a bare number, an unknown currency, a negative or absurd amount, a wrong ``/unit``.
        """
        if type(value) is cls:
            return value
        kind = cls.KIND
        if isinstance(value, Money):
            raise kind.error(f"must be {kind.name}")
        if plain_number(value, kind) is not None:
            raise kind.error(f"{shown(value)} has no currency: {kind.name} needs one")
        found = scan(value, kind)
        after, *per = (part.strip() for part in _PER.split(found.after))
        cls._check_per(per, value)
        size, currency = _magnitude_and_currency(found.before, after, value, kind)
        text = decimal_text(found.number * size)
        amount = Decimal(text or "0")
        if amount > MAX_AMOUNT:
            raise kind.error(f"too large for {kind.name}")
        return cls(amount, currency)

    @classmethod
    def _check_per(cls, per: list[str], value: object) -> None:
        """Check the part after the slash; plain money has none."""
        given = "/".join(part.replace(" ", "") for part in per).replace("-", "/")
        if cls.PER and not given:
            raise cls.KIND.error(f"{shown(value)} lacks /{cls.PER[0]}: must be {cls.KIND.name}")
        if not cls.PER and given:
            raise cls.KIND.error(f"{shown(value)} is money per {given}: must be {cls.KIND.name}, without /{given}")
        if cls.PER and given not in cls.PER:
            raise cls.KIND.error(f"{shown(value)} is money per {given}: must be {cls.KIND.name}, with /{cls.PER[0]}")

    def __str__(self) -> str:
        text = format_money(self.amount, self.currency)
        return f"{text}/{self.PER[0]}" if self.PER else text

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls.parse,
            serialization=core_schema.plain_serializer_function_ser_schema(
                str, return_schema=core_schema.str_schema(), when_used="json"
            ),
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        per = "" if not cls.PER else r"\s*(/|每|per ).+"
        return {
            "type": "string",
            "pattern": rf"^[^0-9/]*{'[0-9][0-9_,.]*'}[^/]*{per}$",
            "examples": list(cls.KIND.forms),
            "description": f"{cls.KIND.name}, e.g. {', '.join(cls.KIND.forms)}",
        }


@dataclass(frozen=True, order=False)
class MoneyPerMonth(Money):
    """Money per month of 730 hours."""

    KIND: ClassVar[Kind] = Kind("money per month", ("$40k/mo", "$80k/month", "35万元/月", "50000USD/month"), {})
    PER: ClassVar[tuple[str, ...]] = ("mo", "month", "mon", "月", "个月", "months")


@dataclass(frozen=True, order=False)
class MoneyPerYear(Money):
    """Money per year, as salaries are stated."""

    KIND: ClassVar[Kind] = Kind("money per year", ("$120k/yr", "80kEUR/year", "30万元/年"), {})
    PER: ClassVar[tuple[str, ...]] = ("yr", "year", "y", "a", "年", "years")


@dataclass(frozen=True, order=False)
class MoneyPerHour(Money):
    """Money per hour, of people's work for one."""

    KIND: ClassVar[Kind] = Kind("money per hour", ("$80/h", "500元/小时", "75EUR/hour"), {})
    PER: ClassVar[tuple[str, ...]] = ("h", "hr", "hour", "小时", "hours")


@dataclass(frozen=True, order=False)
class MoneyPerKwh(Money):
    """Money per kilowatt-hour."""

    KIND: ClassVar[Kind] = Kind("money per kWh", ("$0.12/kWh", "0.65元/kWh", "0.65元/度"), {})
    PER: ClassVar[tuple[str, ...]] = ("kWh", "kwh", "KWh", "KWH", "度", "千瓦时")


@dataclass(frozen=True, order=False)
class MoneyPerKwMonth(Money):
    """Money per kilowatt and month, as colocation is priced."""

    KIND: ClassVar[Kind] = Kind("money per kW and month", ("$150/kW/mo", "$150/kW-month", "1000元/kW/月"), {})
    PER: ClassVar[tuple[str, ...]] = (
        "kW/mo",
        "kW/month",
        "kW/月",
        "kw/mo",
        "kw/month",
        "千瓦/月",
        "mo/kW",
        "month/kW",
    )


def find_currency(name: str) -> str | None:
    """ISO code of a currency name or symbol, None where it is none of ours."""
    squeezed = name.strip()
    return _NAMES.get(squeezed) or _NAMES.get(squeezed.upper())


def _magnitude_and_currency(before: str, after: str, value: object, kind: Kind) -> tuple[int, str]:
    """Read what stands around the number: currency on either side, magnitude behind the number."""
    first = find_currency(before) if before else None
    if before and first is None:
        raise _unknown_currency(before, value, kind)
    if after in MAGNITUDES:
        if first is None:
            raise kind.error(f"{shown(value)} has no currency: {kind.name} needs one")
        return MAGNITUDES[after], first
    # The longest magnitude first: "万元" is 万 + 元, "百万美元" is 百万 + 美元; "M$" is M + $.
    for name in sorted(MAGNITUDES, key=len, reverse=True):
        if after.startswith(name) and (second := find_currency(after[len(name) :])) is not None:
            if first is not None and first != second:
                raise kind.error(f"{shown(value)} names two currencies, {first} and {second}")
            return MAGNITUDES[name], second
    rest = re.sub(r"^(?:[kKmMbBT]|mn|bn|thousand|million|billion|trillion)?\s+", "", after)
    raise _unknown_currency(rest, value, kind)


def _unknown_currency(name: str, value: object, kind: Kind) -> UnitError:
    near = get_close_matches(name.upper(), CURRENCIES, n=1, cutoff=0.6)
    maybe = f"did you mean {near[0]}? " if near else ""
    return UnitError(
        f"unknown currency {shown(name)} in {shown(value)}",
        f"{maybe}currencies: {', '.join(CURRENCIES)} ($ is USD, ¥ and 元 are CNY); {kind.help}",
    )


def format_money(
    amount: Decimal | int | float,
    currency: str,
    lang: str = "en",
    *,
    compact: bool = False,
    digits: int = 3,
    places: int | None = None,
) -> str:
    """Print money: ``$300,000`` or ``300,000美元``; compact ``$1.2M``, ``¥350k``, ``35万元``.

    Parameters
    ----------
    amount
        In units of `currency`. A float is taken at its shortest decimal form.
    lang
        ``en``: symbol or code before the number; ``zh``: the Chinese word behind it.
    compact
        Round to `digits` significant digits with a magnitude (k, M, B; 万, 亿).
        Digits before the point are kept.
    places
        Decimal places to round to; None prints the amount exactly, so that it reads back as the same.
    """
    number = Fraction(Decimal(repr(amount)) if isinstance(amount, float) else Decimal(amount))
    sign, number = ("-" if number < 0 else ""), abs(number)
    suffix = ""
    if compact:
        steps = [("亿", 10**8), ("万", 10**4)] if lang == "zh" else [("B", 10**9), ("M", 10**6), ("k", 10**3)]
        suffix, size = next(((s, n) for s, n in steps if number >= n), ("", 1))
        text = rounded(number / size, digits)
    else:
        text = decimal_text(number, places) or str(number)
        if places:
            text = f"{Decimal(text):.{places}f}"
    whole, _, rest = text.partition(".")
    text = f"{int(whole):,}" + (f".{rest}" if rest else "")
    if lang == "zh":
        return f"{sign}{text}{suffix}{_CHINESE.get(currency, currency)}"
    mark = _SYMBOLS.get(currency)
    return f"{sign}{mark}{text}{suffix}" if mark else f"{sign}{currency} {text}{suffix}"
