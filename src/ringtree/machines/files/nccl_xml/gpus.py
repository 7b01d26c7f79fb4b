"""The <gpu> elements and their links: NVLink, xGMI, C2C."""

from __future__ import annotations

from types import MappingProxyType

from ringtree.machines import parts, pci
from ringtree.machines.files.link_counts import note_too_many
from ringtree.machines.files.nccl_xml.parsed import Parsed, PciSlot
from ringtree.machines.files.xml_elements import Element
from ringtree.machines.machine import Device, DeviceKind, Link, LinkKind, NoteKind

_KEPT = ("dev", "gcn", "arch", "mlopart", "memory_Bps", "p2p")
_MOST_LINKS = 1024
NVLINK_OF_SM = {60: 1, 70: 2, 72: 2, 80: 3, 86: 3, 87: 3, 90: 4, 100: 5, 103: 5}
"""The NVLink generation of a compute capability: NVIDIA's whitepapers of each."""
GIVE_GPU = "assume gpu=MODEL"
_XGMI_OF_GCN = {"906": "MI50", "908": "MI100", "910": "MI250", "90a": "MI250", "940": "MI300", "941": "MI300",
                "942": "MI300", "950": "MI350"}  # fmt: skip


def add(parsed: Parsed, element: Element, busid: str, above: int) -> int | None:
    """A GPU; None where the file leaves it out."""
    found = element.inside("gpu")
    if len(found) > 1:
        found[1].refuse("a second <gpu> in one <pci>; expected one: parts of a GPU are not distinguished")
    if not found:
        if parsed.has_gpus:
            text = "is a GPU by its class, but has no <gpu> as others have: left out, as NCCL does"
            parsed.draft.note(NoteKind.TRAP, busid, text)
            return None
        number = parsed.device(element, DeviceKind.GPU, "gpu", busid, above)
        parsed.derived.append(parsed.by_number[number])
        return number
    gpu = found[0]
    if parsed.has_ranks and "rank" not in gpu.attributes:
        parsed.draft.note(NoteKind.TRAP, busid, "has a <gpu> without a rank: left out, as NCCL does")
        return None
    number = parsed.device(element, DeviceKind.GPU, "gpu", busid, above)
    rank = gpu.whole("rank" if parsed.has_ranks else "dev", 0, 2**31, 0)
    for other in parsed.ranks.setdefault(rank, []):
        if parsed.has_ranks:
            gpu.refuse(f"rank {rank} is that of {parsed.draft.devices[other].busid} too; expected ranks that differ")
    parsed.ranks[rank].append(number)
    parsed.draft.put(number, rank, pci.busid_order(busid))
    device = parsed.draft.devices[number]
    kept = {**device.attributes, **{key: gpu.attributes[key] for key in _KEPT if gpu.attributes.get(key)}}
    if "memory_Bps" in kept:
        gpu.number("memory_Bps", 1, 1e18)
    known = _known(parsed, gpu, number, element)
    if known["vendor"] != "nvidia" and gpu.attributes.get("sm"):
        kept["sm"] = gpu.attributes["sm"]  # compute units
    if part := parts.GPUS.get(element.attributes.get("model") or str(known.get("model"))):
        kept = {**part.attributes, **kept}
    parsed.change(number, element, **known, attributes=MappingProxyType(kept))
    return number


def _known(parsed: Parsed, gpu: Element, number: int, pci_element: Element) -> dict[str, object]:
    """The part, from the device id, else as it was given, else from the <gpu>'s attributes; a note where no table knows
    it."""
    device = parsed.draft.devices[number]
    sm = gpu.whole("sm", 0, 100_000, 0)
    amd = device.vendor == "amd" or "gcn" in gpu.attributes or parsed.maker == "amd"
    vendor = pci_element.attributes.get("maker", "") or device.vendor or ("amd" if amd else "nvidia")
    known: dict[str, object] = {"gdr": gpu.whole("gdr", 0, 1, 1) == 1, "vendor": vendor}
    part = parts.gpu_by_id(*ids(device)) or parts.GPUS.get(pci_element.attributes.get("model", ""))
    gcn = gpu.attributes.get("gcn", "") if amd else ""
    alike = [g for g in parts.GPUS.values() if gcn and g.wire == _xgmi(gcn)]
    if part is None and (part := given(parsed, device.vendor or ("amd" if gcn else ""))) is not None:
        known["vendor"] = vendor = part.vendor
        parsed.draft.note(NoteKind.ASSUMED, number, f"taken as {part.model}, as it was given")
    elif part is None and len(alike) == 1:
        part = alike[0]
    if part is not None:
        known |= {"model": part.model}
    elif text := _unknown(device, pci_element, gcn, alike, sm if vendor == "nvidia" else 0):
        parsed.draft.note(NoteKind.UNKNOWN, number, text)
    # RCCL's sm counts compute units
    sm = sm if "sm" in gpu.attributes or part is None else part.sm
    known |= {"sm": sm if vendor == "nvidia" else 0}
    return known


def given(parsed: Parsed, maker: str) -> parts.GpuPart | None:
    """The model that the user gave for a GPU which the file does not name, None for none. ValueError: if the file has
    the GPU's maker ("" where not), and it is another."""
    part = parsed.given.gpu
    if part is not None and maker not in ("", part.vendor):
        raise ValueError(of_another_maker(part, maker))
    parsed.used_gpu |= part is not None
    return part


def of_another_maker(part: parts.GpuPart, maker: str) -> str:
    """The error about a given model that cannot be that of a file's GPUs."""
    return f"assume gpu={part.model}: it is {part.vendor}'s, and the file's GPUs are {maker}'s; expected one of these"


def named(device: Device, element: Element) -> str:
    """A GPU that no table knows: its ids, and the words of its driver."""
    vendor, model = ids(device)
    reported = element.attributes.get("reported", "")
    return f"[{vendor:04x}:{model:04x}]" + f" ({reported})" * bool(reported) + " is in no table"


def _unknown(device: Device, element: Element, gcn: str, alike: list[parts.GpuPart], sm: int) -> str:
    """The words for what is not known of a GPU, and what it is known by instead; empty where the file has no ids and
    its generation is enough."""
    has_ids = ids(device)[1] != 0
    what = named(device, element) if has_ids else "its device id is missing"
    if alike:
        models = ", ".join(g.model for g in alike)
        return f"{what}: gcn {gcn} is that of {models}; its model is left open"
    if sm:
        return f"{what}: known by sm {sm} alone" if has_ids else ""
    further = f"gcn {gcn} is in no table either, " if gcn else ""
    return f"{what}: {further}its model and links are left open; {GIVE_GPU}"


def vendor_id(maker: str) -> int:
    """The PCI vendor of a maker of GPUs."""
    return next(number for number, name in parts.PCI_VENDORS.items() if name == maker)


def ids(device: Device) -> tuple[int, int]:
    """PCI vendor and device, 0 where the file lacks them."""
    vendor, model = (device.attributes.get(key, "0x0") for key in ("vendor", "device"))
    return int(vendor, 16), int(model, 16)


def link(parsed: Parsed) -> None:
    """Adds the links of each <gpu>, both directions as in the file."""
    for slot in parsed.slots:
        for gpu in slot.element.inside("gpu"):
            if slot.number is None:
                continue
            for element in gpu.inside("nvlink", "xgmi"):
                _gpu_link(parsed, slot, slot.number, element)
            for element in gpu.inside("c2c"):
                _c2c(parsed, slot.number, element)
    if parsed.nvswitch is not None and parsed.chips:
        attributes = {**parsed.draft.devices[parsed.nvswitch].attributes, "chips": str(len(parsed.chips))}
        parsed.draft.change(parsed.nvswitch, attributes=MappingProxyType(attributes))
    one_way = {(k.source, k.target, k.kind): k.width for k in parsed.draft.links}
    for (a, b, kind), width in one_way.items():
        if kind in (LinkKind.NVLINK, LinkKind.XGMI) and one_way.get((b, a, kind)) != width:
            names = " to ".join(parsed.draft.devices[n].busid for n in (a, b))
            text = f"{width} {kind.value} one way, {one_way.get((b, a, kind), 0)} the other: NCCL takes them as written"
            parsed.draft.note(NoteKind.TRAP, names, text)
    note_too_many(parsed.draft, "NCCL takes the file's, and so do we")


def _gpu_link(parsed: Parsed, slot: PciSlot, number: int, element: Element) -> None:
    count = element.whole("count", 1, _MOST_LINKS, 1)
    wire = _wire(parsed, number, element.tag)
    target = parsed.target(element, slot)
    code = element.whole("tclass", 0, 0xFFFFFF, 0x030000 if target and target.number is not None else None)
    kind = pci.kind_of_class(code)
    if wire is None:
        text = f"no table has the figures of its {element.tag} links: left out; {GIVE_GPU}"
        parsed.draft.note(NoteKind.UNKNOWN, number, text)
        return
    both = True
    if kind is DeviceKind.NVSWITCH:
        busid = element.attributes["target"].strip().lower()
        other = parsed.further.get(busid, -1)
        if other < 0:
            other = nvswitch(parsed, wire.generation)
            parsed.chips |= set() if busid.startswith("fffffff") else {busid}
    elif kind is DeviceKind.CPU:
        other = parsed.cpu_of(number)
    elif kind is DeviceKind.GPU:
        if target is None or pci_kind(target) is not DeviceKind.GPU:
            element.refuse("leads to no GPU of this file; expected the busid of one: list all, or drop the link")
        if target is slot:
            text = (
                f"{count} links of it lead to itself: left out; NCCL keeps them, and so knows of no NVLink between "
                "GPUs: name the real targets in the file, or assume nvlink=pairs, mesh or nvswitch"
            )
            parsed.draft.note(NoteKind.TRAP, number, text)
            return
        if target.number is None:
            return
        other, both = target.number, False
    else:
        element.refuse(f'tclass="{code:#08x}"; expected 0x03…, 0x12… (GPU), 0x068000 (NVSwitch) or 0x068001 (CPU)')
    bandwidth = count * wire.bandwidth_Bps
    parsed.draft.join(Link(number, other, wire.kind, bandwidth, wire.latency_s, wire.generation, count), both)


def pci_kind(slot: PciSlot) -> DeviceKind:
    """The kind of the device in a slot, also where the device was left out."""
    element = slot.element
    return DeviceKind.GPU if element.inside("gpu") else pci.kind_of_class(element.whole("class", 0, 0xFFFFFF, 0x060400))


def nvswitch(parsed: Parsed, nvlink: int) -> int:
    """All NVSwitches are one device, as NCCL has it: traffic is spread over them."""
    if parsed.nvswitch is None:
        part = next((s for s in parts.NVSWITCH.values() if s.nvlink == nvlink), None)
        attributes = {"generation": str(part.generation), "sharp": str(int(part.sharp))} if part else {}
        model = f"NVSwitch {part.generation}" if part else "NVSwitch"
        device = Device("nvswitch0", DeviceKind.NVSWITCH, "nvidia", model, attributes=MappingProxyType(attributes))
        parsed.nvswitch = parsed.draft.add(device)
    return parsed.nvswitch


def _wire(parsed: Parsed, number: int, tag: str) -> parts.LinkGeneration | None:
    """One link of a GPU: of its model, else of its sm or gcn; None where no table knows it."""
    device = parsed.draft.devices[number]
    part = parts.GPUS.get(device.model)
    own = part.wire if part is not None else 0
    if tag == "xgmi":
        return parts.XGMI.get(own if isinstance(own, str) else _xgmi(device.attributes.get("gcn", "")))
    return parts.NVLINK.get(own if isinstance(own, int) and own else NVLINK_OF_SM.get(device.sm, 0))


def _xgmi(gcn: str) -> str:
    return _XGMI_OF_GCN.get(gcn.lower().removeprefix("gfx").split(":")[0], "")


def _c2c(parsed: Parsed, number: int, element: Element) -> None:
    count = element.whole("count", 1, _MOST_LINKS, 1)
    bandwidth = 1e6 * count * element.number("bw", 1, 1e9)
    wire = parts.C2C["GH200"]
    link = Link(number, parsed.cpu_of(number), LinkKind.C2C, bandwidth, wire.latency_s, wire.generation, count)
    parsed.draft.join(link)


def number(parsed: Parsed) -> None:
    """Names by local rank, where the file gave none."""
    found = sorted(
        (n for n, d in enumerate(parsed.draft.devices) if d.kind is DeviceKind.GPU), key=parsed.draft.position
    )
    for rank, n in enumerate(found):
        slot = parsed.by_number[n]
        if not slot.element.attributes.get("name"):
            parsed.draft.change(n, name=f"gpu{rank}")
