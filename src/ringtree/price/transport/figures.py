"""What the model of the hardware takes from elsewhere, each figure with its source. Bandwidths in GB/s (1e9 bytes).

None is from a measurement of a collective on a system: what links carry is the machine's, what fabrics leave the
fabric's. NCCL's source is 2.30.7.
"""

from __future__ import annotations

NIC_SHARE = 47 / 49.7
"""Of a NIC's payload, what reaches a GPU: of a NIC of 400 Gb/s 46 to 48 GB/s are to be seen, say NVIDIA's engineers
(NVIDIA/nccl-tests issue 290)."""

NVLS_BLOCK_GBps = (0.0, 0.0, 370.8 * 8 / 9 * 0.85 / 16, 721.8 * 8 / 9 * 0.74 / 24)
"""What a thread block gets done where a switch reduces, by generation (Volta, Ampere, Hopper, Blackwell): NCCL's efficiency for a board of eight GPUs (tuning.cc, nvlsEfficiency) of what
its links carry, an eighth of it twice, over the blocks it runs on (nvls.cc)."""

BUFFER_bytes = 4 << 20
"""Of a connection, with Simple, in eight steps (init.cc). A ring's chunk is four of them in two slices, a tree's one
(collectives.h)."""
FABRIC_BUFFERS_bytes = {"tcpxo": 8 << 20}
"""Where a fabric's maker sets another (Google Cloud, GPUDirect-TCPXO)."""
UNDER_WAY = {"ring": 3 / 4, "tree": 7 / 8}
"""Of a connection's buffer: all but the piece that the GPU is filling."""
DIRECT_TCP_us = {"tcpx": 415.0, "tcpxo": 448.0}
"""What a hop takes beyond NCCL's latency with Simple, where TCP's payload goes to a GPU's memory. Nobody publishes it,
so each of the two is what a table of the *other* shows: tcpx' from a3-mega (all_reduce of 64 MiB: 1262 us, of which
NCCL's latency 67 and the NICs 363, two hops), tcpxo's from a3-high (all_gather of 1 to 4 MiB: 976 us, of which NCCL's
80, two hops)."""
RING_CHUNK_bytes = BUFFER_bytes // 2
TREE_CHUNK_bytes = BUFFER_bytes // 8
SLICES = 2

NVLS_CHUNKS_bytes = ((64, 65536), (8, 32768), (2, 16384))
"""From 128 KiB down: to the second where less than the first, in loops of all heads and channels, is to be done
(enqueue.cc)."""
NVLS_TREE_CHUNKS_bytes = ((4, 65536), (1, 32768))
NVLS_CHUNK_bytes = 128 << 10
NVLS_TREE_CHUNK_NODES_bytes = 64 << 10
"""From four nodes on (nvls.cc)."""
NVLS_STAGES = 2
"""Loops in which a pipeline of three (scatter, reduce, gather) fills and empties."""

NET_LATENCY_us = 2.0
"""What NCCL's latencies of a hop between machines hold of the wire: InfiniBand's."""
PEER_CHUNK_bytes = 512 << 10
"""Of a send or receive over NVLink (init.cc)."""
