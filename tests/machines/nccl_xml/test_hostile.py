"""Files that nobody vouches for: one line that names the file, the element and what was expected, soon and in little
memory."""

from __future__ import annotations

import gzip
import os
import re
import resource
from pathlib import Path

import pytest

from ringtree.machines.files import nccl_xml, xml_elements
from tests.effort import counted

CPU = '<cpu numaid="0" arch="x86_64" vendor="AuthenticAMD" familyid="25" modelid="1">'
PCI = '<pci busid="0000:0{}:00.0" class="0x060400" link_speed="8 GT/s" link_width="16">'
GPU = '<pci busid="0000:0{}:00.0" class="0x030200" link_speed="8 GT/s" link_width="16">'
LINKED = GPU.format(1) + '<gpu dev="0" sm="80" rank="0" gdr="1">{}</gpu></pci>'
TO_SWITCH = '<nvlink target="0000:09:00.0" count="{}" tclass="0x068000"/>'
TO_GPU = '<nvlink target="0000:09:00.0" count="1" tclass="0x030200"/>'
TO_PCI = '<pcilink target="0000:0{}:00.0"/>'
NIC = '<pci busid="0000:05:00.0" class="0x020000" link_speed="8 GT/s" link_width="16"><nic>{}</nic></pci>'


def system(inside: str) -> str:
    return f'<system version="1">\n{CPU}\n{inside}</cpu></system>'


BOMB = (
    '<!DOCTYPE system [<!ENTITY a "aaaaaaaaaa">'
    + "".join(f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in zip("abcdefgh", "bcdefghi", strict=True))
    + '<!ELEMENT system ANY>]><system version="1">&i;</system>'
)
OURS = {
    '<device name="a" kind="gpu"/>': 'kind="gpu"; expected one of nvswitch, switch',
    '<device kind="switch"/>': "<device>: lacks the attribute name",
    '<link source="cpu0" target="x" kind="cpu"/>': 'target="x"; expected the name of a device',
    '<link source="cpu0" target="cpu0" kind="cpu"/>': "goes from a device to itself",
    '<link source="cpu0" target="cpu0" kind="wire"/>': 'kind="wire"; expected one of shm, pcie',
    '<device name="a" kind="switch"/><link source="cpu0" target="a" kind="nvlink" bandwidth_Bps="1e9" width="0"/>': (
        'width="0"; expected a whole number of 1..'
    ),
}
NUMBERS = ["x", "", " ", "1e3", "nan", "inf", "-1", "9" * 50, "0x", "0xg", "1 2", "１", "1.5", "99999"]
CASES: dict[str, tuple[str, str]] = {
    "an entity bomb": (BOMB, "line 1: declares an entity; expected none"),
    "a file by an entity": (
        '<!DOCTYPE s [<!ENTITY x SYSTEM "file:///etc/passwd">]><system version="1">&x;</system>',
        "declares an entity",
    ),
    "a parameter entity": ('<!DOCTYPE s [<!ENTITY % x "y">]><system version="1"/>', "declares an entity"),
    "deep nesting": ("<system version='1'>" + "<pci>" * 5000, "inside 100 others; expected fewer"),
    "not ended": ('<system version="1">\n<cpu', "line 2: not well-formed XML"),
    "two roots": ('<system version="1"/><system version="1"/>', "not well-formed XML"),
    "text": ("hello", "line 1: not well-formed XML"),
    "another root": ("<graphs/>", "<graphs>: expected <system>"),
    "no version": ("<system><cpu/></system>", "<system>: lacks the attribute version"),
    "an odd version": ('<system version="&#155;"/>', 'version="?"; expected 1 (NCCL) or 2 (RCCL)'),
    "another version": ('<system version="3"/>', 'version="3"; expected 1 (NCCL) or 2 (RCCL)'),
    "no cpu": ('<system version="1"/>', "<system>: has no <cpu>"),
    "an encoding": ('<?xml version="1.0" encoding="klingon"?><system version="1"/>', "encoding"),
    "an encoding of several bytes": ('<?xml version="1.0" encoding="utf-7"?><system version="1"/>', "expected UTF-8"),
    "no numaid": ('<system version="1"><cpu/></system>', "<cpu>: lacks the attribute numaid"),
    "a cpu twice": (f'<system version="1">{CPU}</cpu>{CPU}</cpu></system>', 'numaid="0">: a second <cpu>'),
    "no busid": (system("<pci/>"), "line 3, <pci>: lacks the attribute busid"),
    "a busid that is none": (system('<pci busid="zz"/>'), '<pci busid="zz">: expected a busid such as'),
    "a GPU's busid twice": (
        system(LINKED.format("") + "\n" + LINKED.format("").replace('"0"', '"1"')),
        'line 4, <pci busid="0000:01:00.0">: the busid of line 3 again',
    ),
    "a class that is none": (
        system(PCI.format(1).replace("0x060400", "GPU") + "</pci>"),
        'class="GPU"; expected a whole',
    ),
    "nvlink to nowhere": (
        system(LINKED.format(TO_GPU)),
        '<nvlink target="0000:09:00.0">: leads to no GPU of this file',
    ),
    "nvlink to a switch": (
        system(PCI.format(2) + "</pci>" + LINKED.format('<nvlink target="0000:02:00.0" tclass="0x030200"/>')),
        "leads to no GPU of this file",
    ),
    "nvlink to a class of no use": (
        system(LINKED.format('<nvlink target="0000:09:00.0" tclass="0x020000"/>')),
        'tclass="0x020000"; expected',
    ),
    "nvlink to a place that is none": (
        system(LINKED.format('<nvlink target="GPU1" tclass="0x030200"/>')),
        "expected a busid such as",
    ),
    "no target": (system(LINKED.format("<nvlink/>")), "<nvlink>: lacks the attribute target"),
    "pcilink to itself": (
        system(PCI.format(1) + TO_PCI.format(1) + "</pci>"),
        '<pcilink target="0000:01:00.0">: leads to itself',
    ),
    "a loop by pcilink": (
        system(PCI.format(1) + PCI.format(2) + TO_PCI.format(1) + "</pci></pci>"),
        "or to one above or below it",
    ),
    "pcilink to nowhere": (system(PCI.format(1) + TO_PCI.format(9) + "</pci>"), "expected the busid of another <pci>"),
    "pcilink to a GPU": (
        system(LINKED.format("") + PCI.format(2) + TO_PCI.format(1) + "</pci>"),
        "expected the busid of another <pci>",
    ),
    "a rank twice": (
        system(LINKED.format("") + LINKED.format("").replace("01:", "02:")),
        "rank 0 is that of 0000:01:00.0 too",
    ),
    "two GPUs at a place": (
        system(GPU.format(1) + '<gpu dev="0" rank="0"/><gpu dev="1" rank="1"/></pci>'),
        "a second <gpu>",
    ),
    "a latency that is none": (
        system(NIC.format('<net dev="0" speed="1" latency="nan"/>')),
        'latency="nan"; expected a number',
    ),
    "a name with a bell": (system("").replace('numaid="0"', 'numaid="0" name="&#7;"'), "not well-formed"),
    "a name with a control character": (
        system("").replace('numaid="0"', 'numaid="0" name="a&#155;b"'),
        "name cannot be shown",
    ),
    "a name too long": (system("").replace('numaid="0"', f'numaid="0" name="{"a" * 200}"'), "name cannot be shown"),
    "memory of no bandwidth": (
        system(LINKED.format("").replace('sm="80"', 'sm="80" memory_Bps="0"')),
        'memory_Bps="0"; expected a number of 1..',
    ),
    "c2c of nothing": (system(LINKED.format('<c2c bw="0" count="1"/>')), 'bw="0"; expected a number'),
    **{
        f"link_width {n!r}": (system(PCI.format(1).replace('"16"', f'"{n}"') + "</pci>"), "link_width=")
        for n in NUMBERS
    },
    **{
        f"sm {n!r}": (system(LINKED.format("").replace('sm="80"', f'sm="{n}"')), "sm=") for n in NUMBERS if n != "99999"
    },
    **{f"count {n!r}": (system(LINKED.format(TO_SWITCH.format(n))), "count=") for n in NUMBERS},
    **{f"dev {n!r}": (system(NIC.format(f'<net dev="{n}" speed="1"/>')), "dev=") for n in NUMBERS if n != "99999"},
    **{
        f"speed {n!r}": (system(NIC.format(f'<net dev="0" speed="{n}"/>')), "speed=")
        for n in NUMBERS
        if n not in ("99999", "-1")
    },
}


CASES |= {
    inside: (f'<system version="1"><cpu numaid="0"/>{inside}</system>', expected) for inside, expected in OURS.items()
}


@pytest.mark.parametrize("name", CASES)
def test_one_line_names_file_and_expectation(name: str, tmp_path: Path) -> None:
    text, expected = CASES[name]
    path = tmp_path / "topo.xml"
    path.write_text(text)
    with pytest.raises(ValueError) as refused:
        nccl_xml.read(path)
    message = str(refused.value)
    assert message.startswith(f"{path}: ") and expected in message
    assert "\n" not in message and message.isprintable() and len(message) < len(str(path)) + 250


FILES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "empty; expected an NCCL topology file"),
    "blank": (b" \n ", "empty"),
    "packed": (gzip.compress(b"<system/>"), "packed with gzip; expected an NCCL topology file: unpack it first"),
    "not UTF-8": (b'<system version="1" name="\xff\xfe"/>', "not well-formed XML"),
    "zeros": (bytes(1000), "not well-formed XML"),
    "noise": (bytes(range(1, 256)), "not well-formed XML"),
    "long": (b"<system>" + b" " * xml_elements.MOST_BYTES, "16,777,224 bytes; expected an NCCL topology file, at most"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_no_xml(name: str, tmp_path: Path) -> None:
    path = tmp_path / "topo.xml"
    path.write_bytes(FILES[name][0])
    with pytest.raises(ValueError, match="^" + str(path)) as refused:
        nccl_xml.read(path)
    assert FILES[name][1] in str(refused.value)


def test_other_paths_than_files_are_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    kinds = {
        tmp_path: "a folder",
        tmp_path / "pipe": "a pipe",
        Path("/dev/zero"): "a device",
        tmp_path / "none": "no such file",
        tmp_path / "none" / "below": "no such file",
        tmp_path / "loop": "cannot be read",
        tmp_path / ("x" * 300): "cannot be read",
    }
    for path, kind in kinds.items():
        with pytest.raises(ValueError, match=f"{kind}.*; expected an NCCL topology file"):
            nccl_xml.read(path)
    with pytest.raises(ValueError, match="no name of a file"):
        nccl_xml.read("a\0b")


def many(count: int, one: str) -> str:
    return system("".join(one.format(place=f"{n:04x}:00:00.0", n=n) for n in range(count)))


ELEMENTS, CPUS = "300,000 elements", "10,000 CPUs"
SLOT = '<pci busid="{place}" class="{kind}" link_speed="8 GT/s" link_width="16"/>'
LARGE = {
    "10,000 switches": many(10_000, SLOT.replace("{kind}", "0x060400")),
    "10,000 GPUs": many(10_000, SLOT.replace("{kind}", "0x030200")),
    "10,000 NICs": many(10_000, '<nic><net dev="{n}" speed="1"/></nic>'),
    CPUS: '<system version="1">' + "".join(f'<cpu numaid="{n}"/>' for n in range(10_000)) + "</system>",
    ELEMENTS: "<system version='1'>" + "<cpu/>" * 300_000 + "</system>",
    "100,000 attributes": "<system " + " ".join(f'a{n}="1"' for n in range(100_000)) + "/>",
    "a name of 10 MB": f'<system version="{"1" * 10_000_000}"/>',
    "a tag of 10 MB": f"<{'a' * 10_000_000}/>",
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in (ELEMENTS, CPUS) else []) for name in LARGE]
)
def test_a_large_file_is_refused_in_few_calls_and_little_memory(name: str, tmp_path: Path) -> None:
    path = tmp_path / "topo.xml"
    path.write_text(LARGE[name])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ValueError) as refused, counted() as effort:
        nccl_xml.read(path)
    assert effort.calls < 10_000_000  # less than a thousand a CPU
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400_000  # KiB
    assert re.match(f"{path}: line \\d+[:,]", str(refused.value))
    assert "expected" in str(refused.value) and len(str(refused.value)) < len(str(path)) + 250
