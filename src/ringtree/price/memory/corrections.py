"""Factors between measured calls of an algorithm and the times that its counts predict."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from itertools import groupby
from math import exp, log
from typing import NamedTuple

from ringtree.ir.digest import sha256

LARGEST = 1000.0
"""The largest factor, and the inverse of the smallest."""


MOST = 1 << 50
"""More ranks or bytes than there are anywhere."""


class Correction(NamedTuple):
    """Calls of the algorithm over `ranks` ranks on a whole vector of `nbytes` take `factor` times the predicted
    time."""

    collective: str
    algorithm: str
    ranks: int
    nbytes: int
    factor: float


class Corrections:
    """Corrections of one machine, equal where all of them are. Between two sizes the factor's logarithm follows that of
    the size; beyond the measured ones it is the nearest's; of what was not measured it is 1."""

    def __init__(self, corrections: Iterable[Correction] = ()) -> None:
        self.all = tuple(sorted(corrections))
        self._by_call = {
            call: [(log(max(c.nbytes, 1)), log(c.factor)) for c in found]
            for call, found in groupby(self.all, lambda c: c[:3])
        }

    def factor(self, collective: str, algorithm: str, ranks: int, nbytes: int) -> float:
        """The factor by which the predicted time of such a call is multiplied."""
        if not (points := self._by_call.get((collective, algorithm, ranks))):
            return 1.0
        x = log(max(nbytes, 1))
        above = next((k for k, (size, _) in enumerate(points) if size >= x), len(points))
        if above in (0, len(points)):
            return exp(points[min(above, len(points) - 1)][1])
        (x0, y0), (x1, y1) = points[above - 1 : above + 1]
        return exp(y0 + (y1 - y0) * (x - x0) / (x1 - x0))

    def __len__(self) -> int:
        return len(self.all)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Corrections) and self.all == other.all

    def __repr__(self) -> str:
        return f"<{len(self)} corrections {self._digest}>"  # ranks ask each other by it what has been chosen

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _digest(self) -> str:
        return sha256(repr(self.all).encode()).hexdigest()

    @cached_property
    def _hash(self) -> int:
        return hash(self.all)


def corrections_from(rows: object) -> Corrections:
    """Corrections from a list of lists of their fields. ValueError for anything else."""
    if not isinstance(rows, list | tuple):
        raise ValueError(f"corrections are {_short(rows)}; expected a list")
    return Corrections(map(_correction, rows))


def _correction(row: object) -> Correction:
    fields = tuple(row) if isinstance(row, list | tuple) else ()
    kinds: tuple[tuple[type, ...], ...] = (str,), (str,), (int,), (int,), (int, float)
    if len(fields) != len(kinds) or not all(isinstance(f, kind) for f, kind in zip(fields, kinds, strict=True)):
        raise ValueError(f"correction {_short(row)}; expected collective, algorithm, ranks, bytes and factor")
    found = Correction(*fields)
    if not (0 < found.ranks < MOST and 0 <= found.nbytes < MOST and 1 / LARGEST <= found.factor <= LARGEST):
        raise ValueError(
            f"correction {_short(row)}; expected a positive number of ranks, of bytes, and a factor of 1/{LARGEST:g} "
            f"to {LARGEST:g}"
        )
    return found


def _short(value: object) -> str:
    return repr(value)[:80]


NONE = Corrections()
