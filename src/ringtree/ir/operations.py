"""An operation graph: the operations of every rank and what each waits for, as GOAL files and execution traces have
them.

Messages have a size and no content: a graph can be played, and there is nothing in it to prove. A *processor* of a
rank does one operation at a time, in the order in which they become ready; a rank may have several.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
ANY = -1
"""The peer, or the tag, of a receive that takes messages of any."""


class OperationKind(IntEnum):
    """The kind of an operation. A receive takes the oldest message of its peer and tag that no receive has taken."""

    COMPUTE = 0
    SEND = 1
    RECEIVE = 2
    COLLECTIVE = 3


class CollectiveCall(NamedTuple):
    """A collective of some ranks, in the order of their places in it; `root` is a place. `nbytes`: the whole vector."""

    collective: str
    members: tuple[int, ...]
    nbytes: int
    root: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class OperationGraph:
    """A row an operation, [operations], and a row a dependency, [dependencies].

    `nbytes`: of the message, or those that a computation works on; `compute_s`: its seconds. `tag`: of a message; of a
    COLLECTIVE the position in `collectives`, each of whose members has one such row. Operation `after[k]` waits until
    `before[k]` has ended, or with `at_start` has begun.
    """

    name: str
    ranks: int
    kind: Ints
    rank: Ints
    nbytes: Ints
    compute_s: NDArray[np.float64]
    peer: Ints
    tag: Ints
    processor: Ints
    after: Ints
    before: Ints
    at_start: NDArray[np.bool_]
    collectives: tuple[CollectiveCall, ...] = ()

    def __len__(self) -> int:
        return len(self.kind)

    def count(self, kind: OperationKind) -> int:
        """The number of operations of that kind."""
        return int(np.count_nonzero(self.kind == kind))


class GraphBuilder:
    """Operations and dependencies, one added after another; 65 bytes each at most."""

    def __init__(self) -> None:
        self._kind, self._rank, self._nbytes, self._peer, self._tag, self._processor = (array("q") for _ in range(6))
        self._compute_s = array("d")
        self._after, self._before, self._at_start = array("q"), array("q"), array("b")

    def __len__(self) -> int:
        return len(self._compute_s)

    @property
    def dependencies(self) -> int:
        """The number of dependencies so far."""
        return len(self._after)

    def add(
        self,
        kind: OperationKind,
        rank: int,
        nbytes: int = 0,
        peer: int = -1,
        tag: int = 0,
        processor: int = 0,
        compute_s: float = 0.0,
    ) -> int:
        """Adds an operation; returns its row."""
        self._kind.append(kind)
        self._rank.append(rank)
        self._nbytes.append(nbytes)
        self._peer.append(peer)
        self._tag.append(tag)
        self._processor.append(processor)
        self._compute_s.append(compute_s)
        return len(self._compute_s) - 1

    def depend(self, after: int, before: int, at_start: bool = False) -> None:
        """Lets operation `after` wait for the end, or the start, of `before`."""
        self._after.append(after)
        self._before.append(before)
        self._at_start.append(at_start)

    def build(self, name: str, ranks: int, collectives: Sequence[CollectiveCall] = ()) -> OperationGraph:
        """The graph of all that was added."""
        ints = (self._kind, self._rank, self._nbytes, self._peer, self._tag, self._processor, self._after, self._before)
        kind, rank, nbytes, peer, tag, processor, after, before = (np.array(column, dtype=np.int64) for column in ints)
        return OperationGraph(
            name,
            ranks,
            kind,
            rank,
            nbytes,
            np.array(self._compute_s, dtype=np.float64),
            peer,
            tag,
            processor,
            after,
            before,
            np.array(self._at_start, dtype=np.bool_),
            tuple(collectives),
        )
