"""The blocks NVLS runs on, and how long a tree's chunks are at most (nvls.cc)."""

from __future__ import annotations

KiB = 1 << 10
BLACKWELL = 100
FAST_NIC_GBps, FASTER_NIC_GBps = 48.0, 96.0
"""NICs of 400 and of 800 Gb/s."""


def blocks(sm: int, nodes: int, nic_GBps: float) -> int:
    """By compute capability (times 10), and from Blackwell on by nodes and NICs."""
    if sm < BLACKWELL:
        return 16
    if nodes == 1:
        return 24
    return 24 if nodes > 2 and nic_GBps >= FAST_NIC_GBps else 32


def tree_chunk_bytes(sm: int, nodes: int, per_node: int, nic_GBps: float, near_nic: bool) -> int:
    """Of NVLSTree, at most. `near_nic`: no CPU between a GPU and its NIC."""
    if sm < BLACKWELL or nic_GBps < FAST_NIC_GBps:
        return 64 * KiB if nodes >= 4 else 128 * KiB
    if nodes == 2:
        if per_node <= 4:
            return 256 * KiB
        slow = per_node >= 16 or (per_node <= 8 and near_nic and nic_GBps < FASTER_NIC_GBps)
        return 64 * KiB if slow else 128 * KiB
    if nic_GBps >= FASTER_NIC_GBps:
        return 256 * KiB if per_node <= 8 else (128 if per_node < 32 else 64) * KiB
    return 64 * KiB if near_nic else 128 * KiB
