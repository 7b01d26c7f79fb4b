"""How the text views name chunks, and ranks by the set."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from ringtree.ir.schedule import Buffer

UNNAMED = ((Buffer.DATA, Buffer.INPUT), (Buffer.DATA, Buffer.OUTPUT))
"""The buffers that transfers come from, and go to, unless they say otherwise."""


def place(buffer: int, chunk: int, count: int, side: int) -> str:
    """`3`, or `0:4` from:to; with the buffer's letter where `side` (0: from, 1: to) does not go without saying."""
    name = "" if buffer in UNNAMED[side] else Buffer(buffer).name[0].lower()
    return name + (f"{chunk}" if count == 1 else f"{chunk}:{chunk + count}")


def ranks(members: Sequence[int], of: int, room: int = 7) -> str:
    """A set of ranks out of `of` in at most about `room` characters: `all`, `02`, `0-3`, `14-1` (on over the last rank
    to the first), `3,12`; or how many there are, `8/16`."""
    if len(members) == of > 1:
        return "all"
    if of <= 10 and len(members) <= 4:
        return "".join(map(str, members))
    text = ",".join(_run(run) for run in _runs(members, of))
    return text if len(text) <= room else f"{len(members)}/{of}"


def _runs(members: Sequence[int], of: int) -> list[list[int]]:
    """The members as runs of neighbours; one that reaches the end goes on at 0 where that gives one run less."""
    runs: list[list[int]] = []
    for member in members:
        if runs and member == runs[-1][-1] + 1:
            runs[-1].append(member)
        else:
            runs.append([member])
    if len(runs) > 1 and runs[0][0] == 0 and runs[-1][-1] == of - 1:
        runs[-1] += runs.pop(0)
    return runs


def _run(run: list[int]) -> str:
    return f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(map(str, run))


def spread(total: int, room: int) -> list[int]:
    """At most `room` of 0 … total-1, gaps counted: all, or the first, some in the middle and the last. No gap is of
    one, which needs no more room itself."""
    if total <= room:
        return list(range(total))
    kept = max(room - 2, 3)
    middle = kept // 3
    first = (kept - middle + 1) // 2
    last = kept - middle - first
    start = (total - middle) // 2
    chosen = [*range(first), *range(start, start + middle), *range(total - last, total)]
    lonely = [a + 1 for a, b in pairwise(chosen) if b - a == 2]
    return sorted(chosen + lonely)


def targets(to: Sequence[int], source: int, of: int) -> str:
    """Those that a rank sends to: `3`, `1-3,7`, `all`, `all others`."""
    if of > 2 and len(set(to) | {source}) == of:
        return "all" if source in to else "all others"
    return ",".join(_run(run) for run in _runs(sorted(to), of + 1))
