"""Measured times of the algorithms that come into question for a call, as corrections of their predicted ones.

Costs that all schedules share do not tell two close algorithms apart to the last tenth: those are measured against
each other, in turns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median

from ringtree.bench.predicted import shared_memory
from ringtree.bench.sweep import SweepCase, cases
from ringtree.bench.tuning import SIZES
from ringtree.ir.collective import COLLECTIVES
from ringtree.plan import predict, shortlist, steps_for
from ringtree.price import CostParameters
from ringtree.price.memory import SharedMemory
from ringtree.price.memory.corrections import LARGEST, Correction, Corrections

MOST_NBYTES = 16 << 20
"""The longest vector that algorithms are measured against each other for; longer ones are corrected alike."""


def rows(ranks: int, most_nbytes: int = MOST_NBYTES) -> list[list[SweepCase]]:
    """The calls to measure, a row for each collective and size, all algorithms that calls choose from: collective by
    collective, so that where time ends early those of the first ones are measured in all sizes."""
    choices = {k.name: shortlist(k.name, ranks) for k in COLLECTIVES.values() if not k.repeats} if ranks > 1 else {}
    several = {collective: names for collective, names in choices.items() if len(names) > 1}
    return [
        [c for name in names for c in cases(k, ranks, [nbytes], "float32", "sum", 0, name)]
        for k, names in several.items()
        for nbytes in SIZES
        if nbytes <= min(most_nbytes, MOST_NBYTES)
    ]


def complete(
    table: Sequence[Sequence[SweepCase]], times_s: Mapping[SweepCase, Sequence[float]]
) -> dict[SweepCase, float]:
    """The median time of each call whose collective was measured over its ranks in all sizes of the table: a factor of
    small sizes alone would be taken for that of large ones."""
    lacking = {(c.collective, c.ranks) for row in table for c in row if c not in times_s}
    return {c: median(took) for c, took in times_s.items() if (c.collective, c.ranks) not in lacking}


def corrected(parameters: CostParameters, times_s: Mapping[SweepCase, float]) -> CostParameters:
    """The parameters with the corrections by which they predict these measured times."""
    return replace(parameters, corrections=Corrections(_correction(c, parameters, s) for c, s in times_s.items()))


def _correction(case: SweepCase, parameters: CostParameters, took_s: float) -> Correction:
    factor = took_s / predicted_s(case, replace(shared_memory(case.ranks), parameters=parameters))
    kept = min(max(factor, 1 / LARGEST), LARGEST)
    return Correction(case.collective, case.algorithm, case.ranks, case.nbytes, kept)


def predicted_s(case: SweepCase, memory: SharedMemory) -> float:
    """Predicted seconds of the call."""
    root = case.root if COLLECTIVES[case.collective].rooted else None
    what = case.algorithm, case.collective, case.ranks, root
    return predict(*what, case.nbytes, steps_for(*what, case.nbytes, memory), memory).seconds
