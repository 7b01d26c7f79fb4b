"""Machines as faults change them, and what the model makes of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ringtree.machines.catalogue import machine
from ringtree.machines.clusters import Cluster
from ringtree.machines.link_figures import data_Bps
from ringtree.machines.machine import DeviceKind, PathKind
from ringtree.machines.paths import Paths
from ringtree.nccl.cluster_plan import ClusterPlan
from ringtree.nccl.explain import Diagnosis, explain
from ringtree.nccl.faults import Fault, faults
from ringtree.nccl.faults.changes import changed, through_memory, up_and_down, uplink, with_attribute
from ringtree.topology.fabrics import FABRICS
from tests.nccl.test_explain import cluster_of, fault_of, heard, measured

GiB = 1 << 30


def of(cluster: Cluster, key: str) -> list[Fault]:
    return [f for f in faults(cluster) if f.key == key]


def test_a_nic_sends_its_data_up_and_down_its_switchs_link() -> None:
    """A DGX H100 has a NIC and a GPU below each switch: the NIC has half of the link to the CPU."""
    h100 = machine("dgx-h100")
    up = uplink(h100, h100.nics[0])
    assert up is not None
    most = data_Bps(h100.links[up]) / 2
    assert most < h100.devices[h100.nics[0]].rate_Bps
    assert {up_and_down(h100).devices[n].rate_Bps for n in h100.nics} == {most}


def test_a_device_without_a_switch_meets_others_at_the_cpu_anyway() -> None:
    gh200 = machine("gh200x4")
    assert uplink(gh200, gh200.gpus[0]) is None
    assert [up_and_down(gh200).devices[n].rate_Bps for n in gh200.nics] == [25e9] * 4


def test_the_hosts_memory_carries_every_byte_four_times() -> None:
    """Two CPUs of eight channels of DDR5-4800 at 80 % for eight NICs of 50 GB/s."""
    h100 = machine("dgx-h100")
    rates = [through_memory(h100).devices[n].rate_Bps for n in h100.nics]
    assert rates == pytest.approx([2 * 8 * 38.4e9 * 0.8 / 4 / 8] * 8)


def test_without_pxn_a_gpu_goes_to_a_far_nic_by_itself() -> None:
    h100 = machine("dgx-h100")
    without = changed(h100, DeviceKind.NIC, lambda nic: with_attribute(nic, "pxn"))
    assert Paths(h100).to_nic(0, 7).kind is PathKind.PXN
    assert Paths(without).to_nic(0, 7).kind > PathKind.PXN


@pytest.mark.parametrize(
    ("name", "nodes", "key"),
    [("dgx-a100", 2, "nic_half"), ("dgx-a100", 2, "gdr_off"), ("dgx-a100", 2, "rails"), ("v100-pcie", 1, "acs")],
)
def test_a_fault_costs_time(name: str, nodes: int, key: str) -> None:
    cluster = Cluster(machine(name).part(range(4)), nodes, FABRICS["infiniband"] if nodes > 1 else None)
    healthy = ClusterPlan(cluster).row("all_gather", GiB).pick.time_s
    found = of(cluster, key)
    assert found
    for fault in found[:1]:
        assert ClusterPlan(fault.cluster).row("all_gather", GiB).pick.time_s > 1.1 * healthy


def test_faults_are_those_that_a_cluster_can_have() -> None:
    a100 = Cluster(machine("dgx-a100"))
    keys = {f.key for f in faults(a100)}
    assert keys == {"p2p_off", "nvlink_unused", "pcie_half", "protocol"}
    assert "nvls_off" in {f.key for f in faults(Cluster(machine("dgx-h100")))}
    two = replace(a100, nodes=2, fabric=FABRICS["infiniband"], sharp=True)
    assert {f.key for f in faults(two)} - keys == {
        *("sockets", "gdr_off", "rails", "nic_half", "acs", "cpu_link", "pxn_off", "sharp_off", "few_channels")
    }
    assert {f.cluster.sharp for f in of(two, "sockets")} == {False}
    assert "few_channels" not in {f.key for f in faults(replace(two, nccl=(2, 28)))}
    assert [f.what for f in of(two, "rails")][-1] == "7 of 8 NICs are used"


@pytest.mark.parametrize(
    ("line", "key", "variant"),
    [
        ("Using network Socket", "sockets", 0),
        ("Channel 00/0 : 0[0] -> 8[0] [send] via NET/Socket/0", "sockets", 0),
        ("Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0", "gdr_off", 0),
        ("NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>", "rails", 0),
        ("NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>", "rails", 1),
    ],
)
def test_a_line_of_nccls_is_evidence_for_its_fault_alone(line: str, key: str, variant: int) -> None:
    cluster = cluster_of("dgx-a100", 2, range(4))
    shown = [fault for fault in faults(cluster) if fault.evidence_for(heard(line))]
    assert {fault.key for fault in shown} == {key} and fault_of(cluster, key, variant).what in {f.what for f in shown}


P2P_OFF = "NCCL_P2P_DISABLE set by environment to 1."
SHM, P2P = (f"Channel 00/0 : 0[0] -> 1[1] via {way}" for way in ("SHM/direct/direct", "P2P/CUMEM"))


@pytest.mark.parametrize(("name", "nodes", "lines", "shown"), [
    ("dgx-a100", 1, [P2P_OFF], ["P2P is off: .* (NCCL_P2P_DISABLE=1 was set)"]),
    ("dgx-a100", 1, [P2P, SHM, P2P_OFF], ["P2P is off: .* (NCCL_P2P_DISABLE=1 was set)"]),
    ("dgx-a100", 1, [SHM, SHM], [f"P2P is off: .* (line 1, the first of 2 alike: {SHM})"]),
    ("dgx-a100", 2, ["Using network Socket", P2P_OFF],
     ["sockets instead of infiniband: .* (line 1: Using network Socket)",
      "P2P is off: .* (NCCL_P2P_DISABLE=1 was set)"]),
    ("dgx-a100", 1, [P2P, SHM], []),
    ("dgx-a100", 1, [P2P, "Connected all rings"], []),
    ("dgx-a100", 1, ["NCCL_PROTO set by environment to LL128"], []),
    ("dgx-h100", 1, ["NVLS multicast support is not available on dev 0"], []),
])  # fmt: skip
def test_a_fault_that_nccls_lines_show_is_noted_where_the_figures_are_fine(
    name: str, nodes: int, lines: list[str], shown: list[str]
) -> None:
    cluster = cluster_of(name, nodes, range(4) if nodes > 1 else None)
    found = explain(measured(cluster, heard(*lines), sizes=(8, 1 << 24, 1 << 28)), cluster)
    assert found.verdict is Diagnosis.HEALTHY
    notes = [note for note in found.remarks if "the figures do not" in note]
    assert len(notes) == len(shown)
    for note, words in zip(notes, shown, strict=True):
        start, end = words.split(".*")
        assert note.startswith(f"NCCL's lines show a fault that the figures do not: {start}") and note.endswith(end)


def test_a_fault_that_is_the_cause_has_no_note_beside_it() -> None:
    cluster = cluster_of("dgx-a100", 1)
    slow = measured(fault_of(cluster, "p2p_off").cluster, heard(P2P_OFF), sizes=(8, 1 << 24, 1 << 28))
    found = explain(slow, cluster)
    assert (found.verdict, [s.fault.key for s in found.suspects]) == (Diagnosis.CAUSE, ["p2p_off"])
    assert not any("the figures do not" in note for note in found.remarks)
