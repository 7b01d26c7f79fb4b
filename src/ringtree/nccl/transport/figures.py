"""Figures of the hardware's model, each with its source. Bandwidths in GB/s (1e9 bytes).

None is measured from a collective on a system: links' bandwidths are the machine's, fabrics' efficiencies the fabric's.
NCCL's source is 2.30.7. Two unpublished figures are among the plugins' (nccl/tuning/settings.py).
"""

from __future__ import annotations

from ringtree.topology.fabrics import FABRICS

NIC_SHARE = 47 / 49.7
"""The share of a NIC's payload that reaches a GPU: NVIDIA's engineers give 46 to 48 GB/s for a NIC of 400 Gb/s
(NVIDIA/nccl-tests issue 290)."""

SHARP_SHARE = 20 / 25
"""The share of a port's rate at which switches of the network reduce: about 20 GB/s of a NIC of 200 Gb/s, by NVIDIA's
engineers (NVIDIA/nccl issue 320)."""

NVLS_BLOCKS = (1, 1, 16, 24)
"""Blocks that NVLS runs on in a machine, by generation: Volta, Ampere, Hopper, Blackwell (nvls.cc)."""
NVLS_BLOCK_GBps = (0.0, 0.0, 370.8 * 8 / 9 * 0.85 / 16, 721.8 * 8 / 9 * 0.74 / 24)
"""GB/s of a thread block where a switch reduces, by generation: NCCL's efficiency for a board of eight GPUs
(tuning.cc, nvlsEfficiency) of the links' bandwidth, an eighth of it twice, over the blocks. It is the links'
efficiency, so the more blocks that NCCL opens between machines carry no more within one."""

HOST_ONE_WAY, HOST_TWO_WAYS = 11.1 / 12, 0.8
"""The shares of a PCIe link's bandwidth (link_speeds.py) that data staged in the host's memory reach, on a GPU's own
link where it only sends or receives, and where it does both: a read's request waits behind the writes. Unpublished;
from tables of systems that nobody is judged on: broadcast of two RTX 2080 Ti, all_reduce of four RTX 5090 on eight
channels (docs/prediction.md)."""
HOST_BLOCK_GBps = 7.4
"""GB/s of a thread block that reads the host's memory and writes it, as its loads wait for the whole way. Unpublished;
from all_reduce of four RTX 5090 on four channels (docs/prediction.md)."""

RING_STEPS, TREE_STEPS, STEPS = 4, 1, 8
"""Steps of a ring's chunk, of a tree's, and of a connection's buffer, with Simple (collectives.h)."""
SLICES = 2
SLICE_bytes = 32 << 10
"""Pieces in which a ring's chunk travels (collectives.h), and the least a piece is (prims_simple.h)."""
UNDER_WAY = {"ring": 3 / 4, "tree": 7 / 8}
"""The share of a connection's buffer under way: all but the piece that the GPU is filling."""

NVLS_STAGES = 2
"""Loops in which a pipeline of three (scatter, reduce, gather) fills and empties."""
BOARD_HEADS, HEAD_us = 8, 0.9
"""The heads of NCCL's board, and what each further one adds to a loop, in which a block posts a chunk for each head in
turn. The time is unpublished; from the table of two racks of GB200, where a loop of 32 heads takes 22 us more."""

NET_LATENCY_us = FABRICS["infiniband"].latency_s * 1e6
"""The wire's part of NCCL's latencies of a hop between machines."""
BLOCKS_OF_A_CHANNEL = 2
"""A channel's factor in NCCL's tables, whose channels are those of the search: each is opened twice (connect.cc)."""
PEER_CHUNK_bytes = 512 << 10
"""A chunk of a send or receive over NVLink (init.cc)."""
PEER_LL_bytes = 16384
"""The most bytes of a channel that a send moves with LL (enqueue.cc)."""
