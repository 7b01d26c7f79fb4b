"""DistributedDataParallel with communication hooks: the data sent instead of a bucket's sum, and when."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks import (
    DDPCommHookType,
    default_hooks,
    optimizer_overlap_hooks,
    powerSGD_hook,
    register_ddp_comm_hook,
)
from torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import PostLocalSGDState, post_localSGD_hook
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.algorithms.model_averaging.hierarchical_model_averager import HierarchicalModelAverager
from torch.distributed.optim import PostLocalSGDOptimizer
from torch.nn.parallel import DistributedDataParallel as DDP

from tests.torch_backend.parallel.training import (
    alone,
    loss_of,
    same,
    sentences,
    sgd,
    share,
    state,
    train,
    transformer,
)

Hook = Callable[[Any, dist.GradBucket], torch.futures.Future[Tensor]]


def _trains(hook: Hook, hook_state: Any = None, tolerance: float = 2e-5, bucket_MB: float = 0.01) -> None:
    model = DDP(transformer(), bucket_cap_mb=bucket_MB)
    model.register_comm_hook(hook_state, hook)
    train(model, share(sentences(4)))
    same(state(model.module), alone(sentences(4)), tolerance)


def allreduce() -> None:
    _trains(default_hooks.allreduce_hook)


def fp16_compress() -> None:
    _trains(default_hooks.fp16_compress_hook, tolerance=2e-3)


def built_in() -> None:
    """The one that torch has in C++."""
    model = DDP(transformer(), bucket_cap_mb=0.01)
    model._register_builtin_comm_hook(dist.BuiltinCommHookType.ALLREDUCE)
    train(model, share(sentences()))
    same(state(model.module), alone(sentences()))


def registered_by_name() -> None:
    model = DDP(transformer())
    register_ddp_comm_hook(DDPCommHookType.ALLREDUCE, model)
    train(model, share(sentences()))
    same(state(model.module), alone(sentences()))


def _power_sgd_state() -> powerSGD_hook.PowerSGDState:
    # With as many columns as a matrix has, the approximation is the matrix.
    return powerSGD_hook.PowerSGDState(
        None, matrix_approximation_rank=64, start_powerSGD_iter=2, min_compression_rate=0, use_error_feedback=True
    )


def power_sgd() -> None:
    """Its callbacks launch and wait for further collectives."""
    _trains(powerSGD_hook.powerSGD_hook, _power_sgd_state(), 1e-3, bucket_MB=25)


def power_sgd_in_many_buckets() -> None:
    """All ranks' callbacks have to launch in one order."""
    _trains(powerSGD_hook.powerSGD_hook, _power_sgd_state(), 1e-3)


def power_sgd_in_fp16() -> None:
    _trains(default_hooks.fp16_compress_wrapper(powerSGD_hook.powerSGD_hook), _power_sgd_state(), 2e-2, bucket_MB=25)


def chained() -> None:
    """A sum as a reduce_scatter whose callback launches an all_gather, without waiting in either."""

    def hook(_, bucket):  # torch looks at the annotations, and takes no text for one
        n, whole = dist.get_world_size(), bucket.buffer()
        padded = torch.cat([whole, whole.new_zeros(-whole.numel() % n)])
        part = padded.new_empty(padded.numel() // n)
        result: torch.futures.Future[Tensor] = torch.futures.Future()

        def gathered(_: Any) -> None:
            result.set_result(padded[: whole.numel()] / n)

        def reduced(_: Any) -> None:
            dist.all_gather_into_tensor(padded, part, async_op=True).get_future().add_done_callback(gathered)

        dist.reduce_scatter_tensor(part, padded, async_op=True).get_future().add_done_callback(reduced)
        return result

    _trains(hook)


def chained_and_waiting() -> None:
    """A callback may wait for a collective that it launched itself."""

    def hook(_, bucket):  # torch looks at the annotations, and takes no text for one
        def again(future: torch.futures.Future[list[Tensor]]) -> Tensor:
            [total] = future.value()
            votes = torch.ones(3)
            dist.all_reduce(votes)
            return total / votes[1]

        return dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(again)

    _trains(hook, bucket_MB=25)


def step_in_the_hook() -> None:
    """The optimizer's step of a bucket, when its sum has come."""
    model = DDP(transformer(), bucket_cap_mb=0.01)
    functional = torch.distributed.optim._FunctionalSGD([], lr=0.2, momentum=0.9, _allow_empty_param_list=True)
    stepping = optimizer_overlap_hooks._OptimizerHookState(functional, model.parameters())
    model.register_comm_hook(None, optimizer_overlap_hooks._hook_then_optimizer(default_hooks.allreduce_hook, stepping))
    for batch in share(sentences()):
        model.zero_grad()
        loss_of(model, batch).backward()
    same(state(model.module), alone(sentences()))


def _drifting(start: int, period: int, steps: int, neighbours: int) -> dict[str, Tensor]:
    """The result of post-local SGD, in one process: ranks step together until `start`, then by themselves or with
    their neighbours, and their parameters are averaged every `period` steps."""
    n = dist.get_world_size()
    models = [transformer() for _ in range(n)]
    steppers = [sgd(model.parameters()) for model in models]
    for step, batch in enumerate(sentences(steps)):
        for rank, model in enumerate(models):
            steppers[rank].zero_grad()
            loss_of(model, share([batch], rank, n)[0]).backward()
        size = n if step < start else neighbours
        for first in range(0, n, size):
            for parameters in zip(*(model.parameters() for model in models[first : first + size]), strict=True):
                mean = torch.stack([p.grad for p in parameters]).mean(0)
                for p in parameters:
                    p.grad = mean.clone()
        for stepper in steppers:
            stepper.step()
        if step >= start and (step - start) % period == 0:
            _average(models)
    return state(models[dist.get_rank()])


def _average(models: list[nn.Module]) -> None:
    with torch.no_grad():
        for parameters in zip(*(model.parameters() for model in models), strict=True):
            mean = torch.stack(parameters).mean(0)
            for p in parameters:
                p.copy_(mean)


def post_local_sgd() -> None:
    steps, start = 6, 2
    neighbours, _ = dist.new_subgroups(2)
    model = DDP(transformer(), bucket_cap_mb=0.01)
    model.register_comm_hook(PostLocalSGDState(None, neighbours, start_localSGD_iter=start), post_localSGD_hook)
    averager = PeriodicModelAverager(period=2, warmup_steps=start)
    train(model, share(sentences(steps)), lambda p: PostLocalSGDOptimizer(sgd(p), averager))
    same(state(model.module), _drifting(start, 2, steps, neighbours=2), tolerance=1e-4)
    dist.destroy_process_group(neighbours)


def hierarchical_averages() -> None:
    """Pairs are averaged at each step, the world at every second."""
    n, steps = dist.get_world_size(), 5
    averager = HierarchicalModelAverager(OrderedDict([(1, 2), (2, 4)] if n == 4 else [(2, n)]), warmup_steps=0)
    x = torch.nn.Parameter(torch.tensor([float(dist.get_rank())] * 3))
    x.grad = torch.zeros(3)  # parameters without are left alone
    expected = torch.arange(float(n))
    for step in range(steps):
        with torch.no_grad():
            x += dist.get_rank() * step
            expected += torch.arange(n) * step
        averager.average_parameters([x])
        if step % 2 == 0:
            expected[:] = expected.mean()
        elif n > 2:
            expected = expected.view(-1, 2).mean(1).repeat_interleave(2)
    torch.testing.assert_close(x.detach(), expected[dist.get_rank()].repeat(3))
    for group in set(averager.period_process_group_dict.values()) - {dist.group.WORLD}:
        dist.destroy_process_group(group)
