"""The result of a call for torch: its Work, with a future."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from time import time_ns
from typing import Any

import torch
import torch.distributed as dist

from ringtree.errors import TimedOut
from ringtree.runtime.communicator.messages.work import Work as Began
from ringtree.torch_backend.compiling import opaque
from ringtree.torch_backend.flight.recorder import FlightEntry
from ringtree.torch_backend.tensors import After
from ringtree.torch_backend.works.callbacks import Callbacks
from ringtree.torch_backend.works.completion import Completions
from ringtree.torch_backend.works.under_way import UnderWay

NO_TIMEOUT = timedelta(0)
"""The value that torch's C++ passes for no timeout."""


class GroupWork(dist.Work):
    """torch's Work of a call. `_outputs`: the future's value, a list of tensors. `_callbacks` runs its callbacks; where
    it is None, torch does."""

    __slots__ = ("_callbacks", "_future", "_outputs")
    _outputs: list[torch.Tensor]
    _callbacks: Callbacks | None
    _future: Any

    def result(self) -> list[torch.Tensor]:
        """Waits, and returns the output tensors."""
        self.wait()
        return self._outputs

    def synchronize(self) -> None:
        """Waits until the operation has ended."""
        self.wait()


class Done(GroupWork):
    """A call that had ended when it returned."""

    __slots__ = ()

    @opaque
    def wait(self, timeout: timedelta | None = None) -> bool:
        """True at once."""
        return True

    def is_completed(self) -> bool:
        """True."""
        return True

    def is_success(self) -> bool:
        """True."""
        return True

    def exception(self) -> Any:
        """None: nothing failed."""
        return None

    @opaque
    def get_future(self) -> Any:
        """A completed future of the output tensors, the same one at every call."""
        if self._future is None:
            self._future = torch.futures.Future()
            self._future.set_result(self._outputs)
            if self._callbacks is not None:
                self._callbacks.own(self._future)
        return self._future


def done(outputs: list[torch.Tensor], callbacks: Callbacks | None) -> Done:
    """The Work of a call that has ended."""
    made = Done()  # which has no __init__: torch's own, called by another, takes half as long again
    made._outputs, made._callbacks, made._future = outputs, callbacks, None
    return made


class Pending(GroupWork):
    """A call under way: `began` is ringtree's Work, `entry` the flight recorder's, `after` the step still to be done
    when it has ended; until then it is one of `under_way`, and `kept` is kept. `completions` completes its future."""

    owed = True
    """Whether other ranks may wait for this call: then the group is not left before it has ended."""
    limit = NO_TIMEOUT
    """The timeout of waits that have none."""

    def __init__(
        self,
        began: Began,
        outputs: Sequence[torch.Tensor],
        entry: FlightEntry,
        under_way: UnderWay,
        completions: Completions,
        callbacks: Callbacks | None,
        after: After | None = None,
        kept: Any = None,
    ) -> None:
        super().__init__()
        self._outputs, self._callbacks = list(outputs), callbacks
        self.began = began
        self._kept = kept
        self._after, self._entry = after, entry
        self._under_way, self._completions = under_way, completions
        self._lock = threading.RLock()
        self._finished = False
        self._exception: Exception | None = None
        self._promise: Any = None
        self._future = None
        under_way.add(self)
        if entry.event is not None:
            self.get_future()  # so that a thread waits for its end

    @opaque
    def wait(self, timeout: timedelta | None = None) -> bool:
        """Waits until the call ends; raises its error, each time, or TimedOut when `timeout` passed first; the call
        goes on then."""
        limit = self.limit if timeout is None or timeout <= NO_TIMEOUT else timeout
        limit_s = None if limit <= NO_TIMEOUT else limit.total_seconds()
        try:
            ended = self.ended(limit_s)
        except KeyboardInterrupt:
            self._under_way.interrupted()
            raise
        if not ended:
            raise self._entry.fail(TimedOut(f"it had not ended after {limit_s:g} s"), over=False)
        if self._exception is not None:
            raise self._exception.with_traceback(None)
        return True

    def ended(self, timeout_s: float | None) -> bool:
        """Waits until the call ends, well or badly; False after `timeout_s`. None: the group's own, then TimedOut is
        raised."""
        if self._finished:
            return True
        error: Exception | None = None
        try:
            if not self.began.wait(timeout_s):
                return False
        except TimedOut as late:
            if not self._has_ended():  # a message, which is still under way
                raise self._entry.fail(late, over=False) from None
            error = late
        except Exception as failure:  # noqa: BLE001  # of any kind: raised where the outputs are asked for
            error = failure
        self._finish(error)
        return True

    def overdue(self) -> bool:
        """Whether the call has been under way for longer than the group's timeout; it ends with an error then."""
        limit_s = self._entry.recorder.timeout_s
        if time_ns() - self._entry.begun_ns < limit_s * 1e9:
            return False
        self._finish(TimedOut(f"it had not ended after {limit_s:g} s"))
        return True

    def _finish(self, error: Exception | None) -> None:
        """Ends the work once, in the first thread that sees its end; other threads wait for that one."""
        with self._lock:
            if self._finished:
                return
            after, self._after = self._after, None
            if error is None and after is not None:
                try:
                    with torch.no_grad():
                        after()
                except Exception as failure:  # noqa: BLE001  # as above
                    self._entry.end()  # on all ranks, though this one cannot have its outputs
                    error = failure
            if error is None:
                self._entry.end()
            else:
                error = self._entry.fail(error)
            self._exception, self._kept = error, None
            self._finished = True
        self._under_way.discard(self)

    def is_completed(self) -> bool:
        """Whether the operation has ended, well or with an error; does not wait."""
        return self._finished or (self._has_ended() and self.ended(None))

    def _has_ended(self) -> bool:
        try:
            return self.began.done()
        except Exception:  # noqa: BLE001  # the group is closed or has failed: wait() raises the error
            return True

    def is_success(self) -> bool:
        """Whether the operation has ended without an error; does not wait."""
        return self.is_completed() and self._exception is None

    def exception(self) -> Any:
        """The error of an operation that has ended; None where it ended well or has not ended."""
        return self._exception if self.is_completed() else None

    @opaque
    def get_future(self) -> Any:
        """The future of the output tensors, the same one at every call."""
        with self._lock:
            if self._future is None:
                self._promise = torch._C.Future([])  # less to do than torch.futures.Future()
                # What is raised in `then` is an error to torch's C++, too; one given to set_exception is not.
                self._future = self._promise.then(self._value)
                if self._callbacks is not None:
                    self._callbacks.own(self._future)
                self._under_way.hang(self)
                if self._finished:
                    self.complete()
                    return self._future
                try:
                    self._completions.add(self)
                except OSError:  # no thread can be had: there is no future
                    self._future = self._promise = None
                    self._under_way.completed(self)
                    raise
        return self._future

    def _value(self, _: Any) -> list[torch.Tensor]:
        if self._exception is not None:
            raise RuntimeError(str(self._exception))
        return self._outputs

    def complete(self) -> None:
        """Completes the future of a work that has ended, and so runs its callbacks."""
        promise, self._promise = self._promise, None
        with suppress(Exception):  # a callback's, which torch has put into what hangs on it
            promise.set_result(None)
        self._under_way.completed(self)


def first_ended(works: list[Pending], limit_s: float) -> Pending | None:
    """One of `works` that has ended, None after `limit_s` seconds; works mostly end in the order of the list."""
    if works[0].ended(limit_s):
        return works[0]
    return next((work for work in works if work.is_completed()), None)
