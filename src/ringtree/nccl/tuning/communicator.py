"""The properties of a communicator in NCCL's model: number and generation of GPUs, and the channels found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from ringtree.machines.channels import Channels, Pattern
from ringtree.machines.clusters import Cluster
from ringtree.machines.machine import DeviceKind, PathKind
from ringtree.machines.parts import cpu_maker
from ringtree.nccl.link_speeds import runs_rccl
from ringtree.nccl.releases import MODELLED
from ringtree.nccl.tuning.figures import GENERATIONS, MAX_CHANNELS
from ringtree.nccl.tuning.settings import TuningSettings, settings

TREES = (Pattern.BALANCED_TREE, Pattern.SPLIT_TREE, Pattern.TREE)
BLACKWELL = 100
FAST_NIC_GBps, FASTER_NIC_GBps = 48.0, 96.0
"""NICs of 400 and of 800 Gb/s."""
_PATTERNS = {
    "ring": (Pattern.RING,),
    "tree": TREES,
    "pat": TREES,
    "nvls": (Pattern.NVLS,),
    "nvls_tree": (Pattern.NVLS,),
    "collnet_direct": (Pattern.COLLNET_DIRECT,),
    "collnet_chain": (Pattern.COLLNET_CHAIN,),
    "all_pairs": (),
}


@dataclass(frozen=True)
class NcclCommunicator:
    """All GPUs of a cluster, with the channels a search found on it."""

    cluster: Cluster
    graphs: Mapping[Pattern, Channels]

    @property
    def release(self) -> tuple[int, int]:
        """NCCL's release; the one that the model follows where it is unknown."""
        return self.cluster.nccl or MODELLED

    @property
    def nodes(self) -> int:
        """Machines."""
        return self.cluster.nodes

    @property
    def ranks(self) -> int:
        """GPUs in all."""
        return self.cluster.ranks

    @property
    def per_node(self) -> int:
        """GPUs of a machine."""
        return len(self.cluster.machine.gpus)

    @cached_property
    def sm(self) -> int:
        """The least compute capability, times 10."""
        return min(self._sms)

    @cached_property
    def settings(self) -> TuningSettings:
        """The settings of the fabric's plugin."""
        return settings(self.cluster, self.sm)

    @cached_property
    def like(self) -> bool:
        """Whether all GPUs are of one compute capability."""
        return len(set(self._sms)) == 1

    @cached_property
    def generation(self) -> int:
        """The row of the tables."""
        return max(n for n, least in enumerate(GENERATIONS) if self.sm >= least)

    @property
    def column(self) -> int:
        """The column of NCCL's tables: 1, 2, or more nodes."""
        return min(self.nodes, 3) - 1

    @cached_property
    def cpu(self) -> str:
        """The maker of the first CPU that names one: `intel`, `amd`, `ibm`, `arm`, …; "" if none does."""
        machine = self.cluster.machine
        return next(filter(None, (cpu_maker(machine.devices[n]) for n in machine.of_kind(DeviceKind.CPU))), "")

    @property
    def posting_us(self) -> float:
        """Microseconds of CPU time for each message."""
        return 2.0 if self.cpu == "amd" else 1.0

    @cached_property
    def rccl(self) -> bool:
        """Whether the library is RCCL."""
        return runs_rccl(self.cluster.machine)

    @cached_property
    def nvswitch(self) -> bool:
        """Whether the machine has any."""
        return bool(self.cluster.machine.of_kind(DeviceKind.NVSWITCH))

    @property
    def latency_words(self) -> str:
        """The bottleneck's text where most of a time is latency."""
        return f"latency: {self.ranks} ranks" + (f" on {self.nodes} nodes" if self.nodes > 1 else "")

    def graph(self, algorithm: str) -> Channels | None:
        """The channels an algorithm runs on; None where none were found."""
        return self._of_algorithms[algorithm]

    @cached_property
    def _of_algorithms(self) -> Mapping[str, Channels | None]:
        found = {pattern: channels for pattern, channels in self.graphs.items() if channels.count}
        return {name: next((found[p] for p in of if p in found), None) for name, of in _PATTERNS.items()}

    def graph_of(self, algorithm: str) -> Channels:
        """The channels of an algorithm that has some."""
        graph = self.graph(algorithm)
        assert graph is not None, algorithm
        return graph

    def reduces_in_network(self, algorithm: str) -> bool:
        """Whether the network's switches reduce (SHARP) with that algorithm."""
        return self.cluster.sharp and self.nodes > 1 and algorithm in ("collnet_direct", "collnet_chain", "nvls")

    def heads(self, algorithm: str) -> int:
        """GPUs of a node that begin a channel: where switches reduce, those that reduce for the node."""
        return len({order[0] for order in self.graph_of(algorithm).orders})

    def near(self, algorithm: str) -> str:
        """The kind of link by which hops within a machine are priced: `nvlink` or `pci`."""
        graph = self.graph(algorithm)
        return "nvlink" if graph is not None and graph.intra == PathKind.NVL else "pci"

    @cached_property
    def channels(self) -> int:
        """Number of rings and trees once NCCL has connected them: the found ones twice, and more where they are few
        and fast (connect.cc)."""
        ring = self.graph("ring")
        if ring is None:
            return 0
        tree = self.graph("tree")
        count = min(2 * min(ring.count, tree.count if tree else ring.count), MAX_CHANNELS)
        chain = self.graph("collnet_chain")
        if self.cluster.sharp and chain and chain.intra_Bps > chain.inter_Bps and self.ranks > self.nodes:
            count = min(count + count // 2, MAX_CHANNELS)
        if self.sm >= 90 and self.nodes > 1 and ring.intra_Bps > 45e9 and count < 16:
            count *= 2
        return count

    @cached_property
    def nvls_channels(self) -> int:
        """Blocks that NVLS runs on (nvls.cc)."""
        if self.sm < BLACKWELL:
            return 16
        few = self.nodes == 1 or (self.nodes > 2 and self.nic_GBps >= FAST_NIC_GBps)
        return 24 if few else 32

    @cached_property
    def nic_GBps(self) -> float:
        """The slowest NIC's rate; 0 without."""
        machine = self.cluster.machine
        return min((machine.devices[n].rate_Bps / 1e9 for n in machine.nics), default=0.0)

    @cached_property
    def _sms(self) -> tuple[int, ...]:
        machine = self.cluster.machine
        return tuple(machine.devices[g].sm for g in machine.gpus)
