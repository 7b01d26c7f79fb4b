"""The program's own work in a trace: `with comm.span("forward 3")`."""

from __future__ import annotations

import time
from contextlib import nullcontext
from types import TracebackType

import numpy as np

from ringtree.ir.trace import Event
from ringtree.runtime.engines.protocols import Recorded


class Spans:
    """The spans that ended while a rank recorded. Threads may write at once."""

    def __init__(self, most_events: int) -> None:
        self._most_events = most_events
        self._ended: list[tuple[str, float, float]] = []
        self._dropped = 0

    def add(self, name: str, start_s: float, end_s: float) -> None:
        """Records a span that has ended; over the limit, counts it as dropped."""
        if len(self._ended) < self._most_events:
            self._ended.append((name, start_s, end_s))
        else:
            self._dropped += 1

    def recorded(self) -> Recorded:
        """As `Recording.recorded` returns it, in the order of their ends."""
        ended = self._ended[:]
        n, calls = len(ended), dict[str, int]()
        call = np.array([calls.setdefault(name, len(calls)) for name, _, _ in ended], np.int32)
        start_s, end_s = (np.array([span[k] for span in ended], np.float64) for k in (1, 2))
        kind, no_peer, no_chunk = (
            np.full(n, Event.COMPUTE, np.int32),
            np.full(n, -1, np.int32),
            np.full(n, -1, np.int32),
        )
        calls_recorded = [(name, 0) for name in calls]
        return Recorded(
            kind, start_s, end_s, np.zeros(n, np.int64), no_peer, no_chunk, call, calls_recorded, self._dropped
        )


class Span:
    """A span from entering a block to leaving it, however it is left."""

    __slots__ = ("_name", "_spans", "_start_s")

    def __init__(self, spans: Spans, name: str) -> None:
        self._spans, self._name = spans, name

    def __enter__(self) -> None:
        self._start_s = time.monotonic()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._spans.add(self._name, self._start_s, time.monotonic())


UNRECORDED = nullcontext()
"""A span without a recording."""
