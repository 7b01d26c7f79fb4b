"""The figures of NCCL's tuning model, as its source has them (2.30.7, src/graph/tuning.cc and src/include).

Latencies in microseconds, bandwidths in GB/s (1e9 bytes); rows LL, LL128, Simple where there are three.
"""

from __future__ import annotations

ALGORITHMS = ("tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat", "all_pairs")
"""The algorithms in NCCL's order, which decides between equal times; the last is RCCL's (all_pairs.py)."""
PROTOCOLS = ("ll", "ll128", "simple")

BASE_LATENCY_us = {
    "tree": (6.8, 14.0, 8.4),
    "ring": (6.6, 14.0, 8.4),
    "collnet_direct": (0.0, 0.0, 0.0),
    "collnet_chain": (0.0, 0.0, 0.0),
    "nvls": (0.0, 0.0, 0.0),
    "nvls_tree": (0.0, 0.0, 0.0),
    "pat": (8.0, 8.0, 8.0),
}
HOP_LATENCY_us = {
    "nvlink": {
        "tree": (0.6, 1.25, 4.0),
        "ring": (0.6, 1.9, 3.4),
        "collnet_direct": (0.0, 0.0, 3.7),
        "collnet_chain": (0.0, 0.0, 2.8),
        "nvls": (0.0, 0.0, 25.0),
        "nvls_tree": (0.0, 0.0, 25.0),
        "pat": (0.0, 0.0, 4.0),
    },
    "pci": {
        "tree": (1.0, 1.9, 4.0),
        "ring": (1.0, 2.5, 5.7),
        "collnet_direct": (0.0, 0.0, 3.7),
        "collnet_chain": (0.0, 0.0, 2.8),
        "nvls": (0.0, 0.0, 0.0),
        "nvls_tree": (0.0, 0.0, 0.0),
        "pat": (0.0, 0.0, 4.0),
    },
    "net": {
        "tree": (5.0, 8.5, 14.0),
        "ring": (2.7, 4.0, 14.0),
        "collnet_direct": (0.0, 0.0, 31.0),
        "collnet_chain": (0.0, 0.0, 30.0),
        "nvls": (0.0, 0.0, 18.0),
        "nvls_tree": (0.0, 0.0, 20.9),
        "pat": (0.0, 0.0, 14.0),
    },
}

GENERATIONS = (0, 80, 90, 100)
"""The compute capability (times 10) from which each row of the tables below holds: Volta and before, Ampere, Hopper,
Blackwell. Their columns: 1, 2, more nodes."""
LL_MAX_GBps = ((39.0, 39.0, 20.4), (87.7, 22.5, 19.0), (141.0, 45.0, 35.0), (282.0, 90.0, 70.0))
"""Rows by GPU on one node; on several the first row, or with AMD CPUs the second."""
RING_LL128_CHANNEL_GBps = ((20.0,) * 3, (20.0,) * 3, (36.7,) * 3, (40.0,) * 3)
TREE_LL128_CHANNEL_GBps = ((20.0,) * 3, (20.0,) * 3, (36.7, 36.7, 29.0), (55.6, 31.67, 20.0))
TREE_CHANNEL_GBps = ((26.5, 18.5, 10.0), (24.0, 23.6, 17.8), (38.7, 41.4, 36.0), (70.0, 42.8, 24.0))
NVLS_TREE_CHANNEL_GBps = ((26.5, 18.5, 10.0), (24.0, 23.6, 17.8), (0.0, 57.7, 45.5), (0.0, 96.0, 80.0))
NVLS_EFFICIENCY = (0.0, 0.0, 0.85, 0.74)

TREE_CORRECTION_tenths = {
    "ll": (10, 10, 10, 10, 9, 8, 7, 7, 7, 7, 6, 5, 4, 4, 5, 6, 7, 8, 9, 10, 10, 10, 10, 10),
    "ll128": (10, 10, 10, 10, 10, 9, 8, 8, 8, 7, 6, 6, 6, 6, 6, 6, 8, 9, 9, 9, 9, 10, 10, 10),
    "simple": (9, 9, 9, 9, 9, 9, 9, 8, 7, 6, 6, 5, 5, 5, 5, 6, 7, 8, 7, 7, 8, 9, 9, 9),
}
"""A tree's bandwidth at 64 B, 128 B, … 512 MiB against that at length."""

THREADS = {"ll": 512, "ll128": 640, "simple": 512}
FEW_THREADS = 256
"""A ring's with Simple where all its channels together are no faster than PCI_GBps."""
PCI_GBps = 12.0
THREAD_BYTES = {"ll": 8, "ll128": 8, "simple": 64}
"""Bytes that a thread should have at least, before a channel is added."""
COLLNET_THREAD_BYTES = 512
CHANNEL_TRAFFIC_bytes = 32768
"""Bytes that pass a channel at least."""
MAX_CHANNELS = 64
MAX_DIRECT_RANKS = 8
"""GPUs of a node, for CollNet."""
MAX_NVLS_ARITY = 32

RCCL_BASE_LATENCY_us = (12.0, 12.0, 17.0)
"""RCCL's, a tree's and a ring's (ROCm/rccl 0cbce2a, src/graph/tuning.cc)."""
RCCL_HOP_LATENCY_us = {
    "nvlink": {"tree": (0.9, 0.0, 2.3), "ring": (0.8, 0.0, 2.1)},
    "pci": {"tree": (2.2, 2.2, 5.7), "ring": (2.2, 2.2, 5.7)},
    "net": {"tree": (10.5, 0.0, 25.0), "ring": (9.5, 0.0, 320.0)},
}
RCCL_SHARE = {
    "tree": ((0.06, 0.0, 0.11), (0.06, 0.0, 0.59)),
    "ring": ((0.08, 0.0, 1.0), (0.08, 0.0, 1.0)),
}
"""Shares of all channels' bandwidth: up to two nodes, and on more."""
RCCL_CORRECTION_tenths = {
    "tree": {
        "ll": (1, 1, 1, 1, 1, 1, 10, 10, 10, 10, 10, 6, 10, 9, 10, 10, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1),
        "simple": (1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 7, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 8),
    },
    "ring": {
        "ll": (1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 10, 2, 10, 4, 4, 1, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1),
        "simple": (1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 8, 10, 10, 10),
    },
}
"""The bandwidth at 64 B, 128 B, … 4 GiB and more against that at length: a tree's, and between machines a ring's. These
four are RCCL's model for eight MI300X joined all to all (tuning_model_5); it has others for older GPUs."""
