"""Calls beside the collectives' plain forms, over hosts: uneven, coalesced, symmetric, and one-sided inside a host."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from ringtree.runtime.communicator.communicator import Communicator
from tests.runtime.hosts.conftest import HostPools, host_of

LAYOUT = (1, 1, 2)


def whole(comm: Communicator) -> tuple[list[int], np.ndarray, np.ndarray]:
    """Uneven numbers of rows of each rank, one of them none; all rows; and this rank's."""
    counts = [3 * rank % 7 for rank in range(comm.size)]
    rows = np.arange(sum(counts), dtype=np.float32)
    first = sum(counts[: comm.rank])
    return counts, rows, rows[first : first + counts[comm.rank]]


def all_gather_v(comm: Communicator) -> bool:
    counts, rows, mine = whole(comm)
    return np.array_equal(comm.all_gather_v(mine, counts), rows)


def gather_v(comm: Communicator) -> bool:
    counts, rows, mine = whole(comm)
    last = comm.size - 1
    got = comm.gather_v(mine, last, counts)
    return comm.rank != last or np.array_equal(got, rows)


def scatter_v(comm: Communicator) -> bool:
    counts, rows, mine = whole(comm)
    out = np.empty(counts[comm.rank], np.float32)
    return np.array_equal(comm.scatter_v(rows if comm.rank == 0 else None, counts, root=0, out=out), mine)


def reduce_scatter_v(comm: Communicator) -> bool:
    counts, rows, mine = whole(comm)
    return np.array_equal(comm.reduce_scatter_v(rows, counts), mine * comm.size)


def all_to_all_v(comm: Communicator) -> bool:
    counts = list(range(comm.size))  # rank d gets d rows of each
    given = np.full(sum(counts), comm.rank, np.float32)
    return np.array_equal(comm.all_to_all_v(given, counts), np.repeat(np.arange(comm.size), comm.rank))


def exchange_parts(comm: Communicator) -> bool:
    outs = [np.zeros(peer + comm.rank) for peer in range(comm.size)]
    comm.exchange_parts([np.full(peer + comm.rank, comm.rank * 1.0) for peer in range(comm.size)], outs)
    return all((out == peer).all() for peer, out in enumerate(outs))


def coalesced(comm: Communicator) -> bool:
    xs = [np.full(count, comm.rank + 1.0) for count in (3, 5000)]
    total = comm.size * (comm.size + 1) / 2
    return all((x == total).all() for x in comm.all_reduce_coalesced(xs))


def symmetric(comm: Communicator) -> bool:
    x = comm.empty(5000)
    x[:] = comm.rank
    return bool((comm.all_reduce(x) == comm.size * (comm.size - 1) / 2).all())


FORMS = (all_gather_v, gather_v, scatter_v, reduce_scatter_v, all_to_all_v, exchange_parts, coalesced, symmetric)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_it_is_right_over_hosts(host_pools: HostPools, wire: str, form: Callable[[Communicator], bool]) -> None:
    assert host_pools(LAYOUT, wire).run(form) == [True] * sum(LAYOUT)


def from_each_host(comm: Communicator) -> list[int]:
    """Bytes that came to this rank from each host, by its counters: as docs/hosts.md has it."""
    comm.all_reduce(np.ones(3000, np.float32), algorithm="ring")  # connects
    comm.reset_counters()
    comm.all_reduce(np.ones(3000, np.float32), algorithm="ring")
    came = np.zeros(len(set(comm.hosts)), np.int64)
    np.add.at(came, list(comm.hosts), comm.counters()[:, 0])
    comm.barrier()
    return [int(nbytes) for nbytes in came]


def test_counters_add_up_to_links_between_hosts(host_pools: HostPools) -> None:
    """A ring: each rank has 2 (n-1) chunks of a quarter from its left neighbour, and nothing from others."""
    given = host_pools(LAYOUT).run(from_each_host)
    left, hosts = [3, 0, 1, 2], host_of(LAYOUT)
    assert given == [[6 * 3000 if host == hosts[left[rank]] else 0 for host in range(3)] for rank in range(4)]
