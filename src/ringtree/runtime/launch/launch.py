"""`ringtree run`: N copies of a program on this machine, their output, and how they end."""

from __future__ import annotations

import ctypes
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from importlib.machinery import PathFinder
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import IO

from ringtree.formats import chrome
from ringtree.runtime.bootstrap.environment import TRACE_FOLDER
from ringtree.runtime.launch.spawn_processes import ending
from ringtree.runtime.tracing.files import gather

GRACE_S = 5.0
"""Seconds that survivors have to report when a rank has died, and all ranks after Ctrl-C, before they are stopped."""
STOP_S = 2.0
"""Seconds from SIGTERM to SIGKILL."""
DRAIN_S = 0.5
"""Seconds that output is still read when all ranks have ended: a grandchild may hold the pipe."""
LONGEST_LINE = 1 << 20
"""Bytes; a longer one is cut."""

_PR_SET_PDEATHSIG = 1


def run(
    command: Sequence[str],
    ranks: int,
    *,
    module: bool = False,
    trace: Path | None = None,
    speaker: int | None = None,
    write: Callable[[str], None] | None = None,
    algorithm: str | None = None,
) -> int:
    """Runs `command` (a Python file, with `module` a module's name, else anything executable) as `ranks` ranks; returns
    0, or the exit code of the first that failed (128 + N for signal N).

    `trace`: the file for what all ranks recorded from ringtree.init() on, also where they failed. Where there is
    nothing to write, a line reports that, and the code is not 0. `speaker`: the rank whose output goes straight to
    ours, as if it were this process. `write`: takes the lines about the ranks' ends, in place of standard error.
    `algorithm`: the ranks' RINGTREE_ALGORITHM.

    ValueError, before anything is started, where there is nothing to run.
    """
    if ranks < 1:
        raise ValueError(f"{ranks} ranks: expected at least 1")
    words = resolve(command, module)
    with ExitStack() as stack:
        job = _Job(words, ranks, stack, speaker)
        if algorithm is not None:
            job.environment["RINGTREE_ALGORITHM"] = algorithm
        if trace is not None:
            job.environment[TRACE_FOLDER] = stack.enter_context(TemporaryDirectory(prefix="ringtree-trace-"))
        stack.callback(job.stop)
        with _signals(job.interrupt) as wakeup:
            job.start()
            job.watch(wakeup)
        code = job.report(write or _write)
        return code if trace is None else _write_trace(trace, job) or code


def resolve(command: Sequence[str], module: bool) -> list[str]:
    """The words to execute; ValueError where there is no such program."""
    if not command:
        raise ValueError("no program to run; expected a Python file, -m and a module, or an executable")
    name = command[0]
    if module:
        if PathFinder.find_spec(name.split(".")[0], [os.getcwd(), *sys.path]) is None:
            raise ValueError(f"no module {name!r} to run: it is neither in {os.getcwd()} nor installed")
        return [sys.executable, "-m", *command]
    if name.endswith(".py"):
        if not Path(name).is_file():
            raise ValueError(f"no such program: {name}")
        return [sys.executable, *command]
    found = shutil.which(name)
    if found is None:
        hint = "; it is not executable" if Path(name).exists() else ""
        raise ValueError(f"no such program: {name}{hint}")
    return [found, *command[1:]]


class _Job:
    """The ranks' processes, each the leader of a process group of its own."""

    def __init__(self, words: list[str], ranks: int, stack: ExitStack, speaker: int | None) -> None:
        self.words, self.ranks, self.speaker = words, ranks, speaker
        self.environment = {**os.environ, "RINGTREE_WORLD_SIZE": str(ranks), "RINGTREE_JOB": os.urandom(8).hex()}
        self.environment.pop(TRACE_FOLDER, None)  # of another job, which this one is a rank of
        self.selector = stack.enter_context(selectors.DefaultSelector())
        self.processes: list[subprocess.Popen[bytes]] = []
        self.lines: list[_Lines] = []
        self.running: set[int] = set()
        self.endings: list[tuple[int, int]] = []  # (rank, code) of the failed ranks, in order of time
        self.stopped: list[int] = []
        self.signal: int | None = None
        self.deadline: float | None = None
        self.escalation = iter((signal.SIGTERM, signal.SIGKILL))

    def start(self) -> None:
        cores = sorted(os.sched_getaffinity(0))
        env = self.environment
        env.setdefault("PYTHONUNBUFFERED", "1")
        env.setdefault("OMP_NUM_THREADS", str(max(len(cores) // self.ranks, 1)))
        for rank in range(self.ranks):
            if self.signal is not None:
                break
            core = cores[rank] if self.ranks <= len(cores) else None
            interactive = rank or sys.stdin is None or sys.stdin.closed or os.isatty(0)
            process = subprocess.Popen(
                self.words,
                stdin=subprocess.DEVNULL if interactive else None,
                stdout=None if rank == self.speaker else subprocess.PIPE,
                stderr=None if rank == self.speaker else subprocess.PIPE,
                env={**env, "RINGTREE_RANK": str(rank)},
                preexec_fn=_prepare(core, os.getpid()),  # noqa: PLW1509  # it takes no lock
            )
            self.processes.append(process)
            self.running.add(rank)
            self._listen(rank, process)

    def _listen(self, rank: int, process: subprocess.Popen[bytes]) -> None:
        for pipe, stream in ((process.stdout, sys.stdout), (process.stderr, sys.stderr)):
            if pipe is None:  # the speaker's
                continue
            os.set_blocking(pipe.fileno(), False)
            lines = _Lines(rank, pipe, stream)
            self.lines.append(lines)
            self.selector.register(pipe, selectors.EVENT_READ, lambda lines=lines: self._read(lines))
        gone = os.pidfd_open(process.pid)
        self.selector.register(gone, selectors.EVENT_READ, lambda: self._ended(rank, gone))

    def watch(self, wakeup: socket.socket | None) -> None:
        """Passes output on until all ranks have ended."""
        if wakeup is not None:
            self.selector.register(wakeup, selectors.EVENT_READ, lambda: wakeup.recv(64))
        while self.running:
            self._turn(None if self.deadline is None else max(self.deadline - time.monotonic(), 0))
            if self.deadline is not None and time.monotonic() >= self.deadline:
                self._escalate()
        drained = time.monotonic() + DRAIN_S
        while any(not lines.pipe.closed for lines in self.lines) and time.monotonic() < drained:
            self._turn(0.05)

    def _turn(self, timeout_s: float | None) -> None:
        for key, _ in self.selector.select(timeout_s):
            key.data()

    def _read(self, lines: _Lines) -> None:
        if not lines.pump():
            self.selector.unregister(lines.pipe)
            lines.pipe.close()

    def _ended(self, rank: int, gone: int) -> None:
        self.selector.unregister(gone)
        os.close(gone)
        process = self.processes[rank]
        how = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert how is not None
        if how.si_code != os.CLD_EXITED or how.si_status:
            with suppress(ProcessLookupError):  # what it started itself goes with it; its id is still its own
                os.killpg(process.pid, signal.SIGKILL)
        code = process.wait()
        self.running.discard(rank)
        if code and rank not in self.stopped:
            self.endings.append((rank, code))
            if self.deadline is None:
                self.deadline = time.monotonic() + GRACE_S

    def interrupt(self, number: int) -> None:
        """Ctrl-C, or a request to end: passed on; the second time, without waiting any longer."""
        if self.signal is None:
            self.signal = number
            self._send(number)
            self.deadline = time.monotonic() + GRACE_S
        else:
            self.deadline = 0.0

    def _escalate(self) -> None:
        number = next(self.escalation, signal.SIGKILL)
        self.stopped += [rank for rank in sorted(self.running) if rank not in self.stopped]
        self._send(number)
        self.deadline = time.monotonic() + STOP_S

    def _send(self, number: int) -> None:
        for rank in self.running:
            with suppress(ProcessLookupError):
                os.killpg(self.processes[rank].pid, number)

    def stop(self) -> None:
        """Ends and reaps every process that is left."""
        for process in self.processes:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        for lines in self.lines:
            lines.close()

    def report(self, write: Callable[[str], None]) -> int:
        """Writes which rank failed first and how, and which ranks had to be stopped; returns the exit code."""
        if self.signal is not None:
            if self.stopped:
                write(f"stopped {_named(self.stopped)}, which did not end within {GRACE_S:g} s")
            return 128 + self.signal
        if not self.endings:
            return 0
        rank, code = self.endings[0]
        text = f"rank {rank} {ending(code)}"
        if len(self.endings) > 1:
            text += "; after that " + ", ".join(f"rank {r} {ending(c)}" for r, c in self.endings[1:])
        if self.stopped:
            text += f"; stopped {_named(self.stopped)} after {GRACE_S:g} s"
        write(text)
        return code if code > 0 else 128 - code


class _Lines:
    """One rank's output: whole lines, each with the rank before it."""

    def __init__(self, rank: int, pipe: IO[bytes], stream: IO[str]) -> None:
        self.prefix, self.pipe, self.stream = f"[{rank}] ", pipe, stream
        self.rest = b""

    def pump(self) -> bool:
        """Passes on what there is; False at the end."""
        try:
            data = os.read(self.pipe.fileno(), 1 << 16)
        except BlockingIOError:
            return True
        *whole, self.rest = (self.rest + data).split(b"\n")
        if self.rest and (not data or len(self.rest) > LONGEST_LINE):
            whole, self.rest = [*whole, self.rest], b""
        if whole:
            self.stream.write("".join(f"{self.prefix}{line.decode(errors='replace')}\n" for line in whole))
            self.stream.flush()
        return bool(data)

    def close(self) -> None:
        self.pipe.close()


def _prepare(core: int | None, launcher: int) -> Callable[[], None]:
    """The function that a rank's process calls before it becomes the program."""
    prctl = ctypes.CDLL(None).prctl

    def prepare() -> None:
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # a process outside the terminal's own group may yet write to it
        os.setpgid(0, 0)  # so that Ctrl-C comes once, from us, and what a rank starts can be stopped with it
        prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
        if os.getppid() != launcher:
            os._exit(1)
        if core is not None:
            os.sched_setaffinity(0, {core})

    return prepare


@contextmanager
def _signals(interrupt: Callable[[int], None]) -> Iterator[socket.socket | None]:
    """Calls `interrupt` for SIGINT, SIGTERM and SIGHUP; yields a socket that becomes readable when one has come.

    One that our starter has us ignore (nohup, a shell's background job) stays ignored, by us and by the ranks.
    """
    if threading.current_thread() is not threading.main_thread():
        yield None
        return

    def handle(number: int, frame: FrameType | None) -> None:
        interrupt(number)

    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.setblocking(False)
        caught = [n for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) != signal.SIG_IGN]
        before = {n: signal.signal(n, handle) for n in caught}
        wakeup = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        try:
            yield ours
        finally:
            signal.set_wakeup_fd(wakeup)
            for number, handler in before.items():
                signal.signal(number, handler)


def _write_trace(file: Path, job: _Job) -> int:
    """Writes what the ranks recorded; 1 where there is nothing."""
    gathered = gather(Path(job.environment[TRACE_FOLDER]), job.ranks, f"{job.environment['RINGTREE_JOB']}/init1")
    if gathered is None:
        _write(f"{file} is not written: no rank called ringtree.init()")
        return 1
    if gathered.silent:
        _write(f"{file} has nothing of {_named(list(gathered.silent))}: a killed rank leaves nothing")
    if dropped := gathered.trace.facts.get("dropped"):
        _write(f"{file} is incomplete: {dropped} events were dropped")
    name = " ".join(job.words[1:] if job.words[0] == sys.executable else job.words)
    chrome.write(replace(gathered.trace, facts={"name": name, **gathered.trace.facts}), file)
    return 0


def _named(ranks: list[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))}"


def _write(text: str) -> None:
    print(f"ringtree run: {text}", file=sys.stderr, flush=True)
