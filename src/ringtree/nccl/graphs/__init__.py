"""The channels that NCCL's search would find on a cluster: rings, trees, NVLS heads and CollNet."""

from ringtree.nccl.graphs.patterns import communicator_channels, graphs

__all__ = ["communicator_channels", "graphs"]
