"""Operation graphs of other simulators: GOAL schedules and Chakra execution traces. Their messages have sizes and no
content, so they are played and not proved."""

from __future__ import annotations

from os.path import exists
from pathlib import Path

from ringtree.files.file_bytes import first_bytes
from ringtree.formats.imported import FormatError
from ringtree.formats.operations import chakra, goal
from ringtree.formats.operations.communicators import NO_COMMUNICATORS
from ringtree.ir.operations import OperationGraph

__all__ = ["CHAKRA", "NO_COMMUNICATORS", "format_of", "load"]

GOAL, CHAKRA = "a GOAL schedule", "a Chakra execution trace"
FIRST_BYTES = 1 << 12
"""A GOAL file begins within these: comments may come first."""


def format_of(path: str | Path) -> str:
    """The format of a graph's file, in words, and "" of any other. A trace is recognized by its name, which has its
    rank, or as NAME of NAME.0.et; GOAL by its content."""
    path = Path(path)
    if chakra.FILE.fullmatch(path.name) or (not exists(path) and exists(f"{path}.0.et")):
        return CHAKRA
    return GOAL if goal.begins(first_bytes(path, FIRST_BYTES)) else ""


def files_of(path: str | Path) -> list[Path]:
    """All files that are read for that one, of which `format_of` has a format."""
    path = Path(path)
    if format_of(path) != CHAKRA:
        return [path]
    return chakra.files(path if chakra.FILE.fullmatch(path.name) else Path(f"{path}.0.et"))


def load(path: str | Path, communicators: dict[str, tuple[int, ...]] | None = None) -> OperationGraph:
    """The graph of a file, of which `format_of` has a format. FormatError, in one line: if it is missing, broken or
    too large. `communicators`: of a trace, ranks by the names of communicators."""
    path = Path(path)
    if format_of(path) == CHAKRA:
        first = path if chakra.FILE.fullmatch(path.name) else Path(f"{path}.0.et")
        return chakra.read(first, communicators or NO_COMMUNICATORS)
    if communicators:
        raise FormatError(f"{path}: communicators belong to execution traces; leave them out")
    return goal.read(path)
