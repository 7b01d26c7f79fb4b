"""Context parallel attention, forward and backward: what a rank keeps between the two, and what messages cost the ring.

    torchrun --nproc-per-node 4 benchmarks/context_parallel.py
    torchrun --nproc-per-node 1 benchmarks/context_parallel.py                  one process, beside which to see them

Kept is what autograd saves for backward, the storage of each tensor once: by attention alone, beside the same attention
to the whole sequence in one process; and in a step of the language model, whose peak is shown, too. The ring's messages
are measured in turns of three forms: `overlapped`, as is; `waited for`, each message before the computation that it
could have gone on beside; `none`, ranks staying with their own keys and values. What a form adds to `none` is its
communication. Medians over turns, of the slowest rank; ratios within a turn.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from statistics import median
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch import Tensor

from ringtree.training import ParallelLayout, Shape, TrainingPlan, TrainingSettings
from ringtree.training.core.language_model import attend
from ringtree.training.core.layout import CONTEXTS
from ringtree.training.measure import memory
from ringtree.training.strategies.context import ring_attention as ring
from ringtree.training.strategies.context.attention import ulysses

begin = ring.pass_on


def at_once(x: Tensor, group: dist.ProcessGroup, tag: int) -> Callable[[], Tensor]:
    came = begin(x, group, tag)()
    return lambda: came


def nothing(x: Tensor, group: dist.ProcessGroup, tag: int) -> Callable[[], Tensor]:
    return lambda: x


WAYS = {"overlapped": begin, "waited for": at_once, "none": nothing}
Attention = Callable[[Tensor, Tensor, Tensor], Tensor]


def drawn(args: argparse.Namespace, positions: int) -> list[Tensor]:
    return [torch.randn(args.rows, args.heads, positions, args.width, requires_grad=True) for _ in range(3)]


def kept_nbytes(attention: Attention, qkv: list[Tensor]) -> int:
    kept: list[Tensor] = []

    def pack(x: Tensor) -> Tensor:
        kept.append(x)
        return x

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        result = attention(*qkv)
    nbytes = memory.nbytes(kept)
    result.sum().backward()
    return nbytes


def time_s(way: str, qkv: list[Tensor], weight: Tensor) -> float:
    """From a common start to the end of the slowest rank."""
    with patch.object(ring, "pass_on", WAYS[way]):
        dist.barrier()
        start = time.perf_counter()
        ring.ring_attention(*qkv, group=dist.group.WORLD).backward(weight)
        took = torch.tensor(time.perf_counter() - start)
    dist.all_reduce(took, dist.ReduceOp.MAX)
    return took.item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("context", 4096), ("rows", 1), ("heads", 8), ("width", 32), ("turns", 15)):
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    dist.init_process_group("ringtree")
    torch.set_num_threads(1)
    n, show = dist.get_world_size(), print if dist.get_rank() == 0 else lambda *_: None

    show(
        f"{n} ranks, {args.rows} x {args.context} positions, {args.heads} heads of width {args.width}; bytes of a rank"
    )
    alone = kept_nbytes(attend, drawn(args, args.context))
    show(f"  attention  one process  {alone:>12,} kept")
    for name, attention in zip(CONTEXTS, (ring.ring_attention, ulysses), strict=True):
        kept = kept_nbytes(partial(attention, group=dist.group.WORLD), drawn(args, args.context // n))
        show(f"  attention  {name:<11}  {kept:>12,} kept, {kept / alone:.3f} of one process's")
    shape = Shape(args.heads * args.width, heads=args.heads, context=args.context)
    for name in CONTEXTS:
        held = memory.measure(
            TrainingPlan(ParallelLayout(cp=n, context=name), shape, TrainingSettings(batch=args.rows))
        )
        show(f"  a step     {name:<11}  {held.activations:>12,} kept, peak {held.peak:>12,}")

    qkv, weight = drawn(args, args.context // n), torch.randn(args.rows, args.heads, args.context // n, args.width)
    turns = [{way: time_s(way, qkv, weight) for way in WAYS} for _ in range(args.turns + 2)][2:]
    show("forward and backward of attention by the ring, its messages")
    for way in WAYS:
        ratio = median(turn[way] / turn["none"] for turn in turns)
        show(f"  {way:<11}  {1e3 * median(turn[way] for turn in turns):8.2f} ms, {ratio:.3f} of none")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
