"""The XML in which NCCL dumps and takes its channels (NCCL_GRAPH_DUMP_FILE, NCCL_GRAPH_FILE).

A GPU or NIC is its number within its host, in hex, with the host in the top eight of 64 bits: a rack is several hosts.
Here it is a local rank, or a position among the machine's NICs.
Source: NVIDIA/nccl 2.30.7, src/graph/search.cc and xml.h.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ringtree.files.file_bytes import file_bytes
from ringtree.machines.channels import Channels, Pattern
from ringtree.machines.files.xml_elements import MOST_BYTES, Element, elements
from ringtree.machines.machine import DeviceKind, Machine, PathKind

IDS = {
    Pattern.RING: 0,
    Pattern.TREE: 1,
    Pattern.COLLNET_CHAIN: 2,
    Pattern.NVLS: 3,
    Pattern.COLLNET_DIRECT: 4,
}
"""NCCL's number of a pattern; TREE stands for every kind of tree."""
NUMBERS = {
    Pattern.BALANCED_TREE: 1,
    Pattern.SPLIT_TREE: 2,
    Pattern.TREE: 3,
    Pattern.RING: 4,
    Pattern.NVLS: 5,
    Pattern.COLLNET_DIRECT: 6,
    Pattern.COLLNET_CHAIN: 3,
}
KINDS = {k.name: k for k in PathKind if k not in (PathKind.C2C, PathKind.NET, PathKind.DIS)}
"""The path types NCCL can read; the others are written as the next farther one, the farthest as SYS."""
BETWEEN_HOSTS = (DeviceKind.NVSWITCH, DeviceKind.SWITCH)
HOST_BIT = 56
MOST_HOSTS = 1 << 7
MOST_DEVICES = 640
MOST_CHANNELS = 64
MOST_CHILDREN = 640
MOST_ELEMENTS = 65536
FASTEST_GBps = 1e6


def read(path: str | Path, machine: Machine | None = None) -> dict[Pattern, Channels]:
    """The graphs of a file, by NCCL's pattern. Without a machine, GPUs are numbered in the order of their
    hosts and numbers, and so are NICs where there are several hosts. An NVLS channel's head is followed by the other
    GPUs. ValueError in one line where NCCL would refuse the file, or read past its arrays."""
    data = file_bytes(path, "an NCCL graph file (<graphs version=…>)", MOST_BYTES)
    root = elements(data, str(path))
    if root.tag != "graphs":
        root.refuse("expected <graphs>, as NCCL_GRAPH_DUMP_FILE writes it")
    root.whole("version", 1, 1)
    graphs = [g for g in root.children if g.tag == "graph" and g.whole("nchannels", 0, MOST_CHANNELS)]
    if not graphs:
        root.refuse("no <graph> with channels; expected one at least")
    names = _Names.of(graphs, machine)
    found: dict[Pattern, Channels] = {}
    for graph in graphs:
        key = next(p for p, n in IDS.items() if n == graph.whole("id", 0, len(IDS) - 1))
        if key in found:
            graph.refuse(f'a second graph of id="{IDS[key]}"; expected one of each')
        found[key] = _channels(graph, key, names)
    return found


def write(found: Mapping[Pattern, Channels], machine: Machine | None = None) -> str:
    """The file. `machine`: the one with the channels, needed where it is a rack of several hosts. Ranks are not
    written: every host of a job reads the same file."""
    gpus, nics = _numbers(machine, DeviceKind.GPU), _numbers(machine, DeviceKind.NIC)
    lines = ['<graphs version="1">']
    for pattern, number in IDS.items():
        if pattern in found:
            lines += _graph(found[pattern], pattern, number, gpus, nics)
    lines.append("</graphs>")
    if (tags := sum(line.count("<") - line.count("</") for line in lines)) > MOST_ELEMENTS:
        raise ValueError(
            f"{tags:,} elements in a graph file; NCCL reads at most {MOST_ELEMENTS:,}: export fewer graphs"
        )
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class _Names:
    """The numbers of the file's devices in ringtree."""

    gpus: Mapping[int, int]
    nics: Mapping[int, int]

    @staticmethod
    def of(graphs: Sequence[Element], machine: Machine | None) -> _Names:
        channels = [channel for graph in graphs for channel in graph.inside("channel")]
        if machine is not None:
            kinds = (DeviceKind.GPU, DeviceKind.NIC)
            return _Names(*({dev: n for n, dev in enumerate(_numbers(machine, kind) or ())} for kind in kinds))
        gpus, nics = (sorted({_dev(e) for c in channels for e in c.inside(tag)}) for tag in ("gpu", "net"))
        if len(gpus) > MOST_DEVICES:
            graphs[0].refuse(f"{len(gpus)} GPUs in the file; expected at most {MOST_DEVICES}")
        several = bool(nics) and nics[-1] >> HOST_BIT > 0
        positions = {dev: n if several else dev for n, dev in enumerate(nics)}
        return _Names({dev: n for n, dev in enumerate(gpus)}, positions)

    def position(self, element: Element) -> int:
        """A GPU's local rank, a NIC's position among the machine's NICs."""
        dev, known = _dev(element), self.gpus if element.tag == "gpu" else self.nics
        if dev not in known:
            element.refuse(f"no such {element.tag} in the machine; expected one of {len(known)}")
        return known[dev]


def _numbers(machine: Machine | None, kind: DeviceKind) -> list[int] | None:
    """The file's numbers of the machine's devices of a kind; their positions where there is no machine."""
    if machine is None:
        return None
    of, count, numbers = hosts(machine), Counter[int](), list[int]()
    for device in machine.of_kind(kind):
        if of[device] >= MOST_HOSTS:
            raise ValueError(f"{machine.name}: {max(of) + 1} hosts; a graph file names at most {MOST_HOSTS}")
        numbers.append(of[device] << HOST_BIT | count[of[device]])
        count[of[device]] += 1
    return numbers


def _dev(element: Element) -> int:
    """A device's number: hex, with or without 0x."""
    text = element.text("dev")
    try:
        dev = int(text, 16)
    except ValueError:
        dev = -1
    local = dev & (1 << HOST_BIT) - 1
    if not (0 <= dev < MOST_HOSTS << HOST_BIT and local < 1 << 16) or "_" in text:
        element.refuse(f"expected a device number in hex, the host in its top 8 of 64 bits, of 0..{(1 << 16) - 1:#x}")
    return dev


def _channels(graph: Element, key: Pattern, names: _Names) -> Channels:
    number = graph.whole("pattern", 1, 6)
    pattern = key if NUMBERS[key] == number else next(p for p, n in NUMBERS.items() if n == number)
    channels = graph.inside("channel")
    count = graph.whole("nchannels", 0, MOST_CHANNELS)
    if count != len(channels):
        graph.refuse(f"nchannels={count} and {len(channels)} <channel>; expected as many")
    nets = [tuple(names.position(net) for net in channel.inside("net")) for channel in channels]
    for channel, own in zip(channels, nets, strict=True):
        if len(own) not in (0, 2) or len(own) != len(nets[0]):
            channel.refuse(f"{len(own)} <net>; expected one where it comes in and one where it leaves, or none")
    return Channels(
        pattern,
        tuple(_order(channel, names, key) for channel in channels),
        tuple((own[0], own[1]) for own in nets if own),
        intra_Bps=graph.number("speedintra", 0, FASTEST_GBps) * 1e9,
        inter_Bps=graph.number("speedinter", 0, FASTEST_GBps) * 1e9,
        intra=_kind(graph, "typeintra"),
        inter=_kind(graph, "typeinter"),
        inter_latency_s=graph.number("latencyinter", 0, 1e9, 0.0) / 1e6,
        cross_nic=graph.whole("crossnic", 0, 2),
        same=bool(graph.whole("samechannels", 0, 1)),
    )


def _order(channel: Element, names: _Names, key: Pattern) -> tuple[int, ...]:
    order = [names.position(gpu) for gpu in channel.inside("gpu")]
    all_gpus = sorted(names.gpus.values())
    if key is Pattern.NVLS and len(order) == 1:
        return (*order, *(gpu for gpu in all_gpus if gpu != order[0]))
    if sorted(order) != all_gpus:
        channel.refuse(
            f"{len(order)} <gpu>, {len(set(order))} of them different; expected each of {len(all_gpus)} once"
        )
    return tuple(order)


def _kind(graph: Element, name: str) -> PathKind:
    text = graph.text(name)
    if text not in KINDS:
        graph.refuse(f"expected {name} to be one of {', '.join(KINDS)}")
    return KINDS[text]


def _graph(
    channels: Channels, pattern: Pattern, number: int, gpus: list[int] | None, nics: list[int] | None
) -> list[str]:
    if not 0 < channels.count <= MOST_CHANNELS:
        raise ValueError(f"{pattern.value}: {channels.count} channels; NCCL takes 1..{MOST_CHANNELS}")
    attributes = {
        "id": number,
        "pattern": NUMBERS[channels.pattern],
        "crossnic": channels.cross_nic,
        "nchannels": channels.count,
        "speedintra": f"{channels.intra_Bps / 1e9:.9g}",
        "speedinter": f"{channels.inter_Bps / 1e9:.9g}",
        "latencyinter": f"{channels.inter_latency_s * 1e6:.9g}",
        "typeintra": _written(channels.intra),
        "typeinter": _written(channels.inter),
        "samechannels": int(channels.same),
    }
    lines = ["  <graph " + " ".join(f'{key}="{value}"' for key, value in attributes.items()) + ">"]
    for c, order in enumerate(channels.orders):
        named = [_tag("gpu", gpu, gpus) for gpu in (order[:1] if pattern is Pattern.NVLS else order)]
        nets = [_tag("net", nic, nics) for nic in channels.nics[c]] if channels.nics else []
        if len(named) + len(nets) > MOST_CHILDREN:
            raise ValueError(f"{pattern.value}: a channel of {len(named)} GPUs; NCCL reads at most {MOST_CHILDREN - 2}")
        lines += ["    <channel>", *nets[:1], *named, *nets[1:], "    </channel>"]
    return [*lines, "  </graph>"]


def _tag(tag: str, position: int, numbers: list[int] | None) -> str:
    if numbers is not None and position >= len(numbers):
        raise ValueError(f"a channel's {tag} {position}; expected one of the machine's {len(numbers)}")
    return f'      <{tag} dev="{position if numbers is None else numbers[position]:#x}"/>'


def _written(kind: PathKind) -> str:
    return next((name for name, known in KINDS.items() if known >= kind), "SYS")


def hosts(machine: Machine) -> tuple[int, ...]:
    """The number of each device's host, hosts in the order of their first devices. Devices that links join otherwise
    than through NVSwitches or a network are of one host. A device that joins hosts is of the first."""
    above = list(range(len(machine.devices)))

    def top(device: int) -> int:
        while above[device] != device:
            above[device] = above[above[device]]
            device = above[device]
        return device

    between = {n for kind in BETWEEN_HOSTS for n in machine.of_kind(kind)}
    for link in machine.links:
        if not {link.source, link.target} & between:
            low, high = sorted((top(link.source), top(link.target)))
            above[high] = low
    number: dict[int, int] = {}
    for device in range(len(machine.devices)):
        if device not in between:
            number.setdefault(top(device), len(number))
    return tuple(0 if d in between else number[top(d)] for d in range(len(machine.devices)))
