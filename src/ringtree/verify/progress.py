"""Checks that the programs end, and finds the number of slots they need.

Threads are sequential and wait on counters that only grow, and the pairs of waits and signals are fixed (wiring). So a
thread that can continue stays able to until it does, all maximal executions have the same steps, and one execution
decides. If it is stuck with k slots, every execution with k slots is stuck; continued from there with one slot more,
it is an execution with k+1. So one pass finds the fewest slots that suffice.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from ringtree.verify.wiring import AFTER, FILL, GIVE_BACK, LOOK, SEND, TAKE, Wiring
from ringtree.verify.wording import ProofError

Runs = list[tuple[int, int, int]]
"""An execution: (thread, first step, last step + 1), one after another."""


@dataclass(frozen=True, slots=True)
class Progress:
    """One execution to the end, and the fewest slots with which there is one (0: no slot is ever taken)."""

    runs: Runs
    slots: int


def play(w: Wiring, limit: int | None = None) -> Progress:
    """Plays the programs with as few slots as possible, at most `limit`; ProofError with the cycle of waits of a
    deadlock. Cost: O(events)."""
    player = _Player(w)
    while True:
        player.play()
        if not player.stuck:
            return Progress(player.runs, player.slots)
        if not player.want_slots or (limit is not None and player.slots >= limit):
            raise ProofError(_deadlock(w, player), rank=w.threads[min(player.stuck)].rank)
        player.slots += 1
        player.ready.extend(sorted(player.want_slots))
        player.want_slots.clear()


class _Player:
    """The state of every thread and counter. `stuck[t]`: the event that thread t waits at."""

    def __init__(self, w: Wiring) -> None:
        self.w = w
        self.slots = 0
        self.runs: Runs = []
        self.ready = deque(range(len(w.threads)))
        self.next = [0] * len(w.threads)  # event
        self.done = [0] * len(w.threads)  # steps
        self.sent = [0] * len(w.lanes)
        self.taken = [0] * len(w.lanes)
        self.given = [0] * len(w.lanes)
        self.uses = list(w.uses)
        self.stuck: dict[int, tuple[int, int, int]] = {}
        self.want_message: dict[int, int] = {}  # lane -> thread
        self.want_slot: dict[int, list[int]] = {}  # payload that must become free -> threads
        self.want_slots: set[int] = set()
        self.want_step: dict[int, list[int]] = {}  # thread to go on -> threads

    def play(self) -> None:
        """Plays until no thread can continue."""
        while self.ready:
            thread = self.ready.popleft()
            events = self.w.threads[thread].events
            self.stuck.pop(thread, None)
            at = self._run(thread, events)
            self.next[thread] = at
            if at < len(events):
                self.stuck[thread] = events[at]
            stop = events[at][0] if at < len(events) else len(self.w.threads[thread].code)
            if stop > self.done[thread]:
                self.runs.append((thread, self.done[thread], stop))
                self.done[thread] = stop
                self.ready.extend(self.want_step.pop(thread, ()))

    def _run(self, thread: int, events: list[tuple[int, int, int]]) -> int:
        """Runs the thread; returns the event that it waits at."""
        sent, taken, given, ready, lanes = self.sent, self.taken, self.given, self.ready, self.w.lanes
        for at in range(self.next[thread], len(events)):
            step, event, number = events[at]
            if event == SEND:
                sent[number] += 1
                if number in self.want_message:
                    ready.append(self.want_message.pop(number))
            elif event == TAKE:
                if taken[number] == sent[number]:
                    self.want_message[number] = thread
                    return at
                taken[number] += 1
            elif event == GIVE_BACK:
                self._use(lanes[number].payloads[given[number]])
                given[number] += 1
            elif event == FILL:
                if not self._free(thread, number):
                    return at
            elif event == LOOK:
                self._use(number)
            else:
                other, before = self.w.after[number]
                if self.done[other] <= before and (other != thread or before >= step):
                    self.want_step.setdefault(other, []).append(thread)
                    return at
        return len(events)

    def _use(self, payload: int) -> None:
        self.uses[payload] -= 1
        if not self.uses[payload] and payload in self.want_slot:
            waiting = self.want_slot.pop(payload)
            self.ready.extend(waiting)
            self.want_slots.difference_update(waiting)

    def _free(self, thread: int, payload: int) -> bool:
        """Whether the payload's slots are free; if not, registers the waiting thread."""
        blocking = self.before(payload)
        if blocking is None:
            return True
        if blocking >= 0:
            self.want_slot.setdefault(blocking, []).append(thread)
        self.want_slots.add(thread)
        return False

    def before(self, payload: int) -> int | None:
        """The payload that must leave its slot before this one is filled: None if none, -1 if there are no slots."""
        for pool, ordinal in self.w.positions[payload]:
            if self.slots == 0:
                return -1
            if ordinal >= self.slots:
                other = self.w.pools[pool][ordinal - self.slots]
                if self.uses[other]:
                    return other
        return None


def _deadlock(w: Wiring, p: _Player) -> str:
    """The cycle of waits, in words."""
    thread, path = min(p.stuck), list[int]()
    while thread not in path:
        path.append(thread)
        thread = _awaited(w, p, thread)
    cycle = path[path.index(thread) :]
    slots = f"{p.slots} slot{'s' * (p.slots != 1)}" if p.want_slots else "any number of slots"
    waits = "; ".join(f"{w.where(t, p.stuck[t][0])} waits for {_reason(w, p, t)}" for t in cycle)
    return f"{w.name}: deadlock with {slots}: {waits}"


def _awaited(w: Wiring, p: _Player, thread: int) -> int:
    """A thread that must continue before this one can."""
    _, event, number = p.stuck[thread]
    if event == TAKE:
        return w.lanes[number].sender
    if event == AFTER:
        return w.after[number][0]
    return _holder(w, p, thread, p.before(number))


def _holder(w: Wiring, p: _Player, thread: int, payload: int | None) -> int:
    """The thread that keeps the payload in its slot: a receiver that has it, else the sender."""
    for number, lane in enumerate(w.lanes):
        held = lane.payloads[p.given[number] :]
        if lane.sender == thread and payload in held and payload in lane.sent[: p.sent[number]]:
            return lane.receiver
    return thread


def _reason(w: Wiring, p: _Player, thread: int) -> str:
    _, event, number = p.stuck[thread]
    other = w.threads[_awaited(w, p, thread)]
    who = f"rank {other.rank}" + (f" thread {other.number}" if w.threaded else "")
    if event == TAKE:
        return f"a message from {who}"
    if event == AFTER:
        return f"{who} step {w.after[number][1]}"
    if other is w.threads[thread]:
        return "a slot that a later step of its own still needs"
    return f"a slot that {who} has not released"
