"""Calls with tensors of a CUDA device: in the order of its streams, which no call waits for on the host.

The calls of a group run on a device in the order in which they were made, whichever streams were current. A synchronous
one runs on the caller's stream; an asynchronous one on a stream of the group's, behind what the caller's stream had to
do, so that the program computes beside it. `wait()` lets the current stream wait, as NCCL's groups do.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch

from ringtree.runtime.communicator.messages.work import Work as Began
from ringtree.torch_backend.compiling import opaque
from ringtree.torch_backend.flight.recorder import FlightEntry
from ringtree.torch_backend.works.completion import Completions
from ringtree.torch_backend.works.under_way import UnderWay
from ringtree.torch_backend.works.work import Pending

POLL_S = 1e-4


class DeviceOrder:
    """The order of a group's calls on one device."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._stream: Any = None  # of asynchronous calls
        self._last: Any = None  # the event at the end of the last call

    def run(self, call: Callable[[], None]) -> None:
        """Makes a call on the current stream."""
        with torch.cuda.device(self.device):
            self._behind(torch.cuda.current_stream(), call)

    def begin(self, call: Callable[[], None]) -> Any:
        """Makes a call beside the current stream; returns the event at its end."""
        with torch.cuda.device(self.device):
            if self._stream is None:
                self._stream = torch.cuda.Stream(priority=-1)
            self._stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self._stream):
                return self._behind(self._stream, call)

    def _behind(self, stream: Any, call: Callable[[], None]) -> Any:
        if self._last is not None:
            stream.wait_event(self._last)
        call()
        self._last = stream.record_event()
        return self._last


class DeviceEnd(Began):
    """The end of a call as an event of its device."""

    __slots__ = ("event",)

    def __init__(self, event: Any) -> None:
        self.event, self._result = event, None

    def done(self) -> bool:
        """Whether the device has come there."""
        return bool(self.event.query())

    def wait(self, timeout: float | None = None) -> bool:
        """Waits on the host; False when `timeout` seconds passed first."""
        until = None if timeout is None else time.monotonic() + timeout
        while not self.event.query():
            if until is not None and time.monotonic() >= until:
                return False
            time.sleep(POLL_S)
        return True


class OnDevice(Pending):
    """torch's Work of an asynchronous call on a device. Its record ends when the program waits for it, or when it is
    found to have ended."""

    began: DeviceEnd

    def __init__(
        self,
        event: Any,
        device: torch.device,
        outputs: Sequence[torch.Tensor],
        entry: FlightEntry,
        under_way: UnderWay,
        completions: Completions,
        kept: Any,
    ) -> None:
        self._device = device
        super().__init__(DeviceEnd(event), outputs, entry, under_way, completions, None, None, kept)

    @opaque
    def wait(self, timeout: timedelta | None = None) -> bool:
        """Lets the current stream wait for the call; True at once."""
        torch.cuda.current_stream(self._device).wait_event(self.began.event)
        self._finish(None)
        return True

    def is_completed(self) -> bool:
        """Whether the device has come to the call's end."""
        if not self.began.done():
            return False
        self._finish(None)
        return True

    @opaque
    def get_future(self) -> Any:
        """The future of the output tensors, complete in the order of streams: its callbacks run at once, on streams
        that wait for the call."""
        with self._lock:
            if self._future is None:
                made = torch.futures.Future(devices=[self._device])
                after = torch.cuda.Stream(self._device)
                after.wait_event(self.began.event)
                with torch.cuda.stream(after):
                    made.set_result(self._outputs)
                self._future = made
        return self._future
