"""NUMA nodes as devices, and the links between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from ringtree.topology import parts
from ringtree.topology.building import Builder
from ringtree.topology.detect.cpus import NumaNode, Processor
from ringtree.topology.machine import Device, DeviceKind, LinkKind, NoteKind

UNKNOWN_Bps = 60e9
"""Between NUMA nodes of a CPU that no table knows."""


def add(builder: Builder, nodes: Sequence[NumaNode], cpu: Processor, names: Mapping[int, str]) -> None:
    part = _part(cpu)
    if part is not None:
        builder.note(NoteKind.SOURCE, part.model, part.source)
    for node in nodes:
        told = dict(cpu.attributes) | {"cpus": str(len(node.cpus)), "affinity": _mask(node.cpus)}
        told |= {"caches": "; ".join(node.caches)} if node.caches else {}
        told |= {"memory_bytes": str(node.memory_bytes)} if node.memory_bytes else {}
        vendor = cpu.attributes.get("vendor", "")
        builder.add(
            Device(
                names[node.number],
                DeviceKind.CPU,
                vendor,
                cpu.name,
                numa=node.number,
                attributes=MappingProxyType({key: text for key, text in told.items() if key != "vendor"}),
            )
        )
    for n, a in enumerate(nodes):
        for b in nodes[n + 1 :]:
            same = bool(a.packages) and a.packages == b.packages
            figure = UNKNOWN_Bps if part is None else part.to_numa_Bps if same else part.to_socket_Bps
            builder.link(names[a.number], names[b.number], LinkKind.CPU, figure, latency_s=parts.CPU_LATENCY_S)
    if len(nodes) > 1 and part is None:
        text = f"no table knows this CPU: {UNKNOWN_Bps / 1e9:g} GB/s each way between NUMA nodes is a guess"
        builder.note(NoteKind.ASSUMED, "CPU link", f"{text}; put it right in the file that --json writes")


def _part(cpu: Processor) -> parts.Cpu | None:
    """The CPU of the tables that has its family and model; else the last before it of its maker and family."""
    vendor, family, model = (cpu.attributes.get(key, "") for key in ("vendor", "familyid", "modelid"))
    numbers = int(family) if family.isdecimal() else 0, int(model) if model.isdecimal() else 0
    of_family = [p for p in parts.CPUS.values() if p.vendor == vendor and (p.family, p.modelid) <= numbers]
    return max((p for p in of_family if p.family == numbers[0]), key=lambda p: p.modelid, default=None)


def _mask(cpus: Sequence[int]) -> str:
    """As NCCL and the kernel write it: words of 32 bits, the highest first."""
    bits = sum(1 << cpu for cpu in cpus)
    words = [f"{bits >> shift & 0xFFFFFFFF:08x}" for shift in range(0, max(bits.bit_length(), 1), 32)]
    return ",".join(reversed(words))
