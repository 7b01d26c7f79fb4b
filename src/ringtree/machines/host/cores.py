"""The NUMA node and the speed of the cores that a process may run on."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from ringtree.machines.sysfs import Sysfs, cpu_list, number

NODES, CPUS = "sys/devices/system/node", "sys/devices/system/cpu"
KINDS = "cpu_core", "cpu_atom", "cpu_lowpower"
"""Folders of sys/devices that list the cores of a kind, on x86-64 processors with several."""
NEAR = 20
"""Nodes at smaller distances (local memory is at 10) are parts of a socket and taken as one: 11 to 17 where processors
divide theirs, 20 and more between sockets."""
FULL_CAPACITY = 1024
"""The kernel's capacity of a machine's fastest core."""


class Cores(NamedTuple):
    """`node`: the NUMA node that all cores are on, None where the machine has one or shows none, -1 where they are on
    several. `speed`: of the slowest of them, as a share of the machine's fastest; 1 where it is unknown."""

    node: int | None
    speed: float


def cores_of(sysfs: Sysfs, cpus: Collection[int]) -> Cores:
    """The cores with these numbers. Cost: three files where cores are alike and have one node."""
    return Cores(_node(sysfs, set(cpus)), _speed(sysfs, sorted(cpus)))


def cores_below(root: str, cpus: Collection[int]) -> Cores:
    """As `cores_of`, of the host whose files lie below `root`."""
    return cores_of(Sysfs(Path(root)), cpus)


def _node(sysfs: Sysfs, cpus: set[int]) -> int | None:
    online = cpu_list(sysfs.text(f"{NODES}/online"))
    if len(online) < 2:
        return None
    of_node: dict[int, set[int]] = {}
    for node in online:
        distances = [number(text) for text in sysfs.text(f"{NODES}/node{node}/distance").split()]
        near = [other for other, distance in zip(online, distances, strict=False) if 0 <= distance < NEAR]
        if found := cpu_list(sysfs.text(f"{NODES}/node{node}/cpulist")):  # others are memory only
            of_node.setdefault(min([node, *near]), set()).update(found)
    if len(of_node) < 2:
        return None
    return next((node for node, its in of_node.items() if cpus <= its), -1)


def _speed(sysfs: Sysfs, cpus: list[int]) -> float:
    if cpus and sysfs.number(f"{CPUS}/cpu{cpus[0]}/cpu_capacity") > 0:
        least = min(sysfs.number(f"{CPUS}/cpu{cpu}/cpu_capacity", FULL_CAPACITY) for cpu in cpus)
        return min(max(least, 1) / FULL_CAPACITY, 1.0)
    kinds = [its for kind in KINDS if (its := cpu_list(sysfs.text(f"sys/devices/{kind}/cpus")))]
    most_kHz = [sysfs.number(f"{CPUS}/cpu{its[0]}/cpufreq/cpuinfo_max_freq") for its in kinds]
    mine_kHz = [kHz for its, kHz in zip(kinds, most_kHz, strict=True) if not set(its).isdisjoint(cpus)]
    return min(mine_kHz) / max(most_kHz) if mine_kHz and min(most_kHz) > 0 else 1.0
