"""The class of a prediction: what carries the data, and the kind of collective, as far as the model's error depends on
them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ringtree.machines.channels import Channels, Pattern
from ringtree.machines.clusters import Cluster
from ringtree.machines.machine import LinkKind, PathKind
from ringtree.machines.paths import p2p, paths_of
from ringtree.nccl.link_speeds import runs_rccl
from ringtree.nccl.tuning.figures import GENERATIONS

KINDS = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "reduce_scatter": "all_gather",
    "broadcast": "broadcast",
    "reduce": "broadcast",
}
"""Collectives that take the same way through the model."""
NAMES = ("Volta", "Ampere", "Hopper", "Blackwell")
"""The generations of NCCL's tables; the first one also stands for all before it."""
UNKNOWN = "unknown"
GPU_WORDS = {
    "Volta": "GPUs of Volta or older",
    "Ampere": "GPUs of Ampere or Ada",
    "Hopper": "Hopper GPUs",
    "Blackwell": "Blackwell GPUs",
    "AMD": "AMD GPUs",
    UNKNOWN: "GPUs of unknown generation",
}
WITHIN_WORDS = {
    "nvlink": "NVLink",
    "xgmi": "xGMI",
    "pcie": "PCIe, peer to peer",
    "host": "the host's memory, without peer to peer",
}
"""Generations, and what joins the GPUs of a machine, in words."""
EXCHANGED = "send_recv"
"""The kind of all others, which NCCL builds from sends and receives."""


@dataclass(frozen=True, slots=True)
class PredictionClass:
    """`gpus`: their generation, `unknown` where no table has it. `within`: what joins those of a machine: nvlink, xgmi,
    pcie, host (the host's memory), or one (a single GPU). `between`: the fabric's name; "" for one machine. `kind`: the
    collective's."""

    gpus: str
    within: str
    between: str
    kind: str

    def __str__(self) -> str:
        over = " and ".join(filter(None, (WITHIN_WORDS.get(self.within), self.between)))
        return f"{self.kind} of {GPU_WORDS[self.gpus]}{', one a node,' if self.within == 'one' else ''} over {over}"


def class_of(cluster: Cluster, graphs: Mapping[Pattern, Channels], collective: str) -> PredictionClass:
    """The class of a collective on a cluster with those channels."""
    between = cluster.fabric.name if cluster.nodes > 1 and cluster.fabric else ""
    return PredictionClass(generation(cluster), within(cluster, graphs), between, KINDS.get(collective, EXCHANGED))


def generation(cluster: Cluster) -> str:
    """The oldest generation of the GPUs, as NCCL's tables have them; `AMD` where they run RCCL, `unknown` where one is
    in no table."""
    machine = cluster.machine
    if runs_rccl(machine):
        return "AMD"
    least = min(machine.devices[g].sm for g in machine.gpus)
    if least == 0:
        return UNKNOWN
    return next(name for name, sm in zip(reversed(NAMES), reversed(GENERATIONS), strict=True) if least >= sm)


def within(cluster: Cluster, graphs: Mapping[Pattern, Channels]) -> str:
    """Returns what joins the GPUs of a machine: `nvlink`, `xgmi`, `pcie`, `host`, or `one` of a single GPU."""
    machine = cluster.machine
    if len(machine.gpus) < 2:
        return "one"
    ring = graphs.get(Pattern.RING)
    if ring is not None and ring.intra <= PathKind.C2C:
        kinds = {machine.links[n].kind for n in machine.leaving(machine.gpus[0])}
        return "xgmi" if LinkKind.XGMI in kinds else "nvlink"
    paths, gpus = paths_of(machine), range(len(machine.gpus))
    return "pcie" if any(p2p(paths, a, b).applies for a in gpus for b in gpus if a != b) else "host"
