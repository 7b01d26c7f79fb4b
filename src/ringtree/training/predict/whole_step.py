"""The estimated time of a whole step: computing, the pipeline's bubble, and the calls that nothing covers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ringtree.training.core.flops import PASSES, most_flops
from ringtree.training.core.layout import JOINED
from ringtree.training.core.plan import TrainingPlan
from ringtree.training.predict.step_times import PricedCalls, StepTimes
from ringtree.training.strategies.layers.pipeline_order import bubble


@dataclass(frozen=True)
class WholeStep:
    """A step of a plan whose calls take `times`, on GPUs that compute `flops_a_s` operations a second: an estimate,
    beside published steps in benchmarks/published_steps.py.

    The next layer waits for the calls of "tp", "cp" and "ep", so the stages of a pipeline wait for them, too. The calls
    of data parallel ranks pass beside computing: gradients beside the last micro-batch's backward pass; all that ZeRO 2
    and 3 send beside both passes of each.
    """

    plan: TrainingPlan
    times: StepTimes
    flops_a_s: float

    @cached_property
    def computing_s(self) -> float:
        """The computing time of the rank that computes most."""
        return most_flops(self.plan) / self.flops_a_s

    @property
    def serial_s(self) -> float:
        """The time of a step in which no call passes beside computing."""
        behind = self._calls_s("tp", "cp", "ep")
        return (self.computing_s + behind) * (1 + bubble(self.plan.layout)) + self._calls_s("pp", *JOINED)

    @property
    def overlapped_s(self) -> float:
        """The time of a step in which the calls of data parallel ranks pass beside computing, as far as it lasts."""
        layout = self.plan.layout
        if layout.zero >= 2:
            return self.serial_s - min(self._calls_s(*JOINED), self.computing_s)
        sums = (p for p in self._along(*JOINED) if p.calls.collective == "all_reduce")
        backward_s = self.computing_s * (PASSES - 1) / PASSES / layout.micro_batches
        return self.serial_s - min(sum(map(_seconds, sums)), backward_s)

    def _along(self, *axes: str) -> list[PricedCalls]:
        return [p for p in self.times.priced if p.calls.axis in axes]

    def _calls_s(self, *axes: str) -> float:
        return sum(map(_seconds, self._along(*axes)))


def _seconds(priced: PricedCalls) -> float:
    return priced.calls.times * priced.time.time_s if priced.time else 0.0
