"""`ringtree run`: N copies of a program on this machine, their output, and how they end."""

from __future__ import annotations

import os
import selectors
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

from ringtree.runtime import launch
from ringtree.runtime.bootstrap.environment import MOST_RANKS, TRACE_FOLDER
from ringtree.runtime.launch.interrupts import interrupts
from ringtree.runtime.launch.job import JobCourse
from ringtree.runtime.launch.program import resolve
from ringtree.runtime.launch.rank_processes import STDOUT, RankProcesses, stdin_for_rank_0, turn
from ringtree.runtime.launch.torch_variables import HERE, StorePort, names_a_store, store_variables
from ringtree.runtime.launch.whole_lines import Take, printed

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
    RESTART in its environment.

    ValueError, before anything is started, where there is nothing to run.
    """
    if not 1 <= ranks <= MOST_RANKS:
        raise ValueError(f"{ranks} ranks: expected 1 to {MOST_RANKS}, the most ranks of a group")
    words = resolve(command, module)
    with ExitStack() as stack:
        env = {**os.environ, "RINGTREE_WORLD_SIZE": str(ranks), "RINGTREE_JOB": os.urandom(8).hex()}
        for name in (TRACE_FOLDER, RESTART):  # of another job, which this one is a rank of
            env.pop(name, None)
        if not names_a_store(env):
            store = stack.enter_context(closing(StorePort()))
            env |= store_variables(HERE, store.number)
        if algorithm is not None:
            env["RINGTREE_ALGORITHM"] = algorithm
        if trace is not None:
            env[TRACE_FOLDER] = stack.enter_context(launch.recordings())
        job = _run(words, ranks, env, speaker, elastic, restarts, stack)
        code = job.report(write or complain)
        if trace is None:
            return code
        return launch.write_trace(trace, Path(env[TRACE_FOLDER]), ranks, words, f"{env['RINGTREE_JOB']}/init1") or code


def _run(
    words: list[str],
    ranks: int,
    env: dict[str, str],
    speaker: int | None,
    elastic: bool,
    restarts: int,
    stack: ExitStack,
) -> JobCourse:
    """Runs the ranks to their end, and passes their output on."""
    selector = stack.enter_context(selectors.DefaultSelector())
    restarted = 0

    def ended(rank: int, code: int) -> None:
        nonlocal restarted
        job.ended(rank, code)
        if code < 0 and job.running and job.signal is None and restarted < restarts:
            restarted += 1
            try:
                processes.start_again(rank, {RESTART: str(restarted)})
            except OSError as error:  # the others go on without it
                job.failed(f"rank {rank} could not be started again: {error}", 1)
            else:
                begun(rank)

    def begun(rank: int) -> bool:
        job.running.add(rank)
        return job.signal is None

    processes = RankProcesses(selector, _take, ended, speaker)
    stack.callback(processes.stop)
    job = JobCourse(processes.send, elastic=elastic)
    with interrupts(job.interrupt, selector):
        processes.start(words, range(ranks), env, begun=begun, reader=stdin_for_rank_0())
        while job.running:
            turn(selector, job.patience_s)
            job.check()
        processes.drain()
    return job


def _take(rank: int, number: int) -> Take:
    return partial(printed, prefix=f"[{rank}] ", stream=sys.stdout if number == STDOUT else sys.stderr)


def complain(text: str, command: str = "run") -> None:
    """Prints a line about the job on standard error. `command`: the one that has started it."""
    print(f"ringtree {command}: {text}", file=sys.stderr, flush=True)
