"""A pipeline's schedules as they are meant: in which order a rank does its passes, and when, if nothing hinders it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ringtree.ir.trace import Event, Trace
from ringtree.training.core.layout import ParallelLayout
from ringtree.training.strategies.layers.micro_batches import round_length

STAGES_A_RANK = {"naive": 1, "gpipe": 1, "1f1b": 1, "interleaved": 2}


@dataclass(frozen=True, slots=True)
class Pass:
    """One micro-batch's pass through one stage, forward or backward."""

    backward: bool
    micro_batch: int
    stage: int

    @property
    def name(self) -> str:
        """The pass as traces name it, such as "forward 3"."""
        return f"{'backward' if self.backward else 'forward'} {self.micro_batch}"


def bubble(layout: ParallelLayout) -> float:
    """A rank's waiting time over its computing time, by the formula of the layout's schedule."""
    p, m = layout.pp, layout.micro_batches
    if layout.schedule == "naive":
        return p - 1.0
    if layout.schedule == "interleaved":  # fewer micro-batches than ranks leave a gap between a rank's two stages
        return (p - 1 + max(0, p - m)) / (2 * m)
    return (p - 1) / m


def order(layout: ParallelLayout, rank: int) -> list[Pass]:
    """A rank's passes in order: forward passes until all later stages have work, then one backward pass for each
    forward pass, then the remaining backward passes."""
    p, m, v = layout.pp, layout.micro_batches, STAGES_A_RANK[layout.schedule]
    first = first_passes(layout, rank)
    forward = [Pass(False, i, rank + p * chunk) for i, chunk in _rounds(m, p, v)]
    backward = [Pass(True, i, rank + p * (v - 1 - chunk)) for i, chunk in _rounds(m, p, v)]
    between = [one for pair in zip(backward, forward[first:], strict=False) for one in pair]
    return [*forward[:first], *between, *backward[len(forward) - first :]]


def first_passes(layout: ParallelLayout, rank: int) -> int:
    """The number of a rank's forward passes before its first backward pass."""
    p, m, v = layout.pp, layout.micro_batches, STAGES_A_RANK[layout.schedule]
    if layout.schedule in ("naive", "gpipe"):
        return m
    if layout.schedule == "1f1b":
        return min(m, p - rank)
    return min(v * m, (v - 1) * round_length(m, p) + 2 * (p - 1 - rank) + 1)


def _rounds(m: int, p: int, v: int) -> list[tuple[int, int]]:
    """(micro-batch, chunk) in order: some micro-batches through a rank's first chunk, then those through its next."""
    length = round_length(m, p) if v > 1 else m
    return [(i, k) for begin in range(0, m, length) for k in range(v) for i in range(begin, min(begin + length, m))]


def ideal(layout: ParallelLayout, forward_s: float = 1.0, backward_s: float = 2.0) -> Trace:
    """The trace of a schedule whose messages take no time. `forward_s`, `backward_s`: seconds of a micro-batch through
    all of a rank's layers."""
    ranks, names, starts, ends = zip(*_played(layout, forward_s, backward_s), strict=True)
    calls, call = np.unique(names, return_inverse=True)
    return Trace.of(layout.pp, ranks, Event.COMPUTE, starts, ends, call=call, calls=calls.tolist())


def _played(layout: ParallelLayout, forward_s: float, backward_s: float) -> Iterator[tuple[int, str, float, float]]:
    """Yields (rank, pass, begin, end) of every pass."""
    v, done_s, free_s = STAGES_A_RANK[layout.schedule], dict[Pass | None, float]({None: 0.0}), [0.0] * layout.pp
    for rank, one, need in in_turn(layout):
        start_s = max(free_s[rank], done_s[need])
        free_s[rank] = done_s[one] = start_s + (backward_s if one.backward else forward_s) / v
        yield rank, one.name, start_s, free_s[rank]


def in_turn(layout: ParallelLayout) -> Iterator[tuple[int, Pass, Pass | None]]:
    """Yields (rank, pass, the pass of another stage that must end first) of every pass, behind those that it waits for.
    ValueError where ranks would wait for each other for ever."""
    stages, done = layout.pp * STAGES_A_RANK[layout.schedule], set[Pass | None]([None])
    left = [order(layout, rank)[::-1] for rank in range(layout.pp)]
    while any(left):
        before = len(done)
        for rank, passes in enumerate(left):
            while passes and (need := _need(passes[-1], stages)) in done:
                done.add(one := passes.pop())
                yield rank, one, need
        if len(done) == before:
            waiting = next(passes[-1].name for passes in left if passes)
            raise ValueError(f"ranks wait for each other: {waiting} never begins in {layout.schedule} of {layout.pp}")


def _need(one: Pass, stages: int) -> Pass | None:
    """The pass that must end first: forward, of the stage before; backward, of the stage behind, and for the last stage
    its own forward pass."""
    if not one.backward:
        return Pass(False, one.micro_batch, one.stage - 1) if one.stage > 0 else None
    if one.stage == stages - 1:
        return Pass(False, one.micro_batch, one.stage)
    return Pass(True, one.micro_batch, one.stage + 1)
