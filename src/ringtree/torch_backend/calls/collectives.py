"""The collectives, under torch's names old and new, over a communicator's. Here are those of one tensor."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch
from torch.distributed.distributed_c10d import (
    AllgatherOptions,
    AllreduceOptions,
    BarrierOptions,
    BroadcastOptions,
    ReduceOptions,
    ReduceScatterOptions,
)

from ringtree.runtime.communicator.calls.codes import CODE
from ringtree.runtime.communicator.calls.operations import Operation
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.torch_backend.calls.all_to_all import AllToAll
from ringtree.torch_backend.calls.coalesced import CoalescedOperations
from ringtree.torch_backend.calls.forms import taking
from ringtree.torch_backend.calls.launching import Prepared
from ringtree.torch_backend.calls.lists import Lists
from ringtree.torch_backend.calls.sparse import Sparse
from ringtree.torch_backend.tensors import BY_NUMBER, Tensors, blocks, filled, one, operation, plain
from ringtree.torch_backend.works.work import NO_TIMEOUT, GroupWork, Pending

_ALL_REDUCE, _BROADCAST = CODE["all_reduce"], CODE["broadcast"]
_ALL_GATHER, _REDUCE_SCATTER = CODE["all_gather"], CODE["reduce_scatter"]


class GroupCollectives(Lists, AllToAll, CoalescedOperations, Sparse):
    """The backend's collectives. Tensors are dense ones on the CPU or CUDA (else TypeError), in lists of one (else
    ValueError), of any type for calls that move them and of docs/types.md's for those that reduce. Roots are ranks of
    this group."""

    @taking(AllreduceOptions, tensors=1)
    def allreduce(self, tensors: Tensors, opts: Any) -> GroupWork | None:
        """Reduces the tensor over all ranks, in place; sparse tensors too."""
        x = tensors[0] if len(tensors) == 1 else one(tensors)
        op = BY_NUMBER.get(hash(opts.reduceOp)) or operation(opts.reduceOp)
        return self.launch_again("all_reduce", opts, tensors, tensors, _ALL_REDUCE, x, x, op, -1, self._all_reduce)

    def _all_reduce(self, x: torch.Tensor, _: torch.Tensor, op: Operation, root: int) -> Prepared:
        if x.layout is not torch.strided:
            return self._all_reduce_sparse(x, op)
        out, after = filled(x, read=True)
        return (lambda c, a: c.all_reduce(out, op, out=out, async_op=a)), after

    @taking(BroadcastOptions, tensors=1)
    def broadcast(self, tensors: Tensors, opts: Any) -> GroupWork | None:
        """Copies the root's tensor into every rank's."""
        x = one(tensors)
        root = self._root(opts)
        return self.launch_again("broadcast", opts, tensors, tensors, _BROADCAST, x, x, "", root, self._broadcast)

    def _broadcast(self, x: torch.Tensor, _: torch.Tensor, op: Operation, root: int) -> Prepared:
        out, after = filled(x, read=True)
        return (lambda c, a: c.broadcast(out, root, async_op=a)), None if self._rank == root else after

    @taking(ReduceOptions, tensors=1)
    def reduce(self, tensors: Tensors, opts: Any) -> GroupWork | None:
        """Reduces the tensor over all ranks into the root's, in place; elsewhere it stays as it is."""
        root, op = self._root(opts), operation(opts.reduceOp)
        x, after = filled(one(tensors), read=True)
        if self._rank != root:
            after = None
        return self.launch(
            "reduce", opts, tensors, tensors, lambda c, a: c.reduce(x, op, root, out=x, async_op=a), after
        )

    @taking(AllgatherOptions, output=0, input=0)
    def all_gather_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any) -> GroupWork | None:
        """Fills `output` with all ranks' `input`, joined along the first axis or stacked on a new one."""
        name = "all_gather_into_tensor"
        return self.launch_again(name, opts, [input], [output], _ALL_GATHER, input, output, "", -1, _all_gather)

    _allgather_base = all_gather_single

    @taking(ReduceScatterOptions, outputTensor=0, inputTensor=0)
    def reduce_scatter_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any) -> GroupWork | None:
        """Fills `output` with this rank's block of the reduction of `input`, which has one a rank, joined or
        stacked."""
        name, op, how = "reduce_scatter_tensor", operation(opts.reduceOp), self._reduce_scatter
        return self.launch_again(name, opts, [input], [output], _REDUCE_SCATTER, input, output, op, -1, how)

    def _reduce_scatter(self, input: torch.Tensor, output: torch.Tensor, op: Operation, root: int) -> Prepared:
        x, (out, after) = blocks(input, self._size), filled(output)
        return (lambda c, a: c.reduce_scatter(x, op, out=out, async_op=a)), after

    _reduce_scatter_base = reduce_scatter_single

    @taking(BarrierOptions)
    def barrier(self, opts: Any) -> GroupWork | None:
        """Completes when all ranks have entered. Where `opts` has a timeout, a wait for it lasts no longer."""
        limit: timedelta = opts.timeout
        if limit <= NO_TIMEOUT:
            return self.launch("barrier", opts, (), (), _barrier)
        work = self.launch("barrier", None, (), (), _barrier)
        assert isinstance(work, Pending)
        work.limit = limit
        if opts.asyncOp:
            return work
        work.wait()
        return None


def _barrier(c: Communicator, async_op: bool) -> Any:
    return c.barrier(async_op=async_op)


def _all_gather(input: torch.Tensor, output: torch.Tensor, op: Operation, root: int) -> Prepared:
    x, (out, after) = plain(input), filled(output)
    return (lambda c, a: c.all_gather(x, out=out, async_op=a)), after
