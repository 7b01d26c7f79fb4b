"""Looks, while a device's programs wait, whether the ranks they wait for live: a device cannot."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from ringtree.errors import Mismatch, PeerDied, Poisoned, TimedOut
from ringtree.runtime.engines.device.processor import DeviceProcessor

LOOK_S = 0.05
GONE_LOOKS = 4
"""A rank that has left is waited for no more when it is seen so often: its last messages may be under way."""


class Watch:
    """A thread that stops the processor where a rank has died or the group has failed. `failure`: the reason. `late`:
    the error of a call that has been under way for so many seconds, None where it may be."""

    def __init__(
        self,
        host: Any,
        processor: DeviceProcessor,
        ranks: int,
        rank: int,
        late: Callable[[float], BaseException | None],
    ) -> None:
        self._late = late
        self._host, self._processor = host, processor
        self._everyone, self._rank = list(range(ranks)), rank
        self._busy, self._closed = threading.Event(), False
        self._thread: threading.Thread | None = None
        self._launching = False
        self.failure: BaseException | None = None
        self.text = ""

    def begin(self, text: str) -> None:
        """A call begins."""
        self.text = text
        if self._thread is None and len(self._everyone) > 1:
            self._thread = threading.Thread(target=self._look, name="ringtree-watch", daemon=True)
            self._thread.start()
        self._launching = True
        self._busy.set()

    def end(self) -> None:
        """A call has been launched."""
        self._launching = False

    def _look(self) -> None:
        looks, since_s = 0, time.monotonic()
        while not self._closed:
            if not self._launching and self._processor.idle:
                looks, since_s = 0, time.monotonic()
                self._busy.clear()
                if not self._launching and self._processor.idle:
                    self._busy.wait()
                since_s = time.monotonic()
                continue
            time.sleep(LOOK_S)
            if (failure := self._late(time.monotonic() - since_s)) and not self._processor.idle:
                self.failure = failure
                self._processor.stop()
                return
            looks = looks + 1 if self._left() else 0
            try:
                self._host.check_liveness(self.text, self._everyone, self._left() if looks >= GONE_LOOKS else [])
            except (PeerDied, Poisoned, TimedOut, Mismatch) as failure:
                if not self._closed and (self._launching or not self._processor.idle):
                    self.failure = failure
                    self._processor.stop()
                return

    def _left(self) -> list[int]:
        return [rank for rank, (state, *_) in enumerate(self._host.peers()) if state == "left" and rank != self._rank]

    def close(self) -> None:
        """Ends the thread."""
        self._closed = True
        self._busy.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
