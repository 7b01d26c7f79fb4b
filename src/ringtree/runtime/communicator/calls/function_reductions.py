"""Reductions by a Python function: the program of an ordinary call, run over messages of a group of its own."""

from __future__ import annotations

import math
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from ringtree import plan
from ringtree.ir.collective import collective as find_collective
from ringtree.ir.program import Program
from ringtree.runtime.arrays import Array, new, readable
from ringtree.runtime.communicator.calls.operations import Op
from ringtree.runtime.communicator.calls.request import CallRequest
from ringtree.runtime.engines.engine import GroupParameters
from ringtree.runtime.engines.over_messages import ProgramOverMessages

if TYPE_CHECKING:
    from ringtree.runtime.engines.protocols import Health, Messages


def check_function(program: Program, op: Op, in_rank_order: bool) -> None:
    """ValueError where the program cannot serve a function that takes all of `x`, or needs the order of the ranks.
    `in_rank_order`: whether it joins only neighbouring runs of ranks; asked for where `op` does not commute."""
    p = program
    blocks = p.ranks if find_collective(p.collective).blocked else 1
    if p.chunks != blocks:
        raise ValueError(
            f"{p.name} cuts x into {p.chunks} pieces and {op.name} takes it whole: expected an algorithm of "
            f"{blocks}, such as {plan.choose_whole(p.collective, p.ranks).algorithm}"
        )
    if not op.commutative and not in_rank_order:
        raise ValueError(
            f"{p.name} does not join {p.collective} in rank order and {op.name} is not marked commutative: "
            f"expected {plan.choose_whole(p.collective, p.ranks).algorithm}, or Op(..., commutative=True)"
        )


def reduce_by_function(
    program: Program,
    op: Op,
    request: CallRequest,
    messages: Messages,
    poisoned: tuple[Health, ...],
    parameters: GroupParameters,
) -> None:
    """Reduces the request's `x` into its `out`. Where the function fails, the groups `poisoned` fail too: a rank that
    waits for the result would wait in vain."""
    x, out = request.x, request.out
    assert x is not None
    chunks = [_guarded(chunk) for chunk in _chunks(program, request, x)]

    def combine(a: Array, b: Array) -> Array:
        try:
            return _guarded(_joined(op, a, b))
        except BaseException as error:
            name = parameters.names[parameters.rank]
            for group in poisoned:
                group.poison(f"the operation {op.name} failed on rank {name}: {type(error).__name__}: {error}")
            raise

    def empty(label: int) -> Array:
        return _guarded(new(x, chunks[label].shape))

    result = ProgramOverMessages(program, messages, parameters.timeout_s, combine, empty).run(chunks)
    if out is not None:
        out.owner.reshape(-1)[:] = result[0].owner.reshape(-1)


def _chunks(program: Program, request: CallRequest, x: Array) -> list[Array]:
    """All of x, or where the collective is blocked one chunk a rank, cut along the first axis."""
    if not find_collective(program.collective).blocked:
        return [x]
    rows = [x.shape[0] // program.ranks] * program.ranks
    if request.counts is not None:
        rows = (request.counts // max(math.prod(x.shape[1:]), 1)).tolist()
    return [readable(x.owner[end - r : end], x.named) for r, end in zip(rows, accumulate(rows), strict=True)]


def _joined(op: Op, a: Array, b: Array) -> Array:
    """The function's value; TypeError unless it is of the kind, type and shape of `a`."""
    value: Any = op.function(a.owner, b.owner)
    if value is None:
        raise TypeError(f"the operation {op.name} returned None; expected the joined array")
    try:
        joined = readable(value, a.named)
    except TypeError as error:
        kind = type(value).__name__
        raise TypeError(f"the operation {op.name} returned a {kind} that cannot be sent: {error}") from None
    alike = isinstance(joined.owner, np.ndarray) == isinstance(a.owner, np.ndarray)
    if (joined.dtype, joined.shape) != (a.dtype, a.shape) or not alike:
        raise TypeError(
            f"the operation {op.name} returned a {type(joined.owner).__name__} of {joined.dtype.label} and shape "
            f"{joined.shape}; expected a {type(a.owner).__name__} of {a.dtype.label} and shape {a.shape}, as it was "
            "given"
        )
    return joined


def _guarded(chunk: Array) -> Array:
    """The same chunk, read-only where its kind allows that: a function that changes its arguments would change the
    user's array, or a payload before it is sent."""
    if not isinstance(chunk.owner, np.ndarray):
        return chunk
    owner = chunk.owner.view()
    owner.flags.writeable = False
    return Array(owner, chunk.address, chunk.shape, chunk.dtype, chunk.count, named=chunk.named)
