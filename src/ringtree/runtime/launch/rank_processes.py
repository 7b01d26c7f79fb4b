"""The processes of a host's ranks, each the leader of a process group of its own."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from ringtree.runtime.launch import own_cores
from ringtree.runtime.launch.parent import bound_to_thread
from ringtree.runtime.launch.torch_variables import rank_variables
from ringtree.runtime.launch.whole_lines import Take, WholeLines
from ringtree.runtime.limits import LIMITS, explained, named, start_thread

DRAIN_S = 0.5
"""Seconds that output is still read when all ranks have ended: a grandchild may hold the pipe."""
STDOUT, STDERR = 1, 2


class RankProcesses:
    """Ranks of this host. `ended` is called with a rank and its exit code (negative: a signal's number), `take(rank,
    STDOUT or STDERR)` gives what takes a rank's lines. Events come by the selector, whose data are functions, those of
    output by `outputs` where there is one: it may be left alone for a while."""

    def __init__(
        self,
        selector: selectors.BaseSelector,
        take: Callable[[int, int], Take],
        ended: Callable[[int, int], None],
        speaker: int | None = None,
        outputs: selectors.BaseSelector | None = None,
    ) -> None:
        self._outputs = outputs or selector
        self._selector, self._take, self._ended, self._speaker = selector, take, ended, speaker
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # as a supervisor may leave it: no rank's end would be known
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._started: dict[int, tuple[Sequence[str], Mapping[str, str], Sequence[int]]] = {}
        self._lines: list[WholeLines] = []
        self.beyond: set[int] = set()
        """Ranks that SIGKILL could not be sent: they are other users' now."""

    def start(
        self,
        words: Sequence[str],
        ranks: Sequence[int],
        env: Mapping[str, str],
        *,
        beside: Sequence[int] = (),
        begun: Callable[[int], bool] = lambda rank: True,
        reader: int | None = None,
    ) -> None:
        """Starts the words as each of the ranks. `beside`: all ranks of this host, if another starts some. `begun` is
        called after each, and ends the row by False. `reader`: the rank that has our standard input."""
        cores = own_cores.usable()
        here, starts = [*(beside or ranks)], set(ranks)
        bound = own_cores.shares(len(here), cores)
        threads = str(max(len(cores) // max(len(here), 1), 1))
        env = {"PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": threads, **env}
        size = env["RINGTREE_WORLD_SIZE"]
        for place, rank in enumerate(here):
            if rank not in starts:
                continue
            own = {**env, "RINGTREE_RANK": str(rank), **rank_variables(rank, size, place, len(here))}
            its_cores = bound[place] if bound else ()
            self._started[rank] = (words, own, its_cores)
            try:
                self._begin(rank, words, own, its_cores, reads=rank == reader)
            except OSError as error:
                if isinstance(error, FileNotFoundError) and os.path.exists(words[0]):
                    raise ValueError(
                        f"{words[0]}: its interpreter (the first line's, behind #!) is not there"
                    ) from None
                raise named(f"rank {rank} could not be started", error) from None
            if not begun(rank):
                break

    def start_again(self, rank: int, env: Mapping[str, str]) -> None:
        """Starts a rank that has ended once more, with `env` in addition, and nothing to read. OSError where the system
        starts none: its text is a reason alone."""
        words, own, its_cores = self._started[rank]
        try:
            self._begin(rank, words, {**own, **env}, its_cores, reads=False)
        except OSError as error:
            file = f": {os.fsdecode(error.filename)}" if error.filename and error.errno not in LIMITS else ""
            raise OSError(f"{explained(error)}{file}") from None

    def _begin(
        self, rank: int, words: Sequence[str], env: Mapping[str, str], cores: Sequence[int], reads: bool
    ) -> None:
        speaks = rank == self._speaker
        process = subprocess.Popen(
            words,
            stdin=None if reads else subprocess.DEVNULL,
            stdout=None if speaks else subprocess.PIPE,
            stderr=None if speaks else subprocess.PIPE,
            env=env,
            preexec_fn=prepared(cores),  # noqa: PLW1509  # no lock
        )
        self._processes[rank] = process
        try:
            self._listen(rank, process)
        except OSError:  # nobody would learn of its end
            process.kill()
            process.wait()
            raise

    def _listen(self, rank: int, process: subprocess.Popen[bytes]) -> None:
        for number, pipe in ((STDOUT, process.stdout), (STDERR, process.stderr)):
            if pipe is None:  # the speaker's
                continue
            lines = WholeLines(pipe, self._take(rank, number))
            self._lines.append(lines)
            self._outputs.register(pipe, selectors.EVENT_READ, lambda lines=lines: self._read(lines))
        gone = end_of(process.pid)
        self._selector.register(gone, selectors.EVENT_READ, lambda: self._gone(rank, gone))

    def _read(self, lines: WholeLines) -> None:
        if not lines.pump():
            self._outputs.unregister(lines.pipe)
            lines.pipe.close()

    def _gone(self, rank: int, gone: int) -> None:
        self._selector.unregister(gone)
        os.close(gone)
        process = self._processes[rank]
        how = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert how is not None
        if how.si_code != os.CLD_EXITED or how.si_status:
            with suppress(ProcessLookupError, PermissionError):  # what it started goes with it; its id is still its own
                os.killpg(process.pid, signal.SIGKILL)
        self._ended(rank, process.wait())

    @property
    def running(self) -> bool:
        """Whether a rank has not ended that could be ended."""
        return any(process.returncode is None for rank, process in self._processes.items() if rank not in self.beyond)

    @property
    def speaking(self) -> bool:
        """Whether output may yet come."""
        return any(not lines.pipe.closed for lines in self._lines)

    def send(self, number: int) -> None:
        """Sends the ranks that run, and what they have started, a signal."""
        for rank, process in self._processes.items():
            if process.returncode is None:
                try:
                    _send(process.pid, number)
                except PermissionError:  # its user has changed, as by sudo or a container's gosu
                    if number == signal.SIGKILL:
                        self.beyond.add(rank)

    def drain(self) -> None:
        """Passes on what ranks that have ended have written."""
        until_s = time.monotonic() + DRAIN_S
        while self.speaking and time.monotonic() < until_s:
            turn(self._outputs, 0.05)

    def stop(self) -> None:
        """Ends and reaps every process that is left."""
        self.send(signal.SIGKILL)
        for rank, process in self._processes.items():
            if rank not in self.beyond:
                process.wait()
        for lines in self._lines:
            lines.pipe.close()


def _send(leader: int, number: int) -> None:
    """Sends a signal to a group, and to its leader where that has left it: not reaped, its id is still its own."""
    with suppress(ProcessLookupError):
        os.killpg(leader, number)
    with suppress(ProcessLookupError):
        if os.getpgid(leader) != leader:
            os.kill(leader, number)


def stdin_for_rank_0() -> int | None:
    """Rank 0, where our standard input is a file or a pipe; None where it is a terminal, or nothing."""
    return None if sys.stdin is None or sys.stdin.closed or os.isatty(0) else 0


def turn(selector: selectors.BaseSelector, timeout_s: float | None) -> None:
    """Waits for events once, and calls their functions."""
    for key, _ in selector.select(timeout_s):
        key.data()


def end_of(pid: int) -> int:
    """A descriptor that is readable once that child has ended: Linux's own, or a pipe's where a kernel before 5.3 or a
    filter of system calls has none."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        gone, alive = os.pipe()

    def wait() -> None:
        with suppress(ChildProcessError):
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        os.close(alive)

    try:
        start_thread(wait, f"wait for the end of process {pid}")
    except OSError:
        os.close(gone)
        os.close(alive)
        raise
    return gone


def prepared(cores: Sequence[int] = (), parting: signal.Signals = signal.SIGKILL) -> Callable[[], None]:
    """The function that a process calls before it becomes the program. `parting`: the signal that it gets when the
    caller's process ends."""
    bind = bound_to_thread(parting)

    def prepare() -> None:
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # a process outside the terminal's own group may yet write to it
        os.setpgid(0, 0)  # so that Ctrl-C comes once, from us, and what a rank starts can be stopped with it
        bind()
        if cores:
            with suppress(OSError):  # a filter of system calls may refuse it: the rank is then the scheduler's to place
                os.sched_setaffinity(0, cores)

    return prepare
