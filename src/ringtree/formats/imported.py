"""The result of reading a file: its schedule, and the programs and facts that it has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ringtree.files.file_bytes import file_bytes
from ringtree.ir.program import Program
from ringtree.ir.schedule import Schedule

LARGEST_BYTES = 2**24
"""Files beyond this are refused unread. The largest published programs are below 1 MiB."""


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
