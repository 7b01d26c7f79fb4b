"""The collectives that reduce. Their options are all_reduce's.

Each method first tries the fast path, one native call that knows arrays which look like earlier ones: `fast` before the
method's frame is made, and the method itself for the algorithms and options that `fast` leaves to it. What neither
knows takes the slow path, through `Calls`, which teaches them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ringtree.runtime import arrays
from ringtree.runtime.communicator import calls
from ringtree.runtime.communicator.calls.codes import CODE
from ringtree.runtime.communicator.member import Member
from ringtree.runtime.engines.fast_methods import BLOCK, SAME, fast

if TYPE_CHECKING:
    from ringtree.runtime.communicator.calls.operations import Operation
    from ringtree.runtime.communicator.member import AlgorithmChoice

_ALL_REDUCE, _REDUCE_SCATTER, _REDUCE = CODE["all_reduce"], CODE["reduce_scatter"], CODE["reduce"]
_SCAN, _EXSCAN = CODE["scan"], CODE["exscan"]


class Reductions(Member):
    """All ranks of the group make the same calls in the same order."""

    @fast(_ALL_REDUCE)
    def all_reduce(
        self,
        x: Any,
        op: Operation = "sum",
        *,
        out: Any = None,
        dtype: Any = None,
        algorithm: AlgorithmChoice = None,
        deterministic: bool | str = False,
        accumulate: str | None = None,
        async_op: bool = False,
    ) -> Any:
        """The reduction of all ranks' `x`, on every rank: an array of the shape, element type and kind of `x`, or
        `out`. `x` has as many elements, of one type, on all ranks.

        `op`: a name (docs/types.md has those of each type, and how an average is rounded), `ringtree.scaled(factor)`,
        or a Python function of two arrays (see `ringtree.Op`). `dtype` names what the bits of a raw uint8 or
        uint16 array mean, as "bfloat16".

        `deterministic=True` always holds: the program fixes the order of a reduction, so the same call gives the same
        bits every time. `"rank_order"` asks for the same bits by every algorithm: only those that reduce all ranks at
        once, in order, are chosen; a ValueError refuses any other. `"ranks"` adds up in a balanced tree, so that 2**j
        times as many ranks, which share the same contributions, give the same bits (docs/types.md).

        `accumulate="float32"` rounds the sums of 16-bit and 8-bit floats once, at the end, by the same algorithms as
        `"rank_order"`; it changes nothing for other types.
        """
        if deterministic or accumulate is not None:
            algorithm = calls.kept_order(deterministic, "all_reduce", algorithm, accumulate, x, dtype)
        if dtype is None:
            code = _ALL_REDUCE if algorithm is None else self._code(_ALL_REDUCE, algorithm)
            if async_op:
                made = self._started(code, x, out, op, -1, SAME)
            else:
                made = self.call_shaped(code, x, out, op, -1, SAME)
            if made is not None:
                return made
        a = arrays.readable(x, dtype, on_device=True)
        b = arrays.target(out, a, a.shape)
        request = calls.CallRequest("all_reduce", a.count, a, b, b.owner if out is None else out, op)
        return self._calls.perform(request, algorithm, async_op)

    @fast(_REDUCE_SCATTER, shape=BLOCK)
    def reduce_scatter(
        self,
        x: Any,
        op: Operation = "sum",
        *,
        out: Any = None,
        dtype: Any = None,
        algorithm: AlgorithmChoice = None,
        deterministic: bool | str = False,
        accumulate: str | None = None,
        async_op: bool = False,
    ) -> Any:
        """Block `rank` of the reduction of all ranks' `x` [rows, ...], whose first axis is cut into one block a rank:
        [rows / size, ...]. ValueError: if `size` does not divide the rows. Other arguments as in all_reduce."""
        if deterministic or accumulate is not None:
            algorithm = calls.kept_order(deterministic, "reduce_scatter", algorithm, accumulate, x, dtype)
        if dtype is None:
            code = _REDUCE_SCATTER if algorithm is None else self._code(_REDUCE_SCATTER, algorithm)
            if async_op:
                made = self._started(code, x, out, op, -1, BLOCK)
            else:
                made = self.call_shaped(code, x, out, op, -1, BLOCK)
            if made is not None:
                return made
        a = arrays.readable(x, dtype, on_device=True)
        b = arrays.target(out, a, self._block(a.shape))
        request = calls.CallRequest("reduce_scatter", a.count, a, b, b.owner if out is None else out, op)
        return self._calls.perform(request, algorithm, async_op)

    @fast(_REDUCE, "to_root")
    def reduce(
        self,
        x: Any,
        op: Operation = "sum",
        root: int = 0,
        *,
        out: Any = None,
        dtype: Any = None,
        algorithm: AlgorithmChoice = None,
        deterministic: bool | str = False,
        accumulate: str | None = None,
        async_op: bool = False,
    ) -> Any:
        """The reduction of all ranks' `x` at the root, in the shape of `x`; None elsewhere, where `out` is left alone.
        Other arguments as in all_reduce."""
        if type(root) is not int:
            root = self._root(root)
        if deterministic or accumulate is not None:
            algorithm = calls.kept_order(deterministic, "reduce", algorithm, accumulate, x, dtype)
        if not async_op and dtype is None:
            code = _REDUCE if algorithm is None else self._code(_REDUCE, algorithm)
            if self.rank == root:
                if (made := self.call_shaped(code, x, out, op, root, SAME)) is not None:
                    return made
            elif self.call(code, x, None, op, root):
                return None
        root = self._root(root)
        a = arrays.readable(x, dtype, on_device=True)
        if self.rank != root:
            request = calls.CallRequest("reduce", a.count, a, None, None, op, root)
            return self._calls.perform(request, algorithm, async_op)
        b = arrays.target(out, a, a.shape)
        request = calls.CallRequest("reduce", a.count, a, b, b.owner if out is None else out, op, root)
        return self._calls.perform(request, algorithm, async_op)

    @fast(_SCAN)
    def scan(
        self,
        x: Any,
        op: Operation = "sum",
        *,
        out: Any = None,
        dtype: Any = None,
        algorithm: AlgorithmChoice = None,
        deterministic: bool | str = False,
        accumulate: str | None = None,
        async_op: bool = False,
    ) -> Any:
        """The reduction of `x` of ranks 0 to this one, in the shape of `x`. Arguments as in all_reduce. ValueError: if
        `op` is "avg"."""
        if deterministic or accumulate is not None:
            algorithm = calls.kept_order(deterministic, "scan", algorithm, accumulate, x, dtype)
        if not async_op and dtype is None:
            code = _SCAN if algorithm is None else self._code(_SCAN, algorithm)
            if (made := self.call_shaped(code, x, out, op, -1, SAME)) is not None:
                return made
        a = arrays.readable(x, dtype, on_device=True)
        b = arrays.target(out, a, a.shape)
        request = calls.CallRequest("scan", a.count, a, b, b.owner if out is None else out, op)
        return self._calls.perform(request, algorithm, async_op)

    def exscan(
        self,
        x: Any,
        op: Operation = "sum",
        *,
        out: Any = None,
        dtype: Any = None,
        algorithm: AlgorithmChoice = None,
        deterministic: bool | str = False,
        accumulate: str | None = None,
        async_op: bool = False,
    ) -> Any:
        """The reduction of `x` of the ranks before this one, in the shape of `x`; None on rank 0, where `out` is left
        alone. Arguments as in all_reduce. ValueError: if `op` is "avg"."""
        if deterministic or accumulate is not None:
            algorithm = calls.kept_order(deterministic, "exscan", algorithm, accumulate, x, dtype)
        if not async_op and dtype is None:
            code = _EXSCAN if algorithm is None else self._code(_EXSCAN, algorithm)
            if self.rank:
                if (made := self.call_shaped(code, x, out, op, -1, SAME)) is not None:
                    return made
            elif self.call(code, x, None, op, -1):
                return None
        a = arrays.readable(x, dtype, on_device=True)
        if self.rank == 0:
            return self._calls.perform(calls.CallRequest("exscan", a.count, a, None, None, op), algorithm, async_op)
        b = arrays.target(out, a, a.shape)
        request = calls.CallRequest("exscan", a.count, a, b, b.owner if out is None else out, op)
        return self._calls.perform(request, algorithm, async_op)
