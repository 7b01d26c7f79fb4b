"""The paths from each GPU of a machine to each other and to every NIC, as a matrix, equal devices as one; and the rules
for direct access."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ringtree.machines.machine import DeviceKind, PathKind
from ringtree.machines.paths import Paths, RuleVerdict, gdr, p2p
from ringtree.topology.fabrics import Fabric

MOST = 640
"""GPUs and NICs of a matrix: it grows with their square."""


@dataclass(frozen=True, eq=False)
class PathMatrix:
    """`devices` are the GPUs, then the NICs, by number; `kinds` and `bandwidths_Bps` between each two of them. A NIC's
    rate is counted into its bandwidths."""

    paths: Paths
    devices: tuple[int, ...]
    kinds: NDArray[np.int8]
    bandwidths_Bps: NDArray[np.float64]

    def name(self, position: int) -> str:
        """GPU3, NIC0: as they are counted in the machine."""
        gpus = len(self.paths.machine.gpus)
        return f"GPU{position}" if position < gpus else f"NIC{position - gpus}"

    @cached_property
    def twins(self) -> tuple[tuple[int, ...], ...]:
        """Groups of positions whose rows are equal except for each other; by the first of each."""
        groups: list[list[int]] = []
        for position in range(len(self.devices)):
            group = next((g for g in groups if self._alike(g[0], position)), None)
            if group is None:
                groups.append([position])
            else:
                group.append(position)
        return tuple(map(tuple, groups))

    def _alike(self, a: int, b: int) -> bool:
        devices = self.paths.machine.devices
        if devices[self.devices[a]].kind is not devices[self.devices[b]].kind:
            return False
        others = np.ones(len(self.devices), dtype=bool)
        others[[a, b]] = False
        return all(
            np.array_equal(of[a, others], of[b, others]) and of[a, b] == of[b, a]
            for of in (self.kinds, self.bandwidths_Bps)
        )


def matrix(paths: Paths) -> PathMatrix:
    """The matrix of paths between a machine's GPUs and NICs; of the first MOST of them, where it has more."""
    machine = paths.machine
    devices = (*machine.gpus, *machine.nics)[:MOST]
    rates = [d.rate_Bps or inf if (d := machine.devices[n]).kind is DeviceKind.NIC else inf for n in devices]
    kinds = np.zeros((len(devices), len(devices)), dtype=np.int8)
    bandwidths_Bps = np.zeros((len(devices), len(devices)))
    for i, a in enumerate(devices):
        for j, b in enumerate(devices):
            if i != j:
                path = paths.between(a, b)
                kinds[i, j] = path.kind
                bandwidths_Bps[i, j] = min(path.bandwidth_Bps, rates[i], rates[j])
    return PathMatrix(paths, devices, kinds, bandwidths_Bps)


def kind_of(found: PathMatrix, some: Sequence[int], others: Sequence[int]) -> PathKind:
    """Between two groups of `twins`, or within one."""
    i, j = _pair(some, others)
    return PathKind(int(found.kinds[i, j]))


def bandwidth_of(found: PathMatrix, some: Sequence[int], others: Sequence[int]) -> float:
    """The bandwidth between two devices in B/s; 0 from a device to itself."""
    i, j = _pair(some, others)
    return float(found.bandwidths_Bps[i, j])


def _pair(some: Sequence[int], others: Sequence[int]) -> tuple[int, int]:
    return some[0], others[-1]


class Rule(NamedTuple):
    """`what` ("p2p" or "gdr") applies to `found` of the `total`, or does not; `why`: the reason for the first of
    them."""

    what: str
    applies: bool
    found: int
    total: int
    why: str


def rules(paths: Paths, fabric: Fabric | None = None) -> tuple[Rule, ...]:
    """The rules for P2P, then for GPUDirect RDMA; each first as it applies, then as it does not."""
    gpus = range(len(paths.machine.gpus))
    pairs = [p2p(paths, a, b) for a, b in combinations(gpus, 2)]
    near = [gdr(paths, g, nic, fabric) for g in gpus for nic in paths.nearest_nics(g)[:1]]
    alone = [RuleVerdict(False, "no NIC to do it with")] * (len(gpus) - len(near))
    return (*_ruled("p2p", pairs), *_ruled("gdr", near + alone))


def _ruled(what: str, verdicts: Iterable[RuleVerdict]) -> Iterator[Rule]:
    """A rule's reason begins with the kind of path where that decides."""
    found: dict[tuple[bool, str], list[str]] = {}
    for verdict in verdicts:
        kind = verdict.why.partition(" between ")[0] if " between " in verdict.why else ""
        found.setdefault((verdict.applies, kind), []).append(verdict.why)
    total = sum(map(len, found.values()))
    for (applies, _), whys in sorted(found.items(), key=lambda rule: not rule[0][0]):
        yield Rule(what, applies, len(whys), total, whys[0])
