"""NUMA nodes, their CPUs and the caches those share."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ringtree.machines.sysfs import Sysfs, cpu_list, number

NODES, CPUS = "sys/devices/system/node", "sys/devices/system/cpu"
ARM_MAKERS = {0x41: "ARM", 0x4E: "NVIDIA", 0xC0: "Ampere", 0x48: "HiSilicon", 0x70: "Phytium", 0x61: "Apple"}
MOST_CPUS = 1 << 14


@dataclass(frozen=True, slots=True)
class NumaNode:
    """`number` is -1 where the system has none. `package`: the socket that its CPUs are of, -1 where unknown;
    `caches` in words."""

    number: int
    cpus: tuple[int, ...]
    package: int
    caches: tuple[str, ...]
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Processor:
    """As /proc/cpuinfo names the first: `attributes` are NCCL's, arch, vendor, familyid, modelid, where known."""

    name: str
    attributes: Mapping[str, str]
    guest: bool


def numa_nodes(sysfs: Sysfs) -> tuple[NumaNode, ...]:
    """The NUMA nodes with CPUs, by number; one of all CPUs where the system lists none."""
    found = []
    for name in sysfs.folder(NODES):
        if match := re.fullmatch(r"node(\d{1,4})", name, re.ASCII):
            cpus = cpu_list(sysfs.text(f"{NODES}/{name}/cpulist"))
            if cpus:  # others are memory only
                found.append(_node(sysfs, int(match[1]), cpus, f"{NODES}/{name}"))
    if found:
        return tuple(found)
    cpus = cpu_list(sysfs.text(f"{CPUS}/online")) or tuple(range(_cpuinfo_count(sysfs)))
    return (_node(sysfs, -1, cpus, ""),)


def processor(sysfs: Sysfs) -> Processor:
    """The CPU's maker, family and model; on ARM the implementer's."""
    fields = _cpuinfo(sysfs)
    attributes = {
        "vendor": fields.get("vendor_id", ""),
        "familyid": fields.get("cpu family", ""),
        "modelid": fields.get("model", ""),
    }
    name = "".join(filter(str.isprintable, fields.get("model name", "")))
    if "CPU implementer" in fields:
        maker = ARM_MAKERS.get(number(fields["CPU implementer"]), "")
        part = fields.get("CPU part", "")
        attributes = {"arch": "arm64", "vendor": maker, "modelid": part}
        name = name or f"{maker} {part}".strip()
    elif attributes["vendor"]:
        attributes["arch"] = "x86_64"
    elif "POWER" in fields.get("cpu", ""):
        attributes, name = {"arch": "ppc64"}, fields["cpu"]
    guest = "hypervisor" in fields.get("flags", "").split()
    return Processor(name, {key: text for key, text in attributes.items() if text}, guest)


def _cpuinfo(sysfs: Sysfs) -> dict[str, str]:
    """The fields of the first CPU."""
    first = sysfs.text("proc/cpuinfo").split("\n\n")[0]
    pairs = (line.partition(":") for line in first.splitlines())
    return {key.strip(): text.strip() for key, _, text in pairs}


def _cpuinfo_count(sysfs: Sysfs) -> int:
    return min(len(re.findall(r"^processor\s*:", sysfs.text("proc/cpuinfo"), re.MULTILINE)), MOST_CPUS)


def _node(sysfs: Sysfs, at: int, cpus: tuple[int, ...], folder: str) -> NumaNode:
    package = sysfs.number(f"{CPUS}/cpu{cpus[0]}/topology/physical_package_id") if cpus else -1
    memory = re.search(r"MemTotal:\s+(\d{1,15}) kB", sysfs.text(f"{folder}/meminfo" if folder else "proc/meminfo"))
    return NumaNode(at, cpus, package, _caches(sysfs, cpus), 1024 * int(memory[1]) if memory else 0)


def _caches(sysfs: Sysfs, cpus: tuple[int, ...]) -> tuple[str, ...]:
    """As `16 × L3 32 MiB, each of 8 CPUs`: from the second level up, those of the node. A CPU all of whose caches an
    earlier one has is not looked at."""
    found: dict[tuple[int, int, int], set[tuple[int, ...]]] = {}
    known: set[int] = set()
    for cpu in cpus[:MOST_CPUS]:
        if cpu in known:
            continue
        folder, shared = f"{CPUS}/cpu{cpu}/cache", set(cpus)
        for index in sysfs.folder(folder):
            level = sysfs.number(f"{folder}/{index}/level")
            kib = _kib(sysfs.text(f"{folder}/{index}/size")) if level >= 2 else 0
            if kib and sysfs.text(f"{folder}/{index}/type") != "Instruction":
                sharing = cpu_list(sysfs.text(f"{folder}/{index}/shared_cpu_list")) or (cpu,)
                found.setdefault((level, kib, len(sharing)), set()).add(sharing)
                shared &= set(sharing)
        known |= shared
    return tuple(_cache(len(each), *look) for look, each in sorted(found.items()))


def _cache(count: int, level: int, kib: int, sharing: int) -> str:
    size = f"{kib // 1024} MiB" if kib % 1024 == 0 else f"{kib} KiB"
    many = f"{count} × " if count > 1 else ""
    return f"{many}L{level} {size}" + (f", {'each ' * (count > 1)}of {sharing} CPUs" if sharing > 1 else "")


def _kib(text: str) -> int:
    found = re.fullmatch(r"(\d{1,9})([KMG])", text)
    return int(found[1]) << {"K": 0, "M": 10, "G": 20}[found[2]] if found else 0
