"""`comm.counters()` of messages: a message of S bytes counts S, once, at the receiver, for every form of call."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

import ringtree
from ringtree.runtime.communicator.communicator import Communicator
from tests.runtime.conftest import Pools

LARGE = 300_000  # float64: more than all pieces of a pipe hold
Counts = list[list[int]]
"""From each rank (bytes, messages)."""


def there(comm: Communicator, count: int) -> NDArray[np.float64]:
    return np.full(count, comm.rank, np.float64)


def blocking(comm: Communicator) -> Counts:
    """In a circle, the even ranks first."""
    to, source = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    for count in (0, 1, LARGE):
        if comm.rank % 2 == 0:
            comm.send(there(comm, count), to)
        comm.recv(np.empty(count), source)
        if comm.rank % 2:
            comm.send(there(comm, count), to)
    return [[(1 + LARGE) * 8, 3] if peer == source else [0, 0] for peer in range(comm.size)]


def posted(comm: Communicator) -> Counts:
    """To everybody, itself too, which is no wire; received in the opposite order of being sent."""
    n, me = comm.size, comm.rank
    sends = [comm.isend(there(comm, 10 * me + tag), dst, tag) for dst in range(n) for tag in range(3)]
    receives = [comm.irecv(np.empty(10 * src + tag), src, tag) for src in range(n) for tag in (2, 1, 0)]
    for message in sends + receives:
        message.wait()
    return [[(30 * src + 3) * 8 * (src != me), 3 * (src != me)] for src in range(n)]


def both_ways(comm: Communicator) -> Counts:
    to, source = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    comm.sendrecv(there(comm, comm.rank), to, np.empty(source), source)
    return [[source * 8, 1] if peer == source else [0, 0] for peer in range(comm.size)]


def from_anybody(comm: Communicator) -> Counts:
    """Shorter than there is room for, from any rank in any order."""
    if comm.rank:
        comm.send(there(comm, comm.rank), 0, tag=comm.rank)
        return [[0, 0]] * comm.size
    for _ in range(1, comm.size):
        comm.recv(np.empty(comm.size), ringtree.ANY, ringtree.ANY, at_most=True)
    return [[8 * src, int(src > 0)] for src in range(comm.size)]


def copied(comm: Communicator) -> Counts:
    comm.copy(there(comm, 5), 0, comm.size - 1)
    here = comm.rank == comm.size - 1
    return [[40, 1] if here and peer == 0 else [0, 0] for peer in range(comm.size)]


def in_a_batch(comm: Communicator) -> Counts:
    with comm.batch() as batch:
        for peer in range(comm.size):
            batch.send(there(comm, 7), peer)
            batch.recv(np.empty(7), peer)
    return [[56, 1] if peer != comm.rank else [0, 0] for peer in range(comm.size)]


@pytest.mark.parametrize("work", [blocking, posted, both_ways, from_anybody, copied, in_a_batch])
@pytest.mark.parametrize("ranks", [2, 4])
def test_messages_count_where_they_are_received(
    pools: Pools, engine: str, ranks: int, work: Callable[[Communicator], Counts]
) -> None:
    pools(engine, ranks).run(check_counts, work)


def check_counts(comm: Communicator, work: Callable[[Communicator], Counts]) -> None:
    comm.barrier()
    comm.reset_counters()
    expected = work(comm)
    assert comm.counters().tolist() == expected
    comm.reset_counters()
    assert not comm.counters().any()
    comm.barrier()


def parts(comm: Communicator, async_op: bool) -> None:
    """Parts of any sizes; the synchronization before has no payload."""
    n, me = comm.size, comm.rank
    comm.reset_counters()
    xs, outs = [there(comm, 3 * me + dst) for dst in range(n)], [np.empty(3 * src + me) for src in range(n)]
    if async_op:
        comm.exchange_parts(xs, outs, async_op=True).wait()
    else:
        comm.exchange_parts(xs, outs)
    assert comm.counters()[:, 0].tolist() == [(3 * src + me) * 8 * (src != me) for src in range(n)]


@pytest.mark.parametrize("async_op", [False, True])
def test_parts_are_their_bytes(pools: Pools, engine: str, async_op: bool) -> None:
    pools(engine, 4).run(parts, async_op)


def by_a_function(comm: Communicator, algorithm: str) -> None:
    """A reduction made of messages: each counts once, and nothing beside them."""
    plus = ringtree.Op(np.add, commutative=True)
    program = comm.chosen("all_reduce", 120, np.float64, algorithm=algorithm).part.program
    comm.all_reduce(np.ones(120), op=plus, algorithm=algorithm)  # the group that it is made on
    comm.reset_counters()
    comm.all_reduce(np.ones(120), op=plus, algorithm=algorithm)
    from_each = [0] * comm.size
    for peer, chunks in program.chunks_from().items():
        from_each[peer] = chunks * 120 * 8 // program.chunks
    assert comm.counters()[:, 0].tolist() == from_each


@pytest.mark.parametrize("algorithm", ["one_shot", "recursive_doubling"])
def test_reductions_by_functions_count_once(pools: Pools, engine: str, algorithm: str) -> None:
    pools(engine, 4).run(by_a_function, algorithm)


def objects(comm: Communicator) -> None:
    """Lengths, then the bytes: what an object call moves by collectives, it moves once."""
    comm.reset_counters()
    comm.broadcast_object(b"x" * 1000 if comm.rank == 0 else None)
    assert comm.rank == 0 or 1000 < comm.counters()[0, 0] < 1100


def test_object_calls_count_once(pools: Pools, engine: str) -> None:
    pools(engine, 2).run(objects)


def sent_as_objects(comm: Communicator) -> None:
    comm.reset_counters()
    if comm.rank == 0:
        comm.send_object(b"x" * 1000, 1)
    else:
        comm.recv_object(0)
        assert 1000 < comm.counters()[0, 0] < 1100


def test_objects_between_two_ranks(pools: Pools, engine: str) -> None:
    pools(engine, 2).run(sent_as_objects)
