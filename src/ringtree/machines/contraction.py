"""A machine reduced for routing: one device for several equivalent ones, and one link between any two."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from ringtree.machines.machine import DeviceKind, Link, LinkKind, Machine
from ringtree.machines.paths import NETWORKS, Paths, paths_of

_NEAREST = (LinkKind.NVLINK, LinkKind.XGMI, LinkKind.C2C, LinkKind.PCIE, LinkKind.SHM, LinkKind.CPU)


@dataclass(frozen=True)
class Contracted:
    """The first `gpu_slots` devices of `machine` are ranks; `home[r]` is the NIC, by its position among the machine's,
    that local rank r has to itself or shares, -1 where it reaches none."""

    machine: Machine
    gpu_slots: int
    home: tuple[int, ...]

    @cached_property
    def paths(self) -> Paths:
        """The paths of the contracted machine."""
        return Paths(self.machine)


def gpu_slots(machine: Machine) -> tuple[int, ...]:
    """The devices that are ranks, in order: the GPUs, or the CPUs of a machine that has none. ValueError where there
    is neither."""
    found = machine.gpus or machine.of_kind(DeviceKind.CPU)
    if not found:
        raise ValueError(f"{machine.name} has neither GPU nor CPU: expected one, to be a rank")
    return found


def shared_switch(machine: Machine) -> int | None:
    """The number of the switch, if any, by which GPUs of several such machines meet on NVLinks alone."""
    return next((n for n in machine.of_kind(DeviceKind.SWITCH) if not _left_out(machine, n)), None)


@lru_cache(maxsize=4)
def contract(machine: Machine) -> Contracted:
    """NVSwitches of the same GPUs are one (so they are to NCCL); NICs that one GPU has to itself are one, of their
    rates' sum, where they hang side by side. Storage and the devices beyond the NICs are left out."""
    ranks = gpu_slots(machine)
    shares = nics_of_ranks(machine)
    stands_for = {n: n for n in range(len(machine.devices))}
    for group in [*_switches(machine), *(s for s in dict.fromkeys(shares) if _side_by_side(machine, s))]:
        stands_for |= dict.fromkeys(group, group[0])
    kept = [n for n in stands_for.values() if n not in ranks and not _left_out(machine, n)]
    order = [*ranks, *dict.fromkeys(kept)]
    number = {old: new for new, old in enumerate(order)}
    index = {n: number[stands_for[n]] for n in stands_for if stands_for[n] in number}
    stood_for: dict[int, list[int]] = {}
    for n, first in stands_for.items():
        stood_for.setdefault(first, []).append(n)
    devices = []
    for old in order:
        device, alike = machine.devices[old], stood_for[old]
        if len(alike) > 1:
            name = f"{device.name}-{machine.devices[alike[-1]].name}"
            device = replace(device, name=name, rate_Bps=sum(machine.devices[n].rate_Bps for n in alike))
        devices.append(device)
    one = Machine(machine.name, tuple(devices), _links(machine, index))
    at = {n: k for k, n in enumerate(one.nics)}
    return Contracted(one, len(ranks), tuple(at[index[s[0]]] if s else -1 for s in shares))


def nics_of_ranks(machine: Machine) -> list[tuple[int, ...]]:
    """The NICs of each rank, by device number: ranks with the same nearest NICs share them out in order."""
    paths, ranks = paths_of(machine), gpu_slots(machine)
    near = [tuple(machine.nics[k] for k in paths.nics_near(r)) for r in ranks]
    out = []
    for k, nics in enumerate(near):
        rivals = [j for j, n in enumerate(near) if n == nics]
        first, count = rivals.index(k), len(rivals)
        low = first * len(nics) // count
        out.append(nics[low : max((first + 1) * len(nics) // count, low + 1)])
    return out


def _switches(machine: Machine) -> list[tuple[int, ...]]:
    by_gpus: dict[frozenset[int], list[int]] = {}
    for n in machine.of_kind(DeviceKind.NVSWITCH):
        beside = frozenset(machine.links[k].target for k in machine.leaving(n))
        by_gpus.setdefault(beside & frozenset(machine.gpus), []).append(n)
    return [tuple(group) for gpus, group in by_gpus.items() if gpus]


def _side_by_side(machine: Machine, nics: tuple[int, ...]) -> bool:
    beside = {frozenset(machine.links[k].target for k in machine.leaving(n)) for n in nics}
    return len(nics) > 1 and len(beside) == 1


def _left_out(machine: Machine, device: int) -> bool:
    kind = machine.devices[device].kind
    if kind is DeviceKind.SWITCH:
        return not any(machine.links[k].kind is LinkKind.NVLINK for k in machine.leaving(device))
    return kind is DeviceKind.STORAGE


def _links(machine: Machine, index: dict[int, int]) -> tuple[Link, ...]:
    """Links of a kind between the same two devices become one, of their bandwidths' sum; of two kinds the nearer
    stays."""
    found: dict[tuple[int, int], Link] = {}
    for link in machine.links:
        if link.kind in NETWORKS or link.source not in index or link.target not in index:
            continue
        ends = index[link.source], index[link.target]
        if ends[0] == ends[1]:
            continue
        link = replace(link, source=ends[0], target=ends[1])
        other = found.get(ends)
        if other is not None and other.kind is link.kind:
            both = other.bandwidth_Bps + link.bandwidth_Bps
            link = replace(other, bandwidth_Bps=both, width=other.width + link.width)
        if other is None or _NEAREST.index(link.kind) <= _NEAREST.index(other.kind):
            found[ends] = link
    return tuple(found.values())
