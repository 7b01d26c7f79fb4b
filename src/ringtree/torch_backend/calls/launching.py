"""The base of a process group's calls: the group's state, and `launch`, which makes every call.

All collectives of a group go through `launch`, in the order of the calls. `launch` names them for the profiler, records
them in the flight recorder, and makes them synchronous or not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import torch

from ringtree.errors import TimedOut
from ringtree.runtime.communicator.calls.operations import Operation
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.torch_backend.creation import leave
from ringtree.torch_backend.flight.recorder import FlightRecorder
from ringtree.torch_backend.tensors import ENGINE_TYPES, After, Tensors, in_order
from ringtree.torch_backend.works.callbacks import PROGRAM, Callbacks, callback_context
from ringtree.torch_backend.works.completion import Completions, dismiss
from ringtree.torch_backend.works.under_way import UnderWay
from ringtree.torch_backend.works.work import GroupWork, Pending, first_ended

Short = tuple[int, torch.Tensor, torch.Tensor, Operation, int]
"""A call as `by_address` takes it."""

KEPT = 64
"""The number of works of single numbers that live on when the program drops them. DDP's join() gives such a work to
torch's C++, which holds its C++ half alone and asks it for its future in the backward pass; but that is the Python
half's."""


class Level:
    """Collectives of a group that are made in one order: the program's, or those of its callbacks of one depth."""

    def __init__(self, communicator: Communicator, recorder: FlightRecorder) -> None:
        self.communicator, self.recorder = communicator, recorder
        self.completions = Completions(first_ended)


class Launching:
    """A group's state. `_rank` and `_size` are in this group."""

    _communicator: Communicator
    _rank: int
    _size: int

    def _open(self, communicator: Communicator, recorder: FlightRecorder) -> None:
        """The state of a group in which nothing was called yet."""
        self._communicator = communicator
        self._rank, self._size = communicator.rank, communicator.size
        self._recorder = recorder
        self._callbacks = Callbacks()
        self._under_way = UnderWay(self._callbacks)
        self._program = Level(communicator, recorder)
        self._levels: dict[int, Level] = {}
        self._kept: deque[GroupWork] = deque(maxlen=KEPT)

    def _root(self, opts: Any) -> int:
        root: int = opts.rootRank
        if not 0 <= root < self._size:
            raise ValueError(f"invalid root rank: {root}; expected one of this group, 0..{self._size - 1}")
        return root

    def launch(
        self,
        name: str,
        opts: Any,
        inputs: Tensors,
        outputs: Tensors,
        call: Callable[[Communicator, bool], Any],
        after: After | None = None,
        short: Short | None = None,
    ) -> GroupWork | None:
        """Makes a collective. `name` is torch's for it, without the backend's; `opts` are torch's for it (asyncOp,
        timeout); `outputs` is what the work's future will hold. `call(communicator, async_op)` calls the communicator,
        whose Work it returns where `async_op`. `after` is run once when it has ended, before the program may see the
        outputs: copies into tensors that the engine cannot write to. `short` is the call for the engine's fast path,
        which is tried first. None where `opts` asks for no Work, as NCCL's groups return: the call has ended.
        """
        level = self._program if callback_context.get() is PROGRAM else self._level(name, inputs, outputs)
        c, entry = level.communicator, level.recorder.begin(name, inputs, outputs)
        async_op = bool(getattr(opts, "asyncOp", True))  # options without one: torch waits itself
        try:
            at = None if short is None else by_address(*short)
            if async_op:
                kept = (inputs, call)
                if at is not None and (ticket := c.start_at(*at)):
                    began = c.began(ticket, None, kept)
                else:
                    with torch.no_grad():
                        began = call(c, True)
                    ticket = getattr(began, "_ticket", 0)
                entry.ticket = ticket
                work = Pending(began, outputs, entry, self._under_way, level.completions, self._callbacks, after, kept)
                if len(outputs) == 1 and outputs[0].numel() == 1:
                    self._kept.append(work)
                return work
            if at is None or not c.call_at(*at):
                with torch.no_grad():
                    call(c, False)
            if after is not None:
                with torch.no_grad():
                    after()
        except Exception as error:  # noqa: BLE001  # raised again, with what is known here
            raise entry.fail(error) from None
        entry.end()
        return None

    def _level(self, name: str, inputs: Tensors, outputs: Tensors) -> Level:
        """The level of the callback which makes a call, as it does on all ranks: its first call makes the level."""
        depth = self._callbacks.depth()
        level = self._levels.get(depth) if depth else self._program
        if level is None:
            what = f"callbacks{depth}"
            try:
                communicator = self._communicator.beside(what)
            except Exception as error:  # noqa: BLE001  # as in `launch`
                if isinstance(error, TimeoutError):
                    error = TimedOut(f"{error}; expected all ranks to make this call in a callback")
                raise self._recorder.begin(name, inputs, outputs).fail(error) from None
            level = self._levels[depth] = Level(communicator, self._recorder.beside(communicator, what))
        return level

    def _leave(self, timeout_s: float) -> None:
        """Waits for every call that was begun, whether its Work was kept or not, for at most `timeout_s` seconds; then
        closes the group. Calls that have not ended by then end with an error."""
        self._under_way.drain(timeout_s)
        leave(self._communicator)
        dismiss()


def by_address(
    collective: int, x: torch.Tensor, out: torch.Tensor, op: Operation, root: int = -1
) -> tuple[Any, ...] | None:
    """The arguments of the communicator's `call_at` and `start_at`; None for what they never know. `collective` is the
    engine's number for it; `out` is in order, as `filled` and `reduced` return it."""
    code = ENGINE_TYPES.get(x.dtype)
    at, n = x.data_ptr(), x.numel()
    if code is None or at == 0:
        return None
    if out is x:
        return (collective, code, op, root, at, n, at, n)
    to = out.data_ptr()
    if to == 0 or out.dtype is not x.dtype or not in_order(x):
        return None
    return (collective, code, op, root, at, n, to, out.numel())


def made_shortly(
    communicator: Communicator, collective: int, x: torch.Tensor, out: torch.Tensor, op: Operation, root: int = -1
) -> bool:
    """Makes a call if the engine knows it from an earlier one, with next to nothing between. False: nothing was
    touched."""
    at = by_address(collective, x, out, op, root) if in_order(out) else None
    return at is not None and bool(communicator.call_at(*at))
