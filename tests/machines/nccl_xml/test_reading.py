"""NCCL's topology files: devices, links and bandwidths, by hand and over the real ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from ringtree.machines import parts
from ringtree.machines.files import nccl_xml
from ringtree.machines.files.xml_elements import elements
from ringtree.machines.machine import DeviceKind, Link, LinkKind, Machine, NoteKind
from ringtree.nccl import link_speeds

GB = 1e9
GEN4 = 16 * parts.PCIE[4].bandwidth_Bps


def machine(text: str, **assume: str) -> Machine:
    return nccl_xml.machine_of(elements(text.encode(), "topo.xml"), assume)


def system(inside: str, version: int = 1) -> str:
    cpu = '<cpu numaid="0" arch="x86_64" vendor="AuthenticAMD" familyid="25" modelid="1">'
    return f'<system version="{version}">{cpu}{inside}</cpu></system>'


def gpu(busid: str, rank: int, links: str = "", sm: int = 80, more: str = "") -> str:
    return (
        f'<pci busid="{busid}" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16" {more}>'
        f'<gpu dev="{rank}" sm="{sm}" rank="{rank}" gdr="1">{links}</gpu></pci>'
    )


def links(m: Machine, kind: LinkKind) -> dict[tuple[str, str], Link]:
    return {(m.devices[k.source].name, m.devices[k.target].name): k for k in m.links if k.kind is kind}


SWITCHED = system(
    '<pci busid="0000:01:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="8">'
    + gpu("0000:03:00.0", 1, '<nvlink target="0000:04:00.0" count="4" tclass="0x030200"/>')
    + gpu("0000:04:00.0", 0, '<nvlink target="0000:03:00.0" count="4" tclass="0x030200"/>')
    + '<pci busid="0000:05:00.0" class="0x020700" vendor="0x15b3" device="0x101b" link_speed="16 GT/s" link_width="16">'
    '<nic><net name="mlx5_0" dev="0" speed="200000" port="1" latency="1.5" guid="0x1" gdr="1"/></nic></pci>'
    '<pci busid="0000:06:00.0" class="0x010802" link_speed="8.0 GT/s PCIe" link_width="4"/></pci>'
)


def test_a_switch_two_gpus_a_nic_and_a_disk() -> None:
    m = machine(SWITCHED)
    assert [d.name for d in m.devices] == ["gpu0", "gpu1", "cpu0", "0000:01:00.0", "mlx5_0", "0000:06:00.0"]
    assert [m.devices[n].busid for n in m.gpus] == ["0000:04:00.0", "0000:03:00.0"]  # by rank, not by place
    nic = m.devices[m.nics[0]]
    assert (nic.rate_Bps, nic.latency_s, nic.gdr, nic.model) == (25 * GB, 1.5e-6, True, "ConnectX-6 HDR")
    pcie = links(m, LinkKind.PCIE)
    assert pcie["gpu0", "0000:01:00.0"].bandwidth_Bps == GEN4 == pcie["0000:01:00.0", "gpu0"].bandwidth_Bps
    assert pcie["0000:01:00.0", "cpu0"].bandwidth_Bps == GEN4 / 2
    assert pcie["0000:06:00.0", "0000:01:00.0"].bandwidth_Bps == pytest.approx(8e9 * 4 * 128 / 130 / 8)
    nvlink = links(m, LinkKind.NVLINK)
    assert set(nvlink) == {("gpu0", "gpu1"), ("gpu1", "gpu0")}
    assert (nvlink["gpu0", "gpu1"].bandwidth_Bps, nvlink["gpu0", "gpu1"].generation) == (100 * GB, 3)
    assert [d.kind for d in m.devices][-1] is DeviceKind.STORAGE


@pytest.mark.parametrize(
    ("sm", "generation", "each"), [(60, 1, 20), (70, 2, 25), (80, 3, 25), (90, 4, 25), (100, 5, 50), (103, 5, 50)]
)
def test_nvlinks_are_of_the_gpus_generation(sm: int, generation: int, each: int) -> None:
    to_switch = '<nvlink target="fffffff:ff:ff.0" count="6" tclass="0x068000"/>' * 2
    m = machine(system(gpu("0000:03:00.0", 0, to_switch, sm)))
    link = links(m, LinkKind.NVLINK)["nvswitch0", "gpu0"]
    assert (link.width, link.generation, link.bandwidth_Bps) == (12, generation, 12 * each * GB)


def test_all_nvswitches_are_one_device() -> None:
    to = "".join(f'<nvlink target="0000:{b}:00.0" count="{n}" tclass="0x068000"/>' for b, n in (("f3", 4), ("f4", 5)))
    m = machine(system(gpu("0000:03:00.0", 0, to, 90)))
    assert len(m.of_kind(DeviceKind.NVSWITCH)) == 1
    assert links(m, LinkKind.NVLINK)["gpu0", "nvswitch0"].width == 9


@pytest.mark.parametrize(("gcn", "each"), [("906", 46), ("908", 46), ("910", 50), ("gfx942", 64), ("gfx90a", 50)])
def test_xgmi_is_of_the_accelerators_generation(gcn: str, each: int) -> None:
    def one(busid: str, other: str, rank: int) -> str:
        return (
            f'<pci busid="{busid}" class="0x120000" link_speed="32.0 GT/s PCIe" link_width="16">'
            f'<gpu dev="{rank}" sm="304" gcn="{gcn}" rank="{rank}" gdr="1"><xgmi target="{other}" count="2" '
            'tclass="0x120000"/></gpu></pci>'
        )

    m = machine(system(one("0000:0c:00.0", "0000:15:00.0", 0) + one("0000:15:00.0", "0000:0c:00.0", 1), version=2))
    assert links(m, LinkKind.XGMI)["gpu0", "gpu1"].bandwidth_Bps == 2 * each * GB
    assert [m.devices[n].sm for n in m.gpus] == [0, 0]  # AMD's sm counts compute units


def test_c2c_and_power_nvlinks_lead_to_the_cpu() -> None:
    m = machine(system(gpu("0000:03:00.0", 0, '<c2c bw="45000" count="10"/>', 90)))
    assert links(m, LinkKind.C2C)["cpu0", "gpu0"].bandwidth_Bps == 450 * GB
    m = machine(system(gpu("0000:03:00.0", 0, '<nvlink target="0004:04:00.0" count="3" tclass="0x068001"/>', 70)))
    assert links(m, LinkKind.NVLINK)["gpu0", "cpu0"].bandwidth_Bps == 75 * GB


def test_a_pcilink_joins_two_switches() -> None:
    one = '<pci busid="0000:0{}:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">{}</pci>'
    beside = '<pcilink target="0000:02:00.0"/>'
    m = machine(system(one.format(1, beside) + one.format(2, '<pcilink target="0000:01:00.0"/>')))
    assert links(m, LinkKind.PCIE)["0000:01:00.0", "0000:02:00.0"].generation == 4
    assert len(m.links) == 6  # in the file twice, in the machine once


@pytest.mark.parametrize(
    ("first", "second", "rate_Gbps", "ports"),
    [
        ('speed="100000" port="1" guid="0x1"', 'speed="100000" port="2" guid="0x1"', 200, "2"),
        ('speed="100000" port="1" guid="0x1"', 'speed="100000" port="1" guid="0x1"', 100, "1"),
        ('speed="100000"', 'speed="25000"', 125, "2"),
        ('speed="100000"', 'speed="100000" net="0"', 100, "1"),
    ],
)
def test_a_nic_carries_its_ports_sum(first: str, second: str, rate_Gbps: int, ports: str) -> None:
    nets = f'<net name="a" dev="0" {first}/><net name="b" dev="1" {second}/>'
    nic = f'<pci busid="0000:05:00.0" class="0x020000" link_speed="16 GT/s" link_width="16"><nic>{nets}</nic></pci>'
    device = machine(system(nic)).devices[1]
    assert (device.name, device.rate_Bps, device.attributes["ports"]) == ("a", rate_Gbps * GB / 8, ports)


def test_numa_nodes_of_a_host_are_all_joined_and_those_of_two_hosts_are_not() -> None:
    cpu = '<cpu numaid="{}" host_hash="{}" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143"/>'
    m = machine(f'<system version="1">{"".join(cpu.format(n, h) for h in ("0x1", "0x2") for n in (0, 1, 2))}</system>')
    assert [d.name for d in m.devices] == [f"cpu{n}.host{h}" for h in (0, 1) for n in (0, 1, 2)]
    assert len(links(m, LinkKind.CPU)) == 2 * 6
    assert {k.bandwidth_Bps for k in m.links} == {128 * GB}


@pytest.mark.parametrize(
    ("family", "model", "cpu"),
    [(23, 49, "EPYC 7742"), (143, 49, "EPYC 7742"), (175, 1, "EPYC 7763"), (175, 17, "EPYC 9654")],
)
def test_amds_family_is_known_in_both_spellings(family: int, model: int, cpu: str) -> None:
    text = system("").replace('familyid="25" modelid="1"', f'familyid="{family}" modelid="{model}"')
    assert machine(text).devices[0].model == cpu


def test_a_cpus_numbers_are_read_in_both_bases() -> None:
    text = system(gpu("0000:01:00.0", 0)).replace('AuthenticAMD" familyid="25" modelid="1"', 'GenuineIntel" {}')
    ten, sixteen = (
        machine(text.format(ids)) for ids in ('familyid="6" modelid="143"', 'familyid="0x6" modelid="0x8f"')
    )
    assert ten.devices == sixteen.devices and link_speeds.cpu_GBps(sixteen.devices[1]) == 22.0


@pytest.mark.parametrize(("width", "traps"), [(0, 0), (63, 1), (255, 1)])
def test_a_width_that_the_kernel_did_not_know_is_nccls_default(width: int, traps: int) -> None:
    m = machine(system(gpu("0000:01:00.0", 0).replace('link_width="16"', f'link_width="{width}"')))
    assert links(m, LinkKind.PCIE)["gpu0", "cpu0"].bandwidth_Bps == GEN4
    assert [n.kind for n in m.notes if "link_width" in n.text] == [NoteKind.TRAP] * traps


GPUS_AND_NICS = {
    "aws__p4d-24xl-topo": (8, 4),
    "azure__ncv4-topo": (4, 1),
    "azure__ndv2-topo": (8, 1),
    "azure__ndv4-topo": (8, 8),
    "azure__ndv5-topo": (8, 8),
    "ibm__gx3d-160x1792x8h100-topo": (8, 8),
    "rccl__topo_16p1h": (16, 8),
    "rccl__topo_3p_pcie": (3, 1),
    "rccl__topo_4p1h": (4, 1),
    "rccl__topo_4p2h": (8, 1),
    "rccl__topo_4p3l": (4, 2),
    "rccl__topo_4p3l_n2": (8, 1),
    "rccl__topo_8p1h": (8, 4),
    "rccl__topo_8p6l": (8, 1),
    "rccl__topo_8p6l_2nic": (8, 2),
    "rccl__topo_8p_90a": (8, 1),
    "rccl__topo_8p_940": (8, 8),
    "rccl__topo_8p_pcie": (8, 1),
    "rccl__topo_8p_rome": (8, 1),
    "rccl__topo_8p_rome_n4": (8, 1),
    "rccl__topo_collnet_n4": (8, 4),
}


@pytest.mark.parametrize("name", GPUS_AND_NICS)
def test_every_real_file_is_read(name: str, data_folder: Path) -> None:
    m = nccl_xml.read(data_folder / "nccl_topo_xml" / f"{name}.xml")
    assert (len(m.gpus), len(m.nics)) == GPUS_AND_NICS[name]
    assert all(m.devices[n].rate_Bps > 0 for n in m.nics)
    assert [m.devices[n].name for n in m.gpus] == [f"gpu{k}" for k in range(len(m.gpus))]
    back = {(k.source, k.target, k.kind, k.bandwidth_Bps) for k in m.links}
    assert all((b, a, kind, bandwidth) in back for a, b, kind, bandwidth in back)


def to_itself(busid: str, rank: int) -> str:
    known = 'vendor="0x10de" device="0x20b5"'  # A100 PCIe 80GB
    return gpu(busid, rank, f'<nvlink target="{busid}" count="12" tclass="0x030200"/>', more=known)


def test_nvlinks_that_lead_to_their_own_gpu_are_ignored() -> None:
    two = system(to_itself("0000:03:00.0", 0) + to_itself("0000:04:00.0", 1))
    assert not links(machine(two), LinkKind.NVLINK)
    assert links(machine(two, nvlink="pairs"), LinkKind.NVLINK)["gpu0", "gpu1"].width == 12


@pytest.mark.parametrize(("key", "value"), [("nvlink", "none"), ("gdr", "0")])
def test_facts_in_the_file_go_before_those_given(key: str, value: str) -> None:
    given, known = machine(SWITCHED, **{key: value}), machine(SWITCHED)
    assert (given.links, given.devices) == (known.links, known.devices)
    assert [n.text for n in given.notes if n.about == f"{key}="] == [
        "not used: the file has it, which takes precedence"
    ]
