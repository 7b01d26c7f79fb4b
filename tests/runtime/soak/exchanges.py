"""Messages between two ranks, and windows with their signals, as a script has them."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np

from ringtree import ANY
from ringtree.runtime.arrays import dtype_named
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.communicator.messages.work import wait_all
from tests.runtime.soak.script import Exchange, ScriptedMessage, Window
from tests.runtime.soak.values import MOST_OTHERS, Tables, Values, differing


class Posts:
    """Messages of one rank, checked when they have come."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def exchange(self, comm: Communicator, step: Exchange) -> str:
        """Sends and receives this rank's messages; returns the errors in them."""
        if comm.size == 1:
            return ""
        messages = [between(message, comm.size) for message in step.messages]
        if step.style == "in a circle":
            return self._circle(comm, messages[0])
        if step.style == "objects":
            return self._objects(comm, messages)
        received = [(i, self._empty(message)) for i, message in enumerate(messages) if message.target == comm.rank]
        if step.style == "blocking":  # in the order of the list, which is the same on all ranks: no circle of waits
            taken = dict(received)
            for i, message in enumerate(messages):
                if message.source == comm.rank:
                    comm.send(self._of(message), message.target, message.tag)
                elif message.target == comm.rank:
                    comm.recv(taken[i], message.source, message.tag)
        else:
            if step.order:
                Random(step.order).shuffle(received)
            source = (lambda _: ANY) if step.anyone else (lambda message: message.source)
            if step.style == "batch":
                with comm.batch() as batch:
                    for i, y in received:
                        batch.recv(y, source(messages[i]), messages[i].tag)
                    for message in messages:
                        if message.source == comm.rank:
                            batch.send(self._of(message), message.target, message.tag)
            else:
                works = [comm.irecv(y, source(messages[i]), messages[i].tag) for i, y in received]
                works += [comm.isend(self._of(a), a.target, a.tag) for a in messages if a.source == comm.rank]
                if works:
                    wait_all(works)
        return self._wrong(comm, [(messages[i], y) for i, y in received])

    def _circle(self, comm: Communicator, message: ScriptedMessage) -> str:
        shift = (message.target - message.source) % comm.size
        left = (comm.rank - shift) % comm.size
        y = self._empty(message)
        x = self._tables.of_rank(message.dtype, comm.rank)[message.offset : message.offset + message.count]
        comm.sendrecv(x, (comm.rank + shift) % comm.size, y, left, message.tag)
        want = self._tables.of_rank(message.dtype, left)[message.offset : message.offset + message.count]
        wrong = differing(y, want)
        return wrong and f"from rank {left}: {wrong}"

    def _objects(self, comm: Communicator, messages: list[ScriptedMessage]) -> str:
        for message in messages:
            item = (message.tag, "a" * message.count)
            if message.source == comm.rank:
                comm.send_object(item, message.target, message.tag)
            elif message.target == comm.rank and comm.recv_object(message.source, message.tag) != item:
                return f"the object from rank {message.source} with tag {message.tag} is another one"
        return ""

    def _wrong(self, comm: Communicator, received: list[tuple[ScriptedMessage, Values]]) -> str:
        for message, y in received:
            if wrong := differing(y, self._of(message)):
                return f"from rank {message.source} with tag {message.tag}: {wrong}"
        return ""

    def _of(self, message: ScriptedMessage) -> Values:
        return self._tables.of_rank(message.dtype, message.source)[message.offset : message.offset + message.count]

    def _empty(self, message: ScriptedMessage) -> Values:
        return np.empty(message.count, dtype_named(message.dtype))


class Windows:
    """Arrays of the world that peers write to and read: of each, a part for each rank, so that who is ahead disturbs
    nobody; and a number by which a barrier is checked."""

    def __init__(self, world: Communicator, tables: Tables) -> None:
        self._world, self._tables = world, tables
        self._inbox = world.empty((world.size, MOST_OTHERS), np.float32)
        self._outbox = world.empty(MOST_OTHERS, np.float32)
        self._stamp = world.empty(1, np.int64)

    def move(self, step: Window) -> str:
        """Puts to one rank and takes what another one put, or gets; what is wrong with that."""
        comm = self._world
        n, me = comm.size, comm.rank
        shift = step.shift % n or 1
        target, source = (me + shift) % n, (me - shift) % n
        part = slice(step.offset, step.offset + step.count)
        mine, theirs = (self._tables.of_rank("float32", rank)[part] for rank in (me, source))
        if step.how == "put":
            comm.put(mine, target, self._inbox[me, : step.count], signal=step.index)
            comm.wait_signal(source, index=step.index)
            got = self._inbox[source, : step.count]
        else:
            self._outbox[: step.count] = mine
            comm.signal(target, step.index)
            comm.wait_signal(source, index=step.index)
            got = comm.get(self._outbox[: step.count], source)
        wrong = differing(got, theirs)
        comm.signal(source, step.index)  # it has been read
        comm.wait_signal(target, index=step.index)
        return wrong and f"{step.how}, rank {source}'s: {wrong}"

    def barrier(self, number: int) -> str:
        """A barrier that nobody leaves before all have come."""
        self._stamp[0] = number
        self._world.barrier()
        for rank in range(self._world.size):
            if (stamp := int(self._world.get(self._stamp, rank)[0])) < number:
                return f"rank {rank} is at {stamp}; expected {number} or later"
        return ""


def between(message: ScriptedMessage, size: int) -> ScriptedMessage:
    """Its ranks as those of a group, which are two."""
    source, target = message.source % size, message.target % size
    return replace(message, source=source, target=target if target != source else (target + 1) % size)
