"""Collectives on lists of arrays: packed by element type, one call a type, and unpacked again.

The arrays may be of any shapes and types, alike on all ranks. What many small calls cost in messages, one costs here.
A Python function is no operation on packed arrays: it is called array by array.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ringtree.ir.digest import sha256
from ringtree.runtime import arrays
from ringtree.runtime.communicator import calls
from ringtree.runtime.communicator.arguments import listed, numbers
from ringtree.runtime.communicator.collectives.collectives import Collectives

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ringtree.runtime.arrays import Array
    from ringtree.runtime.communicator.calls.operations import Operation
    from ringtree.runtime.communicator.member import AlgorithmChoice

Arrays = Sequence[Any]


class Coalesced(Collectives):
    """All ranks of the group make the same calls in the same order."""

    def all_reduce_coalesced(
        self,
        xs: Arrays,
        op: Operation = "sum",
        *,
        out: Arrays | None = None,
        dtype: Any = None,
        algorithm: AlgorithmChoice = None,
        deterministic: bool | str = False,
        accumulate: str | None = None,
    ) -> list[Any]:
        """all_reduce of each array: a list of arrays in the shapes of `xs`. Without `out`, those of one type share
        memory. ValueError: if `out` has another number of arrays."""
        given: dict[str, Any] = {"dtype": dtype, "algorithm": algorithm, "deterministic": deterministic}
        given["accumulate"] = accumulate
        xs, out = listed(xs, "xs", "arrays"), None if out is None else listed(out, "out", "arrays")
        if isinstance(calls.as_op(op), calls.Op):
            return [self.all_reduce(x, op, out=o, **given) for x, o in zip(xs, _outs(out, xs), strict=True)]
        inputs = [arrays.readable(x, dtype) for x in xs]
        targets = _targets(out, inputs, [a.shape for a in inputs])
        results: list[Any] = [None] * len(inputs)
        for alike in _by_type(inputs):
            flat = _new(inputs, alike)
            for i, span in _spans(inputs, alike, 1):
                flat[span] = inputs[i].owner.reshape(-1)
            self.all_reduce_packed(flat, [inputs[i].count for i in alike], op, **given)
            for i, span in _spans(inputs, alike, 1):
                results[i] = _placed(flat[span].reshape(inputs[i].shape), targets[i])
        return results if out is None else out

    def reduce_scatter_coalesced(
        self,
        xs: Arrays,
        op: Operation = "sum",
        *,
        out: Arrays | None = None,
        dtype: Any = None,
        algorithm: AlgorithmChoice = None,
        deterministic: bool | str = False,
        accumulate: str | None = None,
    ) -> list[Any]:
        """reduce_scatter of each array [rows, ...]: a list of [rows / size, ...]. ValueError: if `size` does not divide
        the rows of one, or `out` has another number of arrays."""
        given: dict[str, Any] = {"dtype": dtype, "algorithm": algorithm, "deterministic": deterministic}
        given["accumulate"] = accumulate
        xs, out = listed(xs, "xs", "arrays"), None if out is None else listed(out, "out", "arrays")
        if isinstance(calls.as_op(op), calls.Op):
            return [self.reduce_scatter(x, op, out=o, **given) for x, o in zip(xs, _outs(out, xs), strict=True)]
        n = self.size
        inputs = [arrays.readable(x, dtype) for x in xs]
        shapes = [self._block(a.shape) for a in inputs]
        targets = _targets(out, inputs, shapes)
        results: list[Any] = [None] * len(inputs)
        for alike in _by_type(inputs):
            flat = _new(inputs, alike).reshape(n, -1)
            for i, span in _spans(inputs, alike, n):
                flat[:, span] = inputs[i].owner.reshape(n, -1)
            mine = arrays.new(inputs[alike[0]], (flat.shape[1],)).owner
            chosen = calls.kept_order(deterministic, "reduce_scatter", algorithm, accumulate, flat, dtype)
            self._packed("reduce_scatter", flat, mine, [inputs[i].count for i in alike], chosen, op, dtype=dtype)
            for i, span in _spans(inputs, alike, n):
                results[i] = _placed(mine[span].reshape(shapes[i]), targets[i])
        return results if out is None else out

    def all_gather_coalesced(
        self, xs: Arrays, *, out: Arrays | None = None, algorithm: AlgorithmChoice = None
    ) -> list[Any]:
        """all_gather of each array: a list of [size, *x.shape]. ValueError: if `out` has another number of arrays."""
        n = self.size
        inputs = [arrays.readable(x) for x in listed(xs, "xs", "arrays")]
        out = None if out is None else listed(out, "out", "arrays")
        targets = _targets(out, inputs, [(n, *a.shape) for a in inputs])
        results: list[Any] = [None] * len(inputs)
        for alike in _by_type(inputs):
            flat = _new(inputs, alike)
            for i, span in _spans(inputs, alike, 1):
                flat[span] = inputs[i].owner.reshape(-1)
            rows = arrays.new(inputs[alike[0]], (n, len(flat))).owner
            self._packed("all_gather", flat, rows, [inputs[i].count for i in alike], algorithm)
            for i, span in _spans(inputs, alike, 1):
                results[i] = _placed(rows[:, span].reshape((n, *inputs[i].shape)), targets[i])
        return results if out is None else out

    def broadcast_coalesced(self, xs: Arrays, root: int = 0, *, algorithm: AlgorithmChoice = None) -> list[Any]:
        """Fills each array with the root's, and returns them."""
        root = self._root(root)
        here = self.rank == root
        xs = listed(xs, "xs", "arrays")
        inputs = [arrays.readable(x) if here else arrays.writable(x, "an array to broadcast into") for x in xs]
        for alike in _by_type(inputs):
            flat = _new(inputs, alike)
            for i, span in _spans(inputs, alike, 1) if here else ():
                flat[span] = inputs[i].owner.reshape(-1)
            self._packed("broadcast", flat, flat, [inputs[i].count for i in alike], algorithm, root=root)
            for i, span in () if here else _spans(inputs, alike, 1):
                inputs[i].owner.reshape(-1)[:] = flat[span]
        return xs

    def all_reduce_packed(
        self,
        flat: Any,
        counts: Sequence[int],
        op: Operation = "sum",
        *,
        dtype: Any = None,
        algorithm: AlgorithmChoice = None,
        deterministic: bool | str = False,
        accumulate: str | None = None,
        async_op: bool = False,
    ) -> Any:
        """all_reduce, in place, of arrays of `counts` elements each, packed one after another into `flat`
        [sum(counts)], which it returns. Mismatch: if ranks packed other counts."""
        chosen = calls.kept_order(deterministic, "all_reduce", algorithm, accumulate, flat, dtype)
        known = numbers(counts, "counts")
        return self._packed("all_reduce", flat, flat, known, chosen, op, dtype=dtype, async_op=async_op)

    def _packed(
        self,
        collective: str,
        flat: Any,
        into: Any,
        counts: Sequence[int] | NDArray[np.int64],
        algorithm: AlgorithmChoice,
        op: Operation = "",
        root: int = -1,
        *,
        dtype: Any = None,
        async_op: bool = False,
    ) -> Any:
        a, b = arrays.readable(flat, dtype, True), arrays.writable(into, "out", dtype, True)
        if collective == "all_reduce" and sum(counts) != a.count:
            raise ValueError(f"counts add up to {sum(counts)}; expected {a.count}, the elements of the packed array")
        digest = int.from_bytes(sha256(np.array(counts, np.int64).tobytes()).digest()[:4], "little") or 1
        request = calls.CallRequest(collective, max(a.count, b.count), a, b, into, op, root, packed=digest)
        return self._calls.perform(request, algorithm, async_op)


def _outs(out: Arrays | None, xs: Arrays) -> Arrays:
    if out is not None and len(out) != len(xs):
        raise ValueError(f"out has {len(out)} arrays; expected {len(xs)}, as many as there are to reduce or gather")
    return [None] * len(xs) if out is None else out


def _targets(out: Arrays | None, inputs: list[Array], shapes: list[tuple[int, ...]]) -> list[Array | None]:
    """The array of each result, checked before anything is sent; None: a new array."""
    pairs = zip(_outs(out, inputs), inputs, shapes, strict=True)
    return [None if o is None else arrays.target(o, a, shape) for o, a, shape in pairs]


def _placed(result: Any, into: Array | None) -> Any:
    if into is not None:
        into.owner.reshape(-1)[:] = result.reshape(-1)
    return result


def _by_type(inputs: list[Array]) -> list[list[int]]:
    """Positions of arrays of one type and kind, in order of first mention."""
    groups: dict[tuple[Any, ...], list[int]] = {}
    for i, a in enumerate(inputs):
        groups.setdefault((a.dtype, type(a.owner).__module__, a.owner.dtype), []).append(i)
    return list(groups.values())


def _new(inputs: list[Array], alike: list[int]) -> Any:
    return arrays.new(inputs[alike[0]], (sum(inputs[i].count for i in alike),)).owner


def _spans(inputs: list[Array], alike: list[int], parts: int) -> Iterator[tuple[int, slice]]:
    """The slice of each array `alike` in the packed array, or in each of its `parts` parts."""
    at = 0
    for i in alike:
        count = inputs[i].count // parts
        yield i, slice(at, at + count)
        at += count
