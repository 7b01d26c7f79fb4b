"""Channels: the orders in which data goes round a machine's GPUs, side by side; a graph in NCCL's terms."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ringtree.machines.machine import PathKind


class Pattern(str, Enum):
    """The meaning of a channel's order: a ring, a chain that is a node's part of a tree (BALANCED_TREE: the first two
    GPUs share the data from other nodes; SPLIT_TREE: the second takes the children), or the heads of NVLS and
    CollNet."""

    RING = "ring"
    TREE = "tree"
    BALANCED_TREE = "balanced_tree"
    SPLIT_TREE = "split_tree"
    NVLS = "nvls"
    COLLNET_CHAIN = "collnet_chain"
    COLLNET_DIRECT = "collnet_direct"


@dataclass(frozen=True, slots=True)
class Channels:
    """`orders`: a channel each, GPUs by local rank. `nics`: for each channel the NIC by which it enters the machine and
    the one by which it leaves, by position among the machine's NICs; empty where it stays inside. Bandwidths are one
    channel's. `intra`, `inter`: the farthest path between two GPUs, and between a GPU and its NIC."""

    pattern: Pattern
    orders: tuple[tuple[int, ...], ...]
    nics: tuple[tuple[int, int], ...] = ()
    intra_Bps: float = 0.0
    inter_Bps: float = 0.0
    intra: PathKind = PathKind.LOC
    inter: PathKind = PathKind.LOC
    inter_latency_s: float = 0.0
    cross_nic: int = 0
    same: bool = True

    @property
    def count(self) -> int:
        """The number of channels."""
        return len(self.orders)

    def at_nics(self, channel: int) -> tuple[tuple[int, int], ...]:
        """The GPUs of a channel that exchange data with the network, each with its NIC; empty where it stays inside.
        The first pair is where a channel enters."""
        if not self.nics:
            return ()
        order, (enters, leaves) = self.orders[channel], self.nics[channel]
        if self.pattern is Pattern.RING:
            return (order[0], enters), (order[-1], leaves)
        if self.pattern is Pattern.BALANCED_TREE:
            return (order[0], enters), *((gpu, leaves) for gpu in order[:2])
        if self.pattern is Pattern.SPLIT_TREE:
            return (order[0], enters), (order[:2][-1], leaves)
        return (order[0], enters), (order[0], leaves)
