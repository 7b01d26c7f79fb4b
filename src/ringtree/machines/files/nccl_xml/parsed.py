"""The state of reading a file: PCI slots, and the devices in them."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from ringtree.machines import parts, pci
from ringtree.machines.files.draft import Draft
from ringtree.machines.files.nccl_xml.assumed import Assumed
from ringtree.machines.files.xml_elements import Element
from ringtree.machines.machine import Device, DeviceKind, Link, LinkKind, NoteKind

Key = tuple[str, str]
"""A host, by its hash, and a busid there."""
OURS = {"maker": "vendor", "model": "model"}
"""Attributes that NCCL does not know, by the field of a device that each sets; besides numa and name."""
_KEPT = (
    "class", "vendor", "device", "subsystem_vendor", "subsystem_device", "link_speed", "link_width",
)  # fmt: skip


@dataclass(slots=True, eq=False)
class PciSlot:
    """A <pci>: the device there (None: left out), what it hangs from, and the link up to it."""

    element: Element
    key: Key
    up: int
    number: int | None = None
    link: Link | None = None


@dataclass
class Parsed:
    """`maker`: the maker of the library that wrote the file, nvidia or amd. `given`: the user's assumptions, and
    `used_gpu` whether that of a model applied. `hosts`: by CPU's number, the host's hash. `devs`: the first <net> of
    each dev. `rateless`: NICs by number, of a rate that no NIC has."""

    root: Element
    draft: Draft
    maker: str
    given: Assumed
    slots: list[PciSlot] = field(default_factory=list)
    by_key: dict[Key, PciSlot] = field(default_factory=dict)
    by_number: dict[int, PciSlot] = field(default_factory=dict)
    host: str = ""
    nodes: set[tuple[str, int]] = field(default_factory=set)
    cpus: dict[int, Element] = field(default_factory=dict)
    hosts: dict[int, str] = field(default_factory=dict)
    up: dict[int, int] = field(default_factory=dict)
    derived: list[PciSlot] = field(default_factory=list)
    nvswitch: int | None = None
    chips: set[str] = field(default_factory=set)
    further: dict[str, int] = field(default_factory=dict)
    ranks: dict[int, list[int]] = field(default_factory=dict)
    devs: dict[tuple[str, int], Element] = field(default_factory=dict)
    rateless: list[int] = field(default_factory=list)
    used_gpu: bool = False
    has_gpus: bool = False
    has_ranks: bool = False
    has_nics: bool = False

    def __post_init__(self) -> None:
        """A file that has one <gpu> (a rank, a <nic>) is taken to have them all."""
        for element in self.root.below():
            self.has_gpus |= element.tag == "gpu"
            self.has_ranks |= element.tag == "gpu" and "rank" in element.attributes
            self.has_nics |= element.tag == "nic"

    def add_slot(self, element: Element, busid: str, above: int, kind: DeviceKind) -> PciSlot:
        """A further <pci>. A busid again is a further device, as for NCCL, and links lead to the first; a GPU's must be
        its own."""
        slot = PciSlot(element, (self.host, busid), above)
        first = self.by_key.setdefault(slot.key, slot)
        if first is not slot:
            if kind is DeviceKind.GPU or first.element.inside("gpu"):
                element.refuse(f"the busid of line {first.element.line} again; expected a GPU's own")
            how = "NCCL takes both as one NIC, with the ports of both" if kind is DeviceKind.NIC else "NCCL does so too"
            text = f"the busid of line {first.element.line} again: taken as a further device; {how}"
            self.draft.note(NoteKind.TRAP, f"line {element.line}, {busid}", text)
        self.slots.append(slot)
        return slot

    def add(self, element: Element, device: Device) -> int:
        """A further device, which the element describes; refused there beyond a machine's number."""
        try:
            return self.draft.add(device)
        except ValueError as error:
            element.refuse(str(error))

    def device(self, element: Element, kind: DeviceKind, name: str, busid: str, above: int) -> int:
        """A device in the PCI slot that was added last, with the element's attributes."""
        attributes = {key: element.attributes[key] for key in _KEPT if element.attributes.get(key)}
        ids = {key: element.whole(key, 0, 0xFFFF) for key in ("vendor", "device") if key in attributes}
        attributes |= {key: f"{number:#06x}" for key, number in ids.items()}
        vendor = pci.VENDORS.get(ids.get("vendor", 0), "")
        numa = self.draft.devices[self.cpu_of(above)].numa
        name = element.attributes.get("name") or name
        number = self.add(
            element, Device(name, kind, vendor, busid=busid, numa=numa, attributes=MappingProxyType(attributes))
        )
        slot = self.slots[-1]
        slot.number = number
        self.by_number[number] = slot
        self.up[number] = above
        return number

    def change(self, number: int, element: Element, **known: Any) -> None:
        """Sets a device's known fields; ringtree's own attributes of the element take precedence."""
        given = {field: element.attributes[key] for key, field in OURS.items() if element.attributes.get(key)}
        if "numa" in element.attributes:
            known["numa"] = element.whole("numa", -1, 65535)
        self.draft.change(number, **{**known, **given})

    def uplink(self, element: Element, number: int, above: int) -> None:
        """Adds the PCIe link of a <pci> to the device above it."""
        speed = element.attributes.get("link_speed", "")
        width = element.whole("link_width", 0, pci.UNKNOWN_WIDTH, 0)
        generation = pci.generation(speed)
        if not 0 < width <= pci.WIDEST:
            if width:
                text = f"link_width {width}, no known width: taken as x{pci.NCCL_DEFAULT_WIDTH}; NCCL takes the number"
                self.draft.note(NoteKind.TRAP, number, text)
            width = pci.NCCL_DEFAULT_WIDTH
        if not generation:
            generation = self._missing_generation(element, number, speed)
        generation = self._as_the_cpu(number, above, generation)
        wire = parts.PCIE[generation]
        link = Link(number, above, LinkKind.PCIE, width * wire.bandwidth_Bps, wire.latency_s, generation, width)
        self.draft.join(link)
        self.by_number[number].link = link

    def _as_the_cpu(self, number: int, above: int, generation: int) -> int:
        """The generation, at most that of the CPU's slots where the CPU is known."""
        cpu = parts.CPUS.get(self.draft.devices[above].model)
        element = self.cpus.get(above)
        if (
            cpu is None
            or element is None
            or element.whole("modelid", 0, 2**31, 0) != cpu.modelid
            or generation <= cpu.pcie
        ):
            return generation
        text = (
            f"PCIe {generation} in the file, PCIe {cpu.pcie} in {cpu.model}: taken as the CPU's; NCCL takes the file's"
        )
        self.draft.note(NoteKind.TRAP, number, text)
        return cpu.pcie

    def _missing_generation(self, element: Element, number: int, speed: str) -> int:
        """The generation where the file lacks it: the GPU's own, the switch's above, or NCCL's default."""
        ids = element.whole("vendor", 0, 0xFFFF, 0), element.whole("device", 0, 0xFFFF, 0)
        part = parts.gpu_by_id(*ids) or parts.nic_by_id(*ids)
        above = self.by_number.get(self.up[number])
        if part is not None:
            generation, why = part.pcie, f"as {part.model} has it"
        elif above is not None and above.link is not None:
            generation, why = above.link.generation, "as the switch above it"
        else:
            generation, why = pci.NCCL_DEFAULT_GENERATION, "as NCCL does"
        text = (
            f'link_speed "{speed[:20]}" has no known speed: taken as PCIe {generation}, {why}; write it into the file'
        )
        self.draft.note(NoteKind.ASSUMED, number, text)
        return generation

    def target(self, element: Element, of: PciSlot) -> PciSlot | None:
        """The slot of an element's `target`, on the same host; None where no <pci> has that busid."""
        busid = element.text("target").strip().lower()
        if not pci.is_busid(busid):
            element.refuse("expected a busid such as 0000:a1:00.0")
        return self.by_key.get((of.key[0], busid))

    def above(self, slot: PciSlot) -> set[Key]:
        """The slots from a slot, included, up to its CPU."""
        keys = {slot.key}
        at = self.by_number.get(slot.up)
        while at is not None:
            keys.add(at.key)
            at = self.by_number.get(at.up)
        return keys

    def cpu_of(self, number: int) -> int:
        """The CPU that a device hangs from."""
        while number in self.up:
            number = self.up[number]
        return number
