"""Arrays of types that the engine does not know: calls without arithmetic move them, as the caller's type."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ringtree import Mismatch, RankFailed, spawn
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.engines.engine import in_threads
from tests.runtime.conftest import Pools

TYPES = (
    "M8[s]",
    "m8[ns]",
    ">i4",
    ">f8",
    "longdouble",
    "U5",
    "S3",
    [("where", "U2"), ("when", "M8[D]"), ("box", "i4", (2,))],
)


def made(dtype: Any, rank: int, n: int) -> Any:
    """An array [2 n, 3] of that type, of another value in each element and rank; not contiguous."""
    dtype = np.dtype(dtype)
    size = dtype.itemsize // 4 if dtype.kind == "U" else dtype.itemsize
    bits = (np.arange(6 * n * size * 2) * 7 + rank + 1).astype("u1") % 120 + 1
    if dtype.kind == "U":
        bits = bits.astype("u4").view("u1")
    if dtype.kind == "V":
        found = np.zeros(12 * n, dtype)
        found["where"], found["when"], found["box"][:, 1] = str(rank), rank, np.arange(12 * n)
    elif dtype == np.longdouble:
        found = np.arange(12 * n).astype(dtype) / 3 + rank
    else:
        found = bits.view(dtype)
    return found.reshape(2 * n, 6)[:, ::2]


def moves(comm: Communicator, dtype: Any) -> None:
    n, me = comm.size, comm.rank
    every = [made(dtype, rank, n) for rank in range(n)]
    x = every[me]

    def same(found: Any, expected: Any) -> None:
        assert found.dtype == np.dtype(dtype) and found.shape == np.shape(expected)
        assert np.array_equal(found, expected)

    for _ in range(2):
        same(comm.all_gather(x), np.stack(every))
        same(comm.all_gather(x, async_op=True).result(), np.stack(every))
        same(comm.broadcast(x if me == n - 1 else np.empty(x.shape, dtype), n - 1), every[-1])
        same(comm.scatter(x, 0) if me == 0 else comm.scatter(None, 0, np.empty((2, 3), dtype)), every[0][2 * me :][:2])
        same(comm.all_to_all(x), np.concatenate([other[2 * me : 2 * me + 2] for other in every]))
        gathered = comm.gather(x, 0)
        if me == 0:
            same(gathered, np.stack(every))
    rows = [rank + 1 for rank in range(n)]
    wanted = np.concatenate([other[: rank + 1] for rank, other in enumerate(every)])
    same(comm.all_gather_v(x[: me + 1]), wanted)
    gathered = comm.gather_v(x[: me + 1], 0, rows)
    if me == 0:
        same(gathered, wanted)
    given = every[0][: sum(rows)] if sum(rows) <= 2 * n else np.concatenate([every[0]] * n)[: sum(rows)]
    begin = sum(rows[:me])
    out = None if me == 0 else np.empty((me + 1, 3), dtype)
    same(comm.scatter_v(*((given, rows) if me == 0 else (None, None)), out=out), given[begin : begin + me + 1])
    same(comm.all_to_all_v(x, [2] * n), np.concatenate([other[2 * me : 2 * me + 2] for other in every]))
    right, left = (me + 1) % n, (me - 1) % n
    same(comm.sendrecv(x, right, np.empty(x.shape, dtype), left), every[left])
    message, sent = comm.irecv(np.empty(12 * n, dtype), left, at_most=True), comm.issend(x, right)
    same(message.result(), every[left].reshape(-1))
    sent.wait()
    outs = [np.empty((2, 3), dtype) for _ in range(n)]
    for source, part in enumerate(comm.exchange_parts([x[2 * r : 2 * r + 2] for r in range(n)], outs)):
        same(part, every[source][2 * me : 2 * me + 2])
    copied = comm.copy(x, 0, n - 1)
    if me == n - 1:
        same(copied, every[0])


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("ranks", [1, 3])
def test_moves(pools: Pools, engine: str, ranks: int, dtype: Any) -> None:
    pools(engine, ranks).run(moves, dtype)


OTHERS: dict[str, tuple[Any, Any]] = {
    "units of time": ("M8[s]", "M8[ms]"),
    "order of bytes": (">i4", "<i4"),
    "bytes": ("S4", "u1"),
}


@pytest.mark.parametrize("call", ["broadcast", "all_gather", "send"])
@pytest.mark.parametrize("types", OTHERS.values(), ids=OTHERS)
def test_other_types_are_a_mismatch(engine: str, call: str, types: tuple[Any, Any]) -> None:
    def rank(comm: Communicator) -> str:
        x = np.zeros(8 if types[comm.rank] != "u1" else 32, types[comm.rank])
        with pytest.raises(Mismatch) as raised:
            if call != "send":
                getattr(comm, call)(x)
            elif comm.rank == 0:
                comm.send(x, 1)
            else:
                comm.recv(x, 0)
            comm.barrier()  # who sends only hears of it in the next call
        return str(raised.value)

    text = "of opaque type" if call == "send" else "called"
    assert all(text in found for found in spawn(rank, 2, threads=in_threads(engine), engine=engine, timeout_s=60))


BAD: dict[str, tuple[Any, str]] = {
    "a sum": (lambda c: c.all_reduce(np.zeros(2, "M8[s]")), "datetime64.s. is not supported"),
    "objects": (lambda c: c.all_gather(np.array([None])), "object is not supported; .* names end in _object"),
    "a list of texts": (lambda c: c.all_gather(["a", "b"]), "<U1 is not supported"),
    "out": (
        lambda c: c.all_gather(np.zeros(2, "M8[s]"), out=np.zeros((1, 2), "M8[ms]")),
        "out is datetime64.ms.; expected datetime64.s., as the input is",
    ),
    "a part": (
        lambda c: c.exchange_parts([np.zeros(2, "M8[s]")], [np.zeros(2, "M8[ms]")]),
        "has 2 datetime64.ms.; expected 2 datetime64.s., as this rank sends itself",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_mistakes(engine: str, case: str) -> None:
    call, text = BAD[case]

    def rank(comm: Communicator) -> None:
        with pytest.raises((TypeError, ValueError), match=text):
            call(comm)

    spawn(rank, 1, engine=engine)


def test_a_rank_of_another_type_ends_the_job() -> None:
    """Nobody goes on with the others' bits under a type of its own."""
    with pytest.raises(RankFailed, match="Mismatch"):
        spawn(lambda comm: comm.all_gather(np.zeros(2, ("M8[s]", "M8[ms]")[comm.rank])), 2, timeout_s=60)
