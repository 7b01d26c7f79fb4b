"""The steps of a script on one rank: made, checked, and what they opened closed again."""

from __future__ import annotations

from collections import deque
from typing import Any

from ringtree.runtime.communicator.communicator import Communicator
from tests.runtime.soak.collectives import Arenas, Caller, Check, finished
from tests.runtime.soak.exchanges import Posts, Windows
from tests.runtime.soak.figures import slots_open
from tests.runtime.soak.script import CALLS, MOST_GROUPS, Call, Close, Exchange, Open, Step, Window
from tests.runtime.soak.values import Tables

MOST_PENDING = 6
"""Asynchronous calls under way at once."""


class Wrong(Exception):
    """A result that is not as the script expects it, or a staging slot that a call left open."""


class Player:
    """Makes the steps of a script on `world`, and on the groups that the script opens."""

    groups_of_torch = 0

    def __init__(self, world: Communicator, tables: Tables) -> None:
        self._world = world
        self._arenas = Arenas(world)
        self._caller, self._posts = Caller(tables, self._arenas), Posts(tables)
        self._windows = Windows(world, tables)
        self._groups: list[Communicator | None] = []  # opened; None where this rank is in none of them
        self._pending: deque[tuple[int, Call, Any, Check]] = deque()
        self.doing: tuple[int, Step | str] = (0, "the beginning")

    def step(self, number: int, step: Step) -> None:
        """Makes a step; raises Wrong where its result, or that of a call which it finishes, is another."""
        self.doing = number, step
        if isinstance(step, Open):
            if self.has_room:
                self._groups.append(_opened(self._world, step.how, number))
            return
        if isinstance(step, Close):
            if step.group <= len(self._groups):
                self.finish(0)
                self._close(self._groups.pop(step.group - 1))
            return
        if isinstance(step, Window):
            self._expect_nothing(self._windows.move(step))
            return
        comm = self.group_of(step)
        if comm is None:
            return
        if isinstance(step, Exchange):
            self._expect_nothing(self._posts.exchange(comm, step))
        elif step.collective == "barrier" and comm is self._world and not step.later:
            self._expect_nothing(self._windows.barrier(number))
        elif step.later:
            self.finish(MOST_PENDING - 1)
            self._pending.append((number, step, *self._caller.begin(comm, step)))
        else:
            self._expect_nothing(finished(*self._caller.begin(comm, step)))
        if not self._pending and number % 10 == 0 and (slots := slots_open(self.open())):
            raise Wrong(f"{slots} staging slots are open after it; expected none")

    @property
    def has_room(self) -> bool:
        """Whether a step that opens a group does so."""
        return len(self._groups) < MOST_GROUPS

    def group_of(self, step: Step) -> Communicator | None:
        """The communicator of a step; None where this rank takes no part in it."""
        if not isinstance(step, Call | Exchange) or step.group == 0 or not self._groups:
            return self._world
        return self._groups[step.group % len(self._groups)]

    def finish(self, most: int) -> None:
        """Waits for asynchronous calls, the oldest first, until at most `most` are under way."""
        before = self.doing
        while len(self._pending) > most:
            number, step, made, check = self._pending.popleft()
            self.doing = number, step
            self._expect_nothing(finished(made, check))
        self.doing = before

    def end_chapter(self, chapter: int) -> None:
        """Finishes all calls and closes the groups that the chapter opened."""
        self.finish(0)
        self.doing = (chapter + 1) * CALLS, "the end of a chapter"
        if slots := slots_open(self.open()):
            raise Wrong(f"{slots} staging slots are open; expected none")
        while self._groups:
            self._close(self._groups.pop())

    def open(self) -> list[Communicator]:
        """The world, and the open groups that this rank is in."""
        return [self._world, *(group for group in self._groups if group is not None)]

    def _close(self, group: Communicator | None) -> None:
        if group is not None:
            group.close()

    def _expect_nothing(self, wrong: str) -> None:
        if wrong:
            raise Wrong(wrong)


def _opened(world: Communicator, how: str, number: int) -> Communicator | None:
    me, n = world.rank, world.size
    if how == "parity":
        return world.split(me % 2)
    if how == "halves":
        return world.split(2 * me // n, me)
    if how == "reversed":
        return world.split(7, -me)
    if how == "without the last":
        return world.split(None if me == n - 1 else 0)
    if how == "duplicate":
        return world.duplicate()
    pair = [number % n, (number + 1) % n][:n]  # of one rank there is no pair
    return world.group(pair) if me in pair else None
