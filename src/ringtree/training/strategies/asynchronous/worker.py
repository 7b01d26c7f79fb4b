"""A worker of asynchronous training: the model, whose weights it reads before each step and whose gradients it pushes
after."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ringtree.training.core.mesh import TrainingMesh, as_patient, destroy
from ringtree.training.core.plan import STATE, TrainingPlan
from ringtree.training.core.step import ForwardBackward, MicroBatches
from ringtree.training.strategies.asynchronous.flat import Flat, Updated
from ringtree.training.strategies.asynchronous.parameter_server import Served
from ringtree.training.strategies.asynchronous.peers import Peer


class Exchange(Protocol):
    """The way of weights to a worker, and of its gradients to the rank that applies them. All ranks call `drain`,
    `collect` and `close`, after as many steps each."""

    @property
    def updated(self) -> Updated | None:
        """The weights and state that this rank applies gradients to; None on a rank without any."""

    def read(self) -> int:
        """Copies the newest weights that the bound allows into the model; returns their staleness in steps."""

    def push(self) -> None:
        """Begins to send the gradients, which stay as they are until `sent`."""

    def sent(self) -> None:
        """Waits until the gradients may change again."""

    def drain(self) -> None:
        """Waits until all that was pushed is applied."""

    def collect(self, vectors: Mapping[str, Tensor], steps: Tensor) -> None:
        """Copies weights and state, once drained, into whole vectors by their names, the same on every rank."""

    def hand_out(self, vectors: Mapping[str, Tensor], steps: Tensor) -> None:
        """Copies weights and state, once drained, from such vectors to the ranks that keep them."""

    def close(self) -> None:
        """Ends servers, once drained."""


class Worker(nn.Module):
    """A model whose forward passes use weights from servers or peers. `staleness`: number of reads by staleness."""

    def __init__(self, model: nn.Module, plan: TrainingPlan) -> None:
        super().__init__()
        self.module = model
        self.flat = Flat(model)
        self.staleness: Counter[int] = Counter()
        self._group: Any = as_patient(dist.new_group())
        dist.broadcast(self.flat.weights, group_src=0, group=self._group)
        kind = Peer if plan.layout.server == "peers" else Served
        self.exchange: Exchange = kind(self.flat, plan, self._group)

    def forward(self, rows: Tensor) -> Tensor:
        """The model's scores of these rows."""
        return self.module(rows)

    def read(self) -> None:
        """Reads the weights, waiting where the bound on staleness requires, and counts the read's staleness."""
        self.staleness[self.exchange.read()] += 1

    def close(self) -> None:
        """Ends the exchange on all workers together once it is drained, and its process group in any case."""
        try:
            self.exchange.drain()
            self.exchange.close()
            dist.barrier(self._group)  # a server that still waited would take it for a failure that others leave
        finally:
            destroy([self._group])


class Reading:
    """Forward and backward passes on the weights that the worker reads before."""

    def __init__(self, worker: Worker, plan: TrainingPlan) -> None:
        self._worker, self._passes = worker, MicroBatches(worker, plan.layout.micro_batches)

    def __call__(self, rows: Tensor, wanted: Tensor) -> Tensor:
        """Reads the weights, then runs the passes; returns the loss."""
        self._worker.read()
        return self._passes(rows, wanted)


class Pushing(torch.optim.Optimizer):
    """Replaces the optimizer, whose step is made where the weights lie. It has a state while that is collected."""

    def __init__(self, worker: Worker, plan: TrainingPlan) -> None:
        super().__init__(worker.parameters(), {"lr": plan.settings.rate})
        self._worker, self._kinds = worker, STATE[plan.settings.optimizer]

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Sets the gradients to zero in place: they lie in one vector."""
        self._worker.exchange.sent()
        self._worker.flat.gradients.zero_()

    def step(self, closure: Any = None) -> None:
        """Pushes this worker's gradients; servers or peers apply them."""
        self._worker.exchange.push()

    def collect(self) -> None:
        """Brings model and state to every rank, as one process has them; all ranks call it."""
        flat, steps = self._worker.flat, torch.zeros(())
        vectors = {kind: torch.zeros_like(flat.weights) for kind in self._kinds}
        self._worker.exchange.drain()
        self._worker.exchange.collect({"weights": flat.weights, **vectors}, steps)
        for kind, vector in vectors.items():
            for p, part in zip(flat.parameters, flat.views(vector), strict=True):
                self.state[p] |= {"step": steps.clone(), kind: part}

    def let_go(self) -> None:
        """Frees the collected state: two more vectors of the whole model's size by AdamW."""
        self.state.clear()

    def hand_out(self) -> None:
        """Sends the model's weights and the state to the ranks that keep them; all ranks call it."""
        flat, steps = self._worker.flat, torch.zeros(())
        vectors = {"weights": flat.weights}
        for kind in self._kinds:  # there is none before the first step
            states = [(p, self.state[p]) for p in flat.parameters]
            vectors[kind] = torch.cat([state.get(kind, torch.zeros_like(p)).flatten() for p, state in states])
            steps = states[0][1].get("step", steps)
        self._worker.exchange.drain()
        self._worker.exchange.hand_out(vectors, steps)


def apply(model: nn.Module, plan: TrainingPlan, mesh: TrainingMesh) -> nn.Module:
    """Returns the model as a worker of asynchronous training, with its weights read from servers or peers."""
    return Worker(model, plan)


def optimizer(model: Worker, plan: TrainingPlan, mesh: TrainingMesh) -> torch.optim.Optimizer:
    """Returns an optimizer whose step pushes the worker's gradients."""
    return Pushing(model, plan)


def forward_backward(model: Worker, plan: TrainingPlan, mesh: TrainingMesh) -> ForwardBackward:
    """Returns passes that read the weights first."""
    return Reading(model, plan)
