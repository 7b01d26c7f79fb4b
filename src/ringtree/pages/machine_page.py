"""A machine as a page: its devices and links as a picture, the matrix of its paths, the channels laid over it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ringtree.draw import machine_words
from ringtree.draw.machine_matrix import PathMatrix, matrix, rules
from ringtree.draw.machine_tree import Branch, tree
from ringtree.machines.channels import Channels
from ringtree.machines.clusters import Cluster
from ringtree.machines.copies import CopyRoute, side_by_side
from ringtree.machines.machine import Device, Link, LinkKind, Machine, NoteKind, PathKind
from ringtree.machines.paths import Paths
from ringtree.pages import assemble, encode

MOST_DEVICES = 4096
NOTES = (NoteKind.UNKNOWN, NoteKind.TRAP, NoteKind.ASSUMED, NoteKind.SOURCE)
"""Kinds of notes in the order in which the page lists them."""
MOST_ROUTED = 160
"""GPUs and NICs of a machine whose paths the page has link by link."""


def machine_page(cluster: Cluster, channels: Sequence[Channels] = (), between: tuple[int, int] = (0, 1)) -> str:
    """The page of a machine of the cluster, with those channels and the routes between two GPUs, by local rank.
    ValueError where it is too large for a browser."""
    return assemble(cluster.name, ["machine"], {"machine": machine_data(cluster, channels, between)})


def machine_data(
    cluster: Cluster, channels: Sequence[Channels] = (), between: tuple[int, int] = (0, 1)
) -> dict[str, Any]:
    """The input of the machine's view, as JSON."""
    machine = cluster.machine
    if len(machine.devices) > MOST_DEVICES:
        much = f"{len(machine.devices):,} devices; expected at most {MOST_DEVICES:,}"
        raise ValueError(f"{machine.name}: too large for a page: {much}")
    links = _links(machine)
    number = {(k["a"], k["b"], k["kind"]): n for n, k in enumerate(links)}
    paths, joined = Paths(machine), machine_words.joined(machine)
    found = matrix(paths)
    return {
        "name": machine.name,
        "gpu": ", ".join(dict.fromkeys(machine_words.about(machine.devices[g]) for g in machine.gpus)),
        "joined": None if joined is None else joined._asdict(),
        "network": _network(cluster),
        "devices": [_device(d) for d in machine.devices],
        "links": links,
        "tree": [_branch(machine, b, number) for b in tree(machine)],
        "kinds": [kind.name for kind in PathKind],
        "matrix": _matrix(machine, found, number),
        "rules": [rule._asdict() for rule in rules(paths, cluster.fabric)],
        "notes": [note for kind in NOTES for note in _notes(machine, kind)],
        "channels": [_channels(c) for c in channels if c.count],
        "between": [machine.devices[machine.gpus[g]].name for g in between if g < len(machine.gpus)],
        "ways": [_route(route) for route in _routes(cluster, between)],
    }


def _routes(cluster: Cluster, between: tuple[int, int]) -> tuple[CopyRoute, ...]:
    """The routes of a copy between two GPUs; empty where there are not two, or a path is unknown."""
    if max(between) >= len(cluster.machine.gpus):
        return ()
    try:
        return side_by_side(cluster.machine, *between, cluster.fabric)
    except ValueError:
        return ()


def _route(route: CopyRoute) -> dict[str, Any]:
    steps = [
        {
            "what": c.what,
            "source": c.source,
            "target": c.target,
            "by": c.by.value,
            "bandwidth_Bps": min(c.bandwidth_Bps, 1e18),
            "latency_s": c.latency_s,
            "lands": c.lands,
        }
        for c in route.copies
    ]
    return {
        "way": route.way,
        "applies": route.verdict.applies,
        "why": route.verdict.why,
        "stops": route.stops,
        "bandwidth_Bps": min(route.bandwidth_Bps, 1e18),
        "MiB_s": route.pipelined_s(1 << 20),
        "copies": steps,
    }


def _notes(machine: Machine, kind: NoteKind) -> list[dict[str, str]]:
    return [{"kind": kind.value, "about": n.about, "text": n.text} for n in machine.notes if n.kind is kind]


def _network(cluster: Cluster) -> dict[str, Any] | None:
    if cluster.nodes == 1:
        return None
    return {
        "nodes": cluster.nodes,
        "ranks": cluster.ranks,
        "fabric": cluster.fabric.name if cluster.fabric else "",
        "network": cluster.network.value.replace("_", " "),
        "oversubscription": cluster.oversubscription,
    }


def _device(d: Device) -> dict[str, Any]:
    return {
        "name": d.name,
        "kind": d.kind.value,
        "about": machine_words.about(d),
        "busid": d.busid,
        "numa": d.numa,
        "sm": d.sm,
        "gdr": d.gdr,
        "rate_Bps": d.rate_Bps,
        "further": list(machine_words.further(d)),
    }


def _links(machine: Machine) -> list[dict[str, Any]]:
    """Each pair of devices once for each kind of link between them; several in parallel as one."""
    directed: dict[tuple[int, int, LinkKind], list[Link]] = {}
    for k in machine.links:
        directed.setdefault((k.source, k.target, k.kind), []).append(k)
    found = []
    for (a, b, kind), there in directed.items():
        back = directed.get((b, a, kind), [])
        if a < b or not back:
            found.append(
                {
                    "a": min(a, b),
                    "b": max(a, b),
                    "kind": kind.value,
                    "generation": there[0].generation,
                    "width": sum(k.width for k in there),
                    "there_Bps": _together(there if a < b else back),
                    "back_Bps": _together(back if a < b else there),
                    "latency_s": there[0].latency_s,
                    "words": machine_words.link(there[0]),
                }
            )
    return found


def _together(links: Sequence[Link]) -> float:
    """The bandwidth of links side by side, in B/s; JSON has no infinity."""
    return min(sum(k.bandwidth_Bps for k in links), 1e18)


def _branch(machine: Machine, branch: Branch, number: dict[tuple[int, int, str], int]) -> list[Any]:
    """[device, its link's number or -1, branches]."""
    link = -1 if branch.link is None else number[_key(branch.link)]
    return [branch.devices[0], link, [_branch(machine, b, number) for b in branch.branches]]


def _key(link: Link) -> tuple[int, int, str]:
    return min(link.source, link.target), max(link.source, link.target), link.kind.value


def _matrix(machine: Machine, found: PathMatrix, number: dict[tuple[int, int, str], int]) -> dict[str, Any]:
    """Row by row; `first` is where each pair's path begins among `links`, None where that would be too much."""
    data: dict[str, Any] = {
        "devices": list(found.devices),
        "kinds": encode(found.kinds.ravel()),
        "bandwidths_MBps": encode(np.rint(np.minimum(found.bandwidths_Bps, 1e15) / 1e6).astype(np.int64).ravel()),
        "routes": None,
    }
    if 0 < len(found.devices) <= MOST_ROUTED:
        every = [found.paths.between(a, b).links for a in found.devices for b in found.devices]
        links = [number[_key(machine.links[n])] for route in every for n in route]
        first = np.cumsum([0, *map(len, every)])
        data["routes"] = {"first": encode(first), "count": len(links), "links": encode(np.array(links, dtype=np.int64))}
    return data


def _channels(c: Channels) -> dict[str, Any]:
    return {
        "pattern": c.pattern.value,
        "orders": [list(order) for order in c.orders],
        "nics": [list(pair) for pair in c.nics],
        "intra_Bps": c.intra_Bps,
        "inter_Bps": c.inter_Bps,
        "intra": c.intra.name,
        "inter": c.inter.name,
    }
