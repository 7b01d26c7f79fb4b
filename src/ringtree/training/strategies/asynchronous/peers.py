"""Asynchronous training from peer to peer: every rank has all the weights, and sends its gradients to all others.

A rank applies to its own weights what has come from the others by its next read, by the rule of bounded staleness
(`staleness.Order`, of which it is the one reader). All apply the same updates, each rank in the order in which they
come to it: with SGD their weights differ by rounding only, and are made the same to the bit when they are collected.
With a staleness of 0 they are that at every step.

Bytes received in a step by each of n ranks with P bytes of parameters: (n-1) P. Nobody waits for a server, nor for
words.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ringtree.training.core.plan import TrainingPlan
from ringtree.training.strategies.asynchronous.flat import Flat, Updated
from ringtree.training.strategies.asynchronous.staleness import UPDATE, UpdateEvent, order_of

GRADIENT = 0
"""Tag of messages."""


class Peer:
    """A worker that has all the weights itself."""

    def __init__(self, flat: Flat, plan: TrainingPlan, group: Any) -> None:
        self._flat, self._group, self._rank = flat, group, group.rank()
        self._bound: float = plan.layout.staleness or 0
        self._order = order_of(plan, readers=(self._rank,))
        self._due: deque[UpdateEvent] = deque()
        self.updated = Updated(flat.weights, plan.settings, plan.layout.dp, self._order.gathered)
        self._others = [rank for rank in range(plan.layout.dp) if rank != self._rank]
        self._come: dict[int, deque[Tensor]] = {rank: deque() for rank in range(plan.layout.dp)}
        self._received = dict.fromkeys(self._others, 0)
        self._coming: dict[int, tuple[Any, Tensor]] = {}
        self._clock = 0

    def read(self) -> int:
        """Applies the gradients that the order allows, received from peers; returns the staleness in steps."""
        self._due += self._order.ask(self._rank)
        for rank in self._others:
            # Later ones may not be in this read.
            while self._received[rank] < self._clock + self._bound and self._next_of(rank)[0].is_completed():
                self._take(rank)
        while (staleness := self._apply()) == UPDATE:
            self._take(min(self._others, key=self._received.__getitem__))
        return staleness

    def push(self) -> None:
        """Begins to send a copy of the gradients to every peer."""
        gradient = self._flat.gradients.clone()  # so that no rank waits for a peer that computes and takes nothing
        for rank in self._others:
            self._group.send([gradient], rank, GRADIENT)
        self._come[self._rank].append(gradient)
        self._due += self._order.push(self._rank)
        self._clock += 1

    def sent(self) -> None:
        """Returns at once: `push` sends a copy."""

    def drain(self) -> None:
        """Receives and applies every gradient that peers have pushed so far."""
        for rank in self._others:
            while self._received[rank] < self._clock:
                self._take(rank)
        self._apply()

    def collect(self, vectors: Mapping[str, Tensor], steps: Tensor) -> None:
        """Copies rank 0's weights and state into every rank's whole vectors."""
        for kind, vector in self.updated.vectors.items():
            dist.broadcast(vector, group_src=0, group=self._group)
            vectors[kind].copy_(vector)
        steps.copy_(self.updated.steps)

    def hand_out(self, vectors: Mapping[str, Tensor], steps: Tensor) -> None:
        """Copies weights and state from whole vectors into this rank's."""
        for kind, vector in self.updated.vectors.items():
            vector.copy_(vectors[kind])
        self.updated.steps.copy_(steps)

    def close(self) -> None:
        """Returns at once: a peer has no server to stop."""

    def _next_of(self, rank: int) -> tuple[Any, Tensor]:
        """The receive of a rank's next gradient, and where that goes."""
        if rank not in self._coming:
            gradient = torch.empty_like(self._flat.gradients)
            self._coming[rank] = self._group.recv([gradient], rank, GRADIENT), gradient
        return self._coming[rank]

    def _take(self, rank: int) -> None:
        """Waits for a rank's next gradient."""
        work, gradient = self._next_of(rank)
        work.wait()
        del self._coming[rank]
        self._come[rank].append(gradient)
        self._received[rank] += 1
        self._due += self._order.push(rank)

    def _apply(self) -> int:
        """Applies due updates up to this rank's read; returns the read's staleness, UPDATE if the read is not due."""
        while self._due:
            entry = self._due.popleft()
            if entry.staleness != UPDATE:
                return entry.staleness
            self.updated.apply(self._come[entry.worker].popleft())
        return UPDATE
