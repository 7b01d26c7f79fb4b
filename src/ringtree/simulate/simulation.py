"""The input and the result of a simulation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.collective import collective
from ringtree.ir.program import Program
from ringtree.ir.schedule import Schedule
from ringtree.ir.trace import Trace
from ringtree.topology import Topology


@dataclass(frozen=True, slots=True)
class Job:
    """One collective among several at once: a schedule, or every rank's program in order of ranks, on a whole vector of
    `nbytes`. Its rank r is the topology's rank r."""

    what: Schedule | Sequence[Program]
    nbytes: int
    start_s: float = 0.0

    @property
    def head(self) -> Schedule | Program:
        """The schedule, or the first program: source of name, collective and chunks."""
        return self.what if isinstance(self.what, Schedule) else self.what[0]

    @property
    def called(self) -> str:
        """The job's name in a trace."""
        return f"{self.head.name} {self.head.collective}({self.nbytes} bytes)"

    @property
    def chunk_nbytes(self) -> NDArray[np.int64]:
        """Bytes of each chunk by its label."""
        return collective(self.head.collective).chunk_sizes(self.head.ranks, self.head.chunks, self.nbytes)


@dataclass(frozen=True, slots=True, eq=False)
class Simulation:
    """The result of a simulation. `time_s`: seconds from the start of the first job to the end of all. `link_busy_s`,
    `link_nbytes` [links]: the seconds in which each link of the topology was busy, and the bytes that crossed it."""

    trace: Trace
    topology: Topology
    link_busy_s: NDArray[np.float64]
    link_nbytes: NDArray[np.int64]
    time_s: float


class StuckError(RuntimeError):
    """A deadlock in a simulation: one line with the waiting rank, the message it waits for, and the failed link."""
