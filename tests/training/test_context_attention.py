"""Attention over ranks that have a part of the positions each: equal to one process, gradients too."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.torch_backend.conftest import Worlds
from tests.torch_backend.world import RankError

KINDS = ("ring", "ulysses")
TOLERANCE = {"float32": 1e-5, "float64": 1e-12, "bfloat16": 6e-2, "float16": 8e-3}
"""For the result and gradients, absolute and relative."""


def _positions(kind: str, length: int, ranks: int, rank: int) -> list[int]:
    from ringtree.training import ParallelLayout, Shape, TrainingPlan
    from ringtree.training.strategies.context.context_parallel import positions

    return positions(TrainingPlan(ParallelLayout(cp=ranks, context=kind), Shape(context=length)), rank)


def _attention(kind: str, causal: bool) -> Any:
    from functools import partial

    import torch.distributed as dist

    from ringtree.training.strategies.context.attention import ulysses
    from ringtree.training.strategies.context.ring_attention import ring_attention

    functions = {"ring": ring_attention, "ulysses": ulysses}
    return partial(functions[kind], group=dist.group.WORLD, causal=causal)


def _apart(
    kind: str, shape: tuple[int, int, int, int], causal: bool, dtype: str, key_heads: int | None = None
) -> float:
    """On a rank: how far its part of the result, and of the gradients of queries, keys and values, are at most from
    those of attention to the whole sequence in one process, |a - b| / (1 + |b|)."""
    import torch
    import torch.distributed as dist
    from torch.nn.functional import scaled_dot_product_attention

    torch.manual_seed(sum(shape))
    rows, heads, length, width = shape
    each = (heads, key_heads or heads, key_heads or heads)
    whole = [torch.randn(rows, h, length, width, dtype=getattr(torch, dtype)).requires_grad_() for h in each]
    weight = torch.randn(shape, dtype=getattr(torch, dtype))
    at = _positions(kind, shape[2], dist.get_world_size(), dist.get_rank())
    mine = [x.detach()[:, :, at].requires_grad_() for x in whole]
    expected = scaled_dot_product_attention(*whole, is_causal=causal, enable_gqa=key_heads is not None)
    expected.backward(weight)
    got = _attention(kind, causal)(*mine)
    got.backward(weight[:, :, at])
    pairs = [(got.detach(), expected.detach()), *((x.grad, y.grad) for x, y in zip(mine, whole, strict=True))]
    return max(float(((a - b[:, :, at]).abs() / (1 + b[:, :, at].abs())).max()) for a, b in pairs)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("causal", [True, False], ids=["causal", "all"])
@pytest.mark.parametrize("n", [2, 4, pytest.param(8, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", KINDS)
def test_as_in_one_process(worlds: Worlds, kind: str, n: int, causal: bool, dtype: str) -> None:
    assert max(worlds(n).run(_apart, kind, (2, 2 * n, 12 * n, 5), causal, dtype)) < TOLERANCE[dtype]


@pytest.mark.parametrize("key_heads", [2, 4])
@pytest.mark.parametrize("causal", [True, False], ids=["causal", "all"])
@pytest.mark.parametrize("kind", KINDS)
def test_grouped_queries(worlds: Worlds, kind: str, causal: bool, key_heads: int) -> None:
    shape = (2, 8, 24, 5)
    assert max(worlds(2).run(_apart, kind, shape, causal, "float64", key_heads)) < TOLERANCE["float64"]


@settings(max_examples=30, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    rows=st.integers(1, 3),
    heads=st.integers(1, 3),
    length=st.integers(1, 40),
    width=st.integers(1, 33),
    causal=st.booleans(),
)
def test_of_any_shape(worlds: Worlds, kind: str, rows: int, heads: int, length: int, width: int, causal: bool) -> None:
    shape = (rows, 2 * heads, 4 * length, width)
    assert max(worlds(2).run(_apart, kind, shape, causal, "float64")) < TOLERANCE["float64"]


def _derivatives_hold(kind: str) -> bool:
    """gradcheck of a function of the whole sequence, which divides it and gathers the result."""
    import torch
    import torch.distributed as dist
    from torch.autograd import Function, gradcheck

    n, length = dist.get_world_size(), 8
    positions = [_positions(kind, length, n, rank) for rank in range(n)]
    mine = positions[dist.get_rank()]

    def gathered(part: Any) -> Any:
        parts = [torch.empty_like(part.contiguous()) for _ in range(n)]
        dist.all_gather(parts, part.contiguous())
        whole = torch.cat(parts, 2)
        whole[:, :, [position for its in positions for position in its]] = whole.clone()
        return whole

    class Divided(Function):
        @staticmethod
        def forward(ctx: Any, whole: Any) -> Any:
            return whole[:, :, mine]

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return gathered(grad)

    class Gathered(Function):
        @staticmethod
        def forward(ctx: Any, part: Any) -> Any:
            return gathered(part)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad[:, :, mine]

    torch.manual_seed(0)
    qkv = [torch.randn(1, 2, length, 2, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    attention = _attention(kind, causal=True)
    return bool(gradcheck(lambda *whole: Gathered.apply(attention(*map(Divided.apply, whole))), qkv))


@pytest.mark.parametrize("kind", KINDS)
def test_derivatives(worlds: Worlds, kind: str) -> None:
    assert all(worlds(2).run(_derivatives_hold, kind))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [2, 3, 8])
def test_positions_are_divided(kind: str, n: int) -> None:
    divided = [_positions(kind, 4 * n, n, rank) for rank in range(n)]
    assert sorted(position for its in divided for position in its) == list(range(4 * n))
    assert all(its == sorted(its) and len(its) == 4 for its in divided)
    if kind == "ring":  # all see as many positions
        assert len({sum(its) for its in divided}) == 1


def _kept(kind: str) -> int:
    """Bytes that a rank keeps for backward, of attention to 64 positions by 4 heads of width 8."""
    import torch
    import torch.distributed as dist

    from ringtree.training.measure.memory import nbytes

    qkv = [torch.randn(1, 4, 64 // dist.get_world_size(), 8, requires_grad=True) for _ in range(3)]
    kept: list[Any] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x) or x, lambda x: x):
        _attention(kind, causal=True)(*qkv)
    return nbytes(kept)


@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_a_rank_keeps_its_share(worlds: Worlds, kind: str, n: int) -> None:
    """Queries, keys, values, the result, and a number for each position and head: no scores, and nothing of others."""
    assert worlds(n).run(_kept, kind) == [4 * 64 * 4 * (4 * 8 + 1) // n] * n


def _refused(kind: str, positions: int, heads: int) -> str:
    import torch

    with pytest.raises(ValueError) as refusal:
        _attention(kind, causal=True)(*(torch.randn(1, heads, positions, 4) for _ in range(3)))
    return str(refusal.value)


@pytest.mark.parametrize(
    ("kind", "positions", "heads", "reason"),
    [
        ("ring", 5, 2, "ring attention has 5 positions on rank 1; expected an even number"),
        ("ulysses", 5, 3, "3 heads cannot be divided evenly among 2 context parallel ranks"),
    ],
)
def test_indivisible_contexts_are_refused(worlds: Worlds, kind: str, positions: int, heads: int, reason: str) -> None:
    assert reason in worlds(2).run(_refused, kind, positions, heads)[1]


Q = [2, 4, 6, 8]
UNFIT: dict[str, tuple[list[int], list[int], str]] = {
    "more heads of keys": ([2, 8, 6, 8], [2, 8, 6, 8], "as many heads in k and v as in q, or a divisor of them"),
    "heads that do not divide": ([2, 3, 6, 8], [2, 3, 6, 8], "as many heads in k and v as in q, or a divisor of them"),
    "no heads of keys": ([2, 0, 6, 8], [2, 0, 6, 8], "as many heads in k and v as in q, or a divisor of them"),
    "other rows": ([1, 4, 6, 8], [1, 4, 6, 8], "as many rows, positions and as much width in k and v as in q"),
    "other positions": ([2, 4, 8, 8], [2, 4, 8, 8], "as many rows, positions and as much width in k and v as in q"),
    "other width": ([2, 4, 6, 4], [2, 4, 6, 4], "as many rows, positions and as much width in k and v as in q"),
    "other values": ([2, 4, 6, 8], [2, 4, 6, 4], "one shape of k and v"),
    "3 dimensions": ([4, 6, 8], [4, 6, 8], "[rows, heads, positions, width] of each"),
}
"""Shapes of k and of v that do not fit queries of shape Q, and what is expected."""


def _unfit(kind: str, k: list[int], v: list[int], causal: bool) -> str:
    import torch

    with pytest.raises(ValueError) as refusal:
        _attention(kind, causal)(*map(torch.randn, (Q, k, v)))
    return str(refusal.value)


@pytest.mark.parametrize("causal", [True, False], ids=["causal", "all"])
@pytest.mark.parametrize("case", UNFIT)
@pytest.mark.parametrize("kind", KINDS)
def test_shapes_that_do_not_fit_are_refused(worlds: Worlds, kind: str, case: str, causal: bool) -> None:
    k, v, expected = UNFIT[case]
    name = "ring attention" if kind == "ring" else "ulysses"
    refusals = worlds(2).run(_unfit, kind, k, v, causal)
    assert refusals == [f"{name} on rank {r}: q is {Q}, k {k}, v {v}; expected {expected}" for r in range(2)]


def _unlike(kind: str, types: tuple[str, str, str], devices: tuple[str, str, str]) -> str:
    import torch

    made = [torch.zeros(Q, dtype=getattr(torch, t), device=d) for t, d in zip(types, devices, strict=True)]
    with pytest.raises(ValueError) as refusal:
        _attention(kind, causal=True)(*made)
    return str(refusal.value)


@pytest.mark.parametrize(
    ("types", "devices", "expected"),
    [
        (("float32", "float64", "float64"), ("cpu",) * 3, "q is torch.float32, k torch.float64, v torch.float64; exp"),
        (("int64",) * 3, ("cpu",) * 3, "v torch.int64; expected one floating-point type"),
        (("float32",) * 3, ("cpu", "cpu", "meta"), "q is on cpu, k on cpu, v on meta; expected one device"),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_types_and_devices_that_do_not_fit_are_refused(
    worlds: Worlds, kind: str, types: Any, devices: Any, expected: str
) -> None:
    assert expected in worlds(2).run(_unlike, kind, types, devices)[1]


def test_the_ring_is_on_the_cpu(worlds: Worlds) -> None:
    refusal = worlds(2).run(_unlike, "ring", ("float32",) * 3, ("meta",) * 3)[1]
    assert refusal == "ring attention on rank 1: q, k and v are on meta; expected the CPU, whose kernel it calls"


def _uneven(kind: str) -> None:
    import torch
    import torch.distributed as dist

    _attention(kind, causal=True)(*(torch.randn(1, 2, 4 + 2 * dist.get_rank(), 4) for _ in range(3)))


@pytest.mark.parametrize(
    ("kind", "reasons"),
    [
        ("ring", ["bytes of float32 with tag 0 where rank", "256", "384"]),
        ("ulysses", ["called all_to_all(float32, count 96)", "called all_to_all(float32, count 144)"]),
    ],
)
def test_uneven_parts_are_refused_on_every_rank(worlds: Worlds, kind: str, reasons: list[str]) -> None:
    """Whichever rank comes first."""
    with pytest.raises(RankError) as refusal:
        worlds(2).run(_uneven, kind)
    stories = str(refusal.value).split(" of 2: ")[1:]
    assert len(stories) == 2 and all(reason in story for story in stories for reason in reasons), stories


@pytest.mark.parametrize(
    ("layout", "reason"),
    [
        ({"cp": 3}, "a context of 64 positions cannot be divided evenly into 6 parts, 2 for each of 3"),
        (
            {"cp": 3, "context": "ulysses"},
            "a context of 64 positions cannot be divided evenly into 3 parts, 1 for each of 3",
        ),
        ({"cp": 8, "context": "ulysses"}, "4 heads cannot be divided evenly over 8 ranks"),
        ({"cp": 2, "tp": 4, "context": "ulysses"}, "4 heads cannot be divided evenly over 8 ranks"),
    ],
)
def test_a_layout_is_refused(layout: dict[str, Any], reason: str) -> None:
    from ringtree.training import ParallelLayout, TrainingPlan
    from ringtree.training.core.layout import LayoutError
    from ringtree.training.strategies.registry import check

    with pytest.raises(LayoutError, match=reason):
        check(TrainingPlan(ParallelLayout(**layout)))
