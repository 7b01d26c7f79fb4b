"""Calls on devices in words, and the digests that travel with their messages."""

from __future__ import annotations

import zlib


def call_text(collective: str, op: str, dtype: str, count: int, root: int) -> str:
    """A call in words, as errors name it."""
    reduction = f"{op}, " if op else ""
    where = f", root {root}" if root >= 0 else ""
    return f"{collective}({reduction}{dtype}, count {count}{where})"


def digest_of(text: str, program: int) -> int:
    """The 32 bits that identify a call: the same on all ranks that make it."""
    return zlib.crc32(text.encode(), program & 0xFFFFFFFF) or 1
