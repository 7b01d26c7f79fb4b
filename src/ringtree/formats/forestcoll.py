"""ForestColl's spanning trees as XML, as `spanning_trees_to_xml` of liangyuRain/ForestColl writes them: an all_gather.

    <Algo nchunkspernode="2">
      <tree root="(0, 'GPU', 0)" index="0" nchunks="2" height="1">
        <send src="(0, 'GPU', 0)" dst="(0, 'GPU', 1)" path="(0, 'GPU', 0),(0, 'switch'),(0, 'GPU', 1)"/>

Each tree broadcasts `nchunks` of its root's chunks. Ranks are the roots in the order of their names, numbers in them as
numbers. The nodes that a path passes between its ends are left out: a topology's own routes replace them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ringtree.formats.imported import FormatError, Imported
from ringtree.ir.schedule import Block, Schedule, Transfers
from ringtree.ir.spec import check
from ringtree.machines.files.xml_elements import Element, elements, short

MOST_CHUNKS = 2**20
_BEGINNING = re.compile(rb"(?:(?:<\?xml[^>]{0,200}>|<!--(?:(?!-->).){0,4000}-->)\s*){0,9}<Algo\b", re.DOTALL)
"""A declaration and comments may stand before the first element."""


def begins(start: bytes) -> bool:
    """Whether a file that starts so is of trees."""
    return _BEGINNING.match(start) is not None


def from_bytes(path: Path, data: bytes) -> Imported:
    """The schedule of the trees. FormatError, in one line: if they are broken, or do not share out their roots'
    chunks."""
    try:
        algo = elements(data, str(path))
        if algo.tag != "Algo":
            algo.refuse("expected <Algo>")
        pieces = algo.whole("nchunkspernode", 1, MOST_CHUNKS)
        trees = algo.inside("tree")
        roots = sorted({tree.text("root") for tree in trees}, key=_natural)
        if not roots or len(roots) * pieces > MOST_CHUNKS:
            algo.refuse(f"{len(roots)} roots of {pieces} chunks; expected {MOST_CHUNKS} chunks at most")
        rows = _rows(trees, {name: rank for rank, name in enumerate(roots)}, pieces)
    except ValueError as error:
        raise FormatError(str(error)) from None
    by_round = rows.take(np.argsort(rows.round, kind="stable"))
    schedule = Schedule(path.stem, "all_gather", len(roots), len(roots) * pieces, (Block(by_round),))
    check(schedule)
    return Imported(schedule, facts={"format": "ForestColl trees", "trees": len(trees), "chunks per rank": pieces})


def _natural(name: str) -> list[tuple[int, int, str]]:
    """The key by which names sort with their numbers as numbers."""
    parts = re.findall(r"(\d{1,18})|(\D+)", name)
    return [(0, int(digits), "") if digits else (1, 0, text) for digits, text in parts]


@dataclass(slots=True)
class _Columns:
    """Transfers, a list for each column."""

    source: list[int]
    target: list[int]
    chunk: list[int]
    count: list[int]
    round: list[int]


def _rows(trees: list[Element], rank_of: dict[str, int], pieces: int) -> Transfers:
    columns, given = _Columns([], [], [], [], []), dict.fromkeys(rank_of, 0)
    for tree in trees:
        root, count = tree.text("root"), tree.whole("nchunks", 1, pieces)
        if given[root] + count > pieces:
            tree.refuse(f"the trees of {short(root)} have more than {pieces} chunks; expected so many in all")
        _tree(tree, rank_of, rank_of[root] * pieces + given[root], count, columns)
        given[root] += count
    if few := next((root for root, count in given.items() if count < pieces), None):
        raise ValueError(
            f"{trees[0].file}: the trees of {short(few)} have {given[few]} chunks; expected {pieces} in all"
        )
    c = columns
    return Transfers.of(c.source, c.target, c.chunk, count=c.count, round=c.round)


def _tree(tree: Element, rank_of: dict[str, int], chunk: int, count: int, columns: _Columns) -> None:
    """Adds the transfers of a tree; each one's round is the depth of its source."""
    depth = {rank_of[tree.text("root")]: 0}
    for send in tree.inside("send"):
        ends = [send.text(end) for end in ("src", "dst")]
        if strange := next((name for name in ends if name not in rank_of), None):
            send.refuse(f"{short(strange)} is no root of a tree; expected ranks, which all are")
        source, target = (rank_of[name] for name in ends)
        if source not in depth:
            send.refuse(f"{short(ends[0])} sends what it does not have; expected sends in order from the root")
        if target in depth:
            send.refuse(f"{short(ends[1])} receives a second time; expected a tree")
        depth[target] = depth[source] + 1
        for column, value in (
            (columns.source, source),
            (columns.target, target),
            (columns.chunk, chunk),
            (columns.count, count),
            (columns.round, depth[source]),
        ):
            column.append(value)
