"""The time of a call among ranks that share memory, in closed form over the counts of its schedule.

A schedule goes over the vector in fragments: the pieces it is cut into, each in windows that fit a staging slot. Its
rounds follow one another: each takes the time of its busiest rank, or where ranks share cores of the busiest core, and
a message's latency. Further fragments follow at the pace of the busiest one, unless ranks wait for one another: then
each takes as long as the first. Where there are more ranks than cores, they take turns: each rank of a core one in each
fragment and, for less, at each further synchronization.

Where ranks are on several NUMA nodes, a rank reads bytes of another node at a lower rate, a synchronization in which a
message crosses takes longer, and a round takes at least as long as its bytes into a node, or out of it, on the node's
link. A rank's own work takes as long as on the slowest core of the group: which rank is on it, the formula leaves open.

The time is linear in the cost parameters; `multiples` returns the coefficients, by which the parameters are fitted
(price.memory.fitting).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.schedule import Schedule
from ringtree.price.memory.counting import COPIED, KINDS, MESSAGES, STEPS, Counts, counts
from ringtree.price.memory.parameters import (
    CALL_COSTS,
    NODE_COSTS,
    RATES,
    CostParameters,
    SharedMemory,
    rates_of,
    weights,
)

Floats = NDArray[np.float64]
CALL, LATENCY, MESSAGE, STEP, TURN, SWITCH = range(len(CALL_COSTS))


@dataclass(frozen=True, slots=True)
class Workload:
    """A schedule's counts, and how it is cut for a vector: each chunk into `pieces`, done one after the other or side
    by side, and no message longer than `split` chunks (0: as the schedule has them). `single_copy`: counted so."""

    counts: Counts
    pieces: int = 1
    split: int = 0
    single_copy: bool = False


@dataclass(frozen=True, slots=True)
class MemoryQuote:
    """Seconds, in parts: `call_s` for the call itself, `latency_s` for synchronizations (messages, their latency, and
    turns on a core), `copy_s` for a rank's own bytes, `fetch_s` for those that peers wrote, and `reduce_s`. What
    crosses between NUMA nodes is in `latency_s` and `fetch_s`."""

    call_s: float
    latency_s: float
    copy_s: float
    fetch_s: float
    reduce_s: float

    @property
    def seconds(self) -> float:
        """The sum of all parts, in seconds."""
        return self.call_s + self.latency_s + self.copy_s + self.fetch_s + self.reduce_s

    def times(self, factor: float) -> MemoryQuote:
        """All parts, multiplied."""
        parts = self.call_s, self.latency_s, self.copy_s, self.fetch_s, self.reduce_s
        return MemoryQuote(*(part * factor for part in parts))


def seconds(schedule: Schedule, memory: SharedMemory, nbytes: int) -> float:
    """Seconds of the schedule, as it is cut, on a whole vector of `nbytes`. Cost: O(rows of its blocks)."""
    return quote(Workload(counts(schedule, memory.node_of)), memory, nbytes).seconds


def quote(work: Workload, memory: SharedMemory, nbytes: int) -> MemoryQuote:
    """The time of a call on a whole vector of `nbytes`, and its parts."""
    cost, spent = memory.parameters, _spent(work, memory, nbytes)
    rates = cost.seconds_a_byte(spent.held_nbytes, spent.oversubscribed)
    copy_s, fetch_s, reduce_s, attach_s = (b * s for b, s in zip(spent.work[COPIED:], rates, strict=True))
    latency_s = spent.latencies * cost.latency_s + spent.turns * cost.turn_s + spent.switches * cost.switch_s
    latency_s += spent.work[MESSAGES] * cost.message_s + spent.work[STEPS] * cost.step_s
    latency_s += spent.crossings * cost.across_s
    fetch_s += attach_s + spent.crossed / cost.across_Bps + spent.linked / cost.link_Bps
    return MemoryQuote(spent.calls * cost.call_s, latency_s, copy_s, fetch_s, reduce_s)


def costs(parameters: CostParameters) -> Floats:
    """The parameters in the order of `multiples`: seconds, then seconds a byte."""
    rates = [1 / rate for name in RATES for rate in getattr(parameters, name)]
    across = [parameters.across_s, 1 / parameters.across_Bps, 1 / parameters.link_Bps]
    return np.array([getattr(parameters, name) for name in CALL_COSTS] + rates + across)


def multiples(work: Workload, memory: SharedMemory, nbytes: int) -> Floats:
    """The number of times that a call pays each of `costs(memory.parameters)`. The parameters themselves only determine
    the busiest rank."""
    spent, sizes = _spent(work, memory, nbytes), memory.parameters.memory_nbytes
    across = len(CALL_COSTS) + len(RATES) * len(sizes)
    times = np.zeros(across + len(NODE_COSTS))
    times[: len(CALL_COSTS)] = (spent.calls, spent.latencies, *spent.work[:COPIED], spent.turns, spent.switches)
    for size, weight in weights(sizes, spent.held_nbytes):
        for rate, moved_nbytes in zip(rates_of(spent.oversubscribed), spent.work[COPIED:], strict=True):
            times[len(CALL_COSTS) + rate * len(sizes) + size] = moved_nbytes * weight
    times[across:] = spent.crossings, spent.crossed, spent.linked
    return times


class _Spent(NamedTuple):
    """The number of each cost of a call, and `work` by KINDS, the last four in bytes. `held_nbytes`: bytes of the
    arrays of a core's ranks; `oversubscribed`: whether those are several. Between nodes: `crossed` and `linked`, bytes
    of the busiest rank, and of the busiest link where that takes longer."""

    calls: float
    latencies: float
    turns: float
    switches: float
    work: list[float]
    held_nbytes: float
    oversubscribed: bool
    crossings: float
    crossed: float
    linked: float


def _spent(work: Workload, memory: SharedMemory, nbytes: int) -> _Spent:
    known, cost = work.counts, memory.parameters
    longest = max(work.single_copy * memory.single_copy_bytes, memory.slot_bytes)
    windows = _windows(known, nbytes / known.chunks / work.pieces, work.split, longest)
    fragments = work.pieces * windows
    chunk_nbytes = nbytes / known.chunks / fragments
    share = known.ranks / memory.cores
    held_nbytes = nbytes * known.held * max(share, 1.0)
    price = [cost.message_s, cost.step_s, *(chunk_nbytes * s for s in cost.seconds_a_byte(held_nbytes, share > 1))]
    if known.links.shape[1]:
        price.append(chunk_nbytes / cost.across_Bps)
    slower = 1 / memory.speed
    what = np.array(price) * slower, chunk_nbytes / cost.link_Bps, memory.cores
    one = known.times @ _slowest(known.work, known.links, *what)
    follows = work.pieces > 1 or not known.mutual
    each = _slowest(known.total[None], (known.times @ known.links)[None], *what)[0] if follows else one
    done = (one + (fragments - 1) * each).tolist()
    done[COPIED:] = [chunks * chunk_nbytes for chunks in done[COPIED:]]
    crossed, linked = done[len(KINDS) :] or (0.0, 0.0)
    done = [each * slower for each in done[: len(KINDS)]]
    again = 1 if follows else fragments
    if share <= 1:
        latencies, crossings = known.synchronizations * again, known.crossings * again
        return _Spent(slower, latencies, 0.0, 0.0, done, held_nbytes, False, crossings, crossed * slower, linked)
    # a rank that waits for no other fills slots until its turn is over
    ahead = 1 if known.mutual else max(memory.slots // 2, 1)
    turns = share * ceil(fragments / ahead) * slower
    switches = turns * (known.synchronizations - 1)
    # other ranks have their turns while a message is on its way
    return _Spent(share * slower, 0.0, turns, switches, done, held_nbytes, True, 0.0, crossed * slower, linked)


def _slowest(work: Floats, links: Floats, price: Floats, link_s: float, cores: int) -> Floats:
    """The busiest core's work of each row of `work` [rows, ranks, kinds], neighbours on one. Where there are links
    between nodes [rows, ends], one kind more: chunks on the busiest link, which are all where that takes longer still,
    else 0."""
    if (ranks := work.shape[1]) > cores:
        work = np.add.reduceat(work, [-(-core * ranks // cores) for core in range(cores)], axis=1)
    found: Floats = work[np.arange(len(work)), np.argmax(work @ price, axis=1)]
    if not links.shape[1]:
        return found
    busiest, zero = links.max(axis=1), np.zeros((len(work), 1))
    on_link = (busiest * link_s > found @ price)[:, None]
    return np.where(on_link, np.eye(1, len(price) + 1, len(price)) * busiest[:, None], np.hstack([found, zero]))


def _windows(known: Counts, chunk_nbytes: float, split: int, slot_bytes: int) -> int:
    """The number of times that the engine runs the program: as often as a message of the widest transfer fills a
    slot."""
    widest = min(split, known.widest) if split else known.widest
    return max(ceil(chunk_nbytes * widest / slot_bytes), 1)
