"""The clocks of all ranks and ports, advanced round by round.

A repetition of a block adds to clocks and takes maxima of them, nothing else: it is linear in the max-plus algebra
(Baccelli and others: Synchronization and Linearity, 1992). So once a repetition advances all clocks by the same time,
every later one does. Where each clock advances by its own time, the last repetition shows whether all repetitions
before it did the same, since a maximum of lines is convex. In both cases the repetitions between need not be played.

The queues of links are not linear: in them messages are sorted. Their state is part of the clocks, so the first rule
holds there, too; the second one is an approximation.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ringtree.price.queues import STATE, HopQueue
from ringtree.price.rounds import MessageRound, distinct

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
NO_LINKS = np.zeros(0, np.int64)
SAME = 1e-11
"""The relative difference, of the time so far, below which two advances count as equal."""
MOST_ROWS = 1 << 23
"""The most rows of one block that are played. Each remaining repetition takes the average of the second half's."""


class SizedRound:
    """A round priced for a size: bytes of a chunk on links, and in ranks' own work. Ports are numbered after the
    participants, links with queues after the ports; `ports` and `links`: all of the schedule. `senders`: the ranks
    whose messages wait in queues."""

    def __init__(
        self,
        round: MessageRound,
        participants: int,
        ports: Ints,
        chunk_nbytes: float,
        work_nbytes: float,
        links: Ints = NO_LINKS,
        senders: Ints = NO_LINKS,
    ) -> None:
        self.round = round
        self.port = participants + np.searchsorted(ports, round.port[round.port_starts])
        count = np.diff(round.port_starts, append=len(round.port))
        self.row = np.repeat(np.arange(len(count)), count)
        self.there = round.arrival >= 0
        self.hand_s = round.hand.seconds(work_nbytes)
        self.ahead_s = round.ahead.seconds(chunk_nbytes)
        self.wire_s = round.wire.seconds(chunk_nbytes)
        self.shared_s = round.shared.seconds(chunk_nbytes)
        self.rest_s = round.rest.seconds(work_nbytes)
        self.senders = senders
        queues = participants + len(ports)
        self.queues = [
            HopQueue(hop.row, queues + STATE * np.searchsorted(links, hop.link), hop.lasts.seconds(chunk_nbytes))
            for hop in round.hops * (chunk_nbytes > 0)
        ]

    @property
    def touched(self) -> Ints:
        """The clocks that the round may advance."""
        return np.concatenate([self.round.sender, self.round.receiver, self.port, *(q.touched for q in self.queues)])

    def move(self, clock_s: Floats) -> None:
        """Plays the round: each rank sends, then receives. `clock_s` [clocks]: seconds."""
        r = self.round
        arrival_s = np.full(len(r.arrival), -np.inf)
        if len(r.sender):
            handed_s = clock_s[r.sender] + self.hand_s
            opens_s = np.maximum(clock_s[self.port], np.minimum.reduceat(handed_s, r.port_starts))[self.row]
            begin_s = np.maximum(handed_s, opens_s + self.ahead_s)
            done_s = np.maximum(begin_s + self.wire_s, opens_s + self.shared_s)
            clock_s[self.port] = np.maximum.reduceat(done_s, r.port_starts)
            clock_s[r.sender[r.sender_starts]] = np.maximum.reduceat(handed_s, r.sender_starts)
            least_s = float(clock_s[self.senders].min()) if self.queues else 0.0
            for queue in self.queues:
                queue.serve(clock_s, begin_s, done_s, least_s)
            arrival_s[self.there] = (done_s + r.latency_s)[r.arrival[self.there]]
        if len(r.arrival):
            began_s = clock_s[r.receiver] + self.rest_s[r.receiver_starts]
            clock_s[r.receiver] = np.maximum(began_s, np.maximum.reduceat(arrival_s + self.rest_s, r.receiver_starts))


def play(clock_s: Floats, steps: Sequence[SizedRound]) -> None:
    """Plays each step once."""
    for step in steps:
        step.move(clock_s)


def repeat(clock_s: Floats, steps: Sequence[SizedRound], times: int) -> None:
    """Plays the steps `times` times. A period in the clocks' advances is searched by Brent's method: each state is
    compared with the state kept at the last power of two."""
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
    """Whether all clocks advanced by the same time."""
    return float(np.ptp(moved)) <= SAME * float(now.max())


def _same(moved: Floats, last: Floats, now: Floats) -> bool:
    """Whether each clock advanced by the same time as before."""
    return bool(np.all(np.abs(moved - last) <= SAME * float(now.max())))


def _leap(clock_s: Floats, steps: Sequence[SizedRound], touched: Ints, moved: Floats, left: int) -> int:
    """Skips the remaining repetitions that advance each clock by `moved`; returns their number. The last one is played,
    and decides whether those before it may be skipped."""
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
