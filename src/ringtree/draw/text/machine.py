"""A machine for a terminal: the devices below each NUMA node, the links between the rest, and the notes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap

from ringtree.draw import machine_words
from ringtree.draw.machine_tree import Branch, Bundle, bundles, fold, tree
from ringtree.draw.text.lines import Line, TextSpan
from ringtree.ir import units
from ringtree.machines.machine import DeviceKind, Machine, NoteKind

MOST_ROWS = 48
"""The most rows of a tree; in a larger one, neighbours alike share a row."""
MOST_STARS = 12
"""Devices or groups of them whose links are printed one by one."""
NO_BREAK = "\N{NO-BREAK SPACE}"
ROLES = {
    DeviceKind.GPU: "gpu",
    DeviceKind.CPU: "head",
    DeviceKind.NIC: "nic",
    DeviceKind.PCI: "faint",
    DeviceKind.STORAGE: "faint",
}
NOTES = {
    NoteKind.UNKNOWN: ("unknown", "wrong"),
    NoteKind.TRAP: ("trap", "wrong"),
    NoteKind.ASSUMED: ("assumed", "new"),
    NoteKind.SOURCE: ("source", "faint"),
}
"""Each kind's word and role, in the order in which notes are printed."""


def head_line(machine: Machine) -> Line:
    """The machine's name, and its number of devices of each kind."""
    return TextSpan(machine.name, "head"), TextSpan(f": {machine_words.kinds(machine)}")


def tree_lines(machine: Machine, width: int) -> list[Line]:
    """A line a device, below what it hangs on, the link to it at the end. In a machine that is large, devices alike
    that are neighbours share one."""
    rows = [row for b in fold(machine, tree(machine), MOST_ROWS) for row in _rows(machine, b, 1, "", "")]
    room = max((sum(len(s.text) for s in left) for left, right in rows if right), default=0)
    links = max((len(right) for _, right in rows), default=0)
    column = max(20, min(room, width - links - 2))
    return [_beside(left, right, column) for left, right in rows]


def _beside(left: Line, right: str, column: int) -> Line:
    gap = max(column - sum(len(s.text) for s in left), 0) + 2
    return (*left, TextSpan(" " * gap + right, "faint")) if right else left


def _rows(machine: Machine, branch: Branch, holders: int, before: str, below: str) -> Iterator[tuple[Line, str]]:
    """(the line's beginning, its link). `holders`: how many it hangs on."""
    first, many = machine.devices[branch.devices[0]], len(branch.devices)
    named = machine_words.names(machine, branch.devices)
    about = machine_words.about(first)
    what = f"{many} × {about or machine_words.KINDS[first.kind]}" if many > 1 else about
    spans = [TextSpan(before, "faint"), TextSpan(named, ROLES.get(first.kind, ""))]
    if what:
        spans.append(TextSpan(f"  {what}"))
    if many > holders > 1:
        spans.append(TextSpan(f", {many // holders} each"))
    spans += [TextSpan(f"  {text}", "faint") for text in machine_words.further(first) if many == 1]
    if first.kind in (DeviceKind.GPU, DeviceKind.NIC) and not first.gdr:
        spans.append(TextSpan("  no GPUDirect RDMA", "new"))
    link = branch.link
    end = "" if link is None else f"{machine_words.link(link)}  {units.bandwidth(link.bandwidth_Bps):>9}"
    yield tuple(spans), end
    for i, b in enumerate(branch.branches):
        last = i == len(branch.branches) - 1
        yield from _rows(machine, b, many, below + ("└─ " if last else "├─ "), below + ("   " if last else "│  "))


def link_lines(machine: Machine, width: int) -> list[Line]:
    """The links that the tree has not, those alike together, with their bandwidth each way."""
    there = bundles(machine)
    texts = [(f"{machine_words.link(b.link)}", _bandwidth(b)) for b in there]
    kind, bandwidth = (max((len(s[i]) for s in texts), default=0) for i in (0, 1))
    lines: list[Line] = []
    for (what, how), bundle in zip(texts, there, strict=True):
        left = f"{what:<{kind}}  {how:<{bandwidth}}  "
        ends = wrap(_ends(machine, bundle), max(width - len(left), 24), break_on_hyphens=False) or [""]
        text = [line.replace(NO_BREAK, " ") for line in ends]
        lines.append((TextSpan(left, "faint"), TextSpan(text[0])))
        lines += [(TextSpan(" " * len(left)), TextSpan(more)) for more in text[1:]]
    return lines


def _bandwidth(bundle: Bundle) -> str:
    there, back = bundle.link.bandwidth_Bps, bundle.back_Bps
    if there == back:
        return f"{units.bandwidth(there)} each way"
    return f"{units.bandwidth(there)} there, {units.bandwidth(back) if back else 'none'} back"


def _ends(machine: Machine, bundle: Bundle) -> str:
    """The pairs of a bundle, as short as may be: between any two of some, else each of some with each of others."""
    both = sorted({n for pair in bundle.pairs for n in pair})
    if len(both) > 2 and len(set(bundle.pairs)) == len(both) * (len(both) - 1) // 2:
        return f"between any two of {machine_words.names(machine, both)}"
    leading: dict[int, set[int]] = {}
    for a, b in sorted(bundle.pairs):
        leading.setdefault(a, set()).add(b)
    stars: dict[tuple[int, ...], list[int]] = {}
    for a, reached in leading.items():
        stars.setdefault(tuple(sorted(reached)), []).append(a)
    texts = [_star(machine, some, others) for others, some in stars.items()]
    if len(texts) > MOST_STARS:
        texts[MOST_STARS - 2 : -1] = ["…"]
        texts.append(f"{len(bundle.pairs)} pairs")
    return "; ".join(texts).replace("…;", "…")


def _star(machine: Machine, some: Sequence[int], others: Sequence[int]) -> str:
    """Names are not broken at the end of a line."""
    each = "each of " * (len(some) > 1)
    texts = (
        f"{each}{machine_words.names(machine, some)} – {each * (len(others) > 1)}{machine_words.names(machine, others)}"
    )
    return texts.replace(" ", NO_BREAK)


def note_lines(machine: Machine, width: int, sources: bool = False) -> list[Line]:
    """The machine's notes, in the order of NOTES; equal notes of several things once."""
    lines: list[Line] = []
    for kind, (word, role) in NOTES.items():
        if kind is NoteKind.SOURCE and not sources:
            continue
        for text in machine_words.notes(machine, kind):
            lines += _note(word, role, text, width)
    return lines


def _note(word: str, role: str, text: str, width: int) -> Iterator[Line]:
    first, *rest = wrap(text, max(width - 9, 24), break_on_hyphens=False, break_long_words=False) or [""]
    yield TextSpan(f"{word:<9}", role), TextSpan(first)
    yield from ((TextSpan(" " * 9), TextSpan(more)) for more in rest)
