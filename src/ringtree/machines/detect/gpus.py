"""The GPUs of this machine: from NVML or the kernel, else from their PCI ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from ringtree.machines import parts
from ringtree.machines.building import MachineBuilder
from ringtree.machines.detect.amd import KfdGpu
from ringtree.machines.detect.attachments import ASSUMED, Attachments, GTps
from ringtree.machines.detect.nvml import INSTALL, NvmlGpu
from ringtree.machines.detect.pci import PciDevice, Speed
from ringtree.machines.link_figures import c2c
from ringtree.machines.machine import Device, DeviceKind, LinkKind, NoteKind

NVIDIA, AMD = 0x10DE, 0x1002
DISPLAY, COMPUTE, OTHER_DISPLAY, ACCELERATOR, SWITCH = 0x0300, 0x0302, 0x0380, 0x1200, 0x0680
NVLINKS = {60: 1, 70: 2, 80: 3, 86: 3, 90: 4, 100: 5, 103: 5}
"""The generation by compute capability times 10."""
SWITCHED = {2: 1, 3: 2, 4: 3, 5: 4}
"""The generation of NVSwitch that goes with one of NVLink."""
BOARD = 8
"""GPUs of the smallest board with NVSwitches; that of an A100 and later has no other form."""


@dataclass(frozen=True, slots=True)
class DetectedGpu:
    """A GPU of this machine. `nvlinks`: from NVML; `xgmi`: from KFD."""

    busid: str
    model: str
    maker: str
    sm: int
    part: parts.GpuPart | None
    nvlinks: Mapping[tuple[str, str], int] = field(default_factory=lambda: MappingProxyType({}))
    xgmi: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def nvlink(self) -> int:
        """The generation of its NVLinks; 0 where it has none."""
        wire = self.part.wire if self.part else 0
        return wire if isinstance(wire, int) and wire else NVLINKS.get(self.sm, 0)


def candidates(pci: Mapping[str, PciDevice]) -> tuple[PciDevice, ...]:
    """PCI devices that compute, in the bus's order; no screens of a board, and no parts of others (SR-IOV)."""
    return tuple(d for d in pci.values() if not d.virtual and _computes(d))


def _computes(d: PciDevice) -> bool:
    if parts.gpu_by_id(d.maker, d.model) is not None:
        return True
    kinds = {NVIDIA: (DISPLAY, COMPUTE), AMD: (COMPUTE, OTHER_DISPLAY, ACCELERATOR)}
    return d.kind in kinds.get(d.maker, (COMPUTE, ACCELERATOR) if d.maker in parts.PCI_VENDORS else ())


def gpus(found: Sequence[PciDevice], nvml: Sequence[NvmlGpu], kfd: Sequence[KfdGpu]) -> tuple[DetectedGpu, ...]:
    """The GPUs in the order in which their software counts them. Where NVML is present, it reports all NVIDIA GPUs that
    this process may use."""
    at = {d.busid: d for d in found}
    first = [_nvidia(gpu, at.get(gpu.busid)) for gpu in nvml]
    then = [_amd(gpu, at[gpu.busid]) for gpu in kfd if gpu.busid in at]
    taken = {gpu.busid for gpu in (*first, *then)}
    rest = [d for d in found if d.busid not in taken and not (nvml and d.maker == NVIDIA)]
    return (*first, *then, *map(_by_id, rest))


def _nvidia(gpu: NvmlGpu, device: PciDevice | None) -> DetectedGpu:
    part = parts.gpu_by_id(NVIDIA, device.model if device else gpu.model)
    return DetectedGpu(gpu.busid, gpu.name, "nvidia", gpu.sm, part, gpu.nvlinks)


def _amd(gpu: KfdGpu, device: PciDevice) -> DetectedGpu:
    known = _by_id(device)
    return DetectedGpu(gpu.busid, known.model, known.maker, 0, known.part, xgmi=gpu.xgmi)


def _by_id(device: PciDevice) -> DetectedGpu:
    part = parts.gpu_by_id(device.maker, device.model)
    maker = parts.PCI_VENDORS.get(device.maker, f"0x{device.maker:04x}")
    if part is None:
        return DetectedGpu(device.busid, f"0x{device.model:04x}", maker, 0, None)
    return DetectedGpu(device.busid, part.model, part.vendor, part.sm, part)


def add(
    builder: MachineBuilder, attachments: Attachments, pci: Mapping[str, PciDevice], there: Sequence[DetectedGpu]
) -> None:
    """Adds them as gpu0, gpu1, …, and the links among them."""
    names = {gpu.busid: f"gpu{k}" for k, gpu in enumerate(there)}
    for gpu in there:
        part, device = gpu.part, pci.get(gpu.busid)
        attributes = dict(device.attributes) if device else {}
        if part is not None:
            builder.note(NoteKind.SOURCE, part.model, part.source)
            attributes |= {"memory_Bps": f"{part.memory_Bps:.0f}"} | ({} if part.p2p else {"p2p": "0"})
        else:
            text = "no table knows its PCI id: its NVLinks, and whether it reaches others directly, are unknown"
            builder.note(NoteKind.UNKNOWN, names[gpu.busid], text)
        builder.add(
            Device(
                names[gpu.busid],
                DeviceKind.GPU,
                gpu.maker,
                gpu.model,
                gpu.busid,
                attachments.numa(gpu.busid),
                gpu.sm,
                gdr=part.gdr if part else True,
                attributes=MappingProxyType(attributes),
            )
        )
        usual = Speed(GTps[part.pcie], 16) if part else ASSUMED
        attachments.join(names[gpu.busid], gpu.busid, DeviceKind.GPU, usual)
        if wire := c2c(part):
            builder.wired(names[gpu.busid], attachments.cpu(gpu.busid), wire, 1)
    _join_xgmi(builder, there, names)
    if any(gpu.nvlinks for gpu in there):
        _join_nvlinks(builder, attachments, there, names)
    else:
        _assume_nvlinks(builder, pci, there, names)


def _join_xgmi(builder: MachineBuilder, there: Sequence[DetectedGpu], names: Mapping[str, str]) -> None:
    for gpu in there:
        for other, reported_Bps in gpu.xgmi.items():
            if other in names and names[gpu.busid] < names[other]:
                wire = parts.XGMI.get(str(gpu.part.wire)) if gpu.part else None
                one_Bps = wire.bandwidth_Bps if wire else reported_Bps
                if not one_Bps:
                    continue  # neither a table nor the kernel has its bandwidth
                width = max(round(reported_Bps / one_Bps), 1)
                builder.link(
                    names[gpu.busid],
                    names[other],
                    LinkKind.XGMI,
                    width * one_Bps,
                    latency_s=wire.latency_s if wire else 0.0,
                    generation=wire.generation if wire else 0,
                    width=width,
                )


def _join_nvlinks(
    builder: MachineBuilder, attachments: Attachments, there: Sequence[DetectedGpu], names: Mapping[str, str]
) -> None:
    switches = {busid for gpu in there for kind, busid in gpu.nvlinks if kind == "nvswitch"}
    generation = max((gpu.nvlink for gpu in there), default=0)
    if switches and generation in SWITCHED:
        builder.nvswitch("nvswitch", SWITCHED[generation], len(switches))
    for gpu in there:
        through = sum(count for (kind, _), count in gpu.nvlinks.items() if kind == "nvswitch")
        if through and gpu.nvlink in SWITCHED:
            builder.nvlink(names[gpu.busid], "nvswitch", gpu.nvlink, through)
        for (kind, busid), count in gpu.nvlinks.items():
            if kind == "cpu" and gpu.nvlink:
                builder.nvlink(names[gpu.busid], attachments.cpu(gpu.busid), gpu.nvlink, count)
            elif kind == "gpu" and busid in names and names[gpu.busid] < names[busid] and gpu.nvlink:
                builder.nvlink(names[gpu.busid], names[busid], gpu.nvlink, count)


def _assume_nvlinks(
    builder: MachineBuilder, pci: Mapping[str, PciDevice], there: Sequence[DetectedGpu], names: Mapping[str, str]
) -> None:
    """Without NVML: NVSwitches on the bus, or a board that there is only with them, join all that have NVLinks."""
    linked = [gpu for gpu in there if gpu.maker == "nvidia" and gpu.part and gpu.part.wires and gpu.nvlink]
    chips = sum(d.kind == SWITCH and d.maker == NVIDIA for d in pci.values())
    boards = len(linked) >= BOARD and all(gpu.sm >= 80 and "PCIe" not in gpu.model for gpu in linked)
    if len(linked) < 2:
        return
    if not chips and not boards:
        text = f"only NVML reports NVLinks between GPUs ({INSTALL}): none are assumed"
        builder.note(NoteKind.ASSUMED, "NVLink", text)
        return
    generation = linked[0].nvlink
    if generation not in SWITCHED:
        return
    builder.nvswitch("nvswitch", SWITCHED[generation], max(chips, 1))
    for gpu in linked:
        builder.nvlink(names[gpu.busid], "nvswitch", generation, gpu.part.wires if gpu.part else 0)
    why = f"{chips} NVSwitches are on the bus" if chips else f"{len(linked)} such GPUs are built with NVSwitches only"
    builder.note(
        NoteKind.ASSUMED, "NVLink", f"all links of every GPU lead to NVSwitches: {why}; NVML reports them ({INSTALL})"
    )
