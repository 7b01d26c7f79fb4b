"""A run of training from its first step to its last, on each of its ranks: and its measurements."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from statistics import mean, median
from typing import NamedTuple

import torch.distributed as dist

from ringtree.draw.step_picture import DrawnCall
from ringtree.torch_backend import communicator
from ringtree.training.core.experts import Load, load_of, total
from ringtree.training.core.memory import Held
from ringtree.training.core.trainer import Trainer
from ringtree.training.measure.calls import newest, since
from ringtree.training.measure.measured import TrainingRecord
from ringtree.training.measure.memory import held
from ringtree.training.measure.shares import named
from ringtree.training.measure.wire import meet, received_nbytes, without_barriers


class _Part(NamedTuple):
    """One rank's measurements of the whole run, as in TrainingRecord."""

    received_nbytes: list[int]
    traced_s: float
    pace_s: float
    held: Held
    calls: list[DrawnCall]
    staleness: Counter[int]
    routed: Counter[str]
    load: Load | None


def check_steps(trainer: Trainer) -> None:
    """ValueError: if no steps are left, as after a checkpoint of them all."""
    if trainer.steps_done >= trainer.plan.settings.steps:
        raise ValueError(f"{trainer.steps_done} steps are done already; expected more than that")


@dataclass(slots=True)
class Session:
    """A run of a trainer. After each step it calls `report(step, loss, seconds)`, in asynchronous training with this
    rank's own loss, and then `kept(trainer)`. The default process group exists, of one rank too; all ranks run it
    together."""

    trainer: Trainer
    report: Callable[[int, float, float], None]
    kept: Callable[[Trainer], None] = lambda trainer: None
    losses: list[float] = field(default_factory=list)
    step_s: list[float] = field(default_factory=list)
    received: list[int] = field(default_factory=list)
    _calls: list[DrawnCall] = field(default_factory=list)

    def run(self) -> TrainingRecord:
        """Takes the steps that are left, and traces the last one. ValueError: if there are none."""
        trainer = self.trainer
        first, last = trainer.steps_done + 1, trainer.plan.settings.steps
        check_steps(trainer)
        while trainer.steps_done < last - 1:
            self._step(nullcontext())
        trainer.drain()
        recording, counted, load = communicator().trace(), trainer.counted(), load_of(trainer.model)
        traced_s = self._step(recording, alone=True)
        pace_s, routed = median(self.step_s[1:] or self.step_s), _routed(trainer, counted, load)
        mine = _Part(self.received, traced_s, pace_s, held(trainer), self._calls, trainer.staleness, *routed)
        parts = [mine] * dist.get_world_size()
        dist.all_gather_object(parts, mine)
        return TrainingRecord(
            trainer.plan,
            first,
            self.losses if trainer.in_step else trainer.mean_losses(self.losses),
            self.step_s,
            [sum(of_step) for of_step in zip(*(part.received_nbytes for part in parts), strict=True)],
            named(without_barriers(recording.trace), trainer.plan, f"step {last}"),
            [part.calls for part in parts],
            mean(part.traced_s for part in parts),
            [part.pace_s for part in parts],
            [part.held for part in parts],
            sum((part.staleness for part in parts), Counter[int]()),
            sum((part.routed for part in parts), Counter[str]()),
            total([part.load for part in parts if part.load is not None]),
            tuple(communicator().hosts),
        )

    def _step(self, around: AbstractContextManager[object], alone: bool = False) -> float:
        """Does one; how long this rank took, but for what is `around` it and for asking the others' loss. `alone`: all
        that any rank sends for it is in it, within what is `around` it on every rank, and nothing of other steps."""
        if alone:
            meet()
        before = received_nbytes()
        with around:
            if alone:
                meet()  # a server answers others though its own rank is not here yet
            last, begun_s = newest(), time.perf_counter()
            loss = self.trainer.step()
            if alone:
                self.trainer.drain()
            lasted_s = time.perf_counter() - begun_s
            if alone:
                meet()  # a rank that has all may have sent what others do not have
                self._calls = since(last)
            self.received.append(received_nbytes() - before)
        asked_s = time.perf_counter()
        self.losses.append(self.trainer.mean_loss(loss) if self.trainer.in_step else float(loss))
        self.step_s.append(lasted_s + time.perf_counter() - asked_s)
        self.report(self.trainer.steps_done, self.losses[-1], self.step_s[-1])
        self.kept(self.trainer)
        return lasted_s


def _routed(trainer: Trainer, counted: dict[str, int], load: Load | None) -> tuple[Counter[str], Load | None]:
    """Bytes sent and load of this rank's layers of experts since `counted` and `load`."""
    now = load_of(trainer.model)
    sent = Counter({what: nbytes - counted[what] for what, nbytes in trainer.counted().items()})
    return sent, now - load if now is not None and load is not None else None
