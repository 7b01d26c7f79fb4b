"""Data parallel training that goes on when ranks die, and takes in processes that come.

Each rank has the whole model, and its part of a step's rows, however many ranks there are. Gradients and the loss, by
each rank's share of the rows, are added up in one all_reduce; a step is done once that has ended. So ranks are at most
one step apart when they hear of a death. The survivors shrink the group, take the state of the furthest, and make the
step again with its rows divided anew.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ringtree.errors import PeerDied, Poisoned, TimedOut
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.training.core.language_model import loss_of
from ringtree.training.core.plan import STATE
from ringtree.training.core.rows import batch
from ringtree.training.core.trainer import Trainer

FAILURES = (PeerDied, Poisoned, TimedOut)
"""The errors of a group in which a rank has died, or stands still."""
LOSS, WAITS = 0, 1
"""Places of the vector that is added up: before the gradients, the loss, and whether a process waits to join."""


class Change(NamedTuple):
    """Processes that were `lost` or that `joined`: `who`, by their names, after `step` steps; `why` they were lost.
    From then on there are `ranks`, which went on after `seconds`: of a loss, from the first error on."""

    kind: str
    who: tuple[str, ...]
    step: int
    ranks: int
    seconds: float
    why: str = ""


class _Begun(NamedTuple):
    """A change whose group has not gone on yet, since `began_s` of time.perf_counter."""

    kind: str
    who: tuple[str, ...]
    began_s: float
    why: str = ""


@dataclass(slots=True)
class ElasticSession:
    """A run of a trainer that has the whole model on each rank of `comm`; a process that has joined `comm` runs it,
    too. `name`: of this process, for the others. `waits()` tells rank 0 whether a process waits to join. Rank 0 alone
    calls `report(step, loss, seconds)` and `kept(trainer)` after each step, and `changed(change)` after each change;
    it may be another from step to step. As long as no rank has taken a step, rank 0 looks by `latest()` for a
    checkpoint, and all call `resume(found)` with what it found, once each. `losses` and `step_s` have an entry a step,
    on all ranks."""

    trainer: Trainer
    comm: Communicator
    name: str
    waits: Callable[[], bool]
    report: Callable[[int, float, float], None]
    changed: Callable[[Change], None]
    kept: Callable[[Trainer], None]
    losses: list[float] = field(default_factory=list)
    step_s: list[float] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    latest: Callable[[], Path | None] = lambda: None
    resume: Callable[[Path | None], None] = lambda found: None
    _names: list[str] = field(init=False)
    _agreed: bool = field(default=False, init=False)
    _begun: list[_Begun] = field(default_factory=list)
    _summed: Tensor = field(init=False)

    def __post_init__(self) -> None:
        self._names = [f"rank {rank}" for rank in range(self.comm.size)]
        parameters = list(self.trainer.model.parameters())
        self._summed = torch.zeros(WAITS + 1 + sum(p.numel() for p in parameters))
        rest = self._summed[WAITS + 1 :]
        for parameter in parameters:  # their gradients lie in the vector that is sent
            parameter.grad, rest = rest[: parameter.numel()].view_as(parameter), rest[parameter.numel() :]

    def run(self) -> None:
        """Takes the steps that are left, with whoever is there. Poisoned: if the others have gone on without this
        rank."""
        steps = self.trainer.plan.settings.steps
        while True:
            try:
                self._agree()
                while self.trainer.steps_done < steps:
                    if self._step():
                        self._grow()
                if self.comm.rank == 0:
                    self.kept(self.trainer)
                self.comm.barrier()  # of a rank 0 that dies while it keeps the last, another takes the place
                return
            except FAILURES:
                began_s = time.perf_counter()
            self._shrink(began_s)

    def _step(self) -> bool:
        """Takes a step; whether a process waits to join."""
        began_s, trainer, comm, summed = time.perf_counter(), self.trainer, self.comm, self._summed
        settings, shape = trainer.plan.settings, trainer.plan.shape
        given = batch(trainer.steps_done, settings.batch, shape.context, settings.seed)
        rows, wanted = (part.tensor_split(comm.size)[comm.rank] for part in given)
        summed.zero_()
        loss = loss_of(trainer.model(rows), wanted) * (len(rows) / settings.batch)
        loss.backward()
        summed[LOSS], summed[WAITS] = loss.detach(), float(comm.rank == 0 and self.waits())
        vector = summed.numpy()
        comm.all_reduce(vector, out=vector)
        trainer.optimizer.step()
        trainer.steps_done += 1
        self.losses.append(float(summed[LOSS]))
        self.step_s.append(time.perf_counter() - began_s)
        if comm.rank == 0:
            self.report(trainer.steps_done, self.losses[-1], self.step_s[-1])
            if trainer.steps_done < settings.steps:
                self.kept(trainer)
        return bool(summed[WAITS])

    def _shrink(self, began_s: float) -> None:
        self.comm = self.comm.shrink()
        stayed = self.comm.former_ranks
        names = self._names
        lost = tuple(name for rank, name in enumerate(names) if rank not in stayed)
        why = re.sub(r"\brank (\d+)", lambda found: names[int(found[1])], self.comm.first_cause)
        self._names = [names[rank] for rank in stayed]
        self._begun.append(_Begun("lost", lost, began_s, why))

    def _grow(self) -> None:
        """Takes in those who wait. Where one of them ends meanwhile, the group is as before."""
        began_s = time.perf_counter()
        try:
            grown = self.comm.grow()
        except TimedOut:
            return
        if grown is not self.comm:
            self.comm = grown
            came = tuple(f"rank {rank}" for rank, former in enumerate(grown.former_ranks) if former < 0)
            self._names += came  # until they give theirs
            self._begun.append(_Begun("joined", came, began_s))
            self._agree()

    def _agree(self) -> None:
        """Gives all ranks the state and the history of the furthest, the lowest of these. If it raises, this rank has
        all of its own still: part of another's state beside its number of steps would pass for the whole."""
        comm, trainer = self.comm, self.trainer
        found = self.latest() if comm.rank == 0 and not trainer.steps_done else None
        facts = comm.all_gather_object((trainer.steps_done, self.name, found))
        steps = [done for done, *_ in facts]
        self._names = [name for _, name, _ in facts]
        if not max(steps):  # a checkpoint that a rank found later by itself might be another, or of this training
            if not self._agreed:
                self.resume(facts[0][-1])
            steps = [trainer.steps_done] * comm.size
        self._agreed = True
        root = steps.index(max(steps))
        came = self._state_of(root) if min(steps) < max(steps) else []
        changes = [self._made(begun, steps[root]) for begun in self._begun]
        history: Any = (self.losses, self.step_s, [*self.changes, *changes])
        history = comm.broadcast_object(history, root)
        for tensor, its in came:
            tensor.copy_(its)
        trainer.steps_done = steps[root]
        self.losses, self.step_s, self.changes = history
        self._begun.clear()
        for change in changes if comm.rank == 0 else ():
            self.changed(change)

    def _state_of(self, root: int) -> list[tuple[Tensor, Tensor]]:
        """Each tensor of this rank's state, detached, and the root's."""
        came = []
        for tensor in _state(self.trainer):
            mine = tensor.detach()
            its = mine if self.comm.rank == root else torch.empty_like(mine)
            self.comm.broadcast(its.view(-1).numpy(), root)
            came.append((mine, its))
        return came

    def _made(self, begun: _Begun, step: int) -> Change:
        came = tuple(self._names[new] for new, old in enumerate(self.comm.former_ranks) if old < 0)
        seconds = time.perf_counter() - begun.began_s
        who = came if begun.kind == "joined" and came else begun.who
        return Change(begun.kind, who, step, self.comm.size, seconds, begun.why)


def _state(trainer: Trainer) -> list[Tensor]:
    """The parameters and, made where there is none yet, the optimizer's state, in one order on all ranks."""
    kinds, state = STATE[trainer.plan.settings.optimizer], trainer.optimizer.state
    tensors: list[Tensor] = []
    for parameter in trainer.model.parameters():
        if kinds and not state[parameter]:
            state[parameter] = {"step": torch.tensor(0.0)} | {kind: torch.zeros_like(parameter) for kind in kinds}
        tensors += [parameter, *(state[parameter][kind] for kind in ("step", *kinds) if kinds)]
    return tensors
