"""Attention to a whole sequence of which each rank has a part: keys and values go round a ring of ranks.

A rank attends to the keys and values that are with it while they are on their way to the next rank, and those of the
one before it come; n-1 times for n ranks. What each part gave is joined by the logarithms of the softmax's denominators
(Liu, Zaharia, Abbeel: Ring attention with blockwise transformers for near-infinite context, 2023). In backward they go
round again, and behind them their gradients, to which each rank adds its part, home; given the denominators of the
whole, a part's gradients are those of attention to it alone (Dao: FlashAttention-2, 2023, algorithm 2).

Causal attention to a rank's own positions only would leave the first ranks without work. So the sequence is in 2n
parts, of which rank r has parts r and 2n-1-r (Llama 3, 2024, section 3.3.2): of the pairs of its parts and those of
another rank two of four are wholly in the past, and two wholly in the future, which are left out; none is masked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import Function, once_differentiable

from ringtree.training.strategies.context.operands import check

# PyTorch's attention that keeps no scores; unlike the public function it returns the denominators' logarithms, and
# takes those of the whole in backward.
_attend = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_attend_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward

KEYS_AND_VALUES, GRADIENTS = 0, 1
"""Tags."""


def ring_attention(q: Tensor, k: Tensor, v: Tensor, group: dist.ProcessGroup, causal: bool = True) -> Tensor:
    """This rank's positions of softmax(q k^T / sqrt(width)) v over the positions of all ranks of `group`; all tensors
    [rows, heads, positions, width], of one shape on all ranks; k and v may have fewer heads, each of as many heads of q
    (grouped queries). Causal: this rank's positions are parts r and 2n-1-r of the 2n of the sequence, one after the
    other.

    ValueError where the tensors do not fit each other, are not in the host's memory, or the positions cannot be halved.
    Keeps for backward, beside what it is given, no more than its result and one number for each position and head.
    """
    where = f"ring attention on rank {group.rank()}"
    check(where, q, k, v)
    if q.device.type != "cpu":
        raise ValueError(f"{where}: q, k and v are on {q.device}; expected the CPU, whose kernel it calls")
    if causal and q.shape[2] % 2:
        raise ValueError(
            f"ring attention has {q.shape[2]} positions on rank {group.rank()}; expected an even number, "
            "half of them early in the sequence and half of them late"
        )
    return _RingAttention.apply(q, k, v, group, causal)


class _RingAttention(Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, group: dist.ProcessGroup, causal: bool) -> Tensor:
        me, exact = group.rank(), torch.promote_types(q.dtype, torch.float32)  # the sums', as the kernel's own
        out = torch.zeros_like(q, dtype=exact)
        denominators = torch.full(q.shape[:-1], -torch.inf, dtype=exact)
        for theirs, (k_here, v_here) in _going_round(torch.stack((k, v)), group):
            mine, seen = _pair(me, theirs, q.shape[2], causal)
            part = _attend(q[:, :, mine], k_here[:, :, seen], v_here[:, :, seen], 0.0, causal and theirs == me)
            _join(out[:, :, mine], denominators[:, :, mine], *part)
        out = out.to(q.dtype)
        ctx.save_for_backward(q, k, v, out, denominators)
        ctx.group, ctx.causal = group, causal
        return out

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, out, denominators = ctx.saved_tensors
        me = ctx.group.rank()
        dq, at_home, coming = torch.zeros_like(q), torch.empty(0), None
        for theirs, (k_here, v_here) in _going_round(torch.stack((k, v)), ctx.group):
            mine, seen = _pair(me, theirs, q.shape[2], ctx.causal)
            given = (grad[:, :, mine], q[:, :, mine], k_here[:, :, seen], v_here[:, :, seen])
            whole = (out[:, :, mine], denominators[:, :, mine])
            dq_part, *dkv_part = _attend_backward(*given, *whole, 0.0, ctx.causal and theirs == me)
            dq[:, :, mine] += dq_part
            dkv = k.new_zeros(2, *k.shape)
            dkv[:, :, :, seen] = torch.stack(dkv_part)
            if theirs == me:
                at_home = dkv
                continue
            if coming is not None:
                dkv += coming()
            coming = pass_on(dkv, ctx.group, GRADIENTS)
        if coming is not None:
            at_home += coming()
        return dq, at_home[0], at_home[1], None, None


def _going_round(kv: Tensor, group: dist.ProcessGroup) -> Iterator[tuple[int, Tensor]]:
    """(rank, its keys and values): one's own, then those of the rank before, and so on. While the caller works on one
    pair, the next is on its way."""
    n, me = group.size(), group.rank()
    for step in range(n):
        coming = pass_on(kv, group, KEYS_AND_VALUES) if step < n - 1 else None
        yield (me - step) % n, kv
        if coming is not None:
            kv = coming()


def pass_on(x: Tensor, group: dist.ProcessGroup, tag: int) -> Callable[[], Tensor]:
    """Begins to send x to the next rank; the result waits for that, and for what the rank before sends, and returns the
    latter."""
    n, me = group.size(), group.rank()
    came = torch.empty_like(x)
    receiving = dist.irecv(came, group=group, group_src=(me - 1) % n, tag=tag)
    sending = dist.isend(x, group=group, group_dst=(me + 1) % n, tag=tag)

    def wait() -> Tensor:
        sending.wait()
        receiving.wait()
        return came

    return wait


def _pair(me: int, theirs: int, positions: int, causal: bool) -> tuple[slice, slice]:
    """This rank's positions, and those of another that they attend to."""
    everything, early, late = slice(None), slice(positions // 2), slice(positions // 2, None)
    if not causal or theirs == me:
        return everything, everything
    return (everything, early) if theirs < me else (late, everything)


def _join(out: Tensor, denominators: Tensor, out_part: Tensor, denominators_part: Tensor) -> None:
    """Attention to some more keys, into that to others; denominators by their logarithms."""
    both = torch.logaddexp(denominators, denominators_part)
    out *= (denominators - both).exp().unsqueeze(-1)
    out += out_part * (denominators_part - both).exp().unsqueeze(-1)
    denominators.copy_(both)
