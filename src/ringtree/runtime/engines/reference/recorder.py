"""The reference engine's recording: what a rank did, and when, written down as it is done."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from ringtree.ir.trace import Event
from ringtree.runtime.engines.protocols import Recorded

if TYPE_CHECKING:
    from ringtree.runtime.engines.reference.group import ReferenceGroup

Note = Callable[..., None]
"""note(kind, peer, nbytes, chunk=-1): what was done since the last event of this call."""


class ReferenceRecorder:
    """The events of one rank's calls. A SEND takes no time: it is where the event before it ends."""

    def __init__(self, most_events: int) -> None:
        self.most_events, self.dropped = most_events, 0
        self.events: list[tuple[Event, float, float, int, int, int, int]] = []
        self.calls: list[tuple[str, int]] = []
        self.waiters, self.wanted_s = 0, 0.0  # calls that wait for messages, and since when for the next one

    def begin(self, text: str, digest: int) -> Note:
        """A call begins; what notes its events."""
        call, last_s = self._call(text, digest), time.monotonic()

        def note(kind: Event, peer: int, nbytes: int, chunk: int = -1) -> None:
            nonlocal last_s
            start_s = last_s
            if kind is not Event.SEND:
                last_s = time.monotonic()
            self._add((kind, start_s, last_s, nbytes, peer, chunk, call))

        return note

    def note_message(self, kind: Event, peer: int, nbytes: int, number: int, text: str, digest: int) -> None:
        """A message is out, or is there. While the rank waits, each that comes ends a wait and begins the next."""
        start_s = now_s = time.monotonic()
        if kind is Event.WAIT:
            if self.waiters:
                start_s = self.wanted_s
            self.wanted_s = now_s
        self._add((kind, start_s, now_s, nbytes, peer, number, self._call(text, digest)))

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """The rank waits for a message. Several threads may."""
        if self.waiters == 0:
            self.wanted_s = time.monotonic()
        self.waiters += 1
        try:
            yield
        finally:
            self.waiters -= 1

    def _call(self, text: str, digest: int) -> int:
        if (text, digest) not in self.calls:
            self.calls.append((text, digest))
        return self.calls.index((text, digest))

    def _add(self, event: tuple[Event, float, float, int, int, int, int]) -> None:
        if len(self.events) < self.most_events:
            self.events.append(event)
        else:
            self.dropped += 1

    def recorded(self) -> Recorded:
        events = list(self.events)
        kind, start_s, end_s, nbytes, peer, chunk, call = zip(*events, strict=True) if events else ((),) * 7
        return Recorded(
            np.array(kind, np.int32),
            np.array(start_s, np.float64),
            np.array(end_s, np.float64),
            np.array(nbytes, np.int64),
            np.array(peer, np.int32),
            np.array(chunk, np.int32),
            np.array(call, np.int32),
            list(self.calls),
            self.dropped,
        )


class Recordings:
    """The part of an endpoint that is about recording; see ringtree._native.Group for the contract."""

    group: ReferenceGroup
    rank: int
    recorder: ReferenceRecorder | None = None

    def record(self, most_events: int) -> None:
        self.recorder = ReferenceRecorder(most_events) if most_events else None
        with self.group.changed:
            self.group.recorders.pop(self.rank, None)
            if most_events:
                self.group.recorders[self.rank] = ReferenceRecorder(most_events)

    def recorded(self) -> Recorded | None:
        return None if self.recorder is None else self.recorder.recorded()

    def recorded_messages(self) -> Recorded | None:
        with self.group.changed:
            recorder = self.group.recorders.get(self.rank)
            return None if recorder is None else recorder.recorded()
