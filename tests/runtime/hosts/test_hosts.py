"""Ranks on several hosts beyond single calls: hosts found, bytes on the links, groups, messages, random scripts."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.engines.wires.tcp import connections as connections_wished
from tests.runtime.hosts.conftest import PORT, HostPool, HostPools, Layout, Ranks, host_of
from tests.runtime.hosts.lab import Lab

ESTABLISHED = "01"
"""As /proc has it."""


def hosts_found(comm: Communicator) -> list[int]:
    return list(comm.hosts)


@pytest.mark.parametrize("layout", [(1, 1), (2, 1), (1, 1, 2)], ids=str)
def test_hosts_are_told_apart_though_they_share_kernel_and_name(host_pools: HostPools, layout: Layout) -> None:
    assert host_pools(layout).run(hosts_found) == [host_of(layout)] * sum(layout)


def test_ranks_of_one_host_need_no_network(ranks: Ranks) -> None:
    """They meet at an address all the same."""
    outcomes = dict(ranks((3,), lambda comm: (hosts_found(comm), float(comm.all_reduce(np.ones(5))[0]))).finish())
    assert [outcomes[rank].result for rank in range(3)] == [([0, 0, 0], 3.0)] * 3


def summed(comm: Communicator, counts: list[int]) -> list[bool]:
    return [bool((comm.all_reduce(np.ones(count, np.float32)) == comm.size).all()) for count in counts]


@pytest.mark.parametrize("layout", [(1, 1, 6), (2, 1, 5)], ids=str)
def test_many_ranks_of_a_host_owe_one_elsewhere_no_slots_that_it_needs(host_pools: HostPools, layout: Layout) -> None:
    """A rank alone on its host sends to all of another: each that keeps the credit of one slot back keeps a slot."""
    counts = [98_714, 1, 98_714, 1000, 1 << 18]
    assert host_pools(layout).run(summed, counts) == [[True] * len(counts)] * sum(layout)


def crossing(comm: Communicator, nbytes: int, calls: int) -> int:
    """Payload that came to this rank from other hosts, in calls that are all alike."""
    x = np.ones(nbytes // 4, np.float32)
    comm.all_reduce(x)
    comm.reset_counters()
    for _ in range(calls):
        comm.all_reduce(x)
    hosts = hosts_found(comm)
    table = comm.counters()[:, 0]
    return int(sum(int(table[p]) for p in range(comm.size) if hosts[p] != hosts[comm.rank]))


def test_the_links_carry_what_the_schedule_says(host_pools: HostPools, lab: Lab) -> None:
    """Beside the payload TCP has headers of 5 %, frames and credits less: nothing is shared on the side."""
    pool, layout = host_pools((1, 1, 2)), (1, 1, 2)
    pool.run(crossing, 1 << 20, 1)  # connects
    before = [lab.received_bytes(host) for host in range(3)]
    rows = pool.run(crossing, 1 << 20, 19)
    came = [lab.received_bytes(host) - was for host, was in enumerate(before)]
    hosts = host_of(layout)
    for host in range(3):
        expected = sum(row for rank, row in enumerate(rows) if hosts[rank] == host) * 20 / 19
        assert 1.0 < came[host] / expected < 1.1


def connections(comm: Communicator, nbytes: int, calls: int) -> int:
    """How many connections this rank's host has after that."""
    x = np.ones(nbytes // 4, np.float32)
    for _ in range(calls):
        comm.all_reduce(x, out=x)
        x[:] = 1.0
    rows = Path("/proc/thread-self/net/tcp").read_text().splitlines()[1:]
    return sum(row.split()[3] == ESTABLISHED for row in rows)


@pytest.mark.parametrize("number", [0, 1, 4])
def test_long_payloads_take_as_many_connections_as_are_wished(
    lab: Lab, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RINGTREE_CONNECTIONS", str(number))
    with closing(HostPool(lab, (1, 1), PORT + 1000 + number, "tcp")) as pool:
        before = pool.run(connections, 8, 1)
        after = pool.run(connections, 1 << 20, 5)
    assert [now - was for now, was in zip(after, before, strict=True)] == [2 * number] * 2  # of both directions


@pytest.mark.slow
def test_long_payloads_are_spread_where_a_connection_is_slower_than_the_link(lab: Lab) -> None:
    with Lab(2, "1gbit", "200mbit") as slow, closing(HostPool(slow, (1, 1), PORT, "tcp")) as pool:
        before = pool.run(connections, 8, 1)
        after = pool.run(connections, 1 << 20, 200)
    assert all(now - was >= 2 + 2 + 4 for now, was in zip(after, before, strict=True))


@pytest.mark.parametrize("text", ["-1", "16", "many"])
def test_a_wrong_number_of_connections_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RINGTREE_CONNECTIONS", text)
    with pytest.raises(ValueError, match=f"RINGTREE_CONNECTIONS is '{text}': expected 0 to 15"):
        connections_wished()


def groups_in_groups(comm: Communicator) -> list[float]:
    half = comm.split(comm.rank % 2)
    assert half is not None
    twin, mesh = comm.duplicate(), comm.mesh(a=2, b=-1)
    found = [
        float(half.all_reduce(np.full(1000, comm.rank + 1.0))[0]),
        float(twin.broadcast(np.array([comm.rank]), 3)[0]),
        float(mesh["a"].all_gather(np.array([comm.rank])).sum()),
        float(comm.all_reduce(np.array([float(comm.rank)]), lambda a, b: np.where(a > b, a, b))[0]),
    ]
    assert comm.all_gather_object({"rank": comm.rank}) == [{"rank": r} for r in range(comm.size)]
    shared = comm.empty(3000, np.float32)
    shared[:] = comm.rank
    found.append(float(comm.all_reduce(shared)[0]))
    for group in (half, twin, mesh["a"], mesh["b"]):
        group.close()
    return found


def test_groups_and_objects_go_over_hosts(host_pools: HostPools, wire: str) -> None:
    rows = host_pools((1, 1, 2), wire).run(groups_in_groups)
    assert [row[:2] for row in rows] == [[4.0, 3.0], [6.0, 3.0], [4.0, 3.0], [6.0, 3.0]]
    assert [row[3:] for row in rows] == [[3.0, 6.0]] * 4


def in_another_order(comm: Communicator, order: list[int], count: int) -> list[str]:
    """Each nested collective in a group of all ranks in that order; returns the algorithms chosen."""
    group = comm.group(order)
    assert group is not None
    n, me, root = group.size, group.rank, group.size - 1
    x = np.arange(n * count, dtype=np.float32) + me
    total = n * np.arange(n * count) + n * (n - 1) / 2
    assert (group.all_reduce(x) == total).all()
    assert (group.reduce_scatter(x).ravel() == total[me * count : (me + 1) * count]).all()
    assert (group.all_gather(x[:count]).reshape(n, -1) == np.arange(count) + np.arange(n)[:, None]).all()
    assert (group.broadcast(x.copy(), root) == np.arange(n * count) + root).all()
    reduced = group.reduce(x, root=root)
    assert me != root or (reduced == total).all()
    nested = ("all_reduce", "all_gather", "reduce_scatter")
    chosen = [group.chosen(name, n * count).part.program.name for name in nested]
    group.close()
    return chosen


@pytest.mark.parametrize("order", [(0, 3, 1, 2), (3, 2, 0), (2, 0, 3, 1)], ids=str)
def test_ranks_in_any_order_are_nested(host_pools: HostPools, order: tuple[int, ...]) -> None:
    """Hosts of one, one and two ranks, or a host of one beside one of two."""
    nested = 0
    for count in (1, 700, 300_000):
        rows = host_pools((1, 1, 2)).run(in_members, list(order), count)
        chosen = [row for row in rows if row]
        assert len(chosen) == len(order) and all(row == chosen[0] for row in chosen)
        nested += chosen[0].count("hierarchical")
    assert nested > 0


def in_members(comm: Communicator, order: list[int], count: int) -> list[str]:
    return in_another_order(comm, order, count) if comm.rank in order else []


def messages(comm: Communicator, seed: int) -> int:
    """Every rank sends every other a few messages of random sizes, in a random order, and receives all of them."""
    random, sent = Random(seed * 100 + comm.rank), []
    sizes = {
        (s, t): [Random(seed * 7 + s * 31 + t).randrange(0, 100_000) for _ in range(5)]
        for s in range(comm.size)
        for t in range(comm.size)
    }
    posts: list[Callable[[], Any]] = []
    receives = []
    for peer in range(comm.size):
        if peer == comm.rank:
            continue
        for tag, count in enumerate(sizes[comm.rank, peer]):
            posts.append(lambda p=peer, t=tag, c=count: sent.append(comm.isend(np.full(c, c % 251, np.uint8), p, t)))
        for tag, count in enumerate(sizes[peer, comm.rank]):
            into = np.empty(count, np.uint8)
            posts.append(lambda p=peer, t=tag, i=into: receives.append((comm.irecv(i, p, t), i)))
    random.shuffle(posts)
    for post in posts:
        post()
    for work, into in receives:
        work.wait()
        assert (into == into.size % 251).all()
    for work in sent:
        work.wait()
    return len(receives)


@pytest.mark.parametrize("seed", range(4))
def test_messages_cross_in_any_order(host_pools: HostPools, wire: str, seed: int) -> None:
    assert host_pools((1, 1, 2), wire).run(messages, seed) == [15] * 4


def script(comm: Communicator, seed: int, calls: int) -> float:
    """The same random calls on every rank, some asynchronous, with messages between; each is checked."""
    random, pending, n = Random(seed), [], comm.size
    for number in range(calls):
        count, kind = random.choice([0, 1, 7, 500, 5000, 70_000]), random.randrange(7)
        value = number % 13 + 1.0
        x = np.full(count, value * (comm.rank + 1), np.float32)
        if kind == 0:
            assert (comm.all_reduce(x) == value * n * (n + 1) / 2).all()
        elif kind == 1:
            root = random.randrange(n)
            assert (comm.broadcast(x, root) == value * (root + 1)).all()
        elif kind == 2:
            out = comm.all_gather(x).reshape(n, count)
            assert (out == value * np.arange(1, n + 1, dtype=np.float32)[:, None]).all()
        elif kind == 3:
            pending.append((comm.all_reduce(x, "max", async_op=True), value * n, count))
        elif kind == 4:
            a, b = random.sample(range(n), 2)
            if comm.rank == a:
                comm.send(x, b, number)
            elif comm.rank == b:
                assert (comm.recv(np.empty(count, np.float32), a, number) == value * (a + 1)).all()
        elif kind == 5:
            out = comm.reduce_scatter(np.repeat(x, n)) if count else comm.reduce_scatter(x)
            assert (out == value * n * (n + 1) / 2).all()
        else:
            out = comm.all_to_all(np.repeat(x[:50], n) if count else x)
            assert out.size == min(count, 50) * n
    for work, value, _ in pending:
        work.wait()
        assert (work.result() == value).all()
    return comm.slots_open


@pytest.mark.parametrize("layout", [(1, 1), (1, 1, 2), pytest.param((2, 2, 2), marks=pytest.mark.slow)], ids=str)
@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(s, marks=pytest.mark.slow) for s in range(3, 20))])
def test_random_scripts_of_calls_and_messages(host_pools: HostPools, wire: str, layout: Layout, seed: int) -> None:
    assert host_pools(layout, wire).run(script, seed, 60) == [0] * sum(layout)


def groups_in_a_loop(comm: Communicator, groups: int) -> int:
    for _ in range(groups):
        group = comm.split(0)
        assert group is not None
        group.all_reduce(np.ones(4))
        group.close()
    return groups


@pytest.mark.parametrize("layout", [(2, 1), (1, 1, 2)], ids=str)
def test_a_group_is_left_behind_its_last_call(host_pools: HostPools, wire: str, layout: Layout) -> None:
    """A rank that leaves may overtake none of what it sent, to no rank of any host."""
    groups = 100 if wire == "tcp" else 20
    assert host_pools(layout, wire).run(groups_in_a_loop, groups) == [groups] * sum(layout)


def resident_MiB_of_an_array(comm: Communicator) -> float:
    x = comm.empty(1 << 23, np.float64)
    x[:] = 1.0
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("RssShmem"))


def test_arrays_of_ranks_elsewhere_take_no_memory(ranks: Ranks) -> None:
    """64 MiB a rank: a host has that of its own ranks."""
    outcomes = dict(ranks((1, 1, 1), resident_MiB_of_an_array).finish())
    assert all(64 <= outcomes[rank].result < 100 for rank in range(3)), [outcomes[r].result for r in range(3)]
