"""A window's target: the thread of its rank that makes all accesses to the rank's memory, one after another.

So an access is atomic beside every other access of that window, from whatever rank of whatever host: no memory of two
processes needs an atomic instruction. An access is a message to this thread, those that return something also one back.
"""

from __future__ import annotations

import pickle
from collections import deque
from typing import Any, NamedTuple

import numpy as np

from ringtree.mpi.constants import ANY_SOURCE, LOCK_EXCLUSIVE
from ringtree.mpi.op import ON_ARRAYS
from ringtree.mpi.types.layout import Layout
from ringtree.mpi.types.memory import NumpyArray, memory_at
from ringtree.mpi.types.packed import gathered, way_back
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.limits import start_thread

REQUEST, BODY, POSTED, COMPLETED, REPLY = range(5)
"""Tags of a window's messages; replies have tags from REPLY on."""
ROOM = 4096
"""Bytes of a request; a longer one follows it in a message of its own."""
IDLE_S = 0.04
"""Seconds of one wait for a request. A wait of 50 ms would be written down (`ringtree ps`), and one of half the timeout
warn of the other ranks, although none of them is late."""


class Access(NamedTuple):
    """A request. `name`: get, accumulate (which also puts), swap, flush, lock, unlock or stop. `place` is in units of
    the target's. `number` elements of `layout`, and of `dtype`. `reply`: the tag of what comes back, 0 for nothing."""

    name: str
    reply: int = 0
    place: int = 0
    layout: Layout | None = None
    number: int = 0
    dtype: Any = None
    op: str = "REPLACE"
    payload: bytes = b""
    compare: bytes = b""
    lock: int = 0


def encoded(access: Any) -> bytes:
    """An access as a message."""
    return pickle.dumps(tuple(access), pickle.HIGHEST_PROTOCOL)


def send(comm: Communicator, dst: int, message: bytes) -> list[Any]:
    """Begins to send a request; returns the works. Of a long one the two messages must follow each other."""
    if len(message) <= ROOM:
        return [comm.isend(np.frombuffer(message, np.uint8), dst, REQUEST)]
    head = pickle.dumps(len(message))
    return [
        comm.isend(np.frombuffer(head, np.uint8), dst, REQUEST),
        comm.isend(np.frombuffer(message, np.uint8), dst, BODY),
    ]


class Target:
    """This rank's memory in a window of `unit` bytes a displacement, and the thread that serves it until `stop`.
    `attached`: of a dynamic window, the address of each memory with its size; else None."""

    def __init__(self, comm: Communicator, memory: NumpyArray, unit: int, attached: dict[int, int] | None) -> None:
        self._comm, self._memory, self._unit, self._attached = comm, memory, unit, attached
        self._holders: dict[int, int] = {}  # ranks that hold the lock, and how
        self._waiting: deque[tuple[int, Access]] = deque()
        self._answers: deque[Any] = deque()  # replies under way
        self._failed: dict[int, str] = {}  # what went wrong with an access that had no reply, by its origin
        self._thread = start_thread(self._serve, "window")

    def stop(self, timeout_s: float | None = None) -> None:
        """Ends the thread, which first makes all the accesses that have come."""
        if self._thread.is_alive():
            works = send(self._comm, self._comm.rank, encoded(Access("stop")))
            self._thread.join(timeout_s)
            del works

    def _serve(self) -> None:
        try:
            while True:
                source, access = self._next()
                if access.name == "stop":
                    break
                self._make(source, access)
        except Exception:  # noqa: BLE001  # the group failed, which every call of the program reports
            return
        for work in self._answers:
            work.wait(1.0)

    def _next(self) -> tuple[int, Access]:
        room = np.empty(ROOM, np.uint8)
        message = self._comm.irecv(room, ANY_SOURCE, REQUEST, at_most=True)
        while not message.wait(IDLE_S):
            pass
        found = pickle.loads(room[: message.nbytes].data)
        if isinstance(found, int):
            body = np.empty(found, np.uint8)
            self._comm.recv(body, message.source, BODY)
            found = pickle.loads(body.data)
        return message.source, Access(*found)

    def _make(self, source: int, access: Access) -> None:
        if access.name == "lock":
            self._waiting.append((source, access))
            self._grant()
            return
        found, error = b"", None
        try:
            if access.name == "unlock":
                if self._holders.pop(source, None) is None:  # a rank that waits no more
                    self._waiting = deque(other for other in self._waiting if other[0] != source)
            elif access.name != "flush":
                found = self._accessed(access)
        except Exception as failure:  # noqa: BLE001  # its origin reports it
            error = f"{type(failure).__name__}: {failure}"[:200]
        if access.reply:
            self._answer(source, access.reply, error or self._failed.pop(source, None), found)
        elif error:
            self._failed[source] = error
        if access.name == "unlock":
            self._grant()

    def _grant(self) -> None:
        """Gives the lock to those that wait at the head of the queue, while they may share it."""
        while self._waiting:
            source, access = self._waiting[0]
            exclusive = access.lock == LOCK_EXCLUSIVE or LOCK_EXCLUSIVE in self._holders.values()
            if exclusive and self._holders:
                return
            self._waiting.popleft()
            self._holders[source] = access.lock
            self._answer(source, access.reply, None, b"")

    def _accessed(self, access: Access) -> bytes:
        """Makes the access; returns what lay there before."""
        assert access.layout is not None
        region = self._region(access.layout, access.place, access.number)
        found = region.tobytes() if access.reply else b""
        if access.name == "get":
            return found
        old, new = region.view(access.dtype), np.frombuffer(access.payload, access.dtype)
        if access.name == "swap":
            if region.tobytes() == access.compare:
                old[...] = new
        else:
            old[...] = ON_ARRAYS[access.op](old, new)
        if unpack := way_back([region]):
            unpack(None)
        return found

    def _region(self, layout: Layout, place: int, count: int) -> NumpyArray:
        if self._attached is None:
            return gathered(self._memory, place * self._unit, layout, count)
        low, high = layout.span(count)
        for address, nbytes in list(self._attached.items()):
            if address <= place + low and place + high <= address + nbytes:
                return gathered(memory_at(address, nbytes), place - address, layout, count)
        raise ValueError(f"no attached memory has the {high - low} bytes at address {place + low}")

    def _answer(self, source: int, tag: int, error: str | None, found: bytes) -> None:
        message = pickle.dumps((error, found), pickle.HIGHEST_PROTOCOL)
        self._answers.append(self._comm.isend(np.frombuffer(message, np.uint8), source, tag))
        while self._answers and self._answers[0].done():
            self._answers.popleft()
