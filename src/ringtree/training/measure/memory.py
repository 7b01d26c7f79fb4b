"""Measured memory of a rank in training: bytes of tensors by purpose, and the most in all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from time import time_ns
from typing import Any
from weakref import finalize

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.profiler import ProfilerActivity, profile

from ringtree.training.core.memory import Held
from ringtree.training.core.plan import TrainingPlan
from ringtree.training.core.rows import text_tensor
from ringtree.training.core.stages import named
from ringtree.training.core.step import holder
from ringtree.training.core.trainer import Trainer
from ringtree.training.strategies.asynchronous.worker import Worker


@dataclass(frozen=True, slots=True)
class MemoryUse(Held):
    """The peaks within a step, in bytes. `activations`: what forward passes kept for backward passes. `peak`: all
    memory that torch allocated for this training, with tensors gathered, sent or used in between."""

    activations: int
    peak: int


def measure(plan: TrainingPlan, steps: int = 2) -> MemoryUse:
    """Trains `steps` steps, and measures the last; all ranks call it. The engine's staging memory is not torch's, and
    not counted."""
    text_tensor()  # which is read once, and not for this training
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        trainer = Trainer(plan)
        for _ in range(steps - 1):
            trainer.step()
        begun_ns = time_ns()
        with _saved(trainer) as saved:
            trainer.step()
        trainer.close()  # a profiler that ends before a thread's receive does leaves its event behind, and crashes
    return MemoryUse(**asdict(held(trainer)), activations=saved.most, peak=_peak(recorded, begun_ns))


def held(trainer: Trainer) -> Held:
    """The memory of a trainer on this rank; costs nothing."""
    parameters, optimizers = list(named(trainer.model).values()), [holder(trainer.optimizer)]
    if isinstance(trainer.model, Worker) and (part := trainer.model.exchange.updated) is not None:
        parameters.append(part.weights)
        optimizers.append(part.optimizer)
    states = [state for optimizer in optimizers for state in optimizer.state.values()]
    return Held(
        nbytes(parameters),
        nbytes(p.grad for p in parameters if p.grad is not None),
        nbytes(value for state in states for value in state.values() if isinstance(value, Tensor)),
    )


def nbytes(tensors: Iterable[Tensor]) -> int:
    """Bytes of tensors on this rank: memory that several tensors are parts of counts once."""
    return sum({storage.data_ptr(): storage.nbytes() for storage in map(_storage, tensors)}.values())


def _storage(tensor: Tensor) -> torch.UntypedStorage:
    local = tensor.to_local() if isinstance(tensor, DTensor) else tensor
    return local.untyped_storage()


def _peak(recorded: Any, begun_ns: int) -> int:
    """The most bytes that were allocated at one time after `begun_ns`, of the recorded allocations."""
    # Only torch's experimental tree has the single allocations: its public tables have sums.
    events = recorded.profiler.kineto_results.experimental_event_tree()
    changes = sorted(_changes(events), key=lambda change: change[0])
    living: dict[int, int] = {}
    now = most = 0
    for at_ns, at, size in changes:
        if size < 0:
            now -= living.pop(at, 0)
        else:
            living[at] = size
            now += size
        most = max(most, now) if at_ns >= begun_ns else most
    return most


def _changes(events: Iterable[Any]) -> Iterator[tuple[int, int, int]]:
    """(time in ns, address, bytes) of each allocation; fewer than 0 bytes where memory was freed."""
    for event in events:
        if event.tag == torch._C._profiler._EventType.Allocation:
            yield event.start_time_ns, event.extra_fields.ptr, event.extra_fields.alloc_size
        yield from _changes(event.children)


class _Saved:
    """Bytes of what autograd keeps for backward, now and at their most."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self.users: dict[int, int] = {}

    def add(self, key: int, size: int) -> None:
        self.users[key] = self.users.get(key, 0) + 1
        if self.users[key] == 1:
            self.now += size
            self.most = max(self.most, self.now)

    def drop(self, key: int, size: int) -> None:
        self.users[key] -= 1
        if not self.users[key]:
            self.now -= size


class _Kept:
    """A tensor that is kept for backward, as long as this object is referenced."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


@contextmanager
def _saved(trainer: Trainer) -> Iterator[_Saved]:
    """Counts while its block runs, without parameters, which are kept too."""
    saved = _Saved()

    def pack(tensor: Tensor) -> _Kept:
        kept, storage = _Kept(tensor), _storage(tensor)
        key, size = storage.data_ptr(), storage.nbytes()
        if key not in {_storage(p).data_ptr() for p in trainer.model.parameters()}:
            saved.add(key, size)
            finalize(kept, saved.drop, key, size)
        return kept

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda kept: kept.tensor):
        yield saved
