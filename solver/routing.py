"""How the load of each request size is split among replicas: a solution's loads without what serves nobody."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from solver.instance import DEMAND_UNIT, LOAD_UNIT, Instance
from solver.search import Values


class Routing:
    """Loads of a solution where all loads of a size together serve just its demand.

    A solution may set aside more time for a size than its demand takes: coverage is an inequality. What is over is taken
    off all replica kinds in proportion; off those on spot nodes first where a share of the demand must not depend on them.
    """

    def __init__(
        self, inst: Instance, values: Values, rates: Sequence[Sequence[float]], wanted: Sequence[Sequence[float]]
    ) -> None:
        """Take a solution apart.

        Parameters
        ----------
        rates
            Of each replica kind by request size, as measured or modelled: the instance's own are rounded and capped.
        wanted
            Demand of each service by request size at its busiest, in the unit of the rates.
        """
        self._inst, self._values = inst, values
        firm = inst.spot_share_ppm < 1_000_000
        # Whether a kind is relieved first.
        self._first = [firm and inst.pools[r.pool].spot for r in inst.replicas]
        supply: dict[tuple[bool, int, int, int], float] = defaultdict(float)
        for (k, b, p), load in values.load.items():
            if load:
                supply[self._first[k], inst.replicas[k].work, b, p] += rates[k][b] * load / LOAD_UNIT
        self._factor: dict[tuple[bool, int, int, int], float] = {}
        for (first, w, b, p), amount in supply.items():
            asked = wanted[w][b] * inst.services[w].demand[b][p] / DEMAND_UNIT
            left = max(0.0, asked - supply.get((False, w, b, p), 0.0)) if first else asked
            self._factor[first, w, b, p] = min(1.0, left / amount) if amount > 0 else 0.0

    def load(self, kind: int, period: int) -> tuple[float, ...]:
        """Load of a replica kind in a period by request size [replicas]; empty for services with one size."""
        work = self._inst.replicas[kind].work
        sizes = len(self._inst.services[work].demand)
        if sizes == 1:
            return ()
        return tuple(
            self._values.load[kind, b, period] / LOAD_UNIT * self._factor.get((self._first[kind], work, b, period), 0.0)
            for b in range(sizes)
        )

    def spare_time(self, service: int) -> float:
        """GPU time held over GPU time used in the tightest period, less 1 [ratio]; 0 where nothing is used."""
        inst, values = self._inst, self._values
        kinds = [k for k, r in enumerate(inst.replicas) if r.work == service]
        worst = float("inf")
        for p in range(len(inst.periods)):
            running = [k for k in kinds if values.replicas[k, p]]
            have = sum(inst.replicas[k].gpus * values.replicas[k, p] for k in running)
            used = sum(inst.replicas[k].gpus * sum(self.load(k, p)) for k in running)
            if used > 0:
                worst = min(worst, have / used - 1)
        return 0.0 if worst == float("inf") else worst
