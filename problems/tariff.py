"""Electricity prices by the hour of the week."""

from __future__ import annotations

import re
from typing import Any

from pydantic import RootModel, model_validator

from problems.money import MoneyPerKwh
from problems.scan import UnitError, shown

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
REST = ("other", "rest", "peak", "off_peak", "offpeak", "day", "standard")
"""Names for all hours that no window holds."""
FORMS = 'forms allowed: {peak: $0.20/kWh, "22-06": $0.08/kWh}, {"mon-fri 08-20": $0.20/kWh, other: $0.09/kWh}'
_WINDOW = re.compile(
    r"^(?:(?P<first>[a-z]{3})(?:\s*-\s*(?P<last>[a-z]{3}))?)?\s*(?:(?P<start>\d{1,2})(?::00)?\s*-\s*(?P<end>\d{1,2})(?::00)?)?$"
)


class Tariff(RootModel[dict[str, MoneyPerKwh]]):
    """Prices by window of hours ("22-06", "mon-fri 08-20", "sat-sun"), with one name for all other hours."""

    model_config = {"frozen": True}

    @model_validator(mode="after")
    def _whole_week(self) -> Tariff:
        self.by_hour()
        return self

    def by_hour(self) -> tuple[MoneyPerKwh, ...]:
        """Price of each hour of the week, from Monday 0:00 on.

        Raises
        ------
        UnitError
            For a window that cannot be read, an hour with two prices or none.
        """
        week: list[MoneyPerKwh | None] = [None] * 168
        named = [k for k in self.root if _name(k) in REST]
        if len(named) > 1:
            raise UnitError(f"{named[0]} and {named[1]} both stand for all other hours", FORMS)
        for key, price in self.root.items():
            if key in named:
                continue
            for hour in window_hours(key):
                if week[hour] is not None:
                    raise UnitError(f"two prices for {DAYS[hour // 24]} {hour % 24:02d}:00", FORMS)
                week[hour] = price
        missing = [h for h, price in enumerate(week) if price is None]
        if missing and not named:
            hour = missing[0]
            raise UnitError(f"no price for {DAYS[hour // 24]} {hour % 24:02d}:00; name the other hours: other", FORMS)
        return tuple(self.root[named[0]] if price is None else price for price in week)

    def times(self, factor: Any) -> Tariff:
        """All prices multiplied."""
        return Tariff({k: MoneyPerKwh(v.amount * factor, v.currency) for k, v in self.root.items()})


def _name(key: str) -> str:
    return key.strip().lower().replace("-", "_").replace(" ", "_")


def window_hours(key: str) -> list[int]:
    """Hours of the week in a window, from Monday 0:00 on; a window over midnight ends on the next day.

    Raises
    ------
    UnitError
        For text that is no window.
    """
    found = _WINDOW.match(key.strip().lower())
    days = [found[g] for g in ("first", "last")] if found else []
    if found is None or not key.strip() or any(d is not None and d not in DAYS for d in days):
        raise UnitError(f"{shown(key)} is neither hours nor a name for all other hours", FORMS)
    first = 0 if found["first"] is None else DAYS.index(found["first"])
    last = 6 if found["first"] is None else first if found["last"] is None else DAYS.index(found["last"])
    start, end = int(found["start"] or 0), int(found["end"] or 24)
    if start > 23 or end > 24 or start == end:
        raise UnitError(f"{shown(key)}: hours run from 00 to 24, and a window has some", FORMS)
    length = (end - start) % 24 or 24
    span = (last - first) % 7 + 1
    return [((first + d) % 7 * 24 + start + h) % 168 for d in range(span) for h in range(length)]
