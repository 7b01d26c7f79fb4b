"""Ranks as forked processes, each with a pipe to its parent."""

from __future__ import annotations

import hashlib
import mmap
import os
import pickle
import signal
import sys
import time
import traceback
import warnings
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib import import_module
from multiprocessing.connection import Connection, Pipe, wait
from types import CodeType
from typing import Any, NoReturn

from ringtree.algorithms import REGISTRY
from ringtree.runtime.bootstrap.environment import ADDRESS
from ringtree.runtime.bootstrap.local.siblings import Siblings
from ringtree.runtime.communicator import lifetime
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.engines.engine import GroupParameters
from ringtree.runtime.launch import own_cores
from ringtree.runtime.launch.crew import Outcome, Pin, Task
from ringtree.runtime.launch.job import ending
from ringtree.runtime.launch.parent import bound_to_process
from ringtree.runtime.limits import named

NEEDED_BY_CALLS = (
    "ringtree.plan.choice",
    "ringtree.plan.steps",
    "ringtree.runtime.communicator.calls.calls",
    "ringtree.runtime.communicator.windows.symmetric",
    "ringtree.verify.programs",
)
"""Modules that a rank loads at its first call, which load all others that it needs."""
MOST_CHARACTERS = 20_000
"""The most of an error's line, and of its traceback, that the parent raises; `cause` has all."""
MOST_WRAPPERS = 16
_INTERRUPTED = "it was interrupted (KeyboardInterrupt)"
_INTERRUPTED_CODE = 128 + signal.SIGINT
"""The exit code of a rank that SIGINT ended between two tasks, as of a shell's command."""
_parents_ends: weakref.WeakSet[Connection] = weakref.WeakSet()
"""A child closes all of them: a pipe that a sibling holds open would not signal the end of its parent."""


class Processes:
    """The parent's side: see spawn.Crew."""

    def __init__(self, engine: str, parameters: list[GroupParameters], first: Task | None, pin: Pin) -> None:
        self._pipes: list[Connection] = []
        self._pids: list[int] = []
        processes = _ProcessIds(len(parameters))
        _load()
        bind = bound_to_process()
        try:
            for terms_of_rank in parameters:
                mine, theirs = Pipe()
                _parents_ends.add(mine)
                self._pipes.append(mine)
                pid = _fork()
                if pid == 0:
                    watch = Siblings(processes.known, terms_of_rank.rank, terms_of_rank.ranks)
                    _Child(engine, terms_of_rank._replace(check_liveness=watch.check), theirs, pin).live(first, bind)
                theirs.close()
                self._pids.append(pid)
                processes.add(terms_of_rank.rank, pid)
        except OSError as error:  # too many processes, or files
            self.stop()
            raise named(f"rank {len(self._pids)} could not be started", error) from None

    def written(self, task: Task) -> bytes:
        """The task, pickled, and its function's code, which is pickled by name."""
        try:
            return pickle.dumps((task, _code_of(task[0])))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise pickle.PicklingError(
                f"the call cannot be pickled: {error}; expected a module's function, of arguments that can be pickled, "
                "or a Pool with threads=True"
            ) from error

    def start(self, task: bytes) -> None:
        """Sends every rank the task."""
        for pipe in self._pipes:
            with suppress(BrokenPipeError, ConnectionResetError):  # `finish` has how that rank ended
                pipe.send_bytes(task)

    def finish(self, grace_s: float) -> list[tuple[int, Outcome]]:
        """As Crew.finish; a process that ends without a result is an outcome, too."""
        outcomes: list[tuple[int, Outcome]] = []
        pids = self._pids[: len(self._pipes)]
        ends = {rank: end for rank, pid in enumerate(pids) if (end := _end_of(pid)) is not None}
        waiting: dict[Connection | int, int] = {pipe: rank for rank, pipe in enumerate(self._pipes)}
        for rank, end in ends.items():
            waiting[end] = rank
        try:
            deadline: float | None = None
            while waiting:
                ready = wait(list(waiting), None if deadline is None else max(deadline - time.monotonic(), 0))
                if not ready:
                    break
                done = dict.fromkeys(rank for each, rank in waiting.items() if each in ready)
                waiting = {each: rank for each, rank in waiting.items() if rank not in done}
                outcomes += ((rank, self._receive(rank)) for rank in done)
                if deadline is None and any(outcome.failed for _, outcome in outcomes):
                    deadline = time.monotonic() + grace_s
        finally:
            for end in ends.values():
                os.close(end)
        return outcomes

    def _receive(self, rank: int) -> Outcome:
        """The outcome of a rank that has sent one, or ended. What a rank forked itself may hold its pipe open."""
        pipe = self._pipes[rank]
        try:
            sent = pipe.recv_bytes() if pipe.poll(0) else b""
        except (EOFError, OSError):
            sent = b""
        if sent:
            return _read(sent)
        status = _waited(self._pids[rank])
        self._pids[rank] = 0
        if status is None:
            return Outcome(
                story="its process ended; nobody knows how, as the program ignores SIGCHLD or reaps its children"
            )
        code = os.waitstatus_to_exitcode(status)
        return Outcome(story=_INTERRUPTED if code == _INTERRUPTED_CODE else f"its process {ending(code)}")

    def stop(self) -> None:
        """Ends the ranks: idle ranks by closing their pipe, busy ones by signals; leaves no zombie."""
        for pipe in self._pipes:
            pipe.close()
        for number, after_s in ((0, 1.0), (signal.SIGTERM, 1.0), (signal.SIGKILL, 60.0)):
            for pid in filter(None, self._pids):
                if number:
                    with suppress(ProcessLookupError):  # the program reaps all its children itself
                        os.kill(pid, number)
            if self._reap(after_s):
                break

    def _reap(self, within_s: float) -> bool:
        deadline, pause_s = time.monotonic() + within_s, 0.0005
        while True:
            self._pids = [pid for pid in self._pids if pid and _runs(pid)]
            if not self._pids or time.monotonic() > deadline:
                return not self._pids
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 0.02)


def _end_of(pid: int) -> int | None:
    """A descriptor that is readable once the process has ended; None where the kernel gives none."""
    try:
        return os.pidfd_open(pid) if pid else None
    except OSError:
        return None


def _waited(pid: int) -> int | None:
    """The status by which a child ended; None where nobody knows: SIGCHLD is ignored, or the program reaps all its
    children."""
    try:
        return os.waitpid(pid, 0)[1]
    except ChildProcessError:
        return None


def _runs(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG) == (0, 0)
    except ChildProcessError:
        return False


def _read(sent: bytes) -> Outcome:
    """The outcome that a rank sent; without the result or the error where only the rank can import its class."""
    try:
        outcome, cause = pickle.loads(sent)
    except Exception as error:  # noqa: BLE001  # of any kind
        return Outcome(story=f"its result cannot be unpickled here: {type(error).__name__}: {error}")
    with suppress(Exception):
        outcome.cause = pickle.loads(cause)
    found: Outcome = outcome
    return found


class _ProcessIds:
    """The process of each rank, in memory that the ranks share: the earlier ones learn of the later."""

    def __init__(self, ranks: int) -> None:
        self._page = mmap.mmap(-1, 4 * ranks)
        self._ids = memoryview(self._page).cast("i")

    def add(self, rank: int, pid: int) -> None:
        self._ids[rank] = pid

    def known(self) -> dict[int, int]:
        return {rank: pid for rank, pid in enumerate(self._ids) if pid}


def _load() -> None:
    """Loads what ranks need at their first calls: once, where each would load it (0.1 s of a core) after the fork."""
    for module in NEEDED_BY_CALLS:
        import_module(module)
    for name in REGISTRY:
        REGISTRY[name]


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # as in a daemon, or where the program's starter closed it
            with suppress(ValueError):  # the program has closed it
                stream.flush()


def _fork() -> int:
    _flush()
    with warnings.catch_warnings():
        # a fork of a process with threads may meet a lock that one of them held; ranks start no threads before they
        # have one of their own, and without a fork neither closures nor notebooks' functions could be ranks
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


class _Child:
    """The rank's side. Never returns to the program that forked it."""

    def __init__(self, engine: str, parameters: GroupParameters, pipe: Connection, pin: Pin) -> None:
        self.engine, self.parameters, self.pipe, self.pin = engine, parameters, pipe, pin

    def live(self, first: Task | None, bind: Callable[[], None]) -> NoReturn:
        """Serves the parent. `bind`: what has the rank end with it."""
        code = 1
        try:
            bind()
            for end in list(_parents_ends):
                end.close()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            self._announce()
            code = 0 if self._serve(first) else 1
        except KeyboardInterrupt:
            code = _INTERRUPTED_CODE
        except (EOFError, BrokenPipeError, ConnectionResetError):
            pass  # the parent is gone
        except BaseException:  # noqa: BLE001  # nothing may escape into the program that was forked
            traceback.print_exc()
        finally:
            try:
                _flush()
            finally:
                os._exit(code)

    def _announce(self) -> None:
        """So that ringtree.init() in here gives this world, and children find it: on this host, wherever the ranks of
        the parent's job are."""
        t = self.parameters
        os.environ.pop(ADDRESS, None)
        os.environ.update(RINGTREE_RANK=str(t.rank), RINGTREE_WORLD_SIZE=str(t.ranks), RINGTREE_JOB=t.key)
        if self.pin:
            pin_to_core(t.rank, t.ranks, self.pin)

    def _serve(self, first: Task | None) -> bool:
        try:
            communicator = Communicator(self.engine, self.parameters)
        except Exception as error:  # noqa: BLE001  # of any kind: the parent raises it
            self._send(failure(error))
            return False
        if first is not None:
            outcome = attempt(communicator, first)
            closing = attempt(communicator, (_leave, (outcome.cause,)))  # it may be the first to detect a mismatch
            self._send(closing if closing.failed and not outcome.failed else outcome)
            return not outcome.failed
        with communicator:
            while True:
                outcome = _attempt_sent(communicator, self.pipe.recv_bytes())
                self._send(outcome)
                if outcome.failed and not outcome.refused:
                    lifetime.tell_cause(communicator, outcome.cause)
                    return False

    def _send(self, outcome: Outcome) -> None:
        """Sends the outcome, and its error apart: the parent may not be able to make it again."""
        try:
            cause = pickle.dumps(outcome.cause)
            pickle.loads(cause)  # some errors can be pickled, but not be made again
        except Exception:  # noqa: BLE001
            cause = pickle.dumps(None)
        try:
            text = pickle.dumps((Outcome(outcome.result, outcome.story, refused=outcome.refused), cause))
        except Exception as refusal:  # noqa: BLE001
            text = pickle.dumps((Outcome(story=f"its result cannot be pickled: {refusal}"), cause))
        self.pipe.send_bytes(text)


def _leave(_: Communicator, error: BaseException | None) -> None:
    """A process that ends without a word, as a rank's does, would be missed in every group that it is still in."""
    lifetime.close_all(error)


def attempt(communicator: Communicator, task: Task) -> Outcome:
    """Does a rank's task."""
    fn, args = task
    try:
        return Outcome(fn(communicator, *args))
    except BaseException as error:  # noqa: BLE001  # a rank's sys.exit(), and Ctrl-C, are failures too
        return failure(error)


def _attempt_sent(communicator: Communicator, sent: bytes) -> Outcome:
    try:
        task, code = pickle.loads(sent)
        if code != _code_of(task[0]):
            raise ImportError("its code has changed since")
    except Exception as error:  # noqa: BLE001  # of any kind
        return Outcome(story=_cut("".join(traceback.format_exception_only(error)).strip()), cause=error, refused=True)
    return attempt(communicator, task)


def _code_of(fn: Any) -> bytes:
    """A digest of a function's code and of those that it wraps, without their lines; nothing of other callables."""
    found: list[Any] = []
    while fn is not None and len(found) < MOST_WRAPPERS:
        found.append(_parts(getattr(fn, "__code__", None)))
        fn = fn.func if isinstance(fn, partial) else getattr(fn, "__wrapped__", None)
    return hashlib.blake2b(repr(found).encode(), digest_size=16).digest()


def _parts(constant: Any) -> Any:
    """The parts of code that make its results, all in an order that two processes share."""
    if isinstance(constant, CodeType):
        names = constant.co_names, constant.co_varnames, constant.co_freevars
        return constant.co_code, names, [_parts(each) for each in constant.co_consts]
    return sorted(map(repr, constant)) if isinstance(constant, frozenset) else constant


def failure(error: BaseException) -> Outcome:
    """The outcome that reports an error to the parent."""
    interrupted = isinstance(error, KeyboardInterrupt)
    line = _INTERRUPTED if interrupted else _cut("".join(traceback.format_exception_only(error)).strip())
    trace = _cut("".join(traceback.format_exception(error)))
    return Outcome(story=f"{line}\n\n{trace}", cause=error)


def _cut(text: str) -> str:
    """The text without the middle of one that nobody reads to its end, as of an exception that has an array's."""
    left_out = len(text) - MOST_CHARACTERS
    half = MOST_CHARACTERS // 2
    return text if left_out <= 0 else f"{text[:half]}\n... ({left_out:,} characters left out) ...\n{text[-half:]}"


def pin_to_core(rank: int, ranks: int, pin: Pin = True) -> None:
    """Keeps this process (or thread) on a core of its own, if there are enough: the first, or those of `pin`."""
    if cores := own_cores.of_ranks(ranks, own_cores.usable() if isinstance(pin, bool) else pin):
        os.sched_setaffinity(0, {cores[rank]})
