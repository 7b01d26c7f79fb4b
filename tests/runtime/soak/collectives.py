"""One collective call of a script on this rank: its arrays, the call, and the expected contents after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.communicator.messages.work import Work
from tests.runtime.soak.script import Call
from tests.runtime.soak.values import MOST, Tables, Values, differing

GUARD = 32
"""Bytes before and after an output, which must not change."""
_GUARD = np.full(GUARD, 0xA5, np.uint8)
ARENA_NBYTES = 4 * MOST + 3 * GUARD

Check = Callable[[Any], str]
"""The error in the result of a call, in words; "" if it is right."""


class Arenas:
    """Memory that calls take turns in: private, and two arrays that peers read in place."""

    def __init__(self, world: Communicator) -> None:
        self.private = np.zeros(ARENA_NBYTES, np.uint8)
        self.given, self.taken = (world.empty(ARENA_NBYTES, np.uint8) for _ in range(2))

    def output(self, call: Call, count: int, dtype: np.dtype[Any]) -> tuple[Values, Check]:
        """An array of `count` elements, and whether its surroundings are as they were."""
        nbytes = count * dtype.itemsize
        if call.later:
            arena = np.empty(nbytes + 3 * GUARD, np.uint8)
        else:
            arena = self.taken if call.place.startswith("symmetric") and not call.group else self.private
        begin = GUARD + call.offset % 16 // dtype.itemsize * dtype.itemsize
        before, after = arena[begin - GUARD : begin], arena[begin + nbytes : begin + nbytes + GUARD]
        before[:] = after[:] = _GUARD

        def untouched(_: Any) -> str:
            return "wrote outside of the output" if differing(before, _GUARD) or differing(after, _GUARD) else ""

        return arena[begin : begin + nbytes].view(dtype), untouched


class Caller:
    """Makes calls of one rank."""

    def __init__(self, tables: Tables, arenas: Arenas) -> None:
        self._tables, self._arenas = tables, arenas

    def begin(self, comm: Communicator, call: Call) -> tuple[Any, Check]:
        """The call's result, or its Work, and the check of what it comes to."""
        if call.collective == "barrier":
            return comm.barrier(async_op=call.later), _nothing
        x, wanted, position = self._data(comm, call)
        method = getattr(comm, f"{call.collective}_v" if call.cuts else call.collective)
        given = _options(comm, call)
        if call.collective == "broadcast":
            [want] = wanted
            out, untouched = self._arenas.output(call, len(want), want.dtype)
            if x is not None:
                out[:] = x
            return method(out, **given), _all(_equal(wanted), untouched)
        if not wanted:
            return method(x, **given), _nothing
        if call.place == "new" and x is not None:
            return method(x, **given), _equal(wanted)
        count = sum(map(len, wanted))
        if x is not None and call.place.endswith("in place"):
            whole, untouched = self._arenas.output(call, max(count, len(x)), x.dtype)
            x, given_x = whole[_window(len(x), count, position)], x
            x[:] = given_x
            out = whole[_window(count, len(x), position)]
        else:
            out, untouched = self._arenas.output(call, count, wanted[0].dtype)
            if x is not None and call.place == "symmetric" and not call.later and not call.group:
                x, given_x = self._arenas.given[: x.nbytes].view(x.dtype), x
                x[:] = given_x
        return method(x, out=out, **given), _all(_equal(wanted), untouched)

    def _data(self, comm: Communicator, call: Call) -> tuple[Values | None, list[Values], int]:
        """This rank's input, its expected blocks, and where the smaller of the two lies in the larger
        when they are one array."""
        n, me, root, name, begin = comm.size, comm.rank, call.root % comm.size, call.collective, call.offset
        here = self._tables.of_rank(call.dtype, me)[begin:]
        if name in ("all_reduce", "reduce", "scan", "exscan"):
            over = {"scan": me + 1, "exscan": me}.get(name, n)
            receives = over > 0 and (name != "reduce" or me == root)
            return here[: call.count], [self._reduced(call, over)[: call.count]] if receives else [], 0
        if name == "broadcast":
            want = self._tables.of_rank(call.dtype, root)[begin : begin + call.count]
            return want if me == root else None, [want], 0
        others = [self._tables.of_rank(call.dtype, rank)[begin:] for rank in range(n)]
        if name == "all_to_all":
            rows = [_cut(call, n, rank) for rank in range(n)]
            sent = [x[sum(row[:me]) :][: row[me]] for x, row in zip(others, rows, strict=True)]
            return here[: sum(rows[me])], sent, 0
        sizes = _cut(call, n)
        position = sum(sizes[:me])
        if name in ("all_gather", "gather"):
            receives = name == "all_gather" or me == root
            blocks = [x[:size] for x, size in zip(others, sizes, strict=True)]
            return here[: sizes[me]], blocks if receives else [], position
        whole = (others[root] if name == "scatter" else self._reduced(call, n))[: sum(sizes)]
        given = here[: sum(sizes)] if name == "reduce_scatter" or me == root else None
        return given, [whole[position : position + sizes[me]]], position

    def _reduced(self, call: Call, ranks: int) -> Values:
        return self._tables.reduced(call.op, call.dtype, ranks)[call.offset :]


def finished(made: Any, check: Check) -> str:
    """Waits for a call, if that is asynchronous; what is wrong with it."""
    return check(made.result() if isinstance(made, Work) else made)


def _options(comm: Communicator, call: Call) -> dict[str, Any]:
    """Arguments of the method beside its arrays."""
    name, root, n = call.collective, call.root % comm.size, comm.size
    given: dict[str, Any] = {"async_op": call.later}
    if name in ("broadcast", "reduce", "gather", "scatter"):
        given["root"] = root
    if name in ("all_reduce", "reduce", "scan", "exscan", "reduce_scatter"):
        given["op"] = call.op
    if not call.cuts:
        return given
    stated = bool(call.cuts & 1)  # else ranks ask one another
    if name == "all_to_all":
        rows = [_cut(call, n, rank) for rank in range(n)]
        given["counts"] = rows if stated else rows[comm.rank]
    elif stated or name == "reduce_scatter" or (name == "scatter" and comm.rank == root):
        given["counts"] = _cut(call, n)
    return given


def _cut(call: Call, n: int, row: int = 0) -> list[int]:
    """Elements of each of n blocks, alike or, where the call has `cuts`, different, some of them empty; in an
    all_to_all of the blocks that rank `row` sends."""
    if not call.cuts:
        return [call.count // n] * n
    weights = [(call.cuts >> 1) * (n * row + i + 1) // 3 % 5 for i in range(n)]
    count = call.count // n if call.collective == "all_to_all" else call.count
    return [count * weight // max(sum(weights), 1) for weight in weights]


def _window(count: int, other: int, position: int) -> slice:
    """Where an array of `count` elements lies in one that it shares with one of `other`."""
    return slice(0, count) if count >= other else slice(position, position + count)


def _nothing(result: Any) -> str:
    return "" if result is None else f"returned {type(result).__name__} where this rank gets nothing"


def _equal(wanted: list[Values]) -> Check:
    """The result is these arrays, one after the other."""

    def check(result: Any) -> str:
        flat, begin = result.reshape(-1), 0
        if flat.size != sum(map(len, wanted)):
            return f"has {flat.size} elements; expected {sum(map(len, wanted))}"
        for block, want in enumerate(wanted):
            if wrong := differing(flat[begin : begin + len(want)], want):
                return f"block {block}: {wrong}" if len(wanted) > 1 else wrong
            begin += len(want)
        return ""

    return check


def _all(*checks: Check) -> Check:
    return lambda result: next(filter(None, (check(result) for check in checks)), "")
