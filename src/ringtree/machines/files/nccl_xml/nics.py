"""The <nic> elements and the <net> ports in them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from ringtree.machines import parts, pci
from ringtree.machines.files.nccl_xml.parsed import Parsed
from ringtree.machines.files.xml_elements import Element
from ringtree.machines.machine import Device, DeviceKind, Link, LinkKind, NoteKind

_KEPT = ("dev", "port", "guid", "maxconn", "coll", "rail", "plane", "speed")
_DEFAULT_MBPS = 10_000
_FASTEST_MBPS = 10**7
"""No NIC has 10 Tb/s; Slingshot's plugin has reported kbit/s."""
_FAST_MBPS = 25_000
MBPS = 1e6 / 8


def add(parsed: Parsed, element: Element, busid: str, above: int) -> int | None:
    """A NIC with all its ports; None where the file leaves it out."""
    nics = element.inside("nic")
    if not nics:
        if parsed.has_nics:
            text = "is a NIC by its class, but has no <nic> as others have: left out, as NCCL does"
            parsed.draft.note(NoteKind.TRAP, busid, text)
            return None
        number = parsed.device(element, DeviceKind.NIC, "nic", busid, above)
        parsed.draft.put(number, -1, pci.busid_order(busid))
        parsed.derived.append(parsed.by_number[number])
        return number
    ports = [p for nic in nics for p in _ports(parsed, nic)]
    if not ports:
        if not any(nic.inside("net") for nic in nics):
            parsed.draft.note(NoteKind.TRAP, busid, "has a <nic> without a <net>: left out, as NCCL does")
        return None
    number = parsed.device(element, DeviceKind.NIC, _name(ports), busid, above)
    device = parsed.draft.devices[number]
    part = parts.nic_by_id(*(element.whole(key, 0, 0xFFFF, 0) for key in ("vendor", "device")))
    fields = _fields(parsed, ports, device.attributes)
    if part is not None:
        fields["model"] = part.model
    parsed.change(number, element, vendor=device.vendor or _vendor(ports), **fields)
    if not fields["rate_Bps"]:
        parsed.rateless.append(number)
    parsed.draft.put(number, ports[0].whole("dev", 0, 2**31), pci.busid_order(busid))
    return number


def add_unplaced(parsed: Parsed, element: Element, cpu: int) -> None:
    """NICs directly under a CPU, one a <net>: their busids are not in the file."""
    for port in _ports(parsed, element):
        fields = _fields(parsed, [port], {"unplaced": "1"})
        name, numa = element.attributes.get("name") or _name([port]), parsed.draft.devices[cpu].numa
        number = parsed.add(element, Device(name, DeviceKind.NIC, _vendor([port]), numa=numa))
        parsed.change(number, element, **fields)
        parsed.draft.put(number, port.whole("dev", 0, 2**31), ())
        rate = parsed.draft.devices[number].rate_Bps
        if not rate:
            parsed.rateless.append(number)
        wire = next((w for g, w in parts.PCIE.items() if g > 2 and 16 * w.bandwidth_Bps >= rate), parts.PCIE[6])
        bandwidth = max(rate, 16 * wire.bandwidth_Bps)
        parsed.draft.join(Link(number, cpu, LinkKind.PCIE, bandwidth, wire.latency_s, wire.generation, 16))
        text = (
            f"is at its CPU, its busid is missing: taken as in a slot of PCIe {wire.generation} x16 "
            "there; NCCL counts every GPU as PHB from it or farther, so GPUDirect RDMA is off"
        )
        parsed.draft.note(NoteKind.TRAP, name, text)


def _ports(parsed: Parsed, nic: Element) -> list[Element]:
    """The <net> that NCCL uses; their attributes are checked."""
    ports = []
    for port in nic.inside("net"):
        if "dev" not in port.attributes:
            parsed.draft.note(NoteKind.TRAP, f"line {port.line}", "a <net> without dev: left out, as NCCL does")
        elif port.whole("net", 0, 1, 1):
            dev = port.whole("dev", 0, 2**31)
            first = parsed.devs.setdefault((parsed.host, dev), port)
            if first is port or not _is_again(parsed, port, first):
                ports.append(port)
    return ports


def _is_again(parsed: Parsed, port: Element, first: Element) -> bool:
    """Whether a port with the dev of another is that one, listed again; a note either way."""
    dev = f'dev="{port.attributes["dev"]}" is that of line {first.line}'
    if all(port.attributes.get(key) == first.attributes.get(key) for key in ("name", "guid", "port")):
        text = f"{dev}, and so are its name and port: one port, left out here"
        parsed.draft.note(NoteKind.TRAP, f"line {port.line}", text)
        return True
    text = f"{dev} too: NCCL names a port by its dev, and takes the first for both"
    parsed.draft.note(NoteKind.TRAP, _name([port]), text)
    return False


def _fields(parsed: Parsed, ports: list[Element], attributes: Mapping[str, str]) -> dict[str, object]:
    """Rate, latency and whether GPUDirect RDMA is there, of all ports together; the rate is 0 where no NIC has it."""
    rates: dict[tuple[str, int], float] = {}
    latency_s = 0.0
    gdr = believed = True
    for port in ports:
        name = _name([port])
        speed = port.whole("speed", -(2**31), 2**31 - 1, 0)
        if speed > _FASTEST_MBPS:
            text = f"speed {speed} Mbit/s is no NIC's, and NCCL takes it as it is: write the real one"
            parsed.draft.note(NoteKind.TRAP, name, text)
            believed, speed = False, 0
        elif speed <= 0:
            text = f"speed {speed} Mbit/s is none: NCCL takes {_DEFAULT_MBPS}, and so do we; write the real one"
            parsed.draft.note(NoteKind.TRAP, name, text)
            speed = _DEFAULT_MBPS
        # ports of one guid and number are one port: they share what it carries
        guid = port.attributes.get("guid") or f"dev {port.attributes['dev']}"
        rates[guid, port.whole("port", -1, 65535, 0)] = speed * MBPS
        latency_s = max(latency_s, port.number("latency", 0, 1e6, 0.0) * 1e-6)
        own = port.whole("gdr", 0, 1, 0) == 1
        if not own and speed >= _FAST_MBPS:
            text = (
                f"gdr=0 on a NIC of {speed / 1000:g} Gb/s: no GPUDirect RDMA, so all of a GPU's data on it is "
                "copied to host memory and back"
            )
            parsed.draft.note(NoteKind.TRAP, name, text)
        gdr = gdr and own
    kept = {key: ",".join(p.attributes.get(key, "") for p in ports) for key in _KEPT}
    kept = {key: value for key, value in kept.items() if value.strip(",") and (believed or key != "speed")}
    names = ",".join(p.attributes.get("name", "") for p in ports)
    more = {"net": names, "ports": str(len(rates))} if names.strip(",") else {"ports": str(len(rates))}
    rate_Bps = sum(rates.values()) if believed else 0.0
    fields: dict[str, object] = {"rate_Bps": rate_Bps, "latency_s": latency_s, "gdr": gdr}
    if ports[0].attributes.get("fabric"):
        more["fabric"] = ports[0].attributes["fabric"]
    return {**fields, "attributes": MappingProxyType({**attributes, **kept, **more})}


def _name(ports: list[Element]) -> str:
    """The first port's name where it is one, else nic and its dev."""
    name = ports[0].attributes.get("name", "")
    return name if re.fullmatch(r"[\w.:@+-]{1,40}", name, re.ASCII) else f"nic{ports[0].attributes['dev'].strip()[:10]}"


def _vendor(ports: list[Element]) -> str:
    return "mellanox" if ports[0].attributes.get("name", "").startswith("mlx") else ""


def number(parsed: Parsed) -> None:
    """Names derived NICs by position."""
    found = sorted(
        (n for n, d in enumerate(parsed.draft.devices) if d.kind is DeviceKind.NIC), key=parsed.draft.position
    )
    for position, n in enumerate(found):
        slot = parsed.by_number.get(n)
        if slot in parsed.derived and not slot.element.attributes.get("name"):
            parsed.draft.change(n, name=f"nic{position}")
