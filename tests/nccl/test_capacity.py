"""On machines nobody built: channels are orders of all GPUs, and take no more of an edge than it holds."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringtree.machines.catalogue import machine
from ringtree.machines.channels import Channels, Pattern
from ringtree.machines.clusters import Cluster
from ringtree.machines.machine import DeviceKind, LinkKind, Machine
from ringtree.nccl.graphs import communicator_channels, graphs
from ringtree.nccl.graphs.patterns import MOST_GPUS, FALLBACK_Bps
from ringtree.nccl.graphs.system import GraphPath, System
from tests.conftest import EXAMPLES
from tests.nccl.by_hand import GIGABIT_Bps, Maker, a100, cluster, cube_mesh, h100


def chance_machine(seed: int) -> Machine:
    """Up to 4 GPUs under CPUs and PCIe switches, some with NVLinks, some with NICs, of speeds and makers at random."""
    rng, m = random.Random(seed), Maker()
    vendor = rng.choice(["intel", "amd", "arm", ""])
    above = [m.add(DeviceKind.CPU, f"cpu{n}", vendor=vendor) for n in range(rng.randint(1, 3))]
    for a, b in pairwise(above):
        m.join(a, b, LinkKind.CPU, 2e10)
    for n in range(rng.randint(0, 3)):
        above.append(m.add(DeviceKind.PCI, f"pci{n}"))
        m.pcie(rng.choice(above[:-1]), above[-1], rng.choice([3, 4, 5]), rng.choice([4, 8, 16]))
    sm, gpus = rng.choice([0, 70, 80, 90, 100]), []
    for n in range(rng.randint(1, 4)):
        gpus.append(m.add(DeviceKind.GPU, f"gpu{n}", sm=sm, gdr=rng.random() < 0.8))
        m.pcie(rng.choice(above), gpus[-1], rng.choice([3, 4, 5]))
    for k, a in enumerate(gpus):
        for b in gpus[k + 1 :]:
            if rng.random() < 0.4:
                m.join(a, b, LinkKind.NVLINK, 25e9, 3, rng.randint(1, 4))
    for n in range(rng.randint(1, 3)):
        nic = m.add(DeviceKind.NIC, f"nic{n}", rate_Bps=rng.choice([1, 25, 100, 400]) * GIGABIT_Bps)
        m.pcie(rng.choice(above), nic, rng.choice([3, 4]), rng.choice([8, 16]))
    return m.machine(f"by chance {seed}")


def crossings(system: System, ring: Channels) -> list[tuple[GraphPath, int]]:
    """What a ring's channels pass, with the MB/s they take of it."""
    intra, inter = round(ring.intra_Bps / 1e6), round(ring.inter_Bps / 1e6)
    taken = []
    for channel, one in enumerate(ring.orders):
        taken += [(system.gpu_path(a, b), intra) for a, b in pairwise(one)]
        if ring.nics:
            enters, leaves = ring.nics[channel]
            taken += [(system.from_net(enters, one[0]), inter), (system.to_net(one[-1], leaves), inter)]
        else:
            taken.append((system.gpu_path(one[-1], one[0]), intra))
    return taken


def check(where: Cluster) -> None:
    found = graphs(where)
    system, gpus = System(where), len(where.machine.gpus)
    assert {Pattern.RING, Pattern.TREE} <= set(found)
    assert communicator_channels(found, where) in range(1, 65)
    for channels in found.values():
        assert all(sorted(one) == list(range(gpus)) for one in channels.orders)
    ring = found[Pattern.RING]
    if ring.intra_Bps > FALLBACK_Bps:
        loads = Counter[int]()
        for way, MBps in crossings(system, ring):
            loads.update(dict.fromkeys(way.edges, MBps))
            assert way.kind <= max(ring.intra, ring.inter)
        assert all(load <= system.edges[edge].capacity_MBps for edge, load in loads.items())


@settings(max_examples=max(EXAMPLES // 3, 8))
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 2]))
def test_rings_through_chance_machines_fit(seed: int, nodes: int) -> None:
    check(cluster(chance_machine(seed), nodes))


@pytest.mark.parametrize("where", [h100(), a100(), cube_mesh(), machine("gh200x4")])
@pytest.mark.parametrize("nodes", [1, 2])
def test_rings_through_real_machines_fit(where: Machine, nodes: int) -> None:
    check(cluster(where, nodes))


def test_gpus_that_nothing_joins_get_the_one_channel_nccl_falls_back_to() -> None:
    m = Maker()
    for n in range(3):
        m.add(DeviceKind.GPU, f"gpu{n}", sm=80)
    ring = graphs(cluster(m.machine("apart")))[Pattern.RING]
    assert (ring.orders, ring.intra_Bps) == (((0, 1, 2),), FALLBACK_Bps)


def test_more_gpus_than_nccl_takes_are_refused_and_as_many_are_searched() -> None:
    m = Maker()
    cpu = m.add(DeviceKind.CPU, "cpu", vendor="amd")
    for n in range(MOST_GPUS + 1):
        m.pcie(cpu, m.add(DeviceKind.GPU, f"gpu{n}", sm=80), 4)
    with pytest.raises(ValueError, match="641 GPUs in a machine; NCCL takes at most 640"):
        graphs(cluster(m.machine("many")))
    some = m.machine("many").part(range(96))
    assert set(graphs(cluster(some))[Pattern.RING].orders) == {tuple(range(96))}
