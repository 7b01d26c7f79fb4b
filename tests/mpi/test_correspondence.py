"""Every call in the table of docs/mpi4py.md exists on its side."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import ringtree
from ringtree import mpi as MPI
from ringtree.runtime.communicator.messages.work import Message

PAGE = (Path(__file__).parent.parent.parent / "docs/mpi4py.md").read_text(encoding="utf-8")
ROWS = [row.strip("| ").split(" | ") for row in PAGE.splitlines() if re.match(r"\| `", row)]
NATIVE: dict[str, Any] = {
    "comm": ringtree.Communicator,
    "ringtree": ringtree,
    "work": ringtree.Work,
    "m": Message,
}
MISSING: set[str] = set()
"""What the left column has of MPI's that ringtree.mpi has not, for its right column."""


def has(owner: Any, name: str) -> bool:
    return hasattr(owner, name) or name in ("rank", "size") or name in getattr(owner, "__annotations__", {})


@pytest.mark.parametrize(("theirs", "ours"), ROWS, ids=[row[0].strip("`")[:30] for row in ROWS])
def test_both_sides_exist(theirs: str, ours: str) -> None:
    for name in re.findall(r"\b(?:MPI|comm|request)\.(\w+)", theirs):
        assert name in MISSING or any(hasattr(o, name) for o in (MPI, MPI.Intracomm, MPI.Request)), name
    named = re.findall(r"\b(comm|ringtree|work|m)\.(\w+)", ours)
    assert named or "comm" not in ours
    for owner, name in named:
        assert has(NATIVE[owner], name), f"{owner}.{name}"
