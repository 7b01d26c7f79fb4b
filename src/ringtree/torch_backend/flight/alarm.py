"""An alarm among the ranks of a job: when a call fails on one of them, all write their flight recorders' dumps.

A rank that the others wait for in vain is in no call: it may sleep, or be stuck elsewhere. So each process has a thread
that checks now and then whether a rank raised the alarm. An alarm is a group without calls; to raise it is to fail that
group, which all its members see by one flag.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from ringtree.errors import Mismatch, TimedOut
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.limits import start_thread
from ringtree.torch_backend.failures import FAILURES
from ringtree.torch_backend.flight.dump import dump, prefix

LOOK_S = 0.2
"""Seconds between two looks at the alarm by a rank that is in no call."""
WAIT_S = 1.0
"""Seconds at most that the rank that raises the alarm waits for the others' dumps: a launcher may end all ranks once
one has failed."""

_alarms: set[Alarm] = set()
_lock = threading.Lock()  # of this and the next
_watched = False


class Alarm:
    """An alarm among the ranks of `communicator`: all of them construct it together. `close` ends it."""

    def __init__(self, communicator: Communicator) -> None:
        self.ranks, self.rank = communicator.ranks, communicator.ranks[communicator.rank]
        self._group = communicator.group(range(communicator.size), label="alarm")
        global _watched
        with _lock:
            _alarms.add(self)
            watched, _watched = _watched, True
        if not watched:
            try:
                start_thread(_watch, "alarm")
            except OSError:
                _watched = False
                raise

    def close(self) -> None:
        """Ends the watch of this group and frees its communicator."""
        _forget(self)
        self._group.close()

    def raised(self) -> str | None:
        """The reason that another rank gave when it raised the alarm; None if no rank did."""
        try:
            self._group._endpoint.check_liveness("alarm", [], [])
        except FAILURES as error:
            return str(error)
        except RuntimeError:  # closed: at exit, or in a fork
            _forget(self)
        return None

    def raise_for(self, why: str) -> None:
        """Poisons the alarm's group with the reason `why`, which its other ranks then read."""
        _forget(self)
        with suppress(RuntimeError):  # as above
            self._group._endpoint.poison(why)


def report(rank: int, why: str, error: Exception) -> Path | None:
    """Dumps on this and all other ranks, for an error of this one. Returns this rank's file, or None if nothing is
    recorded.

    Where the error is a missing or a mismatched rank, waits a moment until that rank has its dump, too: WAIT_S, if that
    is on a host whose files this one does not see."""
    path, since_s = dump(rank), time.time() - WAIT_S
    with _lock:
        alarms = list(_alarms)
    for alarm in alarms:
        alarm.raise_for(why)
    if path is not None and isinstance(error, TimedOut | Mismatch):
        missing = {prefix().with_name(f"{prefix().name}{r}") for alarm in alarms for r in alarm.ranks}
        while missing and time.time() < since_s + 2 * WAIT_S:
            missing = {file for file in missing if not _newer(file, since_s)}
            time.sleep(LOOK_S / 20)
    return path


def _newer(file: Path, since_s: float) -> bool:
    try:
        return file.stat().st_mtime >= since_s
    except OSError:
        return False


def _forget(alarm: Alarm) -> None:
    with _lock:
        _alarms.discard(alarm)


def _watch() -> None:
    """Until there is no alarm left to look at."""
    global _watched
    while True:
        time.sleep(LOOK_S)
        with _lock:
            alarms = list(_alarms)
            _watched = bool(alarms)
        if not alarms:
            return
        for alarm in alarms:
            if (why := alarm.raised()) is not None:
                _forget(alarm)
                path = dump(alarm.rank)
                if os.environ.get("RINGTREE_DEBUG") in ("info", "trace"):
                    sys.stderr.write(f"ringtree: rank {alarm.rank} dumped to {path}, for {why}\n")


def _after_fork_in_child() -> None:
    """Makes a new lock: the alarms and their thread are the parent's, and another thread may have held the lock."""
    global _lock, _watched
    _lock, _watched = threading.Lock(), False
    _alarms.clear()


os.register_at_fork(after_in_child=_after_fork_in_child)
