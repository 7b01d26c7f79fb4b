"""Devices and links that the format has no element for, in elements of ours, which NCCL skips: <device> and <link>
below <system>.

    <device name="nvswitch0" kind="nvswitch" busid="0001:00:00.0" chips="4"/>
    <link source="cpu0" target="cpu1" kind="cpu" bandwidth_Bps="128e9"/>

A <link> goes one way and replaces the links of its kind between the two; with a bandwidth of 0 there is none.
"""

from __future__ import annotations

from types import MappingProxyType

from ringtree.machines import pci
from ringtree.machines.files.nccl_xml.parsed import Parsed
from ringtree.machines.files.xml_elements import Element, short
from ringtree.machines.machine import Device, DeviceKind, Link, LinkKind

_FIELDS = ("name", "kind", "vendor", "model", "busid", "numa")


def devices(parsed: Parsed) -> None:
    """Switches of NVLink and of networks."""
    for element in parsed.root.inside("device"):
        kind = _one(element, "kind", (DeviceKind.NVSWITCH.value, DeviceKind.SWITCH.value))
        further = {key: value for key, value in element.attributes.items() if key not in _FIELDS}
        attributes = element.attributes
        device = Device(
            element.text("name"),
            DeviceKind(kind),
            attributes.get("vendor", ""),
            attributes.get("model", ""),
            numa=element.whole("numa", -1, 65535, -1),
            attributes=MappingProxyType(further),
        )
        number = parsed.add(element, device)
        busid = attributes.get("busid", "").lower()
        if pci.is_busid(busid):
            parsed.further[busid] = number


def links(parsed: Parsed) -> None:
    """Links in one direction each, between devices by name."""
    number = {d.name: n for n, d in enumerate(parsed.draft.devices)}
    seen = set[tuple[int, int, LinkKind]]()
    for element in parsed.root.inside("link"):
        kind = LinkKind(_one(element, "kind", tuple(k.value for k in LinkKind)))
        ends = []
        for end in ("source", "target"):
            name = element.text(end)
            if name not in number:
                element.refuse(f'{end}="{short(name)}"; expected the name of a device')
            ends.append(number[name])
        source, target = ends
        if source == target:
            element.refuse("goes from a device to itself; expected two")
        if (source, target, kind) not in seen:
            seen.add((source, target, kind))
            parsed.draft.part(source, target, kind)
        bandwidth = element.number("bandwidth_Bps", 0, 1e18)
        if bandwidth:
            link = Link(
                source,
                target,
                kind,
                bandwidth,
                element.number("latency_s", 0, 1e3, 0.0),
                element.whole("generation", 0, 100, 0),
                element.whole("width", 1, 100_000, 1),
            )
            parsed.draft.join(link, both=False)


def _one(element: Element, name: str, known: tuple[str, ...]) -> str:
    text = element.text(name)
    if text not in known:
        element.refuse(f'{name}="{short(text)}"; expected one of {", ".join(known)}')
    return text
