"""Figures of the hardware's model, each with its source. Bandwidths in GB/s (1e9 bytes).

Links' bandwidths are the machine's, fabrics' efficiencies the fabric's; those that nobody publishes name the table they
are from. NCCL's source is 2.30.7. Two unpublished figures are among the plugins' (nccl/tuning/settings.py).
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
SHORTER_TREE_CHUNKS = ((8, 128 << 10), (4, 64 << 10), (1, 32 << 10))
"""RCCL halves a tree's chunks down to the second where a block has fewer than the first for each of its stages
(ROCm/rccl 0cbce2a, src/enqueue.cc)."""
UNDER_WAY = {"ring": 3 / 4, "tree": 7 / 8}
"""The share of a connection's buffer under way: all but the piece that the GPU is filling."""

NVLS_STAGES = 2
"""Loops in which a pipeline of three (scatter, reduce, gather) fills and empties."""
BOARD_HEADS, HEAD_us = 8, (0.0, 0.0, 0.3, 0.9)
"""The heads of NCCL's board, and what a head adds to a loop, in which a block posts a chunk for each in turn, by
generation. NCCL's efficiency has the board's heads in it, for loops of the longest chunk. The times are unpublished:
Hopper's from all_reduce of eight H100, whose loops of 8 MiB take 2 us more than half of one of 16 MiB; Blackwell's from
two racks of GB200, where a loop of 32 heads takes 22 us more than one of 8."""

NVLINK_HOP_us = (0.0, 0.0, 0.0, 0.76)
"""The time that a hop over NVLink with LL and LL128 takes beyond NCCL's figure, by generation. Unpublished; from
all_gather of eight B200, whose seven hops with LL take 9.5 us, where NCCL has 0.6 us for each."""
NET_LATENCY_us = FABRICS["infiniband"].latency_s * 1e6
"""The wire's part of NCCL's latencies of a hop between machines."""
BLOCKS_OF_A_CHANNEL = 2
"""A channel's factor in NCCL's tables, whose channels are those of the search: each is opened twice (connect.cc)."""
PEER_CHUNK_bytes = 512 << 10
"""A chunk of a send or receive over NVLink (init.cc)."""
PEER_NET_CHUNK_bytes = 128 << 10
"""The same over the network."""
PEER_LL_bytes = 16384
"""The most bytes of a channel that a send moves with LL (enqueue.cc)."""
PEER_NVLINK_SHARE = (1.0, 0.81, 0.96, 1.0)
"""The share of NVLink's bandwidth that sends and receives reach, by generation. Unpublished; from sendrecv of eight
A100 (195 of 240 GB/s at 1 GiB) and all_to_all of eight H100 (346 of 360); the others' limit is no table's."""
PEER_BATCH = 8
"""Peers whose sends and receives a block serves at once (NCCL_MAX_DEV_WORK_P2P_PER_BATCH)."""
FAR_CHANNEL_EXPECTED_GBps = 14
"""The rate of a channel over the network by which NCCL chooses their number (paths.cc, since 2.29: two before)."""
FAR_CHANNEL_GBps = 10.0
"""The rate that such a channel reaches. Unpublished; from sendrecv of two HGX B200 with two channels (19.8 GB/s)."""
PEER_BLOCK_GBps = (6.6, 11.8, 12.0, 21.2)
"""The rate at which a block sends and receives within a machine, by generation. Unpublished; from sendrecv of eight
A100 with sixteen channels (188.6 GB/s at 256 MiB), all_to_all of eight H100 and sendrecv of eight B200 with four for a
peer (512 MiB in 1461 us, 84.6 GB/s at 64 MiB); Volta's is a quarter of the most that NCCL's source gives a channel."""
