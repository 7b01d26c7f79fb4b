"""Data that an agent has to send, and a launcher may be slow to read: the agent itself never waits for it."""

from __future__ import annotations

import os
import selectors

MOST_BYTES = 1 << 20
"""Unsent bytes of a full outbox."""


class Outbox:
    """A descriptor that is written when it can be, by events of the selector."""

    def __init__(self, fd: int, selector: selectors.BaseSelector) -> None:
        self._fd, self._selector = fd, selector
        self._unsent = bytearray()
        self._waits = self._closed = False
        self.broken = False
        """Whether the reader has gone."""
        os.set_blocking(fd, False)

    @property
    def empty(self) -> bool:
        """Whether all is sent."""
        return not self._unsent

    @property
    def full(self) -> bool:
        """Whether so much is unsent that its sources should wait."""
        return len(self._unsent) > MOST_BYTES

    def put(self, data: bytes) -> None:
        """Sends the data, now or later; nothing any more when the reader has gone."""
        if self._closed:
            return
        self._unsent += data
        if not self._waits:
            self._send()

    def close(self) -> None:
        """Drops what is unsent, and all that follows."""
        self._closed = True
        self._unsent.clear()
        self._settle()

    def _send(self) -> None:
        try:
            del self._unsent[: os.write(self._fd, self._unsent)]
        except BlockingIOError:
            pass
        except OSError:
            self.broken = True
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
