"""Which devices of a machine are of one host: a rack that NVSwitches join is one machine of several."""

from __future__ import annotations

from ringtree.machines.machine import DeviceKind, Machine

BETWEEN = (DeviceKind.NVSWITCH, DeviceKind.SWITCH)


def hosts(machine: Machine) -> tuple[int, ...]:
    """For each device the number of its host, as their first devices come: those that links join otherwise than
    through NVSwitches or a network are of one. What joins hosts is of the first."""
    above = list(range(len(machine.devices)))

    def top(device: int) -> int:
        while above[device] != device:
            above[device] = above[above[device]]
            device = above[device]
        return device

    between = {n for kind in BETWEEN for n in machine.of_kind(kind)}
    for link in machine.links:
        if not {link.source, link.target} & between:
            low, high = sorted((top(link.source), top(link.target)))
            above[high] = low
    number: dict[int, int] = {}
    for device in range(len(machine.devices)):
        if device not in between:
            number.setdefault(top(device), len(number))
    return tuple(0 if d in between else number[top(d)] for d in range(len(machine.devices)))
