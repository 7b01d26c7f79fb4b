"""Files that chance has spoiled: a machine, or one line; soon; and what was read can be written and read again."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path
from xml.sax.saxutils import quoteattr

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtree.machines import catalogue
from ringtree.machines.files import hwloc_xml, machine_json, nccl_xml, nvidia_smi, reading
from ringtree.machines.files.xml_elements import elements
from ringtree.machines.machine import Machine
from tests.effort import counted

MOST_CALLS = 1_000_000
NASTY = [
    "", "0", "-1", "1", "2", "16", "99999999999", "1e309", "nan", "inf", "0x", "0x068000", "0x030200", "0x020000",
    "N/A", "0000:00:00.0", "fffffff:ff:ff.0", "\x00", "\ufeff", "é", "&amp;", "<", "/>", "<!--", "]]>", "\x1b[31m", '"',
    "&x;", "gpu", "pci", "cpu", "nvlink", "pcilink", "NV0", "NV18", "SYS", "PIX", "true", "null", "[", "{", "}",
]  # fmt: skip


def rich() -> str:
    """A file with every tag of the format."""
    return """<system version="1" name="rich"><cpu numaid="0" host_hash="0x1" affinity="ff" arch="x86_64"
vendor="AuthenticAMD" familyid="143" modelid="49">
<pci busid="0000:01:00.0" class="0x060400" vendor="0x1000" device="0xc010" link_speed="16.0 GT/s" link_width="8">
<pcilink target="0000:07:00.0"/>
<pci busid="0000:02:00.0" class="0x030200" vendor="0x10de" device="0x20b0" link_speed="16 GT/s" link_width="0">
<gpu dev="0" sm="80" rank="1" gdr="1" mlopart="-1"><nvlink target="fffffff:ff:ff.0" count="6" tclass="0x068000"/>
<nvlink target="0000:03:00.0" count="6" tclass="0x030200"/><c2c bw="45000" count="10"/></gpu></pci>
<pci busid="0000:03:00.0" class="0x030200" link_speed="" link_width="16">
<gpu dev="1" sm="80" rank="0" gdr="0"><nvlink target="0000:02:00.0" count="6" tclass="0x030200"/>
<xgmi target="0000:02:00.0" count="1" tclass="0x030200"/></gpu></pci>
<pci busid="0000:05:00.0" class="0x020700" link_speed="8 GT/s" link_width="16"><nic>
<net name="mlx5_0" dev="0" speed="200000" port="1" latency="0.5" guid="0x1" maxconn="131072" gdr="1" coll="1"/>
<net name="mlx5_1" dev="1" speed="-1" port="2" guid="0x1"/></nic></pci></pci>
<pci busid="0000:07:00.0" class="0x060400" link_speed="2.5 GT/s PCIe" link_width="1">
<pci busid="0000:08:00.0" class="0x010802" link_speed="8.0 GT/s PCIe" link_width="4"/></pci>
<nic><net name="eth0" dev="2" speed="25000"/></nic></cpu><cpu numaid="1" host_hash="0x1" arch="arm64"/>
<device name="sw" kind="nvswitch" busid="0000:ff:00.0"/>
<link source="cpu0" target="cpu1" kind="cpu" bandwidth_Bps="1e10"/></system>
"""


HWLOC = """<!DOCTYPE topology SYSTEM "hwloc2.dtd"><topology version="2.0"><object type="Machine" nodeset="0x3">
<object type="Package" gp_index="3" nodeset="0x1"><info name="CPUVendor" value="GenuineIntel"/>
<object type="NUMANode" os_index="0" cpuset="0x3" nodeset="0x1"/>
<object type="Bridge" bridge_type="0-1"><object type="Bridge" bridge_type="1-1" pci_busid="0000:00:01.0"
pci_type="0604 [8086:2030] [8086:0000] 04" pci_link_speed="15.753846"><object type="Bridge" bridge_type="1-1"
pci_busid="0000:01:00.0" pci_type="0604 [10b5:9781] [10b5:9781] b0" pci_link_speed="15.753846">
<object type="PCIDev" gp_index="7" pci_busid="0000:02:00.0" pci_type="0302 [10de:1db8] [10de:131d] a1"
pci_link_speed="15.75"><object type="OSDev" gp_index="8" name="nvml0" osdev_type="5"/></object>
<object type="PCIDev" gp_index="9" pci_busid="0000:03:00.0" pci_type="0302 [10de:1db8] [10de:131d] a1"
pci_link_speed="15.75"/><object type="PCIDev" pci_busid="0000:04:00.0" pci_type="0207 [15b3:1013] [15b3:0013] 00"
pci_link_speed="15.75"><object type="OSDev" name="mlx5_0" osdev_type="3"/></object></object></object></object></object>
</object><distances2hetero nbobjs="3" name="NVLinkBandwidth"><indexes>OSDev:8 PCIDev:9 Package:3</indexes><u64values>
0 50000 25000 50000 0 0 25000 0 0</u64values></distances2hetero></topology>
"""
SMI = """\x1b[4m\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m
GPU0\t X \tNV12\tPXB\t0-7\t0\tN/A
GPU1\tNV12\t X \tSYS\t8-15\t1\tN/A
NIC0\tPXB\tSYS\t X \t\t\t

NIC Legend:

  NIC0: mlx5_0
"""


def seeds() -> list[str]:
    machine = catalogue.machine("a100-pcie-nvlink-pairs")
    return [rich(), HWLOC, SMI, nccl_xml.text(machine), machine_json.text(machine)]


def spoiled(text: str, chance: random.Random) -> str:
    """One to three changes: values and words for others, short spans doubled, dropped or moved, characters replaced."""
    for _ in range(chance.randint(1, 3)):
        words = list(re.finditer(chance.choice([r'(?<=")[^"<>]*(?=")', r"[\w.:/-]+", r"<[^<>]*>"]), text))
        if not words:
            continue
        at = chance.randrange(len(words))
        one, other = words[at], chance.choice(words[max(0, at - 8) : at + 8])
        start, end = sorted((one.start(), other.end()))
        change = chance.randrange(9)
        if change in (0, 7, 8):
            text = text[: one.start()] + chance.choice(NASTY) + text[one.end() :]
        elif change == 1:
            text = text[: one.start()] + other.group() + text[one.end() :]
        elif change == 2:
            text = text[:start] + text[end:]
        elif change == 3:
            text = text[:end] + text[start:end] + text[end:]
        elif change == 4 and chance.random() < 0.2:
            text = text[:start]
        elif change == 5:
            text = text[: one.start()] + chr(chance.randrange(256)) + text[one.start() + 1 :]
        else:
            text = text[:start] + text[end:] + text[start:end]
    return text


def check(path: Path, data: bytes) -> bool:
    """Whether it is a machine; fails where anything but one line comes of it, or what was read is lost again."""
    path.write_bytes(data)
    try:
        with counted() as effort:
            machine = reading.read(path)
    except ValueError as error:
        message = str(error)
        assert message.startswith(f"{path}: ") and "\n" not in message and message.isprintable(), message
        assert re.search("expected|not well-formed|lacks|not JSON|no <cpu>|two devices|nested|digits", message), message
        assert len(message) < len(str(path)) + 400 and effort.calls < MOST_CALLS
        return False
    assert effort.calls < MOST_CALLS
    again(machine)
    return True


def again(machine: Machine) -> None:
    whole = machine_json.parse(machine_json.text(machine), "m.json")
    assert (whole.devices, whole.links, whole.notes) == (machine.devices, machine.links, machine.notes)
    try:
        text = nccl_xml.text(machine)
    except ValueError as error:
        assert "expected" in str(error)
        return
    back = nccl_xml.machine_of(elements(text.encode(), "m.xml"))
    assert sorted(d.name for d in back.devices) == sorted(d.name for d in machine.devices)
    assert sum(k.bandwidth_Bps for k in back.links) == pytest.approx(sum(k.bandwidth_Bps for k in machine.links))


def campaign(path: Path, rounds: int, seed: int) -> Iterator[bool]:
    chance, texts = random.Random(seed), seeds()
    for n in range(rounds):
        text = spoiled(texts[n % len(texts)], chance)
        yield check(path, text.encode("utf-8", "surrogateescape"))


def test_the_seeds_are_machines(tmp_path: Path) -> None:
    assert all(check(tmp_path / "f", text.encode()) for text in seeds())


def test_spoiled_files_are_machines_or_one_line(tmp_path: Path) -> None:
    outcomes = list(campaign(tmp_path / "f", 600, 1))
    assert 60 < sum(outcomes) < 540  # both happen, or the fuzzer is of no use


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 6))
def test_many_spoiled_files(seed: int, tmp_path: Path) -> None:
    assert sum(campaign(tmp_path / "f", 5_000, seed)) > 500


TAGS = st.sampled_from(
    re.findall(r"\w+", "system cpu pci gpu nic net nvlink xgmi c2c pcilink device link object topology graphs a")
)
NAMES = st.sampled_from(
    re.findall(
        r"\w+",
        "version numaid busid class link_speed link_width dev sm rank gdr target count tclass bw speed port name kind "
        "arch source bandwidth_Bps type pci_busid pci_type os_index nodeset gcn vendor device host_hash",
    )
)
PLACES = ["0000:01:00.0", "0000:02:00.0", "16 GT/s", "cpu0", "gpu0", "Machine", "Bridge", "0302 [10de:20b0]"]
VALUES = st.sampled_from([*NASTY, *PLACES]) | st.text(st.characters(codec="utf-8"), max_size=5)
NODES = st.recursive(
    st.tuples(TAGS, st.dictionaries(NAMES, VALUES, max_size=6), st.just([])),
    lambda inner: st.tuples(TAGS, st.dictionaries(NAMES, VALUES, max_size=6), st.lists(inner, max_size=4)),
    max_leaves=12,
)
Node = tuple[str, dict[str, str], list[object]]


def written(node: Node) -> str:
    tag, attributes, inner = node
    attrs = "".join(f" {key}={quoteattr(value)}" for key, value in attributes.items())
    return f"<{tag}{attrs}>{''.join(written(i) for i in inner)}</{tag}>"  # type: ignore[arg-type]


@given(NODES, st.sampled_from(["1", "2"]), st.booleans())
def test_any_elements_are_a_machine_or_one_line(
    tmp_path_factory: pytest.TempPathFactory, node: Node, version: str, wrapped: bool
) -> None:
    text = written(node)
    if wrapped:
        text = f'<system version="{version}"><cpu numaid="0">{text}</cpu></system>'
    check(tmp_path_factory.getbasetemp() / "any.xml", text.encode("utf-8", "surrogatepass"))


@given(
    st.binary(max_size=200), st.sampled_from([b"", b"<system ", b"{", b"\tGPU0\nGPU0\t X \n", b"\xff\xfe<", b"<?xml "])
)
def test_any_bytes_are_a_machine_or_one_line(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, start: bytes
) -> None:
    check(tmp_path_factory.getbasetemp() / "any", start + data)


@pytest.mark.parametrize("read", [nccl_xml.read, hwloc_xml.read, nvidia_smi.read, machine_json.read, reading.read])
@pytest.mark.parametrize(
    "text", [rich(), HWLOC, SMI, "{}", "", "<a>"], ids=["nccl", "hwloc", "smi", "json", "nothing", "xml"]
)
def test_a_reader_refuses_a_file_of_another_format(read: object, text: str, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text(text)
    try:
        read(path)  # type: ignore[operator]
    except ValueError as error:
        assert str(error).startswith(f"{path}: ") and "\n" not in str(error)
