"""What a rank's own work costs."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.program import Kind
from ringtree.simulate.conditions import Conditions
from ringtree.topology import Topology


class Work(Protocol):
    """Columns, a row for each thing that a rank does: its kind is one of ir.program.Kind, or one that costs nothing."""

    @property
    def rank(self) -> NDArray[np.signedinteger]: ...
    @property
    def kind(self) -> NDArray[np.signedinteger]: ...
    @property
    def nbytes(self) -> NDArray[np.int64]: ...
    @property
    def sources(self) -> NDArray[np.signedinteger]: ...


def busy_s(work: Work, topology: Topology, conditions: Conditions) -> NDArray[np.float64]:
    """How long each row keeps its rank busy, waiting aside."""
    copied, reduced = work.kind == Kind.COPY, work.kind == Kind.REDUCE
    lasts_s = np.where(copied | reduced, topology.step_s, 0.0)
    lasts_s[copied] += work.nbytes[copied] / topology.copy_Bps
    lasts_s[reduced] += (work.sources[reduced] - 1) * work.nbytes[reduced] / topology.reduce_Bps
    lasts_s[(work.kind == Kind.SIGNAL) | (work.kind == Kind.WAIT)] = topology.message_s
    slowdown = np.ones(topology.ranks)
    for rank, factor in conditions.slowdown.items():
        slowdown[rank] = factor
    slowed_s: NDArray[np.float64] = lasts_s * slowdown[work.rank]
    return slowed_s
