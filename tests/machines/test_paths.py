"""Paths: NCCL's kinds between devices, and whether P2P and GPUDirect RDMA apply."""

from dataclasses import replace
from itertools import combinations, pairwise
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtree.machines.building import MachineBuilder
from ringtree.machines.catalogue import machine
from ringtree.machines.machine import Device, DeviceKind, LinkKind, PathKind
from ringtree.machines.paths import NOWHERE, Paths, gdr, p2p
from ringtree.topology.fabrics import FABRICS
from tests.effort import counted


def kinds(name):
    """Between each two GPUs, as `nvidia-smi topo -m` has them."""
    paths = Paths(machine(name))
    gpus = range(len(paths.machine.gpus))
    return [" ".join(paths.gpus(a, b).kind.name for b in gpus) for a in gpus]


def server(*trees, joined=True, **device):
    """CPUs, below each what hangs there: g a GPU, n a NIC, brackets a switch."""
    b = MachineBuilder()
    for k, tree in enumerate(trees):
        above = [b.add(Device(f"cpu{k}", DeviceKind.CPU))]
        for n, sign in enumerate(tree.replace(" ", "")):
            if sign == "]":
                above.pop()
                continue
            kind = {"[": DeviceKind.PCI, "g": DeviceKind.GPU, "n": DeviceKind.NIC}[sign]
            name = b.add(Device(f"{kind.value}{k}.{n}", kind, **(device if sign == "g" else {})))
            b.pcie(above[-1], name, 4)
            if sign == "[":
                above.append(name)
    if joined:
        for k in range(1, len(trees)):
            b.link("cpu0", f"cpu{k}", LinkKind.CPU, 20e9)
    return b.machine("server")


def test_dgx_1():
    assert kinds("dgx-1-v100") == [
        "LOC NVL NVL NVL NVL NVB NVB NVB",
        "NVL LOC NVL NVL NVB NVL NVB NVB",
        "NVL NVL LOC NVL NVB NVB NVL NVB",
        "NVL NVL NVL LOC NVB NVB NVB NVL",
        "NVL NVB NVB NVB LOC NVL NVL NVL",
        "NVB NVL NVB NVB NVL LOC NVL NVL",
        "NVB NVB NVL NVB NVL NVL LOC NVL",
        "NVB NVB NVB NVL NVL NVL NVL LOC",
    ]


@pytest.mark.parametrize(
    ("trees", "expected"),
    [
        (["[gg]"], "PIX"),
        (["[[g][g]]"], "PXB"),
        (["gg"], "PHB"),
        (["[g][g]"], "PHB"),
        (["g", "g"], "SYS"),
        (["[[g]]", "g"], "SYS"),
    ],
)
def test_kinds_on_pcie(trees, expected):
    assert Paths(server(*trees)).gpus(0, 1).kind.name == expected


def test_cpus_without_a_link_are_apart():
    assert Paths(server("g", "g", joined=False)).gpus(0, 1) == NOWHERE


@pytest.mark.parametrize(
    ("name", "gpu", "nic", "expected", "sent"),
    [
        ("dgx-h100", 0, 0, "PIX", "PIX"),
        ("dgx-h100", 0, 1, "PHB", "PXN"),
        ("dgx-h100", 0, 7, "SYS", "PXN"),
        ("dgx-2", 0, 1, "PXB", "PXB"),
        ("dgx-1-v100", 0, 1, "PHB", "PXN"),
        ("dgx-1-v100", 1, 3, "SYS", "SYS"),  # the GPUs of that NIC are no NVLink away
        ("gh200x4", 0, 0, "P2C", "P2C"),
        ("v100-pcie", 0, 1, "SYS", "SYS"),
    ],
)
def test_kinds_to_nics(name, gpu, nic, expected, sent):
    paths = Paths(machine(name))
    assert paths.between(paths.machine.gpus[gpu], paths.machine.nics[nic]).kind.name == expected
    assert paths.to_nic(gpu, nic).kind.name == sent


def test_nobody_hands_on_to_a_nic_that_does_not_reach_its_memory():
    paths = Paths(machine("dgx-h100"))
    assert paths.to_nic(0, 1, FABRICS["tcp"]).kind is PathKind.PHB


def test_two_gpus_over_their_cpus_are_c2c_and_networks_net():
    b = MachineBuilder()
    for name, kind in (("cpu0", "cpu"), ("gpu0", "gpu"), ("gpu1", "gpu"), ("nic0", "nic"), ("net", "switch")):
        b.add(Device(name, DeviceKind(kind)))
    for gpu in ("gpu0", "gpu1"):
        b.link(gpu, "cpu0", LinkKind.C2C, 450e9)
    b.pcie("cpu0", "nic0", 5)
    b.link("nic0", "net", LinkKind.INFINIBAND, 50e9)
    paths = Paths(b.machine("two"))
    assert paths.gpus(0, 1).kind is PathKind.C2C
    assert paths.between(paths.machine.gpus[0], paths.machine.device("net")).kind is PathKind.NET


def test_the_nearer_kind_is_taken_then_the_wider_then_the_shorter():
    b = MachineBuilder()
    for name, kind in (("g0", "gpu"), ("g1", "gpu"), ("p0", "pci"), ("a", "nvswitch"), ("b", "nvswitch"), ("c", "pci")):
        b.add(Device(name, DeviceKind(kind)))
    for switch, bandwidth_Bps in (("a", 100e9), ("b", 200e9)):
        b.link("g0", switch, LinkKind.NVLINK, bandwidth_Bps)
        b.link("g1", switch, LinkKind.NVLINK, bandwidth_Bps)
    for switch in ("p0", "c"):
        b.link("g0", switch, LinkKind.PCIE, 900e9)
        b.link("g1", switch, LinkKind.PCIE, 900e9)
    paths = Paths(b.machine("choice"))
    path = paths.gpus(0, 1)
    assert (path.kind, path.bandwidth_Bps) == (PathKind.NVL, 200e9)
    below = paths.between(paths.machine.device("p0"), paths.machine.device("c"))
    assert below == NOWHERE  # only by a GPU


@pytest.mark.parametrize("kind", [DeviceKind.NIC, DeviceKind.STORAGE, DeviceKind.GPU])
def test_no_path_goes_through_a_card_that_two_switches_share(kind):
    b = MachineBuilder()
    for name, its in (("p0", DeviceKind.PCI), ("p1", DeviceKind.PCI), ("card", kind)):
        b.add(Device(name, its))
    b.pcie("p0", "card", 4)
    b.pcie("p1", "card", 4)
    assert Paths(b.machine("shared")).between(0, 1) == NOWHERE


def test_nearest_nics():
    assert Paths(machine("dgx-a100")).nearest_nics(2) == (2, 3)
    assert Paths(machine("aws-p5")).nearest_nics(1) == (4, 5, 6, 7)
    slow = server("[gn]", "n")
    by_rate = {"nic0.2": 12.5e9, "nic1.0": 25e9}
    rated = replace(slow, devices=tuple(replace(d, rate_Bps=by_rate.get(d.name, 0.0)) for d in slow.devices))
    assert Paths(rated).nearest_nics(0) == (1,)  # the other is nearer, and slower than the CPUs' link
    assert Paths(server("g", "n", joined=False)).nearest_nics(0) == ()


TREE = st.recursive(
    st.sampled_from("gn"), lambda t: st.lists(t, min_size=1, max_size=4).map(lambda k: f"[{''.join(k)}]"), max_leaves=6
)


@given(st.lists(st.lists(TREE, max_size=2).map("".join), min_size=1, max_size=3))
def test_paths_of_any_tree(trees):
    m = server(*trees)
    paths, devices = Paths(m), range(len(m.devices))
    for a in devices:
        for b in devices:
            path = paths.between(a, b)
            back = paths.between(b, a)
            assert (path.kind, path.bandwidth_Bps) == (back.kind, back.bandwidth_Bps)
            assert path.bandwidth_Bps == min((m.links[k].bandwidth_Bps for k in path.links), default=inf)
            at = [a, *(m.links[k].target for k in path.links)]
            assert at[-1] == b
            assert not any(m.devices[d].kind in (DeviceKind.GPU, DeviceKind.NIC) for d in at[1:-1])
            for k in range(1, len(at) - 1):  # a part of a path is no farther, and no narrower
                part = paths.between(a, at[k])
                assert part.kind <= path.kind
                assert part.bandwidth_Bps >= path.bandwidth_Bps


@given(st.sampled_from(["dgx-1-p100", "dgx-1-v100", "mi250x8", "azure-nc96"]), st.data())
def test_one_gpu_forwards_on_nvb_paths(name, data):
    m = machine(name)
    paths, gpus = Paths(m), st.integers(0, len(m.gpus) - 1)
    path = paths.gpus(data.draw(gpus), data.draw(gpus))
    inside = [m.devices[m.links[k].target].kind for k in path.links[:-1]]
    assert inside.count(DeviceKind.GPU) == (path.kind is PathKind.NVB)
    if path.kind is PathKind.NVB:
        assert len(inside) == 1


@pytest.mark.slow
def test_200_gpus_that_are_all_joined():
    b = MachineBuilder()
    names = [b.add(Device(f"g{n}", DeviceKind.GPU)) for n in range(200)]
    for one, other in combinations(names, 2):
        b.nvlink(one, other, 4, 1)
    paths = Paths(b.machine("mesh"))
    with counted() as effort:
        assert {paths.gpus(a, b).kind for a in range(200) for b in range(200) if a != b} == {PathKind.NVL}
    assert effort.calls < 50 * 200**2


def test_10000_devices_and_a_chain_of_them():
    b = MachineBuilder()
    names = [b.add(Device(f"p{n}", DeviceKind.PCI)) for n in range(10_000)]
    for up, down in pairwise(names):
        b.pcie(up, down, 3)
    machine = b.machine("chain")
    with counted() as effort:
        path = Paths(machine).between(0, 9_999)
    assert (path.kind, len(path.links)) == (PathKind.PXB, 9_999)
    assert effort.calls < 100 * 10_000


@pytest.mark.parametrize(
    ("name", "a", "b", "applies", "why"),
    [
        ("dgx-h100", 0, 7, True, "NVL between gpu0 and gpu7 is within PXB"),
        ("v100-pcie", 0, 1, True, "PIX between"),
        ("v100-pcie", 0, 2, False, "SYS between gpu0 and gpu2 is farther than PXB, NCCL_P2P_LEVEL: NCCL_P2P_LEVEL=SYS"),
        ("rtx4090-pcie", 0, 1, False, "gpu0 (RTX 4090) has no P2P over PCIe"),
        ("a100-pcie-nvlink-pairs", 0, 1, True, "NVL between"),
    ],
)
def test_p2p(name, a, b, applies, why):
    verdict = p2p(Paths(machine(name)), a, b)
    assert verdict.applies == applies
    assert why in verdict.why


def test_p2p_by_the_level_and_the_cpus():
    paths = Paths(machine("v100-pcie"))
    assert p2p(paths, 0, 2, PathKind.SYS).applies
    assert not p2p(paths, 0, 1, PathKind.NVL).applies
    two = server("g", "g")
    amd = replace(two, devices=tuple(replace(d, vendor="AuthenticAMD" if "cpu" in d.name else "") for d in two.devices))
    assert not p2p(Paths(two), 0, 1).applies
    assert p2p(Paths(amd), 0, 1).applies
    assert "no path" in p2p(Paths(server("g", "g", joined=False)), 0, 1).why


@pytest.mark.parametrize("model", ["NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 3090 Ti", "RTX 5080"])
def test_a_consumers_gpu_by_its_name(model):
    assert "no P2P over PCIe" in p2p(Paths(server("[gg]", model=model)), 0, 1).why


@pytest.mark.parametrize("model", ["NVIDIA RTX A6000", "NVIDIA RTX 6000 Ada Generation", "Tesla V100-PCIE-16GB", ""])
def test_others_have_p2p(model):
    assert p2p(Paths(server("[gg]", model=model)), 0, 1).applies


@pytest.mark.parametrize(
    ("trees", "device", "arguments", "applies", "why"),
    [
        (["[gn]"], {"sm": 80}, {}, True, "PIX between gpu0.1 and nic0.2 is within P2C"),
        (["gn"], {"sm": 80}, {}, False, "farther than P2C, NCCL_NET_GDR_LEVEL: NCCL_NET_GDR_LEVEL=PHB allows it"),
        (["gn"], {"sm": 80}, {"level": PathKind.PHB}, True, "within PHB"),
        (["[gn]"], {"sm": 80}, {"fabric": FABRICS["tcp"]}, False, "tcp has the kernel copy"),
        (["[gn]"], {"sm": 80}, {"fabric": FABRICS["tcpx"]}, True, "PIX"),
        (["[gn]"], {"gdr": False}, {}, False, "nvidia-peermem"),
        (["[gn]"], {"gdr": False, "model": "GeForce RTX 4090"}, {}, False, "a data centre's GPU has it"),
        (["[gng]"], {"sm": 70}, {}, False, "NCCL_NET_GDR_READ=1 allows it"),
        (["[gng]"], {"sm": 70}, {"sends": False}, True, "PIX"),
        (["[gn]"], {"sm": 70}, {}, True, "PIX"),  # alone, there is no other traffic
        (["[gng]"], {"sm": 0, "vendor": "amd"}, {}, True, "PIX"),
        (["g", "n"], {"sm": 80}, {}, False, "SYS"),
    ],
)
def test_gdr(trees, device, arguments, applies, why):
    verdict = gdr(Paths(server(*trees, **device)), 0, 0, **arguments)
    assert verdict.applies == applies
    assert why in verdict.why


def test_gdr_of_a_nic_that_cannot_and_of_none():
    one = server("[gn]")
    plain = replace(one, devices=tuple(replace(d, gdr=d.kind is not DeviceKind.NIC) for d in one.devices))
    assert "nic0.2 cannot register" in gdr(Paths(plain), 0, 0).why
    assert "no path" in gdr(Paths(server("g", "n", joined=False)), 0, 0).why
    assert gdr(Paths(machine("dgx-1-v100")), 0, 0).applies  # sm70, and NVLinks


def test_through_the_cpu():
    paths = Paths(server("[ggn]"))
    a, b = paths.machine.gpus
    path = paths.through_cpu(a, b)
    assert [paths.machine.devices[paths.machine.links[k].target].name for k in path.links] == [
        "pci0.0", "cpu0", "pci0.0", "gpu0.2"
    ]  # fmt: skip
    assert path.kind is PathKind.PHB
