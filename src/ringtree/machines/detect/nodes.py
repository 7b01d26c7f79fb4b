"""NUMA nodes as devices, and the links between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from types import MappingProxyType

from ringtree.machines import parts
from ringtree.machines.building import MachineBuilder
from ringtree.machines.detect.cpus import NumaNode, Processor
from ringtree.machines.machine import Device, DeviceKind, LinkKind, NoteKind

UNKNOWN_Bps = 60e9
"""Between NUMA nodes of a CPU that no table knows."""


def add(
    builder: MachineBuilder,
    nodes: Sequence[NumaNode],
    cpu: Processor,
    names: Mapping[int, str],
    superchip: bool = False,
) -> None:
    """Adds a CPU a node by those names. `superchip`: with GPUs that only Grace has, which else calls itself an Arm."""
    part = parts.CPUS["Grace"] if superchip and cpu.attributes.get("arch") == "arm64" else _part(cpu)
    if part is not None:
        builder.note(NoteKind.SOURCE, part.model, part.source)
    for node in nodes:
        attributes = dict(cpu.attributes) | {"cpus": str(len(node.cpus)), "affinity": _mask(node.cpus)}
        attributes |= {"caches": "; ".join(node.caches)} if node.caches else {}
        attributes |= {"socket": str(node.package)} if node.package >= 0 else {}
        attributes |= {"memory_bytes": str(node.memory_bytes)} if node.memory_bytes else {}
        vendor = part.vendor if superchip and part else cpu.attributes.get("vendor", "")
        builder.add(
            Device(
                names[node.number],
                DeviceKind.CPU,
                vendor,
                part.model if superchip and part else cpu.name,
                numa=node.number,
                attributes=MappingProxyType({key: text for key, text in attributes.items() if key != "vendor"}),
            )
        )
    _join(builder, nodes, names, part)
    if len(nodes) > 1 and part is None:
        text = f"no table knows this CPU: {UNKNOWN_Bps / 1e9:g} GB/s each way between NUMA nodes is a guess"
        builder.note(NoteKind.ASSUMED, "CPU link", f"{text}; put it right in the file that --json writes")


def _join(builder: MachineBuilder, nodes: Sequence[NumaNode], names: Mapping[int, str], part: parts.Cpu | None) -> None:
    """NUMA nodes of a socket are all joined, and of two sockets those at the same position, which share the sockets'
    links."""
    sockets: dict[int, list[NumaNode]] = {}
    for node in nodes:
        sockets.setdefault(node.package if node.package >= 0 else -2 - node.number, []).append(node)
    position = {node.number: n for of in sockets.values() for n, node in enumerate(of)}
    for a, b in combinations(nodes, 2):
        same = a.package == b.package >= 0
        if same or position[a.number] == position[b.number]:
            share = 1 if same else max(len(of) for of in sockets.values())
            figure_Bps = UNKNOWN_Bps if part is None else part.to_numa_Bps if same else part.to_socket_Bps / share
            ends = names[a.number], names[b.number]
            builder.link(*ends, LinkKind.CPU, figure_Bps, latency_s=parts.CPU_LATENCY_S)


def _part(cpu: Processor) -> parts.Cpu | None:
    """The CPU of the tables that is nearest to it."""
    vendor, family, model = (cpu.attributes.get(key, "") for key in ("vendor", "familyid", "modelid"))
    return parts.cpu_by_id(vendor, int(family) if family.isdecimal() else 0, int(model) if model.isdecimal() else 0)


def _mask(cpus: Sequence[int]) -> str:
    """As NCCL and the kernel write it: words of 32 bits, the highest first."""
    bits = sum(1 << cpu for cpu in cpus)
    words = [f"{bits >> shift & 0xFFFFFFFF:08x}" for shift in range(0, max(bits.bit_length(), 1), 32)]
    return ",".join(reversed(words))
