"""numpy's conventions: shapes, kinds, defaults, and one clear line for every mistake."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16

from ringtree.runtime.communicator.communicator import Communicator
from tests.runtime.conftest import Pools

Act = Callable[[Communicator], Any]


def shapes(comm: Communicator) -> None:
    n, me = comm.size, comm.rank
    x = np.arange(6 * n, dtype=np.float32).reshape(2 * n, 3)
    assert comm.all_reduce(x).shape == x.shape
    assert comm.reduce_scatter(x).shape == (2, 3)
    assert comm.all_gather(x).shape == (n, 2 * n, 3)
    assert comm.all_to_all(x).shape == x.shape
    gathered = comm.gather(x, n - 1)
    assert (gathered.shape == (n, 2 * n, 3)) if me == n - 1 else gathered is None
    total = comm.reduce(x, root=n - 1)
    assert (total.shape == x.shape) if me == n - 1 else total is None
    out = np.empty((2, 3), np.float32)
    assert comm.scatter(x if me == 0 else None, 0, out) is out
    assert np.array_equal(out, x[2 * me : 2 * me + 2])
    assert comm.broadcast(x, root=n - 1) is x


def numbers_and_lists(comm: Communicator) -> None:
    n = comm.size
    assert comm.all_reduce(2.5) == 2.5 * n
    assert comm.all_reduce(2.5).shape == ()
    assert comm.all_reduce([1, 2]).tolist() == [n, 2 * n]
    assert comm.all_gather(comm.rank).tolist() == list(range(n))
    assert comm.all_gather([[comm.rank]]).shape == (n, 1, 1)
    if comm.rank == 0:
        assert comm.broadcast([1, 2, 3]).tolist() == [1, 2, 3]
    else:
        assert comm.broadcast(np.zeros(3, np.int64)).tolist() == [1, 2, 3]


def layouts(comm: Communicator) -> None:
    n = comm.size
    x = np.arange(24.0).reshape(4, 6)
    for view in (x.T, x[::2], x[:, 1:4], np.broadcast_to(np.float32(1.5), (3, 2)), x[::-1]):
        assert np.array_equal(comm.all_reduce(view), np.asarray(view) * n)
        assert np.array_equal(comm.all_gather(view)[n - 1], view)
        out = np.empty(view.size, view.dtype)
        assert comm.all_reduce(view, out=out) is out
    read_only = np.arange(5.0)
    read_only.flags.writeable = False
    assert np.array_equal(comm.all_reduce(read_only), np.arange(5.0) * n)
    if comm.rank == 0:
        assert comm.broadcast(read_only) is read_only
        assert comm.broadcast(x.T) is not None
    else:
        assert np.array_equal(comm.broadcast(np.empty(5)), np.arange(5.0))
        assert np.array_equal(comm.broadcast(np.empty((6, 4))), x.T)


def overlaps(comm: Communicator) -> None:
    """Input and output that share memory in any way give what separate ones give."""
    n, me = comm.size, comm.rank
    for shift in (0, 1, 5, 64):
        whole = np.arange(200.0)
        x, out = whole[:100], whole[shift : shift + 100]
        assert np.array_equal(comm.all_reduce(x, out=out), np.arange(100.0) * n), shift
    for k in (3, 1000):
        for again in range(3):  # the engine may have learnt the call's look by the second
            whole = np.arange(float(n * k)) + me
            want = np.arange(float(n * k)) * n + n * (n - 1) / 2
            assert np.array_equal(comm.reduce_scatter(whole, out=whole[:k]), want[me * k : me * k + k]), again
            whole = np.zeros(n * k)
            whole[:k] = me
            assert np.array_equal(comm.all_gather(whole[:k], out=whole), np.repeat(np.arange(float(n)), k)), again
            whole = np.arange(float(n * k)) + 1000 * me
            want = np.concatenate([np.arange(float(me * k), float(me * k + k)) + 1000 * r for r in range(n)])
            assert np.array_equal(comm.all_to_all(whole, out=whole), want), again
            view = whole[:]  # the same memory by another name
            whole[:] = np.arange(float(n * k)) + 1000 * me
            assert np.array_equal(comm.all_to_all(view, out=whole), want), again


def kinds(comm: Communicator) -> None:
    for dtype in (np.int32, np.int64, np.float32, np.float64, bfloat16, np.longlong):
        x = np.ones(3, dtype)
        assert comm.all_reduce(x).dtype == x.dtype
        assert comm.all_gather(x).dtype == x.dtype


def repeats(comm: Communicator) -> None:
    """A call that the engine has learnt, with operands that look like it only at first sight."""
    x = np.ones(8, np.float32)
    for _ in range(3):
        assert comm.all_reduce(x).sum() == 8 * comm.size
    wide = np.ones((8, 2), np.float32)[:, 0]
    assert comm.all_reduce(wide).sum() == 8 * comm.size
    assert comm.all_reduce(x, "max").sum() == 8
    assert comm.all_reduce(x.view(np.int32)).dtype == np.int32
    assert comm.all_reduce(x.reshape(2, 4)).shape == (2, 4)
    out = np.zeros((4, 2), np.float32)
    assert comm.all_reduce(x, out=out) is out
    assert out.sum() == 8 * comm.size
    for root in range(comm.size):
        y = np.full(8, comm.rank, np.float32)
        for _ in range(2):
            y[:] = comm.rank
            comm.broadcast(y, np.int64(root))
            assert (y == root).all()


def splits(comm: Communicator) -> None:
    n, me = comm.size, comm.rank
    odd = comm.split(me % 2)
    assert odd is not None
    assert odd.all_gather(me).tolist() == list(range(me % 2, n, 2))
    backwards = comm.split(0, -me)
    assert backwards is not None
    assert backwards.rank == n - 1 - me
    assert backwards.all_gather(me).tolist() == list(range(n))[::-1]
    some = comm.split(None if me == 0 else 5)
    assert (some is None) == (me == 0)
    if some is not None:
        assert some.size == n - 1
        deeper = some.split(some.rank // 2)
        assert deeper is not None
        deeper.barrier()
        deeper.close()
    comm.barrier()
    for group in (odd, backwards, some):
        if group is not None:
            group.close()


@pytest.mark.parametrize("act", [shapes, numbers_and_lists, layouts, overlaps, kinds, repeats, splits])
@pytest.mark.parametrize("ranks", [1, 3, 4])
def test_numpys_conventions(pools: Pools, engine: str, ranks: int, act: Act) -> None:
    pools(engine, ranks).run(act)


X = np.ones(8, np.float32)

BAD: dict[str, tuple[Act, type[Exception], str]] = {
    "long double": (
        lambda c: c.all_reduce(np.ones(3, np.longdouble)),
        TypeError,
        "is not supported; expected one of bool, int8,",
    ),
    "byte order": (lambda c: c.all_reduce(np.ones(3, ">f4")), TypeError, "int32; x.astype(x.dtype.newbyteorder('='))"),
    "pair": (lambda c: c.all_reduce(X, "band"), TypeError, "band of float32 is not supported; expected one of sum,"),
    "complex": (
        lambda c: c.all_reduce(X + 1j, "max"),
        TypeError,
        "max of complex64 is not supported; expected one of sum",
    ),
    "located": (lambda c: c.reduce(X, "minloc"), TypeError, "minloc of float32 is not supported"),
    "records": (
        lambda c: c.scan(np.zeros(2, "f4,i4")),
        TypeError,
        "sum of float32_int32 is not supported; expected one of minloc, maxloc",
    ),
    "average": (lambda c: c.all_reduce(X > 0, "avg"), TypeError, "avg of bool is not supported; expected one of sum,"),
    "text": (lambda c: c.all_reduce("spam"), TypeError, "is not supported"),
    "op": (
        lambda c: c.all_reduce(X, "xor"),
        ValueError,
        "no reduction 'xor': expected one of sum, prod, max, min, avg, band, bor",
    ),
    "op None": (lambda c: c.all_reduce(X, None), TypeError, "op is None; expected a name, a ringtree.Op"),
    "op list": (lambda c: c.all_reduce(X, ["sum"]), TypeError, "op is ['sum']; expected a name"),
    "algorithm list": (lambda c: c.all_reduce(X, algorithm=["ring"]), TypeError, "expected a name or a ringtree.ir"),
    "algorithm": (lambda c: c.all_reduce(X, algorithm="magic"), ValueError, "no algorithm 'magic': expected one of"),
    "other algorithm": (lambda c: c.all_reduce(X, algorithm="flat"), ValueError, "flat does not serve all_reduce"),
    "root": (lambda c: c.broadcast(X.copy(), 2), ValueError, "root 2: expected a rank of this group, 0..1"),
    "negative root": (lambda c: c.reduce(X, root=-1), ValueError, "root -1: expected a rank of this group, 0..1"),
    "huge root": (lambda c: c.gather(X, 10**30), ValueError, "expected a rank of this group"),
    "roots": (lambda c: c.gather(X, np.array([0, 1])), TypeError, "root is a ndarray; expected a whole number"),
    "reduce to roots": (lambda c: c.reduce(X, root=np.array([0, 1])), TypeError, "root is a ndarray; expected"),
    "scatter of roots": (lambda c: c.scatter(X, np.array([0, 1])), TypeError, "root is a ndarray; expected"),
    "no root": (lambda c: c.broadcast(X.copy(), 1.5), TypeError, "root is a float; expected a whole number"),
    "out size": (lambda c: c.all_reduce(X, out=np.ones(7, np.float32)), ValueError, "out has 7 elements; expected 8"),
    "out type": (lambda c: c.all_reduce(X, out=np.ones(8)), TypeError, "out is float64; expected float32"),
    "out read-only": (
        lambda c: c.all_reduce(X, out=np.broadcast_to(np.float32(0), (8,))),
        ValueError,
        "out is read-only",
    ),
    "out not contiguous": (
        lambda c: c.all_reduce(X, out=np.ones((8, 2), np.float32)[:, 0]),
        ValueError,
        "out is not contiguous",
    ),
    "out list": (lambda c: c.all_reduce(X, out=[0.0] * 8), TypeError, "out is a list; expected a numpy array"),
    "gather out": (
        lambda c: c.all_gather(X, out=np.ones(8, np.float32)),
        ValueError,
        "out has 8 elements; expected 16",
    ),
    "remainder": (
        lambda c: c.reduce_scatter(X[:7]),
        ValueError,
        "x has 7 rows; expected a first axis that 2 ranks divide evenly",
    ),
    "number": (lambda c: c.all_to_all(3.0), ValueError, "x is a single number"),
    "broadcast into a list": (
        lambda c: c.broadcast([1.0], 1 - c.rank),
        TypeError,
        "the array to broadcast into is a list",
    ),
    "scatter out": (lambda c: c.scatter(X, 1 - c.rank), ValueError, "expected numpy.empty(the shape of a block"),
    "scatter x": (lambda c: c.scatter(None, c.rank), ValueError, "scatter needs x on the root"),
    "peer": (lambda c: c.send(X, 2), ValueError, "no rank 2 to exchange messages with: expected 0..1"),
    "tag": (lambda c: c.recv(X.copy(), 1 - c.rank, -2), ValueError, "tag -2: expected 0.."),
    "recv into a list": (lambda c: c.recv([1.0], 1 - c.rank), TypeError, "the array to receive into is a list"),
    "empty": (lambda c: c.empty(4, ">f4"), TypeError, ">f4 is not supported"),
}


def all_bad(comm: Communicator) -> list[str]:
    """Tries every mistake on every rank; returns those answered otherwise than expected. Nothing is started."""
    wrong = []
    for name, (act, kind, expected) in BAD.items():
        if name == "empty":  # it meets first
            continue
        try:
            act(comm)
            wrong.append(f"{name}: no error")
        except (TypeError, ValueError) as error:
            if not (type(error) is kind and expected in str(error) and "\n" not in str(error)):
                wrong.append(f"{name}: {type(error).__name__}: {error}")
    assert comm.all_reduce(1) == comm.size
    return wrong


def test_mistakes_are_one_clear_line_and_harm_nothing(pools: Pools, engine: str) -> None:
    for wrong in pools(engine, 2).run(all_bad):
        assert not wrong, "\n".join(wrong)


def threads_at_once(comm: Communicator) -> None:
    """Several groups, each used by a thread of its own at the same time."""
    from concurrent.futures import ThreadPoolExecutor

    groups = [comm.split(0) for _ in range(3)]

    def work(index: int) -> None:
        group = groups[index]
        assert group is not None
        x = np.full(1000, index + 1.0)
        for _ in range(30):
            assert (group.all_reduce(x) == (index + 1) * comm.size).all()

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(work, range(3)))
    for group in groups:
        assert group is not None
        group.close()


def test_groups_are_used_from_threads_at_once(pools: Pools, engine: str) -> None:
    pools(engine, 3).run(threads_at_once)
