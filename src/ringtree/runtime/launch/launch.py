"""`ringtree run`: N copies of a program on this machine, their output, and how they end."""

from __future__ import annotations

import os
import selectors
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

from ringtree.runtime import launch
from ringtree.runtime.bootstrap.environment import ENDED_RANKS, MOST_RANKS, TRACE_FOLDER
from ringtree.runtime.bootstrap.local.siblings import EndedRanks
from ringtree.runtime.launch.interrupts import PASSED_ON, interrupts
from ringtree.runtime.launch.job import JobCourse, ending
from ringtree.runtime.launch.printer import Printer
from ringtree.runtime.launch.program import resolve
from ringtree.runtime.launch.rank_processes import DRAIN_S, RankProcesses, stdin_for_rank_0, turn
from ringtree.runtime.launch.restarts import Restarts
from ringtree.runtime.launch.torch_variables import HERE, StorePort, store_variables
from ringtree.runtime.launch.whole_lines import Take

RESTART = "RINGTREE_RESTART"
"""The variable of a rank that is started again: which restart of the job that is, from 1."""


def run(
    command: Sequence[str],
    ranks: int,
    *,
    module: bool = False,
    trace: Path | None = None,
    speaker: int | None = None,
    write: Callable[[str], None] | None = None,
    algorithm: str | None = None,
    elastic: bool = False,
    restarts: int = 0,
) -> int:
    """Runs `command` (a Python file, with `module` a module's name, else anything executable) as `ranks` ranks; returns
    0, or the exit code of the first that failed (128 + N for signal N).

    `trace`: the file for what all ranks recorded from ringtree.init() on, also where they failed. Where there is
    nothing to write, a line reports that, and the code is not 0. `speaker`: the rank whose output goes straight to
    ours, as if it were this process. `write`: takes the lines about the ranks' ends, in place of standard error.
    `algorithm`: the ranks' RINGTREE_ALGORITHM. `elastic`: a rank that fails ends no other, and the code is 0 if one
    succeeds. `restarts`: so many times in all a rank that a signal has ended is started again while others run, with
    RESTART in its environment; after a growing pause where it dies at once.

    ValueError, before anything is started, where there is nothing to run.
    """
    if not 1 <= ranks <= MOST_RANKS:
        raise ValueError(f"{ranks} ranks: expected 1 to {MOST_RANKS}, the most ranks of a group")
    words = resolve(command, module)
    with ExitStack() as stack:
        env = {**os.environ, "RINGTREE_WORLD_SIZE": str(ranks), "RINGTREE_JOB": os.urandom(8).hex()}
        for name in (TRACE_FOLDER, RESTART):  # of another job, which this one is a rank of
            env.pop(name, None)
        store = stack.enter_context(closing(StorePort()))
        env |= store_variables(HERE, store.number, env)
        if algorithm is not None:
            env["RINGTREE_ALGORITHM"] = algorithm
        if trace is not None:
            env[TRACE_FOLDER] = stack.enter_context(launch.recordings())
        ended = stack.enter_context(closing(EndedRanks(env["RINGTREE_JOB"])))
        env[ENDED_RANKS] = ended.path
        job = LocalJob(stack, ended, speaker, elastic, restarts)
        code = job.run(words, ranks, env, write)
        if trace is None:
            return code
        return launch.write_trace(trace, Path(env[TRACE_FOLDER]), ranks, words, f"{env['RINGTREE_JOB']}/init1") or code


class LocalJob:
    """The ranks of a job on this machine, from their start to the report of their ends."""

    def __init__(self, stack: ExitStack, ends: EndedRanks, speaker: int | None, elastic: bool, restarts: int) -> None:
        self._selector = stack.enter_context(selectors.DefaultSelector())
        self._outputs = stack.enter_context(selectors.DefaultSelector())
        self._printer = Printer(self._selector)
        stack.callback(self._printer.close)
        self._processes = RankProcesses(self._selector, self._take, self._ended, speaker, self._outputs)
        stack.callback(self._processes.stop)
        self._course = JobCourse(self._processes.send, elastic=elastic)
        self._restarts, self._ends = Restarts(restarts), ends

    def run(
        self, words: Sequence[str], ranks: int, env: dict[str, str], write: Callable[[str], None] | None = None
    ) -> int:
        """Runs the ranks to their end, and passes their output on; returns the exit code. `write` as of `run`."""
        course, printer = self._course, self._printer
        with interrupts(self._signal, self._selector, PASSED_ON):
            self._processes.start(words, range(ranks), env, begun=self._begun, reader=stdin_for_rank_0())
            while course.running:
                self._turn(self._restarts.patience_s(course.patience_s), listens=not printer.full)
                self._start_again()
            self._drain()
            code = course.report(write or printer.complain)
            if printer.lost:
                printer.complain(printer.lost)
            while not printer.empty:
                self._turn(course.patience_s, listens=False)
        return code

    def _drain(self) -> None:
        """Passes on what ranks that have ended have written. A grandchild may hold a pipe, and who reads ours may be
        slow: that time does not count."""
        left_s = DRAIN_S
        while not self._printer.empty or (self._processes.speaking and left_s > 0):
            listens, begun_s = left_s > 0 and not self._printer.full, time.monotonic()
            self._turn(0.05 if listens else self._course.patience_s, listens=listens)
            if listens:
                left_s -= time.monotonic() - begun_s

    def _turn(self, timeout_s: float | None, *, listens: bool) -> None:
        """Waits for events once. `listens`: to the ranks' output, too; else they wait with it."""
        if listens and self._outputs not in self._selector.get_map():
            self._selector.register(self._outputs, selectors.EVENT_READ, lambda: turn(self._outputs, 0))
        elif not listens and self._outputs in self._selector.get_map():
            self._selector.unregister(self._outputs)
        turn(self._selector, timeout_s)
        self._course.check()
        self._course.leave(self._processes.beyond)
        self._printer.check(self._course)

    def _signal(self, number: int) -> None:
        if number in PASSED_ON:
            self._processes.send(number)
        else:
            self._course.interrupt(number)

    def _take(self, rank: int, number: int) -> Take:
        return self._printer.take(number, f"[{rank}] ")

    def _begun(self, rank: int) -> bool:
        self._course.running.add(rank)
        self._restarts.begun(rank)
        return self._course.signal is None

    def _ended(self, rank: int, code: int) -> None:
        course = self._course
        course.ended(rank, code)
        if code < 0 and course.running and course.signal is None and self._restarts.plan(rank):
            course.running.add(rank)  # others may count on it
        else:
            self._ends.add(rank, ending(code))

    def _start_again(self) -> None:
        """Starts the ranks whose restart is due, while others run; none after a signal to end."""
        course = self._course
        if course.signal is not None:
            course.running.difference_update(self._restarts.cancel())
        for rank in self._restarts.due():
            course.running.discard(rank)
            if not course.running:
                return
            self._restarts.made += 1
            try:
                self._processes.start_again(rank, {RESTART: str(self._restarts.made)})
            except OSError as error:  # the others go on without it
                self._ends.add(rank, f"could not be started again: {error}")
                course.failed(f"rank {rank} could not be started again: {error}", 1)
            else:
                self._begun(rank)


def complain(text: str, command: str = "run") -> None:
    """Prints a line about the job on standard error. `command`: the one that has started it."""
    print(f"ringtree {command}: {text}", file=sys.stderr, flush=True)
