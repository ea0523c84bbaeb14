"""What a what-if run varies: fields of the problem by path, prices by selector; grids, lists and distributions.

Texts are those of the command line: ``limits.power=20kW..60kW:5kW``, ``sites.room.electricity=$0.08/kWh,$0.12/kWh``,
``prices.spot=0.5..1.5:0.25``, ``prices.h100:lognormal(0.2)``. A price selector takes factors on the catalogue's prices. In a
distribution, numbers without a unit are factors on what the file says, numbers with a unit are values.
"""

from __future__ import annotations

import itertools
import math
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

ALIASES = {"gpu.power_limit": "policy.gpu_power_limit"}
PRICES = "prices."
MOST_POINTS = 20_000
DEFAULT_STEPS = 10
_NUMBER = re.compile(r"[-+]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_LAW = re.compile(r"^([A-Za-z_]+)\((.*)\)$")
LAWS = {"lognormal": (1, 2), "normal": (2, 2), "uniform": (2, 2), "triangular": (3, 3)}


class BadRequest(ValueError):  # noqa: N818 - reads as what it says
    """An option that cannot be carried out; the message says what is wrong and what is allowed."""


@dataclass(frozen=True)
class Amount:
    """A number with what stands around it: ``$`` and ``k/mo`` in ``$80k/mo``."""

    prefix: str
    number: Decimal
    suffix: str

    @classmethod
    def parse(cls, text: str) -> Amount:
        """Split a text.

        Raises
        ------
        BadRequest
            Where it holds no number.
        """
        found = _NUMBER.search(text)
        if found is None:
            raise BadRequest(f"{text.strip()!r} holds no number")
        return cls(text[: found.start()].strip(), Decimal(found.group().replace("_", "")), text[found.end() :].rstrip())

    @property
    def bare(self) -> bool:
        """Whether there is no unit."""
        return not self.prefix and not self.suffix.strip()

    def at(self, number: Decimal | float) -> Amount:
        """The same unit with another number, to nine significant digits."""
        exact = number if isinstance(number, Decimal) else Decimal(f"{number:.9g}")
        return Amount(self.prefix, exact, self.suffix)

    def __str__(self) -> str:
        digits = f"{self.number:f}"
        if "." in digits:
            digits = digits.rstrip("0").rstrip(".")
        return f"{self.prefix}{digits}{self.suffix}"


@dataclass(frozen=True)
class Vary:
    """One varied thing: its path or price selector and the values it takes, as written."""

    path: str
    values: tuple[str, ...]

    @property
    def is_price(self) -> bool:
        """Whether the values are factors on prices of the catalogue."""
        return self.path.startswith(PRICES)


@dataclass(frozen=True)
class Law:
    """A varied thing drawn at random."""

    path: str
    law: str
    arguments: tuple[Amount, ...]

    @property
    def is_factor(self) -> bool:
        """Whether draws multiply what the problem or catalogue says."""
        return self.path.startswith(PRICES) or all(a.bare for a in self.arguments)

    def draw(self, seed: int, number: int) -> Decimal:
        """Draw of scenario `number`: the same whatever else is drawn, in whatever order and wherever."""
        rng = random.Random(f"{seed}|{number}|{self.path}|{self.law}")
        args = [float(a.number) for a in self.arguments]
        for _ in range(1000):
            if self.law == "lognormal":
                value = rng.lognormvariate(*(args if len(args) == 2 else (0.0, args[0])))
            elif self.law == "normal":
                value = rng.gauss(*args)
            elif self.law == "uniform":
                value = rng.uniform(*args)
            else:
                value = rng.triangular(args[0], args[2], args[1])
            if value > 0:
                return Decimal(f"{value:.6g}")
        raise BadRequest(f"{self.path}: {self.law} gives nothing above zero")


@dataclass(frozen=True)
class Scenario:
    """Overrides of fields (path, text), factors on fields (path, factor) and factors on prices (selector, factor)."""

    settings: tuple[tuple[str, str], ...] = ()
    factors: tuple[tuple[str, str], ...] = ()
    prices: tuple[tuple[str, str], ...] = ()

    @property
    def varied(self) -> dict[str, str]:
        """Everything varied, by path; factors as ``x1.2``."""
        shown = dict(self.settings)
        shown |= {path: f"x{factor}" for path, factor in (*self.factors, *self.prices)}
        return shown


def _range(path: str, text: str) -> tuple[str, ...]:
    body, colon, step_text = text.partition(":")
    low_text, _, high_text = body.partition("..")
    ends = [Amount.parse(low_text), Amount.parse(high_text)]
    steps = [Amount.parse(step_text)] if colon else []
    units = {(a.prefix, a.suffix.strip()) for a in (*ends, *steps) if not a.bare}
    if len(units) > 1:
        raise BadRequest(f"{path}: write both ends and the step of {text} in one unit")
    shape = next((a for a in (*ends, *steps) if not a.bare), ends[0])
    low, high = ends[0].number, ends[1].number
    step = steps[0].number if steps else (high - low) / DEFAULT_STEPS
    if step == 0 and low != high:
        raise BadRequest(f"{path}: the step of {text} is 0")
    if low > high:
        raise BadRequest(f"{path}: {text} runs from high to low")
    if step < 0:
        raise BadRequest(f"{path}: the step of {text} must be above 0")
    count = 1 if low == high else int((high - low) / step + Decimal("1e-9")) + 1
    if count > MOST_POINTS:
        raise BadRequest(f"{path}: {text} has {count:,} points; at most {MOST_POINTS:,} are solved")
    numbers = [low + step * i for i in range(count)]
    if high - numbers[-1] > step * Decimal("1e-9"):
        numbers.append(high)
    return tuple(str(shape.at(n)) for n in numbers)


def parse_vary(text: str) -> Vary:
    """Read ``PATH=LO..HI:STEP`` or ``PATH=A,B,C``.

    Raises
    ------
    BadRequest
        With what is wrong.
    """
    path, equals, body = text.partition("=")
    path, body = path.strip(), body.strip()
    if not equals or not path or not body:
        raise BadRequest(f"--vary {text}: write PATH=LO..HI:STEP or PATH=A,B,C, e.g. limits.power=20kW..60kW:5kW")
    path = ALIASES.get(path, path)
    values = _range(path, body) if ".." in body else tuple(v.strip() for v in body.split(",") if v.strip())
    vary = Vary(path, tuple(dict.fromkeys(values)))
    if vary.is_price:
        return Vary(path, tuple(_factor(path, v) for v in vary.values))
    return vary


def _factor(path: str, text: str) -> str:
    amount = Amount.parse(text)
    number = amount.number / 100 if amount.suffix.strip() == "%" else amount.number
    if amount.prefix or amount.suffix.strip() not in ("", "%") or number <= 0:
        raise BadRequest(f"{path}: {text} is no factor; write 0.8, 1.2 or 80%")
    return str(Amount("", number, ""))


def parse_law(text: str) -> Law:
    """Read ``PATH:lognormal(mu, sigma)`` (mu may be left out), ``normal(mean, sd)``, ``uniform(low, high)``,
    ``triangular(low, likely, high)``.

    Raises
    ------
    BadRequest
        With what is wrong.
    """
    path, colon, body = text.partition(":")
    path = ALIASES.get(path.strip(), path.strip())
    found = _LAW.match(body.strip())
    if not colon or not path or found is None or found.group(1) not in LAWS:
        raise BadRequest(f"--sample {text}: write PATH:LAW(..), where LAW is {', '.join(LAWS)}")
    law = found.group(1)
    arguments = tuple(Amount.parse(a) for a in found.group(2).split(",") if a.strip())
    least, most = LAWS[law]
    if not least <= len(arguments) <= most:
        raise BadRequest(f"--sample {text}: {law} takes {least if least == most else f'{least} or {most}'} numbers")
    numbers = [a.number for a in arguments]
    sound = {
        "lognormal": numbers[-1] >= 0,
        "normal": numbers[-1] >= 0,
        "uniform": numbers == sorted(numbers),
        "triangular": numbers == sorted(numbers),
    }[law]
    if not sound or (law in ("uniform", "triangular") and numbers[-1] <= 0):
        raise BadRequest(f"--sample {text}: {law} needs numbers in rising order, and no negative spread")
    if law == "lognormal" and not all(a.bare for a in arguments):
        raise BadRequest(f"--sample {text}: lognormal is a factor on the file's value; its numbers have no unit")
    if not path.startswith(PRICES) and len({a.bare for a in arguments}) > 1:
        raise BadRequest(f"--sample {text}: write all numbers with the unit, or none")
    if path.startswith(PRICES) and not all(a.bare for a in arguments):
        raise BadRequest(f"--sample {text}: prices are drawn as factors; numbers have no unit")
    return Law(path, law, arguments)


def grid(varied: Sequence[Vary]) -> list[Scenario]:
    """Every combination of the values, the last thing varying quickest.

    Raises
    ------
    BadRequest
        For too many points.
    """
    count = math.prod(len(v.values) for v in varied)
    if count > MOST_POINTS:
        raise BadRequest(f"the grid has {count:,} points; at most {MOST_POINTS:,} are solved")
    points = []
    for values in itertools.product(*(v.values for v in varied)):
        pairs = list(zip(varied, values, strict=True))
        points.append(
            Scenario(
                tuple((v.path, value) for v, value in pairs if not v.is_price),
                (),
                tuple((v.path, value) for v, value in pairs if v.is_price),
            )
        )
    return points


def draws(laws: Sequence[Law], count: int, seed: int) -> list[Scenario]:
    """`count` scenarios drawn from the laws; the first ones stay the same when more are asked for."""
    points = []
    for number in range(count):
        settings, factors, prices = [], [], []
        for law in laws:
            value = law.draw(seed, number)
            if law.path.startswith(PRICES):
                prices.append((law.path, str(value)))
            elif law.is_factor:
                factors.append((law.path, str(value)))
            else:
                shape = next(a for a in law.arguments if not a.bare)
                settings.append((law.path, str(shape.at(value))))
        points.append(Scenario(tuple(settings), tuple(factors), tuple(prices)))
    return points
