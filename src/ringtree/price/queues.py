"""Queues of links: messages that meet on a link pass it one after the other, first come, first served.

Rounds are played in their order, and a rank may be rounds ahead of others. So a message may reach a link before those
that the link has served in earlier rounds. Such a message passes in the seconds in which the link was idle since then,
as far as they suffice, and the rest of it after the others. The link thus is never idle while a message waits, and the
messages of earlier rounds keep their times.

The state of a link is `STATE` numbers among the clocks: the end of its last service, then begin and end of the idle
gaps before it that a message can still reach, padded with gaps of no length at its end. So gaps move on with the
clocks, and repetitions are equal only if the gaps are (clocks.py).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
GAPS = 16
"""The latest idle gaps of a link that are remembered."""
STATE = 1 + 2 * GAPS
MOST_SERVED = 256
"""More messages at a time are served in the order of rounds, without gaps, which numpy computes at once."""
INSTANT_S = 1e-9
"""Messages of a round that come within this time are served in the order of their senders, whatever the rounding."""


class HopQueue:
    """A link for each of some messages of a round: `row` is the message, `link` the first number of the link's state
    among the clocks, `lasts_s` the seconds of its bytes there."""

    def __init__(self, row: Ints, link: Ints, lasts_s: Floats) -> None:
        self.row, self.link, self.lasts_s = row, link, lasts_s
        self.fills_gaps = len(row) <= MOST_SERVED
        if self.fills_gaps:
            self._lists = row.tolist(), link.tolist(), lasts_s.tolist()

    @property
    def touched(self) -> Ints:
        """The clocks that `serve` may advance."""
        return (self.link[:, None] + np.arange(STATE)).ravel() if self.fills_gaps else self.link

    def serve(self, clock_s: Floats, came_s: Floats, done_s: Floats, least_s: float) -> None:
        """Serves the messages. `came_s` [messages of the round]: when each reaches its link, set to when the link
        begins with it; `done_s`: when its last byte has left, set to the later of that and the end of its service.
        `least_s`: no later message comes before."""
        if not self.fills_gaps:
            self._serve_in_turn(clock_s, came_s, done_s)
            return
        links: dict[int, _Link] = {}
        came = came_s[self.row].tolist()
        rows, numbers, lasts_s = self._lists
        for k in sorted(range(len(came)), key=[round(s / INSTANT_S) for s in came].__getitem__):
            row, number = rows[k], numbers[k]
            link = links.get(number)
            if link is None:
                link = links[number] = _Link(clock_s[number : number + STATE].tolist(), least_s)
            came_s[row], end_s = link.serve(came[k], lasts_s[k])
            if end_s > done_s[row]:
                done_s[row] = end_s
        for number, link in links.items():
            clock_s[number : number + STATE] = link.state()

    def _serve_in_turn(self, clock_s: Floats, came_s: Floats, done_s: Floats) -> None:
        order = np.lexsort((np.rint(came_s[self.row] / INSTANT_S), self.link))
        row, link, lasts_s = self.row[order], self.link[order], self.lasts_s[order]
        upto_s = np.cumsum(lasts_s)
        first = np.diff(link, prepend=-1) != 0
        idle_s = np.maximum(came_s[row], clock_s[link]) - (upto_s - lasts_s)
        apart_s = (np.cumsum(first) - 1) * float(np.ptp(idle_s))  # so that the maximum begins anew with each link
        end_s = np.maximum.accumulate(idle_s + apart_s) - apart_s + upto_s
        came_s[row] = end_s - lasts_s
        done_s[row] = np.maximum(done_s[row], end_s)
        last = np.append(first[1:], True)
        clock_s[link[last]] = end_s[last]


class _Link:
    """One link: the end of its last service, and the idle gaps before it."""

    def __init__(self, state: list[float], least_s: float) -> None:
        self.free_s = state[0]
        self.gaps = list[tuple[float, float]]()
        for begin_s, end_s in zip(state[1::2], state[2::2], strict=True):
            if begin_s >= end_s:
                break
            if end_s > least_s:
                self.gaps.append((begin_s, end_s))

    def state(self) -> list[float]:
        """The link as numbers among the clocks."""
        gaps = [s for gap in self.gaps[-GAPS:] for s in gap]
        return [self.free_s, *gaps, *[self.free_s] * (2 * GAPS - len(gaps))]

    def serve(self, came_s: float, lasts_s: float) -> tuple[float, float]:
        """Serves a message; returns the begin and the end of that."""
        free_s, gaps = self.free_s, self.gaps
        if came_s >= free_s:
            if came_s > free_s + INSTANT_S:
                gaps.append((free_s, came_s))
            self.free_s = came_s + lasts_s
            return came_s, self.free_s
        if not gaps or gaps[-1][1] <= came_s:
            self.free_s = free_s + lasts_s
            return free_s, self.free_s
        return self._fill(came_s, lasts_s)

    def _fill(self, came_s: float, left_s: float) -> tuple[float, float]:
        """Serves a message in the gaps after it came, and the rest of it at the end."""
        kept = list[tuple[float, float]]()
        first_s, last_s = self.free_s, 0.0
        for begin_s, end_s in self.gaps:
            from_s = max(begin_s, came_s)
            if from_s >= end_s or not left_s:
                kept.append((begin_s, end_s))
                continue
            first_s = min(first_s, from_s)
            last_s = min(from_s + left_s, end_s)
            left_s = max(left_s - (end_s - from_s), 0.0)
            kept += [gap for gap in ((begin_s, from_s), (last_s, end_s)) if gap[1] > gap[0] + INSTANT_S]
        self.gaps = kept
        if left_s:
            self.free_s = last_s = self.free_s + left_s
        return first_s, last_s
