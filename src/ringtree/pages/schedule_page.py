"""A schedule as a page: its transfers as columns, and what every rank holds and is owed. The page plays them itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ringtree.draw.trees import ChunkTree, few, trees
from ringtree.ir.schedule import COLUMNS, Schedule
from ringtree.ir.spec import check
from ringtree.ir.trace import Trace
from ringtree.pages import assemble, encode
from ringtree.pages.trace_page import trace_data
from ringtree.topology.graph import Topology

MOST_TRANSFERS = 2_000_000
MOST_CONTENTS_NBYTES = 256 << 20
"""The most bytes that the page may need to hold the contributions in every chunk of every rank."""


def schedule_page(schedule: Schedule, topology: Topology | None = None, traces: Sequence[Trace] = ()) -> str:
    """The page on which the schedule is played; with a topology, which may have further ranks, its ranks also on their
    hosts; with traces of it, their timelines as a second view. ValueError where it is too large for a browser."""
    s = schedule
    data = {"schedule": schedule_data(s, topology)}
    if traces:
        data["trace"] = trace_data(traces)
    return assemble(f"{s.name} {s.collective}", list(data), data)


def schedule_data(s: Schedule, topology: Topology | None = None) -> dict[str, Any]:
    """The input of the schedule's view, as JSON."""
    _refuse_large(s)
    check(s)
    if topology is not None and topology.ranks < s.ranks:
        raise ValueError(f"{s.name} is for {s.ranks} ranks; expected at most the {topology.ranks} of {topology.name}")
    rows = s.expand()
    return {
        "name": s.name,
        "collective": s.collective,
        "ranks": s.ranks,
        "switches": s.switches,
        "chunks": s.chunks,
        "root": s.root,
        "scratch": s.scratch,
        "rounds": s.rounds,
        "transfers": len(rows),
        "inPlace": s.in_place,
        "reduces": s.promise.reduces,
        "repeats": s.promise.repeats,
        "columns": {name: encode(getattr(rows, name)) for name in COLUMNS},
        "promise": _promise(s),
        "trees": _trees(s),
        "hosts": None if topology is None else topology.hosts[: s.ranks].tolist(),
    }


def _trees(s: Schedule) -> list[dict[str, Any]]:
    """The trees that are worth drawing: one that leads up and one that leads down along the same edges are one."""
    found = trees(s)
    alike: dict[tuple[int, ...], list[ChunkTree]] = {}
    for tree in found if few(found) else ():
        alike.setdefault(tree.parent, []).append(tree)
    return [
        {
            "parent": parent,
            "chunks": sorted({chunk for tree in those for chunk in tree.chunks}),
            "ways": ["up" if tree.upward else "down" for tree in those],
        }
        for parent, those in alike.items()
    ]


def _promise(s: Schedule) -> dict[str, Any]:
    """Per rank the windows of the whole vector that it holds and is owed, and how many ranks from 0 on contribute to a
    reduction there; per position owed, rank by rank, the label and the origin that it must have."""
    ranks = range(s.ranks)
    held, owed = [s.precondition(rank) for rank in ranks], [s.postcondition(rank) for rank in ranks]
    promised = [s.promise.promised(rank, s.ranks, s.chunks, s.root or 0) for rank in ranks]
    columns: dict[str, ArrayLike] = {
        "heldStart": [h.start for h in held],
        "heldCount": [len(h) for h in held],
        "owedStart": [o.start for o in owed],
        "owedCount": [len(o) for o in owed],
        "contributors": [len(s.promise.contributors(rank, s.ranks)) for rank in ranks],
        "label": np.concatenate([label for _, label, _ in promised]),
        "origin": np.concatenate([origin for _, _, origin in promised]),
    }
    return {name: encode(np.asarray(column, dtype=np.int64)) for name, column in columns.items()}


def _refuse_large(s: Schedule) -> None:
    cells = s.participants * (s.chunks + s.scratch)
    nbytes = 4 * cells * (-(-s.ranks // 32) if s.promise.reduces else 1)
    if s.transfers > MOST_TRANSFERS:
        much = f"{s.transfers:,} transfers; expected at most {MOST_TRANSFERS:,}"
    elif nbytes > MOST_CONTENTS_NBYTES:
        most = MOST_CONTENTS_NBYTES >> 20
        much = f"{nbytes >> 20:,} MiB for the contents of {cells:,} chunks; expected at most {most} MiB"
    else:
        return
    raise ValueError(f"{s.name} {s.collective}: too large for a page: {much}: take fewer ranks")
