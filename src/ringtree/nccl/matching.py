"""A log's measured times beside predicted ones, over all its sizes: small, middle, and large ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import hypot, log
from statistics import median

from ringtree.nccl.cluster_plan import Planned
from ringtree.nccl.estimate import Estimate
from ringtree.nccl.files.measured_rows import NcclTestsRow
from ringtree.nccl.interval import Interval

SMALL_BYTES = 1 << 13
LARGE_BYTES = 1 << 24
TAKEN = 3
"""The plateau is that of this many sizes, the largest ones."""
TRIED = 4
"""Sizes of each range, at most, that another prediction is compared with."""
SMALL_WITHIN = 2.5
"""The factor between times of small and middle sizes and a prediction that still fits: hosts differ more there than at
length."""
SLOW_START = 3.0
"""Small sizes that take more than this many times the predicted time are slow."""
IMPOSSIBLE = 1.05
"""A lower bound at least this many times the measured time proves that the log is of another topology."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One size of the log: its measured row, and the plan for the cluster without faults, with the pick's interval."""

    row: NcclTestsRow
    planned: Planned
    interval: Interval

    @property
    def latency_bound(self) -> bool:
        """Whether most of the predicted time does not grow with the size."""
        return self.planned.pick.latency_s > 0.5 * self.planned.pick.time_s

    @property
    def above(self) -> bool:
        """Whether the measured speed is above the interval."""
        return self.row.time_s < self.interval.low_s

    @property
    def below(self) -> bool:
        """Whether the measured speed is below the interval."""
        return self.row.time_s > self.interval.high_s


@dataclass(frozen=True, slots=True)
class MiddleSize:
    """One size, for several: the one in the middle by `ratio`, the predicted time over the measured (1: as predicted,
    less: slower)."""

    nbytes: int
    measured_s: float
    predicted_s: float

    @property
    def ratio(self) -> float:
        """Predicted over measured time: the measured speed as a share of the predicted."""
        return self.predicted_s / self.measured_s


@dataclass(frozen=True, slots=True)
class SizeRanges:
    """The rows of a log by size. `plateau`: the largest sizes whose time is not mostly latency."""

    start: tuple[Compared, ...]
    middle: tuple[Compared, ...]
    plateau: tuple[Compared, ...]

    @classmethod
    def of(cls, rows: Sequence[Compared]) -> SizeRanges:
        """The ranges of all rows."""
        large = [c for c in rows if c.row.nbytes >= LARGE_BYTES and not c.latency_bound]
        start = [c for c in rows if c.row.nbytes <= SMALL_BYTES]
        rest = [c for c in rows if c.row.nbytes > SMALL_BYTES and c not in large[-TAKEN:]]
        return cls(tuple(start), tuple(rest), tuple(large[-TAKEN:]))

    @property
    def thinned(self) -> SizeRanges:
        """A few rows of each range."""
        return SizeRanges(_some(self.start), _some(self.middle), self.plateau)


def _some(rows: Sequence[Compared]) -> tuple[Compared, ...]:
    return tuple(rows[:: max(-(-len(rows) // TRIED), 1)])


@dataclass(frozen=True, slots=True)
class Match:
    """A prediction beside the log, at length and at small sizes (None where the log has no such sizes), and
    `middle`: the median factor by which it is off between them, as a logarithm without sign."""

    at_length: MiddleSize | None
    at_start: MiddleSize | None
    middle: float

    @classmethod
    def of(cls, ranges: SizeRanges, predicted: Callable[[Compared], Estimate]) -> Match:
        """The match of a prediction for each row."""
        off = [abs(log(predicted(c).time_s / c.row.time_s)) for c in ranges.middle]
        return cls(
            middle_size(ranges.plateau, predicted), middle_size(ranges.start, predicted), median(off) if off else 0.0
        )

    def distance(self, within: float, slower: float = 0.0) -> float:
        """The distance of the measured times from the prediction; 1 is the largest deviation that fits, in any of the
        ranges. At length a factor of `within` fits, or of `slower` where it is measured to be slower."""
        length = log(self.at_length.ratio) if self.at_length else 0.0
        start = log(self.at_start.ratio) if self.at_start else 0.0
        fits = slower if length < 0 and slower else within
        between = log(max(fits, SMALL_WITHIN))
        return hypot(length / log(fits), start / log(SMALL_WITHIN), self.middle / between)


def middle_size(rows: Sequence[Compared], predicted: Callable[[Compared], Estimate]) -> MiddleSize | None:
    """The size in the middle by its ratio; None of no rows."""
    found = sorted(
        (MiddleSize(c.row.nbytes, c.row.time_s, predicted(c).time_s) for c in rows), key=lambda beside: beside.ratio
    )
    return found[len(found) // 2] if found else None


def is_impossible(planned: Planned, row: NcclTestsRow) -> bool:
    """Whether the row was quicker than the bound of its planned cluster."""
    return planned.bound.time_s > IMPOSSIBLE * row.time_s
