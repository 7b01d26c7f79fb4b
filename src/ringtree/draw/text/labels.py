"""Names of chunks and of sets of ranks in the text views."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from ringtree.ir.schedule import Buffer

UNNAMED = ((Buffer.DATA, Buffer.INPUT), (Buffer.DATA, Buffer.OUTPUT))
"""The default buffers that transfers come from, and go to."""


def chunk_label(buffer: int, chunk: int, count: int, side: int) -> str:
    """`3`, or `0:4` from:to; with the buffer's first letter where it is not the default of `side` (0: from, 1: to)."""
    name = "" if buffer in UNNAMED[side] else Buffer(buffer).name[0].lower()
    return name + (f"{chunk}" if count == 1 else f"{chunk}:{chunk + count}")


def ranks(members: Sequence[int], of: int, room: int = 7) -> str:
    """A set of ranks out of `of` in at most about `room` characters: `all`, `02`, `0-3`, `14-1` (on over the last rank
    to the first), `3,12`; or how many there are, `8/16`."""
    if len(members) == of > 1:
        return "all"
    if of <= 10 and len(members) <= 4:
        return "".join(map(str, members))
    text = ",".join(_run(run) for run in runs(members, of))
    return text if len(text) <= room else f"{len(members)}/{of}"


def runs(members: Sequence[int], of: int = 0) -> list[list[int]]:
    """The members as runs of neighbours; one that reaches the last of `of` goes on at 0 where that is one run less."""
    found: list[list[int]] = []
    for member in members:
        if found and member == found[-1][-1] + 1:
            found[-1].append(member)
        else:
            found.append([member])
    if len(found) > 1 and found[0][0] == 0 and found[-1][-1] == of - 1:
        found[-1] += found.pop(0)
    return found


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


def gapped(total: int, room: int) -> Iterator[int | None]:
    """`spread`, and None in each gap."""
    before = -1
    for at in spread(total, room):
        if at > before + 1:
            yield None
        yield at
        before = at


def targets(to: Sequence[int], source: int, of: int) -> str:
    """The ranks that a rank sends to: `3`, `1-3,7`, `all`, `all others`."""
    if of > 2 and len(set(to) | {source}) == of:
        return "all" if source in to else "all others"
    return ",".join(_run(run) for run in runs(sorted(to), of + 1))
