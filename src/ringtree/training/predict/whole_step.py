"""The estimated time of a whole step: computing, waiting for a pipeline's stages, and the calls that nothing covers."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from functools import cached_property

from ringtree.training.core.flops import forward_share, model_flops, most_flops, stage_flops
from ringtree.training.core.layout import JOINED
from ringtree.training.core.placement import layers
from ringtree.training.core.plan import TrainingPlan
from ringtree.training.predict.step_times import StepTimes
from ringtree.training.strategies.layers.pipeline_time import passes_s
from ringtree.training.strategies.strategy import FEWEST

SUMS = ("all_reduce", "reduce_scatter")


@dataclass(frozen=True)
class WholeStep:
    """A step of a plan whose calls take `times`, on GPUs that compute `flops_a_s` operations a second: an estimate,
    beside published steps in benchmarks/published_steps.py.

    Each stage of a pipeline computes its own operations, and waits for the calls of "tp", "cp" and "ep" between its
    layers: with these times its passes are played in the schedule's order. The calls are taken to be spread evenly over
    a rank's layers, and over the passes through a block that make them. The calls
    of data parallel ranks pass beside computing: gradients beside the last micro-batch's backward pass; those of ZeRO 2
    and 3 beside each backward pass, but in a pipeline, whose stages divide them when all passes are over. Parameters
    that are gathered pass beside the first forward pass with ZeRO 2, beside all passes with ZeRO 3.
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
        return self._passes_s + self._calls_s("pp", *JOINED)

    @cached_property
    def _passes_s(self) -> float:
        """The time from the first pass of a step to the end of its last one, messages apart."""
        layout, stages = self.plan.layout, stage_flops(self.plan)
        calls_s = [0.0] * len(stages)
        for position, its_s in enumerate(self.times.between_layers_s):
            parts = layers(self.plan, position)
            for chunk, part in enumerate(parts):
                calls_s[position + chunk * layout.pp] = its_s * len(part) / sum(map(len, parts))
        share = 1 / (1 + layout.forwards)
        forward_s, backward_s = (
            [
                (flops[way] / self.flops_a_s + its_s * part) / layout.micro_batches
                for flops, its_s in zip(stages, calls_s, strict=True)
            ]
            for way, part in enumerate((share, 1 - share))
        )
        return passes_s(layout, forward_s, backward_s)

    @property
    def overlapped_s(self) -> float:
        """The time of a step in which the calls of data parallel ranks pass beside computing, as far as it lasts."""
        backward_s = self.computing_s * (1 - forward_share(self.plan))
        layout, sums_s = self.plan.layout, self._calls_s(*JOINED, of=SUMS)
        if layout.zero < 2:
            return self.serial_s - min(sums_s, backward_s / layout.micro_batches)
        covered_s = min(sums_s, backward_s) if layout.pp == 1 else 0.0
        beside_s = self.computing_s - covered_s
        if layout.zero == 2:
            beside_s = (self.computing_s - backward_s) / layout.micro_batches
        return self.serial_s - covered_s - min(self._calls_s(*JOINED, of=("all_gather",)), beside_s)

    @property
    def tokens_a_s(self) -> float:
        """The tokens that all ranks together read in a second."""
        return self.plan.settings.batch * self.plan.shape.context / self.overlapped_s

    @property
    def model_flops_a_s(self) -> float:
        """The model's operations a second of each rank, each counted once: over the GPU's nominal rate they are model
        FLOPs utilisation (MFU)."""
        return model_flops(self.plan) / (self.plan.layout.ranks * self.overlapped_s)

    def _calls_s(self, *axes: str, of: Container[str] = FEWEST) -> float:
        """The time of calls along axes; `of`: of these collectives."""
        found = (p for p in self.times.priced if p.calls.axis in axes and p.calls.collective in of)
        return sum(p.calls.times * p.time.time_s for p in found if p.time)


def played_bubble(plan: TrainingPlan) -> float:
    """The waiting time of the rank that computes most over its computing time, in a step whose calls take none: that of
    the schedule's formula where all stages compute alike."""
    if plan.layout.pp == 1:
        return 0.0
    forward, backward = zip(*stage_flops(plan), strict=True)
    return passes_s(plan.layout, forward, backward) / plan.layout.micro_batches / most_flops(plan) - 1
