"""One rank's part of a measurement: fill, line up, call, check, for as many iterations as were asked for."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ringtree.bench.data import Data, Values, datatype
from ringtree.bench.sweep import SweepCase
from ringtree.ir.collective import collective as find_collective

if TYPE_CHECKING:
    from ringtree.runtime.communicator.communicator import Communicator

Times = NDArray[np.float64]

AUTO_SECONDS = 0.1
"""Seconds that the timed calls take about, where no number of iterations is given …"""
AUTO_ITERATIONS = (20, 1000)
"""… but no fewer and no more than these. nccl-tests does 20."""

ACROSS = {0: "rank 0", 1: "avg", 2: "min", 3: "max"}
"""nccl-tests' -a: whose time a call's is. The slowest rank's by default: a collective is done when all are."""


@dataclass(frozen=True, slots=True)
class Effort:
    """Settings of a measurement: warm-up calls, timed calls (None: see AUTO_SECONDS), whether each is checked, whose
    time."""

    warmup: int = 5
    iterations: int | None = None
    check: bool = True
    across: int = 3
    symmetric: bool = False  # arrays from comm.empty, which peers read in place


@dataclass(frozen=True, slots=True)
class CallSide:
    """One way to make the call, out-of-place or in-place: the input to fill, the output to check (None: neither), the
    call."""

    x: Values | None
    y: Values | None
    call: Callable[[], object]


@dataclass(frozen=True, slots=True)
class Sample:
    """Times of all calls of one side, in seconds, and the number of wrong elements over all ranks and calls."""

    seconds: tuple[float, ...]
    wrong: int | None

    @property
    def median_us(self) -> float:
        """Median of the measured times, in microseconds."""
        return float(np.median(self.seconds)) * 1e6

    @property
    def best_us(self) -> float:
        """Shortest of the measured times, in microseconds."""
        return min(self.seconds) * 1e6


def measure(comm: Communicator, case: SweepCase, effort: Effort) -> tuple[Sample | None, Sample]:
    """Measures a case; all ranks call it and get the same (out-of-place, in-place). A barrier, which has no data, has
    no out-of-place side; a broadcast only ever fills its own array, so that out-of-place the root copies its data there
    first."""
    data = data_of(case)
    apart = None
    if not data.collective.repeats:
        apart = _time(comm, data, effort, _apart(comm, case, data, effort))
    return apart, _time(comm, data, effort, _in_place(comm, case, data, effort))


def measure_apart(comm: Communicator, case: SweepCase, effort: Effort) -> Sample:
    """Measures the out-of-place side alone; a barrier has none."""
    data = data_of(case)
    return _time(comm, data, effort, _apart(comm, case, data, effort))


def in_place(comm: Communicator, case: SweepCase, effort: Effort) -> CallSide:
    """The in-place call, with arrays of its own that are still 0."""
    return _in_place(comm, case, data_of(case), effort)


def data_of(case: SweepCase) -> Data:
    """The inputs of a case, and the outputs that they have."""
    promise = find_collective(case.collective)
    op = case.op if promise.reduces and not promise.repeats else "sum"
    return Data(promise, case.ranks, case.count, datatype(case.dtype), op, max(case.root, 0))


def _time(comm: Communicator, data: Data, effort: Effort, side: CallSide) -> Sample:
    clock = time.perf_counter
    times: list[float] = []
    wrong = 0
    planned = effort.warmup + effort.iterations if effort.iterations else max(effort.warmup, 2)
    while (turn := len(times)) < planned:
        if side.x is not None and (effort.check or not turn):
            data.fill(side.x, comm.rank, turn)
        comm.barrier()
        started = clock()
        side.call()
        times.append(clock() - started)
        if effort.check and side.y is not None:
            wrong += data.wrong(side.y, comm.rank, turn)
        if effort.iterations is None and len(times) == max(effort.warmup, 2):
            planned += _enough(comm, times[-1])
    worst = _agree(comm, np.array(times[effort.warmup :]), effort.across)
    total = int(comm.all_reduce(np.array([wrong]), op="sum")[0])
    return Sample(tuple(worst.tolist()), total if effort.check else None)


def _enough(comm: Communicator, seconds: float) -> int:
    """The number of calls to time when each takes about `seconds`; the same on every rank."""
    slowest = float(comm.all_reduce(np.array([seconds]), op="max")[0])
    low, high = AUTO_ITERATIONS
    return int(min(max(AUTO_SECONDS / max(slowest, 1e-9), low), high))


def _agree(comm: Communicator, times: Times, across: int) -> Times:
    if across == 0:
        return np.asarray(comm.broadcast(times, root=0))
    return np.asarray(comm.all_reduce(times, op=ACROSS[across]))


def _buffer(comm: Communicator, elements: int, data: Data, effort: Effort) -> Values:
    if effort.symmetric:  # all ranks allocate the same size
        return comm.empty(data.count, data.dtype)[:elements]
    return np.zeros(elements, data.dtype)


def _apart(comm: Communicator, case: SweepCase, data: Data, effort: Effort) -> CallSide:
    """Input and output are two arrays."""
    held, owed = data.held(comm.rank), data.owed(comm.rank)
    first = _buffer(comm, data.length(held), data, effort)
    second = _buffer(comm, data.length(owed), data, effort)
    x, y = first if held else None, second if owed else None
    return CallSide(x, y, _call(comm, case, x, y))


def _in_place(comm: Communicator, case: SweepCase, data: Data, effort: Effort) -> CallSide:
    """Input and output are windows of one array, as NCCL has it: the block that is gathered is where it ends."""
    held, owed = data.held(comm.rank), data.owed(comm.rank)
    first = min((w.start for w in (held, owed) if w), default=0)
    last = max((w.stop for w in (held, owed) if w), default=0)
    whole = _buffer(comm, data.length(range(first, last)), data, effort)
    size = data.length(range(1))

    def window(of: range) -> Values | None:
        return whole[(of.start - first) * size : (of.stop - first) * size] if of else None

    x = window(held)
    y = x if held == owed else window(owed)
    return CallSide(x, y, _call(comm, case, x, y))


def _call(comm: Communicator, case: SweepCase, x: Values | None, y: Values | None) -> Callable[[], object]:
    """The call as a user would write it, `out=` given."""
    root, op, algorithm = case.root, case.op, case.forced
    calls: dict[str, Callable[[], object]] = {
        "all_reduce": lambda: comm.all_reduce(x, op, out=y, algorithm=algorithm),
        "reduce_scatter": lambda: comm.reduce_scatter(x, op, out=y, algorithm=algorithm),
        "all_gather": lambda: comm.all_gather(x, out=y, algorithm=algorithm),
        "broadcast": lambda: comm.broadcast(y if x is None else _copied(x, y), root, algorithm=algorithm),
        "reduce": lambda: comm.reduce(x, op, root, out=y, algorithm=algorithm),
        "gather": lambda: comm.gather(x, root, out=y, algorithm=algorithm),
        "scatter": lambda: comm.scatter(x, root, y, algorithm=algorithm),
        "all_to_all": lambda: comm.all_to_all(x, out=y, algorithm=algorithm),
        "barrier": lambda: comm.barrier(algorithm=algorithm),
        "scan": lambda: comm.scan(x, op, out=y, algorithm=algorithm),
        "exscan": lambda: comm.exscan(x, op, out=y, algorithm=algorithm),
    }
    return calls[case.collective]


def _copied(x: Values, y: Values | None) -> Values:
    """The array to broadcast from: `x` itself, or `y` filled with it."""
    if y is None or x is y:
        return x
    np.copyto(y, x)
    return y
