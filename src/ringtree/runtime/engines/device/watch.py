"""Looks, while a device's programs wait, whether the ranks they wait for live: a device cannot."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from ringtree.runtime.engines.device.processor import DeviceProcessor
from ringtree.runtime.limits import start_thread

LOOK_S = 0.05
GONE_LOOKS = 4
"""A rank that has left is waited for no more when it is seen so often: its last messages may be under way."""


class Watch:
    """A thread that stops the processor where a rank has died or the group has failed, or a call is too late. `late`:
    whether one that has been under way for so many seconds is, of which the group then knows."""

    def __init__(
        self,
        host: Any,
        processor: DeviceProcessor,
        ranks: int,
        rank: int,
        late: Callable[[float], bool],
    ) -> None:
        self._late = late
        self._host, self._processor = host, processor
        self._everyone, self._rank = list(range(ranks)), rank
        self._native, self._closed = processor.native, False
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """A call is about to be launched, the first or another; each wakes the thread."""
        if self._thread is None and len(self._everyone) > 1:
            self._thread = start_thread(self._look, "watch")

    def _look(self) -> None:
        looks, ended, since_s = 0, self._native.ended, time.monotonic()
        while not self._closed:
            if self._native.idle:
                looks = 0
                self._native.await_launch()
                since_s = time.monotonic()
                continue
            time.sleep(LOOK_S)
            self._processor.look()
            if ended != self._native.ended:
                ended, since_s = self._native.ended, time.monotonic()
            looks = looks + 1 if self._left() else 0
            absent = self._left() if looks >= GONE_LOOKS else []
            lost = self._host.is_lost(self._native.text, self._everyone, absent)
            lost = lost or self._late(time.monotonic() - since_s)
            if lost and not self._closed and not self._native.idle:
                self._processor.stop()
                return

    def _left(self) -> list[int]:
        return [rank for rank, (state, *_) in enumerate(self._host.peers()) if state == "left" and rank != self._rank]

    def close(self) -> None:
        """Ends the thread."""
        self._closed = True
        self._native.end_awaiting()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
