"""Objects of any kind arrive as they were sent, and folds are in rank order."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

from ringtree import Op
from ringtree.runtime.communicator.communicator import Communicator
from tests.runtime.conftest import Pools


def thing(rank: int) -> Any:
    """Something different on every rank, of very different lengths."""
    return [None, {"a": [1, 2]}, "text" * 10_000, np.arange(5), (rank, 2.5)][rank % 5]


def same(a: Any, b: Any) -> bool:
    return bool(np.array_equal(a, b)) if isinstance(b, np.ndarray) else type(a) is type(b) and a == b


def every_way(comm: Communicator) -> None:
    n, me = comm.size, comm.rank
    every = [thing(r) for r in range(n)]
    for root in range(n):
        got = comm.broadcast_object(every[root] if me == root else "not looked at", root)
        assert same(got, every[root])
        gathered = comm.gather_object(every[me], root)
        assert (gathered is None) == (me != root)
        assert gathered is None or all(map(same, gathered, every))
        assert same(comm.scatter_object(every if me == root else None, root), every[me])
        assert same(comm.scatter_object(iter(every), root), every[me])
    assert comm.all_to_all_object(iter([me] * n)) == list(range(n))
    assert all(map(same, comm.all_gather_object(every[me]), every))
    sent = [(me, r, thing(me + r)) for r in range(n)]
    for r, (source, target, what) in enumerate(comm.all_to_all_object(sent)):
        assert (source, target) == (r, me)
        assert same(what, thing(me + r))
    mine = comm.broadcast_object(every, 0)
    assert (mine is every) == (me == 0)  # the root keeps its own


def folds(comm: Communicator) -> None:
    n, me = comm.size, comm.rank
    for op in (operator.add, Op(operator.add)):
        assert comm.all_reduce_object([me], op) == list(range(n))
        got = comm.reduce_object(str(me), op, n - 1)
        assert got == ("".join(map(str, range(n))) if me == n - 1 else None)


def mistakes(comm: Communicator) -> None:
    with pytest.raises(TypeError, match="got 'sum' as an operation on objects; expected a function of two"):
        comm.all_reduce_object(1, "sum")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="got 1 objects; expected 3, one for each rank"):
        comm.all_to_all_object([1])
    with pytest.raises(ValueError, match="got None; expected 3, one for each rank"):
        comm.scatter_object(None, comm.rank)
    with pytest.raises(TypeError, match="objs is an int; expected a list of objects"):
        comm.all_to_all_object(3)  # type: ignore[arg-type]
    with pytest.raises(ZeroDivisionError):  # on every rank by itself; the group goes on
        comm.all_reduce_object(1, lambda a, b: a / 0)
    assert comm.all_gather_object(comm.rank) == list(range(comm.size))


@pytest.mark.parametrize("act", [every_way, folds])
@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_objects(pools: Pools, engine: str, ranks: int, act: Any) -> None:
    pools(engine, ranks).run(act)


def test_mistakes_are_one_clear_line_and_harm_nothing(pools: Pools, engine: str) -> None:
    pools(engine, 3).run(mistakes)
