"""The collectives that move equal blocks, and the barrier; and any schedule, run as its collective.

Each method first tries the fast path, as those that reduce do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ringtree.runtime import arrays
from ringtree.runtime.communicator import calls
from ringtree.runtime.communicator.agreement import agreed
from ringtree.runtime.communicator.calls.codes import CODE
from ringtree.runtime.communicator.collectives.reductions import Reductions
from ringtree.runtime.engines.fast_methods import BLOCK, BLOCKS, SAME, STACKED, fast

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ringtree.ir.schedule import Schedule
    from ringtree.runtime.communicator.calls.operations import Operation
    from ringtree.runtime.communicator.member import AlgorithmChoice

_ALL_GATHER, _GATHER, _SCATTER = CODE["all_gather"], CODE["gather"], CODE["scatter"]
_BROADCAST, _ALL_TO_ALL, _BARRIER = CODE["broadcast"], CODE["all_to_all"], CODE["barrier"]

_ndarray = np.ndarray


class Collectives(Reductions):
    """All ranks of the group make the same calls in the same order."""

    @fast(_ALL_GATHER, shape=STACKED)
    def all_gather(self, x: Any, *, out: Any = None, algorithm: AlgorithmChoice = None, async_op: bool = False) -> Any:
        """All ranks' `x`, stacked on a new first axis: [size, *x.shape]. `out` may have any shape of that many
        elements."""
        code = _ALL_GATHER if algorithm is None else self._code(_ALL_GATHER, algorithm)
        make = self._started if async_op else self.call_shaped
        if (made := make(code, x, out, "", -1, STACKED)) is not None:
            return made
        a = arrays.readable(x, on_device=True, moved=True)
        b = arrays.target(out, a, (self.size, *a.shape))
        request = calls.CallRequest("all_gather", b.count, a, b, b.owner if out is None else out)
        return self._calls.perform(request, algorithm, async_op)

    @fast(_BROADCAST, "filled")
    def broadcast(self, x: Any, root: int = 0, *, algorithm: AlgorithmChoice = None, async_op: bool = False) -> Any:
        """Fills `x` with the root's, and returns it. `x` has as many elements, of one type, on all ranks; elsewhere
        than at the root it must be writable and contiguous."""
        code = _BROADCAST if algorithm is None else self._code(_BROADCAST, algorithm)
        if async_op:
            if (work := self._started(code, x, x, "", root, SAME)) is not None:
                return work
        elif self.call(code, x, x, "", root):
            return x
        root = self._root(root)
        if self.rank == root:
            a = arrays.readable(x, on_device=True, moved=True)
            if not isinstance(x, _ndarray) or x.flags.writeable or a.copied:
                b = a
            else:  # no schedule needs to write to the root's array, but one that does must not meet read-only memory
                a = b = a.copy()
            result = a.owner if not hasattr(x, "shape") else x
        else:
            a = b = arrays.writable(x, "the array to broadcast into", on_device=True, moved=True)
            result = x
        return self._calls.perform(calls.CallRequest("broadcast", a.count, a, b, result, "", root), algorithm, async_op)

    @fast(_GATHER, "to_root", STACKED)
    def gather(
        self, x: Any, root: int = 0, *, out: Any = None, algorithm: AlgorithmChoice = None, async_op: bool = False
    ) -> Any:
        """All ranks' `x` at the root, stacked on a new first axis: [size, *x.shape]; None elsewhere, where `out` is
        left alone."""
        if type(root) is not int:
            root = self._root(root)
        code = _GATHER if algorithm is None else self._code(_GATHER, algorithm)
        if not async_op:
            if self.rank == root:
                if (made := self.call_shaped(code, x, out, "", root, STACKED)) is not None:
                    return made
            elif self.call(code, x, None, "", root):
                return None
        root = self._root(root)
        a = arrays.readable(x, on_device=True, moved=True)
        count = a.count * self.size
        if self.rank != root:
            return self._calls.perform(calls.CallRequest("gather", count, a, None, None, "", root), algorithm, async_op)
        b = arrays.target(out, a, (self.size, *a.shape))
        request = calls.CallRequest("gather", count, a, b, b.owner if out is None else out, "", root)
        return self._calls.perform(request, algorithm, async_op)

    @fast(_SCATTER, "from_root", BLOCK)
    def scatter(
        self, x: Any, root: int = 0, out: Any = None, *, algorithm: AlgorithmChoice = None, async_op: bool = False
    ) -> Any:
        """Block `rank` of the root's `x` [rows, ...], whose first axis is cut into one block a rank: [rows / size,
        ...]. Other ranks' `x` is ignored, and they must give `out`, of the block's size (else ValueError). ValueError:
        if `size` does not divide the rows."""
        if type(root) is not int:
            root = self._root(root)
        code = _SCATTER if algorithm is None else self._code(_SCATTER, algorithm)
        if not async_op:
            if self.rank == root:
                if (made := self.call_shaped(code, x, out, "", root, BLOCK)) is not None:
                    return made
            elif out is not None and self.call(code, None, out, "", root):
                return out
        root = self._root(root)
        if self.rank != root:
            if out is None:
                raise ValueError(
                    f"scatter needs out on rank {self.rank}: only the root, {root}, knows how much it sends; "
                    "expected numpy.empty(the shape of a block, its type), or scatter_object, which needs none"
                )
            b = arrays.writable(out, on_device=True, moved=True)
            request = calls.CallRequest("scatter", b.count * self.size, None, b, out, "", root)
        else:
            if x is None:
                raise ValueError(f"scatter needs x on the root, rank {root}")
            a = arrays.readable(x, on_device=True, moved=True)
            b = arrays.target(out, a, self._block(a.shape))
            request = calls.CallRequest("scatter", a.count, a, b, b.owner if out is None else out, "", root)
        return self._calls.perform(request, algorithm, async_op)

    @fast(_ALL_TO_ALL, shape=BLOCKS)
    def all_to_all(self, x: Any, *, out: Any = None, algorithm: AlgorithmChoice = None, async_op: bool = False) -> Any:
        """Sends block i of `x` [rows, ...], cut along its first axis, to rank i; block i of the result, in the shape of
        `x`, came from rank i. ValueError: if `size` does not divide the rows."""
        code = _ALL_TO_ALL if algorithm is None else self._code(_ALL_TO_ALL, algorithm)
        make = self._started if async_op else self.call_shaped
        if (made := make(code, x, out, "", -1, BLOCKS)) is not None:
            return made
        a = arrays.readable(x, on_device=True, moved=True)
        self._block(a.shape)
        b = arrays.target(out, a, a.shape)
        request = calls.CallRequest("all_to_all", a.count, a, b, b.owner if out is None else out)
        return self._calls.perform(request, algorithm, async_op)

    @fast(_BARRIER, "none")
    def barrier(self, *, algorithm: AlgorithmChoice = None, async_op: bool = False) -> Any:
        """Returns when all ranks have called it."""
        if algorithm is None and not async_op and self.call_barrier():
            return None
        token = self._token
        code = _BARRIER if algorithm is None else self._code(_BARRIER, algorithm)
        if not async_op and self.call(code, token, token, "max", -1):
            return None
        a = arrays.readable(token)
        return self._calls.perform(calls.CallRequest("barrier", 1, a, a, None, "max"), algorithm, async_op)

    def execute(
        self,
        schedule: Schedule,
        x: Any = None,
        *,
        op: Operation = "sum",
        out: Any = None,
        dtype: Any = None,
        unproved_ok: bool = False,
        async_op: bool = False,
    ) -> Any:
        """Runs a schedule as its `collective`, with that method's conventions for `x` and `out`.

        Proves it first (once): ProofError if it cannot be proved; `unproved_ok` runs it all the same. TypeError: if it
        is no Schedule. ValueError: if it is for another number of ranks.
        """
        self._calls.selection.admit(schedule, unproved_ok)
        promise = schedule.promise
        given: dict[str, Any] = {"algorithm": schedule, "async_op": async_op}
        if promise.repeats:
            return self.barrier(**given)
        if promise.reduces:
            given |= {"op": op, "dtype": dtype}
        if promise.rooted:
            given["root"] = schedule.root
        if schedule.collective != "broadcast":
            given["out"] = out
        elif out is not None and out is not x:
            raise TypeError("out is given to a broadcast, which fills x on every rank; expected none, or x")
        return getattr(self, schedule.collective)(x, **given)

    def _agreed(self, text: str, numbers: Sequence[int] = (0, 0, 0)) -> NDArray[np.int64]:
        """All ranks' numbers, a row a rank; Mismatch, alike on every rank, unless all texts are equal."""
        return agreed(self.all_gather, self._parameters.names, text, numbers)
