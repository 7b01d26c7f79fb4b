"""NVLinks, or xGMI links, between GPUs of which the model alone is known: as on their makers' boards."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from ringtree.machines import parts
from ringtree.machines.catalogue.entry import mesh_links
from ringtree.machines.catalogue.nvidia import HYBRID_CUBE_MESH
from ringtree.machines.files.nccl_xml import gpus
from ringtree.machines.files.nccl_xml.parsed import Parsed
from ringtree.machines.machine import Link, NoteKind

_NONE_TAKEN = (
    "none are taken; assume nvlink=mesh or pairs, or read a file that NCCL or RCCL wrote (NCCL_TOPO_DUMP_FILE)"
)


def link(parsed: Parsed, numbers: Sequence[int], models: Sequence[parts.GpuPart | None]) -> None:
    """Links the GPUs as given, else as on the model's boards; a note states which. None between GPUs of which a model
    is not known."""
    given, model = parsed.given, models[0]
    if model is None or not model.wires or len(numbers) < 2 or any(m != model for m in models):
        if given.nvlink not in (None, "none"):
            named = model.model if model else "no known model"
            raise ValueError(f"assume nvlink={given.nvlink}: {len(numbers)} GPUs of {named} have no NVLink")
        return
    wire = parts.XGMI[model.wire] if isinstance(model.wire, str) else parts.NVLINK[model.wire]
    how = given.nvlink or usual(model, len(numbers))
    if how == "nvswitch":
        switch = gpus.nvswitch(parsed, wire.generation)
        pairs = {(n, switch): model.wires for n in numbers}
    elif how == "mesh":
        pairs = _mesh(numbers, model)
    elif how == "pairs":
        pairs = dict.fromkeys(zip(numbers[::2], numbers[1::2], strict=False), model.wires)
    else:
        pairs = {}
    if given.nvlink is None and (text := _open(parsed, model, how)):
        parsed.draft.note(NoteKind.UNKNOWN, "links between GPUs", f"{text}: {_NONE_TAKEN}")
        return
    for (a, b), count in pairs.items():
        link = Link(a, b, wire.kind, count * wire.bandwidth_Bps, wire.latency_s, wire.generation, count)
        parsed.draft.join(link)
    layout = {
        "nvswitch": f"{model.wires} {wire.kind.value} of each GPU go to NVSwitches",
        "mesh": f"{wire.kind.value} from GPU to GPU, {model.wires} of each",
        "pairs": f"all {model.wires} {wire.kind.value} of a GPU go to its neighbour",
        "none": f"no {wire.kind.value} between GPUs",
    }[how]
    why = (
        "as it was given"
        if given.nvlink
        else f"as {len(numbers)} {model.model} mostly have; if not: assume nvlink=nvswitch, mesh, pairs or none"
    )
    parsed.draft.note(NoteKind.ASSUMED, "links between GPUs", f"{layout}, {why}")


def _open(parsed: Parsed, model: parts.GpuPart, how: str) -> str:
    """The reason why a layout is left open that makers vary; empty where they do not."""
    if how == "none" and model.vendor == "amd":
        return f"the file does not list the xGMI of {model.model}, which differs from pair to pair"
    if how != "none" and any(cpu.attributes.get("arch", "").startswith("ppc") for cpu in parsed.cpus.values()):
        return f"the file does not list the NVLinks of {model.model}, some of which lead to the CPU on Power"
    return ""


def usual(model: parts.GpuPart, count: int) -> str:
    """The likely layout: through switches for eight GPUs of a board's model and for models without links between
    GPUs; all to all where the maker's board is."""
    if model.vendor != "nvidia":
        return "mesh" if count <= model.board else "none"
    if "PCIe" in model.model or "NVL" in model.model or model.sm == 86 or model.model == "A30":
        return "none"  # bridges between two cards are an extra
    direct = model.sm < 80 and model.model != "V100 SXM3"
    return "mesh" if direct or (count == 4 and model.sm < 100) else "nvswitch"


def _mesh(numbers: Sequence[int], model: parts.GpuPart) -> dict[tuple[int, int], int]:
    """The hybrid cube where the links are too few for all pairs, else the same for all pairs."""
    count = len(numbers)
    if model.vendor == "nvidia" and model.sm < 80 and count in (4, 8):
        links = [(a, b, 1 if model.wires == 4 else n) for a, b, n in mesh_links(HYBRID_CUBE_MESH) if max(a, b) < count]
        return {(numbers[a], numbers[b]): n for a, b, n in links}
    each = model.wires // (max(count, model.board) - 1)
    if not each:
        raise ValueError(f"assume nvlink=mesh: {model.wires} links of a {model.model} reach no {count - 1} others")
    return dict.fromkeys(combinations(numbers, 2), each)
