"""Rooms as people write them: circuits in a line, racks by number, tariffs by window; and what is wrong, all at once."""

from __future__ import annotations

from decimal import Decimal

import pytest

from problems.load import ProblemError, load_text
from problems.schema import Site
from problems.tariff import Tariff, window_hours
from problems.units import UnitError

HEAD = """
workloads: [{name: c, kind: serve, model: llama-3-8b, traffic: {rate: 1 req/s, isl: 100, osl: 100}}]
sites:
  - name: hall
"""


def site(text: str) -> Site:
    lines = "".join(f"    {line}\n" for line in text.strip().splitlines())
    return load_text(HEAD + lines, "x.yaml").problem.sites[0]


@pytest.mark.parametrize(
    ("text", "count", "volts", "amps", "phases", "derate"),
    [
        ("208V 30A 3ph x4", 4, 208, 30, 3, 0.8),
        ("4 x 230V 16A", 4, 230, 16, None, 0.8),
        ("4x208V30A3ph", 4, 208, 30, 3, 0.8),
        ('"400V 32A three-phase @ 100%"', 1, 400, 32, 3, 1.0),
        ("208V 30A 3ph x4 at 90%", 4, 208, 30, 3, 0.9),
        ("{count: 2, volts: 415V, amps: 63A, phases: 3ph, derate: 80%}", 2, 415, 63, 3, 0.8),
        ("[{volts: 208, amps: 30}]", 1, 208, 30, None, 0.8),
    ],
)
def test_circuits(text: str, count: int, volts: float, amps: float, phases: int | None, derate: float) -> None:
    found = site(f"circuits: {text}")
    (circuit,) = found.circuits
    assert (circuit.count, circuit.volts, circuit.amps, circuit.phases) == (count, volts, amps, phases)
    assert circuit.derate == pytest.approx(derate)
    assert Site.model_validate(found.model_dump(mode="json")) == found


def test_racks_and_cooling() -> None:
    found = site("racks: 10\ncooling: [Air, rear door]")
    assert found.racks is not None
    assert (found.racks.count, found.racks.units, found.racks.power) == (10, 42, None)
    assert found.cooling == ("air", "rear_door")
    racks = site("racks: {power: 17kW, units: 48U, price: $1200/mo}").racks
    assert racks is not None
    assert (racks.power, racks.units, racks.price and racks.price.amount) == (17_000, 48, Decimal(1200))


def test_every_fault_is_said() -> None:
    with pytest.raises(ProblemError) as caught:
        site("circuits: 30A x4\ncooling: water\nredundancy: 3n\nracks: ten\nspace: $9/kW/mo\ncolocation: retail")
    fields = {issue.field for issue in caught.value.issues}
    assert fields == {f"sites.hall.{f}" for f in ("circuits", "cooling", "redundancy", "racks", "colocation")}


def test_redundancy_is_that_of_circuits() -> None:
    with pytest.raises(ProblemError, match="give circuits beside it"):
        site("redundancy: 2n")


def test_tariff_by_hour() -> None:
    found = site('electricity: {peak: $0.20/kWh, "22-06": $0.08/kWh}').electricity
    assert isinstance(found, Tariff)
    week = [float(price.amount) for price in found.by_hour()]
    assert week[:24] == [0.08] * 6 + [0.20] * 16 + [0.08] * 2
    assert sum(week) == pytest.approx(7 * (8 * 0.08 + 16 * 0.20))
    days = site('electricity: {"mon-fri 08-20": $0.2/kWh, sat-sun: $0.05/kWh, other: $0.1/kWh}').electricity
    assert isinstance(days, Tariff)
    prices = [float(price.amount) for price in days.by_hour()]
    assert (prices[0], prices[8], prices[5 * 24 + 12]) == (0.1, 0.2, 0.05)


def test_windows() -> None:
    assert window_hours("fri 22-02") == [4 * 24 + 22, 4 * 24 + 23, 5 * 24, 5 * 24 + 1]
    assert window_hours("sun-mon") == [*range(144, 168), *range(24)]
    for bad in ("22-30", "12-12", "xyz", "", "mon-xyz 1-2"):
        with pytest.raises(UnitError):
            window_hours(bad)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"22-06": $0.08/kWh}', "no price for mon 06:00"),
        ('{"22-06": $0.08/kWh, "05-07": $0.1/kWh, other: $0.2/kWh}', "two prices for"),
        ("{peak: $0.2/kWh, other: $0.1/kWh}", "both stand for all other hours"),
        ('{"22-06": 0.08, other: $0.2/kWh}', "has no currency"),
        ("0.12", "has no currency"),
    ],
)
def test_wrong_tariffs(text: str, said: str) -> None:
    with pytest.raises(ProblemError, match=said):
        site(f"electricity: {text}")
