"""A barrier that names the missing ranks to every rank that entered; error texts begin as Gloo's do.

The group's first rank waits for a message of every other rank, and answers with the list of missing ranks. These
messages use tags of their own, apart from the program's. Each call has a number of its sender's, which the answer
repeats, and a rank that gives up sends so behind it. So what is left of calls long given up is recognized, without a
clock that hosts share: a rank that enters too late fails alone, and the group goes on.
"""

from __future__ import annotations

import contextlib
import time
from datetime import timedelta

import numpy as np
from numpy.typing import NDArray

from ringtree.errors import TimedOut
from ringtree.runtime.engines.tags import FREE
from ringtree.runtime.types import BY_LABEL
from ringtree.torch_backend import failures
from ringtree.torch_backend.calls.launching import Launching
from ringtree.torch_backend.flight.alarm import report

_CAME, _ANSWER = FREE, FREE - 1
_ANSWERS_S = 1.0
"""Seconds beyond the timeout that a rank waits for the answer of the first rank, which may have entered later."""
_INT64 = int(BY_LABEL["int64"])

Ints = NDArray[np.int64]


class MonitoredBarrier(Launching):
    """The backend's monitored_barrier, which names the ranks that have not entered."""

    _entered = 0  # the number of this rank's last call, where it is not the first rank

    def monitored_barrier(self, timeout: timedelta | float | None = None, wait_all_ranks: bool = False) -> None:
        """Returns when all ranks of the group have entered. After `timeout` (seconds; None: the group's) every rank
        that entered raises TimedOut with the missing ranks. `wait_all_ranks`: the text begins with all missing ranks,
        as Gloo's, and not with the first."""
        limit_s = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        if limit_s is None:
            limit_s = self._recorder.timeout_s
        try:
            problem = self._counts(limit_s, wait_all_ranks) if self._rank == 0 else self._comes(limit_s)
        except failures.FAILURES as error:  # a rank died
            text = f"rank {self._recorder.rank}: monitored_barrier: {error}"
            raise failures.with_text(error, text, self._recorder.ranks) from None
        if problem:
            path = report(self._recorder.rank, problem, TimedOut(problem))
            raise failures.TimedOut(problem if path is None else f"{problem} ({path} has what this rank did last)")

    def _counts(self, limit_s: float, wait_all_ranks: bool) -> str:
        until_ns = time.monotonic_ns() + int(limit_s * 1e9)
        came = {peer: number for peer in range(1, self._size) if (number := self._awaited(peer, until_ns))}
        missing = [peer not in came for peer in range(1, self._size)]  # after this rank's own entry, and the deadline
        for peer, number in came.items():
            self._exchange(True, peer, _ANSWER, np.array([number, 0, *missing], np.int64), 1.0)
        absent = self._names([peer for peer in range(1, self._size) if peer not in came])
        if not absent:
            return ""
        ms = round(limit_s * 1000)
        if limit_s <= 0:
            return (
                f"Rank {self._recorder.rank} timed out in monitoredBarrier after {ms} ms: {_ranks(absent)} had not come"
            )
        if wait_all_ranks and len(absent) > 1:
            return f"Ranks {', '.join(absent)} failed to pass monitoredBarrier in {ms} ms"
        others = f", nor did {_ranks(absent[1:])}" if len(absent) > 1 else ""
        return f"Rank {absent[0]} failed to pass monitoredBarrier in {ms} ms{others}"

    def _awaited(self, peer: int, until_ns: int) -> int:
        """The number of the peer's call, or 0 where it does not come in time."""
        came = np.zeros(1, np.int64)
        while True:
            entered = came[0] > 0
            left_s = 0.0 if entered else max((until_ns - time.monotonic_ns()) / 1e9, 0.0)
            if self._communicator._endpoint.probe(peer, _CAME, left_s) is None:
                return int(came[0]) if entered else 0
            self._exchange(False, peer, _CAME, came, 1.0)  # the last one counts: behind an old call is its end

    def _comes(self, limit_s: float) -> str:
        self._entered += 1
        until_ns = time.monotonic_ns() + int((limit_s + _ANSWERS_S) * 1e9)
        answer = np.zeros(1 + self._size, np.int64)
        first = self._recorder.ranks[0]
        problem = (
            f"Rank {self._recorder.rank} successfully reached monitoredBarrier, but received errors while waiting for "
            f"send/recv from rank {first}: "
        )
        try:
            self._exchange(True, 0, _CAME, np.array([self._entered], np.int64), limit_s + _ANSWERS_S)
            while answer[0] != self._entered:
                self._exchange(False, 0, _ANSWER, answer, max((until_ns - time.monotonic_ns()) / 1e9, 0.0))
        except TimedOut:
            with contextlib.suppress(TimedOut):
                self._exchange(True, 0, _CAME, np.array([-self._entered], np.int64), 1.0)
            return f"{problem}it did not come within {limit_s:g} s"
        absent = self._names([peer for peer in range(1, self._size) if answer[1 + peer]])
        return f"{problem}{_ranks(absent)} did not come" if absent else ""

    def _exchange(self, sends: bool, peer: int, tag: int, array: Ints, timeout_s: float) -> None:
        address: int = array.__array_interface__["data"][0]
        operation = (sends, peer, tag, address, array.nbytes, _INT64, False)
        self._communicator._endpoint.exchange([operation], timeout_s)

    def _names(self, members: list[int]) -> list[str]:
        return [str(self._recorder.ranks[member]) for member in members]


def _ranks(names: list[str]) -> str:
    return f"rank {names[0]}" if len(names) == 1 else f"ranks {', '.join(names)}"
