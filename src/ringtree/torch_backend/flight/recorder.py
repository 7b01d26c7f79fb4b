"""The flight recorder: the last operations of this process's groups, to find out why a job hangs.

Every operation is recorded when it begins and marked when it ends, in one ring buffer for all groups of the process:
TORCH_FR_BUFFER_SIZE operations long, 2000 by default, 0 for none. `dump` writes it to files.
"""

from __future__ import annotations

import itertools
import os
import sys
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import time_ns
from typing import Any

import torch
from torch.autograd import profiler

from ringtree import errors
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.torch_backend import profiling
from ringtree.torch_backend.failures import FAILURES, with_text
from ringtree.torch_backend.flight.records import FlightRecord
from ringtree.torch_backend.tensors import ENGINE_TYPES, Tensors

Described = tuple[tuple[torch.Size, torch.dtype], ...]
Reporter = Callable[[int, str, Exception], Path | None]
"""A function of rank, reason and error that writes the records when a rank's call fails; returns the file, or None."""


def _size() -> int:
    for name in ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"):
        if text := os.environ.get(name):
            try:
                return min(max(int(text), 0), sys.maxsize)
            except ValueError:
                raise ValueError(f"{name} is {text!r}; expected a number of operations, 0 for none") from None
    return 2000


MOST_CHANNELS = 1 << 14
"""Channels (direction, peer and tag) of a group whose messages are counted. One that was not used for so many others
counts from 1 again: a program that gives every message a tag of its own has ever more of them."""

RING: deque[FlightEntry] = deque(maxlen=_size())
_recorders: weakref.WeakSet[FlightRecorder] = weakref.WeakSet()
_TYPES = {code: dtype for dtype, code in ENGINE_TYPES.items()}
_records = itertools.count()  # of collectives, by which the dumps of several ranks are laid side by side


def living() -> list[FlightRecorder]:
    """The recorders of the living groups, the newest last."""
    return sorted(_recorders, key=lambda recorder: recorder.created)


class FlightRecorder:
    """One group's part: its names, and the numbers of its operations. All ranks number a group's collectives alike."""

    def __init__(self, communicator: Communicator, backend: str, timeout_s: float, report: Reporter) -> None:
        self.communicator = weakref.ref(communicator)
        self.backend = backend
        self.timeout_s = timeout_s
        self.report = report
        self.ranks = communicator.ranks
        self.rank = self.ranks[communicator.rank]
        self.name, self.description = "", "undefined"
        self.collectives = self.messages = 0
        self.channels: dict[tuple[str, int, int], int] = {}  # messages by direction, peer and tag, the last used last
        self.failure: str | None = None  # the first one that ended the group
        self.created = time_ns()
        _recorders.add(self)

    def beside(self, communicator: Communicator, what: str) -> FlightRecorder:
        """The recorder of another group of the same ranks; `what` is added to its name."""
        made = FlightRecorder(communicator, self.backend, self.timeout_s, self.report)
        made.name = f"{self.name}/{what}"
        if self.description != made.description:
            made.description = f"{self.description}/{what}"
        return made

    def begin(self, name: str, inputs: Tensors, outputs: Tensors) -> FlightEntry:
        """A collective begins; `name` is torch's for it. Where there are several tensors, they are one operation's."""
        number = self.collectives = self.collectives + 1
        entry: FlightEntry = FlightEntry.begun(self, name, number, inputs, outputs, _described)
        entry.record = next(_records)
        RING.append(entry)
        if profiler._is_profiler_enabled:
            entry.event = profiling.ProfiledOperation(f"{self.backend}:{name}", inputs)
        return entry

    def begin_message(self, name: str, tensors: Tensors, peer: int, tag: int) -> FlightEntry:
        """A send to, or a receive from, the `peer` of this group (-1: from anyone) begins."""
        self.messages += 1
        entry: FlightEntry = FlightEntry.begun(self, name, self.messages, tensors, tensors, _described)
        entry.peer, entry.tag = peer, tag
        if peer >= 0:
            entry.peer_is(peer)
        RING.append(entry)
        if profiler._is_profiler_enabled:
            entry.event = profiling.ProfiledOperation(f"{self.backend}:{name}", tensors)
        return entry


class FlightEntry(FlightRecord):
    """An operation of a group. `number` counts the group's collectives, or its messages; `turn` counts the messages of
    a direction, a peer and a tag, `record` the collectives of this process, -1 for a message. `peer`: a message's, else
    None. `ticket`: the engine's handle of an asynchronous collective. `event`: what a profiler is shown. `ended_ns`: 0
    until it is known to have ended without an error."""

    __slots__ = ()

    recorder: FlightRecorder

    @property
    def inputs(self) -> Described:
        """Shapes and types of the tensors that are read."""
        return _shown(self.side(0))

    @property
    def outputs(self) -> Described:
        """And of those that are written."""
        return _shown(self.side(1))

    def peer_is(self, peer: int) -> None:
        """Sets the peer of this message; with any source it is known at the end only."""
        self.peer, channels = peer, self.recorder.channels
        key = self._channel(peer)
        self.turn = channels[key] = channels.pop(key, 0) + 1
        if len(channels) > MOST_CHANNELS:
            channels.pop(next(iter(channels)), None)

    def has_ended(self) -> bool:
        """Whether the operation has ended without an error; asks the engine where no call has noticed yet."""
        communicator = self.recorder.communicator()
        if self.ended_ns == 0 and self.ticket > 0 and not self.failed and communicator is not None:
            with suppress(RuntimeError):  # it has failed, or the group is closed
                if communicator._endpoint.done(self.ticket) and communicator._endpoint.wait(self.ticket, 0.0):
                    self.ended_ns = time_ns()
        return self.ended_ns > 0

    def fail(self, error: Exception, *, over: bool = True) -> Exception:
        """Records that the operation raised `error`; `over`: the operation has ended. Returns the error to raise
        instead."""
        if self.event is not None and over:
            self.event.end()
        if not isinstance(error, FAILURES):
            self._take_back()
            return error
        self.failed = True
        recorder, text = self.recorder, str(error)
        if isinstance(error, errors.Poisoned):
            if recorder.failure is not None:
                text = f"the group failed before ({recorder.failure})"
            text += "; destroy_process_group() and init_process_group() make another"
        elif isinstance(error, errors.TimedOut):
            text = f"Timed out waiting: {text}"  # as Gloo's texts begin: programs search for it
        first = recorder.failure is None
        if over and first:
            recorder.failure = text
        text = f"rank {recorder.rank}: {self}: {text}"
        return with_text(error, text + self._reported(error, text) if first else text, recorder.ranks)

    def _reported(self, error: Exception, text: str) -> str:
        path = self.recorder.report(self.recorder.rank, text, error)
        if path is None:
            return ""
        some = "--allow-incomplete-ranks " if isinstance(error, errors.PeerDied) else ""  # the dead write nothing
        return f"; torchfrtrace {some}{path.parent} reads what each rank did last ({path})"

    def _take_back(self) -> None:
        """A user's mistake on this rank only: it was no operation, unless its end is recorded."""
        if self.ended_ns:
            return
        with suppress(ValueError):  # so old that it was dropped
            RING.remove(self)
        recorder = self.recorder
        if self.peer is None:
            recorder.collectives -= self.number == recorder.collectives
            return
        recorder.messages -= self.number == recorder.messages
        key = self._channel(self.peer)
        if recorder.channels.get(key) == self.turn:  # else the peer would number its own otherwise from here on
            recorder.channels[key] -= 1

    def _channel(self, peer: int) -> tuple[str, int, int]:
        return "to" if self.name == "send" else "from", peer, self.tag

    def __str__(self) -> str:
        tensors = ", ".join(f"{str(dtype).removeprefix('torch.')} {list(shape)}" for shape, dtype in self.inputs[:4])
        more = ", ..." if len(self.inputs) > 4 else ""
        recorder = self.recorder
        group = recorder.description if recorder.description != "undefined" else repr(recorder.name)
        if self.peer is None:
            return f"{self.name}({tensors}{more}), sequence number {self.number} of group {group}"
        whom = f"rank {recorder.ranks[self.peer]}" if self.peer >= 0 else "any rank"
        preposition = "to" if self.name == "send" else "from"
        return f"{self.name}({tensors}) {preposition} {whom}, tag {self.tag}, message {self.number} of group {group}"


def _shown(side: tuple[Any, ...]) -> Described:
    """A side of a record, of which the native module keeps numbers where it is one tensor."""
    if side and isinstance(side[-1], int):
        return ((torch.Size(side[:-1]), _TYPES[side[-1]]),)
    return side


def _described(tensors: Any) -> Described:
    try:
        if len(tensors) == 1:
            x = tensors[0]
            return ((x.shape, x.dtype),)
        return tuple([(x.shape, x.dtype) for x in tensors])
    except AttributeError:  # lists of lists
        return tuple(d for inner in tensors for d in _described(inner))
    except RuntimeError:  # a nested tensor, which has no one shape, and is refused later
        return tuple((torch.Size(), x.dtype) for x in tensors)
