"""The times of calls by where their group lies on a cluster; groups on GPUs that are alike are one."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ringtree.machines.clusters import Cluster, NetworkShape
from ringtree.machines.sharing import as_shared, likeness
from ringtree.nccl.cluster_plan import ClusterPlan
from ringtree.training.core.layout import AXES, ParallelLayout
from ringtree.training.predict.placing import Gpus, Placed, groups_of, placed

Groups = tuple[tuple[int, ...], str, tuple[int, int] | None, int]
"""The ranks along each axis, the axis of the groups, the positions between which messages go, the position of "pp".
"""


@dataclass(frozen=True, slots=True)
class CallTime:
    """The time of one call with its interval, of which `low_s` and `high_s` are the ends; the algorithm and protocol
    that NCCL picks."""

    time_s: float
    low_s: float
    high_s: float
    algorithm: str
    protocol: str


class PricedPlaces:
    """The places of a cluster that groups were priced on: each kind of place is searched once, by its number of
    machines and the likeness of its part of one, and each call there is priced once."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.searched: dict[tuple[int, bytes], ClusterPlan] = {}
        self._planned: dict[Placed, ClusterPlan] = {}
        self._times: dict[tuple[int, str, int], CallTime | str] = {}
        self._likeness: dict[Gpus, bytes] = {}
        self._of_groups: dict[Groups, tuple[list[Placed], set[str]]] = {}

    def of_groups(
        self, layout: ParallelLayout, axis: str, between: tuple[int, int] | None, position: int
    ) -> tuple[list[Placed], set[str]]:
        """The places of the groups along an axis whose ranks are at a position of "pp", or of all messages between two
        positions, and why others have none: worked out once for layouts of the same ranks along each axis."""
        key = (tuple(getattr(layout, name) for name in AXES), axis, between, -1 if between else position)
        if key not in self._of_groups:
            groups, apart = groups_of(layout, axis, between), layout.ranks // layout.pp
            of = [k for k, g in enumerate(groups) if between or g[0] // apart == position]
            places, reasons = placed(groups, of, len(self.cluster.machine.gpus), self.are_alike)
            self._of_groups[key] = sorted(places, key=lambda p: (p.nodes, p.gpus)), reasons
        return self._of_groups[key]

    def time(self, place: Placed, collective: str, nbytes: int) -> CallTime | str:
        """The time of a call there, or why NCCL's model has none."""
        try:
            plan = self._planned.get(place) or self._planned.setdefault(place, self._cluster_plan(place))
            key = (id(plan), collective, nbytes)
            if key not in self._times:
                self._times[key] = _time_of(plan, collective, nbytes)
            return self._times[key]
        except ValueError as error:
            return str(error)

    def are_alike(self, one: Gpus, other: Gpus) -> bool:
        """Whether these parts of a machine are the same but for the names of their GPUs."""
        for gpus in (one, other):
            if gpus not in self._likeness:
                self._likeness[gpus] = likeness(self.cluster.machine.part(gpus))
        return self._likeness[one] == self._likeness[other]

    def _cluster_plan(self, place: Placed) -> ClusterPlan:
        machine = self.cluster.machine
        if len(place.gpus) < len(machine.gpus):
            machine = as_shared(machine, place.gpus, place.beside)
        key = (place.nodes, likeness(machine))
        if key not in self.searched:
            one = replace(self.cluster, machine=machine, nodes=place.nodes)
            if place.nodes == 1:
                one = replace(one, network=NetworkShape.RAILS, oversubscription=1.0, sharp=False)
            self.searched[key] = ClusterPlan(one)
        return self.searched[key]


def _time_of(plan: ClusterPlan, collective: str, nbytes: int) -> CallTime:
    row = plan.row(collective, nbytes)
    pick, around = row.pick, plan.interval(row, row.pick)
    assert around is not None
    return CallTime(pick.time_s, around.low_s, around.high_s, pick.algorithm, pick.protocol)
