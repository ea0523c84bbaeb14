"""Units: what is read, what is refused with which words, and that what is printed reads back as the same."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from problems import units
from problems.schema import Problem
from problems.units import Money, MoneyPerKwh, MoneyPerKwMonth, MoneyPerMonth, Runs, UnitError

MANY = settings(max_examples=100, deadline=None)
SECONDS_PER_MONTH = 730 * 3600

READ: list[tuple[Callable[[object], Any], object, Any]] = [
    (units.parse_count, "175B", 175 * 10**9),
    (units.parse_count, "50M", 50_000_000),
    (units.parse_count, 5000, 5000),
    (units.parse_count, 5000.0, 5000),
    (units.parse_count, "1_000", 1000),
    (units.parse_count, "1,000,000", 1_000_000),
    (units.parse_count, "1.5k", 1500),
    (units.parse_count, "2 million", 2_000_000),
    (units.parse_count, "2M requests", 2_000_000),
    (units.parse_count, "3万", 30_000),
    (units.parse_count, "１２ｋ", 12_000),
    (units.parse_tokens, "8k", 8000),
    (units.parse_tokens, "32Ki", 32768),
    (units.parse_tokens, "300B tokens", 300 * 10**9),
    (units.parse_tokens, 4096, 4096),
    (units.parse_bytes, "80GB", 80 * 10**9),
    (units.parse_bytes, "80GiB", 80 * 2**30),
    (units.parse_bytes, "80 gb", 80 * 10**9),
    (units.parse_bytes, "80gib", 80 * 2**30),
    (units.parse_bytes, "1.5TB", 1_500_000_000_000),
    (units.parse_bytes, "2TiB", 2 * 2**40),
    (units.parse_bytes, "512 bytes", 512),
    (units.parse_power, "500W", 500.0),
    (units.parse_power, "30kW", 30_000.0),
    (units.parse_power, "30 KW", 30_000.0),
    (units.parse_power, "1.2MW", 1_200_000.0),
    (units.parse_duration, "500ms", 0.5),
    (units.parse_duration, "30s", 30.0),
    (units.parse_duration, "15min", 900.0),
    (units.parse_duration, "48h", 172_800.0),
    (units.parse_duration, "3d", 259_200.0),
    (units.parse_duration, "5 weeks", 3_024_000.0),
    (units.parse_duration, "1wk", 604_800.0),
    (units.parse_duration, "1mo", 2_628_000.0),
    (units.parse_duration, "1y", 12 * 2_628_000.0),
    (units.parse_months, "12mo", 12.0),
    (units.parse_months, "36 months", 36.0),
    (units.parse_months, "3y", 36.0),
    (units.parse_months, "36个月", 36.0),
    (units.parse_months, "5wk", 5 * 168 / 730),
    (units.parse_months, "365 d", 12.0),
    (units.parse_ratio, "99.9%", 0.999),
    (units.parse_ratio, 0.999, 0.999),
    (units.parse_ratio, "0.5", 0.5),
    (units.parse_ratio, "４％", 0.04),
    (units.parse_rate, "12 req/s", 12.0),
    (units.parse_rate, "12/s", 12.0),
    (units.parse_rate, "6/h", 6 / 3600),
    (units.parse_rate, "0.5 requests/s", 0.5),
    (units.parse_rate, "3 requests per second", 3.0),
    (units.parse_rate, "40 rps", 40.0),
    (units.parse_rate, "60rpm", 1.0),
    (units.parse_rate, "1M/day", 1e6 / 86400),
    (units.parse_rate, "5次/秒", 5.0),
    (units.parse_runs, "4/mo", Runs(4.0, True)),
    (units.parse_runs, "2/wk", Runs(2 * 730 / 168, True)),
    (units.parse_runs, "1/day", Runs(730 / 24, True)),
    (units.parse_runs, "4 runs per month", Runs(4.0, True)),
    (units.parse_runs, 3, Runs(3.0, False)),
    (units.parse_runs, "3 in all", Runs(3.0, False)),
    (units.parse_runs, "once", units.ONCE),
    (units.parse_at_least_count, "8+", 8),
    (units.parse_at_least_count, 8, 8),
    (units.parse_at_least_count, ">= 8", 8),
    (units.parse_at_least_bytes, "32GB+", 32 * 10**9),
    (units.parse_at_least_bytes, "32GiB", 32 * 2**30),
    (units.parse_hours_per_month, "60h/mo", 60.0),
    (units.parse_hours_per_month, "8h/day", 8 * 730 / 24),
    (units.parse_hours_per_month, "40h/wk", 40 * 730 / 168),
    (units.parse_hours_per_month, "always", 730.0),
    (units.parse_bandwidth, "400Gb/s", 400.0),
    (units.parse_bandwidth, "400Gbps", 400.0),
    (units.parse_bandwidth, "50GB/s", 400.0),
    (units.parse_bandwidth, "3.2Tb/s", 3200.0),
    (units.parse_carbon, "380g/kWh", 380.0),
    (units.parse_carbon, "0.38 kgCO2e/kWh", 380.0),
    (Money.parse, "$300k", Money(Decimal(300_000), "USD")),
    (Money.parse, "$1.2M", Money(Decimal(1_200_000), "USD")),
    (Money.parse, "1.2M$", Money(Decimal(1_200_000), "USD")),
    (Money.parse, "$300,000.01", Money(Decimal("300000.01"), "USD")),
    (Money.parse, "50000USD", Money(Decimal(50_000), "USD")),
    (Money.parse, "50 usd", Money(Decimal(50), "USD")),
    (Money.parse, "35万元", Money(Decimal(350_000), "CNY")),
    (Money.parse, "¥2亿", Money(Decimal(200_000_000), "CNY")),
    (Money.parse, "￥２亿", Money(Decimal(200_000_000), "CNY")),
    (Money.parse, "300k CNY", Money(Decimal(300_000), "CNY")),
    (Money.parse, "300k RMB", Money(Decimal(300_000), "CNY")),
    (Money.parse, "JPY 5M", Money(Decimal(5_000_000), "JPY")),
    (Money.parse, "100万美元", Money(Decimal(1_000_000), "USD")),
    (Money.parse, "$5 USD", Money(Decimal(5), "USD")),
    (Money.parse, "€10", Money(Decimal(10), "EUR")),
    (Money.parse, "$0", Money(Decimal(0), "USD")),
    (MoneyPerMonth.parse, "$40k/mo", MoneyPerMonth(Decimal(40_000), "USD")),
    (MoneyPerMonth.parse, "$80k / month", MoneyPerMonth(Decimal(80_000), "USD")),
    (MoneyPerMonth.parse, "35万元/月", MoneyPerMonth(Decimal(350_000), "CNY")),
    (MoneyPerMonth.parse, "$4 per month", MoneyPerMonth(Decimal(4), "USD")),
    (MoneyPerKwh.parse, "$0.12/kWh", MoneyPerKwh(Decimal("0.12"), "USD")),
    (MoneyPerKwh.parse, "0.65元/度", MoneyPerKwh(Decimal("0.65"), "CNY")),
    (MoneyPerKwMonth.parse, "$150/kW/mo", MoneyPerKwMonth(Decimal(150), "USD")),
    (MoneyPerKwMonth.parse, "$150/kW-month", MoneyPerKwMonth(Decimal(150), "USD")),
]


@pytest.mark.parametrize(("parse", "text", "value"), READ)
def test_read(parse: Callable[[object], Any], text: object, value: Any) -> None:
    got = parse(text)
    assert got == value
    assert type(got) is type(value)


REFUSED: list[tuple[Callable[[object], Any], object, str]] = [
    (units.parse_count, "1.5", "whole number"),
    (units.parse_count, "-3", "must not be negative"),
    (units.parse_count, -3, "must not be negative"),
    (units.parse_count, True, "not true"),
    (units.parse_count, None, "empty"),
    (units.parse_count, "", "empty"),
    (units.parse_count, [1], "a list"),
    (units.parse_count, {}, "a mapping"),
    (units.parse_count, "abc", "cannot read"),
    (units.parse_count, "1,5k", "write 1.5 with a point"),
    (units.parse_count, "1e999", "too large"),
    (units.parse_count, 10**30, "too large"),
    (units.parse_count, "9" * 100, "100 characters"),
    (units.parse_bytes, 80, "80 has no unit"),
    (units.parse_bytes, "80", '"80" has no unit'),
    (units.parse_bytes, "80Gb", "Gb is bits"),
    (units.parse_bytes, "80G", "no B for bytes"),
    (units.parse_bytes, "80GBB", "did you mean GB"),
    (units.parse_bytes, "0.3B", "whole number"),
    (units.parse_power, 30, "has no unit"),
    (units.parse_power, 0, "has no unit"),
    (units.parse_power, "30mw", "milli"),
    (units.parse_power, "30kVA", "apparent power"),
    (units.parse_power, "30kWh", "energy"),
    (units.parse_power, "-5kW", "must not be negative"),
    (units.parse_duration, "30m", "minutes or months"),
    (units.parse_duration, "nan", "finite"),
    (units.parse_duration, "-inf", "finite"),
    (units.parse_duration, math.nan, "finite"),
    (units.parse_duration, math.inf, "finite"),
    (units.parse_duration, "5", "has no unit"),
    (units.parse_months, 12, "has no unit"),
    (units.parse_ratio, "5x", "unknown unit"),
    (units.parse_ratio, "-5%", "must not be negative"),
    (units.parse_rate, 5, "has no unit"),
    (units.parse_rate, "5", "has no unit"),
    (units.parse_rate, "5 req", "per what time"),
    (units.parse_rate, "-3 req/s", "must not be negative"),
    (units.parse_rate, "3000 tok/s", "rate of tokens"),
    (units.parse_rate, "5 req/fortnight", "unknown time"),
    (units.parse_rate, "5 kW/s", "unknown unit"),
    (units.parse_runs, "2.5", "whole number"),
    (units.parse_runs, 0, "greater than 0"),
    (units.parse_runs, "0/mo", "greater than 0"),
    (units.parse_runs, "4/m", "unknown time"),
    (units.parse_at_least_bytes, 32, "has no unit"),
    (units.parse_hours_per_month, "60h", "per what time"),
    (units.parse_hours_per_month, 60, "has no unit"),
    (units.parse_hours_per_month, "900h/mo", "730 h"),
    (units.parse_bandwidth, 400, "has no unit"),
    (units.parse_bandwidth, "400G", "Gb/s (bits) or GB/s (bytes)"),
    (units.parse_carbon, 380, "has no unit"),
    (Money.parse, 300, "has no currency"),
    (Money.parse, "300k", "has no currency"),
    (Money.parse, "300k CHF", 'unknown currency "CHF"'),
    (Money.parse, "CHF 300k", 'unknown currency "CHF"'),
    (Money.parse, "$5 EUR", "two currencies"),
    (Money.parse, "-$5", "must not be negative"),
    (Money.parse, "$-5", "must not be negative"),
    (Money.parse, "$40k/mo", "without /mo"),
    (Money.parse, "$1e18", "too large"),
    (MoneyPerMonth.parse, "$40k", "lacks /mo"),
    (MoneyPerMonth.parse, "$40k/y", "with /mo"),
    (MoneyPerKwh.parse, "$0.12", "lacks /kWh"),
    (MoneyPerKwMonth.parse, "$200/mo", "with /kW/mo"),
]


@pytest.mark.parametrize(("parse", "text", "words"), REFUSED)
def test_refused(parse: Callable[[object], Any], text: object, words: str) -> None:
    with pytest.raises(UnitError) as caught:
        parse(text)
    assert words in caught.value.message
    assert "forms allowed" in caught.value.help


def test_unknown_currency_names_the_known_and_the_nearest() -> None:
    with pytest.raises(UnitError) as caught:
        Money.parse("300k USB")
    assert "did you mean USD?" in caught.value.help
    assert "CNY" in caught.value.help


def test_money_is_exact_hashable_and_frozen() -> None:
    money = Money.parse("$0.1")
    assert money.amount * 3 == Decimal("0.3")
    assert hash(money) == hash(Money.parse("$0.10"))
    assert money != MoneyPerMonth.parse("$0.1/mo")
    with pytest.raises(AttributeError):
        money.amount = Decimal(1)  # type: ignore[misc]


def test_runs_in_a_horizon() -> None:
    assert units.parse_runs("4/mo").total(36) == 144
    assert units.parse_runs(3).total(36) == 3


PRINTED = [
    (units.format_power(31_200.0), "31.2 kW"),
    (units.format_power(31_234.567, 3), "31.2 kW"),
    (units.format_power(0.0), "0 W"),
    (units.format_bytes(80 * 10**9), "80 GB"),
    (units.format_bytes(80 * 2**30), "80 GiB"),
    (units.format_bytes(80 * 2**30, 3, binary=False), "85.9 GB"),
    (units.format_duration(0.5), "500 ms"),
    (units.format_duration(90.0), "90 s"),
    (units.format_duration(172_800.0), "2 d"),
    (units.format_duration(3_024_000.0), "5 wk"),
    (units.format_duration(0.0123456, 3), "12.3 ms"),
    (units.format_months(36.0), "36 mo"),
    (units.format_months(5 * 168 / 730), "5 wk"),
    (units.format_ratio(0.999), "99.9%"),
    (units.format_ratio(0.0), "0%"),
    (units.format_rate(12.0), "12 req/s"),
    (units.format_rate(0.5), "0.5 req/s"),
    (units.format_rate(6 / 3600), "6 req/h"),
    (units.format_rate(11.574, 3), "11.6 req/s"),
    (units.format_count(175 * 10**9), "175B"),
    (units.format_count(4096), "4096"),
    (units.format_count(5000), "5k"),
    (units.format_count(123_456_789, 3), "123M"),
    (units.format_runs(Runs(4.0, True)), "4/mo"),
    (units.format_runs(units.parse_runs("2/wk")), "2/wk"),
    (units.format_runs(units.ONCE), "1"),
    (units.format_hours_per_month(60.0), "60 h/mo"),
    (units.format_hours_per_month(8 * 730 / 24), "8 h/day"),
    (units.format_bandwidth(400.0), "400 Gb/s"),
    (units.format_carbon(380.0), "380 g/kWh"),
    (units.format_at_least_count(8), "8+"),
    (units.format_at_least_bytes(32 * 10**9), "32 GB+"),
    (units.format_money(Decimal("300000"), "USD"), "$300,000"),
    (units.format_money(Decimal("1234567.8"), "USD", places=2), "$1,234,567.80"),
    (units.format_money(Decimal("-5"), "USD"), "-$5"),
    (units.format_money(Decimal("1234567.8"), "CNY", compact=True), "¥1.23M"),
    (units.format_money(Decimal("5000000"), "JPY"), "JPY 5,000,000"),
    (units.format_money(Decimal("350000"), "CNY", "zh", compact=True), "35万元"),
    (units.format_money(Decimal("200000000"), "CNY", "zh", compact=True), "2亿元"),
    (units.format_money(Decimal("300000"), "USD", "zh"), "300,000美元"),
    (units.format_money(0.1, "USD"), "$0.1"),
    (str(MoneyPerMonth.parse("$40k/mo")), "$40,000/mo"),
    (str(MoneyPerKwMonth.parse("$150/kW-month")), "$150/kW/mo"),
]


@pytest.mark.parametrize(("got", "text"), PRINTED)
def test_printed(got: str, text: str) -> None:
    assert got == text


# --- what is printed reads back as the same --------------------------------------------------------------

positive = st.floats(min_value=1e-6, max_value=1e15, allow_nan=False)
FLOATS: list[tuple[Callable[[Any], str], Callable[[object], float]]] = [
    (units.format_power, units.parse_power),
    (units.format_duration, units.parse_duration),
    (units.format_months, units.parse_months),
    (units.format_ratio, units.parse_ratio),
    (units.format_rate, units.parse_rate),
    (units.format_bandwidth, units.parse_bandwidth),
    (units.format_carbon, units.parse_carbon),
]


@pytest.mark.parametrize(("show", "parse"), FLOATS)
@given(value=st.one_of(positive, st.just(0.0), st.decimals(0, 10**6, places=2).map(float)))
@MANY
def test_floats_round_trip(show: Callable[[Any], str], parse: Callable[[object], float], value: float) -> None:
    assert parse(show(value)) == value


@given(value=st.floats(min_value=1e-6, max_value=730))
@MANY
def test_hours_round_trip(value: float) -> None:
    assert units.parse_hours_per_month(units.format_hours_per_month(value)) == value


@given(value=st.integers(0, 10**24))
@example(2**40)
@MANY
def test_counts_and_bytes_round_trip(value: int) -> None:
    assert units.parse_count(units.format_count(value)) == value
    assert units.parse_tokens(units.format_tokens(value)) == value
    assert units.parse_bytes(units.format_bytes(value)) == value
    assert units.parse_bytes(units.format_bytes(value, binary=True)) == value
    assert units.parse_bytes(units.format_bytes(value, binary=False)) == value
    assert units.parse_at_least_bytes(units.format_at_least_bytes(value)) == value
    assert units.parse_at_least_count(units.format_at_least_count(value)) == value


@given(value=positive, per_month=st.booleans())
@MANY
def test_runs_round_trip(value: float, per_month: bool) -> None:
    runs = Runs(value if per_month else float(math.ceil(value)), per_month)
    assert units.parse_runs(units.format_runs(runs)) == runs


@given(
    amount=st.decimals(0, 10**12, places=4),
    currency=st.sampled_from(units.CURRENCIES),
    lang=st.sampled_from(["en", "zh"]),
)
@MANY
def test_money_round_trips(amount: Decimal, currency: str, lang: str) -> None:
    assert Money.parse(units.format_money(amount, currency, lang)) == Money(amount, currency)
    for kind in (Money, MoneyPerMonth, MoneyPerKwh, MoneyPerKwMonth):
        money = kind(amount, currency)
        assert kind.parse(str(money)) == money


@given(
    amount=st.decimals(0, 10**12, places=2),
    currency=st.sampled_from(units.CURRENCIES),
    lang=st.sampled_from(["en", "zh"]),
)
@MANY
def test_compact_money_is_close(amount: Decimal, currency: str, lang: str) -> None:
    back = Money.parse(units.format_money(amount, currency, lang, compact=True, digits=3))
    assert back.currency == currency
    assert abs(back.amount - amount) <= amount * Decimal("0.006")


@given(value=positive, digits=st.integers(1, 8))
@MANY
def test_display_digits_are_close(value: float, digits: int) -> None:
    assert units.parse_power(units.format_power(value, digits)) == pytest.approx(value, rel=0.6 * 10.0 ** (1 - digits))
    assert units.parse_rate(units.format_rate(value, digits)) == pytest.approx(value, rel=0.6 * 10.0 ** (1 - digits))


# --- nothing but UnitError ever comes out ----------------------------------------------------------------

PARSERS: list[Callable[[object], Any]] = list({id(parse): parse for parse, _, _ in READ}.values())
letters = st.text(alphabet="0123456789.,-+_eE /%$¥€kKmMGTBbiWhsdyqrt万亿元月每perinfa", max_size=14)
anything = st.one_of(
    st.text(max_size=30),
    letters,
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)


@given(value=anything)
@settings(max_examples=500, deadline=None)
def test_parsers_raise_only_their_own_error(value: object) -> None:
    for parse in PARSERS:
        try:
            got = parse(value)
        except UnitError as error:
            words = error.message
        else:
            words = "read"
            number = getattr(got, "amount", getattr(got, "value", got))
            assert math.isfinite(number)
            assert number >= 0
        assert words
        assert "\n" not in words


@given(number=st.decimals(0, 10**9, places=3), space=st.sampled_from(["", " "]))
@MANY
def test_decimal_and_binary_bytes_are_never_mixed(number: Decimal, space: str) -> None:
    for letter, power in zip("kMGTPE", range(1, 7), strict=True):
        for unit, base in ((f"{letter}B", 1000), (f"{letter.upper()}iB", 1024)):
            exact = number * base**power
            text = f"{number}{space}{unit}"
            if exact == exact.to_integral_value() and exact <= 10**24:
                assert units.parse_bytes(text) == int(exact)
            else:
                with pytest.raises(UnitError):
                    units.parse_bytes(text)


# --- JSON schema -----------------------------------------------------------------------------------------


def _parts(schema: Any) -> list[dict[str, Any]]:
    """All objects within a JSON schema."""
    if isinstance(schema, list):
        return [part for item in schema for part in _parts(item)]
    if not isinstance(schema, dict):
        return []
    return [schema, *(part for item in schema.values() for part in _parts(item))]


def test_patterns_of_the_json_schema_accept_their_examples() -> None:
    schema = Problem.model_json_schema()
    checked = 0
    for part in _parts(schema):
        if "pattern" in part and "examples" in part:
            for text in part["examples"]:
                assert re.search(part["pattern"], str(text)), (part["pattern"], text)
                checked += 1
    assert checked > 50


@pytest.mark.parametrize(
    ("model", "field", "texts"),
    [
        ("Site", "power", ["30kW", "1.2 MW", "31.2 kW"]),
        ("Users", "requests", ["6/h", "40 rps", "0.5 requests/s", "6 req/h"]),
        ("Budget", "monthly", ["$40k/mo", "35万元/月", "$40,000/mo"]),
        ("Budget", "total", ["$1.2M", "¥2亿", "JPY 5M", "$300,000"]),
        ("Fixed", "ram", ["32GB+", "32 GB+"]),
        ("Fixed", "hours", ["60h/mo", "8 h/day", "always"]),
        ("Finetune", "tokens", ["50M", "1_000", "32Ki"]),
        ("Finetune", "runs", ["4/mo", "once"]),
    ],
)
def test_patterns_accept_what_is_printed_and_refuse_noise(model: str, field: str, texts: list[str]) -> None:
    schema = Problem.model_json_schema()["$defs"][model]["properties"][field]
    patterns = [part["pattern"] for part in _parts(schema) if "pattern" in part]
    assert len(patterns) == 1
    for text in texts:
        assert re.search(patterns[0], text), text
    assert not re.search(patterns[0], "nonsense")


def test_defaults_of_the_json_schema_are_in_the_forms_people_write() -> None:
    schema = Problem.model_json_schema()
    assert schema["properties"]["horizon"]["default"] == "12 mo"
    assert schema["properties"]["gap"]["default"] == "0.5%"
    assert schema["$defs"]["Finetune"]["properties"]["checkpoint_interval"]["default"] == "1 h"
    json.dumps(schema, allow_nan=False)
