"""CPUs, and the links between their sockets and NUMA nodes, with the source of each figure."""

from __future__ import annotations

from dataclasses import dataclass

from ringtree.machines.machine import Device


@dataclass(frozen=True, slots=True)
class Cpu:
    """A socket. `vendor` as CPUID reports it; `pcie` the generation; `to_socket_Bps` the bandwidth to another
    socket, all links together, each way, `to_numa_Bps` that to another NUMA node of the same socket."""

    model: str
    vendor: str
    arch: str
    family: int
    modelid: int
    pcie: int
    to_socket_Bps: float
    to_numa_Bps: float
    source: str


_INTEL, _EPYC = "GenuineIntel", "AuthenticAMD"
_MESH = "between NUMA nodes of a socket: the memory bandwidth of one, which the mesh carries"
CPUS = {
    c.model: c
    for c in (
        Cpu("Xeon E5-2698 v4", _INTEL, "x86_64", 6, 79, 3, 38.4e9, 38.4e9, f"Intel: 2 QPI links of 9.6 GT/s; {_MESH}"),
        Cpu("Xeon Platinum 8168", _INTEL, "x86_64", 6, 85, 3, 62.4e9, 64e9, f"Intel: 3 UPI links, 10.4 GT/s; {_MESH}"),
        Cpu("Xeon Platinum 8175M", _INTEL, "x86_64", 6, 85, 3, 62.4e9, 64e9, f"Intel: 3 UPI links, 10.4 GT/s; {_MESH}"),
        Cpu(
            "Xeon Platinum 8275CL", _INTEL, "x86_64", 6, 85, 3, 62.4e9, 70e9, f"Intel: 3 UPI links, 10.4 GT/s; {_MESH}"
        ),
        Cpu(
            "Xeon Platinum 8358", _INTEL, "x86_64", 6, 106, 4, 67.2e9, 102e9, f"Intel: 3 UPI links, 11.2 GT/s; {_MESH}"
        ),
        Cpu(
            "Xeon Platinum 8480C", _INTEL, "x86_64", 6, 143, 5, 128e9, 153e9, f"Intel: 4 UPI links of 16 GT/s; {_MESH}"
        ),
        Cpu(
            "Xeon Platinum 8481C", _INTEL, "x86_64", 6, 143, 5, 128e9, 153e9, f"Intel: 4 UPI links of 16 GT/s; {_MESH}"
        ),
        Cpu(
            "Xeon Platinum 8488C", _INTEL, "x86_64", 6, 143, 5, 128e9, 153e9, f"Intel: 4 UPI links of 16 GT/s; {_MESH}"
        ),
        Cpu(
            "Xeon Platinum 8559C", _INTEL, "x86_64", 6, 207, 5, 160e9, 179e9, f"Intel: 4 UPI links of 20 GT/s; {_MESH}"
        ),
        Cpu(
            "Xeon Platinum 8592+", _INTEL, "x86_64", 6, 207, 5, 160e9, 179e9, f"Intel: 4 UPI links of 20 GT/s; {_MESH}"
        ),
        Cpu("Xeon Platinum 8570", _INTEL, "x86_64", 6, 207, 5, 160e9, 179e9, f"Intel: 4 UPI links of 20 GT/s; {_MESH}"),
        Cpu(
            "Xeon Platinum 8581C", _INTEL, "x86_64", 6, 207, 5, 160e9, 179e9, f"Intel: 4 UPI links of 20 GT/s; {_MESH}"
        ),
        Cpu("Xeon 6776P", _INTEL, "x86_64", 6, 173, 5, 192e9, 205e9, f"Intel: 4 UPI links of 24 GT/s; {_MESH}"),
        Cpu("EPYC 7742", _EPYC, "x86_64", 23, 49, 4, 144e9, 51e9, f"AMD: 4 xGMI links x16 of 18 GT/s; {_MESH}"),
        Cpu("EPYC 7V12", _EPYC, "x86_64", 23, 49, 4, 144e9, 51e9, f"AMD: 4 xGMI links x16 of 18 GT/s; {_MESH}"),
        Cpu("EPYC 7542", _EPYC, "x86_64", 23, 49, 4, 144e9, 51e9, f"AMD: 4 xGMI links x16 of 18 GT/s; {_MESH}"),
        Cpu("EPYC 7763", _EPYC, "x86_64", 25, 1, 4, 144e9, 51e9, f"AMD: 4 xGMI links x16 of 18 GT/s; {_MESH}"),
        Cpu("EPYC 7V13", _EPYC, "x86_64", 25, 1, 4, 144e9, 51e9, f"AMD: 4 xGMI links x16 of 18 GT/s; {_MESH}"),
        Cpu("EPYC 7R13", _EPYC, "x86_64", 25, 1, 4, 144e9, 51e9, f"AMD: 4 xGMI links x16 of 18 GT/s; {_MESH}"),
        Cpu("EPYC 9654", _EPYC, "x86_64", 25, 17, 5, 256e9, 115e9, f"AMD: 4 xGMI links x16 of 32 GT/s; {_MESH}"),
        Cpu("EPYC 9575F", _EPYC, "x86_64", 26, 2, 5, 256e9, 144e9, f"AMD: 4 xGMI links x16 of 32 GT/s; {_MESH}"),
        Cpu("Hygon 7185", "HygonGenuine", "x86_64", 24, 0, 3, 76e9, 42.6e9, f"Hygon C86 7185, as AMD's Zen 1; {_MESH}"),
        Cpu(
            "Kunpeng 920",
            "HiSilicon",
            "arm64",
            0,
            0,
            4,
            60e9,
            60e9,
            f"Huawei Kunpeng 920: 2 Hydra links of 240 Gb/s; {_MESH}",
        ),
        Cpu("Grace", "NVIDIA", "arm64", 0, 0, 5, 100e9, 100e9, "NVIDIA Grace: coherent links from socket to socket"),
    )
}
"""CPUs by model. Links of 2 bytes a transfer, counted as their makers do."""


def cpu_by_id(vendor: str, family: int, modelid: int) -> Cpu | None:
    """The CPU whose CPUID model is the nearest of its vendor and family; None where the tables know none of those."""
    near = [c for c in CPUS.values() if (c.vendor, c.family) == (vendor, family)]
    return min(near, key=lambda c: abs(c.modelid - modelid), default=None)


def cpu_maker(cpu: Device) -> str:
    """A CPU's maker: intel, amd, zhaoxin, ibm, arm, "" where unknown."""
    description = (
        f"{cpu.vendor} {cpu.model} {cpu.attributes.get('vendor', '')} {cpu.attributes.get('arch', '')}".lower()
    )
    return next((maker for maker, words in _MAKERS.items() if any(word in description for word in words)), "")


_MAKERS = {
    "intel": ("intel", "xeon"),
    "amd": ("amd", "epyc"),
    "yongfeng": ("yongfeng",),
    "zhaoxin": ("zhaoxin", "centaur", "shanghai"),
    "ibm": ("power", "ppc"),
    "arm": ("arm", "grace", "graviton", "aarch"),
}
