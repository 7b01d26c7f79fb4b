"""The channels of NCCL's sends and receives: how many serve a peer, and how many the peers of a GPU share.

Source: NVIDIA/nccl 2.30.7, src/graph/paths.cc (ncclTopoComputeP2pChannels, also of 2.18, 2.20 and 2.28),
src/enqueue.cc (addP2pToPlan) and src/include/channel.h (ncclP2pChannelBaseForRound).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from ringtree.machines.machine import LinkKind
from ringtree.machines.paths import paths_of
from ringtree.nccl.releases import BEFORE_RATE, CHANNELS_BY_NICS, CHANNELS_BY_RATE
from ringtree.nccl.transport.figures import (
    PEER_BATCH,
    FAR_CHANNEL_EXPECTED_GBps,
    FAR_CHANNEL_GBps,
    PEER_CHUNK_bytes,
    PEER_NET_CHUNK_bytes,
)
from ringtree.nccl.tuning.communicator import BLACKWELL, NcclCommunicator

FEW = 2
"""The channels of a peer of another machine in NCCL's early releases, and in RCCL."""
FULL = 4
"""The messages of a channel from which those releases give a peer fewer channels."""
EARLIER = (2, 19), BEFORE_RATE
"""The last releases by each of the earlier rules."""
LONG_bytes = 1 << 40
"""A piece that has as many channels as any."""


@dataclass(frozen=True, slots=True)
class PeerChannels:
    """The channels of one GPU: `each` for a peer, `near` for all peers of its machine together, `far` for those of all
    others."""

    each: int
    near: int
    far: int


def peer_channels(comm: NcclCommunicator, collective: str, piece: float) -> PeerChannels:
    """The channels for pieces of that many bytes. Peers on one other machine share their channels, up to eight at a
    time; peers of a single machine have channels of their own while there are enough."""
    all_channels = up(comm.channels)
    each = _for_a_piece(comm, piece, all_channels)
    if collective == "send_recv":
        return PeerChannels(each, each, each)
    if comm.nodes == 1:
        return PeerChannels(each, min(each * (comm.per_node - 1), all_channels), 0)
    groups = ceil(comm.per_node / PEER_BATCH)
    return PeerChannels(each, min(each * groups, all_channels), min(each * groups * (comm.nodes - 1), all_channels))


def slower_before(comm: NcclCommunicator) -> float:
    """The factor by which an all_to_all of long pieces takes longer with the slowest of the earlier releases."""
    if comm.nodes == 1 or comm.rccl:
        return 1.0
    nics = sum(comm.cluster.machine.devices[n].rate_Bps for n in comm.cluster.machine.nics) / comm.per_node / 1e9
    then = (replace(comm, cluster=replace(comm.cluster, nccl=release)) for release in EARLIER)
    now_GBps, *earlier_GBps = (
        min(peer_channels(c, "all_to_all", LONG_bytes).far * FAR_CHANNEL_GBps, nics) for c in (comm, *then)
    )
    return max(now_GBps / min(earlier_GBps), 1.0)


def _for_a_piece(comm: NcclCommunicator, piece: float, all_channels: int) -> int:
    """A peer's channels: as many as all peers leave it, fewer where its parts would be short, more where long."""
    most = least = _most(comm, all_channels)
    while least * comm.ranks > all_channels and least > 1:
        least //= 2
    chunk = chunk_bytes(comm)
    shortest, longest = (chunk / 2, chunk) if comm.nodes > 1 else (chunk / 8, chunk * 32)
    count = max(1, min(least, ceil(piece / shortest)))
    while piece / count > longest and count <= most // 2:
        count *= 2
    return count


def _most(comm: NcclCommunicator, all_channels: int) -> int:
    """A peer's channels: two for each link to it; over the network one for each NIC, and as many as its rate needs."""
    machine = comm.cluster.machine
    links = [machine.links[n] for n in machine.leaving(machine.gpus[0])]
    kinds = (LinkKind.NVLINK, LinkKind.XGMI)
    wanted = 2 * max((k.width for k in links if k.kind in kinds), default=1)
    if comm.nodes == 1:
        return min(up(wanted), all_channels)
    wanted = up(min(wanted, _over_network(comm, all_channels)))
    if comm.rccl or comm.release < CHANNELS_BY_RATE:
        return min(wanted, all_channels)
    while wanted * ceil(comm.ranks / PEER_BATCH) > all_channels and wanted > 1:
        wanted //= 2
    return wanted


def _over_network(comm: NcclCommunicator, all_channels: int) -> int:
    if comm.rccl or comm.release < CHANNELS_BY_NICS:
        return FEW
    machine = comm.cluster.machine
    near = paths_of(machine).nearest_nics(0)
    if comm.release < CHANNELS_BY_RATE:
        return max(len(near), FEW if FEW * comm.ranks <= FULL * all_channels else 1)
    GBps = sum(machine.devices[machine.nics[n]].rate_Bps for n in near) / 1e9
    return max(len(near), ceil(int(GBps) / FAR_CHANNEL_EXPECTED_GBps), 1)


def chunk_bytes(comm: NcclCommunicator) -> int:
    """A chunk of a send or receive: shorter over the network (init.cc)."""
    if comm.nodes == 1:
        return PEER_CHUNK_bytes
    return PEER_NET_CHUNK_bytes * (2 if comm.cpu == "arm" and comm.sm >= BLACKWELL else 1)


def up(count: int) -> int:
    """Rounds up to a power of two."""
    return 1 << (max(count, 1) - 1).bit_length()
