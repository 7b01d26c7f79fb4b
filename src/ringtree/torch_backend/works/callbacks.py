"""Callbacks of futures: run one at a time, in the order in which the program hung them there, so that all ranks make
the calls that come from callbacks in one order (docs/decisions/0033-callbacks-take-turns.md).

`then` of torch's futures runs a callback in whichever thread comes last, the one that completes the future or the one
that hangs the callback, and makes another future, of a class that Python cannot replace without hiding errors from
torch's C++. So this module wraps that class's methods; they act differently for the futures that it knows.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch

from ringtree.torch_backend.works import completion

Callback = Callable[[Any], Any]

Future = torch._C.Future
_then, _add_done_callback, _wait = Future.then, Future.add_done_callback, Future.wait

DEEPEST = 4
"""Callbacks hung in callbacks have a queue of their own as far down as that; those still further down are run before
what was in the last queue, so that a chain of callbacks without an end needs no more."""


class CallbackContext(NamedTuple):
    """The callbacks around running code. `depth`: their number, at most DEEPEST; `groups`: the groups whose futures
    they hang on; `queue`: the queue of the innermost."""

    depth: int
    groups: frozenset[Callbacks]
    queue: Queue | None


PROGRAM = CallbackContext(0, frozenset(), None)
"""Outside of all callbacks."""
callback_context: ContextVar[CallbackContext] = ContextVar("callback_context", default=PROGRAM)

_owners: WeakKeyDictionary[Any, Callbacks] = WeakKeyDictionary()


class Callbacks:
    """The callbacks on the futures of a group's collectives."""

    def __init__(self) -> None:
        self._queues: dict[int, Queue] = {}

    def own(self, future: Any) -> None:
        """Makes this object run the callbacks of that future."""
        _owners[future] = self

    def depth(self) -> int:
        """The number of callbacks around the caller: 0 where none of them is this group's."""
        here = callback_context.get()
        return here.depth if self in here.groups else 0

    def busy(self) -> bool:
        """Whether callbacks run now, or may."""
        return any(queue.busy() for queue in list(self._queues.values()))

    def hang(self, future: Any, callback: Callback, hang: Callable[[Any, Callback], Any]) -> Any:
        """Runs the callback in its turn after the future has come. `hang`: torch's own method, whose result it has."""
        here = callback_context.get()
        depth = min(here.depth + 1, DEEPEST)
        queue = self._queues.get(depth) or self._queues.setdefault(depth, Queue())
        hung = Hung(future, callback, hang, CallbackContext(depth, here.groups | {self}, queue))
        if hung.result is not None:
            self.own(hung.result)
        queue.add(hung, inside=here.queue is queue)
        _add_done_callback(future, lambda _: queue.go_on())
        return hung.result


class Hung:
    """A callback that waits for its future, and for its turn. `result` is the future of what it returns."""

    def __init__(
        self, future: Any, callback: Callback, hang: Callable[[Any, Callback], Any], where: CallbackContext
    ) -> None:
        self.future, self._where = future, where
        self._turn = Future([])
        self.result = hang(self._turn, lambda _: callback(future))

    def run(self) -> None:
        """Runs the callback in its own context; torch keeps its exception in the result."""
        around = callback_context.set(self._where)
        try:
            with suppress(Exception):  # the callback's, which torch has put into the result
                self._turn.set_result(None)
        finally:
            callback_context.reset(around)


class Queue:
    """Callbacks of one depth. The thread that completes the first callback's future runs the callback."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[Hung] = deque()
        self._inner: deque[Hung] = deque()  # hung by the one that runs
        self._running = False

    def busy(self) -> bool:
        """Whether a callback runs, or may run now."""
        with self._lock:
            return self._running or self._may_run()

    def add(self, hung: Hung, inside: bool) -> None:
        """Adds a callback. `inside`: a callback of this queue adds it."""
        with self._lock:
            (self._inner if inside else self._waiting).append(hung)

    def go_on(self) -> None:
        """Runs the callbacks that may run: one of them in a thread of the program's or in a callback, which have more
        to do, and the others elsewhere."""
        free = completion.here() and callback_context.get() is PROGRAM
        while self._run_first():
            if not free:
                if self.busy():
                    completion.run(self.go_on)
                return

    def _run_first(self) -> bool:
        with self._lock:
            if self._running or not self._may_run():
                return False
            hung, self._running = self._waiting.popleft(), True
        try:
            hung.run()
        finally:
            with self._lock:
                self._waiting.extendleft(reversed(self._inner))
                self._inner.clear()
                self._running = False
        return True

    def _may_run(self) -> bool:
        return bool(self._waiting) and self._waiting[0].future.done()

    def let_go(self, result: Any) -> None:
        """The callback that runs now waits for what another one of this queue returns: that one runs out of turn."""
        with self._lock:
            found = next((h for line in (self._waiting, self._inner) for h in line if h.result is result), None)
            if found is None:
                return
            (self._waiting if found in self._waiting else self._inner).remove(found)
        self.let_go(found.future)
        _add_done_callback(found.future, lambda _: completion.run(found.run))


def then(self: Any, callback: Callback) -> Any:
    """Replaces torch's Future.then: futures of this backend run callbacks in order, others as torch does."""
    owner = _owners.get(self)
    return _then(self, callback) if owner is None else owner.hang(self, callback, _then)


def add_done_callback(self: Any, callback: Callback) -> None:
    """Replaces torch's Future.add_done_callback: futures of this backend run callbacks in order."""
    owner = _owners.get(self)
    _add_done_callback(self, callback) if owner is None else owner.hang(self, callback, _add_done_callback)


def wait(self: Any) -> Any:
    """Replaces torch's Future.wait: a callback that waits lets the callbacks of the awaited future run first."""
    queue = callback_context.get().queue
    if queue is not None and not self.done():
        queue.let_go(self)
    return _wait(self)


Future.then, Future.add_done_callback, Future.wait = then, add_done_callback, wait
