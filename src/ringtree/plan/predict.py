"""What a call would take among ranks that share memory, in closed form over what its schedule asks of them.

A schedule goes over the vector in fragments: the pieces it is cut into, each in windows that fit a staging slot. Its
rounds follow one another: each takes as long as its busiest rank, or all ranks' work over the cores, and a message's
way. Further fragments follow at the pace of the busiest rank, unless ranks wait for one another: then each takes as
long as the first. Where there are more ranks than cores, they take turns: each rank of a core one in each fragment and,
for less, at each further meeting.

Everything is a sum of so many times a figure; `vector` says how many times, and so figures are fitted (plan.fitting).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import ceil

import numpy as np
from numpy.typing import NDArray

from ringtree.algorithms import build
from ringtree.plan.counts import COPIED, MESSAGES, REDUCED, STEPS, Counts, counts
from ringtree.plan.figures import CALL_COSTS, RATES, Figures, weights
from ringtree.plan.steps import Steps

Floats = NDArray[np.float64]
CALL, LATENCY, MESSAGE, STEP, TURN, SWITCH = range(len(CALL_COSTS))


@dataclass(frozen=True, slots=True)
class Room:
    """Where a group's ranks run: on so many cores, with staging slots of so many bytes."""

    cores: int
    slots: int
    slot_bytes: int


@dataclass(frozen=True, slots=True)
class Prediction:
    """Seconds, in parts: `call_s` for the call itself, `latency_s` for meetings (messages, their way, and turns on a
    core), `copy_s` for a rank's own bytes, `fetch_s` for those that peers wrote, and `reduce_s`."""

    call_s: float
    latency_s: float
    copy_s: float
    fetch_s: float
    reduce_s: float

    @property
    def time_s(self) -> float:
        return self.call_s + self.latency_s + self.copy_s + self.fetch_s + self.reduce_s


def predict(
    algorithm: str,
    collective: str,
    ranks: int,
    root: int | None,
    nbytes: int,
    steps: Steps,
    figures: Figures,
    room: Room,
) -> Prediction:
    """What a call on a whole vector of `nbytes` takes, cut by these steps."""
    times = vector(counted(algorithm, collective, ranks, root, _whole(steps)), ranks, nbytes, steps, figures, room)
    spent = times * costs(figures)
    copy_s, fetch_s, reduce_s = spent[len(CALL_COSTS) :].reshape(len(RATES), -1).sum(axis=1).tolist()
    return Prediction(float(spent[CALL]), float(spent[LATENCY : SWITCH + 1].sum()), copy_s, fetch_s, reduce_s)


def costs(figures: Figures) -> Floats:
    """The figures in the order of `vector`: seconds, then seconds a byte."""
    rates = [1 / rate for name in RATES for rate in getattr(figures, name)]
    return np.array([getattr(figures, name) for name in CALL_COSTS] + rates)


def _whole(steps: Steps) -> Steps:
    """The steps that change what is done; the others only cut it."""
    options = tuple((name, 1 if name == "pieces" else value) for name, value in steps.options)
    return Steps(options, steps.many_source)


@lru_cache(maxsize=1024)
def counted(algorithm: str, collective: str, ranks: int, root: int | None, steps: Steps) -> Counts:
    return counts(
        steps.apply(algorithm, collective, ranks, root) if steps else build(algorithm, collective, ranks, root)
    )


def vector(known: Counts, ranks: int, nbytes: int, steps: Steps, figures: Figures, room: Room) -> Floats:
    """How many times each of `costs(figures)` a call takes. The figures themselves only tell who is the busiest."""
    pieces = dict(steps.options).get("pieces", 1) * steps.pipeline * steps.channels
    windows = _windows(known, nbytes / known.chunks / pieces, steps.split, room)
    fragments = pieces * windows
    chunk_nbytes = nbytes / known.chunks / fragments
    share = ranks / room.cores
    spread = weights(figures.memory_nbytes, nbytes * known.held * max(share, 1.0))
    work = _spread(known, chunk_nbytes, spread, len(figures.memory_nbytes))
    price = costs(figures)
    one = _slowest(work, price, room.cores).sum(axis=0)
    each = one
    if pieces > 1 or not known.mutual:
        each = _slowest(work.sum(axis=0, keepdims=True), price, room.cores)[0]
    times: Floats = one + (fragments - 1) * each
    times[CALL] = max(share, 1.0)
    if share > 1:
        # who waits for nobody fills slots until its turn is over
        ahead = 1 if known.mutual else max(room.slots // 2, 1)
        times[TURN] = share * ceil(fragments / ahead)
        times[SWITCH] = times[TURN] * (known.meetings - 1)
    else:
        times[LATENCY] = known.meetings * (fragments if each is one else 1)
    return times


def _slowest(work: Floats, price: Floats, cores: int) -> Floats:
    """Of each row of work [rows, ranks, costs] its busiest rank's or, if that is longer, all ranks' over the cores."""
    busiest = work[np.arange(len(work)), np.argmax(work @ price, axis=1)]
    shared = work.sum(axis=1) / cores
    found: Floats = np.where((busiest @ price >= shared @ price)[:, None], busiest, shared)
    return found


def _windows(known: Counts, chunk_nbytes: float, split: int, room: Room) -> int:
    """How often the engine goes through the program: as often as a message of the widest transfer fills a slot."""
    widest = min(split, known.widest) if split else known.widest
    return max(ceil(chunk_nbytes * widest / room.slot_bytes), 1)


def _spread(known: Counts, chunk_nbytes: float, spread: list[tuple[int, float]], sizes: int) -> Floats:
    """The counts of one fragment as columns of `costs`."""
    wide = np.zeros((*known.work.shape[:2], len(CALL_COSTS) + len(RATES) * sizes))
    wide[..., MESSAGE], wide[..., STEP] = known.work[..., MESSAGES], known.work[..., STEPS]
    moved = known.work[..., COPIED : REDUCED + 1] * chunk_nbytes
    for place, weight in spread:
        wide[..., len(CALL_COSTS) + place :: sizes] = moved * weight
    return wide
