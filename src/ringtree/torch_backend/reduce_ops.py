"""torch's reductions by ringtree's names."""

from __future__ import annotations

from typing import Any

from torch.distributed import ReduceOp

from ringtree.runtime.communicator.operations import Operation, scaled

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
_BY_VALUE = {kind.value: name for kind, name in _NAMES.items()}  # an enum of torch's takes long to hash


def operation(reduce_op: Any) -> Operation:
    """What a `ReduceOp`, or a `RedOpType`, is called here. ValueError for one that there is not."""
    kind = getattr(reduce_op, "op", reduce_op)
    found = _BY_VALUE.get(kind.value)
    if found is not None:
        return found
    if kind == ReduceOp.PREMUL_SUM:
        factor = float(reduce_op.__getstate__()[1])  # a number, or a tensor of one
        return scaled(int(factor) if factor.is_integer() else factor)  # integers are scaled by whole numbers
    expected = ", ".join([*_NAMES.values(), "a sum scaled by a factor"])
    raise ValueError(f"no reduction {kind} on the backend ringtree: expected one of {expected}")
