"""One rank of a case: its threads play their scripts until an error; the culprit's is no longer the same script."""

from __future__ import annotations

import faulthandler
import gc
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from ringtree.runtime.communicator import lifetime
from ringtree.runtime.communicator.communicator import Communicator
from tests.runtime.chaos.board import Board
from tests.runtime.chaos.case import IN_THE_SETUP, Case
from tests.runtime.chaos.deviations import DEVIATIONS
from tests.runtime.chaos.faults import OwnError, bring_about
from tests.runtime.chaos.going_on import go_on
from tests.runtime.chaos.leftovers import left_here
from tests.runtime.soak import through_torch
from tests.runtime.soak.load import die_with
from tests.runtime.soak.player import Player, Wrong
from tests.runtime.soak.script import CALLS, Open, Step
from tests.runtime.soak.through_torch import TorchPlayer
from tests.runtime.soak.values import Tables

STARTING, ENDING = -1, CALLS + 1
"""Positions before and after the scripts, for reports."""


@dataclass(frozen=True)
class Raised:
    """An error that a call raised. `at_s`: when, by time.time(). `by_itself`: this process had closed its groups, as
    another of its threads had failed."""

    thread: int
    step: int
    call: str
    kind: str
    text: str
    at_s: float
    by_itself: bool = False


@dataclass
class Report:
    """A rank's end. `past_all`: the final barrier of all ranks let it through. `again_at_s`: when the first call in the
    survivors' group was done, by time.time(); 0 where there is none."""

    rank: int
    errors: list[Raised] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    past_all: bool = False
    again_at_s: float = 0.0


class Life:
    """A rank's part in a case."""

    def __init__(self, world: Communicator, case: Case, tables: Tables, board: Board, folder: str) -> None:
        self.world, self.case, self.tables, self.board = world, case, tables, board
        self._folder = folder
        self.report = Report(world.rank)
        self.is_culprit = case.culprit == world.rank
        self._closing = False
        self._keys = {world.key}

    def run(self) -> Report:
        """Plays all threads' scripts; raises what the culprit's fault raises."""
        worlds: list[Communicator] = []
        if not self._attempt(-1, STARTING, "the set-up", lambda: self._set_up(worlds)):
            self._go_on()
            return self._end(worlds)
        if self.case.threads == 1:
            self._play(0, worlds[0])
        else:
            self._play_in_threads(worlds)
        self._await_fault()
        if not self.report.errors and not self.report.wrong:
            barrier = through_torch.barrier if self.case.torch else self.world.barrier
            if self._attempt(-1, ENDING, "the barrier of all at the end", barrier):
                self.report.past_all = True
        self._go_on()
        return self._end(worlds)

    def _go_on(self) -> None:
        """The survivors' part, where they have one."""
        if not self.case.shrinks or self.is_culprit or not self.report.errors or self.report.wrong:
            return
        try:
            groups, self.report.again_at_s = go_on(self.world, self.case, self.tables)
        except Exception as error:  # noqa: BLE001  # whatever it is, it may not be
            self.report.wrong.append(f"the survivors' group: {type(error).__name__}: {error}")
        else:
            self._keys |= {group.key for group in groups}

    def _set_up(self, worlds: list[Communicator]) -> None:
        if self.is_culprit and self.case.at == IN_THE_SETUP:
            bring_about(self.case.fault, self.world, self.board, "in the set-up", None)
        if self.case.torch:
            through_torch.begin(self.world, Path(self._folder), self.world.timeout_s)
        worlds += [self.world, *(self.world.duplicate() for _ in range(self.case.threads - 1))]
        self._keys |= {world.key for world in worlds}

    def _play_in_threads(self, worlds: list[Communicator]) -> None:
        ended: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()

        def play(thread: int) -> None:
            try:
                self._play(thread, worlds[thread])
            except BaseException as error:  # noqa: BLE001  # the culprit's own: its main thread raises it
                ended.put(error)
            else:
                ended.put(None)

        threads = [threading.Thread(target=play, args=(i,), daemon=True) for i in range(self.case.threads)]
        for thread in threads:
            thread.start()
        for _ in threads:
            if error := ended.get():
                raise error
            if self.report.errors and self.case.leaves and not self.case.shrinks and not self._closing:
                self._closing = True
                lifetime.close_all()
        for thread in threads:
            thread.join()

    def _play(self, thread: int, world: Communicator) -> None:
        """A thread's script, to its end or to the first error."""
        player: Player | TorchPlayer | None = None
        script = self.case.script(thread)

        def make_player() -> None:
            nonlocal player
            player = (TorchPlayer if self.case.torch else Player)(world, self.tables)

        if not self._attempt(thread, STARTING, "symmetric memory", make_player) or player is None:
            return
        position, deviated = 0, False
        while position < len(script):
            here = self.is_culprit and thread == self.case.thread and position >= self.case.at
            if here and self.case.deviates and not deviated:
                changed = self._deviated(player, script, position)
                deviated, script = changed is not None, script if changed is None else script[:position] + changed
                if position >= len(script):
                    break
            elif here and position == self.case.at and not deviated:
                self._fault(player, script[position])
            step = script[position]
            self.board.reached(self.world.rank, position)
            if not self._attempt(thread, position, str(step), partial(player.step, CALLS * thread + position, step)):
                return
            self._keys |= {group.key for group in player.open()}
            position += 1
        self._attempt(thread, ENDING, "the end of the script", lambda: player.end_chapter(thread))

    def _fault(self, player: Player | TorchPlayer, step: Step) -> None:
        group = player.group_of(step) or player.open()[0]
        size = f" of {group.size} ranks" if self.case.fault in ("close", "abort") else ""
        bring_about(self.case.fault, group, self.board, f"at {step}{size}", self.case.delay_s)

    def _deviated(self, player: Player | TorchPlayer, script: list[Step], position: int) -> list[Step] | None:
        """The culprit's script from here on, if this step has a deviation of the case's kind."""
        step = script[position]
        group = player.group_of(step)
        if group is None or group.size == 1 or (isinstance(step, Open) and not player.has_room):
            return None
        changed = DEVIATIONS[self.case.fault](script, position, group.size, group.rank)
        if changed is not None:
            instead = changed[0] if changed else "nothing"
            self.board.fault(f"another {self.case.fault}: {instead} in place of {step}, ranks {group.ranks}")
        return changed

    def _attempt(self, thread: int, step: int, call: str, act: Callable[[], object]) -> bool:
        """Whether `act` raised nothing; an error of it is reported."""
        try:
            act()
        except Wrong as error:
            self.report.wrong.append(f"thread {thread} at step {step}, {call}: {error}")
        except (OwnError, SystemExit):
            raise
        except Exception as error:  # noqa: BLE001  # whatever it is, it is judged
            kind, text = type(error).__name__, str(error)
            self.report.errors.append(Raised(thread, step, call, kind, text, time.time(), self._closing))
        else:
            return True
        return False

    def _end(self, worlds: list[Communicator]) -> Report:
        """Leaves all groups, and looks at what this process still has of them."""
        self._await_fault()
        worlds.clear()
        if self.case.torch:
            self._attempt(-1, ENDING, "destroy_process_group", through_torch.end)
        self._attempt(-1, ENDING, "close", lifetime.close_all)
        self.report.keys = sorted(self._keys)
        return self.report

    def _await_fault(self) -> None:
        """A culprit makes its last call after its fault."""
        for thread in threading.enumerate():
            if thread.name == "fault":
                thread.join()


@dataclass(frozen=True)
class Parent:
    """The process that forks the ranks, and the shared memory that they inherit from it."""

    pid: int
    shared_memory: frozenset[int]


def live(world: Communicator, case: Case, tables: Tables, board: Board, parent: Parent, folder: str) -> Report:
    """A rank's whole life."""
    die_with(parent.pid)
    faulthandler.register(signal.SIGUSR1, file=sys.stderr, all_threads=True)
    life = Life(world, case, tables, board, folder)
    report = life.run()
    del life, world
    gc.collect()
    report.left = left_here(parent.shared_memory)
    return report
