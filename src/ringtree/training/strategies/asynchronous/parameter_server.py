"""A parameter server: the weights lie on it, or are cut evenly over several; workers read them and push gradients.

`central`: rank 0 has all of them. `sharded`: each of the n ranks has 1/n. All ranks are workers; a server is a thread
beside the worker of its rank, and everything goes by messages of one process group, also to a rank's own server:

- a worker that wants to read, or has pushed, reports that to rank 0, which puts all of it into one order by the rule of
  bounded staleness (`staleness.UpdateOrder`), and sends each entry to the other servers, and a reader its read's
  staleness;
- every server follows that order. An update: it receives its part of that worker's next gradient and applies it. A
  read: it sends that worker its part of the weights, as they are at this entry.

So a read has the weights of all servers at one moment of one order, never a mixture of two.

Bytes received in a step by a rank that has p of the P bytes of parameters: (n-1) p of gradients and P - p of weights.
For the busiest that is (n-1) P with one server, which sends as much, and 2(n-1)/n P with n, as by ring all-reduce.
Besides, for each worker but rank 0's 24 bytes (two words to rank 0, one back), and 32 for each worker to each server
but rank 0's (two entries).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from itertools import pairwise
from threading import Condition, Thread
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ringtree.torch_backend import communicator
from ringtree.training.core.plan import TrainingPlan
from ringtree.training.strategies.asynchronous.flat import Flat, Updated
from ringtree.training.strategies.asynchronous.staleness import UPDATE, UpdateEvent, UpdateOrder, order_of

REQUEST, GRANT, ENTRY, GRADIENT, WEIGHTS = range(5)
"""Tags of messages."""
READ, PUSHED, STOP = range(3)
"""Requests."""
IDLE_S = 1.0
"""Seconds between an idle server's checks whether its group still lives."""


def words(*values: int) -> Tensor:
    """A message of int64 words."""
    return torch.tensor(values, dtype=torch.int64)


def cuts(length: int, servers: int) -> list[slice]:
    """Each server's part of `length` elements."""
    at = [length * k // servers for k in range(servers + 1)]
    return [slice(a, b) for a, b in pairwise(at)]


class ParameterServer(ABC):
    """One rank's part of the weights, and the thread that serves it."""

    def __init__(self, part: Updated, group: Any) -> None:
        self.part, self._group, self._rank = part, group, group.rank()
        self._followed = 0
        self._error: Exception | None = None
        self._changed = Condition()
        self._thread = Thread(target=self._run, name="parameter server", daemon=True)
        self._thread.start()

    @abstractmethod
    def _next(self) -> Iterable[UpdateEvent] | None:
        """Waits for what is to be done next; None: stop."""

    @abstractmethod
    def stop(self) -> None:
        """Ends the thread, once it has done what came before."""

    def until(self, entries: int) -> None:
        """Waits until it has followed `entries` entries, without limit while the group lives; raises the error that
        ended it earlier."""
        with self._changed:
            self._changed.wait_for(lambda: self._followed >= entries or self._error is not None)
            if self._error is not None:
                raise self._error

    def _run(self) -> None:
        error: Exception | None = None
        try:
            while (entries := self._next()) is not None:
                for entry in entries:
                    self._follow(entry)
        except Exception as failure:  # noqa: BLE001  # of any kind: raised on all ranks, and in this one's worker
            error = failure
            communicator(self._group).abort(f"the parameter server of rank {self._rank} failed: {error}")
        with self._changed:
            self._error = error
            self._changed.notify_all()

    def _follow(self, entry: UpdateEvent) -> None:
        weights = self.part.weights
        if entry.staleness == UPDATE:
            gradient = torch.empty_like(weights)
            self._group.recv([gradient], entry.worker, GRADIENT).wait()
            self.part.apply(gradient)
        else:
            # A copy: the next update may come before the message has been taken.
            self._group.send([weights.clone()], entry.worker, WEIGHTS)
        with self._changed:
            self._followed += 1
            self._changed.notify_all()

    def _come(self, into: Tensor, tag: int) -> int:
        """Waits for a message from any rank, without limit while the group lives; returns the source."""
        work = self._group.recv_anysource([into], tag)
        while not work.ended(IDLE_S):
            pass
        return int(work.source_rank())


class Ordering(ParameterServer):
    """Rank 0's server, which makes the order."""

    def __init__(self, part: Updated, group: Any, order: UpdateOrder, servers: int) -> None:
        self._order, self._servers = order, servers
        super().__init__(part, group)

    def _next(self) -> Iterable[UpdateEvent] | None:
        request = words(STOP)
        worker = self._come(request, REQUEST)
        if request.item() == STOP:
            return None
        entries = self._order.ask(worker) if request.item() == READ else self._order.push(worker)
        for entry in entries:
            for server in range(1, self._servers):
                self._group.send([words(*entry)], server, ENTRY)
            if entry.staleness != UPDATE:
                self._group.send([words(entry.staleness)], entry.worker, GRANT)
        return entries

    def stop(self) -> None:
        """Ends the server's thread by a message to itself, and waits for the thread."""
        self._group.send([words(STOP)], self._rank, REQUEST)
        self._thread.join()


class Following(ParameterServer):
    """The server of a rank other than 0, which receives the order from rank 0."""

    def _next(self) -> Iterable[UpdateEvent] | None:
        entry = words(0, 0)
        return None if self._come(entry, ENTRY) == self._rank else [UpdateEvent(*entry.tolist())]

    def stop(self) -> None:
        """Ends the server's thread by a message to itself, and waits for the thread."""
        self._group.send([words(0, 0)], self._rank, ENTRY)
        self._thread.join()


class Served:
    """A worker, whose weights lie on servers; and this rank's server, if it has one."""

    def __init__(self, flat: Flat, plan: TrainingPlan, group: Any) -> None:
        self._flat, self._group, self._workers, self._clock = flat, group, plan.layout.dp, 0
        servers, rank = 1 if plan.layout.server == "central" else plan.layout.dp, group.rank()
        self._cuts = cuts(len(flat.weights), servers)
        self._sending: list[Any] = []
        self._server: ParameterServer | None = None
        if rank < servers:
            order = order_of(plan)
            part = Updated(flat.weights[self._cuts[rank]].clone(), plan.settings, self._workers, order.gathered)
            self._server = Ordering(part, group, order, servers) if rank == 0 else Following(part, group)

    @property
    def updated(self) -> Updated | None:
        """The weights and state on this rank's server; None on a rank without a server."""
        return None if self._server is None else self._server.part

    def read(self) -> int:
        """Receives the weights from all servers into the model; returns their staleness in steps."""
        staleness = words(0)
        coming = [self._group.recv([self._flat.weights[c]], s, WEIGHTS) for s, c in enumerate(self._cuts)]
        coming.append(self._group.recv([staleness], 0, GRANT))
        self._group.send([words(READ)], 0, REQUEST)
        for work in coming:
            work.wait()
        return int(staleness)

    def push(self) -> None:
        """Begins to send the gradients, each server's part to it, and announces them to rank 0."""
        self._sending = [self._group.send([self._flat.gradients[c]], s, GRADIENT) for s, c in enumerate(self._cuts)]
        self._group.send([words(PUSHED)], 0, REQUEST)
        self._clock += 1

    def sent(self) -> None:
        """Waits until all sends of the last push are complete."""
        for work in self._sending:
            work.wait()
        self._sending = []

    def drain(self) -> None:
        """Waits until this rank's server has handled every read and push of all workers."""
        self.sent()
        if self._server is not None:
            self._server.until(2 * self._workers * self._clock)

    def collect(self, vectors: Mapping[str, Tensor], steps: Tensor) -> None:
        """Broadcasts each server's weights and state into every rank's whole vectors."""
        if self._server is not None:
            for kind, vector in self._server.part.vectors.items():
                vectors[kind][self._cuts[self._group.rank()]] = vector
            steps.copy_(self._server.part.steps)
        for server, cut in enumerate(self._cuts):
            for vector in vectors.values():
                dist.broadcast(vector[cut], group_src=server, group=self._group)
        dist.broadcast(steps, group_src=0, group=self._group)

    def hand_out(self, vectors: Mapping[str, Tensor], steps: Tensor) -> None:
        """Copies this rank's part of whole vectors to its server; returns when all ranks have done so."""
        if self._server is not None:
            for kind, vector in self._server.part.vectors.items():
                vector.copy_(vectors[kind][self._cuts[self._group.rank()]])
            self._server.part.steps.copy_(steps)
        dist.barrier(self._group)  # the next read is from all servers

    def close(self) -> None:
        """Stops this rank's server, if there is one."""
        if self._server is not None:
            self._server.stop()
