"""The calls behind the digests that travel with messages: each rank writes its own, and the others read."""

from __future__ import annotations

import mmap
import os
import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ringtree.runtime.engines.engine import GroupParameters

ENTRIES, ENTRY_BYTES = 64, 256


def call_text(collective: str, op: str, dtype: str, count: int, root: int) -> str:
    """A call in words, as errors name it."""
    reduction = f"{op}, " if op else ""
    where = f", root {root}" if root >= 0 else ""
    return f"{collective}({reduction}{dtype}, count {count}{where})"


def digest_of(text: str, program: int) -> int:
    """The 32 bits that identify a call: the same on all ranks that make it."""
    return zlib.crc32(text.encode(), program & 0xFFFFFFFF) or 1


class CallsByDigest:
    """The last calls of each rank of a host, as text."""

    def __init__(self, parameters: GroupParameters) -> None:
        self._rank, self._names, self._next = parameters.rank, parameters.names, 0
        group = parameters.bootstrap_group()._replace(key=f"{parameters.key}/calls")
        nbytes = ENTRIES * ENTRY_BYTES * parameters.ranks
        fd, _ = parameters.bootstrap.share(group, nbytes)
        try:
            self._memory = mmap.mmap(fd, nbytes)
        finally:
            os.close(fd)

    def add(self, digest: int, text: str) -> None:
        """Writes a call of this rank's, in the place of the oldest."""
        at = (self._rank * ENTRIES + self._next % ENTRIES) * ENTRY_BYTES
        self._next += 1
        data = digest.to_bytes(4, "little") + text.encode()[: ENTRY_BYTES - 5]
        self._memory[at : at + ENTRY_BYTES] = data.ljust(ENTRY_BYTES, b"\0")

    def find(self, rank: int, digest: int) -> str:
        """A call of that rank's in words."""
        key = digest.to_bytes(4, "little")
        for entry in range(ENTRIES):
            at = (rank * ENTRIES + entry) * ENTRY_BYTES
            if self._memory[at : at + 4] == key:
                return self._memory[at + 4 : at + ENTRY_BYTES].rstrip(b"\0").decode(errors="replace")
        return f"another, of digest {digest:#010x}"

    def close(self) -> None:
        """Gives the memory back."""
        self._memory.close()
