"""A machine as a tree: the devices below each NUMA node. The links that are no branches join the rest."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import NamedTuple

from ringtree.machines.machine import Device, DeviceKind, Link, LinkKind, Machine

HOLDING = (LinkKind.PCIE, LinkKind.SHM)
"""The links by which a device hangs on another; where these lead nowhere, any that leaves a NUMA node."""
DEEPEST = 64
"""The most devices that may hang on one another; PCIe has 256 buses, machines at most ten or so."""
ENDS = (DeviceKind.NVSWITCH, DeviceKind.SWITCH)
"""Kinds of devices that join others, and so hang on none."""


@dataclass(frozen=True, slots=True)
class Branch:
    """`devices` are several where they were folded: alike, with branches alike. `link` leads to the first of them from
    what it hangs on."""

    devices: tuple[int, ...]
    link: Link | None = None
    branches: tuple[Branch, ...] = ()

    @property
    def rows(self) -> int:
        """The lines of this branch and all below it."""
        return 1 + sum(b.rows for b in self.branches)


class Bundle(NamedTuple):
    """Links alike between pairs of devices: each pair once, the lower number first. `link`: from the first to the
    second, several in parallel as one; `back_Bps` the bandwidth of the other direction."""

    link: Link
    back_Bps: float
    pairs: tuple[tuple[int, int], ...]


def tree(machine: Machine) -> tuple[Branch, ...]:
    """A branch a NUMA node, then those that hang on none. ValueError where more than DEEPEST hang on one another."""
    held = _holders(machine)
    _refuse_deep(machine, held)
    below: dict[int, list[int]] = {}
    for device, link in held.items():
        if link is not None:
            below.setdefault(link.source, []).append(device)
    roots = [n for n in held if held[n] is None]
    return tuple(_branch(n, held, below) for n in sorted(roots, key=lambda n: (not _is_cpu(machine, n), n)))


def fold(machine: Machine, branches: Sequence[Branch], most: int) -> tuple[Branch, ...]:
    """At most `most` rows, if that goes: neighbours that are alike as one, first those on which nothing hangs, then all
    with what is below them."""
    folded = tuple(branches)
    for ends_only in (True, False):
        if sum(b.rows for b in folded) > most:
            folded = _folded(machine, folded, ends_only)
    return folded


def _folded(machine: Machine, branches: Sequence[Branch], ends_only: bool) -> tuple[Branch, ...]:
    inside = [Branch(b.devices, b.link, _folded(machine, b.branches, ends_only)) for b in branches]
    found: list[Branch] = []
    for _, group in groupby(inside, key=lambda b: _look(machine, b)):
        alike = list(group)
        found += alike if ends_only and alike[0].branches else [_merged(alike)]
    return tuple(found)


def bundles(machine: Machine) -> tuple[Bundle, ...]:
    """The links that are no branches, those alike together."""
    branches = {frozenset((k.source, k.target)) for k in _holders(machine).values() if k is not None}
    directed: dict[tuple[int, int, LinkKind], Link] = {}
    for link in machine.links:
        if frozenset((link.source, link.target)) not in branches:
            key = (link.source, link.target, link.kind)
            directed[key] = _together(directed[key], link) if key in directed else link
    found: dict[tuple[object, ...], list[Link]] = {}
    for (source, target, kind), link in directed.items():
        if source < target or (target, source, kind) not in directed:
            back = directed.get((target, source, kind))
            ends = (machine.devices[source].kind, machine.devices[target].kind)
            look = (kind, link.generation, link.width, link.bandwidth_Bps, back and back.bandwidth_Bps, ends)
            found.setdefault(look, []).append(link)
    return tuple(_bundle(links, directed) for links in found.values())


def _together(one: Link, other: Link) -> Link:
    """Two links from one device to another."""
    return replace(one, bandwidth_Bps=one.bandwidth_Bps + other.bandwidth_Bps, width=one.width + other.width)


def _bundle(links: Sequence[Link], directed: Mapping[tuple[int, int, LinkKind], Link]) -> Bundle:
    back = directed.get((links[0].target, links[0].source, links[0].kind))
    pairs = tuple((k.source, k.target) for k in links)
    return Bundle(links[0], back.bandwidth_Bps if back else 0.0, pairs)


def _holders(machine: Machine) -> dict[int, Link | None]:
    """The link by which each device is reached from its NUMA node, None for one on which others begin to hang. Switches
    of a network hang on nothing."""
    held: dict[int, Link | None] = dict.fromkeys(machine.of_kind(DeviceKind.CPU))
    _grow(machine, held, list(held), HOLDING)
    for n in machine.of_kind(DeviceKind.CPU):
        for link in (machine.links[k] for k in machine.leaving(n)):
            if link.target not in held and machine.devices[link.target].kind not in ENDS:
                held[link.target] = link
                _grow(machine, held, [link.target], HOLDING)
    for n, device in enumerate(machine.devices):
        if n not in held and device.kind not in ENDS:  # without a known NUMA node: a tree of its own
            held[n] = None
            _grow(machine, held, [n], HOLDING)
    return held


def _grow(machine: Machine, held: dict[int, Link | None], begin: Sequence[int], kinds: Sequence[LinkKind]) -> None:
    waiting = deque(begin)
    while waiting:
        for link in (machine.links[n] for n in machine.leaving(waiting.popleft())):
            if link.kind in kinds and link.target not in held and machine.devices[link.target].kind not in ENDS:
                held[link.target] = link
                waiting.append(link.target)


def _is_cpu(machine: Machine, device: int) -> bool:
    return machine.devices[device].kind is DeviceKind.CPU


def _branch(device: int, held: dict[int, Link | None], below: dict[int, list[int]]) -> Branch:
    return Branch((device,), held[device], tuple(_branch(n, held, below) for n in sorted(below.get(device, ()))))


def _refuse_deep(machine: Machine, held: Mapping[int, Link | None]) -> None:
    depth: dict[int, int] = {}
    for device, link in held.items():  # each after what it hangs on
        depth[device] = 1 + depth[link.source] if link else 0
        if depth[device] > DEEPEST:
            name = machine.devices[device].name
            raise ValueError(f"{machine.name}: {name} hangs below {DEEPEST} others; expected fewer, to draw them")


def _look(machine: Machine, branch: Branch) -> tuple[object, ...]:
    """The properties by which two branches are compared; equal where they are alike."""
    link = branch.link
    how = None if link is None else (link.kind, link.generation, link.width, link.bandwidth_Bps)
    return (
        len(branch.devices),
        _kind(machine.devices[branch.devices[0]]),
        how,
        *(_look(machine, b) for b in branch.branches),
    )


def _kind(device: Device) -> tuple[object, ...]:
    return device.kind, device.vendor, device.model, device.rate_Bps, device.gdr


def _merged(group: Sequence[Branch]) -> Branch:
    """Branches alike as one, of all their devices."""
    first = group[0]
    inside = (tuple(b.branches[i] for b in group) for i in range(len(first.branches)))
    return Branch(tuple(n for b in group for n in b.devices), first.link, tuple(map(_merged, inside)))
