"""The training text: the source of Python's standard library, as any machine that runs this has it. Needs no torch."""

from __future__ import annotations

import sysconfig
from functools import cache
from pathlib import Path

TEXT_NBYTES = 4 << 20
LAST_NBYTES = 2
"""Bytes of the text that no sequence has: the byte that follows it, and another place for it to begin."""


@cache
def text() -> bytes:
    """The text, TEXT_NBYTES at most."""
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    return b"\n".join(f.read_bytes() for f in files)[:TEXT_NBYTES]


def check_length(context: int) -> None:
    """ValueError where the text is too short for sequences of `context` bytes."""
    if context > (most := len(text()) - LAST_NBYTES):
        raise ValueError(f"a sequence of {context:,} bytes; expected at most {most:,}: the text has {len(text()):,}")
