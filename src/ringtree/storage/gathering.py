"""Parts of a file, read by all ranks, and placed on each: piece by piece, so that reads and collectives overlap."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from ringtree.storage.layout import PAGE, FileLayout, Segment
from ringtree.storage.outcome import JointStage
from ringtree.storage.reading import Reader

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ringtree.runtime.communicator.communicator import Communicator

PIECE_BYTES = 8 << 20
"""Bytes that a rank reads at once: a disk's rate is reached by two ranks that do."""
Progress = Callable[[int, int], object] | None


class ReadRound(NamedTuple):
    """A stretch of the buffer from `begin` on, of which each rank reads a piece."""

    begin: int
    piece: int


def rounds(nbytes: int, ranks: int) -> Iterator[ReadRound]:
    """The rounds that read a buffer; the last one's pieces are shorter, and may pass its end by less than `ranks`
    pages."""
    whole = PIECE_BYTES * ranks
    for begin in range(0, nbytes, whole):
        piece = min(PIECE_BYTES, -(-(nbytes - begin) // ranks // PAGE) * PAGE)
        yield ReadRound(begin, piece)


def capacity(nbytes: int, ranks: int) -> int:
    """Bytes that the rounds of a buffer of `nbytes` write."""
    return max((begin + piece * ranks for begin, piece in rounds(nbytes, ranks)), default=0)


def read_own(memory: NDArray[np.uint8], layout: FileLayout, reader: Reader, progress: Progress) -> None:
    """Reads all by this rank itself. Raises as Reader.read does."""
    for begin, piece in rounds(layout.nbytes, 1):
        _read(memory, layout.reads(begin, begin + piece), reader)
        report(progress, begin + piece, layout.nbytes)


def read_together(
    memory: NDArray[np.uint8],
    layout: FileLayout,
    reader: Reader,
    comm: Communicator,
    stage: JointStage,
    progress: Progress,
) -> None:
    """Reads this rank's pieces and gathers the others', which the next piece's read does not wait for. A rank that has
    failed, or whose `progress` has, reads no more, and takes part in the collectives until `stage` is agreed upon."""
    under_way: deque[tuple[Any, int]] = deque()

    def finish() -> None:
        work, end = under_way.popleft()
        work.wait()
        if stage.error is None:
            with stage.attempt():
                report(progress, min(end, layout.nbytes), layout.nbytes)

    for begin, piece in rounds(layout.nbytes, comm.size):
        end, own = begin + piece * comm.size, begin + piece * comm.rank
        if stage.error is None:
            with stage.attempt():
                _read(memory, layout.reads(own, own + piece), reader)
        work = comm.all_gather(memory[own : own + piece], out=memory[begin:end], async_op=True)
        under_way.append((work, end))
        if len(under_way) > 1:
            finish()
    while under_way:
        finish()


def bring(layout: FileLayout, reader: Reader, share: int, shares: int, progress: Progress) -> None:
    """Brings one of equal shares of the file's wanted parts into the page cache, unless it is there: a share in one
    stretch, so that the kernel reads ahead. (Pages that it reads ahead count as cached: to ask later, and to skip them,
    would end that.) Raises as Reader.read does."""
    scratch = memoryview(bytearray(min(PIECE_BYTES, layout.nbytes)))
    own = -(-layout.nbytes // shares // PAGE) * PAGE
    first, last = own * share, min(own * (share + 1), layout.nbytes)
    if all(reader.is_cached(offset, nbytes, whole=True) for offset, nbytes, _ in layout.reads(first, last)):
        report(progress, layout.nbytes, layout.nbytes)
        return
    for begin in range(first, last, PIECE_BYTES):
        end = min(begin + PIECE_BYTES, last)
        for offset, nbytes, _ in layout.reads(begin, end):
            reader.read(scratch[:nbytes], offset)
        report(progress, (end - first) * shares, layout.nbytes)


def _read(memory: NDArray[np.uint8], parts: Iterator[Segment], reader: Reader) -> None:
    for offset, nbytes, at in parts:
        part: Any = memory[at : at + nbytes]
        reader.read(memoryview(part), offset)


def report(progress: Progress, done: int, total: int) -> None:
    """Calls the caller's function, if there is one."""
    if progress is not None:
        progress(min(done, total), total)
