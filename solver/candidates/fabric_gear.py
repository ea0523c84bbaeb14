"""Fabrics of own sites as gear: switches and cables that join the NIC ports of the nodes held there.

One fabric for each site, network and oversubscription. Where some work spans nodes, all ports of the fabric are joined: it
takes one form of direct (the two nodes of one job, NIC to NIC, where nothing is served), one switch, leaf-spine, or three
tiers; an oversubscribed one has leaves in any case, since one switch blocks nothing. Leaves,
spines and links are counted by whole variables under rows that say the same as `solver.features.fabric.build_fabric` does for
a known number of ports, with spines that spread evenly where nothing is oversubscribed. So the counts are exact at any number
of nodes, and no form has to be listed for every number of them. Where no work spans nodes, switches only lead to the site's
own network: as many as the ports fill. A node that is alone at its site needs no switch, nor does one system sold whole,
which has ports for the site's network beside those of the fabric.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import polars as pl

from solver.candidates.frames import fx_rates
from solver.candidates.gear import GearContext, GearOption, GearRule, Made
from solver.candidates.terms import CONFIDENCES, assumption

RULE = "fabric"
PREFIX = "fabric"


def fabric_key(role: str, site: str, network: str, oversubscription: float) -> str:
    """Key of one kind of gear of a fabric: its parts are joined by spaces, which no site's name has."""
    return f"{PREFIX} {role} {oversubscription:g} {site} {network}"


def fabric_gear(context: GearContext) -> Made:
    """Switches, cables and the rows that tie them to nodes, for every fabric that some pool could need."""
    options: list[GearOption] = []
    rules: list[GearRule] = []
    for site, families in groupby(_families(context), key=lambda f: f.site):
        fabrics = [_Fabric(family, context) for family in families]
        for fabric in fabrics:
            fabric.build()
            options += fabric.options
            rules += fabric.rules
        alone = fabrics[0].alone
        options.append(GearOption(alone, "choice", "one node at the site", site, site, 1))
        bare = [key for fabric in fabrics for key in fabric.bare]
        rules.append(GearRule(RULE, "", None, 0, gear={alone: -1, **dict.fromkeys(bare, 1)}))
    return options, rules


@dataclass(frozen=True)
class _Family:
    """Pools that share a fabric: NIC ports of a node and the most nodes worth holding, by pool.

    `spans`: some work takes several nodes of it; `serves`: some replicas run on it; `whole`: pools of systems sold whole.
    """

    site: str
    network: str
    oversubscription: float
    nics: dict[str, int]
    most: dict[str, int]
    spans: bool
    serves: bool
    whole: frozenset[str]

    @property
    def ports(self) -> int:
        """The most ports that any plan wants."""
        return sum(self.nics[pool] * self.most[pool] for pool in self.nics)


def _families(context: GearContext) -> list[_Family]:
    pools = context.found.pools
    if pools.is_empty() or not {"network", "nic_count"} <= set(pools.columns):
        return []
    if "oversubscription" not in pools.columns:
        pools = pools.with_columns(oversubscription=pl.lit(1.0))
    wired = pools.filter(pl.col("site").is_not_null() & pl.col("network").is_not_null() & (pl.col("nic_count") > 0))
    wired = wired.with_columns(pl.col("oversubscription").fill_null(1.0)).sort("pool")
    spanning, serving = _names(context, spanning=True), _names(context, spanning=False)
    out = []
    for (site, network, ratio), some in wired.group_by("site", "network", "oversubscription", maintain_order=True):
        nics = {p: int(n) for p, n in some.select("pool", "nic_count").iter_rows() if context.most_nodes.get(p, 0) > 0}
        if nics:
            most = {p: context.most_nodes[p] for p in nics}
            spans, serves = not spanning.isdisjoint(nics), not serving.isdisjoint(nics)
            whole = frozenset(some.filter(pl.col("complete").fill_null(False))["pool"]) & nics.keys()
            family = (str(site), str(network), float(ratio))
            out.append(_Family(*family, nics, most, spans, serves, whole))
    return sorted(out, key=lambda f: (f.site, f.network, f.oversubscription))


def _names(context: GearContext, *, spanning: bool) -> set[str]:
    """Pools with work that takes several nodes, or with replicas of a service."""
    found = context.found
    if not spanning:
        return set() if found.replicas.is_empty() else set(found.replicas["pool"])
    frames = [f for f in (found.replicas, found.options) if not f.is_empty()]
    return {pool for f in frames for pool in f.filter(pl.col("nodes") > 1)["pool"]}


@dataclass
class _Fabric:
    """Options and rules of one fabric under construction.

    `forms`: gear of which a fabric with ports in use has one; `bare`: forms of a node that is alone at its site; `reach`:
    the most ports under each form of a fabric that joins nodes.
    """

    family: _Family
    context: GearContext
    options: list[GearOption] = field(default_factory=list)
    rules: list[GearRule] = field(default_factory=list)
    forms: list[str] = field(default_factory=list)
    bare: list[str] = field(default_factory=list)
    reach: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        catalog = self.context.catalog
        row = catalog.network.filter(pl.col("network") == self.family.network)
        self.row: dict[str, Any] = row.row(0, named=True) if row.height else {}
        rates = fx_rates(catalog, self.context.found.problem.currency)
        usd = rates.filter(pl.col("price_currency") == "USD")["rate_to_problem"]
        self.per_usd = float(usd[0]) if usd.len() else None
        self.draw_share = assumption(catalog, "switch_draw_share")
        self.height = assumption(catalog, "switch_rack_units")

    @property
    def alone(self) -> str:
        """Key of the choice that one node is all that stands at the site."""
        return f"{PREFIX} alone {self.family.site}"

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
        return fabric_key(role, self.family.site, self.family.network, self.family.oversubscription)

    def _choice(self, role: str, item: str, most: int = 1) -> str:
        """A decision that is no line of the bill."""
        return self._add(role, "choice", item, most)

    def _add(self, role: str, kind: str, item: str, most: int, **more: Any) -> str:
        key = self._key(role)
        place = self.family.site
        self.options.append(GearOption(key, kind, item, place, place, most, **more))
        return key

    def _switch(self, role: str, what: str, most: int, pieces: int = 1) -> str:
        """`pieces` switches bought together; a lot counts as so many pieces on the bill."""
        watts = pieces * float(self.row["switch_power_w"])
        assert self.per_usd is not None
        return self._add(
            role,
            "network",
            f"{what}, {self.row['switch_model']}",
            most,
            price=pieces * float(self.row["switch_price_usd"]) * self.per_usd,
            it_w=watts,
            draw_w=watts * self.draw_share,
            per_unit=float(pieces),
            pieces=pieces,
            rack_units=self.height,
            parts=(f"{int(self.row['switch_ports'])} ports {self.family.network}",),
            **self._source(),
        )

    def _cable(self, role: str, what: str, most: int) -> str:
        assert self.per_usd is not None
        kind = self.row["cable_kind"] or "cable"
        price = float(self.row["cable_price_usd"]) * self.per_usd
        return self._add(role, "network", f"{what}, {self.family.network} {kind}", most, price=price, **self._source())

    def _source(self) -> dict[str, str | None]:
        return {c: self.row[c] for c in ("as_of", "confidence", "source")}

    # --- rows -------------------------------------------------------------------------------------------------

    def _most(self, gear: dict[str, int], high: int = 0, *, nodes: dict[str, int] | None = None) -> None:
        """sum <= high."""
        self.rules.append(GearRule(RULE, "", None, high, nodes=nodes or {}, gear=gear))

    def build(self) -> None:
        """Make every form that the family could take."""
        family = self.family
        counts = sorted(set(family.nics.values()))
        single = {k: self._choice(f"none{k}", "no fabric: one node") for k in counts}
        self.bare = list(single.values())
        whole = sorted({family.nics[p] for p in family.whole})
        lone = {k: self._choice(f"lone{k}", "no fabric: one system") for k in whole}
        pair: dict[int, str] = {}
        link = None
        if self._can_cable():
            link = self._cable("links", "node cable", max(1, family.ports))
            joined = self._pairs()
            if self.row["rdma"] and joined:
                pair = {k: self._choice(f"direct{k}", "two nodes, NIC to NIC") for k in counts}
                taken = dict.fromkeys(pair.values(), 1)
                self.rules.append(GearRule(RULE, "", None, 0, options=dict.fromkeys(joined, -1), gear=taken))
        room = {key: -k for k, key in single.items()} | {key: -2 * k for k, key in pair.items()}
        self.forms = [*lone.values(), *pair.values()]
        self.reach = {key: 2 * k for k, key in pair.items()}
        if link is not None and self._can_switch():
            room |= self._switched() if family.spans else self._islands()
        self._forms_of_jobs()
        # One form, and none where a node is alone at its site.
        self._most(dict.fromkeys([self.alone, *self.forms], 1), 1)
        # Ports: every NIC port of a node held has one on a switch (or its peer's).
        alone = {key: -k for k, key in lone.items()}
        self._most(room | alone, nodes=dict(family.nics))
        built = {pool: n for pool, n in family.nics.items() if pool not in family.whole}
        if lone and built:
            self._most(dict(room), nodes=built)
        if len(counts) > 1:
            # As many nodes as the form takes: eight nodes of one port are not one of eight.
            small = dict.fromkeys([*single.values(), *lone.values()], -1) | dict.fromkeys(pair.values(), -2)
            self._most(room | small, nodes=dict.fromkeys(family.nics, 1))
        if link is not None:
            # Links of nodes: none where there is one node, one for two ports where there are two, else one for each port.
            spared = {key: -k for k, key in (*single.items(), *lone.items(), *pair.items())}
            self._most({**spared, link: -1}, nodes=dict(family.nics))
            if pair:
                self._most({**{key: k for k, key in pair.items()}, link: -1})

    def _pairs(self) -> list[int]:
        """Candidate rows of jobs for whose two nodes a direct link will do: nothing can be served beside them.

        A job that keeps both nodes all month leaves no room for replicas; one that has its hours might. Nodes that services
        could use are not cut off from data that lies elsewhere.
        """
        options = self.context.found.options
        if options.is_empty() or self.family.oversubscription > 1:
            return []
        two = pl.col("pooled") & (pl.col("nodes") == 2) & pl.col("pool").is_in(list(self.family.nics))
        if self.family.serves:
            fed = [need.work for need in self.context.found.data if need.work is not None]
            two &= (pl.col("slots") == 0) & ~pl.col("work").is_in(fed)
        return options.filter(two)["row"].to_list()

    def _jobs(self) -> dict[str, dict[int, int]]:
        """Ports that each way to run a job on several nodes of the family takes, by job and candidate row."""
        options = self.context.found.options
        jobs: dict[str, dict[int, int]] = {}
        if options.is_empty():
            return jobs
        nics = self.family.nics
        mine = options.filter(pl.col("pooled") & (pl.col("nodes") > 1) & pl.col("pool").is_in(list(nics)))
        for work, row, pool, nodes in mine.select("work", "row", "pool", "nodes").iter_rows():
            jobs.setdefault(work, {})[row] = nodes * nics[pool]
        return jobs

    def _forms_of_jobs(self) -> None:
        """Implied: a job on several nodes needs a form that reaches its ports. It makes the relaxation choose one."""
        levels = sorted(set(self.reach.values()))
        for jobs in self._jobs().values():
            for below in (0, *levels):
                needing = {row: 1 for row, ports in jobs.items() if ports > below}
                able = {key: -1 for key, ports in self.reach.items() if ports > below}
                if needing and able:
                    self.rules.append(GearRule(RULE, "", None, 0, options=needing, gear=able))

    def _islands(self) -> dict[str, int]:
        """Switches that lead nodes to the site's network, each by itself: ports of each (negative)."""
        radix = int(self.row["switch_ports"])
        most = math.ceil(self.family.ports / radix)
        key = self._switch("island", "switch", most)
        # Beside switches no node stands without one.
        self._most({key: 1, **dict.fromkeys([self.alone, *self.forms], most)}, most)
        return {key: -radix}

    def _switched(self) -> dict[str, int]:
        """One switch, leaf-spine and three tiers: ports that each unit of gear gives (negative)."""
        family, radix = self.family, int(self.row["switch_ports"])
        room: dict[str, int] = {}
        forms, ratio = self.forms, family.oversubscription
        if ratio == 1:
            single = self._switch("switch", "switch", 1)
            room[single] = -radix
            forms.append(single)
            self.reach[single] = radix
            if family.ports <= radix:
                return room
        down = math.floor(radix * ratio / (ratio + 1) + 1e-9)
        up = radix - down
        if up < 1:
            return room
        most_leaves = min(math.ceil(family.ports / down), radix * (radix // 2))
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
        for jobs in self._jobs().values():
            # Implied by the ports, and what keeps the relaxation from spreading a job over several small fabrics.
            asked = {row: math.ceil(ports / down) for row, ports in jobs.items() if ports > radix}
            if asked:
                self.rules.append(GearRule(RULE, "", None, 0, options=asked, gear={leaf: -1}))
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
