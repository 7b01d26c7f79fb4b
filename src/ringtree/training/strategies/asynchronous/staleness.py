"""Bounded staleness: a rule for the order of reads and updates. Needs no torch, and moves nothing.

Each worker reads the weights, computes, and pushes an update of them, over and over; its clock is the number of updates
that it has pushed. With a bound of K, a read at clock c

- has in it every worker's updates of the clocks before c - K: it waits for them;
- has in it none of clock c + K or later: those wait for it.

What comes in between is in it if it came earlier. With K = 0 a read has exactly the updates of the clocks before its
own, as in synchronous training. A read's staleness is its clock less that of the slowest worker in it: by how many of
that worker's updates it is behind (stale synchronous parallel: Ho et al., "More Effective Distributed ML via a Stale
Synchronous Parallel Parameter Server", 2013; the second half of the rule is ours, so that K = 0 is synchronous).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ringtree.training.core.plan import TrainingPlan

UPDATE = -1
"""The staleness of an update, which has none."""


class UpdateEvent(NamedTuple):
    """The next event: a worker's next update is applied, or its read is answered, with this staleness."""

    worker: int
    staleness: int = UPDATE


class UpdateOrder:
    """Puts the reads and updates of `workers` workers into one order, as they come. Every rank that follows that order
    has the same weights at the same entry.

    `gathered`: updates that are applied together, as one step of an optimizer; they are ordered by worker. `readers`:
    those whose reads count, where not all do.
    """

    def __init__(self, workers: int, bound: float, gathered: int = 1, readers: Iterable[int] | None = None) -> None:
        self._bound, self.gathered = bound, gathered
        self._pushed, self._applied = [0] * workers, [0] * workers
        self._reads = dict.fromkeys(range(workers) if readers is None else readers, 0)
        self._waiting: list[tuple[int, int]] = []
        self._asking: list[int] = []

    def ask(self, worker: int) -> list[UpdateEvent]:
        """A worker wants to read at its present clock; returns the events that follow at once."""
        self._asking.append(worker)
        return self._go_on()

    def push(self, worker: int) -> list[UpdateEvent]:
        """A worker has pushed its next update; returns the events that follow at once."""
        self._waiting.append((worker, self._pushed[worker]))
        self._pushed[worker] += 1
        return self._go_on()

    def _go_on(self) -> list[UpdateEvent]:
        now: list[UpdateEvent] = []
        while more := self._updates() or self._reading():
            now += more
        return now

    def _updates(self) -> list[UpdateEvent]:
        """The updates that every reader allows, once there are enough of them."""
        until = min(self._reads.values()) + self._bound
        ready = [update for update in self._waiting if update[1] < until][: self.gathered]
        if len(ready) < self.gathered:
            return []
        for update in ready:
            self._waiting.remove(update)
            self._applied[update[0]] += 1
        return [UpdateEvent(worker) for worker, _ in sorted(ready)]

    def _reading(self) -> list[UpdateEvent]:
        """The first read that is not too stale."""
        slowest = min(self._applied)
        for worker in self._asking:
            staleness = self._pushed[worker] - slowest
            if staleness <= self._bound:
                self._asking.remove(worker)
                self._reads[worker] += 1
                return [UpdateEvent(worker, staleness)]
        return []


def order_of(plan: TrainingPlan, readers: Iterable[int] | None = None) -> UpdateOrder:
    """Single updates are applied where they can be: SGD's step is the sum of its gradients' steps. AdamW's is not, so
    as many gradients as there are workers make one, whosever they are; and so they do where the bound is 0, when they
    are one of each, so that the sum's order is always the same."""
    layout = plan.layout
    if layout.staleness is None:
        raise ValueError("the plan is for synchronous training: it has no staleness")
    single = layout.staleness > 0 and plan.settings.optimizer == "sgd"
    return UpdateOrder(layout.dp, layout.staleness, 1 if single else layout.dp, readers)
