"""Steps of training, the same to call under every layout."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ringtree.training.language_model import language_model, loss_of
from ringtree.training.mesh import Mesh
from ringtree.training.plan import Plan, Settings
from ringtree.training.registry import STRATEGIES
from ringtree.training.state import whole
from ringtree.training.text import batch


def optimizer_of(settings: Settings, model: nn.Module) -> torch.optim.Optimizer:
    kinds = {"adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}
    return kinds[settings.optimizer](model.parameters(), lr=settings.rate)


class Trainer:
    """This rank's part of a plan. Without a process group it is the whole of a plan for one rank."""

    def __init__(self, plan: Plan) -> None:
        plan.check()
        self.plan, self.steps_done = plan, 0
        ranks = dist.get_world_size() if dist.is_initialized() else 1
        if ranks != plan.layout.ranks:
            raise ValueError(f"the layout is for {plan.layout.ranks} ranks, and there are {ranks}")
        self.mesh = Mesh(plan.layout) if ranks > 1 else None
        self.at = plan.layout.coordinates(dist.get_rank() if ranks > 1 else 0)
        model: nn.Module = language_model(plan.shape, plan.settings.seed)
        for strategy in STRATEGIES:
            if self.mesh is not None and strategy.used(plan):
                model = strategy.apply(model, plan, self.mesh)
        self.model = model
        self.optimizer = optimizer_of(plan.settings, model)

    def step(self) -> Tensor:
        """One step; this rank's share of the loss, which all ranks' of "data" average to."""
        rows, wanted = self.rows(self.steps_done)
        self.optimizer.zero_grad()
        loss = loss_of(self.model(rows), wanted)
        loss.backward()
        self.optimizer.step()
        self.steps_done += 1
        return loss.detach()

    def rows(self, step: int) -> tuple[Tensor, Tensor]:
        """This rank's rows of a step's batch, and what follows them."""
        layout, settings = self.plan.layout, self.plan.settings
        given = batch(step, settings.batch, self.plan.shape.context, settings.seed)
        piece = self.at["dp"] * layout.ep + self.at["ep"]
        rows, wanted = (part.chunk(layout.pieces)[piece] for part in given)
        return rows, wanted

    def mean_loss(self, loss: Tensor) -> float:
        """Over all ranks' rows; a call of its own, no part of the step."""
        if self.mesh is not None:
            dist.all_reduce(loss, op=dist.ReduceOp.AVG, group=self.mesh.group("data"))
        return float(loss)

    def weights(self) -> dict[str, Tensor]:
        """The whole model's, by the names that one process has, on every rank."""
        return whole(self.model)
