"""Storage tiers as gear: each class of data on one tier at one place, and tiers with the room and speed for all of it.

Per tier t with G units: sum size y <= room G, sum reading <= speed G (or a fixed speed), the same for writing and
operations, and G at least the smallest size sold as soon as anything lies there. On own sites units stand in boxes, as many
as have a place for all of them and are quick enough for what is asked.
"""

from __future__ import annotations

import math

from solver.candidates.gear import GearContext, GearOption, Made
from solver.candidates.storage_boxes import SPEED, Box
from solver.candidates.storage_keys import boxes_key
from solver.candidates.storage_needs import DataNeed
from solver.candidates.storage_network import Held, network_rows
from solver.candidates.storage_place import Loads, Placing, Prices, drive_rows
from solver.candidates.storage_speed import port_rows
from solver.candidates.storage_tiers import Tier, egress_prices, open_providers, open_site, storage_tiers
from solver.candidates.storage_use import Book, Sum, gear, plus, times, uses


def storage_gear(context: GearContext) -> Made:
    """Options and rules of all data of the problem; nothing where it has none."""
    needs = context.found.data
    if not needs:
        return [], []
    problem, catalog = context.found.problem, context.catalog
    tiers = storage_tiers(problem, catalog)
    book = Book(context)
    using = uses(book)
    link = math.floor(catalog.assumption("link_between_places_gb_s") * SPEED + 1e-6)
    prices = Prices(egress_prices(problem, catalog), link)
    loads = {t.key: Loads(t) for t in tiers}
    placings: dict[str | None, list[Placing]] = {}
    for need in needs:
        places = open_places(context, need, tiers)
        mine = [load for load in loads.values() if load.tier.place in places]
        use = None if need.work is None else using[need.work]
        placing = Placing(book, need, use, mine, prices)
        placing.add()
        placings.setdefault(need.work, []).append(placing)
    for name, use in using.items():
        drive_rows(book, use, placings[name])
        port_rows(book, use, placings[name])
    draw = catalog.assumption("host_draw_share")
    boxes = [held for load in loads.values() if load.users and (held := _tier(book, load, draw)) is not None]
    network_rows(book, boxes)
    return list(book.options.values()), book.rules


def open_places(context: GearContext, need: DataNeed, tiers: list[Tier]) -> set[str]:
    """Places where the class may be kept: where it must be, or where its work's own limits allow."""
    problem = context.found.problem
    countries, tags = problem.limits.countries, problem.limits.compliance
    if need.country is not None:
        countries = _both(countries, (need.country,))
    if need.work is not None:
        work = next(w for w in problem.workloads if w.name == need.work)
        countries = _both(countries, work.countries)
        tags = (*tags, *work.compliance)
    providers = open_providers(problem, context.catalog, countries, tags)
    sites = {s.name for s in problem.sites if open_site(s, countries, tags)}
    if need.site is not None:
        return {t.place for t in tiers if t.site == need.site}
    return {t.place for t in tiers if (t.site in sites if t.site is not None else t.place_name in providers)}


def _both(one: tuple[str, ...] | None, other: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Countries in both lists; None allows all."""
    if one is None or other is None:
        return other if one is None else one
    return tuple(c for c in one if c in other)


def _tier(book: Book, load: Loads, draw: float) -> Held | None:
    """The units of one tier, what they hold, and the boxes they stand in."""
    tier = load.tier
    most = load.units + tier.least_units
    units = book.hold(
        GearOption(
            key=tier.key,
            kind="storage",
            item=tier.name,
            site=tier.site,
            place=tier.place_name,
            max_count=most,
            price=tier.price,
            monthly=tier.monthly,
            it_w=tier.watts,
            draw_w=tier.watts * draw,
            unit=tier.counted,
            per_unit=tier.per_unit,
            parts=tier.parts,
            pieces=0,
            as_of=tier.as_of,
            confidence=tier.confidence,
            source=tier.source,
        )
    )
    book.row(load.size, gear(units, -tier.unit_gb), high=0)
    if tier.least_units > 1:
        for user in load.users:
            book.row(gear(user, tier.least_units), gear(units, -1), high=0)
    for asked, grows, fixed in (
        (load.read, tier.unit_read, tier.read_gb_s),
        (load.write, tier.unit_write, tier.write_gb_s),
    ):
        _speed(book, asked, units, grows, None if fixed is None else math.floor(fixed * SPEED + 1e-6))
    _speed(book, load.iops, units, tier.unit_iops, None if tier.iops is None else math.floor(tier.iops))
    if tier.box is None or tier.site is None:
        return None
    return _boxes(book, load, tier.box, units, most, draw)


def _boxes(book: Book, load: Loads, box: Box, units: str, most: int, draw: float) -> Held:
    """Boxes with a place for every unit, and quick enough for all that lies on the tier: B >= units / k, B >= asked / v."""
    tier = load.tier
    most = math.ceil(most / box.units) + load.boxes
    key = book.hold(
        GearOption(
            key=boxes_key(tier),
            kind="storage",
            item=box.name,
            site=tier.site,
            place=tier.place_name,
            max_count=most,
            price=box.price,
            it_w=box.watts,
            draw_w=box.watts * draw,
            parts=box.parts,
            rack_units=box.rack_units,
            rack_w=box.full_w,
            as_of=box.as_of,
            confidence=box.confidence,
            source=box.source,
        )
    )
    book.row(gear(units), gear(key, -box.units), high=0)
    for asked, each in ((load.read, box.read), (load.write, box.write)):
        if any(asked.values()):
            book.row(asked, gear(key, -each), high=0)
    return Held(key, tier.place_name, box, most)


def _speed(book: Book, asked: Sum, units: str, grows: int, fixed: int | None) -> None:
    """Speed that grows with size, or that is what it is."""
    if not any(asked.values()):
        return
    if grows:
        book.row(plus(asked, times(-grows, gear(units))), high=0)
    else:
        book.row(asked, high=fixed or 0)
