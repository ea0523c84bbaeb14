"""Switches and cables that join ports of one network at a site: one switch, leaf-spine, or three tiers.

Leaves, spines and links are counted by whole variables under rows that say the same as `solver.features.fabric.build_fabric` does
for a known number of ports, with spines that spread evenly where nothing is oversubscribed.
"""

from __future__ import annotations

import math
from typing import Any

import polars as pl

from solver.candidates.frames import fx_rates
from solver.candidates.gear import GearContext, GearOption, GearRule
from solver.candidates.terms import CONFIDENCES, assumption


class SwitchTree:
    """Options and rows of one tree of switches under construction.

    Parameters
    ----------
    ports : int
        The most ports that any plan wants.
    oversubscription : float
        Of the leaves; 1 does not block [ratio].
    flat : int
        So many switches may stand side by side without links between them.
    named : str
        What the bill says before the name of a switch or cable.

    Attributes
    ----------
    forms : list of str
        Gear of which a tree with ports in use has one.
    reach : dict
        The most ports under each form.
    """

    def __init__(
        self,
        context: GearContext,
        site: str,
        network: str,
        rule: str,
        ports: int,
        oversubscription: float = 1.0,
        *,
        flat: int = 1,
        named: str = "",
    ) -> None:
        self.context, self.site, self.network, self.rule = context, site, network, rule
        self.ports, self.oversubscription, self.flat, self.named = ports, oversubscription, flat, named
        self.options: list[GearOption] = []
        self.rules: list[GearRule] = []
        self.forms: list[str] = []
        self.reach: dict[str, int] = {}
        catalog = context.catalog
        row = catalog.network.filter(pl.col("network") == network)
        self.row: dict[str, Any] = row.row(0, named=True) if row.height else {}
        rates = fx_rates(catalog, context.found.problem.currency)
        usd = rates.filter(pl.col("price_currency") == "USD")["rate_to_problem"]
        self.per_usd = float(usd[0]) if usd.len() else None
        self.draw_share = assumption(catalog, "switch_draw_share")
        self.height = assumption(catalog, "switch_rack_units")

    # --- what can be bought ---------------------------------------------------------------------------------

    def _trusted(self) -> bool:
        least = self.context.found.problem.policy.min_confidence
        known = self.row.get("confidence")
        return known in CONFIDENCES and CONFIDENCES.index(known) >= CONFIDENCES.index(least)

    def _can_cable(self) -> bool:
        return self.per_usd is not None and self._trusted() and self.row.get("cable_price_usd") is not None

    def _can_switch(self) -> bool:
        known = all(self.row.get(c) is not None for c in ("switch_ports", "switch_price_usd", "switch_power_w"))
        return self._can_cable() and known and int(self.row["switch_ports"]) >= 2

    def _key(self, role: str) -> str:
        """Key of one kind of gear of the tree."""
        raise NotImplementedError

    def _choice(self, role: str, item: str, most: int = 1) -> str:
        """A decision that is no line of the bill."""
        return self._add(role, "choice", item, most)

    def _add(self, role: str, kind: str, item: str, most: int, **more: Any) -> str:
        key = self._key(role)
        place = self.site
        self.options.append(GearOption(key, kind, item, place, place, most, **more))
        return key

    def _switch(self, role: str, what: str, most: int, pieces: int = 1) -> str:
        """`pieces` switches bought together; a lot counts as so many pieces on the bill."""
        watts = pieces * float(self.row["switch_power_w"])
        assert self.per_usd is not None
        return self._add(
            role,
            "network",
            f"{self.named}{what}, {self.row['switch_model']}",
            most,
            price=pieces * float(self.row["switch_price_usd"]) * self.per_usd,
            it_w=watts,
            draw_w=watts * self.draw_share,
            per_unit=float(pieces),
            pieces=pieces,
            rack_units=self.height,
            parts=(f"{int(self.row['switch_ports'])} ports {self.network}",),
            **self._source(),
        )

    def _cable(self, role: str, what: str, most: int) -> str:
        assert self.per_usd is not None
        kind = self.row["cable_kind"] or "cable"
        price = float(self.row["cable_price_usd"]) * self.per_usd
        return self._add(
            role, "network", f"{self.named}{what}, {self.network} {kind}", most, price=price, **self._source()
        )

    def _source(self) -> dict[str, str | None]:
        return {c: self.row[c] for c in ("as_of", "confidence", "source")}

    # --- rows -------------------------------------------------------------------------------------------------

    def _most(self, gear: dict[str, int], high: int = 0, *, nodes: dict[str, int] | None = None) -> None:
        """sum <= high."""
        self.rules.append(GearRule(self.rule, "", None, high, nodes=nodes or {}, gear=gear))

    def _switched(self, jobs: dict[str, dict[int, int]] | None = None) -> dict[str, int]:
        """One switch, leaf-spine and three tiers: ports that each unit of gear gives (negative).

        `jobs`: ports that each way to run a job on several nodes takes, by job and candidate row.
        """
        radix = int(self.row["switch_ports"])
        room: dict[str, int] = {}
        forms, ratio = self.forms, self.oversubscription
        if ratio == 1:
            for count in range(1, self.flat + 1):
                single = self._switch("switch" if count == 1 else f"flat{count}", "switch", 1, count)
                room[single] = -count * radix
                forms.append(single)
                self.reach[single] = count * radix
                if self.ports <= count * radix:
                    return room
        down = math.floor(radix * ratio / (ratio + 1) + 1e-9)
        up = radix - down
        if up < 1:
            return room
        most_leaves = min(math.ceil(self.ports / down), radix * (radix // 2))
        leaf = self._switch("leaf", "leaf switch", most_leaves)
        links = {leaf: up}
        room[leaf] = -down
        even = ratio == 1
        # Uplinks that spines take, by gear (negative): sum of up x leaves stays within them.
        taken: dict[str, int] = {}
        fewest: dict[str, int] = {}
        if even:
            served = 1
            for spines, leaves in even_classes(up, radix, most_leaves):
                key = self._switch(f"spine{spines}", "spine switch", 1, spines)
                taken[key] = -up * leaves
                forms.append(key)
                self.reach[key] = leaves * down
                fewest[key], served = served + 1, leaves
        else:
            two = self._choice("two", "leaf and spine")
            most = math.ceil(min(most_leaves, radix) * up / radix)
            spine = self._switch("spine", "spine switch", most)
            self._most({spine: 1, two: -most})
            taken[spine] = -radix
            forms.append(two)
            self.reach[two] = radix * down
            fewest[two] = 2
            if most_leaves > radix:
                # A spine of two tiers has one port for each leaf.
                self._most({leaf: 1, two: most_leaves - radix}, most_leaves)
        if most_leaves > radix:
            half, rest = radix // 2, radix - radix // 2
            three = self._choice("three", "leaf, spine and core")
            most = math.ceil(most_leaves * up / half)
            middle = self._switch("middle", "spine switch", most)
            self._most({middle: 1, three: -most})
            taken[middle] = -half
            links[middle] = rest
            forms.append(three)
            self.reach[three] = radix * (radix // 2) * down
            fewest[three] = radix + 1
            self._cores(three, middle, rest, radix, most, even)
        self._most({leaf: up, **taken})
        for ways in (jobs or {}).values():
            # Implied by the ports, and what keeps the relaxation from spreading a job over several small fabrics.
            asked = {row: math.ceil(ports / down) for row, ports in ways.items() if ports > radix}
            if asked:
                self.rules.append(GearRule(self.rule, "", None, 0, options=asked, gear={leaf: -1}))
        # A form that fewer leaves would do without is never the cheapest.
        self._most({**fewest, leaf: -1})
        trunk = self._cable("trunk", "cable between switches", sum(n * self._limit(key) for key, n in links.items()))
        self._most({**links, trunk: -1})
        return room

    def _cores(self, three: str, middle: str, links: int, radix: int, most: int, even: bool) -> None:
        """Cores take `links` links of every middle switch; few of them spread evenly where nothing is oversubscribed."""
        taken: dict[str, int] = {}
        forms: list[str] = []
        count = math.ceil(most * links / radix)
        if even:
            for cores, served in even_classes(links, radix, most):
                key = self._switch(f"core{cores}", "core switch", 1, cores)
                taken[key] = -links * served
                forms.append(key)
        if not even or count > links:
            many = self._choice("many", "core switches beyond an even spread") if even else three
            core = self._switch("core", "core switch", count)
            self._most({core: 1, many: -count})
            taken[core] = -radix
            if even:
                # With as many cores as links or fewer, the spread would be even.
                self._most({core: -1, many: links + 1})
                forms.append(many)
        if forms:
            self._most({**dict.fromkeys(forms, 1), three: -1})
        self._most({middle: links, **taken})

    def _limit(self, key: str) -> int:
        return next(o.max_count for o in self.options if o.key == key)


def even_classes(uplinks: int, radix: int, most: int) -> list[tuple[int, int]]:
    """Numbers of upper switches that spread `uplinks` of a lower one evenly, with the lower ones each number carries.

    Only as far as `most` lower switches need.
    """
    out: list[tuple[int, int]] = []
    for upper in range(1, uplinks + 1):
        if uplinks % upper:
            continue
        out.append((upper, upper * radix // uplinks))
        if upper * radix // uplinks >= most:
            break
    return out
