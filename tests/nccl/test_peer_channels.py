"""The channels of sends and receives, and what follows from them."""

from __future__ import annotations

import pytest

from ringtree.machines.catalogue import machine
from ringtree.machines.clusters import Cluster
from ringtree.nccl import transport
from ringtree.nccl.graphs import graphs as find_graphs
from ringtree.nccl.interval import Intervals
from ringtree.nccl.transport.peer_channels import PeerChannels, peer_channels
from ringtree.nccl.tuning.communicator import NcclCommunicator
from ringtree.topology.fabrics import FABRICS

KiB, MiB, GiB = 1 << 10, 1 << 20, 1 << 30
INFINIBAND = FABRICS["infiniband"]


def communicator(name: str, nodes: int = 1) -> NcclCommunicator:
    cluster = Cluster(machine(name), nodes, INFINIBAND if nodes > 1 else None)
    return NcclCommunicator(cluster, find_graphs(cluster))


@pytest.mark.parametrize(
    ("piece", "each"),
    [(KiB, 1), (128 * KiB, 2), (MiB, 4), (64 * MiB, 4), (128 * MiB, 8), (512 * MiB, 32), (4 * GiB, 32)],
)
def test_a_long_piece_has_more_channels(piece: int, each: int) -> None:
    """A channel's part is 64 KiB at least and, while there are more channels, 16 MiB at most."""
    assert peer_channels(communicator("dgx-b200"), "send_recv", piece).each == each


def test_peers_of_one_other_machine_share_their_channels() -> None:
    assert peer_channels(communicator("dgx-h100", 2), "all_to_all", MiB) == PeerChannels(4, 4, 4)
    assert peer_channels(communicator("dgx-h100", 4), "all_to_all", MiB) == PeerChannels(4, 4, 12)


def test_more_bytes_take_no_longer_while_they_open_channels() -> None:
    """As on eight B200: 64 MiB in 793 us, 512 MiB in 859."""
    comm = communicator("dgx-b200")
    times = [transport.estimates(comm.cluster, comm.graphs, "send_recv", n * MiB)[0].time_s for n in (64, 256, 512)]
    assert times == pytest.approx([times[0]] * 3) and times[0] == pytest.approx(800e-6, rel=0.1)


@pytest.mark.parametrize(("nodes", "times"), [(2, 2.0), (4, 1.0)])
def test_an_all_to_all_may_take_twice_as_long_before_2_29(nodes: int, times: float) -> None:
    """Two channels for the eight peers of each other machine, in place of four; of three others, they fill a NIC."""
    comm = communicator("dgx-h100", nodes)
    found = transport.estimates(comm.cluster, comm.graphs, "all_to_all", GiB)[0]
    parts = {p.key: p for p in Intervals(comm.cluster, comm.graphs).parts(found, "all_to_all", GiB)}
    assert ("release" in parts) == (times > 1)
    if times > 1:
        assert parts["release"].high_s == pytest.approx(times * found.time_s, rel=0.05)
