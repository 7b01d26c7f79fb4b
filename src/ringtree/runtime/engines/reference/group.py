"""The state that endpoints of one group of the reference engine share: lanes, slots, calls, messages, failure."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ringtree.errors import PeerDied, Poisoned, TimedOut
from ringtree.runtime.engines.reference.messages import MatchingTable
from ringtree.runtime.engines.reference.recorder import ReferenceRecorder
from ringtree.runtime.types import OPS, Dtype


class Fingerprint(NamedTuple):
    """The values of one call that must be equal on all ranks."""

    collective: str
    op: int
    dtype: int
    count: int  # type: ignore[assignment]
    root: int
    digest: int

    def __str__(self) -> str:
        words = [Dtype(self.dtype).label]
        words += (
            [list(OPS)[self.op]] * (self.op >= 0) + [f"count {self.count}"] + [f"root {self.root}"] * (self.root >= 0)
        )
        return f"{self.collective}({', '.join(words)})"


@dataclass(slots=True, eq=False)
class StagingSlot:
    """Staging memory of one sender, which may reuse it when every receiver it was signalled to has released it."""

    owner: int
    data: NDArray[np.uint8]
    nbytes: int = 0
    readers: int = 0  # signals sent and to be sent, less releases
    receivers: list[int] = field(default_factory=list)  # receivers that have yet to release it

    @property
    def address(self) -> int:
        return int(self.data.__array_interface__["data"][0])


@dataclass(eq=False)
class ReferenceGroup:
    """`changed` guards all of it, and is notified whenever something that others may wait for has changed.

    `lanes` are per (sender, receiver), None a bare signal; `mail` per receiver; `received` per receiver too, bytes and
    messages from each rank; `sent` messages between two ranks; `recorders` of messages, of those ranks that record;
    `signals`, not yet waited for, per (sender, receiver, index); `calls` per call and rank; `pools` are
    the free slots of each rank.
    """

    names: tuple[str, ...]
    changed: threading.Condition = field(default_factory=threading.Condition)
    left: set[int] = field(default_factory=set)
    lanes: dict[tuple[int, int], deque[StagingSlot | None]] = field(default_factory=dict)
    calls: dict[int, dict[int, Fingerprint]] = field(default_factory=dict)
    mail: dict[int, MatchingTable] = field(default_factory=dict)
    signals: Counter[tuple[int, int, int]] = field(default_factory=Counter)
    pools: dict[int, deque[StagingSlot]] = field(default_factory=dict)
    received: dict[int, NDArray[np.int64]] = field(default_factory=dict)
    sent: Counter[tuple[int, int]] = field(default_factory=Counter)
    recorders: dict[int, ReferenceRecorder] = field(default_factory=dict)
    causes: dict[int, str] = field(default_factory=dict)  # why ranks leave
    arrivals: dict[int, tuple[int, bool]] = field(default_factory=dict)  # survivors, as Survival has them
    shunned: set[int] = field(default_factory=set)
    decision: tuple[int, bool, list[int]] = (0, False, [])
    failure: tuple[type[Exception], tuple[object, ...]] | None = None
    raised: set[int] = field(default_factory=set)  # ranks that have raised the failure itself

    def fail(self, rank: int, kind: type[Exception], *details: object) -> Exception:
        """Poisons the group, and returns what `rank` is to raise: the first failure is the one that counts."""
        with self.changed:
            kind, details = self.poison(kind, *details)
            self.raised.add(rank)
            return kind(*details)

    def poison(self, kind: type[Exception], *details: object) -> tuple[type[Exception], tuple[object, ...]]:
        """Fails the group without raising; how it failed."""
        with self.changed:
            if self.failure is None:
                self.failure = (kind, details)
            self.changed.notify_all()
            return self.failure

    def raise_failure(self, rank: int) -> None:
        """Once the failure itself, then that the group can no longer be used."""
        if self.failure is None:
            return
        kind, details = self.failure
        if rank in self.raised:
            raise Poisoned(f"this group failed before ({details[0]}); close it and make another")
        self.raised.add(rank)
        raise kind(*details)

    def departure(self, peer: int, rank: int, what: str) -> str:
        """The words for a peer that left while `rank` waited for it in `what`."""
        left = f"rank {self.names[peer]} left while rank {self.names[rank]} waited for {what}"
        return f"{left}; the first cause: {self.causes[peer]}" if peer in self.causes else left

    def wait(
        self,
        rank: int,
        ready: Callable[[], object],
        what: str,
        peers: Callable[[], Sequence[int]],
        timeout_s: float,
        harmless: bool = False,
    ) -> bool:
        """Waits, holding `changed`, until `ready`. Raises when the group fails, one of the peers it waits for leaves,
        or time is up; where that is `harmless` it returns False."""
        deadline = time.monotonic() + timeout_s
        while True:
            self.raise_failure(rank)
            if ready():
                return True
            for peer in peers():
                if peer in self.left:
                    raise self.fail(rank, PeerDied, self.departure(peer, rank, what), peer)
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                if harmless:
                    return False
                message = f"rank {self.names[rank]} waited {timeout_s:g} s for {what}"
                raise self.fail(rank, TimedOut, message)
            self.changed.wait(left_s)

    def signal(self, sender: int, receiver: int, slot: StagingSlot | None) -> None:
        with self.changed:
            self.raise_failure(sender)
            self.lanes.setdefault((sender, receiver), deque()).append(slot)
            if slot is not None:
                slot.receivers.append(receiver)
            self.changed.notify_all()

    def release(self, receiver: int, slot: StagingSlot) -> None:
        with self.changed:
            slot.readers -= 1
            slot.receivers.remove(receiver)
            if slot.readers == 0:
                self.pools[slot.owner].append(slot)
                self.changed.notify_all()
