"""torch's tensors and reductions as the engine takes them: contiguous, reductions by its names.

What is only moved may be of any type. What cannot be written as it lies is written beside, and copied when the call has
ended.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch.distributed import ReduceOp

from ringtree.runtime.communicator.calls.operations import Operation, scaled
from ringtree.runtime.types import BY_LABEL

Tensors = Sequence[torch.Tensor]
After = Callable[[], None]
Target = tuple[torch.Tensor, After | None]
"""Memory that the engine writes to, and the step after the call that copies it to the outputs."""

ENGINE_TYPES = {getattr(torch, label): int(dtype) for label, dtype in BY_LABEL.items() if hasattr(torch, label)}
"""The engine's element types and their codes."""
PLAIN = (torch.Tensor, torch.nn.Parameter)
"""The classes of tensors that are what their memory holds."""


EXPECTED = "expected a dense one on the CPU or CUDA"


class WithoutData(TypeError):
    """A tensor has a shape and a type only: a fake one, or one on the device meta."""


def plain(x: torch.Tensor) -> torch.Tensor:
    """`x` itself, dense, on the CPU or CUDA; waits first where `x` is the result of a functional collective.
    WithoutData: if there is nothing to send."""
    if type(x) not in PLAIN and hasattr(x, "trigger_wait"):
        x = x.trigger_wait()
    if x.is_nested:
        raise TypeError(f"got a nested tensor on {x.device}; {EXPECTED}")
    if without_data(x):
        raise WithoutData(f"got a {str(x.layout)[6:]} tensor on {x.device} without data; {EXPECTED}")
    if x.layout is not torch.strided or not (x.is_cpu or x.is_cuda):
        raise TypeError(f"got a {str(x.layout)[6:]} tensor on {x.device}; {EXPECTED}")
    return x


def without_data(x: torch.Tensor) -> bool:
    """Whether `x` has a shape and a type only: it is on the device meta, or one of FakeTensorMode's."""
    if x.is_meta:
        return True
    fakes = sys.modules.get("torch._subclasses.fake_tensor") if type(x) not in PLAIN else None
    return fakes is not None and isinstance(x, fakes.FakeTensor)


def all_without_data(given: Any) -> bool:
    """Whether all tensors of a call are without data."""
    found: list[torch.Tensor] = []
    _collect(given, found)
    return bool(found) and all(map(without_data, found))


def _collect(x: Any, found: list[torch.Tensor]) -> None:
    if isinstance(x, torch.Tensor):
        found.append(x)
    elif isinstance(x, list | tuple):
        for each in x:
            _collect(each, found)


def filled(out: torch.Tensor, read: bool = False) -> Target:
    """Memory to be written by a call, and the step after the call that copies it to `out`. `read`: the call reads the
    contents of `out`, too."""
    out = plain(out)
    if in_order(out):
        return out, None
    out = out.detach()
    beside = torch.empty(out.shape, dtype=out.dtype, device=out.device)
    if read:
        beside.copy_(out)
    return beside, lambda: _copy([out], [beside])


def device_of(*lists: Tensors) -> torch.device | None:
    """The CUDA device of a call's first tensor; None for the CPU's, and where there is none."""
    x = next((xs[0] for xs in lists if len(xs)), None)
    return x.device if x is not None and x.is_cuda else None


def on_host(x: torch.Tensor) -> torch.Tensor:
    """`x` where messages find it: a copy, once the stream's work on `x` has ended, of what is on a device."""
    return x.cpu() if x.is_cuda else x


def filled_from_host(out: torch.Tensor) -> Target:
    """As `filled`, in host memory; what is on a device is copied there in the order of the stream that is current
    now."""
    memory, after = filled(out)
    if not memory.is_cuda:
        return memory, after
    landed, stream = torch.empty(memory.shape, dtype=memory.dtype), torch.cuda.current_stream(memory.device)

    def arrive() -> None:
        with torch.cuda.stream(stream), writing(memory):
            memory.copy_(landed)
            if after is not None:
                after()
        stream.synchronize()  # whoever waited may use it on another stream

    return landed, arrive


def in_order(x: torch.Tensor) -> bool:
    """Whether a tensor's memory holds its elements in order, as they are."""
    return x.is_contiguous() and not x.is_conj() and not x.is_neg()


def one(xs: Tensors) -> torch.Tensor:
    """The only tensor of a list: a group of the CPU's has one for each rank. ValueError: if there are more, or none."""
    if len(xs) != 1:
        raise ValueError(f"got {len(xs)} tensors; expected one")
    return xs[0]


def blocks(x: torch.Tensor, ranks: int) -> torch.Tensor:
    """`x` with a first axis that can be cut into one block a rank. ValueError: if `ranks` does not divide its
    elements."""
    x = plain(x)
    if x.dim() and x.shape[0] % ranks == 0:
        return x
    if x.numel() % ranks:
        raise ValueError(f"the input has {x.numel()} elements; expected a number that {ranks} ranks divide evenly")
    return x.detach().reshape(-1)


def alike(xs: Tensors, own: torch.Tensor, what: str) -> Tensors:
    """The tensors, one a rank, of a call in which all ranks' have as many elements as this rank's. ValueError: if one
    has more or fewer."""
    for rank, x in enumerate(xs):
        if x.numel() != own.numel():
            raise ValueError(
                f"{what} has {x.numel()} elements for rank {rank}; expected {own.numel()}, as this rank's tensor has"
            )
    return xs


def joined(xs: Tensors) -> torch.Tensor:
    """The elements of all tensors, one after another, [elements]: a view where they lie so."""
    pieces = [plain(x) for x in xs]
    if _adjoin(pieces):
        return _neighbours(pieces)
    flat = [piece.detach().reshape(-1) for piece in pieces]
    if flat[0].dtype in ENGINE_TYPES:
        return torch.cat(flat)
    return torch.cat([piece.view(torch.uint8) for piece in flat]).view(flat[0].dtype)  # torch may not join its own type


def filled_jointly(outs: Tensors) -> Target:
    """Memory for the elements of all tensors, one after another, [elements]; otherwise as `filled`."""
    outs = [plain(out) for out in outs]
    if _adjoin(outs):
        return _neighbours(outs), None
    outs = [out.detach() for out in outs]
    beside = torch.empty(sum(out.numel() for out in outs), dtype=outs[0].dtype, device=outs[0].device)
    pieces = beside.split([out.numel() for out in outs])
    shaped = [piece.view(out.shape) for piece, out in zip(pieces, outs, strict=True)]
    return beside, lambda: _copy(outs, shaped)


def together(afters: Sequence[After | None]) -> After | None:
    """One function that does all of `afters`, after a call that filled several tensors; None where there is none."""
    some = [after for after in afters if after is not None]

    def all_of_them() -> None:
        for after in some:
            after()

    return all_of_them if some else None


def _adjoin(xs: Tensors) -> bool:
    """Whether tensors lie one after another in one storage."""
    storage, dtype, end = xs[0].untyped_storage().data_ptr(), xs[0].dtype, xs[0].data_ptr()
    for x in xs:
        if x.numel() == 0 or x.data_ptr() != end or x.dtype is not dtype or not x.is_contiguous():
            return False
        if x.untyped_storage().data_ptr() != storage or x.is_conj() or x.is_neg():
            return False
        end += x.nbytes
    return True


def _neighbours(xs: Tensors) -> torch.Tensor:
    return xs[0].detach().as_strided((sum(x.numel() for x in xs),), (1,))


def _copy(outs: Tensors, pieces: Tensors) -> None:
    for out, piece in zip(outs, pieces, strict=True):
        with writing(out):
            for axis, stride in enumerate(out.stride()):
                if stride == 0 and out.shape[axis]:  # one element, shown as many; an empty array of numpy's has none
                    out, piece = out.narrow(axis, 0, 1), piece.narrow(axis, 0, 1)
            out.copy_(piece)


def writing(out: torch.Tensor) -> AbstractContextManager[Any]:
    """The mode in which this thread may write to `out`: a tensor of inference mode can be written to in it alone."""
    mode: AbstractContextManager[Any] = torch.inference_mode() if out.is_inference() else torch.no_grad()
    return mode


_NAMES = {
    ReduceOp.SUM: "sum",
    ReduceOp.AVG: "avg",
    ReduceOp.PRODUCT: "prod",
    ReduceOp.MIN: "min",
    ReduceOp.MAX: "max",
    ReduceOp.BAND: "band",
    ReduceOp.BOR: "bor",
    ReduceOp.BXOR: "bxor",
}
BY_NUMBER = {kind.value: name for kind, name in _NAMES.items()}
"""The names by the numbers of torch's reductions, which are their hashes: asked so, torch gives them soonest."""


def operation(reduce_op: Any) -> Operation:
    """The communicator's operation for a `ReduceOp` or a `RedOpType`. ValueError: if there is none."""
    found = BY_NUMBER.get(hash(reduce_op))
    if found is not None:
        return found
    kind = getattr(reduce_op, "op", reduce_op)
    if kind.value in BY_NUMBER:
        return BY_NUMBER[kind.value]
    if kind == ReduceOp.PREMUL_SUM:
        factor = float(reduce_op.__getstate__()[1])  # a number, or a tensor of one
        return scaled(int(factor) if factor.is_integer() else factor)  # integers are scaled by whole numbers
    expected = ", ".join([*_NAMES.values(), "a sum scaled by a factor"])
    raise ValueError(f"no reduction {kind} on the backend ringtree: expected one of {expected}")
