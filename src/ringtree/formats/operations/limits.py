"""The largest operation graphs that are read: within 1 GB of memory."""

from __future__ import annotations

from pathlib import Path

from ringtree.formats.imported import FormatError

MOST_BYTES = 1 << 27
"""Bytes of a file, or of all files of a trace together."""
MOST_RANKS = 1 << 20
MOST_OPERATIONS = 2_000_000
MOST_DEPENDENCIES = 8_000_000


def check_size(path: Path, operations: int, dependencies: int) -> None:
    """FormatError: if a graph of so many operations and dependencies is too large."""
    if operations > MOST_OPERATIONS:
        raise FormatError(f"{path}: more than {MOST_OPERATIONS:,} operations; expected at most so many")
    if dependencies > MOST_DEPENDENCIES:
        raise FormatError(f"{path}: more than {MOST_DEPENDENCIES:,} dependencies; expected at most so many")
