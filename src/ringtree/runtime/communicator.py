"""The communicator: a group of ranks, seen from one of them.

Conventions are numpy's: a collective returns a new array of the input's kind (numpy in, numpy out; a torch CPU tensor
in, a tensor out) unless `out=` is given; `out=x` is in place. All ranks of a group make the same calls in the same
order. Each collective takes `algorithm=` (a name; without one, a rule chooses) and `async_op=True` (returns a Work).

Each method first tries the engine's short way, `_call`: one native call that knows buffers which look like earlier
ones. What that does not know takes the long way, through `Calls`, which teaches it.
"""

from __future__ import annotations

import operator
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ringtree.ir.schedule import Schedule
from ringtree.runtime import lifetime, symmetric
from ringtree.runtime.arrays import dtype_named, readable, target, writable
from ringtree.runtime.binding import Bound
from ringtree.runtime.calls import CODE, Calls, Request
from ringtree.runtime.engine import Terms, join
from ringtree.runtime.messages import Batch, Operation, receiving, sending

if TYPE_CHECKING:
    from typing_extensions import Self

_ALL_REDUCE, _REDUCE_SCATTER, _ALL_GATHER = (CODE["all_reduce"], CODE["reduce_scatter"], CODE["all_gather"])
_BROADCAST, _REDUCE, _GATHER, _SCATTER = (CODE["broadcast"], CODE["reduce"], CODE["gather"], CODE["scatter"])
_ALL_TO_ALL, _BARRIER = CODE["all_to_all"], CODE["barrier"]

_ndarray, _empty = np.ndarray, np.empty
Algorithm = str | Schedule | None


class Communicator:
    """A group of ranks on one machine, and this rank's place in it. `ringtree.init()` makes one."""

    def __init__(self, engine: str, terms: Terms) -> None:
        self.rank = terms.rank
        self.size = terms.ranks
        self._engine, self._terms = engine, terms
        joined = join(engine, terms)
        self._seat: Any = joined.seat
        self._call: Any = joined.seat.call
        self._calls = Calls(joined, engine, terms, self._roomier)
        self._token = np.zeros(1, np.int32)  # what a barrier passes around
        self._made = 0  # groups and symmetric arrays made so far: names the place where the next one meets
        self._roomy: dict[int, Communicator] = {}  # by slots
        lifetime.watch(self)

    # -- collectives

    def all_reduce(
        self, x: Any, op: str = "sum", *, out: Any = None, algorithm: Algorithm = None, async_op: bool = False
    ) -> Any:
        """The reduction of all ranks' `x`, on every rank. Integer averages are truncated toward zero."""
        code = _ALL_REDUCE if algorithm is None else self._code(_ALL_REDUCE, algorithm)
        if not async_op:
            if out is not None:
                if self._call(code, x, out, op, -1):
                    return out
            elif type(x) is _ndarray:
                fresh = _empty(x.shape, x.dtype)
                if self._call(code, x, fresh, op, -1):
                    return fresh
        a = readable(x)
        b = target(out, a, a.shape)
        request = Request("all_reduce", a.count, a, b, b.owner if out is None else out, op)
        return self._calls.perform(request, algorithm, async_op)

    def reduce_scatter(
        self, x: Any, op: str = "sum", *, out: Any = None, algorithm: Algorithm = None, async_op: bool = False
    ) -> Any:
        """Block `rank` of the reduction of all ranks' `x`, whose first axis is cut into one block a rank."""
        code = _REDUCE_SCATTER if algorithm is None else self._code(_REDUCE_SCATTER, algorithm)
        if not async_op and out is not None and self._call(code, x, out, op, -1):
            return out
        a = readable(x)
        b = target(out, a, self._block(a.shape))
        request = Request("reduce_scatter", a.count, a, b, b.owner if out is None else out, op)
        return self._calls.perform(request, algorithm, async_op)

    def all_gather(self, x: Any, *, out: Any = None, algorithm: Algorithm = None, async_op: bool = False) -> Any:
        """All ranks' `x`, stacked on a new first axis; `out` may have any shape of that many elements."""
        code = _ALL_GATHER if algorithm is None else self._code(_ALL_GATHER, algorithm)
        if not async_op and out is not None and self._call(code, x, out, "", -1):
            return out
        a = readable(x)
        b = target(out, a, (self.size, *a.shape))
        request = Request("all_gather", b.count, a, b, b.owner if out is None else out)
        return self._calls.perform(request, algorithm, async_op)

    def broadcast(self, x: Any, root: int = 0, *, algorithm: Algorithm = None, async_op: bool = False) -> Any:
        """Fills `x` with the root's, and returns it."""
        code = _BROADCAST if algorithm is None else self._code(_BROADCAST, algorithm)
        if not async_op and self._call(code, x, x, "", root):
            return x
        root = self._root(root)
        if self.rank == root:
            a = readable(x)
            if not isinstance(x, _ndarray) or x.flags.writeable or a.copied:
                b = a
            else:  # no schedule needs to write to the root's array, but one that does must not meet read-only memory
                a = b = a.copy()
            result = a.owner if not hasattr(x, "shape") else x
        else:
            a = b = writable(x, "the array to broadcast into")
            result = x
        return self._calls.perform(Request("broadcast", a.count, a, b, result, "", root), algorithm, async_op)

    def reduce(
        self,
        x: Any,
        op: str = "sum",
        root: int = 0,
        *,
        out: Any = None,
        algorithm: Algorithm = None,
        async_op: bool = False,
    ) -> Any:
        """The reduction of all ranks' `x` at the root; None elsewhere, where `out` is left alone."""
        if self.rank != root:
            out = None
        code = _REDUCE if algorithm is None else self._code(_REDUCE, algorithm)
        short = not async_op and (out is not None or self.rank != root)
        if short and self._call(code, x, out, op, root):
            return out
        root = self._root(root)
        a = readable(x)
        if self.rank != root:
            return self._calls.perform(Request("reduce", a.count, a, None, None, op, root), algorithm, async_op)
        b = target(out, a, a.shape)
        request = Request("reduce", a.count, a, b, b.owner if out is None else out, op, root)
        return self._calls.perform(request, algorithm, async_op)

    def gather(
        self, x: Any, root: int = 0, *, out: Any = None, algorithm: Algorithm = None, async_op: bool = False
    ) -> Any:
        """All ranks' `x` at the root, stacked on a new first axis; None elsewhere, where `out` is left alone."""
        if self.rank != root:
            out = None
        code = _GATHER if algorithm is None else self._code(_GATHER, algorithm)
        short = not async_op and (out is not None or self.rank != root)
        if short and self._call(code, x, out, "", root):
            return out
        root = self._root(root)
        a = readable(x)
        count = a.count * self.size
        if self.rank != root:
            return self._calls.perform(Request("gather", count, a, None, None, "", root), algorithm, async_op)
        b = target(out, a, (self.size, *a.shape))
        request = Request("gather", count, a, b, b.owner if out is None else out, "", root)
        return self._calls.perform(request, algorithm, async_op)

    def scatter(
        self, x: Any, root: int = 0, out: Any = None, *, algorithm: Algorithm = None, async_op: bool = False
    ) -> Any:
        """Block `rank` of the root's `x`, whose first axis is cut into one block a rank. Elsewhere `x` is not looked
        at, and `out` must be given: it says how much is expected."""
        if self.rank != root:
            x = None
        code = _SCATTER if algorithm is None else self._code(_SCATTER, algorithm)
        if not async_op and out is not None and self._call(code, x, out, "", root):
            return out
        root = self._root(root)
        if self.rank != root:
            if out is None:
                raise ValueError(
                    f"scatter needs out on rank {self.rank}: only the root, {root}, knows how much it sends"
                )
            b = writable(out)
            request = Request("scatter", b.count * self.size, None, b, out, "", root)
        else:
            if x is None:
                raise ValueError(f"scatter needs x on the root, rank {root}")
            a = readable(x)
            b = target(out, a, self._block(a.shape))
            request = Request("scatter", a.count, a, b, b.owner if out is None else out, "", root)
        return self._calls.perform(request, algorithm, async_op)

    def all_to_all(self, x: Any, *, out: Any = None, algorithm: Algorithm = None, async_op: bool = False) -> Any:
        """Block i of `x` (cut along its first axis) goes to rank i; block i of the result came from rank i."""
        code = _ALL_TO_ALL if algorithm is None else self._code(_ALL_TO_ALL, algorithm)
        if not async_op and out is not None and self._call(code, x, out, "", -1):
            return out
        a = readable(x)
        self._block(a.shape)
        b = target(out, a, a.shape)
        request = Request("all_to_all", a.count, a, b, b.owner if out is None else out)
        return self._calls.perform(request, algorithm, async_op)

    def barrier(self, *, algorithm: Algorithm = None, async_op: bool = False) -> Any:
        """Returns when all ranks have called it."""
        token = self._token
        code = _BARRIER if algorithm is None else self._code(_BARRIER, algorithm)
        if not async_op and self._call(code, token, token, "max", -1):
            return None
        a = readable(token)
        return self._calls.perform(Request("barrier", 1, a, a, None, "max"), algorithm, async_op)

    def execute(
        self,
        schedule: Schedule,
        x: Any = None,
        *,
        op: str = "sum",
        out: Any = None,
        unproved_ok: bool = False,
        async_op: bool = False,
    ) -> Any:
        """Runs a schedule as the collective that it says it is, with that method's conventions for `x` and `out`.

        Proves it first (once), and refuses one that cannot be proved: `unproved_ok` runs it all the same.
        """
        self._calls.admit(schedule, unproved_ok)
        promise = schedule.promise
        given: dict[str, Any] = {"algorithm": schedule, "async_op": async_op}
        if promise.repeats:
            return self.barrier(**given)
        if promise.reduces:
            given["op"] = op
        if promise.rooted:
            given["root"] = schedule.root
        if schedule.collective != "broadcast":
            given["out"] = out
        return getattr(self, schedule.collective)(x, **given)

    def _roomier(self, slots: int) -> Calls:
        """The calls of a group of the same ranks with that many staging slots, made at first use."""
        group = self._roomy.get(slots)
        if group is None:
            terms = replace(self._terms, place=f"{self._terms.place}/slots{slots}", slots=slots)
            group = self._roomy[slots] = Communicator(self._engine, terms)
        return group._calls

    # -- point to point

    def send(self, x: Any, dst: int, tag: int = 0) -> None:
        """Returns when `x` may be changed again, which may be before `dst` has received it."""
        operation, _array = sending(x, dst, tag, self.size)
        self._seat.exchange([operation], self._terms.timeout_s)

    def recv(self, x: Any, src: int, tag: int = 0) -> Any:
        """Fills `x` with the oldest message of that tag from `src`, which must be of its size and type; returns it."""
        operation, _array = receiving(x, src, tag, self.size)
        self._seat.exchange([operation], self._terms.timeout_s)
        return x

    def batch(self) -> Batch:
        """Sends and receives that start together: see Batch."""
        return Batch(self.size, self._exchange)

    def _exchange(self, operations: list[Operation]) -> None:
        self._seat.exchange(operations, self._terms.timeout_s)

    # -- groups and memory

    def split(self, color: int | None, key: int = 0) -> Communicator | None:
        """The communicator of the ranks that said the same `color`, ordered by `key`, then by rank here; None for
        those who said None. All ranks of this group call it."""
        mine = [0, 0, 0] if color is None else [1, operator.index(color), operator.index(key)]
        table = np.asarray(self.all_gather(np.array(mine, dtype=np.int64))).tolist()
        self._made += 1
        if color is None:
            return None
        colors = sorted({c for here, c, _ in table if here})
        members = sorted((k, r) for r, (here, c, k) in enumerate(table) if here and c == mine[1])
        ranks = [r for _, r in members]
        place = f"{self._terms.place}/{self._made}.{colors.index(mine[1])}"
        names = tuple(self._terms.names[r] for r in ranks)
        look = partial(self._seat.look, "split")
        terms = Terms(place, ranks.index(self.rank), names, self._terms.timeout_s, self._terms.threads, look)
        return Communicator(self._engine, terms)

    def empty(self, shape: int | tuple[int, ...], dtype: DTypeLike = np.float32) -> NDArray[Any]:
        """An array in memory that peers read in place. All ranks of the group ask for the same. It is the group's: the
        memory is kept until the communicator is closed and the array is gone."""
        whole = (operator.index(shape),) if not isinstance(shape, tuple | list) else tuple(map(operator.index, shape))
        wanted = dtype_named(dtype)
        said = self.all_gather(symmetric.request(whole, wanted))  # a rank that died or asks for else is noticed here
        symmetric.agree(said, self._terms.names)
        self._made += 1
        place = f"{self._terms.place}/{self._made}"
        return symmetric.allocate(self._seat, self._terms, place, whole, wanted)

    # -- about itself

    def chosen(
        self,
        collective: str,
        count: int,
        dtype: DTypeLike = np.float32,
        *,
        op: str = "sum",
        root: int = 0,
        algorithm: Algorithm = None,
    ) -> Bound:
        """What a call on a whole vector of `count` elements runs: `.part.program` is this rank's program (its `name`,
        its `digest()`), `.why` says why it was chosen."""
        from ringtree.ir.collective import collective as find_collective

        promise = find_collective(collective)
        kind = readable(_empty(0, dtype_named(dtype))).dtype
        said = ("max" if promise.repeats else op) if promise.reduces else ""
        return self._calls.bound(collective, kind, said, root if promise.rooted else -1, count, algorithm)

    def counters(self) -> NDArray[np.int64]:
        """[size, 2]: bytes of collectives' payload received from each rank, and messages, since the last reset."""
        counted: NDArray[np.int64] = self._seat.counters()
        for group in self._roomy.values():
            counted = counted + group.counters()
        return counted

    def reset_counters(self) -> None:
        for group in (self, *self._roomy.values()):
            group._seat.reset_counters()

    def close(self) -> None:
        """Leaves the group. Peers that still wait for this rank get PeerDied."""
        if isinstance(self._seat, lifetime.Gone):
            return
        for group in self._roomy.values():
            group.close()
        lifetime.forget(self)
        seat = self._replace_seat(lifetime.Gone(f"this communicator (rank {self.rank} of {self.size}) is closed"))
        try:
            seat.close()
        finally:
            self._calls.let_go()

    def _replace_seat(self, other: Any) -> Any:
        seat, self._seat = self._seat, other
        self._call = other
        self._calls.replace_seat(other)
        return seat

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Communicator rank {self.rank} of {self.size}, engine {self._engine}>"

    # -- checks

    def _code(self, collective: int, algorithm: Algorithm) -> int:
        """By what number the short way knows a collective by a forced algorithm; -1 where it does not."""
        offset = self._calls.offsets.get(algorithm) if isinstance(algorithm, str) else None
        return -1 if offset is None else collective + offset

    def _root(self, root: int) -> int:
        number = operator.index(root)
        if not 0 <= number < self.size:
            raise ValueError(f"root {number}: expected a rank of this group, 0..{self.size - 1}")
        return number

    def _block(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of one of `size` blocks along the first axis."""
        if not shape or shape[0] % self.size:
            said = f"has {shape[0]} rows" if shape else "is a single number"
            raise ValueError(f"x {said}; expected a first axis that {self.size} ranks divide evenly")
        return (shape[0] // self.size, *shape[1:])
