"""A machine from what Linux reports of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ringtree.machines.detect import detect
from ringtree.machines.files import machine_json, nccl_xml
from ringtree.machines.machine import DeviceKind, LinkKind, Machine, NoteKind, PathKind
from ringtree.machines.paths import Paths
from tests.effort import counted
from tests.machines.sysfs_trees import CX7, H100, NVME, PORT, SysTree, gpu_server, virtual_machine


def link(machine: Machine, a: str, b: str) -> tuple[LinkKind, int, int]:
    """(kind, generation, width) of the link from one to the other."""
    at = machine.device(a)
    found = [machine.links[n] for n in machine.leaving(at) if machine.links[n].target == machine.device(b)]
    assert len(found) == 1, f"{a} to {b}: {found}"
    return found[0].kind, found[0].generation, found[0].width


def notes(machine: Machine, kind: NoteKind) -> dict[str, str]:
    return {note.about: note.text for note in machine.notes if note.kind is kind}


def test_a_gpu_server(tmp_path: Path) -> None:
    gpu_server(tmp_path)
    m = detect(tmp_path)
    assert [len(m.of_kind(kind)) for kind in DeviceKind] == [8, 2, 4, 1, 4, 1, 0]
    assert [m.devices[g].busid for g in m.gpus[:3]] == ["0000:13:00.0", "0000:14:00.0", "0000:23:00.0"]
    assert {(m.devices[g].model, m.devices[g].sm) for g in m.gpus} == {("H100 SXM5", 90)}
    assert [m.devices[g].numa for g in m.gpus] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert [m.devices[n].name for n in m.nics] == ["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"]
    nic = m.devices[m.nics[0]]
    assert nic.rate_Bps == 50e9 and nic.gdr and nic.attributes["fabric"] == "infiniband"
    assert nic.attributes["guid"] == "0xb8cef60300aa0001"
    assert link(m, "gpu0", "pci0") == (LinkKind.PCIE, 5, 16) and link(m, "pci0", "cpu0") == (LinkKind.PCIE, 5, 16)
    assert link(m, "nvme0", "cpu1") == (LinkKind.PCIE, 4, 4)
    assert link(m, "gpu3", "nvswitch") == (LinkKind.NVLINK, 4, 18)
    assert m.devices[m.device("nvswitch")].attributes["chips"] == "4"
    assert link(m, "cpu0", "cpu1")[0] is LinkKind.CPU


def test_its_paths_are_those_of_the_hardware(tmp_path: Path) -> None:
    gpu_server(tmp_path)
    paths = Paths(detect(tmp_path))
    assert paths.gpus(0, 7).kind is PathKind.NVL
    to = [paths.between(paths.machine.gpus[0], n).kind for n in paths.machine.nics]
    assert to == [PathKind.PIX, PathKind.PHB, PathKind.SYS, PathKind.SYS]


def test_links_below_their_maximum_are_traps(tmp_path: Path) -> None:
    """Half the lanes count as they are; a GPU that idles at a lower speed is taken at what it does under load."""
    gpu_server(tmp_path)
    m = detect(tmp_path)
    traps = notes(m, NoteKind.TRAP)
    assert traps["pci2"] == "its PCIe link runs at 32 GT/s x8 of at most 32 GT/s x16"
    assert "8 GT/s x16 of at most 32 GT/s x16; a GPU that is idle slows its link down" in traps["gpu7"]
    assert set(traps) == {"pci2", "gpu7"}
    assert link(m, "pci2", "cpu1") == (LinkKind.PCIE, 5, 8) and link(m, "gpu7", "pci3") == (LinkKind.PCIE, 5, 16)


def test_the_slot_is_named_that_is_narrower_than_the_card(tmp_path: Path) -> None:
    tree = SysTree(tmp_path)
    tree.pci("00/0000:00:01.0", PORT, (4, 8))
    tree.net(tree.pci("00/0000:00:01.0/0000:01:00.0", CX7, (4, 8), (5, 16)), "eth0", speed=100000)
    m = detect(tmp_path)
    text = "its PCIe link runs at 16 GT/s x8 of at most 32 GT/s x16"
    port = "the port over it, 0000:00:01.0, has at most 16 GT/s x8"
    assert notes(m, NoteKind.TRAP) == {"eth0": f"{text}; {port}"}
    nic = m.devices[m.nics[0]]
    assert (nic.rate_Bps, nic.gdr, nic.attributes["fabric"]) == (12.5e9, False, "tcp")


def test_caches_and_memory_of_a_numa_node(tmp_path: Path) -> None:
    gpu_server(tmp_path)
    m = detect(tmp_path)
    cpu = m.devices[m.device("cpu1")]
    assert cpu.attributes["caches"] == "4 × L2 2 MiB; L3 32 MiB, of 4 CPUs"
    assert cpu.attributes["memory_bytes"] == str(1 << 30) and cpu.attributes["affinity"] == "000000f0"
    assert (cpu.vendor, cpu.attributes["familyid"], cpu.attributes["modelid"]) == ("GenuineIntel", "6", "143")


def test_a_virtual_machine_without_numa(tmp_path: Path) -> None:
    virtual_machine(tmp_path)
    m = detect(tmp_path)
    assert len(m.gpus) == 8 and len(m.nics) == 1
    assert "one NUMA node for 8 GPUs" in notes(m, NoteKind.TRAP)["NUMA"]
    assumed = notes(m, NoteKind.ASSUMED)
    assert "no link speed" in assumed["gpu0"] and "NVSwitches" in assumed["NVLink"]
    assert "taken as 10 Gb/s" in " ".join(n.text for n in m.notes if n.about == "eth0")
    assert link(m, "gpu0", "cpu0") == (LinkKind.PCIE, 5, 16)  # what an H100 has
    assert link(m, "eth0", "cpu0") == (LinkKind.PCIE, 3, 16)  # what NCCL would take it for


def test_a_gpu_far_from_any_numa_node_is_a_trap(tmp_path: Path) -> None:
    tree = SysTree(tmp_path)
    tree.cpu()
    for socket in range(2):
        tree.node(socket, range(socket, socket + 1), socket, "10 21")
    tree.pci("00/0000:00:01.0", H100)
    assert "near cpu0, which may be the wrong one" in notes(detect(tmp_path), NoteKind.TRAP)["gpu0"]


@pytest.mark.parametrize("others", [1, 2])
def test_a_gpu_at_a_node_without_cpus_is_a_trap(tmp_path: Path, others: int) -> None:
    tree = SysTree(tmp_path)
    for node in range(others):
        tree.node(node, range(4 * node, 4 * node + 4), node, "10 21")
    tree.write(f"sys/devices/system/node/node{others}/cpulist", "")
    tree.pci("80/0000:80:01.0", PORT, numa=others)
    tree.pci("80/0000:80:01.0/0000:81:00.0", H100, numa=others)
    text = notes(detect(tmp_path), NoteKind.TRAP)["gpu0"]
    expected = f"sysfs reports NUMA node {others}, which has no CPUs: taken to be near cpu0, which may be the wrong one"
    assert text == expected


def test_amd_gpus_and_their_xgmi_links(tmp_path: Path) -> None:
    tree = SysTree(tmp_path)
    tree.cpu("AuthenticAMD", 25, 17)
    tree.node(0, range(2), 0, "10")
    for k in range(2):
        tree.pci(f"00/0000:00:0{k + 1}.0/0000:0{k + 1}:00.0", (0x120000, 0x1002, 0x74A1))
        place = {"simd_count": 1216, "location_id": (k + 1) << 8, "domain": 0, "gfx_target_version": 90402}
        tree.kfd(k + 1, place, {2 - k: 64000})
    tree.kfd(0, {"simd_count": 0, "cpu_cores_count": 2}, {})
    m = detect(tmp_path)
    assert [m.devices[g].model for g in m.gpus] == ["MI300X", "MI300X"]
    assert link(m, "gpu0", "gpu1") == (LinkKind.XGMI, 4, 1)


def test_a_container_that_shows_almost_nothing(tmp_path: Path) -> None:
    m = detect(tmp_path)
    assert [d.kind for d in m.devices] == [DeviceKind.CPU] and not m.links
    assumed = notes(m, NoteKind.ASSUMED)
    assert "no PCI device" in assumed["PCI"] and "not GPUs" in assumed["GPUs"]


BROKEN = [
    "",
    "-1",
    "0x",
    "0xzzzz",
    "255",
    "63",
    "Unknown",
    "99999999999999999999",
    "NaN",
    "1e9",
    "\x00\xff",
    "8.0 GT/s\n\n8",
]


@pytest.mark.parametrize("content", BROKEN)
def test_values_that_make_no_sense_are_no_error(tmp_path: Path, content: str) -> None:
    """Any one file may hold anything."""
    gpu_server(tmp_path)
    files = sorted(p for p in tmp_path.rglob("*") if p.is_file() and not p.is_symlink())
    for file in files[BROKEN.index(content) :: len(files) // 3]:
        before = file.read_text()
        file.write_text(content, encoding="utf-8", errors="replace")
        assert detect(tmp_path).devices
        file.write_text(before)
    for file in files:
        file.write_bytes(content.encode(errors="replace"))
    assert detect(tmp_path).devices


def test_links_that_lead_nowhere_out_or_round_are_no_error(tmp_path: Path) -> None:
    gpu_server(tmp_path)
    devices = tmp_path / "sys/bus/pci/devices"
    (devices / "0000:fe:00.0").symlink_to("0000:fe:00.0")
    (devices / "0000:fd:00.0").symlink_to("nowhere")
    (devices / "0000:fc:00.0").symlink_to("/etc")
    (tmp_path / "sys/class/net/loop").symlink_to("loop")
    assert len(detect(tmp_path).gpus) == 8


def test_parts_of_a_card_are_not_cards(tmp_path: Path) -> None:
    """A virtual function shares the port of its card."""
    tree = gpu_server(tmp_path)
    tree.link("sys/devices/pci0000:10/0000:10:09.0/physfn", "sys/devices/pci0000:10/0000:10:01.0")
    tree.rdma(tree.pci("10/0000:10:09.0", CX7), "mlx5_9", "400 Gb/sec (4X NDR)", "InfiniBand")
    assert len(detect(tmp_path).nics) == 4


def test_functions_of_one_card_are_one_nic(tmp_path: Path) -> None:
    tree = SysTree(tmp_path)
    for function in (0, 1):
        path = tree.pci(f"00/0000:00:01.{function}", CX7)
        tree.rdma(path, f"mlx5_{function}", "200 Gb/sec (2X NDR)", "InfiniBand")
        tree.net(path, f"ib{function}", speed=200_000)
    m = detect(tmp_path)
    [nic] = [m.devices[n] for n in m.nics]
    assert (nic.name, nic.rate_Bps, nic.attributes["ports"]) == ("mlx5_0", 50e9, "2")


def test_a_bond_has_its_cards_other_function(tmp_path: Path) -> None:
    """The bond's RDMA device is on the first function alone. Interfaces without RDMA are NICs of their own."""
    tree = SysTree(tmp_path)
    for slot in (1, 2):
        for function in (0, 1):
            path = tree.pci(f"00/0000:00:0{slot}.{function}", CX7)
            tree.net(path, f"ens{slot}f{function}", speed=200_000)
            if (slot, function) == (1, 0):
                tree.rdma(path, "mlx5_bond_0", "400 Gb/sec (4X NDR)", "Ethernet")
    m = detect(tmp_path)
    assert sorted(m.devices[n].name for n in m.nics) == ["ens2f0", "ens2f1", "mlx5_bond_0"]


def test_ports_of_one_card_are_together(tmp_path: Path) -> None:
    tree = SysTree(tmp_path)
    tree.rdma(tree.pci("00/0000:00:01.0", CX7), "mlx5_0", "200 Gb/sec (2X NDR)", "Ethernet", ports=2, state="1: DOWN")
    m = detect(tmp_path)
    nic = m.devices[m.nics[0]]
    assert (len(m.nics), nic.name, nic.rate_Bps, nic.attributes["fabric"]) == (1, "mlx5_0", 50e9, "roce")
    assert notes(m, NoteKind.TRAP)["mlx5_0"] == "the link of mlx5_0:1, mlx5_0:2 is down"


@pytest.mark.parametrize(
    ("ids", "layer", "fabric"),
    [
        ((0x020000, 0x1D0F, 0xEFA1), "Unspecified", "efa"),
        ((0x020000, 0x17DB, 0x0501), "Ethernet", "slingshot"),
        ((0x020700, 0x15B3, 0x1021), "InfiniBand", "infiniband"),
        ((0x020000, 0x15B3, 0x1021), "Ethernet", "roce"),
        ((0x020000, 0x1AE0, 0x0042), "Ethernet", "roce"),
    ],
)
def test_rdma_is_the_makers_fabric_or_the_ports(
    tmp_path: Path, ids: tuple[int, int, int], layer: str, fabric: str
) -> None:
    tree = SysTree(tmp_path)
    tree.rdma(tree.pci("00/0000:00:01.0", ids), "rdma0", "100 Gb/sec (4X EDR)", layer)
    m = detect(tmp_path)
    assert m.devices[m.nics[0]].attributes["fabric"] == fabric


def test_this_machine_is_read_in_few_calls() -> None:
    with counted() as effort:
        devices = detect().devices
    assert devices and effort.calls < 1_000_000  # some thousand where there are few devices


def test_a_superchip_has_a_c2c_link_to_its_grace(tmp_path: Path) -> None:
    tree = SysTree(tmp_path)
    tree.write("proc/cpuinfo", "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f")
    for node in range(2):
        tree.node(node, range(node, node + 1), node, "10 40")
        tree.pci(f"{node:02x}/0000:{node:02x}:00.0/0000:{node:02x}:01.0", (0x030200, 0x10DE, 0x2342), numa=node)
    m = detect(tmp_path)
    grace = m.devices[m.device("cpu1")]
    assert (grace.vendor, grace.model, grace.attributes["arch"]) == ("NVIDIA", "Grace", "arm64")
    kinds = {m.links[n].kind for n in m.leaving(m.device("gpu1")) if m.links[n].target == m.device("cpu1")}
    assert kinds == {LinkKind.C2C, LinkKind.PCIE}


def test_names_that_are_taken_and_names_nobody_can_print(tmp_path: Path) -> None:
    """An interface may have any name."""
    tree = SysTree(tmp_path)
    tree.net(tree.pci("00/0000:00:01.0", CX7), "cpu0", speed=25000)
    tree.nvme(tree.pci("00/0000:00:02.0", NVME), "nvme0", "evil\x1b[2Jdisk")
    (tmp_path / "sys/class/net/\udcff").symlink_to("cpu0")
    m = detect(tmp_path)
    assert [d.name for d in m.devices] == ["cpu0", "cpu0'", "nvme0"]
    assert m.devices[2].model == "evil[2Jdisk"


def test_numa_nodes_of_a_socket_share_its_links_to_the_next(tmp_path: Path) -> None:
    tree = SysTree(tmp_path)
    tree.cpu("AuthenticAMD", 25, 1)
    for node in range(8):
        tree.node(node, range(node, node + 1), node // 4, "")
    m = detect(tmp_path)
    assert {m.links[n].target for n in m.leaving(0)} == {1, 2, 3, 4}
    inside, across = (next(k for k in m.links if (k.source, k.target) == (0, to)) for to in (1, 4))
    assert across.bandwidth_Bps == pytest.approx(144e9 / 4) and inside.bandwidth_Bps == 51e9


def test_a_detected_machine_reads_back(tmp_path: Path) -> None:
    gpu_server(tmp_path / "root")
    m = detect(tmp_path / "root")
    machine_json.write(m, tmp_path / "m.json")
    assert machine_json.read(tmp_path / "m.json").links == m.links
    nccl_xml.write(m, tmp_path / "m.xml")
    back = nccl_xml.read(tmp_path / "m.xml")
    assert [len(back.of_kind(kind)) for kind in DeviceKind] == [len(m.of_kind(kind)) for kind in DeviceKind]


def test_a_pipe_that_nobody_writes_is_not_waited_for(tmp_path):
    (tmp_path / "sys/devices/system/node/node0").mkdir(parents=True)
    os.mkfifo(tmp_path / "sys/devices/system/node/node0/cpulist")
    assert not detect(tmp_path).gpus
