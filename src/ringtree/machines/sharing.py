"""A machine as one of several groups of its GPUs has it, while all groups use the network at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b
from types import MappingProxyType

from ringtree.machines.contraction import nics_of_ranks
from ringtree.machines.machine import Device, DeviceKind, Machine
from ringtree.machines.nics import LINE_RATE

ROUNDS = 8
"""Rounds of `likeness`: no two devices of a machine are more links apart by their shortest way."""
_OWN = ("busid", "guid", "name", "dev", "numa", "numaid", "rank")
"""Attributes that differ between devices that are alike."""


def groups_a_nic(machine: Machine, group: Sequence[int], groups: Sequence[Sequence[int]]) -> int:
    """The most groups of `groups`, of GPUs by local rank, that use one of the NICs that `group`, one of them, uses: a
    group uses the NICs that its GPUs have to themselves, or those nearest to them, which GPUs share. 1 for one group
    alone."""
    own = nics_of_ranks(machine)
    users = _users(own, groups)
    return max((users[nic] for gpu in group for nic in own[gpu]), default=1) if len(groups) > 1 else 1


def _users(own: Sequence[Sequence[int]], groups: Sequence[Sequence[int]]) -> Counter[int]:
    return Counter(nic for group in groups for nic in {nic for gpu in group for nic in own[gpu]})


def as_shared(machine: Machine, group: Sequence[int], groups: Sequence[Sequence[int]]) -> Machine:
    """The machine as `group`, one of `groups`, has it while all of them use its NICs: the group's GPUs and the NICs of
    these, each with its rate divided by the number of groups that use it. Of one group alone the NICs stay as they are.
    Links within the machine are not shared out. ValueError where a GPU reaches no NIC."""
    if len(groups) < 2:
        return machine.part(group)
    own = nics_of_ranks(machine)
    users = _users(own, groups)
    mine = {nic for gpu in group for nic in own[gpu]}
    if not all(own[gpu] for gpu in group):
        raise ValueError(f"{machine.name}: a GPU reaches no NIC; expected a path to one, in the file or by --nics")
    devices = [_divided(d, users[n]) if users[n] > 1 else d for n, d in enumerate(machine.devices)]
    gpus = {machine.gpus[gpu] for gpu in group}
    kept = [
        n
        for n, d in enumerate(machine.devices)
        if (d.kind is not DeviceKind.NIC or n in mine) and (d.kind is not DeviceKind.GPU or n in gpus)
    ]
    one = replace(machine, devices=tuple(devices)).of_devices(kept)
    return one.part(range(len(gpus)))


def _divided(nic: Device, users: int) -> Device:
    attributes = {LINE_RATE: str(nic.rate_Bps)} | dict(nic.attributes)
    return replace(nic, rate_Bps=nic.rate_Bps / users, attributes=MappingProxyType(attributes))


def likeness(machine: Machine) -> bytes:
    """A digest that is equal for machines whose devices and links are alike but for their names and order, such as the
    parts of two GPUs with a NIC each. O(rounds times links)."""
    seen = [
        _digest(
            d.kind.value, d.vendor, d.model, d.sm, d.gdr, d.rate_Bps, d.latency_s,
            sorted((k, v) for k, v in d.attributes.items() if k not in _OWN),
        )
        for d in machine.devices
    ]  # fmt: skip
    links = [(k.source, _digest(k.kind.value, k.bandwidth_Bps, k.latency_s, k.width), k.target) for k in machine.links]
    for _ in range(ROUNDS):
        beside: list[list[bytes]] = [[] for _ in seen]
        for source, kind, target in links:
            beside[source].append(kind + seen[target])
        seen = [_digest(own, sorted(around)) for own, around in zip(seen, beside, strict=True)]
    return _digest(sorted(seen))


def _digest(*parts: object) -> bytes:
    return blake2b(repr(parts).encode(), digest_size=16).digest()
