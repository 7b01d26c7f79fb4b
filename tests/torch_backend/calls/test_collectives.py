"""Every collective, for every type that it takes, against an oracle, on real process groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ringtree import Mismatch
from tests.torch_backend.conftest import Worlds

MOVING = (
    "broadcast",
    "all_gather",
    "all_gather_uneven",
    "all_gather_single",
    "gather",
    "scatter",
    "all_to_all",
    "all_to_all_single",
    "all_to_all_single_uneven",
)
REDUCING = ("all_reduce", "reduce", "reduce_scatter", "reduce_scatter_uneven", "reduce_scatter_single")
FORMS = [(async_op, contiguous) for async_op in (False, True) for contiguous in (True, False)]
IN_EVERY_FORM = ("float32", "bfloat16")
"""The types that the quick tests move and reduce in each of the forms. Of the others, they move each in two that have
nothing in common, and reduce it in one, in turn."""


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("collective", MOVING)
def test_moving(worlds: Worlds, collective: str, n: int) -> None:
    worlds(n).run(_moved, collective)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("collective", REDUCING)
def test_reducing(worlds: Worlds, collective: str, n: int) -> None:
    worlds(n).run(_reduced, collective)


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("collective", REDUCING)
def test_reducing_in_every_form(worlds: Worlds, collective: str, n: int) -> None:
    worlds(n).run(_reduced, collective, True)


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("collective", MOVING)
def test_moving_in_every_form(worlds: Worlds, collective: str, n: int) -> None:
    worlds(n).run(_moved, collective, True)


def _moved(collective: str, in_every_form: bool = False) -> None:
    from itertools import cycle

    import torch

    from ringtree.runtime.types import BY_LABEL
    from tests.torch_backend import moves
    from tests.torch_backend.oracle import UNKNOWN

    case: Callable[..., None] = getattr(moves, collective)
    turn = cycle([(FORMS[0], FORMS[3]), (FORMS[1], FORMS[2])])
    for dtype in (*(getattr(torch, label) for label in BY_LABEL if hasattr(torch, label)), *UNKNOWN):
        every = in_every_form or str(dtype).removeprefix("torch.") in IN_EVERY_FORM
        for async_op, contiguous in FORMS if every else next(turn):
            case(dtype, (2, 3), async_op, contiguous)
    for async_op, contiguous in FORMS:
        case(torch.float32, (0, 3), async_op, contiguous)
    case(torch.float32, (4, 5000), True, True)


def _reduced(collective: str, in_every_form: bool = False) -> None:
    from itertools import cycle

    import torch

    from ringtree.runtime.types import FAMILIES
    from tests.torch_backend import reductions
    from tests.torch_backend.oracle import OPS

    case: Callable[..., None] = getattr(reductions, collective)
    turn = cycle(FORMS)
    for dtypes, ops, _, _ in FAMILIES:
        for label in (d.label for d in dtypes if hasattr(torch, d.label)):
            for op in (o for o in ops if o in OPS):
                every = in_every_form or label in IN_EVERY_FORM
                for async_op, contiguous in FORMS if every else [next(turn)]:
                    case(op, getattr(torch, label), (2, 3), async_op, contiguous)
    for async_op, contiguous in FORMS:
        case("sum", torch.float32, (0, 3), async_op, contiguous)
    case("sum", torch.float32, (4, 5000), True, True)


@pytest.mark.parametrize("n", [2, 3])
def test_types_that_cannot_be_reduced(worlds: Worlds, n: int) -> None:
    for messages in worlds(n).run(_refused):
        assert all("is not supported; expected one of" in line and "\n" not in line for line in messages), messages


def _refused() -> list[str]:
    import torch
    import torch.distributed as dist

    from tests.torch_backend.oracle import UNKNOWN

    group: Any = dist.group.WORLD
    messages = []
    for x in (torch.zeros(2, dtype=dtype) for dtype in UNKNOWN):
        with pytest.raises(TypeError) as refusal:
            group.allreduce([x], _options("AllreduceOptions"))
        messages.append(str(refusal.value))
    with pytest.raises(TypeError) as refusal:
        dist.all_reduce(torch.zeros(2), dist.ReduceOp.BAND)
    return [*messages, str(refusal.value)]


@pytest.mark.parametrize("async_op", [False, True])
def test_scaled_sums(worlds: Worlds, async_op: bool) -> None:
    worlds(2).run(_scaled, async_op)


def _scaled(async_op: bool) -> None:
    import torch
    import torch.distributed as dist

    from tests.torch_backend.moves import ended

    rank, c10d = dist.get_rank(), torch._C._distributed_c10d
    for dtype, factor in ((torch.float32, 0.5), (torch.bfloat16, 0.25), (torch.int32, 3), (torch.float64, 2)):
        for given in (float(factor), torch.tensor([factor], dtype=dtype)):
            scaled = c10d._make_nccl_premul_sum(given)
            x, out = torch.full((4,), rank + 1, dtype=dtype), torch.zeros(2, dtype=dtype)
            ended(dist.reduce_scatter_tensor(out, x, scaled, async_op=async_op), async_op)
            ended(dist.all_reduce(x, scaled, async_op=async_op), async_op)
            assert x.tolist() == [3 * factor] * 4 and out.tolist() == [3 * factor] * 2
    with pytest.raises(TypeError, match="expected a whole number as the factor"):
        dist.all_reduce(torch.ones(2, dtype=torch.int32), c10d._make_nccl_premul_sum(0.5))


def _options(kind: str) -> Any:
    import torch

    return getattr(torch._C._distributed_c10d, kind)()


def test_every_name(worlds: Worlds) -> None:
    worlds(2).run(_named)


def _named() -> None:
    import torch.distributed as dist

    group: Any = type(dist.group.WORLD)
    pairs = {
        "all_gather_single": "_allgather_base",
        "all_gather_single_coalesced": "allgather_into_tensor_coalesced",
        "reduce_scatter_single": "_reduce_scatter_base",
        "reduce_scatter_single_coalesced": "reduce_scatter_tensor_coalesced",
        "all_to_all_single": "alltoall_base",
    }
    for new, old in pairs.items():
        assert getattr(group, new) is getattr(group, old)
    alone = "allreduce allreduce_coalesced broadcast reduce allgather allgather_coalesced reduce_scatter gather scatter"
    for name in (*alone.split(), "alltoall", "barrier"):
        assert getattr(group, name) is not getattr(dist.ProcessGroup, name), name


def _unlike(call: str) -> str:
    import torch
    import torch.distributed as dist

    group, rank = dist.new_group(), dist.get_rank()
    x = torch.ones(4).to((torch.float8_e4m3fnuz, torch.float8_e5m2fnuz)[rank])
    out = torch.zeros(8, dtype=x.dtype)
    calls: dict[str, Callable[[], Any]] = {
        "broadcast": lambda: dist.broadcast(x, 0, group=group),
        "all_gather": lambda: dist.all_gather_into_tensor(out, x, group=group),
        "send": lambda: (dist.recv if rank else dist.send)(x, 1 - rank, group=group),
    }
    with pytest.raises(Mismatch) as raised:
        calls[call]()
        dist.barrier(group)  # who sends only hears of it in the next call
    with pytest.raises(TypeError, match="out is uint8; expected float8_e"):
        dist.all_gather_into_tensor(out.view(torch.uint8), x)
    return str(raised.value)


@pytest.mark.parametrize("call", ["broadcast", "all_gather", "send"])
def test_types_without_arithmetic_are_compared_between_ranks(worlds: Worlds, call: str) -> None:
    """Nobody goes on with the other's bits under a type of its own."""
    text = "of opaque type" if call == "send" else "elements of another type that is moved as bytes"
    assert all(text in found for found in worlds(2).run(_unlike, call))
