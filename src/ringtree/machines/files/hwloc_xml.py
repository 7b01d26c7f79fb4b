"""hwloc's XML, as `lstopo topo.xml` writes it (versions 1 to 3): translated into NCCL's elements, then read as NCCL's
file.

hwloc has an object for every port of a PCIe switch, NCCL's files one for a switch, and none for a root port: of the
bridges on the way down, every second one counts. Link speeds are GB/s, of which generation and width follow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from ringtree.files.file_bytes import file_bytes
from ringtree.machines import parts, pci
from ringtree.machines.files import hwloc_links, hwloc_nodes, nccl_xml
from ringtree.machines.files.draft import MOST_OF_A_KIND
from ringtree.machines.files.xml_elements import MOST_BYTES, Element, elements, short
from ringtree.machines.machine import DeviceKind, Machine, Note, NoteKind

_ARCHITECTURES = {"aarch64": "arm64", "ppc64le": "ppc64"}
_WIDTHS = (16, 8, 4, 2, 1, 32, 12)
_DISPLAY_CONTROLLER = "0x038000"
"""The class of a GPU without a connector."""
_PCI = ("Bridge", "PCIDev")
_FABRIC, _NETWORK = 0x20, 0x10
"""Kinds of OSDev from version 3 on; before they were 3 and 2."""


def read(path: str | Path, assume: Mapping[str, str] | None = None) -> Machine:
    """The machine of a file. ValueError, in one line with file and element: if it is none. hwloc has neither NIC rates
    nor, mostly, NVLinks: they are assumed as for a cloud's NCCL file, and `assume` gives them alike."""
    data = file_bytes(path, "hwloc's XML", MOST_BYTES)
    return machine_of(elements(data, str(path)), assume)


def machine_of(root: Element, assume: Mapping[str, str] | None = None) -> Machine:
    """The machine of elements that were parsed already; otherwise as `read`."""
    if root.tag != "topology":
        root.refuse("expected <topology>, as hwloc's XML starts")
    version = root.attributes.get("version", "1")
    if not re.fullmatch(r"[123](\.\d{1,3})*", version):
        root.refuse(f'version="{short(version)}"; expected hwloc 1, 2 or 3')
    top = next((o for o in root.inside("object") if o.attributes.get("type") in ("Machine", "System")), None)
    if top is None:
        root.refuse("has no object of the type Machine; expected one, as lstopo writes it")
    reading = _Translation(root, top, version_3=version.startswith("3"))
    machine = nccl_xml.machine_of(reading.system(), assume)
    return replace(machine, notes=(*reading.notes, *machine.notes))


class _Translation:
    """hwloc's objects as NCCL's elements, which keep the lines they come from."""

    def __init__(self, root: Element, top: Element, version_3: bool) -> None:
        self.top, self.version_3 = top, version_3
        self.notes: list[Note] = []
        self.cpus: dict[int, Element] = {}
        self.placed: dict[str, Element] = {}
        """PCI devices by hwloc's global index."""
        self.info = _info(top)
        self.packages: list[Element] = []
        self.busids: dict[str, int] = {}
        self.cards: dict[tuple[str, ...], str] = {}
        self.root = root

    def system(self) -> Element:
        """<system> of <cpu> of <pci>."""
        name = self.info.get("HostName") or Path(self.root.file).stem
        system = self._element("system", self.top, version="1", name=name)
        objects = list(_objects(self.top))
        self._numa(objects)
        for element, above in objects:
            if element.attributes.get("type") == "Bridge" and not _below_bridge(above):
                cpu = self._near(element, above)
                self._bridge(element, cpu, 0)
            elif element.attributes.get("type") == "PCIDev" and not _below_bridge(above):
                self._device(element, self._near(element, above))
        self.notes += hwloc_links.add(self.root, self.placed, self.packages)
        system.children = [self.cpus[n] for n in sorted(self.cpus)]
        return system

    def _element(self, tag: str, of: Element, **attributes: str) -> Element:
        return Element(tag, {key: value for key, value in attributes.items() if value}, of.line, of.file)

    def _numa(self, objects: list[tuple[Element, list[Element]]]) -> None:
        """A <cpu> for each NUMA node that has cores, or PCI devices alone; without one, the whole machine is one."""
        self.packages = [o for o, _ in objects if o.attributes.get("type") in ("Package", "Socket")]
        info = _info(self.packages[0]) if self.packages else {}
        arch = self.info.get("Architecture", "") or info.get("Architecture", "")
        shared = {
            "arch": _ARCHITECTURES.get(arch, arch or "x86_64"),
            "vendor": info.get("CPUVendor", ""),
            "familyid": info.get("CPUFamilyNumber", ""),
            "modelid": info.get("CPUModelNumber", ""),
        }
        nodes = [(o, above) for o, above in objects if o.attributes.get("type") == "NUMANode"]
        at = [hwloc_nodes.reported_at(above) for o, above in objects if o.attributes.get("type") in _PCI]
        for (node, above), cores in zip(nodes, hwloc_nodes.own_cores([node for node, _ in nodes]), strict=True):
            number = node.whole("os_index", 0, 65535)
            if not cores and "cpuset" in node.attributes:
                kept = [number] in at
                text = f"no core is its own: {'kept for the PCI devices at it' if kept else 'taken as memory alone'}"
                self.notes.append(Note(NoteKind.ASSUMED, f"NUMA node {number}", text))
                if not kept:
                    continue
            if number in self.cpus:
                node.refuse(f"a second NUMA node {number}; expected one that differs")
            if len(self.cpus) == MOST_OF_A_KIND:
                node.refuse(f"more than {MOST_OF_A_KIND} NUMA nodes; expected one machine's")
            words = hwloc_nodes.affinity(cores) if cores else ""
            self.cpus[number] = self._element("cpu", node, numaid=str(number), affinity=words, **shared)
            sockets = [k for k, p in enumerate(self.packages) if any(p is o for o in above)]
            self.cpus[number].attributes |= {"socket": str(sockets[0])} if sockets else {}
        if not self.cpus:
            self.cpus[0] = self._element("cpu", self.top, numaid="0", **shared)

    def _near(self, element: Element, above: list[Element]) -> Element:
        """The NUMA node that an object is at, of several the first; a note where hwloc does not report which, or where
        it is none of those that have cores."""
        nodes, reported = hwloc_nodes.nodes_at(above, self.cpus), hwloc_nodes.reported_at(above)
        taken, text = f"taken as {nodes[0]}, which may be far from it", ""
        if reported and not any(n in self.cpus for n in reported):
            named = " and ".join(map(str, reported))
            text = f"at NUMA node{'s' * (len(reported) > 1)} {named}, without cores in hwloc's view: {taken}"
        elif len(nodes) > 1:
            text = f"hwloc does not report its NUMA node: taken as {nodes[0]}"
        elif not reported and (hidden := hwloc_nodes.hidden(self.top)):
            left_out = " and ".join(map(str, hidden))
            cgroup = f" (LinuxCgroup {short(name)})" if (name := self.info.get("LinuxCgroup")) else ""
            text = f"hwloc does not report its NUMA node, and its view leaves out {left_out}{cgroup}: {taken}"
        if text:
            self.notes.append(Note(NoteKind.ASSUMED, f"line {element.line}, PCI below it", text))
        return self.cpus[nodes[0]]

    def _bridge(self, bridge: Element, above: Element, depth: int) -> None:
        """`depth`: how many PCIe bridges are above it; every second is a switch's upper port."""
        upstream = depth % 2 == 1 and "pci_busid" in bridge.attributes
        own = self._pci(bridge, "0x060400") if upstream else above
        deeper = depth + (bridge.attributes.get("bridge_type", "1-1") != "0-1")
        for child in bridge.inside("object"):
            kind = child.attributes.get("type")
            if kind == "Bridge":
                self._bridge(child, own, deeper)
            elif kind == "PCIDev":
                self._device(child, own)
        if own is not above and own.children:
            above.children.append(own)

    def _device(self, element: Element, above: Element) -> None:
        code, vendor, device = self._type(element)
        line = self.busids.setdefault(element.text("pci_busid"), element.line)
        if line != element.line:
            text = f"has the busid of line {line} again: left out"
            self.notes.append(Note(NoteKind.TRAP, f"line {element.line}, {element.attributes['pci_busid']}", text))
            return
        kind = pci.kind_of(code << 8, vendor, device)
        own = self._pci(element, f"{code << 8:#08x}")
        if kind is DeviceKind.PCI and vendor in parts.PCI_VENDORS and _computes(element):
            kind, own.attributes["class"] = DeviceKind.GPU, _DISPLAY_CONTROLLER
        elif words := pci.unknown_accelerator(code << 8, vendor, device):
            name = _info(element).get("PCIDevice", "")
            text = f"the {words}{f' ({name})' if name else ''} is in no table: left out, whatever it computes"
            self.notes.append(Note(NoteKind.UNKNOWN, element.attributes["pci_busid"], text))
        fabric, network = self._names(element)
        if kind is DeviceKind.NIC and fabric and (first := self._port_of(own, fabric)):
            text = f"is a port of the card of {first}, as {fabric} is: taken together, as NCCL does"
            self.notes.append(Note(NoteKind.ASSUMED, element.attributes["pci_busid"], text))
        elif kind in (DeviceKind.GPU, DeviceKind.NIC, DeviceKind.STORAGE):
            above.children.append(own)
        if "gp_index" in element.attributes:
            self.placed[element.attributes["gp_index"]] = own
        for system in element.inside("object"):  # indexes of the devices of Linux and of the driver
            if system.attributes.get("type") == "OSDev" and "gp_index" in system.attributes:
                self.placed[system.attributes["gp_index"]] = own
        if kind is DeviceKind.NIC and (name := fabric or network):
            own.attributes["name"] = name
        if kind is DeviceKind.GPU and not parts.gpu_by_id(vendor, device):
            own.attributes |= _reported(element)

    def _type(self, element: Element) -> tuple[int, int, int]:
        """Class, vendor and device of `0302 [10de:20b0] [10de:134f] a1`."""
        text = element.text("pci_type")
        if not re.match(r"[0-9a-fA-F]{4} \[[0-9a-fA-F]{4}:[0-9a-fA-F]{4}\]", text):
            element.refuse(f'pci_type="{short(text)}"; expected such as 0302 [10de:20b0] [10de:134f] a1')
        return int(text[:4], 16), int(text[6:10], 16), int(text[11:15], 16)

    def _pci(self, element: Element, code: str) -> Element:
        busid = element.text("pci_busid")
        if not pci.is_busid(busid):
            element.refuse(f'pci_busid="{short(busid)}"; expected such as 0000:a1:00.0')
        _, vendor, device = self._type(element)
        part = parts.gpu_by_id(vendor, device) or parts.nic_by_id(vendor, device)
        speed, width = _lanes(element.number("pci_link_speed", 0, 1e5, 0.0) * 1e9, part.pcie if part else 0)
        ids = {"vendor": f"{vendor:#06x}", "device": f"{device:#06x}"}
        return self._element(
            "pci", element, busid=busid, **{"class": code}, **ids, link_speed=speed, link_width=str(width)
        )

    def _port_of(self, own: Element, fabric: str) -> str:
        """The RDMA library's name of the first function of a NIC's card; "" where this is the first."""
        ids = [own.attributes.get(key, "") for key in ("vendor", "device")]
        first = self.cards.setdefault((pci.slot_of(own.attributes["busid"]), *ids), fabric)
        return "" if first == fabric else first

    def _names(self, element: Element) -> tuple[str, str]:
        """The RDMA library's name of a NIC, and its network interface's."""
        names: dict[bool, str] = {}
        for system in element.inside("object"):
            kind = system.whole("osdev_type", 0, 255, 0)
            fabric = bool(kind & _FABRIC) if self.version_3 else kind == 3
            network = bool(kind & _NETWORK) if self.version_3 else kind == 2
            name = system.attributes.get("name", "")
            if (fabric or network) and re.fullmatch(r"[\w.:@+-]{1,40}", name, re.ASCII):
                names.setdefault(fabric, name)
        return names.get(True, ""), names.get(False, "")


def _objects(top: Element) -> Iterator[tuple[Element, list[Element]]]:
    """All objects, each with those around it."""
    waiting: list[tuple[Element, list[Element]]] = [(top, [])]
    while waiting:
        element, above = waiting.pop()
        yield element, above
        inner = [*above, element]
        waiting += [(child, inner) for child in reversed(element.inside("object"))]


def _below_bridge(above: list[Element]) -> bool:
    return any(o.attributes.get("type") in _PCI for o in above)


def _info(element: Element) -> dict[str, str]:
    return {
        i.attributes["name"]: i.attributes.get("value", "") for i in element.inside("info") if "name" in i.attributes
    }


def _lanes(bandwidth_Bps: float, generation: int) -> tuple[str, int]:
    """Speed and width that make up a bandwidth, of the device's own generation where they do, else of the usual width;
    none for 0."""
    own = [(generation, width) for width in _WIDTHS if generation in parts.PCIE]
    for g, width in [*own, *((g, width) for width in _WIDTHS for g in parts.PCIE)]:
        if abs(width * parts.PCIE[g].bandwidth_Bps - bandwidth_Bps) < 0.005 * bandwidth_Bps:
            return pci.speed_for_nccl(g), width
    return "", 0


def _computes(element: Element) -> bool:
    """Whether a library for computing has a device of the operating system in it."""
    names = (o.attributes.get("name", "") for o in element.inside("object") if o.attributes.get("type") == "OSDev")
    return any(re.match(r"(rsmi|nvml|cuda|opencl)\d", name) for name in names)


def _reported(element: Element) -> dict[str, str]:
    """The model by the words of the driver or of the list of PCI ids, such as `NVIDIA A100-SXM4-40GB`, where they name
    one of ours; else these words alone; empty where there are none."""
    drivers = (_info(system).get("GPUModel", "") for system in element.inside("object"))
    texts = [text for text in (*drivers, _info(element).get("PCIDevice", "")) if text]
    words = [set(re.findall(r"[a-z0-9]+", text.lower())) for text in texts]
    models = {m for m in parts.GPUS if any(set(m.lower().split()) <= w for w in words)}
    if len(models) == 1:
        return {"model": models.pop()}
    return {"reported": texts[0]} if texts else {}
