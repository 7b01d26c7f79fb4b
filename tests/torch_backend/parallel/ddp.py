"""DistributedDataParallel: the parameters after some steps are those of one process with all the data."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks.debugging_hooks import noop_hook
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.checkpoint import checkpoint

from tests.torch_backend.parallel.training import (
    STEPS,
    Batch,
    accumulate,
    alone,
    loss_of,
    perceptron,
    points,
    same,
    sentences,
    sgd,
    share,
    state,
    train,
    transformer,
)


def _trains(make: Callable[[int], nn.Module] = transformer, batches: list[Batch] | None = None, **options: Any) -> DDP:
    """Ranks begin with different parameters: DDP's first act is to send everybody those of rank 0."""
    batches = batches or sentences()
    model = DDP(make(dist.get_rank()), **options)
    train(model, share(batches))
    same(state(model.module), alone(batches, lambda: make(0)))
    return model


def plain() -> None:
    _trains()


def many_buckets() -> None:
    model = _trains(bucket_cap_mb=0.0001)
    assert model._get_ddp_logging_data()["backend_name"] == dist.get_backend()


def bucket_views() -> None:
    _trains(gradient_as_bucket_view=True, bucket_cap_mb=0.01)


def static_graph() -> None:
    _trains(static_graph=True)


def no_sync() -> None:
    """Gradients of two parts of a batch, of which only the second's backward talks to others."""
    model = DDP(transformer(dist.get_rank()))
    accumulate(model, share(sentences()), 2, model.no_sync)
    same(state(model.module), alone(sentences()))


def without_averaging_it_is_noticed() -> None:
    """The table can fail: ranks that keep their gradients to themselves come to other parameters."""
    model = DDP(transformer())
    model.register_comm_hook(None, noop_hook)
    train(model, share(sentences()))
    try:
        same(state(model.module), alone(sentences()))
    except AssertionError:
        return
    raise RuntimeError("parameters that were never averaged passed for those of one process")


class _Branches(nn.Module):
    """Of two branches a batch uses one, by its first label."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk, self.left, self.right, self.never = (nn.Linear(7, 7) for _ in range(4))

    def forward(self, x: Tensor, left: bool) -> Tensor:
        return (self.left if left else self.right)(self.trunk(x).tanh())


def unused_parameters() -> None:
    """Each rank takes another branch in each step, and nobody the third."""
    n, me = dist.get_world_size(), dist.get_rank()
    torch.manual_seed(0)
    model = DDP(_Branches(), find_unused_parameters=True)
    torch.manual_seed(0)
    reference = _Branches()
    mine, all_together = sgd(model.parameters()), sgd(reference.parameters())
    for step, batch in enumerate(points()):
        mine.zero_grad()
        all_together.zero_grad()
        for rank, (x, y) in enumerate(share([batch], r, n)[0] for r in range(n)):
            left = (rank + step) % 3 == 0
            (nn.functional.cross_entropy(reference(x, left), y) / n).backward()
            if rank == me:
                nn.functional.cross_entropy(model(x, left), y).backward()
        mine.step()
        all_together.step()
    same(state(model.module), state(reference))


def _joins(by_all: bool) -> None:
    """join(): a rank without data shadows the others' collectives."""
    n, me = dist.get_world_size(), dist.get_rank()
    batches = [share(sentences(4), rank, n)[rank % 3 :] for rank in range(n)]
    model = DDP(transformer(), bucket_cap_mb=0.01)
    with model.join(divide_by_initial_world_size=by_all):
        train(model, batches[me])
    reference = transformer()
    stepper = sgd(reference.parameters())
    for step in range(4):
        stepper.zero_grad()
        left = [mine[step] for mine in batches if step < len(mine)]
        for batch in left:
            (loss_of(reference, batch) / (n if by_all else len(left))).backward()
        stepper.step()
    same(state(model.module), state(reference))


def uneven_inputs() -> None:
    """Gradients are divided by the size of the world."""
    _joins(by_all=True)


def uneven_inputs_by_those_left() -> None:
    """Gradients are divided by how many ranks still have data."""
    _joins(by_all=False)


def uneven_inputs_raise() -> None:
    """join(throw_on_early_termination=True): everybody hears that a rank has no more data."""
    me = dist.get_rank()
    model = DDP(transformer())
    try:
        with model.join(throw_on_early_termination=True):
            train(model, share(sentences())[: 2 if me == 0 else STEPS])
    except RuntimeError as error:
        assert "exhausted" in str(error), error
    else:
        raise AssertionError("no error named rank 0, which had less data")


def batch_norm() -> None:
    """Statistics of a batch are each rank's own; the running ones are rank 0's, sent before every step."""
    n = dist.get_world_size()

    def make(seed: int) -> nn.Module:
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(7, 6), nn.BatchNorm1d(6), nn.Linear(6, 5))

    model = DDP(make(dist.get_rank()))
    train(model, share(points()))
    reference = make(0)
    stepper = sgd(reference.parameters())
    for batch in points():
        stepper.zero_grad()
        for rank in reversed(range(n)):
            before = [b.clone() for b in reference.buffers()]
            (loss_of(reference, share([batch], rank, n)[0]) / n).backward()
            if rank > 0:
                for buffer, was in zip(reference.buffers(), before, strict=True):
                    buffer.copy_(was)
        stepper.step()
    train_state = state(model.module)
    if dist.get_rank() > 0:  # the others' of the last step were their own
        model.module.load_state_dict({k: v for k, v in state(reference).items() if "running" in k}, strict=False)
        train_state = state(model.module)
    same(train_state, state(reference))


def checkpointed() -> None:
    """Activations computed again in the backward pass."""

    class Recomputed(nn.Module):
        def __init__(self, seed: int) -> None:
            super().__init__()
            self.inner = transformer(seed)

        def forward(self, tokens: Tensor) -> Tensor:
            x = self.inner.embedding(tokens)
            for block in self.inner.blocks:
                x = checkpoint(block, x, use_reentrant=False)
            return self.inner.head(self.inner.norm(x))

    _trains(Recomputed, static_graph=True)


def autocast() -> None:
    """Arithmetic in bfloat16, gradients in float32: equal to one process up to the rounding of the former."""
    batches = points()

    def run(model: nn.Module, mine: list[Batch]) -> None:
        with torch.autocast("cpu", torch.bfloat16):
            train(model, mine)

    model, reference = DDP(perceptron(dist.get_rank())), perceptron()
    run(model, share(batches))
    run(reference, batches)
    same(state(model.module), state(reference), tolerance=0.03)


def several_types() -> None:
    """Buckets hold one type each: float64, float32 and bfloat16 in one model."""

    class Mixed(nn.Module):
        def __init__(self, seed: int) -> None:
            super().__init__()
            torch.manual_seed(seed)
            self.first, self.second, self.third = nn.Linear(7, 8).double(), nn.Linear(8, 8), nn.Linear(8, 5).bfloat16()

        def forward(self, x: Tensor) -> Tensor:
            x = self.second(self.first(x.double()).tanh().float()).tanh()
            return self.third(x.bfloat16()).float()

    batches = points()
    model, reference = DDP(Mixed(dist.get_rank())), Mixed(0)
    train(model, share(batches))
    train(reference, batches)
    same(state(model.module), state(reference), tolerance=0.03)


def sparse_gradients() -> None:
    def make(seed: int) -> nn.Module:
        torch.manual_seed(seed)
        return nn.Sequential(nn.EmbeddingBag(24, 6, sparse=True), nn.Linear(6, 24))

    batches = [(x, y[:, 0]) for x, y in sentences()]
    model, reference = DDP(make(dist.get_rank())), make(0)
    for trained, mine in ((model, share(batches)), (reference, batches)):
        train(trained, mine, lambda parameters: torch.optim.SGD(parameters, lr=0.2))
    same(state(model.module), state(reference))


def of_pairs() -> None:
    """Each pair of ranks is a world of its own, with data of its own."""
    n, me = dist.get_world_size(), dist.get_rank()
    pair, _ = dist.new_subgroups(2)
    batches = sentences(n)[me // 2 :]
    model = DDP(transformer(me), process_group=pair)
    train(model, share(batches, me % 2, 2))
    same(state(model.module), alone(batches, lambda: transformer(me // 2 * 2)))
    dist.destroy_process_group(pair)


def two_at_once() -> None:
    """Two models with groups of their own, whose backward passes are one: their buckets interleave."""
    other = dist.new_group()
    first, second = DDP(perceptron(0), bucket_cap_mb=0.0001), DDP(perceptron(1), process_group=other)
    references = perceptron(0), perceptron(1)

    def run(a: nn.Module, b: nn.Module, batches: list[Batch]) -> None:
        stepper = sgd([*a.parameters(), *b.parameters()])
        for batch in batches:
            stepper.zero_grad()
            (loss_of(a, batch) + loss_of(b, batch)).backward()
            stepper.step()

    run(first, second, share(points()))
    run(*references, points())
    same(state(first.module), state(references[0]))
    same(state(second.module), state(references[1]))
    dist.destroy_process_group(other)


def twice_in_a_step() -> None:
    """Two forward passes, then one backward through both."""

    def run(model: nn.Module, batches: list[Batch]) -> None:
        stepper = sgd(model.parameters())
        for first, second in pairwise(batches):
            stepper.zero_grad()
            (loss_of(model, first) + loss_of(model, second)).backward()
            stepper.step()

    model, reference = DDP(perceptron(), static_graph=False), perceptron()
    run(model, share(points()))
    run(reference, points())
    same(state(model.module), state(reference))


def saved_and_loaded() -> None:
    """A state dict of rank 0, sent as an object, goes on as if nothing had been."""
    batches = sentences(4)
    model = DDP(transformer())
    train(model, share(batches[:2]), lambda p: torch.optim.SGD(p, lr=0.2))
    kept: list[Any] = [model.state_dict() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(kept)
    resumed = DDP(transformer(5))
    resumed.load_state_dict(kept[0])
    train(resumed, share(batches[2:]), lambda p: torch.optim.SGD(p, lr=0.2))
    same(state(resumed.module), alone(batches, optimizer=lambda p: torch.optim.SGD(p, lr=0.2)))
