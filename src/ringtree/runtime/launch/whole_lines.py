"""The output of a rank, as whole lines."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import IO

LONGEST_LINE = 1 << 20
"""Bytes; a longer one of a rank's is cut, at most READ_BYTES later."""
READ_BYTES = 1 << 16

Take = Callable[[list[bytes]], None]


class WholeLines:
    """A pipe, whose lines go to `take` without their ends. A line longer than `longest` bytes is cut."""

    def __init__(self, pipe: IO[bytes], take: Take, longest: int = LONGEST_LINE) -> None:
        self.pipe, self._take, self._longest = pipe, take, longest
        self._rest = b""
        os.set_blocking(pipe.fileno(), False)

    def pump(self) -> bool:
        """Passes on what there is; False at the end."""
        try:
            data = os.read(self.pipe.fileno(), READ_BYTES)
        except BlockingIOError:
            return True
        *whole, self._rest = (self._rest + data).split(b"\n")
        if self._rest and (not data or len(self._rest) > self._longest):
            whole, self._rest = [*whole, self._rest], b""
        if whole:
            self._take(whole)
        return bool(data)
