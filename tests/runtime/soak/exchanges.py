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
        """Sends and receives this rank's letters; what is wrong with them."""
        if comm.size == 1:
            return ""
        letters = [_between(letter, comm.size) for letter in step.letters]
        if step.style == "in a circle":
            return self._circle(comm, letters[0])
        if step.style == "objects":
            return self._objects(comm, letters)
        received = [(i, self._empty(letter)) for i, letter in enumerate(letters) if letter.target == comm.rank]
        if step.style == "blocking":  # in the order of the list, which is the same on all ranks: no circle of waits
            taken = dict(received)
            for i, letter in enumerate(letters):
                if letter.source == comm.rank:
                    comm.send(self._of(letter), letter.target, letter.tag)
                elif letter.target == comm.rank:
                    comm.recv(taken[i], letter.source, letter.tag)
        else:
            if step.order:
                Random(step.order).shuffle(received)
            source = (lambda _: ANY) if step.anyone else (lambda letter: letter.source)
            if step.style == "batch":
                with comm.batch() as batch:
                    for i, y in received:
                        batch.recv(y, source(letters[i]), letters[i].tag)
                    for letter in letters:
                        if letter.source == comm.rank:
                            batch.send(self._of(letter), letter.target, letter.tag)
            else:
                works = [comm.irecv(y, source(letters[i]), letters[i].tag) for i, y in received]
                works += [comm.isend(self._of(a), a.target, a.tag) for a in letters if a.source == comm.rank]
                if works:
                    wait_all(works)
        return self._wrong(comm, [(letters[i], y) for i, y in received])

    def _circle(self, comm: Communicator, letter: ScriptedMessage) -> str:
        shift = (letter.target - letter.source) % comm.size
        left = (comm.rank - shift) % comm.size
        y = self._empty(letter)
        x = self._tables.of_rank(letter.dtype, comm.rank)[letter.offset : letter.offset + letter.count]
        comm.sendrecv(x, (comm.rank + shift) % comm.size, y, left, letter.tag)
        want = self._tables.of_rank(letter.dtype, left)[letter.offset : letter.offset + letter.count]
        wrong = differing(y, want)
        return wrong and f"from rank {left}: {wrong}"

    def _objects(self, comm: Communicator, letters: list[ScriptedMessage]) -> str:
        for letter in letters:
            said = (letter.tag, "a" * letter.count)
            if letter.source == comm.rank:
                comm.send_object(said, letter.target, letter.tag)
            elif letter.target == comm.rank and comm.recv_object(letter.source, letter.tag) != said:
                return f"the object from rank {letter.source} with tag {letter.tag} is another one"
        return ""

    def _wrong(self, comm: Communicator, received: list[tuple[ScriptedMessage, Values]]) -> str:
        for letter, y in received:
            if wrong := differing(y, self._of(letter)):
                return f"from rank {letter.source} with tag {letter.tag}: {wrong}"
        return ""

    def _of(self, letter: ScriptedMessage) -> Values:
        return self._tables.of_rank(letter.dtype, letter.source)[letter.offset : letter.offset + letter.count]

    def _empty(self, letter: ScriptedMessage) -> Values:
        return np.empty(letter.count, dtype_named(letter.dtype))


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


def _between(letter: ScriptedMessage, size: int) -> ScriptedMessage:
    """Its ranks as those of a group, which are two."""
    source, target = letter.source % size, letter.target % size
    return replace(letter, source=source, target=target if target != source else (target + 1) % size)
