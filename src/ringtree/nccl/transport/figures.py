"""What the model of the hardware takes from elsewhere, each figure with its source. Bandwidths in GB/s (1e9 bytes).

None is from a measurement of a collective on a system: what links carry is the machine's, what fabrics leave the
fabric's. NCCL's source is 2.30.7. Two figures that nobody publishes are among the plugins' (nccl/tuning/settings.py).
"""

from __future__ import annotations

from ringtree.topology.fabrics import FABRICS

NIC_SHARE = 47 / 49.7
"""Of a NIC's payload, what reaches a GPU: of a NIC of 400 Gb/s 46 to 48 GB/s are to be seen, say NVIDIA's engineers
(NVIDIA/nccl-tests issue 290)."""

NVLS_BLOCK_GBps = (0.0, 0.0, 370.8 * 8 / 9 * 0.85 / 16, 721.8 * 8 / 9 * 0.74 / 24)
"""What a thread block gets done where a switch reduces, by generation (Volta, Ampere, Hopper, Blackwell): NCCL's
efficiency for a board of eight GPUs (tuning.cc, nvlsEfficiency) of what its links carry, an eighth of it twice, over
the blocks it runs on (nvls.cc)."""

RING_STEPS, TREE_STEPS, STEPS = 4, 1, 8
"""Of the eight steps a connection's buffer has with Simple, those of a ring's chunk and of a tree's (collectives.h)."""
SLICES = 2
SLICE_bytes = 32 << 10
"""Pieces in which a ring's chunk travels (collectives.h), and the least a piece is (prims_simple.h)."""
UNDER_WAY = {"ring": 3 / 4, "tree": 7 / 8}
"""Of a connection's buffer: all but the piece that the GPU is filling."""

NVLS_STAGES = 2
"""Loops in which a pipeline of three (scatter, reduce, gather) fills and empties."""

NET_LATENCY_us = FABRICS["infiniband"].latency_s * 1e6
"""What NCCL's latencies of a hop between machines hold of the wire."""
BLOCKS_OF_A_CHANNEL = 2
"""Of NCCL's tables, whose channels are those its search finds: each is there twice (connect.cc)."""
PEER_CHUNK_bytes = 512 << 10
"""Of a send or receive over NVLink (init.cc)."""
PEER_LL_bytes = 16384
"""Of a channel: up to here a send goes with LL (enqueue.cc)."""
