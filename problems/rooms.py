"""What an own room gives machines to stand in and hang on: racks, circuits, cooling, and what electricity costs by the hour."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag

from problems.base import Fault, Strict
from problems.scan import UnitError, shown
from problems.tariff import Tariff
from problems.units import MoneyPerKwh, MoneyPerMonth, Ratio, Watts, Whole, parse_count

Redundancy = Literal["n", "n+1", "2n"]
Cooling = Literal["air", "rear_door", "liquid"]
Colocation = Literal["retail", "wholesale", "high_density"]

CIRCUIT_FORMS = "forms allowed: 208V 30A 3ph x4, 4 x 230V 16A, {count: 4, volts: 208, amps: 30, phases: 3, derate: 80%}"
_TOKEN = re.compile(
    r"\s*,?\s*(?:(?P<volts>\d+(?:\.\d+)?\s*k?V)|(?P<amps>\d+(?:\.\d+)?\s*A)"
    r"|(?P<share>(?:derate[d to]*|at|@)?\s*\d+(?:\.\d+)?\s*%)"
    r"|(?P<phases>[13]\s*[- ]?(?:ph|phases?|φ)|three[- ]phase|single[- ]phase|三相|单相)"
    r"|(?P<count>[x×*]\s*\d+|\d+\s*[x×*]))(?![A-Za-z])",
    re.IGNORECASE,
)


def _electric(unit: str) -> BeforeValidator:
    """Reader of a rating: the key names the unit, which may be written all the same."""

    def read(value: object) -> object:
        if isinstance(value, str):
            found = re.fullmatch(rf"\s*(\d+(?:\.\d+)?)\s*(k?){unit}?\s*", value, re.IGNORECASE)
            if found is None:
                raise UnitError(f"{shown(value)} is no number of {unit}", f"forms allowed: 30, 30{unit}")
            return float(found[1]) * (1000.0 if found[2] else 1.0)
        return value

    return BeforeValidator(read, json_schema_input_type=float | str)


def _phases(value: object) -> object:
    if isinstance(value, str):
        text = value.strip().lower()
        if text[:1] in ("1", "3"):
            return int(text[0])
        return {"three": 3, "single": 1, "三": 3, "单": 1}.get(text.split("-")[0].split(" ")[0].rstrip("相"), value)
    return value


class Circuit(Strict):
    """Equal circuits of a room: `volts` between lines where there are three phases, `amps` of the breaker.

    `derate` is the share of the rating that a continuous load may take (80 % by the usual code). Without `phases`, 380 V
    and more are taken for three.
    """

    count: Whole = Field(default=1, ge=1)
    volts: Annotated[float, _electric("V")] = Field(gt=0, le=1000, examples=[208])
    amps: Annotated[float, _electric("A")] = Field(gt=0, le=10_000, examples=[30])
    phases: Annotated[Literal[1, 3], BeforeValidator(_phases, json_schema_input_type=Literal[1, 3] | str)] | None = None
    derate: Ratio = Field(default=0.8, gt=0, le=1)


def read_circuit(value: object) -> object:
    """Keys of a circuit that is written in one line, ``208V 30A 3ph x4``.

    Raises
    ------
    UnitError
        For text that names anything else, or lacks volts or amps.
    """
    if not isinstance(value, str):
        return value
    rest, found = value, {}
    while rest.strip():
        token = _TOKEN.match(rest)
        if token is None or token.lastgroup is None or token.lastgroup in found:
            raise UnitError(f"cannot read the circuit {shown(value)}", CIRCUIT_FORMS)
        found[token.lastgroup] = token[token.lastgroup]
        rest = rest[token.end() :]
    if not {"volts", "amps"} <= found.keys():
        raise UnitError(f"the circuit {shown(value)} needs volts and amps", CIRCUIT_FORMS)
    keys: dict[str, object] = {k: found[k] for k in ("volts", "amps", "phases") if k in found}
    if "share" in found:
        keys["derate"] = re.sub(r"^\D*", "", found["share"]).replace(" ", "")
    if "count" in found:
        keys["count"] = re.sub(r"\D", "", found["count"])
    return keys


def _listed(value: object) -> object:
    return [value] if isinstance(value, str | Mapping) else value


Circuits = Annotated[
    tuple[Annotated[Circuit, BeforeValidator(read_circuit, json_schema_input_type=str | Circuit)], ...],
    BeforeValidator(_listed),
]


def _height(value: object) -> object:
    return parse_count(re.sub(r"\s*U$", "", value.strip()) if isinstance(value, str) else value)


_Height = Annotated[int, BeforeValidator(_height, json_schema_input_type=int | str)]


class Racks(Strict):
    """Racks of a room: how many there are (no limit where not given), what each carries [W, U] and costs a month."""

    count: Whole | None = Field(default=None, ge=0, examples=[10])
    power: Watts | None = Field(default=None, gt=0, examples=["17kW"])
    units: _Height = Field(default=42, ge=1, le=100)
    price: MoneyPerMonth | None = Field(default=None, examples=["$1200/mo"])


def _counted(value: object) -> object:
    return {"count": value} if isinstance(value, int | str) and not isinstance(value, bool) else value


RackRoom = Annotated[Racks, BeforeValidator(_counted, json_schema_input_type=int | Racks)]
"""Racks; a number is how many there are."""


def _lower(value: object) -> object:
    return value.strip().lower().replace(" ", "_").replace("-", "_") if isinstance(value, str) else value


def _cooled(value: object) -> object:
    items = [value] if isinstance(value, str) else value
    return [_lower(v) for v in items] if isinstance(items, list | tuple) else items


Feeds = Annotated[Redundancy, BeforeValidator(lambda v: _lower(v) if isinstance(v, str) else v)]
Coolings = Annotated[tuple[Cooling, ...], BeforeValidator(_cooled), Field(min_length=1)]
Space = Annotated[Colocation, BeforeValidator(_lower)]


def _form(value: object) -> str:
    return "<by hour>" if isinstance(value, Mapping | Tariff) else "<flat>"


Electricity = Annotated[
    Annotated[MoneyPerKwh, Tag("<flat>")] | Annotated[Tariff, Tag("<by hour>")],
    Discriminator(_form),
]
"""A price per kWh, or prices by the hour."""


def room_faults(given: Mapping[str, Any]) -> Iterator[Fault]:
    """What is wrong with a site's keys taken together."""
    if given.get("colocation") is not None and given.get("space") is not None:
        yield ("colocation",), "give either space (your price) or colocation (the catalogue's), not both"
    if str(given.get("redundancy", "n")).strip().lower() != "n" and not given.get("circuits"):
        yield ("redundancy",), "redundancy is that of the feeds: give circuits beside it"
