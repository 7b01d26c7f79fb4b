"""One case, with real processes: forked, watched until every survivor has reported or its time is up, and ended."""

from __future__ import annotations

import itertools
import os
import signal
import time
from contextlib import suppress
from multiprocessing.connection import wait
from tempfile import TemporaryDirectory

from ringtree.runtime.engines.engine import GroupParameters
from ringtree.runtime.launch.crew import Outcome
from ringtree.runtime.launch.spawn_processes import Processes
from tests.runtime.chaos.board import Board
from tests.runtime.chaos.case import BEFORE_ALL_HAVE_MET, Case
from tests.runtime.chaos.faults import Doomed
from tests.runtime.chaos.going_on import awaited_s
from tests.runtime.chaos.leftovers import children, open_here, shared_memory, sockets
from tests.runtime.chaos.rank import STARTING, Parent, Raised, Report, live
from tests.runtime.chaos.verdict import Verdict, judge
from tests.runtime.hosts.conftest import PORT, parameters_on
from tests.runtime.hosts.lab import Lab
from tests.runtime.soak.values import Tables

MARGIN_S = 5.0
"""Seconds beyond the group's timeout that a survivor may take on a busy machine."""
UNDISTURBED_S = 60.0
"""The longest that ranks without a fault take for a script; so do the other threads of a rank that stays."""
LOOK_S = 0.02

_ports = itertools.count(PORT)


def tried(case: Case, tables: Tables, timeout_s: float, lab: Lab | None = None) -> Verdict:
    """Runs a case. `timeout_s`: of its groups' waits; `lab`: the hosts of one that has a layout."""
    began_s, board = time.time(), Board(case.ranks)
    descriptors, others = open_here(), children()
    parameters = parameters_of(case, board, timeout_s, lab)
    parent = Parent(os.getpid(), frozenset(shared_memory()))
    with TemporaryDirectory(prefix="ringtree-chaos-") as folder:
        crew = Processes("shm", parameters, (live, (case, tables, board, parent, folder)), False)
        watch = _Watch(case, crew, board, timeout_s, lab)
        try:
            reports, hung = watch.reports()
        finally:
            watch.end()
    verdict = judge(case, board.what, board.happened_s, reports, timeout_s + MARGIN_S)
    verdict.hangs += hung
    verdict.left += [f"process {pid} is left" for pid in children() if pid not in others]
    keys = {parameters[0].key}.union(*(report.keys for report in reports))
    verdict.left += sockets(keys, case.ranks)
    if (more := open_here() - descriptors) > 0:
        verdict.left.append(f"{more} descriptors of who forked the ranks")
    verdict.took_s = time.time() - began_s
    return verdict


def parameters_of(case: Case, board: Board, timeout_s: float, lab: Lab | None) -> list[GroupParameters]:
    """Of the case's world, by rank."""
    names = tuple(map(str, range(case.ranks)))
    key = f"chaos {os.getpid()} {case.seed} {os.urandom(4).hex()}"
    parameters = [GroupParameters(key, rank, names, timeout_s) for rank in range(case.ranks)]
    if lab is not None:
        parameters = parameters_on(lab, case.layout, next(_ports), timeout_s)
    if case.at == BEFORE_ALL_HAVE_MET:
        own = parameters[case.culprit]
        parameters[case.culprit] = own._replace(bootstrap=Doomed(case.fault, board))
    return parameters


class _Watch:
    """Collects reports until every rank that can has reported."""

    def __init__(self, case: Case, crew: Processes, board: Board, timeout_s: float, lab: Lab | None) -> None:
        self._case, self._crew, self._board, self._timeout_s = case, crew, board, timeout_s
        self._began_s = time.time()
        self._waiting = {pipe: rank for rank, pipe in enumerate(crew._pipes)}
        self._reports: list[Report] = []
        self._lab = lab
        self._paused = case.fault == "pause"

    def reports(self) -> tuple[list[Report], list[str]]:
        """The reports, and a sentence for each rank that hung."""
        while self._awaited():
            for pipe in wait(list(self._waiting), LOOK_S):
                rank = self._waiting.pop(pipe)  # type: ignore[call-overload]
                if report := self._report(rank, self._crew._receive(rank)):
                    self._reports.append(report)
            if self._board.asked:
                self._hit_the_host()
            self._go_on()
            if time.time() > self._until_s():
                return self._reports, [self._hung(rank) for rank in self._awaited()]
        return self._reports, []

    def _awaited(self) -> list[int]:
        """Ranks that have yet to report: not one that stands still for ever."""
        still = self._case.culprits if self._case.stands_still else []
        return [rank for rank in self._waiting.values() if rank not in still]

    def _until_s(self) -> float:
        undisturbed_s = self._began_s + UNDISTURBED_S
        if happened_s := self._board.happened_s:
            again_s = max(self._timeout_s, awaited_s(self._case, self._timeout_s)) if self._case.shrinks else 0.0
            heard_s = happened_s + self._timeout_s + again_s + self._case.pause_s + MARGIN_S
            return heard_s if self._case.threads == 1 or self._case.leaves else max(heard_s, undisturbed_s)
        return undisturbed_s

    def _hit_the_host(self) -> None:
        assert self._lab is not None
        if self._case.fault == "link down":
            self._lab.link(self._case.hosts[self._case.culprit], "down")
        else:
            for rank in self._case.culprits:
                os.kill(self._crew._pids[rank], signal.SIGSTOP)
        self._board.fault()

    def _go_on(self) -> None:
        """Lets a paused rank go on when it has stood still for long enough."""
        happened_s = self._board.happened_s
        if self._paused and happened_s and time.time() > happened_s + self._case.pause_s:
            os.kill(self._crew._pids[self._case.culprit], signal.SIGCONT)
            self._paused = False

    def _report(self, rank: int, outcome: Outcome) -> Report | None:
        """The rank's report; of one that failed before it could write one, what is known."""
        if isinstance(outcome.result, Report):
            return outcome.result
        if rank in self._case.culprits or (self._case.second and rank == self._case.second[0]):
            return None
        if outcome.cause is None:
            return Report(rank, wrong=[outcome.story])
        kind, text = type(outcome.cause).__name__, str(outcome.cause)
        return Report(rank, [Raised(-1, STARTING, "the first meeting", kind, text, time.time())])

    def _hung(self, rank: int) -> str:
        """In words, after its threads' tracebacks on standard error."""
        pid = self._crew._pids[rank]
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGUSR1)
            time.sleep(0.2)
        return f"rank {rank} (process {pid}) neither ended nor raised; it was at step {self._board.at(rank)}"

    def end(self) -> None:
        """Ends the ranks that hang or stand still; the others have reported, and end by themselves."""
        for rank in self._waiting.values():
            with suppress(ProcessLookupError):
                os.kill(self._crew._pids[rank], signal.SIGKILL)
        self._crew.stop()
        if self._lab is not None and self._case.fault == "link down":
            self._lab.link(self._case.hosts[self._case.culprit], "up")
