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
from dataclasses import dataclass
from itertools import groupby

import polars as pl

from solver.candidates.gear import GearContext, GearOption, GearRule, Made
from solver.candidates.switch_tree import SwitchTree

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


class _Fabric(SwitchTree):
    """Options and rules of one fabric under construction; `bare`: forms of a node that is alone at its site."""

    def __init__(self, family: _Family, context: GearContext) -> None:
        ratio = family.oversubscription
        super().__init__(context, family.site, family.network, RULE, family.ports, ratio)
        self.family = family
        self.bare: list[str] = []

    def _key(self, role: str) -> str:
        return fabric_key(role, self.site, self.network, self.oversubscription)

    @property
    def alone(self) -> str:
        """Key of the choice that one node is all that stands at the site."""
        return f"{PREFIX} alone {self.site}"

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
            room |= self._switched(self._jobs()) if family.spans else self._islands()
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
