"""Reads a machine from elements. A statement that NCCL misreads is noted as a TRAP, a missing fact as ASSUMED."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ringtree.files.file_bytes import file_bytes
from ringtree.machines import parts, pci
from ringtree.machines.files.draft import Draft
from ringtree.machines.files.nccl_xml import cpus, further, gpus, nics, traps
from ringtree.machines.files.nccl_xml.assumed import Assumed
from ringtree.machines.files.nccl_xml.deriving import derive
from ringtree.machines.files.nccl_xml.parsed import Parsed
from ringtree.machines.files.xml_elements import MOST_BYTES, Element, elements, short
from ringtree.machines.machine import DeviceKind, Link, LinkKind, Machine, NoteKind

_LONGEST = 100
_VERSIONS = {"1": "nvidia", "2": "amd"}
_KNOWN = {
    "system": {"cpu", "device", "link"},
    "cpu": {"pci", "nic"},
    "pci": {"pci", "gpu", "nic", "pcilink"},
    "gpu": {"nvlink", "xgmi", "c2c"},
    "nic": {"net", "gin", "rma"},
}


def read(path: str | Path, assume: Mapping[str, str] | None = None) -> Machine:
    """The machine of a file. ValueError, in one line with file and element: if it is none. `assume` gives facts that
    the file lacks: `gpu` a model of parts.GPUS, `nic` a rate such as 400Gb/s, `nvlink` nvswitch, mesh, pairs or
    none."""
    data = file_bytes(path, "an NCCL topology file", MOST_BYTES)
    return machine_of(elements(data, str(path)), assume)


def machine_of(root: Element, assume: Mapping[str, str] | None = None) -> Machine:
    """The machine of elements that were parsed already; otherwise as `read`."""
    given = Assumed.of(assume or {})
    if root.tag != "system":
        root.refuse("expected <system>, as an NCCL topology file starts")
    version = root.text("version").strip()
    if version not in _VERSIONS:
        root.refuse(f'version="{short(version)}"; expected 1 (NCCL) or 2 (RCCL)')
    if not root.inside("cpu"):
        root.refuse("has no <cpu>; expected the NUMA nodes of a machine")
    _check_texts(root)
    name = root.attributes.get("name") or Path(root.file).stem
    parsed = Parsed(root, Draft(name), _VERSIONS[version], given)
    try:
        return _machine(parsed)
    except ValueError as error:
        text = str(error)
        raise ValueError(text if text.startswith(root.file) else f"{root.file}: {text}") from None


def _machine(parsed: Parsed) -> Machine:
    further.devices(parsed)
    _walk(parsed)
    gpus.link(parsed)
    _pcilinks(parsed)
    derive(parsed)
    cpus.link(parsed)
    traps.find(parsed)
    gpus.number(parsed)
    nics.number(parsed)
    further.links(parsed)
    return parsed.draft.machine()


def _check_texts(root: Element) -> None:
    """Refuses texts that cannot be printed."""
    for element in root.below():
        for key, value in element.attributes.items():
            if not value.isprintable() or (key in ("name", "model", "maker") and len(value) > _LONGEST):
                element.refuse(
                    f"{short(key)} cannot be shown; expected printable characters, at most {_LONGEST} of a name"
                )


def _walk(parsed: Parsed) -> None:
    """Devices and their PCIe links, from each CPU down."""
    for cpu in parsed.root.inside("cpu"):
        at = cpus.add(parsed, cpu)
        waiting = [(child, at) for child in reversed(cpu.children)]
        while waiting:
            element, above = waiting.pop()
            if element.tag == "nic":
                nics.add_unplaced(parsed, element, above)
            elif element.tag == "pci":
                number = _pci(parsed, element, above)
                if number is not None:
                    waiting += [(child, number) for child in reversed(element.inside("pci"))]
    for element in parsed.root.below():
        for child in element.children:
            if element.tag in _KNOWN and child.tag not in _KNOWN[element.tag]:
                text = f"<{child.tag}> inside <{element.tag}> is no part of the format: NCCL skips it, and so do we"
                parsed.draft.note(NoteKind.TRAP, f"line {child.line}", text)


def _pci(parsed: Parsed, element: Element, above: int) -> int | None:
    """The number of the element's device where others may be below it."""
    busid = element.text("busid").strip().lower()
    if not pci.is_busid(busid):
        element.refuse("expected a busid such as 0000:a1:00.0")
    kind = _kind(element)
    parsed.add_slot(element, busid, above, kind)
    if kind is DeviceKind.GPU:
        number = gpus.add(parsed, element, busid, above)
    elif kind is DeviceKind.NIC:
        number = nics.add(parsed, element, busid, above)
    elif kind in (DeviceKind.NVSWITCH, DeviceKind.CPU):
        return None  # the PCIe side of an NVSwitch or of Power's NVLink bridge carries none of our traffic
    elif (words := pci.unknown_accelerator(*_ids(element))) and not element.inside("pci"):
        parsed.draft.note(NoteKind.UNKNOWN, busid, f"the {words} is in no table: left out, whatever it computes")
        return None
    else:
        number = parsed.device(element, kind, busid, busid, above)
        parsed.change(number, element)
    if number is None:
        return None
    parsed.uplink(element, number, above)
    if kind is DeviceKind.PCI:
        return number
    if element.inside("pci"):
        text = "devices below it on the bus are left out, as NCCL does: no traffic passes through a device"
        parsed.draft.note(NoteKind.TRAP, number, text)
    return None


def _kind(element: Element) -> DeviceKind:
    for tag, kind in (("gpu", DeviceKind.GPU), ("nic", DeviceKind.NIC)):
        if element.inside(tag):
            return kind
    if "class" not in element.attributes:
        return DeviceKind.PCI
    kind = pci.kind_of(*_ids(element))
    switches = kind is DeviceKind.GPU and element.inside("pci")  # a bridge with the class of a GPU
    return DeviceKind.PCI if switches else kind


def _ids(element: Element) -> tuple[int, int, int]:
    """Class, vendor and device id, 0 where missing."""
    vendor, device = (element.whole(key, 0, 0xFFFF, 0) for key in ("vendor", "device"))
    return element.whole("class", 0, 0xFFFFFF, 0), vendor, device


def _pcilinks(parsed: Parsed) -> None:
    """Links between PCIe switches that are not above one another: as fast as the faster one's own."""
    joined = set[tuple[int, int]]()
    for slot in parsed.slots:
        for element in slot.element.inside("pcilink"):
            other = parsed.target(element, slot)
            ends = (slot.number, other.number if other else None)
            if other is None or None in ends or any(_kind(s.element) is not DeviceKind.PCI for s in (slot, other)):
                element.refuse("expected the busid of another <pci> that is a switch")
            if other is slot or slot.key in parsed.above(other) or other.key in parsed.above(slot):
                element.refuse("leads to itself, or to one above or below it; expected a switch beside it")
            a, b = sorted((slot.number or 0, other.number or 0))
            if (a, b) in joined:
                continue
            joined.add((a, b))
            widest = max((slot.link, other.link), key=lambda k: k.bandwidth_Bps if k else 0.0)
            wire = parts.PCIE[pci.NCCL_DEFAULT_GENERATION]
            link = widest or Link(a, b, LinkKind.PCIE, 16 * wire.bandwidth_Bps, wire.latency_s, wire.generation, 16)
            parsed.draft.join(
                Link(a, b, LinkKind.PCIE, link.bandwidth_Bps, link.latency_s, link.generation, link.width)
            )
            names = " - ".join(parsed.draft.devices[n].name for n in (a, b))
            parsed.draft.note(NoteKind.ASSUMED, names, "a pcilink has no speed: taken as the faster uplink's")
