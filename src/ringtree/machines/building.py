"""Building a machine: devices by name, links in both directions."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from ringtree.machines import parts
from ringtree.machines.machine import Device, DeviceKind, Link, LinkKind, Machine, Note, NoteKind, both_ways


class MachineBuilder:
    """Devices keep the order they are added in: the k-th GPU is local rank k. A link may name devices that are added
    later; `machine` resolves the name. The source of each part's figures becomes a note, once each."""

    def __init__(self) -> None:
        self._devices: dict[str, Device] = {}
        self._links: list[tuple[str, str, Link]] = []
        self._notes: dict[Note, None] = {}

    def add(self, device: Device) -> str:
        """Adds the device and returns its name. ValueError: if the name is taken."""
        if device.name in self._devices:
            raise ValueError(f"two devices are named {device.name!r}; expected names that differ")
        self._devices[device.name] = device
        return device.name

    def free(self, name: str) -> str:
        """The name, or one like it where the name is taken."""
        while name in self._devices:
            name += "'"
        return name

    def cpu(self, name: str, model: str, *, numa: int = -1) -> str:
        """Adds a NUMA node of a CPU of `parts.CPUS`; returns its name. KeyError: if the model is none of them."""
        part = parts.CPUS[model]
        self.note(NoteKind.SOURCE, model, part.source)
        attributes = {"arch": part.arch, "familyid": str(part.family), "modelid": str(part.modelid)}
        return self.add(
            Device(name, DeviceKind.CPU, part.vendor, model, numa=numa, attributes=MappingProxyType(attributes))
        )

    def gpu(self, name: str, model: str, *, busid: str = "", numa: int = -1) -> str:
        """Adds a GPU of `parts.GPUS`; returns its name. KeyError: if the model is none of them."""
        part = parts.GPUS[model]
        self.note(NoteKind.SOURCE, model, part.source)
        return self.add(
            Device(
                name,
                DeviceKind.GPU,
                part.vendor,
                model,
                busid,
                numa,
                part.sm,
                part.gdr,
                attributes=MappingProxyType(part.attributes),
            )
        )

    def nic(self, name: str, model: str, *, busid: str = "", numa: int = -1, fabric: str = "") -> str:
        """Adds a NIC of `parts.NICS`, with the `fabric` that it is made for; returns its name. KeyError as above."""
        part = parts.NICS[model]
        self.note(NoteKind.SOURCE, model, part.source)
        attributes = {"ports": str(part.ports)} | ({"fabric": fabric} if fabric else {})
        return self.add(
            Device(
                name,
                DeviceKind.NIC,
                part.vendor,
                model,
                busid,
                numa,
                gdr=part.gdr,
                rate_Bps=part.rate_Bps,
                attributes=MappingProxyType(attributes),
            )
        )

    def nvswitch(self, name: str, generation: int, chips: int = 1) -> str:
        """Adds one device for all NVSwitches of a domain, as NCCL has it, with attributes `generation`, `chips` and
        `sharp`; returns its name."""
        part = parts.NVSWITCH[generation]
        self.note(NoteKind.SOURCE, f"NVSwitch {generation}", part.source)
        attributes = {"generation": str(generation), "chips": str(chips), "sharp": str(int(part.sharp))}
        model = f"NVSwitch {generation}"
        return self.add(Device(name, DeviceKind.NVSWITCH, "nvidia", model, attributes=MappingProxyType(attributes)))

    def link(
        self,
        a: str,
        b: str,
        kind: LinkKind,
        bandwidth_Bps: float,
        *,
        latency_s: float = 0.0,
        generation: int = 0,
        width: int = 1,
    ) -> None:
        """Adds a link in both directions; the bandwidth is each direction's, of all `width` together."""
        self._links.append((a, b, Link(0, 1, kind, bandwidth_Bps, latency_s, generation, width)))

    def wired(self, a: str, b: str, wire: parts.LinkGeneration, width: int) -> None:
        """`width` links (PCIe: lanes) of a generation of `parts`, both ways."""
        name = f"{wire.kind.value} {wire.generation}" if wire.generation else wire.kind.value
        self.note(NoteKind.SOURCE, name, wire.source)
        self.link(
            a,
            b,
            wire.kind,
            width * wire.bandwidth_Bps,
            latency_s=wire.latency_s,
            generation=wire.generation,
            width=width,
        )

    def pcie(self, a: str, b: str, generation: int, width: int = 16) -> None:
        """PCIe lanes."""
        self.wired(a, b, parts.PCIE[generation], width)

    def nvlink(self, a: str, b: str, generation: int, count: int) -> None:
        """NVLinks, to a GPU or an NVSwitch."""
        self.wired(a, b, parts.NVLINK[generation], count)

    def note(self, kind: NoteKind, about: str, text: str) -> None:
        """Adds a note, once even if it is given several times."""
        self._notes[Note(kind, about, text)] = None

    def machine(self, name: str) -> Machine:
        """The finished machine. ValueError: if a link names no device."""
        number = {device: n for n, device in enumerate(self._devices)}
        links: list[Link] = []
        for a, b, link in self._links:
            for end in (a, b):
                if end not in number:
                    raise ValueError(f"{name}: a link from {a!r} to {b!r}; expected devices, there is no {end!r}")
            links += both_ways(replace(link, source=number[a], target=number[b]))
        return Machine(name, tuple(self._devices.values()), tuple(links), tuple(self._notes))
