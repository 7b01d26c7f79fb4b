"""NVLinks and xGMI links in hwloc's XML: matrices of MB/s between devices, each by hwloc's global index."""

from __future__ import annotations

import re

from ringtree.machines import parts
from ringtree.machines.files.nccl_xml.gpus import NVLINK_OF_SM
from ringtree.machines.files.xml_elements import Element, short
from ringtree.machines.machine import DeviceKind
from ringtree.machines.pci import kind_of

_NAMES = {"NVLinkBandwidth": "nvlink", "XGMIBandwidth": "xgmi"}
_MOST = 1024


def add(root: Element, placed: dict[str, Element], packages: list[Element]) -> None:
    """Gives the <pci> of GPUs their <gpu> with its links; `placed` are <pci> by index."""
    cpus = {p.attributes.get("gp_index", "") for p in packages}
    for matrix in root.inside("distances2", "distances2hetero"):
        tag = _NAMES.get(matrix.attributes.get("name", ""))
        if tag is None:
            continue
        count = matrix.whole("nbobjs", 1, _MOST)
        indexes = [t.rpartition(":")[2] for e in matrix.inside("indexes") for t in e.content.split()]
        values = [t for e in matrix.inside("u64values") for t in e.content.split()]
        if len(indexes) != count or len(values) != count * count:
            matrix.refuse(f"{len(indexes)} indexes and {len(values)} values; expected {count} and {count * count}")
        for row_number, index in enumerate(indexes):
            if index in placed and _is_gpu(placed[index]):
                row = dict(zip(indexes, values[row_number * count : (row_number + 1) * count], strict=True))
                _links(matrix, tag, placed, cpus, index, row)
    _number(placed)


def _links(
    matrix: Element, tag: str, placed: dict[str, Element], cpus: set[str], index: str, row: dict[str, str]
) -> None:
    own = placed[index]
    part = parts.gpu_by_id(int(own.attributes["vendor"], 16), int(own.attributes["device"], 16))
    sm = part.sm if part else 0
    gpu = next(iter(own.inside("gpu")), None)
    if gpu is None:
        gpu = Element("gpu", {"sm": str(sm), "gdr": "1"}, own.line, own.file)
        own.children.append(gpu)
    each = _each(tag, part, sm)
    for other, text in row.items():
        if not re.fullmatch(r"\d{1,12}", text):
            matrix.refuse(f'"{short(text)}" is no bandwidth; expected a whole number of MB/s')
        target = placed.get(other)
        if text == "0" or other == index or target is own:
            continue
        if other in cpus:
            busid, code = "ffff:ff:ff.0", "0x068001"
        elif target is not None:
            busid, code = target.attributes["busid"], target.attributes["class"]
        else:
            continue
        if not _is_gpu(target) and other not in cpus:  # drivers report no class for some NVSwitches
            busid, code = "fffffff:ff:ff.0", "0x068000"
        links = max(1, round(int(text) * 1e6 / each))
        gpu.children.append(Element(tag, {"target": busid, "count": str(links), "tclass": code}, own.line, own.file))


def _each(tag: str, part: parts.GpuPart | None, sm: int) -> float:
    """The bandwidth of one link, by the GPU's generation."""
    if tag == "xgmi":
        return parts.XGMI[part.wire if part and isinstance(part.wire, str) else "MI250"].bandwidth_Bps
    return parts.NVLINK[NVLINK_OF_SM.get(sm, 3)].bandwidth_Bps


def _is_gpu(element: Element | None) -> bool:
    if element is None:
        return False
    return kind_of(int(element.attributes["class"], 16), int(element.attributes["vendor"], 16)) is DeviceKind.GPU


def _number(placed: dict[str, Element]) -> None:
    """Gives all GPUs of a file with links a <gpu>, by busid."""
    slots = {id(e): e for e in placed.values() if _is_gpu(e)}
    if any(e.inside("gpu") for e in slots.values()):
        for n, slot in enumerate(sorted(slots.values(), key=lambda e: e.attributes["busid"])):
            if not slot.inside("gpu"):
                slot.children.append(Element("gpu", {"gdr": "1"}, slot.line, slot.file))
            slot.inside("gpu")[0].attributes["dev"] = str(n)
