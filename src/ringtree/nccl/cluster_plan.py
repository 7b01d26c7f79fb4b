"""The plan of a collective on a cluster: NCCL's candidates there, the one it picks, and the bound.

NCCL picks by its own estimate (nccl.tuning). The pick's time is computed by our model (nccl.transport), unless the
user chooses NCCL's. A candidate that our model finds quicker than the pick is worth an environment variable, and named.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf

from ringtree.ir.collective import collective as find_collective
from ringtree.machines.channels import Channels, Pattern
from ringtree.machines.clusters import Cluster
from ringtree.nccl import shortfall, transport, tuning
from ringtree.nccl.estimate import Estimate
from ringtree.nccl.graphs import graphs
from ringtree.nccl.interval import Interval, Intervals, rivals
from ringtree.nccl.link_speeds import check_one_library
from ringtree.nccl.releases import FIRST, words
from ringtree.nccl.tuning.figures import ALGORITHMS, PROTOCOLS
from ringtree.price.bounds import SEND_RECV, Bounds, LowerBound

MODELS = {"transport": transport.estimates, "nccl": tuning.estimates}
"""Models by name: ours of the hardware, and NCCL's own estimate."""
NOTEWORTHY = 0.95
"""Another candidate is named when it takes less than this of the pick's time."""


@dataclass(frozen=True, slots=True)
class Planned:
    """One size: all candidates, the quickest first, which of them NCCL picks, the bound, and `theirs`: NCCL's own
    estimates."""

    collective: str
    ranks: int
    nbytes: int
    candidates: tuple[Estimate, ...]
    pick: Estimate
    bound: LowerBound
    theirs: tuple[Estimate, ...] = ()

    @property
    def quicker(self) -> Estimate | None:
        """A candidate that is worth forcing."""
        best = self.candidates[0]
        return best if best.time_s < NOTEWORTHY * self.pick.time_s else None

    @property
    def bus_factor(self) -> float:
        """Bus bandwidth over algorithm bandwidth."""
        return 1.0 if self.collective == SEND_RECV else find_collective(self.collective).bus_factor(self.ranks)

    def bandwidths_GBps(self, of: Estimate) -> tuple[float, float]:
        """Algorithm and bus bandwidth, as nccl-tests has them."""
        algbw = self.nbytes / of.time_s / 1e9
        return algbw, algbw * self.bus_factor

    def bound_fraction(self, of: Estimate) -> float:
        """The bound's time over the pick's: 1 where the pick reaches the bound."""
        return self.bound.time_s / of.time_s


class ClusterPlan:
    """The answers for one cluster; its channels are searched once, its bounds' cuts found once. `algorithm` and
    `protocol`: only these, as NCCL_ALGO and NCCL_PROTO force them; `excluded`: algorithms that are off."""

    def __init__(
        self,
        cluster: Cluster,
        model: str = "transport",
        algorithm: str | None = None,
        protocol: str | None = None,
        excluded: Collection[str] = (),
    ) -> None:
        if model not in MODELS:
            raise ValueError(f"no model {model!r}: expected one of {', '.join(MODELS)}")
        if not cluster.machine.gpus:
            raise ValueError(f"{cluster.name} has no GPUs, and NCCL's algorithms are for GPUs")
        check_one_library(cluster.machine)
        if cluster.ranks < 2:
            raise ValueError(f"{cluster.name} is one GPU: expected two ranks at least")
        cluster.check_network()
        for what, name, known in (("algorithm", algorithm, ALGORITHMS), ("protocol", protocol, PROTOCOLS)):
            if name is not None and name not in known:
                raise ValueError(f"no {what} {name!r}: expected one of {', '.join(known)}")
        self.cluster, self.model = cluster, model
        self.algorithm, self.protocol, self.excluded = algorithm, protocol, frozenset(excluded)

    @cached_property
    def graphs(self) -> Mapping[Pattern, Channels]:
        """The rings and trees that NCCL would find."""
        return graphs(self.cluster)

    def rows(self, collective: str, sizes: Sequence[int]) -> Iterator[Planned]:
        """A size each; ValueError where the collective has no candidates here."""
        for nbytes in sizes:
            yield self.row(collective, nbytes)

    def row(self, collective: str, nbytes: int) -> Planned:
        """The plan of a call of `nbytes` bytes (of the whole vector)."""
        found, pick, theirs = self._considered(collective, nbytes)
        bound = self._bounds.bound(collective, nbytes)
        return Planned(collective, self.cluster.ranks, nbytes, found, pick, bound, tuple(theirs))

    def candidates(self, collective: str, nbytes: int) -> tuple[tuple[Estimate, ...], Estimate]:
        """All candidates for a call of `nbytes` bytes, the quickest first, and the one NCCL picks."""
        return self._considered(collective, nbytes)[:2]

    def interval(self, row: Planned, of: Estimate) -> Interval | None:
        """The interval of one of a row's candidates, from the lower bound on: of the pick for whatever NCCL may pick
        there, of another one as forced. None for NCCL's own estimates, whose unknowns are not modelled."""
        if self.model == "nccl":
            return None
        others = rivals(row.candidates, row.theirs) if of is row.pick else ()
        found = self._intervals.around(of, row.collective, row.nbytes, others)
        return replace(found, low_s=max(found.low_s, min(row.bound.time_s, of.time_s)))

    def _considered(self, collective: str, nbytes: int) -> tuple[tuple[Estimate, ...], Estimate, Sequence[Estimate]]:
        """All candidates, NCCL's pick among them, and NCCL's own estimates."""
        found = self._estimates(self.model, collective, nbytes)
        if not found:
            if collective != SEND_RECV:
                find_collective(collective)  # ValueError with the known names
            since = FIRST.get(self.algorithm or "")
            if since and self.cluster.nccl and self.cluster.nccl < since:
                raise ValueError(
                    f"NCCL {words(self.cluster.nccl)} has no {self.algorithm}; expected {words(since)} or later"
                )
            forced = "/".join(filter(None, (self.algorithm, self.protocol)))
            raise ValueError(f"{self.cluster.name}: NCCL has no {forced or 'algorithm'} for {collective} there")
        theirs = found if self.model == "nccl" else self._estimates("nccl", collective, nbytes)
        chosen = min(theirs, key=lambda e: e.time_s, default=found[0])
        pick = next((e for e in found if (e.algorithm, e.protocol) == (chosen.algorithm, chosen.protocol)), found[0])
        return tuple(found), pick, theirs

    def _estimates(self, model: str, collective: str, nbytes: int) -> list[Estimate]:
        """The candidates that are not excluded, the quickest first."""
        found = MODELS[model](self.cluster, self.graphs, collective, nbytes)
        wanted = (self.algorithm, self.protocol)
        left = [
            e
            for e in found
            if e.algorithm not in self.excluded
            and all(w in (None, is_) for w, is_ in zip(wanted, (e.algorithm, e.protocol), strict=True))
        ]
        return sorted(left, key=lambda e: e.time_s)

    def shortfall(self, row: Planned) -> tuple[str, ...]:
        """The reasons why the pick is far from the bound; empty where it is not."""
        if row.bound_fraction(row.pick) >= shortfall.FAR:
            return ()
        return shortfall.reasons(self.cluster, self.graphs, row.pick)

    @cached_property
    def _intervals(self) -> Intervals:
        return Intervals(self.cluster, self.graphs)

    @cached_property
    def _bounds(self) -> Bounds:
        fabric = self.cluster.fabric
        wires = replace(self.cluster, fabric=fabric and replace(fabric, core_Bps=inf))  # there may be more connections
        return Bounds(wires, in_network=self.cluster.sharp, in_hosts=Pattern.NVLS in self.graphs)
