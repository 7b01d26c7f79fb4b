"""The reference engine's recording: what a rank did, and when, written down as it is done."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from ringtree.ir.trace import Event
from ringtree.runtime.engine import Recorded

Note = Callable[..., None]
"""note(kind, peer, nbytes, chunk=-1): what was done since the last event of this call."""


class Recorder:
    """The events of one rank's calls. A SEND takes no time: it is where the event before it ends."""

    def __init__(self, most_events: int) -> None:
        self.most_events, self.dropped = most_events, 0
        self.events: list[tuple[Event, float, float, int, int, int, int]] = []
        self.calls: list[tuple[str, int]] = []

    def begin(self, text: str, digest: int) -> Note:
        """A call begins; what notes its events."""
        if (text, digest) not in self.calls:
            self.calls.append((text, digest))
        call, last_s = self.calls.index((text, digest)), time.monotonic()

        def note(kind: Event, peer: int, nbytes: int, chunk: int = -1) -> None:
            nonlocal last_s
            start_s = last_s
            if kind is not Event.SEND:
                last_s = time.monotonic()
            if len(self.events) < self.most_events:
                self.events.append((kind, start_s, last_s, nbytes, peer, chunk, call))
            else:
                self.dropped += 1

        return note


class Recordings:
    """The part of a seat that is about recording; see ringtree._native.Group for the contract."""

    recorder: Recorder | None = None

    def record(self, most_events: int) -> None:
        self.recorder = Recorder(most_events) if most_events else None

    def recorded(self) -> Recorded | None:
        if self.recorder is None:
            return None
        events = list(self.recorder.events)
        kind, start_s, end_s, nbytes, peer, chunk, call = zip(*events, strict=True) if events else ((),) * 7
        return Recorded(
            np.array(kind, np.int32),
            np.array(start_s, np.float64),
            np.array(end_s, np.float64),
            np.array(nbytes, np.int64),
            np.array(peer, np.int32),
            np.array(chunk, np.int32),
            np.array(call, np.int32),
            list(self.recorder.calls),
            self.recorder.dropped,
        )
