"""Messages between two groups: a Communicator of both, of which a rank sees the other group's ranks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ringtree.mpi.constants import ANY_SOURCE
from ringtree.runtime.communicator.communicator import Communicator


class Across:
    """The messages of `joint`; rank r is rank `there` + r of it, for all `count` ranks of the other group."""

    def __init__(self, joint: Communicator, there: int, count: int) -> None:
        self._joint, self._there, self._count = joint, there, count

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks of both groups in the world."""
        return self._joint.ranks

    @property
    def size(self) -> int:
        """The number of ranks that messages can go to."""
        return self._count

    @property
    def timeout_s(self) -> float:
        """Seconds that a wait lasts at most."""
        return self._joint.timeout_s

    def _rank(self, rank: int) -> int:
        if rank == ANY_SOURCE:
            return rank
        if not 0 <= rank < self._count:
            raise ValueError(f"no rank {rank} in the other group: expected 0..{self._count - 1}")
        return self._there + rank

    def send(self, x: Any, dst: int, tag: int = 0) -> None:
        """Sends `x` to a rank of the other group."""
        self._joint.send(x, self._rank(dst), tag)

    def isend(self, x: Any, dst: int, tag: int = 0) -> Any:
        """Begins to send `x`."""
        return self._joint.isend(x, self._rank(dst), tag)

    def issend(self, x: Any, dst: int, tag: int = 0) -> Any:
        """Begins to send `x`; done when a receive has taken it."""
        return self._joint.issend(x, self._rank(dst), tag)

    def recv(self, x: Any, src: int, tag: int, *, at_most: bool = False) -> Any:
        """Receives into `x`."""
        return self._joint.recv(x, self._rank(src), tag, at_most=at_most)

    def _recv_any_length(self, src: int, tag: int, timeout_s: float | None = None) -> tuple[bytes, Any]:
        """Receives a message's bytes; its source is a rank of the other group."""
        data, found = self._joint._recv_any_length(self._rank(src), tag, timeout_s)
        return data, self._seen(found)

    def irecv(self, x: Any, src: int, tag: int, *, at_most: bool = False) -> Any:
        """Begins to receive into `x`; the source that it reports is a rank of the other group."""
        return _Arriving(self._joint.irecv(x, self._rank(src), tag, at_most=at_most), self._there)

    def probe(self, src: int, tag: int) -> Any:
        """Waits for a message; its source is a rank of the other group."""
        return self._seen(self._joint.probe(self._rank(src), tag))

    def iprobe(self, src: int, tag: int) -> Any:
        """A message that is there, or None."""
        found = self._joint.iprobe(self._rank(src), tag)
        return None if found is None else self._seen(found)

    def _glance(self, src: int, tag: int) -> Any:
        """A message that is there; None also where all who could send one have left."""
        found = self._joint._glance(self._rank(src), tag)
        return None if found is None else self._seen(found)

    def _seen(self, found: Any) -> Any:
        return SimpleNamespace(source=found.source - self._there, tag=found.tag, nbytes=found.nbytes)

    def close(self) -> None:
        """Leaves both groups' communicator."""
        self._joint.close()


class _Arriving:
    """A receive whose source counts in the other group."""

    def __init__(self, work: Any, there: int) -> None:
        self._work, self._there = work, there

    @property
    def source(self) -> int:
        """The sender's rank in its group."""
        return int(self._work.source) - self._there

    def __getattr__(self, name: str) -> Any:
        return getattr(self._work, name)
