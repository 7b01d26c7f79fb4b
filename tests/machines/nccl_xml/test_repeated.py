"""Busids, devs and rates as RCCL's own files have them: given twice, or beyond any card."""

from __future__ import annotations

import pytest

from ringtree.machines.files import nccl_xml
from ringtree.machines.files.xml_elements import elements
from ringtree.machines.machine import DeviceKind, LinkKind, Machine, NoteKind

LINK = 'link_speed="16.0 GT/s PCIe" link_width="16"'


def machine(inside: str, **assume: str) -> Machine:
    cpu = '<cpu numaid="0" arch="x86_64" vendor="AuthenticAMD" familyid="25" modelid="1">'
    return nccl_xml.machine_of(
        elements(f'<system version="2">\n{cpu}\n{inside}</cpu></system>'.encode(), "topo.xml"), assume
    )


def switch(busid: str, inside: str) -> str:
    return f'<pci busid="{busid}" class="0x060400" {LINK}>{inside}</pci>\n'


def gpu(busid: str, rank: int, to: str = "") -> str:
    link = f'<xgmi target="{to}" count="1" tclass="0x038000"/>' if to else ""
    ids = 'class="0x038000" vendor="0x1002" device="0x738c"'
    return f'<pci busid="{busid}" {ids} {LINK}><gpu dev="{rank}" gcn="908" rank="{rank}" gdr="1">{link}</gpu></pci>\n'


def nic(busid: str, nets: str, ids: str = "") -> str:
    return f'<pci busid="{busid}" class="0x020000" {ids} {LINK}><nic>{nets}</nic></pci>\n'


def net(name: str, dev: int, speed: int = 200_000, more: str = "") -> str:
    return f'<net name="{name}" dev="{dev}" speed="{speed}" port="1" gdr="1" {more}/>'


def traps(m: Machine) -> list[str]:
    return [f"{n.about}: {n.text}" for n in m.notes if n.kind is NoteKind.TRAP]


def test_switches_of_one_busid_are_several_and_links_lead_to_the_right_gpus() -> None:
    twice = switch("0000:c5:00.0", gpu("0000:cf:00.0", 0, "0000:d0:00.0"))
    twice += switch("0000:c5:00.0", gpu("0000:d0:00.0", 1, "0000:cf:00.0"))
    m = machine(twice)
    assert [m.devices[n].name for n in m.of_kind(DeviceKind.PCI)] == ["0000:c5:00.0", "0000:c5:00.0.1"]
    up = {
        m.devices[k.source].name: m.devices[k.target].name for k in m.links if k.kind is LinkKind.PCIE and k.source < 2
    }
    assert up == {"gpu0": "0000:c5:00.0", "gpu1": "0000:c5:00.0.1"}
    assert sum(k.kind is LinkKind.XGMI for k in m.links) == 2
    assert traps(m) == ["line 5, 0000:c5:00.0: the busid of line 3 again: taken as a further device; NCCL does so too"]
    again = nccl_xml.machine_of(elements(nccl_xml.text(m).encode(), "again.xml"))
    assert [d.name for d in again.devices] == [d.name for d in m.devices]
    assert not traps(again)


def test_each_of_two_switches_of_one_busid_has_its_own_uplink() -> None:
    slow = switch("0000:c5:00.0", gpu("0000:cf:00.0", 0)).replace(LINK, 'link_speed="2.5 GT/s PCIe" link_width="1"', 1)
    m = machine(slow + switch("0000:c5:00.0", gpu("0000:d0:00.0", 1)))
    assert [text.split(":")[0] for text in traps(m) if "artificial" in text] == ["0000"]
    assert any(text.startswith("0000:c5:00.0: the uplink is given as PCIe 1 x1") for text in traps(m))


def test_a_nic_may_have_a_switchs_busid_and_a_gpu_no_others() -> None:
    m = machine(switch("0000:a1:00.0", nic("0000:a1:00.0", net("mlx5_0", 0))))
    assert (len(m.nics), len(m.of_kind(DeviceKind.PCI))) == (1, 1)
    with pytest.raises(ValueError, match="the busid of line 3 again; expected a GPU's own"):
        machine(gpu("0000:01:00.0", 0) + gpu("0000:01:00.0", 1))
    with pytest.raises(ValueError, match="the busid of line 3 again; expected a GPU's own"):
        machine(gpu("0000:01:00.0", 0) + switch("0000:01:00.0", ""))


def test_nics_of_one_dev_are_two_and_a_port_listed_again_is_one() -> None:
    m = machine(nic("0000:01:00.0", net("eth0", 0, 1000)) + nic("0000:02:00.0", net("mlx5_0", 0)))
    assert [(m.devices[n].name, m.devices[n].rate_Bps) for n in m.nics] == [("eth0", 125e6), ("mlx5_0", 25e9)]
    assert any('mlx5_0: dev="0" is that of line 3 too' in text for text in traps(m))
    m = machine("<nic>" + net("eth0", 0, 1000) + "</nic>\n<nic>" + net("eth0", 0, 1000) + "</nic>")
    assert len(m.nics) == 1
    assert any("one port, left out here" in text for text in traps(m))


@pytest.mark.parametrize(
    ("ids", "assume", "rate_Gbps"),
    [
        ('vendor="0x17db" device="0x0501"', {}, 200),  # Slingshot's, by its id
        ("", {}, 200),  # what PCIe 4 x16 carries
        ('vendor="0x17db" device="0x0501"', {"nic": "100Gb/s"}, 100),
    ],
)
def test_a_rate_that_no_nic_has_is_not_taken(ids: str, assume: dict[str, str], rate_Gbps: int) -> None:
    m = machine(nic("0000:01:00.0", net("cxi0", 0, 200_000_000), ids), **assume)
    assert m.devices[m.nics[0]].rate_Bps == rate_Gbps * 1e9 / 8
    assert any("cxi0: speed 200000000 Mbit/s is no NIC's" in text for text in traps(m))
    assert any(n.kind is NoteKind.ASSUMED and "its rate is missing" in n.text for n in m.notes)
    assert not any("not used" in n.text for n in m.notes)


def test_a_rate_beyond_any_of_a_nic_without_a_place_is_nccls_own_default() -> None:
    m = machine("<nic>" + net("eth0", 0, 2**31 - 1) + "</nic>")
    assert m.devices[m.nics[0]].rate_Bps == 1.25e9
