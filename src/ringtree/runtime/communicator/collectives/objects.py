"""Collectives of Python objects, by pickle: as bytes of uneven lengths.

Unpickling runs code that the sender chose: only for groups whose ranks trust each other (all are one user's
processes). No other collective does it.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from ringtree.runtime.communicator import calls
from ringtree.runtime.communicator.arguments import listed
from ringtree.runtime.communicator.collectives.uneven import UnevenCollectives
from ringtree.runtime.communicator.composite import CompositeCall

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Bytes = NDArray[np.uint8]


class Objects(UnevenCollectives):
    """All ranks of the group make the same calls in the same order; objects are any that pickle can write."""

    def broadcast_object(self, obj: Any = None, root: int = 0) -> Any:
        """The root's object, on every rank. Unpickling runs code of the root's: only among ranks that trust it."""
        root = self._root(root)
        here = self.rank == root
        data = _written(obj) if here else np.empty(0, np.uint8)
        length = np.array([data.size], np.int64)
        with CompositeCall(self._fail, "broadcast_object"):
            self.broadcast(length, root)
            data = self.broadcast(data if here else np.empty(int(length[0]), np.uint8), root)
        return obj if here else pickle.loads(data)

    def gather_object(self, obj: Any, root: int = 0) -> list[Any] | None:
        """All ranks' objects in a list [size] at the root; None elsewhere. Unpickling runs code of the sender: only
        among ranks that trust each other."""
        root = self._root(root)
        data = _written(obj)
        with CompositeCall(self._fail, "gather_object"):
            lengths = self.all_gather(np.array([data.size], np.int64)).reshape(-1)
            joined = self.gather_v(data, root, lengths)
        return None if joined is None else _read(joined, lengths)

    def all_gather_object(self, obj: Any) -> list[Any]:
        """All ranks' objects in a list [size], on every rank. Unpickling runs code of the sender: only among ranks that
        trust each other."""
        data = _written(obj)
        with CompositeCall(self._fail, "all_gather_object"):
            lengths = self.all_gather(np.array([data.size], np.int64)).reshape(-1)
            joined = self.all_gather_v(data, lengths)
        return _read(joined, lengths)

    def scatter_object(self, objs: Sequence[Any] | None = None, root: int = 0) -> Any:
        """Object `rank` of the root's list, which has one a rank (else ValueError); elsewhere `objs` is ignored.
        Unpickling runs code of the root's: only among ranks that trust it."""
        root = self._root(root)
        length = np.empty(1, np.int64)
        data, lengths = None, None
        if self.rank == root:
            data, lengths = _joined([_written(o) for o in self._one_a_rank(objs)])
        with CompositeCall(self._fail, "scatter_object"):
            self.scatter(lengths, root, length)
            mine = self.scatter_v(data, lengths, root, out=np.empty(int(length[0]), np.uint8))
        return pickle.loads(mine)

    def all_to_all_object(self, objs: Sequence[Any]) -> list[Any]:
        """Sends object i of the list [size] to rank i; object i of the result came from rank i. ValueError: if the list
        has another length. Unpickling runs code of the sender: only among ranks that trust each other."""
        data, lengths = _joined([_written(o) for o in self._one_a_rank(objs)])
        with CompositeCall(self._fail, "all_to_all_object"):
            table = self.all_gather(lengths)
            joined = self.all_to_all_v(data, table)
        return _read(joined, table[:, self.rank])

    def reduce_object(self, obj: Any, op: Callable[[Any, Any], Any], root: int = 0) -> Any:
        """The objects folded in rank order, op(op(rank 0's, rank 1's), rank 2's) and so on, at the root; None
        elsewhere. TypeError: if `op` is no function. Unpickling runs code of the sender: only among ranks that trust
        each other."""
        fold = _function(op)
        objs = self.gather_object(obj, root)
        return None if objs is None else reduce(fold, objs)

    def all_reduce_object(self, obj: Any, op: Callable[[Any, Any], Any]) -> Any:
        """The objects folded in rank order, on every rank by itself. TypeError: if `op` is no function. Unpickling runs
        code of the sender: only among ranks that trust each other."""
        fold = _function(op)
        return reduce(fold, self.all_gather_object(obj))

    def _one_a_rank(self, objs: Sequence[Any] | None) -> Sequence[Any]:
        given = None if objs is None else listed(objs, "objs", "objects")
        if given is None or len(given) != self.size:
            found = "None" if given is None else f"{len(given)} objects"
            raise ValueError(f"got {found}; expected {self.size}, one for each rank")
        return given


def _written(obj: Any) -> Bytes:
    return np.frombuffer(pickle.dumps(obj, pickle.HIGHEST_PROTOCOL), np.uint8)


def _joined(pieces: list[Bytes]) -> tuple[Bytes, NDArray[np.int64]]:
    return np.concatenate(pieces), np.array([p.size for p in pieces], np.int64)


def _read(joined: Bytes, lengths: NDArray[np.int64]) -> list[Any]:
    ends = np.cumsum(lengths).tolist()
    data = memoryview(joined.tobytes())
    return [pickle.loads(data[end - n : end]) for n, end in zip(lengths.tolist(), ends, strict=True)]


def _function(op: Any) -> Callable[[Any, Any], Any]:
    given = calls.as_op(op)
    if not isinstance(given, calls.Op):
        raise TypeError(f"got {op!r} as an operation on objects; expected a function of two")
    return given.function
