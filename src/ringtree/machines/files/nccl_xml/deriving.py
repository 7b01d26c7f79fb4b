"""GPUs and NICs of a file that holds PCI devices alone, as the clouds' do; NCCL would query the machine itself."""

from __future__ import annotations

from types import MappingProxyType

from ringtree.machines import parts, pci
from ringtree.machines.files.nccl_xml import fabric, gpus
from ringtree.machines.files.nccl_xml.assumed import Assumed, note_unused
from ringtree.machines.files.nccl_xml.parsed import Parsed, PciSlot
from ringtree.machines.link_figures import c2c
from ringtree.machines.machine import DeviceKind, Link, LinkKind, NoteKind

_BOARDS = {3: "V100 SXM2", 4: "A100 SXM4 40GB", 5: "H100 SXM5", 6: "B300"}
"""The likeliest model of eight and more GPUs of a PCIe generation …"""
_CARDS = {3: "V100 PCIe", 4: "A100 PCIe 80GB", 5: "H100 PCIe", 6: "B300"}
"""… and of fewer."""
_RATES_Gbps = (800, 400, 200, 100, 50, 40, 25, 10)
_RDMA_MAKERS = ("", "mellanox", "amazon", "hpe", "google", "broadcom", "huawei")
_PLAIN_Bps = 10 * parts.Gbps


def derive(parsed: Parsed) -> None:
    """Fills what was derived from a PCI class alone, and links the GPUs as boards of their model do; rates that no NIC
    has, too."""
    given = parsed.given
    found = {kind: [s for s in parsed.derived if _kind(parsed, s) is kind] for kind in (DeviceKind.GPU, DeviceKind.NIC)}
    slots = sorted(found[DeviceKind.GPU], key=lambda s: (s.key[0], pci.busid_order(s.key[1])))
    models = [_model(parsed, slot, len(slots)) for slot in slots]
    for position, (slot, part) in enumerate(zip(slots, models, strict=True)):
        _gpu(parsed, slot, part, position)
    if slots:
        text = "the file lists PCI devices only: GPUs are known by class and device id, and numbered as on the bus"
        parsed.draft.note(NoteKind.ASSUMED, "GPUs", text)
        fabric.link(parsed, [s.number for s in slots if s.number is not None], models)
        wired = True
    else:
        wired = _linked_gpus(parsed, given)
    for slot in found[DeviceKind.NIC]:
        _nic(parsed, slot)
    for number in parsed.rateless:
        _rate(parsed, number)
    there = {d.model for d in parsed.draft.devices if d.kind is DeviceKind.GPU}
    for key, used, present in (
        ("gpu", given.gpu is None or parsed.used_gpu or there == {given.gpu.model}, parsed.has_gpus or slots),
        ("nic", given.nic_Bps is None or found[DeviceKind.NIC] or parsed.rateless, parsed.has_nics),
        ("gdr", given.gdr is None or found[DeviceKind.NIC], parsed.has_nics),
        ("nvlink", given.nvlink is None or wired, parsed.has_gpus),
    ):
        if not used:
            why = "the file has it, which takes precedence" if present else "the file has none"
            note_unused(parsed.draft, key, why)


def _linked_gpus(parsed: Parsed, given: Assumed) -> bool:
    """Links the GPUs of a board by the assumptions, in a file without links between them, where NCCL would query the
    driver. Returns whether GPUs were linked: not where the file links them, or their models are unknown."""
    numbers = [n for n, d in enumerate(parsed.draft.devices) if d.kind is DeviceKind.GPU]
    numbers.sort(key=parsed.draft.position)
    models = [parts.GPUS.get(parsed.draft.devices[n].model) for n in numbers]
    known = [m for m in models if m is not None]
    tags = {e.tag for e in parsed.root.below()}
    links = "link" in tags or any(k.kind in (LinkKind.NVLINK, LinkKind.XGMI) for k in parsed.draft.links)
    if links or len(known) < max(2, len(models)):
        return False
    if given.nvlink is not None:
        fabric.link(parsed, numbers, known)
        return True
    if not tags & {"nvlink", "xgmi"} and fabric.usual(known[0], len(known)) != "none":
        text = "the file has none, and NCCL would query the driver: none; else assume nvlink=nvswitch or mesh"
        parsed.draft.note(NoteKind.ASSUMED, "links between GPUs", text)
    return False


def _kind(parsed: Parsed, slot: PciSlot) -> DeviceKind | None:
    return None if slot.number is None else parsed.draft.devices[slot.number].kind


def _model(parsed: Parsed, slot: PciSlot, count: int) -> parts.GpuPart | None:
    """A GPU's model: its device id's, its driver's, the given one; the likely one of `count` GPUs where the file has no
    id, None for an id that no table has."""
    assert slot.number is not None
    device = parsed.draft.devices[slot.number]
    generation = slot.link.generation if slot.link else pci.NCCL_DEFAULT_GENERATION
    driver = parts.GPUS.get(slot.element.attributes.get("model", ""))
    part: parts.GpuPart | None
    if (part := parts.gpu_by_id(*gpus.ids(device))) is not None:
        kind, text = NoteKind.SOURCE, f"device id {device.attributes['device']} is {part.model}'s"
    elif (part := driver) is not None:
        kind, text = NoteKind.SOURCE, f"its driver reports {part.model}"
    elif (part := gpus.given(parsed, device.vendor)) is not None:
        kind, text = NoteKind.ASSUMED, f"taken as {part.model}, as it was given"
    elif gpus.ids(device)[1]:
        text = f"{gpus.named(device, slot.element)}: its model and links are left open; {gpus.GIVE_GPU}"
        kind = NoteKind.UNKNOWN
    else:
        part = _likely(parsed, slot, count, generation)
        kind = NoteKind.ASSUMED
        text = (
            f"its device id is missing: taken as {part.model}, as {count} GPUs of PCIe {generation} are likely to be; "
            f"if not: {gpus.GIVE_GPU}"
        )
    parsed.draft.note(kind, slot.number, text)
    return part


def _likely(parsed: Parsed, slot: PciSlot, count: int, generation: int) -> parts.GpuPart:
    assert slot.number is not None
    code = slot.element.whole("class", 0, 0xFFFFFF)
    vendor = parsed.draft.devices[slot.number].vendor
    if vendor == "amd" or (not vendor and (code >> 16 == 0x12 or code >> 8 == 0x0380)):
        return parts.GPUS["MI300X" if generation > 4 else "MI210"]
    if vendor in ("hygon", "huawei"):
        return next(p for p in parts.GPUS.values() if p.vendor == vendor)
    if code >> 8 == 0x0300:  # it has a display: a workstation's or a player's
        return parts.GPUS["RTX 4090"]
    return parts.GPUS[(_BOARDS if count >= 8 else _CARDS)[min(max(generation, 3), 6)]]


def _gpu(parsed: Parsed, slot: PciSlot, part: parts.GpuPart | None, position: int) -> None:
    assert slot.number is not None
    parsed.draft.put(slot.number, position)
    if part is None:
        return
    kept = MappingProxyType({**parsed.draft.devices[slot.number].attributes, **part.attributes})
    parsed.draft.change(slot.number, vendor=part.vendor, model=part.model, sm=part.sm, gdr=part.gdr, attributes=kept)
    if wire := c2c(part):
        cpu = parsed.cpu_of(slot.number)
        link = Link(slot.number, cpu, LinkKind.C2C, wire.bandwidth_Bps, wire.latency_s, wire.generation, 1)
        parsed.draft.join(link)
        parsed.draft.note(NoteKind.ASSUMED, slot.number, f"joined to its CPU by C2C, as {part.model} is")


def _nic(parsed: Parsed, slot: PciSlot) -> None:
    assert slot.number is not None and slot.link is not None
    given = parsed.given
    device = parsed.draft.devices[slot.number]
    part = parts.nic_by_id(*gpus.ids(device))
    if given.nic_Bps is not None:
        rate, why = given.nic_Bps, "as it was given"
    elif part is not None:
        rate, why = part.rate_Bps, f"that of {part.model}; if not: assume nic=RATE"
    elif not _rdma(slot, device.vendor):
        rate, why = _PLAIN_Bps, "as NCCL takes a NIC without a rate; if not: assume nic=RATE"
    else:
        rate = fastest(slot.link.bandwidth_Bps)
        slot_link = f"PCIe {slot.link.generation} x{slot.link.width}"
        why = f"the fastest that its slot, {slot_link}, carries; if not: assume nic=RATE"
    gdr = given.gdr
    if gdr is None:
        # one id covers Amazon's cards without and with GPUDirect RDMA: machines of A100 on have it (AWS EC2 guide, EFA)
        newer = any(d.sm >= 80 for d in parsed.draft.devices)
        gdr = newer if device.vendor == "amazon" else part.gdr if part else _rdma(slot, device.vendor)
    parsed.draft.note(NoteKind.ASSUMED, slot.number, of_rate(rate, why, gdr))
    parsed.draft.change(slot.number, rate_Bps=rate, gdr=gdr, model=part.model if part else "")


def _rate(parsed: Parsed, number: int) -> None:
    """The rate of a NIC whose file has one that no NIC has: as given, else its model's, else what its slot carries."""
    device, slot = parsed.draft.devices[number], parsed.by_number.get(number)
    part = parts.nic_by_id(*gpus.ids(device))
    if parsed.given.nic_Bps is not None:
        rate, why = parsed.given.nic_Bps, "as it was given"
    elif part is not None:
        rate, why = part.rate_Bps, f"that of {part.model}; if not: assume nic=RATE"
    elif slot is not None and slot.link is not None:
        rate, why = fastest(slot.link.bandwidth_Bps), "the fastest that its slot carries; if not: assume nic=RATE"
    else:
        rate, why = _PLAIN_Bps, "as NCCL takes a NIC without a rate; if not: assume nic=RATE"
    parsed.draft.note(NoteKind.ASSUMED, number, of_rate(rate, why, device.gdr))
    parsed.draft.change(number, rate_Bps=rate)


def of_rate(rate_Bps: float, why: str, gdr: bool) -> str:
    """The note about a NIC whose rate is assumed."""
    switched = "on" if gdr else "off"
    return f"its rate is missing: taken as {rate_Bps * 8 / 1e9:g} Gb/s, {why}; GPUDirect RDMA {switched} (gdr=0 or 1)"


def fastest(slot_Bps: float) -> float:
    """The fastest line rate of network cards that a slot carries."""
    return next((r * parts.Gbps for r in _RATES_Gbps if r * parts.Gbps <= slot_Bps), slot_Bps)


def _rdma(slot: PciSlot, maker: str) -> bool:
    """Whether a NIC of no known id is one for GPUs' traffic: by its maker, or its class (InfiniBand, fabric)."""
    return maker in _RDMA_MAKERS or slot.element.whole("class", 0, 0xFFFFFF) >> 8 in (0x0207, 0x0208)
