"""nccl-tests' sendrecv: each rank sends the vector to the next."""

from __future__ import annotations

import pytest

from ringtree.machines.catalogue import machine
from ringtree.machines.clusters import Cluster
from ringtree.nccl.cluster_plan import ClusterPlan
from ringtree.price.bounds import Bounds
from ringtree.topology.fabrics import FABRICS

GiB = 1 << 30


def test_the_bound_is_the_least_flow_from_a_rank_to_the_next() -> None:
    """All NICs of a node may serve the pair that it has apart; within one the links of a GPU."""
    two = Cluster(machine("dgx-h100"), 2, FABRICS["infiniband"])
    bound = Bounds(two).bound("send_recv", GiB)
    assert bound.time_s == pytest.approx(GiB / (8 * 50e9 * FABRICS["infiniband"].payload), rel=1e-3)
    assert Bounds(Cluster(machine("dgx-h100"))).bound("send_recv", GiB).time_s < bound.time_s
    assert Bounds(Cluster(machine("dgx-h100").part([0]))).bound("send_recv", GiB).time_s == 0


def test_few_bytes_take_the_time_of_the_path_to_the_next_rank() -> None:
    one, two, many = (
        Bounds(Cluster(machine("dgx-h100"), nodes, FABRICS["infiniband"])).bound("send_recv", 8) for nodes in (1, 2, 99)
    )
    assert one.bottleneck == two.bottleneck == "latency"
    assert 0 < one.time_s < FABRICS["infiniband"].latency_s < two.time_s == two.latency_s == many.latency_s


def test_send_recv_is_planned_like_a_collective() -> None:
    row = ClusterPlan(Cluster(machine("dgx-h100"), 2, FABRICS["infiniband"])).row("send_recv", GiB)
    algbw, busbw = row.bandwidths_GBps(row.pick)
    assert row.pick.algorithm == "p2p" and algbw == busbw == pytest.approx(40, rel=0.05)
    assert 0 < row.bound_fraction(row.pick) <= 1
