"""The choices of one class of data: its tier, a master copy beside it, the nodes' drives, and what leaves its place.

Y_P: the copy that is worked on (or the only one) is at place P; M_P: a master copy is; A_P: the work runs at P. Data and
work are at one place, or whoever sends pays for egress: Y_P <= A_P + E_P. With a master copy the working copy is where the
work is, and what leaves the master's place is paid: M_P <= Y_P + E_P.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from solver.candidates.gear import GearOption
from solver.candidates.storage_boxes import SPEED
from solver.candidates.storage_keys import drives_key, egress_key, master_egress_key, master_key, rent_key, work_key
from solver.candidates.storage_needs import DataNeed
from solver.candidates.storage_tiers import GB, Tier
from solver.candidates.storage_use import Book, Kind, Sum, Use, Way, gear, plus, times


def size_gb(need: DataNeed) -> int:
    """Size of a class, rounded up [GB]."""
    return max(1, math.ceil(need.size_tb * GB - 1e-6))


def local_gb(need: DataNeed) -> int:
    """Room that it takes on nodes' drives under their RAID [GB]."""
    return max(1, math.ceil(need.size_tb * GB / need.raid_kept - 1e-6))


def speed(gb_s: float) -> int:
    """A speed that is asked for, rounded up [0.1 MB/s]."""
    return math.ceil(gb_s * SPEED - 1e-6)


@dataclass
class Loads:
    """What all classes together ask of one tier."""

    tier: Tier
    size: Sum = field(default_factory=dict)
    read: Sum = field(default_factory=dict)
    write: Sum = field(default_factory=dict)
    iops: Sum = field(default_factory=dict)
    users: list[str] = field(default_factory=list)
    units: int = 0  # that any plan may want
    boxes: int = 0  # that its speeds may ask for


@dataclass(frozen=True)
class Prices:
    """Money per TB that leaves a place, and the speed of the link between places [0.1 MB/s]."""

    egress: dict[str, float]
    link: int


def most_stream(need: DataNeed, use: Use | None) -> int:
    """Highest speed at which any way to run the work reads the class [0.1 MB/s]."""
    if use is None or not need.token_bytes:
        return 0
    return max((w.stream(need) for w in use.ways), default=0)


class Placing:
    """Adds the variables and rows of one class."""

    def __init__(self, book: Book, need: DataNeed, use: Use | None, loads: list[Loads], prices: Prices) -> None:
        self.book, self.need, self.use, self.prices = book, need, use, prices
        self.loads = loads
        self.stages = need.staged != "no"
        self.masters: Sum = {}
        self.here: dict[str, Sum] = {}  # Y_P
        self.kept: dict[str, Sum] = {}  # M_P
        self.most = most_stream(need, use)
        self.streams: dict[str, Sum] = {}  # from the drives of the nodes at a place
        # By site and network of boxes: where it lies, with its streams; where it is staged to; where its master copy lies.
        self.ported: dict[tuple[str, str], list[tuple[Sum, Sum]]] = {}
        self.filled: dict[tuple[str, str], list[Sum]] = {}
        self.pulled: dict[tuple[str, str], list[Sum]] = {}

    def add(self) -> None:
        """Everything of the class."""
        if self.stages:
            self._master_copies()
        self._tiers()
        if self.use is not None and self.need.local and (self.stages or self.need.kind == "kv_offload"):
            self._drives(self.use)
        # The data of a workload that is left out is not kept.
        left_out = self.book.context.found.problem.weighed and self.need.work is not None
        asked: Sum = {("served", str(self.need.work)): -1} if left_out else {}
        wanted = 0 if left_out else 1
        self.book.row(*self.here.values(), asked, low=wanted, high=wanted)
        if self.use is None:
            return
        self._near(self.use)
        if self.stages:
            if self.need.staged == "yes":
                self.book.row(self.masters, asked, low=wanted, high=wanted)
            else:
                self.book.row(self.masters, high=1)
            self._deadline(self.use)

    def _tiers(self) -> None:
        need, book = self.need, self.book
        fixed_read = speed(need.read_gb_s)
        fixed_write, iops, staging = speed(need.write_gb_s), math.ceil(need.iops), speed(need.stage_gb_s)
        for load in self.loads:
            tier = load.tier
            asked = {"read": fixed_read > 0 or self.most > 0, "write": fixed_write > 0, "iops": iops > 0}
            only_copy_ok = tier.lasting or need.kind == "kv_offload"
            if not tier.serves(**asked) or (tier.seldom and (need.fast or need.kind not in ("archive", "backups"))):
                continue
            if not only_copy_ok and not self.masters:
                continue
            key = book.choice(work_key(need, tier))
            here = gear(key)
            self.here.setdefault(tier.place, {}).update(here)
            if not only_copy_ok:
                book.row(here, times(-1, self.masters), high=0)
            load.users.append(key)
            load.size = plus(load.size, times(size_gb(need), here))
            stream = self._stream(key, load.tier.key)
            load.read = plus(load.read, times(fixed_read, here), stream)
            if (network := tier.network) is not None:
                self.ported.setdefault(network, []).append((here, stream))
            load.write = plus(load.write, times(fixed_write, here))
            load.iops = plus(load.iops, times(iops, here))
            self._wants(load, fixed_read + self.most, fixed_write + staging, iops)
            if staging and self.masters:
                if tier.serves(read=False, write=True, iops=False):
                    both = book.choice(f"{key} staged")
                    book.row(here, self.masters, gear(both, -1), high=1)
                    load.write = plus(load.write, gear(both, staging))
                    if network is not None:
                        self.filled.setdefault(network, []).append(gear(both))
                else:
                    book.row(here, self.masters, high=1)

    def _wants(self, load: Loads, read: int, write: int, iops: int) -> None:
        """Add the most units and boxes that the class may want of a tier."""
        tier, box = load.tier, load.tier.box
        asked = ((size_gb(self.need), tier.unit_gb), (read, tier.unit_read), (write, tier.unit_write))
        load.units += max(math.ceil(much / each) for much, each in (*asked, (iops, tier.unit_iops)) if each)
        if box is not None:
            load.boxes += max(
                math.ceil(much / each) if each else 0 for much, each in ((read, box.read), (write, box.write))
            )

    def _stream(self, key: str, name: str) -> Sum:
        """Speed at which the chosen way reads the class from where it lies: z >= sum stream[q] x[q] - most (1 - y)."""
        if not self.most or self.use is None:
            return {}
        z = self.book.choice(f"stream {self.need.key} from {name}", self.most)
        asked: Sum = {("options", w.row): w.stream(self.need) for w in self.use.ways}
        self.book.row(gear(z), times(-1, asked), gear(key, -self.most), low=-self.most)
        return gear(z)

    def _master_copies(self) -> None:
        need, staging = self.need, speed(self.need.stage_gb_s)
        for load in self.loads:
            tier = load.tier
            if tier.seldom or not tier.lasting or not tier.serves(read=staging > 0, write=False, iops=False):
                continue
            key = self.book.choice(master_key(need, tier))
            here = gear(key)
            self.masters = plus(self.masters, here)
            self.kept.setdefault(tier.place, {}).update(here)
            load.users.append(key)
            load.size = plus(load.size, times(size_gb(need), here))
            load.read = plus(load.read, times(staging, here))
            if tier.network is not None:
                self.pulled.setdefault(tier.network, []).append(here)
            self._wants(load, staging, 0, 0)

    def _drives(self, use: Use) -> None:
        """Working copies on the drives of the nodes: what is worked on there must be kept elsewhere too, or may be lost."""
        if self.stages and not self.masters:
            return
        for name in use.at:
            key = drives_key(self.need, name)
            ways = [w for w in use.ways if w.place == name]
            kinds = [k for k in use.kinds if k.place == name]
            room = max((w.drives[0] for w in ways), default=max((k.drives[0] for k in kinds), default=0))
            need_gb = local_gb(self.need) if use.job else 1
            if room < need_gb:
                continue
            self.book.choice(key)
            self.here.setdefault(name, {}).update(gear(key))
            if self.stages:
                self.book.row(gear(key), times(-1, self.masters), high=0)
            if use.job:
                self.streams[name] = self._stream(key, f"nodes at {name}")
                self._staging_rent(key, name, ways)

    def asked_of_job(self) -> tuple[int, int, int, int]:
        """What the class asks of the nodes' drives of a job: GB, reading, writing, operations; without streaming."""
        need = self.need
        write = (need.write_gb_s + need.stage_gb_s) / need.raid_kept
        return local_gb(need), speed(need.read_gb_s), speed(write), math.ceil(need.iops)

    def asked_of_kind(self, kind: Kind) -> tuple[int, int, int, int]:
        """What it asks of the drives of one replica: all of the weights, its share of the traffic of an offload."""
        gb, read, write, iops = self.asked_of_job()
        share = 1.0 if self.need.kind == "weights" else kind.share
        return tuple(math.ceil(x * share - 1e-9) for x in (gb, read, write, iops))  # type: ignore[return-value]

    def _staging_rent(self, key: str, name: str, ways: list[Way]) -> None:
        """Hired nodes are paid for while their drives are filled: v >= sum rent[q] x[q] - most (1 - y)."""
        need = self.need
        if not need.stage_h:
            return
        each = {w.row: math.ceil(w.rent * need.stage_h / w.duration_h - 1e-6) for w in ways if w.duration_h > 0}
        most = max(each.values(), default=0)
        if most == 0:
            return
        rent = GearOption(
            key=rent_key(need, name),
            kind="storage",
            item=f"nodes of {need.work} while data is staged",
            site=None,
            place=name.split(" ", 1)[1],
            max_count=most,
            monthly=1.0,
            unit=self.book.context.found.problem.currency,
            pieces=0,
        )
        self.book.hold(rent)
        asked: Sum = {("options", row): cost for row, cost in each.items()}
        self.book.row(gear(rent.key), times(-1, asked), gear(key, -most), low=-most)

    def _paid(self, key: str, sender: str, tb_month: float) -> Sum | None:
        """What leaves a place, where that can be paid; empty where it is free; None where no price is known."""
        price = self.prices.egress.get(sender)
        if price is None:
            return None
        if price == 0 or tb_month == 0:
            return {}
        self.book.hold(
            GearOption(
                key=key,
                kind="egress",
                item=f"egress, {self.need.kind.replace('_', ' ')} of {self.need.work}",
                site=None,
                place=sender.split(" ", 1)[1],
                max_count=1,
                monthly=price * tb_month,
                unit="TB/month",
                per_unit=tb_month,
                pieces=0,
            )
        )
        return gear(key)

    def _near(self, use: Use) -> None:
        """Data at the place of its work, or egress paid and a link that is fast enough."""
        need, book = self.need, self.book
        reachable = max(speed(need.read_gb_s), speed(need.write_gb_s)) <= self.prices.link and not need.iops
        for name, here in self.here.items():
            if self.stages and self.masters:
                if use.job:
                    book.row(here, times(-1, use.at.get(name, {})), self.masters, high=1)
                else:
                    for other in use.elsewhere(name):
                        book.row(here, use.at[other], self.masters, high=2)
            for other in use.elsewhere(name):
                slow: Sum = {
                    ("options", w.row): 1 for w in use.ways if w.place == other and w.stream(need) > self.prices.link
                }
                if slow:
                    book.row(here, slow, high=1)
        if need.sender == "compute" and reachable:
            self._sent_by_work(use)
        else:
            self._sent_by_storage(use, reachable and need.sender == "storage")

    def _sent_by_storage(self, use: Use, open_: bool) -> None:
        need = self.need
        for name, here in self.here.items():
            local = drives_key(need, name)
            shared = {k: f for k, f in here.items() if k[1] != local}
            if ("gear", local) in here:
                self._apart(use, name, gear(local), None)
            if shared:
                self._apart(use, name, shared, need.moved_tb if open_ else None)

    def _apart(self, use: Use, name: str, here: Sum, tb_month: float | None) -> None:
        """Data here and work elsewhere; `tb_month` None: not possible."""
        if use.job:
            paid = None if tb_month is None else self._paid(egress_key(self.need, name, "*"), name, tb_month)
            if paid is None:
                self.book.row(here, times(-1, use.at.get(name, {})), high=0)
            elif paid:
                self.book.row(here, times(-1, use.at.get(name, {})), times(-1, paid), high=0)
            return
        for other in use.elsewhere(name):
            paid = None if tb_month is None else self._paid(egress_key(self.need, name, other), name, tb_month)
            if paid is None or paid:
                self.book.row(here, use.at[other], times(-1, paid or {}), high=1)

    def _sent_by_work(self, use: Use) -> None:
        """Checkpoints, archives and backups are sent by the work."""
        for name, runs in use.at.items():
            here = self.here.get(name, {})
            paid = self._paid(egress_key(self.need, name, "*"), name, self.need.moved_tb)
            if paid is None or paid:
                self.book.row(runs, times(-1, here), times(-1, paid or {}), high=0)

    def _deadline(self, use: Use) -> None:
        """Ways that leave no time for staging go with a single copy only; the master's egress is paid."""
        need = self.need
        if need.deadline_h is not None and self.masters:
            late: Sum = {
                ("options", w.row): 1 for w in use.ways if w.duration_h + need.stage_h > need.deadline_h * (1 + 1e-9)
            }
            if late:
                self.book.row(late, self.masters, high=1)
        reachable = speed(need.stage_gb_s) <= self.prices.link
        for name, kept in self.kept.items():
            here = self.here.get(name, {})
            paid = self._paid(master_egress_key(need, name), name, need.staged_tb) if reachable else None
            if paid is None or paid:
                self.book.row(kept, times(-1, here), times(-1, paid or {}), high=0)


def drive_rows(book: Book, use: Use, placings: list[Placing]) -> None:
    """Drives of the nodes hold all classes of the work that lie on them, with room and speed for each."""
    for name in use.at:
        there = [p for p in placings if ("gear", drives_key(p.need, name)) in p.here.get(name, {})]
        if not there:
            continue
        if use.job:
            for n in range(4):
                asked = plus(*(times(p.asked_of_job()[n], gear(drives_key(p.need, name))) for p in there))
                if n == 1:
                    asked = plus(asked, *(p.streams.get(name, {}) for p in there))
                have: Sum = {("options", w.row): w.drives[n] for w in use.ways if w.place == name}
                if asked:
                    book.row(asked, times(-1, have), high=0)
            continue
        for kind in (k for k in use.kinds if k.place == name):
            used = book.choice(f"{use.work} replica {kind.row} in use")
            book.row({("replicas", kind.row): 1}, gear(used, -kind.most), high=0)
            for n in range(4):
                asked = plus(*(times(p.asked_of_kind(kind)[n], gear(drives_key(p.need, name))) for p in there))
                slack = max(0, sum(asked.values()) - kind.drives[n])
                if slack:
                    book.row(asked, gear(used, slack), high=kind.drives[n] + slack)
