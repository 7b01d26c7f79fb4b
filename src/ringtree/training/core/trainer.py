"""Steps of training, the same to call under every layout."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ringtree.training.core.language_model import language_model
from ringtree.training.core.mesh import TrainingMesh
from ringtree.training.core.plan import TrainingPlan
from ringtree.training.core.rows import batch
from ringtree.training.core.stages import each, whole
from ringtree.training.core.step import ForwardBackward, MicroBatches, optimizer_of, phase, slow_down
from ringtree.training.strategies.asynchronous.worker import Pushing, Worker
from ringtree.training.strategies.registry import STRATEGIES, check


class Trainer:
    """This rank's part of a plan. Without a process group it is the whole of a plan for one rank."""

    def __init__(self, plan: TrainingPlan) -> None:
        check(plan)
        self.plan, self.steps_done, self._closed = plan, 0, False
        ranks = dist.get_world_size() if dist.is_initialized() else 1
        if ranks != plan.layout.ranks:
            raise ValueError(f"the layout is for {plan.layout.ranks} ranks, and there are {ranks}")
        self.mesh = TrainingMesh(plan.layout) if ranks > 1 else None
        self.at = plan.layout.coordinates(dist.get_rank() if ranks > 1 else 0)
        self.model: nn.Module = language_model(plan.shape, plan.settings.seed, plan.layout.recompute)
        if plan.settings.slow_rank == (dist.get_rank() if ranks > 1 else 0):
            slow_down(self.model, plan.settings.slow_factor, plan.layout.forwards)
        self._used = used = [strategy for strategy in STRATEGIES if strategy.used(plan)]
        for strategy in used:
            if self.mesh is not None:
                self.model = each(strategy.apply, self.model, plan, self.mesh)
        self.optimizer = optimizer_of(plan.settings, self.model.parameters())
        self.forward_backward: ForwardBackward = MicroBatches(self.model, plan.layout.micro_batches)
        self._after_backward = [strategy.after_backward for strategy in used if strategy.after_backward is not None]
        optimizers = [strategy.optimizer for strategy in used if strategy.optimizer is not None]
        passes = [strategy.forward_backward for strategy in used if strategy.forward_backward is not None]
        if self.mesh is not None and optimizers:
            self.optimizer = optimizers[0](self.model, plan, self.mesh)
        if self.mesh is not None and passes:
            with self._around():
                self.forward_backward = passes[0](self.model, plan, self.mesh)

    def step(self) -> Tensor:
        """Takes one step; returns this rank's share of the loss, a scalar, which the ranks of "data" average and the
        stages add up."""
        rows, wanted = self.rows(self.steps_done)
        self.optimizer.zero_grad()
        with self._around():
            loss = self.forward_backward(rows, wanted)
        with phase("update"):
            for finish in self._after_backward:
                finish(self.model)
            self.optimizer.step()
        self.steps_done += 1
        return loss

    @contextmanager
    def _around(self) -> Iterator[None]:
        """The context of passes that the strategies want."""
        with ExitStack() as contexts:
            for strategy in self._used:
                contexts.enter_context(strategy.around())
            yield

    def rows(self, step: int) -> tuple[Tensor, Tensor]:
        """This rank's positions of its rows of a step's batch, and the bytes that follow them, [rows, positions]
        both."""
        layout, settings = self.plan.layout, self.plan.settings
        given = batch(step, settings.batch, self.plan.shape.context, settings.seed)
        piece = self.at["dp"] * layout.ep + self.at["ep"]
        rows, wanted = (part.chunk(layout.pieces)[piece] for part in given)
        for strategy in self._used:
            if strategy.positions is not None:
                at = strategy.positions(self.plan, self.at[strategy.axis])
                rows, wanted = rows[:, at], wanted[:, at]
        return rows, wanted

    def mean_loss(self, loss: Tensor) -> float:
        """The mean loss over all ranks' rows; a call of its own, no part of the step."""
        return self.mean_losses([float(loss)])[0]

    def mean_losses(self, losses: list[float]) -> list[float]:
        """The mean losses of several steps at once, for asynchronous training: a mean at each step would
        synchronize."""
        means = torch.tensor(losses)
        if self.mesh is not None:
            if self.plan.layout.pp > 1:
                dist.all_reduce(means, group=self.mesh.group("pp"))
            dist.all_reduce(means, op=dist.ReduceOp.AVG, group=self.mesh.group("data"))
        return [float(mean) for mean in means]

    def counted(self) -> dict[str, int]:
        """Bytes that this rank has sent so far of traffic that formulas only bound (`Traffic.at_most`), by its name."""
        counts: dict[str, int] = {}
        for strategy in self._used:
            if strategy.counted is not None:
                counts |= strategy.counted(self.model, self.plan, self.at[strategy.axis])
        return counts

    @property
    def in_step(self) -> bool:
        """Whether the ranks do each step together."""
        return self.plan.layout.staleness is None

    @property
    def staleness(self) -> Counter[int]:
        """The number of this rank's reads by their staleness, where training is asynchronous."""
        return self.model.staleness if isinstance(self.model, Worker) else Counter()

    def drain(self) -> None:
        """Waits until all that the ranks have sent for their steps has come and is applied. All ranks call it; nothing
        to do but in asynchronous training."""
        if isinstance(self.model, Worker):
            self.model.exchange.drain()

    def collect(self) -> None:
        """Drains, and brings weights and the optimizer's state to where all strategies have them, until `let_go`. All
        ranks call it."""
        if isinstance(self.optimizer, Pushing):
            self.optimizer.collect()

    def hand_out(self) -> None:
        """Gives the collected weights and state back to where the strategies have them. All ranks call it."""
        if isinstance(self.optimizer, Pushing):
            self.optimizer.hand_out()
            self.optimizer.let_go()

    def let_go(self) -> None:
        """Frees the collected state, which the ranks that keep it still have."""
        if isinstance(self.optimizer, Pushing):
            self.optimizer.let_go()

    def close(self) -> None:
        """Drains, ends threads that run beside the steps, and closes the groups that the trainer made. All ranks call
        it; where a group has failed, it raises that once these are closed. A repeated call does no harm."""
        if self._closed:
            return
        self._closed = True
        try:
            if isinstance(self.model, Worker):
                self.model.close()
        finally:
            if self.mesh is not None:
                self.mesh.close()

    def weights(self) -> dict[str, Tensor]:
        """The whole model's weights, by the names that one process has, on every rank."""
        self.collect()
        self.let_go()
        return whole(self.model, self.mesh.group("pp") if self.mesh is not None else None)
