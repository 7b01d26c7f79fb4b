"""The event player: threads execute their steps, and the network computes the arrivals of their messages; in a
deadlock, its cause.

A thread runs ahead of the others as far as its inputs are known, in its own time: a step depends on other threads
through messages, slots and marks alone, and each of these carries its own time. So only messages are events.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ringtree.simulate.network import SimulatedNetwork
from ringtree.simulate.steps import AFTER, ASK, FILL, LAND, MARK, REDUCE, SIGNAL, WAIT, StepTable
from ringtree.topology import Topology

UNKNOWN = -1.0


class Stall(NamedTuple):
    """A wait of a rank for room that `peer` gave back."""

    rank: int
    start_s: float
    end_s: float
    peer: int
    job: int


class Player:
    """`busy_s`: seconds of each step on its rank; `begin_s`: the start of each thread. `slots`: the number in a pool,
    None for any number.

    Afterwards `start_s` and `end_s` are the steps' (of a message: handed over and arrived), `at[t]` is the step that
    thread t could not finish.
    """

    def __init__(
        self,
        steps: StepTable,
        network: SimulatedNetwork,
        busy_s: NDArray[np.float64],
        begin_s: Sequence[float],
        slots: int | None,
    ) -> None:
        self.steps, self.network, self.slots = steps, network, slots
        self.kind = array("b", steps.kind.astype(np.int8).tobytes())
        self.number = array("q", steps.number.tobytes())
        self.busy_s = array("d", busy_s.tobytes())
        self.start_s = array("d", bytes(8 * len(self.kind)))
        self.end_s = array("d", np.full(len(self.kind), UNKNOWN).tobytes())
        self.at = [thread.first for thread in steps.threads]
        self.now = list(begin_s)
        self.stalls: list[Stall] = []
        self.waiting: dict[int, int] = {}  # message -> thread that takes it
        self.landing: dict[int, int] = {}  # message -> thread that sent it
        self.uses = list(steps.uses)
        self.free_s = [0.0] * len(self.uses)  # last use of the payload
        self.user = [-1] * len(self.uses)  # its rank
        self.ready = deque[int]()
        self.want_free: dict[int, list[int]] = {}  # payload -> threads
        self.want_mark: dict[int, list[int]] = {}  # row -> threads

    def play(self) -> bool:
        """Plays to the end; returns whether all threads finished."""
        for thread in range(len(self.at)):
            self._go_on(thread)
        end_s, waiting, landing = self.end_s, self.waiting, self.landing
        for message, at_s in self.network.arrivals():
            end_s[message] = at_s
            if message in waiting:
                self._go_on(waiting.pop(message))
            if message in landing:
                self._go_on(landing.pop(message))
        return all(at == thread.stop for at, thread in zip(self.at, self.steps.threads, strict=True))

    def _go_on(self, thread: int) -> None:
        """Runs the thread, and the threads that it releases, in the order in which they came to wait."""
        self.ready.append(thread)
        while self.ready:
            self._run(self.ready.popleft())

    def _run(self, thread: int) -> None:
        """Runs the thread until it must wait for an unknown time."""
        kind, number, busy_s, start_s, end_s = self.kind, self.number, self.busy_s, self.start_s, self.end_s
        hand_over, now, stop = self.network.hand_over, self.now[thread], self.steps.threads[thread].stop
        for at in range(self.at[thread], stop):
            what = kind[at]
            if what == WAIT:
                start_s[at] = now
                message = number[at]
                arrived = end_s[message] if message >= 0 else UNKNOWN
                if arrived < 0:
                    self.waiting[message] = thread
                    break
                now = (arrived if arrived > now else now) + busy_s[at]
                end_s[at] = now
            elif what <= REDUCE:
                start_s[at] = now
                now += busy_s[at]
                end_s[at] = now
            elif what == SIGNAL:
                now += busy_s[at]
                start_s[at] = now
                hand_over(at, now)
            else:
                reached = self._special(thread, at, what, now)
                if reached < 0:
                    break
                now = reached
        else:
            at = stop
        self.at[thread], self.now[thread] = at, now

    def _special(self, thread: int, at: int, what: int, now: float) -> float:
        """The step's end in seconds; UNKNOWN where the thread must wait: then the thread is registered there."""
        number = self.number[at]
        if what == ASK:
            self.start_s[at] = now
            self.network.hand_over(at, now)
        elif what == LAND:
            if self.end_s[number] < 0:
                self.landing[number] = thread
                return UNKNOWN
            return max(now, self.end_s[number])
        elif what == FILL:
            return self._fill(thread, number, now)
        elif what == AFTER:
            if number < 0 or self.end_s[number] < 0:
                self.want_mark.setdefault(number, []).append(thread)
                return UNKNOWN
            return max(now, self.end_s[number])
        elif what == MARK:
            self.end_s[at] = now
            self.ready += self.want_mark.pop(at, ())
        elif number >= 0:  # GIVE
            self.uses[number] -= 1
            if now >= self.free_s[number]:
                self.free_s[number], self.user[number] = now, self.steps.threads[thread].rank
            if not self.uses[number]:
                self.ready += self.want_free.pop(number, ())
        return now

    def _fill(self, thread: int, payload: int, now: float) -> float:
        for pool, ordinal in self.steps.positions[payload]:
            if self.slots is None or ordinal < self.slots:
                continue
            before = self.steps.pools[pool][ordinal - self.slots]
            if self.uses[before]:
                self.want_free.setdefault(before, []).append(thread)
                return UNKNOWN
            if self.free_s[before] > now:
                where = self.steps.threads[thread]
                self.stalls.append(Stall(where.rank, now, self.free_s[before], self.user[before], where.job))
                now = self.free_s[before]
        return now


def why(player: Player, topology: Topology, calls: Sequence[str]) -> str:
    """One line with the waiting rank, the message, the call and the failed link. `topology`: with its links as played.
    Ranks whose message was lost, then ranks without a slot, come before ranks that wait for them in turn."""
    steps = player.steps
    stuck = [t for t, at in enumerate(player.at) if at < steps.threads[t].stop]
    lost = set(player.network.lost)
    waits = {t: player.number[player.at[t]] for t in stuck if player.kind[player.at[t]] in (WAIT, LAND)}
    slotless = [t for t in stuck if player.kind[player.at[t]] == FILL]
    thread = [*(t for t in stuck if waits.get(t) in lost), *slotless, *stuck][0]
    rank, at = steps.threads[thread].rank, player.at[thread]
    call, many = calls[steps.threads[thread].job], len({steps.threads[t].rank for t in stuck})
    others = f"; {many - 1} other rank{'s' * (many > 2)} cannot go on either" if many > 1 else ""
    where = f"stuck at {player.now[thread] * 1e6:.6g} us: rank {rank} waits for "
    if player.kind[at] in (WAIT, LAND):
        message = player.number[at]
        source, target = (steps.peer[at], rank) if message < 0 else (steps.rank[message], steps.peer[message])
        message_of = f"rank {source}'s message" if source != rank else f"its message to rank {target}"
        reason = _no_route(topology, source, target) if message in lost else _not_sent(message, source)
        return f"{where}{message_of} in {call}: {reason}{others}"
    if player.kind[at] == FILL:
        count = f"{player.slots} slot{'s' * (player.slots != 1)}"
        return f"{where}a slot in {call}: none is given back of the {count} it has{others}"
    return f"{where}another of its threads in {call}, which cannot go on{others}"


def _not_sent(message: int, source: int) -> str:
    return "it sends none" if message < 0 else f"rank {source} waits itself"


def _no_route(topology: Topology, source: int, target: int) -> str:
    failed = [link for link in range(topology.links) if not topology.bandwidth_Bps[link]]
    names = ", ".join(topology.link_name(link) for link in failed[:3]) + (", …" if len(failed) > 3 else "")
    ends = f"{topology.nodes[source]} to {topology.nodes[target]}"
    if not failed:
        return f"{topology.name} has no route from {ends}"
    return f"link{'s' * (len(failed) > 1)} {names} failed, and there is no other route from {ends}"
