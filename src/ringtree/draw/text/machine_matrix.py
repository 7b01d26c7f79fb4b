"""The connection matrix of a machine for a terminal, laid out as by `nvidia-smi topo -m`, and what follows from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from textwrap import wrap

import numpy as np

from ringtree.draw.machine_matrix import PathMatrix, Rule, bandwidth_of, kind_of, matrix, rules
from ringtree.draw.text.labels import spread
from ringtree.draw.text.lines import Line, TextSpan
from ringtree.machines.machine import PathKind
from ringtree.machines.paths import Paths
from ringtree.topology.fabrics import Fabric

MEANINGS = {
    PathKind.NVL: "NVLink or xGMI alone",
    PathKind.NVB: "NVLink through another GPU",
    PathKind.C2C: "the CPU's own link",
    PathKind.PIX: "one PCIe switch at most",
    PathKind.PXB: "several PCIe switches",
    PathKind.P2C: "C2C, then PCIe",
    PathKind.PXN: "a NIC through another GPU",
    PathKind.PHB: "through a CPU",
    PathKind.SYS: "between NUMA nodes",
    PathKind.NET: "over the network",
    PathKind.DIS: "no path",
}
MOST_NAMED = 32
"""NICs whose own names are listed."""
Group = Sequence[int]


def matrix_lines(paths: Paths, width: int) -> list[Line]:
    """The kinds of the paths, then their bandwidths, then what the kinds are called. What is too many for the width is
    grouped where it is alike, and left out in the middle where it is not."""
    if len(paths.machine.gpus) + len(paths.machine.nics) < 2:
        return []
    found = matrix(paths)
    kinds = _table(found, width, "path", lambda a, b: _kind(found, a, b), len(found.devices))
    gpus = len(paths.machine.gpus)
    there = gpus + len(paths.machine.nics)
    cut = f"the first {len(found.devices)} of {there} GPUs and NICs" if len(found.devices) < there else ""
    bandwidths = _table(found, width, "GB/s", lambda a, b: _bandwidth(found, a, b), gpus or len(found.devices))
    noted: list[Line] = [(TextSpan(cut, "faint"),)] if cut else []
    return [*kinds, (), *bandwidths, (), *noted, *_legend(found, width)]


def _kind(found: PathMatrix, a: Group, b: Group) -> TextSpan:
    if a == b and len(a) == 1:
        return TextSpan("X", "faint")
    kind = kind_of(found, a, b)
    return TextSpan(kind.name, role_of(kind))


def _bandwidth(found: PathMatrix, a: Group, b: Group) -> TextSpan:
    if a == b and len(a) == 1:
        return TextSpan("X", "faint")
    GBps = bandwidth_of(found, a, b) / 1e9
    if not GBps:
        return TextSpan("-", "faint")
    return TextSpan(f"{GBps:.0f}" if GBps >= 99.95 else f"{GBps:.1f}", role_of(kind_of(found, a, b)))


def role_of(kind: PathKind) -> str:
    """near, mid, far or farthest; faint where there is none."""
    if kind <= PathKind.C2C:
        return "near"
    if kind <= PathKind.PXN:
        return "mid"
    return {PathKind.PHB: "far", PathKind.SYS: "farthest"}.get(kind, "faint")


def _table(
    found: PathMatrix, width: int, corner: str, cell: Callable[[Group, Group], TextSpan], rows: int
) -> list[Line]:
    """A column a group, and a row each of those before position `rows`, with its NUMA node at the end."""
    every = [(position,) for position in range(len(found.devices))]
    groups: Sequence[Group] = every if _fits(found, every, width) else found.twins
    names = [_name(found, g) for g in groups]
    label, cells = max(map(len, [corner, *names])), max(*map(len, names), 4)
    kept = spread(len(groups), max((width - label - len("  NUMA")) // (cells + 2), 4))
    cut = [n for n, position in enumerate(kept) if n and kept[n - 1] + 1 < position]
    head = [f"{names[n]:>{cells}}" for n in kept]
    lines = [_row(corner, [TextSpan(h, "head") for h in head], cut, label, cells, "NUMA")]
    for n, position in enumerate(kept):
        if groups[position][0] >= rows:
            break
        if n in cut:
            lines.append((TextSpan("…", "faint"),))
        spans = [cell(groups[position], groups[other]) for other in kept]
        numas = {found.paths.machine.devices[found.devices[p]].numa for p in groups[position]}
        numa = str(numas.pop()) if len(numas) == 1 and -1 not in numas else "-"
        lines.append(_row(names[position], spans, cut, label, cells, f"{numa:>4}"))
    return lines


def _fits(found: PathMatrix, groups: Sequence[Group], width: int) -> bool:
    names = [_name(found, g) for g in groups]
    return max(map(len, names)) + len(names) * (max(map(len, [*names, "0000"])) + 2) + len("  NUMA") <= width


def _row(name: str, cells: Sequence[TextSpan], cut: Sequence[int], label: int, room: int, end: str) -> Line:
    spans = [TextSpan(f"{name:<{label}}", "head")]
    for n, span in enumerate(cells):
        before = " …" if n in cut else "  "
        spans += [TextSpan(f"{before}{' ' * (room - len(span.text))}"), span]
    return (*spans, TextSpan(f"  {end}", "faint"))


def _name(found: PathMatrix, group: Group) -> str:
    """GPU3, GPU0–7 of neighbours, GPU0+2 of others."""
    first = found.name(group[0])
    if len(group) == 1:
        return first
    if group[-1] - group[0] == len(group) - 1:
        return f"{first}–{found.name(group[-1])[len('GPU') :]}"
    return f"{first}+{len(group) - 1}"


def _legend(found: PathMatrix, width: int) -> Iterator[Line]:
    """The meaning of each kind, the number of its pairs, and the NICs' names."""
    machine = found.paths.machine
    gpus = len(machine.gpus)
    above = np.triu(np.ones_like(found.kinds, dtype=bool), 1)
    above[gpus:, gpus:] = False  # paths between NICs are not shown
    for kind, meaning in MEANINGS.items():
        if many := int(np.count_nonzero((found.kinds == kind) & above)):
            pairs = f"{many} pair{'s' * (many > 1)}"
            yield TextSpan(f"{kind.name:<6}", role_of(kind)), TextSpan(f"{meaning:<28}"), TextSpan(pairs, "faint")
    called = {found.name(gpus + k): machine.devices[n].name for k, n in enumerate(machine.nics)}
    if any(name.lower() != own for name, own in called.items()) and len(called) <= MOST_NAMED:
        legend = ", ".join(f"{name} {own}" for name, own in called.items())
        yield from ((TextSpan(line, "faint"),) for line in wrap(legend, width))


VERDICTS = {"p2p": ("P2P", "pairs"), "gdr": ("GPUDirect RDMA", "GPUs")}


def verdict_lines(paths: Paths, width: int, fabric: Fabric | None = None) -> list[Line]:
    """Whether GPUs reach one another directly (P2P), and their nearest NICs them (GPUDirect RDMA): how many do, how
    many do not, and by which rule."""
    return [line for rule in rules(paths, fabric) for line in _verdict(rule, width)]


def _verdict(rule: Rule, width: int) -> Iterator[Line]:
    (what, of), (verdict, role) = VERDICTS[rule.what], ("yes", "near") if rule.applies else ("no", "farthest")
    spans = (
        TextSpan(f"{what:<16}"),
        TextSpan(f"{verdict:<5}", role),
        TextSpan(f"{f'{rule.found} of {rule.total} {of}':<24}"),
    )
    room = sum(len(span.text) for span in spans)
    first, *rest = wrap(rule.why, max(width - room, 30), break_on_hyphens=False)
    yield *spans, TextSpan(first, "faint")
    yield from ((TextSpan(" " * room), TextSpan(more, "faint")) for more in rest)
