"""The time of a pipeline's passes whose stages take times of their own, by the order in which ranks do them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ringtree.training.core.layout import ParallelLayout
from ringtree.training.strategies.layers.micro_batches import round_length
from ringtree.training.strategies.layers.pipeline_order import STAGES_A_RANK, Pass, in_turn

ROUNDS = {1: 3, 2: 4}
"""Rounds of about as many micro-batches as ranks that are played, by the stages of a rank; each further one takes a
steady time."""


@dataclass(frozen=True, slots=True)
class PassLevels:
    """All passes of a schedule by level: those that wait for passes of earlier levels alone. Of each pass `kinds` has
    stage x 2 + whether it is backward, `before` and `needed` the pass of its rank and the pass of another stage that
    must end first (0: none; passes count from 1). `bounds`: the first pass of each level."""

    kinds: NDArray[np.int32]
    before: NDArray[np.int32]
    needed: NDArray[np.int32]
    bounds: tuple[int, ...]

    def end_s(self, kinds_s: NDArray[np.float64]) -> float:
        """The time when the last pass ends. `kinds_s`: the seconds of a pass of each kind."""
        ends_s, passes_s = np.zeros(len(self.kinds) + 1), kinds_s[self.kinds]
        for low, high in pairwise(self.bounds):
            begins_s = np.maximum(ends_s[self.before[low:high]], ends_s[self.needed[low:high]])
            ends_s[low + 1 : high + 1] = begins_s + passes_s[low:high]
        return float(ends_s.max())


def passes_s(layout: ParallelLayout, forward_s: Sequence[float], backward_s: Sequence[float]) -> float:
    """The time from the first pass of a step to the end of its last one, whose messages take none. `forward_s`,
    `backward_s`: the seconds of a micro-batch through each stage.

    Of many micro-batches the first ROUNDS rounds are played, and a round more takes as long as the fullest rank, or as
    the last played. That is the time of all played but for 3 % at most where stages' times are drawn at random, and
    exact where the last stage of 1F1B or GPipe takes longest."""
    forward, backward = np.asarray(forward_s, dtype=float), np.asarray(backward_s, dtype=float)
    if layout.pp == 1:
        return layout.micro_batches * float(forward.sum() + backward.sum())
    each_rank, kinds_s = STAGES_A_RANK[layout.schedule], np.stack([forward, backward], axis=1).ravel()
    length = layout.pp if each_rank == 1 else round_length(layout.micro_batches, layout.pp)
    further = layout.micro_batches / length - ROUNDS[each_rank]
    if further <= 0:
        return _levels(layout.schedule, layout.pp, layout.micro_batches).end_s(kinds_s)
    end_s = _levels(layout.schedule, layout.pp, ROUNDS[each_rank] * length).end_s(kinds_s)
    if layout.schedule == "gpipe":  # a phase of forward passes, then one of backward passes
        return end_s + further * length * float(forward.max() + backward.max())
    round_s = length * float((forward + backward).reshape(-1, layout.pp).sum(axis=0).max())
    if each_rank > 1:
        earlier_s = _levels(layout.schedule, layout.pp, (ROUNDS[each_rank] - 1) * length).end_s(kinds_s)
        round_s = max(round_s, end_s - earlier_s)
    return end_s + further * round_s


@lru_cache(64)
def _levels(schedule: str, pp: int, micro_batches: int) -> PassLevels:
    layout = ParallelLayout(pp=pp, schedule=schedule, micro_batches=micro_batches)
    level, rows = dict[Pass | None, int]({None: -1}), list[tuple[int, Pass, Pass | None, Pass | None]]()
    last: list[Pass | None] = [None] * pp
    for rank, one, need in in_turn(layout):
        level[one] = 1 + max(level[need], level[last[rank]])
        rows.append((level[one], one, last[rank], need))
        last[rank] = one
    rows.sort(key=lambda row: row[0])
    number: dict[Pass | None, int] = {None: 0, **{row[1]: k for k, row in enumerate(rows, 1)}}
    kinds = np.array([2 * one.stage + one.backward for _, one, _, _ in rows], dtype=np.int32)
    before = np.array([number[previous] for _, _, previous, _ in rows], dtype=np.int32)
    needed = np.array([number[need] for _, _, _, need in rows], dtype=np.int32)
    bounds = np.searchsorted([row[0] for row in rows], range(rows[-1][0] + 2))
    return PassLevels(kinds, before, needed, tuple(bounds.tolist()))
