"""Groups made of groups: from a list of ranks, duplicates, and threads that use one each."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest

from ringtree import TimedOut, spawn
from ringtree.runtime.bootstrap.local.abstract_socket import AbstractSocket
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.engines.engine import native_module
from tests.runtime.conftest import Pools

Act = Callable[[Communicator], None]


def of_ranks(comm: Communicator) -> None:
    """The list's order is the new order; the others know nothing of it, and names are the world's all the way down."""
    n, me = comm.size, comm.rank
    assert comm.ranks == tuple(range(n))
    if me > 0:
        some = comm.group(range(n - 1, 0, -1))
        assert (some.rank, some.size, some.ranks) == (n - 1 - me, n - 1, tuple(range(n - 1, 0, -1)))
        assert some.all_gather(me).tolist() == list(some.ranks)
        if some.rank < 2:
            pair = some.group([1, 0])
            assert pair.ranks == (n - 2, n - 1)
            assert pair.all_gather(me).tolist() == [n - 2, n - 1]
            pair.close()
        again = comm.group(range(n - 1, 0, -1))
        some.close()
        assert again.all_reduce(1) == n - 1
        again.close()
    alone = comm.group([me])
    assert alone.all_reduce(7) == 7
    comm.barrier()


def duplicates(comm: Communicator) -> None:
    n, me = comm.size, comm.rank
    other = comm.duplicate()
    assert (other.rank, other.size, other.ranks) == (me, n, comm.ranks)
    work = comm.all_reduce(np.ones(1000), async_op=True)
    assert other.all_reduce(2) == 2 * n
    assert (work.result() == n).all()
    other.send(np.array([me]), (me + 1) % n)
    got = np.array([-1])
    comm.send(np.array([-5]), (me + 1) % n)
    assert other.recv(got, (me - 1) % n)[0] == (me - 1) % n  # each has messages of its own
    assert comm.recv(got, (me - 1) % n)[0] == -5
    other.close()
    assert comm.all_reduce(1) == n


def children_of_the_closed(comm: Communicator) -> None:
    """A group lives on when the one it was made of is closed, and makes others still."""
    parent = comm.duplicate()
    child = parent.duplicate()
    parent.close()
    grandchild = child.split(0)
    child.close()
    assert grandchild is not None
    assert grandchild.all_reduce(3) == 3 * comm.size
    grandchild.close()
    with pytest.raises(RuntimeError, match="is closed"):
        parent.duplicate()
    comm.barrier()


def threads_at_once(comm: Communicator) -> None:
    """Every thread of a rank calls on a communicator of its own, in whatever order they come."""
    mine = [comm, *(comm.duplicate() for _ in range(3)), comm.split(0)]
    wrong: list[object] = []

    def live(group: Communicator, lane: int) -> None:
        x = np.empty(20_000)
        for turn in range(40):
            x[:] = group.rank + turn
            want = group.size * (group.size - 1) / 2 + group.size * turn
            if not (group.all_reduce(x[: 1 + turn * 500 * (lane % 2)]) == want).all():
                wrong.append((lane, turn))

    threads = [threading.Thread(target=live, args=(g, k), daemon=True) for k, g in enumerate(mine) if g is not None]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    for group in mine[1:]:
        assert group is not None
        group.close()


@pytest.mark.parametrize("act", [of_ranks, duplicates, children_of_the_closed, threads_at_once])
@pytest.mark.parametrize("ranks", [3, 4])
def test_groups_of_groups(pools: Pools, engine: str, ranks: int, act: Act) -> None:
    pools(engine, ranks).run(act)


def test_several_threads_where_ranks_are_threads_themselves() -> None:
    spawn(threads_at_once, 3, engine="shm", threads=True, timeout_s=60)


@pytest.mark.parametrize("met", [True, False])
def test_a_group_is_made_by_another_attempt_where_one_rank_lacked_room(met: bool) -> None:
    """Before the members have met, and where the others have the group."""
    pytest.importorskip("ringtree._native")

    def fails(*_: object, **__: object) -> None:
        raise OSError("no descriptors")

    def act(comm: Communicator) -> tuple[str, int]:
        first, owner, name = "made", native_module() if met else AbstractSocket, "Group" if met else "share"
        with pytest.MonkeyPatch.context() as patch:
            if comm.rank == 1:
                patch.setattr(owner, name, fails)
            try:
                comm.group([1, 0], timeout_s=0.3).close()
            except (OSError, TimedOut) as error:
                first = type(error).__name__
        comm.barrier()
        with comm.group([1, 0], timeout_s=5.0) as again:
            return first, again.all_reduce(1)

    assert spawn(act, 2, engine="shm") == [("made" if met else "TimedOut", 2), ("OSError", 2)]


def mistakes(comm: Communicator) -> None:
    for ranks, expected in (
        ([0, 1, 2], "rank 2: expected ranks of this group, 0..1"),
        ([-1, 0], "rank -1: expected ranks of this group, 0..1"),
        ([0, 0, 1], "a group of ranks 0, 0, 1: expected each of them once"),
        ([1 - comm.rank], f"made by rank {comm.rank}: only its members make it"),
        ([], "a group of ranks none"),
    ):
        with pytest.raises(ValueError, match=expected):
            comm.group(ranks)
    for kind, expected, act in (
        (TypeError, "rank is a float; expected a whole number", lambda: comm.group([0.5])),  # type: ignore[list-item]
        (TypeError, "ranks is an int; expected a list of ranks", lambda: comm.group(0)),  # type: ignore[arg-type]
        (ValueError, "timeout_s is -1; expected a positive", lambda: comm.group([0, 1], timeout_s=-1)),
        (TypeError, "color is a str; expected a whole number", lambda: comm.split("a")),  # type: ignore[arg-type]
        (ValueError, "color is .*; expected 64 bits at most", lambda: comm.split(1 << 63)),
        (TypeError, "key is None; expected a whole number", lambda: comm.split(0, None)),  # type: ignore[arg-type]
        (TypeError, "dp is a float; expected a whole number", lambda: comm.mesh(dp=0.5)),  # type: ignore[arg-type]
        (TypeError, "shape is None; expected a whole number", lambda: comm.empty(None)),  # type: ignore[arg-type]
    ):
        with pytest.raises(kind, match=expected):
            act()
    assert comm.all_reduce(1) == 2


def test_mistakes_are_one_clear_line(pools: Pools, engine: str) -> None:
    pools(engine, 2).run(mistakes)
