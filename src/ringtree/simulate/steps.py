"""Steps: programs with bytes, as one table, which the event player reads; and the seconds of each on its rank.

The signal that a wait takes and the filling of a slot that a release returns are fixed by the programs (the k-th takes
the k-th), so all pairs are known before the play.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.program import Kind
from ringtree.simulate.code import Code
from ringtree.simulate.conditions import Conditions
from ringtree.topology import Topology

Ints = NDArray[np.int64]
COPY, REDUCE, SIGNAL, WAIT = (int(k) for k in (Kind.COPY, Kind.REDUCE, Kind.SIGNAL, Kind.WAIT))
ASK, LAND, FILL, GIVE, AFTER, MARK = range(4, 10)
"""Kinds of steps that programs do not name. ASK: a message for which no rank signals; LAND: it has arrived; FILL: a
slot must be free; GIVE: a payload is used once less; AFTER: a MARK must be passed first; MARK: some AFTER needs it."""
NONE = -1
COLUMNS = ("rank", "channel", "job", "kind", "nbytes", "sources", "peer", "chunk", "number")


class ThreadSteps(NamedTuple):
    """One thread of one rank's program: steps first … stop-1 of the table."""

    rank: int
    job: int
    first: int
    stop: int


@dataclass(frozen=True, slots=True, eq=False)
class StepTable:
    """A row a step. `peer` of a copy or reduction: the sender of the message it reads. `number`: of a signal or wait
    its partner's row, of LAND the row of its ASK, of AFTER a row, of FILL and GIVE a payload; NONE where there is none.
    `chunk`: the position on the whole vector, NONE where it is several or none.

    A *payload* is one filling of a slot: `uses` counts the GIVEs before it is free, `positions` are its (pool, ordinal)
    pairs, and `pools` list payloads in the order in which they take the slots of one ring.
    """

    threads: Sequence[ThreadSteps]
    rank: Ints
    channel: Ints
    job: Ints
    kind: Ints
    nbytes: Ints
    sources: Ints
    peer: Ints
    chunk: Ints
    number: Ints
    uses: Sequence[int] = ()
    positions: Sequence[Sequence[tuple[int, int]]] = ()
    pools: Sequence[Sequence[int]] = ()

    @property
    def messages(self) -> NDArray[np.intp]:
        """The rows of all messages."""
        return np.flatnonzero((self.kind == SIGNAL) | (self.kind == ASK))


def of_code(code: Code) -> StepTable:
    """The steps of programs of one thread each, from their columns."""
    rank, number, none = code.rank.astype(np.int64), np.full(len(code.kind), NONE), np.zeros(len(code.kind), np.int64)
    number[code.signal], number[code.wait] = code.wait, code.signal
    edges = code.first.tolist()
    return StepTable(
        [ThreadSteps(r, 0, low, high) for r, (low, high) in enumerate(pairwise(edges))],
        rank,
        channel=none,
        job=none,
        kind=code.kind.astype(np.int64),
        nbytes=code.nbytes,
        sources=code.sources.astype(np.int64),
        peer=code.peer.astype(np.int64),
        chunk=code.chunk.astype(np.int64),
        number=number,
    )


def busy_s(work: Code | StepTable, topology: Topology, conditions: Conditions) -> NDArray[np.float64]:
    """Seconds that each row keeps its rank busy, without waiting; kinds that programs do not name cost nothing."""
    copied, reduced = work.kind == COPY, work.kind == REDUCE
    lasts_s = np.where(copied | reduced, topology.step_s, 0.0)
    lasts_s[copied] += work.nbytes[copied] / topology.copy_Bps
    lasts_s[reduced] += (work.sources[reduced] - 1) * work.nbytes[reduced] / topology.reduce_Bps
    messages = (work.kind == SIGNAL) | (work.kind == WAIT)
    lasts_s[messages] = topology.message_work_s(work.rank[messages], work.peer[messages])
    slowdown = np.ones(topology.ranks)
    for rank, factor in conditions.slowdown.items():
        slowdown[rank] = factor
    slowed_s: NDArray[np.float64] = lasts_s * slowdown[work.rank]
    return slowed_s


def join(parts: Sequence[StepTable]) -> StepTable:
    """The steps of several jobs as one table. Jobs have channels of their own, so that messages pair in the trace."""
    rows, payloads, pools, channels = (
        list(accumulate(counts, initial=0))
        for counts in (
            [len(p.kind) for p in parts],
            [len(p.uses) for p in parts],
            [len(p.pools) for p in parts],
            [int(p.channel.max(initial=0)) + 1 for p in parts],
        )
    )
    columns: dict[str, Any] = {name: np.concatenate([getattr(p, name) for p in parts]) for name in COLUMNS}
    job = np.repeat(np.arange(len(parts)), np.diff(rows))
    slotted = (columns["kind"] == FILL) | (columns["kind"] == GIVE)
    shift = np.where(slotted, np.array(payloads)[job], np.array(rows)[job])
    columns["number"] = np.where(columns["number"] == NONE, NONE, columns["number"] + shift)
    columns |= {"job": job, "channel": columns["channel"] + np.array(channels)[job]}
    return StepTable(
        [ThreadSteps(t.rank, j, t.first + rows[j], t.stop + rows[j]) for j, p in enumerate(parts) for t in p.threads],
        **columns,
        uses=[u for p in parts for u in p.uses],
        positions=[
            [(pool + pools[j], k) for pool, k in positions] for j, p in enumerate(parts) for positions in p.positions
        ],
        pools=[[x + payloads[j] for x in pool] for j, p in enumerate(parts) for pool in p.pools],
    )
