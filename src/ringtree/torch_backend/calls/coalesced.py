"""The collectives on several tensors at once: a call for each, and one Work for all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.distributed.distributed_c10d import AllgatherOptions, AllreduceCoalescedOptions, ReduceScatterOptions

from ringtree.runtime.communicator.communicator import Communicator
from ringtree.torch_backend.calls.forms import taking
from ringtree.torch_backend.calls.launching import Launching
from ringtree.torch_backend.tensors import (
    ENGINE_TYPES,
    Target,
    Tensors,
    alike,
    blocks,
    filled,
    filled_jointly,
    joined,
    operation,
    plain,
    together,
)
from ringtree.torch_backend.works.work import GroupWork

PACKED_BYTES = 1 << 14
"""The largest tensor, in bytes, whose copy costs less than a call of its own."""


class CoalescedOperations(Launching):
    """Coalesced calls: several tensors in one call of the engine where they are small."""

    @taking(AllreduceCoalescedOptions, tensors=1)
    def allreduce_coalesced(self, tensors: Tensors, opts: Any) -> GroupWork | None:
        """Reduces each tensor over all ranks, in place. Small tensors of one type go together."""
        op = operation(opts.reduceOp)
        packs = _packs(tensors)
        targets = [filled_jointly(pack) if len(pack) > 1 else filled(pack[0], read=True) for pack in packs]
        xs = [joined(pack) if len(pack) > 1 else out for pack, (out, _) in zip(packs, targets, strict=True)]
        counts = iter([[x.numel() for x in pack] for pack in packs])

        def begin(c: Communicator, x: torch.Tensor, out: torch.Tensor, async_op: bool) -> Any:
            lengths = next(counts)
            if len(lengths) == 1:
                return c.all_reduce(x, op, out=out, async_op=async_op)
            if out is not x:
                out.copy_(x)
            return c.all_reduce_packed(out, lengths, op, async_op=async_op)

        return self._together("all_reduce_coalesced", opts, tensors, tensors, begin, xs, targets)

    @taking(AllgatherOptions, outputs=1, inputs=1)
    def all_gather_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any) -> GroupWork | None:
        """Fills outputs[i] with all ranks' inputs[i], joined or stacked on a first axis."""
        xs, targets = [plain(x) for x in inputs], [filled(out) for out in outputs]
        name = "all_gather_into_tensor_coalesced"
        _check(name, xs, targets, self._size, 1)
        return self._together(name, opts, inputs, outputs, _begin_all_gather, xs, targets)

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    @taking(ReduceScatterOptions, outputs=1, inputs=1)
    def reduce_scatter_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any) -> GroupWork | None:
        """Fills outputs[i] with this rank's block of the reduction of inputs[i], joined or stacked as above."""
        op = operation(opts.reduceOp)
        xs, targets = [blocks(x, self._size) for x in inputs], [filled(out) for out in outputs]

        def begin(c: Communicator, x: torch.Tensor, out: torch.Tensor, async_op: bool) -> Any:
            return c.reduce_scatter(x, op, out=out, async_op=async_op)

        name = "reduce_scatter_tensor_coalesced"
        _check(name, xs, targets, 1, self._size)
        return self._together(name, opts, inputs, outputs, begin, xs, targets)

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    @taking(AllgatherOptions, output_lists=2, input_list=1)
    def allgather_coalesced(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any) -> GroupWork | None:
        """Fills outputs[r][i] with rank r's inputs[i], which is of one size on all ranks. ValueError: if a list is too
        short."""
        if len(outputs) != self._size or any(len(row) != len(inputs) for row in outputs):
            raise ValueError(
                f"outputs are lists of {[len(row) for row in outputs]} tensors; expected {self._size} lists of "
                f"{len(inputs)}: for each rank a tensor for each of the inputs"
            )
        xs = [plain(x) for x in inputs]
        rows = [alike([row[i] for row in outputs], x, f"outputs[:][{i}]") for i, x in enumerate(inputs)]
        targets = [filled_jointly(row) for row in rows]
        flat = [out for row in outputs for out in row]
        return self._together("all_gather_coalesced", opts, inputs, flat, _begin_all_gather, xs, targets)

    def _together(
        self,
        name: str,
        opts: Any,
        inputs: Tensors,
        outputs: Tensors,
        begin: Callable[[Communicator, torch.Tensor, torch.Tensor, bool], Any],
        xs: Tensors,
        targets: Sequence[Target],
    ) -> GroupWork | None:
        """Makes a call from each of `xs` to its target. A group's calls end in order, so the last call's end is the
        end of all."""
        if not xs or len(xs) != len(targets):
            raise ValueError(f"{name} of {len(xs)} tensors into {len(targets)}: expected at least one, and as many")

        def call(c: Communicator, async_op: bool) -> Any:
            return [begin(c, x, out, async_op) for x, (out, _) in zip(xs, targets, strict=True)][-1]

        return self.launch(name, opts, inputs, outputs, call, together([after for _, after in targets]))


def _check(name: str, xs: Tensors, targets: Sequence[Target], more: int, fewer: int) -> None:
    """ValueError where an output is not `more` times as long as its input, or `fewer` times as short: before the first
    call begins, for one that had begun would be counted on the other ranks alone."""
    for number, (x, (out, _)) in enumerate(zip(xs, targets, strict=False)):
        if x.dtype != out.dtype or x.numel() * more != out.numel() * fewer:
            raise ValueError(
                f"{name}: tensor {number} has {x.numel()} elements of {x.dtype} in and {out.numel()} of {out.dtype} "
                f"out; expected {x.numel() * more / fewer:g} out, of the same type"
            )


def _begin_all_gather(c: Communicator, x: torch.Tensor, out: torch.Tensor, async_op: bool) -> Any:
    return c.all_gather(x, out=out, async_op=async_op)


def _packs(xs: Tensors) -> list[Tensors]:
    """The tensors, of which small ones that the engine can reduce are put together by their type."""
    packs: dict[Any, list[torch.Tensor]] = {}
    for i, x in enumerate(map(plain, xs)):
        small = x.nbytes <= PACKED_BYTES and x.dtype in ENGINE_TYPES
        packs.setdefault(x.dtype if small else i, []).append(x)
    return list(packs.values())
