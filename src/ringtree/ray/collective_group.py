"""A group of ray.util.collective: Ray's interface over a Communicator.

Ray hands over each array in a list, one for each GPU of an actor; here is one, in the CPU's memory. Every operation is
in place, and returns when its arrays may be used again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from ray.util.collective.collective_group.base_collective_group import BaseGroup
from ray.util.collective.types import ReduceOp

from ringtree.ray.meeting import meet
from ringtree.runtime.arrays import Array, readable, writable
from ringtree.runtime.bootstrap.environment import patience
from ringtree.runtime.engines.engine import native_module

OPERATIONS = {ReduceOp.SUM: "sum", ReduceOp.PRODUCT: "prod", ReduceOp.MIN: "min", ReduceOp.MAX: "max"}


class CollectiveGroup(BaseGroup):  # type: ignore[misc]
    """This actor's part of a group. All members make the same collectives in the same order, outside of which are
    messages.

    Arrays are numpy's or torch's, contiguous and in the CPU's memory; those that an operation fills must be writable,
    which those that Ray hands over to an actor are not. TypeError, ValueError: for other arrays. PeerDied, Mismatch,
    TimedOut: as a Communicator's calls raise them.
    """

    def __init__(self, world_size: int, rank: int, group_name: str) -> None:
        import ray

        super().__init__(world_size, rank, group_name)
        name = f"{ray.get_runtime_context().namespace}/{group_name}"
        self._comm, self._leave = meet(name, rank, world_size, patience(None))

    @classmethod
    def backend(cls) -> str:
        """The backend's name, as Ray writes it."""
        return "RINGTREE"

    @classmethod
    def check_backend_availability(cls) -> bool:
        """Whether the native engine is installed."""
        try:
            native_module()
        except (ImportError, RuntimeError):
            return False
        return True

    def destroy_group(self) -> None:
        """Ends this actor's part; the others notice it as a rank that left."""
        self._leave()

    def allreduce(self, tensor: Sequence[Any], allreduce_options: Any) -> None:
        """Fills the array with the reduction of all members'."""
        x = self._filled(tensor)
        self._comm.all_reduce(x, self._operation(allreduce_options), out=x)

    def barrier(self, barrier_options: Any = None) -> None:
        """Returns when all members have called it."""
        self._comm.barrier()

    def reduce(self, tensor: Sequence[Any], reduce_options: Any) -> None:
        """Fills the root's array with the reduction of all members'; the others' stay as they are."""
        root, operation = reduce_options.root_rank, self._operation(reduce_options)
        if self.rank == root:
            x = self._filled(tensor)
            self._comm.reduce(x, operation, root, out=x)
        else:
            self._comm.reduce(self._given(tensor), operation, root)

    def broadcast(self, tensor: Sequence[Any], broadcast_options: Any) -> None:
        """Fills the array with the root's."""
        root = broadcast_options.root_rank
        self._comm.broadcast(self._given(tensor) if self.rank == root else self._filled(tensor), root)

    def allgather(self, tensor_list: Sequence[Any], tensor: Sequence[Any], allgather_options: Any = None) -> None:
        """Fills the list's array of each rank with that rank's."""
        x = self._given(tensor)
        outs = [self._written(out, f"array {rank} to fill") for rank, out in enumerate(self._one(tensor_list))]
        listed = self._listed(outs, x, "to fill")
        for out, row in zip(listed, self._comm.all_gather(x), strict=True):
            _copy(out, row)

    def reducescatter(self, tensor: Sequence[Any], tensor_list: Sequence[Any], reducescatter_options: Any) -> None:
        """Fills the array with the reduction of the members' arrays of this rank; the lists stay as they are."""
        out, operation = self._filled(tensor), self._operation(reducescatter_options)
        xs = self._listed([self._read(x) for x in self._one(tensor_list)], out, "to reduce")
        self._comm.reduce_scatter(_stacked(xs), operation, out=out)

    def send(self, tensor: Sequence[Any], send_options: Any) -> None:
        """Sends the array to a rank; returns when the array may be changed, which may be before it is received."""
        self._comm.send(self._given(tensor), send_options.dst_rank)

    def recv(self, tensor: Sequence[Any], recv_options: Any) -> None:
        """Fills the array with the earliest message from a rank."""
        self._comm.recv(self._filled(tensor), recv_options.src_rank)

    def _operation(self, options: Any) -> str:
        return OPERATIONS[options.reduceOp]

    def _one(self, tensors: Sequence[Any]) -> Any:
        """The only element of a list."""
        if len(tensors) != 1:
            raise ValueError(f"{self._me}: got {len(tensors)} arrays, one for each GPU; expected one of the CPU's")
        return tensors[0]

    def _given(self, tensors: Sequence[Any]) -> Any:
        """The only array of a list, which an operation will read."""
        return self._read(self._one(tensors)).owner

    def _filled(self, tensors: Sequence[Any]) -> Any:
        """The only array of a list, which an operation will fill."""
        self._written(x := self._one(tensors), "the array")
        return x

    def _read(self, x: Any) -> Array:
        try:
            return readable(x)
        except TypeError as error:
            raise TypeError(f"{self._me}: {error}") from None

    def _written(self, x: Any, what: str) -> Array:
        try:
            return writable(x, what)
        except (TypeError, ValueError) as error:
            hint = ": what Ray hands over to an actor is read-only, so pass a copy" if "read-only" in str(error) else ""
            raise type(error)(f"{self._me}: {error}{hint}") from None

    def _listed(self, arrays: list[Array], like: Any, use: str) -> list[Any]:
        """The arrays as operations take them: one for each rank, each as `like` is."""
        if len(arrays) != self.world_size:
            ranks = f"each of {self.world_size} ranks"
            raise ValueError(f"{self._me}: got {len(arrays)} arrays {use}; expected one for {ranks}")
        expected = _kind(readable(like))
        for rank, array in enumerate(arrays):
            if _kind(array) != expected:
                raise ValueError(
                    f"{self._me}: array {rank} {use} is {_kind(array)}; expected {expected}, as the single one"
                )
        return [array.owner for array in arrays]

    @property
    def _me(self) -> str:
        return f"rank {self.rank} of collective group {self.group_name!r}"


def _kind(array: Array) -> str:
    return f"{array.dtype.label} {list(array.shape)}"


def _stacked(xs: Sequence[Any]) -> Any:
    """The arrays one after another, [ranks, ...]."""
    if hasattr(xs[0], "new_empty"):
        import torch

        return torch.stack([torch.as_tensor(x) for x in xs])
    return np.stack([np.asarray(x) for x in xs])


def _copy(out: Any, row: Any) -> None:
    if hasattr(out, "copy_"):
        import torch

        out.copy_(torch.as_tensor(row))
    else:
        np.copyto(out, np.asarray(row))
