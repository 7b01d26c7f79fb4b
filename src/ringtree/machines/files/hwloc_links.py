"""NVLinks and xGMI links in hwloc's XML: matrices of MB/s between devices, each by hwloc's global index.

hwloc gets xGMI from either of AMD's libraries. With the older (RSMI) it writes one constant for every pair that xGMI
joins, over other GPUs too: that is no number of links, and none are taken from it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ringtree.machines import parts
from ringtree.machines.files.nccl_xml.gpus import NVLINK_OF_SM
from ringtree.machines.files.xml_elements import Element, short
from ringtree.machines.machine import DeviceKind, Note, NoteKind
from ringtree.machines.pci import kind_of

_TAGS = {"NVLinkBandwidth": "nvlink", "XGMIBandwidth": "xgmi"}
_HOPS = "XGMIHops"
_CONSTANT_MBPS = 100_000
"""open-mpi/hwloc, hwloc/topology-rsmi.c."""
_MOST = 1024
_MOST_LINKS = 1024
_SHOWN = 3
_REMEDY = "none are taken from it; assume nvlink=mesh, pairs or none"
Pairs = dict[tuple[str, str], int]
"""A value for each two different devices, by their indexes."""


@dataclass(frozen=True, slots=True)
class _Gpu:
    """A GPU's <pci>, and its model where a table has it."""

    element: Element
    part: parts.GpuPart | None

    def each_Bps(self, tag: str) -> float:
        """The bandwidth of one link; 0 where it is not known."""
        if self.part is None:
            return 0.0
        nvlink = NVLINK_OF_SM.get(self.part.sm, 0)
        wire = parts.XGMI.get(str(self.part.wire)) if tag == "xgmi" else parts.NVLINK.get(nvlink)
        return wire.bandwidth_Bps if wire else 0.0


def add(root: Element, placed: Mapping[str, Element], packages: Sequence[Element]) -> list[Note]:
    """Gives the <pci> of GPUs their <gpu> with its links; `placed` are <pci> by index. Returns notes on matrices of
    which no links are taken."""
    gpus = {index: _Gpu(own, _part(own)) for index, own in placed.items() if _is_gpu(own)}
    cpus = {p.attributes.get("gp_index", "") for p in packages}
    by_name: dict[str, list[Element]] = {}
    for matrix in root.inside("distances2", "distances2hetero"):
        by_name.setdefault(matrix.attributes.get("name", ""), []).append(matrix)
    hops: Pairs = {}
    for matrix in by_name.get(_HOPS, []):
        hops |= _pairs(matrix)
    notes = []
    for name, tag in _TAGS.items():
        for matrix in by_name.get(name, []):
            direct = {
                (a, b): MBps
                for (a, b), MBps in _pairs(matrix).items()
                if MBps and a in gpus and (b in cpus or b in placed) and hops.get((a, b), 1) <= 1
            }
            where = f"line {matrix.line}, {name}"
            strangers = dict.fromkeys(index for index in _linked(matrix) if index not in cpus and index not in placed)
            if strangers:
                shown = ", ".join(short(index) for index in list(strangers)[:_SHOWN])
                text = f"index {shown} is that of no device in the file: its links are left out"
                notes.append(Note(NoteKind.UNKNOWN, where, text))
            if text := _no_numbers(tag, direct, gpus):
                notes.append(Note(NoteKind.UNKNOWN, where, text))
                continue
            for (a, _), MBps in direct.items():
                if (links := _count(MBps, gpus[a].each_Bps(tag))) > _MOST_LINKS:
                    matrix.refuse(f"{MBps} MB/s are {links} links; expected at most {_MOST_LINKS} between two devices")
            for (a, b), MBps in direct.items():
                if placed.get(b) is not gpus[a].element:
                    _link(tag, gpus[a], placed.get(b), _count(MBps, gpus[a].each_Bps(tag)))
    _number(list({id(g.element): g.element for g in gpus.values()}.values()))
    return notes


def _linked(matrix: Element) -> list[str]:
    """The indexes of a matrix that have bandwidth to another one."""
    return [index for ends, MBps in _pairs(matrix).items() if MBps for index in ends]


def _pairs(matrix: Element) -> Pairs:
    count = matrix.whole("nbobjs", 1, _MOST)
    indexes = [t.rpartition(":")[2] for e in matrix.inside("indexes") for t in e.content.split()]
    values = [t for e in matrix.inside("u64values") for t in e.content.split()]
    if len(indexes) != count or len(values) != count * count:
        matrix.refuse(f"{len(indexes)} indexes and {len(values)} values; expected {count} and {count * count}")
    for text in values:
        if not re.fullmatch(r"\d{1,20}", text, re.ASCII):
            matrix.refuse(f'"{short(text)}" is no bandwidth; expected a whole number of MB/s')
    ends = ((a, b) for a in indexes for b in indexes)
    return {(a, b): int(text) for (a, b), text in zip(ends, values, strict=True) if a != b}


def _count(MBps: int, each_Bps: float) -> int:
    return max(1, round(MBps * 1e6 / each_Bps))


def _no_numbers(tag: str, direct: Pairs, gpus: Mapping[str, _Gpu]) -> str:
    """The reason why a matrix gives no numbers of links; empty where it does."""
    if tag == "xgmi" and direct and set(direct.values()) == {_CONSTANT_MBPS}:
        return f"{_CONSTANT_MBPS} for every pair is hwloc's constant for xGMI, not a number of links: {_REMEDY}"
    counts = Counter[str]()
    for (a, _), MBps in direct.items():
        each_Bps = gpus[a].each_Bps(tag)
        attributes = gpus[a].element.attributes
        if not each_Bps:
            ids = f"[{attributes['vendor'][2:]}:{attributes['device'][2:]}]"
            return f"the links of {attributes['busid']} {ids} are in no table: {_REMEDY}"
        counts[a] += _count(MBps, each_Bps)
    for a, count in counts.items():
        part = gpus[a].part
        if tag == "xgmi" and part is not None and count > part.wires:
            busid = gpus[a].element.attributes["busid"]
            return f"{count} links of {busid}, where a {part.model} has {part.wires}: {_REMEDY}"
    return ""


def _link(tag: str, of: _Gpu, target: Element | None, count: int) -> None:
    own = of.element
    gpu = next(iter(own.inside("gpu")), None)
    if gpu is None:
        gpu = Element("gpu", {"sm": str(of.part.sm if of.part else 0), "gdr": "1"}, own.line, own.file)
        own.children.append(gpu)
    if target is None:
        busid, code = "ffff:ff:ff.0", "0x068001"
    elif _is_gpu(target):
        busid, code = target.attributes["busid"], target.attributes["class"]
    else:  # drivers report no class for some NVSwitches
        busid, code = "fffffff:ff:ff.0", "0x068000"
    gpu.children.append(Element(tag, {"target": busid, "count": str(count), "tclass": code}, own.line, own.file))


def _part(own: Element) -> parts.GpuPart | None:
    found = parts.gpu_by_id(int(own.attributes["vendor"], 16), int(own.attributes["device"], 16))
    return found or parts.GPUS.get(own.attributes.get("model", ""))


def _is_gpu(element: Element) -> bool:
    code, vendor, device = (int(element.attributes[key], 16) for key in ("class", "vendor", "device"))
    return kind_of(code, vendor, device) is DeviceKind.GPU


def _number(slots: Sequence[Element]) -> None:
    """Gives all GPUs of a file with links a <gpu>, by busid."""
    if any(e.inside("gpu") for e in slots):
        for n, slot in enumerate(sorted(slots, key=lambda e: e.attributes["busid"])):
            if not slot.inside("gpu"):
                slot.children.append(Element("gpu", {"gdr": "1"}, slot.line, slot.file))
            slot.inside("gpu")[0].attributes["dev"] = str(n)
