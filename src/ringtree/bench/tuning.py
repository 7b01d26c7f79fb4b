"""Calls whose times determine this machine's cost parameters, measured in turns for as long as there is time.

A machine's state changes while it is measured (clocks, neighbours, where caches lie), so all sizes are measured in
turns, next the one that had the least time so far, and what counts is the median over turns. Calls are repeated on the
same arrays, as programs and the usual benchmarks repeat them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING

from ringtree.bench.measure import Effort, measure_apart
from ringtree.bench.predicted import shared_memory
from ringtree.bench.sweep import SweepCase, cases
from ringtree.ir.collective import collective as find_collective
from ringtree.ir.units import count
from ringtree.plan import steps_for, workload
from ringtree.price.memory.fitting import MeasuredCall
from ringtree.runtime.engines.shm import nodes_and_speed
from ringtree.runtime.launch.spawn import Pool

if TYPE_CHECKING:
    from ringtree.runtime.communicator.communicator import Communicator

PROGRAMS = (
    ("all_reduce", "one_shot"),
    ("all_reduce", "two_shot"),
    ("all_reduce", "parameter_server"),
    ("broadcast", "flat"),
    ("reduce", "flat"),
    ("all_gather", "two_shot"),
)
"""One synchronization or two, all ranks alike or one that does the work, bytes copied or joined: no two costs always
come together."""
OVERSUBSCRIBED = ("all_reduce",)
"""The collectives measured over more ranks than cores: all ranks wait for all, which others do not need."""
ALONE = PROGRAMS[:1]
"""Measured on one rank alone, always: determines the costs of a call and of a copy."""
SIZES = (8, 512, 4 << 10, 32 << 10, 256 << 10, 2 << 20, 16 << 20, 64 << 20)
LEAST_NBYTES = 256 << 10
"""Up to this size each is measured once however little time there is: without them there is nothing to fit."""
SPREAD_SHARE = 0.3
"""The share of the time in which ranks are measured spread over NUMA nodes, where there are several."""
WARMUP = 2
MOST_CALLS, FEWEST_CALLS = 15, 3
CALLS_NBYTES = 16 << 20
"""Calls of a size in a turn: as many as move about CALLS_NBYTES, at least FEWEST_CALLS and at most MOST_CALLS."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """Measured calls, each with its median over the turns of its size; `turns` is the number of turns of all sizes."""

    calls: tuple[MeasuredCall, ...]
    turns: int


def tune(
    ranks: Sequence[int], seconds: float, step: Callable[[str], None], most_nbytes: int = SIZES[-1], whole: bool = True
) -> Tuning:
    """Measures for about `seconds`, the small sizes first, and each up to LEAST_NBYTES once at least; if `whole`, up to
    `most_nbytes`, which may take longer. `step` receives the next case as text.
    Where the machine has several NUMA nodes, one rank on each and the most that have a core each are measured spread
    over them, too.
    RankFailed: if ranks cannot be started or fail."""
    usable = sorted(os.sched_getaffinity(0))
    cores = len(usable)
    table = _by_size(row for n in sorted({1, *ranks}) for row in rows(n, cores, most_nbytes))
    node_of, _ = nodes_and_speed([{core} for core in usable])
    spread = spread_over_nodes(dict(zip(usable, node_of, strict=True)) if node_of else {}, max(ranks))
    least = len(table) if whole else _least(table)
    times, turns = in_turns(table, seconds * (1 - SPREAD_SHARE) if spread else seconds, step, least=least)
    calls = [as_measured(case, median(took), cores) for case, took in times.items()]
    if spread:
        few_and_many = sorted({len(set(nodes_and_speed([{core} for core in spread])[0])), len(spread)})
        table = _by_size(row for n in few_and_many for row in rows(n, cores, most_nbytes))
        least = len(table) if whole else _least(table)
        times, more = in_turns(table, seconds * SPREAD_SHARE, step, spread, least)
        calls += [as_measured(case, median(took), cores, spread) for case, took in times.items()]
        turns += more
    return Tuning(tuple(calls), turns)


def _by_size(table: Iterable[list[SweepCase]]) -> list[list[SweepCase]]:
    return sorted(table, key=lambda row: row[0].nbytes)


def _least(table: Sequence[Sequence[SweepCase]]) -> int:
    return sum(row[0].nbytes <= LEAST_NBYTES for row in table)


def spread_over_nodes(node_of: Mapping[int, int | None], ranks: int) -> tuple[int, ...]:
    """The core of each of `ranks` ranks or fewer, as many on each NUMA node, neighbours on different ones, by the node
    of each usable core; () where there is one node."""
    on = [[core for core, its in node_of.items() if its == node] for node in dict.fromkeys(node_of.values())]
    each = min(*map(len, on), ranks // len(on)) if len(on) > 1 else 0
    return tuple(cores[k] for k in range(each) for cores in on)


def in_turns(
    table: Sequence[Sequence[SweepCase]],
    seconds: float,
    step: Callable[[str], None],
    pin: Sequence[int] | bool = True,
    least: int = 0,
) -> tuple[dict[SweepCase, list[float]], int]:
    """(the median seconds of each case in the turns of its row, whose cases have one number of ranks; the number of
    turns). Next is always the row that had the least time so far, at first in the table's order. No turn begins after
    `seconds` but the first of the `least` first rows. A case without a turn is left out. `pin` as of a Pool."""
    times: dict[SweepCase, list[float]] = {}
    spent_s, turns, until_s = [0.0] * len(table), 0, time.monotonic() + seconds
    if not table or (seconds <= 0 and not least):
        return times, turns
    with ExitStack() as stack:
        pools = {n: stack.enter_context(Pool(n, pin=pin)) for n in sorted({row[0].ranks for row in table})}
        while turns < least or time.monotonic() < until_s:
            at = min(range(len(table)), key=spent_s.__getitem__)
            row = _rotated(table[at], turns)  # the first case finds the caches as another row left them
            step(f"{count(row[0].ranks, 'rank')}, {row[0].nbytes:,} bytes")
            began_s = time.monotonic()
            for case, took_s in zip(row, pools[row[0].ranks].run(_measured, row)[0], strict=True):
                times.setdefault(case, []).append(took_s)
            spent_s[at] += time.monotonic() - began_s
            turns += 1
    return times, turns


def _rotated(row: Sequence[SweepCase], turn: int) -> list[SweepCase]:
    first = turn % len(row)
    return [*row[first:], *row[:first]]


def rows(ranks: int, cores: int, most_nbytes: int = SIZES[-1]) -> list[list[SweepCase]]:
    """The calls that cost parameters are fitted to, a row a size."""
    found = []
    for nbytes in filter(lambda nbytes: nbytes <= most_nbytes, SIZES):
        here: list[SweepCase] = []
        for collective, algorithm in PROGRAMS if ranks > 1 else ALONE:
            if ranks <= cores or collective in OVERSUBSCRIBED:
                here += cases(collective, ranks, [nbytes], "float32", "sum", 0, algorithm)
        found.append(here)
    return found


def _measured(comm: Communicator, here: Sequence[SweepCase]) -> list[float]:
    """Median seconds of each."""
    found = []
    for case in here:
        calls = min(max(CALLS_NBYTES // max(case.nbytes * case.ranks, 1), FEWEST_CALLS), MOST_CALLS)
        found.append(median(measure_apart(comm, case, Effort(WARMUP, calls, check=False)).seconds))
    return found


def as_measured(case: SweepCase, took_s: float, cores: int, pin: Sequence[int] = ()) -> MeasuredCall:
    """The measured call as cost parameters are fitted to it: cut as it was, by those it was planned by, on the cores
    that its ranks were pinned to."""
    root = case.root if find_collective(case.collective).rooted else None
    memory = replace(shared_memory(case.ranks, pin=pin), cores=cores)
    what = case.algorithm, case.collective, case.ranks, root
    steps = steps_for(*what, case.nbytes, memory)
    return MeasuredCall(workload(*what, steps, memory.node_of), memory, case.nbytes, took_s)
