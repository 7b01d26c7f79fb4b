"""Trees as text, beside one another: the root above, a line a rank, or a few where there are many."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from ringtree.draw.text.labels import chunk_label, gapped, runs
from ringtree.draw.trees import ROOT, ChunkTree
from ringtree.ir.schedule import Buffer

MOST_LINES = 24
"""A tree with more is cut below some depth, with the number of ranks below."""
MOST_ON_A_PATH = 20
APART = 4

Children = dict[int, list[int]]


def branches(found: Sequence[ChunkTree], width: int) -> list[str]:
    """The trees, those of one form once, with the chunks that go along each."""
    forms = defaultdict[tuple[int, ...], list[ChunkTree]](list)
    for tree in found:
        forms[tree.parent].append(tree)
    drawn = [[_caption(alike), *_form(parent)] for parent, alike in forms.items()]
    wide = [max(map(len, lines)) for lines in drawn]
    if sum(wide) + APART * (len(wide) - 1) > width:
        return [line for lines in drawn for line in (*lines, "")][:-1]
    rows = max(map(len, drawn))
    sides = [
        [line.ljust(w + APART) for line in lines + [""] * (rows - len(lines))]
        for lines, w in zip(drawn, wide, strict=True)
    ]
    return ["".join(parts).rstrip() for parts in zip(*sides, strict=True)]


def _caption(alike: list[ChunkTree]) -> str:
    """`chunks 0:4 up, then down`."""
    directions = defaultdict[tuple[int, ...], list[str]](list)
    for tree in alike:
        directions[tree.chunks].append("up" if tree.upward else "down")
    return "; ".join(f"{_chunks(chunks)} {', then '.join(each)}" for chunks, each in directions.items()) + ":"


def _chunks(chunks: tuple[int, ...]) -> str:
    spans = [chunk_label(Buffer.DATA, run[0], len(run), 0) for run in runs(chunks)]
    shown = spans if len(spans) <= 4 else [*spans[:2], "…", spans[-1]]
    return f"chunk{'s' * (len(chunks) > 1)} {', '.join(shown)}"


def _form(parent: tuple[int, ...]) -> list[str]:
    children: Children = defaultdict(list)
    for rank, above in enumerate(parent):
        if above >= 0:
            children[above].append(rank)
    root = parent.index(ROOT)
    if all(len(below) == 1 for below in children.values()):
        return [_path(children, root)]
    below = _below(children, root)
    lines = list[str]()
    for deepest in (len(parent), *range(8, 0, -1)):
        lines = _drawn(children, root, below, deepest, fold=len(parent) > 16)
        if len(lines) <= MOST_LINES:
            break
    return lines


def _path(children: Children, root: int) -> str:
    ranks = [root]
    while ranks[-1] in children:
        ranks += children[ranks[-1]]
    return " ─ ".join("…" if at is None else str(ranks[at]) for at in gapped(len(ranks), MOST_ON_A_PATH))


def _below(children: Children, root: int) -> dict[int, int]:
    """The number of ranks below each rank of a tree."""
    order = [root]
    for rank in order:
        order += children.get(rank, [])
    below = dict.fromkeys(order, 0)
    for rank in reversed(order):
        below[rank] = sum(below[child] + 1 for child in children.get(rank, []))
    return below


def _drawn(children: Children, root: int, below: dict[int, int], deepest: int, *, fold: bool) -> list[str]:
    """The lines of a tree. With `fold` the children of one rank that have none themselves share a line."""
    lines = [str(root)]
    waiting: list[tuple[list[int], str, bool, int]] = []  # ranks of a line, what is before them, whether last, depth

    def branch(rank: int, prefix: str, depth: int) -> None:
        groups: list[list[int]] = []
        for child in children.get(rank, []):
            if fold and groups and not below[child] and not below[groups[-1][-1]]:
                groups[-1].append(child)
            else:
                groups.append([child])
        waiting.extend((group, prefix, group is groups[-1], depth) for group in reversed(groups))

    branch(root, "", 1)
    while waiting:
        group, prefix, last, depth = waiting.pop()
        cut = below[group[0]] > 0 and depth >= deepest
        more = f" ({below[group[0]]} below)" if cut else ""
        lines.append(f"{prefix}{'└─' if last else '├─'} {_several(group)}{more}")
        if not cut:
            branch(group[0], prefix + ("   " if last else "│  "), depth + 1)
    return lines


def _several(ranks: list[int]) -> str:
    return " ".join("…" if at is None else str(ranks[at]) for at in gapped(len(ranks), 8))
