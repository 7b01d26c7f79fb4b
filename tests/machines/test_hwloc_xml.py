"""hwloc's XML: what lstopo writes, in its versions, as devices and links."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ringtree.machines import parts
from ringtree.machines.files import hwloc_xml, reading
from ringtree.machines.files.xml_elements import elements
from ringtree.machines.machine import DeviceKind, LinkKind, Machine, NoteKind

V2 = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
 <object type="Machine" os_index="0" cpuset="0x0000000f" nodeset="0x00000003" gp_index="1">
  <info name="HostName" value="node7"/><info name="Architecture" value="x86_64"/>
  <object type="Package" os_index="0" cpuset="0x00000003" nodeset="0x00000001" gp_index="3">
   <info name="CPUVendor" value="GenuineIntel"/><info name="CPUFamilyNumber" value="6"/>
   <info name="CPUModelNumber" value="106"/>
   <object type="NUMANode" os_index="0" cpuset="0x00000003" nodeset="0x00000001" gp_index="4"/>
   <object type="Bridge" gp_index="20" bridge_type="0-1" depth="0" bridge_pci="0000:[00-3b]">
    <object type="Bridge" gp_index="21" bridge_type="1-1" depth="1" pci_busid="0000:00:01.0"
      pci_type="0604 [8086:2030] [8086:0000] 04" pci_link_speed="31.507692">
     <object type="Bridge" gp_index="22" bridge_type="1-1" depth="2" pci_busid="0000:01:00.0"
       pci_type="0604 [1000:c010] [1000:a096] b0" pci_link_speed="31.507692">
      <object type="Bridge" gp_index="23" bridge_type="1-1" depth="3" pci_busid="0000:02:00.0"
        pci_type="0604 [1000:c010] [1000:a096] b0" pci_link_speed="31.507692">
       <object type="PCIDev" gp_index="24" pci_busid="0000:03:00.0"
         pci_type="0302 [10de:20b5] [10de:1533] a1" pci_link_speed="31.507692">
        <object type="OSDev" gp_index="25" name="nvml0" osdev_type="1"/>
       </object>
      </object>
      <object type="Bridge" gp_index="26" bridge_type="1-1" depth="3" pci_busid="0000:02:01.0"
        pci_type="0604 [1000:c010] [1000:a096] b0" pci_link_speed="31.507692">
       <object type="PCIDev" gp_index="27" pci_busid="0000:04:00.0"
         pci_type="0207 [15b3:101b] [15b3:0007] 00" pci_link_speed="31.507692">
        <object type="OSDev" gp_index="28" name="ib0" osdev_type="2"/>
        <object type="OSDev" gp_index="29" name="mlx5_0" osdev_type="3"/>
       </object>
      </object>
     </object>
    </object>
    <object type="Bridge" gp_index="30" bridge_type="1-1" depth="1" pci_busid="0000:00:02.0"
      pci_type="0604 [8086:2031] [8086:0000] 04" pci_link_speed="3.938462">
     <object type="PCIDev" gp_index="31" pci_busid="0000:05:00.0"
       pci_type="0108 [144d:a804] [144d:a801] 00" pci_link_speed="3.938462"/>
    </object>
    <object type="PCIDev" gp_index="32" pci_busid="0000:00:1f.0"
      pci_type="0300 [1a03:2000] [1a03:2000] 41" pci_link_speed="0.000000"/>
   </object>
  </object>
  <object type="Package" os_index="1" cpuset="0x0000000c" nodeset="0x00000002" gp_index="5">
   <object type="NUMANode" os_index="1" cpuset="0x0000000c" nodeset="0x00000002" gp_index="6"/>
   <object type="Bridge" gp_index="40" bridge_type="0-1" depth="0" bridge_pci="0000:[80-84]">
    <object type="PCIDev" gp_index="41" pci_busid="0000:81:00.0"
      pci_type="0302 [10de:20b5] [10de:1533] a1" pci_link_speed="31.507692">
     <object type="OSDev" gp_index="42" name="nvml1" osdev_type="1"/>
    </object>
    <object type="PCIDev" gp_index="43" pci_busid="0000:82:00.0"
      pci_type="0200 [8086:1521] [8086:0001] 01" pci_link_speed="1.969231">
     <object type="OSDev" gp_index="44" name="eth0" osdev_type="2"/>
    </object>
   </object>
  </object>
 </object>
</topology>
"""
NVLINKS = """ <distances2 type="OSDev" nbobjs="2" kind="25" name="NVLinkBandwidth" indexing="gp">
  <indexes length="6">25 42 </indexes>
  <u64values length="30">1000000 300000 300000 1000000 </u64values>
 </distances2>
</topology>"""


def machine(text: str, **assume: str) -> Machine:
    return hwloc_xml.machine_of(elements(text.encode(), "topo.xml"), assume)


def links(m: Machine) -> dict[tuple[str, str], tuple[LinkKind, float]]:
    return {(m.devices[k.source].name, m.devices[k.target].name): (k.kind, k.bandwidth_Bps) for k in m.links}


def test_a_matrix_of_links_that_cannot_be_is_refused_where_it_stands() -> None:
    text = V2.replace("</topology>\n", NVLINKS).replace("300000", "99999999999999999")
    with pytest.raises(
        ValueError, match=r'<distances2 name="NVLinkBandwidth">: 9+ MB/s are 4000000000000 links; expected'
    ):
        machine(text)


def test_a_matrix_with_an_index_of_no_device_is_a_note() -> None:
    m = machine(V2.replace("</topology>\n", NVLINKS).replace(">25 42 <", ">25 99 <"))
    (note,) = (n for n in m.notes if n.kind is NoteKind.UNKNOWN)
    assert note.about.endswith("NVLinkBandwidth")
    assert note.text == "index 99 is that of no device in the file: its links are left out"
    whole = machine(V2.replace("</topology>\n", NVLINKS))
    assert not [n for n in whole.notes if n.kind is NoteKind.UNKNOWN]


def test_a_superchips_gpu_is_on_c2c() -> None:
    m = machine(V2.replace("10de:20b5", "10de:2342"))
    assert {m.devices[n].model for n in m.gpus} == {"GH200 96GB"}
    c2c = {pair: Bps for pair, (kind, Bps) in links(m).items() if kind is LinkKind.C2C}
    assert c2c == {("gpu0", "cpu0"): 450e9, ("cpu0", "gpu0"): 450e9, ("gpu1", "cpu1"): 450e9, ("cpu1", "gpu1"): 450e9}


def test_functions_of_one_card_are_one_nic() -> None:
    """As to NCCL, where they have the RDMA library's devices; those of Ethernet alone are two."""
    nic = V2[
        V2.index('    <object type="PCIDev" gp_index="43"') : V2.index(
            "   </object>\n  </object>\n </object>\n</topology>"
        )
    ]
    second = nic.replace('"43"', '"53"').replace('"44"', '"54"').replace("82:00.0", "82:00.1").replace("eth0", "eth1")
    assert len(machine(V2.replace(nic, nic + second)).nics) == 3
    rdma = [text.replace('osdev_type="2"', 'osdev_type="3"').replace("eth", "mlx5_1") for text in (nic, second)]
    m = machine(V2.replace(nic, "".join(rdma)))
    assert [m.devices[n].name for n in m.nics] == ["mlx5_0", "mlx5_10"]
    assert [n.text for n in m.notes if n.about == "0000:82:00.1"] == [
        "is a port of the card of mlx5_10, as mlx5_11 is: taken together, as NCCL does"
    ]


def test_two_sockets_a_switch_gpus_nics_and_a_disk() -> None:
    m = machine(V2, nic="100Gb/s")
    gen4 = (LinkKind.PCIE, 16 * parts.PCIE[4].bandwidth_Bps)
    assert m.name == "node7"
    assert {d.name: (d.kind.value, d.numa) for d in m.devices} == {
        "gpu0": ("gpu", 0),
        "gpu1": ("gpu", 1),
        "cpu0": ("cpu", 0),
        "cpu1": ("cpu", 1),
        "0000:01:00.0": ("pci", 0),  # one switch: neither the root port nor its lower ports
        "mlx5_0": ("nic", 0),
        "eth0": ("nic", 1),
        "0000:05:00.0": ("storage", 0),
    }
    of = links(m)
    assert of["gpu0", "0000:01:00.0"] == of["mlx5_0", "0000:01:00.0"] == of["0000:01:00.0", "cpu0"] == gen4
    assert of["gpu1", "cpu1"] == gen4
    assert of["0000:05:00.0", "cpu0"][1] == 4 * parts.PCIE[3].bandwidth_Bps
    assert of["cpu0", "cpu1"] == (LinkKind.CPU, parts.CPUS["Xeon Platinum 8358"].to_socket_Bps)
    pcie = [(k.generation, k.width) for k in m.links if k.source == m.device("0000:01:00.0")]
    assert pcie == [(4, 16)] * 3  # a switch that no table knows; 32 lanes of PCIe 3 carry as much
    assert ("gpu0", "gpu1") not in of
    assert {m.devices[n].model for n in m.gpus} == {"A100 PCIe 80GB"}
    assert any(n.kind is NoteKind.ASSUMED and "nvlink" in n.text for n in m.notes)


def test_nvlinks_are_those_of_the_matrix() -> None:
    m = machine(V2.replace("</topology>", NVLINKS))
    assert links(m)["gpu0", "gpu1"] == (LinkKind.NVLINK, 300e9)
    switch = V2.replace("[1a03:2000]", "[10de:1ac2]", 1).replace('"0300 [10de', '"0680 [10de')
    to_switch = NVLINKS.replace("25 42", "25 42 32").replace('nbobjs="2"', 'nbobjs="3"')
    values = "0 0 300000 0 0 300000 300000 300000 0"
    m = machine(switch.replace("</topology>", to_switch.replace("1000000 300000 300000 1000000", values)))
    assert links(m)["gpu0", "nvswitch0"] == links(m)["nvswitch0", "gpu1"] == (LinkKind.NVLINK, 300e9)
    assert len(m.of_kind(DeviceKind.NVSWITCH)) == 1


def as_version_1(text: str) -> str:
    """NUMA nodes around the packages, no version, no global indexes."""

    text = text.replace('version="2.0"', "").replace("hwloc2.dtd", "hwloc.dtd")
    text = re.sub(r' gp_index="\d+"', "", text)
    text = re.sub(r'\n *<object type="NUMANode"[^>]*/>', "", text)
    for n in (0, 1):
        start = f'<object type="Package" os_index="{n}"'
        node = f'<object type="NUMANode" os_index="{n}" cpuset="0x{3 << 2 * n:08x}" nodeset="0x{1 << n:08x}">\n'
        text = text.replace(start, node + start.replace("Package", "Socket"))
    return text.replace("\n  </object>", "\n  </object></object>")


def test_version_1_has_nodes_around_packages_and_is_the_same_machine() -> None:
    one, two = machine(as_version_1(V2)), machine(V2)
    assert [d.name for d in one.devices] == [d.name for d in two.devices]
    assert links(one) == links(two)


def test_version_3_numbers_system_devices_otherwise() -> None:
    text = V2.replace('version="2.0"', 'version="3.0"')
    text = text.replace('osdev_type="2"', 'osdev_type="16"').replace('osdev_type="3"', 'osdev_type="48"')
    assert links(machine(text)) == links(machine(V2))


def test_a_console_is_no_gpu_and_a_plain_card_no_fabric() -> None:
    m = machine(V2)
    assert len(m.gpus) == 2
    plain = m.devices[m.device("eth0")]
    assert (plain.rate_Bps, plain.gdr) == (1.25e9, False)
    assert m.devices[m.device("mlx5_0")].rate_Bps == 25e9


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('type="Machine"', 'type="Core"', "has no object of the type Machine"),
        ('version="2.0"', 'version="9"', 'version="9"; expected hwloc 1, 2 or 3'),
        ("0302 [10de:20b5] [10de:1533] a1", "GPU", 'pci_type="GPU"; expected such as 0302'),
        ('pci_busid="0000:81:00.0"', "", "lacks the attribute pci_busid"),
        ('pci_busid="0000:81:00.0"', 'pci_busid="x"', 'pci_busid="x"; expected such as'),
        ('pci_link_speed="31.507692"', 'pci_link_speed="nan"', 'pci_link_speed="nan"; expected a number'),
        ('os_index="1" cpuset="0x0000000c" nodeset="0x00000002" gp_index="6"', 'os_index="0"', "a second NUMA node 0"),
        ('osdev_type="3"', 'osdev_type="x"', 'osdev_type="x"; expected a whole number'),
        ("1000000 300000 300000 1000000", "1 2 3", "2 indexes and 3 values; expected 2 and 4"),
        ("1000000 300000", "1000000 -5", '"-5" is no bandwidth'),
        ('nbobjs="2"', 'nbobjs="99999"', 'nbobjs="99999"; expected a whole number of 1..1024'),
        ('name="node7"', "x", "not well-formed"),
        ('"hwloc2.dtd"', '"hwloc2.dtd" [<!ENTITY a "b">]', "declares an entity"),
    ],
)
def test_one_line_names_element_and_expectation(old: str, new: str, expected: str) -> None:
    text = V2.replace("</topology>", NVLINKS)
    with pytest.raises(ValueError) as refused:
        machine(text.replace(old, new) if "name=" not in old else text.replace('value="node7"', "value=node7"))
    message = str(refused.value)
    assert message.startswith("topo.xml: line ") and expected in message and "\n" not in message


@pytest.mark.skipif(shutil.which("lstopo-no-graphics") is None, reason="no lstopo here")
@pytest.mark.parametrize("flags", ["0", "1"], ids=["v2", "v1"])
def test_the_output_of_lstopo_here_is_read(flags: str, tmp_path: Path) -> None:
    path = tmp_path / "here.xml"
    command = ["lstopo-no-graphics", "--of", "xml", "--export-xml-flags", flags]
    path.write_bytes(subprocess.run(command, capture_output=True, check=True).stdout)
    assert reading.read(path).of_kind(DeviceKind.CPU)
