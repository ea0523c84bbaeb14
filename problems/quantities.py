"""Counts, bytes, power, time, shares, network, carbon: text <-> numbers. `problems.units` re-exports all."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from fractions import Fraction

from problems.scan import MAGNITUDES, Kind, Scale, print_quantity, whole

HOURS_PER_MONTH = 730
"""Hours of a month, everywhere [h]."""
HOUR = 3600
"""Seconds of an hour [s]."""
MONTH = HOURS_PER_MONTH * HOUR
"""Seconds of a month [s]."""

TIME: Mapping[str, Fraction | int] = {
    **dict.fromkeys(("us", "μs"), Fraction(1, 10**6)),
    **dict.fromkeys(("ms", "msec", "毫秒"), Fraction(1, 1000)),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds", "秒"), 1),
    **dict.fromkeys(("min", "mins", "minute", "minutes", "分钟"), 60),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours", "小时"), HOUR),
    **dict.fromkeys(("d", "day", "days", "天", "日"), 24 * HOUR),
    **dict.fromkeys(("wk", "wks", "w", "week", "weeks", "周"), 168 * HOUR),
    **dict.fromkeys(("mo", "mos", "mon", "month", "months", "月", "个月"), MONTH),
    **dict.fromkeys(("y", "yr", "yrs", "year", "years", "年"), 12 * MONTH),
}
_TIME_HINTS = {
    "m": "m may be minutes or months; write min or mo",
    "M": "M may be minutes or months; write min or mo",
}


# --- counts and tokens ---------------------------------------------------------------------------------

_COUNTS: dict[str, int] = {**MAGNITUDES, "Ki": 2**10, "Mi": 2**20}
_COUNT_NOUNS = (
    "requests",
    "request",
    "req",
    "reqs",
    "parameters",
    "params",
    "users",
    "people",
    "请求",
    "次",
    "人",
)
_TOKEN_NOUNS = ("tokens", "token", "tok", "toks")


def _named(nouns: tuple[str, ...]) -> dict[str, Fraction | int]:
    return {
        **_COUNTS,
        **{m + gap + n: size for m, size in _COUNTS.items() for n in nouns for gap in ("", " ")},
    }


COUNT = Kind("a whole number", ("5000", "1_000", "50M", "175B"), _named(_COUNT_NOUNS), bare=True)
TOKENS = Kind(
    "a number of tokens",
    ("4096", "8k (= 8000)", "32Ki (= 32768)", "50M", "300B"),
    _named(_TOKEN_NOUNS),
    bare=True,
)
AT_LEAST_COUNT = Kind("a least number", ("8+", "8"), COUNT.units, bare=True)
_COUNT_SCALES: tuple[Scale, ...] = (("T", 10**12), ("B", 10**9), ("M", 10**6), ("k", 1000), ("", 1))


def parse_count(value: object) -> int:
    """Read a count: ``5000``, ``1_000``, ``175B``; raises `UnitError`."""
    return whole(COUNT.parse(value), value, COUNT)


def parse_tokens(value: object) -> int:
    """Read a number of tokens: ``4096``, ``8k`` (8000), ``32Ki`` (32768); raises `UnitError`."""
    return whole(TOKENS.parse(value), value, TOKENS)


def format_count(value: float, digits: int | None = None) -> str:
    """Print a count: ``175B``, ``5k``, ``4096``; exactly, or to `digits` significant digits."""
    number, unit = print_quantity(value, _COUNT_SCALES, digits=digits)
    plain = print_quantity(value, (("", 1),))[0]
    return plain if digits is None and len(plain) < len(number) + len(unit) else number + unit


format_tokens = format_count


def _least(value: object) -> object:
    """Strip the marks of "at least" off `value`."""
    if not isinstance(value, str):
        return value
    text = unicodedata.normalize("NFKC", value).strip()
    return re.sub(r"^(?:>=|≥|at least\b|至少)\s*|\s*(?:\+|以上)$", "", text, count=1)


def parse_at_least_count(value: object) -> int:
    """Read a least count: ``8+`` or ``8``; raises `UnitError`."""
    return whole(AT_LEAST_COUNT.parse(_least(value)), value, AT_LEAST_COUNT)


def format_at_least_count(value: int) -> str:
    """Print a least count: ``8+``."""
    return f"{value}+"


# --- bytes ---------------------------------------------------------------------------------------------

_BYTE_UNITS: dict[str, int] = {"B": 1, "bytes": 1, "byte": 1}
_BIT_HINTS: dict[str, str] = {}
for _power, _letter in enumerate("KMGTPE", start=1):
    for _form in (f"{_letter}B", f"{_letter}B".lower(), "kB" if _letter == "K" else f"{_letter}B"):
        _BYTE_UNITS[_form] = 1000**_power
    for _form in (f"{_letter}iB", f"{_letter}IB", f"{_letter}ib".lower()):
        _BYTE_UNITS[_form] = 1024**_power
    _choose = f"write {_letter}B (decimal, 1000^{_power}) or {_letter}iB (binary, 1024^{_power}) bytes"
    _BIT_HINTS[f"{_letter}b"] = f"{_letter}b is bits; {_choose}"
    _BIT_HINTS |= dict.fromkeys((_letter, _letter.lower(), f"{_letter}i"), f"no B for bytes; {_choose}")

BYTES = Kind("a size in bytes", ("80GB (10^9)", "80GiB (2^30)", "2TB", "500MB"), _BYTE_UNITS, hints=_BIT_HINTS)
AT_LEAST_BYTES = Kind("a least size in bytes", ("32GB+", "32GB", "32GiB+"), _BYTE_UNITS, hints=_BIT_HINTS)
_DECIMAL: tuple[Scale, ...] = (
    *((f"{x}B", 1000**p) for p, x in zip(range(6, 0, -1), "EPTGMk", strict=True)),
    ("B", 1),
)
_BINARY: tuple[Scale, ...] = (
    *((f"{x}iB", 1024**p) for p, x in zip(range(6, 0, -1), "EPTGMK", strict=True)),
    ("B", 1),
)


def parse_bytes(value: object) -> int:
    """Read a size [bytes]: ``80GB`` (decimal) or ``80GiB`` (binary); raises `UnitError`."""
    return whole(BYTES.parse(value), value, BYTES)


def format_bytes(value: float, digits: int | None = None, *, binary: bool | None = None) -> str:
    """Print a size [bytes]: ``80 GB``, ``80 GiB``; `binary` None takes the family that prints it shorter."""
    exact = [print_quantity(value, scales) for scales in (_DECIMAL, _BINARY)]
    if binary is None:
        binary = len(exact[1][0].replace(".", "")) < len(exact[0][0].replace(".", ""))
    number, unit = (
        exact[binary] if digits is None else print_quantity(value, (_DECIMAL, _BINARY)[binary], digits=digits)
    )
    return f"{number} {unit}"


def parse_at_least_bytes(value: object) -> int:
    """Read a least size [bytes]: ``32GB+`` or ``32GB``; raises `UnitError`."""
    return whole(AT_LEAST_BYTES.parse(_least(value)), value, AT_LEAST_BYTES)


def format_at_least_bytes(value: int) -> str:
    """Print a least size [bytes]: ``32 GB+``."""
    return f"{format_bytes(value)}+"


# --- power, time, ratio, network, carbon ---------------------------------------------------------------

POWER = Kind(
    "a power",
    ("500W", "30kW", "1.2MW"),
    {
        **dict.fromkeys(("W", "w", "watt", "watts", "瓦"), 1),
        **dict.fromkeys(("kW", "KW", "kw", "Kw", "千瓦"), 1000),
        **dict.fromkeys(("MW", "兆瓦"), 10**6),
    },
    hints={
        "mW": "mW is milliwatts; for megawatts write MW",
        "mw": "mw may be milli- or megawatts; write MW",
        "kVA": "kVA is apparent power; give the real power in kW",
        "kWh": "kWh is energy; give a power in kW",
    },
)
DURATION = Kind("a duration", ("500ms", "30s", "15min", "48h", "3d", "5 weeks", "3mo", "1y"), TIME, hints=_TIME_HINTS)
MONTHS = Kind("a length in months", ("12mo", "36 months", "3y", "5wk", "90d"), TIME, hints=_TIME_HINTS)
RATIO = Kind("a share", ("99.9%", "0.999"), {"": 1, "%": Fraction(1, 100), "percent": Fraction(1, 100)}, bare=True)
_BITS = {
    **{f"{p}b{s}": n for p, n in (("M", Fraction(1, 1000)), ("G", 1), ("T", 1000)) for s in ("/s", "ps", "it/s")},
    **{f"{p}bps": n for p, n in (("m", Fraction(1, 1000)), ("g", 1), ("t", 1000))},
    **{f"{p}B{s}": Fraction(n) * 8 for p, n in (("M", Fraction(1, 1000)), ("G", 1), ("T", 1000)) for s in ("/s", "ps")},
    "GbE": 1,
    "GBytes/s": 8,
}
BANDWIDTH = Kind(
    "a network speed",
    ("400Gb/s", "400Gbps", "50GB/s (= 400Gb/s)"),
    _BITS,
    hints={
        **dict.fromkeys(("gb/s", "Gb", "GB", "gb", "G", "g"), "write Gb/s (bits) or GB/s (bytes)"),
    },
)
_BYTES_PER_S: dict[str, Fraction | int] = {
    f"{p}{form}": n
    for p, n in (("M", Fraction(1, 1000)), ("G", 1), ("T", 1000))
    for form in ("B/s", "Bps", "Bytes/s", "B/sec")
}
_BYTES_PER_S |= {f"{p}iB/s": Fraction(1024**n, 10**9) for p, n in (("M", 2), ("G", 3), ("T", 4))}
_BITS_HINT = "is bits; disks are counted in bytes: write GB/s (1 GB/s = 8 Gb/s)"
THROUGHPUT = Kind(
    "a storage speed",
    ("40GB/s", "500MB/s", "1.2TB/s"),
    _BYTES_PER_S,
    hints={
        **{u: f"{u} {_BITS_HINT}" for u in _BITS if "B" not in u},
        **{f"{p}b/s": f"{p}b/s may be bits or bytes; write {p.upper()}B/s" for p in "mgt"},
        **dict.fromkeys(("GB", "MB", "TB"), "a size; a speed is per second: write GB/s"),
    },
)
CARBON = Kind(
    "a carbon intensity",
    ("380g/kWh", "0.38kg/kWh", "380 gCO2e/kWh"),
    {f"{m}{c}/kWh": n for m, n in (("g", 1), ("kg", 1000)) for c in ("", "CO2", "CO2e", " CO2", " CO2e")},
)


def parse_power(value: object) -> float:
    """Read a power [W]: ``30kW``; raises `UnitError`."""
    return float(POWER.parse(value))


def format_power(watts: float, digits: int | None = None) -> str:
    """Print a power [W]: ``31.2 kW``; exactly, or to `digits` significant digits."""
    number, unit = print_quantity(watts, (("MW", 10**6), ("kW", 1000), ("W", 1)), digits=digits)
    return f"{number} {unit}"


def parse_duration(value: object) -> float:
    """Read a duration [s]: ``500ms``, ``48h``, ``5 weeks``; raises `UnitError`."""
    return float(DURATION.parse(value))


_DURATION_SCALES: tuple[Scale, ...] = (
    *(("y", 12 * MONTH), ("mo", MONTH), ("wk", 168 * HOUR), ("d", 24 * HOUR), ("h", HOUR), ("min", 60)),
    *(("s", 1), ("ms", Fraction(1, 1000)), ("us", Fraction(1, 10**6))),
)


def format_duration(seconds: float, digits: int | None = None) -> str:
    """Print a duration [s]: ``500 ms``, ``2 d``; exactly, or to `digits` significant digits."""
    scales = _DURATION_SCALES[-3:] if seconds == 0 else _DURATION_SCALES
    number, unit = print_quantity(seconds, scales, digits=digits)
    return f"{number} {unit}"


def parse_months(value: object) -> float:
    """Read a length [months of 730 h]: ``12mo``, ``3y``, ``5wk``; raises `UnitError`."""
    return float(MONTHS.parse(value) / MONTH)


def format_months(months: float, digits: int | None = None) -> str:
    """Print a length [months]: ``12 mo``, ``5 wk``; exactly, or to `digits` significant digits."""
    week, day = Fraction(168, HOURS_PER_MONTH), Fraction(24, HOURS_PER_MONTH)
    scales: tuple[Scale, ...] = (("mo", 1), ("wk", week), ("d", day)) if digits is None else (("mo", 1),)
    number, unit = print_quantity(months, scales, digits=digits)
    return f"{number} {unit}"


def parse_ratio(value: object) -> float:
    """Read a share: ``99.9%`` or ``0.999``; raises `UnitError`."""
    return float(RATIO.parse(value))


def format_ratio(share: float, digits: int | None = None) -> str:
    """Print a share: ``99.9%``; exactly, or to `digits` significant digits."""
    number, unit = print_quantity(share, (("%", Fraction(1, 100)), ("", 1)), digits=digits, least=0)
    return number + unit


def parse_bandwidth(value: object) -> float:
    """Read a network speed [Gb/s]: ``400Gb/s``, ``50GB/s``; raises `UnitError`."""
    return float(BANDWIDTH.parse(value))


def format_bandwidth(gb_per_s: float, digits: int | None = None) -> str:
    """Print a network speed [Gb/s]: ``400 Gb/s``; exactly, or to `digits` significant digits."""
    scales: tuple[Scale, ...] = (("Gb/s", 1), ("Mb/s", Fraction(1, 1000)))
    number, unit = print_quantity(gb_per_s, scales, digits=digits)
    return f"{number} {unit}"


def parse_throughput(value: object) -> float:
    """Read a storage speed [GB/s]: ``40GB/s``, ``500MB/s``; bits are refused; raises `UnitError`."""
    return float(THROUGHPUT.parse(value))


def format_throughput(gb_per_s: float, digits: int | None = None) -> str:
    """Print a storage speed [GB/s]: ``40 GB/s``; exactly, or to `digits` significant digits."""
    scales: tuple[Scale, ...] = (("TB/s", 1000), ("GB/s", 1), ("MB/s", Fraction(1, 1000)))
    number, unit = print_quantity(gb_per_s, scales, digits=digits)
    return f"{number} {unit}"


def parse_carbon(value: object) -> float:
    """Read a carbon intensity [g CO2e/kWh]: ``380g/kWh``; raises `UnitError`."""
    return float(CARBON.parse(value))


def format_carbon(g_per_kwh: float, digits: int | None = None) -> str:
    """Print a carbon intensity [g CO2e/kWh]: ``380 g/kWh``."""
    number, unit = print_quantity(g_per_kwh, (("g/kWh", 1),), digits=digits)
    return f"{number} {unit}"


# --- plain numbers -------------------------------------------------------------------------------------

NUMBER = Kind("a number", ("100", "1.4", "1_000"), {"": 1}, bare=True)


def parse_number(value: object) -> float:
    """Read a number without a unit; raises `UnitError` for anything else, truth values among it."""
    return float(NUMBER.parse(value))
