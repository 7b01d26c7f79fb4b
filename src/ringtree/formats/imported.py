"""The result of reading a file: its schedule, and the programs and facts that it has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ringtree.files.file_bytes import file_bytes
from ringtree.ir.contents import Contents
from ringtree.ir.program import Program
from ringtree.ir.schedule import Schedule
from ringtree.ir.spec import ScheduleError, title

LARGEST_BYTES = 2**24
"""Files beyond this are refused unread. The largest published programs are below 1 MiB."""
MOST_MOVES = 2**22
"""Chunks that a file's schedule may move, all repetitions and ranks together: a proof holds them all."""
MOST_ROUNDS = 2**18
MOST_CONTENTS_BYTES = 2**28
"""Symbolic contents that its proof may take, once; it copies those that move in a round."""


class FormatError(ValueError):
    """A file that is not as expected. The message has the file, the position in it, the text found and the expected
    one."""


@dataclass(frozen=True, slots=True)
class Imported:
    """The content of a file. `programs`: one per rank, thread blocks as threads (none if the file is a schedule).
    `facts`: the file's further attributes, by the file's own names."""

    schedule: Schedule
    programs: tuple[Program, ...] = ()
    facts: Mapping[str, str | int] = field(default_factory=dict)


def read_bytes(path: Path) -> bytes:
    """The whole file. FormatError: if it is no file, cannot be read or is too large for a schedule."""
    try:
        return file_bytes(path, "a schedule", LARGEST_BYTES)
    except ValueError as error:
        raise FormatError(str(error)) from None


def check_moves(schedule: Schedule) -> None:
    """ScheduleError: if the schedule, legal or not, has more than MOST_ROUNDS rounds or MOST_MOVES moves of a chunk."""
    moves = sum(int(np.abs(b.rows.count.astype(np.int64)).sum()) * b.times for b in schedule.blocks)
    of_each = (schedule.rounds, MOST_ROUNDS, "rounds"), (max(moves, schedule.transfers), MOST_MOVES, "moves of a chunk")
    for many, most, of in of_each:
        if many > most:
            raise ScheduleError(f"{title(schedule)} has {many:,} {of}; expected at most {most:,} in a file")


def check_contents(schedule: Schedule) -> None:
    """ScheduleError: if the proof of a legal schedule would take more than MOST_CONTENTS_BYTES for the contents of all
    chunks, or for those that move in one round."""
    moving = 0
    for block in schedule.blocks:
        at = np.unique(block.rows.round, return_inverse=True)[1]
        moving = max(moving, int(np.bincount(at, block.rows.count).max(initial=0)))
    if (nbytes := Contents.nbytes(schedule, moving)) > MOST_CONTENTS_BYTES:
        raise ScheduleError(
            f"{title(schedule)}: {schedule.chunks:,} chunks and {schedule.scratch:,} of scratch on each, {moving:,} "
            f"that move at once: its proof takes {nbytes:,} bytes; expected at most {MOST_CONTENTS_BYTES:,} in a file"
        )


def check_words(found: Imported, path: Path) -> None:
    """FormatError: if the name or a fact has characters that move a terminal's cursor, by which a file could write a
    verdict of its own."""
    for what, word in {**found.facts, "name": found.schedule.name}.items():
        if not (shown := f"{what} {word}").isprintable():
            raise FormatError(f"{path}: {ascii(shown)[:60]} cannot be shown; expected printable characters")
