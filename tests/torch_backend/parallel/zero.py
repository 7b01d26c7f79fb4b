"""ZeroRedundancyOptimizer: each rank keeps the optimizer's state of its share of the parameters."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.ddp_zero_hook import (
    hook_with_zero_step,
    hook_with_zero_step_interleaved,
)
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.distributed.algorithms.join import Join, Joinable, JoinHook
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel as DDP

from tests.torch_backend.parallel.training import (
    adam,
    alone,
    loss_of,
    perceptron,
    points,
    same,
    sentences,
    share,
    state,
    train,
    transformer,
)


def _sharded(parameters: Any, **options: Any) -> ZeroRedundancyOptimizer:
    return ZeroRedundancyOptimizer(parameters, torch.optim.AdamW, lr=0.01, **options)


def plain() -> None:
    model = DDP(transformer())
    train(model, share(sentences()), _sharded)
    same(state(model.module), alone(sentences(), optimizer=adam))


def in_buckets() -> None:
    model = DDP(transformer(), gradient_as_bucket_view=True)
    train(model, share(sentences()), lambda p: _sharded(p, parameters_as_bucket_view=True))
    same(state(model.module), alone(sentences(), optimizer=adam))


def consolidated() -> None:
    """The whole state comes together at the last rank, and is that of one process."""
    last = dist.get_world_size() - 1
    model, reference = DDP(transformer()), transformer()
    mine, whole = _sharded(model.parameters()), adam(reference.parameters())
    train(model, share(sentences()), lambda _: mine)
    train(reference, sentences(), lambda _: whole)
    mine.consolidate_state_dict(to=last)
    if dist.get_rank() == last:
        got = mine.state_dict()["state"]
        for k, expected in whole.state_dict()["state"].items():
            same(got[k], expected)


class _Inputs(Joinable):
    """Counts all ranks' inputs, also for those who have no more: the tutorial's Joinable."""

    join_device = torch.device("cpu")
    join_process_group = property(lambda self: dist.group.WORLD)

    def __init__(self) -> None:
        super().__init__()
        self.seen = torch.zeros(1)

    def add(self, mine: int) -> None:
        if mine:
            Join.notify_join_context(self)
        total = torch.tensor([float(mine)])
        dist.all_reduce(total)
        self.seen += total

    def join_hook(self, **_: Any) -> JoinHook:
        hook = JoinHook()
        hook.main_hook = lambda: self.add(0)
        hook.post_hook = lambda is_last_joiner: None
        return hook


def joined_with_another() -> None:
    """DDP and a Joinable of one's own, of ranks with 2 and 3 inputs."""
    n, me = dist.get_world_size(), dist.get_rank()
    counter, model = _Inputs(), DDP(perceptron())
    with Join([counter, model]):
        for batch in share(points())[: 2 + me % 2]:
            counter.add(1)
            loss_of(model, batch).backward()
    assert counter.seen.item() == n // 2 * 5


def _overlapped(wrap: Any) -> None:
    """Its first two steps learn the buckets and change nothing, so all are on one batch."""
    batches = sentences(1) * 5
    model = DDP(transformer(), bucket_cap_mb=0.01, gradient_as_bucket_view=True)
    stepper = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, overlap_with_ddp=True, lr=0.2, momentum=0.9)
    model.register_comm_hook(None, wrap(allreduce_hook, model, stepper))
    for batch in share(batches):
        model.zero_grad()
        loss_of(model, batch).backward()
    same(state(model.module), alone(batches[2:]))


def overlapped() -> None:
    _overlapped(hook_with_zero_step)


def overlapped_interleaved() -> None:
    _overlapped(hook_with_zero_step_interleaved)
