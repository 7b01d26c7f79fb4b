"""Faults of a cluster, each as a changed Cluster, whose predicted times are those expected with the fault."""

from __future__ import annotations

from functools import lru_cache

from ringtree.machines.clusters import Cluster
from ringtree.nccl.faults import between_nodes, in_node
from ringtree.nccl.faults.fault import HARDWARE, KERNEL, SOFTWARE, Fault

__all__ = ["HARDWARE", "KERNEL", "SOFTWARE", "Fault", "faults"]

KINDS = (
    between_nodes.sockets,
    between_nodes.gdr_off,
    between_nodes.few_nics,
    between_nodes.nic_half,
    between_nodes.acs,
    between_nodes.cpu_link,
    between_nodes.pxn_off,
    between_nodes.sharp_off,
    between_nodes.few_channels,
    in_node.p2p_off,
    in_node.nvlink_unused,
    in_node.acs,
    in_node.numa,
    in_node.pcie_half,
    in_node.nvls_off,
    in_node.protocol_forced,
)


@lru_cache(maxsize=16)
def faults(cluster: Cluster) -> tuple[Fault, ...]:
    """The faults that the cluster can have; cached, so that their channels are searched once."""
    return tuple(fault for of in KINDS for fault in of(cluster))
