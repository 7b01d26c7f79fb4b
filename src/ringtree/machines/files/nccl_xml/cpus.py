"""The <cpu> elements: NUMA nodes, and the links between them, for which the format has no element."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

from ringtree.machines import parts, pci
from ringtree.machines.files.nccl_xml.parsed import Parsed
from ringtree.machines.files.xml_elements import Element
from ringtree.machines.machine import Device, DeviceKind, Link, LinkKind, NoteKind

_KEPT = ("affinity", "affinity_offset", "arch", "familyid", "modelid", "host_hash")


def add(parsed: Parsed, element: Element) -> int:
    """The NUMA node's number; those that follow are of its host."""
    numa = element.whole("numaid", -1, 65535)
    host = element.attributes.get("host_hash", "")
    if (host, numa) in parsed.nodes:
        element.refuse("a second <cpu> with this numaid on its host; expected one that differs")
    parsed.nodes.add((host, numa))
    numbers = {key: str(element.whole(key, 0, 2**31, 0)) for key in ("familyid", "modelid")}
    several = len({e.attributes.get("host_hash", "") for e in parsed.root.inside("cpu")}) > 1
    hosts = list(dict.fromkeys([*parsed.hosts.values(), host]))
    name = ("cpu" if numa < 0 else f"cpu{numa}") + (f".host{hosts.index(host)}" if several else "")
    name = element.attributes.get("name") or name
    attributes = {key: numbers.get(key, element.attributes[key]) for key in _KEPT if element.attributes.get(key)}
    part = part_of(element)
    vendor = element.attributes.get("vendor", "") or (part.vendor if part else "")
    model = element.attributes.get("model", "") or (part.model if part else "")
    number = parsed.add(element, Device(name, DeviceKind.CPU, vendor, model, numa=numa, attributes=attributes))
    if "numa" in element.attributes:
        parsed.draft.change(number, numa=element.whole("numa", -1, 65535))
    parsed.host = host
    parsed.hosts[number] = host
    parsed.cpus[number] = element
    if numa < 0:
        text = (
            "numaid -1, a virtual machine that does not report its NUMA nodes: all devices look equally near to the "
            "CPU, and threads may be put on the far socket; give a file with the host's nodes"
        )
        parsed.draft.note(NoteKind.TRAP, name, text)
    return number


def part_of(element: Element) -> parts.Cpu | None:
    """The part of that vendor and family whose model is the nearest; AMD's family also as older files have it."""
    vendor, family = element.attributes.get("vendor", ""), element.whole("familyid", 0, 2**31, 0)
    arch, model = element.attributes.get("arch", ""), element.whole("modelid", 0, 2**31, 0)
    if family & 0xF == 0xF and 0x80 <= family <= 0xFF:  # base family 15, the extended one shifted: 143 is 23
        family = 15 + (family >> 4)
    if arch == "arm64" and not vendor:
        return parts.CPUS["Grace"]
    return parts.cpu_by_id(vendor, family, model)


def link(parsed: Parsed) -> None:
    """NUMA nodes of a socket are all joined; of two sockets, those at the same position. A host is taken to have two
    sockets, Arm's NUMA nodes each to be one. The file's own statements take precedence."""
    if any(e.attributes.get("kind") == LinkKind.CPU.value for e in parsed.root.inside("link")):
        return
    for host in dict.fromkeys(parsed.hosts.values()):
        nodes = sorted((n for n, h in parsed.hosts.items() if h == host), key=lambda n: parsed.draft.devices[n].numa)
        if len(nodes) > 1:
            _host(parsed, nodes)


def _host(parsed: Parsed, nodes: list[int]) -> None:
    slots = [s.link.generation for s in parsed.slots if s.link is not None and s.up in nodes]
    known = part_of(parsed.cpus[nodes[0]])
    part = known or likely(max(slots, default=pci.NCCL_DEFAULT_GENERATION))
    per = _per_socket(parsed, nodes)
    socket_Bps = part.to_socket_Bps / per
    for a, b in combinations(range(len(nodes)), 2):
        if a // per == b // per:
            bandwidth = part.to_numa_Bps
        elif a % per == b % per:
            bandwidth = socket_Bps
        else:
            continue
        parsed.draft.join(Link(nodes[a], nodes[b], LinkKind.CPU, bandwidth, parts.CPU_LATENCY_S))
    like = f"joined as {part.model} are" + ("" if known else ", as their own links are missing or unknown")
    ends = "" if per == 1 else ", from a node to that at its position in the other"
    text = f"taken as {len(nodes) // per} sockets, {like}: {socket_Bps / 1e9:g} GB/s each way{ends}"
    parsed.draft.note(NoteKind.ASSUMED, f"{len(nodes)} NUMA nodes", text)


def likely(generation: int) -> parts.Cpu:
    """The socket of that PCIe generation whose links are the slowest: for a CPU of unknown model."""
    known = [c for c in parts.CPUS.values() if c.arch == "x86_64"]
    return min(known, key=lambda c: (abs(c.pcie - generation), c.to_socket_Bps))


def _per_socket(parsed: Parsed, nodes: list[int]) -> int:
    """NUMA nodes of one socket, which are consecutive: as `socket` has them, else as on most machines."""
    sockets = Counter(parsed.cpus[n].attributes.get("socket") for n in nodes)
    if None not in sockets and len(set(sockets.values())) == 1:
        return sockets[parsed.cpus[nodes[0]].attributes.get("socket")]
    each_is_one = len(nodes) % 2 == 1 or parsed.cpus[nodes[0]].attributes.get("arch", "").startswith("arm")
    return 1 if each_is_one else len(nodes) // 2
