"""A machine while a file is being read: devices get numbers at once, and their order when all are known."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from ringtree.machines.machine import Device, DeviceKind, Link, LinkKind, Machine, Note, NoteKind, renumbered

MOST_OF_A_KIND = 640
"""Devices; NCCL takes no more either (src/include/graph.h, NCCL_TOPO_MAX_NODES)."""
_SHOWN = 3


class Draft:
    """`devices` are by number; `position` is a device's sort key among its kind, by which `machine` orders devices."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.devices: list[Device] = []
        self._position: list[tuple[Any, ...]] = []
        self._names: set[str] = set()
        self._count = Counter[DeviceKind]()
        self._links: dict[tuple[int, int, LinkKind], dict[int, Link]] = {}
        self._notes: dict[tuple[NoteKind, str], list[int | str]] = {}

    def add(self, device: Device, position: tuple[Any, ...] = ()) -> int:
        """The device's number. A name that is taken gets a further number; ValueError for more than MOST_OF_A_KIND."""
        self._count[device.kind] += 1
        if self._count[device.kind] > MOST_OF_A_KIND:
            raise ValueError(
                f"more than {MOST_OF_A_KIND} devices of the kind {device.kind.value}; expected one machine's"
            )
        name, further = device.name, 1
        while name in self._names:
            name, further = f"{device.name}.{further}", further + 1
        self._names.add(name)
        self.devices.append(replace(device, name=name))
        self._position.append(position)
        return len(self.devices) - 1

    def change(self, number: int, **fields: Any) -> None:
        """Other values for some of a device's fields."""
        self.devices[number] = replace(self.devices[number], **fields)

    def put(self, number: int, *position: Any) -> None:
        """Sets the device's sort key among its kind."""
        self._position[number] = position

    def position(self, number: int) -> tuple[Any, ...]:
        """The sort key that `put` set."""
        return self._position[number]

    def join(self, link: Link, both: bool = True) -> None:
        """Adds a link, and the reverse one. Between the same devices, of one kind and generation, widths and bandwidths
        add up."""
        links = [link, replace(link, source=link.target, target=link.source)] if both else [link]
        for one in links:
            of = self._links.setdefault((one.source, one.target, one.kind), {})
            old = of.get(one.generation)
            if old is not None:
                one = replace(one, width=old.width + one.width, bandwidth_Bps=old.bandwidth_Bps + one.bandwidth_Bps)
            of[one.generation] = one

    def part(self, source: int, target: int, kind: LinkKind) -> None:
        """Removes the links of a kind, in one direction."""
        self._links.pop((source, target, kind), None)

    @property
    def links(self) -> list[Link]:
        """All links so far, between devices by number."""
        return [link for of in self._links.values() for link in of.values()]

    def note(self, kind: NoteKind, about: int | str, text: str) -> None:
        """`about`: a device by number, or words. A text about several devices becomes one note."""
        self._notes.setdefault((kind, text), []).append(about)

    def machine(self) -> Machine:
        """The machine, its devices by kind, each kind by position, then in the order of addition."""
        kinds = list(DeviceKind)
        order = sorted(
            range(len(self.devices)), key=lambda n: (kinds.index(self.devices[n].kind), self._position[n], n)
        )
        number = {old: new for new, old in enumerate(order)}
        links = renumbered(self.links, number)
        notes = [
            Note(kind, _some([self._words(a) for a in about]), text) for (kind, text), about in self._notes.items()
        ]
        return Machine(self.name, tuple(self.devices[n] for n in order), links, tuple(notes))

    def _words(self, about: int | str) -> str:
        if isinstance(about, str):
            return about
        device = self.devices[about]
        return device.name if device.busid in ("", device.name) else f"{device.name} at {device.busid}"


def _some(names: list[str]) -> str:
    names = list(dict.fromkeys(names))
    rest = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + rest
