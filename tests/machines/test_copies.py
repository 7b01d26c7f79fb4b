"""Copies: data, count, mover and time on each route."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtree.machines.catalogue import NAMES, machine
from ringtree.machines.copies import Mover, copies, from_storage, in_machine, side_by_side, to_machine
from ringtree.machines.machine import DeviceKind, Machine
from ringtree.topology.fabrics import FABRICS


def words(steps):
    return [c.what for c in steps]


@pytest.mark.parametrize(
    ("name", "ends", "fabric", "expected"),
    [
        ("dgx-h100", (0, 5), None, ["GPU to GPU over NVLink"]),
        ("dgx-1-v100", (0, 5), None, ["GPU to GPU over NVLink"] * 2),
        ("v100-pcie", (0, 1), None, ["GPU to GPU over PCIe"]),
        ("v100-pcie", (0, 2), None, ["device to host", "host to device over the CPUs' link"]),
        ("rtx4090-pcie", (0, 1), None, ["device to host", "host to device"]),
        ("dgx-h100", (0, 0), "infiniband", ["device to NIC", "wire", "NIC to device"]),
        ("dgx-h100", (0, 5), "infiniband", ["GPU to GPU over NVLink", "device to NIC", "wire", "NIC to device"]),
        ("v100-pcie", (0, 0), "roce", ["device to host", "host to NIC", "wire", "NIC to host", "host to device"]),
        (
            "dgx-h100",
            (0, 0),
            "tcp",
            [
                "device to host",
                "user to kernel",
                "kernel to NIC",
                "wire",
                "NIC to kernel",
                "kernel to user",
                "host to device",
            ],
        ),
        (
            "gcp-a3-high",
            (0, 0),
            "tcpx",
            [
                "device to NIC",
                "headers by the kernel",
                "wire",
                "headers by the kernel",
                "NIC to device",
                "pages to buffer",
            ],
        ),
    ],
)
def test_every_route_names_its_copies(name, ends, fabric, expected):
    assert words(copies(machine(name), *ends, FABRICS[fabric] if fabric else None)) == expected


def test_where_each_copy_goes():
    found = copies(machine("dgx-h100"), 4, 4, FABRICS["tcp"])
    assert [(c.source, c.target) for c in found[:4]] == [
        ("gpu4", "cpu1"), ("cpu1", "cpu1"), ("cpu1", "nic4"), ("nic4", "node1/nic4")
    ]  # fmt: skip
    assert (found[-1].source, found[-1].target) == ("node1/cpu1", "node1/gpu4")


@pytest.mark.parametrize(
    ("way", "stops", "by_cpu"),
    [
        ("P2P", 0, 0),
        ("by the host's memory", 1, 0),
        ("tcp", 4, 2),
        ("infiniband, GPUDirect RDMA", 0, 0),
        ("infiniband by the hosts' memories", 2, 0),
        ("GPUDirect Storage", 0, 0),
        ("disk by the host's memory", 1, 0),
    ],
)
def test_side_by_side(way, stops, by_cpu):
    """Under RDMA no processor copies, and with GPUDirect nothing is put down on the way."""
    routes = {t.way: t for t in side_by_side(machine("dgx-a100"))}
    assert len(routes) == 7
    assert routes[way].stops == stops
    assert sum(c.by is Mover.CPU for c in routes[way].copies) == by_cpu


def test_direct_routes_save_time():
    routes = {t.way: t for t in side_by_side(machine("dgx-a100"))}
    for nbytes in (8, 1 << 30):
        seconds = {way: t.pipelined_s(nbytes) for way, t in routes.items()}
        assert seconds["infiniband, GPUDirect RDMA"] < seconds["infiniband by the hosts' memories"] < seconds["tcp"]
        assert seconds["P2P"] < seconds["by the host's memory"]


def test_only_the_fabrics_own_route_applies():
    applies = [t.way for t in side_by_side(machine("gcp-a3-high"), 0, 0) if t.verdict.applies]
    assert applies == ["tcpx"]
    why = next(t.verdict.why for t in side_by_side(machine("gcp-a3-high")) if t.way == "tcp")
    assert why == "for comparison: the fabric is tcpx"


def test_between_trays_there_is_nvlink_and_no_host():
    assert [t.way for t in in_machine(machine("gb200-nvl72"), 0, 4)] == ["P2P"]


def test_prices():
    path = to_machine(machine("dgx-h100"), 0, 0, FABRICS["infiniband"])[0]
    slowest = 50e9 * FABRICS["infiniband"].payload
    assert path.bandwidth_Bps == pytest.approx(slowest)
    latency_s = sum(c.latency_s for c in path.copies)
    assert path.pipelined_s(10**9) == pytest.approx(latency_s + 10**9 / slowest)
    assert path.in_turn_s(10**9) == pytest.approx(latency_s + sum(10**9 / c.bandwidth_Bps for c in path.copies))


@pytest.mark.parametrize("name", ["tcp", "infiniband", "tcpx"])
def test_a_fabrics_latency_is_there_once(name):
    fabric = FABRICS[name]
    for way in to_machine(machine("dgx-h100"), 0, 0, fabric):
        on_pcie = sum(c.latency_s for c in way.copies if c.by in (Mover.GPU, Mover.NIC))
        assert sum(c.latency_s for c in way.copies) - on_pcie == pytest.approx(fabric.latency_s)


def test_disks():
    m = machine("dgx-a100")
    near, far = (from_storage(m, m.device(disk), 0) for disk in ("nvme0", "nvme2"))
    assert [t.verdict.applies for t in near] == [True, False]
    assert [t.verdict.applies for t in far] == [False, True]
    assert "take a disk of the GPU's own CPU" in far[0].verdict.why
    sata = replace(m, devices=tuple(replace(d, model=d.model.replace("NVMe", "SATA")) for d in m.devices))
    assert "takes NVMe" in from_storage(sata, m.device("nvme0"), 0)[0].verdict.why


@given(
    st.sampled_from([n for n in NAMES if "superpod" not in n]),
    st.integers(0, 7),
    st.integers(0, 7),
    st.sampled_from(sorted(FABRICS)),
)
def test_all_machines_have_routes_that_take_time(name, a, b, fabric):
    m = machine(name)
    routes = side_by_side(m, a % max(len(m.gpus), 1), b % max(len(m.gpus), 1), FABRICS[fabric])
    assert bool(routes) == bool(m.gpus)
    for way in routes:
        assert 0 < way.pipelined_s(1 << 20) <= way.in_turn_s(1 << 20) < 1
        assert way.copies[-1].target.endswith(tuple(m.devices[g].name for g in m.gpus))
        for before, after in pairwise(way.copies):
            same_place = before.target.removeprefix("node1/") == after.source.removeprefix("node1/")
            assert same_place or "headers" in before.what + after.what


def test_a_machine_without_cpu_nic_or_rate_is_refused():
    m = machine("dgx-h100")
    blind = Machine("blind", tuple(d for d in m.devices if d.kind is DeviceKind.GPU), ())
    with pytest.raises(ValueError, match="blind: gpu0 reaches no CPU"):
        in_machine(blind, 0, 1)
    silent = replace(m, devices=tuple(replace(d, rate_Bps=0.0) for d in m.devices))
    with pytest.raises(ValueError, match="nic0 has no rate; expected one, as --nics"):
        to_machine(silent, 0, 0, FABRICS["tcp"])
    with pytest.raises(ValueError, match="reaches no NIC"):
        to_machine(replace(m, links=()), 0, 0, FABRICS["tcp"])
