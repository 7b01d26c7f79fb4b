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
from ringtree.runtime.communicator.messages.work import Ended, Work
from ringtree.torch_backend.creation import leave
from ringtree.torch_backend.flight.recorder import FlightEntry, FlightRecorder
from ringtree.torch_backend.tensors import ENGINE_TYPES, PLAIN, After, Tensors, device_of, in_order, without_data
from ringtree.torch_backend.works.callbacks import PROGRAM, Callbacks, callback_context
from ringtree.torch_backend.works.completion import Completions, dismiss
from ringtree.torch_backend.works.on_device import DeviceOrder, OnDevice
from ringtree.torch_backend.works.under_way import UnderWay
from ringtree.torch_backend.works.work import GroupWork, Pending, done, first_ended

EngineCall = Callable[[Communicator, bool], Any]
"""Calls the communicator, whose Work it returns where the second argument is true."""
Prepared = tuple[EngineCall, After | None]
"""A call, and the step after it."""

READ = hasattr(torch.Tensor, "__dlpack_c_exchange_api__")
"""Whether the engine can read tensors itself: since torch 2.10."""
KEPT = 64
"""The number of works of single numbers that live on when the program drops them. DDP's join() gives such a work to
torch's C++, which holds its C++ half alone and asks it for its future in the backward pass; but that is the Python
half's."""


class ByAddress:
    """The fast path of a communicator by the addresses of tensors."""

    def __init__(self, communicator: Communicator) -> None:
        self._communicator = communicator

    def call(self, *given: Any) -> bool:
        """As the communicator's."""
        at = by_address(*given)
        return at is not None and bool(self._communicator.call_at(*at))

    def start_call(self, *given: Any) -> int:
        """As the communicator's."""
        at = by_address(*given)
        return 0 if at is None else int(self._communicator.start_at(*at))


class Level:
    """Collectives of a group that are made in one order: the program's, or those of its callbacks of one depth."""

    def __init__(self, communicator: Communicator, recorder: FlightRecorder) -> None:
        self.communicator, self.recorder = communicator, recorder
        self.fast: Any = communicator if READ else ByAddress(communicator)
        self.completions = Completions(first_ended)
        self.on: dict[torch.device, DeviceOrder] = {}


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

    def do_nothing(self, tensors: Any, opts: Any = None) -> GroupWork | None:
        """A call of tensors without data has ended as it began; it was none, and has no number."""
        if not getattr(opts, "asyncOp", True):
            return None
        return done([tensors] if isinstance(tensors, torch.Tensor) else list(tensors), self._callbacks)

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
        call: EngineCall,
        after: After | None = None,
    ) -> GroupWork | None:
        """Makes a collective. `name` is torch's for it, without the backend's; `opts` are torch's for it (asyncOp,
        timeout); `outputs` is what the work's future will hold. `after` is run once when the call has ended, before
        the program may see the outputs: copies into tensors that the engine cannot write to. None where `opts` asks for
        no Work, as NCCL's groups return: the call has ended.
        """
        level = self._program if callback_context.get() is PROGRAM else self._level(name, inputs, outputs)
        entry = level.recorder.begin(name, inputs, outputs)
        return self._make(level, entry, opts, inputs, outputs, lambda: (call, after), ())

    def launch_again(
        self,
        name: str,
        opts: Any,
        inputs: Tensors,
        outputs: Tensors,
        collective: int,
        x: torch.Tensor,
        out: torch.Tensor,
        op: Operation,
        root: int,
        prepare: Callable[[torch.Tensor, torch.Tensor, Operation, int], Prepared],
        after: After | None = None,
    ) -> GroupWork | None:
        """As `launch`, of a call that may look like an earlier one: then the engine makes it on `x` and `out` as they
        are, and `after` is run. `collective` is its number there, `root` -1 for none. For all other calls
        `prepare(x, out, op, root)` returns `call` and `after`; it may raise TypeError or ValueError."""
        level = self._program if callback_context.get() is PROGRAM else self._level(name, inputs, outputs)
        entry = level.recorder.begin(name, inputs, outputs)
        try:
            if not getattr(opts, "asyncOp", True):
                if level.fast.call(collective, x, out, op, root):
                    if after is not None:
                        _finish(entry, after)
                    entry.end()
                    return None
            elif ticket := level.fast.start_call(collective, x, out, op, root):
                if after is None and ticket < 0:
                    entry.end()
                    work: GroupWork = done(list(outputs), self._callbacks)
                else:
                    entry.ticket = ticket
                    began = level.communicator.began(ticket, None, (x, out)) if ticket > 0 else Ended(None)
                    work = self._pending(level, entry, began, outputs, after, (inputs, x, out))
                if len(outputs) == 1 and outputs[0].numel() == 1:
                    self._kept.append(work)
                return work
        except Exception as error:  # noqa: BLE001  # raised again, with what is known here
            raise entry.fail(error) from None
        return self._make(level, entry, opts, inputs, outputs, prepare, (x, out, op, root))

    def _make(
        self,
        level: Level,
        entry: FlightEntry,
        opts: Any,
        inputs: Tensors,
        outputs: Tensors,
        prepare: Callable[..., Prepared],
        given: tuple[Any, ...],
    ) -> GroupWork | None:
        device = device_of(inputs, outputs)
        if device is not None and not without_data((*inputs, *outputs)[0]):
            return self._make_on(device, level, entry, opts, (inputs, outputs), prepare, given)
        try:
            call, after = prepare(*given)
            if getattr(opts, "asyncOp", True):  # options without one: torch waits itself
                with torch.no_grad():
                    began = call(level.communicator, True)
                entry.ticket = getattr(began, "_ticket", 0)
                work = self._pending(level, entry, began, outputs, after, (inputs, call))
                if len(outputs) == 1 and outputs[0].numel() == 1:
                    self._kept.append(work)
                return work
            with torch.no_grad():
                call(level.communicator, False)
            if after is not None:
                _finish(entry, after)
        except Exception as error:  # noqa: BLE001  # raised again, with what is known here
            raise entry.fail(error) from None
        entry.end()
        return None

    def _make_on(
        self,
        device: torch.device,
        level: Level,
        entry: FlightEntry,
        opts: Any,
        tensors: tuple[Tensors, Tensors],
        prepare: Callable[..., Prepared],
        given: tuple[Any, ...],
    ) -> GroupWork | None:
        """As `_make`, on a CUDA device: the call ends in the order of its streams."""
        order = level.on.get(device) or level.on.setdefault(device, DeviceOrder(device))
        kept: list[Any] = [tensors, given]

        def make() -> None:
            call, after = prepare(*given)
            kept.append(call)
            with torch.no_grad():
                call(level.communicator, False)
                if after is not None:
                    _finish(entry, after)

        try:
            if getattr(opts, "asyncOp", True):
                event = order.begin(make)
                return OnDevice(event, device, tensors[1], entry, self._under_way, level.completions, kept)
            order.run(make)
        except Exception as error:  # noqa: BLE001  # raised again, with what is known here
            raise entry.fail(error) from None
        entry.end()
        return None

    def _pending(
        self, level: Level, entry: FlightEntry, began: Work, outputs: Tensors, after: After | None, kept: Any
    ) -> Pending:
        return Pending(began, outputs, entry, self._under_way, level.completions, self._callbacks, after, kept)

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


def _finish(entry: FlightEntry, after: After) -> None:
    """The step after a call. Where it fails the record ends, and so keeps its number: all ranks have made the call."""
    try:
        with torch.no_grad():
            after()
    except Exception:
        entry.end()
        raise


def by_address(collective: int, x: torch.Tensor, out: torch.Tensor, op: Operation, root: int) -> tuple[Any, ...] | None:
    """The arguments of the communicator's `call_at` and `start_at`; None for what they never know."""
    code = ENGINE_TYPES.get(x.dtype)
    if code is None or out.dtype is not x.dtype or not (_plain(x) and (out is x or _plain(out))):
        return None
    at, to = x.data_ptr(), out.data_ptr()
    return (collective, code, op, root, at, x.numel(), to, out.numel()) if at and to else None


def made_shortly(
    communicator: Communicator, collective: int, x: torch.Tensor, out: torch.Tensor, op: Operation, root: int = -1
) -> bool:
    """Makes a call if the engine knows it from an earlier one, with next to nothing between. False: nothing was
    touched."""
    fast: Any = communicator if READ else ByAddress(communicator)
    return bool(fast.call(collective, x, out, op, root))


def _plain(x: torch.Tensor) -> bool:
    return x.layout is torch.strided and x.is_cpu and type(x) in PLAIN and in_order(x)
