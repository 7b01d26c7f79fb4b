"""Data that a launcher or an agent has to write, and a reader may be slow to take: the writer itself never waits."""

from __future__ import annotations

import os
import select
import selectors
import stat
import time

MOST_BYTES = 1 << 20
"""Unsent bytes of a full outbox."""
PIECE_BYTES = 1 << 16
"""Bytes of one write."""


class Outbox:
    """A descriptor that is written when it can be, by events of the selector."""

    def __init__(self, fd: int, selector: selectors.BaseSelector) -> None:
        self._fd, self._selector = fd, selector
        self._waits_for_room = os.get_blocking(fd) and not stat.S_ISREG(os.fstat(fd).st_mode)
        self._piece = select.PIPE_BUF if self._waits_for_room else PIECE_BYTES
        self._unsent = bytearray()
        self._waits = self._closed = False
        self._taken_s = time.monotonic()
        self.error: OSError | None = None
        """The error that ended it: the reader has gone, or the disk is full."""
        self.dropped = 0
        """Bytes that were never sent."""
        self.within_a_line = False
        """Whether what was sent ends within a line."""

    @property
    def empty(self) -> bool:
        """Whether all is sent."""
        return not self._unsent

    @property
    def full(self) -> bool:
        """Whether so much is unsent that its sources should wait."""
        return len(self._unsent) > MOST_BYTES

    @property
    def stalled_s(self) -> float:
        """Seconds in which nothing was taken of what is unsent."""
        return time.monotonic() - self._taken_s if self._unsent else 0.0

    def put(self, data: bytes) -> None:
        """Sends the data, now or later; nothing any more when it is closed."""
        if self._closed:
            return
        if not self._unsent:
            self._taken_s = time.monotonic()
        self._unsent += data
        if not self._waits:
            self._send()

    def drop(self) -> None:
        """Drops what is unsent."""
        self.dropped += len(self._unsent)
        self._unsent.clear()
        self._settle()

    def close(self) -> None:
        """Drops what is unsent, and all that follows."""
        self._closed = True
        self.drop()

    def _send(self) -> None:
        try:
            while self._unsent and (not self._waits_for_room or _has_room(self._fd)):
                sent = os.write(self._fd, self._unsent[: self._piece])
                self._taken_s, self.within_a_line = time.monotonic(), self._unsent[sent - 1] != ord("\n")
                del self._unsent[:sent]
        except BlockingIOError:
            pass
        except OSError as error:
            self.error = error
            self.close()
        self._settle()

    def _settle(self) -> None:
        """Waits to send the rest, if there is any."""
        waits = bool(self._unsent)
        if waits != self._waits:
            if waits:
                self._selector.register(self._fd, selectors.EVENT_WRITE, self._send)
            else:
                self._selector.unregister(self._fd)
            self._waits = waits


def _has_room(fd: int) -> bool:
    """Whether a write of PIPE_BUF bytes would not wait, or fail at once."""
    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    return bool(poll.poll(0))
