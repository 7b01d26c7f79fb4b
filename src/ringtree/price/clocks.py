"""Every rank's clock and every port's, moved on round by round.

A repetition of a block adds to clocks and takes the latest of them, nothing else: it is linear in the max-plus algebra
(Baccelli and others: Synchronization and Linearity, 1992). So once it moves all clocks on by the same, every later one
does, and where each clock moves on by its own, a look at the last repetition tells whether it did all the way: what is
the latest of several lines is convex. Either way the rest need not be played.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ringtree.price.rounds import MessageRound, distinct

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
SAME = 1e-11
"""Of the time so far: what two clocks may differ by and still have moved on by the same."""
MOST_ROWS = 1 << 23
"""Of one block no more rows than this are played. Each repetition left over takes what those of the second half took
on average."""


class SizedRound:
    """A round with its size: bytes of a chunk on links, and in ranks' own work. Ports are numbered behind the
    participants; `ports` are all of the schedule's."""

    def __init__(
        self, round: MessageRound, participants: int, ports: Ints, chunk_nbytes: float, work_nbytes: float
    ) -> None:
        self.round = round
        self.port = participants + np.searchsorted(ports, round.port[round.port_starts])
        count = np.diff(round.port_starts, append=len(round.port))
        self.place = np.repeat(np.arange(len(count)), count)
        self.there = round.arrival >= 0
        self.hand_s = round.hand.seconds(work_nbytes)
        self.ahead_s = round.ahead.seconds(chunk_nbytes)
        self.wire_s = round.wire.seconds(chunk_nbytes)
        self.shared_s = round.shared.seconds(chunk_nbytes)
        self.rest_s = round.rest.seconds(work_nbytes)

    @property
    def touched(self) -> Ints:
        """The clocks that it may move."""
        return np.concatenate([self.round.sender, self.round.receiver, self.port])

    def move(self, clock_s: Floats) -> None:
        """The round: each rank sends, then receives."""
        r = self.round
        arrival_s = np.full(len(r.arrival), -np.inf)
        if len(r.sender):
            handed_s = clock_s[r.sender] + self.hand_s
            opens_s = np.maximum(clock_s[self.port], np.minimum.reduceat(handed_s, r.port_starts))[self.place]
            done_s = np.maximum(np.maximum(handed_s, opens_s + self.ahead_s) + self.wire_s, opens_s + self.shared_s)
            clock_s[self.port] = np.maximum.reduceat(done_s, r.port_starts)
            clock_s[r.sender[r.sender_starts]] = np.maximum.reduceat(handed_s, r.sender_starts)
            arrival_s[self.there] = (done_s + r.latency_s)[r.arrival[self.there]]
        if len(r.arrival):
            began_s = clock_s[r.receiver] + self.rest_s[r.receiver_starts]
            clock_s[r.receiver] = np.maximum(began_s, np.maximum.reduceat(arrival_s + self.rest_s, r.receiver_starts))


def play(clock_s: Floats, steps: Sequence[SizedRound]) -> None:
    """Each step once."""
    for step in steps:
        step.move(clock_s)


def repeat(clock_s: Floats, steps: Sequence[SizedRound], times: int) -> None:
    """The steps `times` over. A period in how they move the clocks on is looked for as Brent does: each state is
    compared with one that was kept at a power of two."""
    if times < 1:
        return
    touched = distinct(np.concatenate([s.touched for s in steps]))
    most = max(MOST_ROWS // max(sum(len(s.round.arrival) for s in steps), 1), 4)
    done, kept_at, half_at, searching = 0, 0, 0, True
    before = kept = half = clock_s[touched]
    last: Floats | None = None
    while done < times:
        if searching and done >= most:
            clock_s[touched] += (clock_s[touched] - half) * ((times - done) / (done - half_at))
            return
        play(clock_s, steps)
        done += 1
        if not searching:
            continue
        now = clock_s[touched]
        moved = now - before
        if kept_at and _alike(now - kept, now):
            laps = (times - done) // (done - kept_at)
            clock_s[touched] += laps * (now - kept)
            done, searching = done + laps * (done - kept_at), False
        elif last is not None and _same(moved, last, now):
            done += _leap(clock_s, steps, touched, moved, times - done)
            now = clock_s[touched]
        if done & (done - 1) == 0:
            kept, kept_at = now, done
        if done == most // 2:
            half, half_at = now, done
        before, last = now, moved


def _alike(moved: Floats, now: Floats) -> bool:
    """Whether all clocks moved on by the same."""
    return float(np.ptp(moved)) <= SAME * float(now.max())


def _same(moved: Floats, last: Floats, now: Floats) -> bool:
    """Whether each clock moved on by what it did before."""
    return bool(np.all(np.abs(moved - last) <= SAME * float(now.max())))


def _leap(clock_s: Floats, steps: Sequence[SizedRound], touched: Ints, moved: Floats, left: int) -> int:
    """As many of the repetitions that are left as move each clock on by `moved`; how many they were. The last one is
    played, and says whether those before it did."""
    while left > 1:
        kept = clock_s.copy()
        clock_s[touched] += (left - 1) * moved
        landed = clock_s[touched]
        play(clock_s, steps)
        if _same(clock_s[touched] - landed, moved, landed):
            return left
        clock_s[:] = kept
        left //= 2
    return 0
