"""The collectives of uneven blocks: each rank has as many rows as it has.

Rows are the first axis; what comes after it agrees between ranks. `counts` are rows by rank, and the same on all ranks;
where a rank cannot know them, one small call exchanges them first. Results are joined along the first axis. It is the
even collectives' schedules that run, bound to these sizes, so that every algorithm serves here too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ringtree.errors import Mismatch
from ringtree.runtime import arrays
from ringtree.runtime.communicator import calls
from ringtree.runtime.communicator.arguments import numbers
from ringtree.runtime.communicator.collectives.collectives import Collectives
from ringtree.runtime.communicator.composite import CompositeCall

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ringtree.runtime.arrays import Array
    from ringtree.runtime.communicator.calls import CallRequest
    from ringtree.runtime.communicator.calls.operations import Operation
    from ringtree.runtime.communicator.member import AlgorithmChoice

    RowCounts = NDArray[np.int64]
    Rows = Sequence[int] | NDArray[Any] | None


class UnevenCollectives(Collectives):
    """All ranks of the group make the same calls in the same order."""

    def all_gather_v(
        self, x: Any, counts: Rows = None, *, out: Any = None, algorithm: AlgorithmChoice = None, async_op: bool = False
    ) -> Any:
        """All ranks' rows, rank 0's first, on every rank: [sum(counts), ...]. `x` [rows, ...]; `counts` [size], whole
        numbers: each rank's rows, which a small call gathers where it is None. ValueError: if counts[rank] is not the
        rows of `x`. Mismatch: if rows differ in length between ranks."""
        a = _rowed(x, "x")
        with CompositeCall(self._fail, "all_gather_v", counts is None):
            known = self._gathered(a) if counts is None else self._stated(counts, a)
            b = arrays.target(out, a, (int(known.sum()), *a.shape[1:]))
            request = self._uneven("all_gather", known, a, b, b.owner if out is None else out)
            return self._calls.perform(request, algorithm, async_op)

    def gather_v(
        self,
        x: Any,
        root: int = 0,
        counts: Rows = None,
        *,
        out: Any = None,
        algorithm: AlgorithmChoice = None,
        async_op: bool = False,
    ) -> Any:
        """All ranks' rows, rank 0's first, at the root: [sum(counts), ...]; None elsewhere, where `out` is left alone.
        Arguments and errors as in all_gather_v."""
        root = self._root(root)
        a = _rowed(x, "x")
        with CompositeCall(self._fail, "gather_v", counts is None):
            known = self._gathered(a) if counts is None else self._stated(counts, a)
            if self.rank != root:
                request = self._uneven("gather", known, a, None, None, root=root)
                return self._calls.perform(request, algorithm, async_op)
            b = arrays.target(out, a, (int(known.sum()), *a.shape[1:]))
            request = self._uneven("gather", known, a, b, b.owner if out is None else out, root=root)
            return self._calls.perform(request, algorithm, async_op)

    def scatter_v(
        self,
        x: Any,
        counts: Rows = None,
        root: int = 0,
        *,
        out: Any = None,
        algorithm: AlgorithmChoice = None,
        async_op: bool = False,
    ) -> Any:
        """This rank's counts[rank] rows of the root's `x`: the first counts[0] go to rank 0, the next to rank 1 and so
        on.

        The root gives `x` [sum(counts), ...] and `counts` [size], which a small broadcast sends to the others;
        elsewhere `x` is ignored, and `out` must be given. ValueError: if one of these is missing, or the sum is not the
        rows of `x`. Mismatch: if `out` or `counts` elsewhere do not agree with the root's.
        """
        root = self._root(root)
        announced = np.empty(self.size + 1, np.int64)
        if self.rank == root:
            if x is None or counts is None:
                raise ValueError(f"scatter_v needs x and counts on the root, rank {root}")
            a = _rowed(x, "x")
            announced[:-1], announced[-1] = self._listed(counts), _width(a)
            if announced[:-1].sum() != a.shape[0]:
                raise ValueError(f"x has {a.shape[0]} rows; expected {announced[:-1].sum()}, the sum of counts")
            b = arrays.target(out, a, (int(announced[root]), *a.shape[1:]))
            with CompositeCall(self._fail, "scatter_v"):
                self.broadcast(announced, root)
                request = self._uneven("scatter", announced[:-1], a, b, b.owner if out is None else out, root=root)
                return self._calls.perform(request, algorithm, async_op)
        if out is None:
            raise ValueError(f"scatter_v needs out on rank {self.rank}: only the root, {root}, knows what it sends")
        b = arrays.writable(out, on_device=True, moved=True)
        with CompositeCall(self._fail, "scatter_v"):
            self.broadcast(announced, root)
            mine, width = int(announced[self.rank]), int(announced[-1])
            if b.count != mine * width or (counts is not None and not np.array_equal(counts, announced[:-1])):
                listed = np.asarray(counts).tolist()
                found = f"out has {b.count} elements" if b.count != mine * width else f"counts are {listed}"
                self._at_odds(
                    f"{found} on rank {self.rank}; rank {root} sends {mine} rows of {width} elements", alone=True
                )
            request = self._uneven("scatter", announced[:-1], None, b, out, root=root, width=width)
            return self._calls.perform(request, algorithm, async_op)

    def reduce_scatter_v(
        self,
        x: Any,
        counts: Rows,
        op: Operation = "sum",
        *,
        out: Any = None,
        dtype: Any = None,
        algorithm: AlgorithmChoice = None,
        deterministic: bool | str = False,
        accumulate: str | None = None,
        async_op: bool = False,
    ) -> Any:
        """This rank's counts[rank] rows of the reduction of all ranks' `x` [sum(counts), ...], of which rank 0 has the
        first. `counts` [size], the same on all ranks. ValueError: if the sum is not the rows of `x`."""
        if deterministic or accumulate is not None:
            algorithm = calls.kept_order(deterministic, "reduce_scatter", algorithm, accumulate, x, dtype)
        a = _rowed(x, "x", dtype, moved=False)
        known = self._listed(counts)
        if known.sum() != a.shape[0]:
            raise ValueError(f"x has {a.shape[0]} rows; expected {known.sum()}, the sum of counts")
        b = arrays.target(out, a, (int(known[self.rank]), *a.shape[1:]))
        request = self._uneven("reduce_scatter", known, a, b, b.owner if out is None else out, op)
        return self._calls.perform(request, algorithm, async_op)

    def all_to_all_v(
        self,
        x: Any,
        counts: Rows,
        *,
        out: Any = None,
        out_counts: Rows = None,
        algorithm: AlgorithmChoice = None,
        async_op: bool = False,
    ) -> Any:
        """Sends the first counts[0] rows of `x` to rank 0, the next to rank 1 and so on; returns the received rows,
        rank 0's first.

        `counts` is this rank's row [size], which a small all_gather joins to a matrix, or on all ranks that matrix
        [size, size]: the rows that each rank (first axis) sends to each (second). ValueError: if this rank's sum is not
        the rows of `x`. Mismatch: if `out_counts` [size], the rows that this rank expects from each, differ.
        """
        a = _rowed(x, "x")
        given, wanted = np.asarray(counts), None if out_counts is None else self._listed(out_counts, "out_counts")
        if given.ndim == 2:
            matrix = np.stack([self._listed(row, "counts") for row in self._listed_rows(given)])
            if wanted is not None:
                self._compare(matrix, self.rank, wanted, alone=True)
            sent = matrix[self.rank]
        else:
            sent = self._listed(counts)
        if sent.sum() != a.shape[0]:
            raise ValueError(f"x has {a.shape[0]} rows; expected {sent.sum()}, the sum of its counts")
        with CompositeCall(self._fail, "all_to_all_v", given.ndim != 2):
            if given.ndim != 2:
                matrix = self._joined(a, sent, wanted)
            b = arrays.target(out, a, (int(matrix[:, self.rank].sum()), *a.shape[1:]))
            request = self._uneven("all_to_all", matrix, a, b, b.owner if out is None else out)
            return self._calls.perform(request, algorithm, async_op)

    # -- how many rows each rank has

    def _uneven(
        self,
        collective: str,
        rows: RowCounts,
        x: Array | None,
        out: Array | None,
        result: Any,
        op: Operation = "",
        root: int = -1,
        width: int = 1,
    ) -> CallRequest:
        counts = rows * (width if x is None else _width(x))
        return calls.CallRequest(collective, int(counts.sum()), x, out, result, op, root, counts)

    def _listed(self, counts: Any, what: str = "counts") -> RowCounts:
        """Rows by rank, as the caller listed them."""
        shape = np.shape(counts)
        if shape != (self.size,):
            raise ValueError(f"{what} has shape {shape}; expected {(self.size,)}, rows for each rank")
        return numbers(counts, what)

    def _stated(self, counts: Rows, x: Array) -> RowCounts:
        """Listed counts, of which this rank's are those of `x`."""
        known = self._listed(counts)
        if known[self.rank] != x.shape[0]:
            raise ValueError(f"x has {x.shape[0]} rows; expected {known[self.rank]}, counts of rank {self.rank}")
        return known

    def _gathered(self, x: Array) -> RowCounts:
        """All ranks' counts of rows, by a small call; Mismatch where their rows are of different lengths."""
        table = self.all_gather(np.array([_width(x), x.shape[0]], np.int64))
        _agree(table[:, 0])
        rows: RowCounts = table[:, 1].copy()
        return rows

    def _joined(self, x: Array, sent: RowCounts, out_counts: RowCounts | None) -> RowCounts:
        """All ranks' counts of what they send, by a small call; Mismatch, on all of them, where one expects other."""
        n = self.size
        mine = np.full(1 + 2 * n, -1, np.int64)
        mine[0], mine[1 : n + 1] = _width(x), sent
        if out_counts is not None:
            mine[n + 1 :] = out_counts
        table = self.all_gather(mine)
        _agree(table[:, 0])
        matrix: RowCounts = table[:, 1 : n + 1].copy()
        for rank, wanted in enumerate(table[:, n + 1 :]):
            if wanted[0] >= 0:
                self._compare(matrix, rank, wanted)
        return matrix

    def _compare(self, matrix: RowCounts, rank: int, wanted: RowCounts, alone: bool = False) -> None:
        other = np.flatnonzero(matrix[:, rank] != wanted)
        if len(other):
            source = int(other[0])
            sent, expected = matrix[source, rank], wanted[source]
            self._at_odds(f"rank {source} sends rank {rank} {sent} rows, and rank {rank} expects {expected}", alone)

    def _at_odds(self, why: str, alone: bool) -> NoReturn:
        """Mismatch. Where this rank alone sees the mismatch (`alone`), the group fails, for the others would wait in
        vain."""
        if alone:
            self._endpoint.poison(why)
        raise Mismatch(why)

    def _listed_rows(self, matrix: NDArray[Any]) -> NDArray[Any]:
        if matrix.shape != (self.size, self.size):
            raise ValueError(f"counts has shape {matrix.shape}; expected {(self.size,)} or {(self.size, self.size)}")
        return matrix


def _rowed(x: Any, what: str, dtype: Any = None, moved: bool = True) -> Array:
    array = arrays.readable(x, dtype, on_device=True, moved=moved)
    if not array.shape:
        raise ValueError(f"{what} is a single number; expected an array with rows")
    return array


def _width(x: Array) -> int:
    """Elements of a row, as the engine counts them."""
    return math.prod(x.shape[1:]) * x.unit


def _agree(widths: RowCounts) -> None:
    if np.any(widths != widths[0]):
        other = int(np.flatnonzero(widths != widths[0])[0])
        raise Mismatch(
            f"a row has {widths[0]} elements on rank 0 and {widths[other]} on rank {other}; expected as many"
        )
