"""Parts of a file in a buffer: which bytes of it are read, and where they come to lie.

Bytes lie in the buffer as in the file from one multiple of PAGE on, so that they can be read without the page cache.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ringtree.storage.header import Entry, Header

PAGE = 4096
"""A multiple of the blocks of all disks."""
GAP_BYTES = 1 << 20
"""Unwanted bytes between two wanted ones that are read along, rather than in two reads."""
Names = Iterable[str] | Callable[[str], bool] | None
Shard = Mapping[str, slice] | Callable[[str, tuple[int, ...]], slice | None] | None


class Segment(NamedTuple):
    """Bytes of the file, `at` in the buffer."""

    offset: int
    nbytes: int
    at: int


class FileLayout:
    """The tensors that are read, and the segments of the file that hold them."""

    def __init__(self, entries: tuple[Entry, ...]) -> None:
        self.entries = entries
        self.segments: list[Segment] = []
        for begin, end in _joined(e for e in entries if e.end > e.begin):
            at = self.nbytes
            self.segments.append(Segment(begin, end - begin, at))
        self._begins = [s.offset for s in self.segments]

    @property
    def nbytes(self) -> int:
        """Bytes of the buffer, a multiple of PAGE."""
        return self.segments[-1].at + self.segments[-1].nbytes if self.segments else 0

    def at(self, offset: int) -> int:
        """The place in the buffer of a byte of the file that is read."""
        segment = self.segments[bisect_right(self._begins, offset) - 1]
        return segment.at + offset - segment.offset

    def reads(self, begin: int, end: int) -> Iterator[Segment]:
        """The parts of segments that lie in [begin, end) of the buffer."""
        for offset, nbytes, at in self.segments:
            low, high = max(begin, at), min(end, at + nbytes)
            if low < high:
                yield Segment(offset + low - at, high - low, low)


def selected(header: Header, names: Names) -> tuple[Entry, ...]:
    """The named tensors, or those that a function of the name wants. ValueError: for a name that is not there."""
    if names is None:
        return header.entries
    if callable(names):
        return tuple(e for e in header.entries if names(e.name))
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise TypeError(f"names is {names!r}; expected a list of names, or a function of one")
    wanted = [*names]
    there = {e.name for e in header.entries}
    if missing := [name for name in wanted if not isinstance(name, str) or name not in there]:
        raise ValueError(f"{header.path}: no tensor {missing[0]!r}; expected names of its {len(header.entries)}")
    chosen = {*wanted}
    return tuple(e for e in header.entries if e.name in chosen)


def sharded(entries: tuple[Entry, ...], shard: Shard, path: Path) -> tuple[Entry, ...]:
    """The tensors' rows that this rank wants: of those that `shard` gives none for, all. ValueError: for a name that
    is not there, or rows that do not follow each other."""
    if shard is None:
        return entries
    there = {e.name for e in entries}
    if not callable(shard) and (missing := [name for name in shard if name not in there]):
        raise ValueError(f"{path}: no tensor {missing[0]!r} to shard; expected names that are loaded")
    return tuple(_rows(e, shard(e.name, e.shape) if callable(shard) else shard.get(e.name), path) for e in entries)


def _rows(entry: Entry, rows: Any, path: Path) -> Entry:
    if rows is None:
        return entry
    if not isinstance(rows, slice) or rows.step not in (None, 1):
        raise ValueError(f"{path}: {rows!r} of tensor {entry.name!r}; expected slice(begin, end) of its first axis")
    if not entry.shape:
        raise ValueError(f"{path}: {rows!r} of tensor {entry.name!r}, which has no axis; expected no shard of it")
    if entry.transposed:
        raise ValueError(
            f"{path}: {rows!r} of tensor {entry.name!r}: it lies in Fortran's order, in which rows are not "
            "consecutive; save it in C's order (numpy.ascontiguousarray), or load it without shard="
        )
    try:
        begin, end, _ = rows.indices(entry.shape[0])
    except TypeError:
        raise TypeError(f"{path}: {rows!r} of tensor {entry.name!r}; expected whole numbers") from None
    end = max(begin, end)
    row = (entry.end - entry.begin) // entry.shape[0] if entry.shape[0] else 0
    return entry._replace(
        shape=(end - begin, *entry.shape[1:]), begin=entry.begin + begin * row, end=entry.begin + end * row
    )


def _joined(entries: Iterable[Entry]) -> Iterator[tuple[int, int]]:
    """Ranges of the file, by pages, that hold the tensors; what is near each other is one range."""
    last = (0, 0)
    for entry in sorted(entries, key=lambda e: e.begin):
        begin, end = entry.begin // PAGE * PAGE, -(-entry.end // PAGE) * PAGE
        if last[1] and begin <= last[1] + GAP_BYTES:
            last = (last[0], max(last[1], end))
            continue
        if last[1]:
            yield last
        last = (begin, end)
    if last[1]:
        yield last
