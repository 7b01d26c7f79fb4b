"""The XML in which NCCL dumps and takes its channels (NCCL_GRAPH_DUMP_FILE, NCCL_GRAPH_FILE).

A file has no place in it for a machine: a GPU is the number NVML gives it, in hex, with its host in the top eight of 64
bits; here it is the local rank. Source: NVIDIA/nccl 2.30.7, src/graph/search.cc and xml.h.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ringtree.topology.channels import Channels, Pattern
from ringtree.topology.file_bytes import file_bytes
from ringtree.topology.machine import PathKind
from ringtree.topology.xml_elements import MOST_BYTES, Element, elements

IDS = {
    Pattern.RING: 0,
    Pattern.TREE: 1,
    Pattern.COLLNET_CHAIN: 2,
    Pattern.NVLS: 3,
    Pattern.COLLNET_DIRECT: 4,
}
"""What NCCL calls a graph by; TREE stands for every kind of tree."""
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
HOST_BIT = 56
MOST_HOSTS = 1 << 7
MOST_DEVICES = 640
MOST_CHANNELS = 64
MOST_CHILDREN = 640
MOST_ELEMENTS = 65536
FASTEST_GBps = 1e6


def read(path: str | Path) -> dict[Pattern, Channels]:
    """The graphs of a file, by what NCCL takes them for. GPUs are renamed to local ranks, in the order of their hosts
    and numbers; an NVLS channel's head is followed by the other GPUs. ValueError in one line where NCCL would refuse
    the file, or read past its arrays."""
    data = file_bytes(path, "an NCCL graph file (<graphs version=…>)", MOST_BYTES)
    root = elements(data, str(path))
    if root.tag != "graphs":
        root.refuse("expected <graphs>, as NCCL_GRAPH_DUMP_FILE writes it")
    root.whole("version", 1, 1)
    graphs = [g for g in root.children if g.tag == "graph" and g.whole("nchannels", 0, MOST_CHANNELS)]
    if not graphs:
        root.refuse("no <graph> with channels; expected one at least")
    ranks = _ranks(graphs)
    found: dict[Pattern, Channels] = {}
    for graph in graphs:
        key = next(p for p, n in IDS.items() if n == graph.whole("id", 0, len(IDS) - 1))
        if key in found:
            graph.refuse(f'a second graph of id="{IDS[key]}"; expected one of each')
        found[key] = _channels(graph, key, ranks)
    return found


def write(found: Mapping[Pattern, Channels], hosts: Sequence[int] | None = None) -> str:
    """The file. `hosts`: for each GPU which host it is in, where one machine is several (a rack); GPUs are numbered
    within their host. Ranks are not written: every host of a job reads the same file."""
    devs = _devices(max((len(o) for c in found.values() for o in c.orders), default=0), hosts)
    lines = ['<graphs version="1">']
    for pattern, number in IDS.items():
        if pattern in found:
            lines += _graph(found[pattern], pattern, number, devs)
    lines.append("</graphs>")
    if (tags := sum(line.count("<") - line.count("</") for line in lines)) > MOST_ELEMENTS:
        raise ValueError(
            f"{tags:,} elements in a graph file; NCCL reads at most {MOST_ELEMENTS:,}: export fewer graphs"
        )
    return "\n".join(lines) + "\n"


def _ranks(graphs: Sequence[Element]) -> dict[int, int]:
    """Local ranks by what the file calls a GPU."""
    devs = {_dev(gpu) for graph in graphs for channel in graph.inside("channel") for gpu in channel.inside("gpu")}
    if len(devs) > MOST_DEVICES:
        graphs[0].refuse(f"{len(devs)} GPUs in the file; expected at most {MOST_DEVICES}")
    return {dev: rank for rank, dev in enumerate(sorted(devs))}


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


def _channels(graph: Element, key: Pattern, ranks: Mapping[int, int]) -> Channels:
    number = graph.whole("pattern", 1, 6)
    pattern = key if NUMBERS[key] == number else next(p for p, n in NUMBERS.items() if n == number)
    channels = graph.inside("channel")
    told = graph.whole("nchannels", 0, MOST_CHANNELS)
    if told != len(channels):
        graph.refuse(f"nchannels={told} and {len(channels)} <channel>; expected as many")
    nets = [tuple(_dev(net) for net in channel.inside("net")) for channel in channels]
    for channel, own in zip(channels, nets, strict=True):
        if len(own) not in (0, 2) or len(own) != len(nets[0]):
            channel.refuse(f"{len(own)} <net>; expected one where it comes in and one where it leaves, or none")
    return Channels(
        pattern,
        tuple(_order(channel, ranks, key) for channel in channels),
        tuple((own[0], own[1]) for own in nets if own),
        intra_Bps=graph.number("speedintra", 0, FASTEST_GBps) * 1e9,
        inter_Bps=graph.number("speedinter", 0, FASTEST_GBps) * 1e9,
        intra=_kind(graph, "typeintra"),
        inter=_kind(graph, "typeinter"),
        inter_latency_s=graph.number("latencyinter", 0, 1e9, 0.0) / 1e6,
        cross_nic=graph.whole("crossnic", 0, 2),
        same=bool(graph.whole("samechannels", 0, 1)),
    )


def _order(channel: Element, ranks: Mapping[int, int], key: Pattern) -> tuple[int, ...]:
    order = [ranks[_dev(gpu)] for gpu in channel.inside("gpu")]
    if key is Pattern.NVLS and len(order) == 1:
        return (*order, *(rank for rank in ranks.values() if rank != order[0]))
    if sorted(order) != list(ranks.values()):
        channel.refuse(f"{len(order)} <gpu>, {len(set(order))} of them different; expected each of {len(ranks)} once")
    return tuple(order)


def _kind(graph: Element, name: str) -> PathKind:
    text = graph.text(name)
    if text not in KINDS:
        graph.refuse(f"expected {name} to be one of {', '.join(KINDS)}")
    return KINDS[text]


def _devices(gpus: int, hosts: Sequence[int] | None) -> list[int]:
    if hosts is None:
        return list(range(gpus))
    if len(hosts) < gpus or not all(0 <= host < MOST_HOSTS for host in hosts):
        raise ValueError(f"hosts of {len(hosts)} GPUs; expected {gpus}, each of 0..{MOST_HOSTS - 1}")
    count: dict[int, int] = {}
    devs = []
    for host in hosts:
        devs.append(host << HOST_BIT | count.get(host, 0))
        count[host] = count.get(host, 0) + 1
    return devs


def _graph(channels: Channels, pattern: Pattern, number: int, devs: Sequence[int]) -> list[str]:
    if not 0 < channels.count <= MOST_CHANNELS:
        raise ValueError(f"{pattern.value}: {channels.count} channels; NCCL takes 1..{MOST_CHANNELS}")
    told = {
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
    lines = ["  <graph " + " ".join(f'{key}="{value}"' for key, value in told.items()) + ">"]
    for c, order in enumerate(channels.orders):
        gpus = [f'      <gpu dev="{devs[g]:#x}"/>' for g in (order[:1] if pattern is Pattern.NVLS else order)]
        nets = [f'      <net dev="{nic:#x}"/>' for nic in channels.nics[c]] if channels.nics else []
        if len(gpus) + len(nets) > MOST_CHILDREN:
            raise ValueError(f"{pattern.value}: a channel of {len(gpus)} GPUs; NCCL reads at most {MOST_CHILDREN - 2}")
        lines += ["    <channel>", *nets[:1], *gpus, *nets[1:], "    </channel>"]
    return [*lines, "  </graph>"]


def _written(kind: PathKind) -> str:
    return next((name for name, known in KINDS.items() if known >= kind), "SYS")
