"""A collective call as the communicator hands it on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ringtree.ir.collective import collective as find_collective
from ringtree.runtime.arrays import delivered, dtype_of, is_jax
from ringtree.runtime.communicator.calls.codes import CODE

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from ringtree.runtime.arrays import Array
    from ringtree.runtime.communicator.calls.binding import Ints
    from ringtree.runtime.types import Dtype


class CallRequest:
    """One call: `count` elements in the whole vector, this rank's windows of it (None: it has none there), and what
    the caller gets. `op` is "" where nothing is reduced, `root` -1 where there is none, `counts` the elements of
    uneven blocks, as `bind` takes them. `packed`: a digest of what all ranks must have alike besides: how several
    arrays lie in it, the name of an opaque type; else 0."""

    __slots__ = ("collective", "count", "counts", "dtype", "op", "out", "packed", "root", "written", "x")

    def __init__(
        self,
        collective: str,
        count: int,
        x: Array | None,
        out: Array | None,
        result: Any,
        op: Any = "",
        root: int = -1,
        counts: Ints | None = None,
        packed: int = 0,
    ) -> None:
        self.collective, self.count, self.x, self.out, self.written = collective, count, x, out, result
        array = x or out
        assert array is not None
        self.op, self.root, self.counts, self.packed = op, root, counts, packed ^ array.digest
        self.dtype: Dtype = array.dtype

    @property
    def result(self) -> Any:
        """The caller's result of the call, once that has begun."""
        return self.written if self.device is None else delivered(self.written)

    @property
    def is_kept(self) -> bool:
        """Whether its arrays, of a library that does not know the stream of the call, are kept until it has ended."""
        return self.device is not None and is_jax(self.x and self.x.owner)

    @property
    def device(self) -> int | None:
        """The number of the device whose memory the arrays are in; None on the host."""
        array = self.x or self.out
        return None if array is None else array.device

    def by_address(self, offset: int, async_op: bool) -> tuple[Any, ...] | None:
        """The arguments of the fast path by addresses; None for calls that it never knows, and for synchronous ones of
        plain buffers, which were tried as such. `offset`: added to the collective's code, for the algorithm."""
        shown = self.x or self.out
        if self.counts is not None or self.packed or shown is None:
            return None
        if not (async_op or shown.copied or shown.format() is None):
            return None
        x = (0, 0) if self.x is None else (self.x.address, self.x.count)
        out = (0, 0) if self.out is None else (self.out.address, self.out.count)
        return (CODE[self.collective] + offset, self.dtype, self.op, self.root, *x, *out)


def plan_key(collective: str, dtype: DTypeLike, op: str, root: int) -> tuple[str, Dtype, str, int]:
    """Collective, element type, operation and root as plans are kept by them: "" and -1 where there is none."""
    promise = find_collective(collective)
    operation = ("max" if promise.repeats else op) if promise.reduces else ""
    return collective, dtype_of(dtype), operation, root if promise.rooted else -1
